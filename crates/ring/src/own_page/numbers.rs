//! Zeroed numbers, one for each page or frame: memory is used only where a number was changed.
//!
//! Safety invariant of this module: the mapping holds `count` numbers for as long as it lives, reached by atomics only.

use hanare_memory::Mapping;
use hanare_protocol::Result;
use std::sync::atomic::AtomicU32;

/// Atomic numbers, as many as were asked for.
pub struct Numbers {
    mapping: Mapping,
    count: u64,
}

impl Numbers {
    /// All zero.
    pub fn new(count: u64) -> Result<Numbers> {
        let len = count.saturating_mul(size_of::<AtomicU32>() as u64);
        let mut mapping = Mapping::reserve(len)?;
        mapping.map_sparse(0, mapping.len() as u64)?;
        Ok(Numbers { mapping, count })
    }

    /// Their count.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The number at an index.
    pub fn at(&self, index: u64) -> &AtomicU32 {
        assert!(index < self.count, "number {index} of {}", self.count);
        // SAFETY: it lies within the mapping, aligned (a mapping begins on a page), and atomics alone reach it.
        unsafe { &*self.mapping.ptr().cast::<AtomicU32>().add(index as usize) }
    }
}
