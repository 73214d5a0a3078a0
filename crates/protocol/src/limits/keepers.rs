//! Limits of pools with keepers.

use super::JOB_COUNT_MAX;

/// Most keepers of a pool.
pub const KEEPER_COUNT_MAX: usize = 7;

/// Fewest keepers of a pool that has any: the engine by which they agree wants two.
pub const KEEPER_COUNT_MIN: usize = 2;

/// Most addresses that a keeper tries: those of its list, and of others that know a later one.
pub const KEEPER_TRIED_COUNT_MAX: usize = 2 * KEEPER_COUNT_MAX;

/// Most bytes of a keeper's address.
pub const KEEPER_ADDRESS_LEN_MAX: usize = 512;

/// Most entries of a log that another keeper may tell of: sums of two do not overflow.
pub const KEEPER_ENTRY_COUNT_MAX: usize = 1 << 48;

/// Most links of nodes that a keeper sent to another: a pool's nodes, while they come once each.
pub const KEEPER_CALLER_COUNT_MAX: usize = 1024;

/// Most links to a keeper that have not said which keeper they are of: some for each.
pub const KEEPER_UNKNOWN_COUNT_MAX: usize = 64;

/// Most bytes of a message between keepers, which travels in pieces: a snapshot of some six million regions.
pub const KEEPER_MESSAGE_LEN_MAX: usize = 1 << 30;

/// Most bytes of one piece.
pub const KEEPER_PIECE_LEN: usize = 256 << 10;

/// Most bytes of messages that wait behind one in pieces. The keepers connect again beyond that.
pub const KEEPER_WAITING_LEN_MAX: usize = 64 << 20;

/// Most jobs of which a node tells the next coordinator that a rank is gone: some 100 bytes each, all at once.
pub const GONE_JOB_COUNT_MAX: usize = JOB_COUNT_MAX / 4;
