//! Nodes that keep their bytes on disk, from one life to the next.

use crate::support;

use hanare::node::{Node, NodeOptions, Persist, new_key_file};
use hanare::{CreateOptions, NodeId, Placement, Pool};
use std::path::Path;
use support::TestPool;

const GREETING: &[u8] = b"good morning";

fn on(node: u32) -> CreateOptions {
    CreateOptions { placement: Placement::Node(NodeId(node)), ..CreateOptions::default() }
}

/// A node of one name, which keeps its bytes in a folder.
fn kept(pool: &TestPool, folder: &Path) -> NodeOptions {
    let persist = Some(Persist { folder: folder.to_owned(), every: None });
    NodeOptions { persist, name: "kept".to_owned(), join: Some(pool.nodes[0].address().to_owned()), ..support::options(16 << 20) }
}

fn greeting(pool: &Pool) -> Vec<u8> {
    let mut bytes = vec![0; GREETING.len()];
    pool.open("greeting").unwrap().get(0, &mut bytes).unwrap();
    bytes
}

#[test]
fn a_start_that_fails_leaves_what_was_kept_to_the_next() {
    let (pool, folder) = (TestPool::start(1, 16 << 20), tempfile::tempdir().unwrap());
    let client = pool.client(0);
    let node = Node::start(kept(&pool, folder.path())).unwrap();
    client.create("greeting", 1 << 20, &on(node.id().0)).unwrap().put(0, GREETING).unwrap();
    drop(node);
    let other_key = folder.path().join("other.key");
    new_key_file(&other_key).unwrap();
    assert!(Node::start(NodeOptions { key: Some(other_key), ..kept(&pool, folder.path()) }).is_err());
    let _node = Node::start(kept(&pool, folder.path())).unwrap();
    assert_eq!(greeting(&client), GREETING);
}
