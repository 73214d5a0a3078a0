//! Regions that are to have no copies any more.

use super::copies::{admit, drain, set_copies};
use super::*;
use crate::copies::{Position, Term};
use crate::limits::LEASE_MS;
use crate::wire::control::{Changes, DrainWish};
use crate::wire::copies::FromHolder;

/// A region of one copy, whose node keeps an order of its writes.
fn moved() -> Pool {
    let mut pool = Pool::new(3);
    pool.create(1, "a", 4096, Placement::Local).unwrap();
    set_copies(&mut pool, 2).unwrap();
    pool.pass(200, &[]);
    admit(&mut pool, 1);
    pool.pass(200, &[]);
    set_copies(&mut pool, 1).unwrap();
    pool.pass(200, &[]);
    assert_eq!(pool.coordinator.regions().next().unwrap().holders[0].copies, []);
    pool
}

fn is_plain(pool: &Pool) -> bool {
    pool.coordinator.regions().next().unwrap().holders.is_empty()
}

#[test]
fn a_region_with_one_copy_has_direct_access_again_some_time_later() {
    let mut pool = moved();
    let before = pool.open(0, "a").unwrap();
    assert_eq!((before.copies, is_plain(&pool)), (2, false), "its home may still change");
    pool.nodes[1].readies = None;
    pool.pass(LEASE_MS + 200, &[]);
    assert!(is_plain(&pool) && pool.nodes[1].waiting.len() == 1);
    // Grants change: who opens it waits.
    let asked = pool.ask(0, OWNER, open("a"));
    assert_eq!(pool.answer(0, asked), None);
    pool.nodes[1].readies = Some(Ok(()));
    pool.nodes[1].make_ready();
    pool.run();
    let view = view(pool.answer(0, asked).expect("it waited for that")).unwrap();
    assert_eq!(view.copies, 1);
    assert_ne!(view.grants, before.grants);
    let again = Coordinator::restore(pool.settings.clone(), pool.journal.clone(), pool.now_ms);
    assert_eq!(again.regions().next(), pool.coordinator.regions().next());
    assert!(pool.coordinator.next_deadline().is_none_or(|at_ms| at_ms > pool.now_ms));
}

#[test]
fn a_region_that_gets_copies_meanwhile_keeps_its_order_of_writes() {
    let mut pool = moved();
    pool.nodes[1].readies = None;
    pool.pass(LEASE_MS + 200, &[]);
    let asked =
        pool.ask(0, OWNER, Request::Alter { name: "a".to_owned(), changes: Changes { copies: Some(2), ..Changes::default() } });
    pool.pass(200, &[]);
    assert_eq!(pool.answer(0, asked), None, "it waits for what is under way");
    pool.nodes[1].readies = Some(Ok(()));
    pool.nodes[1].make_ready();
    pool.pass(200, &[]);
    assert_eq!(pool.answer(0, asked), Some(Ok(Answer::Ok)));
    admit(&mut pool, 1);
    pool.pass(LEASE_MS * 2, &[]);
    assert_eq!((pool.stat("a").unwrap().whole_copies, is_plain(&pool)), (2, false));
}

#[test]
fn a_node_that_cannot_is_asked_again() {
    let mut pool = moved();
    pool.nodes[1].readies = Some(Err(Error::BadUse { region: "a".to_owned(), reason: "commands do not end".to_owned() }));
    pool.pass(LEASE_MS + 200, &[]);
    assert!(is_plain(&pool));
    assert_eq!(pool.open(0, "a").unwrap().copies, 1, "it is used by its node");
    pool.nodes[1].readies = None;
    pool.pass(2 * LEASE_MS, &[]);
    assert_eq!(pool.nodes[1].waiting.len(), 1);
    // A node that goes takes the order with it.
    pool.cut(1);
    pool.nodes[1].waiting.clear();
    pool.connect(1);
    pool.nodes[1].readies = Some(Ok(()));
    pool.pass(3 * LEASE_MS, &[]);
    assert_eq!(pool.open(0, "a").unwrap().copies, 1);
}

#[test]
fn a_coordinator_that_begins_again_ends_copies_too() {
    let mut pool = moved();
    pool.restart_coordinator();
    (0..3).for_each(|number| pool.connect(number));
    pool.pass(2 * LEASE_MS, &[]);
    assert!(is_plain(&pool));
    assert_eq!(pool.open(0, "a").unwrap().copies, 1);
}

#[test]
fn nodes_that_were_not_asked_are_asked_by_the_next_coordinator() {
    let mut pool = moved();
    pool.nodes[1].readies = None;
    pool.pass(LEASE_MS + 200, &[]);
    assert!(is_plain(&pool) && pool.nodes[1].waiting.len() == 1);
    pool.restart_coordinator();
    pool.nodes[1].waiting.clear();
    (0..3).for_each(|number| pool.connect(number));
    pool.pass(2 * LEASE_MS, &[]);
    assert_eq!(pool.nodes[1].waiting.len(), 1, "it is asked again");
    pool.nodes[1].readies = Some(Ok(()));
    pool.nodes[1].make_ready();
    pool.run();
    assert!(pool.journal.iter().any(|record| matches!(record, Record::CopiesEnded { .. })));
    let again = Coordinator::restore(pool.settings.clone(), pool.coordinator.snapshot(), pool.now_ms);
    assert_eq!(again.regions().next(), pool.coordinator.regions().next());
}

#[test]
fn a_region_whose_node_is_drained_moves_first() {
    let mut pool = moved();
    drain(&mut pool, 1, DrainWish::Begin { to: BTreeSet::from([NodeId(2)]) }).unwrap();
    pool.pass(2 * LEASE_MS, &[]);
    assert!(!is_plain(&pool));
    admit(&mut pool, 1);
    pool.pass(200, &[]);
    let (gid, term) = pool.coordinator.regions().map(|region| (region.gid, region.holders[0].term)).next().unwrap();
    let extent = CopiedExtent { gid, index: 0 };
    pool.nodes[1].member.say_as_holder(extent, FromHolder::Released { term, leaves_doubt: false });
    pool.run();
    let Term(next) = term;
    pool.nodes[2].member.say_as_holder(extent, FromHolder::IsFrozen { term: Term(next + 1), position: Position(1) });
    pool.run();
    assert!(pool.nodes[1].slots.is_empty());
    pool.pass(2 * LEASE_MS, &[]);
    assert!(is_plain(&pool));
    assert_eq!(pool.open(0, "a").unwrap().layout.extents().next().unwrap().node, NodeId(2));
}
