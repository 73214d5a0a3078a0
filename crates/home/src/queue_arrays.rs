//! Arrays of queues of one extent. Which are in use, by whom, and what a port's request does to their words.
//!
//! ```text
//! a request or an append ──> QueueArrays: the array that the memory shows ──> QueueArray ──┬─> the rules (`protocol::queue`)
//!                                                                                           └─> QueueWords: states shown, sides woken
//! ```
//!
//! Words lie in memory of programs, so each word that is read is input.

mod copied;
mod requests;

use crate::queue_words::{QueueMemory, QueueWords};
use hanare_protocol::id::Gid;
use hanare_protocol::limits::QUEUE_READY_COUNT_MAX;
use hanare_protocol::queue::home::{LaneState, ReaderState};
use hanare_protocol::queue::layout::{
    LANE_STATE_AT, LINE_LEN, LINK_AT, READER_AT, READER_BELL_AT, ROOM_BELL_AT, SET_BELL_AT, SPILLED_AT, TAIL_AT, WORD_LEN,
    WRITER_AT,
};
use hanare_protocol::queue::link::LinkWord;
use hanare_protocol::queue::{Appended, Home, PortId, QueueForm, Store};
use hanare_protocol::wire::Malformed;
use hanare_protocol::wire::queue::{AppendFront, units};
use hanare_protocol::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};

/// Arrays of queues of one extent that somebody uses, by their first byte.
///
/// - No two overlap, so the extent's length bounds what is kept of them.
#[derive(Debug)]
pub struct QueueArrays<S> {
    used: BTreeMap<u64, InUse<S>>,
    /// Arrays whose ports of the life before are forgotten, in an extent that was read back.
    cleared: Option<BTreeSet<u64>>,
}

/// An array as it was when somebody began to use it. Its first line is memory of its users, and may say something else later.
#[derive(Debug)]
struct InUse<S> {
    rules: Home<S>,
    count: u64,
    /// Its first byte after the end.
    end: u64,
}

impl<S> Default for QueueArrays<S> {
    fn default() -> QueueArrays<S> {
        QueueArrays { used: BTreeMap::new(), cleared: None }
    }
}

impl<S: Store> QueueArrays<S> {
    /// The arrays of an extent that was read back from the life before.
    pub fn restored() -> QueueArrays<S> {
        QueueArrays { cleared: Some(BTreeSet::new()), ..QueueArrays::default() }
    }

    /// True if arrays may have words of the life before, which their first use takes back.
    pub fn are_restored(&self) -> bool {
        self.cleared.is_some()
    }

    /// True if nobody has used an array.
    pub fn is_empty(&self) -> bool {
        self.used.is_empty()
    }

    /// All that is spilled: the first byte of the array, its queue, its lane, and the units.
    pub fn spills(&self) -> impl Iterator<Item = ((u64, u64, u32), &S)> {
        self.used.iter().flat_map(|(at, known)| known.rules.spills().map(|((queue, lane), spill)| ((*at, queue, lane), spill)))
    }

    /// Runs `with` on the array that begins at byte `at` of a region's extent.
    ///
    /// **Errors**: [`Error::NoQueue`] where none begins there; those of `with`.
    pub fn with<M: QueueMemory, T>(
        &mut self,
        (gid, at): (Gid, u64),
        memory: &M,
        with: impl FnOnce(&mut QueueArray<'_, M::Words>) -> Result<T>,
    ) -> Result<T>
    where
        M::Words: QueueWords<Store = S>,
    {
        let no_queue = |reason: &str| Error::NoQueue { region: gid.to_string(), offset: at, reason: reason.to_owned() };
        if !at.is_multiple_of(LINE_LEN) || memory.len_bytes() <= at.saturating_add(LINE_LEN) {
            return Err(no_queue("no array of queues begins there"));
        }
        let (form, count) = QueueForm::decode(&memory.line(at)?).map_err(no_queue)?;
        let len = form.array_len(count)?;
        if len > memory.len_bytes() - at {
            return Err(no_queue("it is longer than its region"));
        }
        let is_stale = self.cleared.as_mut().is_some_and(|cleared| cleared.insert(at));
        let rules = self.rules(gid, at, (form, count, len));
        let words = memory.words((at, len), form, count);
        if is_stale {
            clear_ports(&words, form, count);
        }
        let outcome = with(&mut QueueArray { rules, words, count, gid, at });
        if self.used.get(&at).is_some_and(|known| known.rules.is_idle()) {
            self.used.remove(&at);
        }
        outcome
    }

    /// The rules of the array that the memory shows. Whoever overwrites a queue in use has lost it, and what it spilled.
    fn rules(&mut self, gid: Gid, at: u64, (form, count, len): (QueueForm, u64, u64)) -> &mut Home<S> {
        let is_same = |known: &InUse<S>| known.rules.form() == form && known.count == count;
        if !self.used.get(&at).is_some_and(is_same) {
            let end = at.saturating_add(len);
            let first = self.used.range(..at).next_back().filter(|(_, before)| before.end > at).map_or(at, |(begin, _)| *begin);
            self.used.extract_if(first..end, |_, _| true).for_each(drop);
            self.used.insert(at, InUse { rules: Home::new(name_of(gid, at), form), count, end });
        }
        &mut self.used.get_mut(&at).expect("it is there").rules
    }
}

/// The name of an array in errors.
fn name_of(gid: Gid, at: u64) -> String {
    format!("{gid} at {at}")
}

/// A link of a lane that begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkBegin {
    /// Number of the array's link.
    pub generation: u32,
    /// Units of the writer that count.
    pub accepted: u64,
    /// The lane's tail.
    pub tail: u64,
}

/// An array in use, with its words.
#[derive(Debug)]
pub struct QueueArray<'a, W: QueueWords> {
    rules: &'a mut Home<W::Store>,
    words: W,
    count: u64,
    gid: Gid,
    at: u64,
}

impl<W: QueueWords> QueueArray<'_, W> {
    /// Its words.
    pub fn words(&self) -> &W {
        &self.words
    }

    /// A writer takes a lane. Returns its number, and how many units the home has of this writer.
    pub fn open_lane(&mut self, queue: u64, writer: PortId, uid: u32) -> Result<(u32, u64)> {
        self.check(queue)?;
        if let Some(lane) = self.rules.linked_lane(queue, writer) {
            self.unlink_lane(queue, lane, writer);
        }
        let (lane, accepted) = self.rules.open_lane(queue, writer, uid)?;
        // The link of a writer before.
        self.store(queue, self.rules.form().lane_at(lane) + LINK_AT, LinkWord::NONE.encode());
        self.show_lane(queue, lane);
        Ok((lane, accepted))
    }

    /// A writer whose connection broke goes on with its lane. Returns how many units the home has of it.
    pub fn resume_lane(&mut self, queue: u64, lane: u32, writer: PortId) -> Result<u64> {
        self.check(queue)?;
        self.unlink_lane(queue, lane, writer);
        let accepted = self.rules.resume_lane(queue, lane, writer)?;
        self.show_lane(queue, lane);
        Ok(accepted)
    }

    /// A writer is done with its lane.
    pub fn close_lane(&mut self, queue: u64, lane: u32, writer: PortId) {
        self.unlink_lane(queue, lane, writer);
        if self.rules.close_lane(queue, lane, writer) {
            self.show_lane(queue, lane);
        }
    }

    /// A writer's connection goes to the queue's reader: see [`Home::link_lane`]. `None` where that cannot be just now.
    pub fn link_lane(&mut self, queue: u64, lane: u32, writer: PortId) -> Result<Option<LinkBegin>> {
        self.check(queue)?;
        // The writer has given this link up.
        self.unlink_lane(queue, lane, writer);
        let Some((generation, accepted)) = self.rules.link_lane(queue, lane, writer) else { return Ok(None) };
        let line = self.rules.form().lane_at(lane);
        self.store(queue, line + LINK_AT, LinkWord { generation, count: 0 }.encode());
        Ok(Some(LinkBegin { generation, accepted, tail: self.load(queue, line + TAIL_AT) }))
    }

    /// Takes a writer's lane back from its link, if it has one: the reader takes nothing more from there.
    pub fn unlink_lane(&mut self, queue: u64, lane: u32, writer: PortId) {
        if self.rules.is_linked(queue, lane, writer) {
            let at = self.words.queue_at(queue) + self.rules.form().lane_at(lane) + LINK_AT;
            // ORDERING: one order with the reader's compare-and-swap, which fails from here on.
            let word = self.words.swap(at, LinkWord::NONE.encode());
            self.rules.fence_lane(queue, lane, LinkWord::decode(word));
        }
    }

    /// A connection was handed over: the reader looks.
    pub fn tell_link(&self, queue: u64) {
        self.words.tell_news(queue);
        self.words.tell_reader(queue);
    }

    /// Refuses who does not read the queue. **Errors**: [`Error::SecondReader`].
    pub fn check_reads(&self, queue: u64, reader: PortId) -> Result<()> {
        self.check_reader(queue, 0, reader)
    }

    /// A writer's connection ended: the reader learns of it when it has read what is left.
    pub fn break_lane(&mut self, queue: u64, lane: u32, writer: PortId) {
        if self.rules.break_lane(queue, lane, writer) {
            self.words.settle_tail(queue, lane);
            self.show_lane(queue, lane);
            self.words.tell_reader(queue);
            // The writer may have set the bell and died before it put the queue on the board.
            self.words.call_set(queue);
        }
    }

    /// A reader takes queues.
    pub fn open_reader(&mut self, first: u64, count: u64, reader: PortId) -> Result<()> {
        self.check(first)?;
        self.check(first.saturating_add(count.saturating_sub(1)))?;
        self.rules.open_reader(first, count, reader)?;
        self.show_reader(first, count, ReaderState::Held);
        Ok(())
    }

    /// A reader is done with its queues.
    pub fn close_reader(&mut self, first: u64, reader: PortId) {
        if let Some(count) = self.rules.close_reader(first, reader) {
            self.show_reader(first, count, ReaderState::Absent);
            self.leave_to_board(first, count);
        }
    }

    /// A reader's connection ended: writers that wait for room learn of it.
    pub fn break_reader(&mut self, first: u64, reader: PortId) {
        if let Some(count) = self.rules.break_reader(first, reader) {
            self.show_reader(first, count, ReaderState::Broken);
            if count == 1 {
                self.words.tell_writers(first);
            }
            self.leave_to_board(first, count);
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
        self.words.free_to(queue, lane, head)?;
        if self.rules.spilled(queue, lane) > 0 {
            let mut ring = self.words.lane(queue, lane)?;
            self.rules.refill(queue, lane, &mut ring)?;
            // The tail of what came back is there before the writer sees that nothing is spilled.
            self.show_lane(queue, lane);
            self.words.tell_reader(queue);
        }
        self.words.tell_writers(queue);
        Ok(())
    }

    /// Takes queues from the board, for the reader of all.
    pub fn take_ready(&mut self, reader: PortId) -> Result<Vec<u64>> {
        if !self.rules.reads(0, reader) || !self.rules.reads(self.count.saturating_sub(1), reader) {
            return Err(Error::SecondReader { queue: format!("all of {} at {}", self.gid, self.at) });
        }
        Ok(self.words.take_from_board(QUEUE_READY_COUNT_MAX))
    }

    /// The reader knows that a lane's writer is dead.
    pub fn tell(&mut self, (queue, lane): (u64, u32), reader: PortId) -> Result<()> {
        self.check_reader(queue, lane, reader)?;
        if self.rules.tell(queue, lane) {
            self.show_lane(queue, lane);
        }
        Ok(())
    }

    /// Appends units to a lane. Returns the lane's head, too.
    ///
    /// **Errors**: those of [`Home::append`]; [`Error::Garbage`] for an operand that is no append.
    pub fn append(&mut self, lane: u32, operand: &[u8]) -> Result<(Appended, u64)> {
        let garbage = |bad: Malformed| Error::Garbage { peer: "a writer".to_owned(), reason: bad.0.to_owned() };
        let (front, rest) = AppendFront::decode(operand).map_err(garbage)?;
        let units = units(rest, &self.rules.form()).map_err(garbage)?;
        let AppendFront { queue, writer, seq } = front;
        self.check(queue)?;
        if self.rules.lane(queue, lane) == LaneState::Free {
            return Err(Error::NotAWriter { queue: format!("{queue} of {} at {}", self.gid, self.at), lane });
        }
        self.unlink_lane(queue, lane, writer);
        let (mut ring, words) = (self.words.lane(queue, lane)?, &self.words);
        let appended = self.rules.append((queue, lane), (writer, seq), units.into_iter(), &mut ring, || words.spill())?;
        self.show_lane(queue, lane);
        self.words.tell_reader(queue);
        Ok((appended, self.load(queue, self.rules.form().head_at(lane))))
    }

    /// A unit that the life before had spilled for a user is so again, behind the others of its lane.
    ///
    /// **Errors**: [`Error::PoolFull`]; [`Error::NoQueue`] for a unit that the queue does not take.
    pub fn restore_spilled(&mut self, queue: u64, lane: u32, unit: (&[u8], u32)) -> Result<()> {
        self.check(queue)?;
        self.rules.form().check_unit("", unit.0.len() as u64)?;
        let words = &self.words;
        self.rules.restore_spilled((queue, lane), unit, || words.spill())?;
        self.show_lane(queue, lane);
        Ok(())
    }

    fn check(&self, queue: u64) -> Result<()> {
        if queue < self.count {
            return Ok(());
        }
        let reason = format!("queue {queue} of {}", self.count);
        Err(Error::NoQueue { region: self.gid.to_string(), offset: self.at, reason })
    }

    fn check_reader(&self, queue: u64, lane: u32, reader: PortId) -> Result<()> {
        self.check(queue)?;
        if lane < self.rules.form().ports && self.rules.reads(queue, reader) {
            return Ok(());
        }
        Err(Error::SecondReader { queue: format!("{queue} of {} at {}", self.gid, self.at) })
    }

    fn load(&self, queue: u64, at: u64) -> u64 {
        self.words.load(self.words.queue_at(queue) + at)
    }

    fn store(&self, queue: u64, at: u64, value: u64) {
        self.words.store(self.words.queue_at(queue) + at, value);
    }

    /// Ports of the node's host learn by the count of news that they have to look.
    fn show_lane(&self, queue: u64, lane: u32) {
        let line = self.rules.form().lane_at(lane);
        let shown = [
            (line + SPILLED_AT, self.rules.spilled(queue, lane)),
            (line + WRITER_AT, self.rules.writer(queue, lane)),
            (line + LANE_STATE_AT, self.rules.lane(queue, lane) as u64),
        ];
        let fresh = shown.into_iter().filter(|(at, value)| self.load(queue, *at) != *value);
        if fresh.map(|(at, value)| self.store(queue, at, value)).count() > 0 {
            self.words.tell_news(queue);
        }
    }

    /// Writers learn whether somebody reads. The state of many queues at once is shown for all of them together.
    fn show_reader(&self, first: u64, count: u64, state: ReaderState) {
        if count == 1 {
            self.store(first, READER_AT, state as u64);
        } else {
            self.words.store(SET_READER_AT, state as u64);
        }
    }

    /// The reader of one queue has gone, and left its bell as it was. The next may be one that learns of units from the board.
    fn leave_to_board(&self, first: u64, count: u64) {
        if count == 1 {
            self.words.hand_over(first);
            self.words.tell_reader(first);
        }
    }
}

/// In an array: the state of the reader of several queues.
const SET_READER_AT: u64 = SET_BELL_AT + WORD_LEN;

/// Takes back what the life before said of its ports: sleepers, writers and readers, and the count of spilled units.
///
/// **Cost**: a look at each queue.
fn clear_ports<W: QueueWords>(words: &W, form: QueueForm, count: u64) {
    let clear = |at: u64| {
        if words.load(at) != 0 {
            words.store(at, 0);
        }
    };
    [SET_BELL_AT, SET_READER_AT].into_iter().for_each(clear);
    for queue in 0..count {
        let first = words.queue_at(queue);
        [READER_BELL_AT, ROOM_BELL_AT, READER_AT].into_iter().for_each(|at| clear(first + at));
        for lane in 0..form.ports {
            let (head, line) = (first + form.head_at(lane), first + form.lane_at(lane));
            words.settle_tail(queue, lane);
            if words.load(line + TAIL_AT) != words.load(head) || words.load(line + SPILLED_AT) != 0 {
                words.put_on_board(queue);
            }
            [LANE_STATE_AT, SPILLED_AT, WRITER_AT, LINK_AT].into_iter().for_each(|at| clear(line + at));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::Bytes;
    use crate::vectors::{Vector, Vectors};
    use hanare_protocol::queue::{Overflow, Unit};

    const LEN: u64 = 1 << 16;
    const FORM: QueueForm = QueueForm { unit: Unit::Blocks { len: 16 }, depth: 2, ports: 2, overflow: Overflow::Wait };

    fn extent() -> Vector {
        Vectors::of(Gid(1), LEN as usize).1
    }

    #[test]
    fn arrays_that_overlap_are_not_kept_beside_each_other() {
        let extent = extent();
        for at in (0..LEN / 2).step_by(LINE_LEN as usize) {
            extent.write(at, &FORM.encode(4)).unwrap();
            extent.with_queues(at, |array| array.open_lane(0, PortId(at), 7)).unwrap();
            let breaks = extent.with_queues(at, |array| {
                array.break_lane(0, 0, PortId(at));
                Ok(())
            });
            breaks.unwrap();
        }
        let arrays = extent.queue_arrays();
        let most = LEN / 2 / FORM.array_len(4).unwrap() + 1;
        assert!(arrays.used.len() as u64 <= most, "{} of {most}", arrays.used.len());
        let overlap = arrays.used.iter().zip(arrays.used.keys().skip(1)).find(|((_, one), next)| one.end > **next);
        assert!(overlap.is_none());
    }

    #[test]
    fn an_array_that_leaves_its_extent_or_begins_between_lines_is_none() {
        let extent = extent();
        let count = (1..).find(|count| FORM.array_len(*count).unwrap() > LEN).unwrap();
        for (at, count) in [(0, count), (8, 1), (LEN, 1), (u64::MAX - 63, 1), (LEN - 64, 1)] {
            if at.saturating_add(64) <= LEN {
                extent.write(at, &FORM.encode(count)).unwrap();
            }
            let opened = extent.with_queues(at, |array| array.open_lane(0, PortId(1), 7));
            assert!(matches!(opened, Err(Error::NoQueue { .. })), "{count} at {at}: {opened:?}");
        }
    }
}
