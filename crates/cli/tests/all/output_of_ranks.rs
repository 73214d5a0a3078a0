//! Output of ranks comes in whole lines: as it is into a file or pipe, with the rank before each line on a terminal.

use crate::pool;

use pool::{HANARE, command, run};
use std::process::Command;

#[test]
fn lines_of_many_ranks_never_tear() {
    let script =
        "i=0; while [ $i -lt 500 ]; do printf 'rank%s-' $HANARE_RANK; printf 'line%s\\n' $i; i=$((i+1)); done; printf 'end'";
    let text = run(&mut command(&["run", "--nodes", "1", "-n", "4", "--memory", "64M", "--", "sh", "-c", script])).done();
    for rank in 0..4 {
        let prefix = format!("rank{rank}-line");
        // An unfinished last line of another rank may stand before a line, and nothing else.
        let numbers: Vec<u32> =
            text.lines().filter_map(|line| line.trim_start_matches("end").strip_prefix(&prefix)?.parse().ok()).collect();
        assert_eq!(numbers, (0..500).collect::<Vec<_>>(), "rank {rank}");
    }
    assert_eq!(text.matches("end").count(), 4);
}

#[test]
fn bytes_pass_unchanged_into_a_pipe_and_input_goes_to_rank_0() {
    let folder = tempfile::tempdir().unwrap();
    let input = folder.path().join("input");
    let bytes: Vec<u8> = (0..200_000u32).map(|k| (k.wrapping_mul(2_654_435_761) >> 9) as u8).collect();
    std::fs::write(&input, &bytes).unwrap();
    let line = format!("{HANARE} run --nodes 1 -n 2 --memory 64M -- cat < {}", input.display());
    let ended = run(Command::new("sh").args(["-c", &line]).env("XDG_RUNTIME_DIR", "/nonexistent").env_remove("HANARE_NODE"));
    assert!(ended.status.success() && ended.stdout == bytes, "{}", ended.stderr);
}

#[test]
fn a_terminal_shows_the_rank_before_each_line() {
    if Command::new("script").arg("--version").output().is_err() {
        hanare_testkit::uninstalled("no `script` to make a terminal (package bsdutils)");
        return;
    }
    let line = format!("{HANARE} run --nodes 1 -n 2 --memory 64M -- sh -c 'echo one; echo two; printf three'");
    let ended = run(Command::new("script")
        .args(["-qec", &line, "/dev/null"])
        .env("XDG_RUNTIME_DIR", "/nonexistent")
        .env_remove("HANARE_NODE"));
    let text = String::from_utf8_lossy(&ended.stdout).replace('\r', "");
    for rank in 0..2 {
        let own: Vec<_> = text.lines().filter_map(|line| line.strip_prefix(&format!("[{rank}] "))).collect();
        assert_eq!(own, ["one", "two", "three"], "{text}");
    }
}
