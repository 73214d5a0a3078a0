//! Copies compared with their home.

use super::*;
use hanare_protocol::copies::{Comparison, DifferentPage, DigestCall};
use hanare_protocol::limits::PAGE_LEN;
use hanare_protocol::wire::copies::ExtentCall;

/// The last range: one page.
const LAST: DigestCall = DigestCall { offset: STAGE_LEN as u64, len: 4096, seed: [9; 16], drops: true };

fn digests(call: DigestCall) -> ExtentWrite {
    ExtentWrite::call(ExtentCall::Digests(call))
}

#[test]
fn an_order_of_writes_that_ends_and_begins_again_forgets_no_call() {
    let alone = set(1, 1, &[]);
    let mut home = TestNode::new(1, Some(&alone));
    let call = |number, is_repeat| UpdateCall { client: 7, sequence: number as u16, number, is_repeat };
    let once = |number, is_repeat| ExtentWrite { once: Some(Once { call: call(number, is_repeat), at: 0 }), ..add(8, 5) };
    home.write(1, once(1, false));
    let wishes = vec![HeapWish::Allocate { len: 100, align: 64 }];
    home.write(2, ExtentWrite::heap(HeapCall { region_len: LEN as u64, wishes }, Some(call(2, false))));
    assert_eq!(home.bytes()[8], 5);
    // It is made ready a second time, by a coordinator that began again: the term is the first one.
    home.tell(CopyInput::Made { extent: EXTENT, set: alone.clone(), order: 8, slot: Slot(0) });
    home.write(3, once(1, true));
    assert_eq!((home.bytes()[8], &home.applied.last().unwrap().1), (5, &Ok(vec![0; 8])));
    assert!(home.copies.heap(EXTENT.gid, Slot(0)).is_some());
    let heap = home.copies.end(EXTENT);
    assert!(heap.is_some() && !home.copies.has(EXTENT.gid, Slot(0)));
    home.tell(CopyInput::Made { extent: EXTENT, set: alone, order: 9, slot: Slot(0) });
    home.write(4, once(1, true));
    assert_eq!((home.bytes()[8], home.applied.last().unwrap().0), (5, 4));
}

/// What the home found last.
fn found(home: &TestNode) -> Comparison {
    decode(home.applied.last().unwrap().1.as_ref().unwrap()).unwrap()
}

#[test]
fn a_comparison_has_its_place_among_the_writes() {
    let (mut home, mut copy) = pair();
    home.write(2, put(LAST.offset, b"before"));
    home.write(3, digests(LAST));
    home.write(4, put(LAST.offset, b"behind"));
    exchange(&mut home, &mut copy);
    let askers: Vec<u32> = home.applied.iter().map(|(asker, _)| *asker).collect();
    assert_eq!(askers, [1, 2, 3, 4]);
    let same = Comparison { compared: vec![NodeId(1)], ..Comparison::default() };
    let told: Comparison = decode(home.applied[2].1.as_ref().unwrap()).unwrap();
    assert_eq!((told, home.said.len()), (same, 0));
}

#[test]
fn a_copy_that_differs_is_named_and_counts_no_more() {
    let (mut home, mut copy) = pair();
    copy.extent.write(LAST.offset + 4095, &[1]).unwrap();
    home.write(2, digests(DigestCall { drops: false, ..LAST }));
    exchange(&mut home, &mut copy);
    let page = DifferentPage { offset: LAST.offset, nodes: vec![NodeId(1)], is_home_alone: false };
    let told = Comparison { compared: vec![NodeId(1)], pages: vec![page], ..Comparison::default() };
    assert_eq!((found(&home), home.said.len()), (told.clone(), 0), "nothing is changed");
    home.write(3, digests(LAST));
    exchange(&mut home, &mut copy);
    assert_eq!(found(&home), Comparison { dropped: [NodeId(1)].into(), ..told });
    assert_eq!(home.said, [FromHolder::Drop { term: Term(1), node: NodeId(1) }]);
    // Its bytes elsewhere are the same.
    home.hold(ToHolder::Set(set(2, 0, &[])));
    home.write(4, digests(LAST));
    assert_eq!(found(&home), Comparison::default(), "nobody has a copy");
}

#[test]
fn a_home_that_differs_from_two_copies_drops_neither() {
    let all = set(1, 0, &[1, 2]);
    let [mut home, mut one, mut other] = [0, 1, 2].map(|node| TestNode::new(node, Some(&all)));
    home.hold(ToHolder::Set(all));
    home.write(1, put(0, b"first"));
    connect(&mut home, &mut one, (0, 1));
    connect(&mut home, &mut other, (0, 2));
    let settle = |home: &mut TestNode, one: &mut TestNode, other: &mut TestNode| {
        while let Some((place, bytes)) = home.sent.pop_front() {
            let copy = if place == 1 { &mut *one } else { &mut *other };
            copy.tell(CopyInput::Frames { place, frames: &[bytes] });
            while let Some((place, bytes)) = copy.sent.pop_front() {
                home.tell(CopyInput::Frames { place, frames: &[bytes] });
            }
        }
    };
    settle(&mut home, &mut one, &mut other);
    home.extent.write(3 * PAGE_LEN, &[1]).unwrap();
    home.write(2, digests(DigestCall { offset: 0, len: STAGE_LEN as u64, ..LAST }));
    settle(&mut home, &mut one, &mut other);
    let page = DifferentPage { offset: 3 * PAGE_LEN, nodes: vec![NodeId(1), NodeId(2)], is_home_alone: true };
    assert_eq!((found(&home).pages, found(&home).dropped.len(), home.said.len()), (vec![page], 0, 0));
}

#[test]
fn a_copy_whose_digests_were_lost_is_not_taken_for_a_good_one() {
    let (mut home, mut copy) = pair();
    home.write(2, digests(LAST));
    let (place, bytes) = home.sent.pop_front().unwrap();
    copy.tell(CopyInput::Frames { place, frames: &[bytes] });
    // The connection breaks with the answer, and the copy says later that it has the write.
    copy.sent.clear();
    home.tell(CopyInput::Gone { place: PLACE });
    home.tick(NOW + LOOK_PAUSE);
    connect(&mut home, &mut copy, (0, 1));
    exchange(&mut home, &mut copy);
    assert_eq!(found(&home), Comparison { unheard: vec![NodeId(1)], ..Comparison::default() });
}

#[test]
fn digests_of_another_length_and_of_nobody_are_not_compared() {
    let (mut home, mut copy) = pair();
    home.write(2, digests(LAST));
    let (place, bytes) = home.sent.pop_front().unwrap();
    copy.tell(CopyInput::Frames { place, frames: &[bytes] });
    copy.sent.clear();
    let say = |home: &mut TestNode, message| {
        let bytes = encode(&CopyFrame::FromCopy(EXTENT, message));
        home.tell(CopyInput::Frames { place: PLACE, frames: &[bytes] });
    };
    let (term, position) = (Term(1), Position(2));
    say(&mut home, FromCopy::Digests { term, position: Position(99), digests: vec![0; 16] });
    say(&mut home, FromCopy::Digests { term: Term(7), position, digests: vec![0; 16] });
    say(&mut home, FromCopy::Digests { term, position, digests: vec![0; 15] });
    say(&mut home, FromCopy::Digests { term, position, digests: vec![0; 1 << 20] });
    say(&mut home, FromCopy::Has { term, position });
    assert_eq!(found(&home).unheard, [NodeId(1)]);
}
