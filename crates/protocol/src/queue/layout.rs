//! Parts of an array of queues, and their offsets in memory. Little-endian 64-bit words.
//!
//! ```text
//! array   line 0   magic | version | unit | length | depth | ports | overflow | count     written once by the maker
//!         line 1   bell of who waits for any of the queues
//!         board    a bit a queue that has something, and bits for words of those bits
//!         queues   `count` of them, one after another
//!
//! queue   line 0   bell of the reader | bell of writers without room | the reader's state | news
//!         heads    a word a lane: how far it was read                                     written by the reader
//!         lanes    a line a lane: tail | state | spilled | writer | tail to be | link     the tails are the writer's
//!         bytes    of each lane, in frames
//! ```
//!
//! The form stands in the array alone, so a queue whose memory is all zero is an empty queue. Making a million of them writes one line.
//! Positions count bytes since the lane was made, so they never repeat.
//!
//! A record begins with a word that commits it: its length and one more. If the rest up to the lane's end is empty, the word is all bits
//! but the highest. The highest bit says whether its lap is odd. The word after the last record is zero, or of an earlier lap. A reader
//! on the queue's host looks at these words alone; the tail is for all others, and follows.
//!
//! News counts the home's changes of states, spills and writers. A side that finds it unchanged need not look at the lanes' lines.

use crate::Error;
use crate::limits::{
    QUEUE_BLOCK_LEN_MAX, QUEUE_BLOCK_LEN_MIN, QUEUE_COUNT_MAX, QUEUE_DEPTH_MAX, QUEUE_LANE_LEN_MAX, QUEUE_PORT_COUNT_MAX,
    QUEUE_RECORD_LEN_MAX,
};
use serde::{Deserialize, Serialize};

/// Bytes of a cache line: what one side writes shares none with what another writes often.
pub const LINE_LEN: u64 = 64;
/// Bytes of a word.
pub const WORD_LEN: u64 = 8;
/// "hanaqueu" in memory order.
pub const MAGIC: u64 = u64::from_le_bytes(*b"hanaqueu");
/// Changes whenever anything in this file does that a word which was zero before would not tell.
pub const VERSION: u64 = 2;
/// In an array: the bell of who waits for any of its queues.
pub const SET_BELL_AT: u64 = LINE_LEN;
/// In an array: the board.
pub const BOARD_AT: u64 = LINE_LEN * 2;
/// Bits of a word of the board.
pub const BOARD_BITS: u64 = u64::BITS as u64;
/// In a queue: the bell of its reader.
pub const READER_BELL_AT: u64 = 0;
/// In a queue: the bell of writers that wait for room.
pub const ROOM_BELL_AT: u64 = WORD_LEN;
/// In a queue: the state of its reader, written by the home.
pub const READER_AT: u64 = WORD_LEN * 2;
/// In a queue: how often the home has changed what stands in the lanes' lines.
pub const NEWS_AT: u64 = WORD_LEN * 3;
/// In a queue: the first lane's head.
pub const HEADS_AT: u64 = LINE_LEN;
/// In a lane's line: the tail.
pub const TAIL_AT: u64 = 0;
/// In a lane's line: its state, written by the home.
pub const LANE_STATE_AT: u64 = WORD_LEN;
/// In a lane's line: how many of its units are in the spill, written by the home.
pub const SPILLED_AT: u64 = WORD_LEN * 2;
/// In a lane's line: the number of its writer, written by the home; 0 where there is none.
pub const WRITER_AT: u64 = WORD_LEN * 3;
/// In a lane's line: its link ([`super::link::LinkWord`]), written by the home and by the reader; 0 where there is none.
pub const LINK_AT: u64 = WORD_LEN * 5;
/// In a lane's line: the tail as it will be once the records that its writer publishes are committed.
pub const TAIL_TO_BE_AT: u64 = WORD_LEN * 4;

/// A unit of writing and reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Unit {
    /// Blocks of one length. **Source**: [VQ §3]. FEATURE: VQ-F1
    Blocks {
        /// Bytes of each.
        len: u32,
    },
    /// Records of any length up to a bound. **Source**: [D3 §3] IPUSH.
    Records {
        /// Bytes of the longest.
        len_max: u32,
    },
}

/// Treatment of a unit for which its lane has no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Overflow {
    /// The writer is told at once.
    Refuse = 0,
    /// The writer waits until the reader has made room.
    Wait = 1,
    /// The unit goes to other pool memory, and comes back in order. **Source**: [VQ §5]. FEATURE: VQ-F20
    Spill = 2,
}

/// Form of an array's queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct QueueForm {
    /// Blocks or records.
    pub unit: Unit,
    /// Units (of the greatest length) that a lane holds.
    pub depth: u32,
    /// Writers at once.
    pub ports: u32,
    /// Treatment of further units.
    pub overflow: Overflow,
}

impl QueueForm {
    /// Refuses what no queue can be. **Errors**: [`Error::BadSetting`].
    pub fn check(&self) -> Result<(), Error> {
        let bad = |key: &str, value: u64, reason: String| {
            Err(Error::BadSetting { key: key.to_owned(), value: value.to_string(), reason })
        };
        match self.unit {
            Unit::Blocks { len } if !(QUEUE_BLOCK_LEN_MIN..=QUEUE_BLOCK_LEN_MAX).contains(&len) => {
                return bad("block", len.into(), format!("blocks have {QUEUE_BLOCK_LEN_MIN} to {QUEUE_BLOCK_LEN_MAX} bytes"));
            }
            Unit::Records { len_max } if !(1..=QUEUE_RECORD_LEN_MAX).contains(&len_max) => {
                return bad("record", len_max.into(), format!("records have at most 1 to {QUEUE_RECORD_LEN_MAX} bytes"));
            }
            // The rest before the lane's end may be too short for a record that then goes to its start.
            Unit::Records { .. } if self.depth == 1 => return bad("depth", 1, "lanes of records hold at least two".to_owned()),
            _ => {}
        }
        if !(1..=QUEUE_DEPTH_MAX).contains(&self.depth) || self.lane_len() > QUEUE_LANE_LEN_MAX {
            let reason = format!("a lane has 1 to {QUEUE_DEPTH_MAX} units and at most {QUEUE_LANE_LEN_MAX} bytes");
            return bad("depth", self.depth.into(), reason);
        }
        if !(1..=QUEUE_PORT_COUNT_MAX).contains(&self.ports) {
            return bad("ports", self.ports.into(), format!("a queue has 1 to {QUEUE_PORT_COUNT_MAX} writers at once"));
        }
        Ok(())
    }

    /// Bytes that a unit of `len` takes in its lane. A block takes its own, a record also a length word, up to a word's border.
    pub fn frame_len(&self, len: u64) -> u64 {
        let word = if matches!(self.unit, Unit::Records { .. }) { WORD_LEN } else { 0 };
        len.saturating_add(word).next_multiple_of(WORD_LEN)
    }

    /// Bytes of the longest unit.
    pub fn unit_len_max(&self) -> u64 {
        match self.unit {
            Unit::Blocks { len } => len.into(),
            Unit::Records { len_max } => len_max.into(),
        }
    }

    /// Refuses a unit of another length than the queue takes. **Errors**: [`Error::BadBlock`].
    pub fn check_unit(&self, queue: &str, len: u64) -> Result<(), Error> {
        let (fits, limit) = match self.unit {
            Unit::Blocks { len: block } => (len == u64::from(block), block),
            Unit::Records { len_max } => (len <= u64::from(len_max), len_max),
        };
        if fits { Ok(()) } else { Err(Error::BadBlock { queue: queue.to_owned(), len, limit: limit.into() }) }
    }

    /// Bytes of a lane's frames.
    pub fn lane_len(&self) -> u64 {
        self.frame_len(self.unit_len_max()).saturating_mul(self.depth.into())
    }

    fn lane_stride(&self) -> u64 {
        self.lane_len().next_multiple_of(LINE_LEN)
    }

    fn heads_len(&self) -> u64 {
        u64::from(self.ports).saturating_mul(WORD_LEN).next_multiple_of(LINE_LEN)
    }

    /// In a queue: a lane's head.
    pub fn head_at(&self, lane: u32) -> u64 {
        HEADS_AT.saturating_add(u64::from(lane).saturating_mul(WORD_LEN))
    }

    /// In a queue: a lane's line.
    pub fn lane_at(&self, lane: u32) -> u64 {
        HEADS_AT.saturating_add(self.heads_len()).saturating_add(u64::from(lane).saturating_mul(LINE_LEN))
    }

    /// In a queue: a lane's bytes.
    pub fn bytes_at(&self, lane: u32) -> u64 {
        self.lane_at(self.ports).saturating_add(u64::from(lane).saturating_mul(self.lane_stride()))
    }

    /// Bytes of a queue.
    pub fn queue_len(&self) -> u64 {
        self.bytes_at(self.ports)
    }

    /// Words of each level of the board of `count` queues, the lowest first. The last level is one word.
    pub fn board(count: u64) -> Vec<u64> {
        let mut levels = vec![count.div_ceil(BOARD_BITS).max(1)];
        while let Some(words @ 2..) = levels.last().copied() {
            levels.push(words.div_ceil(BOARD_BITS));
        }
        levels
    }

    /// In an array of `count`: queue `index`.
    pub fn queue_at(&self, count: u64, index: u64) -> u64 {
        let board: u64 = QueueForm::board(count).iter().fold(0, |sum, words| sum.saturating_add(*words));
        let queues = BOARD_AT.saturating_add(board.saturating_mul(WORD_LEN)).next_multiple_of(LINE_LEN);
        queues.saturating_add(index.saturating_mul(self.queue_len()))
    }

    /// Bytes of an array of `count` queues. **Errors**: [`Error::BadSetting`] for a form or a number that cannot be.
    pub fn array_len(&self, count: u64) -> Result<u64, Error> {
        self.check()?;
        if !(1..=QUEUE_COUNT_MAX).contains(&count) {
            let reason = format!("an array has 1 to {QUEUE_COUNT_MAX} queues");
            return Err(Error::BadSetting { key: "count".to_owned(), value: count.to_string(), reason });
        }
        Ok(self.queue_at(count, count))
    }

    /// The first line of an array.
    pub fn encode(&self, count: u64) -> [u8; LINE_LEN as usize] {
        let (unit, len) = match self.unit {
            Unit::Blocks { len } => (0, len),
            Unit::Records { len_max } => (1, len_max),
        };
        let words = [MAGIC, VERSION, unit, len.into(), self.depth.into(), self.ports.into(), self.overflow as u64, count];
        let mut line = [0; LINE_LEN as usize];
        line.as_chunks_mut::<8>().0.iter_mut().zip(words).for_each(|(bytes, word)| *bytes = word.to_le_bytes());
        line
    }

    /// Reads the first line of an array: its form and its count. The line is input: any program that may write the region wrote it.
    pub fn decode(line: &[u8; LINE_LEN as usize]) -> Result<(QueueForm, u64), &'static str> {
        let mut words = [0; 8];
        line.as_chunks::<8>().0.iter().zip(&mut words).for_each(|(bytes, word)| *word = u64::from_le_bytes(*bytes));
        let [magic, version, unit, len, depth, ports, overflow, count] = words;
        if magic != MAGIC {
            return Err("no queue begins there");
        }
        if version != VERSION {
            return Err("another version of hanare made it");
        }
        let small = |word: u64| u32::try_from(word).map_err(|_| "its numbers make no sense");
        let unit = match unit {
            0 => Unit::Blocks { len: small(len)? },
            1 => Unit::Records { len_max: small(len)? },
            _ => return Err("it holds neither blocks nor records"),
        };
        let overflow = match overflow {
            0 => Overflow::Refuse,
            1 => Overflow::Wait,
            2 => Overflow::Spill,
            _ => return Err("its overflow is of no known kind"),
        };
        let form = QueueForm { unit, depth: small(depth)?, ports: small(ports)?, overflow };
        form.array_len(count).map_err(|_| "its numbers are beyond the limits")?;
        Ok((form, count))
    }
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "numbers of a test")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn form(unit: Unit, depth: u32, ports: u32) -> QueueForm {
        QueueForm { unit, depth, ports, overflow: Overflow::Wait }
    }

    #[test]
    fn an_idle_queue_of_one_writer_takes_at_most_256_bytes_beyond_its_blocks() {
        for (len, depth) in [(16, 4), (64, 1), (64, 64), (4096, 2)] {
            let form = form(Unit::Blocks { len }, depth, 1);
            assert!(form.queue_len() - form.lane_len() <= 256, "{form:?} takes {}", form.queue_len());
            let beyond = form.array_len(1 << 20).unwrap() - (u64::from(len * depth) << 20);
            assert!(beyond <= 256 << 20, "with its share of the board: {}", beyond >> 20);
        }
    }

    #[test]
    fn frames_of_blocks_begin_on_lines() {
        let form = form(Unit::Blocks { len: 64 }, 3, 5);
        for (queue, lane) in [(0, 0), (7, 4)] {
            assert!((form.queue_at(100, queue) + form.bytes_at(lane)).is_multiple_of(LINE_LEN));
        }
        assert_eq!(form.head_at(4) + WORD_LEN, form.lane_at(0) - 24, "5 heads fill a line but for 3 words");
    }

    #[test]
    fn a_board_ends_in_one_word() {
        assert_eq!(QueueForm::board(1), [1]);
        assert_eq!(QueueForm::board(64), [1]);
        assert_eq!(QueueForm::board(65), [2, 1]);
        assert_eq!(QueueForm::board(1_000_000), [15_625, 245, 4, 1]);
    }

    #[test]
    fn what_no_queue_can_be_is_refused() {
        let blocks = |len| Unit::Blocks { len };
        for bad in [
            form(blocks(15), 1, 1),
            form(blocks(4097), 1, 1),
            form(blocks(64), 0, 1),
            form(blocks(4096), QUEUE_DEPTH_MAX + 1, 1),
            form(blocks(64), 1, 0),
            form(blocks(64), 1, QUEUE_PORT_COUNT_MAX + 1),
            form(Unit::Records { len_max: 0 }, 2, 1),
            form(Unit::Records { len_max: 100 }, 1, 1),
            form(Unit::Records { len_max: QUEUE_RECORD_LEN_MAX }, QUEUE_DEPTH_MAX, 1),
        ] {
            assert!(bad.check().is_err(), "{bad:?}");
        }
        assert!(form(blocks(64), 1, 1).array_len(0).is_err());
    }

    proptest! {
        #[test]
        fn any_line_is_a_form_or_refused(words: [u64; 8], small in proptest::array::uniform8(0u64..70), whole: bool) {
            let mut line = [0; 64];
            let words = if whole { words } else { [MAGIC, VERSION, small[2] & 3, small[3], small[4], small[5], small[6] & 3, small[7]] };
            line.as_chunks_mut::<8>().0.iter_mut().zip(words).for_each(|(bytes, word)| *bytes = word.to_le_bytes());
            if let Ok((form, count)) = QueueForm::decode(&line) {
                prop_assert_eq!(form.encode(count), line);
                prop_assert!(form.array_len(count).is_ok());
            }
        }
    }
}
