//! The distributed product under the launcher, as a user starts it.

use crate::stage;

use std::process::{Command, Stdio};

// FEATURE: D2-F5 D2-F19
#[test]
fn figure_4_runs_from_one_command_line() {
    let Some(command) = stage::command() else { return };
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
