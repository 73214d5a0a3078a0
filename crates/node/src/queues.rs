//! QueueHomes in the extents of this node: drives [`hanare_protocol::queue::Home`] with the extent's memory and that of spilled units.
//!
//! Safety: windows are of an extent that its `Held` keeps alive.

use super::spill::{Spill, Spills};
use hanare_memory::Window;
use hanare_protocol::id::Gid;
use hanare_protocol::limits::QUEUE_READY_COUNT_MAX;
use hanare_protocol::queue::home::{LaneState, ReaderState};
use hanare_protocol::queue::layout::{
    LANE_STATE_AT, LINE_LEN, QueueForm, READER_AT, READER_BELL_AT, ROOM_BELL_AT, SET_BELL_AT, SPILLED_AT, TAIL_AT, WORD_LEN,
    WRITER_AT,
};
use hanare_protocol::queue::{Appended, Home, PortId, Ring};
use hanare_protocol::wire::Malformed;
use hanare_protocol::wire::queue::{AppendFront, units};
use hanare_protocol::{Error, Result};
use hanare_ring::array::Array;
use hanare_ring::{Corrupt, Shared, Words, lane};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Arrays of queues of one extent that somebody uses, by their first byte.
///
/// - No two overlap: so what is kept of them is bounded by the extent's length.
#[derive(Default)]
pub(crate) struct QueueHomes {
    used: BTreeMap<u64, InUse>,
    /// Of an extent that was read back: the arrays of which nothing is left that the life before said of its ports.
    cleared: Option<BTreeSet<u64>>,
}

/// An array as it was when somebody began to use it. Its first line is memory of its users, and may say something else later.
struct InUse {
    home: Home<Spill>,
    count: u64,
    /// Its first byte after the end.
    end: u64,
}

impl QueueHomes {
    /// Of an extent that was read back from the life before.
    pub fn restored() -> QueueHomes {
        QueueHomes { cleared: Some(BTreeSet::new()), ..QueueHomes::default() }
    }

    /// What is known of the array that the memory shows. Whoever overwrites a queue in use has lost it; what it spilled goes with it.
    fn home(&mut self, gid: Gid, at: u64, (form, count, len): (QueueForm, u64, u64)) -> &mut Home<Spill> {
        let is_same = |known: &InUse| known.home.form() == form && known.count == count;
        if !self.used.get(&at).is_some_and(is_same) {
            let end = at.saturating_add(len);
            let first = self.used.range(..at).next_back().filter(|(_, before)| before.end > at).map_or(at, |(begin, _)| *begin);
            self.used.extract_if(first..end, |_, _| true).for_each(drop);
            self.used.insert(at, InUse { home: Home::new(format!("{gid} at {at}"), form), count, end });
        }
        &mut self.used.get_mut(&at).expect("it is there").home
    }
}

/// What is done with a spilled unit: the first byte of its array, its queue, its lane, and its bytes with their user.
pub(crate) type SpilledUnit<'a> = dyn FnMut((u64, u64, u32), (&[u8], u32)) -> std::io::Result<()> + 'a;

impl QueueHomes {
    /// Calls `with` for each spilled unit. See [`super::held::Held::each_spilled`].
    pub fn each_spilled(&self, with: &mut SpilledUnit<'_>) -> std::io::Result<()> {
        for (at, known) in &self.used {
            for ((queue, lane), spill) in known.home.spills() {
                spill.each(|unit, uid| with((*at, queue, lane), (unit, uid)))?;
            }
        }
        Ok(())
    }

    /// Runs `with` on the array that begins at `at` of the extent.
    pub fn with<T>(
        &mut self,
        gid: Gid,
        at: u64,
        extent: Window,
        spills: &Arc<Spills>,
        with: impl FnOnce(&mut QueueHome<'_>) -> Result<T>,
    ) -> Result<T> {
        let no_queue = |reason: &str| Error::NoQueue { region: gid.to_string(), offset: at, reason: reason.to_owned() };
        if !at.is_multiple_of(LINE_LEN) || extent.len() as u64 <= at.saturating_add(LINE_LEN) {
            return Err(no_queue("no array of queues begins there"));
        }
        let mut line = [0; LINE_LEN as usize];
        let read = extent.slice(at as usize, line.len()).read_into(&mut line);
        read.map_err(|lost| Error::System { what: "reading a queue".to_owned(), reason: format!("{lost:?}") })?;
        let (form, count) = QueueForm::decode(&line).map_err(no_queue)?;
        let len = form.array_len(count)?;
        if len > extent.len() as u64 - at {
            return Err(no_queue("it is longer than its region"));
        }
        let is_stale = self.cleared.as_mut().is_some_and(|cleared| cleared.insert(at));
        let home = self.home(gid, at, (form, count, len));
        let array = Array::new(Shared::new(extent.slice(at as usize, len as usize)), form, count);
        if is_stale {
            clear_ports(&array, form, count);
        }
        let outcome = with(&mut QueueHome { home, array, count, spills, gid, at });
        if self.used.get(&at).is_some_and(|known| known.home.is_idle()) {
            self.used.remove(&at);
        }
        outcome
    }
}

/// An array in use, with its memory.
pub(crate) struct QueueHome<'a> {
    home: &'a mut Home<Spill>,
    array: Array<Shared>,
    count: u64,
    spills: &'a Arc<Spills>,
    gid: Gid,
    at: u64,
}

impl QueueHome<'_> {
    fn check(&self, queue: u64) -> Result<()> {
        if queue < self.count {
            return Ok(());
        }
        let reason = format!("queue {queue} of {}", self.count);
        Err(Error::NoQueue { region: self.gid.to_string(), offset: self.at, reason })
    }

    fn store(&self, queue: u64, at: u64, value: u64) {
        self.array.words().store(((self.array.queue_at(queue) + at) / WORD_LEN) as usize, value);
    }

    fn load(&self, queue: u64, at: u64) -> u64 {
        self.array.words().load(((self.array.queue_at(queue) + at) / WORD_LEN) as usize)
    }

    /// Ports of this host learn by the count of news that they have to look.
    fn show_lane(&self, queue: u64, lane: u32) {
        let line = self.home.form().lane_at(lane);
        let shown = [
            (line + SPILLED_AT, self.home.spilled(queue, lane)),
            (line + WRITER_AT, self.home.writer(queue, lane)),
            (line + LANE_STATE_AT, self.home.lane(queue, lane) as u64),
        ];
        let fresh = shown.into_iter().filter(|(at, value)| self.load(queue, *at) != *value);
        if fresh.map(|(at, value)| self.store(queue, at, value)).count() > 0 {
            self.array.tell_news(queue);
        }
    }

    /// Writers learn whether somebody reads. That of many queues at once is shown for all of them together.
    fn show_reader(&self, first: u64, count: u64, state: ReaderState) {
        if count == 1 {
            self.store(first, READER_AT, state as u64);
        } else {
            self.array.words().store(((SET_BELL_AT + WORD_LEN) / WORD_LEN) as usize, state as u64);
        }
    }

    pub fn open_lane(&mut self, queue: u64, writer: PortId, uid: u32) -> Result<(u32, u64)> {
        self.check(queue)?;
        let (lane, accepted) = self.home.open_lane(queue, writer, uid)?;
        self.show_lane(queue, lane);
        Ok((lane, accepted))
    }

    pub fn resume_lane(&mut self, queue: u64, lane: u32, writer: PortId) -> Result<u64> {
        self.check(queue)?;
        let accepted = self.home.resume_lane(queue, lane, writer)?;
        self.show_lane(queue, lane);
        Ok(accepted)
    }

    pub fn close_lane(&mut self, queue: u64, lane: u32, writer: PortId) {
        if self.home.close_lane(queue, lane, writer) {
            self.show_lane(queue, lane);
        }
    }

    /// A writer's connection ended: the reader learns of it when it has read what is left.
    pub fn break_lane(&mut self, queue: u64, lane: u32, writer: PortId) {
        if self.home.break_lane(queue, lane, writer) {
            self.array.place(queue, lane).settle_tail(self.array.words());
            self.show_lane(queue, lane);
            self.tell_reader(queue);
            let _ = self.array.wake(queue, self.array.call_set(queue));
        }
    }

    /// Wakes the reader. Who waits at this node is found after the turn, when it looks at its words.
    fn tell_reader(&self, queue: u64) {
        let _ = self.array.tell_reader(queue);
    }

    /// The same for writers without room.
    fn tell_writers(&self, queue: u64) {
        let _ = self.array.tell_writers(queue);
    }

    pub fn open_reader(&mut self, first: u64, count: u64, reader: PortId) -> Result<()> {
        self.check(first)?;
        self.check(first.saturating_add(count.saturating_sub(1)))?;
        self.home.open_reader(first, count, reader)?;
        self.show_reader(first, count, ReaderState::Held);
        Ok(())
    }

    pub fn close_reader(&mut self, first: u64, reader: PortId) {
        if let Some(count) = self.home.close_reader(first, reader) {
            self.show_reader(first, count, ReaderState::Absent);
            self.leave_to_board(first, count);
        }
    }

    /// A reader's connection ended: writers that wait for room learn of it.
    pub fn break_reader(&mut self, first: u64, reader: PortId) {
        if let Some(count) = self.home.break_reader(first, reader) {
            self.show_reader(first, count, ReaderState::Broken);
            if count == 1 {
                self.tell_writers(first);
            }
            self.leave_to_board(first, count);
        }
    }

    /// The reader of one queue has gone, and left its bell as it was: the next may be one that learns of units from the board.
    fn leave_to_board(&self, first: u64, count: u64) {
        if count == 1 {
            self.array.hand_over(first);
            self.tell_reader(first);
        }
    }

    /// The reader of all leaves a queue to the board.
    pub fn leave(&mut self, queue: u64, reader: PortId) -> Result<()> {
        self.check_reader(queue, 0, reader)?;
        self.leave_to_board(queue, 1);
        Ok(())
    }

    /// The reader has freed a lane up to `head`.
    pub fn free(&mut self, (queue, lane): (u64, u32), reader: PortId, head: u64) -> Result<()> {
        self.check_reader(queue, lane, reader)?;
        let mut reading =
            lane::Reader::new(*self.array.words(), self.array.place(queue, lane)).map_err(|bad| self.corrupt(bad))?;
        reading.free_to(head).map_err(|bad| self.corrupt(bad))?;
        if self.home.spilled(queue, lane) > 0 {
            let mut ring = self.ring(queue, lane)?;
            self.home.refill(queue, lane, &mut ring)?;
            // The tail of what came back is there before the writer sees that nothing is spilled.
            self.show_lane(queue, lane);
            self.tell_reader(queue);
        }
        self.tell_writers(queue);
        Ok(())
    }

    /// Queues on the board, for the reader of all.
    pub fn take_ready(&mut self, reader: PortId) -> Result<Vec<u64>> {
        if !self.home.reads(0, reader) || !self.home.reads(self.count.saturating_sub(1), reader) {
            return Err(Error::SecondReader { queue: format!("all of {} at {}", self.gid, self.at) });
        }
        let mut ready = Vec::with_capacity(QUEUE_READY_COUNT_MAX);
        self.array.board().take(QUEUE_READY_COUNT_MAX, &mut ready);
        Ok(ready)
    }

    pub fn tell(&mut self, (queue, lane): (u64, u32), reader: PortId) -> Result<()> {
        self.check_reader(queue, lane, reader)?;
        if self.home.tell(queue, lane) {
            self.show_lane(queue, lane);
        }
        Ok(())
    }

    fn check_reader(&self, queue: u64, lane: u32, reader: PortId) -> Result<()> {
        self.check(queue)?;
        if lane < self.home.form().ports && self.home.reads(queue, reader) {
            return Ok(());
        }
        Err(Error::SecondReader { queue: format!("{queue} of {} at {}", self.gid, self.at) })
    }

    /// Appends units to a lane; gives its head, too. **Errors**: those of [`Home::append`]; [`Error::Garbage`] for what is no append.
    pub fn append(&mut self, lane: u32, operand: &[u8]) -> Result<(Appended, u64)> {
        let garbage = |bad: Malformed| Error::Garbage { peer: "a writer".to_owned(), reason: bad.0.to_owned() };
        let (front, rest) = AppendFront::decode(operand).map_err(garbage)?;
        let units = units(rest, &self.home.form()).map_err(garbage)?;
        let AppendFront { queue, writer, seq } = front;
        self.check(queue)?;
        if self.home.lane(queue, lane) == LaneState::Free {
            return Err(Error::NotAWriter { queue: format!("{queue} of {} at {}", self.gid, self.at), lane });
        }
        let mut ring = self.ring(queue, lane)?;
        let spills = self.spills.clone();
        let store = || Spill::new(spills.clone());
        let appended = self.home.append((queue, lane), (writer, seq), units.into_iter(), &mut ring, store)?;
        self.show_lane(queue, lane);
        self.tell_reader(queue);
        let head = self.array.queue_at(queue) + self.home.form().head_at(lane);
        Ok((appended, self.array.words().load((head / WORD_LEN) as usize)))
    }

    /// A unit that the life before had spilled for a user is so again, behind the others of its lane.
    ///
    /// **Errors**: [`Error::PoolFull`]; [`Error::NoQueue`] for a unit that the queue does not take.
    pub fn restore_spilled(&mut self, queue: u64, lane: u32, (unit, uid): (&[u8], u32)) -> Result<()> {
        self.check(queue)?;
        self.home.form().check_unit("", unit.len() as u64)?;
        self.home.restore_spilled((queue, lane), (unit, uid), || Spill::new(self.spills.clone()))?;
        self.show_lane(queue, lane);
        Ok(())
    }

    fn ring(&self, queue: u64, lane: u32) -> Result<LaneMemory> {
        let writer = lane::Writer::new(*self.array.words(), self.array.place(queue, lane)).map_err(|bad| self.corrupt(bad))?;
        Ok(LaneMemory { writer, gid: self.gid, at: self.at })
    }

    fn corrupt(&self, bad: Corrupt) -> Error {
        corrupt(self.gid, self.at, bad)
    }
}

/// Takes back what the life before said of its ports: who sleeps, who writes and reads, and how much is spilled, which is said again for each
/// unit that was read back. Queues that have something are put on the board.
///
/// **Cost**: a look at each queue.
fn clear_ports(array: &Array<Shared>, form: QueueForm, count: u64) {
    let store = |at: u64| array.words().store((at / WORD_LEN) as usize, 0);
    let load = |at: u64| array.words().load((at / WORD_LEN) as usize);
    let clear = |at: u64| {
        if load(at) != 0 {
            store(at)
        }
    };
    [SET_BELL_AT, SET_BELL_AT + WORD_LEN].into_iter().for_each(clear);
    for queue in 0..count {
        let first = array.queue_at(queue);
        [READER_BELL_AT, ROOM_BELL_AT, READER_AT].into_iter().for_each(|at| clear(first + at));
        for lane in 0..form.ports {
            let (head, line) = (first + form.head_at(lane), first + form.lane_at(lane));
            array.place(queue, lane).settle_tail(array.words());
            if load(line + TAIL_AT) != load(head) || load(line + SPILLED_AT) != 0 {
                array.board().set(queue);
            }
            [LANE_STATE_AT, SPILLED_AT, WRITER_AT].into_iter().for_each(|at| clear(line + at));
        }
    }
}

fn corrupt(gid: Gid, at: u64, bad: Corrupt) -> Error {
    Error::NoQueue { region: gid.to_string(), offset: at, reason: bad.to_string() }
}

struct LaneMemory {
    writer: lane::Writer<Shared>,
    gid: Gid,
    at: u64,
}

impl Ring for LaneMemory {
    fn push(&mut self, unit: &[u8]) -> Result<bool> {
        self.writer.push(unit).map_err(|bad| corrupt(self.gid, self.at, bad))
    }
}

#[cfg(test)]
mod tests;
