//! A file that this mount has open, or whose changes are not in the log yet.

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

/// Writes that are not in the log. Their bytes are in the pool already, so they are never lost for want of room.
#[derive(Default)]
pub struct Pending {
    /// Number of its open handles.
    pub handles: u64,
    /// True if the log knows that this mount has it open though it has no name.
    pub is_held: bool,
    /// The least length after the writes; `None` without a write.
    pub size: Option<u64>,
    /// Time of the last write.
    pub time: Option<Stamp>,
    /// Time of the first write that is not in the log.
    pub since: Option<Instant>,
    /// Blocks that take a hole's place.
    pub fresh: Blocks,
    /// The placement of those blocks.
    pub key: String,
    /// The written ranges of blocks that were not written whole: another mount may fill the same hole.
    pub partial: BTreeMap<u64, Vec<(u64, u64)>>,
    /// Position of the change that the kernel's cached pages show.
    pub cached: Option<u64>,
    /// True if writes are lost. The next flush reports it, once.
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

    /// Records a write of bytes `from .. to`.
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

    /// Records that this mount made the change at a position. The kernel's pages show it, if they showed the change before.
    pub fn saw(&mut self, before: u64, change: u64) {
        self.cached = (self.cached == Some(before)).then_some(change);
    }

    /// Forgets all pending writes, and returns their blocks.
    pub fn settle(&mut self) -> Blocks {
        (self.size, self.time, self.since) = (None, None, None);
        self.partial.clear();
        std::mem::take(&mut self.fresh)
    }

    /// Gives blocks of a hole a run. Blocks that bytes `from .. to` do not cover whole are partial.
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
