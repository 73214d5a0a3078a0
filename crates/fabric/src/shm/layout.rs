//! Layout of a link's memory file. The rings' own layout is in the ring crate.
//!
//! ```text
//! line 0       maker: word 0 data flag    the maker sleeps until something arrives
//! line 1       maker: word 0 space flag   the maker sleeps until there is room to send
//! line 2       maker: word 0 closed       the maker has gone
//! lines 3..6   the same of the opener
//! page 1 ...   ring from the maker to the opener
//!        ...   ring from the opener to the maker
//! ```

use hanare_protocol::limits::PAGE_LEN;
use hanare_ring::layout::{BELL_LEN, LINE_LEN, is_capacity, ring_len};

/// Bytes of data in a ring. The largest body of a small region and its reply's head fit, and both rings stay in a usual L2 cache.
pub(super) const CAPACITY: usize = 128 << 10;

/// Longest record: the reader of a long body copies one while the writer copies the next.
pub(super) const RECORD_LEN_MAX: usize = 16 << 10;

const PAGE: usize = PAGE_LEN as usize;
const RING_LEN: usize = ring_len(CAPACITY).next_multiple_of(PAGE);

/// Bytes of the file.
pub(super) const FILE_LEN: usize = PAGE + 2 * RING_LEN;

/// A side of a link: the maker of the memory, or its opener.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Maker,
    Opener,
}

impl Role {
    pub(super) fn other(self) -> Role {
        match self {
            Role::Maker => Role::Opener,
            Role::Opener => Role::Maker,
        }
    }

    fn index(self) -> usize {
        self as usize
    }

    /// Byte of the flag that says this side sleeps until something arrives.
    pub(super) fn data_flag(self) -> usize {
        self.index() * 3 * LINE_LEN
    }

    /// Byte of the flag that says this side sleeps until there is room.
    pub(super) fn space_flag(self) -> usize {
        self.data_flag() + LINE_LEN
    }

    /// Byte of the word that says this side has gone.
    pub(super) fn closed(self) -> usize {
        self.data_flag() + 2 * LINE_LEN
    }

    /// First byte of the ring that this side writes, and its length.
    pub(super) fn ring(self) -> (usize, usize) {
        (PAGE + self.index() * RING_LEN, RING_LEN)
    }
}

const _: () = {
    assert!(BELL_LEN == LINE_LEN && 6 * LINE_LEN <= PAGE, "flags fit the first page, a line each");
    assert!(is_capacity(CAPACITY));
    assert!(RECORD_LEN_MAX * 4 <= CAPACITY, "a record always fits an empty ring, wherever it stands");
};
