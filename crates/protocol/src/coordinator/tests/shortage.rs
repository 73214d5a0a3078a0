//! Extents that leave nodes whose hosts run short of memory.

use super::copies::{any, copied, drain};
use super::rebalance::{bytes_on, serve};
use super::*;
use crate::wire::control::{DrainWish, PoolStatus, StayingRegion, WhyStays};
use crate::wire::rebalance::RebalanceWish;

/// A region's length: the test's nodes lend 1 MiB.
const LEN: u64 = 100 << 10;
const ALL: u64 = 1 << 20;

/// A node lends so much of its MiB, and its coordinator hears of it.
fn lend(pool: &mut Pool, node: usize, lent: u64) {
    pool.nodes[node].member.set_memory(Memory { lent, lent_max: ALL, page: 4096, ..Memory::default() });
    pool.pass(limits::RENEW_MS + 100, &[]);
}

fn status(pool: &mut Pool, user: User) -> PoolStatus {
    match pool.call(0, user, Request::Status) {
        Ok(Answer::Status(status)) => status,
        other => panic!("{other:?}"),
    }
}

fn leaving(pool: &mut Pool, node: usize) -> (u64, Vec<StayingRegion>) {
    let node = status(pool, OWNER).nodes.swap_remove(node);
    (node.leaving, node.stays)
}

fn names(stays: &[StayingRegion]) -> Vec<&str> {
    stays.iter().map(|region| region.name.as_str()).collect()
}

/// Three nodes; the second has eight regions of that placement, named r0 to r7.
fn pool(placement: Placement) -> Pool {
    let mut pool = Pool::new(3);
    for number in [0, 2] {
        drain(&mut pool, number, any()).unwrap();
    }
    for number in 0..8 {
        pool.create(1, &format!("r{number}"), LEN, placement).unwrap();
    }
    for number in [0, 2] {
        drain(&mut pool, number, DrainWish::Stop).unwrap();
    }
    pool
}

#[test]
fn as_many_bytes_leave_as_do_not_fit() {
    let mut pool = pool(Placement::Local);
    lend(&mut pool, 1, 9 * LEN);
    serve(&mut pool, &[]);
    assert_eq!(bytes_on(&pool, 1), 8 * LEN, "what is used fits");
    let refused = pool.create(0, "big", 2 * LEN, Placement::Node(NodeId(1))).unwrap_err();
    assert_eq!(refused, Error::PoolFull { asked: 2 * LEN, free: LEN, withheld: ALL - 9 * LEN });
    assert!(refused.to_string().contains("hosts that run short of memory keep 124 KiB back"), "{refused}");
    pool.create(1, "big", 2 * LEN, Placement::Local).unwrap();
    assert_eq!(bytes_on(&pool, 1), 8 * LEN, "it lies on another node");
    lend(&mut pool, 1, 5 * LEN + LEN / 2);
    assert_eq!(leaving(&mut pool, 1), (2 * LEN + LEN / 2, vec![]));
    serve(&mut pool, &[]);
    assert_eq!((bytes_on(&pool, 1), leaving(&mut pool, 1)), (5 * LEN, (0, vec![])));
    assert_eq!(pool.nodes[1].slots.len(), 5, "what has left is freed");
    assert!((0..8).all(|number| pool.open(0, &format!("r{number}")).is_ok()));
    // All of it, and nothing comes back by itself.
    lend(&mut pool, 1, 0);
    serve(&mut pool, &[]);
    assert_eq!(bytes_on(&pool, 1), 0);
    lend(&mut pool, 1, ALL);
    serve(&mut pool, &[]);
    assert_eq!(bytes_on(&pool, 1), 0);
    pool.create(1, "again", LEN, Placement::Local).unwrap();
    assert_eq!(bytes_on(&pool, 1), LEN);
}

#[test]
fn what_a_node_uses_beside_its_extents_counts() {
    let mut pool = pool(Placement::Local);
    let memory = Memory { lent: 8 * LEN, lent_max: ALL, used: 8 * LEN + LEN / 2, ..Memory::default() };
    pool.nodes[1].member.set_memory(memory);
    pool.pass(limits::RENEW_MS + 100, &[]);
    assert_eq!(leaving(&mut pool, 1).0, 0, "once may be by chance");
    pool.pass(limits::RENEW_MS + 100, &[]);
    assert_eq!(leaving(&mut pool, 1).0, LEN / 2);
    pool.nodes[1].member.set_memory(Memory { used: 7 * LEN + LEN / 2, ..memory });
    serve(&mut pool, &[]);
    assert_eq!((bytes_on(&pool, 1), leaving(&mut pool, 1)), (7 * LEN, (0, vec![])));
}

#[test]
fn regions_over_all_nodes_leave_before_those_of_hosts_and_named_nodes() {
    let mut pool = Pool::new(3);
    pool.create(1, "named", LEN, Placement::Node(NodeId(1))).unwrap();
    pool.create(1, "local", LEN, Placement::Local).unwrap();
    drain(&mut pool, 0, any()).unwrap();
    drain(&mut pool, 2, any()).unwrap();
    pool.create(0, "spread", LEN, Placement::Interleave(4096)).unwrap();
    pool.create(0, "small", 4096, Placement::Interleave(4096)).unwrap();
    [0, 2].into_iter().for_each(|node| drop(drain(&mut pool, node, DrainWish::Stop).unwrap()));
    let on_it = |pool: &Pool| {
        let here = pool.coordinator.regions().filter(|region| region.all_extents().any(|extent| extent.node == NodeId(1)));
        let mut names: Vec<String> = here.map(|region| region.name.clone()).collect();
        names.sort();
        names
    };
    for (lent, left) in [
        (3 * LEN, &["local", "named", "spread"][..]),
        (3 * LEN - 1, &["local", "named"]),
        (2 * LEN - 1, &["named"]),
        (LEN - 1, &[]),
    ] {
        lend(&mut pool, 1, lent);
        serve(&mut pool, &[]);
        assert_eq!(on_it(&pool), left, "{lent}");
    }
}

#[test]
fn what_cannot_leave_is_named_and_others_leave_in_its_place() {
    let mut pool = pool(Placement::Local);
    pool.nodes[1].readies = Some(Err(Error::BadUse { region: "r0".to_owned(), reason: "hosts map it".to_owned() }));
    lend(&mut pool, 1, 7 * LEN);
    serve(&mut pool, &[]);
    let (missing, stays) = leaving(&mut pool, 1);
    let why = WhyStays::NotReady("hosts map it".to_owned());
    assert!(
        missing == LEN && !stays.is_empty() && stays.iter().all(|region| region.why == why && region.len == LEN),
        "{stays:?}"
    );
    let others = User { uid: OWNER.uid + 1, gid: OWNER.gid + 1 };
    assert_eq!(status(&mut pool, others).nodes[1].stays, [], "regions of others are nobody's business");
    assert!(pool.create(0, "new", LEN, Placement::Node(NodeId(1))).is_err());
    // Locks are another reason, and go.
    pool.nodes[1].readies = Some(Ok(()));
    serve(&mut pool, &[1]);
    assert!(leaving(&mut pool, 1).1.iter().any(|region| region.why == WhyStays::Locks));
    serve(&mut pool, &[]);
    serve(&mut pool, &[]);
    assert_eq!((bytes_on(&pool, 1), leaving(&mut pool, 1)), (7 * LEN, (0, vec![])));
}

#[test]
fn a_home_that_had_locks_is_asked_again_while_its_copies_stay() {
    let mut pool = Pool::new(4);
    view(pool.call(1, OWNER, copied("shared", LEN, Placement::Local, 2))).unwrap();
    lend(&mut pool, 1, 0);
    serve(&mut pool, &[1]);
    assert!(leaving(&mut pool, 1).1.iter().any(|region| region.why == WhyStays::Locks));
    (0..2).for_each(|_| serve(&mut pool, &[]));
    assert_eq!((bytes_on(&pool, 1), leaving(&mut pool, 1)), (0, (0, vec![])));
}

#[test]
fn without_room_elsewhere_bytes_wait_for_a_node() {
    let mut pool = pool(Placement::Local);
    for number in [0, 2] {
        let name = format!("filler{number}");
        pool.create(number, &name, ALL - LEN / 2, Placement::Local).unwrap();
    }
    lend(&mut pool, 1, 6 * LEN);
    serve(&mut pool, &[]);
    let (missing, stays) = leaving(&mut pool, 1);
    assert_eq!((missing, stays.len()), (2 * LEN, 8), "{stays:?}");
    assert!(stays.iter().all(|region| region.why == WhyStays::NoRoom));
    assert_eq!(names(&stays)[..2], ["r0", "r1"]);
    // A node whose host runs short, too, is none.
    pool.nodes.push(node("n3", 4));
    pool.nodes[3].member.set_memory(Memory { lent: 0, lent_max: ALL, ..Memory::default() });
    pool.connect(3);
    serve(&mut pool, &[]);
    assert_eq!(bytes_on(&pool, 3), 0);
    lend(&mut pool, 3, ALL);
    serve(&mut pool, &[]);
    assert_eq!((bytes_on(&pool, 1), bytes_on(&pool, 3), leaving(&mut pool, 1)), (6 * LEN, 2 * LEN, (0, vec![])));
}

#[test]
fn a_shortage_that_is_over_moves_nothing_more() {
    let mut pool = pool(Placement::Local);
    // No region is made ready for a while.
    pool.nodes[1].readies = None;
    lend(&mut pool, 1, 0);
    assert_eq!(leaving(&mut pool, 1).0, 8 * LEN);
    lend(&mut pool, 1, ALL);
    pool.nodes[1].readies = Some(Ok(()));
    pool.nodes[1].make_ready();
    serve(&mut pool, &[]);
    serve(&mut pool, &[]);
    assert_eq!((bytes_on(&pool, 1), leaving(&mut pool, 1)), (8 * LEN, (0, vec![])));
    assert!(pool.coordinator.next_deadline().is_none_or(|at_ms| at_ms > pool.now_ms));
    assert!(pool.coordinator.regions().all(|region| region.holders.is_empty()), "and nothing is left of it");
}

#[test]
fn copies_stay_as_many_and_a_new_coordinator_goes_on() {
    let mut pool = Pool::new(4);
    for number in 0..4 {
        view(pool.call(1, OWNER, copied(&format!("r{number}"), LEN, Placement::Local, 2))).unwrap();
    }
    lend(&mut pool, 1, LEN);
    pool.restart_coordinator();
    (0..4).for_each(|number| pool.connect(number));
    pool.pass(1000, &[]);
    serve(&mut pool, &[]);
    serve(&mut pool, &[]);
    assert_eq!(bytes_on(&pool, 1), LEN);
    assert!((0..4).all(|number| pool.stat(&format!("r{number}")).unwrap().whole_copies == 2));
}

#[test]
fn a_rebalancing_ends_without_it() {
    let mut pool = pool(Placement::Local);
    pool.nodes[1].readies = None;
    lend(&mut pool, 1, 4 * LEN);
    let mut ask = |wish| match pool.call(0, OWNER, Request::Rebalance(wish)) {
        Ok(Answer::Rebalance(status)) => status,
        other => panic!("{other:?}"),
    };
    let looked = ask(RebalanceWish::Look { with_local: false });
    assert!(!looked.is_under_way && looked.moves.is_empty(), "{looked:?}");
    assert!(!ask(RebalanceWish::Stop).is_under_way);
    pool.nodes[1].readies = Some(Ok(()));
    pool.nodes[1].make_ready();
    serve(&mut pool, &[]);
    assert_eq!(bytes_on(&pool, 1), 4 * LEN);
}
