//! Regions that follow their users.

use super::copies::{any, drain};
use super::rebalance::serve;
use super::*;
use crate::limits::USED_ELSEWHERE_COUNT_MAX;
use crate::placement::Extent;
use crate::usage::{FOLLOWS, ROUND_MS, USERS, UsedElsewhere};

/// A region's length: the test's nodes lend 1 MiB.
const LEN: u64 = 100 << 10;

/// A region of node 1 that follows its users, or not.
fn region(pool: &mut Pool, name: &str, follows: bool) -> Gid {
    region_with(pool, name, (follows, 1))
}

fn region_with(pool: &mut Pool, name: &str, (follows, copies): (bool, u8)) -> Gid {
    let attributes = if follows { Attributes::from_iter([(FOLLOWS, USERS)]) } else { Attributes::default() };
    let (placement, existing) = (Placement::Local, Existing::Refuse);
    let what = Request::Create { name: name.to_owned(), len: LEN, placement, copies, mode: 0o600, attributes, existing };
    view(pool.call(1, OWNER, what)).unwrap().gid
}

/// Nodes with a copy of a region's one extent.
fn copies(pool: &Pool, gid: Gid) -> Vec<NodeId> {
    let region = pool.coordinator.regions().find(|region| region.gid == gid).unwrap();
    region.holders[0].copies.iter().map(|extent| extent.node).collect()
}

/// Where a region's one extent is.
fn home(pool: &Pool, gid: Gid) -> Extent {
    let region = pool.coordinator.regions().find(|region| region.gid == gid).unwrap();
    *region.layout.extents().next().unwrap()
}

/// Node `at` says that programs of the host of `by` use its extents of these regions most.
fn say(pool: &mut Pool, at: usize, gids: &[Gid], by: u32) {
    let used = |gid: &Gid| UsedElsewhere { gid: *gid, slot: home(pool, *gid).slot, by: NodeId(by) };
    let extents = gids.iter().map(used).collect();
    pool.nodes[at].member.say_used_elsewhere(extents);
    pool.run();
}

#[test]
fn a_region_that_follows_goes_to_the_host_that_uses_it_and_another_stays() {
    let mut pool = Pool::new(3);
    let (follows, stays) = (region(&mut pool, "follows", true), region(&mut pool, "stays", false));
    say(&mut pool, 1, &[follows, stays], 2);
    serve(&mut pool, &[]);
    assert_eq!([follows, stays].map(|gid| home(&pool, gid).node), [NodeId(2), NodeId(1)]);
    // The next home may send it on, and the one before says nothing of it any more.
    say(&mut pool, 1, &[follows], 0);
    serve(&mut pool, &[]);
    assert_eq!(home(&pool, follows).node, NodeId(2));
    say(&mut pool, 2, &[follows], 0);
    serve(&mut pool, &[]);
    assert_eq!((home(&pool, follows).node, pool.open(2, "follows").is_ok()), (NodeId(0), true));
}

#[test]
fn a_region_goes_to_no_node_that_is_drained_gone_full_or_a_holder() {
    let mut pool = Pool::new(3);
    let gid = region(&mut pool, "r", true);
    let stays = |pool: &mut Pool, by: u32| {
        say(pool, 1, &[gid], by);
        serve(pool, &[]);
        home(pool, gid).node == NodeId(1)
    };
    assert!(stays(&mut pool, 1) && stays(&mut pool, 7), "its own node, and none");
    drain(&mut pool, 2, any()).unwrap();
    assert!(stays(&mut pool, 2));
    drain(&mut pool, 2, crate::wire::control::DrainWish::Stop).unwrap();
    pool.create(2, "full", (1 << 20) - LEN / 2, Placement::Local).unwrap();
    assert!(stays(&mut pool, 2));
}

#[test]
fn a_region_with_copies_has_its_home_at_its_users_whoever_has_a_copy() {
    for by in [0, 2, 3] {
        let mut pool = Pool::new(4);
        let gid = region_with(&mut pool, "r", (true, 2));
        serve(&mut pool, &[]);
        let [copy] = copies(&pool, gid)[..] else { panic!("one copy") };
        say(&mut pool, 1, &[gid], by);
        serve(&mut pool, &[]);
        let [other] = copies(&pool, gid)[..] else { panic!("one copy") };
        assert_eq!(home(&pool, gid).node, NodeId(by), "the copy was on {copy}");
        assert!(other != NodeId(1) && (other == copy || copy == NodeId(by)), "{copy} {other}");
    }
}

/// The extent went to nodes whose hosts did not use it, and was copied once more for that.
#[test]
fn a_home_stays_when_the_copy_of_its_users_is_lost_on_the_way() {
    let mut pool = Pool::new(4);
    // The coordinator's own node is never away.
    pool.create(0, "filler", LEN / 2, Placement::Local).unwrap();
    let gid = region_with(&mut pool, "r", (true, 2));
    serve(&mut pool, &[]);
    let [copy] = copies(&pool, gid)[..] else { panic!("one copy") };
    say(&mut pool, 1, &[gid], copy.0);
    let makes = |message: &ToHolder| matches!(message, ToHolder::Make { .. });
    assert!(pool.nodes[1].held.iter().any(|(_, message)| makes(message)), "a further copy is made first");
    let away = copy.0 as usize;
    pool.cut(away);
    pool.pass(limits::LEASE_MS + 200, &[away]);
    serve(&mut pool, &[]);
    let [other] = copies(&pool, gid)[..] else { panic!("one copy") };
    assert_eq!(home(&pool, gid).node, NodeId(1));
    assert_ne!(other, copy);
}

#[test]
fn a_home_stays_where_its_users_have_the_copy_and_no_other_node_can_get_one() {
    let mut pool = Pool::new(2);
    let gid = region_with(&mut pool, "r", (true, 2));
    serve(&mut pool, &[]);
    say(&mut pool, 1, &[gid], 0);
    serve(&mut pool, &[]);
    assert_eq!((home(&pool, gid).node, copies(&pool, gid)), (NodeId(1), vec![NodeId(0)]));
}

#[test]
fn what_could_not_move_is_tried_again_a_minute_later() {
    let mut pool = Pool::new(3);
    let gid = region(&mut pool, "r", true);
    pool.nodes[1].readies = Some(Err(Error::BadUse { region: "r".to_owned(), reason: "hosts map it".to_owned() }));
    say(&mut pool, 1, &[gid], 2);
    serve(&mut pool, &[]);
    pool.nodes[1].readies = Some(Ok(()));
    say(&mut pool, 1, &[gid], 2);
    serve(&mut pool, &[]);
    assert_eq!(home(&pool, gid).node, NodeId(1), "it rests");
    pool.pass(6 * ROUND_MS, &[]);
    say(&mut pool, 1, &[gid], 2);
    serve(&mut pool, &[]);
    assert_eq!(home(&pool, gid).node, NodeId(2));
}

#[test]
fn more_than_a_message_may_say_is_not_looked_at() {
    let mut pool = Pool::new(3);
    let gid = region(&mut pool, "r", true);
    let slot = home(&pool, gid).slot;
    let mut extents = vec![UsedElsewhere { gid: Gid(u64::MAX), slot, by: NodeId(2) }; USED_ELSEWHERE_COUNT_MAX];
    extents.push(UsedElsewhere { gid, slot, by: NodeId(2) });
    pool.nodes[1].member.say_used_elsewhere(extents);
    pool.run();
    serve(&mut pool, &[]);
    assert_eq!(home(&pool, gid).node, NodeId(1));
}
