//! The judge: a program in Go around porcupine, built once for a test's process.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;

/// Time for the verdict on one word.
const PATIENCE_S: u32 = 60;

/// The judge's program; `None` where the machine lacks something, which was said.
static JUDGE: LazyLock<Option<PathBuf>> = LazyLock::new(|| {
    if let Err(error) = go(&["version"]) {
        hanare_testkit::uninstalled(format!("no go: {error}"));
        return None;
    }
    let fetched = go(&["mod", "download"]).unwrap();
    if !fetched.status.success() {
        hanare_testkit::unable("the judge's module is not on this machine and cannot be reached");
        return None;
    }
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join("judge");
    let built = go(&["build", "-buildvcs=false", "-o", program.to_str().unwrap(), "."]).unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    Some(program)
});

fn go(words: &[&str]) -> std::io::Result<Output> {
    Command::new("go").args(words).current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/judged/porcupine")).output()
}

/// True if histories can be judged here; otherwise the test has said why not.
pub fn is_here() -> bool {
    JUDGE.is_some()
}

/// Judges a history that lies in a file. **Errors**: the shortest part that no order explains.
pub fn judge(history: &Path) -> Result<String, String> {
    let program = JUDGE.as_ref().expect("the caller asked for it");
    let judged = Command::new(program).arg(PATIENCE_S.to_string()).arg(history).output().unwrap();
    let told = String::from_utf8_lossy(&judged.stdout).into_owned() + &String::from_utf8_lossy(&judged.stderr);
    if judged.status.success() { Ok(told) } else { Err(told) }
}
