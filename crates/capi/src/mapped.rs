//! What a region's handle keeps of its map.

use hanare::{LocalMapping, SharedMapping};

/// A region's map, of whatever kind.
pub(crate) enum Map {
    Local(LocalMapping),
    Shared(SharedMapping),
}

impl Map {
    /// Ends it. **Errors**: as for [`SharedMapping::unmap`].
    pub(crate) fn end(self) -> hanare::Result<()> {
        match self {
            Map::Local(_) => Ok(()),
            Map::Shared(mapping) => mapping.unmap(),
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
