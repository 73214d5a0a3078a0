//! The table of the membership, and what no scenario with a coordinator shows.

use super::*;
use crate::id::Grant;
use crate::versions::NEWEST;

#[test]
fn the_table_is_this() {
    assert_eq!(table::contradiction(TABLE), None);
    assert_eq!(
        table::print(TABLE),
        "\
Welcome        Joining, Lapsed                    -> Member
WelcomeAnew    Joining, Lapsed                    -> Regranting
Regranted      Regranting                         -> Lapsed
Renewed        Member                             -> Member
LeaseEnds      Member, Regranting                 -> Lapsed
Disconnected   Member, Regranting                 -> Lapsed
Unknown        Member, Regranting                 -> Lapsed
Leave          Joining, Member, Regranting, Lapsed -> Left
"
    );
}

fn joined() -> Member {
    let mut member = Member::new(Settings::new(Incarnation(1), "n", "127.0.0.1:1"));
    member.connected(0, NEWEST);
    member.handle(0, welcome(1, 1, &[], 0));
    while member.poll().is_some() {}
    member
}

fn welcome(attempt: u64, epoch: u64, keep: &[u32], settled: u64) -> ToNode {
    let home = NodeAddress { node: NodeId(0), epoch: Epoch(1), address: "127.0.0.1:2".into() };
    let keep = keep.iter().copied().map(Slot).collect();
    let (incarnation, node, epoch) = (Incarnation(1), NodeId(1), Epoch(epoch));
    ToNode::Welcome { incarnation, attempt, node, epoch, lease_ms: limits::LEASE_MS, keep, settled, home, quota: None }
}

fn make(order: u64, settled: u64) -> ToNode {
    ToNode::Order { order, settled, epoch: Epoch(1), what: Order::Make { gid: Gid(1), lens: vec![1], copied: None } }
}

fn extent(slot: u32) -> ReportedExtent {
    ReportedExtent { slot: Slot(slot), gid: Gid(1), len: 1, read: Grant([0; 16]), write: Grant([0; 16]) }
}

fn outputs(member: &mut Member) -> Vec<Output> {
    std::iter::from_fn(|| member.poll()).collect()
}

#[test]
fn a_late_welcome_frees_nothing_that_was_made_since() {
    let mut member = joined();
    member.handle(1, make(1, 1));
    member.made(1, Ok(vec![extent(7)]));
    member.handle(2, welcome(1, 1, &[], 2));
    assert_eq!(member.held().count(), 1);
}

#[test]
fn a_welcome_frees_exactly_what_its_join_listed_and_it_does_not_keep() {
    let mut member = joined();
    for (order, slot) in [(1, 7), (2, 8), (3, 9)] {
        member.handle(1, make(order, 1));
        if slot != 9 {
            member.made(order, Ok(vec![extent(slot)]));
        }
    }
    member.handle(2, ToNode::Unknown);
    member.made(3, Ok(vec![extent(9)]));
    outputs(&mut member);
    member.handle(3, welcome(2, 1, &[7], 3));
    assert!(outputs(&mut member).contains(&Output::Free { slots: vec![Slot(8)] }));
    assert_eq!(member.held().map(|extent| extent.slot.0).collect::<Vec<_>>(), [7, 9], "the third order is still wanted");
}

#[test]
fn only_a_member_obeys_and_only_its_own_epoch() {
    let mut member = joined();
    member.handle(1, ToNode::Order { order: 1, settled: 1, epoch: Epoch(2), what: Order::Free { slots: vec![] } });
    member.handle(1, ToNode::Unknown);
    outputs(&mut member);
    member.handle(1, make(1, 1));
    assert_eq!(outputs(&mut member), []);
}

#[test]
fn a_new_epoch_is_granted_for_before_the_node_is_a_member_again() {
    let mut member = joined();
    member.handle(1, make(1, 1));
    member.made(1, Ok(vec![extent(7)]));
    member.disconnected();
    member.connected(5, NEWEST);
    outputs(&mut member);
    member.handle(6, welcome(2, 2, &[7], 2));
    assert_eq!(member.phase(), Phase::Regranting);
    let output = outputs(&mut member);
    assert!(output.contains(&Output::NewEpoch { node: NodeId(1), epoch: Epoch(2), held: vec![Slot(7)] }));
    let fresh = ReportedExtent { read: Grant([9; 16]), ..extent(7) };
    member.regranted(7, Epoch(2), vec![fresh]);
    let output = outputs(&mut member);
    let joins = |output: &Output| {
        matches!(output, Output::Send(FromNode::Join { was, held, .. })
        if *was == Some((NodeId(1), Epoch(2))) && held == &[fresh])
    };
    assert!(output.iter().any(joins), "{output:?}");
    member.handle(8, welcome(3, 2, &[7], 2));
    assert_eq!((member.phase(), member.identity()), (Phase::Member, Some((NodeId(1), Epoch(2)))));
}
