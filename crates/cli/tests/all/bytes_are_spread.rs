//! `hanare rebalance`: a node that has joined gets its part of the pool's bytes.

use crate::pool;

use pool::{Nodes, Running, command, key, run};
use serde_json::Value;

const REGION_COUNT: usize = 6;

/// Bytes of region extents on each node.
fn bytes_on(nodes: &Nodes, node: u64) -> u64 {
    let names = (0..REGION_COUNT).map(|number| format!("r{number}")).chain(["here".to_owned()]);
    let stats = names.map(|name| nodes.hanare(&["region", "stat", &name, "--json"]).json());
    let on = |stat: Value| {
        let all = stat["nodes"].as_array().unwrap().clone();
        all.into_iter().filter(|part| part["node"] == node).filter_map(|part| part["bytes"].as_u64()).sum::<u64>()
    };
    stats.map(on).sum()
}

#[test]
fn a_node_that_has_joined_gets_its_part() {
    let nodes = Nodes::start(2);
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let bytes: Vec<u8> = (0..8u32 << 20).map(|at| (at / 3 % 251) as u8).collect();
    std::fs::write(path("in"), &bytes).unwrap();
    for number in 0..REGION_COUNT {
        let name = format!("r{number}");
        nodes.hanare(&["region", "create", &name, "8M", "--place", "interleave=64K"]).done();
        nodes.hanare(&["region", "cp", &path("in"), &name]).done();
    }
    assert!(nodes.hanare(&["rebalance"]).done().contains("nothing is to be moved"));
    nodes.hanare(&["region", "create", "here", "8M", "--place", "node=0"]).done();
    let socket = format!("@hanare-spread-{}", std::process::id());
    let words = ["node", "--memory", "64M", "--listen", "127.0.0.1:0", "--name", "last", "--socket", &socket];
    let mut last = Running::start(command(&words).args(["--join", &nodes.nodes[0].address]).env("HANARE_KEY", key()));
    last.wait_for("lends 64 MiB");
    let planned = nodes.hanare(&["rebalance", "--dry-run", "--json"]).json();
    let count = planned["moves"].as_array().unwrap().len();
    assert!(count >= 3 && planned["moves"].as_array().unwrap().iter().all(|next| next["to"] == 2), "{planned}");
    assert_eq!((bytes_on(&nodes, 2), &planned["bound"]), (0, &Value::from(8 << 20)));
    let told = nodes.hanare(&["rebalance"]).done();
    assert!(told.contains("REGION") && told.contains(&format!("{count} moves, ")) && told.contains(" moved. "), "{told}");
    let on = [0, 1, 2].map(|node| bytes_on(&nodes, node));
    assert!(on.iter().all(|bytes| *bytes >= 12 << 20), "{on:?}");
    assert!(nodes.hanare(&["rebalance"]).done().contains("nothing is to be moved"));
    for number in 0..REGION_COUNT {
        nodes.hanare(&["region", "cp", &format!("r{number}"), &path("out")]).done();
        assert!(std::fs::read(path("out")).unwrap() == bytes, "r{number}");
    }
    // A program of the new node's host reads and writes what is there by now.
    let near = |words: &[&str]| run(command(words).env("HANARE_NODE", &socket).env("HANARE_KEY", key()));
    near(&["region", "cp", &path("in"), "r0"]).done();
    let ended = nodes.hanare(&["rebalance", "--stop"]).done();
    assert!(ended.contains("bytes move no more"), "{ended}");
    last.child.kill().unwrap();
    last.child.wait().unwrap();
}
