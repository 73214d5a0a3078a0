//! With `--persist` a node's bytes are there after its next start; without it their loss is told, and their names are free again.

use crate::pool;

use pool::{Running, command, run, signal};
use std::path::Path;

const GREETING: &[u8] = b"good morning";

fn words<'a>(socket: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["node", "--memory", "64M", "--listen", "127.0.0.1:0", "--name", "keeper", "--socket", socket], more].concat()
}

fn start(socket: &str, state: &Path, more: &[&str]) -> Running {
    let node = Running::start(command(&words(socket, more)).env("HANARE_STATE", state));
    node.wait_for("lends 64 MiB");
    node
}

#[test]
fn a_pool_of_one_node_has_its_bytes_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (socket, kept, state) = (path("node.sock"), path("kept"), folder.path().join("state"));
    let hanare = |words: &[&str]| run(command(words).env("HANARE_NODE", &socket));
    std::fs::write(path("in.bin"), GREETING).unwrap();
    for round in 0..3 {
        let node = start(&socket, &state, &["--persist", &kept]);
        if round == 0 {
            hanare(&["region", "cp", &path("in.bin"), "greeting"]).done();
            hanare(&["region", "create", "long", "8M"]).done();
        }
        hanare(&["region", "cp", "greeting", &path("out.bin")]).done();
        assert_eq!(std::fs::read(path("out.bin")).unwrap(), GREETING, "round {round}");
        assert!(!hanare(&["region", "ls"]).done().contains("lost"));
        signal("TERM", node.pid());
        node.wait().done();
    }
    // Killed, it has written nothing of this life: what the life before wrote is old, and is not given out.
    let node = start(&socket, &state, &["--persist", &kept]);
    signal("KILL", node.pid());
    node.wait();
    let node = start(&socket, &state, &["--persist", &kept]);
    assert_eq!(hanare(&["region", "stat", "greeting", "--json"]).json()["lost"], 0);
    signal("TERM", node.pid());
    node.wait().done();
}

/// A queue that holds two blocks, and has spilled the others to memory that is of no region.
#[test]
fn what_a_queue_has_spilled_is_there_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (socket, kept, state) = (path("node.sock"), path("kept"), folder.path().join("state"));
    let hanare = |words: &[&str]| run(command(words).env("HANARE_NODE", &socket));
    let shell = |line: &str| {
        let mut shell = std::process::Command::new("sh");
        run(shell.args(["-c", line]).env("HANARE", pool::HANARE).env("HANARE_NODE", &socket))
    };
    let node = start(&socket, &state, &["--persist", &kept]);
    hanare(&["queue", "create", "q", "--block", "64", "--depth", "2", "--ports", "1", "--overflow", "spill"]).done();
    shell("seq 10000 99999 | head -c 64000 | $HANARE queue send q").done();
    signal("TERM", node.pid());
    node.wait().done();
    let node = start(&socket, &state, &["--persist", &kept]);
    // One that writes after the restart is read behind it.
    shell("printf %064d 7 | $HANARE queue send q").done();
    let read = shell("$HANARE queue recv q --writers 2 --count 1001 | cksum").done();
    assert_eq!(read, shell("(seq 10000 99999 | head -c 64000; printf %064d 7) | cksum").done());
    signal("TERM", node.pid());
    node.wait().done();
}

#[test]
fn on_a_schedule_they_are_there_after_a_bad_end_too() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (socket, kept, state) = (path("node.sock"), path("kept"), folder.path().join("state"));
    let hanare = |words: &[&str]| run(command(words).env("HANARE_NODE", &socket));
    let more = ["--persist", kept.as_str(), "--persist-every", "1"];
    std::fs::write(path("in.bin"), GREETING).unwrap();
    let node = start(&socket, &state, &more);
    hanare(&["region", "cp", &path("in.bin"), "greeting"]).done();
    let file = folder.path().join("kept/node.kept");
    let has_greeting = || std::fs::read(&file).is_ok_and(|bytes| bytes.windows(GREETING.len()).any(|part| part == GREETING));
    let until = std::time::Instant::now() + pool::BOUND;
    while !has_greeting() {
        assert!(std::time::Instant::now() < until, "nothing is written");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    signal("KILL", node.pid());
    node.wait();
    let node = start(&socket, &state, &more);
    hanare(&["region", "cp", "greeting", &path("out.bin")]).done();
    assert_eq!(std::fs::read(path("out.bin")).unwrap(), GREETING);
    signal("TERM", node.pid());
    node.wait().done();
}

#[test]
fn without_it_the_loss_is_told_and_lost_regions_are_removed_or_made_anew() {
    let folder = tempfile::tempdir().unwrap();
    let (socket, state) = (folder.path().join("node.sock").to_str().unwrap().to_owned(), folder.path().join("state"));
    let hanare = |words: &[&str]| run(command(words).env("HANARE_NODE", &socket));
    let node = start(&socket, &state, &[]);
    hanare(&["region", "create", "a", "1M"]).done();
    hanare(&["region", "create", "b", "1M"]).done();
    signal("TERM", node.pid());
    let ended = node.wait();
    assert!(ended.stderr.contains("2 MiB") && ended.stderr.contains("--persist"), "{}", ended.stderr);
    let node = start(&socket, &state, &[]);
    let attached = hanare::Pool::attach_to(&socket, None).unwrap();
    let options = hanare::CreateOptions::default();
    let refuse = hanare::CreateOptions { refuse_lost: true, ..options.clone() };
    assert!(matches!(attached.create_or_attach("a", 1 << 20, &refuse), Err(hanare::Error::RegionLost { .. })));
    let anew = attached.create_or_attach("a", 1 << 20, &options).unwrap();
    assert!(anew.created() && anew.renewed());
    assert_eq!(hanare(&["region", "rm", "--lost"]).done().trim(), "b");
    assert_eq!(hanare(&["region", "ls", "--json"]).json().as_array().unwrap().len(), 1);
    hanare(&["node", "rm", "0"]).refused(&["node 0", "member"]);
    hanare(&["node", "rm", "9"]).refused(&["node 9"]);
    drop((anew, attached));
    signal("TERM", node.pid());
    node.wait().done();
}
