//! Extents that are written to a file, and that a later life of the node finds there.

use super::{Entries, Entry, Extents, fresh_grant};
use crate::extent::NodeExtent;
use hanare_protocol::Result;
use hanare_protocol::id::{Gid, Slot};
use hanare_protocol::wire::control::ReportedExtent;
use serde::{Deserialize, Serialize};
use std::sync::atomic::{Ordering, fence};
use std::sync::{Arc, MutexGuard, PoisonError};

/// An extent as it is found again by a life after this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Described {
    pub slot: Slot,
    pub gid: Gid,
    pub len: u64,
    /// True if the region's heap began here.
    pub has_heap: bool,
}

/// Extents of the last file of this life, and of one that is being written, by slot. A later life brings them by slot and region. So no region
/// that left and came back may be taken for the earlier one.
#[derive(Default)]
pub(super) struct InFiles {
    last: Vec<(Slot, Gid)>,
    next: Vec<(Slot, Gid)>,
}

impl InFiles {
    /// True if a file names an extent of that region in that slot.
    pub fn has(&self, slot: Slot, gid: Gid) -> bool {
        [&self.last, &self.next].iter().any(|file| file.binary_search(&(slot, gid)).is_ok())
    }
}

impl Entries {
    /// See [`Extents::describe`].
    fn describe(&self) -> Vec<(Described, Arc<NodeExtent>)> {
        let described = |(slot, entry): (usize, &Option<Entry>)| {
            // Other nodes keep what has copies; this one may not be its home when it comes back.
            let held = entry.as_ref().map(|entry| entry.held.clone()).filter(|held| held.is_alone())?;
            let has_heap = held.has_heap();
            Some((Described { slot: Slot(slot as u32), gid: held.gid(), len: held.len(), has_heap }, held))
        };
        self.slots.iter().enumerate().filter_map(described).collect()
    }

    fn in_files(&self) -> MutexGuard<'_, InFiles> {
        self.in_files.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Extents {
    /// Enters extents of a life before this one at their slots, all zero; nothing else is there yet. Returns their reports, and what to
    /// fill, in the same order.
    pub fn restore(&self, before: &[Described]) -> Result<(Vec<ReportedExtent>, Vec<Arc<NodeExtent>>)> {
        let (mut reports, mut all) = (Vec::new(), Vec::new());
        let mut entries = self.write();
        for Described { slot, gid, len, has_heap } in before {
            let extent = self.spills.lender().make(*len)?;
            let held = Arc::new(NodeExtent::new(*gid, *len, extent, self.spills.clone()).restored(*has_heap));
            let (read, write) = (fresh_grant()?, fresh_grant()?);
            let entry = Entry::new(held.clone(), (read, write));
            let at = slot.0 as usize;
            if entries.slots.len() <= at {
                entries.slots.resize_with(at + 1, || None);
            }
            reports.push(entry.report(at));
            entries.slots[at] = Some(entry);
            all.push(held);
        }
        entries.free = (0..entries.slots.len()).rev().filter(|slot| entries.slots[*slot].is_none()).collect();
        Ok((reports, all))
    }

    /// All extents that no other node holds, with what has to be known to restore them.
    pub fn describe(&self) -> Vec<(Described, Arc<NodeExtent>)> {
        self.read().describe()
    }

    /// The same, to be written to a file. No other extent of a region gets the slot of one that a file names.
    pub fn describe_for_file(&self) -> Vec<(Described, Arc<NodeExtent>)> {
        // No slot is given out while the table is read.
        let entries = self.read();
        let described = entries.describe();
        entries.in_files().next = described.iter().map(|(extent, _)| (extent.slot, extent.gid)).collect();
        described
    }

    /// The file that [`Extents::describe_for_file`] was for is there, in place of the one before; or it never will be.
    pub fn end_file(&self, is_there: bool) {
        let entries = self.read();
        let mut in_files = entries.in_files();
        let next = std::mem::take(&mut in_files.next);
        if is_there {
            in_files.last = next;
        }
    }

    /// Says whether this node is the only holder of an extent with copies. Returns true if it has become so.
    pub fn set_alone(&self, gid: Gid, slot: Slot, is_alone: bool) -> bool {
        let entries = self.read();
        entries.of(gid, slot).is_some_and(|entry| !entry.held.set_alone(is_alone) && is_alone)
    }

    /// An extent that a file names, as long as it is there. Others find it, too: whoever holds it keeps it from being made ready for copies.
    pub fn of_file(&self, extent: &Described) -> Option<Arc<NodeExtent>> {
        self.read().of(extent.gid, extent.slot).map(|entry| entry.held.clone())
    }

    /// Begins an image of extents, at one moment. While commands that change their bytes are under way it does so only if it `must`. Returns
    /// whether it has begun.
    pub fn begin_image(&self, extents: &[&Described], must: bool) -> bool {
        // No command is admitted while the table is locked.
        let entries = self.write();
        let those: Vec<&Arc<NodeExtent>> =
            extents.iter().filter_map(|extent| entries.of(extent.gid, extent.slot)).map(|entry| &entry.held).collect();
        let is_written = || those.iter().any(|held| held.is_written());
        if !must && is_written() {
            return false;
        }
        those.iter().for_each(|held| held.begin_image());
        // ORDERING: pairs with the fence in `Writing::ordered`. Either such a write sees the image, or it is seen here.
        fence(Ordering::SeqCst);
        if must || !is_written() {
            return true;
        }
        for held in those {
            held.end_image();
        }
        false
    }
}
