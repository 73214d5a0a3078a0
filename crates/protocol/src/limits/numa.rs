//! Limits of NUMA nodes.

/// NUMA nodes that a kernel can have: `MAX_NUMNODES` of every distribution.
pub const NUMA_NODE_COUNT_MAX: u32 = 1024;

/// Most NUMA nodes that one reply names for a region. Memory of further ones counts as memory of no known node.
pub const NUMA_TOLD_COUNT_MAX: usize = 64;
