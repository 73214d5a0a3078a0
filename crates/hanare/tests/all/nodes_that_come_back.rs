//! Programs whose node, or another one, has ended and is back: they go on with the handles that they have.

use crate::apart::{Apart, until};
use crate::support::{self, TestPool, on, pattern};
use hanare::node::{Node, NodeOptions, Persist};
use hanare::{Consistency, Error, Pool, Region};

const LEN: u64 = 1 << 20;
const PAGE: usize = 4096;

fn filled(pool: &Pool, name: &str, node: u32) -> Region {
    let region = pool.create(name, LEN, &on(node)).unwrap();
    region.put(0, &pattern(LEN as usize, u64::from(node))).unwrap();
    region
}

#[track_caller]
fn assert_holds(region: &Region, seed: u64) {
    let mut bytes = vec![0; LEN as usize];
    region.get(0, &mut bytes).unwrap();
    assert!(bytes == pattern(LEN as usize, seed));
}

#[track_caller]
fn assert_lost(outcome: Result<(), Error>, node: u32) {
    let error = outcome.unwrap_err();
    assert!(matches!(error, Error::RegionLost { node: lost, .. } if lost.0 == node), "{error}");
}

/// Asks without pause, as a program would that knows nothing of its node's end.
fn wait_for_node(pool: &Pool) {
    until("the program is attached again", || pool.status().is_ok());
}

#[test]
fn a_program_whose_own_node_stood_still_for_longer_than_it_waits_goes_on() {
    let pool = Apart::start(2);
    let program = pool.client(1);
    // One that is too small to be mapped is reached by messages to the node.
    let small = program.create("small", 64, &on(1)).unwrap();
    small.put(0, &[7; 64]).unwrap();
    pool.stop(1);
    // The node may take some before it stops.
    let error = std::iter::repeat_with(|| small.put(0, &[8; 64])).find_map(Result::err).unwrap();
    assert!(matches!(error, Error::Timeout { .. }), "{error}");
    pool.go_on(1);
    let mut bytes = [0; 64];
    until("gets are answered again", || small.get(0, &mut bytes).is_ok());
    assert!(bytes == [7; 64] || bytes == [8; 64], "{bytes:?}");
    small.put(0, &[9; 64]).unwrap();
}

#[test]
fn a_program_whose_own_node_is_back_goes_on_with_its_handles() {
    let mut pool = Apart::start_kept(3);
    let program = pool.client(1);
    let (own, far, third) = (filled(&program, "own", 1), filled(&program, "far", 0), filled(&program, "third", 2));
    // One that is too small to be mapped is reached by messages to the node.
    let small = program.create("small", 64, &on(1)).unwrap();
    small.put(0, &[7; 64]).unwrap();
    let mapping = far.map(Consistency::Coherent).unwrap();
    mapping.write(0, &pattern(PAGE, 0)).unwrap();
    let first = program.lock("a").unwrap();
    pool.kill(1);
    assert!(small.put(0, &[8; 64]).is_err());
    let error = small.put(0, &[8; 64]).unwrap_err();
    assert!(matches!(error, Error::NodeLost { node, .. } if node.0 == 1), "{error}");
    assert!(error.to_string().contains("once it is back"), "{error}");
    pool.start_again(1);
    wait_for_node(&program);

    assert_holds(&third, 2);
    third.put(0, &pattern(LEN as usize, 9)).unwrap();
    assert_holds(&third, 9);
    assert_lost(own.put(0, &[1; 8]), 1);
    assert_lost(own.get(0, &mut [0; 8]), 1);
    assert_lost(small.get(0, &mut [0; 8]), 1);
    assert_lost(program.open("own").map(drop), 1);
    let again = program.create_or_attach("own", LEN, &on(1)).unwrap();
    assert!(again.renewed());
    again.put(0, &pattern(LEN as usize, 1)).unwrap();
    assert_holds(&again, 1);

    assert!(program.check_stores().is_err(), "stores of the life before went with the node");
    assert!(mapping.read(LEN - PAGE as u64, &mut [0; 8]).is_err(), "a page that never came does not come any more");
    drop(mapping);
    let mapping = far.map(Consistency::Coherent).unwrap();
    assert!(matches!(mapping.write(0, &[5; 8]), Err(Error::PageLost { .. })), "the node's host had that page");
    let at = 8 * PAGE as u64;
    mapping.write(at, &[5; 8]).unwrap();
    let mut bytes = [0; 8];
    pool.client(0).open("far").unwrap().get(at, &mut bytes).unwrap();
    assert_eq!(bytes, [5; 8]);

    // Its home has it as long as the connection to this program lasts.
    let given_back = first.unlock();
    assert!(matches!(given_back, Ok(()) | Err(Error::LockLost { .. })), "{given_back:?}");
    let mut lock = program.lock("a").unwrap();
    for _ in 0..40 {
        lock.unlock().unwrap();
        lock = program.lock("a").unwrap();
    }
    lock.unlock().unwrap();
}

#[test]
fn a_program_outlives_several_lives_of_its_node() {
    let mut pool = Apart::start(2);
    let program = pool.client(1);
    let far = filled(&program, "far", 0);
    for life in 0..4 {
        let own = program.create_or_attach("own", LEN, &on(1)).unwrap();
        own.put(0, &pattern(LEN as usize, life)).unwrap();
        assert_holds(&own, life);
        assert_holds(&far, 0);
        pool.kill(1);
        pool.start_again(1);
        wait_for_node(&program);
        assert_lost(own.get(0, &mut [0; 8]), 1);
    }
}

#[test]
fn a_far_node_that_is_back_gives_nothing_old_and_takes_what_is_new() {
    let mut pool = Apart::start(2);
    let program = pool.client(0);
    let (near, far) = (filled(&program, "near", 0), filled(&program, "far", 1));
    let mapping = far.map(Consistency::Coherent).unwrap();
    mapping.read(0, &mut [0; 8]).unwrap();
    pool.kill(1);
    let error = far.get(LEN / 2, &mut [0; 8]).unwrap_err();
    assert!(matches!(error, Error::NodeLost { .. } | Error::RegionLost { .. } | Error::PageLost { .. }), "{error}");
    pool.start_again(1);
    until("the node is a member again", || program.create_or_attach("far", LEN, &on(1)).is_ok());
    assert!(mapping.read(LEN - PAGE as u64, &mut [0; 8]).is_err());
    drop(mapping);
    let error = far.get(0, &mut [0; 8]).unwrap_err();
    assert!(matches!(error, Error::UnknownRegion { .. } | Error::RegionLost { .. }), "{error}");
    let again = program.open("far").unwrap();
    again.put(0, &pattern(LEN as usize, 3)).unwrap();
    assert_holds(&again, 3);
    assert_holds(&near, 0);
}

/// A node that keeps its bytes has them in its next life, in other memory: the handle finds them there.
#[test]
fn handles_find_the_bytes_that_their_own_node_kept() {
    let (pool, folder) = (TestPool::start(1, 16 << 20), tempfile::tempdir().unwrap());
    let persist = Some(Persist { folder: folder.path().to_owned(), every: None });
    let join = Some(pool.nodes[0].address().to_owned());
    let options = NodeOptions { persist, name: "kept".to_owned(), join, ..support::options(16 << 20) };
    let node = Node::start(options.clone()).unwrap();
    let (program, number) = (Pool::attach_to(node.socket(), None).unwrap(), node.id().0);
    let region = filled(&program, "own", number);
    drop(node);
    let node = Node::start(options).unwrap();
    wait_for_node(&program);
    assert_holds(&region, u64::from(number));
    region.put(0, &pattern(LEN as usize, 77)).unwrap();
    assert_holds(&Pool::attach_to(node.socket(), None).unwrap().open("own").unwrap(), 77);
}
