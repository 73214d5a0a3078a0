//! A dictionary that a program has open: its table, and reading, which begins again where others changed something.

use super::blocks::{VIEWED_LEN_MIN, Writers};
use super::bucket::{At, Value, Word};
use super::digest::checksum;
use super::hold::Hold;
use super::key::Key;
use super::opening::{Opening, Options, pause, root_of};
use super::plan::spare;
use super::root::{Root, StoreTerms, Terms};
use super::table::Table;
use super::waiter::{Here, Waiter, step};
use super::{BRIEF_LEN, Fault};
use hanare::{Error, Lineage, Pool, Region, Result};
use std::sync::atomic::AtomicU32;
use std::sync::{Arc, PoisonError, RwLock};

/// From so many entries of a bucket on, its writer checks if the table is crowded. With two keys to a word that is one bucket of a
/// thousand.
const CROWD: u32 = 8;

/// A value's kind and length, as it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Told {
    /// The kind of its bytes ([`kind`](crate::kind)).
    pub kind: u8,
    /// Bytes of the value.
    pub len: usize,
    /// The users that may have written it.
    pub writers: Writers,
}

/// Destination of a value's bytes.
pub trait Sink {
    /// Room for a value of that kind and length. Asked again where the bytes read before are void. `None` where the bytes are not wanted.
    fn room(&mut self, kind: u8, len: usize) -> Option<&mut [u8]>;
}

impl Sink for Vec<u8> {
    fn room(&mut self, _: u8, len: usize) -> Option<&mut [u8]> {
        self.resize(len, 0);
        Some(self)
    }
}

/// The caller's buffer, for values that are no longer.
pub(crate) struct Within<'b>(pub &'b mut [u8]);

impl Sink for Within<'_> {
    fn room(&mut self, _: u8, len: usize) -> Option<&mut [u8]> {
        self.0.get_mut(..len)
    }
}

/// A sink that reads nothing.
struct Nowhere;

impl Sink for Nowhere {
    fn room(&mut self, _: u8, _: usize) -> Option<&mut [u8]> {
        None
    }
}

/// An open dictionary. Each call is one step to all programs: a value is seen whole, old or new.
///
/// **Cost** on this host: some copies to read a value; to write one, none or two messages to this host's node. Elsewhere a read of a short
/// value is one message each way if this program has seen its place, else two. A long value takes one more. A write of a short value is two
/// messages each way, or one right after a look at its key. It is one more if no block was free. A program that finds the table crowded
/// makes a new one; writers wait meanwhile, readers do not.
///
/// **Errors** of all calls: [`Error::NodeLost`], [`Error::RegionLost`], where bytes went with a node. [`Error::NotTrusted`] where another
/// user made a part. [`Error::BadUse`] in a child made by fork, which must open the dictionary again. [`Error::Garbage`] for memory that no
/// program of the pool wrote. [`Error::NotInTime`] where others change the same bucket all the time. Writers: [`Error::PoolFull`],
/// [`Error::QuotaExceeded`].
///
/// A program keeps up to 260 KiB of the blocks that its writes set free, twice that with long values. They go back with the handle, and by
/// [`Dict::stat`] and [`Dict::sweep`]; those of a killed program by a sweep.
pub struct Dict<W = Here> {
    pub(crate) pool: Pool,
    pub(crate) name: String,
    pub(crate) root_region: Region,
    pub(crate) terms: Terms,
    pub(crate) tries: u32,
    /// Entries of a bucket from which its writer looks whether the table is crowded. It rises where the table could not grow.
    pub(crate) crowd: AtomicU32,
    now: RwLock<Arc<Table>>,
    lineage: Lineage,
    pub(crate) waiter: W,
}

impl Dict {
    /// Opens the dictionary of that name, or makes it. The pool's trust decides whose dictionary is used ([`Pool::trusting`]).
    ///
    /// **Errors**: [`Error::BadUse`] where a region of that name is no dictionary; [`Error::NotTrusted`]; as for [`Pool::create`].
    pub fn open(pool: &Pool, name: &str, options: &Options) -> Result<Dict> {
        Dict::open_with(pool, name, options, Here)
    }
}

impl<W: Waiter> Dict<W> {
    /// [`Dict::open`] with a waiter around steps that may wait.
    pub fn open_with(pool: &Pool, name: &str, options: &Options, waiter: W) -> Result<Dict<W>> {
        Dict::open_as(pool, name, options, None, waiter)
    }

    /// Opens a dictionary, or the table of a store.
    pub(crate) fn open_as(pool: &Pool, name: &str, options: &Options, store: Option<StoreTerms>, waiter: W) -> Result<Dict<W>> {
        Dict::of_root(pool, name, root_of(pool, name, options, store)?, options.tries, waiter)
    }

    /// The dictionary, or the table of a store, with that root.
    pub(crate) fn of_root(
        pool: &Pool,
        name: &str,
        (root_region, terms): (Region, Terms),
        tries: u32,
        waiter: W,
    ) -> Result<Dict<W>> {
        let opening = Opening { pool, name, root_region: &root_region, terms: &terms };
        let now = opening.first_table(tries)?;
        Ok(Dict {
            pool: pool.clone(),
            name: name.to_owned(),
            terms,
            tries,
            crowd: AtomicU32::new(CROWD),
            now: RwLock::new(Arc::new(now)),
            lineage: Lineage::here(),
            waiter,
            root_region,
        })
    }

    pub(crate) fn opening(&self) -> Opening<'_> {
        Opening { pool: &self.pool, name: &self.name, root_region: &self.root_region, terms: &self.terms }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The users that may have written its regions, as far as they are open.
    pub fn writers(&self) -> Writers {
        self.now().writers()
    }

    // Tables.

    pub(crate) fn now(&self) -> Arc<Table> {
        self.now.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn set_now(&self, table: Arc<Table>) {
        let before = std::mem::replace(&mut *self.now.write().unwrap_or_else(PoisonError::into_inner), table);
        // Its blocks go back without the lock.
        drop(before);
    }

    /// The table as it was last seen.
    pub(crate) fn table(&self) -> Result<Arc<Table>> {
        match self.lineage.is_here() {
            true => Ok(self.now()),
            false => {
                let reason = "this process was made by fork, and must open the dictionary anew".to_owned();
                Err(Error::BadUse { region: self.name.clone(), reason })
            }
        }
    }

    pub(crate) fn root(&self) -> Result<Root> {
        self.opening().root()
    }

    /// Looks for another table than that one, and opens it. **Errors**: those of a dictionary that is gone.
    pub(crate) fn has_moved(&self, table: &Arc<Table>) -> Result<bool> {
        let root = self.root()?;
        let now = self.now();
        if root.is_same(now.root) {
            return Ok(!Arc::ptr_eq(&now, table));
        }
        match self.opening().table(root) {
            Ok(opened) => self.set_now(Arc::new(opened)),
            // A still newer one, or none any more: the root says.
            Err(Error::UnknownRegion { .. }) => pause(3),
            Err(error) => return Err(error),
        }
        Ok(true)
    }

    /// Checks that the dictionary was not removed. **Cost**: a message to the coordinator. **Errors**: [`Error::UnknownRegion`].
    pub(crate) fn check_there(&self) -> Result<()> {
        match self.pool.open_trusted(&self.name)?.gid() == self.root_region.gid() {
            true => Ok(()),
            false => Err(Error::UnknownRegion { name: self.name.clone() }),
        }
    }

    // Finding and reading.

    /// Calls `act` with a key's value, and again where it finds bytes of another moment.
    pub(crate) fn look_up<T>(
        &self,
        key: &Key<'_>,
        mut act: impl FnMut(&Table, u64, Word, Option<Value<'_>>) -> std::result::Result<T, Fault>,
    ) -> Result<T> {
        for turn in 0..self.tries {
            let table = self.table()?;
            match self.look_once(&table, key.coded(), &mut act) {
                Ok(Some(done)) => return Ok(done),
                Ok(None) => {}
                Err(Fault::Pool(error)) => self.unless_moved(&table, error)?,
                Err(_) => self.give_way(turn)?,
            }
        }
        Err(self.garbage())
    }

    /// A single try; `None` where the table is another by now.
    fn look_once<T>(
        &self,
        table: &Arc<Table>,
        coded: &[u8],
        act: &mut impl FnMut(&Table, u64, Word, Option<Value<'_>>) -> std::result::Result<T, Fault>,
    ) -> std::result::Result<Option<T>, Fault> {
        let number = table.number_of(coded);
        let looked = table.look_from(&self.waiter, number)?;
        if looked.word.is_frozen() && self.waiter.wait(|| self.has_moved(table))? {
            return Ok(None);
        }
        let value = match table.evict {
            None => looked.find(coded)?,
            Some(_) => looked.find(coded)?.filter(|value| !value.times.is_over_now()),
        };
        if value.is_some() {
            table.note_use(number, &looked);
        }
        let done = act(table, number, looked.word, value);
        spare(looked.raw);
        done.map(Some)
    }

    /// Passes an error on, unless the cause is that the table was removed.
    pub(crate) fn unless_moved(&self, table: &Arc<Table>, error: Error) -> Result<()> {
        if self.waiter.wait(|| self.has_moved(table))? { Ok(()) } else { Err(error) }
    }

    pub(crate) fn garbage(&self) -> Error {
        let reason = "a bucket cannot be read: its bytes make no sense".to_owned();
        Error::Garbage { peer: format!("dictionary '{}'", self.name), reason }
    }

    /// Reads a key's value; `None` without one.
    pub fn read(&self, key: &Key<'_>, sink: &mut impl Sink) -> Result<Option<Told>> {
        self.look_up(key, |table, number, word, value| {
            value.map(|value| self.read_value(table, (number, word), value, sink)).transpose()
        })
    }

    /// Reads a value to which a word leads. **Errors**: [`Fault::Changed`] where its bytes are another's by now.
    pub(crate) fn read_value(
        &self,
        table: &Table,
        (number, word): (u64, Word),
        value: Value<'_>,
        sink: &mut impl Sink,
    ) -> std::result::Result<Told, Fault> {
        let Value { kind, bytes, len, far, checksum: sum, .. } = value;
        let len = len as usize;
        if far == 0 {
            if let Some(into) = sink.room(kind, len) {
                into.copy_from_slice(bytes);
            }
            return Ok(Told { kind, len, writers: table.writers() });
        }
        // A length that no block has takes no memory.
        let (segment, offset) = table.values.range(&self.waiter, At::of_far(far), len as u64)?;
        if let Some(into) = sink.room(kind, len) {
            let may_last = || !segment.is_here || len > BRIEF_LEN;
            // The block may have been given back and used again while it was read. The word tells on this host, the checksum anywhere.
            let is_whole = step(&self.waiter, may_last, || {
                segment.region.get(offset, into)?;
                Ok::<_, Fault>(segment.is_here && table.word(number)? == word || checksum(into) == sum)
            })?;
            if !is_whole {
                return Err(Fault::Changed);
            }
        }
        Ok(Told { kind, len, writers: table.writers() })
    }

    /// A key's value: its kind and its bytes.
    pub fn get(&self, key: &Key<'_>) -> Result<Option<(u8, Vec<u8>)>> {
        let mut bytes = Vec::new();
        Ok(self.read(key, &mut bytes)?.map(|told| (told.kind, bytes)))
    }

    /// Reads a key's value into the first bytes of a buffer. A value that is longer than the buffer is not read; its length is returned.
    pub fn get_into(&self, key: &Key<'_>, into: &mut [u8]) -> Result<Option<Told>> {
        self.read(key, &mut Within(into))
    }

    /// True if there is such a key.
    pub fn contains(&self, key: &Key<'_>) -> Result<bool> {
        Ok(self.read(key, &mut Nowhere)?.is_some())
    }

    /// Holds a value's bytes in place, where its kind is `wanted`.
    ///
    /// `None` where there is no such key. `None`, too, for values of less than [`VIEWED_LEN_MIN`] bytes and of another host: copy these.
    ///
    /// **Cost**: some microseconds, whatever the length. While a program holds a value, the memory of one in eight long values that others
    /// replace is not freed. If the program is killed meanwhile, that lasts until a sweep.
    pub fn hold(&self, key: &Key<'_>, wanted: impl Fn(u8) -> bool) -> Result<Option<Hold>> {
        self.look_up(key, |table, number, word, value| {
            let long = value.filter(|value| value.far != 0 && u64::from(value.len) >= VIEWED_LEN_MIN && wanted(value.kind));
            let Some(Value { kind, len, far, .. }) = long else { return Ok(None) };
            let at = At::of_far(far);
            let (segment, _) = table.values.range(&self.waiter, at, len.into())?;
            if !segment.is_here {
                return Ok(None);
            }
            self.waiter.wait(|| {
                let Some(hold) = Hold::new(segment, at, len as usize, kind, table.writers())? else { return Ok(None) };
                // The check comes after the count.
                if table.is_still(number, word)? { Ok(Some(hold)) } else { Err(Fault::Changed) }
            })
        })
    }

    /// The error of a fault that is left at the end.
    pub(crate) fn error_of(&self, fault: Fault) -> Error {
        match fault {
            Fault::Pool(error) => error,
            Fault::Frozen | Fault::Full | Fault::Moved => self.busy(),
            Fault::Changed => self.garbage(),
        }
    }

    /// Lets others go first, longer each time, by chance.
    pub(crate) fn give_way(&self, turn: u32) -> Result<()> {
        if turn > 2 {
            self.waiter.wait(|| pause(turn));
        }
        self.go_on()
    }

    /// **Errors**: [`Error::NotInTime`] where the waiter ends it.
    pub(crate) fn go_on(&self) -> Result<()> {
        if self.waiter.goes_on() { Ok(()) } else { Err(self.interrupted()) }
    }

    pub(crate) fn interrupted(&self) -> Error {
        Error::NotInTime { what: format!("a call on dictionary '{}', which was interrupted", self.name), after_ms: 0 }
    }

    /// Gives back the blocks that this program keeps for its next writes.
    pub fn give_back(&self) {
        let table = self.now();
        self.waiter.wait(|| {
            table.buckets.give_back();
            table.values.give_back();
        });
    }
}
