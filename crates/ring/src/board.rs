//! The board of an array of queues: finds the queues that have something, at a cost of those alone.
//!
//! A bit a queue; above it a bit for each word of bits, and so on up to one word. A writer sets the bits above a queue's bit after it.
//! A reader goes from the top down, and takes each word whole. A bit that is set while the board is read is found then or the next time.

use crate::layout::WORD_LEN;
use crate::words::Exchange;
use hanare_protocol::queue::layout::{BOARD_AT, BOARD_BITS, QueueForm};

/// The board of an array.
#[derive(Clone, Debug)]
pub struct Board<W> {
    words: W,
    /// First word of each level, the lowest first.
    levels: Vec<usize>,
    count: u64,
}

impl<W: Exchange> Board<W> {
    /// The board of an array of `count` queues which begins at byte `at` of the words.
    pub fn new(words: W, at: u64, count: u64) -> Board<W> {
        let mut first = (at + BOARD_AT) as usize / WORD_LEN;
        let level = |words: u64| {
            first += words as usize;
            first - words as usize
        };
        let levels = QueueForm::board(count).into_iter().map(level).collect();
        Board { words, levels, count }
    }

    fn set_bits(&self, word: usize, bits: u64) {
        let mut old = self.words.load(word);
        while old & bits != bits {
            match self.words.compare_exchange(word, old, old | bits) {
                Ok(_) => return,
                Err(found) => old = found,
            }
        }
    }

    /// Notes that a queue has something. **Cost**: an atomic instruction a level, of which there are one to four.
    pub fn set(&self, queue: u64) {
        let mut index = queue;
        for first in &self.levels {
            self.set_bits(first + (index / BOARD_BITS) as usize, 1 << (index % BOARD_BITS));
            index /= BOARD_BITS;
        }
    }

    /// Takes at most `most` queues that have something; the others stay. **Cost**: one word where none has; else a swap a word that is set.
    pub fn take(&self, most: usize, into: &mut Vec<u64>) {
        self.take_word(self.levels.len() - 1, 0, most, into);
    }

    fn take_word(&self, level: usize, index: u64, most: usize, into: &mut Vec<u64>) {
        let word = self.levels[level] + index as usize;
        if self.words.load(word) == 0 {
            return;
        }
        let mut bits = self.words.swap(word, 0);
        while bits != 0 {
            if into.len() >= most {
                // The word above was taken too, and whoever took it puts its bit back.
                return self.set_bits(word, bits);
            }
            let below = index * BOARD_BITS + u64::from(bits.trailing_zeros());
            // Bits beyond the last queue are nobody's: any program that may write the region may have set them.
            match level {
                0 if below < self.count => into.push(below),
                0 => {}
                _ if below < self.words_at(level - 1) => self.take_word(level - 1, below, most, into),
                _ => {}
            }
            // A word that was not emptied keeps its bit.
            if level == 0 || into.len() < most {
                bits &= bits - 1;
            }
        }
    }

    fn words_at(&self, level: usize) -> u64 {
        (self.levels[level + 1] - self.levels[level]) as u64
    }
}
