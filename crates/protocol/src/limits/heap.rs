//! Limits of heaps in regions.

/// Fewest bytes of a heap that are given out together: a cache line, so that two blocks never share one. Heaps beyond 2^32 have larger ones.
pub const GRANULE_LEN_MIN: u64 = 64;

/// Most blocks of one region's heap at once. Its table has 8 MiB at most.
pub const BLOCK_COUNT_MAX: u32 = 1 << 17;

/// Most wishes of one call on a heap. The heap's node carries them out in one turn, in some 50 us.
pub const HEAP_WISH_COUNT_MAX: usize = 256;

/// Parts of a region's heap: the first, and one for each time that it follows the region as that grows.
pub const HEAP_PART_COUNT_MAX: usize = 17;

/// Most bytes of tables of heaps that one user began at a node: 32 of the longest. They are not lent memory.
pub const USER_HEAP_LEN_MAX: u64 = 256 << 20;
