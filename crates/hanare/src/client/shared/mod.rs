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
use hanare_protocol::{Error, Result};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

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
    coherent: Arc<Coherent>,
    name: String,
}

/// The coherent mappings of one attachment.
#[derive(Default)]
pub(crate) struct Mapped(Mutex<BTreeMap<Gid, Weak<Coherent>>>);

impl Mapped {
    /// The mapping of a region that this program has.
    pub fn of(&self, gid: Gid) -> Option<Arc<Coherent>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&gid)?.upgrade()
    }

    /// The mapping of a region; made where there is none.
    fn get_or_make(&self, region: &Region) -> Result<Arc<Coherent>> {
        let mut mapped = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(coherent) = mapped.get(&region.gid()).and_then(Weak::upgrade) {
            return Ok(coherent);
        }
        mapped.retain(|_, coherent| coherent.strong_count() > 0);
        let coherent = Arc::new(Coherent::new(region)?);
        mapped.insert(region.gid(), Arc::downgrade(&coherent));
        Ok(coherent)
    }
}

impl SharedMapping {
    pub(crate) fn new(region: &Region, consistency: Consistency) -> Result<SharedMapping> {
        match consistency {
            Consistency::Coherent => {
                let coherent = region.shared.mapped.get_or_make(region)?;
                Ok(SharedMapping { coherent, name: region.name().to_owned() })
            }
            Consistency::Explicit => Err(Error::BadUse {
                region: region.name().to_owned(),
                reason: "explicit mappings are not there yet".to_owned(),
            }),
        }
    }

    /// The first byte's address; valid as long as this lives. What it points to may be changed by other programs at any time:
    /// plain loads and stores where the program's own locks or barriers order them, atomics anywhere.
    pub fn ptr(&self) -> *mut u8 {
        self.coherent.ptr()
    }

    /// Length in bytes.
    pub fn len(&self) -> u64 {
        self.coherent.len()
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
        Ok(unsafe { self.coherent.window() }.slice(offset as usize, len as usize))
    }

    fn lost(&self) -> Error {
        Error::RegionLost { region: self.name.clone(), node: self.coherent.here() }
    }

    /// Faults, pages asked for, upgrades and waits of this program so far.
    pub fn counts(&self) -> [u64; 4] {
        self.coherent.counts()
    }
}

impl Shared {
    /// The coherent mapping of a region, if this program has one.
    pub(crate) fn coherent(&self, gid: Gid) -> Option<Arc<Coherent>> {
        self.mapped.of(gid)
    }
}
