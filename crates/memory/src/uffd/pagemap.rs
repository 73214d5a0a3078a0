//! Which pages were written, from the kernel's own record.

use super::{Features, Refused, Span, kernel};
use rustix::fs::{Mode, OFlags, open};
use rustix::ioctl::{Ioctl, IoctlOutput, Opcode, ioctl};
use std::ffi::c_void;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The page table of a process, as a file; it can be handed to another process and still tells of this one.
#[derive(Debug)]
pub struct PageMap {
    fd: OwnedFd,
}

/// Runs of pages that one call returns.
const RUN_COUNT: usize = 64;

impl PageMap {
    /// That of the calling process.
    pub fn of_this_process() -> Result<PageMap, Refused> {
        let fd = open("/proc/self/pagemap", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).map_err(Refused::System)?;
        Ok(PageMap { fd })
    }

    /// That of a process which handed it over; input, as [`super::Uffd::adopt`] says.
    pub fn adopt(fd: OwnedFd) -> PageMap {
        PageMap { fd }
    }

    /// The descriptor, to be handed over.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Calls `each` with every run of pages that were written since they were last protected, and protects them again in the
    /// same step, so that no write is missed.
    ///
    /// The range is registered with a descriptor opened with [`super::WriteFaults::Track`].
    /// **Cost**: one call for each 64 runs; a walk of the page table, 0.6 us a first write in the program.
    /// **Errors**: [`Refused::Unsupported`] before Linux 6.7.
    // FEATURE: D2-F7
    pub fn take_written(&self, span: Span, mut each: impl FnMut(Span)) -> Result<(), Refused> {
        let mut runs = [kernel::PageRegion::default(); RUN_COUNT];
        let mut start = span.start;
        while start < span.end() {
            let scan = kernel::Scan {
                size: size_of::<kernel::Scan>() as u64,
                flags: kernel::SCAN_WP_MATCHING | kernel::SCAN_CHECK_WPASYNC,
                start,
                end: span.end(),
                vec: runs.as_mut_ptr().expose_provenance() as u64,
                vec_len: RUN_COUNT as u64,
                category_mask: kernel::PAGE_IS_WRITTEN,
                return_mask: kernel::PAGE_IS_WRITTEN,
                ..Default::default()
            };
            // SAFETY: the layout is that of the request; `runs` outlives the call and has as many entries as said.
            let (count, walk_end) = unsafe { ioctl(&self.fd, ScanCall(scan)) }.map_err(|errno| match errno {
                rustix::io::Errno::NOTTY => Refused::Unsupported("pagemap scan"),
                rustix::io::Errno::PERM => Refused::Unregistered,
                rustix::io::Errno::SRCH => Refused::Ended,
                other => Refused::System(other),
            })?;
            for run in &runs[..count.min(RUN_COUNT)] {
                each(Span { start: run.start, len: run.end - run.start });
            }
            if walk_end <= start {
                return Err(Refused::System(rustix::io::Errno::PROTO));
            }
            start = walk_end;
        }
        Ok(())
    }

    /// Refuses a kernel without it.
    pub fn check(features: Features) -> Result<(), Refused> {
        features.need(Features::TRACK.union(Features::SCAN))
    }
}

struct ScanCall(kernel::Scan);

// SAFETY: the request number is made from the layout; the kernel writes `walk_end` into it and runs to where it points.
unsafe impl Ioctl for ScanCall {
    type Output = (usize, u64);
    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        kernel::PAGEMAP_SCAN
    }

    fn as_ptr(&mut self) -> *mut c_void {
        (&raw mut self.0).cast()
    }

    unsafe fn output_from_ptr(count: IoctlOutput, about: *mut c_void) -> rustix::io::Result<Self::Output> {
        // SAFETY: it is the structure that `as_ptr` gave.
        Ok((count as usize, unsafe { (*about.cast::<kernel::Scan>()).walk_end }))
    }
}
