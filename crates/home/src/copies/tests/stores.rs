//! Stores that count together: all holders have all of them or none, whatever is lost between their parts.

use super::*;
use hanare_protocol::error::Happened;
use hanare_protocol::limits::{PENDING_LEN_MAX, PENDING_SILENT_MS, STORE_PART_LEN_MAX};
use hanare_protocol::versions::OLDEST;
use hanare_protocol::wire::stores::StorePart;

/// Bytes of a part.
const PART: u64 = 16;

/// A part of a release: it stores the release's number.
fn part(number: u64, index: u64, is_last: bool) -> ExtentWrite {
    let once = Once { call: call(number, false), at: index * PART };
    let ranges = vec![(index * 1000, PART / 2), (index * 1000 + 100, PART / 2)];
    StorePart { once, is_last, ranges, operand: vec![number as u8; PART as usize] }.into_write()
}

/// The same, sent again.
fn again(write: ExtentWrite) -> ExtentWrite {
    let once = write.once.map(|once| Once { call: UpdateCall { is_repeat: true, ..once.call }, ..once });
    ExtentWrite { once, ..write }
}

fn parts(number: u64) -> [ExtentWrite; 3] {
    [0, 1, 2].map(|index| part(number, index, index == 2))
}

/// The number of the release that a node has whole.
#[track_caller]
fn image(node: &TestNode) -> u8 {
    let bytes = node.bytes();
    let places = [0, 7, 100, 107, 1000, 1100, 2000, 2107];
    let seen = places.map(|at| bytes[at]);
    assert!(seen.iter().all(|byte| *byte == seen[0]), "a mixture: {seen:?}");
    seen[0]
}

fn follow(copy: &mut TestNode, term: u64) {
    copy.hold(ToHolder::Freeze { term: Term(term) });
    copy.hold(ToHolder::Elect { set: set(term, 1, &[]), has: BTreeMap::new(), stopped: false });
    assert!(copy.extent.is_open());
}

/// A home and a copy that have release 1.
fn pair_with_release() -> (TestNode, TestNode) {
    let (mut home, mut copy) = pair();
    // The first bytes are those of the pair's first write.
    parts(1).into_iter().for_each(|part| home.write(2, part));
    exchange(&mut home, &mut copy);
    assert_eq!((image(&home), image(&copy)), (1, 1));
    (home, copy)
}

fn is_gone(node: &TestNode) -> bool {
    matches!(node.applied.last(), Some((_, Err(Error::Broken { happened: Happened::No, .. }))))
}

#[test]
fn the_last_part_brings_all_of_them() {
    let (mut home, mut copy) = pair_with_release();
    for (index, part) in parts(2).into_iter().enumerate() {
        home.write(3, part);
        assert_eq!((image(&home), image(&copy)), (1, 1));
        exchange(&mut home, &mut copy);
        let due = if index == 2 { 2 } else { 1 };
        assert_eq!((image(&home), image(&copy), home.applied.last()), (due, due, Some(&(3, Ok(Vec::new())))));
    }
    assert_eq!(home.copies.deadline(), None, "at rest nothing is due");
}

/// The home is lost when so many frames of a release have reached the copy, and the program lives, or dies too.
#[test]
fn a_home_that_is_lost_between_parts_leaves_all_or_nothing() {
    for reached in 0..=3 {
        for is_program_alive in [true, false] {
            let (mut home, mut copy) = pair_with_release();
            parts(2).into_iter().for_each(|part| home.write(3, part));
            let frames: Vec<_> = home.sent.drain(..).take(reached).collect();
            for (place, bytes) in frames {
                copy.tell(CopyInput::Frames { place, frames: &[bytes] });
            }
            let before = image(&copy);
            assert_eq!(before, if reached == 3 { 2 } else { 1 }, "{reached} parts");
            follow(&mut copy, 2);
            assert_eq!(image(&copy), before);
            if !is_program_alive {
                // Another program goes on.
                copy.write(4, put(0, &[9]));
                copy.write(4, put(0, &[before]));
                assert_eq!(image(&copy), before);
                copy.tick(NOW + Duration::from_millis(PENDING_SILENT_MS + 1000));
                copy.tick(NOW + 2 * Duration::from_millis(PENDING_SILENT_MS + 1000));
                assert_eq!((copy.copies.deadline(), image(&copy)), (None, before), "what waited is dropped");
                continue;
            }
            // The program sends those again that were not answered: all, or the last one.
            for from in [2, 0] {
                parts(2).into_iter().skip(from).for_each(|part| copy.write(5, again(part)));
                if from == 2 && reached < 2 {
                    assert!(is_gone(&copy), "{reached} parts");
                    assert_eq!(image(&copy), 1);
                }
            }
            assert_eq!((image(&copy), copy.applied.last()), (2, Some(&(5, Ok(Vec::new())))), "{reached} parts");
        }
    }
}

#[test]
fn a_release_that_is_sent_again_is_not_written_over_what_came_after_it() {
    let (mut home, mut copy) = pair_with_release();
    parts(2).into_iter().for_each(|part| home.write(3, part));
    exchange(&mut home, &mut copy);
    home.write(4, put(0, b"later"));
    exchange(&mut home, &mut copy);
    follow(&mut copy, 2);
    parts(2).into_iter().for_each(|part| copy.write(5, again(part)));
    assert_eq!(copy.applied.iter().filter(|(asker, outcome)| *asker == 5 && outcome.is_ok()).count(), 3);
    assert_eq!(&copy.bytes()[..5], b"later");
}

#[test]
fn a_program_that_begins_a_release_again_drops_the_one_before() {
    let (mut home, mut copy) = pair_with_release();
    home.write(3, part(2, 0, false));
    parts(3).into_iter().for_each(|part| home.write(4, part));
    home.write(5, part(2, 1, true));
    exchange(&mut home, &mut copy);
    assert!(is_gone(&home), "{:?}", home.applied.last());
    assert_eq!((image(&home), image(&copy)), (3, 3));
    assert_eq!((&home.said[..], &copy.said[..]), (&[][..], &[][..]), "all holders refuse in the same way");
}

#[test]
fn a_silent_program_and_one_that_is_forgotten_leave_nothing_that_waits() {
    let (mut home, mut copy) = pair_with_release();
    home.write(3, part(2, 0, false));
    exchange(&mut home, &mut copy);
    let looks = |home: &mut TestNode, copy: &mut TestNode, from: Duration| {
        // The copy answers all the time.
        for look in 1..=45 {
            home.tick(from + look * LOOK_PAUSE);
            exchange(home, copy);
        }
    };
    assert!(home.copies.deadline().is_some());
    looks(&mut home, &mut copy, NOW);
    assert_eq!(home.copies.deadline(), None, "what waited is dropped");
    home.write(4, part(2, 1, true));
    exchange(&mut home, &mut copy);
    assert!(is_gone(&home));
    // The order of a home whose link has ended.
    home.write(5, part(4, 0, false));
    home.write(6, ExtentWrite::call(ExtentCall::ForgetStores(call(4, false))));
    home.write(7, part(4, 1, true));
    exchange(&mut home, &mut copy);
    assert!(is_gone(&home));
    assert_eq!((image(&home), image(&copy)), (1, 1));
}

#[test]
fn a_copy_that_is_made_has_the_parts_that_wait() {
    for (made_after, program_ends_at_the_copy) in [(0, false), (1, false), (1, true), (2, false), (2, true), (3, false)] {
        let (mut home, _) = pair_with_release();
        home.hold(ToHolder::Set(set(2, 0, &[])));
        let mut copy = TestNode::new(2, Some(&set(1, 0, &[1])));
        let mut rest = parts(2).into_iter();
        rest.by_ref().take(made_after).for_each(|part| home.write(3, part));
        home.hold(ToHolder::Make { node: NodeId(2), order: 4 });
        connect(&mut home, &mut copy, (0, 2));
        if !program_ends_at_the_copy {
            // The rest comes while the copy is made.
            rest.by_ref().for_each(|part| home.write(3, part));
        }
        exchange(&mut home, &mut copy);
        assert_eq!(home.said, [FromHolder::Admit { term: Term(2), node: NodeId(2), order: 4 }]);
        home.hold(ToHolder::Set(set(3, 0, &[2])));
        exchange(&mut home, &mut copy);
        let due = if program_ends_at_the_copy { 1 } else { 2 };
        assert_eq!((image(&home), image(&copy)), (due, due), "after {made_after} parts");
        assert!(home.bytes() == copy.bytes());
        copy.hold(ToHolder::Freeze { term: Term(4) });
        copy.hold(ToHolder::Elect { set: set(4, 2, &[]), has: BTreeMap::new(), stopped: false });
        rest.for_each(|part| copy.write(4, part));
        assert_eq!(image(&copy), 2, "after {made_after} parts");
    }
}

#[test]
fn a_release_without_room_is_refused_by_all_holders_and_has_no_effect() {
    let (mut home, mut copy) = pair_with_release();
    let long = |client: u64, index: u64| {
        let len = STORE_PART_LEN_MAX as u64;
        let call = UpdateCall { client, sequence: 0, number: 1, is_repeat: false };
        let ranges = vec![(0, len)];
        StorePart { once: Once { call, at: index * len }, is_last: false, ranges, operand: vec![7; len as usize] }.into_write()
    };
    let mut taken = 0;
    loop {
        home.write(3, long(50, taken));
        exchange(&mut home, &mut copy);
        if home.applied.last().is_none_or(|(_, outcome)| outcome.is_err()) {
            break;
        }
        taken += 1;
    }
    assert!(matches!(home.applied.last(), Some((3, Err(Error::LimitReached { .. })))), "{:?}", home.applied.last());
    assert!(taken * STORE_PART_LEN_MAX as u64 <= PENDING_LEN_MAX && taken > 100, "{taken}");
    assert_eq!((&home.said[..], &copy.said[..], image(&home)), (&[][..], &[][..], 1));
    home.write(4, long(51, 0));
    exchange(&mut home, &mut copy);
    assert_eq!(home.applied.last(), Some(&(4, Ok(Vec::new()))), "its room is free again");
    parts(2).into_iter().for_each(|part| home.write(5, part));
    exchange(&mut home, &mut copy);
    assert_eq!((image(&home), image(&copy)), (2, 2));
}

#[test]
fn stores_wait_for_a_copy_whose_node_knows_them() {
    let first = set(1, 0, &[1]);
    let (mut home, mut copy) = (TestNode::new(0, Some(&first)), TestNode::new(1, Some(&first)));
    home.hold(ToHolder::Set(first));
    home.write(1, part(1, 0, true));
    assert!(matches!(home.applied.last(), Some((1, Err(Error::GrantRefused { .. })))), "nobody knows what the copy speaks");
    assert_eq!(home.dials, [NodeId(1)]);
    copy.tell(CopyInput::Came { node: NodeId(0), place: PLACE });
    home.tell(CopyInput::Dialed { node: NodeId(1), place: Some(PLACE), spoken: OLDEST });
    home.write(2, part(1, 0, true));
    assert!(matches!(home.applied.last(), Some((2, Err(Error::TooOld { .. })))));
    home.write(3, put(0, b"a put goes on"));
    exchange(&mut home, &mut copy);
    assert_eq!(home.applied.last(), Some(&(3, Ok(Vec::new()))));
}

#[test]
fn parts_that_no_home_sends_end_the_connection() {
    let (mut home, _) = pair_with_release();
    home.hold(ToHolder::Set(set(2, 0, &[])));
    let mut copy = TestNode::new(2, Some(&set(1, 0, &[1])));
    home.hold(ToHolder::Make { node: NodeId(2), order: 4 });
    connect(&mut home, &mut copy, (0, 2));
    let (place, make) = home.sent.pop_front().unwrap();
    copy.tell(CopyInput::Frames { place, frames: &[make] });
    let bad = ToCopy::Pending { term: Term(2), entry: Arc::new(part(2, 1, false)) };
    copy.tell(CopyInput::Frames { place, frames: &[sent(EXTENT, bad)] });
    exchange(&mut home, &mut copy);
    assert!(home.said.is_empty(), "its connection is none any more");
}

#[test]
fn a_copy_on_a_node_of_the_last_release_is_made_without_parts_that_wait() {
    let (mut home, _) = pair_with_release();
    home.hold(ToHolder::Set(set(2, 0, &[])));
    home.write(3, part(2, 0, false));
    assert_eq!(home.applied.last(), Some(&(3, Ok(Vec::new()))), "it waits for the last one");
    let mut copy = TestNode::new(2, Some(&set(1, 0, &[1])));
    home.hold(ToHolder::Make { node: NodeId(2), order: 4 });
    copy.tell(CopyInput::Came { node: NodeId(0), place: 2 });
    home.tell(CopyInput::Dialed { node: NodeId(2), place: Some(2), spoken: OLDEST });
    let is_part = |bytes: &[u8]| matches!(decode::<CopyFrame>(bytes), Ok(CopyFrame::ToCopy(_, ToCopy::Pending { .. })));
    while let Some((place, bytes)) = home.sent.pop_front() {
        assert!(!is_part(&bytes));
        copy.tell(CopyInput::Frames { place, frames: &[bytes] });
        while let Some((place, bytes)) = copy.sent.pop_front() {
            home.tell(CopyInput::Frames { place, frames: &[bytes] });
        }
    }
    assert!(matches!(home.said.last(), Some(FromHolder::Admit { node: NodeId(2), .. })), "{:?}", home.said);
    // The end of those stores is no write for such a node, either.
    let late = NOW + Duration::from_millis(PENDING_SILENT_MS);
    [late, late + late].into_iter().for_each(|now| home.tick(now));
    assert_eq!(home.sent.iter().filter(|(_, bytes)| !is_ask(bytes)).count(), 0);
}

fn is_ask(bytes: &[u8]) -> bool {
    matches!(decode::<CopyFrame>(bytes), Ok(CopyFrame::ToCopy(_, ToCopy::Ask { .. })))
}
