//! The memory that one program shares with its node: announcements and revocations of direct access, and leases of locks.
//!
//! Safety invariant: the mapping is dropped after the words that lie in it.

use crate::Shared;
use crate::layout::WORD_LEN;
use crate::lease::clients::HasLeases;
use crate::lease::{LEASES_LEN, Leases};
use crate::revoke::{REVOKE_LEN, Revoke};
use hanare_memory::{Mapping, file, thread_slot};
use hanare_protocol::Result;
use hanare_protocol::id::{Gid, Rights};
use hanare_protocol::wire::control::FilePart;
use rustix::time::{ClockId, clock_gettime};
use std::marker::PhantomData;
use std::os::fd::{AsFd, OwnedFd};

/// A side's view of the memory.
pub struct ThreadSlots {
    words: Revoke<Shared>,
    /// Leases of locks, behind those words.
    leases: Leases<Shared>,
    _mapping: Mapping,
}

/// Bytes of the memory.
const SLOTS_LEN: u64 = (REVOKE_LEN + LEASES_LEN) as u64;

/// The clock of leases, in nanoseconds. Its value changes every few milliseconds, and is the same for all processes of a host.
///
/// **Cost**: no system call.
#[inline]
pub fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::MonotonicCoarse);
    (now.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(now.tv_nsec as u64)
}

fn leases_of(words: Shared) -> Leases<Shared> {
    Leases::new(words, REVOKE_LEN / WORD_LEN)
}

fn map(memory: &OwnedFd) -> Result<(Shared, Mapping)> {
    let len = SLOTS_LEN;
    let mut mapping = Mapping::reserve(len)?;
    mapping.map_file(0, memory.as_fd(), FilePart { offset: 0, len, map_len: len }, Rights::Write)?;
    // SAFETY: the mapping is kept beside the words, and dropped after them.
    let window = unsafe { mapping.window() };
    Ok((Shared::new(window), mapping))
}

impl ThreadSlots {
    /// A node makes the memory for one program. Returns the descriptor that the program gets.
    pub fn make() -> Result<(ThreadSlots, OwnedFd)> {
        let memory = file::create("hanare-slots", SLOTS_LEN)?;
        let (words, mapping) = map(&memory)?;
        Ok((
            ThreadSlots { words: Revoke::make(words, Shared::fences_others()), leases: leases_of(words), _mapping: mapping },
            memory,
        ))
    }

    /// A program opens what its node made. **Errors**: [`hanare_protocol::Error::Garbage`] for any other file.
    pub fn open(memory: OwnedFd) -> Result<ThreadSlots> {
        file::check_sealed(&memory, SLOTS_LEN)?;
        let (words, mapping) = map(&memory)?;
        Ok(ThreadSlots { words: Revoke::open(words), leases: leases_of(words), _mapping: mapping })
    }

    /// Announces this thread's direct access to a region, until the value is dropped. The thread looks at the generation before it
    /// touches a byte.
    ///
    /// **Cost**: two stores to a cache line of this thread's own.
    #[inline]
    pub fn enter(&self, region: Gid) -> AtWork<'_> {
        let slot = self.words.enter(thread_slot::here(), region.0);
        AtWork { words: &self.words, slot, _thread: PhantomData }
    }

    /// The program's leases of locks.
    #[inline]
    pub fn leases(&self) -> &Leases<Shared> {
        &self.leases
    }

    /// The words.
    #[inline]
    pub fn words(&self) -> &Revoke<Shared> {
        &self.words
    }
}

impl HasLeases for ThreadSlots {
    type Words = Shared;

    fn leases(&self) -> &Leases<Shared> {
        &self.leases
    }
}

/// A thread's announcement while it is at work. It stays on its thread, whose slot it changes.
pub struct AtWork<'s> {
    words: &'s Revoke<Shared>,
    slot: usize,
    _thread: PhantomData<*const ()>,
}

impl Drop for AtWork<'_> {
    #[inline]
    fn drop(&mut self) {
        self.words.leave(self.slot);
    }
}
