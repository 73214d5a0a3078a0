//! Stores that go home, and pages that come, with messages to their home that are sent anyway.
//!
//! | what | steps, with the pages held |
//! |---|---|
//! | send | protect, read, note what differs from the twin; the pages stay dirty while it is under way |
//! | it has arrived | protect, put the bytes that were sent into the twin; a page that is as its twin is clean |
//! | want | learn the digest of each page that is here; note how many turns each page has taken |
//! | take an absent page | fill, map |
//! | take a clean page, a dirty one | fill; as an update merges |
//!
//! No page is held while an answer is awaited: it may come after all other parties have arrived, or by a thread that faults meanwhile.
//! So what was sent is listed, and who sends or brings bytes otherwise asks the home first whether it has arrived ([`Explicit::at_rest`]).
//! A page that took a turn since it was wanted is left to an update.
//!
//! Safety: as in `pager`, invariant 1.

use super::Explicit;
use super::bound::{page_runs, without};
use super::digests::KnownDigest;
use super::pager::Pager;
use crate::client::attachment::{BroughtPage, CarriedMemory, PageWish, SendStores, Spans, Stored, count};
use crate::client::remote::{PostedSync, Remote};
use crate::client::shared::fault_contexts::LANE_PAGE_COUNT;
use hanare_memory::diff::PAGE;
use hanare_memory::fault;
use hanare_memory::frames::{Run, runs_of};
use hanare_memory::uffd::Refused;
use hanare_protocol::id::NodeId;
use hanare_protocol::limits::PAGE_LEN;
use hanare_protocol::page::own_page::{Event, State};
use hanare_protocol::wire::carried::{ExtentAddress, WantedPages};
use hanare_protocol::{Error, Result};
use std::ops::Range;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Stores that are on their way home.
struct SentStores {
    number: u64,
    home: Arc<Remote>,
    connection: Option<u128>,
    /// The request that has them.
    seq: u64,
    stored: Stored,
}

/// The stores of a mapping that are on their way home.
#[derive(Default)]
pub(super) struct StoresUnderWay {
    sent: RwLock<Vec<SentStores>>,
    last: AtomicU64,
}

impl StoresUnderWay {
    fn read(&self) -> RwLockReadGuard<'_, Vec<SentStores>> {
        self.sent.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Vec<SentStores>> {
        self.sent.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A guard. While it is held no stores of a mapping are on their way home.
pub(super) struct AtRest<'a>(#[expect(dead_code, reason = "it is held")] RwLockReadGuard<'a, Vec<SentStores>>);

/// Stores of one page, as they were sent.
type PageStores<'a> = (u64, &'a [Range<u64>], &'a [u8]);

/// A page that comes: where its turn stands, and its bytes.
type ComingPage<'a> = ((u64, u64), BroughtPage<'a>);

/// Pages that came, ascending; the last of a region is filled up with zeros.
struct Pages {
    numbers: Vec<u64>,
    bytes: Vec<u8>,
}

impl Pages {
    const fn new() -> Pages {
        Pages { numbers: Vec::new(), bytes: Vec::new() }
    }

    fn add(&mut self, page: u64, bytes: &[u8]) {
        self.numbers.push(page);
        self.bytes.extend_from_slice(bytes);
        self.bytes.resize(self.numbers.len() * PAGE, 0);
    }

    fn runs(&self) -> impl Iterator<Item = (Run, &[u8])> {
        let mut rest = &self.bytes[..];
        runs_of(&self.numbers).map(move |run| {
            let (bytes, behind) = rest.split_at(run.len_bytes());
            rest = behind;
            (run, bytes)
        })
    }
}

/// The stores page by page.
fn by_page(stored: &Stored) -> impl Iterator<Item = PageStores<'_>> {
    let mut rest = stored.bytes.as_deref().unwrap_or_default();
    stored.ranges.chunk_by(|one, next| one.start / PAGE_LEN == next.start / PAGE_LEN).map(move |ranges| {
        let len = ranges.iter().map(|range| range.end - range.start).sum::<u64>() as usize;
        let (bytes, behind) = rest.split_at(len.min(rest.len()));
        rest = behind;
        (ranges[0].start / PAGE_LEN, ranges, bytes)
    })
}

impl Pager {
    /// Holds the first of some pages, and those behind it up to one that another thread holds; returns how many.
    fn hold_first(&self, pages: impl Iterator<Item = u64>) -> usize {
        let mut count = 0;
        for page in pages.take(LANE_PAGE_COUNT) {
            if count == 0 {
                self.words.hold(page);
            } else if self.words.try_hold(page).is_none() {
                break;
            }
            count += 1;
        }
        count
    }

    /// Stores of the first pages of a list have arrived at home. Returns of how many.
    fn settle_some(&self, those: &[PageStores<'_>]) -> (usize, Result<(), Refused>) {
        let held = self.hold_first(those.iter().map(|(page, ..)| *page));
        let (those, mut dirty) = (&those[..held], Vec::with_capacity(held));
        dirty.extend(those.iter().map(|(page, ..)| *page).filter(|page| self.words.look(*page).is_dirty()));
        let settle = |(page, ranges, bytes): &PageStores<'_>| {
            if dirty.binary_search(page).is_ok() { self.settle_one(*page, ranges, bytes) } else { Ok(()) }
        };
        let done = self.close(&dirty).and_then(|()| those.iter().try_for_each(settle));
        self.by_state(&dirty, |run, state| {
            if state == State::HeldClean {
                self.twins.settle(run);
            }
        });
        those.iter().for_each(|(page, ..)| self.words.release(*page));
        (held, done)
    }

    /// Held: the page, protected.
    fn settle_one(&self, page: u64, ranges: &[Range<u64>], bytes: &[u8]) -> Result<(), Refused> {
        let own = self.frames.read_page(page)?;
        // SAFETY: the caller holds the page; the reference ends here.
        let twin = unsafe { self.twins.of(page) };
        let mut rest = bytes;
        for range in ranges {
            let at = (range.start % PAGE_LEN) as usize;
            let (those, behind) = rest.split_at((range.end - range.start) as usize);
            twin[at..at + those.len()].copy_from_slice(those);
            rest = behind;
        }
        self.digests.change(page);
        count(&self.counters.diff_bytes, bytes.len() as u64);
        if *own == *twin {
            self.words.step(page, Event::Settle);
        }
        Ok(())
    }

    /// Notes of pages, ascending, how many turns they have taken, and learns the digests of those that are here and do not change all the
    /// time. Adds what their home is told to `known`, by their place behind `first`.
    fn note_turns(
        &self,
        pages: &[u64],
        first: u64,
        wish: &mut Vec<(u64, u64)>,
        known: &mut Vec<(u32, u128)>,
    ) -> (usize, Result<()>) {
        let held = self.hold_first(pages.iter().copied());
        let pages = &pages[..held];
        let done = self.learn(pages);
        for page in pages {
            wish.push((*page, self.digests.turn(*page)));
            let is_here = self.words.look(*page).is_here() && !self.digests.is_changing(*page);
            let digest = self.digests.known(*page).filter(|_| is_here);
            known.extend(digest.map(|digest| ((*page - first) as u32, digest)));
            self.words.release(*page);
        }
        (held, done.map_err(Error::from))
    }

    /// Takes the first pages of a list in, and adds those to `late` that took a turn since they were wanted. Returns how many it looked at.
    fn take_some(&self, coming: &[ComingPage<'_>], late: &mut Vec<Range<u64>>) -> (usize, Result<(), Refused>) {
        let held = self.hold_first(coming.iter().map(|((page, _), _)| *page));
        let coming = &coming[..held];
        let [mut absent, mut clean, mut dirty] = [const { Pages::new() }; 3];
        for ((page, turn), brought) in coming {
            let known = self.digests.known(*page).map(KnownDigest::of);
            match (self.words.look(*page), brought) {
                _ if self.digests.turn(*page) != *turn => late.push(page * PAGE_LEN..((page + 1) * PAGE_LEN).min(self.len)),
                (_, None) => {
                    known.map(|known| self.digests.is_as_at_home(*page, known));
                    count(&self.counters.kept, 1);
                }
                // A page that finds no frame comes when it is touched.
                (State::HeldAbsent, Some(bytes)) if self.slots.admit(*page) => absent.add(*page, bytes),
                (State::HeldAbsent, Some(_)) => {}
                (state, Some(bytes)) => {
                    known.map(|_| self.digests.is_as_at_home(*page, KnownDigest::of(0)));
                    if state.is_dirty() { dirty.add(*page, bytes) } else { clean.add(*page, bytes) }
                }
            }
        }
        count(&self.counters.fetches, (absent.numbers.len() + clean.numbers.len() + dirty.numbers.len()) as u64);
        let done = self.fill_absent(&absent).and(self.fill_clean(&clean)).and(self.merge_all(&dirty));
        coming.iter().for_each(|((page, _), _)| self.words.release(*page));
        (held, done)
    }

    /// Gives pages that came a frame, and maps them. Held: the pages, absent and admitted; on an error they stay absent.
    fn fill_absent(&self, pages: &Pages) -> Result<(), Refused> {
        for (run, bytes) in pages.runs() {
            let filled = self.frames.fill(run, bytes);
            for (page, bytes) in (run.first..).zip(bytes.as_chunks::<PAGE>().0) {
                match filled {
                    Ok(()) => {
                        self.words.step(page, Event::Fill);
                        self.digests.come(page, bytes);
                    }
                    Err(_) => self.slots.remove(page),
                }
            }
            if filled.is_err() {
                // A frame without a state for it must not be there.
                self.punch(run)?;
            }
        }
        let here: Vec<u64> = pages.numbers.iter().copied().filter(|page| self.words.look(*page) == State::HeldClean).collect();
        self.map_ahead(&here)
    }

    /// Puts pages that came into the frames that they have. Held: the pages, clean.
    fn fill_clean(&self, pages: &Pages) -> Result<(), Refused> {
        for (run, bytes) in pages.runs() {
            self.frames.fill(run, bytes)?;
            (run.first..).zip(bytes.as_chunks::<PAGE>().0).for_each(|(page, bytes)| self.digests.come(page, bytes));
        }
        Ok(())
    }

    /// Puts this process's stores back into pages that came. Held: the pages, dirty.
    fn merge_all(&self, pages: &Pages) -> Result<(), Refused> {
        self.close(&pages.numbers)?;
        let (mut own, mut merged) = ([0; PAGE], [0; PAGE]);
        let all = pages.numbers.iter().zip(pages.bytes.as_chunks::<PAGE>().0);
        all.into_iter().try_for_each(|(page, home)| self.merge_one(*page, home, &mut own, &mut merged))
    }
}

impl Explicit {
    /// Returns a guard; while it is held no stores are on their way home.
    ///
    /// **Cost**: a lock that nobody has; where stores are under way a message each way to their home, which does what comes on a connection
    /// in its order. A home that refuses stores says so before it answers that message. The thread that sent them hears of it.
    pub(super) fn at_rest(&self) -> AtRest<'_> {
        loop {
            let sent = self.under_way.read();
            if sent.is_empty() {
                return AtRest(sent);
            }
            let all: Vec<_> = sent.iter().map(|sent| (sent.number, sent.home.clone(), sent.connection, sent.seq)).collect();
            drop(sent);
            for (number, home, connection, seq) in all {
                let is_done = home.clock().is_ok() && home.connection() == connection;
                if is_done && !home.awaits(seq) {
                    // The thread that gets the answer says whether the stores are home.
                    rustix::thread::sched_yield();
                    continue;
                }
                if let Err(error) = self.have_arrived(number, is_done) {
                    tracing::warn!("stores to {} that are at home count as not sent: {error}", self.name);
                }
            }
        }
    }

    /// Stores in the ranges that are not home.
    pub(super) fn stored(&self, ranges: &[Range<u64>], spans: Spans) -> Result<Stored> {
        let mut stored = Stored::nothing();
        self.each_dirty(ranges, |pager, page| pager.note_stores(page, ranges, spans, &mut stored))?;
        Ok(stored)
    }

    /// Forbids evicting pages with stores, while their stores are under way.
    fn keep_dirty(&self, keeps: bool) {
        if let Some(pager) = self.pages.as_deref() {
            pager.has_sent.store(keeps, SeqCst);
        }
    }

    /// Stores are at home.
    fn settle(&self, stored: &Stored) -> Result<()> {
        let Some(pager) = self.pages.as_deref() else { return Ok(()) };
        let all: Vec<PageStores<'_>> = by_page(stored).collect();
        let mut rest = &all[..];
        while !rest.is_empty() {
            let (len, done) = fault::undisturbed(|| pager.settle_some(rest));
            rest = &rest[len..];
            done?;
        }
        Ok(())
    }

    /// Pages of a run that lie in frames, as their home is asked for them.
    fn want_run(&self, pager: &Pager, run: Range<u64>, node: NodeId, wish: &mut PageWish) -> Result<bool> {
        let mut page = run.start;
        while page < run.end {
            if pager.is_direct(page) {
                page += 1;
                continue;
            }
            let bytes = |end: u64| page * PAGE_LEN..(end * PAGE_LEN).min(pager.len);
            let Some((_, at)) = pager.homes.place_of(&bytes(page + 1)).filter(|(of, _)| *of == node) else { return Ok(false) };
            let lies_on = |end: &u64| pager.homes.place_of(&bytes(*end)).is_some();
            let end = (page + 2..=run.end).take_while(lies_on).last().unwrap_or(page + 1);
            let (pages, mut known, mut done) = ((page..end).collect::<Vec<u64>>(), Vec::new(), 0);
            while done < pages.len() {
                let noted = fault::undisturbed(|| pager.note_turns(&pages[done..], page, &mut wish.pages, &mut known));
                noted.1?;
                done += noted.0;
            }
            let len = bytes(end).end - bytes(end).start;
            wish.wants.push(WantedPages { at, len, seed: *pager.digests.seed(), known });
            page = end;
        }
        Ok(true)
    }
}

impl CarriedMemory for Explicit {
    fn place_of(&self, range: &Range<u64>) -> Option<(NodeId, ExtentAddress)> {
        self.pages.as_deref()?.homes.place_of(range)
    }

    fn moving_len(&self, range: &Range<u64>) -> (u64, u64) {
        let Some(pager) = self.pages.as_deref() else { return (0, 0) };
        let (mut stored, mut coming) = (0, 0);
        for run in page_runs(std::slice::from_ref(range)) {
            for page in (run.start..run.end.min(pager.page_count)).filter(|page| !pager.is_direct(*page)) {
                let state = pager.words.look(page);
                stored += PAGE_LEN * u64::from(state.is_dirty());
                coming += PAGE_LEN * u64::from(!state.is_here() || pager.digests.is_changing(page));
            }
        }
        (stored, coming)
    }

    fn send_along(
        &self,
        ranges: &[Range<u64>],
        spans: Spans,
        home: &Arc<Remote>,
        send: &mut SendStores<'_>,
    ) -> Result<Option<(u64, PostedSync)>> {
        let mut sent = loop {
            drop(self.at_rest());
            let sent = self.under_way.write();
            if sent.is_empty() {
                break sent;
            }
        };
        let is_free = |range: &Range<u64>| without(range.clone(), &self.shared.claims.held_bytes(self.gid));
        let ranges = match spans {
            Spans::Changed => ranges.iter().flat_map(is_free).collect(),
            Spans::Whole => ranges.to_vec(),
        };
        self.keep_dirty(true);
        let outcome = self.stored(&ranges, spans).and_then(|stored| Ok(send(&stored)?.map(|posted| (stored, posted))));
        let Ok(Some((stored, posted))) = outcome else {
            self.keep_dirty(false);
            return outcome.map(|_| None);
        };
        let number = self.under_way.last.fetch_add(1, Relaxed);
        sent.push(SentStores { number, home: home.clone(), connection: posted.connection, seq: posted.seq, stored });
        Ok(Some((number, posted)))
    }

    fn have_arrived(&self, number: u64, are_home: bool) -> Result<()> {
        let mut sent = self.under_way.write();
        let Some(at) = sent.iter().position(|sent| sent.number == number) else { return Ok(()) };
        let SentStores { stored, .. } = sent.swap_remove(at);
        let done = if are_home { self.settle(&stored) } else { Ok(()) };
        self.keep_dirty(!sent.is_empty());
        done
    }

    fn want(&self, ranges: &[Range<u64>], node: NodeId) -> Result<Option<PageWish>> {
        let Some(pager) = self.pages.as_deref() else {
            return Ok(Some(PageWish::default()));
        };
        let mut wish = PageWish::default();
        for run in page_runs(ranges) {
            self.check(run.start * PAGE_LEN, 0)?;
            if !self.want_run(pager, run.start..run.end.min(pager.page_count), node, &mut wish)? {
                return Ok(None);
            }
        }
        Ok(Some(wish))
    }

    fn take_pages(&self, wish: &PageWish, brought: &[BroughtPage<'_>]) -> Result<Vec<Range<u64>>> {
        let Some(pager) = self.pages.as_deref() else { return Ok(Vec::new()) };
        let coming: Vec<ComingPage<'_>> = wish.pages.iter().copied().zip(brought.iter().copied()).collect();
        let (mut rest, mut late) = (&coming[..], Vec::new());
        while !rest.is_empty() {
            let (len, done) = fault::undisturbed(|| pager.take_some(rest, &mut late));
            rest = &rest[len..];
            done?;
        }
        // ORDERING: loads come after what told this program that the pages have changed.
        std::sync::atomic::fence(SeqCst);
        Ok(late)
    }
}
