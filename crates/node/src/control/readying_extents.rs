//! Extents of this node that can have copies: orders that make them ready for these or end that, until no command is under way, and their slots.

use hanare_protocol::copies::HolderSet;
use hanare_protocol::id::{Gid, Slot};
use hanare_protocol::wire::copies::CopiedExtent;
use std::collections::BTreeMap;

/// Extents that are made ready for copies as soon as no command is under way. Without a set they are ready no more.
pub(super) struct ReadyingExtents {
    pub order: u64,
    pub gid: Gid,
    pub set: Option<HolderSet>,
    pub extents: Vec<(CopiedExtent, Slot)>,
    pub until_ms: u64,
    /// True if the service was told to let go of them.
    pub is_told: bool,
}

/// Slots of extents with copies, which other nodes name by region and number.
#[derive(Default)]
pub(super) struct CopiedSlots {
    slots: BTreeMap<CopiedExtent, Slot>,
    extents: BTreeMap<Slot, CopiedExtent>,
}

impl CopiedSlots {
    pub fn note(&mut self, extent: CopiedExtent, slot: Slot) {
        self.slots.insert(extent, slot);
        self.extents.insert(slot, extent);
    }

    pub fn slot(&self, extent: CopiedExtent) -> Option<Slot> {
        self.slots.get(&extent).copied()
    }

    /// Extents are freed. Such an extent may be here in another slot by now.
    pub fn forget(&mut self, slots: &[Slot]) {
        for slot in slots {
            let extent = self.extents.remove(slot);
            if let Some(extent) = extent.filter(|extent| self.slots.get(extent) == Some(slot)) {
                self.slots.remove(&extent);
            }
        }
    }
}
