//! The writing side of a queue.

use super::appends::Appends;
use super::reach::QueueReach;
use super::remote::{LaneWords, RemoteLane};
use crate::trace::PortLife;
use hanare_memory::Window;
use hanare_protocol::limits::{QUEUE_APPEND_LEN_MAX, STAGE_LEN};
use hanare_protocol::queue::layout::{READER_AT, SPILLED_AT, TAIL_AT, WORD_LEN, WRITER_AT};
use hanare_protocol::queue::{Overflow, PortId, Unit};
use hanare_protocol::wire::queue::QueueRequest;
use hanare_protocol::wire::sync::SyncAnswer;
use hanare_protocol::{Error, Result};
use hanare_ring::array::Array;
use hanare_ring::lane::{LaneLayout, Writer};
use hanare_ring::wait::Backoff;
use hanare_ring::{Shared, Words};
use std::sync::Arc;
use std::time::Duration;

/// A writer of a queue. Leaves it when dropped; what it committed stays.
///
/// A unit is claimed, filled in place and committed: from then on the reader sees it, on every host. Several are *kept* and published
/// together, in one store on this host, and in one message to another.
///
/// **Cost**: on the queue's host a few nanoseconds a unit. No system call and no lock while the reader is awake and has made room.
/// Elsewhere a message each way for each commit or publication. Spilled units go by messages on the same host, too.
///
/// FEATURE: VQ-F8
pub struct WritePort {
    pub(super) reach: Arc<QueueReach>,
    pub(super) queue: u64,
    lane: u32,
    id: PortId,
    /// Claims in a remote lane, so that no more is sent than it has room for.
    writer: Writer<LaneWords>,
    pub(super) remote: Option<Arc<RemoteLane>>,
    /// Units that go by message.
    pub(super) appends: Appends,
    /// True if units of this lane may be in the spill: further ones go behind them.
    is_behind: bool,
    /// The count of the home's news at which the lane was this writer's, on the queue's host.
    own_at: Option<u64>,
    claimed: Filling,
    /// The pace of its waits for room, learned from earlier ones.
    pub(super) backoff: Backoff,
    pub(super) life: PortLife,
    is_open: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Filling {
    Nothing,
    /// In the lane.
    Lane,
    /// Behind the units that go with the next append: first byte and length.
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
        let remote = (!here).then(|| Arc::new(RemoteLane::new(reach.form(), at, lane, false)));
        if let Some(remote) = &remote {
            look_remote(&reach, queue, lane, remote)?;
        }
        let words = match (&remote, reach.here()?) {
            (Some(remote), _) => LaneWords::Remote(remote.clone()),
            (None, Some(array)) => LaneWords::Here(*array.words()),
            (None, None) => unreachable!("it is here, or remote"),
        };
        let writer = Writer::new(words, LaneLayout::new(reach.form(), at, lane)).map_err(|bad| reach.corrupt(bad))?;
        let appends = Appends::new(reach.clone(), (queue, lane), id, remote.clone());
        let name = reach.name(queue);
        // An earlier writer's spilled units may come back between two looks. The first claim checks that, and looks at the tail after it.
        let is_behind = remote.is_none();
        Ok(WritePort {
            reach,
            queue,
            lane,
            id,
            writer,
            remote,
            appends,
            is_behind,
            own_at: None,
            claimed: Filling::Nothing,
            backoff: Backoff::new(),
            life: PortLife::begin("write port", || name),
            is_open: true,
        })
    }

    /// The number of its lane.
    pub fn lane(&self) -> u32 {
        self.lane
    }

    pub(super) fn here(&self) -> Result<Option<&Array<Shared>>> {
        if self.remote.is_some() { Ok(None) } else { self.reach.here() }
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
    #[inline]
    pub fn try_claim(&mut self, len: usize) -> Result<bool> {
        if self.is_straight(len) && self.reach.here()?.is_some() {
            let has_room = self.writer.claim(len).map_err(|bad| self.reach.corrupt(bad))?;
            self.claimed = if has_room { Filling::Lane } else { Filling::Nothing };
            if has_room {
                return Ok(true);
            }
        }
        self.claim_otherwise(len)
    }

    /// The usual case: nothing of this port goes by message, and the queue takes units of that length.
    #[inline]
    fn is_straight(&self, len: usize) -> bool {
        self.remote.is_none() && !self.is_behind && self.appends.are_untouched() && self.reach.takes(len)
    }

    #[cold]
    fn claim_otherwise(&mut self, len: usize) -> Result<bool> {
        self.abandon();
        self.reach.form().check_unit("", len as u64).map_err(|_| self.bad_block(len))?;
        self.find_place()?;
        if self.here()?.is_some() && !self.goes_by_message()? {
            if self.writer.claim(len).map_err(|bad| self.reach.corrupt(bad))? {
                self.claimed = Filling::Lane;
                return Ok(true);
            }
            if !self.spills() {
                return Ok(false);
            }
            self.publish()?;
        } else if self.remote.is_some() && !self.spills() && !self.has_credit(len)? {
            return Ok(false);
        }
        self.claim_in_batch(len)?;
        Ok(true)
    }

    #[cold]
    fn bad_block(&self, len: usize) -> Error {
        Error::BadBlock { queue: self.reach.name(self.queue), len: len as u64, limit: self.reach.form().unit_len_max() }
    }

    /// True if this host's lane must be left to the node, because earlier units are in the batch or spilled.
    fn goes_by_message(&mut self) -> Result<bool> {
        if !self.appends.is_idle() {
            return Ok(true);
        }
        if self.is_behind && self.spilled()? == 0 {
            self.writer.catch_up().map_err(|bad| self.reach.corrupt(bad))?;
            self.is_behind = false;
        }
        Ok(self.is_behind)
    }

    /// After an append that failed: learns where the lane's home is by now.
    pub(super) fn find_place(&mut self) -> Result<()> {
        if self.appends.find_place()?
            && let Some(remote) = &self.remote
        {
            look_remote(&self.reach, self.queue, self.lane, remote)?;
            self.writer.catch_up().map_err(|bad| self.reach.corrupt(bad))?;
        }
        Ok(())
    }

    /// True if a remote lane has room for one more behind the kept ones. Replies that are there tell what the reader has freed; else its
    /// node is asked.
    fn has_credit(&mut self, len: usize) -> Result<bool> {
        if self.appends.are_linked() {
            let frame = self.reach.form().frame_len(len as u64) as usize;
            if let Some(has_way) = self.appends.link_has_way(frame)? {
                return Ok(has_way);
            }
            self.find_place()?;
        }
        if self.writer.claim(len).map_err(|bad| self.reach.corrupt(bad))? {
            return Ok(true);
        }
        if self.appends.any_under_way() {
            self.appends.take_answers()?;
            if self.writer.claim(len).map_err(|bad| self.reach.corrupt(bad))? {
                return Ok(true);
            }
        }
        if let Some(remote) = &self.remote {
            remote.advance_head(get_word(&self.reach, self.queue, self.reach.form().head_at(self.lane))?);
        }
        self.writer.claim(len).map_err(|bad| self.reach.corrupt(bad))
    }

    fn claim_in_batch(&mut self, len: usize) -> Result<()> {
        let word = if matches!(self.reach.form().unit, Unit::Records { .. }) { WORD_LEN as usize } else { 0 };
        let frame = self.reach.form().frame_len(len as u64) as usize;
        // The shape of an append lies within the array, whose lane alone holds the longest unit.
        let most = self.reach.form().array_len(self.reach.count())?.min(QUEUE_APPEND_LEN_MAX) as usize;
        if self.appends.is_beyond(frame, most.min(STAGE_LEN)) {
            self.start(true)?;
        }
        let at = self.appends.claim(frame);
        self.appends.bytes(at, word).copy_from_slice(&(len as u64).to_le_bytes()[..word]);
        self.claimed = Filling::Batch(at + word, len);
        Ok(())
    }

    /// Fills bytes of the claimed unit, from byte `at` of it on. Panics beyond its end, and where nothing is claimed.
    #[inline]
    pub fn fill(&mut self, at: usize, bytes: &[u8]) {
        match self.claimed {
            Filling::Lane => self.writer.fill(at, bytes),
            Filling::Batch(begin, len) => {
                assert!(at <= len && bytes.len() <= len - at, "bytes lie in their unit");
                self.appends.bytes(begin + at, bytes.len()).copy_from_slice(bytes);
            }
            Filling::Nothing => panic!("a unit is claimed before it is filled"),
        }
    }

    /// The claimed unit's bytes where they lie: on the queue's host in the queue itself. Good until the next call of the port.
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
            // SAFETY: the bytes stay where they are until the next call of the port, as the caller promises.
            Filling::Batch(begin, len) => unsafe { Window::of_mut(self.appends.bytes(begin, len)) },
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
                self.appends.keep();
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

    /// Commits all that were kept, and waits until those are there that were published before by [`WritePort::publish_started`].
    ///
    /// **Errors**: [`Error::QueueFull`] if the queue's node has no room to spill, [`Error::QuotaExceeded`] if its user has none. The first
    /// of several units may have been committed. [`WritePort::appended`] says how many, and the others are given up. [`Error::NotAWriter`]
    /// if this program was taken for dead and its lane given up. Units without a reply may have been committed. [`Error::NodeLost`].
    #[inline]
    pub fn publish(&mut self) -> Result<()> {
        self.publish_here()?;
        if self.appends.is_idle() { Ok(()) } else { self.settle() }
    }

    /// [`WritePort::publish`] that does not wait for a remote queue's node. The units are on their way, in order, and are read on
    /// arrival. They count once, whatever becomes of the connection.
    ///
    /// **Cost**: on the queue's host that of `publish`. Elsewhere one message, whose reply a later call takes. Waits for the oldest reply
    /// while 32 appends are under way, or 400 KiB. **Errors**: those of `publish`, of these units or of earlier ones, here or at a later
    /// call. A last `publish` misses none. A program that is killed before may lose what has not left its host.
    #[inline]
    pub fn publish_started(&mut self) -> Result<()> {
        if self.remote.is_none() { self.publish() } else { self.start(true) }
    }

    /// Commits the claimed unit, and all that were kept; see [`WritePort::publish_started`].
    #[inline]
    pub fn commit_started(&mut self) -> Result<()> {
        self.keep();
        self.publish_started()
    }

    /// True if the queue is on this host.
    pub(crate) fn is_here(&self) -> bool {
        self.remote.is_none()
    }

    /// True if all replies to published units were taken.
    pub(crate) fn is_settled(&self) -> bool {
        self.appends.is_idle()
    }

    #[cold]
    fn settle(&mut self) -> Result<()> {
        self.start(false)?;
        let settled = self.appends.settle();
        self.note(settled)
    }

    #[inline]
    fn publish_here(&mut self) -> Result<()> {
        if let Some(array) = if self.remote.is_none() { self.reach.here()? } else { None } {
            if self.own_at != Some(array.news(self.queue)) {
                self.own_at = Some(self.check_own(array)?);
            }
            self.writer.publish();
            self.reach.tell_reader(array, self.queue);
        }
        Ok(())
    }

    /// After the home's news: whether the lane is this writer's still. A program that was stopped for long may have lost it. Gives the count of
    /// news as of which it is.
    ///
    /// **Errors**: [`Error::NotAWriter`].
    #[cold]
    fn check_own(&self, array: &Array<Shared>) -> Result<u64> {
        let news = array.news(self.queue);
        let at = array.queue_at(self.queue) + self.reach.form().lane_at(self.lane) + WRITER_AT;
        if array.words().load((at / WORD_LEN) as usize) == self.id.0 {
            return Ok(news);
        }
        Err(Error::NotAWriter { queue: self.reach.name(self.queue), lane: self.lane })
    }

    /// True if the queue has a reader, as the memory of this host says; `None` of a queue elsewhere. **Cost**: a load of a line that each
    /// commit looks at.
    #[inline]
    pub(crate) fn is_read(&self) -> Result<Option<bool>> {
        const HELD: u64 = 1;
        let Some(array) = self.here()? else { return Ok(None) };
        let state = array.words().load(((array.queue_at(self.queue) + READER_AT) / WORD_LEN) as usize);
        Ok(Some(state == HELD))
    }

    /// Number of units that this port has committed by messages, for a caller that must know after an error.
    pub fn appended(&self) -> u64 {
        self.appends.counted()
    }

    /// Sends what is kept; a unit that is claimed goes on in the next append's memory. The answer `may_wait` where nobody will wait for it.
    pub(super) fn start(&mut self, may_wait: bool) -> Result<()> {
        match self.appends.start(may_wait) {
            Ok(moved_len) => {
                if let Filling::Batch(begin, len) = self.claimed {
                    self.claimed = Filling::Batch(begin - moved_len, len);
                }
                Ok(())
            }
            Err(error) => self.note(Err(error)),
        }
    }

    /// Takes note of what came of appends.
    pub(super) fn note(&mut self, outcome: Result<()>) -> Result<()> {
        if outcome.is_err() {
            (self.claimed, self.is_behind) = (Filling::Nothing, self.remote.is_none());
            return outcome;
        }
        self.is_behind = self.remote.is_none() && self.appends.spilled() > 0;
        if self.remote.is_none() && !self.is_behind {
            self.writer.catch_up().map_err(|bad| self.reach.corrupt(bad))?;
        }
        Ok(())
    }

    /// Gives the claimed unit up: nobody sees it. What was kept stays kept.
    pub fn abandon(&mut self) {
        self.appends.abandon();
        self.writer.abandon();
        self.claimed = Filling::Nothing;
    }

    /// Sends a unit: claims, fills and commits. Waits as [`WritePort::claim`] does.
    pub fn send(&mut self, unit: &[u8]) -> Result<()> {
        self.send_within(unit, None)
    }

    /// [`WritePort::send`] for `bound` at most; `None` is for ever.
    #[inline]
    pub fn send_within(&mut self, unit: &[u8], bound: Option<Duration>) -> Result<()> {
        if self.send_straight(unit)? { Ok(()) } else { self.send_otherwise(unit, bound) }
    }

    /// In the usual case, where there is room: copies the unit in and commits it, with few stores beside. Stores wait in their order for lines that
    /// the reader has, and a processor holds some 100 of them.
    #[inline]
    fn send_straight(&mut self, unit: &[u8]) -> Result<bool> {
        let Some(array) = (if self.is_straight(unit.len()) { self.reach.here()? } else { None }) else { return Ok(false) };
        if self.own_at != Some(array.news(self.queue)) {
            self.own_at = Some(self.check_own(array)?);
        }
        if !self.writer.push(unit).map_err(|bad| self.reach.corrupt(bad))? {
            return Ok(false);
        }
        self.claimed = Filling::Nothing;
        self.life.units += 1;
        self.reach.tell_reader(array, self.queue);
        Ok(true)
    }

    #[cold]
    fn send_otherwise(&mut self, unit: &[u8], bound: Option<Duration>) -> Result<()> {
        self.claim(unit.len(), bound)?;
        self.fill(0, unit);
        self.commit()
    }

    /// Sends a unit if there is room just now.
    #[inline]
    pub fn try_send(&mut self, unit: &[u8]) -> Result<bool> {
        if self.send_straight(unit)? {
            return Ok(true);
        }
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
        // Units that the reader has not taken by now go to the lane, which stays.
        let published = self.appends.unlink().and_then(|()| self.publish());
        self.life.end();
        let request = QueueRequest::CloseLane { queue: self.queue, lane: self.lane, writer: self.id.0 };
        // Kept units that were never published are an error, even where the queue is gone.
        published.and(self.reach.end_port(self.queue, Ok(()), request))
    }
}

impl Drop for WritePort {
    fn drop(&mut self) {
        // A caller that wants the outcome calls `close`.
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
fn look_remote(reach: &QueueReach, queue: u64, lane: u32, remote: &RemoteLane) -> Result<()> {
    remote.set_tail(get_word(reach, queue, reach.form().lane_at(lane) + TAIL_AT)?);
    remote.set_head(get_word(reach, queue, reach.form().head_at(lane))?);
    Ok(())
}
