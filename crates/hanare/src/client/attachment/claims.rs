//! Locks that a program holds, as far as it knows.

use super::borrowed::Borrowed;
use crate::client::remote::Remote;
use crate::client::threads::this_thread;
use hanare_protocol::entry::{BoundShape, Stamp};
use hanare_protocol::id::Gid;
use hanare_protocol::{Error, Result};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Why a lock is not held any more.
pub(crate) const CONNECTION_BROKE: &str = "the connection to the pool's home broke";

/// The thread of a lock that nobody has.
const NOBODY: u64 = u64::MAX;

thread_local! {
    /// Locks that this thread has, of all attachments.
    static HELD: RefCell<Vec<Arc<TakenLock>>> = const { RefCell::new(Vec::new()) };
}

/// What a client has taken, as far as it knows.
#[derive(Default)]
pub(crate) struct Claims {
    /// The number of the next lock, or place in a group.
    next: AtomicU64,
    /// Locks that are held and not lent, by number.
    held: Mutex<BTreeMap<u64, Arc<TakenLock>>>,
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

/// A lock as its home granted it: a thread has it, or the program keeps it because it is lent.
pub(crate) struct TakenLock {
    /// What this program keeps it by.
    pub key: String,
    /// What people call it.
    pub title: String,
    pub home: Arc<Remote>,
    /// The program's number of it.
    pub number: u64,
    /// The connection that it came on.
    pub connection: u128,
    /// Where the attachment's claims are, which tells them from those of others.
    claims: usize,
    thread: AtomicU64,
    /// Whether its thread knows that it was lost.
    is_told: AtomicBool,
}

impl TakenLock {
    /// Whether the connection lasts that it came on.
    pub fn is_connected(&self) -> bool {
        self.home.connection() == Some(self.connection)
    }

    /// Whether any thread has it.
    pub fn is_held(&self) -> bool {
        self.thread.load(Relaxed) != NOBODY
    }

    /// Whether this thread has it.
    pub fn is_mine(&self) -> bool {
        self.thread.load(Relaxed) == this_thread()
    }

    /// A thread has it again, or none.
    pub fn set_mine(&self, is_mine: bool) {
        self.thread.store(if is_mine { this_thread() } else { NOBODY }, Relaxed);
    }

    /// Whether its thread knows that it was lost.
    pub fn is_told(&self) -> bool {
        self.is_told.load(Relaxed)
    }

    /// Enters it among those of this thread. **Cost**: no system call, and no lock.
    pub fn enter(self: &Arc<TakenLock>) {
        let _ = HELD.try_with(|held| {
            let mut held = held.borrow_mut();
            // One that another thread gave back, against the rules, is left over.
            held.retain(|taking| taking.is_mine());
            held.push(self.clone());
        });
    }

    /// Takes it out again.
    pub fn leave(&self) {
        let _ = HELD.try_with(|held| {
            let mut held = held.borrow_mut();
            if let Some(at) = held.iter().rposition(|taking| std::ptr::eq(&**taking, self)) {
                held.swap_remove(at);
            }
        });
    }
}

impl Claims {
    /// The number of the next lock, or place in a group.
    pub fn next(&self) -> u64 {
        self.next.fetch_add(1, Relaxed)
    }

    /// This thread has taken a lock, which the program keeps by a key and people call by a title.
    pub fn taken(&self, (key, title): (String, String), home: Arc<Remote>, number: u64, connection: u128) -> Arc<TakenLock> {
        let (claims, thread) = (std::ptr::from_ref(self).addr(), AtomicU64::new(this_thread()));
        Arc::new(TakenLock { key, title, home, number, connection, claims, thread, is_told: AtomicBool::new(false) })
    }

    /// What it knows of data bound to locks.
    pub fn data(&self) -> MutexGuard<'_, BTreeMap<String, LockData>> {
        self.data.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What it holds that is not lent, by number.
    pub fn held(&self) -> MutexGuard<'_, BTreeMap<u64, Arc<TakenLock>>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Bytes of a region that are bound to locks which this program holds, ascending.
    pub fn held_bytes(&self, gid: Gid) -> Vec<Range<u64>> {
        let mut keys: BTreeSet<String> = self.held().values().map(|taking| taking.key.clone()).collect();
        keys.extend(self.borrowed.held());
        let data = self.data();
        let shapes = keys.iter().filter_map(|key| data.get(key)).flat_map(|data| data.shapes.iter());
        let blocks = shapes.filter(|bound| bound.gid == gid).flat_map(|bound| bound.shape.blocks());
        let mut ranges: Vec<Range<u64>> = blocks.map(|(offset, len)| offset..offset.saturating_add(len)).collect();
        ranges.sort_by_key(|range| range.start);
        ranges
    }

    /// Tells this thread once of each lock that it lost because it was held by another connection than that of today.
    ///
    /// **Cost**: a look at each lock that the thread has.
    pub fn check(&self, patience: Duration) -> Result<()> {
        let own = std::ptr::from_ref(self).addr();
        let is_own = |taking: &TakenLock| taking.claims == own && taking.is_mine() && !taking.is_told();
        let is_lost = |taking: &&Arc<TakenLock>| is_own(taking) && !taking.is_connected();
        let lost = HELD.try_with(|held| held.borrow().iter().find(is_lost).cloned()).ok().flatten();
        let Some(taking) = lost else { return Ok(()) };
        taking.is_told.store(true, Relaxed);
        taking.home.end(taking.connection, patience);
        Err(Error::LockLost { name: taking.title.clone(), reason: CONNECTION_BROKE.to_owned() })
    }
}
