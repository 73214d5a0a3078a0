//! A lane of a queue: units in shared memory from one writer to one reader, either of which may be followed by a successor.
//!
//! The writer claims room for a unit, fills it in place, and commits by storing the tail. The reader sees all units up to the tail where
//! they lie, and frees them by storing the head. A writer that dies at any step loses at most what it had not committed; a reader that
//! dies leaves what it had not freed to its successor. Neither store waits for anybody.
//!
//! [`crate::spsc`] is for two sides that end together. It has its lengths between its bytes, which saves a cache line where one record is
//! under way; a lane has its tail apart, so that blocks lie on lines of their own, are counted at once, and outlive both sides.
//!
//! Positions count bytes since the lane was made. What the memory says of positions and lengths is input: it is checked against the lane
//! before anything is done with it.

mod reader;
mod writer;

pub use reader::{Reader, Seen};
pub use writer::Writer;

use crate::layout::WORD_LEN;
use crate::spsc::Corrupt;
use hanare_protocol::queue::layout::{QueueForm, TAIL_AT, Unit};

/// In place of a record's length: the rest up to the lane's end is empty.
const PADDING: u64 = u64::MAX;

/// Where a lane lies in its words, and what its units are like.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    head: usize,
    tail: usize,
    bytes: usize,
    len: u64,
    unit: Unit,
}

impl Place {
    /// A lane of the queue that begins at byte `at` of the words.
    pub fn new(form: &QueueForm, at: u64, lane: u32) -> Place {
        let word = |offset: u64| (at + offset) as usize / WORD_LEN;
        let tail = word(form.lane_at(lane) + TAIL_AT);
        let bytes = (at + form.bytes_at(lane)) as usize;
        Place { head: word(form.head_at(lane)), tail, bytes, len: form.lane_len(), unit: form.unit }
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
}

#[cfg(test)]
mod tests;
