//! The judge's account of a block: what was answered stays, and what is said not to be done never comes.

use super::super::words::word_at;
use crate::check::{Check, check};
use crate::cluster::memory::SimExtent;
use std::collections::BTreeSet;

/// Words of a block, and bytes of a word, which has the version that wrote it.
pub(super) const WORD_COUNT: usize = 24;
pub(super) const WORD_LEN: u64 = 8;
/// Bytes from a word of the region to a line's block, and from that to its second one.
const BEHIND_WORD: u64 = 4096;

/// First byte of a line's block.
pub(super) fn block_at(line: usize, which: usize) -> u64 {
    word_at(line) + BEHIND_WORD * (1 + which as u64)
}

/// The words that a message writes to one of its line's blocks.
#[derive(Clone, Debug)]
pub(super) struct BlockWrite {
    pub which: usize,
    pub words: Vec<usize>,
    pub version: u64,
}

/// The judge's account of a block.
#[derive(Debug, Default)]
pub(super) struct BlockLog {
    /// The newest version that was answered, of each word.
    floors: [u64; WORD_COUNT],
    /// Versions that were said not to be written.
    undone: BTreeSet<u64>,
}

impl BlockLog {
    /// A write was answered, or a node says that it was done.
    pub fn on_done(&mut self, write: &BlockWrite) {
        write.words.iter().for_each(|word| self.floors[*word] = self.floors[*word].max(write.version));
    }

    /// A node says that nothing of a write was done.
    pub fn on_undone(&mut self, write: &BlockWrite) {
        self.undone.insert(write.version);
    }

    /// The newest version that was answered, of these words.
    pub fn floors_of(&self, words: &[usize]) -> Vec<u64> {
        words.iter().map(|word| self.floors[*word]).collect()
    }

    /// Checks a version that somebody has seen in a word where that one was answered before.
    pub fn check_word(&self, word: usize, version: u64, floor: u64) -> Check {
        check(version >= floor, || format!("word {word} has version {version}, and {floor} was answered"))?;
        check(!self.undone.contains(&version), || format!("word {word} has version {version}, which was said not to be done"))
    }

    /// Checks what a holder has.
    pub fn judge(&self, line: usize, which: usize, extent: &SimExtent) -> Check {
        let words = self.floors.iter().enumerate();
        let mut words = words.map(|(word, floor)| (word, extent.word(block_at(line, which) + WORD_LEN * word as u64), *floor));
        words.try_for_each(|(word, version, floor)| self.check_word(word, version, floor))
    }
}
