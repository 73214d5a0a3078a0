//! A rank ends its whole job with a status that it chooses, from C: under the launcher, and without one.

use crate::stage;

use std::path::Path;
use std::process::{Command, Output, Stdio};

fn run(command: &Path, program: &Path, words: &[&str], before: &[&str]) -> Output {
    let mut command = Command::new(command);
    command.args(["run", "--nodes", "2", "-n", "4", "--memory", "64M", "--"]).args(before).arg(program).args(words);
    stage::finish(command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
}

#[test]
fn under_the_launcher_the_chosen_status_is_the_jobs() {
    let (Some(command), Some(program)) = (stage::command(), stage::program("abort")) else { return };
    for (rank, status, told) in [("2", 5, true), ("0", 0, false), ("3", 256 + 9, true)] {
        let output = run(&command, &program, &[rank, &status.to_string()], &[]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(status & 0xff), "{said}");
        assert!(String::from_utf8_lossy(&output.stdout).contains("chosen"), "what was printed is there");
        let name = program.file_name().unwrap().to_str().unwrap();
        let line = format!("rank {rank} of 4 ({name}) ended the job with status {}", status & 0xff);
        assert_eq!(said.contains(&line), told, "{said}");
        assert!(!said.contains("HOW IT ENDED"), "it was on purpose: {said}");
    }
}

/// The rank's process is a shell, which would wait for long after its program has ended.
#[test]
fn a_shell_around_the_program_does_not_hide_the_end() {
    let (Some(command), Some(program)) = (stage::command(), stage::program("abort")) else { return };
    let output = run(&command, &program, &["1", "0"], &["sh", "-c", "\"$@\"; exec sleep 50", "sh"]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn without_a_launcher_the_others_are_told_that_the_rank_is_gone() {
    let Some(program) = stage::program("abort") else { return };
    let outputs = stage::Stage::of(2).run(&program, &["1", "0"], 3);
    let codes: Vec<_> = outputs.iter().map(|output| output.status.code()).collect();
    assert_eq!(codes, [Some(77), Some(0), Some(77)], "{outputs:?}");
}
