//! Heaps of regions that begin in extents of this home.

use crate::memory::{Bytes, Memory};
use hanare_protocol::heap::{Heap, HeapAnswer, HeapCall};
use hanare_protocol::id::{Gid, Slot};
use hanare_protocol::limits::USER_HEAP_LEN_MAX;
use hanare_protocol::wire::Malformed;
use hanare_protocol::{Error, Result};
use std::collections::BTreeMap;
use std::fmt;

/// A heap's table counts as so many bytes at least: a look at all of a user's stays short.
const HEAP_LEN_MIN: u64 = 64 << 10;

/// Extents whose heaps one user had made, with the bytes of their tables.
type Made = Vec<((Gid, Slot), u64)>;

/// Tables of heaps, and what each user may not have more of: a program says how long they are.
#[derive(Default)]
pub(crate) struct Heaps {
    /// Tables by the first extent of their region.
    tables: BTreeMap<(Gid, Slot), Heap>,
    /// Bytes of tables by the user that had them made.
    made: BTreeMap<u32, Made>,
}

impl fmt::Debug for Heaps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Heaps").field(&self.tables.len()).finish()
    }
}

impl Heaps {
    /// Carries out a call on the heap of the region that begins in an extent. **Errors**: those of [`Heaps::admit`].
    pub fn call<M: Memory>(&mut self, (memory, extent): (&M, &M::Extent), user: u32, call: &HeapCall) -> Result<Vec<HeapAnswer>> {
        let at = (extent.gid(), extent.slot());
        let mut heap = self.tables.remove(&at);
        let admitted = self.admit((memory, extent), user, call, heap.as_ref());
        let outcome = admitted.map(|()| Heap::carry_out(&mut heap, call));
        self.tables.extend(heap.map(|heap| (at, heap)));
        outcome
    }

    /// Checks a call, and that a user may have the table of a heap begin or grow. There is no heap before the first call.
    ///
    /// **Errors**: [`Error::BadUse`] for a call that no program makes. Those of [`Bytes::begin_heap`]. [`Error::LimitReached`] if the user's tables together would be too long.
    pub fn admit<M: Memory>(
        &mut self,
        (memory, extent): (&M, &M::Extent),
        user: u32,
        call: &HeapCall,
        heap: Option<&Heap>,
    ) -> Result<()> {
        let at = (extent.gid(), extent.slot());
        call.check().map_err(|Malformed(reason)| Error::BadUse { region: at.0.to_string(), reason: reason.to_owned() })?;
        let more = match heap {
            Some(heap) => heap.growth_len(call.region_len),
            // The first calls may be on their way to copies.
            None if self.made.values().flatten().any(|(made, _)| *made == at) => 0,
            None => Heap::table_len(call.region_len),
        };
        if more == 0 {
            return Ok(());
        }
        // The notice of extents that are gone may be under way.
        self.on_freed(memory);
        let own = self.made.entry(user).or_default();
        let len = more.max(HEAP_LEN_MIN);
        let all = own.iter().map(|(_, len)| *len).fold(len, u64::saturating_add);
        if all > USER_HEAP_LEN_MAX {
            let what = "bytes of tables of one user's heaps at a node".to_owned();
            return Err(Error::LimitReached { what, limit: USER_HEAP_LEN_MAX });
        }
        extent.begin_heap()?;
        own.push((at, len));
        Ok(())
    }

    /// The table of a heap that had copies, and has none any more.
    pub fn bring(&mut self, heap: Option<((Gid, Slot), Heap)>) {
        self.tables.extend(heap);
    }

    /// Takes the table of a heap out. It goes on counting for the user that had it made.
    pub fn take(&mut self, gid: Gid, slot: Slot) -> Option<Heap> {
        self.tables.remove(&(gid, slot))
    }

    /// Bytes of a block of the heap of the region that begins in an extent. `None` where none begins at that offset.
    pub fn block_len(&self, extent: &impl Bytes, offset: u64) -> Option<u64> {
        self.tables.get(&(extent.gid(), extent.slot()))?.block_len(offset)
    }

    /// Extents are no more: their heaps go with them.
    pub fn on_freed(&mut self, memory: &impl Memory) {
        self.tables.retain(|(gid, slot), _| memory.has(*gid, *slot));
        for made in self.made.values_mut() {
            made.retain(|((gid, slot), _)| memory.has(*gid, *slot));
        }
        self.made.retain(|_, made| !made.is_empty());
    }
}
