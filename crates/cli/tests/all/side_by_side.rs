//! Builds of two releases in one pool: programs and nodes of both use regions, queues, locks, mappings and files together, and a pool is brought
//! up to date node by node while programs use it.

use crate::keepers::Keepers;
use crate::mounted_files::{Mount, cannot_mount};
use crate::pool;

use hanare::{Consistency, CreateOptions, Operator, Pool, Region};
use hanare_protocol::versions::{NEWEST, OLDEST};
use pool::{Build, Node, Running, run, wait_until};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

const PAGE: u64 = 4096;

/// A coordinator's node and another one, of these builds.
fn pool_of(builds: [Build; 2]) -> [Node; 2] {
    let first = Node::start_by(builds[0].command(&[]), None, &[]);
    let second = Node::start_by(builds[1].command(&[]), Some(&first.address), &[]);
    [first, second]
}

fn by(build: Build, node: &Node, words: &[&str]) -> Command {
    let mut command = build.command(words);
    command.env("HANARE_NODE", &node.socket);
    command
}

/// Runs `line` by a shell with `$HANARE` for the build's command on the node's host.
fn shell(build: Build, node: &Node, line: &str) -> Command {
    let command = by(build, node, &[]);
    let mut shell = pool::clean("sh");
    shell.args(["-c", line]).env("HANARE", command.get_program());
    shell.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    shell
}

/// Bytes that one build's program puts at one node, and another one's gets at the other.
fn put_and_get(nodes: &[Node; 2], folder: &Path) {
    let path = |name: &str| folder.join(name).to_str().unwrap().to_owned();
    std::fs::write(path("in"), [7; 100_000]).unwrap();
    for (number, [writer, reader]) in (0..).zip([[Build::Last, Build::Today], [Build::Today, Build::Last]]) {
        for (place, name) in [(0, format!("a{number}")), (1, format!("b{number}"))] {
            run(&mut by(writer, &nodes[0], &["region", "cp", &path("in"), &name, "--place", &format!("node={place}")])).done();
            run(&mut by(reader, &nodes[1], &["region", "cp", &name, &path("out")])).done();
            assert!(std::fs::read(path("out")).unwrap() == [7; 100_000], "{writer:?} to {reader:?} at node {place}");
            run(&mut by(reader, &nodes[1], &["region", "set", &name, "copies=2"])).done();
            assert!(run(&mut by(writer, &nodes[0], &["region", "stat", &name])).done().contains(&name));
        }
    }
}

/// Blocks that go through a queue from one build's program to the other's.
fn send_and_receive(nodes: &[Node; 2]) {
    for [writer, reader] in [[Build::Last, Build::Today], [Build::Today, Build::Last]] {
        let name = format!("q{writer:?}");
        let receives = Running::start(&mut shell(reader, &nodes[1], &format!("$HANARE queue recv {name} --create | cksum")));
        let sends = format!("seq 1 20000 | $HANARE queue send {name} --create; seq 1 20000 | cksum");
        let sent = run(&mut shell(writer, &nodes[0], &sends)).done();
        assert_eq!(receives.wait().done(), sent, "{writer:?} to {reader:?}");
    }
}

/// Programs of today's library at both nodes: words, a lock, pages.
fn share(nodes: &[Node; 2]) {
    let pools = nodes.each_ref().map(|node| Pool::attach_to(&node.socket, None).unwrap());
    let options = CreateOptions { placement: format!("interleave={PAGE}").parse().unwrap(), ..CreateOptions::default() };
    pools[0].create("shared", 4 * PAGE, &options).unwrap();
    let regions = pools.each_ref().map(|pool| pool.open("shared").unwrap());
    for page in 0..4 {
        assert_eq!(add(&regions[page % 2], page as u64 * PAGE, 5), 0);
        assert_eq!(add(&regions[1 - page % 2], page as u64 * PAGE, 1), 5);
    }
    let lock = pools[0].lock("lock").unwrap();
    assert!(pools[1].try_lock("lock").unwrap().is_none(), "node 0's program has it");
    drop(lock);
    drop(pools[1].lock("lock").unwrap());
    let maps = regions.each_ref().map(|region| region.map(Consistency::Explicit).unwrap());
    for (from, to) in [(0, 1), (1, 0)] {
        let (offset, bytes) = (from as u64 * PAGE, [from as u8 + 70; 64]);
        maps[from].write(offset, &bytes).unwrap();
        maps[from].flush(0, 4 * PAGE).unwrap();
        maps[to].update(0, 4 * PAGE).unwrap();
        let mut back = [0; 64];
        maps[to].read(offset, &mut back).unwrap();
        assert_eq!(back, bytes);
    }
}

fn add(region: &Region, offset: u64, operand: u64) -> u64 {
    region.fetch_word(offset, Operator::Add, operand).unwrap()
}

/// Files of one build's mount in the other's.
fn write_and_read(nodes: &[Node; 2]) {
    if let Some(reason) = cannot_mount() {
        return hanare_testkit::unable(reason);
    }
    let mounts =
        [Mount::by(Build::Last.command(&[]), &nodes[0].socket, &[]), Mount::by(Build::Today.command(&[]), &nodes[1].socket, &[])];
    for (from, to) in [(0, 1), (1, 0)] {
        let name = format!("from{from}");
        std::fs::write(mounts[from].path(&name), vec![from as u8 + 1; 300_000]).unwrap();
        assert!(std::fs::read(mounts[to].path(&name)).unwrap() == vec![from as u8 + 1; 300_000], "{name}");
    }
    mounts.into_iter().for_each(Mount::end);
}

#[test]
fn programs_and_nodes_of_two_releases_work_together() {
    let folder = tempfile::tempdir().unwrap();
    for builds in [[Build::Last, Build::Today], [Build::Today, Build::Last]] {
        let nodes = pool_of(builds);
        put_and_get(&nodes, folder.path());
        send_and_receive(&nodes);
        share(&nodes);
        write_and_read(&nodes);
        let told = run(&mut by(Build::Today, &nodes[0], &["status", "--json"])).json();
        let wires: Vec<u64> = told["nodes"].as_array().unwrap().iter().map(|node| node["wire"].as_u64().unwrap()).collect();
        let wire = |build| u64::from(if build == Build::Last { OLDEST } else { NEWEST });
        assert_eq!(wires, builds.map(wire), "{told}");
        let told = run(&mut by(Build::Today, &nodes[0], &["doctor"])).stdout;
        let told = String::from_utf8(told).unwrap();
        assert!(told.contains("versions") && (NEWEST == OLDEST || told.contains("what is new waits for all")), "{told}");
    }
}

/// A program counts, is told to rest, or rests.
const COUNTS: u8 = 0;
const IS_TO_REST: u8 = 1;
const RESTS: u8 = 2;

#[test]
fn a_pool_is_brought_up_to_date_node_by_node_while_programs_use_it() {
    let mut keepers = Keepers::start_of(Build::Last);
    keepers.leader();
    let options = CreateOptions { copies: 2, ..CreateOptions::default() };
    keepers.client(0).create("counted", PAGE, &options).unwrap();
    // A program of each host counts on, but while its own node is ended.
    let (stop, counts, turns) = (AtomicBool::new(false), [0; 3].map(AtomicU64::new), [COUNTS; 3].map(AtomicU8::new));
    let sockets: Vec<String> = keepers.nodes.iter().map(|node| node.socket.clone()).collect();
    std::thread::scope(|scope| {
        for (at, socket) in sockets.iter().enumerate() {
            let (stop, count, turn) = (&stop, &counts[at], &turns[at]);
            scope.spawn(move || {
                let region = Pool::attach_to(socket, None).unwrap().open("counted").unwrap();
                while !stop.load(Ordering::Relaxed) {
                    if turn.load(Ordering::Acquire) != COUNTS {
                        let _ = turn.compare_exchange(IS_TO_REST, RESTS, Ordering::AcqRel, Ordering::Acquire);
                        std::thread::park_timeout(std::time::Duration::from_millis(5));
                        continue;
                    }
                    assert_eq!(add(&region, at as u64 * 8, 1), count.load(Ordering::Relaxed));
                    count.fetch_add(1, Ordering::AcqRel);
                }
            });
        }
        let stopper = crate::keepers::Stopper(&stop);
        for (at, turn) in turns.iter().enumerate() {
            // What is new waits until all know it.
            let node = &keepers.nodes[(at + 2) % 3];
            let early = run(Build::Today.command(&["tenant", "create", "team"]).env("HANARE_NODE", &node.socket));
            early.refused(&[&format!("speaks wire version {OLDEST}"), "bring it up to date first"]);
            turn.store(IS_TO_REST, Ordering::Release);
            wait_until("its program rests", || turn.load(Ordering::Acquire) == RESTS);
            keepers.upgrade(at);
            turn.store(COUNTS, Ordering::Release);
            let before = counts.each_ref().map(|count| count.load(Ordering::Acquire));
            wait_until("all count on", || (0..3).all(|at| counts[at].load(Ordering::Acquire) > before[at] + 20));
            let whole = |pool: &Pool| pool.stat("counted").is_ok_and(|stat| stat.whole_copies == 2);
            wait_until("both copies are there again", || whole(&keepers.client((at + 1) % 3)));
        }
        drop(stopper);
    });
    let pool = keepers.client(1);
    let region = pool.open("counted").unwrap();
    for (at, count) in counts.iter().enumerate() {
        assert_eq!(add(&region, at as u64 * 8, 0), count.load(Ordering::Acquire), "program {at}");
    }
    assert!(pool.status().unwrap().nodes.iter().all(|node| node.memory.versions.newest == NEWEST));
    // Once it is used, a node that does not know it is refused.
    let socket = &keepers.nodes[0].socket;
    run(Build::Today.command(&["tenant", "create", "team"]).env("HANARE_NODE", socket)).done();
    // The last release waits for ever at a keeper that does not lead.
    let leader = keepers.nodes[keepers.leader()].address();
    let words = ["node", "--memory", "1M", "--listen", "127.0.0.1:0", "--name", "late", "--join", leader];
    let mut late = Build::Last.command(&words);
    late.env("HANARE_KEY", pool::key()).env("HANARE_NODE", format!("{socket}-late"));
    run(&mut late).refused(&["this node", &format!("speaks wire version {OLDEST}")]);
}
