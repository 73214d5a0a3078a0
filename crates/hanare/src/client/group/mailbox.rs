//! A party's messages with a head and a body, to and from the other parties of its group.
//!
//! Envelope and head go to the receiver's queue, in the sender's lane: on one host by a store, between hosts by one `append` without a
//! wait. Heads beyond a lane's room are spilled in order. A short body goes with its head. A longer one first lands in memory of the
//! receiver's host (`receive_memory.rs`). The sender's bytes go there by a put, bytes of a region by a copy from the node that holds them.

use super::Group;
use super::arrivals::{Arrival, ComingBody, Content, MailboxState, ReceiveId, SHORTEST_NAP, UNRECEIVED};
use super::exchange::has_left;
use super::fetching::Fetches;
use super::message::Message;
use super::peers::{LOOK, Parties};
use super::receive_memory::{OwnReceiveMemory, PeerReceiveMemories};
use super::sending::Outbox;
use super::sends::{Body, LastingBody, SendId};
use crate::client::attachment::Membership;
use crate::client::locks::milliseconds;
use hanare_protocol::limits::{
    ANSWER_MS, MESSAGE_DEPTH, MESSAGE_HEAD_LEN_MAX, MESSAGE_INLINE_LEN_MAX, MESSAGE_KEPT_COUNT_MAX, MESSAGE_NAP_MS,
};
use hanare_protocol::message::header::{BodyLocation, Front, LONGEST_LEN};
use hanare_protocol::message::{Envelope, Matching, Posted, Wanted};
use hanare_protocol::queue::layout::{Overflow, QueueForm, Unit};
use hanare_protocol::{Error, Result};
use hanare_ring::wait::Backoff;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

/// A wait of this length is for a body's command, which ends before.
const BODY: Duration = Duration::from_millis(ANSWER_MS);

/// A party's messages. Opened by all parties of a group at once. Threads of a party take turns, also while one of them waits.
///
/// A receive gets messages of one sender in the order in which they were sent. Receives that fit one message get it in the order in which
/// they were posted. A send returns when the message is on its way, received or not. Then the sender's bytes are free again. When
/// [`Mailbox::settle`] returns, the message is in memory of the receiver's host.
///
/// **Cost**: on one host two copies for a body of up to a page, without a lock, and without a system call while the receiver is awake.
/// Between hosts a message, whose reply a later call takes. A longer body goes with its head between hosts, and its reply is waited for.
/// Its place costs a message each way more, or two, where many are not dropped yet. A part that a node sends costs one more.
///
/// FEATURE: D3-F6 D3-F8
pub struct Mailbox {
    inner: Arc<JoinedMailbox>,
    /// Bytes of each party's receive memory.
    receive_len: u64,
    parties: u32,
}

/// A mailbox until it is left.
struct JoinedMailbox(Mutex<Option<MailboxState>>);

/// A mailbox that was not left, with its lock.
struct MailboxGuard<'m>(MutexGuard<'m, Option<MailboxState>>);

impl Deref for MailboxGuard<'_> {
    type Target = MailboxState;

    fn deref(&self) -> &MailboxState {
        self.0.as_ref().expect("it was there when the guard was made")
    }
}

impl DerefMut for MailboxGuard<'_> {
    fn deref_mut(&mut self) -> &mut MailboxState {
        self.0.as_mut().expect("it was there when the guard was made")
    }
}

impl Membership for JoinedMailbox {
    fn leave(&self) {
        let place = match self.0.try_lock() {
            Ok(mut place) => place.take(),
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner().take(),
            Err(TryLockError::WouldBlock) => None,
        };
        if let Some(mut state) = place {
            // A sender that wants a send's outcome waits for it.
            state.outbox.send_on_all(&mut state.peers, true);
        }
    }
}

impl Group {
    /// Opens this party's mailbox. All parties do so at once, with the same `receive_len`. So many bytes of bodies longer than a page lie
    /// there until they are dropped.
    ///
    /// **Cost**: three barriers. On this host a region of `receive_len`, one of as much at most (4 MiB for each party), and one of 64 KiB
    /// for each party. **Errors**: those of [`crate::Pool::create`] and [`Group::barrier`]. [`Error::LimitReached`] for more than 256
    /// parties. If one party cannot open its own, none does: the others have [`Error::BadGroup`], and all may open theirs again.
    pub fn mailbox(&self, receive_len: u64) -> Result<Mailbox> {
        self.mailbox_with(&MailboxOptions { receive_len, ..MailboxOptions::default() })
    }

    /// [`Group::mailbox`] with options.
    pub fn mailbox_with(&self, options: &MailboxOptions<'_>) -> Result<Mailbox> {
        let MailboxOptions { purpose, receive_len, fetch_parts } = *options;
        let unit = Unit::Records { len_max: LONGEST_LEN as u32 };
        let form = QueueForm { unit, depth: MESSAGE_DEPTH, ports: self.parties, overflow: Overflow::Spill };
        let stem = self.stem(&format!("{purpose}bodies"));
        let own = OwnReceiveMemory::new(&self.pool, &stem, self.me, receive_len.max(1), self.parties);
        let (peers, own) = Parties::open(self, &format!("{purpose}heads"), form, own, OwnReceiveMemory::rings)?;
        let receive_memory = own.memory();
        let inner = MailboxState {
            outbox: Outbox::new(self.parties, PeerReceiveMemories::new(self.parties, stem, receive_len.max(1)), fetch_parts),
            fetches: Fetches::new(&self.pool, receive_memory.clone()),
            receive_memory,
            _own: own,
            peers,
            matching: Matching::default(),
            done: BTreeMap::new(),
            waiting: BTreeMap::new(),
            next: 0,
            writers: vec![None; self.parties as usize],
            gone: BTreeSet::new(),
            left: BTreeSet::new(),
            turn: 0,
            senders_seen: Instant::now(),
            borrowers_seen: Instant::now(),
            pace: Backoff::new(),
            next_nap: SHORTEST_NAP,
        };
        let inner = Arc::new(JoinedMailbox(Mutex::new(Some(inner))));
        self.pool.shared.enter(&inner);
        Ok(Mailbox { inner, receive_len: receive_len.max(1), parties: self.parties })
    }
}

/// Options of a mailbox.
#[derive(Clone, Copy, Debug)]
pub struct MailboxOptions<'p> {
    /// A word, for groups with several mailboxes at once. Of those with one purpose, a group has one at a time.
    pub purpose: &'p str,
    /// Bytes in which bodies longer than a page land and stay until they are dropped; the same for all parties.
    pub receive_len: u64,
    /// Receivers fetch parts of regions ([`Body::Part`]) of more than a page; a send sends the head alone. The receiver begins to fetch
    /// when any call of its mailbox finds the head. Until then, and while the body moves, the part must stay as it is. [`Mailbox::settle`]
    /// and [`Mailbox::wait_sent`] wait until it was fetched. Each party may choose for its own sends.
    ///
    /// **Cost**: of a send a message; none for the body's place. An answer to the sender, which it takes in its next calls.
    ///
    /// **Source**: [D3 §2] HTP.
    pub fetch_parts: bool,
}

impl Default for MailboxOptions<'_> {
    /// 1 MiB of receive memory; bodies begin to move when they are sent.
    fn default() -> Self {
        MailboxOptions { purpose: "", receive_len: 1 << 20, fetch_parts: false }
    }
}

impl Mailbox {
    /// **Errors**: [`Error::BadUse`] where the program has left it.
    fn inner(&self) -> Result<MailboxGuard<'_>> {
        let place = self.inner.0.lock().unwrap_or_else(PoisonError::into_inner);
        if place.is_some() { Ok(MailboxGuard(place)) } else { Err(has_left("mailbox")) }
    }

    /// Sends a message to party `to`, which may be this one. Returns when it is on its way, and its bytes are free again.
    ///
    /// **Errors**: [`Error::BadGroup`] for an unknown party; [`Error::LimitReached`] for a head of more than 48 bytes, and for a body
    /// longer than the receive memory. [`Error::HeapFull`] if bodies that were not dropped fill that, [`Error::QueueFull`] if the
    /// receiver's node has no room for heads. Nothing was sent then. [`Error::RankGone`] or [`Error::PartyGone`] where the receiver is
    /// gone, then or by a message before. Those of [`crate::Pool::copy`].
    ///
    /// FEATURE: D3-F4 D3-F9
    pub fn send(&self, to: u32, context: u32, tag: u32, head: &[u8], body: Body<'_>) -> Result<()> {
        let inner = &mut *self.inner()?;
        inner.hear_borrowers().map_err(|failure| inner.peers.error(failure))?;
        let front = self.front(inner, to, Envelope { from: inner.peers.me, context, tag }, head, body.len()?)?;
        let sent = inner.outbox.send(&mut inner.peers, to, front, head, &body);
        sent.map_err(|failure| inner.peers.error(failure))
    }

    /// Begins to send a message and returns. [`Mailbox::wait_sent`] and its kin tell when it is in memory of the receiver's host. Messages
    /// arrive in the order in which their sends were begun, whichever is waited for. The mailbox sends on in its calls alone. So a program
    /// that computes for long calls [`Mailbox::test_sent`] now and then. Dropping the mailbox waits for what is under way.
    ///
    /// **Cost**: for a long body it waits for a message each way, which gets its place. The bytes move while the program goes on.
    /// **Errors**: those of [`Mailbox::send`] that are known at once: nothing was begun. [`Error::LimitReached`] where 65,536 sends were
    /// begun and not waited for.
    pub fn start_send(&self, to: u32, context: u32, tag: u32, head: &[u8], body: LastingBody<'_>) -> Result<SendId> {
        let inner = &mut *self.inner()?;
        inner.hear_borrowers().map_err(|failure| inner.peers.error(failure))?;
        let front = self.front(inner, to, Envelope { from: inner.peers.me, context, tag }, head, body.len()?)?;
        let begun = inner.outbox.start(&mut inner.peers, to, front, head, body);
        begun.map_err(|failure| inner.peers.error(failure))
    }

    /// Waits until all messages that were sent are in memory of their receivers' hosts. Parts that receivers fetch
    /// ([`MailboxOptions::fetch_parts`]) are fetched in calls of the receivers, which this waits for.
    ///
    /// **Cost**: nothing if all are known to be. Else a message each way for each party that was sent to. **Errors**: those of
    /// [`Mailbox::send`], for one party that a message did not come to. Those of others follow at the next calls.
    pub fn settle(&self) -> Result<()> {
        let inner = &mut *self.inner()?;
        inner.outbox.send_on_all(&mut inner.peers, true);
        inner.outbox.settle_for_good(&mut inner.peers);
        let heard = inner.wait_for_borrowers();
        let outcome = heard.and_then(|()| inner.outbox.take_failure().map_or(Ok(()), Err));
        outcome.map_err(|failure| inner.peers.error(failure))
    }

    /// Tests a send. A send that is over reports its outcome, and its number means nothing after that. Never waits for the receiver.
    ///
    /// **Errors**: those of [`Mailbox::send`], where it failed; [`Error::BadGroup`] for a send whose outcome was told.
    pub fn test_sent(&self, send: SendId) -> Result<bool> {
        match self.sent_within(&[send], Some(Duration::ZERO))? {
            Some((_, outcome)) => outcome.map(|()| true),
            None => Ok(false),
        }
    }

    /// Waits for the end of a send, `bound` at most; `None` for as long as it takes.
    ///
    /// **Errors**: [`Error::NotInTime`], after which it goes on; those of [`Mailbox::test_sent`].
    pub fn wait_sent(&self, send: SendId, bound: Option<Duration>) -> Result<()> {
        self.wait_any_sent(&[send], bound)?.1
    }

    /// Waits for the first of several sends that is over: its place among them, and what came of it.
    ///
    /// **Errors**: [`Error::NotInTime`]; [`Error::BadGroup`] for one whose outcome was told.
    pub fn wait_any_sent(&self, sends: &[SendId], bound: Option<Duration>) -> Result<(usize, Result<()>)> {
        let found = self.sent_within(sends, bound)?;
        found.ok_or_else(|| Error::NotInTime { what: "the end of a send".to_owned(), after_ms: bound.map_or(0, milliseconds) })
    }

    fn sent_within(&self, sends: &[SendId], bound: Option<Duration>) -> Result<Option<(usize, Result<()>)>> {
        let inner = &mut *self.inner()?;
        let begun = Instant::now();
        inner.attend();
        loop {
            inner.outbox.send_on_all(&mut inner.peers, false);
            inner.hear_borrowers().map_err(|failure| inner.peers.error(failure))?;
            for (index, send) in sends.iter().enumerate() {
                let outcome = inner.outbox.outcome(*send).map_err(|reason| inner.peers.bad(reason.to_owned()))?;
                if let Some(outcome) = outcome {
                    return Ok(Some((index, outcome.map_err(|failure| inner.peers.error(failure)))));
                }
            }
            let left = bound.map(|bound| bound.saturating_sub(begun.elapsed()));
            if left == Some(Duration::ZERO) {
                return Ok(None);
            }
            let nap = Duration::from_millis(MESSAGE_NAP_MS);
            let nap = left.map_or(nap, |left| left.min(nap));
            if inner.outbox.is_sending() {
                // A wait for a reply finds a node that says nothing; it has a timeout of its own.
                if begun.elapsed() >= LOOK && left.is_none_or(|left| left >= BODY) {
                    inner.outbox.settle(&mut inner.peers);
                }
                inner.nap(nap);
            } else {
                inner.wait_for_borrower(nap).map_err(|failure| inner.peers.error(failure))?;
            }
        }
    }

    /// Writes the fields before a head. **Errors**: as for [`Mailbox::send`].
    #[inline(always)]
    fn front(&self, inner: &MailboxState, to: u32, envelope: Envelope, head: &[u8], body_len: u64) -> Result<Front> {
        if to >= self.parties {
            return Err(inner.peers.bad(format!("there is no party {to} to send to")));
        }
        let limit = |what: String, limit: u64| Err(Error::LimitReached { what, limit });
        if head.len() > MESSAGE_HEAD_LEN_MAX {
            return limit(format!("a message's head of {} bytes", head.len()), MESSAGE_HEAD_LEN_MAX as u64);
        }
        if body_len > self.receive_len.max(MESSAGE_INLINE_LEN_MAX as u64) {
            return limit(format!("a message's body of {body_len} bytes in the receive memory"), self.receive_len);
        }
        Ok(Front { envelope, head_len: head.len(), body_len, body: BodyLocation::Here })
    }

    /// Posts a receive: [`Mailbox::wait`] and its kin give its message.
    ///
    /// **Errors**: those of [`Mailbox::test`].
    pub fn post(&self, want: Wanted) -> Result<ReceiveId> {
        let mut inner = self.inner()?;
        if want.from.is_some_and(|from| from >= self.parties) {
            return Err(inner.peers.bad("a receive wants the message of a party that there is not".to_owned()));
        }
        // Earlier messages are matched first.
        inner.take_in().map_err(|failure| inner.peers.error(failure))?;
        let id = ReceiveId(inner.next);
        inner.next += 1;
        match inner.matching.on_post(want) {
            Posted::Matched(envelope, content) => {
                inner.done.insert(id, (envelope, content));
            }
            Posted::Waits(post) => {
                inner.waiting.insert(id, post);
            }
        }
        Ok(id)
    }

    /// The message of a receive, if it has come. Never waits for a sender. The receive is over then.
    ///
    /// **Errors**: [`Error::BadGroup`] for a receive that is over; [`Error::LimitReached`] where 65,536 messages have come that nobody
    /// receives. For a message that has not come: [`Error::RankGone`] or [`Error::PartyGone`] if its sender is gone. If any sender may
    /// send it, the same for any party that is gone, or when all others have left. The receive stays posted. For a message whose body
    /// lies in a region that cannot be fetched from: the error of [`crate::Pool::copy`], as [`Error::NodeLost`]. The receive is over.
    pub fn test(&self, receive: ReceiveId) -> Result<Option<Message>> {
        self.wait_any_within(&[receive], Some(Duration::ZERO)).map(|found| found.map(|(_, message)| message))
    }

    /// Waits for the message of a receive, `bound` at most; `None` for ever.
    ///
    /// **Errors**: [`Error::NotInTime`], after which the receive stays posted; those of [`Mailbox::test`].
    pub fn wait(&self, receive: ReceiveId, bound: Option<Duration>) -> Result<Message> {
        self.wait_any(&[receive], bound).map(|(_, message)| message)
    }

    /// Waits for the first of several receives that has its message: its place among them, and the message.
    ///
    /// **Errors**: those of [`Mailbox::wait`].
    pub fn wait_any(&self, receives: &[ReceiveId], bound: Option<Duration>) -> Result<(usize, Message)> {
        let found = self.wait_any_within(receives, bound)?;
        found.ok_or_else(|| Error::NotInTime { what: "a message".to_owned(), after_ms: bound.map_or(0, milliseconds) })
    }

    fn wait_any_within(&self, receives: &[ReceiveId], bound: Option<Duration>) -> Result<Option<(usize, Message)>> {
        let mut inner = self.inner()?;
        let begun = Instant::now();
        inner.attend();
        loop {
            if let Some(found) = inner.take_done(receives)? {
                return Ok(Some(found));
            }
            let took_in = inner.take_in();
            if let Some(found) = inner.take_done(receives)? {
                return Ok(Some(found));
            }
            if inner.is_full() {
                return Err(Error::LimitReached { what: UNRECEIVED.to_owned(), limit: MESSAGE_KEPT_COUNT_MAX as u64 });
            }
            let checked = took_in.and_then(|()| inner.check_senders(receives));
            checked.map_err(|failure| inner.peers.error(failure))?;
            let left = bound.map(|bound| bound.saturating_sub(begun.elapsed()));
            if left == Some(Duration::ZERO) {
                return Ok(None);
            }
            // A body is a command's time away.
            if left.is_none_or(|left| left >= BODY) && inner.wait_for_body(receives) {
                continue;
            }
            let waited = inner.wait_for_some(left.map_or(LOOK, |left| left.min(LOOK)), receives);
            waited.map_err(|failure| inner.peers.error(failure))?;
        }
    }

    /// Posts a receive and waits for its message. Takes the receive back where none comes within the bound.
    ///
    /// **Errors**: those of [`Mailbox::wait`].
    pub fn receive(&self, want: Wanted, bound: Option<Duration>) -> Result<Message> {
        let mut arrival = Arrival::NONE;
        if bound != Some(Duration::ZERO)
            && self.receive_at_once(&want, &mut arrival)?
            && let Arrival { envelope, content: Content { head, body: ComingBody::Arrived(body) } } = arrival
        {
            return Ok(Message { envelope, head, body });
        }
        let receive = self.post(want)?;
        // A wait that ended the receive has an error that says why.
        self.wait(receive, bound).or_else(|error| self.take_back(receive).ok().flatten().ok_or(error))
    }

    fn receive_at_once(&self, want: &Wanted, into: &mut Arrival) -> Result<bool> {
        let inner = &mut *self.inner()?;
        inner.take_at_once(want, into).map_err(|failure| inner.peers.error(failure))
    }

    /// Takes a receive back; gives its message where that has come. Another thread of the party may have matched it after this one's last look.
    ///
    /// **Errors**: [`Error::BadGroup`] for a receive that is over; those of [`Mailbox::test`], where its message's body could not be fetched.
    pub fn take_back(&self, receive: ReceiveId) -> Result<Option<Message>> {
        self.inner()?.take_back(receive)
    }

    /// The envelope, and the lengths of head and body, of the message that such a receive would get now. Takes nothing.
    ///
    /// **Errors**: those of [`Mailbox::test`], but none for a sender that is gone.
    pub fn probe(&self, want: Wanted) -> Result<Option<(Envelope, usize, u64)>> {
        let mut inner = self.inner()?;
        inner.take_in().map_err(|failure| inner.peers.error(failure))?;
        Ok(inner.matching.probe(&want).map(|(envelope, content)| (*envelope, content.head.bytes().len(), content.body.len())))
    }

    /// Takes a receive back. False where its message has come: it is received still. **Errors**: [`Error::BadGroup`] for one that is over.
    pub fn cancel(&self, receive: ReceiveId) -> Result<bool> {
        let mut inner = self.inner()?;
        if inner.done.contains_key(&receive) { Ok(false) } else { inner.cancel(receive) }
    }
}

impl Drop for Mailbox {
    fn drop(&mut self) {
        self.inner.leave();
    }
}

impl std::fmt::Debug for Mailbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mailbox").field("parties", &self.parties).finish_non_exhaustive()
    }
}
