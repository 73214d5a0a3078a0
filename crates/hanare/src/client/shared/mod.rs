//! Shared memory across nodes, on a client's side: a region as a plain pointer, on any host.
//!
//! | module | holds |
//! |---|---|
//! | `address` | where mappings begin |
//! | `coherent` | what threads on one machine get, for programs on many |
//! | `explicit` | stores that are seen after a flush there and an update here, or with a lock that they are bound to |
//! | `fault_contexts`, `endpoint` | what a thread works with while it resolves its own fault |
//! | `orders` | connections made anew for such a thread |
//! | `options` | what a mapping may use |
//! | `report` | the last line of a program that touches what nobody can supply |
//!
//! Every consistency gives a [`MappedRegion`]. A further one is a folder beside `coherent` and `explicit`, and a line in [`make`].

mod address;
pub(crate) mod coherent;
mod endpoint;
mod explicit;
mod fault_contexts;
mod options;
mod orders;
mod report;

pub use address::MapAddress;
pub use explicit::Explicit;
pub use options::MapOptions;

use super::attachment::{CarriedMemory, MappedRegion, PageCounts, Shared, is_one_memory};
use super::region::Region;
use crate::trace;
use coherent::Coherent;
use explicit::SharedExplicit;
use hanare_memory::Window;
use hanare_protocol::element::Element;
use hanare_protocol::entry::BoundShape;
use hanare_protocol::id::{Gid, NodeId, Rights};
use hanare_protocol::limits::PAGE_LEN;
use hanare_protocol::page::{Access, Consistency};
use hanare_protocol::shape::Strided;
use hanare_protocol::{Error, Result};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// A region behind one pointer, on whatever nodes its bytes are. Ends when the last handle of this program to it is dropped.
///
/// Other programs may change its bytes at any time, so safe code reaches them by [`SharedMapping::read`] and [`SharedMapping::write`].
/// [`SharedMapping::ptr`] is the way to plain loads and stores, [`SharedMapping::word`] to atomics.
///
/// # What programs must know
///
/// - A system call that touches an absent page fails with `EFAULT`: [`SharedMapping::touch`] the range first, or use `read` and
///   `write`.
/// - Threads that block SIGBUS die of their first fault: [`SharedMapping::admit_thread`].
/// - A child made by fork has no mapping.
/// - A touch of a page whose home is lost writes a line that says why, and ends the program with SIGBUS. `read` and `write` return an error
///   instead.
pub struct SharedMapping {
    /// Taken when this is dropped.
    mapping: Option<Arc<dyn MappedRegion>>,
    /// Its bytes.
    window: Window,
    shared: Arc<Shared>,
    gid: Gid,
    name: String,
}

impl Region {
    /// A plain pointer to the whole region, wherever its bytes are, with that promise to the programs that map it. All programs of all
    /// hosts map a region in one way at a time. To change it, all unmap it, meet at a barrier, and map it again. Mapping it twice in one
    /// program gives the same mapping.
    ///
    /// **Cost**: a message each way to each home of its bytes, and a few connections there. Waits for unfinished direct accesses of
    /// programs on the homes' hosts; their next commands go to the home. No other thread of this program uses the region meanwhile.
    /// **Errors**: [`Error::BadUse`] if it is mapped otherwise, or a program has a pointer to its memory. The same if a program does not
    /// end such an access within half the time for a reply.
    ///
    /// FEATURE: EU-F3 D2-F6
    pub fn map(&self, consistency: Consistency) -> Result<SharedMapping> {
        SharedMapping::new(self, consistency, MapAddress::Usual)
    }

    /// [`Region::map`] at an address. With [`MapAddress::Same`] all ranks that map the region have it at one address. So pointers into it
    /// may lie in shared memory. [`Region::map`] tries that too, and takes another address where it is in use.
    ///
    /// **Errors**: also [`Error::BadUse`] where something else is there, or this program has the region mapped elsewhere.
    pub fn map_at(&self, consistency: Consistency, address: MapAddress) -> Result<SharedMapping> {
        SharedMapping::new(self, consistency, address)
    }
}

impl SharedMapping {
    fn new(region: &Region, consistency: Consistency, address: MapAddress) -> Result<SharedMapping> {
        if is_one_memory(consistency) {
            // Earlier commands of this client come before its accesses through the pointer.
            region.quiesce();
        }
        let (shared, gid, name) = (region.shared.clone(), region.gid(), region.name().to_owned());
        let make = || make(region, consistency, address);
        let mapping = shared.mapped.get_or_make((gid, &name), (consistency, region.rights()), make)?;
        // SAFETY: it is used only as long as this, which keeps the mapping.
        let window = unsafe { mapping.window() };
        let mapping = SharedMapping { mapping: Some(mapping), window, shared, gid, name };
        match address.is_met(gid, mapping.ptr().addr()) {
            true => Ok(mapping),
            false => Err(address.refused(region, &format!("this program has it mapped at {:p}", mapping.ptr()))),
        }
    }

    fn mapping(&self) -> &dyn MappedRegion {
        self.mapping.as_deref().expect("there until this is dropped")
    }

    /// The mapping's promise.
    pub fn consistency(&self) -> Consistency {
        self.mapping().consistency()
    }

    /// True if it begins at the address that the region has in all programs. A pointer into it is good in all programs where this is true.
    pub fn is_at_usual_address(&self) -> bool {
        self.ptr().addr() == MapAddress::usual(self.gid)
    }

    /// Bytes of it, to be bound to a lock by [`LockGuard::bind`](crate::LockGuard::bind).
    ///
    /// **Errors**: [`Error::BadUse`] where the mapping is not [`Consistency::Entry`]; [`Error::OutOfRange`], [`Error::BadShape`].
    pub fn bytes(&self, shape: Strided) -> Result<BoundShape> {
        if self.consistency() != Consistency::Entry {
            let reason = format!("it is mapped {}; map it Consistency::Entry to bind its bytes to a lock", self.consistency());
            return Err(Error::BadUse { region: self.name.clone(), reason });
        }
        shape.check(&self.name, self.len())?;
        Ok(BoundShape { gid: self.gid, shape })
    }

    /// Its bytes as messages to their home carry them.
    pub(crate) fn carried(&self) -> Option<&dyn CarriedMemory> {
        self.mapping().carried()
    }

    /// The region's name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The region.
    pub(crate) fn gid(&self) -> Gid {
        self.gid
    }

    /// The first byte's address; valid as long as this lives. Other programs may change what it points to at any time. Use plain loads and
    /// stores where the program's own locks or barriers order them, and atomics anywhere.
    pub fn ptr(&self) -> *mut u8 {
        self.window.ptr()
    }

    /// The word of 8 bytes at `offset`, for atomics that programs on all hosts see. A touch of it may fault, as any through
    /// [`SharedMapping::ptr`].
    ///
    /// **Cost**: none; each use is a plain atomic if this host may write the page, else a fetch of it. **Errors**: [`Error::OutOfRange`].
    /// [`Error::BadElement`] if `offset` is no multiple of 8. [`Error::BadUse`] if the mapping is not coherent, or only for reading.
    pub fn word(&self, offset: u64) -> Result<&AtomicU64> {
        let refused = |reason: &str| Error::BadUse { region: self.name.clone(), reason: reason.to_owned() };
        if !is_one_memory(self.consistency()) {
            return Err(refused("an atomic reaches other hosts only through a coherent mapping, or by a fetch of the word"));
        }
        if self.mapping().rights() != Rights::Write {
            return Err(refused("it is mapped for reading; open it for writing to change its words"));
        }
        let (len, limit) = (size_of::<u64>() as u64, self.len());
        if offset.checked_add(len).is_none_or(|end| end > limit) {
            return Err(Error::OutOfRange { region: self.name.clone(), offset, len, limit });
        }
        if !offset.is_multiple_of(size_of::<u64>() as u64) {
            return Err(Error::BadElement {
                region: self.name.clone(),
                operation: "an atomic".to_owned(),
                element: Element::U64.to_string(),
                reason: format!("offset {offset} is no multiple of 8 bytes"),
            });
        }
        // SAFETY: 8 aligned bytes of the mapping, which starts at a page and outlives the borrow of this; all who know of it
        // may change it at any time, which an atomic allows.
        Ok(unsafe { AtomicU64::from_ptr(self.ptr().add(offset as usize).cast()) })
    }

    /// Length in bytes.
    pub fn len(&self) -> u64 {
        self.window.len() as u64
    }

    /// Always false: no region has no bytes.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Reads `into.len()` bytes at `offset`.
    ///
    /// **Cost**: the copy; pages that are not here come many at a time. **Errors**: [`Error::OutOfRange`]; [`Error::NodeLost`] with
    /// the page's home, [`Error::PageLost`] where the home is there and has not its newest bytes.
    pub fn read(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        self.mapping().read(offset, into)
    }

    /// Writes bytes at `offset`. **Cost**, **Errors**: as for [`SharedMapping::read`].
    pub fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.mapping().write(offset, bytes)
    }

    /// Makes this program's stores to a range visible to others, at its home. Where the mapping is coherent they are so already. Where the
    /// region then has copies, all nodes that hold its bytes have all of its stores when this returns.
    ///
    /// **Cost**, **Errors**: as for [`Explicit::flush`]. **Source**: [D2 Table 1] dn_flush.
    pub fn flush(&self, offset: u64, len: u64) -> Result<()> {
        self.mapping().flush(offset, len)
    }

    /// Lets this program see what others made visible in a range; its own stores that were not flushed stay. Where the mapping is
    /// coherent it sees it already.
    ///
    /// **Cost**, **Errors**: as for [`Explicit::update`]. **Source**: [D2 Table 1] dn_update.
    pub fn update(&self, offset: u64, len: u64) -> Result<()> {
        self.mapping().update(offset, len)
    }

    /// Brings what others made visible in a range, of which this program knows that it has changed, as by a barrier. It is
    /// [`SharedMapping::update`] and [`SharedMapping::touch`] without asking first.
    ///
    /// **Cost**: pages come many at a time, whether they have changed or not. **Errors**: theirs.
    pub fn bring(&self, offset: u64, len: u64) -> Result<()> {
        self.mapping().renew(offset, len)?;
        self.touch(offset, len)
    }

    /// Brings the pages of a range here, so that a system call may read them. They may be taken again at any time.
    ///
    /// **Cost**: absent pages come many at a time, without a fault; then a read of a byte of each page. **Errors**: as for
    /// [`SharedMapping::read`].
    pub fn touch(&self, offset: u64, len: u64) -> Result<()> {
        trace::slice_on("touch", &self.name, (offset, len), || {
            self.mapping().touch(offset, len, Access::Read)?;
            let (mut at, end) = (offset, offset.saturating_add(len));
            while at < end {
                self.read(at, &mut [0])?;
                at = (at / PAGE_LEN + 1) * PAGE_LEN;
            }
            Ok(())
        })
    }

    /// [`SharedMapping::touch`] for a system call that writes the pages, as `read` from a file into the mapping does. Each page is this
    /// host's to write, and no byte of it changes. Another host may take a page back before the system call is at it. Then that fails
    /// with `EFAULT`: touch again and go on. The kernel asks no program about its own accesses, so nothing can prevent that.
    ///
    /// **Cost**: pages that are not here come many at a time; an atomic step in each page. **Errors**: as for [`SharedMapping::write`], and
    /// [`Error::BadUse`] where it is mapped for reading.
    pub fn touch_to_write(&self, offset: u64, len: u64) -> Result<()> {
        trace::slice_on("touch to write", &self.name, (offset, len), || self.mapping().touch(offset, len, Access::Write))
    }

    /// Lets faults of the calling thread be resolved; needed in threads that blocked SIGBUS.
    pub fn admit_thread() {
        hanare_memory::fault::admit_thread();
    }

    /// Counts of this program's pages of the mapping so far.
    pub fn counts(&self) -> PageCounts {
        trace::take_over();
        self.mapping().counts()
    }

    /// Ends the mapping. Its result says if the stores through it are kept: at home, or on their way to the one who asked. Dropping it does
    /// the same, and tells nobody.
    ///
    /// **Cost**: with the last mapping of this host all pages that it owns go home. **Errors**: [`Error::NodeLost`] if stores are lost:
    /// this host was cut off, or a home is gone that had not got them. The mapping has ended all the same.
    pub fn unmap(mut self) -> Result<()> {
        let released = self.release();
        let ended = self.mapping.take().map_or(Ok(()), |mapping| self.shared.mapped.end(self.gid, mapping));
        ended.and(released)
    }

    /// Has its stores to a region with copies put at all nodes that hold the bytes: other programs of this host may go on with the pages.
    fn release(&self) -> Result<()> {
        let stores = self.mapping.as_ref().and_then(|mapping| mapping.copied_stores());
        stores.map_or(Ok(()), |stores| stores.release(&self.shared))
    }
}

/// A mapping with that promise: the one place that knows all of them.
fn make(region: &Region, consistency: Consistency, address: MapAddress) -> Result<Arc<dyn MappedRegion>> {
    Ok(match consistency {
        Consistency::Coherent => Arc::new(Coherent::new(region, address)?),
        Consistency::Explicit | Consistency::Entry => Arc::new(SharedExplicit::new(region, consistency, address)?),
    })
}

/// The error for a page that its home did not give. The home may be back, or lost with the region's bytes.
fn not_given(home: NodeId, region: &str, offset: u64, why: &str) -> Error {
    let help = "once it is back open the region again, which says whether the bytes are lost";
    Error::NodeLost { node: home, reason: format!("it did not give offset {offset} of region '{region}': {why}; {help}") }
}

impl Drop for SharedMapping {
    fn drop(&mut self) {
        let _ = self.release();
        self.shared.mapped.let_go(self.gid, self.mapping.take());
    }
}
