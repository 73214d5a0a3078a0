//! While the coordinator is away `hanare status` says so at once, and shows what this host's node knows.

use crate::pool;

use pool::{Nodes, paced};
use std::time::{Duration, Instant};

/// What status prints of a pool whose coordinator is gone, when the other node has found out.
fn when_it_is_away(nodes: &Nodes) {
    let told = || nodes.hanare_on(1, &["status"]);
    pool::wait_until("the coordinator is missed", || told().status.code() == Some(1));
    let begun = Instant::now();
    let ended = told();
    assert!(begun.elapsed() < paced(Duration::from_secs(5)), "at once, and not after the bound of 10 s: {:?}", begun.elapsed());
    assert_eq!(ended.status.code(), Some(1));
    let text = String::from_utf8_lossy(&ended.stdout).into_owned();
    let row =
        |state: &str| text.lines().find(|line| line.contains(state)).unwrap_or_else(|| panic!("no {state} in {text}")).to_owned();
    assert!(row(" away ").contains(&nodes.nodes[0].address) && row(" away ").contains(" ?"), "{text}");
    assert!(row(" here ").contains(&nodes.nodes[1].address) && row(" here ").contains("64 MiB"), "{text}");
    ended.refused(&["the coordinator (node 0 at ", &nodes.nodes[0].address, "node 1 knows", "2 regions have bytes on it"]);

    let ended = nodes.hanare_on(1, &["status", "--json"]);
    let said: serde_json::Value = serde_json::from_slice(&ended.stdout).expect("one value");
    assert_eq!(said["coordinator_away"]["address"].as_str(), Some(nodes.nodes[0].address.as_str()), "{said}");
    assert_eq!((said["regions_here"].as_u64(), said["nodes"][0]["node"].as_u64()), (Some(2), Some(1)), "{said}");
}

fn pool() -> Nodes {
    let nodes = Nodes::start(2);
    nodes.hanare(&["region", "create", "a", "1M", "--place", "node=1"]).done();
    nodes.hanare(&["region", "create", "b", "1M", "--place", "interleave=64K"]).done();
    nodes
}

#[test]
fn when_the_coordinator_has_died() {
    let mut nodes = pool();
    nodes.nodes[0].process.kill().unwrap();
    nodes.nodes[0].process.wait().unwrap();
    when_it_is_away(&nodes);
}

#[test]
fn when_it_is_silent_and_comes_back() {
    let nodes = pool();
    pool::signal("STOP", nodes.nodes[0].process.id());
    when_it_is_away(&nodes);
    pool::signal("CONT", nodes.nodes[0].process.id());
    pool::wait_until("it is back", || nodes.hanare_on(1, &["status"]).status.success());
}
