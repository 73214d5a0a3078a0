//! Stores that count together, at the home of an extent: what a link leaves that ends, and who may not store so.

use super::*;
use hanare_protocol::copies::{Once, UpdateCall};
use hanare_protocol::wire::stores::StorePart;

/// A node that is the home of an extent, and has no copies of it now.
fn home() -> Driven {
    let mut driven = Driven::new();
    let extent = CopiedExtent { gid: Gid(1), index: 0 };
    let set = HolderSet { term: Term(1), home: NodeId(1), copies: BTreeSet::new() };
    driven.handle(Input::Pages(PageInput::Identity { node: NodeId(1), epoch: Epoch(1) }));
    driven.handle(CopyInput::Made { extent, set, order: 7, slot: Slot(0) }.into());
    driven
}

/// A part of 8 bytes of a program's release.
fn part(client: u64, index: u64, is_last: bool) -> SyncRequest {
    let call = UpdateCall { client, sequence: 0, number: 1, is_repeat: false };
    let once = Once { call, at: 8 * index };
    let part = StorePart { once, is_last, ranges: vec![(64 * index, 8)], operand: vec![client as u8; 8] };
    SyncRequest::Store { slot: Slot(0), grant: Grant::default(), part }
}

impl Driven {
    fn stored(&self) -> [u8; 2] {
        let (found, mut bytes) = (self.memory.find(Gid(1), Slot(0)).unwrap(), [0; 72]);
        found.read(0, &mut bytes).unwrap();
        [bytes[0], bytes[64]]
    }
}

#[test]
fn the_stores_of_a_link_that_ends_are_dropped_and_those_of_others_go_on() {
    let mut driven = home();
    for (link, client) in [(4, 40), (5, 50)] {
        assert_eq!(driven.ask(link, 1, part(client, 0, false)), [(link, 1, true)]);
    }
    driven.handle(Input::LinkGone { link: 4 });
    assert_eq!(driven.ask(6, 1, part(40, 1, true)), [(6, 1, false)], "its first part is gone");
    assert_eq!(driven.stored(), [0, 0]);
    assert_eq!(driven.ask(5, 2, part(50, 1, true)), [(5, 2, true)]);
    assert_eq!(driven.stored(), [50, 50]);
    driven.handle(Input::LinkGone { link: 5 });
    driven.handle(Input::LinkGone { link: 6 });
    assert_eq!(driven.ask(7, 1, part(60, 0, true)), [(7, 1, true)]);
    assert_eq!(driven.stored(), [60, 50]);
}

#[test]
fn stores_beyond_an_extent_and_to_one_without_copies_are_refused() {
    let mut driven = home();
    let beyond = |at| match part(40, 0, true) {
        SyncRequest::Store { slot, grant, part } => {
            SyncRequest::Store { slot, grant, part: StorePart { ranges: vec![(at, 8)], ..part } }
        }
        other => other,
    };
    assert_eq!(driven.ask(4, 1, beyond(u64::MAX - 8)), [(4, 1, false)]);
    assert_eq!(driven.ask(4, 2, beyond(u64::MAX / 2)), [(4, 2, false)]);
    let mut plain = Driven::new();
    plain.handle(Input::Pages(PageInput::Identity { node: NodeId(1), epoch: Epoch(1) }));
    assert_eq!(plain.ask(4, 1, part(40, 0, true)), [(4, 1, false)]);
    assert_eq!((driven.stored(), plain.stored()), ([0, 0], [0, 0]));
}

#[test]
fn a_part_that_is_refused_takes_those_before_it_along() {
    let mut driven = home();
    let beyond = match part(40, 1, false) {
        SyncRequest::Store { slot, grant, part } => {
            SyncRequest::Store { slot, grant, part: StorePart { ranges: vec![(u64::MAX / 2, 8)], ..part } }
        }
        other => other,
    };
    // The refused part is beyond the extent, or has not the one before it.
    for (link, refused) in [(4, beyond), (5, part(40, 2, false))] {
        assert_eq!(driven.ask(link, 1, part(40, 0, false)), [(link, 1, true)]);
        assert_eq!(driven.ask(link, 2, refused), [(link, 2, false)]);
        assert_eq!(driven.ask(link, 3, part(40, 1, true)), [(link, 3, false)], "the first part waits no more");
        driven.handle(Input::LinkGone { link });
    }
    assert_eq!(driven.stored(), [0, 0]);
    assert_eq!(driven.ask(6, 1, part(40, 0, false)), [(6, 1, true)]);
    assert_eq!(driven.ask(6, 2, part(40, 1, true)), [(6, 2, true)]);
    assert_eq!(driven.stored(), [40, 40]);
}
