//! A node joins its pool by the address of any node of it, and learns who else may lead.

use crate::keepers::Keepers;
use crate::pool;

use hanare::{CreateOptions, Pool};
use pool::{Node, Nodes, wait_until};

/// A program of the node makes a region, as soon as a coordinator answers.
fn create(node: &Node, name: &str) {
    let pool = Pool::attach_to(&node.socket, None).unwrap();
    wait_until(name, || pool.create(name, 4096, &CreateOptions::default()).is_ok());
}

#[test]
fn a_node_joins_a_pool_with_keepers_by_any_of_its_nodes() {
    let mut keepers = Keepers::start();
    let leader = keepers.leader();
    let mut nodes: Vec<Node> = keepers.nodes.iter().map(|keeper| Node::start(Some(keeper.address()), &[])).collect();
    nodes.push(Node::start(Some(&nodes[leader].address), &[]));
    for (at, node) in nodes.iter().enumerate() {
        create(node, &format!("by {at}"));
    }
    // Each has learned the other keepers from the coordinator.
    keepers.kill(leader);
    for (at, node) in nodes.iter().enumerate() {
        create(node, &format!("after {at}"));
    }
}

#[test]
fn a_node_joins_a_pool_with_one_coordinator_by_any_of_its_nodes() {
    let pool = Nodes::start(2);
    let node = Node::start(Some(&pool.nodes[1].address), &[]);
    create(&node, "third");
    let status = Pool::attach_to(&node.socket, None).unwrap().own_status().unwrap();
    assert_eq!(status.coordinator.address, pool.nodes[0].address);
    assert_eq!(status.keepers, [], "there are none");
}
