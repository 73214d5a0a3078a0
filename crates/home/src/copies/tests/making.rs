//! Copies that are made, and do not keep up.

use super::*;
use hanare_protocol::limits::MAKING_LACK_LEN_MAX;

/// More ranges than are on their way at once.
const LONG: usize = 12 * STAGE_LEN;

/// Writes of a whole stage each.
const COUNT: u32 = 40;

/// A home that has begun to make a copy on node 2, and was given writes. Nothing of it has passed.
fn made_under_writes() -> (TestNode, TestNode) {
    let alone = set(1, 0, &[]);
    let (mut home, mut copy) = (TestNode::of(0, Some(&alone), LONG), TestNode::of(2, Some(&alone), LONG));
    home.hold(ToHolder::Make { node: NodeId(2), order: 4 });
    connect(&mut home, &mut copy, (0, 2));
    (0..COUNT).for_each(|k| home.write(k, put(u64::from(k % 12) * STAGE_LEN as u64, &[k as u8 + 1; STAGE_LEN])));
    (home, copy)
}

#[test]
fn writes_wait_for_a_copy_that_is_made_and_lacks_many() {
    let (mut home, mut copy) = made_under_writes();
    let sent: usize = home.sent.iter().map(|(_, bytes)| bytes.len()).sum();
    assert!(sent <= 2 * MAKING_LACK_LEN_MAX as usize + 2 * STAGE_LEN, "ranges and writes of {sent} bytes");
    let done = home.applied.len() as u64;
    assert!(done > 0 && (done - 1) * STAGE_LEN as u64 <= MAKING_LACK_LEN_MAX, "{done} writes are done");
    exchange(&mut home, &mut copy);
    home.hold(ToHolder::Set(set(2, 0, &[2])));
    exchange(&mut home, &mut copy);
    assert!(home.applied.iter().map(|(asker, _)| *asker).eq(0..COUNT) && home.applied.iter().all(|(_, outcome)| outcome.is_ok()));
    assert!(home.bytes() == copy.bytes());
}

#[test]
fn writes_go_on_without_a_copy_that_is_made_and_is_silent() {
    let (mut home, _) = made_under_writes();
    let due = home.copies.deadline().expect("the copy is awaited");
    home.tick(due);
    home.tick(due + SILENT + LOOK_PAUSE);
    assert_eq!(home.said, [FromHolder::Drop { term: Term(1), node: NodeId(2) }]);
    assert_eq!(home.applied.len() as u32, COUNT);
}

#[test]
fn a_home_that_stops_says_that_it_makes_a_copy_no_more_whose_connection_broke() {
    let (mut home, _) = pair();
    let mut copy = TestNode::new(2, Some(&set(1, 0, &[1])));
    home.hold(ToHolder::Make { node: NodeId(2), order: 4 });
    connect(&mut home, &mut copy, (0, 2));
    home.hold(ToHolder::Release(set(1, 0, &[1])));
    home.tell(CopyInput::Gone { place: 2 });
    home.said.clear();
    connect(&mut home, &mut copy, (0, 2));
    let gives_up = FromHolder::Drop { term: Term(1), node: NodeId(2) };
    assert!(home.said.contains(&gives_up), "else the coordinator waits for it as long as it lives: {:?}", home.said);
    // The last copy that could follow is lost: the home goes on, and makes another.
    home.hold(ToHolder::Set(set(2, 0, &[])));
    home.hold(ToHolder::Make { node: NodeId(2), order: 5 });
    exchange(&mut home, &mut copy);
    assert_eq!(home.said.last(), Some(&FromHolder::Admit { term: Term(2), node: NodeId(2), order: 5 }));
}
