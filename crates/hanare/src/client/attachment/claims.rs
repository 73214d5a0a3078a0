//! Locks that a program holds by name, as far as it knows.

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

/// What a client has taken by name, as far as it knows.
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
    pub name: String,
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
        let names: BTreeSet<String> = self.held().values().map(|held| held.name.clone()).collect();
        let data = self.data();
        let shapes = names.iter().filter_map(|name| data.get(name)).flat_map(|data| data.shapes.iter());
        let blocks = shapes.filter(|bound| bound.gid == gid).flat_map(|bound| bound.shape.blocks());
        let mut ranges: Vec<Range<u64>> = blocks.map(|(offset, len)| offset..offset.saturating_add(len)).collect();
        ranges.sort_by_key(|range| range.start);
        ranges
    }

    /// Tells this thread once of each lock that it lost because it was held by another connection than that of today.
    pub fn check(&self, home: &Remote, patience: Duration) -> Result<()> {
        let (thread, now) = (this_thread(), home.connection());
        let news = {
            let mut held = self.held();
            let is_news = |held: &&mut HeldLock| held.thread == thread && !held.is_told && Some(held.connection) != now;
            held.values_mut().find(is_news).map(|held| {
                held.is_told = true;
                (held.name.clone(), held.connection)
            })
        };
        match news {
            None => Ok(()),
            Some((name, connection)) => {
                home.end(connection, patience);
                Err(Error::LockLost { name, reason: CONNECTION_BROKE.to_owned() })
            }
        }
    }
}
