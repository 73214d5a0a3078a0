//! A rank that fails ends the job, is named with its status or signal, and gives the launcher its status.

use crate::pool;

use pool::{command, run};
use std::time::{Duration, Instant};

fn job(script: &str) -> pool::Ended {
    run(&mut command(&["run", "--nodes", "1", "-n", "3", "--memory", "64M", "--", "sh", "-c", script]))
}

#[test]
fn a_status_is_the_launchers() {
    let start = Instant::now();
    let ended = job("if [ $HANARE_RANK = 1 ]; then exit 7; fi; sleep 600");
    assert_eq!(ended.status.code(), Some(7));
    assert_eq!(ended.stderr, "hanare: rank 1 of 3 (sh) failed: exit status 7\n");
    assert!(start.elapsed() < Duration::from_secs(30), "the other ranks are not waited for");
}

#[test]
fn a_signal_is_128_more() {
    let ended = job("if [ $HANARE_RANK = 2 ]; then kill -SEGV $$; fi; sleep 600");
    assert_eq!(ended.status.code(), Some(139));
    assert_eq!(ended.stderr, "hanare: rank 2 of 3 (sh) failed: signal 11, SIGSEGV\n");
}

#[test]
fn a_rank_that_ignores_the_end_is_killed() {
    let ended = job("if [ $HANARE_RANK = 0 ]; then exit 1; fi; trap '' TERM; while :; do sleep 1; done");
    assert_eq!(ended.status.code(), Some(1));
    assert!(ended.stderr.starts_with("hanare: rank 0 of 3"), "{}", ended.stderr);
}

#[test]
fn all_well_says_nothing() {
    let ended = job("exit 0");
    assert_eq!((ended.status.code(), ended.stderr.as_str()), (Some(0), ""));
}
