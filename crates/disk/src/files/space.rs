//! Blocks: which are free, reserved by a mount, or waiting until nobody can still use them.

use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashSet, VecDeque};

/// Bytes of a block: a page, so that a mapped page is of one file.
pub const BLOCK_LEN: u64 = 4096;

/// Blocks that lie one after another in a data region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// The region's number in this file system.
    pub segment: u32,
    /// First block.
    pub block: u32,
    /// Their number, at least one.
    pub count: u32,
}

impl Run {
    /// The block behind the last.
    pub fn end(self) -> u64 {
        u64::from(self.block) + u64::from(self.count)
    }

    /// The part that begins `skip` blocks later, at most `count` long. Both lie inside.
    pub fn part(self, skip: u32, count: u32) -> Run {
        Run { block: self.block + skip, count: count.min(self.count - skip), ..self }
    }
}

/// A set of blocks, kept as runs that never touch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Runs {
    by_start: BTreeMap<(u32, u32), u32>,
}

impl Runs {
    /// Adds blocks. None of them may be in it: `false` then, and nothing is added.
    pub fn add(&mut self, run: Run) -> bool {
        let Run { segment, mut block, mut count } = run;
        if count == 0 || run.end() > u64::from(u32::MAX) {
            return false;
        }
        let before = self.by_start.range(..=(segment, block)).next_back().map(|(at, count)| (*at, *count));
        let after = self.by_start.range((segment, block)..).next().map(|(at, count)| (*at, *count));
        let before = before.filter(|((of, _), _)| *of == segment);
        let after = after.filter(|((of, _), _)| *of == segment);
        if before.is_some_and(|((_, at), len)| u64::from(at) + u64::from(len) > u64::from(block))
            || after.is_some_and(|((_, at), _)| u64::from(at) < run.end())
        {
            return false;
        }
        if let Some(((_, at), len)) = after
            && u64::from(at) == run.end()
        {
            self.by_start.remove(&(segment, at));
            count += len;
        }
        if let Some(((_, at), len)) = before
            && at + len == block
        {
            (block, count) = (at, count + len);
        }
        self.by_start.insert((segment, block), count);
        true
    }

    /// True if all of these blocks are in it.
    pub fn holds(&self, run: Run) -> bool {
        self.around(run).is_some()
    }

    /// Takes blocks out; `false` where one of them is not in it, and nothing is taken.
    pub fn take(&mut self, run: Run) -> bool {
        let Some(whole) = self.around(run) else { return false };
        self.by_start.remove(&(whole.segment, whole.block));
        if whole.block < run.block {
            self.by_start.insert((whole.segment, whole.block), run.block - whole.block);
        }
        if run.end() < whole.end() {
            self.by_start.insert((run.segment, run.end() as u32), (whole.end() - run.end()) as u32);
        }
        true
    }

    /// Takes several runs out, or none: `false` where one of them is not in it, or twice in the list.
    pub fn take_all(&mut self, runs: &[Run]) -> bool {
        let taken = runs.iter().take_while(|run| self.take(**run)).count();
        if taken < runs.len() {
            for run in &runs[..taken] {
                self.add(*run);
            }
        }
        taken == runs.len()
    }

    /// The run that these blocks are in.
    fn around(&self, run: Run) -> Option<Run> {
        let ((segment, block), count) = self.by_start.range(..=(run.segment, run.block)).next_back()?;
        let whole = Run { segment: *segment, block: *block, count: *count };
        (run.count > 0 && whole.segment == run.segment && whole.end() >= run.end()).then_some(whole)
    }

    /// All of it, in order.
    pub fn iter(&self) -> impl Iterator<Item = Run> + '_ {
        self.by_start.iter().map(|((segment, block), count)| Run { segment: *segment, block: *block, count: *count })
    }

    /// Runs of one data region.
    pub fn of(&self, segment: u32) -> impl Iterator<Item = Run> + '_ {
        let range = self.by_start.range((segment, 0)..=(segment, u32::MAX));
        range.map(|((segment, block), count)| Run { segment: *segment, block: *block, count: *count })
    }

    /// Number of blocks.
    pub fn count(&self) -> u64 {
        self.by_start.values().map(|count| u64::from(*count)).sum()
    }
}

/// A data region.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Segment {
    /// Placement of its bytes in written form: files with that placement get blocks of it.
    pub key: String,
    /// Its length in blocks.
    pub blocks: u32,
}

/// All blocks that are in no file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Space {
    /// The data regions by number.
    pub segments: BTreeMap<u32, Segment>,
    /// The number of the next.
    pub next: u32,
    /// Blocks that anybody may reserve.
    pub free: Runs,
    /// Blocks that a file lost, with the position of the loss. Mounts that have not come so far may still use them.
    limbo: VecDeque<(u64, Run)>,
}

impl Space {
    /// A new data region of a number that was given, all free.
    pub fn grow(&mut self, segment: u32, key: &str, blocks: u32) -> bool {
        if blocks == 0 || self.segments.contains_key(&segment) || !self.free.add(Run { segment, block: 0, count: blocks }) {
            return false;
        }
        self.segments.insert(segment, Segment { key: key.to_owned(), blocks });
        true
    }

    /// True if all blocks of a data region are free.
    pub fn is_free(&self, segment: u32) -> bool {
        let blocks = self.segments.get(&segment).map_or(0, |segment| segment.blocks);
        blocks > 0 && self.free.holds(Run { segment, block: 0, count: blocks })
    }

    /// Forgets a data region that is all free.
    pub fn shrink(&mut self, segment: u32) -> bool {
        let Some(blocks) = self.segments.get(&segment).map(|segment| segment.blocks) else { return false };
        let taken = self.free.take(Run { segment, block: 0, count: blocks });
        if taken {
            self.segments.remove(&segment);
        }
        taken
    }

    /// Up to `blocks` free blocks of regions with that key, in order. Regions in `gone` are left out.
    pub fn find(&self, key: &str, blocks: u32, gone: &HashSet<u32>) -> Vec<Run> {
        let mut left = blocks;
        let mut found = Vec::new();
        for (segment, _) in self.segments.iter().filter(|(number, segment)| segment.key == key && !gone.contains(number)) {
            for run in self.free.of(*segment) {
                if left == 0 {
                    return found;
                }
                let part = run.part(0, left);
                left -= part.count;
                found.push(part);
            }
        }
        found
    }

    /// Records blocks that a file lost at `position`.
    pub fn retire(&mut self, position: u64, run: Run) {
        self.limbo.push_back((position, run));
    }

    /// Frees those retired before `upto`.
    pub fn reclaim(&mut self, upto: u64) {
        while let Some((position, run)) = self.limbo.front().copied() {
            if position >= upto {
                break;
            }
            self.limbo.pop_front();
            self.free.add(run);
        }
    }

    /// The position of the oldest that waits.
    pub fn oldest(&self) -> Option<u64> {
        self.limbo.front().map(|(position, _)| *position)
    }

    /// Blocks that wait.
    pub fn limbo(&self) -> impl Iterator<Item = Run> + '_ {
        self.limbo.iter().map(|(_, run)| *run)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn blocks(run: Run) -> impl Iterator<Item = (u32, u32)> {
        (run.block..run.block + run.count).map(move |block| (run.segment, block))
    }

    proptest! {
        /// Runs are a set of blocks, whatever is added and taken.
        #[test]
        fn runs_are_a_set(steps in prop::collection::vec((any::<bool>(), 0u32..2, 0u32..40, 0u32..12), 1..60)) {
            let (mut runs, mut naive) = (Runs::default(), BTreeSet::new());
            for (adds, segment, block, count) in steps {
                let run = Run { segment, block, count };
                if adds {
                    let fits = count > 0 && blocks(run).all(|block| !naive.contains(&block));
                    prop_assert_eq!(runs.add(run), fits);
                    if fits { naive.extend(blocks(run)); }
                } else {
                    let fits = count > 0 && blocks(run).all(|block| naive.contains(&block));
                    prop_assert_eq!(runs.holds(run), fits);
                    prop_assert_eq!(runs.take(run), fits);
                    if fits { naive.retain(|at| blocks(run).all(|block| block != *at)); }
                }
                prop_assert_eq!(runs.iter().flat_map(blocks).collect::<BTreeSet<_>>(), naive.clone());
                let all: Vec<Run> = runs.iter().collect();
                prop_assert!(all.windows(2).all(|two| two[0].segment < two[1].segment || two[0].end() < u64::from(two[1].block)));
            }
        }
    }

    #[test]
    fn what_a_file_had_is_free_only_when_all_have_come_past_it() {
        let mut space = Space::default();
        assert!(space.grow(0, "node=0", 8) && !space.grow(0, "node=0", 8));
        let [run] = space.find("node=0", 3, &HashSet::new())[..] else { panic!("one run") };
        assert!(space.free.take(run) && !space.is_free(0) && !space.shrink(0));
        space.retire(5, run);
        space.reclaim(5);
        assert_eq!((space.free.count(), space.limbo().collect::<Vec<_>>(), space.oldest()), (5, vec![run], Some(5)));
        space.reclaim(6);
        assert!(space.is_free(0) && space.shrink(0));
        assert_eq!(space.find("node=0", 1, &HashSet::new()), vec![]);
    }
}
