//! Appends of a write port: units that wait to be sent, those that were sent, and how many count.
//!
//! ```text
//! claim, keep ──> batch ── start ──> under way, the oldest first ── answer ──> counted
//!                                        └─ refused, or its connection broke: sent again, and waited for
//! ```
//!
//! The rule is [`hanare_protocol::queue::appends`]. Bytes are kept until they count.

use super::appending::AppendLink;
use super::prefix::BodyPrefix;
use super::reach::{QueueReach, SentAppend};
use super::remote::RemoteLane;
use crate::client::repetition::Breaks;
use hanare_memory::Window;
use hanare_protocol::limits::{ANSWER_MS, MESSAGE_NAP_MS, QUEUE_BEGUN_COUNT_MAX, QUEUE_LATER_LEN_MAX, QUEUE_SPILL_LEN};
use hanare_protocol::queue::{AppendOrder, AppendStep, AppendTerms, Appended, BegunAppend, NoSpill, PortId};
use hanare_protocol::wire::queue::{APPEND_FRONT_LEN, AppendFront, QueueRequest};
use hanare_protocol::wire::sync::SyncAnswer;
use hanare_protocol::{Error, Result};
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
    /// Appends under way, and the number of units that count.
    pub(super) order: AppendOrder<SentAppend>,
    /// Some that were answered, for their next use.
    spare: Vec<SentAppend>,
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
            order: AppendOrder::default(),
            spare: Vec::new(),
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
        self.batch.units == 0 && self.order.is_idle()
    }

    /// True if an append is under way.
    pub fn any_under_way(&self) -> bool {
        !self.order.is_idle()
    }

    /// Units that count so far.
    pub fn counted(&self) -> u64 {
        self.order.counted()
    }

    /// Units that were sent.
    pub fn sent(&self) -> u64 {
        self.order.sent()
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
        if let Some(first) = self.order.oldest() {
            first.what.nap(bound);
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
        let mut fresh = AppendBatch::new(std::mem::take(&mut next.operand));
        let claimed = fresh.claim(to - from);
        fresh.bytes[claimed..][..to - from].copy_from_slice(&self.batch.bytes[from..to]);
        let batch = std::mem::replace(&mut self.batch, fresh);
        (next.operand, next.len, next.ahead) = (batch.bytes, batch.kept_len, self.ahead.take());
        next.operand[..APPEND_FRONT_LEN].copy_from_slice(&self.front(self.order.sent()));
        self.send(next, batch.units, may_wait);
        Ok(from - APPEND_FRONT_LEN)
    }

    /// The numbers before the units of an append.
    fn front(&self, seq: u64) -> [u8; APPEND_FRONT_LEN] {
        AppendFront { queue: self.queue, writer: self.id, seq }.encode()
    }

    fn send(&mut self, mut next: SentAppend, units: u64, may_wait: bool) {
        self.may_wait = may_wait && (self.link.is_some() || next.len <= QUEUE_LATER_LEN_MAX);
        match &mut self.link {
            Some(link) => {
                let ahead = next.ahead.as_ref().map(BodyPrefix::place);
                // SAFETY: the bytes are on the heap, and are kept until they count, or until the link was dropped.
                unsafe { link.send(ahead, Window::of(next.sent()), self.may_wait) };
            }
            None => self.reach.start_append(self.lane, &mut next, self.may_wait),
        }
        self.order.begin(units, next.len, next);
    }

    /// Has the node answer what it has held back: an append of nothing, whose answer is waited for.
    pub(super) fn hurry(&mut self) {
        if std::mem::take(&mut self.may_wait) && self.any_under_way() {
            let mut next = self.spare.pop().unwrap_or_default();
            next.operand.clear();
            next.operand.extend_from_slice(&self.front(self.order.sent()));
            next.len = APPEND_FRONT_LEN;
            self.send(next, 0, false);
        }
    }

    /// Takes answers that are there, or waits for them, until one more may be under way.
    fn make_way(&mut self) -> Result<()> {
        // Answers come several at a time: they are not looked for before there may be many.
        if self.order.count() >= QUEUE_BEGUN_COUNT_MAX / 2 {
            self.hear()?;
        }
        while self.order.is_full(self.batch.kept_len) {
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
        while self.order.oldest().is_some_and(|first| first.what.is_done()) {
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
        let Some(mut first) = self.order.take_oldest() else { return Ok(()) };
        let outcome = first.what.finish();
        let counted = self.see_through(&first, outcome, true);
        first.what.ahead = None;
        self.spare(first.what);
        counted.inspect_err(|error| self.give_up(error))
    }

    /// Sends an append again, as the rule says, until its units count.
    pub(super) fn see_through(
        &mut self,
        begun: &BegunAppend<SentAppend>,
        mut outcome: Result<(Appended, u64)>,
        mut is_first: bool,
    ) -> Result<()> {
        let (mut breaks, since) = (Breaks::default(), Instant::now());
        loop {
            if let Ok((appended, head)) = &outcome {
                self.spilled = appended.spilled;
                self.remote.iter().for_each(|remote| remote.advance_head(*head));
                breaks = Breaks::default();
            }
            let terms = AppendTerms {
                is_first,
                moves: self.reach.moves(),
                overflow: self.reach.form().overflow,
                may_resume: matches!(outcome, Err(Error::NotAWriter { .. })) && breaks.may_repeat(),
                is_patient: since.elapsed() < Duration::from_millis(ANSWER_MS),
            };
            match (self.order.step(begun.end, outcome.as_ref().map(|(appended, _)| appended), terms), outcome) {
                (AppendStep::Counted, _) => return Ok(()),
                (AppendStep::Again, Err(error)) => {
                    self.reach.refresh_after(self.queue, &error)?;
                    self.put_again(begun)?;
                }
                (AppendStep::Resume, _) => drop(self.resume()?),
                (AppendStep::Pause, _) => std::thread::sleep(Duration::from_millis(MESSAGE_NAP_MS)),
                (_, Ok((appended, _))) => return Err(self.not_spilled(appended.refused)),
                (AppendStep::GiveUp, Err(error)) => return Err(error),
            }
            is_first = false;
            outcome = self.repeat(begun.what.sent());
        }
    }

    pub(super) fn spare(&mut self, append: SentAppend) {
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
        self.order.give_up();
        self.batch.clear();
        (self.ahead, self.failed) = (None, Some(error.clone()));
    }

    /// Puts again what went before an append whose connection broke. Where its units count they may have been read, and other bytes may be there.
    fn put_again(&self, broken: &BegunAppend<SentAppend>) -> Result<()> {
        if broken.what.has_ahead() && self.resume()? < broken.end { broken.what.put_ahead() } else { Ok(()) }
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

    /// Appends at the home of this moment, and waits. Units that counted before count once.
    pub(super) fn repeat(&self, operand: &[u8]) -> Result<(Appended, u64)> {
        self.reach.append(self.queue, self.lane, operand)
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
        self.order.restart(self.resume()?);
        self.failed = None;
        Ok(true)
    }

    /// Asks the node whether it lives and the lane is still this writer's.
    pub fn check_life(&mut self) -> Result<()> {
        self.settle()?;
        if self.link.is_some() {
            return Ok(());
        }
        let nothing = SentAppend::of(self.front(self.counted()).to_vec());
        let outcome = self.repeat(nothing.sent());
        self.see_through(&BegunAppend { what: nothing, end: self.counted(), len: APPEND_FRONT_LEN }, outcome, false)
    }
}
