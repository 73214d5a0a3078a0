//! Many blocks at once: one message to each heap takes them, or gives them back.

use super::{At, Heaps, rounded};
use crate::Fault;
use hanare::{Error, HEAP_WISH_COUNT_MAX};
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::Ordering;

/// Blocks of a store that nobody links, in the hands of one call: it puts into them again, or gives them back at its end.
#[derive(Default)]
pub struct LooseBlocks {
    by_len: HashMap<u64, Vec<At>>,
}

impl LooseBlocks {
    /// Adds a block of `len` bytes; none where there is no block.
    pub fn add(&mut self, at: At, len: u64) {
        if at.place != 0 {
            self.by_len.entry(rounded(len)).or_default().push(at);
        }
    }

    fn take(&mut self, len: u64) -> Option<At> {
        self.by_len.get_mut(&rounded(len))?.pop()
    }
}

impl Heaps {
    /// Takes a block of each length in a store: first loose ones, then those that this program keeps, then others. `None` where no heap has
    /// room for it. Loose blocks of other lengths go back where that is needed.
    ///
    /// **Cost**: none or one message to each heap that is asked. **Errors**: the blocks are loose then.
    pub fn take_many(&self, lens: &[u64], loose: &mut LooseBlocks) -> Result<Vec<Option<At>>, Fault> {
        let mut taken: Vec<Option<At>> = lens.iter().map(|len| loose.take(*len).or_else(|| self.take_spare(*len))).collect();
        if taken.iter().all(Option::is_some) {
            return Ok(taken);
        }
        self.free_many(std::mem::take(loose));
        loop {
            if let Err(error) = self.take_missing(lens, &mut taken) {
                let each = taken.into_iter().zip(lens);
                each.for_each(|(at, len)| at.into_iter().for_each(|at| loose.add(at, *len)));
                return Err(error);
            }
            if taken.iter().all(Option::is_some) || !self.give_back() {
                return Ok(taken);
            }
        }
    }

    /// Asks the heaps, one after another, for the blocks that are missing.
    fn take_missing(&self, lens: &[u64], taken: &mut [Option<At>]) -> Result<(), Fault> {
        let (count, last) = (self.fixed.unwrap_or(0), self.last.load(Ordering::Relaxed));
        for number in (0..count).map(|step| (last + step) % count) {
            let segment = self.segment(number)?;
            let missing: Vec<usize> = (0..lens.len()).filter(|index| taken[*index].is_none()).collect();
            for some in missing.chunks(HEAP_WISH_COUNT_MAX) {
                let wanted: Vec<u64> = some.iter().map(|index| lens[*index]).collect();
                for (index, answer) in some.iter().zip(segment.region.heap().allocate_many(&wanted, 1)?) {
                    match answer {
                        Ok(offset) => taken[*index] = At::of_offset(number, offset),
                        Err(Error::HeapFull { .. } | Error::LimitReached { .. }) => {}
                        Err(error) => return Err(error.into()),
                    }
                }
            }
            if taken.iter().all(Option::is_some) {
                self.last.store(number, Ordering::Relaxed);
                return Ok(());
            }
        }
        Ok(())
    }

    /// Gives loose blocks back, or keeps them for writes of this program. **Cost**: none or one message to each heap.
    pub fn free_many(&self, loose: LooseBlocks) {
        let mut by_heap: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
        for (len, blocks) in loose.by_len {
            for at in blocks {
                if !self.kept().is_some_and(|mut kept| kept.keep(at, len)) {
                    by_heap.entry(at.segment).or_default().push(at.offset());
                }
            }
        }
        for (number, offsets) in by_heap {
            // A sweep was faster, or its node is lost: either way nobody has the blocks any more.
            let Ok(segment) = self.segment(number) else { continue };
            self.last.store(number, Ordering::Relaxed);
            for some in offsets.chunks(HEAP_WISH_COUNT_MAX) {
                if segment.region.heap().free_many(some).is_err() {
                    break;
                }
            }
        }
    }
}
