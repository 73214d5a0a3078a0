//! Regions that were made without copies: their nodes make them ready before the first copy is made.

use super::copies::{admit, any, drain, set_copies};
use super::*;
use crate::copies::Term;
use crate::limits::LEASE_MS;
use crate::wire::control::{DrainWish, WhyStays};
use crate::wire::copies::FromHolder;

fn refusal() -> Error {
    Error::BadUse { region: "a".to_owned(), reason: "hosts map it".to_owned() }
}

#[test]
fn a_region_gets_its_first_copy_when_its_node_has_made_it_ready() {
    let mut pool = Pool::new(3);
    let before = pool.create(1, "a", 4096, Placement::Local).unwrap();
    assert_eq!(before.copies, 1);
    pool.nodes[1].readies = None;
    assert_eq!(set_copies(&mut pool, 2), Ok(Answer::Ok));
    assert_eq!(pool.nodes[1].waiting.len(), 1);
    // Grants change: who opens, changes or removes it waits.
    let asked = [open("a"), remove("a")].map(|what| pool.ask(0, OWNER, what));
    pool.pass(1000, &[]);
    assert!(asked.iter().all(|request| pool.answer(0, *request).is_none()));
    assert_eq!(pool.nodes.iter().map(|node| node.slots.len()).sum::<usize>(), 1, "no copy is made before");
    pool.nodes[1].readies = Some(Ok(()));
    pool.nodes[1].make_ready();
    pool.run();
    let view = view(pool.answer(0, asked[0]).expect("it waited for that")).unwrap();
    assert_eq!(view.copies, 2);
    assert_ne!(view.grants, before.grants);
    assert_eq!(pool.answer(0, asked[1]), Some(Ok(Answer::Ok)));
    assert!(pool.nodes.iter().all(|node| node.slots.is_empty()));
}

#[test]
fn what_readiness_made_outlives_the_coordinator() {
    let mut pool = Pool::new(3);
    pool.create(1, "a", 3 * 4096, Placement::Interleave(4096)).unwrap();
    set_copies(&mut pool, 2).unwrap();
    pool.pass(200, &[]);
    let region = pool.coordinator.regions().next().unwrap().clone();
    assert_eq!(region.holders.iter().map(|known| (known.term, known.copies.len())).collect::<Vec<_>>(), [(Term(1), 0); 3]);
    let again = Coordinator::restore(pool.settings.clone(), pool.journal.clone(), pool.now_ms);
    assert_eq!(again.regions().next(), Some(&region));
    let snapshot = Coordinator::restore(pool.settings.clone(), pool.coordinator.snapshot(), pool.now_ms);
    assert_eq!(snapshot.regions().next(), Some(&region));
}

#[test]
fn a_coordinator_that_dies_while_nodes_make_a_region_ready_leaves_that_to_the_next() {
    let mut pool = Pool::new(3);
    pool.create(1, "a", 4096, Placement::Local).unwrap();
    pool.nodes[1].readies = None;
    set_copies(&mut pool, 2).unwrap();
    pool.restart_coordinator();
    pool.nodes[1].waiting.clear();
    pool.nodes[1].readies = Some(Ok(()));
    (0..3).for_each(|number| pool.connect(number));
    pool.pass(LEASE_MS + 1000, &[]);
    assert_eq!(pool.open(0, "a").unwrap().copies, 2);
    admit(&mut pool, 1);
    assert_eq!(pool.stat("a").unwrap().whole_copies, 2);
}

#[test]
fn a_region_that_a_node_does_not_make_ready_is_as_before_and_tried_again() {
    let mut pool = Pool::new(3);
    pool.create(1, "a", 2 * 4096, Placement::Interleave(4096)).unwrap();
    let home = pool.open(0, "a").unwrap().layout.extents().next().unwrap().node.0 as usize;
    pool.nodes[home].readies = Some(Err(refusal()));
    drain(&mut pool, home as u32, any()).unwrap();
    let why = drain(&mut pool, home as u32, DrainWish::Look).unwrap().stays[0].why.clone();
    assert_eq!(why, WhyStays::NotReady("hosts map it".to_owned()));
    let opened = pool.open(0, "a").unwrap();
    assert_eq!(opened.copies, 1);
    assert!(pool.coordinator.next_deadline().is_none_or(|at_ms| at_ms > pool.now_ms), "it rests");
    // A node that is lost meanwhile is a refusal, too.
    pool.nodes[home].readies = None;
    pool.pass(LEASE_MS + 200, &[]);
    assert_eq!(pool.nodes[home].waiting.len(), 1);
    pool.cut(home);
    let asked = pool.ask(0, OWNER, Request::Stat { name: "a".to_owned() });
    assert!(pool.answer(0, asked).is_some());
    pool.nodes[home].waiting.clear();
    pool.nodes[home].readies = Some(Ok(()));
    pool.connect(home);
    pool.pass(LEASE_MS + 200, &[]);
    assert_eq!(pool.open(0, "a").unwrap().copies, 2);
    assert!(drain(&mut pool, home as u32, DrainWish::Look).unwrap().stays.is_empty());
}

#[test]
fn who_opens_a_region_does_not_wait_for_a_node_that_lives_and_makes_nothing_ready() {
    let mut pool = Pool::new(3);
    pool.create(1, "a", 4096, Placement::Local).unwrap();
    pool.nodes[1].readies = None;
    set_copies(&mut pool, 2).unwrap();
    let asked = pool.ask(0, OWNER, open("a"));
    pool.pass(1000, &[]);
    assert!(pool.answer(0, asked).is_none());
    pool.pass(LEASE_MS, &[]);
    let opened = view(pool.answer(0, asked).expect("the try has ended")).unwrap();
    assert_eq!(opened.copies, 1);
    // An answer that comes late changes nothing, and the next try is as the first.
    pool.nodes[1].readies = Some(Ok(()));
    pool.nodes[1].make_ready();
    pool.pass(2 * LEASE_MS, &[]);
    assert_eq!(pool.open(0, "a").unwrap().copies, 2);
}

#[test]
fn a_further_wish_does_not_end_a_try_that_is_under_way() {
    let mut pool = Pool::new(3);
    pool.create(1, "a", 4096, Placement::Local).unwrap();
    pool.nodes[1].readies = None;
    set_copies(&mut pool, 2).unwrap();
    pool.pass(1000, &[]);
    drain(&mut pool, 1, any()).unwrap();
    let asked = pool.ask(0, OWNER, open("a"));
    pool.pass(1000, &[]);
    assert!(pool.answer(0, asked).is_none(), "who opens it waits for the grants that its node makes");
    pool.nodes[1].readies = Some(Ok(()));
    pool.nodes[1].make_ready();
    pool.pass(1000, &[]);
    let opened = view(pool.answer(0, asked).expect("the try has ended")).unwrap();
    assert_eq!(opened.copies, 2);
}

#[test]
fn a_wish_that_ends_leaves_a_region_without_copies() {
    let mut pool = Pool::new(2);
    pool.create(1, "a", 4096, Placement::Local).unwrap();
    pool.nodes[1].readies = Some(Err(refusal()));
    set_copies(&mut pool, 2).unwrap();
    set_copies(&mut pool, 1).unwrap();
    pool.nodes[1].readies = Some(Ok(()));
    pool.pass(2 * LEASE_MS, &[]);
    assert_eq!(pool.open(0, "a").unwrap().copies, 1);
    assert_eq!(pool.coordinator.used(OWNER.uid), 4096);
}

#[test]
fn a_node_that_says_it_made_other_extents_ready_is_not_believed() {
    let mut pool = Pool::new(3);
    pool.create(1, "a", 4096, Placement::Local).unwrap();
    pool.create(1, "b", 4096, Placement::Local).unwrap();
    pool.nodes[1].readies = None;
    set_copies(&mut pool, 2).unwrap();
    pool.nodes[1].waiting[0].1 = vec![Slot(1)];
    pool.nodes[1].readies = Some(Ok(()));
    pool.nodes[1].make_ready();
    pool.run();
    assert_eq!(pool.open(0, "a").unwrap().copies, 1);
}

#[test]
fn a_home_with_locks_stays_and_is_asked_again() {
    let mut pool = Pool::new(3);
    pool.create(1, "a", 4096, Placement::Local).unwrap();
    drain(&mut pool, 1, any()).unwrap();
    pool.pass(200, &[]);
    admit(&mut pool, 1);
    pool.pass(200, &[]);
    let is_asked = |message: &ToHolder| matches!(message, ToHolder::Release(_));
    let asked = |pool: &Pool| pool.nodes[1].held.iter().filter(|(_, message)| is_asked(message)).count();
    assert_eq!(asked(&pool), 1);
    let term = pool.coordinator.regions().next().unwrap().holders[0].term;
    let extent = CopiedExtent { gid: pool.coordinator.regions().next().unwrap().gid, index: 0 };
    pool.nodes[1].member.say_as_holder(extent, FromHolder::Stays { term });
    pool.run();
    // Programs go on meanwhile.
    assert_eq!(pool.open(0, "a").unwrap().layout.extents().next().unwrap().node, NodeId(1));
    let stays = drain(&mut pool, 1, DrainWish::Look).unwrap().stays;
    assert_eq!(stays.iter().map(|region| &region.why).collect::<Vec<_>>(), [&WhyStays::Locks]);
    pool.pass(LEASE_MS + 200, &[]);
    assert_eq!(asked(&pool), 2);
    pool.nodes[1].member.say_as_holder(extent, FromHolder::Released { term, leaves_doubt: false });
    pool.run();
    let waits = pool.ask(0, OWNER, open("a"));
    assert!(pool.answer(0, waits).is_none(), "a copy is elected");
}
