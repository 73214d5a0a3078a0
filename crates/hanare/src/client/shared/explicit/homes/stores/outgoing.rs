//! The parts of a release, filled and sent. Several are on their way at once, so a home works on one while the next is filled.
//!
//! Parts come to the home in their order, and the home takes none without those before it. So the answer to the last one stands for all. A part
//! that was not answered is kept: the next home gets it again.

use super::super::super::answer::{Why, expect_stored};
use super::super::{Failed, HomeWire, Target};
use crate::client::shared::endpoint::Broken;
use crate::client::shared::fault_contexts::Renewals;
use hanare_protocol::Error;
use hanare_protocol::copies::{Once, UpdateCall};
use hanare_protocol::error::Happened;
use hanare_protocol::limits::{
    CALL_NUMBER_MAX, PENDING_LEN_MAX, PENDING_PART_LEN, STORE_PART_LEN_MAX, STORE_PARTS_AT_ONCE, WRITE_RANGE_COUNT_MAX,
};
use hanare_protocol::wire::control;
use hanare_protocol::wire::exchange::Query;
use hanare_protocol::wire::stores::StorePart;
use hanare_protocol::wire::sync::SyncRequest;
use std::collections::VecDeque;

/// Bytes of memory of a range.
pub(super) const RANGE_LEN: u64 = size_of::<(u64, u64)>() as u64;

/// Reason that a release does not go on.
pub(super) enum Stopped<E> {
    /// The home has lost earlier parts.
    Gone,
    /// The home takes no such stores now.
    NotWhole,
    /// No home has it.
    Failed(E),
}

/// A part on its way.
struct SentPart {
    seq: u64,
    query: Query,
}

/// A release: the part that is filled, and what went before.
pub(super) struct Outgoing {
    filled: StorePart,
    /// Parts without an answer, oldest first.
    under_way: VecDeque<SentPart>,
    /// Room of a part that was answered.
    spare: Option<StorePart>,
    /// Bytes of memory of the parts before at the home.
    memory_len: u64,
}

impl Outgoing {
    /// A release that begins. `None` where the home does not know such stores, or the context's calls have no numbers.
    pub fn begin(wire: &mut HomeWire<'_>) -> Option<Outgoing> {
        let client = wire.renewer.client().filter(|_| wire.knows_stores() && *wire.call < CALL_NUMBER_MAX)?;
        *wire.call += 1;
        let call = UpdateCall { client, sequence: 0, number: *wire.call, is_repeat: false };
        Some(Outgoing { filled: part_of(Once { call, at: 0 }), under_way: VecDeque::new(), spare: None, memory_len: 0 })
    }

    /// True if a part of it has bytes.
    pub fn has_stores(&self) -> bool {
        !self.filled.ranges.is_empty()
    }

    /// Bytes of all parts that were sent.
    pub fn sent_len(&self) -> u64 {
        self.filled.once.at
    }

    /// True if the part that is filled has room for a run of bytes at its end.
    pub fn has_room(&self, len: usize) -> bool {
        self.filled.operand.len() + len <= STORE_PART_LEN_MAX && self.filled.ranges.len() < WRITE_RANGE_COUNT_MAX
    }

    pub fn add(&mut self, offset: u64, bytes: &[u8]) {
        let part = &mut self.filled;
        match part.ranges.last_mut().filter(|(at, len)| at + len == offset) {
            Some((_, len)) => *len += bytes.len() as u64,
            None => part.ranges.push((offset, bytes.len() as u64)),
        }
        part.operand.extend_from_slice(bytes);
    }

    /// Bytes of memory of the part at the home.
    fn part_len(&self) -> u64 {
        let part = &self.filled;
        part.operand.len() as u64 + part.ranges.len() as u64 * RANGE_LEN + PENDING_PART_LEN
    }

    /// True if the parts that wait might exceed their room with `more` bytes of memory.
    pub fn is_full(&self, more: u64) -> bool {
        self.memory_len + self.part_len() + more > PENDING_LEN_MAX
    }

    /// The part that is filled, for a home. The next one begins.
    fn take_filled(&mut self, target: &Target) -> Query {
        self.memory_len += self.part_len();
        let Once { call, at } = self.filled.once;
        let once = Once { call, at: at + self.filled.operand.len() as u64 };
        let next = self.spare.take().map_or_else(|| part_of(once), |spare| StorePart { once, is_last: false, ..spare });
        let part = std::mem::replace(&mut self.filled, next);
        Query::Sync(SyncRequest::Store { slot: target.slot(), grant: target.grant(), part })
    }

    /// A part was answered: it is on its way no more.
    fn answered(&mut self, seq: u64) {
        let at = self.under_way.iter().position(|part| part.seq == seq);
        let part = at.and_then(|at| self.under_way.remove(at));
        if let Some(SentPart { query: Query::Sync(SyncRequest::Store { mut part, .. }), .. }) = part {
            part.ranges.clear();
            part.operand.clear();
            self.spare = Some(part);
        }
    }
}

/// A part without bytes.
fn part_of(once: Once) -> StorePart {
    StorePart { once, is_last: false, ranges: Vec::new(), operand: Vec::new() }
}

/// Has a part go to the home of today, where it may be already.
fn retarget(query: &mut Query, target: &Target) {
    if let Query::Sync(SyncRequest::Store { slot, grant, part }) = query {
        (*slot, *grant, part.once.call.is_repeat) = (target.slot(), target.grant(), true);
    }
}

impl HomeWire<'_> {
    fn knows_stores(&self) -> bool {
        self.endpoints[self.home].spoken() >= SyncRequest::STORES_SINCE
    }

    /// Sends the part that is filled. Waits for an earlier one where as many are on their way as a home takes.
    pub(super) fn post<E: From<Failed>>(&mut self, target: &Target, release: &mut Outgoing) -> Result<(), Stopped<E>> {
        while release.under_way.len() >= STORE_PARTS_AT_ONCE {
            self.take_answer(target, release)?;
        }
        let query = release.take_filled(target);
        let sent = self.send(&query);
        release.under_way.push_back(SentPart { seq: *self.seq, query });
        sent.or_else(|why| self.send_again(target, release, Why::Broken(why)))
    }

    /// Sends the last part. [`HomeWire::settle`] waits for its answer.
    pub(super) fn post_last<E: From<Failed>>(&mut self, target: &Target, release: &mut Outgoing) -> Result<(), Stopped<E>> {
        release.filled.is_last = true;
        self.post(target, release)
    }

    /// Waits until all parts are answered.
    pub(super) fn settle<E: From<Failed>>(&mut self, target: &Target, release: &mut Outgoing) -> Result<(), Stopped<E>> {
        while !release.under_way.is_empty() {
            self.take_answer(target, release)?;
        }
        Ok(())
    }

    /// Ends a release that is not finished: its home forgets the parts with the connection.
    pub(super) fn abandon(&self, release: &Outgoing) {
        if release.sent_len() > 0 {
            self.endpoints[self.home].give_up(Broken::Closed);
        }
    }

    fn send(&mut self, query: &Query) -> Result<(), Broken> {
        *self.seq += 1;
        let (head, body) = query.encode(*self.seq);
        self.endpoints[self.home].send(&[&head.encode(), &body])
    }

    /// Takes the answer to a part.
    fn take_answer<E: From<Failed>>(&mut self, target: &Target, release: &mut Outgoing) -> Result<(), Stopped<E>> {
        let (seq, outcome) = match self.receive(release) {
            Ok(answer) => answer,
            Err(broken) => return self.send_again(target, release, Why::Broken(broken)),
        };
        let Err(len) = outcome else {
            release.answered(seq);
            return Ok(());
        };
        let why = Why::Refused(len);
        let Some(stopped) = refusal(why, self.reason) else { return self.send_again(target, release, why) };
        release.answered(seq);
        // The connection is used on, so no answer may be left on it. A home that breaks meanwhile is found broken later.
        while !release.under_way.is_empty()
            && let Ok((seq, _)) = self.receive(release)
        {
            release.answered(seq);
        }
        Err(stopped)
    }

    /// Receives the answer to a part: its number, and the length of the reason where it is refused.
    fn receive(&mut self, release: &Outgoing) -> Result<(u64, Result<(), usize>), Broken> {
        let is_expected = |seq| release.under_way.iter().any(|part| part.seq == seq);
        expect_stored(&self.endpoints[self.home], is_expected, self.reason)
    }

    /// Sends all parts again that were not answered, to the home of today or the next one. Each waits for the one before.
    #[cold]
    fn send_again<E: From<Failed>>(&mut self, target: &Target, release: &mut Outgoing, why: Why) -> Result<(), Stopped<E>> {
        let mut trouble = Some(why);
        while let Some(part) = release.under_way.front_mut() {
            let mut renewals = Renewals::default();
            loop {
                if let Some(why) = trouble.take() {
                    self.renew(&mut renewals, why)?;
                }
                retarget(&mut part.query, target);
                match self.exchange(&part.query) {
                    Ok(()) => break,
                    Err(why) => trouble = Some(why),
                }
            }
            let seq = part.seq;
            release.answered(seq);
        }
        Ok(())
    }

    /// Makes another connection to the home of today, if a part may be sent again.
    fn renew<E: From<Failed>>(&mut self, renewals: &mut Renewals, why: Why) -> Result<(), Stopped<E>> {
        if let Some(stopped) = refusal(why, self.reason) {
            return Err(stopped);
        }
        if !self.renewer.renew_again(self.endpoints, renewals, self.home, why.broken()) {
            // Answers may be left on it.
            self.endpoints[self.home].give_up(Broken::Closed);
            return Err(Stopped::Failed(Failed { home: self.home, why }.into()));
        }
        if self.knows_stores() { Ok(()) } else { Err(Stopped::NotWhole) }
    }

    /// Sends a part, and waits for its answer.
    fn exchange(&mut self, query: &Query) -> Result<(), Why> {
        self.send(query).map_err(Why::Broken)?;
        let seq = *self.seq;
        let answer = expect_stored(&self.endpoints[self.home], |of| of == seq, self.reason);
        answer.map_err(Why::Broken)?.1.map_err(Why::Refused)
    }
}

/// The reason of a home that refuses a part for good. All other refusals are those of a home that is none any more.
fn refusal<E>(why: Why, reason: &[u8]) -> Option<Stopped<E>> {
    let Why::Refused(len) = why else { return None };
    match control::decode::<Error>(&reason[..len]).ok()? {
        Error::Broken { happened: Happened::No, .. } => Some(Stopped::Gone),
        Error::LimitReached { .. } | Error::TooOld { .. } | Error::BadUse { .. } => Some(Stopped::NotWhole),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::shared::endpoint::Endpoint;
    use crate::client::shared::endpoint::tests::pair;
    use crate::client::shared::fault_contexts::Renewer;
    use hanare_protocol::id::{Grant, NodeId, Slot};
    use hanare_protocol::placement::Extent;
    use hanare_protocol::wire::exchange::Reply;
    use hanare_protocol::wire::head::{HEAD_LEN, Head};
    use hanare_protocol::wire::sync::SyncAnswer;
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::thread;
    use std::time::Duration;

    /// Time after which a home is given up that a broken client makes wait.
    const BOUND: Duration = Duration::from_secs(20);

    /// Bytes of a part.
    const LEN: u64 = 100;

    fn target() -> Target {
        Target::new(0, &Extent { node: NodeId(7), slot: Slot(3), len: 1 << 20 }, Grant([9; 16]))
    }

    fn release() -> Outgoing {
        let call = UpdateCall { client: 5, sequence: 0, number: 1, is_repeat: false };
        Outgoing { filled: part_of(Once { call, at: 0 }), under_way: VecDeque::new(), spare: None, memory_len: 0 }
    }

    /// Runs a client with a connection to a home.
    fn with_home<T>(client: impl FnOnce(&mut HomeWire<'_>) -> T, home: impl FnOnce(&mut TcpStream) + Send) -> T {
        let (endpoint, mut stream) = pair(BOUND);
        let mut endpoints = [endpoint];
        thread::scope(|scope| {
            scope.spawn(move || home(&mut stream));
            let (renewer, mut reason, mut seq, mut call) = (Renewer(None), vec![0; 1000], 40, 1);
            let endpoints: &mut [Endpoint] = &mut endpoints;
            client(&mut HomeWire { home: 0, endpoints, renewer: &renewer, reason: &mut reason, seq: &mut seq, call: &mut call })
        })
    }

    fn post_all(wire: &mut HomeWire<'_>, release: &mut Outgoing, parts: u64) -> Result<(), Stopped<Failed>> {
        for part in 0..parts {
            release.add(part * 1000, &[part as u8; LEN as usize]);
            if part + 1 == parts {
                wire.post_last(&target(), release)?
            } else {
                wire.post(&target(), release)?
            }
            assert!(release.under_way.len() <= STORE_PARTS_AT_ONCE);
        }
        wire.settle(&target(), release)
    }

    fn take(stream: &mut TcpStream) -> (u64, StorePart) {
        let mut head = [0; HEAD_LEN];
        stream.read_exact(&mut head).unwrap();
        let head = Head::decode(&head).unwrap();
        let mut body = vec![0; head.body_len as usize];
        stream.read_exact(&mut body).unwrap();
        match Query::decode(&head, &body).unwrap() {
            Query::Sync(SyncRequest::Store { slot: Slot(3), part, .. }) => (head.seq, part),
            other => panic!("{other:?}"),
        }
    }

    fn answer(stream: &mut TcpStream, seq: u64, outcome: Result<(), Error>) {
        let reply = outcome.map_or_else(Reply::Refused, |()| Reply::Synced(SyncAnswer::Done));
        let (head, body) = reply.encode(seq);
        stream.write_all(&[&head.encode()[..], &body].concat()).unwrap();
    }

    #[test]
    fn parts_go_before_the_answers_to_others_which_come_in_any_order() {
        const COUNT: u64 = 2 * STORE_PARTS_AT_ONCE as u64 + 3;
        let home = |stream: &mut TcpStream| {
            let mut left = COUNT;
            while left > 0 {
                let some = left.min(STORE_PARTS_AT_ONCE as u64);
                let taken: Vec<_> = (0..some).map(|_| take(stream)).collect();
                for (index, (_, part)) in (COUNT - left..).zip(&taken) {
                    assert_eq!((part.once.at, part.is_last), (index * LEN, index + 1 == COUNT));
                    assert_eq!((&part.ranges[..], part.operand[7]), (&[(index * 1000, LEN)][..], index as u8));
                }
                taken.iter().rev().for_each(|(seq, _)| answer(stream, *seq, Ok(())));
                left -= some;
            }
        };
        let sent = with_home(
            |wire| {
                let mut release = release();
                assert!(post_all(wire, &mut release, COUNT).is_ok());
                release.sent_len()
            },
            home,
        );
        assert_eq!(sent, COUNT * LEN);
    }

    #[test]
    fn a_refused_part_ends_the_release_and_leaves_no_answer_on_the_connection() {
        let full = || Error::LimitReached { what: "bytes".to_owned(), limit: 1 };
        let gone =
            || Error::Broken { node: NodeId(7), what: "a release".to_owned(), reason: "gone".to_owned(), happened: Happened::No };
        let home = |stream: &mut TcpStream| {
            let taken: Vec<u64> = (0..5).map(|_| take(stream).0).collect();
            // A refusal needs no copy, and overtakes the answer to a part before it.
            for (part, outcome) in [(0, Ok(())), (2, Err(full())), (1, Ok(())), (3, Err(gone())), (4, Err(gone()))] {
                answer(stream, taken[part], outcome);
            }
            let (seq, part) = take(stream);
            assert_eq!(part.once.at, 0);
            answer(stream, seq, Ok(()));
        };
        with_home(
            |wire| {
                let stopped = post_all(wire, &mut release(), 5);
                assert!(matches!(stopped, Err(Stopped::NotWhole)));
                assert!(post_all(wire, &mut release(), 1).is_ok(), "the connection serves on");
            },
            home,
        );
    }

    #[test]
    fn a_release_that_is_abandoned_ends_its_connection() {
        let home = |stream: &mut TcpStream| {
            take(stream);
            assert_eq!(stream.read(&mut [0; 1]).unwrap(), 0);
        };
        with_home(
            |wire| {
                let mut release = release();
                wire.abandon(&release);
                assert!(!wire.endpoints[0].is_ended(), "nothing was sent");
                release.add(0, &[1; 8]);
                assert!(wire.post::<Failed>(&target(), &mut release).is_ok());
                wire.abandon(&release);
            },
            home,
        );
    }
}
