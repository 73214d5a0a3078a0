//! Locks that a program holds, as far as it knows.

use super::granted_lock::{GrantedLock, LockState};
use super::lock_leases::LockLeases;
use crate::client::remote::Remote;
use hanare_protocol::entry::{BoundShape, Stamp};
use hanare_protocol::id::Gid;
use hanare_protocol::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Why a lock is not held any more.
pub(crate) const CONNECTION_BROKE: &str = "the connection to the pool's home broke";

/// Locks that a client has taken, as far as it knows.
#[derive(Default)]
pub(crate) struct Claims {
    /// The number of the next lock, or place in a group.
    next: AtomicU64,
    /// Locks that are held and not leased, by number.
    held: Mutex<BTreeMap<u64, Arc<GrantedLock>>>,
    /// Locks that are leased to it.
    pub leases: LockLeases,
    /// Data by lock.
    data: Mutex<BTreeMap<String, LockData>>,
}

/// Shapes bound to a lock, and this program's version of them: all its mappings show that, or a later one.
#[derive(Clone, Debug)]
pub(crate) struct LockData {
    pub stamp: Stamp,
    pub shapes: Arc<[BoundShape]>,
}

impl Claims {
    /// The number of the next lock, or place in a group.
    pub fn next(&self) -> u64 {
        self.next.fetch_add(1, Relaxed)
    }

    /// Records a lock that this thread has taken, with the program's key and people's title for it.
    pub fn taken(&self, (key, title): (String, String), home: Arc<Remote>, number: u64, connection: u128) -> Arc<GrantedLock> {
        let claims = std::ptr::from_ref(self).addr();
        Arc::new(GrantedLock { key, title, home, number, connection, claims, state: LockState::mine() })
    }

    /// The known data bound to locks.
    pub fn data(&self) -> MutexGuard<'_, BTreeMap<String, LockData>> {
        self.data.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks that it holds without a lease, by number.
    pub fn held(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<GrantedLock>>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes of a region that are bound to locks which this program holds, ascending.
    pub fn held_bytes(&self, gid: Gid) -> Vec<Range<u64>> {
        let mut keys: BTreeSet<String> = self.held().values().map(|taking| taking.key.clone()).collect();
        keys.extend(self.leases.held());
        let data = self.data();
        let shapes = keys.iter().filter_map(|key| data.get(key)).flat_map(|data| data.shapes.iter());
        let blocks = shapes.filter(|bound| bound.gid == gid).flat_map(|bound| bound.shape.blocks());
        let mut ranges: Vec<Range<u64>> = blocks.map(|(offset, len)| offset..offset.saturating_add(len)).collect();
        ranges.sort_by_key(|range| range.start);
        ranges
    }

    /// Tells this thread once of each lock that it lost, because another connection than that of today held it.
    ///
    /// **Cost**: a look at each lock that the thread has.
    pub fn check(&self, patience: Duration) -> Result<()> {
        let Some(taking) = GrantedLock::lost(std::ptr::from_ref(self).addr()) else { return Ok(()) };
        taking.tell();
        taking.home.end(taking.connection, patience);
        Err(Error::LockLost { name: taking.title.clone(), reason: CONNECTION_BROKE.to_owned() })
    }
}
