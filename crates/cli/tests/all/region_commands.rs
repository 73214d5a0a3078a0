//! Regions are created, listed, described, made longer and removed by the command.

use crate::pool;

use pool::Nodes;

// FEATURE: RF-F4
#[test]
fn a_region_lives_from_create_to_rm() {
    let nodes = Nodes::start(2);
    assert_eq!(nodes.hanare(&["region", "create", "a", "1MiB"]).done(), "");
    nodes.hanare(&["region", "create", "b", "64K", "--place", "interleave=4K", "--mode", "0640"]).done();
    nodes.hanare(&["region", "create", "c", "1", "--place", "node=1"]).done();

    let list = nodes.hanare_on(1, &["region", "ls", "--json"]).json();
    let names: Vec<_> = list.as_array().unwrap().iter().map(|region| region["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["a", "b", "c"]);
    let text = nodes.hanare(&["region", "ls"]).done();
    assert_eq!(text.lines().count(), 4, "a heading and three regions: {text}");

    let b = nodes.hanare(&["region", "stat", "b", "--json"]).json();
    assert_eq!(
        (b["size"].as_u64(), b["mode"].as_str(), b["place"].as_str()),
        (Some(65536), Some("0640"), Some("interleave=4096"))
    );
    let bytes: Vec<_> = b["nodes"].as_array().unwrap().iter().map(|node| node["bytes"].as_u64().unwrap()).collect();
    assert_eq!(bytes, [32768, 32768]);
    let c = nodes.hanare(&["region", "stat", "c", "--json"]).json();
    assert_eq!((c["size"].as_u64(), c["nodes"][0]["node"].as_u64()), (Some(1), Some(1)));

    nodes.hanare(&["region", "resize", "a", "3M"]).done();
    assert_eq!(nodes.hanare_on(1, &["region", "stat", "a", "--json"]).json()["size"], 3 << 20);
    nodes.hanare(&["region", "rm", "a", "b"]).done();
    let list = nodes.hanare(&["region", "ls", "--json"]).json();
    assert_eq!(list.as_array().unwrap().len(), 1);
    nodes.hanare(&["region", "stat", "a"]).refused(&["'a'", "does not exist"]);
}

#[test]
fn status_shows_what_each_node_lends_and_holds() {
    let nodes = Nodes::start(2);
    nodes.hanare(&["region", "create", "r", "2M", "--place", "node=1"]).done();
    pool::wait_until("node 1 reports 2 MiB in use", || {
        let status = nodes.hanare(&["status", "--json"]).json();
        assert_eq!(status["nodes"].as_array().unwrap().len(), 2);
        status["regions"] == 1 && status["nodes"][1]["used"].as_u64() >= Some(2 << 20) && status["nodes"][0]["alive"] == true
    });
    let text = nodes.hanare(&["status"]).done();
    assert!(text.contains("alive") && text.contains("2 nodes, 1 region"), "{text}");
}
