//! Collective operations, from C.

use crate::stage;
use std::path::Path;
use std::process::{Command, Output, Stdio};

#[test]
fn ranks_and_parties_reduce_gather_and_exchange() {
    let Some(program) = stage::program("collectives") else { return };
    stage::Stage::of(2).pass(&program, &[], 3);
    stage::Stage::of(1).pass(&program, &[], 1);
}

/// Operations that end before all parties have read what was sent to them, and how often each runs.
const ENDS: [(&str, usize); 4] = [("broadcast", 4), ("scatter", 4), ("gather", 4), ("all_reduce", 4)];

#[test]
fn ranks_that_detach_with_their_group_open_fail_nobody() {
    let (Some(program), Some(command)) = (stage::program("leaves"), stage::command()) else { return };
    for (operation, times) in ENDS {
        for _ in 0..times {
            let output = launch(&command, &program, &[operation, "3"]);
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{operation}: {}\n{said}", output.status);
        }
    }
}

#[test]
fn who_waits_for_a_rank_that_was_killed_names_it() {
    let (Some(program), Some(command)) = (stage::program("leaves"), stage::command()) else { return };
    for victim in ["0", "3"] {
        let output = launch(&command, &program, &["all_reduce", "3", victim]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(137), "{said}");
        assert!(!said.contains("not so"), "each of the others names rank {victim}: {said}");
    }
}

#[test]
fn ranks_that_detach_leave_no_region() {
    let Some(program) = stage::program("leaves") else { return };
    let stage = stage::Stage::of(2);
    let pool = stage.attach(0);
    for (operation, _) in ENDS {
        stage.pass(&program, &[operation, "2"], 4);
        let left: Vec<String> = pool.list().unwrap().into_iter().map(|region| region.name).collect();
        assert!(left.is_empty(), "after {operation}: {left:?}");
    }
}

fn launch(command: &Path, program: &Path, words: &[&str]) -> Output {
    let mut run = Command::new(command);
    run.args(["run", "--nodes", "3", "-n", "4", "--memory", "64M", "--"]).arg(program).args(words);
    stage::finish(run.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap())
}
