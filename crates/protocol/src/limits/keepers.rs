//! Limits of pools with keepers.

/// Most entries of a log that another keeper may tell of: sums of two do not overflow.
pub const KEEPER_ENTRY_COUNT_MAX: usize = 1 << 48;

/// Most links of nodes that a keeper sent to another: a pool's nodes, while they come once each.
pub const KEEPER_CALLER_COUNT_MAX: usize = 1024;

/// Most links to a keeper that have not said which keeper they are of: some for each.
pub const KEEPER_UNKNOWN_COUNT_MAX: usize = 64;
