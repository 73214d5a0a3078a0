//! Writes of a link to an extent with copies that are under way while the link goes on.
//!
//! Stages of puts do not wait for each other, and neither do messages of one append each: the extent's home gives them one order, and applies
//! them in it. A write of another extent waits until all of them are applied. So commands have their effects in the order in which they stand.

use super::command::AdmittedCommand;
use super::memory::CommandMemory;
use hanare_protocol::id::{Gid, Slot};
use hanare_protocol::limits::{AHEAD_COUNT_MAX, AHEAD_LEN_MAX};
use hanare_protocol::wire::command::Op;
use hanare_protocol::wire::copies::ExtentWrite;
use hanare_protocol::{Error, Result};
use std::collections::VecDeque;

/// The writes of one link that are under way. They are applied in their order.
#[derive(Debug, Default)]
pub(super) struct WritesAhead {
    /// The extent of all of them, where there are any.
    at: Option<(Gid, Slot)>,
    /// Each of them.
    writes: VecDeque<Ahead>,
    /// The first failure of the message's writes.
    failed: Option<Error>,
}

/// A write that is under way.
#[derive(Debug)]
struct Ahead {
    /// Bytes of its memory, its ranges included.
    len: u64,
    /// True for an append, whose answer waits for it.
    is_append: bool,
}

/// The first write under way has an outcome.
pub(super) enum AheadEnd {
    /// A put ended.
    Put,
    /// An append ended.
    Append(Result<Vec<u8>>),
    /// The link waits for that write, because none was under way.
    Awaited(Result<Vec<u8>>),
}

impl WritesAhead {
    /// The extent of the writes under way.
    pub fn extent(&self) -> Option<(Gid, Slot)> {
        self.at.filter(|_| !self.writes.is_empty())
    }

    /// Returns true if a command's next stage may begin before all writes are applied.
    pub fn admit<M: CommandMemory>(&self, command: &AdmittedCommand<M>) -> bool {
        let has_room =
            self.writes.len() < AHEAD_COUNT_MAX && self.writes.iter().map(|write| write.len).sum::<u64>() < AHEAD_LEN_MAX;
        self.extent().is_none_or(|at| command.copied_extent() == Some(at) && has_room)
    }

    /// Returns true if a message of one append may begin beside those under way.
    pub fn admits_append<M: CommandMemory>(&self, commands: &[AdmittedCommand<M>]) -> bool {
        matches!(commands, [only] if only.is_append() && !only.is_repeat() && self.admit(only))
    }

    /// The write of a stage was given to the extent's home. Returns true if the link goes on before it is applied.
    pub fn add<M: CommandMemory>(&mut self, command: &AdmittedCommand<M>, write: &ExtentWrite) -> bool {
        // A repeated call looks at each stage for what was done before.
        let is_append = command.is_append();
        if !(is_append || command.op == Op::Put) || command.is_repeat() {
            return false;
        }
        self.at = command.copied_extent();
        self.writes.push_back(Ahead { len: write.memory_len(), is_append });
        true
    }

    /// The first write under way was applied, or failed.
    pub fn applied(&mut self, outcome: Result<Vec<u8>>) -> AheadEnd {
        match self.writes.pop_front() {
            None => AheadEnd::Awaited(outcome),
            Some(Ahead { is_append: true, .. }) => AheadEnd::Append(outcome),
            Some(Ahead { is_append: false, .. }) => {
                self.failed = self.failed.take().or(outcome.err());
                AheadEnd::Put
            }
        }
    }

    /// The failure of the message whose answer is made, once.
    pub fn take_failure(&mut self) -> Option<Error> {
        self.failed.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::{Buffers, Destination, LinkCommands, Next};
    use crate::vectors::Vectors;
    use hanare_protocol::copies::UpdateCall;
    use hanare_protocol::element::Element;
    use hanare_protocol::error::Happened;
    use hanare_protocol::id::{Grant, NodeId};
    use hanare_protocol::limits::STAGE_LEN;
    use hanare_protocol::shape::{Shape, Strided};
    use hanare_protocol::wire::command::{COMMAND_LEN, Command};
    use hanare_protocol::wire::exchange::{Query, Reply};
    use hanare_protocol::wire::head::{Head, Kind, encode_call};
    use std::rc::Rc;
    use std::time::Duration;

    const STAGE: u64 = STAGE_LEN as u64;

    /// A link whose commands reach two extents with copies.
    struct Driven {
        link: LinkCommands<Rc<Vectors>, ()>,
        front: Vec<u8>,
        stage: Vec<u8>,
        body: Vec<u8>,
        head: Head,
        /// Bytes of the body that have come.
        at: u64,
        is_whole: bool,
        /// Writes that the homes have been given: their slot and first byte.
        given: Vec<(u32, u64)>,
    }

    impl Driven {
        /// A message comes: each command with its slot, first byte and length. `detail` names its call.
        fn new(detail: u64, commands: &[(Op, u32, u64, u64)]) -> Driven {
            let shaped = commands.iter().map(|(op, slot, offset, len)| (*op, *slot, Shape::contiguous(*offset, *len), *len));
            Driven::of(detail, &shaped.collect::<Vec<_>>())
        }

        /// The same of commands of any shape, with the bytes of each.
        fn of(detail: u64, commands: &[(Op, u32, Shape, u64)]) -> Driven {
            let mut link = LinkCommands::new(Rc::new(Vectors::with_copies(Gid(1), 8 << 20, 2)));
            link.begin_round(false);
            let name = Head { body_len: 16, ..Head::new(Kind::Name, 1) };
            let bytes = 5u128.to_le_bytes();
            link.incoming.message(&name, Buffers { front: &bytes, lists: &[], stage: &[] });
            link.end_round();
            assert!(matches!(link.take_queries()[..], [(1, Query::Name(_))]));
            let (mut fronts, mut operands) = (Vec::new(), Vec::new());
            for (op, slot, shape, len) in commands {
                let command = Command::new(*op, 0, Slot(*slot), Grant::default(), shape);
                fronts.extend_from_slice(&command.encode());
                operands.extend(std::iter::repeat_n(7, op.operand_len(*len).unwrap() as usize));
            }
            let body = [fronts, operands].concat();
            let count = commands.len() as u32;
            let head = Head { count, body_len: body.len() as u64, detail, ..Head::new(Kind::Commands, 2) };
            let (front, stage, given) = Default::default();
            Driven { link, front, stage, body, head, at: 0, is_whole: false, given }
        }

        /// Lets as much come, and go to homes, as can. Returns the writes that homes were given.
        fn go(&mut self) -> Vec<(u32, u64)> {
            self.link.begin_round(false);
            while self.write() || self.receive() {}
            self.link.end_round();
            while !matches!(self.link.answers.next(Duration::ZERO, 0), Next::Nothing | Next::Reply(..) | Next::Send) {
                self.write();
            }
            std::mem::take(&mut self.given)
        }

        fn write(&mut self) -> bool {
            let Some(need) = self.link.need() else { return false };
            let write = self.link.write(&self.stage).unwrap().unwrap();
            self.given.push((need.slot.0, write.ranges[0].0));
            self.link.goes_ahead(&write, &self.stage)
        }

        fn receive(&mut self) -> bool {
            let buffers = Buffers { front: &self.front, lists: &[], stage: &self.stage };
            if self.is_whole {
                return false;
            }
            if self.at == self.body.len() as u64 {
                self.link.incoming.message(&self.head, buffers);
                self.is_whole = true;
                return true;
            }
            let placed = self.link.incoming.place(&self.head, self.at, buffers).unwrap();
            let (is_front, len) = match placed {
                Destination::Front(len) => (true, len),
                Destination::Stage(len) => (false, len),
                Destination::Later => return self.write(),
                _ => panic!("{placed:?}"),
            };
            let bytes = self.body[self.at as usize..][..len as usize].to_vec();
            *(if is_front { &mut self.front } else { &mut self.stage }) = bytes;
            self.at += len;
            true
        }

        fn applied(&mut self, outcome: Result<Vec<u8>>) {
            self.link.applied(outcome, &self.stage);
        }

        fn answer(&mut self) -> Option<Reply> {
            match self.link.answers.next(Duration::ZERO, 0) {
                Next::Nothing => None,
                Next::Reply(_, reply) => Some(reply),
                _ => Some(Reply::Done),
            }
        }
    }

    #[test]
    fn stages_of_a_put_do_not_wait_for_each_other_and_its_answer_waits_for_all() {
        let mut driven = Driven::new(0, &[(Op::Put, 0, 0, 6 * STAGE)]);
        assert_eq!(driven.go(), [(0, 0), (0, STAGE), (0, 2 * STAGE), (0, 3 * STAGE)], "no more are under way");
        assert!(driven.link.waits_for_others());
        driven.applied(Ok(Vec::new()));
        assert_eq!(driven.go(), [(0, 4 * STAGE)]);
        driven.applied(Ok(Vec::new()));
        assert_eq!(driven.go(), [(0, 5 * STAGE)]);
        for _ in 0..4 {
            assert!(driven.answer().is_none() && driven.link.waits_for_others());
            driven.applied(Ok(Vec::new()));
        }
        assert_eq!(driven.answer(), Some(Reply::Done));
    }

    #[test]
    fn ranges_count_as_bytes_that_are_under_way() {
        let bytes = Strided { block: 1, stride: 16, count: 400_000, ..Strided::contiguous(0, 0) };
        let mut driven = Driven::of(0, &[(Op::Put, 0, Shape::Strided(bytes), 400_000)]);
        // A stage is 8,192 bytes, with as many ranges of 16 bytes: eight fill the room.
        assert_eq!(driven.go(), (0..8).map(|stage| (0, stage * 8192 * 16)).collect::<Vec<_>>());
        driven.applied(Ok(Vec::new()));
        assert_eq!(driven.go(), [(0, 8 * 8192 * 16)]);
    }

    #[test]
    fn a_write_of_another_extent_waits_for_those_before() {
        let flag = (Op::CompareAndSwap(Element::U64), 1, 8, 8);
        let mut driven = Driven::new(0, &[(Op::Put, 0, 0, 8), (Op::Put, 0, 64, 8), flag]);
        assert_eq!(driven.go(), [(0, 0), (0, 64)]);
        driven.applied(Ok(Vec::new()));
        assert_eq!(driven.go(), []);
        driven.applied(Ok(Vec::new()));
        assert_eq!(driven.go(), [(1, 8)]);
        assert!(driven.answer().is_none());
        driven.applied(Ok(vec![0; 8]));
        assert_eq!(driven.answer(), Some(Reply::Done));
    }

    #[test]
    fn a_failure_of_one_stage_is_the_messages() {
        let mut driven = Driven::new(0, &[(Op::Put, 0, 0, 3 * STAGE)]);
        assert_eq!(driven.go().len(), 3);
        let lost = Error::NodeLost { node: NodeId(0), reason: "gone".to_owned() };
        driven.applied(Ok(Vec::new()));
        driven.applied(Err(lost.clone()));
        assert!(driven.answer().is_none(), "a write is under way");
        driven.applied(Ok(Vec::new()));
        assert_eq!(driven.answer(), Some(Reply::Refused(lost)));
        assert!(driven.link.answers.ahead.take_failure().is_none());
    }

    /// A message of one append comes, and goes to the home as far as it can. Returns whether it was given to the home.
    fn append(link: &mut LinkCommands<Rc<Vectors>, ()>, seq: u64) -> bool {
        link.begin_round(false);
        let command = Command::new(Op::Append { lane: 0 }, 0, Slot(0), Grant::default(), &Shape::contiguous(0, 32)).encode();
        let head = Head { count: 1, body_len: COMMAND_LEN as u64 + 32, ..Head::new(Kind::Commands, seq) };
        let buffers = || Buffers { front: &command, lists: &[], stage: &[] };
        assert!(link.incoming.may_begin());
        link.incoming.place(&head, 0, buffers()).unwrap();
        assert!(matches!(link.incoming.place(&head, COMMAND_LEN as u64, buffers()).unwrap(), Destination::Held(32)));
        link.incoming.message(&head, buffers());
        link.end_round();
        goes(link)
    }

    fn goes(link: &mut LinkCommands<Rc<Vectors>, ()>) -> bool {
        while !matches!(link.answers.next(Duration::ZERO, 0), Next::Nothing | Next::Others) {}
        let Some(_) = link.need() else { return false };
        match link.write(&[]).unwrap() {
            Some(write) => assert!(link.goes_ahead(&write, &[])),
            None => link.recalled(Ok(()), &[]),
        }
        !link.waits_for_others()
    }

    /// The number of the next answer, and whether it is a refusal.
    fn told(link: &mut LinkCommands<Rc<Vectors>, ()>) -> Option<(u64, bool)> {
        match link.answers.next(Duration::ZERO, 0) {
            Next::Reply(seq, reply) => Some((seq, matches!(reply, Reply::Refused(_)))),
            Next::Send => {
                let mut parts = link.answers.begin_parts();
                while parts.next_part().is_some() {}
                let seq = parts.give(16).map(|(seq, _)| (seq, false));
                link.answers.end_parts(0);
                seq
            }
            _ => None,
        }
    }

    #[test]
    fn appends_do_not_wait_for_each_other_and_are_answered_in_their_order() {
        let mut link = LinkCommands::new(Rc::new(Vectors::with_copies(Gid(1), 8 << 20, 2)));
        assert!(append(&mut link, 2) && append(&mut link, 3));
        assert!(told(&mut link).is_none() && !link.waits_for_others(), "more may come");
        assert!(append(&mut link, 4));
        let lost = Error::NodeLost { node: NodeId(0), reason: "gone".to_owned() };
        link.applied(Ok(vec![1; 16]), &[]);
        link.applied(Err(lost), &[]);
        assert_eq!(link.outcomes().happened(4), Happened::Unknown);
        assert_eq!((told(&mut link), told(&mut link), told(&mut link)), (Some((2, false)), Some((3, true)), None));
        link.applied(Ok(vec![1; 16]), &[]);
        assert_eq!((link.outcomes().happened(4), link.outcomes().happened(3)), (Happened::Yes, Happened::Unknown));
        assert_eq!((told(&mut link), told(&mut link)), (Some((4, false)), None));
        assert!(!link.answers.has_appends());
    }

    #[test]
    fn commands_behind_appends_wait_for_these_and_so_do_appends_beyond_the_room() {
        let mut link = LinkCommands::new(Rc::new(Vectors::with_copies(Gid(1), 8 << 20, 2)));
        assert!((0..AHEAD_COUNT_MAX as u64).all(|k| append(&mut link, 2 + k)));
        assert!(!append(&mut link, 100) && link.waits_for_others(), "no more are under way");
        link.begin_round(false);
        assert!(!link.incoming.may_begin(), "nor come");
        link.applied(Ok(vec![1; 16]), &[]);
        assert_eq!(told(&mut link), Some((2, false)));
        assert!(goes(&mut link));
        let get = Command::new(Op::Get, 0, Slot(0), Grant::default(), &Shape::contiguous(0, 8)).encode();
        let head = Head { count: 1, body_len: COMMAND_LEN as u64, ..Head::new(Kind::Commands, 101) };
        link.begin_round(false);
        link.incoming.place(&head, 0, Buffers { front: &get, lists: &[], stage: &[] }).unwrap();
        link.incoming.message(&head, Buffers { front: &get, lists: &[], stage: &[] });
        link.end_round();
        for k in 1..=AHEAD_COUNT_MAX as u64 {
            assert!(told(&mut link).is_none() && link.waits_for_others());
            link.applied(Ok(vec![1; 16]), &[]);
            assert_eq!(told(&mut link), Some((if k == AHEAD_COUNT_MAX as u64 { 100 } else { 2 + k }, false)));
        }
        assert!(goes(&mut link));
        assert_eq!(told(&mut link), Some((101, false)));
    }

    #[test]
    fn stages_of_a_repeated_call_wait_for_each_other() {
        let call = UpdateCall { client: 0, sequence: 2, number: 3, is_repeat: true };
        let mut driven = Driven::new(encode_call(call.sequence, call.number, true), &[(Op::Put, 0, 0, 3 * STAGE)]);
        for at in 0..3 {
            assert_eq!(driven.go(), [(0, at * STAGE)]);
            assert!(driven.answer().is_none());
            driven.applied(Ok(Vec::new()));
        }
        assert_eq!(driven.answer(), Some(Reply::Done));
    }
}
