//! The table of nodes, and its verdicts.

use super::*;

#[test]
fn the_table_is_this() {
    assert_eq!(table::contradiction(TABLE), None);
    assert_eq!(
        table::print(TABLE),
        "\
Join           Absent, Awaited, Member, Silent, Closed, Dead, Left -> Member
Renew          Member                             -> Member
LeaseEnds      Awaited, Member                    -> Silent
Closes         Awaited, Member, Silent            -> Closed
StaysClosed    Closed                             -> Dead
Leave          Member                             -> Left
"
    );
}

#[test]
fn a_connection_that_a_node_has_left_for_another_says_nothing_of_it() {
    let mut roster = Roster::default();
    let (old, new) = (Peer(1), Peer(2));
    roster.on_join(NodeId(3), old, 100);
    roster.on_join(NodeId(3), new, 100);
    assert_eq!(roster.on_closed(100, 100, old), None);
    assert_eq!(roster.phase(NodeId(3)), Phase::Member);
    assert_eq!(roster.on_closed(100, 100, new), Some((NodeId(3), true)));
    assert_eq!(roster.on_tick(199), (vec![], vec![]));
    assert_eq!(roster.on_tick(200), (vec![], vec![NodeId(3)]));
    assert_eq!(roster.phase(NodeId(3)), Phase::Dead);
    assert_eq!(roster.long_gone(199 + FORGET_MS), []);
    assert_eq!((roster.deadline(), roster.long_gone(200 + FORGET_MS)), (Some(200 + FORGET_MS), vec![NodeId(3)]));
    assert_eq!(roster.deadline(), Some(200 + 2 * FORGET_MS), "one that cannot be forgotten yet is looked at again");
}

#[test]
fn a_node_that_keeps_its_bytes_is_away_and_never_dead() {
    let mut roster = Roster::default();
    roster.on_join(NodeId(3), Peer(1), 100);
    roster.on_leave(50, NodeId(3), true);
    assert_eq!(roster.on_closed(100, 100, Peer(1)), None);
    assert_eq!((roster.on_tick(10_000), roster.phase(NodeId(3))), ((vec![], vec![]), Phase::Silent));
}

#[test]
fn a_closed_home_is_mute_when_its_shorter_lease_ends() {
    let mut roster = Roster::default();
    let lease_ms = crate::limits::LEASE_MS;
    roster.on_join(NodeId(1), Peer(1), 10 + lease_ms);
    roster.on_join(NodeId(2), Peer(2), u64::MAX);
    roster.on_renew(NodeId(1), 100 + lease_ms, Memory::default());
    assert_eq!(roster.mute(10_000), [], "members renew");
    roster.on_closed(200, lease_ms, Peer(1));
    roster.on_closed(200, lease_ms, Peer(2));
    let mute_ms = 100 + crate::limits::HOME_LEASE_MS;
    assert_eq!((roster.deadline(), roster.mute(mute_ms - 1)), (Some(mute_ms), vec![]));
    assert_eq!(roster.mute(mute_ms), [NodeId(1)]);
    assert_eq!((roster.deadline(), roster.mute(mute_ms + 1)), (Some(200 + lease_ms), vec![]), "once");
}

#[test]
fn a_deposed_coordinators_node_counts_as_closed_when_its_homes_are_mute_unless_it_is_back() {
    let lease_ms = crate::limits::LEASE_MS;
    let restored = |was_home| {
        let mut roster = Roster::default();
        roster.restore(NodeId(1), (None, was_home), 100, lease_ms);
        roster
    };
    let (mut deposed, mut other) = (restored(true), restored(false));
    let at_ms = 100 + crate::limits::HOME_LEASE_MS;
    assert_eq!((deposed.deadline(), other.deadline()), (Some(at_ms), Some(100 + 2 * lease_ms)));
    assert_eq!((deposed.close_former_home(at_ms - 1), other.close_former_home(at_ms)), (None, None));
    let mut back = deposed.clone();
    back.on_join(NodeId(1), Peer(1), 9000);
    assert_eq!((back.close_former_home(at_ms), back.phase(NodeId(1))), (None, Phase::Member));
    assert_eq!((deposed.close_former_home(at_ms), deposed.phase(NodeId(1))), (Some(NodeId(1)), Phase::Closed));
    assert_eq!((deposed.close_former_home(at_ms), deposed.mute(at_ms)), (None, vec![NodeId(1)]), "once");
    assert_eq!(deposed.on_tick(100 + 2 * lease_ms), (vec![], vec![NodeId(1)]), "dead as late as others are silent");
}

#[test]
fn a_lease_ends_when_nothing_renews_it() {
    let mut roster = Roster::default();
    roster.on_join(NodeId(1), Peer(1), 100);
    roster.on_renew(NodeId(1), 150, Memory::default());
    assert_eq!((roster.deadline(), roster.on_tick(149).0), (Some(150), vec![]));
    assert_eq!(roster.on_tick(150).0, [NodeId(1)]);
    assert_eq!(roster.on_closed(200, 100, Peer(1)), Some((NodeId(1), false)), "its epoch had ended before");
}
