//! Appends of a write port: units that wait to be sent, those that were sent, and how many count.
//!
//! ```text
//! claim, keep ──> batch ── start ──> under way, the oldest first ── answer ──> counted
//!                                        └─ refused, or its connection broke: sent again, and waited for
//! ```
//!
//! Units are numbered, so a repeated append counts once. An append whose predecessor did not arrive is refused, so units are read in the
//! order of sending. Bytes are kept until they count.

use super::appending::AppendLink;
use super::prefix::BodyPrefix;
use super::reach::{QueueReach, SentAppend};
use super::remote::RemoteLane;
use crate::client::repetition::Breaks;
use hanare_memory::Window;
use hanare_protocol::limits::{
    ANSWER_MS, MESSAGE_NAP_MS, QUEUE_BEGUN_COUNT_MAX, QUEUE_BEGUN_LEN_MAX, QUEUE_LATER_LEN_MAX, QUEUE_SPILL_LEN,
};
use hanare_protocol::queue::{Appended, NoSpill, Overflow, PortId};
use hanare_protocol::wire::queue::{APPEND_FRONT_LEN, AppendFront, QueueRequest};
use hanare_protocol::wire::sync::SyncAnswer;
use hanare_protocol::{Error, Result};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Answered appends whose memory is kept.
const SPARE_COUNT: usize = 4;

/// Units that go by message together, behind room for their numbers. What a unit does not fill is what the batch held before.
struct AppendBatch {
    bytes: Vec<u8>,
    /// Bytes of units that are kept, their numbers included, and of one that is claimed behind them.
    kept_len: usize,
    len: usize,
    units: u64,
}

impl AppendBatch {
    /// An empty one in memory that another had.
    fn new(bytes: Vec<u8>) -> AppendBatch {
        AppendBatch { bytes, kept_len: APPEND_FRONT_LEN, len: APPEND_FRONT_LEN, units: 0 }
    }

    /// Takes room for a unit's frame; its first byte.
    fn claim(&mut self, frame: usize) -> usize {
        let at = self.kept_len;
        self.len = at + frame;
        if self.bytes.len() < self.len {
            self.bytes.resize(self.len, 0);
        }
        at
    }

    fn clear(&mut self) {
        (self.kept_len, self.len, self.units) = (APPEND_FRONT_LEN, APPEND_FRONT_LEN, 0);
    }
}

/// An append without an answer.
#[derive(Default)]
pub(super) struct UnderWay {
    pub append: SentAppend,
    /// The number of the unit behind its last.
    pub end: u64,
}

/// When a port has a link to the queue's reader.
pub(super) struct Linking {
    /// From so many units on.
    pub from: u64,
    /// Units from one try to the next, where it gets none, or its reader does not read.
    pub pause: u64,
}

/// The appends of a port.
pub(super) struct Appends {
    /// Sends what is under way, which goes after it.
    pub(super) link: Option<Box<AppendLink>>,
    /// The link of a port that may have one.
    pub(super) linking: Option<Linking>,
    /// True if units went by a link since the port asked its queue's home for its lane.
    pub(super) has_unlinked: bool,
    pub(super) reach: Arc<QueueReach>,
    pub(super) queue: u64,
    lane: u32,
    pub(super) id: PortId,
    /// Room in a remote lane, as its node tells it.
    remote: Option<Arc<RemoteLane>>,
    batch: AppendBatch,
    /// Bytes to put before the next append.
    ahead: Option<BodyPrefix>,
    pub(super) under_way: VecDeque<UnderWay>,
    /// Bytes under way.
    pub(super) begun_len: usize,
    /// Some that were answered, for their next use.
    spare: Vec<UnderWay>,
    /// Units that count so far, and those that were sent.
    pub(super) counted: u64,
    pub(super) sent: u64,
    /// Units of the lane in the spill, by the last answer.
    pub(super) spilled: u64,
    /// True if the node, or the reader, may take its time with the reply to the last append.
    pub(super) may_wait: bool,
    /// Why an append failed, so that nobody knows which units count.
    failed: Option<Error>,
}

impl Appends {
    pub fn new(reach: Arc<QueueReach>, (queue, lane): (u64, u32), id: PortId, remote: Option<Arc<RemoteLane>>) -> Appends {
        Appends {
            link: None,
            linking: None,
            has_unlinked: false,
            reach,
            queue,
            lane,
            id,
            remote,
            batch: AppendBatch::new(Vec::new()),
            ahead: None,
            under_way: VecDeque::new(),
            begun_len: 0,
            spare: Vec::new(),
            counted: 0,
            sent: 0,
            spilled: 0,
            may_wait: false,
            failed: None,
        }
    }

    /// True if nothing is claimed, kept or under way, and nothing went wrong.
    #[inline]
    pub fn are_untouched(&self) -> bool {
        self.is_idle() && self.batch.len == self.batch.kept_len && self.failed.is_none()
    }

    /// True if nothing is kept or under way.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.batch.units == 0 && self.under_way.is_empty()
    }

    /// True if an append is under way.
    pub fn any_under_way(&self) -> bool {
        !self.under_way.is_empty()
    }

    /// Units that count so far.
    pub fn counted(&self) -> u64 {
        self.counted
    }

    /// Units that were sent.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Why an append failed, where nobody has asked since which units count.
    pub fn failure(&self) -> Option<Error> {
        self.failed.clone()
    }

    /// Has bytes go before the next append, in its message.
    pub fn put_ahead(&mut self, ahead: BodyPrefix) {
        self.ahead = Some(ahead);
    }

    /// Sleeps until the oldest append has its answer, for `bound` at most.
    pub fn nap(&self, bound: Duration) {
        if let Some(link) = &self.link {
            return link.nap(bound);
        }
        if let Some(first) = self.under_way.front() {
            first.append.nap(bound);
        }
    }

    /// Units of the lane in the spill, by the last answer.
    pub fn spilled(&self) -> u64 {
        self.spilled
    }

    /// True if an append of the kept units and one more of such a frame is longer than `most` bytes.
    pub fn is_beyond(&self, frame: usize, most: usize) -> bool {
        self.batch.units > 0 && self.batch.kept_len + frame > most
    }

    /// Takes room for a unit's frame behind those that are kept; its first byte.
    pub fn claim(&mut self, frame: usize) -> usize {
        self.batch.claim(frame)
    }

    /// Bytes of the claimed unit.
    pub fn bytes(&mut self, at: usize, len: usize) -> &mut [u8] {
        &mut self.batch.bytes[at..][..len]
    }

    /// The claimed unit goes with the next append.
    pub fn keep(&mut self) {
        self.batch.kept_len = self.batch.len;
        self.batch.units += 1;
    }

    /// The claimed unit is given up.
    pub fn abandon(&mut self) {
        self.batch.len = self.batch.kept_len;
    }

    /// Sends what was kept, and does not wait for its answer; where it `may_wait`, nobody will just now. Waits for older ones while many are
    /// under way.
    ///
    /// A unit that is claimed and not kept stays claimed. Says by how many bytes it has moved to the front.
    ///
    /// **Errors**: those of [`Appends::settle`], of older appends: nothing was sent then.
    pub fn start(&mut self, may_wait: bool) -> Result<usize> {
        if self.batch.units == 0 {
            return Ok(0);
        }
        self.make_way()?;
        self.link_if_due()?;
        let mut next = self.spare.pop().unwrap_or_default();
        let (from, to) = (self.batch.kept_len, self.batch.len);
        let mut fresh = AppendBatch::new(std::mem::take(&mut next.append.operand));
        let claimed = fresh.claim(to - from);
        fresh.bytes[claimed..][..to - from].copy_from_slice(&self.batch.bytes[from..to]);
        let batch = std::mem::replace(&mut self.batch, fresh);
        (next.append.operand, next.append.len) = (batch.bytes, batch.kept_len);
        next.append.ahead = self.ahead.take();
        let front = AppendFront { queue: self.queue, writer: self.id, seq: self.sent };
        next.append.operand[..APPEND_FRONT_LEN].copy_from_slice(&front.encode());
        self.sent += batch.units;
        next.end = self.sent;
        self.send(next, may_wait);
        Ok(from - APPEND_FRONT_LEN)
    }

    fn send(&mut self, mut next: UnderWay, may_wait: bool) {
        self.may_wait = may_wait && (self.link.is_some() || next.append.len <= QUEUE_LATER_LEN_MAX);
        self.begun_len += next.append.len;
        match &mut self.link {
            Some(link) => {
                let ahead = next.append.ahead.as_ref().map(BodyPrefix::place);
                // SAFETY: the bytes are on the heap, and are kept until they count, or until the link was dropped.
                unsafe { link.send(ahead, Window::of(next.append.sent()), self.may_wait) };
            }
            None => self.reach.start_append(self.lane, &mut next.append, self.may_wait),
        }
        self.under_way.push_back(next);
    }

    /// Has the node answer what it has held back: an append of nothing, whose answer is waited for.
    pub(super) fn hurry(&mut self) {
        if std::mem::take(&mut self.may_wait) && self.any_under_way() {
            let front = AppendFront { queue: self.queue, writer: self.id, seq: self.sent };
            let mut next = self.spare.pop().unwrap_or_default();
            next.append.operand.clear();
            next.append.operand.extend_from_slice(&front.encode());
            (next.append.len, next.end) = (APPEND_FRONT_LEN, self.sent);
            self.send(next, false);
        }
    }

    /// Takes answers that are there, or waits for them, until one more may be under way.
    fn make_way(&mut self) -> Result<()> {
        let is_full = |own: &Appends| {
            let is_long = own.begun_len + own.batch.kept_len > QUEUE_BEGUN_LEN_MAX;
            own.under_way.len() >= QUEUE_BEGUN_COUNT_MAX || is_long && own.any_under_way()
        };
        // Answers come several at a time: they are not looked for before there may be many.
        if self.under_way.len() >= QUEUE_BEGUN_COUNT_MAX / 2 {
            self.hear()?;
        }
        while is_full(self) {
            self.take_answer()?;
        }
        Ok(())
    }

    /// Takes the answers that are there, and has a reader answer by whom units go. **Errors**: as for [`Appends::settle`].
    pub fn take_answers(&mut self) -> Result<()> {
        if self.link.is_some() {
            self.hurry();
        }
        self.hear()
    }

    /// Takes the answers that are there. **Errors**: as for [`Appends::settle`].
    fn hear(&mut self) -> Result<()> {
        self.hear_link()?;
        if self.link.is_some() {
            return Ok(());
        }
        while self.under_way.front().is_some_and(|first| first.append.is_done()) {
            self.take_answer()?;
        }
        Ok(())
    }

    /// Waits until all that was sent counts; by a link, until it is at the reader's host. What does not count then is kept.
    ///
    /// **Errors**: [`Error::QueueFull`] if the queue's node has no room for spilled units, [`Error::QuotaExceeded`] if its user has none.
    /// [`Error::NotAWriter`] if the lane was given up. [`Error::NodeLost`]. Units sent or kept behind those are given up, and so is a
    /// claimed one.
    pub fn settle(&mut self) -> Result<()> {
        if self.link.is_some() && self.settle_link()? {
            return Ok(());
        }
        self.hurry();
        while self.any_under_way() {
            self.take_answer()?;
        }
        Ok(())
    }

    /// Waits for the answer of the oldest.
    fn take_answer(&mut self) -> Result<()> {
        if self.link.is_some() {
            return self.await_link();
        }
        let Some(mut first) = self.under_way.pop_front() else { return Ok(()) };
        self.begun_len -= first.append.len;
        let outcome = match first.append.finish() {
            done @ Ok(_) => done,
            // A silent node is waited for once, where no other becomes home.
            silent @ Err(Error::Timeout { .. }) if !self.reach.moves() => silent,
            Err(error) => {
                let refreshed = self.reach.refresh_after(self.queue, &error);
                refreshed.and_then(|()| self.put_again(&first)).and_then(|()| self.repeat(first.append.sent()))
            }
        };
        first.append.ahead = None;
        let end = first.end;
        let outcome = outcome.and_then(|answer| self.ask_until_allowed(answer, &first));
        self.spare(first);
        let counted = outcome.and_then(|(appended, head)| self.count(appended, head, end));
        counted.inspect_err(|error| self.give_up(error))
    }

    pub(super) fn spare(&mut self, append: UnderWay) {
        if self.spare.len() < SPARE_COUNT {
            self.spare.push(append);
        }
    }

    /// Bytes of units that wait to be sent.
    pub(super) fn kept_len(&self) -> usize {
        self.batch.kept_len
    }

    /// Gives up the failed append; the node refused the later ones with it.
    pub(super) fn give_up(&mut self, error: &Error) {
        self.under_way.clear();
        self.batch.clear();
        (self.begun_len, self.ahead, self.failed) = (0, None, Some(error.clone()));
    }

    /// Puts again what went before an append whose connection broke. Where its units count they may have been read, and other bytes may be there.
    fn put_again(&self, broken: &UnderWay) -> Result<()> {
        if broken.append.has_ahead() && self.resume()? < broken.end { broken.append.put_ahead() } else { Ok(()) }
    }

    /// Appends again while the node first has to ask how much the user may have spilled. What went by a link is appended again while there
    /// is no room.
    pub(super) fn ask_until_allowed(&self, mut answer: (Appended, u64), first: &UnderWay) -> Result<(Appended, u64)> {
        let begun = Instant::now();
        while answer.0.accepted < first.end
            && (answer.0.refused == Some(NoSpill::NotYet) || self.reach.form().overflow == Overflow::Wait)
            && begun.elapsed() < Duration::from_millis(ANSWER_MS)
        {
            std::thread::sleep(Duration::from_millis(MESSAGE_NAP_MS));
            answer = self.repeat(first.append.sent())?;
        }
        Ok(answer)
    }

    #[cold]
    fn not_spilled(&self, refused: Option<NoSpill>) -> Error {
        let name = self.reach.name(self.queue);
        match refused {
            Some(NoSpill::OverQuota { used, limit }) => {
                Error::QuotaExceeded { uid: self.reach.region().shared.user.uid, asked: QUEUE_SPILL_LEN, used, limit }
            }
            Some(NoSpill::NotYet) => Error::NoCoordinator { reason: format!("it does not say how much queue {name} may spill") },
            Some(NoSpill::PoolFull) | None => Error::QueueFull { queue: name },
        }
    }

    pub(super) fn count(&mut self, appended: Appended, head: u64, end: u64) -> Result<()> {
        (self.counted, self.spilled) = (appended.accepted, appended.spilled);
        if let Some(remote) = &self.remote {
            remote.advance_head(head);
        }
        // A repeated append finds later ones counted.
        if appended.accepted >= end { Ok(()) } else { Err(self.not_spilled(appended.refused)) }
    }

    /// Appends, and waits; where the connection broke meanwhile the lane is resumed, and units that counted before count once.
    pub(super) fn repeat(&self, operand: &[u8]) -> Result<(Appended, u64)> {
        let mut breaks = Breaks::default();
        loop {
            match self.reach.append(self.queue, self.lane, operand) {
                // Another's lane is not given back.
                Err(Error::NotAWriter { .. }) if breaks.may_repeat() => self.resume()?,
                other => return other,
            };
        }
    }

    /// Takes the lane again; units that count.
    pub(super) fn resume(&self) -> Result<u64> {
        let resume = QueueRequest::ResumeLane { queue: self.queue, lane: self.lane, writer: self.id.0 };
        match self.reach.ask(self.queue, resume)? {
            SyncAnswer::Lane { accepted, .. } => Ok(accepted),
            _ => Err(Error::Garbage { peer: "a queue's node".to_owned(), reason: "no lane".to_owned() }),
        }
    }

    /// After a failure: learns which units count. Whether that was so.
    pub fn find_place(&mut self) -> Result<bool> {
        if self.failed.is_none() {
            return Ok(std::mem::take(&mut self.has_unlinked));
        }
        self.counted = self.resume()?;
        (self.sent, self.failed) = (self.counted, None);
        Ok(true)
    }

    /// Asks the node whether it lives and the lane is still this writer's.
    pub fn check_life(&mut self) -> Result<()> {
        self.settle()?;
        if self.link.is_some() {
            return Ok(());
        }
        let front = AppendFront { queue: self.queue, writer: self.id, seq: self.counted };
        self.repeat(&front.encode()).map(drop)
    }
}
