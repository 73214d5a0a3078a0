//! A mailbox's state: messages that have come, receives that wait, and parties that may still send.

use super::failure::{Failure, Outcome};
use super::fetching::{FetchId, Fetches};
use super::message::{ArrivedBody, Message, MessageHead};
use super::peers::{ENDED, LOOK, Parties};
use super::receive_memory::{OwnReceiveMemory, ReceiveMemory};
use super::sending::Outbox;
use crate::client::queue::Unread;
use hanare_protocol::limits::{MESSAGE_KEPT_COUNT_MAX, MESSAGE_NAP_MS};
use hanare_protocol::message::header::{BodyLocation, Front, SHORTEST_LEN};
use hanare_protocol::message::part::{BodyPart, decode_outcome};
use hanare_protocol::message::{Envelope, Matching, PostId, Wanted};
use hanare_protocol::{Error, Result};
use hanare_ring::wait::{Backoff, Step};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// A receive that was posted, by its number at its mailbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReceiveId(pub u64);

/// First sleep of a wait while something of its party is on its way.
pub(super) const SHORTEST_NAP: Duration = Duration::from_micros(50);

/// Contents of a full mailbox, as an error names them.
pub(super) const UNRECEIVED: &str = "messages that have come and that nobody receives";

/// State of a mailbox.
pub(super) struct MailboxState {
    pub outbox: Outbox,
    /// Before the receive memory, into which bodies may still move.
    pub fetches: Fetches,
    pub peers: Parties,
    pub receive_memory: ReceiveMemory,
    /// The receive memory goes with the mailbox.
    pub _own: OwnReceiveMemory,
    pub matching: Matching<Content>,
    /// Receives that have their messages, whose bodies may still be on their way.
    pub done: BTreeMap<ReceiveId, (Envelope, Content)>,
    /// Receives that wait, by their numbers.
    pub waiting: BTreeMap<ReceiveId, PostId>,
    pub next: u64,
    /// The writer of each lane that was written.
    pub writers: Vec<Option<u32>>,
    pub gone: BTreeSet<u32>,
    /// Parties that left in good order; nothing comes from them any more.
    pub left: BTreeSet<u32>,
    /// The party that waits for any sender look at next.
    pub turn: u32,
    /// Pace of a wait while something of this party is on its way, and its next sleep.
    pub pace: Backoff,
    pub next_nap: Duration,
    /// When senders were last looked at.
    pub senders_seen: Instant,
    /// When those who fetch from this party were.
    pub borrowers_seen: Instant,
}

/// A message as its header says, for a receive to take or to be kept.
pub(super) struct Arrival {
    pub envelope: Envelope,
    pub content: Content,
}

impl Arrival {
    /// The place for one.
    pub const NONE: Arrival = Arrival {
        envelope: Envelope { from: 0, context: 0, tag: 0 },
        content: Content { head: MessageHead::NONE, body: ComingBody::Arrived(ArrivedBody::Here(Vec::new())) },
    };
}

/// A message without its envelope.
pub(super) struct Content {
    pub head: MessageHead,
    pub body: ComingBody,
}

/// The body of a message whose head is here.
pub(super) enum ComingBody {
    Arrived(ArrivedBody),
    Fetched { id: FetchId, len: u64 },
}

impl ComingBody {
    pub fn len(&self) -> u64 {
        match self {
            ComingBody::Arrived(ArrivedBody::Here(bytes)) => bytes.len() as u64,
            ComingBody::Arrived(ArrivedBody::Received(received)) => received.len,
            ComingBody::Fetched { len, .. } => *len,
        }
    }
}

impl MailboxState {
    /// The first of these receives that has its message: its place among them, and the message. **Errors**: one of them is over, or is now
    /// because its message's body could not be fetched.
    pub fn take_done(&mut self, receives: &[ReceiveId]) -> Result<Option<(usize, Message)>> {
        for (index, receive) in receives.iter().enumerate() {
            if !self.done.contains_key(receive) && !self.waiting.contains_key(receive) {
                return Err(self.is_over());
            }
            if let Some(message) = self.take_whole(*receive)? {
                return Ok(Some((index, message)));
            }
        }
        Ok(None)
    }

    fn is_over(&self) -> Error {
        self.peers.bad("that receive is over: it had its message, or was taken back".to_owned())
    }

    /// The message of a receive, if all of it is here.
    fn take_whole(&mut self, receive: ReceiveId) -> Result<Option<Message>> {
        let body = match self.done.get(&receive) {
            None => return Ok(None),
            Some((_, Content { body: ComingBody::Arrived(_), .. })) => None,
            Some((_, Content { body: ComingBody::Fetched { id, .. }, .. })) => {
                let fetched = self.fetches.take(*id);
                self.tell_senders();
                let Some(fetched) = fetched else { return Ok(None) };
                Some(fetched)
            }
        };
        let (envelope, Content { head, body: came }) = self.done.remove(&receive).expect("it was just seen");
        let body = match (body, came) {
            (Some(fetched), _) => fetched?,
            (None, ComingBody::Arrived(body)) => body,
            (None, ComingBody::Fetched { .. }) => unreachable!("it was just taken"),
        };
        Ok(Some(Message { envelope, head, body }))
    }

    /// Waits until the body of one of these receives is here whose head is. False where there is none.
    pub fn wait_for_body(&mut self, receives: &[ReceiveId]) -> bool {
        let fetched = |receive| match self.done.get(receive) {
            Some((_, Content { body: ComingBody::Fetched { id, .. }, .. })) => Some(*id),
            _ => None,
        };
        let found = receives.iter().find_map(fetched);
        if let Some(id) = found {
            self.fetches.finish(id);
        }
        found.is_some()
    }

    /// Takes a receive back; gives its message where its head has come.
    pub fn take_back(&mut self, receive: ReceiveId) -> Result<Option<Message>> {
        self.wait_for_body(&[receive]);
        match self.take_whole(receive)? {
            Some(message) => Ok(Some(message)),
            None => self.cancel(receive).map(|_| None),
        }
    }

    /// Goes on with what is fetched, and tells those who have lent it.
    fn fetch_on(&mut self) {
        self.fetches.advance();
        self.tell_senders();
    }

    fn tell_senders(&mut self) {
        for news in self.fetches.take_news() {
            self.outbox.tell_fetched(&mut self.peers, &news);
        }
    }

    /// Waits until all that was lent has been fetched, or cannot be.
    pub fn wait_for_borrowers(&mut self) -> Outcome<()> {
        loop {
            self.hear_borrowers()?;
            if !self.outbox.has_leased() {
                return Ok(());
            }
            self.wait_for_borrower(LOOK)?;
        }
    }

    /// Waits for one of them to say something, for a while.
    pub fn wait_for_borrower(&mut self, bound: Duration) -> Outcome<()> {
        if self.is_full() {
            return Err(Failure::from(Error::LimitReached { what: UNRECEIVED.to_owned(), limit: MESSAGE_KEPT_COUNT_MAX as u64 }));
        }
        self.wait_for_some(bound, &[])
    }

    /// Notes what those say who fetch from this party, and who of them is gone.
    pub fn hear_borrowers(&mut self) -> Outcome<()> {
        if !self.outbox.has_leased() {
            return Ok(());
        }
        self.take_in()?;
        if self.borrowers_seen.elapsed() >= LOOK {
            self.borrowers_seen = Instant::now();
            self.outbox.look_at_borrowers(&mut self.peers);
        }
        Ok(())
    }

    pub fn cancel(&mut self, receive: ReceiveId) -> Result<bool> {
        match self.waiting.remove(&receive) {
            Some(post) => Ok(self.matching.cancel(post)),
            None => Err(self.is_over()),
        }
    }

    /// Matches what has come, and sends on what was begun.
    pub fn take_in(&mut self) -> Outcome<()> {
        self.outbox.send_on_all(&mut self.peers, false);
        while !self.is_full() {
            match self.peers.inbox.reader.try_see() {
                Ok(Some(unread)) => {
                    self.attend();
                    self.sort(unread)?;
                }
                Ok(None) => break,
                Err(error) => self.lane_failed(error)?,
            }
        }
        self.fetch_on();
        Ok(())
    }

    /// True if so many messages are kept that further ones stay in their lanes.
    pub fn is_full(&self) -> bool {
        self.matching.kept_count() >= MESSAGE_KEPT_COUNT_MAX
    }

    /// Waits for something to come, or looks whether a sender is there.
    pub fn wait_for_some(&mut self, bound: Duration, receives: &[ReceiveId]) -> Outcome<()> {
        if self.outbox.is_sending() || self.fetches.are_moving() {
            self.nap(bound);
            return if self.senders_seen.elapsed() < LOOK { Ok(()) } else { self.look_around(receives) };
        }
        match self.peers.inbox.reader.see(Some(bound)) {
            Ok(unread) => self.sort(unread),
            Err(Error::NotInTime { .. }) => self.look_around(receives),
            Err(error) => self.lane_failed(error),
        }
    }

    /// Passes a little time while something of this party is on its way. Nobody wakes this thread for that at its queue, nor for messages
    /// of its queue at its connections. If others want its processor, it sleeps at a connection, for longer each time.
    pub fn nap(&mut self, bound: Duration) {
        if self.pace.step_after(true) == Step::Again {
            return;
        }
        let nap = self.next_nap.min(bound);
        self.next_nap = (2 * self.next_nap).min(Duration::from_millis(MESSAGE_NAP_MS));
        if self.outbox.is_sending() {
            self.outbox.nap(&mut self.peers, nap);
        } else {
            self.fetches.nap(nap);
        }
    }

    /// A wait begins, or something has come.
    pub fn attend(&mut self) {
        self.pace.reset();
        self.next_nap = SHORTEST_NAP;
    }

    fn look_around(&mut self, receives: &[ReceiveId]) -> Outcome<()> {
        self.senders_seen = Instant::now();
        // A party that is waited for may wait for a message that was lost with a connection.
        self.outbox.settle(&mut self.peers);
        self.look_at_senders(receives)
    }

    /// A party's connection ended. If the party ended, too, that is remembered. Those who wait for it are told when all that it sent has
    /// come.
    fn lane_failed(&mut self, error: Error) -> Outcome<()> {
        let Error::WriterGone { lane, .. } = error else { return Err(Failure::from(error)) };
        let party = self.writers.get(lane as usize).copied().flatten();
        self.gone.extend(party.filter(|party| self.peers.find(*party).is_err()));
        Ok(())
    }

    /// The senders that these receives wait for; `None` among them stands for anybody.
    fn senders(&self, receives: &[ReceiveId]) -> BTreeSet<Option<u32>> {
        let wants = receives.iter().filter_map(|receive| self.matching.want(*self.waiting.get(receive)?));
        wants.map(|want| want.from).collect()
    }

    pub fn check_senders(&self, receives: &[ReceiveId]) -> Outcome<()> {
        let gone = self.senders(receives).into_iter().find_map(|sender| match sender {
            Some(party) => self.gone.get(&party).copied(),
            None => self.gone.first().copied(),
        });
        gone.map_or(Ok(()), |party| Err(Failure::gone(party, ENDED)))
    }

    /// Looks at one of the possible senders.
    fn look_at_senders(&mut self, receives: &[ReceiveId]) -> Outcome<()> {
        for sender in self.senders(receives) {
            let party = sender.unwrap_or_else(|| {
                self.turn = (self.turn + 1) % self.peers.count();
                self.turn
            });
            if party == self.peers.me {
                continue;
            }
            let seen = self.peers.look_at(party);
            // Messages sent before it went count.
            self.take_in()?;
            let is_matched = receives.iter().any(|receive| self.done.contains_key(receive));
            match seen {
                // From anybody means from those who are there.
                Err(Failure::Gone { has_left: true, .. }) if sender.is_none() && self.any_may_send(party) => {}
                Err(failure) if !is_matched => return Err(failure),
                _ => {}
            }
        }
        Ok(())
    }

    /// A party has left. Whether another is there that may send.
    fn any_may_send(&mut self, left: u32) -> bool {
        self.left.insert(left);
        self.left.len() + 1 < self.peers.count() as usize
    }

    /// A message that comes within a few pauses, if none is kept and no other receive waits. It is noted nowhere. Returns true if there is
    /// one, in `into` then: each call would copy a result that carries it.
    pub fn take_at_once(&mut self, want: &Wanted, into: &mut Arrival) -> Outcome<bool> {
        if !self.waiting.is_empty() || self.matching.kept_count() > 0 || self.outbox.is_sending() {
            return Ok(false);
        }
        while !self.is_full() {
            match self.peers.inbox.reader.see_soon() {
                Ok(Some(unread)) => {
                    if !self.take(&unread, into)? {
                        continue;
                    }
                    if matches!(into.content.body, ComingBody::Arrived(_)) && want.fits(&into.envelope) {
                        return Ok(true);
                    }
                    // No receive matches it; messages before it do not match either.
                    self.arrive(std::mem::replace(into, Arrival::NONE));
                    if self.matching.probe(want).is_some() {
                        break;
                    }
                }
                Ok(None) => break,
                Err(error) => {
                    self.lane_failed(error)?;
                    break;
                }
            }
        }
        Ok(false)
    }

    fn sort(&mut self, unread: Unread) -> Outcome<()> {
        let mut arrival = Arrival::NONE;
        if self.take(&unread, &mut arrival)? {
            self.arrive(arrival);
        }
        Ok(())
    }

    /// Reads a header, and frees its place. False where it is no message, but an answer.
    fn take(&mut self, unread: &Unread, into: &mut Arrival) -> Outcome<bool> {
        let Arrival { envelope, content: Content { head, body } } = into;
        let (room, count, sender) = (self.receive_memory.room(), self.peers.count(), self.writers[unread.lane() as usize]);
        let inbox = &mut self.peers.inbox.reader;
        let front = if unread.len() >= SHORTEST_LEN {
            let line = head.fill(|line| inbox.read(unread, 0, line));
            Front::decode(line, unread.len(), (sender, count), room)
        } else {
            Err("too short")
        };
        let Ok((front, head_at)) = front else {
            inbox.free(unread)?;
            return Err(self.no_message());
        };
        head.cut(head_at, front.head_len, |bytes| inbox.read(unread, head_at, bytes));
        let mut behind = Vec::new();
        if front.behind_len() > 0 {
            behind.resize(front.behind_len(), 0);
            inbox.read(unread, head_at + front.head_len, &mut behind);
        }
        inbox.free(unread)?;
        let Front { body_len, body: place, .. } = front;
        *envelope = front.envelope;
        self.writers[unread.lane() as usize] = Some(envelope.from);
        *body = match place {
            BodyLocation::Here => ComingBody::Arrived(ArrivedBody::Here(behind)),
            BodyLocation::Heap(offset) => {
                ComingBody::Arrived(ArrivedBody::Received(self.receive_memory.in_heap(offset, body_len)))
            }
            BodyLocation::Ring(place) => {
                ComingBody::Arrived(ArrivedBody::Received(self.receive_memory.in_receive_ring(envelope.from, place, body_len)))
            }
            BodyLocation::Part(_) => {
                let part = BodyPart::decode(&behind).map_err(|_| self.no_message())?;
                ComingBody::Fetched { id: self.fetches.add(envelope.from, part, body_len), len: body_len }
            }
            BodyLocation::Fetched(_) => {
                let outcome = decode_outcome(&behind).map_err(|_| self.no_message())?;
                self.outbox.on_fetched(envelope.from, body_len, outcome);
                return Ok(false);
            }
        };
        Ok(true)
    }

    fn no_message(&self) -> Failure {
        Failure::unlike(format!("a program wrote into the region '{}' what is no message", self.peers.own_name()))
    }

    /// Gives a message to the receive that gets it, or keeps it.
    fn arrive(&mut self, Arrival { envelope, content }: Arrival) {
        if let Some((post, content)) = self.matching.on_arrival(envelope, content) {
            let receive = self.waiting.iter().find(|(_, waits)| **waits == post).map(|(receive, _)| *receive);
            let receive = receive.expect("a posted receive waits");
            self.waiting.remove(&receive);
            self.done.insert(receive, (envelope, content));
        }
    }
}
