//! An owned userfaultfd in user mode. Page faults of registered ranges become SIGBUS in the thread that touched. Pages are mapped and
//! write-protected by call, also from another process that was handed the descriptor.
//!
//! # What to do, in which order
//!
//! *A client*: [`Features::probe`] once, [`Features::check`]. Map the region's frames (a memory file) and forbid the mapping to children
//! (`crate::fault`). [`Uffd::open`]; [`Uffd::register`]. Hand the descriptor to the node ([`Uffd::as_fd`] over the Unix socket), with the
//! address of the mapping. From then on every touch is a SIGBUS in its handler.
//!
//! *Its node*: [`Uffd::adopt`]; it write-protects and unmaps pages of the client's mapping, never asking the client.
//!
//! | page is | kernel has `CONTINUE_PROTECTED` | Linux 6.1 |
//! |---|---|---|
//! | not in the file, touched | SIGBUS: fetch, [fill](crate::frames::Frames::fill), map | the same |
//! | in the file, not mapped, touched | SIGBUS: [`Uffd::install`] | the kernel maps it, protected if a mark was left |
//! | mapped write-protected, written | SIGBUS: when the page may be written, [`Uffd::unprotect`] | the same |
//!
//! Rules, each with a test in `tests.rs` or in [`crate::frames`]:
//!
//! 1. A page is mapped only while its word counts the thread that maps it. A `CONTINUE` after the page was write-protected maps it
//!    writable (unless it is `map_protected`). A `CONTINUE` after the page was punched and filled again shows the later bytes, where the
//!    thread was to see the earlier ones.
//! 2. A page that is in the file but not mapped is mapped with [`Uffd::map_protected`] if it may only be read: [`Uffd::map`]
//!    overrides a write-protection made before.
//! 3. On Linux 6.1 ([`Uffd::registers_present`] is false) that step does not exist. There present pages are not registered. The filler of a
//!    page has it write-protected in all clients *before* it is filled ([`Uffd::protect`] leaves a mark where nothing is mapped), and the
//!    kernel maps it, write-protected, at the next touch. The marks survive punching, unless a thread touches the page in that very moment.
//!    The puncher protects again before others may fill. So there is no late `CONTINUE` at all, but bytes are seen as soon as they are in
//!    the file. A grant must be taken as good *before* its bytes are filled in (and the thread counted until they are). A further client's
//!    whole mapping is protected at once after registering (page tables, 2 MiB a GiB).
//!
//! # Costs
//!
//! A map costs 0.4 us singly, 0.1 us a page in one call of 32; a protect 1.1 us singly, 0.06 us a page in one call of 512. Another thread
//! of the client on another processor adds 22 us a call (shoot-down): batch. A whole fault resolved by its own thread takes 2 to 3 us.
//!
//! Safety invariants of this module:
//!
//! 1. The kernel changes only ranges registered with this very descriptor. Those of this process are registered by [`Uffd::register`],
//!    whose caller promises that no Rust reference to the range exists. Those of another process are not our memory.
//! 2. Every structure handed to the kernel has the layout that its request number says (`kernel.rs` asserts the sizes).

mod features;
mod kernel;
pub mod pager;

#[cfg(test)]
pub(crate) mod peer;
#[cfg(test)]
mod tests;

pub use features::{Features, PARTS, Part};

use crate::Mapping;
use hanare_protocol::Error;
use hanare_protocol::limits::PAGE_LEN;
use hanare_protocol::page::Access;
use rustix::io::Errno;
use rustix::ioctl::{Opcode, Updater, ioctl};
use rustix::mm::{UserfaultfdFlags, userfaultfd};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use thiserror::Error as ThisError;

/// Whole pages in some process: first address and length in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// First byte, on a page's boundary.
    pub start: u64,
    /// Length in bytes, whole pages.
    pub len: u64,
}

impl Span {
    /// A whole mapping of this process.
    pub fn of(mapping: &Mapping) -> Span {
        Span { start: mapping.ptr().addr() as u64, len: mapping.len() as u64 }
    }

    /// Some pages of it.
    pub fn pages(self, first: u64, count: u64) -> Span {
        let end = first.checked_add(count).and_then(|end| end.checked_mul(PAGE_LEN));
        assert!(end.is_some_and(|end| end <= self.len), "{count} pages at {first} leave a span of {} bytes", self.len);
        Span { start: self.start + first * PAGE_LEN, len: count * PAGE_LEN }
    }

    /// The first byte behind it.
    pub fn end(self) -> u64 {
        self.start + self.len
    }

    fn raw(self) -> kernel::Span {
        kernel::Span { start: self.start, len: self.len }
    }

    fn behind(self, done: u64) -> Span {
        Span { start: self.start + done, len: self.len - done }
    }
}

/// Time that another process may delay a step by changing its mappings: each honest change takes microseconds.
const FOREIGN_PATIENCE: Duration = Duration::from_millis(5);

/// The kernel refused a step. A plain value: made and looked at inside a signal handler.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ThisError)]
pub enum Refused {
    /// The process whose memory it is has ended: nothing is mapped anywhere any more.
    #[error("the process has ended")]
    Ended,
    /// A page of the range is not in the file: fetch and fill it first.
    #[error("a page is not in the file; fill it first")]
    Absent,
    /// A part of the range is not (or no longer) registered with this descriptor.
    #[error("a part of the range is not registered; its process unmapped or replaced it")]
    Unregistered,
    /// The kernel cannot, or was asked not to.
    #[error("this kernel's userfaultfd lacks '{0}'")]
    Unsupported(&'static str),
    /// Anything else.
    #[error("{0}")]
    System(Errno),
}

impl From<Refused> for Error {
    fn from(refused: Refused) -> Error {
        Error::System { what: "changing a mapping of shared memory".to_owned(), reason: refused.to_string() }
    }
}

/// A userfaultfd, closed when dropped; its ranges are then like any other memory: absent pages read as zeros. Unmap them first.
#[derive(Debug)]
pub struct Uffd {
    fd: OwnedFd,
    features: Features,
    /// Time limit for a step that waits for its process's changes of mappings. `None` for this process; another may delay for ever.
    patience: Option<Duration>,
    /// A step took longer than that: no other is tried.
    is_stuck: AtomicBool,
}

impl Uffd {
    /// A descriptor for memory of this process, with those features and no others, as an ordinary user.
    ///
    /// **Errors**: [`Refused::Unsupported`] when `features` are not enough; [`Refused::System`] as the kernel says.
    // FEATURE: EU-F12 D2-F4
    pub fn open(features: Features) -> Result<Uffd, Refused> {
        for part in PARTS.iter().filter(|part| Features::NEEDED.contains(part.feature)) {
            features.need(part.feature)?;
        }
        let fd = descriptor()?;
        handshake(fd.as_fd(), &mut kernel::Api { api: kernel::API, features: features.asked(), ioctls: 0 })?;
        Ok(Uffd { fd, features, patience: None, is_stuck: AtomicBool::new(false) })
    }

    /// A descriptor that another process opened with those features, and handed over.
    ///
    /// The descriptor is input. One that is none, or whose process unmapped its memory, makes every call fail, and nothing worse.
    pub fn adopt(fd: OwnedFd, features: Features) -> Uffd {
        Uffd { fd, features, patience: Some(FOREIGN_PATIENCE), is_stuck: AtomicBool::new(false) }
    }

    /// True if another process's descriptor has delayed a step for too long. That process has to be detached from its shared state.
    pub fn is_stuck(&self) -> bool {
        self.is_stuck.load(Ordering::Relaxed)
    }

    /// The descriptor, to be handed over.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Features that it was opened with.
    pub fn features(&self) -> Features {
        self.features
    }

    /// True if a touch of an unmapped page in the file faults. Otherwise the kernel maps it (rule 3).
    pub fn registers_present(&self) -> bool {
        self.features.contains(Features::CONTINUE_PROTECTED)
    }

    /// Makes faults in a range of this process signals. Where [`Uffd::registers_present`] is false, it also protects the range.
    ///
    /// # Safety
    /// The range is a shared mapping of a memory file. No Rust reference to its bytes exists while it is registered.
    pub unsafe fn register(&self, span: Span) -> Result<(), Refused> {
        let present = if self.registers_present() { kernel::REGISTER_MINOR } else { 0 };
        let mode = kernel::REGISTER_MISSING | kernel::REGISTER_WP | present;
        self.update::<{ kernel::UFFDIO_REGISTER }, _>(&mut kernel::Register { span: span.raw(), mode, ioctls: 0 })?;
        if self.registers_present() { Ok(()) } else { self.protect(span) }
    }

    /// Makes pages that are in the file readable, or writable, in this mapping, by whatever this kernel has. Called by the
    /// thread that touched, while the page's word counts it.
    ///
    /// **Cost**: one call; two to make a page writable that is mapped for reading. **Errors**: as [`Uffd::map`]. On Linux 6.1 a page that
    /// is not in the file is not noticed here: the touch faults again.
    // FEATURE: EU-F12
    pub fn install(&self, span: Span, access: Access) -> Result<(), Refused> {
        match (self.registers_present(), access) {
            (true, Access::Read) => self.map_protected(span),
            (true, Access::Write) => match self.map_present(span, 0)? {
                0 => Ok(()),
                _ => self.unprotect(span),
            },
            (false, Access::Read) => Ok(()),
            (false, Access::Write) => self.unprotect(span),
        }
    }

    /// Maps pages that are in the file, for reading and writing. Pages that are mapped are left as they are.
    ///
    /// Not for a page that may only be read, not even one that was protected before. This overrides it (rule 2). **Errors**:
    /// [`Refused::Absent`] at the first page that is not in the file; those before it are mapped.
    pub fn map(&self, span: Span) -> Result<(), Refused> {
        self.need_present()?;
        self.map_present(span, 0).map(drop)
    }

    /// Maps pages that are in the file, for reading: a write faults. Pages that are mapped are left as they are.
    ///
    /// **Errors**: as [`Uffd::map`]; [`Refused::Unsupported`] before Linux 6.4.
    pub fn map_protected(&self, span: Span) -> Result<(), Refused> {
        self.need_present()?;
        self.map_present(span, kernel::CONTINUE_WP).map(drop)
    }

    fn need_present(&self) -> Result<(), Refused> {
        self.features.need(Features::CONTINUE_PROTECTED)
    }

    /// Protects pages from writing. Where nothing is mapped, it leaves a mark for when the kernel maps it (not for [`Uffd::map`]).
    ///
    /// **Cost**: one shoot-down a call, however many pages. **Errors**: [`Refused::Ended`], [`Refused::Unregistered`].
    // FEATURE: EU-F13
    pub fn protect(&self, span: Span) -> Result<(), Refused> {
        self.write_protect(span, kernel::WRITEPROTECT_ON)
    }

    /// Lets pages be written: those that are mapped, and those that the kernel maps later.
    pub fn unprotect(&self, span: Span) -> Result<(), Refused> {
        self.write_protect(span, 0)
    }

    fn write_protect(&self, span: Span, mode: u64) -> Result<(), Refused> {
        let mut protect = kernel::WriteProtect { span: span.raw(), mode };
        self.update::<{ kernel::UFFDIO_WRITEPROTECT }, _>(&mut protect).map_err(|refused| match refused {
            Refused::Absent => Refused::Unregistered,
            other => other,
        })
    }

    /// CONTINUE over a range, passing over pages that are mapped; returns how many those were.
    fn map_present(&self, span: Span, mode: u64) -> Result<u64, Refused> {
        let (mut done, mut passed) = (0, 0);
        while done < span.len {
            let mut fill = kernel::Fill { span: span.behind(done).raw(), mode, done: 0 };
            match self.update::<{ kernel::UFFDIO_CONTINUE }, _>(&mut fill) {
                Ok(()) => break,
                Err(_) if fill.done > 0 => done += fill.done as u64,
                Err(Refused::System(Errno::EXIST)) => (done, passed) = (done + PAGE_LEN, passed + 1),
                Err(refused) => return Err(refused),
            }
        }
        Ok(passed)
    }

    fn update<const REQUEST: Opcode, T>(&self, about: &mut T) -> Result<(), Refused> {
        if self.is_stuck() {
            return Err(Refused::System(Errno::AGAIN));
        }
        let begun = self.patience.map(|patience| (Instant::now(), patience));
        let mut is_late = || {
            let is_late = begun.is_some_and(|(begun, patience)| begun.elapsed() > patience);
            self.is_stuck.fetch_or(is_late, Ordering::Relaxed);
            is_late
        };
        // SAFETY: the layout is that of the request, and the ranges are registered ones (invariants 1, 2).
        retry(&mut is_late, || unsafe { ioctl(&self.fd, Updater::<REQUEST, T>::new(about)) })
    }
}

impl Features {
    pub(crate) fn need(self, feature: Features) -> Result<(), Refused> {
        match PARTS.iter().find(|part| feature.contains(part.feature) && !self.contains(part.feature)) {
            None => Ok(()),
            Some(part) => Err(Refused::Unsupported(part.name)),
        }
    }
}

fn descriptor() -> Result<OwnedFd, Refused> {
    /// `UFFD_USER_MODE_ONLY`: what an ordinary user may have.
    const USER_MODE_ONLY: u32 = 1;
    let flags = UserfaultfdFlags::CLOEXEC | UserfaultfdFlags::from_bits_retain(USER_MODE_ONLY);
    // SAFETY: a new descriptor does nothing until a range is registered.
    unsafe { userfaultfd(flags) }.map_err(Refused::System)
}

fn handshake(fd: BorrowedFd<'_>, api: &mut kernel::Api) -> Result<(), Refused> {
    // SAFETY: the layout is that of the request (invariant 2).
    retry(&mut || false, || unsafe { ioctl(fd, Updater::<{ kernel::UFFDIO_API }, _>::new(api)) })
}

/// Repeats a step while the memory's process is changing its mappings, until `is_late`, and translates the kernel's answer.
fn retry(is_late: &mut impl FnMut() -> bool, mut step: impl FnMut() -> Result<(), Errno>) -> Result<(), Refused> {
    /// Each try lasts as long as another thread's change of a mapping. This many in a row is a fault of the kernel.
    const TRY_COUNT_MAX: u32 = 100_000;
    /// Tries between two looks at the clock.
    const TRIES_PER_LOOK: u32 = 64;
    for count in 0..TRY_COUNT_MAX {
        return match step() {
            Ok(()) => Ok(()),
            Err(Errno::AGAIN | Errno::INTR) if count % TRIES_PER_LOOK == TRIES_PER_LOOK - 1 && is_late() => break,
            Err(Errno::AGAIN | Errno::INTR) => continue,
            Err(Errno::SRCH) => Err(Refused::Ended),
            Err(Errno::FAULT) => Err(Refused::Absent),
            Err(Errno::NOENT) => Err(Refused::Unregistered),
            Err(errno) => Err(Refused::System(errno)),
        };
    }
    Err(Refused::System(Errno::AGAIN))
}
