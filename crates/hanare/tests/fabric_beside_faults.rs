//! UCX replaces the process's signal handlers while it is opened: that is over before the first fault may come.

#[path = "support/processes.rs"]
mod processes;
mod support;

hanare_testkit::actors![maps_then_talks_to_another_node, processes::node_process,];

use hanare::{Consistency, CreateOptions, NodeId, Placement, Pool};
use processes::{Process, end_with_the_test, say_ready};
use support::TestPool;

fn has_ucx() -> bool {
    std::fs::read_to_string("/proc/self/maps").unwrap().contains("libucp")
}

fn maps_then_talks_to_another_node() {
    let Ok(socket) = std::env::var("TEST_SOCKET") else { return };
    end_with_the_test();
    let pool = Pool::attach_to(&socket, None).unwrap();
    let mapping = pool.open("a").unwrap().map(Consistency::Explicit).unwrap();
    let when_mapped = has_ucx();
    // The first connection that may go over UCX.
    drop(pool.lock("a").unwrap());
    say_ready(&format!("{when_mapped} {}", has_ucx()));
    drop(mapping);
}

#[test]
fn a_fabrics_library_is_opened_before_the_first_mapping_or_never() {
    let pool = TestPool::start(2, 16 << 20);
    let options = CreateOptions { placement: Placement::Node(NodeId(0)), ..CreateOptions::default() };
    pool.client(0).create("a", 8192, &options).unwrap();
    let said = |fabric| {
        let variables = [("TEST_SOCKET", pool.nodes[1].socket()), ("HANARE_FABRIC", fabric)];
        Process::start("maps_then_talks_to_another_node", &variables).1
    };
    let auto = said("auto");
    assert!(auto == "true true" || auto == "false false", "{auto}: opened while pages are mapped");
    assert_eq!(said("tcp"), "false false", "it is not wanted");
}
