//! The page words and frames of a region, and what is done to one page.

use super::*;
use std::time::{Duration, Instant};

/// How long a node that begins anew waits for threads that fill frames: longer than any that is not stopped takes.
pub(super) const FILL_MAX: Duration = Duration::from_millis(100);

/// What became of a page that came to the node.
pub(super) enum Filled {
    Here,
    /// This machine has no memory for it.
    NoRoom,
    /// Its claim is not open any more, or its thread fills the frame itself.
    NotOurs,
}

impl Pages {
    pub(super) fn new(name: &str, pages: u64, frames_max: u64) -> Result<Pages> {
        let len = page_words_len(pages, SEATS).next_multiple_of(PAGE_LEN);
        let words_file = file::create(&format!("{name}.words"), len)?;
        let mut memory = Mapping::reserve(len)?;
        memory.map_file(0, words_file.as_fd(), FilePart { offset: 0, len, map_len: len }, Rights::Write)?;
        // SAFETY: the memory is dropped after the words (field order), and no copy of the window leaves them.
        let words = PageWords::new(Shared::new(unsafe { memory.window() }), pages, SEATS);
        let frames = Frames::new(&format!("{name}.frames"), pages)?;
        Ok(Pages {
            words,
            words_file,
            _words_memory: memory,
            frames,
            frames_max,
            hand: 0,
            takes: BTreeMap::new(),
            filling: BTreeSet::new(),
            waiting: BTreeMap::new(),
            collecting: BTreeMap::new(),
            ghosts: BTreeSet::new(),
            counters: Counters::default(),
        })
    }

    pub(super) fn count(&self) -> u64 {
        self.frames.page_count()
    }

    /// Whether what is said about a page waits: it is being taken, or filled.
    pub(super) fn is_held(&self, page: u64) -> bool {
        self.takes.contains_key(&page) || self.filling.contains(&page)
    }

    /// Pages that ever were here.
    pub(super) fn used(&self) -> Vec<u64> {
        (0..self.count()).filter(|page| self.words.look(*page) != Word::NEVER).collect()
    }

    /// What was said about pages is void, and nobody waits for them to be taken.
    pub(super) fn forget_messages(&mut self, is_meant: impl Fn(u64) -> bool) {
        self.takes.retain(|page, _| !is_meant(*page));
        self.filling.retain(|page| !is_meant(*page));
        self.waiting.retain(|page, _| !is_meant(*page));
        self.collecting.retain(|page, _| !is_meant(*page));
    }

    /// Seats of the dead whose claims were granted, or failed, may be given out again.
    pub(super) fn settle_ghosts(&mut self) {
        let claimed: BTreeSet<u16> = match self.ghosts.is_empty() {
            true => return,
            false => (0..self.count()).map(|page| self.words.look(page)).filter(|w| w.is_claimed()).map(Word::claimer).collect(),
        };
        self.ghosts.retain(|seat| claimed.contains(seat));
    }

    /// What is said about a page that a thread is filling counts as not yet arrived.
    pub(super) fn wait_for_fill(&mut self, page: u64, said: (usize, ToHost, Option<PageBytes>)) {
        self.filling.insert(page);
        self.waiting.entry(page).or_default().push_front(said);
    }

    /// Puts a page that its claimer waits for into the frames, where its grant is good, and says so in its word.
    pub(super) fn fill(
        &mut self,
        page: u64,
        seat: u16,
        (version, access): (Version, Access),
        bytes: &[u8],
    ) -> Result<Filled, Corrupt> {
        match self.words.fill(page, seat, version, access)? {
            Fill::Go => {}
            Fill::Has => return self.grant(page, seat, (version, access)),
            Fill::Void | Fill::Gone => return Ok(Filled::NotOurs),
        }
        if let Err(refused) = self.frames.fill(Run::one(page), bytes) {
            tracing::error!("a page could not be kept: {refused}");
            let changed = self.words.fail_fill(page, seat)?;
            self.collecting.remove(&page);
            self.wake(page, changed);
            return Ok(Filled::NoRoom);
        }
        self.count_brought(seat);
        let filled = self.words.filled(page, seat, version)?;
        Ok(self.came(page, filled))
    }

    /// As [`Pages::fill`] for a grant whose bytes are here.
    pub(super) fn grant(&mut self, page: u64, seat: u16, (version, access): (Version, Access)) -> Result<Filled, Corrupt> {
        let granted = self.words.grant(page, seat, version, access)?;
        Ok(self.came(page, granted))
    }

    fn came(&self, page: u64, granted: Granted) -> Filled {
        match granted {
            Granted::Here(changed) => {
                self.wake(page, changed);
                Filled::Here
            }
            Granted::Void | Granted::Gone => Filled::NotOurs,
        }
    }

    /// Gives frames back that nobody can store to.
    fn punch(&self, run: Run, clients: &[&ClientFrames]) {
        if let Err(refused) = self.frames.punch(run) {
            tracing::error!("frames could not be given back: {refused}");
        }
        // On Linux 6.1 a thread that touches a page while it is punched takes its mark away.
        protect(run, clients, |client| !client.uffd.registers_present());
    }

    /// What a dead thread was putting into a frame is a hole again; its claim stays.
    pub(super) fn undo_fill(&self, page: u64, seat: u16, clients: &[&ClientFrames]) -> Result<(), Corrupt> {
        if !self.words.look(page).is_being_filled() {
            return Ok(());
        }
        self.punch(Run::one(page), clients);
        self.words.unfill(page, seat)
    }

    /// Lets a thread that puts bytes into a frame come to its end: nothing of it may be there later.
    pub(super) fn let_fill_end(&self, page: u64, until: Instant) {
        while self.words.look(page).is_being_filled() && Instant::now() < until {
            std::thread::yield_now();
        }
    }

    /// Counts a page that came here for a seat, before its program can know. The seat is what a word says, which clients can
    /// scribble over.
    fn count_brought(&self, seat: u16) {
        if seat < SEATS {
            self.words.count(seat, seat::BROUGHT, 1);
        }
    }

    pub(super) fn read(&self, page: u64) -> Option<PageBytes> {
        self.read_run(Run::one(page))?.pop()
    }

    fn read_run(&self, run: Run) -> Option<Vec<PageBytes>> {
        let mut bytes = vec![0; run.len_bytes()];
        self.frames.read(run, &mut bytes).ok()?;
        Some(bytes.chunks(PAGE_LEN as usize).map(Box::from).collect())
    }

    /// Takes pages from all programs; of this node's own memory their bytes stay where they are. Where no bytes are wanted they are
    /// copies, which nobody can store to.
    ///
    /// **Cost**: for all of the run one call that gives the frames back, and before that, where they may be stored to, one a client;
    /// each shoots translations of running threads down.
    pub(super) fn take(
        &mut self,
        run: Run,
        memory: Option<&HomeMemory>,
        clients: &[&ClientFrames],
        wants_bytes: bool,
        stays: Stays,
    ) -> Option<Vec<PageBytes>> {
        if wants_bytes || stays == Stays::Copy {
            protect(run, clients, |_| true);
        }
        let Some(memory) = memory else {
            let bytes = if wants_bytes { self.read_run(run) } else { None };
            if stays == Stays::Nothing {
                self.punch(run, clients);
            }
            return bytes;
        };
        let all = run.first..run.first + run.count;
        let bytes = if wants_bytes { all.map(|page| memory.read_page(page).ok()).collect() } else { None };
        if stays == Stays::Nothing
            && let Err(error) = memory.unmap(run)
        {
            tracing::error!("pages could not be taken from programs: {error}");
        }
        bytes
    }

    /// Nobody fetches the page any more; who waited looks again. Where its thread has given up by itself, or has an answer, nothing is
    /// to be done.
    pub(super) fn fail(&mut self, page: u64, seat: u16) -> Result<(), Corrupt> {
        if seat >= SEATS {
            return Err(Corrupt("a page claimed by a seat that there is not"));
        }
        if let Some(changed) = self.words.fail(page, seat)? {
            self.collecting.remove(&page);
            self.wake(page, changed);
        }
        Ok(())
    }

    pub(super) fn wake(&self, page: u64, changed: Changed) {
        if changed.wakes {
            self.wake_all(page);
        }
    }

    pub(super) fn wake_all(&self, page: u64) {
        let window = self.words.memory().window(self.words.at(page) * 8, 4);
        // SAFETY: a word of the memory that lives as long as this, at its boundary; it is touched by atomics only.
        let word = unsafe { AtomicU32::from_ptr(window.ptr().cast()) };
        let _ = futex::wake(word, futex::Flags::empty(), u32::MAX >> 1);
    }
}

/// Protects pages from the stores of those clients; where nothing is mapped a mark is left.
fn protect(run: Run, clients: &[&ClientFrames], which: impl Fn(&ClientFrames) -> bool) {
    for client in clients.iter().filter(|client| which(client)) {
        match client.protect(run) {
            // A page that it lost, or unmapped, is none of its own any more.
            Ok(()) | Err(Refused::Ended | Refused::Unregistered) => {}
            Err(refused) => tracing::warn!("a program keeps pages: {refused}"),
        }
    }
}
