//! Whichever process of a launch is killed, no process, socket or shared memory of it stays.

use crate::pool;

use pool::{Running, children, command, marked, signal, wait_until};

/// A job whose ranks leave children behind, two of them in sessions of their own.
fn launch(mark: &str) -> Running {
    let script = "sleep 600 & setsid sleep 600 & (setsid sleep 600 &) ; echo up $HANARE_RANK; wait";
    let mut command = command(&["run", "--nodes", "2", "-n", "2", "--memory", "64M", "--", "sh", "-c", script]);
    let job = Running::start(command.env("LAUNCH_MARK", mark));
    job.wait_for("up 0");
    job.wait_for("up 1");
    wait_until("six sleeping children", || marked(mark).iter().filter(|(_, line)| line.starts_with("sleep")).count() == 6);
    job
}

/// The inner process of a launch, and one of its children whose command line holds `part`.
fn inner(job: &Running) -> u32 {
    children(job.pid()).first().expect("a launcher below its guard").0
}

fn child(job: &Running, part: &str) -> u32 {
    children(inner(job)).iter().find(|(_, line)| line.contains(part)).unwrap_or_else(|| panic!("no child with '{part}'")).0
}

fn sockets() -> Vec<String> {
    let list = std::fs::read_to_string("/proc/net/unix").unwrap();
    list.lines()
        .filter_map(|line| line.split_whitespace().nth(7))
        .filter(|name| name.starts_with("@hanare-"))
        .map(str::to_owned)
        .collect()
}

/// Kills what `victim` picks and asserts that all is gone; returns the launcher's end.
fn kill(mark: &str, victim: impl Fn(&Running) -> u32) -> pool::Ended {
    let mark = format!("{mark}-{}", std::process::id());
    let job = launch(&mark);
    let socket = {
        let node = command_line_of_node(&job);
        let words: Vec<_> = node.split(' ').collect();
        words[words.iter().position(|word| *word == "--socket").unwrap() + 1].to_owned()
    };
    assert!(sockets().contains(&socket), "{socket} is there while the job runs");
    signal("KILL", victim(&job));
    let ended = job.wait();
    wait_until("no process of it is left", || marked(&mark).is_empty());
    wait_until("no socket of it is left", || !sockets().contains(&socket));
    ended
}

fn command_line_of_node(job: &Running) -> String {
    pool::command_line(child(job, "--embedded-in"))
}

#[test]
fn when_the_command_itself_is_killed() {
    kill("guard", Running::pid);
}

#[test]
fn when_the_launcher_is_killed() {
    let ended = kill("launcher", inner);
    assert_eq!(ended.status.code(), Some(137));
    assert!(ended.stderr.contains("launcher was killed"), "{}", ended.stderr);
}

#[test]
fn when_a_rank_is_killed() {
    let ended = kill("rank", |job| child(job, "sh -c"));
    assert_eq!(ended.status.code(), Some(137));
    assert!(ended.stderr.contains("signal 9, SIGKILL"), "{}", ended.stderr);
}

#[test]
fn when_a_job_ends_by_itself() {
    let mark = format!("alone-{}", std::process::id());
    let script = "sleep 600 & (setsid sleep 600 &); exit 0";
    let mut command = command(&["run", "--nodes", "2", "-n", "2", "--memory", "64M", "--", "sh", "-c", script]);
    pool::run(command.env("LAUNCH_MARK", &mark)).done();
    assert_eq!(marked(&mark), []);
}
