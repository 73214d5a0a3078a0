//! Queues whose extents have copies: each holder carries calls out, so a copy goes on as home with all words and ports.

use super::*;
use hanare_protocol::id::ClientId;
use hanare_protocol::queue::layout::TAIL_AT;
use hanare_protocol::queue::{Overflow, PortId, QueueForm, Unit};
use hanare_protocol::wire::queue::{AppendFront, QueueCall, QueueChange, QueueRequest, decode_appended};
use hanare_protocol::wire::sync::SyncAnswer;

const WRITER: u64 = 11;
const READER: u64 = 12;
const FORM: QueueForm = QueueForm { unit: Unit::Blocks { len: 16 }, depth: 4, ports: 2, overflow: Overflow::Wait };

fn queue_call(what: QueueChange) -> ExtentWrite {
    ExtentWrite::call(ExtentCall::Queue(QueueCall { offset: 0, what }))
}

fn ask(request: QueueRequest) -> ExtentWrite {
    queue_call(QueueChange::Port { request, uid: 7, client: ClientId(3) })
}

/// Units of the first lane, from that number on: each of 16 bytes.
fn append(seq: u64, units: &[u8]) -> ExtentWrite {
    let front = AppendFront { queue: 0, writer: PortId(WRITER), seq }.encode();
    let units: Vec<u8> = units.iter().flat_map(|unit| [*unit; 16]).collect();
    queue_call(QueueChange::Append { lane: 0, operand: [&front[..], &units].concat() })
}

fn open_lane() -> ExtentWrite {
    ask(QueueRequest::OpenLane { queue: 0, writer: WRITER })
}

fn open_reader(reader: u64) -> ExtentWrite {
    ask(QueueRequest::OpenReader { first: 0, count: 1, reader })
}

fn free(form: &QueueForm, units: u64) -> ExtentWrite {
    let head = units * form.frame_len(16);
    ask(QueueRequest::Free { queue: 0, lane: 0, reader: READER, head })
}

/// Units that count, by the answer to the last append.
fn accepted(node: &TestNode) -> u64 {
    let (_, outcome) = node.applied.last().expect("something was answered");
    let bytes = outcome.clone().unwrap();
    decode_appended(bytes[..].try_into().expect("an append's answer")).0.accepted
}

fn follow(copy: &mut TestNode, term: u64) {
    copy.hold(ToHolder::Freeze { term: Term(term) });
    copy.hold(ToHolder::Elect { set: set(term, 1, &[]), has: BTreeMap::new(), stopped: false });
    assert!(copy.extent.is_open());
}

/// A home with a copy, and a queue in both that has a writer and a reader.
fn pair_with_queue() -> (TestNode, TestNode) {
    let (mut home, mut copy) = pair();
    home.write(2, put(0, &FORM.encode(1)));
    home.write(3, open_lane());
    home.write(4, open_reader(READER));
    exchange(&mut home, &mut copy);
    let lane = encode(&SyncAnswer::Lane { lane: 0, accepted: 0 });
    assert_eq!(home.applied[2..], [(3, Ok(lane)), (4, Ok(encode(&SyncAnswer::Done)))]);
    (home, copy)
}

#[test]
fn an_append_is_answered_when_the_copy_has_it_and_counts_once_at_the_next_home() {
    let (mut home, mut copy) = pair_with_queue();
    home.write(5, append(0, &[1, 2]));
    assert_eq!(home.applied.len(), 4, "the copy has it not yet");
    exchange(&mut home, &mut copy);
    assert_eq!(accepted(&home), 2);
    assert!(home.bytes() == copy.bytes() && home.extent.ports() == copy.extent.ports());
    // The next one reaches the copy, and its answer nobody.
    home.write(6, append(2, &[3]));
    let (place, bytes) = home.sent.pop_front().expect("it goes to the copy");
    copy.tell(CopyInput::Frames { place, frames: &[bytes] });
    follow(&mut copy, 2);
    copy.write(7, append(2, &[3, 4]));
    assert_eq!(accepted(&copy), 4);
    copy.write(8, append(4, &[5]));
    assert_eq!(accepted(&copy), 4, "there is no room");
    copy.write(9, free(&FORM, 1));
    copy.write(10, free(&FORM, 1));
    assert_eq!(
        copy.applied[copy.applied.len() - 2..].iter().filter(|(_, outcome)| outcome.is_ok()).count(),
        2,
        "repeated, it frees nothing"
    );
    copy.write(11, append(4, &[5]));
    assert_eq!(accepted(&copy), 5);
}

#[test]
fn an_append_that_the_copy_never_had_is_done_when_it_is_sent_again() {
    let (mut home, mut copy) = pair_with_queue();
    home.write(5, append(0, &[1]));
    home.sent.clear();
    follow(&mut copy, 2);
    copy.write(7, append(0, &[1]));
    assert_eq!(accepted(&copy), 1);
}

#[test]
fn what_all_holders_refuse_leaves_them_whole() {
    let (mut home, mut copy) = pair_with_queue();
    home.write(5, open_reader(99));
    home.write(6, append(7, &[1]));
    home.write(7, queue_call(QueueChange::Append { lane: 9, operand: vec![1] }));
    home.write(8, ask(QueueRequest::OpenLane { queue: 5, writer: 1 }));
    exchange(&mut home, &mut copy);
    let refused: Vec<bool> = home.applied[4..].iter().map(|(_, outcome)| outcome.is_err()).collect();
    assert_eq!((refused, &home.said[..], &copy.said[..]), (vec![true; 4], &[][..], &[][..]));
    home.write(9, append(0, &[1]));
    exchange(&mut home, &mut copy);
    assert_eq!(accepted(&home), 1);
    assert!(home.bytes() == copy.bytes() && home.extent.ports() == copy.extent.ports());
}

#[test]
fn ports_of_programs_that_are_gone_are_so_at_all_holders() {
    let (mut home, mut copy) = pair_with_queue();
    home.write(5, queue_call(QueueChange::Gone { ports: vec![(0, PortId(WRITER)), (0, PortId(READER)), (0, PortId(77))] }));
    exchange(&mut home, &mut copy);
    assert!(home.bytes() == copy.bytes() && home.extent.ports() == copy.extent.ports());
    follow(&mut copy, 2);
    copy.write(6, append(0, &[1]));
    assert!(matches!(copy.applied.last(), Some((6, Err(Error::NotAWriter { .. })))));
    copy.write(7, ask(QueueRequest::ResumeLane { queue: 0, lane: 0, writer: WRITER }));
    copy.write(8, append(0, &[1]));
    assert_eq!(accepted(&copy), 1);
    copy.write(9, open_reader(99));
    assert_eq!(copy.applied.last(), Some(&(9, Ok(encode(&SyncAnswer::Done)))), "a successor of a dead reader");
}

#[test]
fn queues_that_spill_are_refused() {
    let (mut home, mut copy) = pair();
    home.write(2, put(0, &QueueForm { overflow: Overflow::Spill, ..FORM }.encode(1)));
    home.write(3, open_lane());
    exchange(&mut home, &mut copy);
    assert!(matches!(home.applied.last(), Some((3, Err(Error::BadUse { .. })))), "{:?}", home.applied);
}

/// A lane over several ranges of a copy that is made.
const LONG_FORM: QueueForm = QueueForm { depth: (4 * STAGE_LEN / 16) as u32, ports: 1, ..FORM };

#[test]
fn a_copy_that_is_made_while_calls_come_has_all_of_them() {
    let alone = set(1, 0, &[]);
    let len = 6 * STAGE_LEN;
    let (mut home, mut copy) = (TestNode::of(0, Some(&alone), len), TestNode::of(2, Some(&alone), len));
    home.write(1, put(0, &LONG_FORM.encode(1)));
    home.write(2, open_lane());
    let units = vec![5; 1 << 10];
    let mut seq = 0;
    let mut append_some = |home: &mut TestNode| {
        home.write(3, append(seq, &units));
        seq += units.len() as u64;
    };
    append_some(&mut home);
    home.hold(ToHolder::Make { node: NodeId(2), order: 4 });
    connect(&mut home, &mut copy, (0, 2));
    let mut rounds = 0;
    // A call with each frame: words of the first range and units of others change, wherever the making is.
    while let Some((place, bytes)) = home.sent.pop_front() {
        copy.tell(CopyInput::Frames { place, frames: &[bytes] });
        while let Some((place, bytes)) = copy.sent.pop_front() {
            home.tell(CopyInput::Frames { place, frames: &[bytes] });
        }
        if rounds < 60 {
            append_some(&mut home);
            home.write(4, open_reader(READER));
            home.write(5, ask(QueueRequest::CloseReader { first: 0, reader: READER }));
        }
        rounds += 1;
    }
    assert_eq!(home.said, [FromHolder::Admit { term: Term(1), node: NodeId(2), order: 4 }]);
    home.hold(ToHolder::Set(set(2, 0, &[2])));
    append_some(&mut home);
    exchange(&mut home, &mut copy);
    assert_eq!(accepted(&home), seq, "after {rounds} rounds");
    assert!(home.bytes() == copy.bytes(), "words and units are the same");
    assert_eq!(home.extent.ports(), copy.extent.ports());
    copy.hold(ToHolder::Freeze { term: Term(3) });
    copy.hold(ToHolder::Elect { set: set(3, 2, &[]), has: BTreeMap::new(), stopped: false });
    copy.write(9, append(seq, &[1]));
    assert_eq!(accepted(&copy), seq + 1);
    let tail = LONG_FORM.queue_at(1, 0) + LONG_FORM.lane_at(0) + TAIL_AT;
    assert_eq!(copy.extent.load_word(tail, 8), Ok((seq + 1) * LONG_FORM.frame_len(16)));
}
