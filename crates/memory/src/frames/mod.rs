//! The frames of a region on one host. They are a sparse memory file whose page `k` is the host's copy of the region's page `k`, or a hole.
//!
//! "Main memory as a cache of the pool" [D2 §4]. The node and that region's clients on the host share the file. A copy is charged once, for
//! any number of clients. Clients reach it through mappings registered with [`crate::uffd`], the node through calls on the file, or a
//! [`Service`] mapping.
//!
//! # What to do, in which order
//!
//! *Fill* (the thread that fetched, or the node; whoever holds the page's claim): [`Frames::fill`] with the bytes, then publish
//! in the page's word, then the thread is counted and maps. Where the bytes come from a socket: [`Service::populate`], receive
//! into [`Service::window`], publish. On Linux 6.1 see rule 3 of [`crate::uffd`].
//!
//! *Take* (the node; pages that it marked in their words, and that no installer is left for): [`Frames::take`]: write-protects
//! all clients, reads, punches; or keeps, for a downgrade. Then publish, then send the bytes. The order is the point:
//!
//! | if | then |
//! |---|---|
//! | read before all clients are protected | a store between is lost: `a_store_after_the_read_is_lost_unless_protected_first` |
//! | punched before read | zeros are sent: `a_page_punched_before_it_is_read_is_zeros` |
//! | published before punched | a thread maps a page that goes away under it, or its new bytes are punched |
//! | touched through a service mapping without its claim | zeros are planted: `a_stray_read_of_a_punched_page_plants_zeros` |
//!
//! [`Frames::read`] plants nothing, whoever calls it: prefer it to a mapping.
//!
//! *Evict*: choose victims a batch at a time (32 and more: one shoot-down a call), and mark them in their words.
//!
//! # Costs
//!
//! Fill 1.0 us a page, less in runs; by a store to a mapping 1.7 us. Punch 2.8 us singly, 0.5 us a page in one call of 1024. Protecting a
//! client 1.1 us singly, and 22 us for the shoot-down if another of its threads runs. In one call of 1024 it is 0.05 us a page. So
//! neighbours go in one call, and a caller with many pages sorts them ([`runs_of`]). No memory beyond the file: what is here is in the page
//! words.
//!
//! Safety invariant of this module: a service mapping is reached through windows only, which do not outlive it.

#[cfg(test)]
mod tests;

use crate::diff::PageBytes;
use crate::file;
use crate::mapping::Mapping;
use crate::uffd::{Refused, Span, Uffd};
use crate::window::Window;
use hanare_protocol::Result;
use hanare_protocol::id::Rights;
use hanare_protocol::limits::PAGE_LEN;
use hanare_protocol::wire::control::FilePart;
use rustix::fs::{FallocateFlags, fallocate, fstat};
use rustix::io::{Errno, pread, pwrite};
use rustix::mm::{Advice, madvise};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Neighbouring pages: the first, and how many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// The first page.
    pub first: u64,
    /// Number of pages.
    pub count: u64,
}

impl Run {
    /// A run of one page.
    pub fn one(page: u64) -> Run {
        Run { first: page, count: 1 }
    }

    /// Bytes of it.
    pub fn len_bytes(self) -> usize {
        (self.count * PAGE_LEN) as usize
    }
}

/// The runs of `pages`, which ascend; a page named twice is in its run once.
pub fn runs_of(pages: &[u64]) -> impl Iterator<Item = Run> + '_ {
    let mut rest = pages;
    std::iter::from_fn(move || {
        let (&first, _) = rest.split_first()?;
        let mut run = Run::one(first);
        let mut taken = 1;
        while let Some(&page) = rest.get(taken) {
            match page.checked_sub(first) {
                Some(at) if at == run.count => run.count += 1,
                Some(at) if at < run.count => {}
                _ => break,
            }
            taken += 1;
        }
        rest = &rest[taken..];
        Some(run)
    })
}

/// State of pages after they are taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stays {
    /// No pages: the frames are given back.
    Nothing,
    /// A copy that may be read, write-protected in all clients.
    Copy,
}

/// A client's registered mapping of a region's frames, as its node knows it.
#[derive(Debug)]
pub struct ClientFrames {
    /// The descriptor that the client handed over.
    pub uffd: Uffd,
    /// The client's mapping of the whole file.
    pub span: Span,
}

impl ClientFrames {
    /// Write-protects pages in its mapping.
    ///
    /// **Cost**: one call; one a page where some are not its own. **Errors**: as [`Uffd::protect`]; [`Refused::Unregistered`] where it
    /// lost or unmapped some of the pages: the others are protected all the same.
    pub fn protect(&self, run: Run) -> Result<(), Refused> {
        let protect = |run: Run| self.uffd.protect(self.span.pages(run.first, run.count));
        let protected = protect(run);
        if protected == Err(Refused::Unregistered) && run.count > 1 {
            for page in run.first..run.first + run.count {
                protect(Run::one(page))
                    .or_else(|refused| if refused == Refused::Unregistered { Ok(()) } else { Err(refused) })?;
            }
        }
        protected
    }
}

/// The memory file of a region's frames.
#[derive(Debug)]
pub struct Frames {
    file: OwnedFd,
    pages: u64,
}

impl Frames {
    /// Frames for `pages` pages, all holes. **Cost**: no memory.
    // FEATURE: D2-F4
    pub fn new(name: &str, pages: u64) -> Result<Frames> {
        let len = pages.checked_mul(PAGE_LEN).ok_or_else(|| file::system("sizing a memory file")(Errno::FBIG))?;
        Ok(Frames { file: file::create(name, len)?, pages })
    }

    /// The file as a client gets it from its node. Refused if it is shorter, or could become so.
    pub fn adopt(file: OwnedFd, pages: u64) -> Result<Frames> {
        file::check_sealed(&file, pages.saturating_mul(PAGE_LEN))?;
        Ok(Frames { file, pages })
    }

    /// The file, to be handed over.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Number of pages, present or not.
    pub fn page_count(&self) -> u64 {
        self.pages
    }

    /// Frames that hold memory. **Cost**: one system call; exact when nothing is under way.
    pub fn present_count(&self) -> Result<u64> {
        let stat = fstat(&self.file).map_err(file::system("looking at frames"))?;
        Ok(stat.st_blocks as u64 * 512 / PAGE_LEN)
    }

    /// Puts whole pages into the file. Held: the pages' claims. Async-signal-safe.
    ///
    /// **Cost**: one call, 1.0 us for a page that is a hole. **Errors**: [`Refused::System`] with `NOSPC` or `NOMEM` when the
    /// machine or its control group has no memory: evict and try again.
    // FEATURE: D2-F4
    pub fn fill(&self, run: Run, bytes: &[u8]) -> Result<(), Refused> {
        let mut at = self.check(run, bytes.len());
        let mut rest = bytes;
        while !rest.is_empty() {
            match pwrite(&self.file, rest, at) {
                Ok(0) => return Err(Refused::System(Errno::NOSPC)),
                Ok(done) => (rest, at) = (&rest[done..], at + done as u64),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(Refused::System(errno)),
            }
        }
        Ok(())
    }

    /// Reads whole pages; a hole reads as zeros and stays a hole. Async-signal-safe.
    ///
    /// **Cost**: one call, one copy.
    pub fn read(&self, run: Run, into: &mut [u8]) -> Result<(), Refused> {
        let mut at = self.check(run, into.len());
        let mut rest = into;
        while !rest.is_empty() {
            match pread(&self.file, &mut *rest, at) {
                Ok(0) => return Err(Refused::Absent),
                Ok(done) => (rest, at) = (&mut rest[done..], at + done as u64),
                Err(Errno::INTR) => {}
                Err(errno) => return Err(Refused::System(errno)),
            }
        }
        Ok(())
    }

    /// Reads a page of it.
    pub fn read_page(&self, page: u64) -> Result<Box<PageBytes>, Refused> {
        let mut bytes = Box::new([0; PAGE_LEN as usize]);
        self.read(Run::one(page), &mut bytes[..])?;
        Ok(bytes)
    }

    fn check(&self, run: Run, len: usize) -> u64 {
        let is_inside = run.first.checked_add(run.count).is_some_and(|end| end <= self.pages);
        assert!(is_inside, "{} frames at {} of {}", run.count, run.first, self.pages);
        assert_eq!(len, run.len_bytes(), "as many bytes as frames have");
        run.first * PAGE_LEN
    }

    /// Gives frames back: they are holes in the file and absent in all mappings of all processes.
    ///
    /// Held: the pages, marked and clear. **Cost**: one call; 2.8 us a page singly, 0.5 us in a call of many.
    // FEATURE: EU-F13
    pub fn punch(&self, run: Run) -> Result<(), Refused> {
        let at = self.check(run, run.len_bytes());
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        loop {
            match fallocate(&self.file, flags, at, run.count * PAGE_LEN) {
                Err(Errno::INTR) => {}
                done => return done.map_err(Refused::System),
            }
        }
    }

    /// Write-protects pages in all clients. `refused` gets the index of each client that refuses. After [`Refused::Ended`] the client has
    /// no mapping any more. After any other error the caller gives the whole client up, because it may write into pages of others.
    ///
    /// **Cost**: one call a client.
    // FEATURE: EU-F13
    pub fn protect(&self, run: Run, clients: &[ClientFrames], refused: impl FnMut(usize, Refused)) {
        protect_those(|_| true, run, clients, refused);
    }

    /// Takes pages away from all clients, in the one right order: protect, read, punch. Without `bytes` (an invalidation of a page that is
    /// owned elsewhere), and if nothing stays, it only punches.
    ///
    /// Held: the pages, marked in their words, with no installer left. Publish afterwards, and only then send the bytes.
    /// **Cost**: one call a client, one read, one punch, for all pages of the run. `refused` as in [`Frames::protect`].
    // FEATURE: EU-F13
    pub fn take(
        &self,
        run: Run,
        clients: &[ClientFrames],
        bytes: Option<&mut [u8]>,
        stays: Stays,
        mut refused: impl FnMut(usize, Refused),
    ) -> Result<(), Refused> {
        if bytes.is_some() || stays == Stays::Copy {
            self.protect(run, clients, &mut refused);
        }
        if let Some(bytes) = bytes {
            self.read(run, bytes)?;
        }
        if stays == Stays::Copy {
            return Ok(());
        }
        self.punch(run)?;
        // On Linux 6.1 the mark that protection leaves protects the page when it comes back. A thread that touches the page while it is
        // punched removes a mark that was left before.
        protect_those(|client| !client.uffd.registers_present(), run, clients, refused);
        Ok(())
    }

    /// A mapping of all frames for the node itself.
    pub fn service(&self) -> Result<Service> {
        let len = self.pages * PAGE_LEN;
        let mut mapping = Mapping::reserve(len)?;
        mapping.map_file(0, self.file.as_fd(), FilePart { offset: 0, len, map_len: len }, Rights::Write)?;
        Ok(Service { mapping, pages: self.pages })
    }
}

fn protect_those(
    which: impl Fn(&ClientFrames) -> bool,
    run: Run,
    clients: &[ClientFrames],
    mut refused: impl FnMut(usize, Refused),
) {
    for (index, client) in clients.iter().enumerate().filter(|(_, client)| which(client)) {
        if let Err(why) = client.protect(run) {
            refused(index, why);
        }
    }
}

/// The node's own mapping of frames, unprotected: to receive into, and to send from, without a copy.
///
/// Accesses through it need the page held: a hole that is read becomes a page of zeros.
#[derive(Debug)]
pub struct Service {
    mapping: Mapping,
    pages: u64,
}

impl Service {
    /// Gives memory to the run's holes, zeroed, before bytes are received into them. Held: the pages' claims.
    ///
    /// **Cost**: one call, 1.0 us a page. **Errors**: as [`Frames::fill`].
    pub fn populate(&self, run: Run) -> Result<(), Refused> {
        // SAFETY: the window does not leave this function.
        let window = unsafe { self.window(run) };
        // SAFETY: the pages are of this mapping; populating changes no byte that is there.
        unsafe { madvise(window.ptr().cast(), window.len(), Advice::LinuxPopulateWrite) }.map_err(Refused::System)
    }

    /// The pages' bytes; to be used while the pages are held.
    ///
    /// # Safety
    /// No copy of the window is used after the service mapping is dropped.
    pub unsafe fn window(&self, run: Run) -> Window {
        let is_inside = run.first.checked_add(run.count).is_some_and(|end| end <= self.pages);
        assert!(is_inside, "{} frames at {} of {}", run.count, run.first, self.pages);
        // SAFETY: the caller's promise; the whole file is mapped for writing.
        unsafe { self.mapping.window() }.slice((run.first * PAGE_LEN) as usize, run.len_bytes())
    }
}
