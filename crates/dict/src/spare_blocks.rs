//! Blocks of this process that nobody links. A write that uses one saves two messages: one to take a block, one to give another back.
//!
//! A block may be written again at once: readers check that they read the right block.

use super::bucket::{At, GRANULE};

/// Number of blocks of each length that are kept.
const COUNT: usize = 2;

/// The blocks that are kept.
pub struct SpareBlocks {
    /// Blocks by granules.
    blocks: Vec<Vec<At>>,
    /// Bytes of them.
    len: u64,
    /// Most bytes of a block that is kept, and of all.
    block_len_max: u64,
    len_max: u64,
    /// Long blocks that others held when they were to be given back.
    pub held: Vec<At>,
}

impl SpareBlocks {
    pub fn new(block_len_max: u64, len_max: u64) -> SpareBlocks {
        SpareBlocks { blocks: Vec::new(), len: 0, block_len_max, len_max, held: Vec::new() }
    }

    fn of_len(&self, len: u64) -> &[At] {
        self.blocks.get(len.div_ceil(GRANULE) as usize).map_or(&[], Vec::as_slice)
    }

    /// The block that [`SpareBlocks::take`] gives.
    pub fn next(&self, len: u64) -> Option<At> {
        self.of_len(len).last().copied()
    }

    /// True if a block of that length would be kept.
    pub fn has_room(&self, len: u64) -> bool {
        len <= self.block_len_max && self.len + len <= self.len_max && self.of_len(len).len() < COUNT
    }

    /// Takes a block of that length.
    pub fn take(&mut self, len: u64) -> Option<At> {
        let granules = len.div_ceil(GRANULE);
        let at = self.blocks.get_mut(granules as usize)?.pop()?;
        self.len -= granules * GRANULE;
        Some(at)
    }

    /// Keeps a block, if there is room.
    pub fn keep(&mut self, at: At, len: u64) -> bool {
        let granules = len.div_ceil(GRANULE);
        if !self.has_room(granules * GRANULE) {
            return false;
        }
        if self.blocks.len() <= granules as usize {
            self.blocks.resize_with(granules as usize + 1, Vec::new);
        }
        self.blocks[granules as usize].push(at);
        self.len += granules * GRANULE;
        true
    }

    /// Takes all blocks but those that others held.
    pub fn take_all(&mut self) -> Vec<At> {
        self.len = 0;
        std::mem::take(&mut self.blocks).into_iter().flatten().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_blocks_of_a_length_are_kept_and_no_more_bytes_than_may_be() {
        let at = |place| At { segment: 0, place };
        let mut spare = SpareBlocks::new(256, 400);
        assert!(spare.keep(at(1), 60) && spare.keep(at(2), 64) && !spare.keep(at(3), 64), "two of one length");
        assert!(!spare.keep(at(4), 300), "too long");
        assert!(spare.keep(at(5), 256) && !spare.keep(at(6), 128), "all together too long");
        assert_eq!(
            (spare.next(1), spare.take(64), spare.take(60), spare.take(64)),
            (Some(at(2)), Some(at(2)), Some(at(1)), None)
        );
        assert!(spare.keep(at(6), 128));
        assert_eq!(spare.take_all(), [at(6), at(5)]);
        assert!(spare.keep(at(7), 256) && spare.take(9999).is_none());
    }
}
