//! Extents that move to nodes with more room.

use super::copies::{any, copied, drain};
use super::*;
use crate::copies::Position;
use crate::wire::control::WhyStays;
use crate::wire::copies::FromHolder;
use crate::wire::rebalance::{RebalanceStatus, RebalanceWish};

const BEGIN: RebalanceWish = RebalanceWish::Begin { with_local: true };
const LOOK: RebalanceWish = RebalanceWish::Look { with_local: true };
/// A region's length: the test's nodes lend 1 MiB.
const LEN: u64 = 100 << 10;

fn ask(pool: &mut Pool, wish: RebalanceWish) -> RebalanceStatus {
    match pool.call(0, OWNER, Request::Rebalance(wish)) {
        Ok(Answer::Rebalance(status)) => status,
        other => panic!("{other:?}"),
    }
}

/// All holders do what they are asked, but the homes on `locked` have locks and stay.
pub(super) fn serve(pool: &mut Pool, locked: &[usize]) {
    for _ in 0..50 {
        for number in 0..pool.nodes.len() {
            for (extent, message) in std::mem::take(&mut pool.nodes[number].held) {
                let term = |pool: &Pool| {
                    let region = pool.coordinator.regions().find(|region| region.gid == extent.gid)?;
                    Some(region.holders_of(extent.index as usize)?.1.term)
                };
                let Some(today) = term(pool) else { continue };
                let said = match message {
                    ToHolder::Make { node, order } => FromHolder::Admit { term: today, node, order },
                    ToHolder::Release(set) if locked.contains(&number) => FromHolder::Stays { term: set.term },
                    ToHolder::Release(set) => FromHolder::Released { term: set.term, leaves_doubt: false },
                    ToHolder::Freeze { term } => FromHolder::IsFrozen { term, position: Position(1) },
                    ToHolder::Set(_) | ToHolder::Elect { .. } => continue,
                };
                pool.nodes[number].member.say_as_holder(extent, said);
                pool.run();
            }
        }
        pool.pass(100, &[]);
    }
}

pub(super) fn bytes_on(pool: &Pool, node: u32) -> u64 {
    let all = pool.coordinator.regions().flat_map(|region| region.all_extents());
    all.filter(|extent| extent.node == NodeId(node)).map(|extent| extent.len).sum()
}

#[test]
fn bytes_go_to_a_node_that_has_joined() {
    let mut pool = Pool::new(3);
    drain(&mut pool, 2, any()).unwrap();
    for number in 0..8 {
        let home = number % 2;
        pool.create(home, &format!("r{number}"), LEN, Placement::Local).unwrap();
    }
    drain(&mut pool, 2, crate::wire::control::DrainWish::Stop).unwrap();
    let planned = ask(&mut pool, LOOK);
    assert!(!planned.is_under_way && planned.moves.iter().all(|next| next.to == NodeId(2)), "{planned:?}");
    assert_eq!((planned.moves.len(), planned.left, planned.bound), (2, 2 * LEN, 0));
    let without = ask(&mut pool, RebalanceWish::Look { with_local: false });
    assert_eq!((without.moves.len(), without.bound), (0, 8 * LEN), "they are of their hosts");
    let begun = ask(&mut pool, BEGIN);
    assert_eq!((begun.is_under_way, begun.moves), (true, planned.moves));
    serve(&mut pool, &[]);
    let done = ask(&mut pool, LOOK);
    assert_eq!((done.is_under_way, done.failed.len(), done.moves.len()), (false, 0, 0), "{done:?}");
    assert_eq!([0, 1, 2].map(|node| bytes_on(&pool, node)), [3 * LEN, 3 * LEN, 2 * LEN]);
    assert!((0..8).all(|number| pool.open(0, &format!("r{number}")).is_ok()));
    assert_eq!(pool.nodes.iter().map(|node| node.slots.len()).collect::<Vec<_>>(), [3, 3, 2], "what was left is freed");
}

#[test]
fn a_region_keeps_its_copies_on_its_way() {
    let mut pool = Pool::new(4);
    drain(&mut pool, 3, any()).unwrap();
    for number in 0..3 {
        view(pool.call(0, OWNER, copied(&format!("r{number}"), 2 * LEN, Placement::Interleave(4096), 2))).unwrap();
    }
    drain(&mut pool, 3, crate::wire::control::DrainWish::Stop).unwrap();
    let begun = ask(&mut pool, RebalanceWish::Begin { with_local: false });
    assert!(begun.is_under_way && begun.moves.iter().all(|next| next.to == NodeId(3)), "{begun:?}");
    serve(&mut pool, &[]);
    let done = ask(&mut pool, LOOK);
    assert_eq!((done.is_under_way, done.failed.len()), (false, 0), "{done:?}");
    assert!(bytes_on(&pool, 3) > 0);
    for number in 0..3 {
        assert_eq!(pool.stat(&format!("r{number}")).unwrap().whole_copies, 2);
    }
}

#[test]
fn what_cannot_move_is_named_and_given_up() {
    let mut pool = Pool::new(2);
    drain(&mut pool, 0, any()).unwrap();
    for name in ["a", "b", "c", "d"] {
        pool.create(1, name, LEN, Placement::Local).unwrap();
    }
    drain(&mut pool, 0, crate::wire::control::DrainWish::Stop).unwrap();
    // Hosts map them.
    pool.nodes[1].readies = Some(Err(Error::BadUse { region: "a".to_owned(), reason: "hosts map it".to_owned() }));
    assert!(ask(&mut pool, BEGIN).is_under_way);
    serve(&mut pool, &[]);
    let refused = ask(&mut pool, LOOK);
    let why = WhyStays::NotReady("hosts map it".to_owned());
    assert_eq!((refused.is_under_way, refused.failed.len(), &refused.failed[0].why), (false, 2, &why), "{refused:?}");
    // Programs have locks there.
    pool.nodes[1].readies = Some(Ok(()));
    ask(&mut pool, BEGIN);
    serve(&mut pool, &[1]);
    let locked = ask(&mut pool, LOOK);
    assert_eq!((locked.is_under_way, locked.failed.len(), &locked.failed[0].why), (false, 2, &WhyStays::Locks), "{locked:?}");
    serve(&mut pool, &[]);
    assert_eq!(bytes_on(&pool, 1), 4 * LEN, "nothing moves later, and further copies are gone");
    assert_eq!(bytes_on(&pool, 0), 0);
}

#[test]
fn moves_to_a_lost_node_end_and_copies_are_made_elsewhere() {
    let mut pool = Pool::new(4);
    drain(&mut pool, 3, any()).unwrap();
    for number in 0..4 {
        view(pool.call(1, OWNER, copied(&format!("r{number}"), LEN, Placement::Local, 2))).unwrap();
    }
    drain(&mut pool, 3, crate::wire::control::DrainWish::Stop).unwrap();
    let begun = ask(&mut pool, BEGIN);
    assert!(begun.moves.iter().any(|next| next.to == NodeId(3)), "{begun:?}");
    pool.cut(3);
    pool.pass(2 * crate::limits::LEASE_MS, &[3]);
    serve(&mut pool, &[]);
    let done = ask(&mut pool, LOOK);
    assert!(!done.is_under_way, "{done:?}");
    assert!((0..4).all(|number| pool.stat(&format!("r{number}")).unwrap().whole_copies == 2));
}

#[test]
fn a_move_does_not_keep_a_lost_copy_from_being_made() {
    let mut pool = Pool::new(4);
    drain(&mut pool, 3, any()).unwrap();
    for number in 0..4 {
        view(pool.call(1, OWNER, copied(&format!("r{number}"), LEN, Placement::Local, 2))).unwrap();
    }
    drain(&mut pool, 3, crate::wire::control::DrainWish::Stop).unwrap();
    assert!(!ask(&mut pool, BEGIN).moves.is_empty());
    // Another holder is lost before anything has moved, and nobody looks at the moves.
    pool.cut(2);
    pool.pass(2 * crate::limits::LEASE_MS, &[2]);
    serve(&mut pool, &[]);
    assert!((0..4).all(|number| pool.stat(&format!("r{number}")).unwrap().whole_copies == 2));
    let done = ask(&mut pool, LOOK);
    assert!(!done.is_under_way, "{done:?}");
}

#[test]
fn moves_end_while_nobody_looks() {
    let mut pool = Pool::new(3);
    drain(&mut pool, 2, any()).unwrap();
    for number in 0..8 {
        pool.create(number % 2, &format!("r{number}"), LEN, Placement::Local).unwrap();
    }
    drain(&mut pool, 2, crate::wire::control::DrainWish::Stop).unwrap();
    pool.nodes.iter_mut().for_each(|node| node.readies = None);
    ask(&mut pool, BEGIN);
    // The destination is away for a while, and the homes answer late.
    pool.cut(2);
    pool.pass(200, &[2]);
    pool.connect(2);
    pool.nodes.iter_mut().for_each(|node| node.readies = Some(Ok(())));
    pool.nodes.iter_mut().for_each(Node::make_ready);
    pool.run();
    serve(&mut pool, &[]);
    serve(&mut pool, &[]);
    assert!(pool.coordinator.next_deadline().is_none_or(|at_ms| at_ms > pool.now_ms));
    let done = ask(&mut pool, LOOK);
    assert_eq!((done.is_under_way, bytes_on(&pool, 2)), (false, 2 * LEN), "{done:?}");
    // Those that have moved have no order of writes any more.
    assert!(pool.coordinator.regions().all(|region| region.holders.is_empty()));
}

#[test]
fn what_was_begun_can_be_ended() {
    let mut pool = Pool::new(2);
    for name in ["a", "b", "c", "d"] {
        pool.create(1, name, LEN, Placement::Local).unwrap();
    }
    pool.nodes[1].readies = None;
    assert!(ask(&mut pool, BEGIN).is_under_way);
    assert!(!ask(&mut pool, RebalanceWish::Stop).is_under_way);
    pool.nodes[1].readies = Some(Ok(()));
    pool.nodes[1].make_ready();
    serve(&mut pool, &[]);
    assert_eq!((bytes_on(&pool, 0), bytes_on(&pool, 1)), (0, 4 * LEN));
    // A coordinator that begins again knows of no move.
    ask(&mut pool, BEGIN);
    pool.restart_coordinator();
    (0..2).for_each(|number| pool.connect(number));
    pool.pass(1000, &[]);
    serve(&mut pool, &[]);
    assert!(!ask(&mut pool, LOOK).is_under_way);
    assert!(["a", "b", "c", "d"].into_iter().all(|name| pool.open(0, name).is_ok()));
}
