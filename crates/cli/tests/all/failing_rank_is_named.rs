//! A rank that fails ends the job, is named with its status or signal, and gives the launcher its status.

use crate::pool;

use pool::{command, run};
use std::time::{Duration, Instant};

fn job(script: &str) -> pool::Ended {
    run(&mut command(&["run", "--nodes", "1", "-n", "3", "--memory", "64M", "--", "sh", "-c", script]))
}

/// The rows of the table behind the failure, each at most 80 characters wide.
fn table(ended: &pool::Ended) -> Vec<&str> {
    let mut lines = ended.stderr.lines().skip_while(|line| !line.starts_with("WHO"));
    let title = lines.next().unwrap_or_else(|| panic!("a table, not '{}'", ended.stderr));
    assert_eq!(title.split_whitespace().collect::<Vec<_>>(), ["WHO", "NODE", "HOST", "HOW", "IT", "ENDED"]);
    let rows: Vec<&str> = lines.collect();
    assert!(rows.iter().all(|row| row.chars().count() <= 80), "{rows:?}");
    rows
}

#[test]
fn sixty_four_ranks_take_a_few_lines() {
    let script = "if [ $HANARE_RANK = 5 ]; then kill -ABRT $$; fi; if [ $HANARE_RANK = 9 ]; then exit 0; fi; exec sleep 600";
    let words = ["run", "--nodes", "2", "-n", "64", "--memory", "64M", "--", "sh", "-c", script];
    let ended = run(&mut command(&words));
    assert_eq!(ended.status.code(), Some(134), "{}", ended.stderr);
    let rows = table(&ended);
    assert_eq!(rows.len(), 3, "{rows:?}");
    assert!(rows[0].starts_with("rank 5 ") && rows[0].ends_with("signal 6, SIGABRT"), "{rows:?}");
    assert!(rows[1].starts_with("62 ranks, from 0") && rows[1].contains(" 0, 1 "), "{rows:?}");
    assert!(rows[2].starts_with("rank 9 ") && rows[2].ends_with("exit status 0"), "{rows:?}");
}

#[test]
fn a_node_that_was_killed_first_is_the_first_cause() {
    let script = "if [ $HANARE_RANK = 0 ]; then echo up; read line < fifo; exit 3; fi; exec sleep 600";
    let folder = tempfile::tempdir().unwrap();
    assert!(std::process::Command::new("mkfifo").arg(folder.path().join("fifo")).status().unwrap().success());
    let words = ["run", "--nodes", "2", "--memory", "64M", "--", "sh", "-c", script];
    let job = pool::Running::start(command(&words).current_dir(folder.path()));
    job.wait_for("up");
    let launcher = pool::children(job.pid())[0].0;
    let node = pool::children(launcher).into_iter().find(|(_, line)| line.contains("--join")).expect("the second node").0;
    pool::signal("KILL", node);
    pool::wait_until("the node is named", || job.stderr().contains("node 1 is lost"));
    std::fs::write(folder.path().join("fifo"), "go\n").unwrap();
    let ended = job.wait();
    assert_eq!(ended.status.code(), Some(3), "{}", ended.stderr);
    let rows = table(&ended);
    assert!(rows[0].starts_with("node 1 ") && rows[0].ends_with("signal 9, SIGKILL"), "{rows:?}");
    assert!(rows[1].starts_with("rank 0 ") && rows[1].ends_with("exit status 3"), "{rows:?}");
}

#[test]
fn a_status_is_the_launchers() {
    let start = Instant::now();
    let ended = job("if [ $HANARE_RANK = 1 ]; then exit 7; fi; sleep 600");
    assert_eq!(ended.status.code(), Some(7));
    assert_eq!(ended.stderr.lines().next(), Some("hanare: rank 1 of 3 (sh) failed: exit status 7"));
    let rows = table(&ended);
    assert_eq!(rows.len(), 2, "{rows:?}");
    assert!(rows[0].starts_with("rank 1 ") && rows[0].ends_with("exit status 7"), "{rows:?}");
    assert!(rows[1].starts_with("ranks 0, 2 ") && rows[1].ends_with("ended because of rank 1"), "{rows:?}");
    assert!(start.elapsed() < pool::paced(Duration::from_secs(30)), "the other ranks are not waited for");
}

#[test]
fn a_signal_is_128_more() {
    let ended = job("if [ $HANARE_RANK = 2 ]; then kill -SEGV $$; fi; sleep 600");
    assert_eq!(ended.status.code(), Some(139));
    assert_eq!(ended.stderr.lines().next(), Some("hanare: rank 2 of 3 (sh) failed: signal 11, SIGSEGV"));
    assert!(table(&ended)[0].ends_with("signal 11, SIGSEGV"), "{}", ended.stderr);
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
