//! How a shape on a region becomes shapes on extents. Nothing here sends or touches memory.

pub(crate) mod plan;
pub(crate) mod runs;
pub(crate) mod spread;
