//! Nodes that keep their bytes on disk, from one life to the next.

use crate::apart::until;
use crate::copies::drained;
use crate::support;

use hanare::node::{Node, NodeOptions, Persist, new_key_file};
use hanare::{Consistency, DrainWish, Error, Pool};
use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;
use support::{Ends, TestPool, on};

const GREETING: &[u8] = b"good morning";

/// A node of one name, which keeps its bytes in a folder.
fn kept(pool: &TestPool, folder: &Path) -> NodeOptions {
    kept_by("kept", pool, folder)
}

fn kept_by(name: &str, pool: &TestPool, folder: &Path) -> NodeOptions {
    let persist = Some(Persist { folder: folder.to_owned(), every: None });
    NodeOptions { persist, name: name.to_owned(), join: Some(pool.nodes[0].address().to_owned()), ..support::options(16 << 20) }
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

/// A node that ends while a program of its host puts one number after the other, without messages: the last that was told to be put is there.
#[test]
fn what_a_program_beside_the_node_was_told_is_put_is_there_after_a_good_end() {
    let (pool, folder) = (TestPool::start(1, 16 << 20), tempfile::tempdir().unwrap());
    let client = pool.client(0);
    let node = Node::start(kept(&pool, folder.path())).unwrap();
    client.create("greeting", 1 << 20, &on(node.id().0)).unwrap();
    let beside = Pool::attach_to(node.socket(), None).unwrap();
    let region = beside.open("greeting").unwrap();
    let has_ended = AtomicBool::new(false);
    let last = std::thread::scope(|scope| {
        let end = Ends(&has_ended);
        let writer = scope.spawn(|| {
            let (mut last, mut more) = (0u64, 1000);
            // A node that is gone refuses at some time.
            while more > 0 && region.put(0, &(last + 1).to_le_bytes()).is_ok() {
                last += 1;
                more -= u32::from(has_ended.load(SeqCst));
            }
            last
        });
        std::thread::sleep(Duration::from_millis(50));
        node.stop();
        node.wait().unwrap();
        drop((end, node));
        writer.join().unwrap()
    });
    let _node = Node::start(kept(&pool, folder.path())).unwrap();
    let mut word = [0; 8];
    client.open("greeting").unwrap().get(0, &mut word).unwrap();
    let is = u64::from_le_bytes(word);
    assert!([last, last + 1].contains(&is), "{last} was put, and {is} is there");
}

#[test]
fn pages_that_another_host_owns_are_home_before_they_are_written_down() {
    let (pool, folder) = (TestPool::start(1, 16 << 20), tempfile::tempdir().unwrap());
    let client = pool.client(0);
    let node = Node::start(kept(&pool, folder.path())).unwrap();
    let region = client.create("greeting", 1 << 20, &on(node.id().0)).unwrap();
    let mapping = region.map(Consistency::Coherent).unwrap();
    for page in 0..64 {
        mapping.write(page * 4096, GREETING).unwrap();
    }
    node.stop();
    node.wait().unwrap();
    drop(node);
    // Its home is gone, and it has nothing that is not there.
    let _ = mapping.unmap();
    let _node = Node::start(kept(&pool, folder.path())).unwrap();
    let region = client.open("greeting").unwrap();
    for page in 0..64 {
        let mut bytes = vec![0; GREETING.len()];
        region.get(page * 4096, &mut bytes).unwrap();
        assert_eq!(bytes, GREETING, "page {page}");
    }
}

/// The next home has the table of the heap, and asks nobody for a block before it ends.
#[test]
fn blocks_of_a_heap_that_moved_are_not_given_out_again_after_a_restart() {
    let (pool, folders) = (TestPool::start(1, 16 << 20), [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()]);
    let client = pool.client(0);
    let start = |name: usize| Node::start(kept_by(["one", "two"][name], &pool, folders[name].path())).unwrap();
    let (one, two) = (start(0), start(1));
    let region = client.create("greeting", 1 << 20, &on(one.id().0)).unwrap();
    let block = region.heap().allocate(GREETING.len() as u64, 16).unwrap();
    region.put(block, GREETING).unwrap();
    drained(&client, one.id().0);
    assert_eq!(client.stat("greeting").unwrap().nodes, [(two.id(), 1 << 20)]);
    two.stop();
    two.wait().unwrap();
    drop(two);
    let two = start(1);
    let region = client.open("greeting").unwrap();
    let mut bytes = vec![0; GREETING.len()];
    region.get(block, &mut bytes).unwrap();
    assert_eq!(bytes, GREETING);
    let refused = region.heap().allocate(64, 16);
    assert!(matches!(refused, Err(Error::BadUse { .. })), "{refused:?}");
    // No other home may begin the heap anew.
    client.drain(one.id(), &DrainWish::Stop).unwrap();
    client.drain(two.id(), &DrainWish::Begin { to: BTreeSet::new() }).unwrap();
    let stays = || client.drain(two.id(), &DrainWish::Look).unwrap().stays;
    until("the drain names it", || stays().iter().any(|region| format!("{:?}", region.why).contains("heap")));
    drop(one);
}
