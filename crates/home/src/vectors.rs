//! Memory of vectors, for simulators and tests.

mod commands;
mod copies;
mod queues;

pub use commands::{VectorExecution, write_runs};
pub use queues::{NoRoom, VectorWords};

use crate::memory::{Bytes, Memory};
use crate::pages::VectorPages;
use crate::queue_arrays::{QueueArray, QueueArrays};
use hanare_protocol::id::{Gid, Grant, NodeId, Rights, Slot};
use hanare_protocol::limits::PAGE_LEN;
use hanare_protocol::queue::{PortTable, Store};
use hanare_protocol::wire::copies::ExtentWrite;
use hanare_protocol::{Error, Result};
use queues::VectorQueues;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Extents that are vectors, whose queues spill to stores like `S`.
#[derive(Debug)]
pub struct SpillingVectors<S>(Vec<SpillingVector<S>>);

/// Extents that are vectors, whose queues have no room to spill.
pub type Vectors = SpillingVectors<NoRoom>;

/// An extent; a clone is the same bytes.
#[derive(Clone, Debug)]
pub struct SpillingVector<S> {
    gid: Gid,
    slot: Slot,
    memory: VectorQueues<S>,
    /// Its bytes, where hosts may map it.
    pages: Option<VectorPages>,
    queues: Rc<RefCell<QueueArrays<S>>>,
    /// Its copies are on other nodes.
    has_copies: bool,
    is_open: Rc<Cell<bool>>,
    has_heap: Rc<Cell<bool>>,
}

/// An extent of [`Vectors`].
pub type Vector = SpillingVector<NoRoom>;

impl Default for Vectors {
    fn default() -> Vectors {
        SpillingVectors(Vec::new())
    }
}

impl Vectors {
    /// An extent of zeros, in slot 0. The grant of zeros opens it.
    pub fn of(gid: Gid, len: usize) -> (Vectors, Vector) {
        SpillingVectors::spilling(gid, len, NoRoom)
    }

    /// Extents of zeros in the first slots, whose copies are on other nodes.
    #[cfg(test)]
    pub(crate) fn with_copies(gid: Gid, len: usize, count: u32) -> Vectors {
        let extent = |slot| SpillingVector { slot: Slot(slot), has_copies: true, ..Vectors::of(gid, len).1 };
        SpillingVectors((0..count).map(extent).collect())
    }

    /// An extent whose bytes are pages that hosts map.
    pub fn of_pages(gid: Gid, page_count: u64, pages: VectorPages) -> (Vectors, Vector) {
        let (mut vectors, _) = Vectors::of(gid, (page_count * PAGE_LEN) as usize);
        vectors.0[0].pages = Some(pages);
        let extent = vectors.0[0].clone();
        (vectors, extent)
    }
}

impl<S: Store + Clone> SpillingVectors<S> {
    /// The same with a store that each lane's units go to a clone of.
    pub fn spilling(gid: Gid, len: usize, spill: S) -> (SpillingVectors<S>, SpillingVector<S>) {
        let bytes = std::iter::repeat_n(0, len).map(Cell::new).collect();
        let queues = Rc::new(RefCell::new(QueueArrays::default()));
        let extent = SpillingVector {
            gid,
            slot: Slot(0),
            memory: VectorQueues { bytes, spill },
            pages: None,
            queues,
            has_copies: false,
            is_open: Rc::default(),
            has_heap: Rc::default(),
        };
        (SpillingVectors(vec![extent.clone()]), extent)
    }

    fn at(&self, slot: Slot) -> Option<&SpillingVector<S>> {
        self.0.get(slot.0 as usize)
    }
}

impl<S> SpillingVector<S> {
    /// True if commands on it are admitted, where it has copies.
    pub fn is_open(&self) -> bool {
        self.is_open.get()
    }

    /// True if it was noted that a heap begins in it.
    #[cfg(test)]
    pub(crate) fn has_heap(&self) -> bool {
        self.has_heap.get()
    }

    /// Its arrays of queues that are in use.
    #[cfg(test)]
    pub(crate) fn queue_arrays(&self) -> std::cell::Ref<'_, QueueArrays<S>> {
        self.queues.borrow()
    }
}

impl<S: Store + Clone> Memory for SpillingVectors<S> {
    type Extent = SpillingVector<S>;

    fn open(&self, slot: Slot, grant: Grant, _need: Rights) -> Result<SpillingVector<S>> {
        let refused = |gid| Error::GrantRefused { gid, node: NodeId(0) };
        match self.at(slot) {
            Some(extent) if grant == Grant::default() => Ok(extent.clone()),
            Some(extent) => Err(refused(extent.gid)),
            None => Err(refused(Gid(0))),
        }
    }

    fn find(&self, gid: Gid, slot: Slot) -> Option<SpillingVector<S>> {
        self.at(slot).filter(|extent| extent.gid == gid).cloned()
    }

    fn has(&self, gid: Gid, slot: Slot) -> bool {
        self.at(slot).is_some_and(|extent| extent.gid == gid)
    }

    fn answers(&self, _gid: Gid, _slot: Slot) -> bool {
        true
    }
}

impl<S: Store + Clone> Bytes for SpillingVector<S> {
    type Queues = VectorWords<S>;

    fn gid(&self) -> Gid {
        self.gid
    }

    fn slot(&self) -> Slot {
        self.slot
    }

    fn len_bytes(&self) -> u64 {
        self.memory.bytes.len() as u64
    }

    fn is_by_pages(&self) -> bool {
        self.pages.is_some()
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        if let Some(pages) = &self.pages {
            return pages.read(offset, into);
        }
        let from = &self.memory.bytes[offset as usize..][..into.len()];
        into.iter_mut().zip(from).for_each(|(into, from)| *into = from.get());
        Ok(())
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        if let Some(pages) = &self.pages {
            return pages.write(offset, bytes);
        }
        let into = &self.memory.bytes[offset as usize..][..bytes.len()];
        into.iter().zip(bytes).for_each(|(into, from)| into.set(*from));
        Ok(())
    }

    fn apply(&self, write: &ExtentWrite) -> Result<Vec<u8>> {
        copies::apply(self, write)
    }

    fn set_open(&self, is_open: bool) {
        self.is_open.set(is_open);
    }

    fn load_word(&self, offset: u64, len: u64) -> Result<u64> {
        let mut word = [0; 8];
        self.read(offset, &mut word[..len as usize])?;
        Ok(u64::from_le_bytes(word))
    }

    fn begin_heap(&self) -> Result<()> {
        self.has_heap.set(true);
        Ok(())
    }

    fn with_queues<T>(&self, offset: u64, with: impl FnOnce(&mut QueueArray<'_, VectorWords<S>>) -> Result<T>) -> Result<T> {
        self.queues.borrow_mut().with((self.gid, offset), &self.memory, with)
    }

    fn ports(&self) -> Vec<PortTable> {
        self.queues.borrow().tables()
    }

    fn set_ports(&self, ports: &[PortTable]) -> bool {
        self.queues.borrow_mut().set_tables((self.gid, self.len_bytes()), ports)
    }
}
