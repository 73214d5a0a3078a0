//! Limits of regions with copies.

use super::{LEASE_MS, RENEW_MS};

/// Most nodes that hold each byte of a region.
pub const COPY_COUNT_MAX: u8 = 3;

/// Most ranges of a write that a home sends to copies: its list stays shorter than a stage.
pub const WRITE_RANGE_COUNT_MAX: usize = 8192;

/// Bytes of a page's digest, by which copies are compared.
pub const DIGEST_LEN: usize = 16;

/// Longest digests of one comparison.
pub const DIGESTS_LEN_MAX: usize = super::STAGE_LEN / super::PAGE_LEN as usize * DIGEST_LEN;

/// Highest number of a program's call.
pub const CALL_NUMBER_MAX: u64 = (1 << 46) - 1;

/// Most calls of a program that count once and are under way together.
pub const CALL_SEQUENCE_COUNT_MAX: usize = 1 << 16;

/// Most programs of which an extent remembers updates.
pub const DONE_CLIENT_COUNT_MAX: usize = 1024;

/// Most parts of calls that an extent remembers, of all programs together. What a call does in a row is one part.
pub const DONE_PART_COUNT_MAX: usize = 1 << 14;

/// Most bytes of elements before those updates, of all programs together.
pub const DONE_OLDS_LEN_MAX: u64 = 1 << 20;

/// Time for which a node answers for bytes with copies without renewing. A node whose connection closes is replaced as their home after that.
/// Three renewals of [`RENEW_MS`] fit.
pub const HOME_LEASE_MS: u64 = LEASE_MS / 4;

/// When a node answers for bytes with copies no more, whose lease of that length ends then. That is [`HOME_LEASE_MS`] after a renewal, in
/// proportion where leases have another length than [`LEASE_MS`].
pub const fn home_until_ms(lease_until_ms: u64, lease_ms: u64) -> u64 {
    lease_until_ms.saturating_sub(lease_ms).saturating_add(lease_ms.saturating_mul(HOME_LEASE_MS) / LEASE_MS)
}

const _: () = assert!(RENEW_MS * 3 <= HOME_LEASE_MS && HOME_LEASE_MS <= LEASE_MS, "a home that renews answers all the time");

/// Most extents of a mapping that follows them to other nodes: each has a connection of its own on each fault lane.
pub const FOLLOWED_COUNT_MAX: usize = 64;

/// Most bytes of one link's writes to copies that are under way: the next stage of its message waits then.
pub const AHEAD_LEN_MAX: u64 = 4 * super::STAGE_LEN as u64;

/// Most bytes of writes that a copy lacks while it is made: others wait then. As many are in its home's memory.
pub const MAKING_LACK_LEN_MAX: u64 = 4 * super::STAGE_LEN as u64;

/// Most bytes of stores that one message brings to an extent with copies. With the longest list of ranges it is within a message of what clients
/// share.
pub const STORE_PART_LEN_MAX: usize = super::STAGE_LEN / 2;

/// Most bytes of memory of stores that wait for the last part of their release, of one extent. A release with more goes as several.
pub const PENDING_LEN_MAX: u64 = 64 << 20;

/// The same of all extents of a home together.
pub const PENDING_NODE_LEN_MAX: u64 = 4 * PENDING_LEN_MAX;

/// The same of one user's programs: others find room.
pub const PENDING_USER_LEN_MAX: u64 = PENDING_NODE_LEN_MAX / 4 * 3;

/// Memory for a part of those beside its bytes and ranges. So their number has a bound, too.
pub const PENDING_PART_LEN: u64 = 256;

/// Most parts of stores of one link that are under way: as many bytes as of puts. A program sends that number before it waits for an answer.
pub const STORE_PARTS_AT_ONCE: usize = 8;

/// A release whose program sends no part for so long is dropped. The program begins it again.
pub const PENDING_SILENT_MS: u64 = super::ANSWER_MS;

/// Least bytes a second that may be set for copies that are made.
pub const COPY_RATE_MIN: u64 = 1 << 20;

/// Most writes of one link to copies that are under way.
pub const AHEAD_COUNT_MAX: usize = 64;

/// Most extents that one message names because other hosts use them most.
pub const USED_ELSEWHERE_COUNT_MAX: usize = 256;

/// Longest network address of a host that maps an extent coherently: a name of 255 bytes and more.
pub const PAGE_HOST_ADDRESS_LEN_MAX: usize = 512;

/// Most pages of one flush of a coherent mapping: what [`PENDING_LEN_MAX`] has room for, with some left.
pub const FLUSH_PAGE_COUNT_MAX: usize = 15 << 10;
