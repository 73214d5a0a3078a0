//! A file's blocks.

use super::space::Run;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Runs of blocks by their place in a file. All other blocks are holes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blocks {
    by_place: BTreeMap<u64, Run>,
}

impl Blocks {
    /// The run that a block is in, from that block on; else the number of blocks of the hole there. At most `limit`.
    pub fn find(&self, block: u64, limit: u64) -> Result<Run, u64> {
        if let Some((first, run)) = self.by_place.range(..=block).next_back()
            && block - first < u64::from(run.count)
        {
            let limit = u32::try_from(limit).unwrap_or(u32::MAX);
            return Ok(run.part((block - first) as u32, limit));
        }
        Err(self.by_place.range(block..).next().map_or(limit, |(next, _)| (next - block).min(limit)))
    }

    /// Enters a run where a hole is; joins it with the one before where they lie one after another.
    pub fn insert(&mut self, block: u64, run: Run) {
        if let Some((first, before)) = self.by_place.range_mut(..block).next_back()
            && first + u64::from(before.count) == block
            && before.segment == run.segment
            && before.end() == u64::from(run.block)
            && let Some(count) = before.count.checked_add(run.count)
        {
            before.count = count;
            return;
        }
        self.by_place.insert(block, run);
    }

    /// Makes a hole of blocks `from .. to`. Returns the runs that were there, each with its place.
    pub fn cut(&mut self, from: u64, to: u64) -> Vec<(u64, Run)> {
        let begin = self.by_place.range(..=from).next_back().map_or(from, |(first, _)| *first);
        let touched: Vec<(u64, Run)> = self.by_place.range(begin..to.max(begin)).map(|(first, run)| (*first, *run)).collect();
        let mut holes = Vec::new();
        for (first, run) in touched {
            let end = first + u64::from(run.count);
            let (cut_from, cut_to) = (from.max(first), to.min(end));
            if cut_from >= cut_to {
                continue;
            }
            self.by_place.remove(&first);
            let (before, count) = ((cut_from - first) as u32, (cut_to - cut_from) as u32);
            if before > 0 {
                self.by_place.insert(first, run.part(0, before));
            }
            if cut_to < end {
                self.by_place.insert(cut_to, run.part(before + count, u32::MAX));
            }
            holes.push((cut_from, run.part(before, count)));
        }
        holes
    }

    /// All runs with their places, in order.
    pub fn iter(&self) -> impl Iterator<Item = (u64, Run)> + '_ {
        self.by_place.iter().map(|(place, run)| (*place, *run))
    }

    /// Number of blocks.
    pub fn count(&self) -> u64 {
        self.by_place.values().map(|run| u64::from(run.count)).sum()
    }

    /// True if all is a hole.
    pub fn is_empty(&self) -> bool {
        self.by_place.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The structure is a table of blocks, whatever is cut and inserted.
        #[test]
        fn it_is_a_table(steps in prop::collection::vec((any::<bool>(), 0u64..40, 1u32..12), 1..60)) {
            let (mut blocks, mut naive) = (Blocks::default(), vec![None; 64]);
            for (number, (inserts, from, count)) in steps.into_iter().enumerate() {
                let to = from + u64::from(count);
                let was: Vec<_> = (from..to).filter_map(|at| naive[at as usize].map(|block| (at, block))).collect();
                let cut = blocks.cut(from, to);
                let cut: Vec<_> = cut.iter().flat_map(|(at, run)| (0..run.count).map(move |k| (at + u64::from(k), (run.segment, run.block + k)))).collect();
                prop_assert_eq!(cut, was);
                naive[from as usize..to as usize].fill(None);
                if inserts {
                    let run = Run { segment: number as u32 % 2, block: from as u32, count };
                    blocks.insert(from, run);
                    (0..count).for_each(|k| naive[(from + u64::from(k)) as usize] = Some((run.segment, run.block + k)));
                }
                for at in 0..64u64 {
                    match blocks.find(at, 3) {
                        Ok(run) => (0..run.count).for_each(|k| assert_eq!(naive[(at + u64::from(k)) as usize], Some((run.segment, run.block + k)))),
                        Err(hole) => (at..(at + hole).min(64)).for_each(|at| assert_eq!(naive[at as usize], None)),
                    }
                }
                prop_assert_eq!(blocks.count(), naive.iter().flatten().count() as u64);
            }
        }
    }
}
