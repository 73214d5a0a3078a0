//! A node's memory, reduced to what the protocol says of it: slots, lengths, and grants of an epoch.

use crate::dice::Dice;
use hanare_protocol::error::{Error, Result};
use hanare_protocol::id::{Epoch, Gid, Grant, Slot};
use hanare_protocol::wire::control::{Memory, ReportedExtent};
use std::collections::BTreeMap;

/// Bytes that each node lends.
pub(crate) const LENT: u64 = 1 << 20;

/// The memory of one node process. Slots are reused, the lowest first, to make mistakes about them show.
#[derive(Debug)]
pub(crate) struct Lender {
    pub epoch: Epoch,
    pub extents: BTreeMap<Slot, ReportedExtent>,
    grants: Dice,
}

impl Lender {
    pub fn new(life: u64) -> Lender {
        Lender { epoch: Epoch(0), extents: BTreeMap::new(), grants: Dice::new(life << 32) }
    }

    pub fn memory(&self) -> Memory {
        Memory { lent: LENT, populated: LENT, used: self.used(), spilled: 0, page: 4096, clients: 0, is_plain: false }
    }

    fn used(&self) -> u64 {
        self.extents.values().map(|extent| extent.len).sum()
    }

    fn grant(&mut self) -> Grant {
        Grant((u128::from(self.grants.next()) << 64 | u128::from(self.grants.next())).to_le_bytes())
    }

    /// Makes extents, all or none.
    pub fn make(&mut self, gid: Gid, lens: &[u64]) -> Result<Vec<ReportedExtent>> {
        let (asked, free) = (lens.iter().sum::<u64>(), LENT - self.used());
        if asked > free {
            return Err(Error::PoolFull { asked, free });
        }
        let mut made = Vec::new();
        for len in lens {
            let slot = (0..).map(Slot).find(|slot| !self.extents.contains_key(slot)).expect("slots do not end");
            let extent = ReportedExtent { slot, gid, len: *len, read: self.grant(), write: self.grant() };
            self.extents.insert(slot, extent);
            made.push(extent);
        }
        Ok(made)
    }

    /// Begins an epoch: every grant is made anew.
    pub fn regrant(&mut self, epoch: Epoch) -> Vec<ReportedExtent> {
        self.epoch = epoch;
        let slots: Vec<Slot> = self.extents.keys().copied().collect();
        for slot in slots {
            let (read, write) = (self.grant(), self.grant());
            let extent = self.extents.get_mut(&slot).expect("just listed");
            (extent.read, extent.write) = (read, write);
        }
        self.extents.values().copied().collect()
    }

    /// The region that a grant opens here, if it opens one.
    pub fn opens(&self, slot: Slot, grant: Grant) -> Option<Gid> {
        let extent = self.extents.get(&slot)?;
        (extent.read == grant || extent.write == grant).then_some(extent.gid)
    }
}
