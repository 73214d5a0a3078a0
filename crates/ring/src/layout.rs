//! Layout of a ring's shared memory. All numbers are little-endian 64-bit words.
//!
//! ```text
//! byte 0    line 0: magic | version | capacity          written once by the maker
//! byte 64   line 1: head, how far the consumer is done  written by the consumer
//! byte 128  data: `capacity` bytes of records           written by the producer
//! ```
//!
//! A record is a length word and its bytes, padded to 8. The length word of the next record is zero until that
//! record is whole. Positions count bytes since the ring was made, so they never repeat.

/// Bytes of a cache line. Words that one side writes never share a line with words that the other side writes.
pub const LINE_LEN: usize = 64;

/// Bytes of a word; every record begins on a multiple of it.
pub const WORD_LEN: usize = 8;

/// "hanaring" in memory order.
pub const MAGIC: u64 = u64::from_le_bytes(*b"hanaring");

/// Changes whenever anything in this file does.
pub const VERSION: u64 = 1;

/// Word index of the magic.
pub const MAGIC_WORD: usize = 0;
/// Word index of the version.
pub const VERSION_WORD: usize = 1;
/// Word index of the capacity.
pub const CAPACITY_WORD: usize = 2;
/// Word index of the consumer's position.
pub const HEAD_WORD: usize = LINE_LEN / WORD_LEN;
/// Word index of the first record.
pub const DATA_WORD: usize = 2 * LINE_LEN / WORD_LEN;

/// Bytes of a doorbell: one line of its own.
pub const BELL_LEN: usize = LINE_LEN;

/// Smallest capacity that holds a message's head and some bytes.
pub const CAPACITY_MIN: usize = 256;

/// Largest capacity: a length fits above the flag bits of a length word.
pub const CAPACITY_MAX: usize = 1 << 32;

/// In a length word: the record is there; its length is in the bits above the flags.
pub const IS_RECORD: u64 = 1;
/// In a length word: nothing but padding up to the end of the data; the next record is at its start.
pub const IS_PADDING: u64 = 2;
/// Shift of the length in a length word.
pub const LEN_SHIFT: u32 = 8;

/// Bytes of shared memory that a ring of `capacity` bytes of data takes.
pub const fn ring_len(capacity: usize) -> usize {
    DATA_WORD * WORD_LEN + capacity
}

/// True if a ring may have that capacity.
pub const fn is_capacity(capacity: usize) -> bool {
    capacity.is_power_of_two() && capacity >= CAPACITY_MIN && capacity <= CAPACITY_MAX
}

const _: () = {
    assert!(CAPACITY_WORD * WORD_LEN < LINE_LEN, "the maker's words share the first line");
    assert!(HEAD_WORD * WORD_LEN == 64 && DATA_WORD * WORD_LEN == 128, "the picture above");
    assert!(IS_RECORD < IS_PADDING && IS_PADDING < 1 << LEN_SHIFT);
    assert!(CAPACITY_MAX.leading_zeros() > LEN_SHIFT);
    assert!(cfg!(target_endian = "little"), "words are in memory order");
};
