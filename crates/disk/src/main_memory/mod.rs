//! `hanare run --main-memory`: large memory of programs that nobody changed, in the pool, with a bounded part of it here.
//!
//! ```text
//! program, with the preloaded library            keeper, in the launcher                           nodes
//!   touches an absent page  --userfaultfd-->  a thread: holds the block, brings pages  <--get--   slots of regions
//!                                             evictor: protects, reads, keeps          --put-->
//!   its hand takes pages out  <---Zap-------
//! ```
//!
//! | file | holds |
//! |---|---|
//! | `block` | which pages are here, dirty, kept; what to bring together |
//! | `store` | where blocks lie in the pool |
//! | `space` | the memory of one program |
//! | `program` | the connection of one program |
//!
//! The keeper is one process for all programs of a run: children of a fork, and what they become by exec. The limit is that of all
//! together. No thread of a program runs code of the pool, so that neither its allocator nor its signals matter.

mod block;
mod program;
mod space;
mod store;

use hanare::{Error, Pool, Result};
use hanare_protocol::limits::PAGE_LEN;
use hanare_protocol::wire::main_memory::{BLOCK_LEN, VARIABLE};
use program::Listener;
use space::{Number, ProgramSpace};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use store::SlotStore;

pub use hanare_memory::uffd::pager::check_permission;
pub use store::sweep;

/// Least memory that may be kept here: fewer blocks leave no choice of which to evict.
pub const LIMIT_MIN: u64 = 16 << 20;

/// Blocks that are fetched ahead, at most, for all programs: what is asked for beyond it comes when it is touched.
const AHEAD: usize = 16;

/// How long a thread waits for room before it looks again: an eviction takes less.
const LOOK_AFTER: Duration = Duration::from_millis(10);

/// What was done so far.
#[derive(Debug, Default)]
pub struct Counts {
    /// Touches that were resolved.
    pub faults: AtomicU64,
    /// Bytes that came from the pool.
    pub fetched: AtomicU64,
    /// Bytes that went there.
    pub written: AtomicU64,
}

/// What the programs of a run share.
struct Shared {
    store: SlotStore,
    /// Most pages that may be here.
    limit: u64,
    /// Pages that are here, of all programs.
    here: AtomicU64,
    counts: Counts,
    spaces: Mutex<Vec<Arc<ProgramSpace>>>,
    /// Pages went.
    room: Condvar,
    /// Room is wanted.
    want: Condvar,
    /// Beside the two.
    waits: Mutex<()>,
    /// Nothing can be evicted: the limit has to be passed.
    is_stuck: AtomicBool,
    is_over: AtomicBool,
    ahead: SyncSender<Ahead>,
}

/// Blocks of a stream, to be brought before they are touched: this one and the next.
struct Ahead {
    space: Weak<ProgramSpace>,
    first: Number,
    is_write: bool,
}

impl Shared {
    fn spaces(&self) -> MutexGuard<'_, Vec<Arc<ProgramSpace>>> {
        self.spaces.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Pages that are kept free, so that a touch need not wait for an eviction.
    fn reserve(&self) -> u64 {
        (self.limit / 8).min(16 * BLOCK_LEN / PAGE_LEN)
    }

    fn is_full(&self) -> bool {
        self.here.load(Ordering::Relaxed) + BLOCK_LEN / PAGE_LEN > self.limit
    }

    /// Waits until there is room for a block's pages.
    fn make_room(&self) {
        if self.here.load(Ordering::Relaxed) + self.reserve() <= self.limit {
            return;
        }
        self.want.notify_one();
        let mut waits = self.waits.lock().unwrap_or_else(PoisonError::into_inner);
        while self.is_full() && !self.is_stuck.load(Ordering::Relaxed) && !self.is_over.load(Ordering::Relaxed) {
            self.want.notify_one();
            waits = self.room.wait_timeout(waits, LOOK_AFTER).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Has the next blocks of a stream brought, if there is somebody to do it.
    fn prefetch(&self, space: &Weak<ProgramSpace>, first: Number, is_write: bool) {
        // One that is not brought comes when it is touched.
        let _ = self.ahead.try_send(Ahead { space: space.clone(), first, is_write });
    }

    /// Evicts blocks whenever there is little room, until the run is over.
    fn evict(&self) {
        let mut buffer = space::buffer();
        while !self.is_over.load(Ordering::Relaxed) {
            if self.here.load(Ordering::Relaxed) + self.reserve() <= self.limit {
                let waits = self.waits.lock().unwrap_or_else(PoisonError::into_inner);
                drop(self.want.wait_timeout(waits, LOOK_AFTER).unwrap_or_else(PoisonError::into_inner));
                continue;
            }
            let mut spaces = self.spaces().clone();
            spaces.sort_by_key(|space| std::cmp::Reverse(space.here()));
            let is_stuck = !spaces.iter().any(|space| space.evict(&mut buffer));
            self.is_stuck.store(is_stuck, Ordering::Relaxed);
            if is_stuck {
                self.room.notify_all();
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }
}

fn bring_ahead(orders: &Mutex<Receiver<Ahead>>) {
    let mut buffer = space::buffer();
    loop {
        let order = orders.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(Ahead { space, first, is_write }) = order else { return };
        if let Some(space) = space.upgrade() {
            space.prefetch(first, false, is_write, &mut buffer);
            space.prefetch(first + 1, true, is_write, &mut buffer);
        }
    }
}

/// The keeper of a run's programs. When it is dropped their regions go: end the programs first.
pub struct MainMemory {
    shared: Arc<Shared>,
    listener: Listener,
}

impl MainMemory {
    /// Starts one that keeps at most `limit` bytes here, and the rest on other nodes of the pool; on this host's own, if there is no
    /// other.
    ///
    /// **Errors**: [`Error::System`] where the kernel does not let this user page memory, with the setting; [`Error::BadSetting`] for
    /// a limit below [`LIMIT_MIN`].
    pub fn start(pool: &Pool, limit: u64) -> Result<MainMemory> {
        check_permission()?;
        let (ahead, orders) = sync_channel(AHEAD);
        let shared = Arc::new(Shared {
            store: SlotStore::new(pool),
            limit: limit.max(LIMIT_MIN) / PAGE_LEN,
            here: AtomicU64::new(0),
            counts: Counts::default(),
            spaces: Mutex::default(),
            room: Condvar::new(),
            want: Condvar::new(),
            waits: Mutex::new(()),
            is_stuck: AtomicBool::new(false),
            is_over: AtomicBool::new(false),
            ahead,
        });
        let listener = Listener::start(&shared).map_err(system("listening for programs"))?;
        let evictor = shared.clone();
        spawn("evict", move || evictor.evict())?;
        spawn("ahead", move || bring_ahead(&Mutex::new(orders)))?;
        Ok(MainMemory { shared, listener })
    }

    /// The variable that has programs find it.
    pub fn variable(&self) -> (&'static str, String) {
        (VARIABLE, self.listener.name().to_owned())
    }

    /// What was done so far.
    pub fn counts(&self) -> &Counts {
        &self.shared.counts
    }
}

impl Drop for MainMemory {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        self.shared.want.notify_all();
        self.shared.room.notify_all();
        self.listener.end();
        // The threads of programs that go on hold the rest: the regions go now, whoever is left.
        self.shared.store.remove();
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<()> {
    let spawned = std::thread::Builder::new().name(name.to_owned()).spawn(work);
    spawned.map(drop).map_err(system("starting a thread"))
}

fn system<E: std::fmt::Display>(what: &str) -> impl FnOnce(E) -> Error {
    move |error| Error::System { what: what.to_owned(), reason: error.to_string() }
}
