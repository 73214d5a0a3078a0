//! `hanare region set NAME copies=N` and `hanare node drain N`, on nodes in processes of their own.

use crate::pool;

use hanare::{Pool, ReadPort};
use pool::{Nodes, Running, command, key, signal, wait_until};

/// A program that reads a queue, and keeps its region from moving.
fn reader(nodes: &Nodes, queue: &str) -> ReadPort {
    Pool::attach_to(&nodes.nodes[0].socket, None).unwrap().open_queue(queue).unwrap().reader().unwrap()
}

#[test]
fn a_node_that_is_told_to_end_gives_away_what_it_holds_first() {
    let nodes = Nodes::start(2);
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let socket = format!("@hanare-last-words-{}", std::process::id());
    let words =
        ["node", "--memory", "64M", "--listen", "127.0.0.1:0", "--name", "last", "--socket", &socket, "--drain-on-term", "60"];
    let last = Running::start(command(&words).args(["--join", &nodes.nodes[0].address]).env("HANARE_KEY", key()));
    last.wait_for("lends 64 MiB");
    let bytes: Vec<u8> = (0..5u32 << 20).map(|at| (at / 3 % 251) as u8).collect();
    std::fs::write(path("in"), &bytes).unwrap();
    nodes.hanare(&["region", "create", "a", "5M", "--place", "node=2"]).done();
    nodes.hanare(&["region", "cp", &path("in"), "a"]).done();
    nodes.hanare(&["queue", "create", "q", "--block", "64", "--place", "node=2"]).done();
    let _reader = reader(&nodes, "q");
    signal("TERM", last.pid());
    let ended = last.wait();
    // What cannot move is named, and goes with the node.
    assert!(ended.stderr.contains("q: ") && ended.stderr.contains("of regions have not moved"), "{}", ended.stderr);
    assert_eq!(ended.status.code(), Some(0));
    nodes.hanare(&["region", "cp", "a", &path("out")]).done();
    assert!(std::fs::read(path("out")).unwrap() == bytes);
    // One that has nowhere to give it ends soon, and by a second signal at once.
    for (name, place) in [("filler0", "node=0"), ("filler1", "node=1")] {
        nodes.hanare(&["region", "create", name, "8M", "--place", place]).done();
    }
    let full = Running::start(command(&words).args(["--join", &nodes.nodes[0].address]).env("HANARE_KEY", key()));
    full.wait_for("lends 64 MiB");
    let on = nodes.hanare(&["status", "--json"]).json()["nodes"].as_array().unwrap().last().unwrap()["node"].clone();
    nodes.hanare(&["region", "create", "big", "62M", "--place", &format!("node={on}")]).done();
    signal("TERM", full.pid());
    wait_until("it drains", || {
        let status = nodes.hanare(&["status", "--json"]).json();
        status["nodes"].as_array().unwrap().iter().any(|node| node["node"] == on && node["drains"] == true)
    });
    signal("INT", full.pid());
    assert!(full.wait().stderr.contains("62 MiB of regions have not moved"));
}

#[test]
fn a_drain_keeps_to_the_rate_that_the_operator_set_while_commands_go_on() {
    const RATE: u64 = 4 << 20;
    const LEN: u64 = 12 << 20;
    let mut nodes = Nodes::start(1);
    let slow = pool::Node::start(Some(&nodes.nodes[0].address), &["--copy-rate", "4M"]);
    nodes.nodes.push(slow);
    for part in 0..3 {
        let (name, len) = (format!("r{part}"), (LEN / 3).to_string());
        nodes.hanare(&["region", "create", &name, &len, "--place", "node=1"]).done();
    }
    let client = Pool::attach_to(&nodes.nodes[0].socket, None).unwrap();
    let regions: Vec<_> = (0..3).map(|part| client.open(&format!("r{part}")).unwrap()).collect();
    let bytes: Vec<u8> = (0..LEN / 3).map(|at| (at % 241) as u8).collect();
    regions.iter().for_each(|region| region.put(0, &bytes).unwrap());
    let begun = std::time::Instant::now();
    let drains = Running::start(command(&["node", "drain", "1"]).env("HANARE_NODE", &nodes.nodes[0].socket));
    // Programs write on meanwhile, and each byte is there at the end.
    let mut rounds = 0u64;
    while client.stat("r2").unwrap().nodes.iter().any(|(node, _)| node.0 == 1) {
        rounds += 1;
        regions.iter().for_each(|region| region.put(rounds % (LEN / 24) * 8, &rounds.to_le_bytes()).unwrap());
        assert!(begun.elapsed() < pool::paced(pool::BOUND), "the drain ends");
    }
    drains.wait().done();
    assert!(begun.elapsed().as_secs_f64() > LEN as f64 / RATE as f64 * 0.8, "{:?}", begun.elapsed());
    for region in &regions {
        let mut back = vec![0; bytes.len()];
        region.get(0, &mut back).unwrap();
        let at = |round: u64| (round % (LEN / 24) * 8) as usize;
        let mut expected = bytes.clone();
        (1..=rounds).for_each(|round| expected[at(round)..at(round) + 8].copy_from_slice(&round.to_le_bytes()));
        assert!(back == expected, "{}", region.name());
    }
}

#[test]
fn what_it_holds_moves_and_it_ends() {
    let nodes = Nodes::start(3);
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let socket = format!("@hanare-drained-{}", std::process::id());
    let words = ["node", "--memory", "64M", "--listen", "127.0.0.1:0", "--name", "last", "--socket", &socket];
    let last = Running::start(command(&words).args(["--join", &nodes.nodes[0].address]).env("HANARE_KEY", key()));
    last.wait_for("lends 64 MiB");
    nodes.hanare(&["region", "create", "a", "5M", "--place", "node=3", "--copies", "2"]).done();
    let bytes: Vec<u8> = (0..5u32 << 20).map(|at| (at / 3 % 251) as u8).collect();
    std::fs::write(path("in"), &bytes).unwrap();
    nodes.hanare(&["region", "cp", &path("in"), "a"]).done();
    nodes.hanare(&["region", "set", "a", "copies=3"]).done();
    let stat = || nodes.hanare(&["region", "stat", "a", "--json"]).json();
    wait_until("it has three copies", || stat()["whole_copies"] == 3);
    assert_eq!(nodes.hanare(&["region", "set", "a", "copies=4"]).status.code(), Some(2));
    nodes.hanare(&["region", "create", "plain", "64K", "--place", "node=3"]).done();
    nodes.hanare(&["queue", "create", "q", "--block", "64", "--place", "node=3"]).done();
    nodes.hanare(&["queue", "create", "idle", "--block", "64", "--place", "node=3"]).done();
    let reader = reader(&nodes, "q");
    // What cannot move is named, and the rest has gone.
    let drained = nodes.hanare(&["node", "drain", "3"]);
    assert_eq!(drained.status.code(), Some(1), "{}", drained.stderr);
    let told = String::from_utf8_lossy(&drained.stdout);
    assert!(told.contains("q: ") && told.contains(" stay. It does not move now: programs use queues in it"), "{told}");
    assert!(!told.contains("idle: "), "{told}");
    drop(reader);
    let plain = nodes.hanare(&["region", "stat", "plain", "--json"]).json();
    assert!(plain["nodes"].as_array().unwrap().iter().all(|node| node["node"] != 3), "{plain}");
    assert_eq!(stat()["whole_copies"], 3);
    nodes.hanare(&["region", "create", "b", "4K", "--place", "node=3"]).refused(&["node drain 3 --stop"]);
    let state = |number: usize| nodes.hanare(&["status", "--json"]).json()["nodes"][number]["drains"].clone();
    assert_eq!((state(2), state(3)), (false.into(), true.into()));
    nodes.hanare(&["region", "rm", "q"]).done();
    assert!(nodes.hanare(&["node", "drain", "3"]).done().contains("holds nothing: its process may end"));
    signal("TERM", last.pid());
    assert!(last.wait().done().contains("ends; it holds no region"));
    nodes.hanare(&["region", "cp", "a", &path("out")]).done();
    assert!(std::fs::read(path("out")).unwrap() == bytes);
    assert_eq!(stat()["lost"], serde_json::Value::Null);
    nodes.hanare(&["node", "drain", "3"]).refused(&["no member"]);
}
