//! Limits of a node's use of its machine: processors and NUMA nodes.

/// Most threads that move the bytes of a node's links.
pub const NODE_THREAD_COUNT_MAX: usize = 64;

/// NUMA nodes that a kernel can have: `MAX_NUMNODES` of every distribution.
pub const NUMA_NODE_COUNT_MAX: u32 = 1024;

/// Most NUMA nodes that one reply names for a region. Memory of further ones counts as memory of no known node.
pub const NUMA_TOLD_COUNT_MAX: usize = 64;
