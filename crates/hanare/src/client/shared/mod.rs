//! Shared memory across nodes, on a client's side: a region as a plain pointer, on any host.
//!
//! | module | holds |
//! |---|---|
//! | `coherent` | what threads on one machine get, for programs on many |
//! | `explicit` | stores that are seen after a flush there and an update here |
//! | `mapped` | which regions this program has mapped, and how |
//! | `lanes`, `endpoint` | what a thread works with while it resolves its own fault |
//! | `mender` | connections made anew for such a thread |
//! | `counters`, `options` | what happened to pages; what a mapping may use |
//! | `report` | the last line of a program that touches what nobody can supply |

pub(crate) mod coherent;
mod counters;
mod endpoint;
mod explicit;
mod lanes;
mod mapped;
mod mender;
mod options;
mod report;
mod streams;

pub(crate) use counters::FaultTraffic;
pub use counters::PageCounts;
#[cfg(feature = "node")]
pub(crate) use counters::{LOSS_SEAT, seat};
pub use explicit::Explicit;
pub(crate) use mapped::{DirectHold, Mapped};
pub(crate) use mender::Mender;
pub use options::MapOptions;

use super::pool::Shared;
use super::region::Region;
use crate::trace;
use coherent::Coherent;
use hanare_memory::{Window, vector};
use hanare_protocol::element::{Element, Operator};
use hanare_protocol::id::{Gid, NodeId, Rights};
use hanare_protocol::limits::PAGE_LEN;
use hanare_protocol::page::{Access, Consistency};
use hanare_protocol::{Error, Result};
use mapped::SharedExplicit;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// A region behind one pointer, on whatever nodes its bytes are. Ends when the last handle of this program to it is dropped.
///
/// Other programs may change its bytes at any time, so safe code reaches them by [`SharedMapping::read`] and
/// [`SharedMapping::write`]; [`SharedMapping::ptr`] is the door to plain loads and stores, [`SharedMapping::word`] to atomics.
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
    way: Option<Way>,
    shared: Arc<Shared>,
    gid: Gid,
    name: String,
}

/// A mapping, with what it promises.
enum Way {
    Coherent(Arc<Coherent>),
    Explicit(Arc<SharedExplicit>),
}

impl SharedMapping {
    pub(crate) fn new(region: &Region, consistency: Consistency) -> Result<SharedMapping> {
        let mapped = &region.shared.mapped;
        let way = match consistency {
            Consistency::Coherent => {
                // What this client began by commands comes before what it does through the pointer.
                region.quiesce();
                Way::Coherent(mapped.get_or_make(region)?)
            }
            Consistency::Explicit => Way::Explicit(mapped.get_or_make_explicit(region)?),
        };
        let (shared, gid, name) = (region.shared.clone(), region.gid(), region.name().to_owned());
        Ok(SharedMapping { way: Some(way), shared, gid, name })
    }

    fn way(&self) -> &Way {
        self.way.as_ref().expect("there until this is dropped")
    }

    /// What it promises.
    pub fn consistency(&self) -> Consistency {
        match self.way() {
            Way::Coherent(_) => Consistency::Coherent,
            Way::Explicit(_) => Consistency::Explicit,
        }
    }

    /// The first byte's address; valid as long as this lives. What it points to may be changed by other programs at any time:
    /// plain loads and stores where the program's own locks or barriers order them, atomics anywhere.
    pub fn ptr(&self) -> *mut u8 {
        match self.way() {
            Way::Coherent(coherent) => coherent.ptr(),
            Way::Explicit(explicit) => explicit.ptr(),
        }
    }

    /// The word of 8 bytes at `offset`, for atomics that programs on all hosts see. A touch of it may fault, as any through
    /// [`SharedMapping::ptr`].
    ///
    /// **Cost**: none; each use is a plain atomic where this host may write the page, else a fetch of it. **Errors**:
    /// [`Error::OutOfRange`]; [`Error::BadElement`] where `offset` is no multiple of 8; [`Error::BadUse`] where the mapping is
    /// not coherent, or only for reading.
    pub fn word(&self, offset: u64) -> Result<&AtomicU64> {
        let refused = |reason: &str| Error::BadUse { region: self.name.clone(), reason: reason.to_owned() };
        let Way::Coherent(coherent) = self.way() else {
            return Err(refused("an atomic reaches other hosts only through a coherent mapping, or by a fetch of the word"));
        };
        if coherent.rights() != Rights::Write {
            return Err(refused("it is mapped for reading; open it for writing to change its words"));
        }
        let window = self.slice(coherent, offset, size_of::<u64>() as u64)?;
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
        Ok(unsafe { AtomicU64::from_ptr(window.ptr().cast()) })
    }

    /// Length in bytes.
    pub fn len(&self) -> u64 {
        match self.way() {
            Way::Coherent(coherent) => coherent.len(),
            Way::Explicit(explicit) => explicit.len() as u64,
        }
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
        match self.way() {
            Way::Coherent(coherent) => {
                let window = self.slice(coherent, offset, into.len() as u64)?;
                bring(coherent, offset, into.len() as u64, Access::Read);
                window.read_into(into).map_err(|_| coherent.lost(&self.name))
            }
            Way::Explicit(explicit) => explicit.read(offset, into),
        }
    }

    /// Writes bytes at `offset`. **Cost**, **Errors**: as for [`SharedMapping::read`].
    pub fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        match self.way() {
            Way::Coherent(coherent) => {
                let window = self.slice(coherent, offset, bytes.len() as u64)?;
                bring(coherent, offset, bytes.len() as u64, Access::Write);
                window.write_from(bytes).map_err(|_| coherent.lost(&self.name))
            }
            Way::Explicit(explicit) => explicit.write(offset, bytes),
        }
    }

    /// Makes this program's stores to a range visible to others, at its home. Where the mapping is coherent they are so already.
    ///
    /// **Cost**, **Errors**: as for [`Explicit::flush`]. **Source**: [D2 Table 1] dn_flush.
    pub fn flush(&self, offset: u64, len: u64) -> Result<()> {
        match self.way() {
            Way::Coherent(coherent) => self.slice(coherent, offset, len).and_then(|_| coherent.check_stores()),
            Way::Explicit(explicit) => explicit.flush(offset, len),
        }
    }

    /// Lets this program see what others made visible in a range; its own stores that were not flushed stay. Where the mapping is
    /// coherent it sees it already.
    ///
    /// **Cost**, **Errors**: as for [`Explicit::update`]. **Source**: [D2 Table 1] dn_update.
    pub fn update(&self, offset: u64, len: u64) -> Result<()> {
        match self.way() {
            Way::Coherent(coherent) => self.slice(coherent, offset, len).map(drop),
            Way::Explicit(explicit) => explicit.update(offset, len),
        }
    }

    /// Brings the pages of a range here, so that a system call may read them; they may be taken again at any time.
    ///
    /// **Cost**: pages that are not here come many at a time, without a fault; a read of a byte of each page. **Errors**: as for
    /// [`SharedMapping::read`].
    pub fn touch(&self, offset: u64, len: u64) -> Result<()> {
        trace::slice_on("touch", &self.name, (offset, len), || {
            let end = offset.saturating_add(len);
            match self.way() {
                Way::Coherent(coherent) => {
                    self.slice(coherent, offset, len)?;
                    bring(coherent, offset, len, Access::Read);
                }
                Way::Explicit(explicit) => explicit.bring_all(offset, len)?,
            }
            let mut at = offset;
            while at < end {
                self.read(at, &mut [0])?;
                at = (at / PAGE_LEN + 1) * PAGE_LEN;
            }
            Ok(())
        })
    }

    /// As [`SharedMapping::touch`], so that a system call may write them too, as `read` from a file into the mapping: each page is this
    /// host's to write, and no byte of it changes. Where another host takes a page back before the system call is at it, that fails with
    /// `EFAULT`: touch again and go on. Nothing can prevent that, because the kernel asks no program about its own accesses.
    ///
    /// **Cost**: pages that are not here come many at a time; an atomic step in each page. **Errors**: as for [`SharedMapping::write`], and
    /// [`Error::BadUse`] where it is mapped for reading.
    pub fn touch_to_write(&self, offset: u64, len: u64) -> Result<()> {
        trace::slice_on("touch to write", &self.name, (offset, len), || {
            let coherent = match self.way() {
                Way::Explicit(explicit) => return explicit.touch(offset, len, Rights::Write),
                Way::Coherent(coherent) => coherent,
            };
            if coherent.rights() != Rights::Write {
                let reason = "it is mapped for reading; open it for writing".to_owned();
                return Err(Error::BadUse { region: self.name.clone(), reason });
            }
            self.slice(coherent, offset, len)?;
            bring(coherent, offset, len, Access::Write);
            let mut page = offset / PAGE_LEN * PAGE_LEN;
            while page < offset.saturating_add(len) {
                // SAFETY: the mapping has whole pages, and outlives this call.
                let word = unsafe { Window::new(coherent.ptr().add(page as usize), size_of::<u64>()) };
                vector::update_word(word, 0, Operator::Or, 0).map_err(|_| coherent.lost(&self.name))?;
                page = page.saturating_add(PAGE_LEN);
            }
            Ok(())
        })
    }

    /// Lets faults of the calling thread be resolved; needed in threads that blocked SIGBUS.
    pub fn admit_thread() {
        hanare_memory::fault::admit_thread();
    }

    /// What happened to pages of this program's mapping so far.
    pub fn counts(&self) -> PageCounts {
        trace::take_over();
        match self.way() {
            Way::Coherent(coherent) => coherent.counts(),
            Way::Explicit(explicit) => explicit.counters(),
        }
    }

    /// Ends the mapping, and says whether what was stored through it is kept: at home, or on its way to who asked for it. Dropping it
    /// does the same, and tells nobody.
    ///
    /// **Cost**: with the last mapping of this host all pages that it owns go home. **Errors**: [`Error::NodeLost`] where stores are
    /// lost: this host was cut off, or a home is gone that had not got them. The mapping has ended all the same.
    pub fn unmap(mut self) -> Result<()> {
        match self.way.take() {
            Some(Way::Coherent(coherent)) => self.shared.mapped.end(self.gid, coherent),
            _ => Ok(()),
        }
    }

    fn slice(&self, coherent: &Coherent, offset: u64, len: u64) -> Result<Window> {
        if offset.checked_add(len).is_none_or(|end| end > coherent.len()) {
            return Err(Error::OutOfRange { region: self.name.clone(), offset, len, limit: coherent.len() });
        }
        // SAFETY: the window is used within calls that borrow this.
        Ok(unsafe { coherent.window() }.slice(offset as usize, len as usize))
    }
}

/// The error for a page that its home did not give: the home may be back, or be lost with the region's bytes.
fn not_given(home: NodeId, region: &str, offset: u64, why: &str) -> Error {
    let help = "once it is back open the region again, which says whether the bytes are lost";
    Error::NodeLost { node: home, reason: format!("it did not give offset {offset} of region '{region}': {why}; {help}") }
}

/// Brings pages of a range at once. A single page comes as well by a fault.
fn bring(coherent: &Coherent, offset: u64, len: u64, access: Access) {
    let (first, end) = (offset / PAGE_LEN, (offset + len).div_ceil(PAGE_LEN));
    if end > first + 1 {
        coherent.bring(first, end, access);
    }
}

impl Drop for SharedMapping {
    fn drop(&mut self) {
        if let Some(Way::Coherent(coherent)) = self.way.take() {
            self.shared.mapped.let_go(self.gid, Some(coherent));
        }
    }
}
