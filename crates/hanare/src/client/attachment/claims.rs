//! Locks that a program holds, as far as it knows.

use super::borrowed::Borrowed;
use crate::client::remote::Remote;
use crate::client::threads::this_thread;
use hanare_protocol::entry::{BoundShape, Stamp};
use hanare_protocol::id::Gid;
use hanare_protocol::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Why a lock is not held any more.
pub(crate) const CONNECTION_BROKE: &str = "the connection to the pool's home broke";

/// What a client has taken, as far as it knows.
#[derive(Default)]
pub(crate) struct Claims {
    /// The number of the next lock, or place in a group.
    next: AtomicU64,
    held: Mutex<BTreeMap<u64, HeldLock>>,
    /// Locks that are lent to it.
    pub borrowed: Borrowed,
    /// By lock.
    data: Mutex<BTreeMap<String, LockData>>,
}

/// What is bound to a lock, and the version of it that this program has: all its mappings show that, or a later one.
#[derive(Clone, Debug)]
pub(crate) struct LockData {
    pub stamp: Stamp,
    pub shapes: Arc<[BoundShape]>,
}

pub(crate) struct HeldLock {
    /// What this program keeps it by.
    pub key: String,
    /// What people call it.
    pub title: String,
    pub home: Arc<Remote>,
    pub thread: u64,
    /// The connection that it is held by.
    pub connection: u128,
    /// Whether its thread knows that it was lost.
    pub is_told: bool,
}

impl Claims {
    /// The number of the next lock, or place in a group.
    pub fn next(&self) -> u64 {
        self.next.fetch_add(1, Ordering::Relaxed)
    }

    /// What it knows of data bound to locks.
    pub fn data(&self) -> MutexGuard<'_, BTreeMap<String, LockData>> {
        self.data.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What it holds, by number.
    pub fn held(&self) -> MutexGuard<'_, BTreeMap<u64, HeldLock>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this thread holds any.
    pub fn has_some(&self) -> bool {
        let thread = this_thread();
        self.held().values().any(|held| held.thread == thread)
    }

    /// Bytes of a region that are bound to locks which this program holds, ascending.
    pub fn held_bytes(&self, gid: Gid) -> Vec<Range<u64>> {
        let keys: BTreeSet<String> = self.held().values().map(|held| held.key.clone()).collect();
        let data = self.data();
        let shapes = keys.iter().filter_map(|key| data.get(key)).flat_map(|data| data.shapes.iter());
        let blocks = shapes.filter(|bound| bound.gid == gid).flat_map(|bound| bound.shape.blocks());
        let mut ranges: Vec<Range<u64>> = blocks.map(|(offset, len)| offset..offset.saturating_add(len)).collect();
        ranges.sort_by_key(|range| range.start);
        ranges
    }

    /// Tells this thread once of each lock that it lost because it was held by another connection than that of today.
    pub fn check(&self, patience: Duration) -> Result<()> {
        let thread = this_thread();
        let own: Vec<(u64, Arc<Remote>, u128)> = {
            let held = self.held();
            let own = held.iter().filter(|(_, held)| held.thread == thread && !held.is_told);
            own.map(|(number, held)| (*number, held.home.clone(), held.connection)).collect()
        };
        // No home is looked at while others wait for the table.
        let lost = own.into_iter().find(|(_, home, connection)| home.connection() != Some(*connection));
        let news = lost.and_then(|(number, home, connection)| {
            let mut held = self.held();
            let held = held.get_mut(&number)?;
            held.is_told = true;
            Some((held.title.clone(), home, connection))
        });
        match news {
            None => Ok(()),
            Some((name, home, connection)) => {
                home.end(connection, patience);
                Err(Error::LockLost { name, reason: CONNECTION_BROKE.to_owned() })
            }
        }
    }
}
