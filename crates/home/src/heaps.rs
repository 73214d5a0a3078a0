//! Heaps of regions that begin in extents of this home.

use crate::memory::{Bytes, Memory};
use hanare_protocol::heap::Heap;
use hanare_protocol::id::{Gid, Slot};
use hanare_protocol::limits::USER_HEAP_LEN_MAX;
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
    /// Runs `with` on the heap of the region that begins in an extent. Makes it for `region_len` bytes if there is none yet.
    ///
    /// **Errors**: those of `with` and [`Bytes::begin_heap`]. [`Error::LimitReached`] if the table would begin or grow, and the user's
    /// tables together would be too long.
    pub fn with<M: Memory, T>(
        &mut self,
        (memory, extent): (&M, &M::Extent),
        (user, region_len): (u32, u64),
        with: impl FnOnce(&mut Heap) -> Result<T>,
    ) -> Result<T> {
        let at = (extent.gid(), extent.slot());
        let more = self.tables.get(&at).map_or_else(|| Heap::table_len(region_len), |heap| heap.growth_len(region_len));
        if more > 0 {
            // The notice of extents that are gone may be under way.
            self.on_freed(memory);
            let own = self.made.entry(user).or_default();
            let len = more.max(HEAP_LEN_MIN);
            if own.iter().map(|(_, len)| len).sum::<u64>() + len > USER_HEAP_LEN_MAX {
                let what = "bytes of tables of one user's heaps at a node".to_owned();
                return Err(Error::LimitReached { what, limit: USER_HEAP_LEN_MAX });
            }
            extent.begin_heap()?;
            own.push((at, len));
        }
        let heap = self.tables.entry(at).or_insert_with(|| Heap::new(&at.0.to_string(), region_len));
        heap.grow(region_len);
        with(heap)
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
