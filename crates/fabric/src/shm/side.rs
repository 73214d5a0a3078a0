//! A side's part of a link's shared memory: the ring it writes, the ring it reads, sleepers, and ends.
//!
//! Safety invariant of this module: `mapping` is dropped last, so the windows that rings and flags lie in stay mapped.

use super::bell::{self, Bell};
use super::layout::{CAPACITY, FILE_LEN, Role};
use hanare_memory::fork::{Lineage, Withheld};
use hanare_memory::{Mapping, Window, file};
use hanare_protocol::id::Rights;
use hanare_protocol::wire::control::FilePart;
use hanare_protocol::{Error, Result};
use hanare_ring::bell::Flag;
use hanare_ring::layout::LINE_LEN;
use hanare_ring::{Consumer, Corrupt, Producer, Shared, Words, spsc};
use std::os::fd::{AsFd, OwnedFd};

/// Descriptors for the opener of a link. Once passed, they are dropped here. The kernel tells of the opener's death only when no other
/// process holds its bell.
#[derive(Debug)]
pub struct ShmParts {
    /// The sealed memory file.
    pub memory: OwnedFd,
    /// The opener's end of the bell.
    pub bell: OwnedFd,
}

/// A side.
pub(crate) struct Side {
    pub(crate) producer: Producer<Shared>,
    pub(super) consumer: Consumer<Shared>,
    /// A child made by fork neither keeps the peer waiting nor ends its parent's link. Dropped before the bell.
    _withheld: Withheld,
    lineage: Lineage,
    pub(super) bell: Bell,
    our_data: Flag<Shared>,
    our_space: Flag<Shared>,
    their_data: Flag<Shared>,
    their_space: Flag<Shared>,
    our_closed: Shared,
    their_closed: Shared,
    _mapping: Mapping,
}

fn side(mapping: Mapping, role: Role, bell: OwnedFd) -> Result<Side> {
    // SAFETY: the mapping lives in the side, and its windows nowhere else.
    let whole = unsafe { mapping.window() };
    let corrupt = |corrupt: Corrupt| Error::Garbage { peer: "the other process".into(), reason: corrupt.0.into() };
    let line = |at| words(whole, (at, LINE_LEN));
    let other = role.other();
    Ok(Side {
        producer: Producer::new(words(whole, role.ring())).map_err(corrupt)?,
        consumer: Consumer::new(words(whole, other.ring())).map_err(corrupt)?,
        _withheld: Withheld::new(bell.as_fd()),
        lineage: Lineage::here(),
        bell: Bell::new(bell),
        our_data: Flag::new(line(role.data_flag())),
        our_space: Flag::new(line(role.space_flag())),
        their_data: Flag::new(line(other.data_flag())),
        their_space: Flag::new(line(other.space_flag())),
        our_closed: line(role.closed()),
        their_closed: line(other.closed()),
        _mapping: mapping,
    })
}

fn words(whole: Window, (at, len): (usize, usize)) -> Shared {
    Shared::new(whole.slice(at, len))
}

fn map(memory: &OwnedFd) -> Result<Mapping> {
    let len = FILE_LEN as u64;
    let mut mapping = Mapping::reserve(len)?;
    mapping.map_file(0, memory.as_fd(), FilePart { offset: 0, len, map_len: len }, Rights::Write)?;
    Ok(mapping)
}

impl Side {
    /// Makes the memory, and what the opener needs of it.
    pub(super) fn make() -> Result<(Side, ShmParts)> {
        let memory = file::create("hanare-link", FILE_LEN as u64)?;
        let mapping = map(&memory)?;
        // SAFETY: the mapping is kept in the side below.
        let whole = unsafe { mapping.window() };
        for role in [Role::Maker, Role::Opener] {
            spsc::format(&words(whole, role.ring()), CAPACITY);
        }
        let (ours, theirs) = bell::pair()?;
        Ok((side(mapping, Role::Maker, ours)?, ShmParts { memory, bell: theirs }))
    }

    /// Opens what a peer made; refuses a file that is too short, or that the peer could make shorter.
    pub(crate) fn open(parts: ShmParts) -> Result<Side> {
        file::check_sealed(&parts.memory, FILE_LEN as u64)?;
        side(map(&parts.memory)?, Role::Opener, parts.bell)
    }

    /// Records were committed: wakes the peer if it sleeps for them.
    #[inline]
    pub(crate) fn ring_data(&self) {
        if self.their_data.ring() {
            self.bell.ring();
        }
    }

    /// Records were released: wakes the peer if it sleeps for room.
    #[inline]
    pub(super) fn ring_space(&self) {
        if self.their_space.ring() {
            self.bell.ring();
        }
    }

    /// Announces sleep; the caller looks once more before it parks.
    pub(super) fn doze(&self, for_space: bool) {
        self.our_data.doze();
        if for_space {
            self.our_space.doze();
        }
    }

    /// Is awake again.
    pub(super) fn rouse(&self) {
        self.our_data.rouse();
        self.our_space.rouse();
    }

    /// True if the peer said that it goes. Its earlier messages are visible to a look made after this one.
    #[inline]
    pub(super) fn is_closed(&self) -> bool {
        self.their_closed.load(0) != 0
    }
}

impl Drop for Side {
    fn drop(&mut self) {
        if !self.lineage.is_here() {
            return;
        }
        self.our_closed.store(0, 1);
        self.ring_data();
        self.ring_space();
    }
}
