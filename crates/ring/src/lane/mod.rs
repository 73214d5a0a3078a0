//! A lane of a queue: units in shared memory from one writer to one reader. Either may have a successor.
//!
//! The writer claims room for a unit, fills it in place, and commits. The reader sees committed units where they lie, and frees them by
//! storing the head. A writer that dies at any step loses at most its uncommitted units. A reader that dies leaves its unfreed units to
//! its successor. Neither waits for anybody.
//!
//! Blocks are committed by the tail's store, so they lie on lines of their own and are counted at once. A record is committed by its length
//! word, which is all that its reader looks at. A short one costs the transfer of one line. The tail follows it, for the lane's next writer
//! and for readers of other hosts.
//!
//! ```text
//! writer of records:  claim: word behind the record := 0;  fill;  publish: tail to be;  word of the first that was kept;  tail
//! ```
//!
//! The word behind the last record is zero, because that place may hold bytes of an earlier lap. In a full lane it is the word of the first
//! record, whose lap tells it from a fresh one. A writer that dies between the word and the tail has committed. The tail is the one that
//! was to be then ([`LaneLayout::tail`]).
//!
//! [`crate::spsc`] is for two sides that end together; a lane outlives both.
//!
//! Positions count bytes since the lane was made. Positions and lengths in the memory are input: they are checked against the lane before
//! they are used.

mod reader;
mod writer;

pub use reader::{Reader, Seen};
pub use writer::Writer;

use crate::Corrupt;
use crate::layout::WORD_LEN;
use crate::words::Words;
use hanare_protocol::queue::layout::{QueueForm, TAIL_AT, TAIL_TO_BE_AT, Unit};

/// In a record's word: set if its position is in an odd lap.
const LAP: u64 = 1 << 63;
/// In place of a record's length plus 1: nothing was committed there, in either lap.
const NOTHING: u64 = 0;
/// In its place: the rest up to the lane's end is empty.
const PADDING: u64 = LAP - 1;

/// Offsets of a lane in its words, and the form of its units.
#[derive(Clone, Copy, Debug)]
pub struct LaneLayout {
    head: usize,
    tail: usize,
    tail_to_be: usize,
    bytes: usize,
    len: u64,
    unit: Unit,
}

/// A position of a lane, counted from the lane's begin.
#[derive(Clone, Copy, Debug)]
struct LanePosition {
    offset: u64,
    /// [`LAP`] in an odd lap, else 0.
    lap: u64,
}

/// A record that was committed, by its word.
#[derive(Clone, Copy, Debug)]
struct Committed {
    /// Position of its word.
    position: LanePosition,
    len: usize,
    /// Bytes of its frame, and of the padding before it.
    frame: u64,
    padding: u64,
}

impl LaneLayout {
    /// A lane of the queue that begins at byte `at` of the words.
    pub fn new(form: &QueueForm, at: u64, lane: u32) -> LaneLayout {
        let word = |offset: u64| (at + offset) as usize / WORD_LEN;
        let [tail, tail_to_be] = [TAIL_AT, TAIL_TO_BE_AT].map(|at| word(form.lane_at(lane) + at));
        let bytes = (at + form.bytes_at(lane)) as usize;
        LaneLayout { head: word(form.head_at(lane)), tail, tail_to_be, bytes, len: form.lane_len(), unit: form.unit }
    }

    /// Bytes from the head to the tail, if they can be a lane's.
    fn used(&self, head: u64, tail: u64) -> Result<u64, Corrupt> {
        let step = match self.unit {
            Unit::Blocks { len } => u64::from(len).next_multiple_of(WORD_LEN as u64),
            Unit::Records { .. } => WORD_LEN as u64,
        };
        let used = tail.wrapping_sub(head);
        let is_sound = used <= self.len && used.is_multiple_of(step) && (head % self.len).is_multiple_of(step);
        if is_sound { Ok(used) } else { Err(Corrupt("a lane whose head and tail belong to no lane")) }
    }

    /// The word of a record at byte `offset` from the lane's begin.
    #[inline]
    fn word(&self, offset: u64) -> usize {
        (self.bytes + offset as usize) / WORD_LEN
    }

    #[inline]
    fn position(&self, byte: u64) -> LanePosition {
        LanePosition { offset: byte % self.len, lap: if (byte / self.len).is_multiple_of(2) { 0 } else { LAP } }
    }

    /// The position `taken` bytes further on, at most a lap.
    #[inline]
    fn behind(&self, position: LanePosition, taken: u64) -> LanePosition {
        let offset = position.offset + taken;
        if offset >= self.len {
            LanePosition { offset: offset - self.len, lap: position.lap ^ LAP }
        } else {
            LanePosition { offset, ..position }
        }
    }

    /// Value at a position in place of a record's length plus 1.
    #[inline]
    fn load(&self, words: &impl Words, position: LanePosition) -> u64 {
        let word = words.load(self.word(position.offset));
        if word & LAP == position.lap { word & !LAP } else { NOTHING }
    }

    /// The record whose word is at that position, or behind padding there; `None` where none was committed. **Errors**: [`Corrupt`] for a
    /// word that makes no sense.
    #[inline]
    fn record(&self, words: &impl Words, mut position: LanePosition, len_max: u32) -> Result<Option<Committed>, Corrupt> {
        // ORDERING: pairs with the store in `Writer::publish`: the records' bytes are visible before the first of their words.
        let (mut word, mut padding) = (self.load(words, position), 0);
        if word == NOTHING {
            return Ok(None);
        }
        if word == PADDING && position.offset != 0 {
            padding = self.len - position.offset;
            position = self.behind(position, padding);
            word = self.load(words, position);
        }
        let frame = word.saturating_add(2 * WORD_LEN as u64 - 2) / WORD_LEN as u64 * WORD_LEN as u64;
        if word == NOTHING || word - 1 > u64::from(len_max) || frame > self.len - position.offset {
            return Err(Corrupt("a record that leaves its lane"));
        }
        Ok(Some(Committed { position, len: (word - 1) as usize, frame, padding }))
    }

    /// Position where the lane's next writer begins. It is the tail, or the end of records that a writer committed and did not live to
    /// count there.
    ///
    /// For the lane's writer, or for a caller that has found the writer gone.
    pub fn tail(&self, words: &impl Words) -> u64 {
        let tail = words.load(self.tail);
        let Unit::Records { .. } = self.unit else { return tail };
        let to_be = words.load(self.tail_to_be);
        let published = to_be.wrapping_sub(tail);
        let is_sound = published <= self.len && [tail, published].iter().all(|at| at.is_multiple_of(WORD_LEN as u64));
        let is_committed = is_sound && published > 0 && self.load(words, self.position(tail)) != NOTHING;
        if is_committed { to_be } else { tail }
    }

    /// Counts in the tail all that the lane's last writer has committed. For the lane's home, which has found that writer gone.
    pub fn settle_tail(&self, words: &impl Words) {
        let tail = self.tail(words);
        if tail != words.load(self.tail) {
            words.store(self.tail, tail);
        }
    }
}

#[cfg(test)]
mod tests;
