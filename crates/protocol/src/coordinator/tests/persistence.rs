//! Regions that nodes write down: where they move, and which bytes a node's next life may bring back.

use super::copies::{admit, any, drain, set_copies};
use super::*;
use crate::copies::{Position, Term};
use crate::limits::LEASE_MS;
use crate::wire::control::{DrainWish, WhyStays};
use crate::wire::copies::FromHolder;

/// A process that writes down what it holds, and brings what an earlier life wrote.
fn persisting(name: &str, life: u128, brings: Option<(u128, &[ReportedExtent])>) -> Node {
    let restores = brings.map(|(wrote, _)| Incarnation(wrote));
    let held = brings.map_or(&[][..], |(_, held)| held);
    let mut node = node(name, life);
    let settings = member::Settings::new(Incarnation(life), name, "127.0.0.1:1");
    node.member = Member::with_extents(member::Settings { persists: true, restores, ..settings }, held.to_vec());
    node.member.set_memory(Memory { lent: 1 << 20, populated: 1 << 20, page: 4096, ..Memory::default() });
    node.slots = held.iter().map(|extent| extent.slot.0).collect();
    node.slot_next = held.iter().map(|extent| extent.slot.0 + 1).max().unwrap_or(0);
    node
}

/// Four nodes, of which these write down what they hold. Their lives have the numbers of tens.
fn pool(those: &[usize]) -> Pool {
    let mut pool = Pool::new(1);
    for number in 1..4 {
        let (name, life) = (format!("n{number}"), number as u128 * 10);
        pool.nodes.push(if those.contains(&number) { persisting(&name, life, None) } else { node(&name, life) });
        pool.connect(number);
    }
    pool
}

/// The extents that a node has, as it would write them down.
fn held(pool: &Pool, number: usize) -> Vec<ReportedExtent> {
    pool.nodes[number].member.held().copied().collect()
}

/// A node is killed, and starts again with what an earlier life wrote down.
fn start_again(pool: &mut Pool, number: usize, life: u128, brings: (u128, &[ReportedExtent])) {
    pool.cut(number);
    pool.nodes[number] = persisting(&format!("n{number}"), life, Some(brings));
    pool.connect(number);
}

fn say(pool: &mut Pool, number: usize, message: FromHolder) {
    let gid = pool.coordinator.regions().next().expect("it was made").gid;
    pool.nodes[number].member.say_as_holder(CopiedExtent { gid, index: 0 }, message);
    pool.run();
}

fn term(pool: &Pool) -> Term {
    pool.coordinator.regions().next().expect("it was made").holders[0].term
}

/// The home of the first region's first extent, and the number of its copies; `None` for a region without holders.
fn holders(pool: &Pool) -> (u32, Option<usize>) {
    let region = pool.coordinator.regions().next().expect("it was made");
    let home = region.layout.extents().next().expect("it has bytes").node;
    (home.0, region.holders.first().map(|known| known.copies.len()))
}

/// The copy that is made on another node follows the home.
fn move_to_copy(pool: &mut Pool, home: usize) -> usize {
    let next = admit(pool, home) as usize;
    pool.pass(200, &[]);
    let Term(before) = term(pool);
    say(pool, home, FromHolder::Released { term: Term(before), leaves_doubt: false });
    say(pool, next, FromHolder::IsFrozen { term: Term(before + 1), position: Position(1) });
    next
}

#[test]
fn what_a_node_writes_down_moves_to_another_that_writes() {
    let mut pool = pool(&[1, 3]);
    pool.create(1, "a", 4096, Placement::Local).unwrap();
    assert!(drain(&mut pool, 1, any()).unwrap().stays.is_empty());
    pool.pass(200, &[]);
    assert_eq!(move_to_copy(&mut pool, 1), 3, "the others have as much room");
    pool.pass(2 * LEASE_MS, &[]);
    assert_eq!(holders(&pool), (3, None));
    assert!(pool.nodes[1].slots.is_empty());
    assert!(pool.open(0, "a").is_ok());
}

#[test]
fn a_drain_names_what_no_other_node_writes_down_until_one_does() {
    let mut pool = pool(&[1]);
    pool.create(1, "a", 4096, Placement::Local).unwrap();
    drain(&mut pool, 1, any()).unwrap();
    pool.pass(200, &[]);
    let stays = drain(&mut pool, 1, DrainWish::Look).unwrap().stays;
    let [region] = stays.as_slice() else { panic!("{stays:?}") };
    assert!(matches!(&region.why, WhyStays::NotReady(why) if why.contains("--persist")), "{region:?}");
    assert_eq!((holders(&pool), pool.nodes[1].waiting.len()), ((1, None), 0), "programs do not notice");
    pool.nodes.push(persisting("n4", 40, None));
    pool.connect(4);
    pool.pass(LEASE_MS + 200, &[]);
    assert_eq!(move_to_copy(&mut pool, 1), 4);
    assert!(drain(&mut pool, 1, DrainWish::Look).unwrap().stays.is_empty());
}

#[test]
fn a_region_that_gets_copies_has_them_anywhere() {
    let mut pool = pool(&[1]);
    pool.create(1, "a", 4096, Placement::Local).unwrap();
    set_copies(&mut pool, 2).unwrap();
    pool.pass(200, &[]);
    admit(&mut pool, 1);
    assert_eq!(holders(&pool), (1, Some(1)));
    drain(&mut pool, 1, any()).unwrap();
    pool.pass(200, &[]);
    admit(&mut pool, 1);
    assert_eq!(holders(&pool), (1, Some(2)));
}

#[test]
fn a_region_that_begins_to_move_is_as_it_was_written_last_when_its_node_is_killed() {
    let mut pool = pool(&[1, 2]);
    pool.create(1, "a", 4096, Placement::Local).unwrap();
    let written = held(&pool, 1);
    drain(&mut pool, 1, any()).unwrap();
    pool.pass(200, &[]);
    assert_eq!((holders(&pool), pool.nodes[2].slots.len()), ((1, Some(0)), 1), "a copy is being made");
    start_again(&mut pool, 1, 11, (10, &written));
    assert_eq!((holders(&pool), pool.stat("a").unwrap().lost), ((1, None), None));
    assert!(pool.nodes[2].slots.is_empty() && pool.nodes[1].slots.len() == 1);
    pool.pass(LEASE_MS, &[]);
    assert_eq!(pool.open(0, "a").unwrap().copies, 1);
    assert!(pool.journal.iter().any(|record| matches!(record, Record::CopiesEnded { .. })));
    let again = Coordinator::restore(pool.settings.clone(), pool.journal.clone(), pool.now_ms);
    assert_eq!(again.regions().next(), pool.coordinator.regions().next());
}

#[test]
fn old_bytes_do_not_come_back_while_another_node_has_a_copy() {
    let mut pool = pool(&[1, 2]);
    pool.create(1, "a", 4096, Placement::Local).unwrap();
    let written = held(&pool, 1);
    drain(&mut pool, 1, any()).unwrap();
    pool.pass(200, &[]);
    admit(&mut pool, 1);
    assert_eq!(holders(&pool), (1, Some(1)));
    let Term(before) = term(&pool);
    start_again(&mut pool, 1, 11, (10, &written));
    assert!(pool.nodes[1].slots.is_empty(), "it is told to free them");
    say(&mut pool, 2, FromHolder::IsFrozen { term: Term(before + 1), position: Position(1) });
    assert_eq!((holders(&pool), pool.stat("a").unwrap().lost), ((2, Some(0)), None));
}

#[test]
fn old_bytes_do_not_come_back_after_a_move_even_if_the_next_home_is_gone() {
    for ends in [false, true] {
        let mut pool = pool(&[1, 2]);
        pool.create(1, "a", 4096, Placement::Local).unwrap();
        let written = held(&pool, 1);
        drain(&mut pool, 1, any()).unwrap();
        pool.pass(200, &[]);
        assert_eq!(move_to_copy(&mut pool, 1), 2);
        if ends {
            pool.pass(2 * LEASE_MS, &[]);
        }
        pool.cut(2);
        start_again(&mut pool, 1, 11, (10, &written));
        assert!(pool.nodes[1].slots.is_empty());
        assert_eq!(holders(&pool).0, 2);
        // The next home is the one that may bring it.
        let moved = held(&pool, 2);
        pool.nodes[2] = persisting("n2", 21, Some((20, &moved)));
        pool.connect(2);
        assert_eq!((holders(&pool), pool.stat("a").unwrap().lost), ((2, None), None), "ends: {ends}");
    }
}

#[test]
fn a_node_brings_nothing_that_an_earlier_life_than_the_last_one_wrote() {
    let mut pool = pool(&[1, 2]);
    pool.create(1, "a", 4096, Placement::Local).unwrap();
    let written = held(&pool, 1);
    drain(&mut pool, 1, any()).unwrap();
    pool.pass(200, &[]);
    start_again(&mut pool, 1, 11, (9, &written));
    assert_eq!(pool.stat("a").unwrap().lost, Some(NodeId(1)));
    assert!(pool.nodes.iter().all(|node| node.slots.is_empty()));
}

#[test]
fn a_region_with_copies_comes_back_from_no_file() {
    let mut pool = pool(&[1, 2]);
    pool.create(1, "a", 4096, Placement::Local).unwrap();
    let written = held(&pool, 1);
    set_copies(&mut pool, 2).unwrap();
    pool.pass(200, &[]);
    let copy = admit(&mut pool, 1) as usize;
    pool.restart_node(copy, 90);
    assert_eq!(holders(&pool), (1, Some(0)), "its home goes on alone");
    start_again(&mut pool, 1, 11, (10, &written));
    assert_eq!(pool.stat("a").unwrap().lost, Some(NodeId(1)));
}

#[test]
fn a_region_of_several_extents_comes_back_with_each_of_its_nodes() {
    let mut pool = pool(&[1, 2, 3]);
    drain(&mut pool, 0, any()).unwrap();
    pool.create(1, "a", 3 * 4096, Placement::Interleave(4096)).unwrap();
    let written = [held(&pool, 1), held(&pool, 2)];
    drain(&mut pool, 1, any()).unwrap();
    pool.pass(200, &[]);
    assert_eq!(pool.coordinator.regions().next().unwrap().holders.len(), 3);
    pool.cut(2);
    start_again(&mut pool, 1, 11, (10, &written[0]));
    start_again_closed(&mut pool, 2, 21, (20, &written[1]));
    pool.pass(2 * LEASE_MS, &[]);
    assert_eq!(pool.stat("a").unwrap().lost, None);
    assert!(pool.open(0, "a").is_ok());
}

/// The same for a node whose connection has closed already.
fn start_again_closed(pool: &mut Pool, number: usize, life: u128, brings: (u128, &[ReportedExtent])) {
    pool.nodes[number] = persisting(&format!("n{number}"), life, Some(brings));
    pool.connect(number);
}

/// Two that end together would each leave the bytes to the other.
#[test]
fn a_single_node_has_the_bytes_where_both_of_a_move_are_drained() {
    let mut pool = pool(&[1, 2]);
    pool.create(1, "a", 4096, Placement::Local).unwrap();
    drain(&mut pool, 1, any()).unwrap();
    pool.pass(200, &[]);
    admit(&mut pool, 1);
    let is_locked = FromHolder::Stays { term: term(&pool) };
    say(&mut pool, 1, is_locked);
    drain(&mut pool, 2, any()).unwrap();
    pool.pass(LEASE_MS + 200, &[]);
    assert_eq!(holders(&pool), (1, Some(0)));
    assert!(pool.nodes[2].slots.is_empty());
}

#[test]
fn a_coordinator_of_the_last_release_hears_a_join_that_it_knows() {
    let mut node = persisting("n1", 1, None);
    for (spoken, says) in [(crate::versions::OLDEST, false), (NEWEST, true)] {
        node.member.connected(0, spoken);
        let sent = node.drain(0);
        let [message] = sent.as_slice() else { panic!("{sent:?}") };
        assert_eq!((matches!(message, FromNode::JoinPersisting(_)), node.member.says_it_persists()), (says, says));
        assert!(message.joins().is_some() && message.since() <= spoken);
    }
}
