//! Map of a region's handle.

use hanare::{LocalMapping, SharedMapping};
use std::sync::Arc;

/// A region's map, of whatever kind.
pub(crate) enum Map {
    Local(LocalMapping),
    /// While a barrier carries it, another thread has it, too.
    Shared(Arc<SharedMapping>),
}

impl Map {
    /// True if a barrier of another thread carries it.
    pub(crate) fn is_carried(&self) -> bool {
        matches!(self, Map::Shared(mapping) if Arc::strong_count(mapping) > 1)
    }

    /// Ends it; one that a barrier carries ends with that. **Errors**: as for [`SharedMapping::unmap`].
    pub(crate) fn end(self) -> hanare::Result<()> {
        match self {
            Map::Local(_) => Ok(()),
            Map::Shared(mapping) => Arc::into_inner(mapping).map_or(Ok(()), SharedMapping::unmap),
        }
    }

    /// The first byte, and how many there are.
    pub(crate) fn start(&self) -> (*mut u8, usize) {
        match self {
            Map::Local(mapping) => (mapping.ptr(), mapping.len()),
            Map::Shared(mapping) => (mapping.ptr(), mapping.len() as usize),
        }
    }
}
