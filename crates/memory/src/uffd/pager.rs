//! A program's private memory, paged by another process. A touch of an absent or protected page, also by a system call, is an event that
//! the pager reads. The toucher sleeps until the pager has resolved it.
//!
//! | side | has | does |
//! |---|---|---|
//! | the program | [`PagedMemory`] | opens the descriptor, registers its arena, hands the descriptor over |
//! | the pager | [`Pager`] | reads [`Touch`]es; copies pages in, protects them, reads them |
//!
//! Only the program itself can take pages out of its private memory (`MADV_DONTNEED`). To evict: protect, read, have the program take
//! the pages out. A thread that writes meanwhile sleeps, because its page is protected.
//!
//! An ordinary user may open such a descriptor only where `vm.unprivileged_userfaultfd` is 1, or `/dev/userfaultfd` is open to that user.
//!
//! Safety invariants of this module:
//!
//! 1. A [`PagedMemory`] changes only ranges that its program registered; the caller of `register` answers for those.
//! 2. A [`Pager`]'s descriptor belongs to another process: the ranges are not our memory, whatever they are.
//! 3. Every structure handed to the kernel has the layout that its request number says, and buffers outlive the call.

use super::{Refused, Span, handshake, kernel, retry};
use hanare_protocol::limits::PAGE_LEN;
use hanare_protocol::page::Access;
use hanare_protocol::{Error, Result as PoolResult};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::ioctl::{Opcode, Setter, Updater, ioctl};
use rustix::mm::{UserfaultfdFlags, userfaultfd};
use std::ffi::{c_ulong, c_void};
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;

/// A descriptor for memory of this process that another one pages.
#[derive(Debug)]
pub struct PagedMemory(OwnedFd);

impl PagedMemory {
    /// Opens one that serves system calls, too. No allocation.
    ///
    /// **Errors**: `EPERM` for a user who may not ([`check_permission`] says what to do).
    pub fn open() -> Result<PagedMemory, Refused> {
        let flags = UserfaultfdFlags::CLOEXEC | UserfaultfdFlags::NONBLOCK;
        // SAFETY: a new descriptor does nothing until a range is registered.
        let fd = match unsafe { userfaultfd(flags) } {
            Err(Errno::PERM) => by_device(flags).map_err(|_| Refused::System(Errno::PERM))?,
            other => other.map_err(Refused::System)?,
        };
        let features = kernel::FEATURE_WP;
        handshake(fd.as_fd(), &mut kernel::Api { api: kernel::API, features, ioctls: 0 })?;
        Ok(PagedMemory(fd))
    }

    /// Makes touches of absent and of protected pages events.
    ///
    /// # Safety
    /// The range is private anonymous memory, and nobody relies on bytes of pages in it that were never touched.
    pub unsafe fn register(&self, span: Span) -> Result<(), Refused> {
        let mode = kernel::REGISTER_MISSING | kernel::REGISTER_WP;
        update::<{ kernel::UFFDIO_REGISTER }, _>(self.0.as_fd(), &mut kernel::Register { span: span.raw(), mode, ioctls: 0 })
    }
}

impl AsFd for PagedMemory {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// A descriptor by way of the device, whose file mode says who may.
fn by_device(flags: UserfaultfdFlags) -> Result<OwnedFd, Errno> {
    let device = rustix::fs::open(c"/dev/userfaultfd", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    // SAFETY: the request takes flags and returns a new descriptor, which nobody else has.
    let raw = unsafe { libc::ioctl(device.as_raw_fd(), kernel::USERFAULTFD_IOC_NEW as libc::Ioctl, flags.bits()) };
    match raw {
        // SAFETY: as above.
        0.. => Ok(unsafe { OwnedFd::from_raw_fd(raw) }),
        _ => Err(Errno::PERM),
    }
}

/// Says whether this user's programs can be paged.
///
/// **Errors**: [`Error::System`] with the setting that is missing.
pub fn check_permission() -> PoolResult<()> {
    let reason = match PagedMemory::open() {
        Ok(_) => return Ok(()),
        Err(Refused::System(Errno::PERM)) => {
            "an ordinary user may not page memory that system calls use; root allows it by `sysctl \
             vm.unprivileged_userfaultfd=1`, or by `chmod a+rw /dev/userfaultfd`"
                .to_owned()
        }
        Err(Refused::System(Errno::NOSYS)) => "this kernel has no userfaultfd (CONFIG_USERFAULTFD)".to_owned(),
        Err(Refused::System(Errno::INVAL)) => "this kernel's userfaultfd cannot protect pages; Linux 5.7 brought it".to_owned(),
        Err(other) => other.to_string(),
    };
    Err(Error::System { what: "keeping a program's memory in the pool".to_owned(), reason })
}

/// A thread of the program sleeps because it touched a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touch {
    /// The page is absent.
    Absent {
        /// Address of the page.
        at: u64,
        /// A load, or a store.
        access: Access,
    },
    /// Write to a protected page.
    Protected {
        /// Address of the page.
        at: u64,
    },
}

/// The other end: pages of a program's memory.
#[derive(Debug)]
pub struct Pager {
    fd: OwnedFd,
    memory: File,
    process: u32,
}

/// Most pieces that the kernel reads at once.
const PIECE_COUNT: usize = 1024;

impl Pager {
    /// Takes the descriptor that process `pid` opened and handed over. It is input: any other descriptor makes every call fail.
    ///
    /// **Errors**: [`Refused::Ended`] where its memory cannot be opened.
    pub fn adopt(fd: OwnedFd, pid: u32) -> Result<Pager, Refused> {
        let memory = File::open(format!("/proc/{pid}/mem")).map_err(|_| Refused::Ended)?;
        Ok(Pager { fd, memory, process: pid })
    }

    /// The next touch, if there is one. Several threads may ask; each gets its own.
    pub fn next(&self) -> Option<Touch> {
        let mut event = [0; kernel::EVENT_LEN];
        if rustix::io::read(&self.fd, &mut event) != Ok(kernel::EVENT_LEN) || event[0] != kernel::EVENT_PAGEFAULT {
            return None;
        }
        let word = |at: usize| u64::from_le_bytes(std::array::from_fn(|k| event[at + k]));
        let (flags, at) = (word(8), word(16) & !(PAGE_LEN - 1));
        Some(match flags & kernel::PAGEFAULT_WP != 0 {
            true => Touch::Protected { at },
            false if flags & kernel::PAGEFAULT_WRITE != 0 => Touch::Absent { at, access: Access::Write },
            false => Touch::Absent { at, access: Access::Read },
        })
    }

    /// Puts pages where nothing is, and wakes threads that wait for them. Returns the number of bytes put there. The call stops before a
    /// page that is there already, and before memory that is no longer the program's.
    ///
    /// **Cost**: about 1.1 us a page. **Errors**: [`Refused::Ended`]; the first page's own.
    pub fn copy(&self, at: u64, bytes: &[u8], is_protected: bool) -> Result<u64, Refused> {
        let mode = if is_protected { kernel::COPY_WP } else { 0 };
        let from = bytes.as_ptr().addr() as u64;
        let mut copy = kernel::Copy { to: at, from, len: bytes.len() as u64, mode, done: 0 };
        match update::<{ kernel::UFFDIO_COPY }, _>(self.fd.as_fd(), &mut copy) {
            Ok(()) => Ok(bytes.len() as u64),
            Err(_) if copy.done > 0 => Ok(copy.done as u64),
            Err(refused) => Err(refused),
        }
    }

    /// Makes threads that wait for a page of the range touch it again.
    pub fn wake(&self, span: Span) {
        // SAFETY: the layout is that of the request (invariant 3). A program that has ended has nobody to wake.
        let _ = unsafe { ioctl(&self.fd, Setter::<{ kernel::UFFDIO_WAKE }, kernel::Span>::new(span.raw())) };
    }

    /// Protects the pages of the range that are there.
    ///
    /// **Cost**: one shoot-down where another processor runs the program. **Errors**: [`Refused::Unregistered`] where a part of it is
    /// no longer the program's; [`Refused::Ended`].
    pub fn protect(&self, span: Span) -> Result<(), Refused> {
        self.write_protect(span, kernel::WRITEPROTECT_ON)
    }

    /// Makes the pages of the range writable, and wakes threads that wait to write.
    pub fn unprotect(&self, span: Span) -> Result<(), Refused> {
        self.write_protect(span, 0)
    }

    fn write_protect(&self, span: Span, mode: u64) -> Result<(), Refused> {
        update::<{ kernel::UFFDIO_WRITEPROTECT }, _>(self.fd.as_fd(), &mut kernel::WriteProtect { span: span.raw(), mode })
    }

    /// Gives SIGBUS to each thread that touches an absent page of the range.
    ///
    /// **Errors**: kernels before Linux 6.6 cannot.
    pub fn poison(&self, span: Span) -> Result<(), Refused> {
        let mut about = kernel::Fill { span: span.raw(), mode: 0, done: 0 };
        update::<{ kernel::UFFDIO_POISON }, _>(self.fd.as_fd(), &mut about)
    }

    /// Fills each piece with the bytes at its address, also of pages that the program itself may not read. A read of an absent page would
    /// wait for the pager: never ask for one.
    ///
    /// **Cost**: one copy, and one system call for a thousand pieces. **Errors**: [`Refused::Ended`].
    pub fn read(&self, pieces: &mut [(u64, &mut [u8])]) -> Result<(), Refused> {
        for pieces in pieces.chunks_mut(PIECE_COUNT) {
            if !self.read_at_once(pieces) {
                for (at, into) in pieces {
                    self.memory.read_exact_at(into, *at).map_err(|_| Refused::Ended)?;
                }
            }
        }
        Ok(())
    }

    /// Reads pieces by one call. `false` where it failed: the program may not read some pages, or no other process may read its memory.
    fn read_at_once(&self, pieces: &mut [(u64, &mut [u8])]) -> bool {
        let piece = |start: *mut c_void, len| libc::iovec { iov_base: start, iov_len: len };
        let theirs = pieces.iter().map(|(at, into)| piece(std::ptr::without_provenance_mut(*at as usize), into.len()));
        let theirs: Vec<libc::iovec> = theirs.collect();
        let ours: Vec<libc::iovec> = pieces.iter_mut().map(|(_, into)| piece(into.as_mut_ptr().cast(), into.len())).collect();
        let wanted: usize = ours.iter().map(|piece| piece.iov_len).sum();
        let (process, count) = (self.process as libc::pid_t, ours.len() as c_ulong);
        // SAFETY: our pieces are whole borrowed slices, which outlive the call (invariant 3); theirs are another process's.
        let read = unsafe { libc::process_vm_readv(process, ours.as_ptr(), count, theirs.as_ptr(), count, 0) };
        // The number of a process that has ended may have become another's.
        usize::try_from(read) == Ok(wanted) && self.is_alive()
    }

    /// True while the program has this memory; false once it has ended, or become another program.
    pub fn is_alive(&self) -> bool {
        // The first page is never mapped: an error, but where there is no memory at all an end of file.
        !matches!(self.memory.read_at(&mut [0], 0), Ok(0))
    }
}

impl AsFd for Pager {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn update<const REQUEST: Opcode, T>(fd: BorrowedFd<'_>, about: &mut T) -> Result<(), Refused> {
    // SAFETY: the layout is that of the request, and ranges are registered or another process's (invariants 1 to 3).
    retry(&mut || false, || unsafe { ioctl(fd, Updater::<REQUEST, T>::new(about)) })
}
