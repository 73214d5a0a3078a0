//! Nodes in threads of the test's own process, and the command beside `hanare-models`.

use hanare::Pool;
use hanare::node::{Node, NodeOptions};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// Starts so many nodes of one pool, which end with the test.
pub fn nodes(count: usize) -> Vec<Node> {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let key = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("pool-{}.key", std::process::id()));
    if !key.exists() {
        // Another test may be faster.
        let _ = hanare::node::new_key_file(&key);
    }
    let mut started: Vec<Node> = Vec::new();
    for _ in 0..count {
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let options = NodeOptions {
            key: Some(key.clone()),
            name: format!("n{number}"),
            socket: format!("@hanare-models-{}-{number}", std::process::id()),
            join: started.first().map(|node| node.address().to_owned()),
            ..NodeOptions::new(64 << 20).unwrap()
        };
        started.push(Node::start(options).unwrap());
    }
    started
}

/// A program on the host of a node.
pub fn client(node: &Node) -> Pool {
    Pool::attach_to(node.socket(), None).unwrap()
}

/// The command `hanare` beside the models; tests of the whole workspace build it.
pub fn hanare() -> Option<PathBuf> {
    let command = Path::new(env!("CARGO_BIN_EXE_hanare-models")).with_file_name("hanare");
    if !command.is_file() {
        hanare_testkit::uninstalled(format!("{} is not there: cargo build -p hanare-cli", command.display()));
        return None;
    }
    Some(command)
}

/// Runs the command with these words, in an environment without settings.
pub fn run(hanare: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(hanare);
    for (variable, _) in std::env::vars().filter(|(variable, _)| variable.starts_with("HANARE_")) {
        command.env_remove(variable);
    }
    command.args(words).env("XDG_RUNTIME_DIR", "/nonexistent").stdin(Stdio::null()).output().unwrap()
}

/// Its standard output, where it did what it was asked.
#[track_caller]
pub fn done(output: Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

/// Asserts that it was refused in one line that holds all these words.
#[track_caller]
pub fn refused(output: &Output, words: &[&str]) {
    let told = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), told.lines().count()), (Some(1), 1), "{output:?}");
    assert!(told.starts_with("hanare: ") && words.iter().all(|word| told.contains(word)), "{told}");
}
