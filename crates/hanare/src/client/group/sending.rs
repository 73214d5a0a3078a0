//! The sending side of a mailbox: messages that are sent at once, and messages that are begun and waited for later.
//!
//! ```text
//! send ──> its body moves ──> its head follows        bytes go in one message with the head, where the receiver is on another host
//! start_send ──> [`super::begun`] ──> over: wait_sent and its kin tell what came of it
//! ```
//!
//! Heads for one party follow the order of their sends, so a short message does not pass a long one. A blocking send waits for those
//! before it. Every call to the mailbox sends on the messages that may go.

use super::failure::{Failure, Outcome};
use super::fetching::FetchNews;
use super::peers::{LOOK, Parties};
use super::receive_memory::PeerReceiveMemories;
use super::sends::{Body, SendId, Sending, short_part};
use crate::client::queue::WritePort;
use crate::client::region::Region;
use hanare_protocol::error::Happened;
use hanare_protocol::limits::{MESSAGE_BEGUN_COUNT_MAX, MESSAGE_INLINE_LEN_MAX};
use hanare_protocol::message::Envelope;
use hanare_protocol::message::header::{BodyLocation, FRONT_LEN, Front};
use hanare_protocol::message::part::{BodyPart, encode_outcome};
use hanare_protocol::shape::Shape;
use hanare_protocol::{Error, Result};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Instant;

/// The sending half of a party.
pub(super) struct Outbox {
    pub(super) peer_memories: PeerReceiveMemories,
    /// When each party was last seen to read its messages.
    looked: Vec<Option<Instant>>,
    /// To whom messages did not come that were on their way, and why: told once.
    failed: BTreeMap<u32, Failure>,
    /// Unfinished sends for each party, in their order.
    pub(super) under_way: BTreeMap<u32, VecDeque<Sending>>,
    /// Outcomes that nobody has asked for.
    pub(super) over: BTreeMap<SendId, Outcome<()>>,
    pub(super) next: u64,
    /// True if receivers fetch parts of regions.
    lends: bool,
    /// Parts that receivers have not fetched: the party, the part's number, and the send where it was begun.
    pub(super) lent: BTreeMap<(u32, u64), Option<SendId>>,
    next_part: u64,
    /// True for each party of this host that has had a header with its sender, and so knows this one by its lane. Then a head alone goes
    /// there in one line, by one store. FEATURE: D3-F3
    is_known: Vec<bool>,
}

impl Outbox {
    /// For a party among `count`; receivers fetch parts of regions where it `lends` them.
    pub fn new(count: u32, peer_memories: PeerReceiveMemories, lends: bool) -> Outbox {
        let looked = vec![None; count as usize];
        let (failed, under_way, over, lent) = Default::default();
        let is_known = vec![false; count as usize];
        Outbox { peer_memories, looked, failed, under_way, over, next: 0, lends, lent, next_part: 0, is_known }
    }

    /// True if a begun send is under way.
    pub fn is_sending(&self) -> bool {
        !self.under_way.is_empty()
    }

    /// The outcome of a begun send; `None` while it is under way. Told once. **Errors**: where it was told before.
    pub fn outcome(&mut self, send: SendId) -> Result<Option<Outcome<()>>, &'static str> {
        if let Some(outcome) = self.over.remove(&send) {
            return Ok(Some(outcome));
        }
        let is_under_way = self.under_way.values().flatten().any(|sending| sending.id == send)
            || self.lent.values().any(|lent| *lent == Some(send));
        if is_under_way { Ok(None) } else { Err("that send is over, and its outcome was told") }
    }

    /// Sends at once, behind all that was begun for that party. The header is on its way when this returns.
    pub fn send(&mut self, peers: &mut Parties, to: u32, front: Front, head: &[u8], body: &Body<'_>) -> Outcome<()> {
        if self.is_sending() {
            self.send_on(peers, to, true);
        }
        if let Some(failure) = self.failed.remove(&to) {
            return Err(failure);
        }
        let start = WritePort::commit_started;
        match body {
            Body::Bytes(bytes) if bytes.len() <= MESSAGE_INLINE_LEN_MAX => {
                self.send_header(peers, to, (&front, head, bytes), start)
            }
            Body::Part(region, shape) if front.body_len <= MESSAGE_INLINE_LEN_MAX as u64 => {
                let bytes = short_part(region, shape, front.body_len)?;
                self.send_header(peers, to, (&front, head, &bytes), start)
            }
            body => {
                if let Body::Part(region, shape) = body
                    && let Some((number, part)) = self.lend(region, shape)?
                {
                    let front = Front { body: BodyLocation::Part(part.len()), ..front };
                    self.send_header(peers, to, (&front, head, &part), start)?;
                    self.lent.insert((to, number), None);
                    return Ok(());
                }
                self.send_receive_memory(peers, to, front, head, body)
            }
        }
    }

    /// A part of a region that its receiver will fetch: its number, and the bytes behind the head that describe it. `None` if receivers do
    /// not fetch, or the part has too many indices for a header.
    pub(super) fn lend(&mut self, region: &Region, shape: &Shape<'_>) -> Outcome<Option<(u64, Vec<u8>)>> {
        if !self.lends {
            return Ok(None);
        }
        if self.lent.len() >= MESSAGE_BEGUN_COUNT_MAX {
            let what = "parts of regions that were sent and that nobody has fetched".to_owned();
            return Err(Failure::from(Error::LimitReached { what, limit: MESSAGE_BEGUN_COUNT_MAX as u64 }));
        }
        let number = self.next_part;
        let part = BodyPart::new(number, region.gid(), shape).encode();
        self.next_part += u64::from(part.is_some());
        Ok(part.map(|part| (number, part)))
    }

    /// True if receivers have yet to fetch parts.
    pub fn has_leased(&self) -> bool {
        !self.lent.is_empty()
    }

    /// A receiver has fetched a part, or cannot. What nobody waits for is told by the next send to that party.
    pub fn on_fetched(&mut self, from: u32, number: u64, outcome: Result<()>) {
        let outcome = outcome.map_err(Failure::from);
        match (self.lent.remove(&(from, number)), outcome) {
            (Some(Some(send)), outcome) => {
                self.over.insert(send, outcome);
            }
            (Some(None), Err(failure)) => {
                self.failed.insert(from, failure);
            }
            (Some(None), Ok(())) | (None, _) => {}
        }
    }

    /// Finds out who is gone of those who have something to fetch.
    pub fn look_at_borrowers(&mut self, peers: &mut Parties) {
        let borrowers: BTreeSet<u32> = self.lent.keys().map(|(to, _)| *to).collect();
        for to in borrowers {
            if let Err(failure) = peers.look_at(to) {
                let lost: Vec<u64> = self.lent.range((to, 0)..=(to, u64::MAX)).map(|((_, number), _)| *number).collect();
                for send in lost.into_iter().filter_map(|number| self.lent.remove(&(to, number))) {
                    match send {
                        Some(send) => {
                            self.over.insert(send, Err(failure.clone()));
                        }
                        None => {
                            self.failed.insert(to, failure.clone());
                        }
                    }
                }
            }
        }
    }

    /// Tells a sender what came of a fetch. One that is gone is not told.
    pub fn tell_fetched(&mut self, peers: &mut Parties, news: &FetchNews) {
        let answer = encode_outcome(&news.outcome);
        let envelope = Envelope { from: peers.me, context: 0, tag: 0 };
        let front = Front { envelope, head_len: 0, body_len: news.number, body: BodyLocation::Fetched(answer.len()) };
        let _ = self.send_header(peers, news.to, (&front, &[], &answer), WritePort::commit_started);
    }

    /// Waits until the headers that are on their way are at their receivers' hosts. Failures are told by the next send to the party, or by
    /// [`Outbox::take_failure`].
    pub fn settle(&mut self, peers: &mut Parties) {
        let failed = peers.settle(None);
        self.note_failures(peers, failed);
    }

    /// Waits until they count there, and cannot be lost with a connection. Failures are told as by [`Outbox::settle`].
    pub fn settle_for_good(&mut self, peers: &mut Parties) {
        let failed = peers.settle_for_good();
        self.note_failures(peers, failed);
    }

    fn note_failures(&mut self, peers: &mut Parties, failed: Vec<(u32, Error)>) {
        for (to, error) in failed {
            if !self.hear(peers, to) {
                self.failed.insert(to, Failure::on_the_way(to, error));
            }
        }
    }

    /// A failure of a header that was on its way, once.
    pub fn take_failure(&mut self) -> Option<Failure> {
        self.failed.pop_first().map(|(_, failure)| failure)
    }

    /// Sends what goes to the receiver's queue. Where that did not happen, the body's block is given back; where nobody knows, the receiver may
    /// have it.
    pub(super) fn send_header(
        &mut self,
        peers: &mut Parties,
        to: u32,
        header: (&Front, &[u8], &[u8]),
        commit: impl FnOnce(&mut WritePort) -> Result<()>,
    ) -> Outcome<()> {
        let (failure, happened) = match self.fill_header(peers, to, header) {
            Ok(None) => return Ok(()),
            Ok(Some(writer)) => match commit(writer) {
                Ok(()) => {
                    // On one host it is in the lane, or in the spill. Between hosts it may be lost on its way.
                    let is_here = writer.is_here();
                    self.is_known[to as usize] = is_here;
                    return Ok(());
                }
                Err(error) => (Failure::on_the_way(to, error.clone()), writer.what_happened(&error)),
            },
            Err(failure) => (failure, Happened::No),
        };
        self.is_known[to as usize] = false;
        if happened == Happened::No {
            self.peer_memories.give_back(to, header.0.body);
        }
        Err(failure)
    }

    /// The port with the header to be committed. `None` if that was sent, in one line and without a body.
    fn fill_header<'p>(
        &mut self,
        peers: &'p mut Parties,
        to: u32,
        (front, head, body): (&Front, &[u8], &[u8]),
    ) -> Outcome<Option<&'p mut WritePort>> {
        // Earlier posts report their outcome before the port is used again.
        if self.is_sending() {
            self.hear(peers, to);
        }
        // A message to a reader that has gone would go unnoticed. On one host the queue's own memory tells.
        let is_seen = match self.looked[to as usize] {
            None => false,
            Some(looked) => peers.reads_here(to)?.unwrap_or_else(|| looked.elapsed() <= LOOK),
        };
        if !is_seen {
            peers.look_at(to)?;
            self.looked[to as usize] = Some(Instant::now());
        }
        let writer = peers.writer(to)?;
        let failed = |error| Failure::on_the_way(to, error);
        if self.is_known[to as usize]
            && let Some(line) = front.encode_short(head)
        {
            return writer.send(&line).map(|()| None).map_err(failed);
        }
        writer.claim(front.header_len(), None).map_err(failed)?;
        writer.fill(0, &front.encode());
        writer.fill(FRONT_LEN, head);
        if !body.is_empty() {
            writer.fill(FRONT_LEN + head.len(), body);
        }
        Ok(Some(writer))
    }

    /// Sends a body that lands in memory of the receiver's host, and its header behind it.
    fn send_receive_memory(&mut self, peers: &mut Parties, to: u32, front: Front, head: &[u8], body: &Body<'_>) -> Outcome<()> {
        let len = front.body_len;
        let room = self.peer_memories.take(peers, to, len)?;
        let front = Front { body: room.place, ..front };
        let bytes = match body {
            Body::Bytes(bytes) => Some(Cow::Borrowed(*bytes)),
            Body::Part(region, shape) => match room.read_part(region, shape, len) {
                Ok(bytes) => bytes.map(Cow::Owned),
                Err(failure) => {
                    self.peer_memories.give_back(to, room.place);
                    return Err(failure);
                }
            },
        };
        if let Some(bytes) = bytes.as_ref().filter(|_| room.takes_ahead) {
            return self.send_header(peers, to, (&front, head, &[]), |writer| writer.commit_behind(&room.region, room.at, bytes));
        }
        let moved = match body {
            Body::Bytes(bytes) => room.region.put(room.at, bytes).map_err(|error| Failure::on_the_way(to, error)),
            // A failure may be that of the part's node.
            Body::Part(region, shape) => {
                let target = Shape::contiguous(room.at, len);
                peers.pool().copy(region, shape.clone(), &room.region, target).map_err(Failure::from)
            }
        };
        moved.inspect_err(|_| self.peer_memories.give_back(to, room.place))?;
        self.send_header(peers, to, (&front, head, &[]), WritePort::commit_started)
    }
}
