//! Mappings of this program: one at a time for a region, shared by all who ask for it.

use super::Shared;
use super::counters::{FaultTraffic, PageCounts};
use crate::client::remote::{PostedSync, Remote};
use hanare_fabric::Traffic;
use hanare_memory::Window;
use hanare_protocol::id::{Gid, NodeId, Rights};
use hanare_protocol::page::{Access, Consistency};
use hanare_protocol::wire::carried::{ExtentAddress, WantedPages};
use hanare_protocol::wire::control::Request;
use hanare_protocol::{Error, Result};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// A region behind one pointer, with what one consistency promises. A further consistency is a folder with one of these, and a line
/// where mappings are made.
///
/// Ranges are of bytes of the region. **Errors** of all: [`Error::OutOfRange`], and [`Error::NodeLost`] where a page's home does not
/// give or take it.
pub(crate) trait MappedRegion: Send + Sync {
    /// The mapping's promise.
    fn consistency(&self) -> Consistency;

    /// Rights of access through it.
    fn rights(&self) -> Rights;

    /// The region's bytes, which others may change at any time.
    ///
    /// # Safety
    /// No copy of the window is used after this is dropped, nor written through without the right to write.
    unsafe fn window(&self) -> Window;

    /// Reads bytes at `offset`; pages that are not here are brought.
    fn read(&self, offset: u64, into: &mut [u8]) -> Result<()>;

    /// Writes bytes at `offset`, likewise.
    fn write(&self, offset: u64, bytes: &[u8]) -> Result<()>;

    /// Brings the pages of a range, for a system call that reads or writes them.
    fn touch(&self, offset: u64, len: u64, access: Access) -> Result<()>;

    /// Makes this program's stores to a range visible to others.
    fn flush(&self, offset: u64, len: u64) -> Result<()>;

    /// Lets this program see what others made visible in a range.
    fn update(&self, offset: u64, len: u64) -> Result<()>;

    /// The same for a range that is known to have changed.
    fn renew(&self, offset: u64, len: u64) -> Result<()> {
        self.update(offset, len)
    }

    /// Counts of its pages so far.
    fn counts(&self) -> PageCounts;

    /// Number of pages that this host's node brought for it so far.
    fn brought(&self) -> u64 {
        0
    }

    /// Checks that stores through it were not lost. **Errors**: [`Error::NodeLost`] for good where they were.
    fn check_stores(&self) -> Result<()> {
        Ok(())
    }

    /// Its stores, where they outlive their home and this host only once they are released.
    fn copied_stores(&self) -> Option<Arc<dyn CopiedStores>> {
        None
    }

    /// Its bytes as locks bind them; `None` where its consistency is another.
    fn bound(&self) -> Option<&dyn BoundMemory> {
        None
    }

    /// Its bytes as messages to their home carry them; `None` where its stores are seen elsewhere at once.
    fn carried(&self) -> Option<&dyn CarriedMemory> {
        None
    }

    /// The error for a byte that an access through the window did not get.
    fn lost(&self) -> Error;

    /// Ends it: nobody uses its bytes any more. **Errors**: [`Error::NodeLost`] where not all that was stored is at home, or on its way.
    fn end(&mut self) -> Result<()>;
}

/// Stores of this host's programs to a region with copies. They are known without its mapping, which may end meanwhile.
pub(crate) trait CopiedStores: Send + Sync {
    /// Has all of them put at all nodes that hold the region's bytes. **Errors**: [`Error::NodeLost`] where no next home is found in time.
    fn release(&self, shared: &Shared) -> Result<()>;
}

/// Memory whose stores are kept until the lock is given back that their bytes are bound to.
///
/// Ranges are of bytes of the region, ascend, and do not overlap. **Errors** of all: as for [`MappedRegion`].
pub(crate) trait BoundMemory {
    /// Stores in the ranges that are not home.
    fn stores_in(&self, ranges: &[Range<u64>]) -> Result<Stored>;

    /// Sends that home, and nothing else.
    fn publish(&self, ranges: &[Range<u64>]) -> Result<()>;

    /// Shows what others have published, at `offset`.
    fn take_in(&self, offset: u64, bytes: &[u8]) -> Result<()>;

    /// Takes back what was stored in the ranges and is not home.
    fn discard(&self, ranges: &[Range<u64>]) -> Result<()>;
}

/// Sends stores; nothing where they do not fit the message.
pub(crate) type SendStores<'a> = dyn FnMut(&Stored) -> Result<Option<PostedSync>> + 'a;

/// Memory whose stores go home, and whose pages come, with messages that are sent to their home anyway.
///
/// Stores are *under way* from their sending until [`CarriedMemory::have_arrived`]. Meanwhile they are kept as stores. Whoever sends or
/// brings bytes of this memory otherwise first makes sure that the stores are at home. They must not undo later bytes there, nor hide them
/// here. Threads that fault wait for nothing.
///
/// Ranges and **Errors** as for [`BoundMemory`].
pub(crate) trait CarriedMemory {
    /// The node and the extent where a range lies; `None` where it lies in parts.
    fn place_of(&self, range: &Range<u64>) -> Option<(NodeId, ExtentAddress)>;

    /// Bytes of a range's pages that have stores, and of those that come again if their home is asked. The latter are not here, or have
    /// changed at home each time. **Cost**: a look at a word of each page.
    fn moving_len(&self, range: &Range<u64>) -> (u64, u64);

    /// Lets `send` send to `home` the stores in the ranges that are not home yet, if there are any. `spans` may have unchanged bytes with
    /// it, if a held lock is bound to all of them. Returns the number by which it is under way.
    fn send_along(
        &self,
        ranges: &[Range<u64>],
        spans: Spans,
        home: &Arc<Remote>,
        send: &mut SendStores<'_>,
    ) -> Result<Option<(u64, PostedSync)>>;

    /// Reports the stores sent by that number: they are at home, or count as stores as before.
    fn have_arrived(&self, number: u64, are_home: bool) -> Result<()>;

    /// Pages of the ranges that are not mapped directly, in the form in which their home is asked. `None` unless all lie at that node, each
    /// in one extent.
    fn want(&self, ranges: &[Range<u64>], node: NodeId) -> Result<Option<PageWish>>;

    /// Shows what came of a wish, page by page. Returns ranges of pages that changed here since it was made, which are to be renewed.
    fn take_pages(&self, wish: &PageWish, brought: &[BroughtPage<'_>]) -> Result<Vec<Range<u64>>>;
}

/// Choice of the bytes that go along.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spans {
    /// Changed bytes, except those bound to locks which this program holds.
    Changed,
    /// All bytes of each page from the first to the last changed one.
    Whole,
}

/// Pages that are wanted.
#[derive(Default)]
pub(crate) struct PageWish {
    /// Pages wanted, in the form that their home is asked.
    pub wants: Vec<WantedPages>,
    /// In the same order, each with the turns that it had taken.
    pub pages: Vec<(u64, u64)>,
}

/// A page of a wish: its bytes, unless it is the same as here.
pub(crate) type BroughtPage<'a> = Option<&'a [u8]>;

/// Stores in some ranges: for each page and range the bytes from the first to the last that differs.
#[derive(Debug)]
pub(crate) struct Stored {
    /// Places in the region, ascending.
    pub ranges: Vec<Range<u64>>,
    /// Their bytes, one behind the other; `None` where they are more than go with a lock.
    pub bytes: Option<Vec<u8>>,
}

impl Stored {
    /// No stores.
    pub fn nothing() -> Stored {
        Stored { ranges: Vec::new(), bytes: Some(Vec::new()) }
    }
}

/// True if all hosts' loads and stores through mappings are those of one memory. Then this program's commands go through the mapping, too,
/// and its atomics reach other hosts.
pub(crate) fn is_one_memory(consistency: Consistency) -> bool {
    consistency == Consistency::Coherent
}

type Mappings = BTreeMap<Gid, Weak<dyn MappedRegion>>;

/// The mappings of one attachment.
#[derive(Default)]
pub(crate) struct Mapped {
    mappings: Mutex<Mappings>,
    /// Regions of which this program has extents mapped as they are: by handles, and by pointers that it gave out.
    direct: Mutex<BTreeMap<Gid, (usize, usize)>>,
    /// Count of begins and ends: handles of regions look again when it has changed.
    changes: AtomicU64,
}

impl Mapped {
    /// Count of begins and ends of mappings.
    #[inline]
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    fn lock(&self) -> MutexGuard<'_, Mappings> {
        self.mappings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The mapping through which this program's commands on a region go. It is given back by [`Mapped::let_go`].
    pub fn of(&self, gid: Gid) -> Option<Arc<dyn MappedRegion>> {
        self.find(gid, |mapping| is_one_memory(mapping.consistency()))
    }

    /// Works on the mapping of a region whose bytes locks bind; `None` where this program has none.
    pub fn with_bound<T>(&self, gid: Gid, work: impl FnOnce(&dyn MappedRegion, &dyn BoundMemory) -> T) -> Option<T> {
        let mapping = self.find(gid, |mapping| mapping.bound().is_some())?;
        let done = mapping.bound().map(|bound| work(&*mapping, bound));
        self.let_go(gid, Some(mapping));
        done
    }

    fn find(&self, gid: Gid, is_wanted: impl FnOnce(&dyn MappedRegion) -> bool) -> Option<Arc<dyn MappedRegion>> {
        let mappings = self.lock();
        let mapping = mappings.get(&gid)?.upgrade()?;
        if is_wanted(&*mapping) {
            return Some(mapping);
        }
        drop(mappings);
        self.let_go(gid, Some(mapping));
        None
    }

    /// All mappings; each is given back by [`Mapped::let_go`].
    fn all(mappings: &Mappings) -> Vec<(Gid, Arc<dyn MappedRegion>)> {
        mappings.iter().filter_map(|(gid, mapping)| Some((*gid, mapping.upgrade()?))).collect()
    }

    /// Traffic of faults so far, their own and by way of the node. Mappings that ended count with `faults`.
    pub fn traffic(&self, faults: &FaultTraffic) -> Traffic {
        let mappings = self.lock();
        // The lock keeps mappings from ending: a page counts once, here or there.
        let mut traffic = faults.read();
        let those = Mapped::all(&mappings);
        drop(mappings);
        for (gid, mapping) in those {
            traffic += FaultTraffic::brought(mapping.brought());
            self.let_go(gid, Some(mapping));
        }
        traffic
    }

    /// Says whether what this program stored through its mappings is still there. **Errors**: as for [`MappedRegion::check_stores`].
    pub fn check_stores(&self) -> Result<()> {
        let mappings = self.lock();
        // While they are locked nobody finds out that it has the last of a mapping, so none ends here.
        mappings.values().filter_map(Weak::upgrade).try_for_each(|mapping| mapping.check_stores())
    }

    /// [`Mapped::check_stores`]. Before, stores through coherent mappings of regions with copies are put at all nodes that hold the bytes.
    ///
    /// **Cost**: a load for each mapping; a message each way to this host's node for each with copies, and those of the stores.
    pub fn release_stores(&self, shared: &Shared) -> Result<()> {
        let copied: Vec<_> = {
            let mappings = self.lock();
            mappings.values().filter_map(Weak::upgrade).filter_map(|mapping| mapping.copied_stores()).collect()
        };
        let released = copied.iter().try_for_each(|stores| stores.release(shared));
        self.check_stores().and(released)
    }

    /// The mapping of a region with that promise and those rights, for a pointer of the program. Makes it if there is none.
    ///
    /// **Errors**: [`Error::BadUse`] where the one that is there allows less; as for `make`.
    pub fn get_or_make(
        &self,
        (gid, name): (Gid, &str),
        (consistency, rights): (Consistency, Rights),
        make: impl FnOnce() -> Result<Arc<dyn MappedRegion>>,
    ) -> Result<Arc<dyn MappedRegion>> {
        let mut mappings = self.lock();
        if let Some(mapping) = mappings.get(&gid).and_then(Weak::upgrade) {
            let why = match (mapping.consistency() == consistency, mapping.rights() >= rights) {
                (true, true) => return Ok(mapping),
                (false, _) => "this program has it mapped with another consistency; unmap that first",
                (_, false) => "this program has it mapped for reading alone; map it by a handle that may write, or unmap it",
            };
            drop(mappings);
            self.let_go(gid, Some(mapping));
            return Err(Error::BadUse { region: name.to_owned(), reason: why.to_owned() });
        }
        let mapping = make()?;
        mappings.insert(gid, Arc::downgrade(&mapping));
        self.changes.fetch_add(1, Ordering::Release);
        Ok(mapping)
    }

    /// True if a pointer to extents as they are was given out.
    pub fn has_pointer(&self, gid: Gid) -> bool {
        self.lock_direct().get(&gid).is_some_and(|(_, pointers)| *pointers > 0)
    }

    fn lock_direct(&self) -> MutexGuard<'_, BTreeMap<Gid, (usize, usize)>> {
        self.direct.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Drops one use of the mapping. With the last the mapping ends, after all handles of the region were told to look again.
    pub fn let_go(&self, gid: Gid, mapping: Option<Arc<dyn MappedRegion>>) {
        let Some(mapping) = mapping else { return };
        if let Err(error) = self.end(gid, mapping) {
            tracing::warn!("{gid} was unmapped: {error}");
        }
    }

    /// Ends a mapping, like [`Mapped::let_go`]. **Errors**: [`Error::NodeLost`] where not all stores are at home, or on their way.
    pub fn end(&self, gid: Gid, mut mapping: Arc<dyn MappedRegion>) -> Result<()> {
        // The lock keeps others from getting the mapping: a count of one stays so.
        let mut mappings = self.lock();
        if Arc::strong_count(&mapping) > 1 {
            return mapping.check_stores();
        }
        mappings.remove(&gid);
        self.changes.fetch_add(1, Ordering::Release);
        Arc::get_mut(&mut mapping).map_or(Ok(()), |mapping| mapping.end())
    }
}

/// A hold on a region's extents. While it lives, the node counts this program among those that have them mapped as they are.
pub(crate) struct DirectHold {
    shared: Arc<Shared>,
    gid: Gid,
    is_pointer: bool,
}

impl DirectHold {
    /// For a handle's own use, or for a pointer that is given out.
    pub fn new(shared: &Arc<Shared>, gid: Gid, is_pointer: bool) -> DirectHold {
        let mut direct = shared.mapped.lock_direct();
        let (handles, pointers) = direct.entry(gid).or_default();
        *handles += usize::from(!is_pointer);
        *pointers += usize::from(is_pointer);
        DirectHold { shared: shared.clone(), gid, is_pointer }
    }
}

impl Drop for DirectHold {
    fn drop(&mut self) {
        let mut direct = self.shared.mapped.lock_direct();
        let Some((handles, pointers)) = direct.get_mut(&self.gid) else { return };
        *handles -= usize::from(!self.is_pointer);
        *pointers -= usize::from(self.is_pointer);
        let (has_handles, has_pointers) = (*handles > 0, *pointers > 0);
        if !has_handles && !has_pointers {
            direct.remove(&self.gid);
        }
        if !has_pointers && (self.is_pointer || !has_handles) {
            // A node that cannot be told is gone, or finds out by this program's end.
            let _ = self.shared.life().session.ask(&Request::Release { gid: self.gid, keeps: has_handles });
        }
    }
}
