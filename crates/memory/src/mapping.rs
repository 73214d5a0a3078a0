//! An address range with files mapped one after another: an extent as a client sees it.
//!
//! Safety invariants of this module:
//!
//! 1. A mapping owns its address range from `reserve` to drop; nothing else is ever mapped there.
//! 2. Files and anonymous memory are placed inside the range only, on page boundaries.

use crate::file::{HUGE_PAGE_LEN, system};
use crate::guard;
use crate::window::Window;
use hanare_protocol::id::Rights;
use hanare_protocol::limits::PAGE_LEN;
use hanare_protocol::wire::control::FilePart;
use hanare_protocol::{Error, Result};
use rustix::fs::fstat;
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
use std::ops::Range;
use std::os::fd::BorrowedFd;

/// An address range, unmapped when dropped. What is not mapped yet cannot be touched.
#[derive(Debug)]
pub struct Mapping {
    ptr: *mut u8,
    len: usize,
}

// SAFETY: a mapping is an address range that belongs to the process, not to a thread.
unsafe impl Send for Mapping {}
// SAFETY: through a shared reference only the range itself is given out.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Takes `len` bytes of address space, rounded up to a page, and no memory.
    ///
    /// The range begins on a huge page's boundary where it is large enough to hold one.
    pub fn reserve(len: u64) -> Result<Mapping> {
        let len = len.max(1).checked_next_multiple_of(PAGE_LEN).and_then(|len| usize::try_from(len).ok());
        let len = len.filter(|len| *len <= isize::MAX as usize / 2).ok_or_else(|| too_long("address space"))?;
        let align = if len as u64 >= HUGE_PAGE_LEN { HUGE_PAGE_LEN as usize } else { PAGE_LEN as usize };
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        let padded = len + align - PAGE_LEN as usize;
        // SAFETY: the kernel chooses a free range; the parts before and behind the aligned one are given back unused.
        unsafe {
            let start =
                mmap_anonymous(std::ptr::null_mut(), padded, ProtFlags::empty(), flags).map_err(system("reserving addresses"))?;
            let start = start.cast::<u8>();
            let front = start.addr().next_multiple_of(align) - start.addr();
            let ptr = start.add(front);
            let behind = padded - front - len;
            for (at, len) in [(start, front), (ptr.add(len), behind)] {
                if len > 0 {
                    munmap(at.cast(), len).map_err(system("giving back addresses"))?;
                }
            }
            Ok(Mapping { ptr, len })
        }
    }

    /// Takes `len` bytes of address space at `address`, rounded up to a page, and no memory. `None` where some of the range is in use, or
    /// no program can have it.
    ///
    /// **Errors**: [`Error::Garbage`] for a length beyond any address space.
    pub fn reserve_at(address: usize, len: u64) -> Result<Option<Mapping>> {
        let len = len.max(1).checked_next_multiple_of(PAGE_LEN).and_then(|len| usize::try_from(len).ok());
        let len = len.filter(|len| *len <= isize::MAX as usize / 2).ok_or_else(|| too_long("address space"))?;
        if address == 0 || !address.is_multiple_of(PAGE_LEN as usize) {
            return Ok(None);
        }
        let (wanted, flags) = (std::ptr::without_provenance_mut(address), MapFlags::PRIVATE | MapFlags::NORESERVE);
        // SAFETY: the kernel takes a free range, or none.
        let taken = unsafe { mmap_anonymous(wanted, len, ProtFlags::empty(), flags | MapFlags::FIXED_NOREPLACE) };
        let Ok(ptr) = taken else { return Ok(None) };
        let mapping = Mapping { ptr: ptr.cast(), len };
        // A kernel without the flag takes the address for a hint.
        Ok((mapping.ptr.addr() == address).then_some(mapping))
    }

    /// Bytes of the range.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True for an empty range (it never is).
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Its first byte.
    pub fn ptr(&self) -> *mut u8 {
        self.ptr
    }

    /// Maps a part of a file at byte `at` of the range.
    ///
    /// **Errors**: [`Error::Garbage`] when the part does not lie in the file, or leaves the range.
    pub fn map_file(&mut self, at: u64, file: BorrowedFd<'_>, part: FilePart, rights: Rights) -> Result<()> {
        let len = self.check(at, part.map_len)?;
        let end = part.offset.checked_add(part.map_len);
        let size = fstat(file).map_err(system("looking at a memory file"))?.st_size;
        if part.len > part.map_len || !end.is_some_and(|end| i64::try_from(end).is_ok_and(|end| end <= size)) {
            return Err(too_long("memory file"));
        }
        self.map_checked(at, len, (file, part.offset), rights)
    }

    /// Maps a range of a device or file at byte `at` of the mapping. The caller has looked at the file's length, which a device has none of.
    pub(crate) fn map_range(&mut self, at: u64, file: BorrowedFd<'_>, range: Range<u64>, rights: Rights) -> Result<()> {
        let len = self.check(at, range.end.saturating_sub(range.start))?;
        self.map_checked(at, len, (file, range.start), rights)
    }

    fn map_checked(&mut self, at: u64, len: usize, (file, offset): (BorrowedFd<'_>, u64), rights: Rights) -> Result<()> {
        let protection = if rights == Rights::Write { ProtFlags::READ | ProtFlags::WRITE } else { ProtFlags::READ };
        self.forget(at, len);
        // SAFETY: the pages lie inside the range (invariant 2), which is ours (invariant 1).
        unsafe { mmap(self.at(at), len, protection, MapFlags::SHARED | MapFlags::FIXED, file, offset) }
            .map(drop)
            .map_err(system("mapping a memory file"))
    }

    /// Puts zeroed memory of this process at byte `at` of the range, of which little is used at a time. The system promises no part of
    /// it, so it may be far longer than the machine's memory.
    pub fn map_sparse(&mut self, at: u64, len: u64) -> Result<()> {
        let len = self.check(at, len.next_multiple_of(PAGE_LEN))?;
        self.forget(at, len);
        let protection = ProtFlags::READ | ProtFlags::WRITE;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED;
        // SAFETY: as in `map_file`.
        unsafe { mmap_anonymous(self.at(at), len, protection, flags) }.map(drop).map_err(system("mapping memory"))
    }

    /// The whole range as a window.
    ///
    /// # Safety
    /// No copy of the window is used after the mapping is dropped. Parts where nothing is mapped are not touched, and parts mapped for
    /// reading are not written.
    pub unsafe fn window(&self) -> Window {
        // SAFETY: the range stays mapped until drop; the rest is the caller's promise.
        unsafe { Window::new(self.ptr, self.len) }
    }

    /// Gives the range up without unmapping it: whoever takes it owns it from here on.
    pub(crate) fn into_range(self) -> (*mut u8, usize) {
        let range = (self.ptr, self.len);
        std::mem::forget(self);
        range
    }

    /// Takes a range back that [`Mapping::into_range`] gave up.
    ///
    /// # Safety
    /// The caller has the range alone.
    pub(crate) unsafe fn from_range(ptr: *mut u8, len: usize) -> Mapping {
        Mapping { ptr, len }
    }

    /// Splits the range in two mappings. The first has `len` bytes, a multiple of a page; the second is `None` if nothing is left.
    pub(crate) fn split(self, len: usize) -> (Mapping, Option<Mapping>) {
        assert!(len > 0 && len <= self.len && len.is_multiple_of(PAGE_LEN as usize), "a mapping is split on a page");
        let (ptr, whole) = self.into_range();
        let behind = Mapping { ptr: ptr.wrapping_add(len), len: whole - len };
        if whole == len {
            std::mem::forget(behind);
            return (Mapping { ptr, len }, None);
        }
        (Mapping { ptr, len }, Some(behind))
    }

    fn at(&self, at: u64) -> *mut std::ffi::c_void {
        self.ptr.wrapping_add(at as usize).cast()
    }

    fn check(&self, at: u64, len: u64) -> Result<usize> {
        let is_inside = at.checked_add(len).is_some_and(|end| end <= self.len as u64);
        if is_inside && len > 0 && at.is_multiple_of(PAGE_LEN) { Ok(len as usize) } else { Err(too_long("reserved range")) }
    }

    fn forget(&self, at: u64, len: usize) {
        let start = self.ptr.addr() + at as usize;
        guard::forget(start..start + len);
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        self.forget(0, self.len);
        // SAFETY: the range is ours (invariant 1), and windows of it are not used any more by their contract.
        let unmapped = unsafe { munmap(self.ptr.cast(), self.len) };
        debug_assert!(unmapped.is_ok(), "a whole range of ours can be unmapped");
    }
}

fn too_long(what: &str) -> Error {
    Error::Garbage { peer: "the node".to_owned(), reason: format!("a mapping that does not lie in the {what}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file;
    use std::os::fd::AsFd;

    fn part(offset: u64, len: u64) -> FilePart {
        FilePart { offset, len, map_len: len.next_multiple_of(PAGE_LEN) }
    }

    #[test]
    fn files_lie_one_after_another() {
        let (first, second) = (file::create("a", 8192).unwrap(), file::create("b", 4096).unwrap());
        rustix::io::pwrite(&first, b"end", 8189).unwrap();
        rustix::io::pwrite(&second, b"begin", 0).unwrap();
        let mut mapping = Mapping::reserve(12_000).unwrap();
        mapping.map_file(0, first.as_fd(), part(0, 8192), Rights::Read).unwrap();
        mapping.map_file(8192, second.as_fd(), part(0, 3000), Rights::Write).unwrap();
        let mut bytes = [0; 8];
        // SAFETY: the mapping lives to the end of the test.
        unsafe { mapping.window() }.slice(8189, 8).read_into(&mut bytes).unwrap();
        assert_eq!(&bytes, b"endbegin");
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let file = file::create("a", 8192).unwrap();
        let mut mapping = Mapping::reserve(8192).unwrap();
        for (at, offset, len) in [(4096, 0, 8192), (0, 4096, 8192), (1, 0, 4096), (0, u64::MAX - 4095, 4096), (8192, 0, 1)] {
            let refused = mapping.map_file(at, file.as_fd(), part(offset, len), Rights::Read);
            assert!(matches!(refused, Err(Error::Garbage { .. })), "{at} {offset} {len}");
        }
        assert!(Mapping::reserve(u64::MAX).is_err());
    }

    #[test]
    fn an_address_is_taken_once_and_free_after_its_mapping() {
        let address = Mapping::reserve(1 << 20).unwrap().ptr().addr();
        let first = Mapping::reserve_at(address, 1 << 20).unwrap().unwrap();
        assert_eq!((first.ptr().addr(), first.len()), (address, 1 << 20));
        assert!(Mapping::reserve_at(address + 4096, 1).unwrap().is_none(), "in use");
        drop(first);
        assert!(Mapping::reserve_at(address, 1).unwrap().is_some());
        for nonsense in [0, address + 1, usize::MAX - 4095] {
            assert!(Mapping::reserve_at(nonsense, 1).unwrap().is_none());
        }
    }

    #[test]
    fn large_ranges_begin_on_a_huge_page() {
        let mapping = Mapping::reserve(3 << 20).unwrap();
        assert_eq!(mapping.ptr().addr() % HUGE_PAGE_LEN as usize, 0);
        let mut small = Mapping::reserve(1).unwrap();
        small.map_sparse(0, 1).unwrap();
        // SAFETY: the mapping lives to the end of the test.
        unsafe { small.window() }.write_from(&[1; 4096]).unwrap();
    }
}
