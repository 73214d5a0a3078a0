//! A memory file, or ranges of a DAX file, with its service mapping. An extent or the stock has it.
//!
//! Safety invariant of this module: a range taken from one mapping is given to exactly one other. So each address has one owner.

use super::supply::{Backed, Supply};
use crate::file::Pages;
use crate::mapping::Mapping;
use crate::window::Window;
use hanare_protocol::Result;
use hanare_protocol::wire::control::FilePart;
use rustix::fs::{FallocateFlags, fallocate};
use rustix::mm::{Advice, MremapFlags, madvise, mremap_fixed};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A sealed memory file or ranges of a DAX file, and how much of it is populated.
#[derive(Debug)]
pub struct SlabFile {
    memory: Backed,
    pub len: u64,
    pub pages: Pages,
    /// Bytes populated so far, from the start.
    populated: AtomicU64,
    /// Bytes populated in all files together; this one's are taken off when it goes.
    total: Arc<AtomicU64>,
    /// Set once a descriptor was given away: its memory is never another extent's.
    is_handed_out: AtomicBool,
}

impl SlabFile {
    /// A file of `len` bytes, rounded up to its pages. Nobody populates ranges of a DAX file.
    pub fn new(len: u64, pages: Pages, supply: &Supply, total: &Arc<AtomicU64>) -> Result<SlabFile> {
        let memory = supply.take(len, pages)?;
        let len = len.next_multiple_of(pages.map_len().max(supply.grain()));
        let file = SlabFile { memory, len, pages, populated: 0.into(), total: Arc::clone(total), is_handed_out: false.into() };
        if supply.dax().is_some() {
            file.add_populated(len);
        }
        Ok(file)
    }

    /// Its descriptor, where the file is its own.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.memory.file()
    }

    /// Bytes populated so far.
    pub fn populated(&self) -> u64 {
        self.populated.load(Ordering::Relaxed)
    }

    /// Notes that bytes were populated.
    pub fn add_populated(&self, bytes: u64) {
        self.populated.fetch_add(bytes, Ordering::Relaxed);
        self.total.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Gives the last `most` populated bytes back to the machine, and says how many that were. None where it cannot take them back.
    fn give_back(&self, most: u64) -> u64 {
        let populated = self.populated();
        let len = most.min(populated);
        let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let Some(fd) = self.fd().filter(|_| len > 0) else { return 0 };
        if fallocate(fd, hole, populated - len, len).is_err() {
            return 0;
        }
        self.populated.fetch_sub(len, Ordering::Relaxed);
        self.total.fetch_sub(len, Ordering::Relaxed);
        len
    }

    /// True if all of it is populated.
    pub fn is_populated(&self) -> bool {
        self.populated() >= self.len
    }

    /// Notes that a descriptor is given away.
    pub fn hand_out(&self) {
        self.is_handed_out.store(true, Ordering::Relaxed);
    }

    /// True if another process may have it mapped.
    pub fn is_handed_out(&self) -> bool {
        self.is_handed_out.load(Ordering::Relaxed)
    }

    /// The whole file as a part of an extent of which `len` bytes lie here.
    pub fn part(&self, len: u64) -> FilePart {
        FilePart { offset: 0, len, map_len: self.len }
    }

    /// Maps it at byte `at` of a mapping.
    pub fn map_into(&self, mapping: &mut Mapping, at: u64) -> Result<()> {
        self.memory.map_into(mapping, at, self.len)
    }

    /// A mapping of its own for the file.
    pub fn map(&self) -> Result<Mapping> {
        let mut mapping = Mapping::reserve(self.len)?;
        self.map_into(&mut mapping, 0)?;
        if self.pages == Pages::Transparent {
            advise_huge(&mapping);
        }
        Ok(mapping)
    }
}

impl Drop for SlabFile {
    fn drop(&mut self) {
        self.total.fetch_sub(self.populated(), Ordering::Relaxed);
    }
}

/// Asks the kernel to join pages of a mapping to huge ones.
pub fn advise_huge(mapping: &Mapping) {
    // SAFETY: advice changes no byte of the mapping.
    let _ = unsafe { madvise(mapping.ptr().cast(), mapping.len(), Advice::LinuxHugepage) };
}

/// A whole slab of the stock: its file, and a mapping whose page tables are filled.
#[derive(Debug)]
pub struct Slab {
    pub file: Arc<SlabFile>,
    pub mapping: Mapping,
}

impl Slab {
    /// Moves the slab's mapping with its filled page tables to byte `at` of `range`. The rest of `range` stays as it is.
    pub fn move_into(self, range: &mut Mapping, at: u64) -> Result<Arc<SlabFile>> {
        let target = range.ptr().wrapping_add(at as usize);
        let is_inside = at.checked_add(self.file.len).is_some_and(|end| end <= range.len() as u64);
        assert!(is_inside && self.mapping.len() as u64 == self.file.len, "a slab is moved into its place");
        let (ptr, len) = self.mapping.into_range();
        // SAFETY: the old range is ours and was just given up by its mapping; the new one lies inside `range`, where
        // nothing is in use yet.
        let moved = unsafe { mremap_fixed(ptr.cast(), len, len, MremapFlags::MAYMOVE, target.cast()) };
        if moved.is_err() {
            // Some kernels cannot move some pages: map them again, and take the faults again.
            // SAFETY: the old range is still ours.
            drop(unsafe { Mapping::from_range(ptr, len) });
            self.file.map_into(range, at)?;
        }
        Ok(self.file)
    }

    /// Gives its memory back to the machine, and calls `pause` behind each piece with the piece's bytes.
    ///
    /// The memory of the whole slab at once would hold up threads of this process that map something.
    pub fn give_back(self, piece_len: u64, mut pause: impl FnMut(u64)) {
        loop {
            match self.file.give_back(piece_len) {
                0 => return,
                len => pause(len),
            }
        }
    }

    /// Sets all its bytes to zero, and calls `pause` behind each piece. Returns true if that worked, as it does unless memory is broken.
    pub fn wipe(&self, piece_len: usize, mut pause: impl FnMut()) -> bool {
        // SAFETY: the window is used in this function only, and the mapping lives longer.
        let window: Window = unsafe { self.mapping.window() };
        (0..window.len()).step_by(piece_len).all(|at| {
            let is_done = window.slice(at, piece_len.min(window.len() - at)).wipe().is_ok();
            pause();
            is_done
        })
    }
}
