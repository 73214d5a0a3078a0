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
fn a_region_lies_on_the_nodes_that_are_named_and_is_made_again_so() {
    let nodes = Nodes::start(4);
    nodes.hanare(&["region", "create", "a", "256K", "--place", "nodes=3,0-1:64K"]).done();
    let lies = |name: &str| {
        let stat = nodes.hanare_on(2, &["region", "stat", name, "--json"]).json();
        let on = stat["nodes"]
            .as_array()
            .unwrap()
            .iter()
            .map(|node| (node["node"].as_u64().unwrap(), node["bytes"].as_u64().unwrap()));
        (stat["place"].as_str().unwrap().to_owned(), on.collect::<Vec<_>>())
    };
    let (place, on) = lies("a");
    // Four chunks over three nodes: the first named one has two.
    assert_eq!((place.as_str(), on.as_slice()), ("nodes=3,0-1:65536", &[(0, 65536), (1, 65536), (3, 131_072)][..]));
    nodes.hanare(&["region", "create", "again", "256K", "--place", &place]).done();
    assert_eq!(lies("again"), (place, on));
    assert!(nodes.hanare(&["region", "ls"]).done().contains("nodes=3,0-1:64KiB"));

    nodes.hanare(&["region", "resize", "a", "448K"]).done();
    assert_eq!(lies("a").1, [(0, 131_072), (1, 131_072), (3, 196_608)], "what is added lies so too");
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = (folder.path().join("one"), folder.path().join("two"));
    let bytes: Vec<u8> = (0..448u32 << 10).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    std::fs::write(&one, &bytes).unwrap();
    nodes.hanare(&["region", "cp", one.to_str().unwrap(), "a"]).done();
    nodes.hanare_on(1, &["region", "cp", "a", two.to_str().unwrap()]).done();
    assert!(std::fs::read(&two).unwrap() == bytes);

    let create = |place: &str| nodes.hanare(&["region", "create", "x", "256K", "--place", place]);
    create("nodes=0,9:64K").refused(&["nodes=0,9:65536", "node 9"]);
    create("nodes=2:512M").done();
    for (place, word) in [("nodes=0,0:64K", "twice"), ("nodes=0,1", "write local"), ("nodes=0:5000", "power of two")] {
        let ended = create(place);
        assert!(!ended.status.success() && ended.stderr.contains(word), "{}", ended.stderr);
    }
}

#[test]
fn a_region_with_copies_outlives_its_node() {
    let mut nodes = Nodes::start(3);
    nodes.hanare(&["region", "create", "a", "1M", "--place", "node=1", "--copies", "2"]).done();
    let ended = nodes.hanare(&["region", "create", "b", "1M", "--copies", "4"]);
    assert!(!ended.status.success() && ended.stderr.contains("1..=3"), "{}", ended.stderr);
    let folder = tempfile::tempdir().unwrap();
    let (one, two) = (folder.path().join("one"), folder.path().join("two"));
    let bytes: Vec<u8> = (0..1u32 << 20).map(|at| (at.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
    std::fs::write(&one, &bytes).unwrap();
    nodes.hanare(&["region", "cp", one.to_str().unwrap(), "a"]).done();
    assert!(nodes.hanare(&["region", "ls"]).done().contains("2 of 2 copies"));
    let stat = nodes.hanare(&["region", "stat", "a", "--json"]).json();
    assert_eq!((stat["copies"].as_u64(), stat["whole_copies"].as_u64()), (Some(2), Some(2)));
    nodes.nodes[1].process.kill().unwrap();
    nodes.hanare(&["region", "cp", "a", two.to_str().unwrap()]).done();
    assert!(std::fs::read(&two).unwrap() == bytes);
    pool::wait_until("another node has a copy", || {
        let stat = nodes.hanare(&["region", "stat", "a", "--json"]).json();
        stat["whole_copies"] == 2 && stat["nodes"].as_array().unwrap().iter().all(|node| node["node"] != 1)
    });
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
