//! The writing side of a queue.

use super::afar::{Afar, LaneWords};
use super::reach::QueueReach;
use crate::client::locks::milliseconds;
use crate::trace::PortLife;
use hanare_memory::Window;
use hanare_protocol::limits::{
    ANSWER_MS, LEASE_MS, MESSAGE_NAP_MS, QUEUE_APPEND_LEN_MAX, QUEUE_NAP_MS, QUEUE_SPILL_LEN, STAGE_LEN,
};
use hanare_protocol::queue::layout::{READER_AT, ROOM_BELL_AT, SPILLED_AT, TAIL_AT, WORD_LEN};
use hanare_protocol::queue::{Appended, NoSpill, Overflow, PortId, Unit};
use hanare_protocol::wire::queue::{APPEND_FRONT_LEN, AppendFront, QueueRequest};
use hanare_protocol::wire::sync::{SyncAnswer, Wait, Word};
use hanare_protocol::{Error, Result};
use hanare_ring::array::{ALL_ASLEEP, Array};
use hanare_ring::lane::{Place, Writer};
use hanare_ring::wait::{Backoff, Step};
use hanare_ring::{Shared, Words};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// A writer of a queue. Leaves it when dropped; what it committed stays.
///
/// A unit is claimed, filled in place and committed: from then on the reader sees it, on every host. Several are *kept* and published
/// together, in one store on this host, and in one message to another.
///
/// **Cost**: on the queue's host a few nanoseconds a unit, no system call and no lock while the reader is awake and has room made;
/// elsewhere a message each way for each commit or publication. What is spilled goes by messages on the same host, too.
///
/// FEATURE: VQ-F6 VQ-F8
pub struct WritePort {
    reach: Arc<QueueReach>,
    queue: u64,
    lane: u32,
    id: PortId,
    /// Of a lane elsewhere: claims in it, so that no more is sent than it has room for.
    writer: Writer<LaneWords>,
    afar: Option<Arc<Afar>>,
    /// Units that go by message, behind room for their numbers.
    batch: Vec<u8>,
    batch_units: u64,
    /// Units that counted so far, of those that went by message.
    seq: u64,
    /// Whether units of this lane may be in the spill: further ones go behind them.
    is_behind: bool,
    claimed: Filling,
    life: PortLife,
    is_open: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Filling {
    Nothing,
    /// In the lane.
    Lane,
    /// At the end of the batch: first byte and length.
    Batch(usize, usize),
}

impl WritePort {
    pub(super) fn new(reach: Arc<QueueReach>, queue: u64) -> Result<WritePort> {
        let (id, here) = (QueueReach::port()?, reach.here()?.is_some());
        let lane = match reach.ask(queue, QueueRequest::OpenLane { queue, writer: id.0 })? {
            SyncAnswer::Lane { lane, .. } if lane < reach.form().ports => lane,
            _ => return Err(Error::Garbage { peer: "a queue's node".to_owned(), reason: "no lane".to_owned() }),
        };
        let at = reach.form().queue_at(reach.count(), queue);
        let afar = (!here).then(|| Arc::new(Afar::new(reach.form(), at, lane, false)));
        if let Some(afar) = &afar {
            look_afar(&reach, queue, lane, afar)?;
        }
        let words = match (&afar, reach.here()?) {
            (Some(afar), _) => LaneWords::Afar(afar.clone()),
            (None, Some(array)) => LaneWords::Here(*array.words()),
            (None, None) => unreachable!("it is here, or afar"),
        };
        let writer = Writer::new(words, Place::new(reach.form(), at, lane)).map_err(|bad| reach.corrupt(bad))?;
        let (batch, name) = (vec![0; APPEND_FRONT_LEN], reach.name(queue));
        let mut port = WritePort {
            reach,
            queue,
            lane,
            id,
            writer,
            afar,
            batch,
            batch_units: 0,
            seq: 0,
            is_behind: false,
            claimed: Filling::Nothing,
            life: PortLife::begin("write port", || name),
            is_open: true,
        };
        port.is_behind = port.spilled()? > 0;
        Ok(port)
    }

    /// The number of its lane.
    pub fn lane(&self) -> u32 {
        self.lane
    }

    fn here(&self) -> Result<Option<&Array<Shared>>> {
        if self.afar.is_some() { Ok(None) } else { self.reach.here() }
    }

    /// Units of this lane in the spill, as this host sees it; none elsewhere, where all goes by messages.
    fn spilled(&self) -> Result<u64> {
        let Some(array) = self.here()? else { return Ok(0) };
        let at = array.queue_at(self.queue) + self.reach.form().lane_at(self.lane) + SPILLED_AT;
        Ok(array.words().load((at / WORD_LEN) as usize))
    }

    fn spills(&self) -> bool {
        self.reach.form().overflow == Overflow::Spill
    }

    /// Takes room for a unit of `len` bytes, to be filled; false where there is none just now. Never waits for the reader. What was claimed
    /// before and not committed is abandoned.
    ///
    /// **Errors**: [`Error::BadBlock`] for a length that the queue does not take; those of [`WritePort::publish`].
    pub fn try_claim(&mut self, len: usize) -> Result<bool> {
        self.abandon();
        self.reach.form().check_unit("", len as u64).map_err(|_| self.bad_block(len))?;
        if self.afar.is_none() && !self.goes_by_message()? {
            if self.writer.claim(len).map_err(|bad| self.reach.corrupt(bad))? {
                self.claimed = Filling::Lane;
                return Ok(true);
            }
            if !self.spills() {
                return Ok(false);
            }
            self.publish()?;
        } else if self.afar.is_some() && !self.spills() && !self.has_credit(len)? {
            return Ok(false);
        }
        self.claim_in_batch(len)?;
        Ok(true)
    }

    #[cold]
    fn bad_block(&self, len: usize) -> Error {
        Error::BadBlock { queue: self.reach.name(self.queue), len: len as u64, limit: self.reach.form().unit_len_max() }
    }

    /// Whether this host's lane has to be left to the node, because units are before it in the batch or the spill.
    fn goes_by_message(&mut self) -> Result<bool> {
        if self.batch_units > 0 {
            return Ok(true);
        }
        if self.is_behind && self.spilled()? == 0 {
            self.writer.catch_up().map_err(|bad| self.reach.corrupt(bad))?;
            self.is_behind = false;
        }
        Ok(self.is_behind)
    }

    /// Whether a lane elsewhere has room for one more, behind those of the batch.
    fn has_credit(&mut self, len: usize) -> Result<bool> {
        if self.writer.claim(len).map_err(|bad| self.reach.corrupt(bad))? {
            return Ok(true);
        }
        if let Some(afar) = &self.afar {
            afar.set_head(get_word(&self.reach, self.queue, self.reach.form().head_at(self.lane))?);
        }
        self.writer.claim(len).map_err(|bad| self.reach.corrupt(bad))
    }

    fn claim_in_batch(&mut self, len: usize) -> Result<()> {
        let word = if matches!(self.reach.form().unit, Unit::Records { .. }) { WORD_LEN as usize } else { 0 };
        let frame = self.reach.form().frame_len(len as u64) as usize;
        // The shape of an append lies within the array, whose lane alone holds the longest unit.
        let most = self.reach.form().array_len(self.reach.count())?.min(QUEUE_APPEND_LEN_MAX) as usize;
        if self.batch_units > 0 && self.batch.len() + frame > most.min(STAGE_LEN) {
            self.flush()?;
        }
        let at = self.batch.len();
        self.batch.resize(at + frame, 0);
        self.batch[at..at + word].copy_from_slice(&(len as u64).to_le_bytes()[..word]);
        self.claimed = Filling::Batch(at + word, len);
        Ok(())
    }

    /// As [`WritePort::try_claim`], and waits for room where the queue's overflow is to wait, for `bound` at most; `None` for ever.
    ///
    /// **Errors**: [`Error::QueueFull`] where it is to refuse; [`Error::NotInTime`]; [`Error::ReaderGone`] where the reader has died and
    /// nobody has taken its place; [`Error::NodeLost`]; and those of [`WritePort::try_claim`].
    ///
    /// FEATURE: VQ-F19
    pub fn claim(&mut self, len: usize, bound: Option<Duration>) -> Result<()> {
        if self.try_claim(len)? {
            return Ok(());
        }
        if self.reach.form().overflow == Overflow::Refuse {
            return Err(Error::QueueFull { queue: self.reach.name(self.queue) });
        }
        // The reader makes no room for what it cannot see.
        self.publish()?;
        let (begun, mut backoff, mut asked) = (Instant::now(), Backoff::new(), Instant::now());
        while !self.try_claim(len)? {
            let left = bound.map(|bound| bound.saturating_sub(begun.elapsed()));
            if left == Some(Duration::ZERO) {
                let what = format!("room in queue {}", self.reach.name(self.queue));
                return Err(Error::NotInTime { what, after_ms: bound.map_or(0, milliseconds) });
            }
            if backoff.step_after(self.afar.is_some()) == Step::Again {
                continue;
            }
            let nap = Duration::from_millis(QUEUE_NAP_MS);
            self.sleep(len, left.map_or(nap, |left| left.min(nap)))?;
            if asked.elapsed() >= Duration::from_millis(LEASE_MS) {
                asked = Instant::now();
                self.check_life()?;
            }
        }
        Ok(())
    }

    /// Sleeps until the reader has freed something, or for `nap`.
    fn sleep(&mut self, len: usize, nap: Duration) -> Result<()> {
        self.check_reader()?;
        let Some(array) = self.here()?.cloned() else {
            let bell = self.reach.offset(self.queue) + ROOM_BELL_AT;
            self.reach.region().put(bell, &ALL_ASLEEP.to_le_bytes())?;
            if self.try_claim(len)? {
                return Ok(());
            }
            self.life.waits += 1;
            let wait = || self.reach.region().wait_until(bell, Wait::Equal(Word::U64(0)), Some(nap));
            return match crate::trace::at_queue("wait for room", || self.reach.name(self.queue), wait) {
                Ok(_) | Err(Error::NotInTime { .. }) => Ok(()),
                Err(error) => Err(error),
            };
        };
        array.doze_writer(self.queue);
        if self.try_claim(len)? {
            return Ok(());
        }
        self.life.waits += 1;
        crate::trace::at_queue(
            "wait for room",
            || self.reach.name(self.queue),
            || {
                array.sleep_writer(self.queue, nap);
                Ok(())
            },
        )
    }

    /// **Errors**: [`Error::ReaderGone`].
    fn check_reader(&self) -> Result<()> {
        const BROKEN: u64 = 2;
        let own = get_word(&self.reach, self.queue, READER_AT)?;
        if own == BROKEN || (own == 0 && self.reach.reader_of_all()? == BROKEN) {
            return Err(Error::ReaderGone { queue: self.reach.name(self.queue) });
        }
        Ok(())
    }

    /// Asks the node whether it lives and the lane is still this writer's.
    fn check_life(&mut self) -> Result<()> {
        let mut operand = self.batch[..APPEND_FRONT_LEN].to_vec();
        let front = AppendFront { queue: self.queue, writer: self.id, seq: self.seq };
        operand.copy_from_slice(&front.encode());
        self.append(&operand).map(drop)
    }

    /// Fills bytes of the claimed unit, from byte `at` of it on. Panics beyond its end, and where nothing is claimed.
    #[inline]
    pub fn fill(&mut self, at: usize, bytes: &[u8]) {
        match self.claimed {
            Filling::Lane => self.writer.fill(at, bytes),
            Filling::Batch(begin, len) => {
                assert!(at <= len && bytes.len() <= len - at, "bytes lie in their unit");
                self.batch[begin + at..][..bytes.len()].copy_from_slice(bytes);
            }
            Filling::Nothing => panic!("a unit is claimed before it is filled"),
        }
    }

    /// The claimed unit's bytes where they lie: on the queue's host in the queue itself. Good until it is committed or abandoned.
    ///
    /// # Safety
    /// No copy of the window is used after that, or after the port is gone.
    pub unsafe fn window(&mut self) -> Window {
        match self.claimed {
            Filling::Lane => {
                let (at, len) = self.writer.claimed().expect("a unit is claimed");
                match self.here() {
                    Ok(Some(array)) => array.words().window(at, len),
                    _ => Window::empty(),
                }
            }
            // SAFETY: the batch is not touched until the unit is committed or abandoned, as the caller promises.
            Filling::Batch(begin, len) => unsafe { Window::of_mut(&mut self.batch[begin..begin + len]) },
            Filling::Nothing => Window::empty(),
        }
    }

    /// Has the claimed unit committed with the next publication. Does nothing where nothing is claimed.
    #[inline]
    pub fn keep(&mut self) {
        match std::mem::replace(&mut self.claimed, Filling::Nothing) {
            Filling::Lane => self.life.units += u64::from(self.writer.keep()),
            Filling::Batch(..) => {
                self.writer.keep();
                self.life.units += 1;
                self.batch_units += 1;
            }
            Filling::Nothing => {}
        }
    }

    /// Commits the claimed unit, and all that were kept: the reader sees them from here on.
    ///
    /// **Errors**: those of [`WritePort::publish`].
    #[inline]
    pub fn commit(&mut self) -> Result<()> {
        self.keep();
        self.publish()
    }

    /// Commits all that were kept.
    ///
    /// **Errors**: [`Error::QueueFull`] where the pool has no room for what is spilled, [`Error::QuotaExceeded`] where its user has none: of several units the first may have been committed,
    /// [`WritePort::appended`] says how many, and the others are given up. [`Error::NotAWriter`] where this program was taken for
    /// dead and its lane given up: units without an answer may have been committed; [`Error::NodeLost`].
    #[inline]
    pub fn publish(&mut self) -> Result<()> {
        if self.afar.is_none() {
            self.writer.publish();
            if let Some(array) = self.reach.here()? {
                self.reach.tell_reader(array, self.queue);
            }
        }
        if self.batch_units > 0 { self.flush() } else { Ok(()) }
    }

    /// How many units this port has committed by messages, for one that has to know after an error.
    pub fn appended(&self) -> u64 {
        self.seq
    }

    #[cold]
    fn flush(&mut self) -> Result<()> {
        let front = AppendFront { queue: self.queue, writer: self.id, seq: self.seq };
        self.batch[..APPEND_FRONT_LEN].copy_from_slice(&front.encode());
        let outcome = self.append_when_allowed();
        let wanted = self.seq + self.batch_units;
        self.batch.truncate(APPEND_FRONT_LEN);
        self.batch_units = 0;
        let appended = outcome?;
        self.seq = appended.accepted;
        self.is_behind = self.afar.is_none() && appended.spilled > 0;
        if self.afar.is_none() && !self.is_behind {
            self.writer.catch_up().map_err(|bad| self.reach.corrupt(bad))?;
        }
        if appended.accepted != wanted {
            return Err(self.not_spilled(appended.refused));
        }
        Ok(())
    }

    /// Appends the batch; again, where the node has to ask first how much the user may have spilled.
    fn append_when_allowed(&self) -> Result<Appended> {
        let begun = Instant::now();
        loop {
            let appended = self.append(&self.batch)?;
            if appended.refused != Some(NoSpill::NotYet) || begun.elapsed() >= Duration::from_millis(ANSWER_MS) {
                return Ok(appended);
            }
            std::thread::sleep(Duration::from_millis(MESSAGE_NAP_MS));
        }
    }

    #[cold]
    fn not_spilled(&self, refused: Option<NoSpill>) -> Error {
        match refused {
            Some(NoSpill::OverQuota { used, limit }) => {
                Error::QuotaExceeded { uid: self.reach.region().shared.attached.user.uid, asked: QUEUE_SPILL_LEN, used, limit }
            }
            Some(NoSpill::NotYet) => {
                let reason = format!("it does not say how much queue {} may spill", self.reach.name(self.queue));
                Error::NoCoordinator { reason }
            }
            Some(NoSpill::PoolFull) | None => Error::QueueFull { queue: self.reach.name(self.queue) },
        }
    }

    /// Appends; where the connection broke meanwhile the lane is resumed, and units that counted before count once.
    fn append(&self, operand: &[u8]) -> Result<Appended> {
        match self.reach.append(self.queue, self.lane, operand) {
            Err(Error::NotAWriter { .. }) => {
                let resume = QueueRequest::ResumeLane { queue: self.queue, lane: self.lane, writer: self.id.0 };
                self.reach.ask(self.queue, resume)?;
                self.reach.append(self.queue, self.lane, operand)
            }
            other => other,
        }
    }

    /// Gives the claimed unit up: nobody sees it. What was kept stays kept.
    pub fn abandon(&mut self) {
        if let Filling::Batch(begin, _) = self.claimed {
            let word = if matches!(self.reach.form().unit, Unit::Records { .. }) { WORD_LEN as usize } else { 0 };
            self.batch.truncate(begin - word);
        }
        self.writer.abandon();
        self.claimed = Filling::Nothing;
    }

    /// Sends a unit: claims, fills and commits. Waits as [`WritePort::claim`] does.
    pub fn send(&mut self, unit: &[u8]) -> Result<()> {
        self.send_within(unit, None)
    }

    /// As [`WritePort::send`], for `bound` at most; `None` is for ever.
    pub fn send_within(&mut self, unit: &[u8], bound: Option<Duration>) -> Result<()> {
        self.claim(unit.len(), bound)?;
        self.fill(0, unit);
        self.commit()
    }

    /// Sends a unit if there is room just now.
    #[inline]
    pub fn try_send(&mut self, unit: &[u8]) -> Result<bool> {
        if !self.try_claim(unit.len())? {
            return Ok(false);
        }
        self.fill(0, unit);
        self.commit()?;
        Ok(true)
    }

    /// Publishes what was kept and leaves the queue. One that was removed after all was published is left without an error. **Errors**:
    /// those of [`WritePort::publish`].
    pub fn close(mut self) -> Result<()> {
        self.leave()
    }

    fn leave(&mut self) -> Result<()> {
        if !std::mem::replace(&mut self.is_open, false) {
            return Ok(());
        }
        let published = self.publish();
        self.life.end();
        let request = QueueRequest::CloseLane { queue: self.queue, lane: self.lane, writer: self.id.0 };
        // What was kept and never published is an error, even where the queue is gone.
        published.and(self.reach.end_port(self.queue, Ok(()), request))
    }
}

impl Drop for WritePort {
    fn drop(&mut self) {
        // Who wants to know calls `close`.
        let _ = self.leave();
    }
}

impl std::fmt::Debug for WritePort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WritePort").field("queue", &self.reach.name(self.queue)).field("lane", &self.lane).finish_non_exhaustive()
    }
}

/// A word of a queue.
pub(super) fn get_word(reach: &QueueReach, queue: u64, at: u64) -> Result<u64> {
    let mut word = [0; WORD_LEN as usize];
    reach.region().get(reach.offset(queue) + at, &mut word)?;
    Ok(u64::from_le_bytes(word))
}

/// Learns head and tail of a lane elsewhere.
fn look_afar(reach: &QueueReach, queue: u64, lane: u32, afar: &Afar) -> Result<()> {
    afar.set_tail(get_word(reach, queue, reach.form().lane_at(lane) + TAIL_AT)?);
    afar.set_head(get_word(reach, queue, reach.form().head_at(lane))?);
    Ok(())
}
