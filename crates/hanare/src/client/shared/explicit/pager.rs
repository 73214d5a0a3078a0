//! The pages of one mapping: what a fault, a flush, an update (in `update`) and an eviction do to them. Their steps and the order of those
//! are the rules of `hanare_protocol::page::own_page`.
//!
//! | step | here |
//! |---|---|
//! | fetch | make room; fetch the page and those behind it, fill, map the others protected |
//! | open | read the frame into the twin |
//! | close | protect |
//! | send | read, send what differs from the twin, forget the twin: the next store makes another |
//! | drop | punch |
//! | (update of a clean page that has changed) | drop: it is fetched at the next touch |
//! | (update of a dirty page that has changed) | close, read, take the home's bytes, put the changed ones back, twin := the home's bytes |
//!
//! Stores of other threads meanwhile fault on the protected page, find it held, and wait: none is lost, none is sent half. Linux 6.1 does
//! not register present pages. There the mark of registering, or of a later protection, protects a page before it is filled. Punched
//! pages are marked again, because a thread that touched a punched page may have taken the mark away.
//!
//! [`Pager::resolve`] is async-signal-safe.
//!
//! Safety invariants of this module:
//! 1. The twin of a page is used by the thread that holds the page, one reference at a time.
//! 2. Code in the handler allocates nothing, takes no lock of anybody, and touches no watched memory: atomics, system calls, and the room
//!    of a context.

use super::answer::Why;
use super::digests::Digests;
use super::homes::{Failed, Homes};
use super::slots::Slots;
use super::twins::Twins;
use crate::client::attachment::{PageCounters, count};
use crate::client::shared::fault_contexts::{FaultContexts, LANE_PAGE_COUNT, Lists, Renewals, Tools};
use crate::client::shared::not_given;
use crate::client::shared::report::Line;
use crate::trace::{Faults, Means, Seen};
use hanare_memory::diff::PAGE;
use hanare_memory::fault::{Resolve, Resolved};
use hanare_memory::frames::{Frames, Run, runs_of};
use hanare_memory::uffd::{Refused, Span, Uffd};
use hanare_protocol::limits::PAGE_LEN;
use hanare_protocol::page::own_page::{Aim, Event, PageStep, State, next_step};
use hanare_protocol::page::{Access, Streams};
use hanare_protocol::{Error, Result};
use hanare_ring::own_page::OwnPages;
use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU32};
use std::time::Instant;

/// Pages given back at once: one shoot-down and few calls for all of them.
const EVICT_COUNT: usize = 32;

/// Most pages between two that are protected by one call: as many cost as much as another call.
const NEAR_COUNT: u64 = 16;

/// The runs of `pages`, which ascend; those with at most `gap` pages between them are one.
fn near_runs(pages: &[u64], gap: u64) -> impl Iterator<Item = Run> + '_ {
    let is_near = move |one: &u64, next: &u64| next - one <= gap + 1;
    pages.chunk_by(is_near).map(|those| Run { first: those[0], count: those[those.len() - 1] - those[0] + 1 })
}

/// Room for numbers of pages.
pub(super) type PageList = [u64; LANE_PAGE_COUNT];

/// Everything that the faults of a mapping need.
pub(super) struct Pager {
    /// The region's name, for messages.
    pub name: Box<str>,
    pub len: u64,
    pub page_count: u64,
    /// Pages that lie in frames: all but those that are mapped as they are.
    pub framed_count: u64,
    /// For each extent whether its whole pages are mapped as they are; `None` where none are.
    pub direct: Option<Box<[bool]>>,
    pub homes: Arc<Homes>,
    pub span: Span,
    pub uffd: Uffd,
    pub frames: Frames,
    pub twins: Twins,
    pub digests: Digests,
    pub words: OwnPages,
    pub slots: Slots,
    pub streams: Streams,
    pub lanes: FaultContexts,
    pub counters: PageCounters,
    /// Pages with stores that were not sent never make room for others: the stores must not be seen before a release.
    pub keeps_dirty: bool,
    /// Neither do they while stores are on their way home with a message.
    pub has_sent: AtomicBool,
    /// A flush counts whole where the bytes had copies when they were mapped. So no page with stores leaves before it.
    pub is_whole: bool,
    /// Lines that were written about lost pages.
    pub lines: AtomicU32,
    /// Ring for the timeline.
    pub faults: Option<Faults>,
}

/// Why pages could not be brought or sent.
#[derive(Clone, Copy, Debug)]
pub(super) enum Trouble {
    Home(Failed),
    Kernel(Refused),
}

impl From<Refused> for Trouble {
    fn from(refused: Refused) -> Trouble {
        Trouble::Kernel(refused)
    }
}

impl From<Failed> for Trouble {
    fn from(failed: Failed) -> Trouble {
        Trouble::Home(failed)
    }
}

// SAFETY: invariant 2.
unsafe impl Resolve for Pager {
    fn resolve(&self, page: u64, access: Access) -> Resolved {
        if page >= self.page_count || self.is_direct(page) {
            return Resolved::Lost;
        }
        count(&self.counters.faults, 1);
        let begin = self.faults.as_ref().map(|_| Instant::now());
        let mut seen = Seen::default();
        let served = self.serve(page, access, &mut seen);
        if let (Some(faults), Some(begin)) = (&self.faults, begin) {
            faults.note(begin, page, access, seen, served.is_err());
        }
        match served {
            Ok(()) => Resolved::Again,
            Err(trouble) => self.lose(page, trouble),
        }
    }
}

impl Pager {
    /// True if a page lies whole, and on a page's boundary, in an extent that is mapped as it is.
    pub fn is_direct(&self, page: u64) -> bool {
        self.direct_run(page).is_some()
    }

    /// If a page is direct, how many are from it on that lie in the same piece.
    fn direct_run(&self, page: u64) -> Option<u64> {
        let direct = self.direct.as_ref()?;
        let piece = self.homes.piece_at(page)?;
        let whole = PAGE_LEN.min(self.len - page * PAGE_LEN);
        let is_direct = piece.len >= whole && piece.offset.is_multiple_of(PAGE_LEN) && direct[piece.extent];
        is_direct.then(|| (piece.len / PAGE_LEN).max(1))
    }

    /// The first page from `page` on that lies in a frame.
    fn next_framed(&self, mut page: u64) -> u64 {
        while page < self.page_count
            && let Some(run) = self.direct_run(page)
        {
            page += run;
        }
        page
    }

    /// Brings a page that is not direct, and maps it for that access. Async-signal-safe.
    pub fn serve(&self, page: u64, access: Access, seen: &mut Seen) -> Result<(), Trouble> {
        self.serve_until(page, access, page + 1, seen)
    }

    /// [`Pager::serve`] with more pages: an absent page comes with those behind it, up to `end` if no stream of faults asks for more.
    pub fn serve_until(&self, page: u64, access: Access, end: u64, seen: &mut Seen) -> Result<(), Trouble> {
        let state = self.words.try_hold(page).unwrap_or_else(|| {
            seen.by(Means::Waited);
            self.words.hold(page)
        });
        self.words.touch(page);
        let done = self.serve_held(page, state, access, end, seen);
        self.words.release(page);
        done
    }

    /// Takes the steps of a touch. Held: the page, which `was` in that state.
    fn serve_held(&self, page: u64, was: State, access: Access, end: u64, seen: &mut Seen) -> Result<(), Trouble> {
        let place = self.span.pages(page, 1);
        loop {
            match next_step(Aim::Touch(access), self.words.look(page)) {
                PageStep::Fetch => self.bring(page, end, seen)?,
                PageStep::Open => {
                    seen.by(Means::Twinned);
                    self.make_twin(page)?;
                }
                // A mapped page, the usual case, needs no more; for an absent one the store faults once more.
                PageStep::Map(Access::Write) if was == State::Clean => return Ok(self.uffd.unprotect(place)?),
                PageStep::Map(access) => return Ok(self.uffd.install(place, access)?),
                PageStep::Close | PageStep::Send | PageStep::Drop | PageStep::Release => unreachable!("no step of a touch"),
            }
        }
    }

    /// True if a touch of a page needs only this host, now.
    pub fn is_here(&self, page: u64) -> bool {
        matches!(self.words.look(page), State::Clean | State::Dirty) || self.is_direct(page)
    }

    /// Held: the page, clean.
    fn make_twin(&self, page: u64) -> Result<(), Refused> {
        // SAFETY: the caller holds the page; the reference ends here (invariant 1).
        self.frames.read(Run::one(page), unsafe { self.twins.make(page) })?;
        count(&self.counters.twins, 1);
        self.words.step(page, Event::Open);
        Ok(())
    }

    /// Fetches an absent page, and those behind it up to `end` or as a stream runs. Held: the page.
    fn bring(&self, page: u64, end: u64, seen: &mut Seen) -> Result<(), Trouble> {
        let mut lane = self.lanes.take();
        let (tools, Lists { window: pages, victims, dirty }) = lane.parts();
        let stream = self.streams.find(page, 0);
        // A stream never drives more than a part of the frames out.
        let window = ((1 + stream.ahead).max(end - page) as usize).min(LANE_PAGE_COUNT).min(1 + self.slots.limit() as usize / 8);
        self.make_room(tools, victims, dirty, window);
        // A fault never fails for want of a victim: without one there is a frame more than the limit.
        let is_counted = self.slots.admit(page);
        pages[0] = page;
        let mut len = 1;
        let mut next = self.next_framed(page + 1);
        while is_counted && len < window && next < self.page_count && self.claim_ahead(next) {
            pages[len] = next;
            len += 1;
            next = self.next_framed(next + 1);
        }
        let mut fetched = self.fetch(tools, &pages[..len]);
        // A reset of one connection is not the end of a home. Bytes with copies outlive their home, and others may have moved.
        let mut renewals = Renewals::default();
        while let Err(Trouble::Home(Failed { home, why })) = fetched
            && tools.renew_again(&mut renewals, home, why.broken())
        {
            fetched = self.fetch(tools, &pages[..len]);
        }
        if fetched.is_err() {
            // Pages behind may lie on another home, which is the one that fails; or memory is short.
            self.disclaim(&pages[1..len]);
            let may_help = len > 1 || matches!(fetched, Err(Trouble::Kernel(_))) && self.evict(tools, victims, dirty) > 0;
            len = 1;
            if may_help {
                fetched = self.fetch(tools, &pages[..1]);
            }
        }
        if fetched.is_err() {
            self.slots.remove(page);
            return fetched;
        }
        self.streams.go_on(stream, page, next, None);
        let ahead = &pages[1..len];
        seen.by(Means::Fetched);
        seen.ahead = ahead.len() as u16;
        let mapped = self.map_ahead(ahead);
        ahead.iter().for_each(|page| self.words.release(*page));
        count(&self.counters.prefetched, ahead.len() as u64);
        Ok(mapped?)
    }

    /// Maps pages that were fetched ahead, for reading, in as few calls as there are runs. Held: the pages.
    pub(super) fn map_ahead(&self, pages: &[u64]) -> Result<(), Refused> {
        runs_of(pages).try_for_each(|run| self.uffd.install(self.span.pages(run.first, run.count), Access::Read))
    }

    /// Holds an absent page that is to be fetched ahead, with a slot; says whether it could.
    fn claim_ahead(&self, page: u64) -> bool {
        match self.words.try_hold(page) {
            None => false,
            Some(State::Absent) if self.slots.admit(page) => true,
            Some(_) => {
                self.words.release(page);
                false
            }
        }
    }

    /// Lets pages go that were held to be fetched ahead, and were not.
    fn disclaim(&self, pages: &[u64]) {
        for page in pages {
            self.slots.remove(*page);
            self.words.release(*page);
        }
    }

    /// Brings the bytes of absent pages to their frames. Held: the pages; on an error they stay absent.
    fn fetch(&self, tools: &mut Tools, pages: &[u64]) -> Result<(), Trouble> {
        let mut filled = Ok(());
        let fetched = self.homes.fetch(tools, pages, |which, bytes| {
            let mut rest = bytes;
            for run in runs_of(&pages[which]) {
                let (bytes, behind) = rest.split_at(run.len_bytes());
                rest = behind;
                if filled.is_ok() {
                    filled = self.frames.fill(run, bytes);
                    (run.first..).zip(bytes.as_chunks::<PAGE>().0).for_each(|(page, bytes)| self.digests.come(page, bytes));
                }
            }
        });
        let done = fetched.map_err(Trouble::Home).and_then(|()| filled.map_err(Trouble::from));
        if done.is_err() {
            // Some may be filled already, and a frame without a state for it must not be there.
            runs_of(pages).try_for_each(|run| self.punch(run))?;
            return done;
        }
        pages.iter().for_each(|page| self.words.step(*page, Event::Fill));
        count(&self.counters.fetches, pages.len() as u64);
        Ok(())
    }

    /// Gives frames back. Held: their pages, protected where they were dirty.
    pub(super) fn punch(&self, run: Run) -> Result<(), Refused> {
        self.frames.punch(run)?;
        if self.uffd.registers_present() { Ok(()) } else { self.uffd.protect(self.span.pages(run.first, run.count)) }
    }

    /// Sees to it that so many pages can be admitted, as far as that is possible. The caller holds one page at most that has
    /// no frame yet.
    ///
    /// Pages that have no frame are all that can be admitted: at the end of a region whose frames all fit nothing is given back.
    fn make_room(&self, tools: &mut Tools, victims: &mut PageList, dirty: &mut PageList, wanted: usize) {
        let is_short = || self.slots.free_count() < (wanted as u64).min(self.framed_count - self.slots.taken_count());
        while is_short() && self.evict(tools, victims, dirty) > 0 {}
    }

    /// Gives a batch of frames back, those of pages that were not touched lately; returns how many.
    fn evict(&self, tools: &mut Tools, victims: &mut PageList, dirty: &mut PageList) -> u64 {
        let mut found = 0;
        let most = EVICT_COUNT.min(1 + self.slots.limit() as usize / 8);
        for _ in 0..self.slots.two_rounds() {
            if found == most {
                break;
            }
            let Some(page) = self.slots.turn() else { continue };
            if self.words.take_touch(page) {
                continue;
            }
            match self.words.try_hold(page) {
                Some(State::Dirty) if self.keeps_dirty || self.is_whole || self.has_sent.load(SeqCst) => self.words.release(page),
                Some(State::Clean | State::Dirty) => {
                    victims[found] = page;
                    found += 1;
                }
                Some(_) => self.words.release(page),
                None => {}
            }
        }
        let victims = &mut victims[..found];
        victims.sort_unstable();
        // Pages that are not home stay: their home is lost, and these are the last copies.
        let _ = self.settle_few::<{ EVICT_COUNT.div_ceil(64) }>(tools, victims, dirty, None);
        let mut gone = 0;
        self.by_state(victims, |run, state| match next_step(Aim::Evict, state) {
            PageStep::Drop => gone += self.drop_run(run),
            _ => self.release(run),
        });
        count(&self.counters.evictions, gone);
        gone
    }

    /// Tells runs of held pages, ascending, of the same state. Each state is read once, before the page is told of.
    pub(super) fn by_state(&self, pages: &[u64], mut act: impl FnMut(Run, State)) {
        let mut last: Option<(Run, State)> = None;
        for &page in pages {
            let state = self.words.look(page);
            if let Some((run, of)) = &mut last
                && *of == state
                && run.first + run.count == page
            {
                run.count += 1;
                continue;
            }
            if let Some((run, of)) = last.replace((Run::one(page), state)) {
                act(run, of);
            }
        }
        if let Some((run, of)) = last {
            act(run, of);
        }
    }

    pub(super) fn release(&self, run: Run) {
        (run.first..run.first + run.count).for_each(|page| self.words.release(page));
    }

    /// Gives a run of clean held pages back, and lets them go; returns how many were given back.
    pub(super) fn drop_run(&self, run: Run) -> u64 {
        let is_punched = self.punch(run).is_ok();
        self.twins.forget(run);
        for page in run.first..run.first + run.count {
            if is_punched {
                self.words.step(page, Event::Drop);
                self.slots.remove(page);
            }
            self.words.release(page);
        }
        if is_punched { run.count } else { 0 }
    }

    /// From here on no store is under way in these pages. Those between near ones are protected, too: a store there faults once more. Held: the
    /// pages, dirty and ascending.
    pub(super) fn close(&self, pages: &[u64]) -> Result<(), Refused> {
        let protect = |run: Run| self.uffd.protect(self.span.pages(run.first, run.count));
        let gap = if self.direct.is_none() { NEAR_COUNT } else { 0 };
        match near_runs(pages, gap).try_for_each(protect) {
            // A page between them is lost for good, and its place is another mapping.
            Err(Refused::Unregistered) if gap > 0 => runs_of(pages).try_for_each(protect)?,
            protected => protected?,
        }
        pages.iter().for_each(|page| self.words.step(*page, Event::Close));
        Ok(())
    }

    /// Holds those of ascending pages that are in a wanted state, as many as there is room for. Waits for the first of them alone. Returns how many,
    /// and the page from which on nothing was looked at: `end` at the end of the list.
    pub(super) fn hold_some(
        &self,
        those: impl Iterator<Item = u64>,
        end: u64,
        is_wanted: impl Fn(State) -> bool,
        pages: &mut [u64],
    ) -> (usize, u64) {
        let mut len = 0;
        for page in those.filter(|page| is_wanted(self.words.look(*page))) {
            if len == pages.len() || len > 0 && self.words.try_hold(page).is_none() {
                return (len, page);
            }
            if len == 0 {
                self.words.hold(page);
            }
            pages[len] = page;
            len += 1;
        }
        (len, end)
    }

    /// Trouble with one page as an error, without a reason that a node gave. Not for a signal handler.
    pub fn page_error(&self, page: u64, trouble: Trouble) -> Error {
        match trouble {
            Trouble::Home(Failed { home, why: Why::Broken(why) }) => why.error(self.homes.node(home)),
            Trouble::Home(_) => self.lost(page),
            Trouble::Kernel(refused) => refused.into(),
        }
    }

    /// Trouble as an error. Not for a signal handler.
    pub(super) fn error(&self, trouble: Trouble, reason: &[u8]) -> Error {
        match trouble {
            Trouble::Home(failed) => self.homes.error(failed, reason),
            Trouble::Kernel(refused) => refused.into(),
        }
    }

    /// The error for a page that a guarded copy lost.
    pub fn lost(&self, page: u64) -> Error {
        let piece = self.homes.pieces(page).next().expect("a page of the region");
        let node = self.homes.node_of(piece.extent);
        if self.is_direct(page) {
            return Error::RegionLost { region: self.name.to_string(), node };
        }
        not_given(node, &self.name, page * PAGE_LEN, "it could not be fetched")
    }

    /// A page cannot be supplied: one line says so, where nothing else may be called.
    #[cold]
    fn lose(&self, page: u64, trouble: Trouble) -> Resolved {
        /// A guarded copy over many lost pages reports them all at once, and not here.
        const LINE_COUNT_MAX: u32 = 8;
        if self.lines.fetch_add(1, Relaxed) < LINE_COUNT_MAX {
            let mut line = Line::new();
            let _ = self.describe(&mut line, page, trouble);
            line.print();
        }
        Resolved::Lost
    }

    fn describe(&self, line: &mut Line, page: u64, trouble: Trouble) -> std::fmt::Result {
        let (name, offset) = (&self.name, page * PAGE_LEN);
        write!(line, "hanare: region '{name}': the page at offset {offset} cannot be brought: ")?;
        match trouble {
            Trouble::Home(Failed { home, why }) => {
                let why = match why {
                    Why::Broken(why) => why.words(),
                    Why::Refused(_) => "it refused; the region was removed, or the node began anew",
                };
                let node = self.homes.node(home);
                write!(line, "{node}: {why}; see `hanare status`, and open the region again when the node is back")
            }
            Trouble::Kernel(refused) => write!(line, "{refused}; lower HANARE_FRAMES if memory is short"),
        }
    }
}
