//! Stores that go home: by flushes, and by pages that make room. Held pages are closed, sent and settled.
//!
//! | way | pages held at a time | at a home |
//! |---|---|---|
//! | in pieces | up to [`FLUSH_COUNT`] | each message has its effect when it comes |
//! | whole, where the bytes had copies when they were mapped | all of the flush | all of an extent's stores have their effect with its last message |
//!
//! Safety: as in `pager`, invariant 1. [`Pager::settle_few`] is async-signal-safe.

use super::bound::{page_runs, without};
use super::pager::{Pager, Trouble};
use super::{Explicit, Retries};
use crate::client::attachment::count;
use crate::client::shared::fault_contexts::Tools;
use crate::trace;
use hanare_memory::diff::PAGE;
use hanare_memory::fault;
use hanare_memory::frames::{Run, runs_of};
use hanare_memory::uffd::Refused;
use hanare_protocol::Result;
use hanare_protocol::limits::PAGE_LEN;
use hanare_protocol::page::own_page::{Aim, Event, PageStep, State, next_step};
use std::ops::Range;
use std::sync::atomic::{Ordering, fence};

/// Most pages that a flush in pieces holds at once. With a command for each a message of a lane has room for them.
const FLUSH_COUNT: usize = 512;

/// Most pages that a flush holds at once that counts whole: 1 GiB of them. More go as several.
const WHOLE_COUNT: usize = 1 << 18;

/// Some of the pages of a list, by their places in it.
struct PageSet<'a>(&'a mut [u64]);

impl PageSet<'_> {
    fn add(&mut self, place: usize) {
        self.0[place / 64] |= 1 << (place % 64);
    }

    fn has(&self, place: usize) -> bool {
        self.0[place / 64] >> (place % 64) & 1 != 0
    }
}

/// Room for what is known of pages that are sent. Each part has a place for every page.
struct SettleRoom<'a> {
    dirty: &'a mut [u64],
    left: PageSet<'a>,
    others: PageSet<'a>,
}

/// Dirty pages that are sent. Held: the pages, closed.
struct SentPages<'a> {
    pager: &'a Pager,
    dirty: &'a [u64],
    /// The ranges that are sent, where not all are.
    within: Option<&'a [Range<u64>]>,
    /// Pages that are not home.
    left: PageSet<'a>,
    /// Pages with changes beside the ranges.
    others: PageSet<'a>,
    failed: Option<Trouble>,
}

// A signal handler's stack is small: all of it is one frame.
impl SentPages<'_> {
    /// Reads the bytes of some of them that are sent.
    #[inline(always)]
    fn read(&mut self, pages: &[u64], room: &mut [u8]) -> Result<(), Refused> {
        let mut at = 0;
        for run in runs_of(pages) {
            self.pager.frames.read(run, &mut room[at * PAGE..][..run.len_bytes()])?;
            at += run.count as usize;
        }
        let beside = self.within.map_or(0, |ranges| self.pager.leave_out(pages, ranges, room));
        let those = pages.iter().enumerate().filter(|(index, _)| beside >> index & 1 != 0);
        those.for_each(|(_, page)| self.others.add(self.dirty.partition_point(|other| other < page)));
        Ok(())
    }

    /// A home has the changes, or not.
    #[inline(always)]
    fn note(&mut self, home: usize, sent: Result<u64, Trouble>) {
        match sent {
            Ok(sent) => count(&self.pager.counters.diff_bytes, sent),
            Err(trouble) => {
                self.failed = self.failed.or(Some(trouble));
                let of_home = |index: &usize| self.pager.homes.has_part(self.dirty[*index], home);
                (0..self.dirty.len()).filter(of_home).for_each(|index| self.left.add(index));
            }
        }
    }

    #[inline(always)]
    fn in_pieces(&mut self, tools: &mut Tools) {
        let Pager { homes, twins, .. } = self.pager;
        for home in 0..homes.count() {
            let sent = homes.send(home, tools, twins, self.dirty, &mut |pages, room| self.read(pages, room));
            self.note(home, sent);
        }
    }

    /// Not for a signal handler.
    fn whole(&mut self, tools: &mut Tools) {
        let (Pager { homes, twins, .. }, mut open) = (self.pager, Vec::new());
        for home in 0..homes.count() {
            let sent = homes.send_whole(home, tools, twins, self.dirty, &mut |pages, room| self.read(pages, room));
            let sent = sent.map(|(sent, begun)| {
                open.extend(begun);
                sent
            });
            self.note(home, sent);
        }
        let finished = homes.finish(open, tools, twins, &mut |pages, room| self.read(pages, room));
        finished.into_iter().for_each(|(home, sent)| self.note(home, sent));
    }
}

impl Explicit {
    /// Sends home what this process stored in a range; visible then to every later get, and to loads elsewhere after `update`
    /// there. Whole pages are looked at: stores beside the range, in the same pages, go too, but for an `Entry` mapping. Of that, bytes
    /// that are bound to a lock which this program holds stay until it is given back.
    ///
    /// Stores to a region that had copies when it was mapped are whole on each extent: all of them are there or none, also where this process dies
    /// meanwhile. More than 64 MiB of them, with their places, go as several.
    ///
    /// **Cost**: a look at a bit of each page. For each 64 dirty pages about one message each way for each home, with the
    /// changed bytes and no others. The next store to a flushed page faults once. **Errors**: [`hanare_protocol::Error::NodeLost`] and those of
    /// [`Region::put`](crate::Region::put). Pages that are not home stay dirty, so the next flush sends them. All other pages of the range are home even so.
    ///
    /// FEATURE: D2-F7
    pub fn flush(&self, offset: u64, len: u64) -> Result<()> {
        // ORDERING: stores to bytes of this host come before whatever tells another program of them.
        fence(Ordering::SeqCst);
        let _rest = self.at_rest();
        trace::slice_on("flush", &self.name, (offset, len), || {
            let range = offset..offset.saturating_add(len);
            let keeps_dirty = self.pages.as_deref().is_some_and(|pager| pager.keeps_dirty);
            // Stores that go home before their release would not be among its changes.
            let within = keeps_dirty.then(|| without(range, &self.shared.claims.held_bytes(self.gid)));
            self.flush_runs(&[self.check(offset, len)?], within.as_deref())
        })
    }

    /// Sends home what was stored in pages of ascending ranges, or of that what lies in the ranges `within`. Where bytes have copies the flush itself
    /// goes on at the next home.
    pub(super) fn flush_runs(&self, ranges: &[Range<u64>], within: Option<&[Range<u64>]>) -> Result<()> {
        let runs = page_runs(ranges);
        if self.is_whole {
            return self.pages.as_deref().map_or(Ok(()), |pager| pager.flush_whole(&runs, within));
        }
        let len = self.len as u64;
        let flush = |pager: &Pager, first, end| pager.flush_some(first, end, within);
        runs.iter().try_for_each(|run| {
            let (start, end) = (run.start * PAGE_LEN, (run.end * PAGE_LEN).min(len));
            self.each_part(start, end.saturating_sub(start), Retries::default(), flush)
        })
    }
}

impl Pager {
    /// Sends the changes of those of the held pages, ascending, that are dirty, by `send`; they are clean and protected then. Those that are
    /// not home, or have changes beside the ranges `within`, stay dirty. Nothing is let go.
    #[inline(always)]
    fn settle(
        &self,
        tools: &mut Tools,
        pages: &[u64],
        SettleRoom { dirty, left, others }: SettleRoom<'_>,
        within: Option<&[Range<u64>]>,
        send: impl FnOnce(&mut SentPages<'_>, &mut Tools),
    ) -> Result<(), Trouble> {
        let mut len = 0;
        for page in pages.iter().filter(|page| next_step(Aim::Flush, self.words.look(**page)) == PageStep::Close) {
            dirty[len] = *page;
            len += 1;
        }
        let dirty = &dirty[..len];
        self.close(dirty)?;
        let mut sent = SentPages { pager: self, dirty, within, left, others, failed: None };
        send(&mut sent, tools);
        let SentPages { left, others, failed, .. } = sent;
        for index in (0..len).filter(|index| !left.has(*index)) {
            self.digests.change(dirty[index]);
            if others.has(index) {
                self.keep_others(dirty[index], within.unwrap_or_default(), &mut tools.pages)?;
            } else {
                self.words.step(dirty[index], Event::Settle);
            }
        }
        self.by_state(dirty, |run, state| {
            if state == State::HeldClean {
                self.twins.settle(run);
            }
        });
        failed.map_or(Ok(()), Err)
    }

    /// [`Pager::settle`] in pieces, of at most 64 pages for each of `WORDS`. `dirty` has room for as many.
    pub(super) fn settle_few<const WORDS: usize>(
        &self,
        tools: &mut Tools,
        pages: &[u64],
        dirty: &mut [u64],
        within: Option<&[Range<u64>]>,
    ) -> Result<(), Trouble> {
        let (mut left, mut others) = ([0; WORDS], [0; WORDS]);
        let room = SettleRoom { dirty, left: PageSet(&mut left), others: PageSet(&mut others) };
        self.settle(tools, pages, room, within, |sent, tools| sent.in_pieces(tools))
    }

    /// Marks stores in the ranges of a page as being home; the rest stays to be sent. Held: the page, protected since that was read.
    fn keep_others(&self, page: u64, ranges: &[Range<u64>], room: &mut [u8]) -> Result<(), Refused> {
        let room = &mut room[..PAGE];
        self.frames.read(Run::one(page), room)?;
        self.leave_out(&[page], ranges, room);
        // SAFETY: the caller holds the page; the reference ends here (invariant 1).
        unsafe { self.twins.of(page) }.copy_from_slice(room);
        Ok(())
    }

    /// Sends home what was stored in pages `first .. end`, or of that what lies in the ranges `within`, which ascend. A part of the
    /// work at a time, so that whoever needs a page waits for that part alone. Returns the page from which on nothing was looked at.
    ///
    /// **Cost**: a look at a bit of each page. For each [`FLUSH_COUNT`] dirty pages a protection, and a message for each home: more
    /// where their changes exceed its room. A read for each 64.
    pub fn flush_some(&self, first: u64, end: u64, within: Option<&[Range<u64>]>) -> (u64, Result<()>) {
        let mut pages = [0; FLUSH_COUNT];
        let (len, next) = self.hold_some(self.twins.pages_in(first..end), end, State::is_dirty, &mut pages);
        if len == 0 {
            return (next, Ok(()));
        }
        let mut lane = self.lanes.take();
        let settled = self.settle_few::<{ FLUSH_COUNT / 64 }>(lane.tools(), &pages[..len], &mut [0; FLUSH_COUNT], within);
        pages[..len].iter().for_each(|page| self.words.release(*page));
        (next, settled.map_err(|trouble| self.error(trouble, &lane.tools().reason)))
    }

    /// Pages of ascending runs with stores that are not home.
    fn dirty_in(&self, runs: &[Range<u64>]) -> Vec<u64> {
        let pages = runs.iter().flat_map(|run| self.twins.pages_in(run.start..run.end.min(self.page_count)));
        pages.filter(|page| self.words.look(*page).is_dirty()).collect()
    }

    /// [`Pager::flush_some`] of all pages of ascending runs, which are sent as they are at one moment. All that goes to one extent counts there,
    /// or nothing does. Who stores to one of the pages meanwhile waits.
    ///
    /// **Cost**: as [`Pager::flush_some`], and 9 bytes of memory for each dirty page. A message each way for each 128 KiB of changes.
    pub fn flush_whole(&self, runs: &[Range<u64>], within: Option<&[Range<u64>]>) -> Result<()> {
        let pages = self.dirty_in(runs);
        let mut outcome = Ok(());
        for pages in pages.chunks(WHOLE_COUNT) {
            let mut room = vec![0; pages.len() + 2 * pages.len().div_ceil(64)];
            // The pager holds pages and a context: no handler of the program may run on this thread and touch them.
            let done = fault::undisturbed(|| self.flush_held(pages, &mut room, within));
            outcome = outcome.and(done);
        }
        outcome
    }

    fn flush_held(&self, pages: &[u64], room: &mut [u64], within: Option<&[Range<u64>]>) -> Result<()> {
        // Ascending, and before a context is taken: so no two threads wait for each other.
        for page in pages {
            self.words.hold(*page);
        }
        let (dirty, sets) = room.split_at_mut(pages.len());
        let (left, others) = sets.split_at_mut(pages.len().div_ceil(64));
        let room = SettleRoom { dirty, left: PageSet(left), others: PageSet(others) };
        let mut lane = self.lanes.take();
        let settled = self.settle(lane.tools(), pages, room, within, |sent, tools| sent.whole(tools));
        pages.iter().for_each(|page| self.words.release(*page));
        settled.map_err(|trouble| self.error(trouble, &lane.tools().reason))
    }
}
