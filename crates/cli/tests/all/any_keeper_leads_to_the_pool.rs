//! A node joins its pool by the address of any keeper, and learns who else may lead.

use crate::keepers::Keepers;
use crate::pool;

use hanare::{CreateOptions, Pool};
use pool::{Node, wait_until};

/// A program of the node makes a region, as soon as a coordinator answers.
fn create(node: &Node, name: &str) {
    let pool = Pool::attach_to(&node.socket, None).unwrap();
    wait_until(name, || pool.create(name, 4096, &CreateOptions::default()).is_ok());
}

#[test]
fn a_node_joins_by_the_address_of_any_keeper() {
    let mut keepers = Keepers::start();
    let leader = keepers.leader();
    let nodes: Vec<Node> = keepers.nodes.iter().map(|keeper| Node::start(Some(keeper.address()), &[])).collect();
    for (at, node) in nodes.iter().enumerate() {
        create(node, &format!("by {at}"));
    }
    // Each has learned the other keepers from the coordinator.
    keepers.kill(leader);
    for (at, node) in nodes.iter().enumerate() {
        create(node, &format!("after {at}"));
    }
}
