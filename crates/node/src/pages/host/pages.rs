//! The page words and frames of a region, and how what the rules ask for is done to them.

use super::{Counters, EVICT_COUNT, HomeDoor, HostClient, HostPages, SEATS, SWEEP_COUNT, home_of};
use crate::pages::memory::HomeMemory;
use crate::pages::outgoing::PageBytes;
use hanare_memory::Mapping;
use hanare_memory::file;
use hanare_memory::frames::{ClientFrames, Frames, Run};
use hanare_memory::uffd::Refused;
use hanare_protocol::id::Rights;
use hanare_protocol::limits::PAGE_LEN;
use hanare_protocol::page::host::{Manner, Why};
use hanare_protocol::page::word::{Change, Fault, PageWord, State};
use hanare_protocol::page::{Access, Host as Rules, HostId, Page, Place};
use hanare_protocol::place::Layout;
use hanare_protocol::wire::control::FilePart;
use hanare_protocol::{Corrupt, Result};
use hanare_ring::page_word::seat;
use hanare_ring::page_word::{PageWords, page_words_len};
use hanare_ring::words::Shared;
use rustix::thread::futex;
use std::ops::Range;
use std::os::fd::AsFd;
use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};

/// How long a node that begins anew waits for threads that fill frames: longer than any that is not stopped takes.
pub(super) const FILL_MAX: Duration = Duration::from_millis(100);

impl HostPages {
    pub(super) fn new(name: &str, pages: u64, frames_max: u64) -> Result<HostPages> {
        let len = page_words_len(pages, SEATS).next_multiple_of(PAGE_LEN);
        let words_file = file::create(&format!("{name}.words"), len)?;
        let mut memory = Mapping::reserve(len)?;
        memory.map_file(0, words_file.as_fd(), FilePart { offset: 0, len, map_len: len }, Rights::Write)?;
        // SAFETY: the memory is dropped after the words (field order), and no copy of the window leaves them.
        let words = PageWords::new(Shared::new(unsafe { memory.window() }), pages, SEATS);
        let frames = Frames::new(&format!("{name}.frames"), pages)?;
        Ok(HostPages {
            words,
            words_file,
            _words_memory: memory,
            frames,
            frames_max,
            hand: 0,
            rules: Rules::default(),
            counters: Counters::default(),
        })
    }

    pub(super) fn count(&self) -> u64 {
        self.frames.page_count()
    }

    /// Pages that ever were here.
    pub(super) fn used(&self) -> Vec<u64> {
        (0..self.count()).filter(|page| self.words.look(*page) != PageWord::NEVER).collect()
    }

    /// Finds pages to let go of, where there are more frames than there may be: some of those that lie behind where the last search
    /// ended.
    pub(super) fn sweep(&mut self) -> Vec<u64> {
        let (count, mut found) = (self.count(), Vec::new());
        let present = self.frames.present_count().unwrap_or(0);
        let Some(excess) = present.checked_sub(self.frames_max).filter(|excess| *excess > 0) else { return found };
        let wanted = (excess as usize + EVICT_COUNT / 2).max(EVICT_COUNT);
        for _ in 0..count.max(SWEEP_COUNT) {
            let page = self.hand % count;
            self.hand = page + 1;
            if matches!(self.words.look(page).state(), Ok(State::Shared | State::Owned)) {
                found.push(page);
            }
            if found.len() >= wanted {
                break;
            }
        }
        found
    }

    /// Lets a thread that puts bytes into a frame come to its end: nothing of it may be there later.
    pub(super) fn let_fill_end(&self, page: u64, until: Instant) {
        while self.words.look(page).is_being_filled() && Instant::now() < until {
            std::thread::yield_now();
        }
    }
}

/// Wakes all threads that are parked on a page's word.
fn wake_all(words: &PageWords<Shared>, page: u64) {
    let window = words.memory().window(words.at(page) * 8, 4);
    // SAFETY: a word of the memory that lives as long as this, at its boundary; it is touched by atomics only.
    let word = unsafe { AtomicU32::from_ptr(window.ptr().cast()) };
    let _ = futex::wake(word, futex::Flags::empty(), u32::MAX >> 1);
}

/// A region on this host as its rules see it.
pub(super) struct HostPlace<'a> {
    pub words: &'a PageWords<Shared>,
    pub frames: &'a Frames,
    pub counters: &'a mut Counters,
    pub layout: &'a Layout,
    pub home_of: &'a [usize],
    pub homes: &'a [HomeDoor],
    pub clients: &'a [HostClient],
    pub parted: &'a [ClientFrames],
}

impl HostPlace<'_> {
    /// Memory of this very node that a page lies in.
    fn memory(&self, page: Page) -> Option<&HomeMemory> {
        self.homes[self.home_of(page)].memory.as_deref()
    }

    /// Protects pages from the stores of those clients; where nothing is mapped a mark is left.
    fn protect(&self, run: Run, which: impl Fn(&ClientFrames) -> bool) {
        let mapped = self.clients.iter().filter_map(|client| client.frames.as_ref()).chain(self.parted);
        for client in mapped.filter(|client| which(client)) {
            match client.protect(run) {
                // A page that it lost, or unmapped, is none of its own any more.
                Ok(()) | Err(Refused::Ended | Refused::Unregistered) => {}
                Err(refused) => tracing::warn!("a program keeps pages: {refused}"),
            }
        }
    }

    /// Gives frames back that nobody can store to.
    fn punch_run(&self, run: Run) {
        if let Err(refused) = self.frames.punch(run) {
            tracing::error!("frames could not be given back: {refused}");
        }
        // On Linux 6.1 a thread that touches a page while it is punched takes its mark away.
        self.protect(run, |client| !client.uffd.registers_present());
    }

    fn read_run(&self, run: Run) -> Option<Vec<PageBytes>> {
        let mut bytes = vec![0; run.len_bytes()];
        self.frames.read(run, &mut bytes).ok()?;
        Some(bytes.chunks(PAGE_LEN as usize).map(Box::from).collect())
    }
}

impl Place for HostPlace<'_> {
    type Bytes = PageBytes;

    fn page_count(&self) -> u64 {
        self.frames.page_count()
    }

    fn seat_count(&self) -> u16 {
        SEATS
    }

    fn home_of(&self, page: Page) -> usize {
        home_of(self.layout, self.home_of, page.0)
    }

    fn me(&self, page: Page) -> HostId {
        self.homes[self.home_of(page)].me
    }

    fn look(&self, page: Page) -> PageWord {
        self.words.look(page.0)
    }

    fn change<T>(&mut self, page: Page, rule: impl Fn(PageWord) -> Result<Change<T>, Corrupt>) -> Result<T, Corrupt> {
        let (changed, value) = self.words.change(page.0, rule)?;
        if changed.wakes {
            wake_all(self.words, page.0);
        }
        Ok(value)
    }

    fn forget(&mut self, page: Page) {
        self.words.forget(page.0);
        wake_all(self.words, page.0);
    }

    fn fault(&mut self, page: Page, seat: u16, access: Access) -> Result<Fault, Corrupt> {
        self.words.fault(page.0, seat, access)
    }

    fn clear_seat(&mut self, seat: u16) {
        self.words.clear_seat(seat);
    }

    fn end_seat(&mut self, seat: u16) -> Result<Option<Page>, Corrupt> {
        self.words.end_seat(seat).map(|claim| claim.map(Page))
    }

    fn number(&self, seat: u16) -> u32 {
        self.words.number(seat)
    }

    fn next_number(&mut self, seat: u16) -> u32 {
        self.words.next_number(seat)
    }

    fn is_clear(&self, page: Page) -> bool {
        self.words.is_clear(page.0)
    }

    fn fill(&mut self, page: Page, seat: u16, bytes: &PageBytes) -> bool {
        if let Err(refused) = self.frames.fill(Run::one(page.0), bytes) {
            tracing::error!("a page could not be kept: {refused}");
            return false;
        }
        // Counted before its program can know. The seat is what a word says, which clients can scribble over.
        if seat < SEATS {
            self.words.count(seat, seat::BROUGHT, 1);
        }
        true
    }

    fn read(&mut self, page: Page) -> Option<PageBytes> {
        match self.memory(page) {
            Some(memory) => memory.read_page(page.0).ok(),
            None => self.read_run(Run::one(page.0))?.pop(),
        }
    }

    fn punch(&mut self, page: Page) {
        self.punch_run(Run::one(page.0));
    }

    /// Of this node's own memory the bytes stay where they are.
    ///
    /// **Cost**: for all of the run one call that gives the frames back, and before that, where they may be stored to, one a client;
    /// each shoots translations of running threads down.
    fn take(&mut self, pages: Range<u64>, manner: Manner) -> Option<Vec<PageBytes>> {
        let Manner { home, keeps, wants_bytes } = manner;
        let run = Run { first: pages.start, count: pages.end - pages.start };
        if wants_bytes || keeps {
            self.protect(run, |_| true);
        }
        let Some(memory) = self.homes[home].memory.as_deref() else {
            let bytes = if wants_bytes { self.read_run(run) } else { None };
            if !keeps {
                self.punch_run(run);
            }
            return bytes;
        };
        let bytes = if wants_bytes { pages.map(|page| memory.read_page(page).ok()).collect() } else { None };
        if !keeps && let Err(error) = memory.unmap(run) {
            tracing::error!("pages could not be taken from programs: {error}");
        }
        bytes
    }

    fn on_taken(&mut self, why: &Why) {
        let counter = match why {
            Why::Invalidate { .. } => &mut self.counters.invalidated,
            Why::Forward { .. } => &mut self.counters.forwarded,
            Why::Recall { .. } => &mut self.counters.recalled,
            Why::Evict { .. } => &mut self.counters.evicted,
        };
        *counter += 1;
    }
}
