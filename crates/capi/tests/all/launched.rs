//! The distributed product under the launcher, as a user starts it.

use crate::stage;

use std::path::PathBuf;
use std::process::{Command, Stdio};

/// The `hanare` command: beside the tests' folder, where `cargo build -p hanare-cli` puts it.
fn command() -> Option<PathBuf> {
    let command = std::env::current_exe().unwrap().parent().unwrap().with_file_name("hanare");
    if !command.is_file() {
        stage::skip(&format!("{} is not there; `cargo build -p hanare-cli` makes it", command.display()));
        return None;
    }
    Some(command)
}

// FEATURE: D2-F5 D2-F19
#[test]
fn figure_4_runs_from_one_command_line() {
    let Some(command) = command() else { return };
    let source = stage::crate_path("../../apps/matmul/distributed.c");
    let Some(compiler) = stage::COMPILERS.iter().find(|compiler| compiler.is_here()) else { return };
    let child = Command::new(command)
        .args(["run", "--nodes", "2", "-n", "2", "--memory", "128M", "--"])
        .arg(compiler.compile(&source))
        .args(["77", "--check"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let output = stage::finish(child);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}\n{said}{}", output.status, String::from_utf8_lossy(&output.stderr));
    let line = said.lines().find(|line| line.contains("matmul variant=distributed")).unwrap_or_else(|| panic!("{said}"));
    assert!(line.contains(" n=77 ranks=2 ") && line.ends_with(" wrong=0"), "{line}");
    assert!(said.lines().any(|line| line.contains("matmul-traffic rank=1 ")), "{said}");
}
