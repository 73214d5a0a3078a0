//! Shared memory across nodes, on a client's side: a region as a plain pointer, on any host.
//!
//! | module | holds |
//! |---|---|
//! | `coherent` | what threads on one machine get, for programs on many |
//! | `lanes`, `endpoint` | what a thread works with while it resolves its own fault |
//! | `report` | the last line of a program that touches what nobody can supply |

pub(crate) mod coherent;
mod endpoint;
mod lanes;
mod report;

use super::pool::Shared;
use super::region::Region;
use coherent::Coherent;
use hanare_memory::Window;
use hanare_protocol::id::Gid;
use hanare_protocol::page::Consistency;
use hanare_protocol::wire::control::Request;
use hanare_protocol::{Error, Result};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// A region behind one pointer, on whatever nodes its bytes are. Ends when the last handle of this program to it is dropped.
///
/// Other programs may change its bytes at any time, so safe code reaches them by [`SharedMapping::read`] and
/// [`SharedMapping::write`]; [`SharedMapping::ptr`] is the door to plain loads, stores and atomics.
///
/// # What programs must know
///
/// - A system call that touches an absent page fails with `EFAULT`: [`SharedMapping::touch`] the range first, or use `read` and
///   `write`.
/// - Threads that block SIGBUS die of their first fault: [`SharedMapping::admit_thread`].
/// - A child made by fork has no mapping.
/// - A page whose home is lost ends the program that touches it with SIGBUS and a line that says why; `read` and `write` return
///   an error instead.
pub struct SharedMapping {
    /// Taken when this is dropped.
    coherent: Option<Arc<Coherent>>,
    shared: Arc<Shared>,
    gid: Gid,
    name: String,
}

/// The coherent mappings of one attachment.
#[derive(Default)]
pub(crate) struct Mapped {
    mappings: Mutex<BTreeMap<Gid, Weak<Coherent>>>,
    /// Regions of which this program has extents mapped as they are: by handles, and by pointers that it gave out.
    direct: Mutex<BTreeMap<Gid, (usize, usize)>>,
    /// How often one has begun or ended: handles of regions look again when it is another.
    changes: AtomicU64,
}

impl Mapped {
    /// How often a mapping has begun or ended.
    #[inline]
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Gid, Weak<Coherent>>> {
        self.mappings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The mapping of a region that this program has.
    pub fn of(&self, gid: Gid) -> Option<Arc<Coherent>> {
        self.lock().get(&gid)?.upgrade()
    }

    /// The mapping of a region; made where there is none.
    pub fn get_or_make(&self, region: &Region) -> Result<Arc<Coherent>> {
        let mut mappings = self.lock();
        if let Some(coherent) = mappings.get(&region.gid()).and_then(Weak::upgrade) {
            return Ok(coherent);
        }
        let coherent = Arc::new(Coherent::new(region)?);
        mappings.insert(region.gid(), Arc::downgrade(&coherent));
        self.changes.fetch_add(1, Ordering::Release);
        Ok(coherent)
    }

    /// Whether a pointer to extents as they are was given out.
    pub fn has_pointer(&self, gid: Gid) -> bool {
        self.lock_direct().get(&gid).is_some_and(|(_, pointers)| *pointers > 0)
    }

    fn lock_direct(&self) -> MutexGuard<'_, BTreeMap<Gid, (usize, usize)>> {
        self.direct.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Somebody needs the mapping no more; with the last it ends, after all handles of the region were told to look again.
    pub fn let_go(&self, gid: Gid, coherent: Option<Arc<Coherent>>) {
        let Some(coherent) = coherent else { return };
        let mut mappings = self.lock();
        if Arc::strong_count(&coherent) == 1 {
            mappings.remove(&gid);
            self.changes.fetch_add(1, Ordering::Release);
        }
        drop(coherent);
    }
}

/// As long as this is there, the node counts this program among those that have extents of a region mapped as they are.
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
        if (*handles, *pointers) == (0, 0) {
            direct.remove(&self.gid);
            // A node that cannot be told is gone, or finds out by this program's end.
            let _ = self.shared.session.ask(&Request::Release { gid: self.gid });
        }
    }
}

impl SharedMapping {
    pub(crate) fn new(region: &Region, consistency: Consistency) -> Result<SharedMapping> {
        match consistency {
            Consistency::Coherent => {
                let coherent = region.shared.mapped.get_or_make(region)?;
                let (shared, gid, name) = (region.shared.clone(), region.gid(), region.name().to_owned());
                Ok(SharedMapping { coherent: Some(coherent), shared, gid, name })
            }
            Consistency::Explicit => {
                Err(Error::BadUse { region: region.name().to_owned(), reason: "explicit mappings are not there yet".to_owned() })
            }
        }
    }

    fn coherent(&self) -> &Coherent {
        self.coherent.as_ref().expect("there until this is dropped")
    }

    /// The first byte's address; valid as long as this lives. What it points to may be changed by other programs at any time:
    /// plain loads and stores where the program's own locks or barriers order them, atomics anywhere.
    pub fn ptr(&self) -> *mut u8 {
        self.coherent().ptr()
    }

    /// Length in bytes.
    pub fn len(&self) -> u64 {
        self.coherent().len()
    }

    /// Always false: no region has no bytes.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// Reads `into.len()` bytes at `offset`.
    ///
    /// **Cost**: the copy, and a fault for each page that is not here. **Errors**: [`Error::OutOfRange`], [`Error::RegionLost`].
    pub fn read(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        self.slice(offset, into.len() as u64)?.read_into(into).map_err(|_| self.lost())
    }

    /// Writes bytes at `offset`. **Cost**, **Errors**: as for [`SharedMapping::read`].
    pub fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.slice(offset, bytes.len() as u64)?.write_from(bytes).map_err(|_| self.lost())
    }

    /// Brings the pages of a range here, so that a system call may read them; they may be taken again at any time.
    pub fn touch(&self, offset: u64, len: u64) -> Result<()> {
        let mut byte = [0];
        let mut at = offset;
        while at < offset + len {
            self.read(at, &mut byte)?;
            at = (at / 4096 + 1) * 4096;
        }
        Ok(())
    }

    /// Lets faults of the calling thread be resolved; needed in threads that blocked SIGBUS.
    pub fn admit_thread() {
        hanare_memory::fault::admit_thread();
    }

    fn slice(&self, offset: u64, len: u64) -> Result<Window> {
        if offset.checked_add(len).is_none_or(|end| end > self.len()) {
            return Err(Error::OutOfRange { region: self.name.clone(), offset, len, limit: self.len() });
        }
        // SAFETY: the window is used within calls that borrow this.
        Ok(unsafe { self.coherent().window() }.slice(offset as usize, len as usize))
    }

    fn lost(&self) -> Error {
        Error::RegionLost { region: self.name.clone(), node: self.coherent().here() }
    }

    /// Faults, pages asked for, upgrades and waits of this program so far.
    pub fn counts(&self) -> [u64; 4] {
        self.coherent().counts()
    }
}

impl Drop for SharedMapping {
    fn drop(&mut self) {
        self.shared.mapped.let_go(self.gid, self.coherent.take());
    }
}
