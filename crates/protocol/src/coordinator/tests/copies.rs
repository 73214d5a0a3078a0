//! Regions with copies: where copies go, which node becomes home, and what a copy that is made anew needs.

use super::*;
use crate::copies::{Position, Term};
use crate::error::Error;
use crate::wire::control::{DrainStatus, DrainWish, WhyStays};
use crate::wire::copies::FromHolder;

const LEASE_MS: u64 = crate::limits::LEASE_MS;
const HOME_LEASE_MS: u64 = crate::limits::HOME_LEASE_MS;

pub(super) fn copied(name: &str, len: u64, placement: Placement, copies: u8) -> Request {
    let (name, attributes, existing) = (name.to_owned(), Attributes::default(), Existing::Refuse);
    Request::Create { name, len, placement, copies, mode: 0o600, attributes, existing }
}

/// The only extent of the first region.
fn extent(pool: &Pool) -> CopiedExtent {
    CopiedExtent { gid: pool.coordinator.regions().next().expect("it was made").gid, index: 0 }
}

/// Home and copies of the first extent, as the journal has them.
fn holders(pool: &Pool) -> (u64, u32, Vec<u32>) {
    let region = pool.coordinator.regions().next().expect("it was made");
    let (home, known) = region.holders_of(0).expect("it has copies");
    let mut copies: Vec<u32> = known.copies.iter().map(|copy| copy.node.0).collect();
    copies.sort_unstable();
    (known.term.0, home.node.0, copies)
}

impl Pool {
    fn say(&mut self, number: usize, message: FromHolder) {
        let extent = extent(self);
        self.nodes[number].member.say_as_holder(extent, message);
        self.run();
    }

    /// Copies that are asked say that they have so many writes.
    fn freeze(&mut self, number: usize, position: u64) {
        let asked = self.nodes[number].held.iter().rev().find_map(|(_, message)| match message {
            ToHolder::Freeze { term } => Some(*term),
            _ => None,
        });
        self.say(number, FromHolder::IsFrozen { term: asked.expect("it was asked"), position: Position(position) });
    }

    fn is_elected(&self, number: usize) -> bool {
        self.nodes[number].held.iter().any(|(_, message)| matches!(message, ToHolder::Elect { .. }))
    }
}

#[test]
fn each_copy_is_on_a_node_of_its_own() {
    let mut pool = Pool::new(3);
    let view = view(pool.call(0, OWNER, copied("a", 6 * 4096, Placement::Interleave(4096), 2))).unwrap();
    assert_eq!((view.copies, view.layout.extents().count(), view.grants.len()), (2, 3, 3));
    let region = pool.coordinator.regions().next().unwrap();
    for index in 0..3 {
        let (home, known) = region.holders_of(index).unwrap();
        assert!(known.copies.len() == 1 && known.copies[0].node != home.node && known.copies[0].len == home.len);
    }
    assert_eq!(pool.coordinator.used(OWNER.uid), 2 * 6 * 4096, "copies count");
    assert!(pool.nodes.iter().all(|node| node.first.iter().all(|set| set.term == Term(1) && set.copies.len() == 1)));
    assert_eq!(pool.nodes.iter().map(|node| node.slots.len()).sum::<usize>(), 6);
    let stat = pool.stat("a").unwrap();
    assert_eq!((stat.copies, stat.whole_copies, stat.nodes.iter().map(|(_, len)| len).sum::<u64>()), (2, 2, 12 * 4096));
    assert_eq!(pool.call(0, OWNER, remove("a")), Ok(Answer::Ok));
    assert!(pool.nodes.iter().all(|node| node.slots.is_empty()));
    assert_eq!(pool.coordinator.used(OWNER.uid), 0);
}

#[test]
fn a_copy_is_given_up_whose_home_began_anew_before_it_was_filled() {
    let mut pool = Pool::new(3);
    view(pool.call(1, OWNER, copied("a", 4096, Placement::Local, 2))).unwrap();
    let is_made = |pool: &Pool| pool.coordinator.making_order(extent(pool)).is_some();
    let copy = holders(&pool).2[0] as usize;
    pool.restart_node(copy, 90);
    assert!(is_made(&pool), "another is made in place of the one that is lost");
    // The home had the only bytes. It is back before its lease is over.
    pool.restart_node(1, 91);
    assert_eq!(pool.stat("a").unwrap().lost, Some(NodeId(1)));
    assert!(!is_made(&pool) && pool.nodes.iter().all(|node| node.slots.is_empty()), "nobody fills it");
}

#[test]
fn what_has_no_place_for_its_copies_is_refused() {
    let mut pool = Pool::with(2, Settings { quota: Some(1 << 20), ..Settings::new("n0") });
    let refused =
        |pool: &mut Pool, len, copies| view(pool.call(0, OWNER, copied("a", len, Placement::Local, copies))).unwrap_err();
    assert!(matches!(refused(&mut pool, 4096, 3), Error::BadPlacement { .. }));
    assert!(matches!(refused(&mut pool, 4096, 0), Error::BadPlacement { .. }));
    assert!(matches!(refused(&mut pool, 4096, 4), Error::BadPlacement { .. }));
    assert!(matches!(refused(&mut pool, (1 << 19) + 1, 2), Error::QuotaExceeded { .. }));
    pool.create(1, "b", (1 << 20) - 4096, Placement::Local).unwrap();
    let uid = User { uid: 99, gid: 99 };
    let full = view(pool.call(0, uid, copied("a", 8192, Placement::Local, 2))).unwrap_err();
    assert_eq!(full, Error::PoolFull { asked: 8192, free: 4096, withheld: 0 });
    assert!(pool.nodes[0].slots.is_empty(), "nothing was made");
}

#[test]
fn a_longer_region_has_copies_of_all_of_it() {
    let mut pool = Pool::new(2);
    view(pool.call(0, OWNER, copied("a", 4096, Placement::Local, 2))).unwrap();
    view(pool.call(0, OWNER, Request::Resize { name: "a".to_owned(), len: 3 * 4096 })).unwrap();
    let region = pool.coordinator.regions().next().unwrap();
    assert_eq!((region.holders.len(), region.holders_of(1).unwrap().1.copies[0].len), (2, 2 * 4096));
    assert_eq!(pool.coordinator.used(OWNER.uid), 2 * 3 * 4096);
    let again = Coordinator::restore(pool.settings.clone(), pool.journal.clone(), pool.now_ms);
    assert_eq!(again.regions().next(), Some(region));
}

#[test]
fn a_copy_becomes_home_when_the_lease_of_the_home_is_over() {
    let mut pool = Pool::new(3);
    view(pool.call(1, OWNER, copied("a", 4096, Placement::Local, 2))).unwrap();
    let (_, home, copies) = holders(&pool);
    assert_eq!(home, 1);
    let copy = copies[0] as usize;
    let answers_until_ms = pool.nodes[1].member.homes_until_ms();
    pool.cut(1);
    let asked = pool.ask(0, OWNER, open("a"));
    pool.pass(HOME_LEASE_MS - 300, &[1]);
    assert!(pool.nodes[copy].held.is_empty() && pool.answer(0, asked).is_none(), "its lease goes on");
    assert!(answers_until_ms > pool.now_ms);
    pool.pass(400, &[1]);
    assert!(answers_until_ms <= pool.now_ms);
    pool.freeze(copy, 7);
    assert!(pool.is_elected(copy));
    assert_eq!(holders(&pool), (2, copy as u32, vec![]));
    let view = view(pool.answer(0, asked).expect("it waited for the home")).unwrap();
    assert_eq!(view.layout.extents().next().unwrap().node, NodeId(copy as u32));
    assert_eq!(pool.stat("a").unwrap().whole_copies, 1);
    // The old home comes back in the same life: what it has is void.
    pool.connect(1);
    pool.pass(200, &[]);
    assert!(pool.nodes[1].slots.len() <= 1 && holders(&pool).1 == copy as u32);
}

#[test]
fn a_copy_that_is_missing_elsewhere_does_not_put_off_the_end_of_a_lease() {
    let mut pool = Pool::new(3);
    view(pool.call(1, OWNER, copied("a", 4096, Placement::Local, 2))).unwrap();
    view(pool.call(0, OWNER, copied("b", 4096, Placement::Local, 2))).unwrap();
    let (copy, other) = (holders(&pool).2[0] as usize, pool.coordinator.regions().nth(1).unwrap());
    let (extent, node) = (CopiedExtent { gid: other.gid, index: 0 }, other.holders_of(0).unwrap().1.copies[0].node);
    pool.cut(1);
    pool.pass(HOME_LEASE_MS - 300, &[1]);
    pool.nodes[0].member.say_as_holder(extent, FromHolder::Drop { term: Term(1), node });
    pool.run();
    pool.pass(500, &[1]);
    assert!(pool.nodes[copy].held.iter().any(|(_, message)| matches!(message, ToHolder::Freeze { .. })));
}

#[test]
fn the_copy_with_the_most_writes_is_elected() {
    let mut pool = Pool::new(3);
    view(pool.call(1, OWNER, copied("a", 4096, Placement::Local, 3))).unwrap();
    pool.cut(1);
    pool.pass(LEASE_MS + 200, &[1]);
    pool.freeze(0, 4);
    assert!(!pool.is_elected(0));
    pool.freeze(2, 5);
    assert!(pool.is_elected(2) && !pool.is_elected(0));
    assert_eq!(holders(&pool), (2, 2, vec![0]));
}

#[test]
fn a_copy_that_does_not_say_how_far_it_is_is_dropped() {
    let mut pool = Pool::new(3);
    view(pool.call(1, OWNER, copied("a", 4096, Placement::Local, 3))).unwrap();
    pool.cut(1);
    pool.pass(LEASE_MS + 200, &[1]);
    pool.freeze(0, 4);
    pool.pass(LEASE_MS, &[1]);
    assert!(pool.is_elected(0));
    assert_eq!(holders(&pool).1, 0);
    assert!(!pool.nodes[2].slots.contains(&0), "its extent is freed");
}

#[test]
fn a_coordinator_that_begins_again_ends_the_election() {
    let mut pool = Pool::new(3);
    // Node 0 has less room than node 2.
    pool.nodes[0].member.set_memory(Memory { lent: 1 << 19, page: 4096, ..Memory::default() });
    pool.pass(LEASE_MS, &[]);
    view(pool.call(1, OWNER, copied("a", 4096, Placement::Node(NodeId(1)), 2))).unwrap();
    assert_eq!(holders(&pool).2, [2]);
    pool.cut(1);
    pool.pass(LEASE_MS + 200, &[1]);
    pool.restart_coordinator();
    (0..3).filter(|number| *number != 1).for_each(|number| pool.connect(number));
    pool.nodes[2].held.clear();
    pool.pass(2 * LEASE_MS + 400, &[1]);
    pool.freeze(2, 1);
    assert!(pool.is_elected(2));
    assert_eq!(holders(&pool).1, 2);
}

#[test]
fn a_region_is_lost_when_all_of_its_holders_are_forgotten() {
    let mut pool = Pool::new(3);
    pool.create(0, "filler", 4096, Placement::Local).unwrap();
    view(pool.call(1, OWNER, copied("a", 4096, Placement::Local, 2))).unwrap();
    assert_eq!(pool.call(0, OWNER, remove("filler")), Ok(Answer::Ok));
    assert_eq!(holders(&pool).2, [2]);
    [1, 2].iter().for_each(|number| pool.cut(*number));
    pool.pass(3 * LEASE_MS, &[1, 2]);
    let forget = |node: u32| Request::Forget { node: NodeId(node) };
    assert_eq!(pool.call(0, OWNER, forget(1)), Ok(Answer::Ok));
    let is_lost = |pool: &Pool| !pool.coordinator.regions().next().unwrap().lost.is_empty();
    assert!(!is_lost(&pool), "the copy may come back");
    assert_eq!(pool.call(0, OWNER, forget(2)), Ok(Answer::Ok));
    assert!(is_lost(&pool));
    assert!(matches!(pool.open(0, "a"), Err(Error::RegionLost { .. })));
    assert_eq!(pool.call(0, OWNER, remove("a")), Ok(Answer::Ok));
}

/// A copy that began anew counted again at the next coordinator, so that all holders of a lost region were waited for.
#[test]
fn a_region_whose_holders_all_began_anew_is_lost_whatever_happens_to_the_coordinator() {
    let mut pool = Pool::new(4);
    pool.create(0, "filler", 4096, Placement::Local).unwrap();
    view(pool.call(1, OWNER, copied("a", 4096, Placement::Local, 3))).unwrap();
    assert_eq!(pool.call(0, OWNER, remove("filler")), Ok(Answer::Ok));
    assert_eq!(holders(&pool).2, [2, 3]);
    pool.restart_node(1, 71);
    pool.restart_node(2, 72);
    pool.restart_coordinator();
    (0..4).for_each(|number| pool.connect(number));
    pool.restart_node(3, 73);
    assert!(matches!(pool.open(0, "a"), Err(Error::RegionLost { .. })));
}

#[test]
fn the_last_holder_brings_its_bytes_back() {
    let mut pool = Pool::new(2);
    view(pool.call(1, OWNER, copied("a", 4096, Placement::Local, 2))).unwrap();
    assert_eq!(holders(&pool), (1, 1, vec![0]));
    pool.say(1, FromHolder::Drop { term: Term(1), node: NodeId(0) });
    assert_eq!(holders(&pool), (2, 1, vec![]));
    pool.cut(1);
    pool.pass(2 * LEASE_MS, &[1]);
    assert!(matches!(pool.open(0, "a"), Err(Error::RegionLost { .. } | Error::NodeLost { .. })));
    pool.connect(1);
    pool.pass(400, &[]);
    assert!(pool.open(0, "a").is_ok());
    pool.restart_node(1, 77);
    assert!(matches!(pool.open(0, "a"), Err(Error::RegionLost { .. })), "a new life has nothing");
}

#[test]
fn a_home_that_is_back_goes_on_when_the_copy_that_was_to_follow_is_lost() {
    let mut pool = Pool::new(3);
    // The coordinator's own node is never away.
    pool.create(0, "filler", 4096, Placement::Local).unwrap();
    view(pool.call(1, OWNER, copied("a", 4096, Placement::Local, 2))).unwrap();
    assert_eq!(pool.call(0, OWNER, remove("filler")), Ok(Answer::Ok));
    let copy = holders(&pool).2[0] as usize;
    pool.cut(1);
    pool.pass(LEASE_MS + 200, &[1]);
    let is_frozen = |pool: &Pool, number: usize| {
        pool.nodes[number].held.iter().any(|(_, message)| matches!(message, ToHolder::Freeze { term: Term(2) }))
    };
    assert!(is_frozen(&pool, copy), "it does not answer");
    pool.cut(copy);
    pool.pass(LEASE_MS + 200, &[1, copy]);
    assert_eq!(holders(&pool), (1, 1, vec![copy as u32]), "the last holder is never lost");
    pool.connect(1);
    pool.pass(200, &[copy]);
    assert!(is_frozen(&pool, 1), "it stops, too");
    pool.say(1, FromHolder::Released { term: Term(1), leaves_doubt: true });
    assert_eq!(holders(&pool), (3, 1, vec![]), "it has all bytes");
    let goes_on = |message: &ToHolder| matches!(message, ToHolder::Set(set) if (set.term, set.home) == (Term(3), NodeId(1)));
    assert!(pool.nodes[1].held.iter().any(|(_, message)| goes_on(message)));
}

/// The copy was dropped, though the home that was to go on alone stood still, and was lost next.
#[test]
fn a_copy_that_is_away_for_a_moment_stays_one_while_the_home_stands_still() {
    let mut pool = Pool::new(3);
    // The coordinator's own node is never away.
    pool.create(0, "filler", 4096, Placement::Local).unwrap();
    view(pool.call(1, OWNER, copied("a", 4096, Placement::Local, 2))).unwrap();
    assert_eq!(pool.call(0, OWNER, remove("filler")), Ok(Answer::Ok));
    let copy = holders(&pool).2[0] as usize;
    pool.pass(HOME_LEASE_MS, &[1]);
    pool.cut(copy);
    pool.pass(HOME_LEASE_MS + 200, &[1, copy]);
    pool.connect(copy);
    pool.pass(400, &[1]);
    assert_eq!(holders(&pool), (1, 1, vec![copy as u32]), "it has all bytes");
    pool.cut(1);
    pool.pass(LEASE_MS, &[1]);
    pool.freeze(copy, 5);
    assert!(pool.is_elected(copy));
}

#[test]
fn holders_that_are_all_away_stay_holders_until_one_is_back() {
    let mut pool = Pool::new(3);
    // The coordinator's own node is never away.
    pool.create(0, "filler", 4096, Placement::Local).unwrap();
    view(pool.call(1, OWNER, copied("a", 4096, Placement::Local, 2))).unwrap();
    assert_eq!(pool.call(0, OWNER, remove("filler")), Ok(Answer::Ok));
    let copy = holders(&pool).2[0];
    assert_eq!(copy, 2);
    let both = [1, copy as usize];
    both.iter().for_each(|number| pool.cut(*number));
    pool.pass(2 * LEASE_MS, &both);
    assert_eq!(holders(&pool), (1, 1, vec![copy]), "nobody can say which of them comes back");
    // The home is back with all its bytes. The copy died.
    pool.connect(1);
    pool.pass(400, &both[1..]);
    assert_eq!((holders(&pool).1, holders(&pool).2), (1, vec![]));
    assert!(pool.open(1, "a").is_ok());
    assert!(!pool.nodes[1].slots.is_empty());
}

#[test]
fn a_copy_that_is_back_first_follows_the_home() {
    let mut pool = Pool::new(3);
    pool.create(0, "filler", 4096, Placement::Local).unwrap();
    view(pool.call(1, OWNER, copied("a", 4096, Placement::Local, 2))).unwrap();
    assert_eq!(pool.call(0, OWNER, remove("filler")), Ok(Answer::Ok));
    let copy = holders(&pool).2[0] as usize;
    [1, copy].iter().for_each(|number| pool.cut(*number));
    pool.pass(2 * LEASE_MS, &[1, copy]);
    pool.connect(copy);
    pool.pass(400, &[1]);
    pool.freeze(copy, 5);
    assert!(pool.is_elected(copy));
    assert_eq!((holders(&pool).1, holders(&pool).2), (copy as u32, vec![]));
}

#[test]
fn a_node_that_begins_anew_is_no_holder() {
    let mut pool = Pool::new(3);
    view(pool.call(1, OWNER, copied("a", 4096, Placement::Local, 2))).unwrap();
    let copy = holders(&pool).2[0] as usize;
    pool.restart_node(1, 55);
    pool.freeze(copy, 3);
    assert_eq!(holders(&pool).1, copy as u32);
    assert!(pool.open(0, "a").is_ok());
}

#[test]
fn a_copy_is_made_on_another_node() {
    let mut pool = Pool::new(3);
    view(pool.call(1, OWNER, copied("a", 4096, Placement::Local, 2))).unwrap();
    let copy = holders(&pool).2[0] as usize;
    let third = (0..3).find(|number| *number != 1 && *number != copy).unwrap();
    pool.say(1, FromHolder::Drop { term: Term(1), node: NodeId(copy as u32) });
    pool.pass(200, &[]);
    let make = pool.nodes[1].held.iter().rev().find_map(|(_, message)| match message {
        ToHolder::Make { node, order } => Some((*node, *order)),
        _ => None,
    });
    let (node, order) = make.expect("a copy is missing");
    assert!([copy, third].contains(&(node.0 as usize)));
    // Another than the home does not admit it, nor is another one admitted.
    pool.say(third, FromHolder::Admit { term: Term(2), node, order });
    let other = NodeId(if node.0 as usize == third { copy } else { third } as u32);
    pool.say(1, FromHolder::Admit { term: Term(2), node: other, order });
    pool.say(1, FromHolder::Admit { term: Term(2), node, order: order + 1 });
    assert_eq!(holders(&pool), (2, 1, vec![]));
    pool.say(1, FromHolder::Admit { term: Term(2), node, order });
    assert_eq!(holders(&pool), (3, 1, vec![node.0]));
    assert_eq!(pool.nodes.iter().map(|node| node.slots.len()).sum::<usize>(), 2);
    let used: u64 = pool.stat("a").unwrap().nodes.iter().map(|(_, len)| len).sum();
    assert_eq!(used, 2 * 4096);
}

#[test]
fn a_home_that_begins_anew_before_the_election_ends_keeps_its_new_extents() {
    let mut pool = Pool::new(3);
    view(pool.call(1, OWNER, copied("a", 4096, Placement::Local, 2))).unwrap();
    let copy = holders(&pool).2[0] as usize;
    pool.restart_node(1, 55);
    assert_eq!(holders(&pool).1, 1, "nobody is elected yet");
    view(pool.call(1, OWNER, copied("b", 8192, Placement::Local, 1))).unwrap();
    let made = pool.nodes[1].slots.clone();
    assert_eq!(made.len(), 1);
    pool.freeze(copy, 3);
    assert_eq!(holders(&pool).1, copy as u32);
    assert_eq!(pool.nodes[1].slots.len(), made.len() + usize::from(pool.stat("a").unwrap().whole_copies > 2));
    assert!(made.iter().all(|slot| pool.nodes[1].slots.contains(slot)), "the new region's extent is there");
    assert!(pool.open(1, "b").is_ok());
    let again = Coordinator::restore(pool.settings.clone(), pool.journal.clone(), pool.now_ms);
    assert_eq!(again.regions().count(), 2);
}

#[test]
fn a_home_that_began_anew_is_no_home_for_the_next_coordinator() {
    let mut pool = Pool::new(3);
    view(pool.call(1, OWNER, copied("a", 4096, Placement::Local, 2))).unwrap();
    let copy = holders(&pool).2[0] as usize;
    pool.restart_node(1, 55);
    assert_eq!(holders(&pool).1, 1, "nobody is elected yet");
    pool.restart_coordinator();
    pool.nodes.iter_mut().for_each(|node| node.held.clear());
    (0..3).for_each(|number| pool.connect(number));
    pool.freeze(copy, 3);
    assert_eq!(holders(&pool).1, copy as u32);
    assert!(pool.is_elected(copy) && !pool.is_elected(1));
}

#[test]
fn what_a_node_has_lost_of_a_region_is_freed_by_nobody_later() {
    let mut pool = Pool::new(2);
    view(pool.call(1, OWNER, copied("a", 8192, Placement::Interleave(4096), 2))).unwrap();
    assert_eq!(holders(&pool), (1, 1, vec![0]), "and the other way round for the second extent");
    let second = CopiedExtent { index: 1, ..extent(&pool) };
    pool.say(1, FromHolder::Drop { term: Term(1), node: NodeId(0) });
    pool.restart_node(1, 55);
    assert!(matches!(pool.open(0, "a"), Err(Error::RegionLost { .. })), "nobody else has the first extent");
    view(pool.call(1, OWNER, copied("b", 8192, Placement::Local, 1))).unwrap();
    let made = pool.nodes[1].slots.clone();
    pool.nodes[0].member.say_as_holder(second, FromHolder::Drop { term: Term(1), node: NodeId(1) });
    pool.run();
    pool.pass(2 * LEASE_MS, &[]);
    assert_eq!(pool.nodes[1].slots, made, "the new region's extent, and no copy of a lost region");
    assert!(pool.open(1, "b").is_ok());
    pool.call(1, OWNER, Request::Remove { name: "a".to_owned() }).unwrap();
    pool.restart_node(1, 56);
    assert!(matches!(pool.open(0, "b"), Err(Error::RegionLost { .. })));
}

#[test]
fn a_node_that_begins_anew_is_not_told_to_free_what_its_life_before_held() {
    let mut pool = Pool::new(3);
    view(pool.call(1, OWNER, copied("a", 4096, Placement::Local, 2))).unwrap();
    let copy = holders(&pool).2[0] as usize;
    pool.restart_node(copy, 55);
    view(pool.call(copy, OWNER, copied("b", 8192, Placement::Local, 1))).unwrap();
    let made = pool.nodes[copy].slots.clone();
    // Orders that were not obeyed are repeated.
    pool.pass(LEASE_MS, &[]);
    assert!(made.iter().all(|slot| pool.nodes[copy].slots.contains(slot)), "the new region's extent is there");
    assert!(pool.open(copy, "b").is_ok());
}

#[test]
fn a_holder_whose_bytes_could_not_be_written_is_none_any_more() {
    let mut pool = Pool::new(3);
    view(pool.call(1, OWNER, copied("a", 4096, Placement::Local, 2))).unwrap();
    let copy = holders(&pool).2[0] as usize;
    pool.say(1, FromHolder::Broken);
    pool.freeze(copy, 3);
    assert_eq!(holders(&pool), (2, copy as u32, vec![]));
    assert!(pool.open(0, "a").is_ok() && pool.stat("a").unwrap().whole_copies == 1);
    // The last one stays.
    pool.say(copy, FromHolder::Broken);
    assert_eq!(holders(&pool), (2, copy as u32, vec![]));
}

#[test]
fn a_copy_that_cannot_be_made_is_made_elsewhere() {
    let mut pool = Pool::new(3);
    view(pool.call(1, OWNER, copied("a", 4096, Placement::Local, 2))).unwrap();
    let copy = NodeId(holders(&pool).2[0]);
    pool.say(1, FromHolder::Drop { term: Term(1), node: copy });
    let asked = |pool: &Pool| {
        let makes = pool.nodes[1].held.iter().filter_map(|(_, message)| match message {
            ToHolder::Make { node, .. } => Some(*node),
            _ => None,
        });
        makes.collect::<Vec<NodeId>>()
    };
    pool.pass(200, &[]);
    assert_eq!(asked(&pool).len(), 1);
    let first = asked(&pool)[0];
    // The node says so, and then the home.
    pool.say(first.0 as usize, FromHolder::Broken);
    pool.pass(LEASE_MS + 400, &[]);
    assert_eq!(asked(&pool).len(), 2, "a copy is asked for again");
    pool.say(1, FromHolder::Drop { term: Term(2), node: asked(&pool)[1] });
    pool.pass(LEASE_MS + 400, &[]);
    assert_eq!(asked(&pool).len(), 3);
    assert_eq!(pool.nodes.iter().map(|node| node.slots.len()).sum::<usize>(), 2, "what was made in vain is freed");
}

#[test]
fn a_holder_speaks_for_its_own_extents_alone() {
    let mut pool = Pool::new(3);
    view(pool.call(1, OWNER, copied("a", 4096, Placement::Local, 2))).unwrap();
    let before = holders(&pool);
    let stranger = (0..3).find(|number| *number != 1 && before.2 != [*number as u32]).unwrap();
    pool.say(stranger, FromHolder::Drop { term: Term(1), node: NodeId(before.2[0]) });
    pool.say(stranger, FromHolder::IsFrozen { term: Term(9), position: Position(9) });
    pool.say(stranger, FromHolder::Broken);
    pool.say(1, FromHolder::Drop { term: Term(7), node: NodeId(before.2[0]) });
    let of_none = CopiedExtent { gid: Gid(999), index: 3 };
    pool.nodes[1].member.say_as_holder(of_none, FromHolder::Drop { term: Term(1), node: NodeId(0) });
    pool.run();
    assert_eq!(holders(&pool), before);
}

pub(super) fn set_copies(pool: &mut Pool, copies: u8) -> crate::error::Result<Answer> {
    let changes = crate::wire::control::Changes { copies: Some(copies), ..Default::default() };
    pool.call(0, OWNER, Request::Alter { name: "a".to_owned(), changes })
}

#[test]
fn a_live_region_gets_more_copies_and_fewer() {
    let mut pool = Pool::with(3, Settings { quota: Some(1 << 20), ..Settings::new("n0") });
    view(pool.call(1, OWNER, copied("a", 4096, Placement::Local, 2))).unwrap();
    let before = holders(&pool);
    assert_eq!(set_copies(&mut pool, 3), Ok(Answer::Ok));
    assert_eq!(pool.coordinator.used(OWNER.uid), 3 * 4096, "copies that are still to be made count");
    pool.pass(200, &[]);
    let made = NodeId((0..3).find(|node| *node != before.1 && before.2 != [*node]).unwrap());
    assert_eq!(pool.nodes[made.0 as usize].slots.len(), 1);
    let order = pool.nodes[1].held.iter().find_map(|(_, message)| match message {
        ToHolder::Make { node, order } if *node == made => Some(*order),
        _ => None,
    });
    pool.say(1, FromHolder::Admit { term: Term(before.0), node: made, order: order.expect("the home makes it") });
    assert_eq!((holders(&pool).1, holders(&pool).2.len()), (1, 2));
    let again = Coordinator::restore(pool.settings.clone(), pool.journal.clone(), pool.now_ms);
    assert_eq!(again.regions().next(), pool.coordinator.regions().next());
    for copies in [2, 1] {
        assert_eq!(set_copies(&mut pool, copies), Ok(Answer::Ok));
        pool.pass(200, &[]);
        let (term, home, left) = holders(&pool);
        assert_eq!((home, left.len()), (1, usize::from(copies) - 1));
        let told = pool.nodes[1].held.iter().any(|(_, message)| matches!(message, ToHolder::Set(set) if set.term.0 == term));
        assert!(told, "the home goes on without it");
        assert_eq!(pool.nodes.iter().map(|node| node.slots.len()).sum::<usize>(), usize::from(copies));
        assert_eq!(pool.coordinator.used(OWNER.uid), u64::from(copies) * 4096);
    }
    // The home may change all the same.
    assert_eq!(pool.open(0, "a").unwrap().copies, 2);
    view(pool.call(0, OWNER, Request::Resize { name: "a".to_owned(), len: 8192 })).unwrap();
    assert_eq!(set_copies(&mut pool, 2), Ok(Answer::Ok));
    pool.pass(200, &[]);
    assert_eq!(pool.nodes.iter().map(|node| node.slots.len()).sum::<usize>(), 4);
}

#[test]
fn a_number_of_copies_that_a_region_cannot_have_is_refused() {
    let mut pool = Pool::with(3, Settings { quota: Some(1 << 20), ..Settings::new("n0") });
    view(pool.call(1, OWNER, copied("a", 1 << 18, Placement::Local, 2))).unwrap();
    let before = holders(&pool);
    for copies in [0, 4] {
        assert!(matches!(set_copies(&mut pool, copies), Err(Error::BadPlacement { .. })));
    }
    let third = (0..3).find(|node| *node != before.1 && before.2 != [*node]).unwrap() as usize;
    let uid = User { uid: 99, gid: 99 };
    view(pool.call(third, uid, copied("b", (1 << 20) - 4096, Placement::Local, 1))).unwrap();
    assert_eq!(set_copies(&mut pool, 3), Err(Error::PoolFull { asked: 1 << 18, free: 4096, withheld: 0 }));
    pool.call(0, uid, Request::Remove { name: "b".to_owned() }).unwrap();
    view(pool.call(third, OWNER, copied("c", 1 << 19, Placement::Local, 1))).unwrap();
    assert!(matches!(set_copies(&mut pool, 3), Err(Error::QuotaExceeded { .. })));
    let changes = crate::wire::control::Changes { copies: Some(1), ..Default::default() };
    let of_another = pool.call(0, uid, Request::Alter { name: "a".to_owned(), changes });
    assert!(matches!(of_another, Err(Error::NoPermission { .. })), "{of_another:?}");
    pool.cut(third);
    pool.pass(2 * LEASE_MS, &[third]);
    assert!(matches!(set_copies(&mut pool, 3), Err(Error::BadPlacement { .. })));
    assert_eq!(holders(&pool), before);
}

pub(super) fn drain(pool: &mut Pool, node: u32, wish: DrainWish) -> crate::error::Result<DrainStatus> {
    pool.call(0, OWNER, Request::Drain { node: NodeId(node), wish }).map(|answer| match answer {
        Answer::Drain(status) => status,
        other => panic!("{other:?}"),
    })
}

/// The last copy that a home was told to make is made.
pub(super) fn admit(pool: &mut Pool, home: usize) -> u32 {
    let made = pool.nodes[home].held.iter().rev().find_map(|(_, message)| match message {
        ToHolder::Make { node, order } => Some((*node, *order)),
        _ => None,
    });
    let (node, order) = made.expect("a copy is made");
    let term = Term(holders(pool).0);
    pool.say(home, FromHolder::Admit { term, node, order });
    node.0
}

pub(super) fn any() -> DrainWish {
    DrainWish::Begin { to: BTreeSet::new() }
}

#[test]
fn a_home_that_is_drained_stops_before_a_copy_follows() {
    let mut pool = Pool::new(4);
    // The coordinator's node has least room: its life ends with the coordinator's.
    pool.create(0, "filler", 4096, Placement::Local).unwrap();
    view(pool.call(1, OWNER, copied("a", 4096, Placement::Local, 2))).unwrap();
    assert_eq!(pool.call(0, OWNER, remove("filler")), Ok(Answer::Ok));
    let (_, _, before) = holders(&pool);
    let to = (0..4).rev().find(|node| *node != 1 && before != [*node]).unwrap();
    let status = drain(&mut pool, 1, DrainWish::Begin { to: BTreeSet::from([NodeId(to)]) }).unwrap();
    assert_eq!((status.left, status.stays.len(), status.drains), (4096, 0, true));
    pool.pass(200, &[]);
    assert_eq!(admit(&mut pool, 1), to);
    pool.pass(200, &[]);
    let (term, home, copies) = holders(&pool);
    assert_eq!((home, copies.len()), (1, 2), "nobody follows before it has stopped");
    let is_it = |message: &ToHolder| matches!(message, ToHolder::Release(set) if set.term == Term(term));
    let is_asked = |pool: &Pool| pool.nodes[1].held.iter().any(|(_, message)| is_it(message));
    assert!(is_asked(&pool));
    let asked = pool.ask(0, OWNER, open("a"));
    assert_eq!(pool.answer(0, asked), None);
    // A coordinator that begins again finds the drain, and a home that has stopped.
    pool.restart_coordinator();
    (0..4).for_each(|number| pool.connect(number));
    pool.nodes.iter_mut().for_each(|node| node.held.clear());
    pool.say(1, FromHolder::Released { term: Term(term), leaves_doubt: false });
    for copy in copies {
        pool.freeze(copy as usize, 5);
    }
    assert_ne!(holders(&pool).1, 1);
    assert_eq!(holders(&pool).2.len(), 1);
    assert!(pool.nodes[1].slots.is_empty(), "what it held is freed");
    let status = drain(&mut pool, 1, DrainWish::Look).unwrap();
    assert_eq!((status.left, status.drains), (0, true));
    // The node gets nothing new.
    assert!(matches!(pool.create(0, "b", 4096, Placement::Node(NodeId(1))), Err(Error::BadPlacement { .. })));
    pool.create(1, "c", 4096, Placement::Local).unwrap();
    pool.create(1, "d", 1 << 16, Placement::Interleave(4096)).unwrap();
    assert!(pool.nodes[1].slots.is_empty());
    drain(&mut pool, 1, DrainWish::Stop).unwrap();
    pool.create(0, "b", 4096, Placement::Node(NodeId(1))).unwrap();
}

#[test]
fn the_next_home_hears_whether_the_one_before_left_a_doubt_about_locks() {
    for leaves_doubt in [false, true] {
        let mut pool = Pool::new(3);
        view(pool.call(1, OWNER, copied("a", 4096, Placement::Local, 2))).unwrap();
        let (copy, made) = (holders(&pool).2[0], {
            drain(&mut pool, 1, any()).unwrap();
            pool.pass(200, &[]);
            admit(&mut pool, 1)
        });
        pool.pass(200, &[]);
        pool.nodes.iter_mut().for_each(|node| node.held.clear());
        let term = Term(holders(&pool).0);
        pool.say(1, FromHolder::Released { term, leaves_doubt });
        [copy, made].into_iter().for_each(|node| pool.freeze(node as usize, 5));
        let told = &pool.nodes[holders(&pool).1 as usize].held;
        let stopped = |message: &ToHolder| if let ToHolder::Elect { stopped, .. } = message { Some(*stopped) } else { None };
        assert_eq!(told.iter().filter_map(|(_, message)| stopped(message)).next(), Some(!leaves_doubt));
    }
}

#[test]
fn a_copy_that_is_drained_goes_when_another_has_all() {
    let mut pool = Pool::new(3);
    view(pool.call(1, OWNER, copied("a", 4096, Placement::Local, 2))).unwrap();
    let copy = holders(&pool).2[0];
    drain(&mut pool, copy, any()).unwrap();
    pool.pass(200, &[]);
    assert_eq!(holders(&pool).2, [copy]);
    let made = admit(&mut pool, 1);
    pool.pass(200, &[]);
    assert_eq!((holders(&pool).1, holders(&pool).2), (1, vec![made]));
    assert!(pool.nodes[copy as usize].slots.is_empty());
}

#[test]
fn a_home_goes_on_when_no_copy_is_left_to_follow_it() {
    let mut pool = Pool::new(3);
    view(pool.call(1, OWNER, copied("a", 4096, Placement::Local, 2))).unwrap();
    let copy = holders(&pool).2[0];
    drain(&mut pool, 1, any()).unwrap();
    pool.pass(200, &[]);
    let made = admit(&mut pool, 1);
    pool.pass(200, &[]);
    let term = holders(&pool).0;
    pool.say(1, FromHolder::Released { term: Term(term), leaves_doubt: false });
    for lost in [copy, made] {
        pool.restart_node(lost as usize, 90 + u128::from(lost));
    }
    assert_eq!(holders(&pool), (term + 2, 1, vec![]));
    assert!(pool.nodes[1].held.iter().any(|(_, message)| matches!(message, ToHolder::Set(set) if set.term.0 == term + 2)));
    assert!(pool.stat("a").unwrap().lost.is_none());
}

#[test]
fn what_cannot_be_drained_is_named() {
    let mut pool = Pool::new(2);
    view(pool.call(1, OWNER, copied("a", 4096, Placement::Local, 2))).unwrap();
    pool.create(1, "b", 8192, Placement::Local).unwrap();
    pool.create(1, "c", 1 << 19, Placement::Local).unwrap();
    pool.create(0, "d", 1 << 19, Placement::Local).unwrap();
    let refusal = Error::BadUse { region: "b".to_owned(), reason: "hosts map it".to_owned() };
    pool.nodes[1].readies = Some(Err(refusal));
    drain(&mut pool, 1, any()).unwrap();
    let status = drain(&mut pool, 1, DrainWish::Look).unwrap();
    let stays: Vec<_> = status.stays.into_iter().map(|region| (region.name, region.len, region.why)).collect();
    let stay = |name: &str, len: u64, why: WhyStays| (name.to_owned(), len, why);
    let mapped = WhyStays::NotReady("hosts map it".to_owned());
    assert_eq!(stays, [stay("a", 4096, WhyStays::NoRoom), stay("b", 8192, mapped), stay("c", 1 << 19, WhyStays::NoRoom)]);
    assert_eq!(pool.call(0, OWNER, remove("c")), Ok(Answer::Ok));
    let status = drain(&mut pool, 1, DrainWish::Look).unwrap();
    assert_eq!((status.left, status.extents, status.has_coordinator), (4096 + 8192, 2, false));
    assert!(pool.coordinator.next_deadline().is_none_or(|at_ms| at_ms > pool.now_ms), "it is tried again later");
    pool.pass(2 * LEASE_MS, &[]);
    assert_eq!(holders(&pool), (1, 1, vec![0]));
    let refused = |pool: &mut Pool, node, to: &[u32]| {
        drain(pool, node, DrainWish::Begin { to: to.iter().copied().map(NodeId).collect() }).unwrap_err()
    };
    assert!(matches!(refused(&mut pool, 7, &[]), Error::BadSetting { .. }));
    for to in [0, 1, 7] {
        assert!(matches!(refused(&mut pool, 0, &[to]), Error::BadSetting { .. }));
    }
    // A new life of the node is no process that the operator meant.
    pool.restart_node(1, 77);
    assert!(!drain(&mut pool, 1, DrainWish::Look).unwrap().drains);
}
