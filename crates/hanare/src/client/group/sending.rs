//! The sending side of a mailbox: messages that are sent at once, and those that are begun and waited for later.
//!
//! ```text
//! start_send ──> under way: its body moves ──> its head follows ──> over: wait_sent and its kin tell what came of it
//! ```
//!
//! Heads for one party follow in the order in which their sends were begun, so that a short message does not pass a long one. A send at
//! once waits for those before it. Every call to the mailbox sends on what may go.

use super::failure::{Failure, Outcome};
use super::peers::{LOOK, Parties};
use crate::client::command::Completion;
use crate::client::queue::WritePort;
use crate::client::region::Region;
use hanare_protocol::error::Happened;
use hanare_protocol::limits::{MESSAGE_BEGUN_COUNT_MAX, MESSAGE_INLINE_LEN_MAX};
use hanare_protocol::message::note::{FRONT_LEN, Front};
use hanare_protocol::shape::Shape;
use hanare_protocol::{Error, Result};
use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::time::Instant;

/// What a message carries beside its head.
pub enum Body<'b> {
    /// Bytes of the program.
    Bytes(&'b [u8]),
    /// Bytes of a region, in the shape's order. Of more than a page, the node that holds them sends them, and this program's processor never
    /// touches them. Fewer are got and go with their head, which saves two messages each way.
    ///
    /// **Source**: [D3 §3.4] LHC.
    Part(&'b Region, Shape<'b>),
}

/// What a message carries whose send is begun and waited for later.
pub enum LastingBody<'r> {
    /// Bytes that the send keeps.
    Bytes(Cow<'static, [u8]>),
    /// As [`Body::Part`].
    Part(&'r Region, Shape<'static>),
}

/// A send that was begun, by its number at its mailbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SendId(pub u64);

/// How a party sends to others.
pub(super) struct Outbox {
    /// The landing memory of others.
    landings: Vec<Option<Region>>,
    /// The names of the landing memory begin with this.
    stem: String,
    /// When each party was last seen to read its messages.
    looked: Vec<Option<Instant>>,
    /// To whom messages did not come that were on their way, and why: told once.
    failed: BTreeMap<u32, Failure>,
    /// Of the sends that were begun, for each party those whose heads have not gone, in their order.
    under_way: BTreeMap<u32, VecDeque<Sending>>,
    /// What came of those that nobody has asked for since.
    over: BTreeMap<SendId, Outcome<()>>,
    next: u64,
}

struct Sending {
    id: SendId,
    front: Front,
    head: Vec<u8>,
    /// A body that goes with its head.
    short: Cow<'static, [u8]>,
    moves: Option<Moving>,
}

/// A long body that moves to its receiver's host.
enum Moving {
    /// Bytes of the program, kept until they are there.
    Bytes(Completion<Vec<u8>>),
    /// The same, which last for ever.
    Lasting(Completion<()>),
    Part(Completion<()>),
}

impl Moving {
    fn is_done(&self) -> bool {
        match self {
            Moving::Bytes(completion) => completion.is_done(),
            Moving::Lasting(completion) | Moving::Part(completion) => completion.is_done(),
        }
    }

    fn wait(self, to: u32) -> Outcome<()> {
        match self {
            Moving::Bytes(completion) => completion.wait().map(drop).map_err(|error| Failure::on_the_way(to, error)),
            Moving::Lasting(completion) => completion.wait().map_err(|error| Failure::on_the_way(to, error)),
            // A failure may be that of the part's node.
            Moving::Part(completion) => completion.wait().map_err(Failure::from),
        }
    }
}

impl Body<'_> {
    pub(super) fn len(&self) -> Result<u64> {
        match self {
            Body::Bytes(bytes) => Ok(bytes.len() as u64),
            Body::Part(region, shape) => part_len(region, shape),
        }
    }
}

impl LastingBody<'_> {
    pub(super) fn len(&self) -> Result<u64> {
        match self {
            LastingBody::Bytes(bytes) => Ok(bytes.len() as u64),
            LastingBody::Part(region, shape) => part_len(region, shape),
        }
    }
}

fn part_len(region: &Region, shape: &Shape<'_>) -> Result<u64> {
    Ok(shape.by_ref().check(region.name(), region.len())?.len())
}

/// The bytes of a part that go with their head.
fn short_part(region: &Region, shape: &Shape<'_>, len: u64) -> Outcome<Vec<u8>> {
    let mut bytes = vec![0; len as usize];
    region.get_shape(shape.by_ref(), &mut bytes)?;
    Ok(bytes)
}

impl Outbox {
    /// Of a party among `count`.
    pub fn new(count: u32, stem: String) -> Outbox {
        let landings = (0..count).map(|_| None).collect();
        let looked = vec![None; count as usize];
        let (failed, under_way, over) = Default::default();
        Outbox { landings, stem, looked, failed, under_way, over, next: 0 }
    }

    /// Whether any send that was begun is under way.
    pub fn is_sending(&self) -> bool {
        !self.under_way.is_empty()
    }

    /// What came of a send that was begun; `None` while it is under way. Told once. **Errors**: where it was told before.
    pub fn outcome(&mut self, send: SendId) -> Result<Option<Outcome<()>>, &'static str> {
        if let Some(outcome) = self.over.remove(&send) {
            return Ok(Some(outcome));
        }
        let is_under_way = self.under_way.values().flatten().any(|sending| sending.id == send);
        if is_under_way { Ok(None) } else { Err("that send is over, and its outcome was told") }
    }

    /// Sends at once, behind all that was begun for that party. The note is on its way when this returns.
    pub fn send(&mut self, peers: &mut Parties, to: u32, front: Front, head: &[u8], body: &Body<'_>) -> Outcome<()> {
        self.send_on(peers, to, true);
        if let Some(failure) = self.failed.remove(&to) {
            return Err(failure);
        }
        let start = WritePort::commit_started;
        match body {
            Body::Bytes(bytes) if bytes.len() <= MESSAGE_INLINE_LEN_MAX => {
                self.send_note(peers, to, (&front, head, bytes), start)
            }
            Body::Part(region, shape) if front.body_len <= MESSAGE_INLINE_LEN_MAX as u64 => {
                let bytes = short_part(region, shape, front.body_len)?;
                self.send_note(peers, to, (&front, head, &bytes), start)
            }
            body => {
                let front = Front { landed: Some(self.land(peers, to, body, front.body_len)?), ..front };
                self.send_note(peers, to, (&front, head, &[]), start)
            }
        }
    }

    /// Waits until the notes that are on their way are at their receivers' hosts. Failures are told by the next send to the party, or by
    /// [`Outbox::take_failure`].
    pub fn settle(&mut self, peers: &mut Parties) {
        self.failed.extend(peers.settle().into_iter().map(|(to, error)| (to, Failure::on_the_way(to, error))));
    }

    /// A failure of a note that was on its way, once.
    pub fn take_failure(&mut self) -> Option<Failure> {
        self.failed.pop_first().map(|(_, failure)| failure)
    }

    /// Begins to send.
    pub fn start(&mut self, peers: &mut Parties, to: u32, front: Front, head: &[u8], body: LastingBody<'_>) -> Outcome<SendId> {
        let begun = self.over.len() + self.under_way.values().map(VecDeque::len).sum::<usize>();
        if begun >= MESSAGE_BEGUN_COUNT_MAX {
            let what = "sends that were begun and not waited for".to_owned();
            return Err(Failure::from(Error::LimitReached { what, limit: MESSAGE_BEGUN_COUNT_MAX as u64 }));
        }
        let (landed, short, moves) = match body {
            LastingBody::Bytes(bytes) if bytes.len() <= MESSAGE_INLINE_LEN_MAX => (None, bytes, None),
            LastingBody::Part(region, shape) if front.body_len <= MESSAGE_INLINE_LEN_MAX as u64 => {
                (None, Cow::Owned(short_part(region, &shape, front.body_len)?), None)
            }
            body => {
                let (place, moves) = self.start_to_land(peers, to, body, front.body_len)?;
                (Some(place), Cow::Borrowed(&[][..]), Some(moves))
            }
        };
        let id = SendId(self.next);
        self.next += 1;
        let sending = Sending { id, front: Front { landed, ..front }, head: head.to_vec(), short, moves };
        self.under_way.entry(to).or_default().push_back(sending);
        self.send_on(peers, to, false);
        Ok(id)
    }

    /// Sends on what was begun, to all parties: what may go, or with `waits` all.
    pub fn send_on_all(&mut self, peers: &mut Parties, waits: bool) {
        if self.is_sending() {
            let parties: Vec<u32> = self.under_way.keys().copied().collect();
            parties.into_iter().for_each(|to| self.send_on(peers, to, waits));
        }
    }

    fn send_on(&mut self, peers: &mut Parties, to: u32, waits: bool) {
        while let Some(Sending { id, front, head, short, moves }) = self.take_ready(to, waits) {
            let moved = moves.map_or(Ok(()), |moves| moves.wait(to)).inspect_err(|_| self.give_back(peers, to, front.landed));
            // Who asks is told when it is there.
            let sent = moved.and_then(|()| self.send_note(peers, to, (&front, &head, &short), WritePort::commit));
            self.over.insert(id, sent);
        }
    }

    /// The next whose head may go to this party; with `waits` whether or not its body is there.
    fn take_ready(&mut self, to: u32, waits: bool) -> Option<Sending> {
        let line = self.under_way.get_mut(&to)?;
        let is_ready = waits || line.front()?.moves.as_ref().is_none_or(Moving::is_done);
        let ready = if is_ready { line.pop_front() } else { None };
        if line.is_empty() {
            self.under_way.remove(&to);
        }
        ready
    }

    /// Sends what goes to the receiver's queue. Where that did not happen, the body's block is given back; where nobody knows, the receiver may
    /// have it.
    fn send_note(
        &mut self,
        peers: &mut Parties,
        to: u32,
        note: (&Front, &[u8], &[u8]),
        commit: impl FnOnce(&mut WritePort) -> Result<()>,
    ) -> Outcome<()> {
        let (failure, happened) = match self.fill_note(peers, to, note).map(commit) {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) => (Failure::on_the_way(to, error.clone()), error.happened()),
            Err(failure) => (failure, Happened::No),
        };
        if happened == Happened::No {
            self.give_back(peers, to, note.0.landed);
        }
        Err(failure)
    }

    fn fill_note<'p>(
        &mut self,
        peers: &'p mut Parties,
        to: u32,
        (front, head, body): (&Front, &[u8], &[u8]),
    ) -> Outcome<&'p mut WritePort> {
        // Nobody would tell that nobody receives it. On one host the queue's own memory tells.
        let is_seen = match self.looked[to as usize] {
            None => false,
            Some(looked) => peers.reads_here(to)?.unwrap_or_else(|| looked.elapsed() <= LOOK),
        };
        if !is_seen {
            peers.look_at(to)?;
            self.looked[to as usize] = Some(Instant::now());
        }
        let writer = peers.writer(to)?;
        writer.claim(front.note_len(), None).map_err(|error| Failure::on_the_way(to, error))?;
        writer.fill(0, &front.encode());
        writer.fill(FRONT_LEN, head);
        writer.fill(FRONT_LEN + head.len(), body);
        Ok(writer)
    }

    fn landing(&mut self, peers: &Parties, to: u32) -> Outcome<&Region> {
        let landing = &mut self.landings[to as usize];
        if landing.is_none() {
            let opened = peers.pool().open(&format!("{}{to}", self.stem));
            *landing = Some(opened.map_err(|error| Failure::on_the_way(to, error))?);
        }
        Ok(landing.as_ref().expect("it was just opened"))
    }

    /// Takes room for a body at the receiver's host: the memory, and the place in it.
    fn allocate(&mut self, peers: &Parties, to: u32, len: u64) -> Outcome<(&Region, u64)> {
        let landing = self.landing(peers, to)?;
        let place = landing.heap().allocate(len.max(1), 64).map_err(|error| Failure::on_the_way(to, error))?;
        Ok((landing, place))
    }

    /// The block of a body of which nobody else knows. Where its node is gone, so is the block.
    fn give_back(&mut self, peers: &Parties, to: u32, place: Option<u64>) {
        if let (Some(place), Ok(landing)) = (place, self.landing(peers, to)) {
            let _ = landing.heap().free(place);
        }
    }

    /// Brings a body to the receiver's host; where it is there.
    fn land(&mut self, peers: &Parties, to: u32, body: &Body<'_>, len: u64) -> Outcome<u64> {
        let (landing, place) = self.allocate(peers, to, len)?;
        let moved = match body {
            Body::Bytes(bytes) => landing.put(place, bytes).map_err(|error| Failure::on_the_way(to, error)),
            // A failure may be that of the part's node.
            Body::Part(region, shape) => {
                peers.pool().copy(region, shape.clone(), landing, Shape::contiguous(place, len)).map_err(Failure::from)
            }
        };
        if moved.is_err() {
            self.give_back(peers, to, Some(place));
        }
        moved.map(|()| place)
    }

    /// Has a body begin to move to the receiver's host; where it will be there.
    fn start_to_land(&mut self, peers: &Parties, to: u32, body: LastingBody<'_>, len: u64) -> Outcome<(u64, Moving)> {
        let (landing, place) = self.allocate(peers, to, len)?;
        let begun = match body {
            LastingBody::Bytes(Cow::Owned(bytes)) => landing.start_put(place, bytes).map(Moving::Bytes),
            LastingBody::Bytes(Cow::Borrowed(bytes)) => {
                peers.pool().start_batch(|batch| batch.put(landing, place, bytes)).map(Moving::Lasting)
            }
            LastingBody::Part(region, shape) => {
                peers.pool().start_copy(region, shape, landing, Shape::contiguous(place, len)).map(Moving::Part)
            }
        };
        if begun.is_err() {
            self.give_back(peers, to, Some(place));
        }
        begun.map(|moves| (place, moves)).map_err(|error| Failure::on_the_way(to, error))
    }
}
