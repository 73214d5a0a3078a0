//! A home and its copy over connections that the test makes: what is applied when, and what a lost home leaves.

mod comparing;
mod making;
mod queues;
mod stores;

use super::*;
use crate::vectors::{Vector, Vectors};
use crate::wire_frame::WireFrame;
use hanare_protocol::Result;
use hanare_protocol::copies::{Once, Position, Term, UpdateCall};
use hanare_protocol::element::{Element, Operator};
use hanare_protocol::heap::{HeapCall, HeapRefusal, HeapWish, answers_of};
use hanare_protocol::id::{Epoch, Gid};
use hanare_protocol::limits::{DONE_CLIENT_COUNT_MAX, STAGE_LEN};
use hanare_protocol::versions::NEWEST;
use hanare_protocol::wire::command::{Op, Update};
use hanare_protocol::wire::copies::{ExtentCall, ToCopy};
use std::sync::Arc;

const EXTENT: CopiedExtent = CopiedExtent { gid: Gid(1), index: 0 };
/// The time of all that happens at once.
const NOW: Duration = Duration::from_secs(1);
/// Two ranges, the second of them short.
const LEN: usize = STAGE_LEN + 4096;

/// A message of a home to a copy, as it travels.
fn sent(extent: CopiedExtent, message: ToCopy) -> Vec<u8> {
    WireFrame::to_copy(extent, message).into_bytes()
}

/// A node of the test.
struct TestNode {
    copies: Copies<Vector, u32>,
    memory: Vectors,
    extent: Vector,
    /// Frames that it sent and nobody has got, each with its connection.
    sent: VecDeque<(u64, Vec<u8>)>,
    applied: Vec<(u32, Result<Vec<u8>>)>,
    said: Vec<FromHolder>,
    dials: Vec<NodeId>,
}

impl TestNode {
    fn new(me: u32, set: Option<&HolderSet>) -> TestNode {
        TestNode::of(me, set, LEN)
    }

    fn of(me: u32, set: Option<&HolderSet>, len: usize) -> TestNode {
        let (memory, extent) = Vectors::of(EXTENT.gid, len);
        let (sent, applied, said, dials) = Default::default();
        let mut node = TestNode { copies: Copies::default(), memory, extent, sent, applied, said, dials };
        node.copies.set_identity(NodeId(me));
        if let Some(set) = set {
            node.tell(CopyInput::Made { extent: EXTENT, set: set.clone(), order: 7, slot: Slot(0) });
        }
        node
    }

    fn tell(&mut self, input: CopyInput<'_>) {
        self.copies.handle(NOW, input, &self.memory);
        self.take_outputs();
    }

    fn tick(&mut self, now: Duration) {
        self.copies.tick(now);
        self.take_outputs();
    }

    fn bytes(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.extent.len_bytes() as usize];
        self.extent.read(0, &mut bytes).unwrap();
        bytes
    }

    fn take_outputs(&mut self) {
        while let Some(output) = self.copies.poll() {
            match output {
                CopyOutput::Applied { asker, outcome } => self.applied.push((asker, outcome)),
                CopyOutput::Say { message, .. } => self.said.push(message),
                CopyOutput::Wire(WireOutput::Dial { node, .. }) => self.dials.push(node),
                CopyOutput::Wire(WireOutput::Send { place, frame }) => self.sent.push_back((place, frame.into_bytes())),
                CopyOutput::Wire(WireOutput::Close { .. }) => {}
            }
        }
    }

    fn hold(&mut self, message: ToHolder) {
        let nodes = (0..3).map(|node| NodeAddress { node: NodeId(node), epoch: Epoch(1), address: format!("n{node}") }).collect();
        self.tell(CopyInput::Holder { extent: EXTENT, nodes, message });
    }

    fn write(&mut self, asker: u32, entry: ExtentWrite) {
        self.copies.write(NOW, (EXTENT.gid, Slot(0)), asker, entry);
        self.take_outputs();
    }
}

/// The place of a connection to node 1 at the end that made it, and at the other: both number them by the node that took it.
const PLACE: u64 = 1;

/// The home dials a copy, which takes it.
fn connect(home: &mut TestNode, copy: &mut TestNode, (me, to): (u32, u32)) {
    copy.tell(CopyInput::Came { node: NodeId(me), place: to.into() });
    home.tell(CopyInput::Dialed { node: NodeId(to), place: Some(to.into()), spoken: NEWEST });
}

/// Frames go both ways until none is left.
fn exchange(home: &mut TestNode, copy: &mut TestNode) {
    while let Some((place, bytes)) = home.sent.pop_front() {
        copy.tell(CopyInput::Frames { place, frames: &[bytes] });
        while let Some((place, bytes)) = copy.sent.pop_front() {
            home.tell(CopyInput::Frames { place, frames: &[bytes] });
        }
    }
}

fn set(term: u64, home: u32, copies: &[u32]) -> HolderSet {
    HolderSet { term: Term(term), home: NodeId(home), copies: copies.iter().map(|node| NodeId(*node)).collect() }
}

fn put(offset: u64, bytes: &[u8]) -> ExtentWrite {
    ExtentWrite::put(vec![(offset, bytes.len() as u64)], bytes.to_vec())
}

fn add(offset: u64, more: u64) -> ExtentWrite {
    let op = Op::Fetch(Update { operator: Operator::Add, element: Element::U64, is_same: false });
    ExtentWrite { op, ranges: vec![(offset, 8)], operand: more.to_le_bytes().to_vec(), once: None, call: None }
}

/// A home at node 0 with a copy at node 1, connected.
fn pair() -> (TestNode, TestNode) {
    let first = set(1, 0, &[1]);
    let (mut home, mut copy) = (TestNode::new(0, Some(&first)), TestNode::new(1, Some(&first)));
    assert!(home.extent.is_open() && !copy.extent.is_open());
    home.hold(ToHolder::Set(first));
    home.write(1, put(0, b"first"));
    assert_eq!(home.dials, [NodeId(1)], "the first write makes the connection");
    connect(&mut home, &mut copy, (0, 1));
    exchange(&mut home, &mut copy);
    (home, copy)
}

#[test]
fn a_write_is_applied_when_the_copy_has_it() {
    let (mut home, mut copy) = pair();
    assert_eq!(home.applied, [(1, Ok(Vec::new()))]);
    home.write(2, add(8, 5));
    assert_eq!((home.applied.len(), home.bytes()[8]), (1, 0), "the copy has it not yet");
    exchange(&mut home, &mut copy);
    home.write(3, add(8, 5));
    exchange(&mut home, &mut copy);
    assert_eq!(home.applied[1..], [(2, Ok(vec![0; 8])), (3, Ok(vec![5, 0, 0, 0, 0, 0, 0, 0]))]);
    assert_eq!(home.bytes(), copy.bytes());
    assert_eq!(home.copies.deadline(), None, "at rest nothing is due");
}

#[test]
fn a_copy_becomes_home_with_all_that_was_answered() {
    let (_, mut copy) = pair();
    copy.hold(ToHolder::Freeze { term: Term(2) });
    assert_eq!(copy.said, [FromHolder::IsFrozen { term: Term(2), position: Position(1) }]);
    copy.hold(ToHolder::Elect { set: set(2, 1, &[]), has: BTreeMap::new(), stopped: false });
    assert!(copy.extent.is_open());
    copy.write(9, add(8, 1));
    assert_eq!(copy.applied, [(9, Ok(vec![0; 8]))], "it waits for nobody");
    assert_eq!(&copy.bytes()[..5], b"first");
}

#[test]
fn a_home_that_is_none_any_more_says_so_to_those_who_wait() {
    let (mut home, mut copy) = pair();
    copy.hold(ToHolder::Freeze { term: Term(2) });
    home.write(4, put(0, b"late!"));
    exchange(&mut home, &mut copy);
    assert!(matches!(home.applied.last(), Some((4, Err(Error::NodeLost { .. })))), "{:?}", home.applied);
    assert!(!home.extent.is_open());
    home.write(5, put(0, b"later"));
    // Nothing of it was done; of a part before it, in a call without a number, nobody here knows.
    assert!(matches!(home.applied.last(), Some((5, Err(Error::NodeLost { .. })))), "{:?}", home.applied);
    assert_eq!((&home.bytes()[..5], &copy.bytes()[..5]), (&b"first"[..], &b"first"[..]));
}

#[test]
fn a_home_that_missed_the_set_stops_at_the_wish_of_its_coordinator() {
    let (mut home, mut copy) = pair();
    home.hold(ToHolder::Release(set(2, 0, &[1])));
    assert!(!home.extent.is_open());
    exchange(&mut home, &mut copy);
    assert_eq!(home.said.last(), Some(&FromHolder::Released { term: Term(2), leaves_doubt: true }));
}

#[test]
fn an_order_that_is_carried_out_late_takes_no_copys_place() {
    let (mut home, mut copy) = pair();
    copy.memory = Vectors::with_copies(EXTENT.gid, LEN, 2);
    copy.tell(CopyInput::Made { extent: EXTENT, set: set(1, 0, &[]), order: 6, slot: Slot(1) });
    home.write(2, put(100, b"then"));
    exchange(&mut home, &mut copy);
    assert_eq!(home.applied.last(), Some(&(2, Ok(Vec::new()))));
    assert_eq!(home.bytes(), copy.bytes());
    copy.hold(ToHolder::Freeze { term: Term(2) });
    assert_eq!(copy.said, [FromHolder::IsFrozen { term: Term(2), position: Position(2) }]);
}

#[test]
fn a_slot_that_is_made_again_has_nothing_of_the_part_before() {
    let (_, mut copy) = pair();
    // An extent may be freed and made again before anybody looks.
    copy.tell(CopyInput::Made { extent: EXTENT, set: set(2, 0, &[]), order: 8, slot: Slot(0) });
    copy.hold(ToHolder::Freeze { term: Term(3) });
    assert!(copy.said.is_empty(), "it has no bytes: {:?}", copy.said);
}

#[test]
fn a_copy_that_hears_late_that_it_is_home_begins_in_the_term_of_that_moment() {
    let (mut home, mut copy) = pair();
    home.write(2, put(100, b"then"));
    exchange(&mut home, &mut copy);
    copy.hold(ToHolder::Freeze { term: Term(2) });
    // The copy was elected for term 2. A further copy of that set was lost before this one heard of either.
    copy.hold(ToHolder::Elect { set: set(3, 1, &[]), has: BTreeMap::new(), stopped: false });
    assert!(copy.extent.is_open());
    copy.write(3, put(200, b"at the next home"));
    assert_eq!((copy.applied.last(), &copy.bytes()[100..104]), (Some(&(3, Ok(Vec::new()))), &b"then"[..]));
    // A copy that is frozen for a later term takes no election of this one.
    let (_, mut late) = pair();
    late.hold(ToHolder::Freeze { term: Term(5) });
    late.hold(ToHolder::Elect { set: set(4, 1, &[]), has: BTreeMap::new(), stopped: false });
    assert!(!late.extent.is_open());
}

#[test]
fn a_home_that_has_stopped_goes_on_in_a_higher_term() {
    let (mut home, mut copy) = pair();
    home.hold(ToHolder::Release(set(1, 0, &[1])));
    exchange(&mut home, &mut copy);
    assert_eq!(home.said.last(), Some(&FromHolder::Released { term: Term(1), leaves_doubt: true }));
    // The copy is asked to follow, and says so to the home, before it is lost.
    copy.hold(ToHolder::Freeze { term: Term(2) });
    home.tick(NOW + LOOK_PAUSE);
    exchange(&mut home, &mut copy);
    home.hold(ToHolder::Set(set(3, 0, &[])));
    assert!(home.extent.is_open());
    home.write(9, put(0, b"again"));
    assert_eq!(home.applied.last(), Some(&(9, Ok(Vec::new()))));
}

#[test]
fn what_a_broken_connection_lost_is_sent_again() {
    let (mut home, mut copy) = pair();
    home.write(2, put(100, b"lost"));
    home.sent.clear();
    home.tell(CopyInput::Gone { place: PLACE });
    copy.tell(CopyInput::Gone { place: PLACE });
    assert_eq!(home.dials.len(), 2);
    connect(&mut home, &mut copy, (0, 1));
    exchange(&mut home, &mut copy);
    assert_eq!(home.applied.last(), Some(&(2, Ok(Vec::new()))));
    assert_eq!(home.bytes(), copy.bytes());
}

#[test]
fn a_silent_copy_is_given_up_when_the_coordinator_says_so() {
    let (mut home, _) = pair();
    home.write(2, put(100, b"here"));
    let due = home.copies.deadline().expect("a copy is awaited");
    home.tick(due);
    assert!(home.said.is_empty());
    home.tick(due + SILENT + LOOK_PAUSE);
    assert_eq!(home.said.first(), Some(&FromHolder::Drop { term: Term(1), node: NodeId(1) }));
    assert_eq!(home.applied.len(), 1, "it waits for the coordinator");
    home.hold(ToHolder::Set(set(2, 0, &[])));
    assert_eq!(home.applied.last(), Some(&(2, Ok(Vec::new()))));
}

#[test]
fn a_copy_is_made_while_writes_go_on() {
    let (mut home, mut old) = pair();
    let mut copy = TestNode::new(2, Some(&set(1, 0, &[1])));
    home.write(2, put(STAGE_LEN as u64, b"in the second range"));
    exchange(&mut home, &mut old);
    home.hold(ToHolder::Set(set(2, 0, &[])));
    home.hold(ToHolder::Make { node: NodeId(2), order: 4 });
    connect(&mut home, &mut copy, (0, 2));
    home.write(3, put(200, b"meanwhile"));
    exchange(&mut home, &mut copy);
    assert_eq!(home.said, [FromHolder::Admit { term: Term(2), node: NodeId(2), order: 4 }]);
    home.hold(ToHolder::Set(set(3, 0, &[2])));
    home.write(4, put(300, b"then"));
    exchange(&mut home, &mut copy);
    assert_eq!(home.applied.len(), 4);
    assert_eq!(home.bytes(), copy.bytes());
}

fn call(number: u64, is_repeat: bool) -> UpdateCall {
    UpdateCall { client: 9, sequence: 0, number, is_repeat }
}

fn once(call: UpdateCall, write: ExtentWrite) -> ExtentWrite {
    ExtentWrite { once: Some(Once { call, at: 0 }), ..write }
}

#[test]
fn an_update_that_is_repeated_counts_once_and_has_its_first_result() {
    let (mut home, mut copy) = pair();
    home.write(2, once(call(1, false), add(8, 5)));
    home.write(3, once(call(1, true), add(8, 5)));
    assert!(matches!(home.applied.last(), Some((3, Err(Error::GrantRefused { .. })))), "it is still under way");
    exchange(&mut home, &mut copy);
    home.write(4, once(call(1, true), add(8, 5)));
    let first = vec![0; 8];
    assert_eq!(home.applied[2..], [(2, Ok(first.clone())), (4, Ok(first.clone()))]);
    // Its answer is lost with the home.
    copy.hold(ToHolder::Freeze { term: Term(2) });
    copy.hold(ToHolder::Elect { set: set(2, 1, &[]), has: BTreeMap::new(), stopped: false });
    copy.write(5, once(call(1, true), add(8, 5)));
    assert_eq!(copy.applied.last(), Some(&(5, Ok(first.clone()))));
    // A node that is made a copy knows of it, too.
    let mut third = TestNode::new(2, Some(&set(2, 1, &[])));
    copy.hold(ToHolder::Make { node: NodeId(2), order: 4 });
    connect(&mut copy, &mut third, (1, 2));
    exchange(&mut copy, &mut third);
    third.hold(ToHolder::Freeze { term: Term(4) });
    third.hold(ToHolder::Elect { set: set(4, 2, &[]), has: BTreeMap::new(), stopped: false });
    third.write(6, once(call(1, true), add(8, 5)));
    assert_eq!(third.applied, [(6, Ok(first))]);
    assert_eq!(third.bytes()[8], 5);
    third.write(7, once(call(2, false), add(8, 5)));
    assert_eq!((third.applied.len(), third.bytes()[8]), (2, 10));
}

#[test]
fn a_put_that_is_repeated_does_not_undo_what_came_after_it() {
    let (mut home, mut copy) = pair();
    home.write(2, once(call(1, false), put(0, b"mine")));
    exchange(&mut home, &mut copy);
    home.write(3, once(UpdateCall { client: 8, ..call(1, false) }, put(0, b"next")));
    exchange(&mut home, &mut copy);
    copy.hold(ToHolder::Freeze { term: Term(2) });
    copy.hold(ToHolder::Elect { set: set(2, 1, &[]), has: BTreeMap::new(), stopped: false });
    copy.write(4, once(call(1, true), put(0, b"mine")));
    assert_eq!(copy.applied.last(), Some(&(4, Ok(Vec::new()))));
    assert_eq!(copy.bytes()[..4], *b"next");
}

#[test]
fn a_repeated_put_of_which_nobody_knows_is_done_again() {
    let (mut home, mut copy) = pair();
    home.write(2, once(call(1, false), put(0, b"ours")));
    for client in 100..DONE_CLIENT_COUNT_MAX as u64 + 100 {
        home.write(3, once(UpdateCall { client, ..call(1, false) }, put(0, b"ours")));
    }
    exchange(&mut home, &mut copy);
    home.write(7, once(call(1, true), put(0, b"mine")));
    exchange(&mut home, &mut copy);
    assert_eq!(home.applied.last(), Some(&(7, Ok(Vec::new()))));
    assert_eq!(home.bytes()[..4], *b"mine");
    home.write(8, once(UpdateCall { client: 100, ..call(1, true) }, add(8, 5)));
    assert!(matches!(home.applied.last(), Some((8, Err(Error::Broken { .. })))));
}

#[test]
fn a_repeated_update_goes_on_behind_what_was_done_of_it() {
    let (mut home, mut copy) = pair();
    let both = |operand: [u64; 2]| {
        let operand = operand.iter().flat_map(|word| word.to_le_bytes()).collect();
        ExtentWrite { ranges: vec![(8, 16)], operand, ..add(8, 0) }
    };
    home.write(2, once(call(1, false), add(8, 5)));
    exchange(&mut home, &mut copy);
    home.write(3, once(call(1, true), both([5, 7])));
    exchange(&mut home, &mut copy);
    assert_eq!(home.applied.last(), Some(&(3, Ok(vec![0; 16]))));
    assert_eq!((home.bytes()[8], home.bytes()[16]), (5, 7));
    assert_eq!(home.bytes(), copy.bytes());
}

#[test]
fn an_elected_home_gives_up_a_copy_that_answers_nothing() {
    let first = set(1, 0, &[1, 2]);
    let mut copy = TestNode::new(1, Some(&first));
    copy.hold(ToHolder::Freeze { term: Term(2) });
    copy.hold(ToHolder::Elect { set: set(2, 1, &[2]), has: BTreeMap::new(), stopped: false });
    assert!(copy.extent.is_open(), "nobody has written");
    let mut late = TestNode::new(1, Some(&first));
    late.tell(CopyInput::Came { node: NodeId(0), place: PLACE });
    let write = ToCopy::Write { term: Term(1), position: Position(1), stable: Position(0), entry: Arc::new(put(0, b"first")) };
    late.tell(CopyInput::Frames { place: PLACE, frames: &[sent(EXTENT, write)] });
    late.hold(ToHolder::Freeze { term: Term(2) });
    late.hold(ToHolder::Elect { set: set(2, 1, &[2]), has: BTreeMap::new(), stopped: false });
    assert!(!late.extent.is_open(), "the other copy may lack the write");
    late.said.clear();
    let due = late.copies.deadline().expect("the other copy is awaited");
    late.tick(due);
    late.tick(due + SILENT + LOOK_PAUSE);
    assert_eq!(late.said, [FromHolder::Drop { term: Term(2), node: NodeId(2) }]);
    late.hold(ToHolder::Set(set(3, 1, &[])));
    assert!(late.extent.is_open());
}

#[test]
fn a_copy_of_a_node_s_next_life_is_made_anew() {
    let (mut home, _) = pair();
    home.hold(ToHolder::Set(set(2, 0, &[])));
    home.hold(ToHolder::Make { node: NodeId(2), order: 4 });
    home.hold(ToHolder::Make { node: NodeId(2), order: 4 });
    home.hold(ToHolder::Make { node: NodeId(2), order: 5 });
    let mut copy = TestNode::new(2, Some(&set(2, 0, &[])));
    connect(&mut home, &mut copy, (0, 2));
    exchange(&mut home, &mut copy);
    assert_eq!(home.said.last(), Some(&FromHolder::Admit { term: Term(2), node: NodeId(2), order: 5 }));
    // It began anew before the coordinator heard of that.
    home.said.clear();
    home.hold(ToHolder::Make { node: NodeId(2), order: 6 });
    exchange(&mut home, &mut copy);
    assert_eq!(home.said, [FromHolder::Admit { term: Term(2), node: NodeId(2), order: 6 }]);
    home.write(7, put(0, b"and goes on"));
    exchange(&mut home, &mut copy);
    assert_eq!(home.applied.last(), Some(&(7, Ok(Vec::new()))));
    assert_eq!(home.bytes(), copy.bytes());
}

#[test]
fn a_node_that_was_not_reached_is_dialed_again_in_time_whatever_comes() {
    let (mut home, _) = pair();
    home.hold(ToHolder::Make { node: NodeId(2), order: 4 });
    home.tell(CopyInput::Dialed { node: NodeId(2), place: None, spoken: NEWEST });
    // The extent that wanted it is no more, and frames of others come.
    let (mut now, dials) = (NOW, home.dials.len());
    while home.dials.len() == dials && now < NOW + SILENT {
        home.copies.awaiting.clear();
        now += LOOK_PAUSE / 2;
        let frame = encode(&CopyFrame::FromCopy(EXTENT, FromCopy::Has { term: Term(1), position: Position(1) }));
        home.copies.handle(now, CopyInput::Frames { place: PLACE, frames: &[frame] }, &home.memory);
        if home.copies.deadline().is_some_and(|due| due <= now) {
            home.tick(now);
        }
        home.take_outputs();
    }
    assert_eq!(home.dials.len(), dials + 1);
}

#[test]
fn a_write_that_no_home_sends_ends_the_connection() {
    let (_, mut copy) = pair();
    let entry = Arc::new(put(LEN as u64 - 1, b"beyond"));
    let bad = ToCopy::Write { term: Term(1), position: Position(2), stable: Position(1), entry };
    let before = copy.bytes();
    copy.tell(CopyInput::Frames { place: PLACE, frames: &[sent(EXTENT, bad)] });
    assert_eq!(copy.bytes(), before);
    copy.tell(CopyInput::Frames { place: PLACE, frames: &[vec![255; 40]] });
    let range = ToCopy::Range { term: Term(1), range: u64::MAX, bytes: vec![0; 4096] };
    copy.tell(CopyInput::Frames { place: PLACE, frames: &[sent(EXTENT, range)] });
    assert_eq!(copy.bytes(), before, "its connection is none any more");
}

#[test]
fn a_home_that_is_not_open_yet_makes_a_copy_later() {
    let first = set(1, 0, &[1, 2]);
    let mut lost = TestNode::new(0, Some(&first));
    let (mut home, mut copy) = (TestNode::new(1, Some(&first)), TestNode::new(2, Some(&first)));
    lost.hold(ToHolder::Set(first));
    lost.write(1, put(0, b"first"));
    connect(&mut lost, &mut home, (0, 1));
    exchange(&mut lost, &mut home);
    home.hold(ToHolder::Freeze { term: Term(2) });
    copy.hold(ToHolder::Freeze { term: Term(2) });
    home.hold(ToHolder::Elect { set: set(2, 1, &[2]), has: BTreeMap::new(), stopped: false });
    home.hold(ToHolder::Make { node: NodeId(0), order: 2 });
    home.tick(NOW + LOOK_PAUSE);
    assert!(!home.extent.is_open(), "its copy has not the write");
    assert_eq!(home.dials, [NodeId(2)]);
    connect(&mut home, &mut copy, (1, 2));
    exchange(&mut home, &mut copy);
    assert!(home.extent.is_open());
    home.tick(NOW + 2 * LOOK_PAUSE);
    assert_eq!(home.dials, [NodeId(2), NodeId(0)]);
}

#[test]
fn a_heap_is_the_copy_s_too_and_that_of_one_that_is_made_anew() {
    let (mut home, mut copy) = pair();
    let wish = |wish: &[HeapWish]| HeapCall { region_len: LEN as u64, wishes: wish.to_vec() };
    let allocate = HeapWish::Allocate { len: 100, align: 64 };
    let take = || wish(&[allocate]);
    let call = |number| UpdateCall { client: 7, sequence: number as u16, number, is_repeat: false };
    home.write(5, ExtentWrite::heap(take(), Some(call(1))));
    home.write(6, ExtentWrite::heap(take(), Some(call(2))));
    assert_eq!(home.copies.heap(EXTENT.gid, Slot(0)), None, "the copy does not have it yet");
    assert!(!home.extent.has_heap() && !copy.extent.has_heap());
    exchange(&mut home, &mut copy);
    home.write(7, ExtentWrite::heap(wish(&[HeapWish::Free { offset: 64 }]), Some(call(3))));
    let both = [HeapWish::Free { offset: 4096 }, allocate];
    home.write(8, ExtentWrite::heap(wish(&both), Some(call(4))));
    exchange(&mut home, &mut copy);
    let answer = |(_, told): &(u32, Result<Vec<u8>>)| answers_of(told.as_ref().unwrap()).unwrap();
    let answers: Vec<_> = home.applied.iter().filter(|(asker, _)| *asker >= 5).map(answer).collect();
    assert_eq!(answers, [vec![Ok(64)], vec![Ok(192)], vec![Ok(64)], vec![Err(HeapRefusal::NoBlock), Ok(64)]]);
    let heap = home.copies.heap(EXTENT.gid, Slot(0)).cloned();
    assert!(heap.is_some() && copy.copies.heap(EXTENT.gid, Slot(0)) == heap.as_ref());
    assert!(home.extent.has_heap() && copy.extent.has_heap());
    // Another node gets a copy.
    let mut third = TestNode::new(2, Some(&set(1, 0, &[1])));
    home.hold(ToHolder::Set(set(2, 0, &[])));
    home.hold(ToHolder::Make { node: NodeId(2), order: 4 });
    connect(&mut home, &mut third, (0, 2));
    exchange(&mut home, &mut third);
    assert_eq!(third.copies.heap(EXTENT.gid, Slot(0)), heap.as_ref());
    assert!(third.extent.has_heap(), "it may end before it is home");
    // It becomes the home, and a call that is sent again has its first answer.
    home.hold(ToHolder::Set(set(3, 0, &[2])));
    exchange(&mut home, &mut third);
    third.hold(ToHolder::Freeze { term: Term(4) });
    third.hold(ToHolder::Elect { set: set(4, 2, &[]), has: BTreeMap::new(), stopped: false });
    third.write(1, ExtentWrite::heap(take(), Some(UpdateCall { is_repeat: true, ..call(2) })));
    third.write(2, ExtentWrite::heap(wish(&both), Some(UpdateCall { is_repeat: true, ..call(4) })));
    third.write(3, ExtentWrite::heap(wish(&[allocate; 2]), Some(call(5))));
    let answers: Vec<_> = third.applied.iter().map(answer).collect();
    assert_eq!(answers, [vec![Ok(192)], vec![Err(HeapRefusal::NoBlock), Ok(64)], vec![Ok(320), Ok(448)]]);
}
