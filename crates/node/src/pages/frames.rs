//! The page words and frames of a region on this host, its clients' mappings, and the actions of the rules on them.

use super::memory::SharedMemory;
use hanare_home::{FileParts, FrameTerms, HostFrames, NODE_SLOTS, PageBytes, SLOTS};
use hanare_memory::Mapping;
use hanare_memory::file;
use hanare_memory::frames::{ClientFrames, Frames, Run};
use hanare_memory::uffd::Refused;
use hanare_protocol::id::{ClientId, Rights};
use hanare_protocol::limits::PAGE_LEN;
use hanare_protocol::page::host::{Manner, Why};
use hanare_protocol::page::word::{Change, Fault, PageWord};
use hanare_protocol::page::{Access, HostId, HostMemory, Page};
use hanare_protocol::placement::Layout;
use hanare_protocol::wire::control::{FilePart, PageStat};
use hanare_protocol::{Corrupt, Error, Result};
use hanare_ring::page_word::{LOSS_SLOT, PageWords, page_words_len, slot};
use hanare_ring::words::Shared;
use rustix::thread::futex;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};

/// Time that a new life of a node waits for threads that fill frames. Only a stopped thread takes longer.
const FILL_MAX: Duration = Duration::from_millis(100);

/// A coherent region's words, frames and homes.
pub(crate) struct NodeFrames {
    words: PageWords<Shared>,
    words_file: OwnedFd,
    /// Dropped after the words that lie in it.
    _words_memory: Mapping,
    frames: Frames,
    layout: Layout,
    /// For each extent of the layout, its home.
    home_of: Vec<usize>,
    homes: Vec<FrameHome>,
    mapped: Vec<(ClientId, ClientFrames)>,
    /// Mappings of clients that count as gone and are not.
    detached: Vec<ClientFrames>,
    counters: Counters,
}

/// A home of the region.
#[derive(Clone)]
struct FrameHome {
    /// The host's number there.
    me: HostId,
    /// Bytes that lie on this very node.
    own: Option<SharedMemory>,
}

/// Counts of a region's page actions on one host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counters {
    invalidated: u64,
    forwarded: u64,
    recalled: u64,
    evicted: u64,
}

impl NodeFrames {
    pub fn new(terms: FrameTerms<'_>) -> Result<NodeFrames> {
        let FrameTerms { name, layout, home_of, home_count, slots } = terms;
        let pages = layout.len().div_ceil(PAGE_LEN);
        let len = page_words_len(pages, slots).next_multiple_of(PAGE_LEN);
        let words_file = file::create(&format!("{name}.words"), len)?;
        let mut memory = Mapping::reserve(len)?;
        memory.map_file(0, words_file.as_fd(), FilePart { offset: 0, len, map_len: len }, Rights::Write)?;
        // SAFETY: the memory is dropped after the words (field order), and no copy of the window leaves them.
        let words = PageWords::new(Shared::new(unsafe { memory.window() }), pages, slots);
        let frames = Frames::new(&format!("{name}.frames"), pages)?;
        Ok(NodeFrames {
            words,
            words_file,
            _words_memory: memory,
            frames,
            layout: layout.clone(),
            home_of: home_of.to_vec(),
            homes: vec![FrameHome { me: HostId(0), own: None }; home_count],
            mapped: Vec::new(),
            detached: Vec::new(),
            counters: Counters::default(),
        })
    }

    /// Protects pages from the stores of all clients.
    fn protect_run(&self, run: Run) {
        for client in self.mapped.iter().map(|(_, frames)| frames).chain(&self.detached) {
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
    }

    fn read_run(&self, run: Run) -> Option<Vec<PageBytes>> {
        let mut bytes = vec![0; run.len_bytes()];
        self.frames.read(run, &mut bytes).ok()?;
        Some(bytes.chunks(PAGE_LEN as usize).map(Box::from).collect())
    }
}

/// Wakes all threads that are parked on a page's word.
fn wake_all(words: &PageWords<Shared>, page: u64) {
    let window = words.memory().window(words.at(page) * 8, 4);
    // SAFETY: a word of the memory that lives as long as this, at its boundary; it is touched by atomics only.
    let word = unsafe { AtomicU32::from_ptr(window.ptr().cast()) };
    let _ = futex::wake(word, futex::Flags::empty(), u32::MAX >> 1);
}

impl HostFrames for NodeFrames {
    type Home = SharedMemory;
    type Mapping = ClientFrames;
    type Files = Vec<OwnedFd>;

    fn set_home(&mut self, home: usize, me: HostId, own: Option<SharedMemory>) {
        self.homes[home] = FrameHome { me, own };
    }

    fn files(&self) -> Result<(FileParts, Vec<OwnedFd>)> {
        let (mut parts, mut fds) = (vec![None; self.home_of.len()], Vec::new());
        for fd in [self.words_file.as_fd(), self.frames.as_fd()] {
            let copy = rustix::io::fcntl_dupfd_cloexec(fd, 0);
            fds.push(copy.map_err(file::system("passing on a memory file"))?);
        }
        for own in self.homes.iter().filter_map(|home| home.own.as_ref()) {
            let (own_parts, mut own_fds) = own.0.files()?;
            parts = own_parts;
            fds.append(&mut own_fds);
        }
        Ok((parts, fds))
    }

    fn hold(&mut self, client: ClientId, frames: ClientFrames) -> Result<()> {
        let is_whole = frames.span.len == self.layout.len().next_multiple_of(PAGE_LEN);
        if !is_whole || frames.span.start.checked_add(frames.span.len).is_none() {
            let reason = "a mapping of another length than the region's".to_owned();
            return Err(Error::Garbage { peer: "a program of this host".to_owned(), reason });
        }
        self.mapped.push((client, frames));
        Ok(())
    }

    fn part(&mut self, client: ClientId) {
        self.mapped.retain(|(of, _)| *of != client);
    }

    fn part_all(&mut self) {
        self.detached = self.mapped.drain(..).map(|(_, frames)| frames).collect();
    }

    fn stuck(&mut self) -> Vec<ClientId> {
        self.detached.retain(|frames| !frames.uffd.is_stuck());
        self.mapped.iter().filter(|(_, frames)| frames.uffd.is_stuck()).map(|(client, _)| *client).collect()
    }

    fn let_fills_end(&self, pages: &[Page]) {
        let until = Instant::now() + FILL_MAX;
        for page in pages {
            while self.words.look(page.0).is_being_filled() && Instant::now() < until {
                std::thread::yield_now();
            }
        }
    }

    fn present_count(&self) -> u64 {
        self.frames.present_count().unwrap_or(0)
    }

    fn tell_loss(&self) {
        self.words.count(LOSS_SLOT, slot::LOST, 1);
    }

    fn add_counts(&self, stat: &mut PageStat) {
        let counted = |which| self.words.counted(NODE_SLOTS..SLOTS, which);
        let Counters { invalidated, forwarded, recalled, evicted } = self.counters;
        (stat.faults, stat.fetched) = (counted(slot::FAULTS), counted(slot::FETCHED));
        (stat.prefetched, stat.upgraded) = (counted(slot::PREFETCHED), counted(slot::UPGRADED));
        (stat.waited, stat.invalidated, stat.forwarded) = (counted(slot::WAITED), invalidated, forwarded);
        (stat.recalled, stat.evicted) = (recalled, evicted);
    }
}

impl HostMemory for NodeFrames {
    type Bytes = PageBytes;

    fn page_count(&self) -> u64 {
        self.frames.page_count()
    }

    fn slot_count(&self) -> u16 {
        SLOTS
    }

    fn home_of(&self, page: Page) -> usize {
        self.home_of[self.layout.pieces(page.0 * PAGE_LEN, 1).next().expect("pages are checked before").extent]
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
            wake_all(&self.words, page.0);
        }
        Ok(value)
    }

    fn forget(&mut self, page: Page) {
        self.words.forget(page.0);
        wake_all(&self.words, page.0);
    }

    fn fault(&mut self, page: Page, slot: u16, access: Access) -> Result<Fault, Corrupt> {
        self.words.fault(page.0, slot, access)
    }

    fn clear_slot(&mut self, slot: u16) {
        self.words.clear_slot(slot);
    }

    fn claim(&self, slot: u16) -> Result<Option<Page>, Corrupt> {
        self.words.claim(slot).map(|claim| claim.map(Page))
    }

    fn end_slot(&mut self, slot: u16) -> Result<Option<Page>, Corrupt> {
        self.words.end_slot(slot).map(|claim| claim.map(Page))
    }

    fn number(&self, slot: u16) -> u32 {
        self.words.number(slot)
    }

    fn next_number(&mut self, slot: u16, last: u32) -> Option<u32> {
        self.words.next_number(slot, last)
    }

    fn is_clear(&self, page: Page) -> bool {
        self.words.is_clear(page.0)
    }

    fn fill(&mut self, page: Page, slot: u16, bytes: &PageBytes) -> bool {
        if let Err(refused) = self.frames.fill(Run::one(page.0), bytes) {
            tracing::error!("a page could not be kept: {refused}");
            return false;
        }
        // Counted before its program can know. The slot is what a word says, which clients can scribble over.
        if slot < SLOTS {
            self.words.count(slot, slot::BROUGHT, 1);
        }
        true
    }

    fn read(&mut self, page: Page) -> Option<PageBytes> {
        match &self.homes[self.home_of(page)].own {
            Some(own) => own.0.read_page(page.0).ok(),
            None => self.read_run(Run::one(page.0))?.pop(),
        }
    }

    fn protect(&mut self, pages: Range<u64>) {
        self.protect_run(Run { first: pages.start, count: pages.end - pages.start });
    }

    fn punch(&mut self, page: Page) {
        self.punch_run(Run::one(page.0));
    }

    /// Bytes of this node's own memory stay in place.
    ///
    /// **Cost**: one call for the run to give back frames; before it one for each client that may store. Each call shoots down
    /// translations of running threads.
    fn take(&mut self, pages: Range<u64>, manner: Manner) -> Option<Vec<PageBytes>> {
        let Manner { home, keeps, wants_bytes } = manner;
        let run = Run { first: pages.start, count: pages.end - pages.start };
        if wants_bytes || keeps {
            self.protect_run(run);
        }
        let Some(SharedMemory(memory)) = &self.homes[home].own else {
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
            Why::Flush { .. } => return,
        };
        *counter += 1;
    }
}
