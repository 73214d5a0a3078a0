//! What a mailbox knows of messages that come: which have come, who waits for which, and who may still send.

use super::failure::{Failure, Outcome};
use super::message::{ArrivedBody, Landed, Message, MessageHead};
use super::peers::{ENDED, LOOK, Parties};
use super::sending::Outbox;
use crate::client::own_region::OwnRegion;
use crate::client::queue::Unread;
use hanare_protocol::limits::{MESSAGE_KEPT_COUNT_MAX, MESSAGE_NAP_MS};
use hanare_protocol::message::note::{FRONT_LEN, Front};
use hanare_protocol::message::{Envelope, Matching, PostId, Wanted};
use hanare_protocol::{Error, Result};
use hanare_ring::wait::Backoff;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// A receive that was posted, by its number at its mailbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReceiveId(pub u64);

/// What a mailbox knows.
pub(super) struct MailboxState {
    pub outbox: Outbox,
    pub peers: Parties,
    pub landing: OwnRegion,
    pub matching: Matching<Content>,
    /// Receives that have their messages.
    pub done: BTreeMap<ReceiveId, Message>,
    /// Receives that wait, by their numbers.
    pub waiting: BTreeMap<ReceiveId, PostId>,
    pub next: u64,
    /// Who writes each lane, of those that wrote.
    pub writers: Vec<Option<u32>>,
    pub gone: BTreeSet<u32>,
    /// Who left in good order: nothing comes from them any more.
    pub left: BTreeSet<u32>,
    /// Who is looked at next by those who wait for anybody.
    pub turn: u32,
    /// When senders were last looked at.
    pub senders_seen: Instant,
}

/// A message without its envelope.
pub(super) struct Content {
    pub head: MessageHead,
    pub body: ArrivedBody,
}

impl Message {
    pub(super) fn of(envelope: Envelope, content: Content) -> Message {
        Message { envelope, head: content.head, body: content.body }
    }
}

impl ArrivedBody {
    pub fn len(&self) -> u64 {
        match self {
            ArrivedBody::Here(bytes) => bytes.len() as u64,
            ArrivedBody::Landed(landed) => landed.len,
        }
    }
}

impl MailboxState {
    /// The first of these receives that has its message: its place among them, and the message. **Errors**: one of them is over.
    pub fn take_done(&mut self, receives: &[ReceiveId]) -> Result<Option<(usize, Message)>> {
        for (index, receive) in receives.iter().enumerate() {
            if let Some(message) = self.done.remove(receive) {
                return Ok(Some((index, message)));
            }
            if !self.waiting.contains_key(receive) {
                return Err(self.peers.bad("that receive is over: it had its message, or was taken back".to_owned()));
            }
        }
        Ok(None)
    }

    pub fn cancel(&mut self, receive: ReceiveId) -> Result<bool> {
        match self.waiting.remove(&receive) {
            Some(post) => Ok(self.matching.cancel(post)),
            None => Err(self.peers.bad("that receive is over: it had its message, or was taken back".to_owned())),
        }
    }

    /// Matches what has come, and sends on what was begun.
    pub fn take_in(&mut self) -> Outcome<()> {
        self.outbox.send_on_all(&mut self.peers, false);
        while !self.is_full() {
            match self.peers.inbox.try_see() {
                Ok(Some(unread)) => self.sort(unread)?,
                Ok(None) => return Ok(()),
                Err(error) => self.lane_failed(error)?,
            }
        }
        Ok(())
    }

    /// Whether so many messages are kept that further ones stay in their lanes.
    pub fn is_full(&self) -> bool {
        self.matching.kept_count() >= MESSAGE_KEPT_COUNT_MAX
    }

    /// Waits for something to come, or looks whether a sender is there.
    pub fn wait_for_some(&mut self, bound: Duration, receives: &[ReceiveId]) -> Outcome<()> {
        // Nobody wakes this thread when a body of its own has come to its receiver.
        let nap = if self.outbox.is_sending() { bound.min(Duration::from_millis(MESSAGE_NAP_MS)) } else { bound };
        match self.peers.inbox.see(nap) {
            Ok(unread) => self.sort(unread),
            Err(Error::NotInTime { .. }) if nap < bound && self.senders_seen.elapsed() < LOOK => Ok(()),
            Err(Error::NotInTime { .. }) => {
                self.senders_seen = Instant::now();
                // Who is waited for may wait for a message that was lost with a connection.
                self.outbox.settle(&mut self.peers);
                self.look_at_senders(receives)
            }
            Err(error) => self.lane_failed(error),
        }
    }

    /// Who is gone is remembered: those who wait for it are told, when all that it sent has come.
    fn lane_failed(&mut self, error: Error) -> Outcome<()> {
        let Error::WriterGone { lane, .. } = error else { return Err(Failure::from(error)) };
        self.gone.extend(self.writers.get(lane as usize).copied().flatten());
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

    /// One at a time of those who may be the sender of anything.
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
            // What it sent before it went counts.
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

    /// A message that comes within a few pauses, where none is kept and no other receive waits: nothing is noted for it.
    pub fn take_at_once(&mut self, want: &Wanted) -> Outcome<Option<Message>> {
        if !self.waiting.is_empty() || self.matching.kept_count() > 0 || self.outbox.is_sending() {
            return Ok(None);
        }
        let mut backoff = Backoff::new();
        while !self.is_full() {
            match self.peers.inbox.try_see() {
                Ok(Some(unread)) => {
                    let (envelope, content) = self.take(unread)?;
                    if want.fits(&envelope) {
                        return Ok(Some(Message::of(envelope, content)));
                    }
                    // It fits nobody: what came before does not either.
                    self.arrive(envelope, content);
                }
                Ok(None) if backoff.pause() => {}
                Ok(None) => break,
                Err(error) => {
                    self.lane_failed(error)?;
                    break;
                }
            }
        }
        Ok(None)
    }

    fn sort(&mut self, unread: Unread) -> Outcome<()> {
        let (envelope, content) = self.take(unread)?;
        self.arrive(envelope, content);
        Ok(())
    }

    /// Reads a note, and frees its place.
    fn take(&mut self, unread: Unread) -> Outcome<(Envelope, Content)> {
        let mut bytes = [0; FRONT_LEN];
        let is_long = unread.len() >= FRONT_LEN;
        if is_long {
            self.peers.inbox.read(&unread, 0, &mut bytes);
        }
        let landing_len = self.landing.region.len();
        let front = if is_long { Front::decode(&bytes, unread.len(), self.peers.count(), landing_len) } else { Err("too short") };
        let Ok(front) = front else {
            self.peers.inbox.free(&unread)?;
            let reason = format!("a program wrote into the region '{}' what is no message", self.peers.own_name());
            return Err(Failure::unlike(reason));
        };
        let inbox = &mut self.peers.inbox;
        let head = MessageHead::new(front.head_len, |bytes| inbox.read(&unread, FRONT_LEN, bytes));
        // One without a body takes no memory.
        let mut short = vec![0; if front.landed.is_none() { front.body_len as usize } else { 0 }];
        inbox.read(&unread, FRONT_LEN + front.head_len, &mut short);
        inbox.free(&unread)?;
        self.writers[unread.lane() as usize] = Some(front.envelope.from);
        let body = match front.landed {
            None => ArrivedBody::Here(short),
            Some(offset) => ArrivedBody::Landed(Landed { landing: self.landing.region.clone(), offset, len: front.body_len }),
        };
        Ok((front.envelope, Content { head, body }))
    }

    /// Gives a message to the receive that gets it, or keeps it.
    fn arrive(&mut self, envelope: Envelope, content: Content) {
        if let Some((post, content)) = self.matching.on_arrival(envelope, content) {
            let receive = self.waiting.iter().find(|(_, waits)| **waits == post).map(|(receive, _)| *receive);
            let receive = receive.expect("a posted receive waits");
            self.waiting.remove(&receive);
            self.done.insert(receive, Message::of(envelope, content));
        }
    }
}
