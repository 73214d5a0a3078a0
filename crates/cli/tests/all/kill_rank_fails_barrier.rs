//! A rank that is killed ends its job's barrier with an error that names it, in the ranks that wait there.

use crate::pool;

use hanare::{Error, Pool};
use std::io::Write;

/// What each rank of the test below runs: rank 1 waits to be killed, the others wait at the barrier.
pub fn rank() {
    let Some(report) = std::env::var_os("BARRIER_REPORT") else { return };
    let pool = Pool::attach().unwrap();
    pool.barrier().unwrap();
    if pool.rank() == 1 {
        rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL).unwrap();
    }
    let text = match pool.barrier() {
        Err(Error::RankGone { rank, .. }) => format!("{rank} gone\n"),
        other => format!("{other:?}\n"),
    };
    std::fs::OpenOptions::new().append(true).open(report).unwrap().write_all(text.as_bytes()).unwrap();
}

// FEATURE: D2-F8
#[test]
fn the_others_are_told_which() {
    let report = tempfile::NamedTempFile::new().unwrap();
    let own = std::env::current_exe().unwrap();
    let run = ["run", "--nodes", "2", "-n", "3", "--memory", "64M", "--", own.to_str().unwrap()];
    let words = [&run[..], &hanare_testkit::words("kill_rank_fails_barrier::rank")].concat();
    let ended = pool::run(pool::command(&words).env("BARRIER_REPORT", report.path()));
    assert_eq!(ended.status.code(), Some(137), "{}", ended.stderr);
    assert!(ended.stderr.contains("rank 1 of 3"), "{}", ended.stderr);
    assert_eq!(std::fs::read_to_string(report.path()).unwrap(), "rank 1 gone\nrank 1 gone\n");
}
