//! Memory of vectors, for simulators and tests.

use crate::memory::{Bytes, Memory, Need, QueueArray, Recall};
use hanare_protocol::id::{Gid, Grant, NodeId, Rights, Slot};
use hanare_protocol::page::Face;
use hanare_protocol::{Error, Result};
use std::cell::Cell;
use std::rc::Rc;

/// Extents that are vectors. No host maps them, and no queue lies in them.
#[derive(Debug, Default)]
pub struct Vectors(Vec<Vector>);

/// One of them; a clone is the same bytes.
#[derive(Clone, Debug)]
pub struct Vector {
    gid: Gid,
    slot: Slot,
    bytes: Rc<[Cell<u8>]>,
}

impl Vectors {
    /// One extent of zeros, in slot 0. The grant of zeros opens it.
    pub fn of(gid: Gid, len: usize) -> (Vectors, Vector) {
        let bytes = std::iter::repeat_n(0, len).map(Cell::new).collect();
        let extent = Vector { gid, slot: Slot(0), bytes };
        (Vectors(vec![extent.clone()]), extent)
    }

    fn at(&self, slot: Slot) -> Option<&Vector> {
        self.0.get(slot.0 as usize)
    }
}

impl Memory for Vectors {
    type Extent = Vector;

    fn open(&self, slot: Slot, grant: Grant, _need: Rights) -> Result<Vector> {
        let refused = |gid| Error::GrantRefused { gid, node: NodeId(0) };
        match self.at(slot) {
            Some(extent) if grant == Grant::default() => Ok(extent.clone()),
            Some(extent) => Err(refused(extent.gid)),
            None => Err(refused(Gid(0))),
        }
    }

    fn find(&self, gid: Gid, slot: Slot) -> Option<Vector> {
        self.at(slot).filter(|extent| extent.gid == gid).cloned()
    }

    fn has(&self, gid: Gid, slot: Slot) -> bool {
        self.at(slot).is_some_and(|extent| extent.gid == gid)
    }

    fn is_coherent(&self, _gid: Gid) -> bool {
        false
    }

    fn recall(&mut self, _need: Need) -> Result<Recall> {
        unreachable!("no extent is reached by pages")
    }

    fn release(&mut self, _face: Face) {}
}

impl Bytes for Vector {
    fn gid(&self) -> Gid {
        self.gid
    }

    fn slot(&self) -> Slot {
        self.slot
    }

    fn len_bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn is_by_pages(&self) -> bool {
        false
    }

    fn read(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        let from = &self.bytes[offset as usize..][..into.len()];
        into.iter_mut().zip(from).for_each(|(into, from)| *into = from.get());
        Ok(())
    }

    fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let into = &self.bytes[offset as usize..][..bytes.len()];
        into.iter().zip(bytes).for_each(|(into, from)| into.set(*from));
        Ok(())
    }

    fn load_word(&self, offset: u64, len: u64) -> Result<u64> {
        let mut word = [0; 8];
        self.read(offset, &mut word[..len as usize])?;
        Ok(u64::from_le_bytes(word))
    }

    fn begin_heap(&self) -> Result<()> {
        Ok(())
    }

    fn with_queues<T>(&self, offset: u64, _with: impl FnOnce(&mut dyn QueueArray) -> Result<T>) -> Result<T> {
        let reason = "no queues lie in it".to_owned();
        Err(Error::NoQueue { region: self.gid.to_string(), offset, reason })
    }
}
