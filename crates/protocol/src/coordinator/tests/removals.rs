//! When a removal is answered: its nodes have obeyed, or their leases are over.

use super::*;

const LEN: u64 = 10_000;

/// A pool of three nodes, a region on the last, and a removal that node 1 asks for while `stopped` hears nothing.
fn removed_while(stopped: impl FnOnce(&mut Pool)) -> (Pool, u64) {
    let mut pool = Pool::new(3);
    pool.create(1, "a", LEN, Placement::Node(NodeId(2))).unwrap();
    assert_eq!(pool.nodes[2].slots.len(), 1);
    stopped(&mut pool);
    let request = pool.ask(1, OWNER, remove("a"));
    (pool, request)
}

/// Passes messages to all but the last node, whose process is stopped.
fn stop(pool: &mut Pool) {
    pool.nodes[2].peer = None;
}

fn is_answered(pool: &mut Pool, request: u64) -> bool {
    pool.answer(1, request).is_some_and(|answer| {
        assert_eq!(answer, Ok(Answer::Ok));
        true
    })
}

#[test]
fn a_removal_is_answered_when_its_node_has_let_go() {
    let (mut pool, request) = removed_while(|_| ());
    assert!(pool.nodes[2].slots.is_empty() && is_answered(&mut pool, request));
    assert_eq!(pool.coordinator.removals.deadline(), None);
}

#[test]
fn a_silent_node_is_waited_for_until_its_lease_ends() {
    let (mut pool, request) = removed_while(stop);
    pool.pass(1000, &[2]);
    assert!(!is_answered(&mut pool, request) && !pool.nodes[2].slots.is_empty());
    pool.pass(limits::LEASE_MS, &[2]);
    assert!(is_answered(&mut pool, request));
}

#[test]
fn a_node_whose_connection_closed_is_waited_for_until_it_has_freed_or_its_lease_is_over() {
    let cut = |pool: &mut Pool| pool.cut(2);
    let (mut pool, request) = removed_while(cut);
    pool.pass(limits::LEASE_MS / 2, &[2]);
    assert!(!is_answered(&mut pool, request));
    pool.connect(2);
    assert!(pool.nodes[2].slots.is_empty() && is_answered(&mut pool, request));

    let (mut pool, request) = removed_while(cut);
    pool.pass(2 * limits::LEASE_MS, &[2]);
    assert!(is_answered(&mut pool, request), "it may be gone for good");

    // It goes with an order that it has not obeyed.
    let (mut pool, request) = removed_while(stop);
    let peer = Peer(2);
    pool.nodes[2].member.disconnected();
    pool.coordinator.disconnected(pool.now_ms, peer, "connection reset");
    pool.run();
    assert!(!is_answered(&mut pool, request));
    pool.restart_node_of_a_closed_connection(2, 99);
    assert!(is_answered(&mut pool, request), "its next life has none of its bytes");
}

#[test]
fn a_node_that_renews_and_never_obeys_holds_a_removal_up_for_two_leases() {
    let (mut pool, request) = removed_while(stop);
    let renew = FromNode::Renew { epoch: pool.coordinator.epoch(NodeId(2)), memory: Memory::default() };
    for _ in 0..5 {
        pool.pass(limits::LEASE_MS / 3, &[2]);
        pool.coordinator.handle(pool.now_ms, Peer(2), renew.clone());
        pool.run();
        assert!(!is_answered(&mut pool, request));
    }
    pool.pass(limits::LEASE_MS / 3, &[2]);
    assert!(is_answered(&mut pool, request));
    assert!(pool.coordinator.removals.deadline().is_none());
}

#[test]
fn a_removal_that_is_asked_for_again_after_a_restart_waits_for_who_may_come_back() {
    let (mut pool, request) = removed_while(stop);
    pool.restart_coordinator();
    pool.connect(0);
    pool.connect(1);
    pool.pass(limits::REPEAT_MS * 2, &[2]);
    assert!(!is_answered(&mut pool, request), "the last node has the region still");
    pool.connect(2);
    assert!(pool.nodes[2].slots.is_empty() && is_answered(&mut pool, request));
}
