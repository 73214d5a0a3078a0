//! The lanes of one queue, read in turns.

use super::linked::ReadLinks;
use super::reach::QueueReach;
use super::remote::{LaneWords, RemoteLane};
use hanare_memory::Window;
use hanare_protocol::queue::layout::{LANE_STATE_AT, LINE_LEN, QueueForm, READER_BELL_AT, SPILLED_AT, TAIL_AT, WORD_LEN};
use hanare_protocol::queue::{Overflow, PortId, Unit};
use hanare_protocol::shape::Strided;
use hanare_protocol::wire::queue::QueueRequest;
use hanare_protocol::{Error, Result};
use hanare_ring::Words;
use hanare_ring::array::BOARD;
use hanare_ring::lane::{LaneLayout, Reader, Seen};
use std::sync::Arc;

/// A lane's state where its writer has died.
const BROKEN: u64 = 2;

/// A unit that was committed and is not freed yet: where it is, for the port that gave it.
#[derive(Clone, Copy, Debug)]
pub struct Unread {
    /// The number of its source in a set.
    source: u32,
    queue: u64,
    lane: u32,
    seen: Seen,
    /// True if it came by its writer's link.
    is_linked: bool,
    /// First byte in the region; by a link, in the lane's ring.
    offset: u64,
}

impl Unread {
    /// Its source in a set: the number that [`super::QueueSet::add`] or [`super::QueueSet::add_queue`] gave.
    pub fn source(&self) -> usize {
        self.source as usize
    }

    /// A unit that came by its writer's link.
    pub(super) fn by_link(queue: u64, lane: usize, seen: Seen) -> Unread {
        /// No byte of a region.
        const LINKED: u64 = 1 << 63;
        let offset = seen.at() as u64 | LINKED;
        Unread { source: 0, queue, lane: lane as u32, seen, is_linked: true, offset }
    }

    pub(super) fn with_source(self, source: usize) -> Unread {
        Unread { source: source as u32, ..self }
    }

    /// Its queue's number in the array.
    pub fn queue(&self) -> u64 {
        self.queue
    }

    /// The lane that it came by: units of one writer come by one lane.
    pub fn lane(&self) -> u32 {
        self.lane
    }

    /// Its length in bytes.
    pub fn len(&self) -> usize {
        self.seen.len()
    }

    /// True for a record of no bytes.
    pub fn is_empty(&self) -> bool {
        self.seen.is_empty()
    }

    /// Its first byte in the region: where it arrived, and stays until it is freed. FEATURE: D3-F6
    pub fn offset(&self) -> u64 {
        self.offset
    }
}

/// The reader, as the queues' node knows it.
#[derive(Clone, Copy)]
pub(super) struct Reads {
    pub id: PortId,
    /// The first of its queues.
    pub first: u64,
    pub count: u64,
}

impl Reads {
    /// Comes as the reader.
    pub fn open(&self) -> QueueRequest {
        QueueRequest::OpenReader { first: self.first, count: self.count, reader: self.id.0 }
    }

    /// Leaves.
    pub fn close(&self) -> QueueRequest {
        QueueRequest::CloseReader { first: self.first, reader: self.id.0 }
    }
}

/// The lanes of a queue, for its reader.
pub(super) struct QueueLanes {
    pub(super) reach: Arc<QueueReach>,
    pub(super) queue: u64,
    reads: Reads,
    pub(super) lanes: Vec<QueueLane>,
    /// The lane that is looked at first.
    turn: usize,
    /// True if the queue was left to the board with units given and not freed: see [`QueueLanes::on_left`].
    is_left: bool,
    /// Bytes freed on the queue's host that no writer was told of: see [`QueueLanes::tell_room`].
    untold: u64,
    /// Number of freed units to report at once.
    told_at: u64,
    /// True if the reader took its place again: another may have had it meanwhile.
    has_reopened: bool,
    /// The count of the home's news at which no lane's writer was dead and nothing spilled, on the queue's host.
    quiet_at: Option<u64>,
    /// A lane stays its writer's when the connection of that one ends: see [`QueueLanes::keep_broken`].
    keeps_broken: bool,
    /// Links of writers, where the reader wants them.
    pub(super) links: Option<Box<ReadLinks>>,
}

pub(super) struct QueueLane {
    pub(super) reader: Reader<LaneWords>,
    /// State of a remote lane.
    remote: Option<Arc<RemoteLane>>,
    /// The head that the queue's node knows, for a remote lane. On this host, the head at which it was asked for spilled units.
    told_head: u64,
    /// The reader was told that the writer's connection ended, and the lane is kept for the writer.
    is_kept: bool,
}

/// True if a queue has something, a writer of it has died, or the board would not show new units. Reads the queue's bytes up to its
/// lanes.
pub(super) fn may_have(form: &QueueForm, bytes: &[u8]) -> bool {
    let word = |at: u64| bytes.get(at as usize..).and_then(<[u8]>::first_chunk).map_or(0, |word| u64::from_le_bytes(*word));
    // A reader that died, or whose answer was lost, left the bell as it was.
    word(READER_BELL_AT) != BOARD
        || (0..form.ports).any(|lane| {
            let (head, line) = (form.head_at(lane), form.lane_at(lane));
            word(line + TAIL_AT) != word(head) || word(line + SPILLED_AT) > 0 || word(line + LANE_STATE_AT) == BROKEN
        })
}

/// The words of a lane's line that others write.
struct LaneLine {
    tail: u64,
    state: u64,
    spilled: u64,
}

impl QueueLanes {
    pub fn new(reach: Arc<QueueReach>, queue: u64, reads: Reads) -> Result<QueueLanes> {
        let at = reach.form().queue_at(reach.count(), queue);
        let ports = reach.form().ports;
        let heads = match reach.here()? {
            Some(_) => Vec::new(),
            None => {
                let mut heads = vec![0; ports as usize * WORD_LEN as usize];
                reach.region().get(reach.offset(queue) + reach.form().head_at(0), &mut heads)?;
                heads.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word)).collect()
            }
        };
        let lane = |lane: u32| {
            let place = LaneLayout::new(reach.form(), at, lane);
            let (words, remote, head) = match reach.here()? {
                Some(array) => (LaneWords::Here(*array.words()), None, 0),
                None => {
                    let (remote, head) = (Arc::new(RemoteLane::new(reach.form(), at, lane, true)), heads[lane as usize]);
                    remote.set_head(head);
                    remote.set_tail(head);
                    (LaneWords::Remote(remote.clone()), Some(remote), head)
                }
            };
            let reader = Reader::new(words, place).map_err(|bad| reach.corrupt(bad))?;
            Ok(QueueLane { reader, remote, told_head: head, is_kept: false })
        };
        let lanes = (0..ports).map(lane).collect::<Result<_>>()?;
        let told_at = reach.form().lane_len() / 4;
        Ok(QueueLanes {
            reach,
            queue,
            reads,
            lanes,
            turn: 0,
            is_left: false,
            untold: 0,
            told_at,
            has_reopened: false,
            quiet_at: None,
            keeps_broken: false,
            links: None,
        })
    }

    /// Keeps a lane for its writer when that one's connection ends: it may come back over another. That it ended is said once each time.
    pub fn keep_broken(&mut self) {
        self.keeps_broken = true;
    }

    pub fn queue(&self) -> u64 {
        self.queue
    }

    /// True if they lie in memory of this host.
    pub fn are_here(&self) -> bool {
        self.lanes.first().is_none_or(|lane| lane.remote.is_none())
    }

    /// The next unit, of the lanes in turn. **Errors**: [`Error::NoQueue`] for memory that makes no sense.
    #[inline(always)]
    pub fn try_next(&mut self) -> Result<Option<Unread>> {
        if self.links.is_some()
            && let Some(unread) = self.try_next_linked()?
        {
            return Ok(Some(unread));
        }
        for _ in 0..self.lanes.len() {
            let lane = self.turn;
            self.turn = if lane + 1 == self.lanes.len() { 0 } else { lane + 1 };
            match self.lanes[lane].reader.next() {
                Ok(Some(seen)) => return Ok(Some(self.give(lane, seen))),
                Ok(None) => {}
                Err(bad) => return Err(self.reach.corrupt(bad)),
            }
        }
        Ok(None)
    }

    #[inline(always)]
    fn give(&self, lane: usize, seen: Seen) -> Unread {
        let offset = self.reach.at() + seen.at() as u64;
        Unread { source: 0, queue: self.queue, lane: lane as u32, seen, is_linked: false, offset }
    }

    /// After nothing was found: fetches what is elsewhere, has spilled units come back, and looks for writers that died. Whether there may
    /// be something by then.
    ///
    /// **Errors**: [`Error::WriterGone`], once for each that died, when all that it left was freed.
    #[cold]
    pub fn look_further(&mut self) -> Result<bool> {
        self.tell_room()?;
        if self.pump()? {
            return Ok(true);
        }
        if let Some(found) = self.look_here()? {
            return Ok(found);
        }
        self.tell_heads(0)?;
        let lines = self.lines()?;
        let mut may_have = false;
        for (lane, line) in lines.iter().enumerate() {
            may_have |= self.fetch(lane, line.tail)?;
            let (head, held) = (self.lanes[lane].reader.head(), self.lanes[lane].reader.held());
            if line.spilled > 0 && (held == 0 || head != self.lanes[lane].told_head) {
                self.lanes[lane].told_head = head;
                self.ask(lane, |queue, lane, reader| QueueRequest::Free { queue, lane, reader, head })?;
                may_have = true;
            }
        }
        if may_have {
            return Ok(true);
        }
        for (lane, line) in lines.iter().enumerate() {
            let is_read = self.lanes[lane].reader.held() == 0 && line.spilled == 0 && line.tail == self.lanes[lane].reader.head();
            let known = &mut self.lanes[lane];
            known.is_kept &= line.state == BROKEN;
            // What it sent before it went counts.
            let is_over = self.links.as_ref().is_none_or(|links| !links.is_open(lane));
            if line.state == BROKEN && is_read && is_over && !known.is_kept {
                if self.keeps_broken {
                    known.is_kept = true;
                    return Err(Error::WriterGone { queue: self.reach.name(self.queue), lane: lane as u32 });
                }
                self.ask(lane, |queue, lane, reader| QueueRequest::Tell { queue, lane, reader })?;
                return Err(Error::WriterGone { queue: self.reach.name(self.queue), lane: lane as u32 });
            }
        }
        Ok(false)
    }

    /// On the queue's host: whether something was committed. `None` where it lies elsewhere, and where the node has to be asked.
    fn look_here(&mut self) -> Result<Option<bool>> {
        if self.reach.here()?.is_none() {
            return Ok(None);
        }
        if self.has_more()? {
            return Ok(Some(true));
        }
        let Some(array) = self.reach.here()? else { return Ok(None) };
        let news = array.news(self.queue);
        if self.quiet_at == Some(news) {
            return Ok(Some(false));
        }
        let line = |lane: usize| array.queue_at(self.queue) + self.reach.form().lane_at(lane as u32);
        let word = |at: u64| array.words().load((at / WORD_LEN) as usize);
        let is_broken = |lane: usize| word(line(lane) + LANE_STATE_AT) == BROKEN;
        let is_quiet = |lane: usize| is_broken(lane) == self.lanes[lane].is_kept && word(line(lane) + SPILLED_AT) == 0;
        let are_quiet = (0..self.lanes.len()).all(is_quiet);
        self.quiet_at = are_quiet.then_some(news);
        Ok(are_quiet.then_some(false))
    }

    /// Asks the node; where the connection broke meanwhile, the reader takes its place again before.
    fn ask(&mut self, lane: usize, request: impl FnOnce(u64, u32, u64) -> QueueRequest) -> Result<()> {
        let request = request(self.queue, lane as u32, self.reads.id.0);
        match self.reach.ask(self.queue, request) {
            Err(Error::SecondReader { .. }) => {
                self.has_reopened = true;
                self.reach.ask(self.queue, self.reads.open())?;
                self.reach.ask(self.queue, request).map(drop)
            }
            other => other.map(drop),
        }
    }

    fn lines(&self) -> Result<Vec<LaneLine>> {
        let (form, queue) = (self.reach.form(), self.queue);
        let Some(array) = self.reach.here()? else {
            let shape = Strided {
                offset: self.reach.offset(queue) + form.lane_at(0),
                block: SPILLED_AT + WORD_LEN,
                count: form.ports.into(),
                stride: LINE_LEN,
            };
            let mut words = vec![0; shape.block as usize * form.ports as usize];
            self.reach.region().get_strided(shape, &mut words)?;
            let word = |line: &[u8; 24], at: u64| u64::from_le_bytes(*line[at as usize..].first_chunk().expect("three words"));
            let line =
                |line| LaneLine { tail: word(line, TAIL_AT), state: word(line, LANE_STATE_AT), spilled: word(line, SPILLED_AT) };
            return Ok(words.as_chunks::<24>().0.iter().map(line).collect());
        };
        let line = |lane: u32| {
            let line = array.queue_at(queue) + form.lane_at(lane);
            let word = |at: u64| array.words().load(((line + at) / WORD_LEN) as usize);
            // The tail comes last: what a dead writer committed is not overlooked.
            let (state, spilled) = (word(LANE_STATE_AT), word(SPILLED_AT));
            LaneLine { tail: word(TAIL_AT), state, spilled }
        };
        Ok((0..form.ports).map(line).collect())
    }

    /// Fetches what a lane elsewhere holds. Whether there is something to read.
    fn fetch(&mut self, lane: usize, tail: u64) -> Result<bool> {
        let Some(remote) = self.lanes[lane].remote.clone() else {
            return self.lanes[lane].reader.has_more().map_err(|bad| self.reach.corrupt(bad));
        };
        let (form, known) = (self.reach.form(), remote.tail());
        let fresh = tail.wrapping_sub(known);
        let is_sound =
            tail.is_multiple_of(WORD_LEN) && tail.wrapping_sub(remote.head()) <= form.lane_len() && fresh <= form.lane_len();
        if !is_sound {
            return Err(self.reach.corrupt(hanare_ring::Corrupt("a tail beyond its lane")));
        }
        let base = self.reach.offset(self.queue) + form.bytes_at(lane as u32);
        let (mut at, mut left) = (known % form.lane_len(), fresh);
        while left > 0 {
            let len = left.min(form.lane_len() - at);
            let mut got = Ok(());
            remote.fill(at as usize, |bytes| got = self.reach.region().get(base + at, &mut bytes[..len as usize]));
            got?;
            (at, left) = (0, left - len);
        }
        // Behind the last record nothing is committed: the bytes there are those of an earlier lap. A full lane has its first record there.
        let is_full = tail.wrapping_sub(remote.head()) == form.lane_len();
        if fresh > 0 && !is_full && matches!(form.unit, Unit::Records { .. }) {
            remote.fill((tail % form.lane_len()) as usize, |bytes| bytes[..WORD_LEN as usize].fill(0));
        }
        remote.set_tail(tail);
        self.lanes[lane].reader.has_more().map_err(|bad| self.reach.corrupt(bad))
    }

    /// Tells the node of heads elsewhere that went on by more than `beyond` bytes.
    fn tell_heads(&mut self, beyond: u64) -> Result<()> {
        for lane in 0..self.lanes.len() {
            let QueueLane { remote: Some(remote), told_head, .. } = &self.lanes[lane] else { continue };
            let head = remote.head();
            if head.wrapping_sub(*told_head) > beyond {
                self.ask(lane, |queue, lane, reader| QueueRequest::Free { queue, lane, reader, head })?;
                self.lanes[lane].told_head = head;
            }
        }
        Ok(())
    }

    /// Copies bytes of a unit out.
    #[inline]
    pub fn read(&self, unread: &Unread, at: usize, into: &mut [u8]) {
        if let Some(links) = self.links.as_ref().filter(|_| unread.is_linked) {
            return links.read(unread.lane, &unread.seen, at, into);
        }
        self.lanes[unread.lane as usize].reader.read(&unread.seen, at, into);
    }

    /// The unit's bytes where they lie, on the queue's host.
    pub fn window(&self, unread: &Unread) -> Result<Option<Window>> {
        Ok(self.reach.here()?.map(|array| array.words().window(unread.seen.at(), unread.seen.len())))
    }

    /// Frees a unit, and those of its lane that were given before.
    ///
    /// **Errors**: those of the node, where the queue lies elsewhere.
    #[inline]
    pub fn free(&mut self, unread: &Unread) -> Result<()> {
        if let Some(links) = self.links.as_mut().filter(|_| unread.is_linked) {
            links.free(unread.lane, &unread.seen);
            return Ok(());
        }
        let lane = &mut self.lanes[unread.lane as usize];
        if lane.remote.is_none() {
            // Successors find nothing freed.
            self.reach.here()?;
        }
        let before = lane.reader.head();
        lane.reader.free(&unread.seen);
        if lane.remote.is_some() {
            // Half a lane is a batch.
            return self.tell_heads(self.reach.form().lane_len() / 2);
        }
        self.untold = self.untold.saturating_add(lane.reader.head().wrapping_sub(before));
        if self.untold > self.told_at { self.tell_room() } else { Ok(()) }
    }

    /// Wakes writers of this host that sleep for want of room, once a quarter of a lane is free, and before the reader finds nothing more.
    /// A writer that is woken for each unit goes to sleep for each. The fence before the look at its bell holds the next unit up.
    #[cold]
    fn tell_room(&mut self) -> Result<()> {
        if std::mem::take(&mut self.untold) > 0
            && let Some(array) = self.reach.here()?
        {
            self.reach.tell_writers(array, self.queue);
        }
        Ok(())
    }

    /// Gives again what was given and not freed.
    pub fn rewind(&mut self) {
        self.lanes.iter_mut().for_each(|lane| lane.reader.rewind());
    }

    /// The queue is left to the board. Spilled units, and a writer's death, wait until given units are freed. Nobody else puts the queue on
    /// the board then.
    pub fn on_left(&mut self) {
        self.is_left = self.has_given();
    }

    /// True if a unit freed after the queue was left calls for another look. It is the last given one of its lane, or makes room for
    /// spilled units.
    #[inline]
    pub fn is_due(&mut self, freed: &Unread) -> bool {
        let spills = self.reach.form().overflow == Overflow::Spill;
        let is_due = self.is_left && (spills || self.lanes[freed.lane as usize].reader.held() == 0);
        self.is_left &= !is_due;
        is_due
    }

    /// True if units were given and not freed.
    pub fn has_given(&self) -> bool {
        self.lanes.iter().any(|lane| lane.reader.held() > 0)
    }

    /// True if the queue's host has something.
    pub fn has_more(&mut self) -> Result<bool> {
        self.tell_room()?;
        self.pump()?;
        if let Some(links) = &mut self.links
            && links.have_more().map_err(|bad| self.reach.corrupt(bad))?
        {
            return Ok(true);
        }
        for lane in &mut self.lanes {
            if lane.reader.has_more().map_err(|bad| self.reach.corrupt(bad))? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// True if the reader took its place again after the last call.
    pub fn take_reopened(&mut self) -> bool {
        std::mem::take(&mut self.has_reopened)
    }

    /// Tells what was freed of a queue elsewhere; what was given is there again for the next reader.
    pub fn end(&mut self) -> Result<()> {
        self.tell_room()?;
        self.tell_heads(0)
    }
}
