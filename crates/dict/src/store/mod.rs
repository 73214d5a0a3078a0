//! A store: keys and values in memory of a given size, where keys leave to make room for others.
//!
//! A store is a dictionary's table with three differences. Its heaps are made at once, and never more. Each word has a mark behind it, which
//! says when its keys were used. Each entry may have times: its end, and the end of its pin.
//!
//! | module | holds |
//! |---|---|
//! | `update` | changes that depend on the entry before |
//! | `room` | keys that leave, so that another has room |
//! | `many` | batches of gets: three messages for any number of keys of another host |
//! | `batch`, `steps` | batches of puts and removals; swaps of many words |
//! | `scan` | all keys, from any point on |
//! | `deadline` | calls that count as misses when they are late |
//! | `watch` | waiting for a change of a key's value |

mod batch;
mod deadline;
mod many;
mod room;
mod scan;
mod steps;
mod update;
mod watch;

pub use many::Item;
pub use update::{Change, Found};
pub use watch::Stamp;

use crate::dict::{Dict, Sink, Told, Within};
use crate::mark::Evict;
use crate::opening::{Options, made_root_of};
use crate::root::{ATTRIBUTE, HEAPS_MOST, StoreTerms, Terms};
use crate::times::{Times, after_ms, now_ms};
use crate::waiter::Here;
use crate::{Key, bucket};
use deadline::Workers;
use hanare::{Attributes, Error, Placement, Pool, Result};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// Bytes of a store's heap, about: each has 131,072 blocks at most.
const HEAP_LEN: u64 = 64 << 20;

/// Fewest bytes of a store.
const BYTES_MIN: u64 = 64 << 10;
/// Bytes of a key and its value, where the number of keys is not known.
const BYTES_OF_ENTRY: u64 = 1024;
/// Words of the index for each key: few keys share a mark. Fewest and most words.
const WORDS_OF_ENTRY: u64 = 2;
const WORDS_MIN: u64 = 64;
const WORDS_MOST: u64 = 1 << 21;

/// Options of making and using a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreOptions {
    /// Bytes for keys and values. They are taken when it is made. The index takes 3 % more, or 32 bytes a key. Used where it is made.
    pub bytes: u64,
    /// Rule of making room. Used where it is made.
    pub evict: Evict,
    /// Expected number of keys; `None` for keys and values of about 1 KiB. Used where it is made.
    pub entries: Option<u64>,
    /// Placement of its bytes. Used where it is made.
    pub placement: Placement,
    /// Nodes that hold each of its bytes, 1 to 3. Used where it is made.
    pub copies: u8,
    /// Rights, as a file's mode bits. Used where it is made.
    pub mode: u32,
    /// Attributes of its root region, beside its own. Used where it is made.
    pub attributes: Attributes,
    /// Tries of a call where others change the same bucket all the time.
    pub tries: u32,
}

impl Default for StoreOptions {
    fn default() -> StoreOptions {
        let Options { placement, copies, mode, attributes, tries, .. } = Options::default();
        StoreOptions { bytes: 64 << 20, evict: Evict::Lru, entries: None, placement, copies, mode, attributes, tries }
    }
}

impl StoreOptions {
    /// The terms of its table. **Errors**: [`Error::BadSetting`].
    fn terms(&self) -> Result<(Options, StoreTerms)> {
        if self.bytes < BYTES_MIN || self.bytes > 1 << 42 {
            let (key, value) = ("bytes".to_owned(), self.bytes.to_string());
            return Err(Error::BadSetting { key, value, reason: "a store has 64 KiB to 4 TiB".to_owned() });
        }
        let heaps = (self.bytes / HEAP_LEN).clamp(1, HEAPS_MOST.into());
        let entries = self.entries.unwrap_or(self.bytes / BYTES_OF_ENTRY);
        let buckets = entries.saturating_mul(WORDS_OF_ENTRY).clamp(WORDS_MIN, WORDS_MOST);
        let memory = (self.bytes / heaps).next_multiple_of(bucket::GRANULE);
        let StoreOptions { evict, placement, copies, mode, ref attributes, tries, .. } = *self;
        let options = Options { placement, copies, buckets, memory, mode, attributes: attributes.clone(), tries };
        Ok((options, StoreTerms { evict, heaps: heaps as u32 }))
    }
}

/// Memory of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoreStat {
    /// Bytes for keys and values.
    pub bytes: u64,
    /// Bytes that keys and values take.
    pub linked: u64,
    /// Bytes that nobody links. Other programs keep them for their next puts, or were killed.
    pub unlinked: u64,
}

/// An open store. Each call is one step to all programs: a value is seen whole, old or new, and never another key's.
///
/// A reader copies a value, then checks that its word still leads there, or the value's checksum. So a key that leaves meanwhile is a miss,
/// and a value that was replaced is read again. A program that is killed leaves each key with its old value or its new one.
///
/// **Cost** on this host: a get is some copies, without a message. A put is none to four messages to this host's node: blocks that leave
/// are used again. Elsewhere a get of a short value is one message each way. It is two if this program has not seen its place. A value of
/// more than 1 KiB takes one more. The note of a use takes one more each second. A put is three, five for a value of more than 1 KiB, and some
/// six more where keys leave.
///
/// **Errors**: as for [`Dict`]; of puts also [`Error::HeapFull`] where nothing may leave, at once.
#[derive(Clone)]
pub struct Store {
    dict: Arc<Dict<Here>>,
    evict: Evict,
    /// Words that were looked at last to find keys that may leave.
    run: Arc<AtomicU64>,
    workers: Arc<Workers>,
}

impl Store {
    /// Opens the store of that name, or makes it. **Errors**: [`Error::BadUse`] where a region of that name is no store;
    /// [`Error::NotTrusted`]; [`Error::PoolFull`].
    pub fn open(pool: &Pool, name: &str, options: &StoreOptions) -> Result<Store> {
        let (options, store) = options.terms()?;
        Ok(Store::of(Dict::open_as(pool, name, &options, Some(store), Here)?))
    }

    /// Opens a store that was made. **Errors**: as for [`Store::open`]; [`Error::UnknownRegion`].
    pub fn open_made(pool: &Pool, name: &str) -> Result<Store> {
        let root = made_root_of(pool, name, true)?;
        Ok(Store::of(Dict::of_root(pool, name, root, StoreOptions::default().tries, Here)?))
    }

    fn of(dict: Dict<Here>) -> Store {
        let evict = dict.terms.store.map_or(Evict::Lru, |terms| terms.evict);
        Store { dict: Arc::new(dict), evict, run: Arc::new(AtomicU64::new(0)), workers: Arc::default() }
    }

    /// The rule of a store and its bytes for keys and values, by the attributes of a region. `None` for a region that is no store's.
    pub fn terms_of(attributes: &Attributes) -> Option<(Evict, u64)> {
        let terms = Terms::read("", attributes.get(ATTRIBUTE)).ok()?;
        terms.store.map(|store| (store.evict, terms.memory.saturating_mul(store.heaps.into())))
    }

    /// Its name.
    pub fn name(&self) -> &str {
        self.dict.name()
    }

    /// Its rule of making room.
    pub fn evict(&self) -> Evict {
        self.evict
    }

    /// True if the call that opened it made it.
    pub fn created(&self) -> bool {
        self.dict.root_region.created()
    }

    /// Attributes of its root region.
    pub fn attributes(&self) -> &Attributes {
        self.dict.root_region.attributes()
    }

    /// True if gets send no message: all of it is on this host.
    pub fn is_here(&self) -> bool {
        self.dict.now().is_here
    }

    // Reading.

    /// Reads a key's value into a sink; `None` without one. Counts as a use.
    pub fn read(&self, key: &Key<'_>, sink: &mut impl Sink) -> Result<Option<Told>> {
        self.dict.read(key, sink)
    }

    /// A key's value: its kind and its bytes.
    pub fn get(&self, key: &Key<'_>) -> Result<Option<(u8, Vec<u8>)>> {
        self.dict.get(key)
    }

    /// Reads a key's value into the first bytes of a buffer. A value that is longer than the buffer is not read; its length is returned.
    pub fn get_into(&self, key: &Key<'_>, into: &mut [u8]) -> Result<Option<Told>> {
        self.read(key, &mut Within(into))
    }

    /// True if there is such a key. Counts as a use.
    pub fn contains(&self, key: &Key<'_>) -> Result<bool> {
        self.dict.contains(key)
    }

    /// The times of a key's entry; `None` without one.
    pub fn times(&self, key: &Key<'_>) -> Result<Option<Times>> {
        self.update(key, false, |found| Ok((Change::Keep, found.map(|found| found.times))))
    }

    /// Time until a key ends: `None` without such a key, `Some(None)` where it has no end.
    pub fn ttl(&self, key: &Key<'_>) -> Result<Option<Option<Duration>>> {
        let now = now_ms();
        let left = |times: Times| (times.expires != 0).then(|| Duration::from_millis(times.expires.saturating_sub(now)));
        Ok(self.times(key)?.map(left))
    }

    // Changing.

    /// Sets a key's value, and its end if there is to be one. A pin stays.
    ///
    /// **Errors**: [`Error::HeapFull`] where there is no room, because all keys are pinned or may not leave. The key then has its old value, or
    /// none. [`Error::LimitReached`] for a value that is longer than one of the store's heaps.
    pub fn put(&self, key: &Key<'_>, kind: u8, bytes: &[u8], ttl: Option<Duration>) -> Result<()> {
        let expires = ttl.map_or(0, |ttl| after_ms(now_ms(), ttl));
        self.update(key, false, |found| {
            let pinned = found.map_or(0, |found| found.times.pinned);
            Ok((Change::Set { kind, bytes: bytes.into(), times: Times { expires, pinned } }, ()))
        })
    }

    /// Removes a key and its value. Returns true if it was there.
    pub fn remove(&self, key: &Key<'_>) -> Result<bool> {
        self.update(key, false, |found| Ok((Change::Remove, found.is_some())))
    }

    /// Sets the time until a key ends, or that it has no end. Returns false without such a key.
    pub fn expire(&self, key: &Key<'_>, ttl: Option<Duration>) -> Result<bool> {
        let expires = ttl.map_or(0, |ttl| after_ms(now_ms(), ttl));
        self.retime(key, |times| Times { expires, ..times })
    }

    /// Keeps a key from leaving for so long, to make room for others. The latest end of all pins counts. Returns false without such a key.
    ///
    /// A pin ends by itself, so that one of a killed program does not stay. It does not keep the key from expiring or being replaced.
    pub fn pin(&self, key: &Key<'_>, ahead: Duration) -> Result<bool> {
        let until = after_ms(now_ms(), ahead);
        self.retime(key, |times| Times { pinned: times.pinned.max(until), ..times })
    }

    /// Ends all pins of a key. Returns false without such a key.
    pub fn unpin(&self, key: &Key<'_>) -> Result<bool> {
        self.retime(key, |times| Times { pinned: 0, ..times })
    }

    fn retime(&self, key: &Key<'_>, times: impl Fn(Times) -> Times) -> Result<bool> {
        self.update(key, false, |found| {
            let change = found.map_or(Change::Keep, |found| match times(found.times) {
                same if same == found.times => Change::Keep,
                other => Change::Times(other),
            });
            Ok((change, found.is_some()))
        })
    }

    // The whole.

    /// Counts the memory. This program first gives its spare blocks back. **Cost**: all buckets are read.
    pub fn stat(&self) -> Result<StoreStat> {
        let stat = self.dict.stat()?;
        Ok(StoreStat { bytes: stat.capacity, linked: stat.linked, unlinked: stat.unlinked })
    }

    /// Frees blocks that killed programs took and did not link. Returns the number of bytes that nobody linked.
    ///
    /// The store is copied to another memory of the same size, and the old one removed. **Errors**: [`Error::PoolFull`],
    /// [`Error::QuotaExceeded`]; the store is then unchanged.
    pub fn sweep(&self) -> Result<u64> {
        self.dict.sweep()
    }

    /// Gives back the blocks that this program keeps for its next puts.
    pub fn give_back(&self) {
        self.dict.give_back();
    }

    /// Removes the store from the pool.
    pub fn destroy(&self) -> Result<()> {
        self.dict.destroy()
    }
}
