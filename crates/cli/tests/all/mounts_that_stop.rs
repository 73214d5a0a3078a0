//! `hanare mount` beside mounts that stop, names that others took ahead, folders that stay in use, and mounts that do not come about.

use crate::mounted_files::{Mount, or_skip};
use crate::pool;

use hanare::{Pool, Rights};
use pool::{Nodes, command, run, signal, wait_until};
use rustix::process::{Pid, Signal, getpid, kill_process};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// The variable that makes a test the program that stops: the node's socket.
const STOPS: &str = "HANARE_TEST_STOPS";

/// Bytes of the head, and of the number in all names, in `NAME@super`.
const HEAD: u64 = 16;

/// Bits of the head that say how long the log is.
const TAIL_BITS: u32 = 40;

/// As three mounts: the first stops in the midst of a change, the others in the midst of replacing the log. The first goes on much later as
/// if it still had its turn.
fn stop_with_the_turn(socket: &str) {
    let pool = Pool::attach_to(socket, None).unwrap();
    let front = pool.open_for("files@super", Rights::Write).unwrap();
    let mut words = [0u64; 2];
    front.get_values(HEAD, &mut words).unwrap();
    let [head, stem] = words;
    let name = format!("files@{stem:016x}.log.{}", head >> TAIL_BITS);
    let (log, _turn) = (pool.open_for(&name, Rights::Write).unwrap(), pool.lock(&name).unwrap());
    let next = [1, 2].map(|further| format!("files@{stem:016x}.log.{}", (head >> TAIL_BITS) + further));
    let _next = next.map(|name| pool.lock(&name).unwrap());
    front.get_values(HEAD, &mut words).unwrap();
    println!("stops with {name}");
    kill_process(getpid(), Signal::STOP).unwrap();
    // Another thread may take the signal, and this one go on for a moment.
    std::io::stdin().read_line(&mut String::new()).unwrap();
    // The frame of the change, and the exchange that would have it count.
    let tail = words[0] & ((1 << TAIL_BITS) - 1);
    let _ = log.put(tail, &[0xff; 512]);
    assert_ne!(front.compare_and_swap_word(HEAD, words[0], words[0] + 512).unwrap(), words[0], "the head has moved");
    println!("has changed nothing");
}

/// A process that ends with the test, stopped or not.
struct Stopping(Child);

impl Drop for Stopping {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn is_stopped(process: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('T'))
}

#[test]
fn a_mount_that_is_stopped_with_its_turn_keeps_no_other_from_changes() {
    if let Ok(socket) = std::env::var(STOPS) {
        return stop_with_the_turn(&socket);
    }
    or_skip!();
    let nodes = Nodes::start(2);
    let (mount, other) = (Mount::new(&nodes.nodes[0], &[]), Mount::new(&nodes.nodes[1], &[]));
    fs::write(mount.path("before"), b"before").unwrap();
    let mut open = fs::File::create(mount.path("open")).unwrap();
    open.write_all(b"1").unwrap();
    let mut test = Command::new(std::env::current_exe().unwrap());
    test.args(["--exact", "mounts_that_stop::a_mount_that_is_stopped_with_its_turn_keeps_no_other_from_changes", "--nocapture"]);
    test.env(STOPS, &nodes.nodes[1].socket).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut stopping = Stopping(test.spawn().unwrap());
    let process = stopping.0.id();
    let mut said = BufReader::new(stopping.0.stdout.take().unwrap()).lines().map(Result::unwrap);
    let held = said.find(|line| line.contains("stops with ")).unwrap();
    wait_until("it is stopped", || is_stopped(process));
    // The mount has something to tell of its own accord, and waits for its turn with that, too.
    let lines = || [&mount, &other].map(|mount| fs::read_to_string(mount.said.path()).unwrap()).concat();
    open.write_all(b"2").unwrap_or_else(|error| panic!("{error}; {}", lines()));
    std::thread::sleep(Duration::from_secs(3));
    // Both hosts go on, with names and bytes.
    for number in 0..20u8 {
        for (mount, name) in [(&mount, "a"), (&other, "b")] {
            let written = fs::write(mount.path(&format!("{name}{number}")), vec![number; 10_000]);
            written.unwrap_or_else(|error| panic!("{name}{number}: {error}; {}", lines()));
        }
    }
    wait_until("it is said who stopped", || lines().contains(&format!("process {process} on node 1")));
    signal("CONT", process);
    stopping.0.stdin.take().unwrap().write_all(b"go on\n").unwrap();
    assert!(said.any(|line| line.contains("has changed nothing")));
    assert!(stopping.0.wait().unwrap().success());
    fs::write(mount.path("after"), b"after").unwrap();
    let fresh = Mount::new(&nodes.nodes[0], &[]);
    for mount in [&mount, &other, &fresh] {
        for number in 0..20u8 {
            for name in ["a", "b"] {
                assert_eq!(fs::read(mount.path(&format!("{name}{number}"))).unwrap(), vec![number; 10_000]);
            }
        }
        assert_eq!(
            (fs::read(mount.path("before")).unwrap(), fs::read(mount.path("after")).unwrap()),
            (b"before".into(), b"after".into())
        );
        assert_eq!(fs::read(mount.path("open")).unwrap(), b"12");
    }
    drop(open);
    let log = held.split("stops with ").last().unwrap();
    assert!(!nodes.hanare(&["region", "stat", log]).status.success(), "the log that was replaced is gone");
    [mount, other, fresh].into_iter().for_each(Mount::end);
}

#[test]
fn a_mount_that_is_stopped_and_goes_on_has_lost_nothing() {
    or_skip!();
    let nodes = Nodes::start(2);
    let (mount, other) = (Mount::new(&nodes.nodes[0], &[]), Mount::new(&nodes.nodes[1], &[]));
    let process = Pid::from_child(&other.process);
    let write = |mount: &Mount, name: &str| {
        (0..12u8).for_each(|number| fs::write(mount.path(&format!("{name}{number}")), [number; 5000]).unwrap())
    };
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| (0..3).for_each(|round| write(&other, &format!("other{round}-"))));
        for round in 0..3 {
            kill_process(process, Signal::STOP).unwrap();
            write(&mount, &format!("mount{round}-"));
            kill_process(process, Signal::CONT).unwrap();
        }
        writer.join().unwrap();
    });
    for seen in [&mount, &other] {
        assert_eq!(fs::read_dir(seen.folder.path()).unwrap().count(), 2 * 3 * 12);
        for name in ["mount", "other"].iter().flat_map(|name| (0..3).map(move |round| format!("{name}{round}-"))) {
            (0..12u8).for_each(|number| assert_eq!(fs::read(seen.path(&format!("{name}{number}"))).unwrap(), [number; 5000]));
        }
    }
    mount.end();
    other.end();
}

/// Names that count up can be taken ahead; root would even remove the regions of others that are in its way.
#[test]
fn names_that_another_user_took_ahead_are_in_nobody_s_way() {
    or_skip!();
    let nodes = Nodes::start(1);
    let by_other = |words: &[&str]| run(command(words).env("HANARE_NODE", &nodes.nodes[0].socket).uid(65534).gid(65534));
    let names: Vec<String> = (0..5).flat_map(|number| [format!("files@data.{number}"), format!("files@log.{number}")]).collect();
    for name in &names {
        assert!(by_other(&["region", "create", name, "4K"]).status.success());
    }
    let mount = Mount::new(&nodes.nodes[0], &[]);
    fs::write(mount.path("file"), vec![3; 100_000]).unwrap();
    assert_eq!(fs::read(mount.path("file")).unwrap(), vec![3; 100_000]);
    mount.end();
    for name in &names {
        assert_eq!(by_other(&["region", "stat", name, "--json"]).json()["owner"], 65534, "{name}");
    }
}

#[test]
fn a_mount_whose_folder_is_in_use_says_by_whom() {
    or_skip!();
    let nodes = Nodes::start(1);
    let mut mount = Mount::new(&nodes.nodes[0], &[]);
    let mut user = Stopping(Command::new("sleep").arg("600").current_dir(mount.folder.path()).spawn().unwrap());
    signal("TERM", mount.process.id());
    let line = format!("is still used by process {} (sleep)", user.0.id());
    wait_until("it says who uses the folder", || fs::read_to_string(mount.said.path()).unwrap().contains(&line));
    user.0.kill().unwrap();
    user.0.wait().unwrap();
    assert!(mount.process.wait().unwrap().success());
}

#[test]
fn a_mount_that_does_not_come_about_leaves_no_regions() {
    let nodes = Nodes::start(1);
    let regions = || nodes.hanare(&["region", "ls", "--json"]).json().as_array().unwrap().len();
    let file = tempfile::NamedTempFile::new().unwrap();
    for folder in ["/nonexistent", file.path().to_str().unwrap()] {
        let ended = nodes.hanare(&["mount", folder, "--", "true"]);
        assert!(!ended.status.success() && ended.stderr.contains("it is no folder"), "{}", ended.stderr);
        assert_eq!(regions(), 0);
    }
    if !rustix::process::geteuid().is_root() {
        return hanare_testkit::unable("only root can be another user, too");
    }
    // An ordinary user mounts at a folder of its own alone.
    let folder = tempfile::tempdir().unwrap();
    let mut by_other = command(&["mount", folder.path().to_str().unwrap(), "--", "true"]);
    let ended = run(by_other.env("HANARE_NODE", &nodes.nodes[0].socket).uid(65534).gid(65534));
    assert!(!ended.status.success() && ended.stderr.contains("fusermount3"), "{}", ended.stderr);
    assert_eq!(regions(), 0, "{}", ended.stderr);
    // At one of its own it does, with what mounts for it; without, it is told how to get that.
    let folder = tempfile::tempdir().unwrap();
    std::os::unix::fs::chown(folder.path(), Some(65534), Some(65534)).unwrap();
    let mut by_other = command(&["mount", folder.path().to_str().unwrap(), "--", "true"]);
    let ended = run(by_other.env("HANARE_NODE", &nodes.nodes[0].socket).env("PATH", "/nonexistent").uid(65534).gid(65534));
    assert!(!ended.status.success() && ended.stderr.contains("apt install fuse3"), "{}", ended.stderr);
    assert_eq!(regions(), 0, "{}", ended.stderr);
}
