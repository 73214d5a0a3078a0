//! A node whose host runs short of memory: free slabs go back, then regions move to another node while a program uses them.

use crate::pool::group::Group;
use crate::pool::{HANARE, Nodes, Running, command, key, run, wait_until};
use hanare::{CreateOptions, NodeId, Placement, Pool};
use serde_json::Value;
use std::io::Write;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const MIB: u64 = 1 << 20;

/// A number of bytes in a node's status.
fn bytes(node: &Value, what: &str) -> u64 {
    node[what].as_u64().unwrap_or_else(|| panic!("no {what} in {node}"))
}

/// The node whose host runs short. Its number is 1, beside a node with memory enough.
struct Short {
    running: Running,
    nodes: Nodes,
    socket: String,
}

impl Short {
    /// Starts both; `host` runs the command, and `words` are further words of it.
    fn start(mut host: std::process::Command, words: &[&str]) -> Short {
        let nodes = Nodes::start(1);
        let socket = format!("@hanare-short-{}-{}", std::process::id(), nodes.nodes[0].socket);
        host.args(["node", "--listen", "127.0.0.1:0", "--name", "short", "--socket", &socket]).args(words);
        let running = Running::start(host.args(["--join", &nodes.nodes[0].address]).env("HANARE_KEY", key()));
        running.wait_for(" lends ");
        Short { running, nodes, socket }
    }

    /// What `hanare status --json` says of it.
    fn status(&self) -> Value {
        self.nodes.hanare(&["status", "--json"]).json()["nodes"][1].clone()
    }

    fn wait_for(&self, what: &str, mut is_so: impl FnMut(&Value) -> bool) -> Value {
        let mut last = Value::Null;
        wait_until(what, || {
            last = self.status();
            is_so(&last)
        });
        last
    }

    fn region_is_there(&self, name: &str) -> bool {
        let stat = self.nodes.hanare(&["region", "stat", name, "--json"]).json();
        stat["nodes"].as_array().unwrap().iter().any(|part| part["node"] == 1)
    }

    /// A program writes the region and checks it, without an end, while `work` runs. All that it wrote is there at the end.
    fn beside_a_program(&self, name: &str, len: u64, work: impl FnOnce()) {
        let pool = Pool::attach_to(&self.nodes.nodes[0].socket, None).unwrap();
        let options = CreateOptions { placement: Placement::Node(NodeId(1)), ..CreateOptions::default() };
        let region = pool.create(name, len, &options).unwrap();
        let part = 64 << 10;
        let count = len / part;
        let expected = |round: u64, at: u64| vec![(round * 31 + at * 7 + 1) as u8; part as usize];
        (0..count).for_each(|at| region.put(at * part, &expected(0, at)).unwrap());
        let (is_over, rounds) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let mut bytes = vec![0; part as usize];
                let mut last = vec![0; count as usize];
                for step in 0u64.. {
                    if is_over.load(Ordering::Relaxed) {
                        break;
                    }
                    let at = step.wrapping_mul(0x9e37_79b9) % count;
                    region.get(at * part, &mut bytes).unwrap();
                    assert!(bytes == expected(last[at as usize], at), "part {at} at step {step}");
                    last[at as usize] += 1;
                    region.put(at * part, &expected(last[at as usize], at)).unwrap();
                    rounds.store(step, Ordering::Relaxed);
                }
                for at in 0..count {
                    region.get(at * part, &mut bytes).unwrap();
                    assert!(bytes == expected(last[at as usize], at), "part {at} at the end");
                }
            });
            // A failure of the work is not hidden by a writer without an end.
            let worked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
            is_over.store(true, Ordering::Relaxed);
            writer.join().unwrap();
            worked.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        });
        assert!(rounds.load(Ordering::Relaxed) > 0, "the program got turns");
    }
}

impl Drop for Short {
    fn drop(&mut self) {
        let _ = self.running.child.kill();
        let _ = self.running.child.wait();
    }
}

#[test]
fn free_memory_goes_back_first_then_regions_move_and_it_grows_again() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("host");
    // As a rename, so that no look finds half of it.
    let tell = |bytes: u64| {
        std::fs::write(folder.path().join("next"), bytes.to_string()).unwrap();
        std::fs::rename(folder.path().join("next"), &file).unwrap();
    };
    tell(200 * MIB);
    let words = ["--memory", "64M", "--prefault", "64M", "--keep-free", "16M", "--host-memory", file.to_str().unwrap()];
    let short = Short::start(command(&[]), &words);
    short.wait_for("populated slabs", |node| node["populated"] == 64 * MIB);
    short.nodes.hanare(&["queue", "create", "q", "--block", "64", "--place", "node=1"]).done();
    let reads = Pool::attach_to(&short.nodes.nodes[0].socket, None).unwrap();
    let _reader = reads.open_queue("q").unwrap().reader().unwrap();
    short.beside_a_program("a", 24 * MIB, || {
        assert_eq!(short.status()["gives_back"], false);
        tell(64 * MIB);
        let back = short.wait_for("free slabs to go back", |node| node["given_back"].as_u64() >= Some(32 * MIB));
        assert!(back["populated"].as_u64() < Some(32 * MIB), "{back}");
        assert_eq!((&back["lent"], &back["lent_max"], &back["leaving"]), (&(48 * MIB).into(), &(64 * MIB).into(), &0.into()));
        assert!(short.region_is_there("a"), "what fits stays");
        let told = short.nodes.hanare(&["status"]).done();
        assert!(told.contains("gives back") && told.contains("runs short of memory, so 48 MiB of 64 MiB are lent"), "{told}");
        short
            .nodes
            .hanare(&["region", "create", "b", "40M", "--place", "node=1"])
            .refused(&["run short of memory", "16 MiB back"]);
        // A program of that host has its region elsewhere.
        let near = |words: &[&str]| run(command(words).env("HANARE_NODE", &short.socket).env("HANARE_KEY", key()));
        near(&["region", "create", "near", "30M"]).done();
        assert!(!short.region_is_there("near"));
        let doctor = near(&["doctor"]);
        assert!(String::from_utf8_lossy(&doctor.stdout).contains("lends 48 MiB of 64 MiB"), "{doctor:?}");
        tell(24 * MIB);
        short.wait_for("the region to move", |_| !short.region_is_there("a"));
        short.wait_for("nothing to be left", |node| node["leaving"] == 0 && node["used"].as_u64() <= Some(8 * MIB));
        // What cannot move is named.
        tell(0);
        let named = short.wait_for("the queue to be named", |node| node["stays"].as_array().is_some_and(|all| !all.is_empty()));
        assert!(named["stays"][0]["region"] == "q" && named["lent"] == 0, "{named}");
        let told = short.nodes.hanare(&["status"]).done();
        assert!(told.contains("of regions are to leave") && told.contains("q: "), "{told}");
        tell(200 * MIB);
        short.wait_for("all to be lent again", |node| node["lent"] == 64 * MIB && node["stays"] == Value::Array(Vec::new()));
        short.nodes.hanare(&["region", "create", "b", "40M", "--place", "node=1"]).done();
    });
    let log = short.running.stderr();
    for line in ["memory goes back to the host: 48 MiB of 64 MiB are lent", "of regions are to leave", "memory enough again"] {
        assert_eq!(log.matches(line).count(), 1, "{line}: {log}");
    }
}

#[test]
fn a_bound_that_the_host_does_not_have_is_refused() {
    let socket = format!("@hanare-bound-{}", std::process::id());
    let words = ["node", "--memory", "64M", "--listen", "127.0.0.1:0", "--socket", &socket, "--keep-free", "100T"];
    let folder = tempfile::tempdir().unwrap();
    let refused = run(command(&words).env("HANARE_STATE", folder.path()).env("HANARE_KEY", key()));
    refused.refused(&["keep-free", "100 TiB", "64 MiB are to be lent"]);
}

/// A process in a group that holds as many bytes as it was given.
struct Neighbour<'a> {
    group: &'a Group,
    process: Child,
    input: ChildStdin,
    taken: u64,
}

impl Neighbour<'_> {
    fn start(group: &Group) -> Neighbour<'_> {
        let mut command = group.command("tail");
        let mut process = command.args(["-c", "1G"]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        Neighbour { group, input: process.stdin.take().unwrap(), process, taken: 0 }
    }

    fn take(&mut self, bytes: u64) {
        self.taken += bytes;
        (0..bytes / MIB).for_each(|_| self.input.write_all(&vec![0; MIB as usize]).expect("the neighbour lives"));
    }

    /// Takes what the group has left at this moment, but for so many bytes. What a status says is older, and too much may be gone by then.
    fn take_all_but(&mut self, rest: u64) {
        let left = self.group.left();
        assert!(left > rest + 16 * MIB, "{left} bytes are left");
        self.take(left - rest);
    }

    fn lives(&mut self) -> bool {
        self.process.try_wait().unwrap().is_none()
    }
}

impl Drop for Neighbour<'_> {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn a_neighbour_fills_the_control_group_and_nobody_is_killed() {
    let Some(group) = Group::new(256 * MIB) else {
        return hanare_testkit::unable("no control group of memory can be made here");
    };
    let words = ["--memory", "128M", "--prefault", "128M", "--keep-free", "32M"];
    let mut short = Short::start(group.command(HANARE), &words);
    short.wait_for("populated slabs", |node| node["populated"] == 128 * MIB);
    let mut neighbour = Neighbour::start(&group);
    // Less than the node keeps free, and more than half of it.
    let rest = 24 * MIB;
    short.beside_a_program("a", 40 * MIB, || {
        assert_eq!(short.status()["gives_back"], false);
        neighbour.take_all_but(rest);
        let back = short.wait_for("free slabs to go back", |node| bytes(node, "populated") < 48 * MIB);
        // A busy machine may look so late that all is lent again.
        let is_told = back["gives_back"] == true || bytes(&back, "lent") == 128 * MIB;
        assert!(bytes(&back, "given_back") >= 32 * MIB && is_told, "{back}");
        assert!(short.region_is_there("a"), "what fits stays");
        // Of what went back, the neighbour takes so much that the region does not fit.
        neighbour.take_all_but(rest);
        short.wait_for("the region to move", |node| node["leaving"] == 0 && node["used"] == 0);
        assert!(!short.region_is_there("a") && neighbour.taken + 128 * MIB > 256 * MIB, "{} are taken", neighbour.taken);
        assert!(neighbour.lives());
        // The neighbour gets some of what the node had.
        neighbour.take(20 * MIB);
        assert!(neighbour.lives());
        drop(neighbour);
        short.wait_for("all to be lent again", |node| node["lent"] == 128 * MIB && node["gives_back"] == false);
        short.nodes.hanare(&["region", "create", "b", "100M", "--place", "node=1"]).done();
    });
    assert!(short.running.child.try_wait().unwrap().is_none(), "it lives");
}
