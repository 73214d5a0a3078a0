//! A file that this mount has open, or changed and not yet told the others of.

use super::blocks::Blocks;
use super::record::{Ino, Stamp};
use super::space::{BLOCK_LEN, Run};
use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Instant;

/// A file.
pub struct Open {
    /// Its number.
    pub ino: Ino,
    pending: RwLock<Pending>,
}

/// Writes that are not in the log. The bytes themselves are in the pool already: nothing of them is lost for want of room.
#[derive(Default)]
pub struct Pending {
    /// Number of its open handles.
    pub handles: u64,
    /// True if the log knows that this mount has it open though it has no name.
    pub is_held: bool,
    /// The length that writes made, if any did.
    pub size: Option<u64>,
    /// When it was last written.
    pub time: Option<Stamp>,
    /// Since when it waits.
    pub since: Option<Instant>,
    /// Blocks that take a hole's place.
    pub fresh: Blocks,
    /// The placement that they were taken for.
    pub key: String,
    /// For those that were not written whole, what was: another mount may fill the same hole.
    pub partial: BTreeMap<u64, Vec<(u64, u64)>>,
    /// Position of the change that the kernel's cached pages show.
    pub cached: Option<u64>,
    /// True if writes could not be told to the others: said once, at the next flush.
    pub is_broken: bool,
}

impl Open {
    /// Open nowhere yet.
    pub fn new(ino: Ino) -> Open {
        Open { ino, pending: RwLock::default() }
    }

    /// For reading.
    pub fn read(&self) -> RwLockReadGuard<'_, Pending> {
        self.pending.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// For writing, if nobody else uses it at the moment.
    pub fn try_write(&self) -> Option<RwLockWriteGuard<'_, Pending>> {
        self.pending.try_write().ok()
    }

    /// For writing.
    pub fn write(&self) -> RwLockWriteGuard<'_, Pending> {
        self.pending.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pending {
    /// True if there are writes to tell.
    pub fn is_dirty(&self) -> bool {
        self.time.is_some()
    }

    /// Bytes `from .. to` of the file were written.
    pub fn note(&mut self, from: u64, to: u64) {
        self.size = Some(self.size.unwrap_or(0).max(to));
        self.time = Some(Stamp::now());
        self.since.get_or_insert_with(Instant::now);
        for block in [from / BLOCK_LEN, (to.max(1) - 1) / BLOCK_LEN] {
            let begin = block * BLOCK_LEN;
            if let Some(ranges) = self.partial.get_mut(&block) {
                let range = (from.max(begin) - begin, to.min(begin + BLOCK_LEN) - begin);
                match ranges.last_mut() {
                    Some(last) if last.0 <= range.0 && range.0 <= last.1 => last.1 = last.1.max(range.1),
                    _ => ranges.push(range),
                }
            }
        }
        // Blocks between the first and the last are written whole.
        let (first, last) = (from / BLOCK_LEN, (to.max(1) - 1) / BLOCK_LEN);
        if last > first + 1 {
            let whole: Vec<u64> = self.partial.range(first + 1..last).map(|(block, _)| *block).collect();
            whole.iter().for_each(|block| drop(self.partial.remove(block)));
        }
    }

    /// The mount made the change at a position. The kernel's pages show it, if they showed the one before.
    pub fn saw(&mut self, before: u64, change: u64) {
        self.cached = (self.cached == Some(before)).then_some(change);
    }

    /// All is in the log.
    pub fn settle(&mut self) -> Blocks {
        (self.size, self.time, self.since) = (None, None, None);
        self.partial.clear();
        std::mem::take(&mut self.fresh)
    }

    /// Blocks of a hole get a run; those that bytes `from .. to` do not cover whole are partial.
    pub fn fill(&mut self, block: u64, run: Run, from: u64, to: u64) {
        self.fresh.insert(block, run);
        let last = block + u64::from(run.count) - 1;
        for edge in [block, last] {
            if from > edge * BLOCK_LEN || to < (edge + 1) * BLOCK_LEN {
                self.partial.entry(edge).or_default();
            }
        }
    }
}
