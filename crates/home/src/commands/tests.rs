//! Commands of one link as its driver sees them.

use super::*;
use crate::memory::Bytes;
use crate::vectors::{Vector, Vectors};
use hanare_protocol::error::Happened;
use hanare_protocol::id::{Gid, Grant, Slot};
use hanare_protocol::limits::LATER_ANSWER_US;
use hanare_protocol::queue::{Overflow, PortId, QueueForm, Unit};
use hanare_protocol::shape::{Checked, Shape, Strided};
use hanare_protocol::wire::command::{Command, Op};
use hanare_protocol::wire::control;
use hanare_protocol::wire::exchange::{Query, Reply};
use hanare_protocol::wire::head::{Head, Kind, MAY_WAIT, encode_call};
use hanare_protocol::wire::queue::{APPENDED_LEN, AppendFront};
use hanare_protocol::wire::sync::SyncRequest;
use std::rc::Rc;
use std::time::Duration;

/// An extent that hosts map, or that has copies.
#[derive(Clone, Copy, Debug)]
pub(super) struct TestExtent {
    has_copies: bool,
}

impl TestExtent {
    pub fn by_pages() -> TestExtent {
        TestExtent { has_copies: false }
    }

    pub fn with_copies() -> TestExtent {
        TestExtent { has_copies: true }
    }
}

impl CommandExtent for TestExtent {
    fn gid(&self) -> Gid {
        Gid(1)
    }

    fn slot(&self) -> Slot {
        Slot(0)
    }

    fn is_by_pages(&self) -> bool {
        true
    }

    fn has_copies(&self) -> bool {
        self.has_copies
    }

    fn stays(&self) -> bool {
        false
    }

    fn write_stream(&self, _shape: &Checked<'static>, _at: u64, _bytes: &[u8]) -> hanare_protocol::Result<()> {
        unreachable!("nothing is fetched into it")
    }

    fn let_go(&mut self) {}
}

const LEN: u64 = 4 << 20;

/// A link, and the extent that its commands reach.
struct Driven {
    link: LinkCommands<Rc<Vectors>, ()>,
    extent: Vector,
}

impl Driven {
    fn new() -> Driven {
        let (memory, extent) = Vectors::of(Gid(1), LEN as usize);
        Driven { link: LinkCommands::new(Rc::new(memory)), extent }
    }

    /// A message of one command comes, of which bytes beyond `cut` do not.
    fn send(&mut self, seq: u64, (op, detail): (Op, u64), shape: &Shape<'_>, operand: &[u8], cut: usize) {
        let command = Command::new(op, 0, Slot(0), if seq == 7 { Grant([9; 16]) } else { Grant::default() }, shape);
        let body = [&command.encode()[..], operand].concat();
        let head = Head { count: 1, body_len: body.len() as u64, detail, ..Head::new(Kind::Commands, seq) };
        let (mut front, mut stage, mut at) = (Vec::new(), Vec::new(), 0);
        self.link.begin_round(false);
        assert!(self.link.incoming.may_begin());
        while at < body.len() {
            let buffers = Buffers { front: &front, lists: &[], stage: &stage };
            let placed = self.link.incoming.place(&head, at as u64, buffers).unwrap();
            if at >= cut {
                return;
            }
            let len = match placed {
                Destination::Front(len) | Destination::Held(len) | Destination::Stage(len) | Destination::Nowhere(len) => len,
                Destination::Extent { len, .. } => len,
                Destination::Lists(_) | Destination::Later => panic!("{placed:?}"),
            };
            let bytes = &body[at..][..len as usize];
            match placed {
                Destination::Front(_) => front = bytes.to_vec(),
                Destination::Held(_) => self.link.incoming.current().unwrap().execution.hold(bytes).unwrap(),
                Destination::Extent { offset, .. } => self.extent.write(offset, bytes).unwrap(),
                _ => stage = bytes.to_vec(),
            }
            at += len as usize;
        }
        self.link.incoming.message(&head, Buffers { front: &front, lists: &[], stage: &stage });
        self.link.end_round();
    }

    /// The driver's orders until nothing is left, without steps within one turn.
    fn told(&mut self, now: Duration) -> Vec<String> {
        let (mut told, answers) = (Vec::new(), &mut self.link.answers);
        loop {
            told.push(match answers.next(now, 0) {
                Next::Nothing => return told,
                Next::Again => continue,
                Next::Others => "others".to_owned(),
                Next::Reply(seq, Reply::Refused(_)) => format!("{seq} refused"),
                Next::Reply(seq, reply) => format!("{seq} {reply:?}"),
                Next::Granted(seq, ()) => format!("{seq} granted"),
                Next::Later => {
                    let mut results = Vec::new();
                    answers.leave(&mut results);
                    results.iter().map(|(seq, result)| format!("{seq} later {}", result.len())).collect()
                }
                Next::Send => {
                    let mut parts = answers.begin_parts();
                    let lens: Vec<u64> = std::iter::from_fn(|| parts.next_part().map(|(part, _)| part.len)).collect();
                    let begun = parts.give(lens.iter().sum());
                    answers.end_parts(0);
                    begun.map_or_else(|| format!("more {lens:?}"), |(seq, total)| format!("{seq} of {total} {lens:?}"))
                }
            });
        }
    }
}

const PUT: (Op, u64) = (Op::Put, 0);
const WHOLE: usize = usize::MAX;

#[test]
fn a_put_is_there_when_it_is_answered() {
    let mut driven = Driven::new();
    driven.send(1, PUT, &Shape::contiguous(100, 8), &[7; 8], WHOLE);
    assert_eq!(driven.told(Duration::ZERO), ["1 Done"]);
    assert_eq!(driven.extent.load_word(100, 8), Ok(u64::from_le_bytes([7; 8])));
}

#[test]
fn a_numbered_call_needs_a_connection_that_names_its_program() {
    let command = Command::new(Op::Put, 0, Slot(0), Grant::default(), &Shape::contiguous(0, 8)).encode();
    let head =
        Head { count: 1, body_len: command.len() as u64 + 8, detail: encode_call(0, 1, false), ..Head::new(Kind::Commands, 2) };
    let (program, buffers) = (5u128.to_le_bytes(), |front| Buffers { front, lists: &[], stage: &[] });
    for is_named in [false, true] {
        let mut driven = Driven::new();
        driven.link.begin_round(false);
        if is_named {
            let name = Head { body_len: 16, ..Head::new(Kind::Name, 1) };
            driven.link.incoming.message(&name, buffers(&program));
        }
        assert!(driven.link.incoming.place(&head, 0, buffers(&[])).is_ok());
        // The next home would not know the call again.
        let placed = driven.link.incoming.place(&head, command.len() as u64, buffers(&command));
        assert_eq!(placed.is_ok(), is_named, "{placed:?}");
    }
}

#[test]
fn a_long_command_is_done_in_stages_behind_which_others_have_their_turns() {
    let mut driven = Driven::new();
    driven.send(1, (Op::Fill { pattern_len: 3 }, 0), &Shape::contiguous(0, 3 << 20), b"abc", WHOLE);
    assert_eq!(driven.told(Duration::ZERO), ["others", "others", "others", "others", "1 of 0 []"]);
    let mut last = [0; 3];
    driven.extent.read((3 << 20) - 3, &mut last).unwrap();
    assert_eq!(&last, b"abc");
}

#[test]
fn others_have_their_turns_behind_each_stage_of_a_result_and_stages_are_short_while_they_want_them() {
    let mut driven = Driven::new();
    let words = Shape::Strided(Strided { offset: 0, block: 8, count: 20_000, stride: 16 });
    driven.send(1, (Op::Get, 0), &words, &[], WHOLE);
    assert_eq!(driven.told(Duration::ZERO), ["1 of 160000 [65536]", "others", "more [65536]", "others", "more [28928]"]);
    driven.send(2, (Op::Get, 0), &words, &[], WHOLE);
    driven.link.begin_round(true);
    let told = driven.told(Duration::ZERO);
    assert_eq!((&told[..3], told.len()), (&["2 of 160000 [8192]", "others", "more [8192]"].map(str::to_owned)[..], 39));
    driven.send(3, (Op::Get, 0), &Shape::contiguous(0, 150_000), &[], WHOLE);
    driven.link.begin_round(true);
    assert_eq!(driven.told(Duration::ZERO), ["3 of 150000 [65536]", "others", "more [65536]", "others", "more [18928]"]);
}

#[test]
fn a_long_operand_comes_in_pieces_while_several_users_want_turns() {
    let mut driven = Driven::new();
    let put = Command::new(Op::Put, 0, Slot(0), Grant::default(), &Shape::contiguous(0, 100_000)).encode();
    let head = Head { count: 1, body_len: put.len() as u64 + 100_000, ..Head::new(Kind::Commands, 1) };
    let buffers = Buffers { front: &put, lists: &[], stage: &[] };
    driven.link.begin_round(true);
    let incoming = &mut driven.link.incoming;
    incoming.place(&head, 0, buffers).unwrap();
    let (at, len) = (put.len() as u64, 65_536);
    assert_eq!(incoming.place(&head, at, buffers), Ok(Destination::Extent { offset: 0, len }));
    assert!(!incoming.has_enough(), "none of it has come");
    assert_eq!(incoming.place(&head, at + len, buffers), Ok(Destination::Extent { offset: len, len: 100_000 - len }));
    assert!(incoming.has_enough());
    driven.link.begin_round(true);
    assert!(!driven.link.incoming.has_enough());
}

#[test]
fn a_large_result_leaves_from_where_it_lies_and_a_small_one_by_a_buffer() {
    let mut driven = Driven::new();
    driven.send(1, (Op::Get, 0), &Shape::contiguous(5, 2000), &[], WHOLE);
    driven.link.begin_round(false);
    assert!(!driven.link.incoming.may_begin(), "a later message could change the bytes");
    assert_eq!(driven.told(Duration::ZERO), ["1 of 2000 [2000]"]);
    driven.send(2, (Op::Get, 0), &Shape::contiguous(5, 20), &[], WHOLE);
    assert_eq!(driven.told(Duration::ZERO), ["2 of 20 [20]"]);
}

#[test]
fn what_became_of_requests_is_known_at_the_end_of_their_link() {
    let mut driven = Driven::new();
    driven.send(6, PUT, &Shape::contiguous(0, 8), &[1; 8], WHOLE);
    assert_eq!(driven.told(Duration::ZERO), ["6 Done"]);
    driven.send(7, PUT, &Shape::contiguous(0, 8), &[2; 8], WHOLE);
    assert_eq!(driven.told(Duration::ZERO), ["7 refused"], "its grant is of no epoch of the node");
    driven.send(8, PUT, &Shape::contiguous(0, 8), &[3; 8], 64);
    let outcomes = driven.link.outcomes();
    let happened = [6, 7, 8, 9].map(|seq| outcomes.happened(seq));
    assert_eq!(happened, [Happened::Yes, Happened::No, Happened::Unknown, Happened::No]);
    assert_eq!(driven.extent.load_word(0, 8), Ok(u64::from_le_bytes([1; 8])));
}

#[test]
fn queries_of_a_turn_wait_for_its_end_and_are_not_done_if_the_link_ends_before() {
    let mut driven = Driven::new();
    driven.link.begin_round(false);
    let request = SyncRequest::Unlock { number: 1 };
    let front = control::encode(&request);
    let head = Head { body_len: front.len() as u64, ..Head::new(Kind::Sync, 3) };
    let buffers = Buffers { front: &front, lists: &[], stage: &[] };
    assert_eq!(driven.link.incoming.place(&head, 0, buffers), Ok(Destination::Front(head.body_len)));
    driven.link.incoming.message(&head, buffers);
    driven.link.end_round();
    assert_eq!(driven.link.outcomes().happened(3), Happened::No);
    assert_eq!(driven.link.take_queries(), [(3, Query::Sync(request))]);
}

#[test]
fn answers_that_nobody_waits_for_go_when_they_are_old_or_before_one_that_somebody_waits_for() {
    let mut driven = Driven::new();
    let form = QueueForm { unit: Unit::Blocks { len: 16 }, depth: 4, ports: 1, overflow: Overflow::Wait };
    driven.extent.write(0, &form.encode(1)).unwrap();
    let writer = PortId(5);
    driven.extent.with_queues(0, |array| array.open_lane(0, writer, 7)).unwrap();
    let append = |seq| [&AppendFront { queue: 0, writer, seq }.encode()[..], &[7; 16]].concat();
    let shape = Shape::contiguous(0, append(0).len() as u64);
    let kind = (Op::Append { lane: 0 }, MAY_WAIT);
    let old = Duration::from_micros(LATER_ANSWER_US);
    driven.send(1, kind, &shape, &append(0), WHOLE);
    assert!(driven.told(Duration::ZERO).is_empty() && driven.link.answers.holds_back());
    assert!(driven.told(old - Duration::from_micros(1)).is_empty());
    assert_eq!(driven.told(old), [format!("1 later {APPENDED_LEN}")]);
    driven.send(2, kind, &shape, &append(1), WHOLE);
    assert!(driven.told(old).is_empty());
    driven.send(3, PUT, &Shape::contiguous(8000, 8), &[1; 8], WHOLE);
    assert_eq!(driven.told(old), [format!("2 later {APPENDED_LEN}"), "3 Done".to_owned()]);
}
