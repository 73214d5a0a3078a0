//! Memory files: sealed, of one size for ever, with the largest pages the system grants.
//!
//! A file's descriptor is the whole right: a client that holds one can write every byte of the file. Seals keep the file's length, and
//! mode 0600 keeps other users from opening it.

use hanare_protocol::limits::PAGE_LEN;
use hanare_protocol::{Error, Result};
use rustix::fs::{FallocateFlags, MemfdFlags, fallocate};
use rustix::fs::{Mode, OFlags, SealFlags, fchmod, fcntl_add_seals, fcntl_get_seals, fstat, ftruncate, memfd_create, open};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Bytes of a huge page.
pub const HUGE_PAGE_LEN: u64 = 2 << 20;

/// Use of larger pages than the usual.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Huge {
    /// Reserved huge pages, then transparent ones, then the usual.
    #[default]
    Auto,
    /// The usual pages only.
    Never,
}

/// The pages that a file has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pages {
    /// Reserved huge pages (HUGETLB).
    Huge,
    /// Usual pages that the kernel may join to huge ones.
    Transparent,
    /// Usual pages.
    Small,
}

impl Pages {
    /// Bytes of a page, as far as mappings must be aligned to it.
    pub fn map_len(self) -> u64 {
        if self == Pages::Huge { HUGE_PAGE_LEN } else { PAGE_LEN }
    }
}

const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);

/// Makes a file of `len` bytes with usual pages, sealed against every change of its size, mode 0600.
///
/// **Units**: `len` is rounded up to a page.
pub fn create(name: &str, len: u64) -> Result<OwnedFd> {
    let file = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).map_err(system("making a memory file"))?;
    finish(&file, len.next_multiple_of(PAGE_LEN))?;
    Ok(file)
}

/// Makes a file of `len` bytes of reserved huge pages, or says why not. The pages are taken at once.
pub fn create_huge(name: &str, len: u64) -> Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING | MemfdFlags::HUGETLB | MemfdFlags::HUGE_2MB;
    let file = memfd_create(name, flags).map_err(system("making a memory file of huge pages"))?;
    finish(&file, len.next_multiple_of(HUGE_PAGE_LEN))?;
    fallocate(&file, FallocateFlags::empty(), 0, len).map_err(system("taking huge pages"))?;
    Ok(file)
}

fn finish(file: &OwnedFd, len: u64) -> Result<()> {
    ftruncate(file, len).map_err(system("sizing a memory file"))?;
    // A memfd begins with mode 0777: whoever sees it in /proc could open it.
    fchmod(file, Mode::RUSR | Mode::WUSR).map_err(system("setting the mode of a memory file"))?;
    fcntl_add_seals(file, SEALS).map_err(system("sealing a memory file"))
}

/// Another descriptor of a file, that can be read and mapped for reading only.
///
/// The result is a new open file, not a duplicate: no mapping of it can be made writable.
pub fn reopen_read_only(file: BorrowedFd<'_>) -> Result<OwnedFd> {
    let path = format!("/proc/self/fd/{}", file.as_raw_fd());
    open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).map_err(system("opening a memory file for reading"))
}

/// Refuses a file from a peer that is shorter than `len`, or that the peer could make shorter later.
pub fn check_sealed(file: impl AsFd, len: u64) -> Result<()> {
    let garbage = |reason: &str| Error::Garbage { peer: "the other process".to_owned(), reason: reason.to_owned() };
    let seals = fcntl_get_seals(&file).map_err(|_| garbage("a descriptor that is no memory file"))?;
    if !seals.contains(SealFlags::SHRINK) {
        return Err(garbage("a memory file that can be made shorter"));
    }
    match fstat(&file) {
        Ok(stat) if u64::try_from(stat.st_size).is_ok_and(|size| size >= len) => Ok(()),
        _ => Err(garbage("a memory file that is shorter than said")),
    }
}

/// True if the kernel joins pages of memory files when told to (`shmem_enabled`).
pub(crate) fn is_transparent_offered() -> bool {
    let setting = std::fs::read_to_string("/sys/kernel/mm/transparent_hugepage/shmem_enabled").unwrap_or_default();
    ["[always]", "[within_size]", "[advise]", "[force]"].iter().any(|word| setting.contains(word))
}

/// The error for a system call that failed while `what` was tried.
pub fn system(what: &'static str) -> impl FnOnce(rustix::io::Errno) -> Error {
    move |errno| Error::System { what: what.to_owned(), reason: errno.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::mm::{MapFlags, ProtFlags, mmap, mprotect, munmap};

    #[test]
    fn a_file_is_sealed_private_and_of_whole_pages() {
        let file = create("test", 5000).unwrap();
        let stat = fstat(&file).unwrap();
        assert_eq!((stat.st_size, stat.st_mode & 0o777), (8192, 0o600));
        assert!(ftruncate(&file, 0).is_err());
        assert!(ftruncate(&file, 16384).is_err());
        assert!(fcntl_add_seals(&file, SealFlags::WRITE).is_err());
        check_sealed(&file, 8192).unwrap();
        assert!(check_sealed(&file, 8193).is_err());
    }

    #[test]
    fn a_reader_s_descriptor_cannot_write_in_any_way() {
        let file = create("test", 4096).unwrap();
        let reader = reopen_read_only(file.as_fd()).unwrap();
        assert!(rustix::io::write(&reader, b"x").is_err());
        let (read, both) = (ProtFlags::READ, ProtFlags::READ | ProtFlags::WRITE);
        // SAFETY: the kernel chooses free ranges; what is mapped is unmapped here, unused.
        unsafe {
            assert!(mmap(std::ptr::null_mut(), 4096, both, MapFlags::SHARED, &reader, 0).is_err());
            let ptr = mmap(std::ptr::null_mut(), 4096, read, MapFlags::SHARED, &reader, 0).unwrap();
            assert!(mprotect(ptr, 4096, rustix::mm::MprotectFlags::READ | rustix::mm::MprotectFlags::WRITE).is_err());
            munmap(ptr, 4096).unwrap();
        }
    }

    #[test]
    fn a_peer_s_file_that_can_shrink_is_refused() {
        let file = memfd_create("test", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
        ftruncate(&file, 4096).unwrap();
        assert!(check_sealed(&file, 4096).is_err());
    }
}
