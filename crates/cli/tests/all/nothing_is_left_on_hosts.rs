//! Whichever process of a launch over several hosts is killed, no process of it stays on any of them.

use crate::pool;

use pool::remote::Remote;
use pool::{Running, children, command_line, marked, signal, wait_until};

/// A job over two hosts whose ranks leave children behind, in sessions of their own too.
fn launch(remote: &Remote, mark: &str) -> Running {
    let script = "sleep 600 & setsid sleep 600 & (setsid sleep 600 &) ; echo up $HANARE_RANK; wait";
    let mut command = remote.command(&["run", "--hosts", "a,b", "--memory", "64M", "--", "sh", "-c", script]);
    let job = Running::start(command.env("LAUNCH_MARK", mark));
    job.wait_for("up 0");
    job.wait_for("up 1");
    wait_until("six sleeping children", || marked(mark).iter().filter(|(_, line)| line.starts_with("sleep")).count() == 6);
    job
}

/// The first below a process, at any depth, whose command line holds all these parts.
fn below(parent: u32, parts: &[&str]) -> u32 {
    let mut level = vec![parent];
    while !level.is_empty() {
        let next: Vec<_> = level.iter().flat_map(|pid| children(*pid)).collect();
        if let Some((pid, _)) = next.iter().find(|(_, line)| parts.iter().all(|part| line.contains(part))) {
            return *pid;
        }
        level = next.into_iter().map(|(pid, _)| pid).collect();
    }
    panic!("no process below {} has {parts:?}", command_line(parent));
}

/// Kills what `victim` picks and asserts that all is gone; returns the launcher's end.
fn kill(mark: &str, victim: impl Fn(&Running) -> u32) -> pool::Ended {
    let remote = Remote::new();
    let mark = format!("{mark}-{}", std::process::id());
    let job = launch(&remote, &mark);
    signal("KILL", victim(&job));
    let ended = job.wait();
    wait_until("no process of it is left", || marked(&mark).is_empty());
    ended
}

#[test]
fn when_the_command_itself_is_killed() {
    kill("hosts-guard", Running::pid);
}

#[test]
fn when_the_launcher_is_killed() {
    let ended = kill("hosts-launcher", |job| children(job.pid())[0].0);
    assert_eq!(ended.status.code(), Some(137));
    assert!(ended.stderr.contains("launcher was killed"), "{}", ended.stderr);
}

/// The deputy on a host, or its guard, is killed: the host is lost, and the job ends.
fn lose(mark: &str, parts: &[&str]) {
    let ended = kill(mark, |job| below(job.pid(), parts));
    assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
    assert!(ended.stderr.contains("host a is lost"), "{}", ended.stderr);
    assert!(ended.stderr.contains("rank 0 of 2 (sh) failed: its host was lost"), "{}", ended.stderr);
}

#[test]
fn when_a_deputys_guard_is_killed() {
    lose("hosts-deputy-guard", &["hanare __host"]);
}

#[test]
fn when_a_deputy_is_killed() {
    lose("hosts-deputy", &["__launch", "__host"]);
}

#[test]
fn when_a_rank_is_killed() {
    let ended = kill("hosts-rank", |job| below(job.pid(), &["sh -c sleep 600"]));
    assert_eq!(ended.status.code(), Some(137), "{}", ended.stderr);
    assert!(ended.stderr.contains("signal 9, SIGKILL"), "{}", ended.stderr);
}

#[test]
fn when_a_node_is_killed_it_is_named_and_the_job_goes_on() {
    let remote = Remote::new();
    let mark = format!("hosts-node-{}", std::process::id());
    let job = launch(&remote, &mark);
    signal("KILL", below(job.pid(), &["--name b", "--embedded-in"]));
    wait_until("it is told", || job.stderr().contains("host b: node 1 is lost (signal 9, SIGKILL)"));
    signal("TERM", job.pid());
    job.wait();
    wait_until("no process of it is left", || marked(&mark).is_empty());
}

#[test]
fn when_a_job_ends_by_itself() {
    let remote = Remote::new();
    let mark = format!("hosts-alone-{}", std::process::id());
    let script = "sleep 600 & (setsid sleep 600 &); exit 0";
    let mut command = remote.command(&["run", "--hosts", "a,b", "-n", "4", "--memory", "64M", "--", "sh", "-c", script]);
    pool::run(command.env("LAUNCH_MARK", &mark)).done();
    assert_eq!(marked(&mark), []);
}
