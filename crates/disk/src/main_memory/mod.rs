//! `hanare run --main-memory`: large memory of programs that nobody changed, in the pool, with a bounded part of it here.
//!
//! ```text
//! program, with the preloaded library            keeper, in the launcher                           nodes
//!   touches an absent page  --userfaultfd-->  a thread: holds the block, brings pages  <--get--   slots of regions
//!                                             a thread: brings blocks of streams ahead <--get--
//!                                             evictor: protects, reads, keeps blocks   --put-->
//!   its hand takes pages out  <---Zaps------
//! ```
//!
//! | file | holds |
//! |---|---|
//! | `block` | which pages are here, dirty, kept; what to bring together |
//! | `policy` | which pages leave first, and which touch brings a whole block |
//! | `store` | where blocks lie in the pool; by which connections they come |
//! | `room` | how much programs may write, and the regions that are made for it |
//! | `outage` | how a node is waited for that is silent |
//! | `space` | the memory of one program; what leaves it (`eviction`) and what comes before it is touched (`ahead`) |
//! | `program` | the connection of one program |
//!
//! The keeper is one process for all programs of a run: children of a fork, and what they become by exec. The limit is that of all
//! together. No thread of a program runs code of the pool, so that neither its allocator nor its signals matter.

mod block;
mod outage;
mod policy;
mod program;
mod room;
mod space;
mod store;

use hanare::{Error, Pool, Result};
use hanare_memory::prompt::shorten_turns;
use hanare_protocol::limits::PAGE_LEN;
use hanare_protocol::size::Size;
use hanare_protocol::wire::main_memory::{BLOCK_LEN, VARIABLE};
use program::Listener;
use room::Room;
use space::{AHEAD_TOGETHER, EVICTED_TOGETHER, Order, ProgramSpace};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use store::{FreshRegion, ReadConnections, SlotStore};

pub use hanare_memory::uffd::pager::check_permission;
pub use store::sweep;

/// Least memory that may be kept here: fewer blocks leave no choice of which to evict.
pub const LIMIT_MIN: u64 = 16 << 20;

/// Orders of blocks ahead, at most, for all programs: what is asked for beyond them comes when it is touched.
const AHEAD: usize = 16;

/// Most threads that resolve touches of one program. Without more processors each thread stays on one, because waking a thread on another
/// one costs more than the work.
const THREADS: usize = 4;

/// Time that a thread waits for room before it looks again: an eviction takes less.
const LOOK_AFTER: Duration = Duration::from_millis(10);

/// Counts of actions so far.
#[derive(Debug, Default)]
pub struct Counts {
    /// Touches that were resolved.
    pub faults: AtomicU64,
    /// Bytes that came from the pool.
    pub fetched: AtomicU64,
    /// Bytes that went there.
    pub written: AtomicU64,
}

/// Shared state of a run's programs.
struct Shared {
    store: SlotStore,
    /// Blocks that programs may write.
    room_of_blocks: Room,
    /// Read connections of the threads that resolve touches: one for those of all programs with one number; the last is for blocks ahead.
    lanes: Arc<[ReadConnections]>,
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
    /// True if no block can be evicted: the limit has to be passed.
    is_stuck: AtomicBool,
    is_over: AtomicBool,
    ahead: SyncSender<Prefetch>,
}

/// Next need of a program's stream.
struct Prefetch {
    space: Weak<ProgramSpace>,
    order: Order,
}

/// A number of pages that threads add to. Pages that left may be counted before those that came: then it is below zero, for a moment.
fn counted(pages: &AtomicU64) -> u64 {
    pages.load(Ordering::Relaxed).cast_signed().max(0).cast_unsigned()
}

impl Shared {
    fn spaces(&self) -> MutexGuard<'_, Vec<Arc<ProgramSpace>>> {
        self.spaces.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Pages that are kept free.
    fn reserve(&self) -> u64 {
        kept_free(self.limit)
    }

    /// Pages that are to leave, so that the reserve is there.
    fn missing(&self) -> u64 {
        (counted(&self.here) + self.reserve()).saturating_sub(self.limit)
    }

    /// True if pages must leave: when half of the reserve has gone, so that many leave at once.
    fn is_low(&self) -> bool {
        self.missing() > self.reserve() / 2
    }

    fn is_full(&self, blocks: u64) -> bool {
        counted(&self.here) + blocks * BLOCK_LEN / PAGE_LEN > self.limit
    }

    /// Number of blocks within the limit that come ahead at once, `wanted` at most.
    fn ahead_count(&self, wanted: usize) -> u64 {
        /// Less than this part of what may be here.
        const PART: u64 = 32;
        (self.limit * PAGE_LEN / BLOCK_LEN / PART).clamp(1, wanted as u64)
    }

    /// Waits until there is room for so many blocks' pages.
    fn make_room(&self, blocks: u64) {
        if !self.is_low() {
            return;
        }
        self.want.notify_one();
        let mut waits = self.waits.lock().unwrap_or_else(PoisonError::into_inner);
        while self.is_full(blocks) && !self.is_stuck.load(Ordering::Relaxed) && !self.is_over.load(Ordering::Relaxed) {
            self.want.notify_one();
            waits = self.room.wait_timeout(waits, LOOK_AFTER).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Has blocks of a stream brought, if there is somebody to do it.
    fn order(&self, space: &Weak<ProgramSpace>, order: Order) {
        // Blocks that are not brought come when they are touched.
        let _ = self.ahead.try_send(Prefetch { space: space.clone(), order });
    }

    /// Evicts blocks whenever there is little room, until the run is over.
    fn evict(&self) {
        shorten_turns(0);
        let mut buffer = space::buffer(EVICTED_TOGETHER);
        while !self.is_over.load(Ordering::Relaxed) {
            let waits = self.waits.lock().unwrap_or_else(PoisonError::into_inner);
            if !self.is_low() {
                drop(self.want.wait_timeout(waits, LOOK_AFTER).unwrap_or_else(PoisonError::into_inner));
                continue;
            }
            drop(waits);
            while self.missing() > 0 && !self.is_over.load(Ordering::Relaxed) {
                let mut spaces = self.spaces().clone();
                spaces.sort_by_key(|space| std::cmp::Reverse(space.here()));
                let is_stuck = !spaces.iter().any(|space| space.evict(self.missing(), &mut buffer));
                self.is_stuck.store(is_stuck, Ordering::Relaxed);
                if is_stuck {
                    self.room.notify_all();
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
        }
    }
}

/// Brings what is ordered, as long as there are programs.
fn bring_ahead(shared: &Weak<Shared>, orders: &Receiver<Prefetch>) {
    shorten_turns(0);
    let mut buffer = space::buffer(AHEAD_TOGETHER);
    while let Ok(Prefetch { space, order }) = orders.recv() {
        let Some((shared, space)) = shared.upgrade().zip(space.upgrade()) else { continue };
        shared.make_room(order.count());
        if let Some(lane) = shared.lanes.last().filter(|_| !shared.is_full(order.count())) {
            space.bring_ahead(order, lane, &mut buffer);
        }
    }
}

/// Pages of the limit that are kept free, so that a touch need not wait for an eviction.
fn kept_free(limit: u64) -> u64 {
    (limit / 8).min(16 * BLOCK_LEN / PAGE_LEN)
}

/// The keeper of a run's programs. When it is dropped their regions go: end the programs first.
pub struct MainMemory {
    shared: Arc<Shared>,
    listener: Listener,
}

impl MainMemory {
    /// Starts a keeper at the node of that address. It keeps at most `limit` bytes here, and the rest on other nodes of the pool, or on
    /// this host's own if there is no other.
    ///
    /// **Errors**: [`Error::System`] where the kernel does not let this user page memory, with the setting; [`Error::BadSetting`] for
    /// a limit below [`LIMIT_MIN`].
    pub fn start(socket: &str, limit: u64) -> Result<MainMemory> {
        check_permission()?;
        let (ahead, orders) = sync_channel(AHEAD);
        let (fresh, made) = channel::<FreshRegion>();
        let pages = limit.max(LIMIT_MIN) / PAGE_LEN;
        let lanes: Arc<[ReadConnections]> = (0..=processors().min(THREADS)).map(|_| ReadConnections::new(socket)).collect();
        let shared = Arc::new(Shared {
            store: SlotStore::new(&Pool::attach_to(socket, None)?, fresh),
            room_of_blocks: Room::new(pages, kept_free(pages)),
            lanes: lanes.clone(),
            limit: pages,
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
        warn_if_short(&shared, limit);
        let listener = Listener::start(&shared).map_err(system("listening for programs"))?;
        let evictor = shared.clone();
        spawn("evict", move || evictor.evict())?;
        let bringer = Arc::downgrade(&shared);
        spawn("ahead", move || bring_ahead(&bringer, &orders))?;
        spawn("lanes", move || made.iter().for_each(|fresh| lanes.iter().for_each(|lane| lane.prepare(&fresh))))?;
        Ok(MainMemory { shared, listener })
    }

    /// The variable that has programs find it.
    pub fn variable(&self) -> (&'static str, String) {
        (VARIABLE, self.listener.name().to_owned())
    }

    /// Counts of actions so far.
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

/// Says ahead that the pool adds less than what may be here anyway.
fn warn_if_short(shared: &Shared, limit: u64) {
    if let Ok(free) = shared.store.free_len()
        && free < limit
    {
        let (free, limit) = (Size(free), Size(limit));
        eprintln!(
            "hanare: the pool has {free} free for memory of programs, less than the {limit} that may be here; beyond both they get ENOMEM"
        );
    }
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<()> {
    let spawned = std::thread::Builder::new().name(name.to_owned()).spawn(work);
    spawned.map(drop).map_err(system("starting a thread"))
}

fn system<E: std::fmt::Display>(what: &str) -> impl FnOnce(E) -> Error {
    move |error| Error::System { what: what.to_owned(), reason: error.to_string() }
}
