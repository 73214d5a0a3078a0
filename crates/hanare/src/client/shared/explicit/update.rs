//! `update`: which pages have changed at their homes is asked by digests, and those alone are given up or merged.
//!
//! ```text
//! look    each page that is here, held: the digest of its clean bytes, where it is not known
//! ask     each home, once: the digests of those pages as they are there
//! act     each page, held again: has it the same digest, it stays; else a clean one is punched, a dirty one merged
//! ```
//!
//! Pages are free between these steps. Events meanwhile keep a page's clean bytes, or make their digest unknown. So a page stays only
//! with the very bytes that its home had after the call began. They may have come there by commands, by stores of programs that map the
//! home's memory, or by another life of the node. The home keeps nothing, and nothing can be overrun.
//!
//! Safety: as in `pager`, invariant 1.

use super::homes::{AskedPage, Homes};
use super::pager::{PageList, Pager, Trouble};
use super::{Explicit, Retries};
use crate::client::attachment::count;
use crate::client::shared::fault_contexts::{LANE_PAGE_COUNT, Tools};
use crate::trace;
use hanare_memory::diff::{Diff, PAGE, PageBytes};
use hanare_memory::frames::{Run, runs_of};
use hanare_memory::uffd::Refused;
use hanare_protocol::Result;
use hanare_protocol::page::own_page::State;
use std::sync::atomic::{Ordering, fence};

/// An update's question to the homes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asking {
    /// Ask for changed pages.
    Changed,
    /// No question: all of them have changed.
    Nothing,
}

impl Pager {
    /// Has pages `first .. end` show what is at their homes, and this process's stores that were not flushed. As
    /// [`Pager::flush_some`], a part at a time.
    ///
    /// **Cost**: a look at each page's word. A read and a digest of each present page, once until it changes. A message each way for each
    /// home that has some, for 16,384 pages. Then for clean pages that have changed a punch for each run; for each 64 dirty ones a
    /// protection and a message for each home.
    fn update_some(&self, first: u64, end: u64, asking: Asking) -> (u64, Result<()>) {
        let mut asked = Vec::new();
        let (next, mut done) = self.look_at(first, end, asking, &mut asked);
        if asked.iter().any(|one| one.is_asked) {
            let mut lane = self.lanes.take();
            let told = self.homes.ask(lane.tools(), self.digests.seed(), &mut asked).map_err(Trouble::Home);
            done = done.and(told.map_err(|trouble| self.error(trouble, &lane.tools().reason)));
        }
        // Pages of a silent home stay as they were, like those that it does not give.
        asked.retain(|one| !one.is_asked || one.at_home.is_some());
        let mut rest = &asked[..];
        while !rest.is_empty() {
            let (len, acted) = self.act_on(rest);
            rest = &rest[len..];
            done = done.and(acted);
        }
        (next, done)
    }

    /// Lists the pages that are here, and sees to it that the digests of those are known that are worth a question. Returns the page from which
    /// on nothing was looked at.
    fn look_at(&self, first: u64, end: u64, asking: Asking, asked: &mut Vec<AskedPage>) -> (u64, Result<()>) {
        let asks = asking == Asking::Changed;
        let mut page = first;
        let mut done = Ok(());
        while page < end && asked.len() + LANE_PAGE_COUNT <= Homes::ASKED_COUNT && done.is_ok() {
            asked.reserve(LANE_PAGE_COUNT);
            let mut pages: PageList = [0; LANE_PAGE_COUNT];
            // A page that is being fetched may get older bytes.
            let (len, next) = self.hold_some(page..end, end, |state| state != State::Absent, &mut pages);
            done = if asks { self.learn(&pages[..len]) } else { Ok(()) };
            for &page in &pages[..len] {
                if self.words.look(page).is_here() {
                    let is_asked = asks && self.digests.is_known(page) && !self.digests.is_changing(page);
                    asked.push(AskedPage { page, is_asked, at_home: None });
                }
                self.words.release(page);
            }
            page = next;
        }
        (page, done.map_err(Into::into))
    }

    /// Learns the digests of clean bytes that are not known. Held: the pages, ascending.
    pub(super) fn learn(&self, pages: &[u64]) -> Result<(), Refused> {
        let is_unknown = |page: u64| !self.digests.is_known(page) && !self.digests.is_changing(page) && self.homes.can_tell(page);
        let (mut clean, mut len) = ([0; LANE_PAGE_COUNT], 0);
        for &page in pages.iter().filter(|page| is_unknown(**page)) {
            match self.words.look(page) {
                State::HeldClean => {
                    clean[len] = page;
                    len += 1;
                }
                // SAFETY: the caller holds the page; the reference ends here.
                State::HeldDirty => self.digests.learn(page, unsafe { self.twins.of(page) }),
                _ => {}
            }
        }
        if len == 0 {
            return Ok(());
        }
        let mut lane = self.lanes.take();
        let room = &mut lane.tools().pages;
        for run in runs_of(&clean[..len]) {
            let bytes = &mut room[..run.len_bytes()];
            self.frames.read(run, bytes)?;
            (run.first..).zip(bytes.as_chunks::<PAGE>().0).for_each(|(page, bytes)| self.digests.learn(page, bytes));
        }
        Ok(())
    }

    /// Has the first pages of a list stay, or gives them up, or merges them, as many as can be held at once. Returns how many.
    fn act_on(&self, asked: &[AskedPage]) -> (usize, Result<()>) {
        let (mut changed, mut len, mut done_count) = ([0; LANE_PAGE_COUNT], 0, 0);
        for one in asked.iter().take(LANE_PAGE_COUNT) {
            // While a page is held no other is waited for.
            if len == 0 {
                self.words.hold(one.page);
            } else if self.words.try_hold(one.page).is_none() {
                break;
            }
            done_count += 1;
            if one.at_home.is_some_and(|at_home| self.digests.is_as_at_home(one.page, at_home)) {
                count(&self.counters.kept, 1);
                self.words.release(one.page);
            } else {
                changed[len] = one.page;
                len += 1;
            }
        }
        (done_count, self.renew(&changed[..len]))
    }

    /// Gives clean pages up, and merges dirty ones. Held: the pages, ascending; they are let go.
    fn renew(&self, pages: &[u64]) -> Result<()> {
        pages.iter().for_each(|page| self.digests.take_turn(*page));
        let (mut dirty, mut len) = ([0; LANE_PAGE_COUNT], 0);
        self.by_state(pages, |run, state| match state {
            State::HeldClean => {
                self.drop_run(run);
            }
            State::HeldDirty => {
                for page in run.first..run.first + run.count {
                    dirty[len] = page;
                    len += 1;
                }
            }
            _ => self.release(run),
        });
        let dirty = &dirty[..len];
        if dirty.is_empty() {
            return Ok(());
        }
        let mut lane = self.lanes.take();
        let merged = self.merge(lane.tools(), dirty);
        dirty.iter().for_each(|page| self.words.release(*page));
        merged.map_err(|trouble| self.error(trouble, &lane.tools().reason))
    }

    /// Takes the home's bytes of dirty pages, ascending, and puts this process's stores back. Held: the pages.
    fn merge(&self, tools: &mut Tools, pages: &[u64]) -> Result<(), Trouble> {
        self.close(pages)?;
        self.homes.fetch(tools, pages, |_, _| {}).map_err(Trouble::Home)?;
        count(&self.counters.fetches, pages.len() as u64);
        let (own, merged) = tools.message[..2 * PAGE].split_at_mut(PAGE);
        let own: &mut PageBytes = own.try_into().expect("a page of the room");
        for (page, home) in pages.iter().zip(tools.pages.as_chunks::<PAGE>().0) {
            self.merge_one(*page, home, own, merged)?;
        }
        Ok(())
    }

    /// The same of one page, with room for two. Held: the page, protected.
    pub(super) fn merge_one(&self, page: u64, home: &PageBytes, own: &mut PageBytes, merged: &mut [u8]) -> Result<(), Refused> {
        self.frames.read(Run::one(page), own)?;
        // SAFETY: the caller holds the page; this is the one reference (invariant 1).
        let twin = unsafe { self.twins.of(page) };
        merged.copy_from_slice(home);
        for (start, len) in Diff::between(twin, own).runs() {
            merged[start..start + len].copy_from_slice(&own[start..start + len]);
        }
        self.frames.fill(Run::one(page), merged)?;
        *twin = *home;
        self.digests.come(page, home);
        Ok(())
    }
}

impl Explicit {
    /// Has loads in a range see what is at home when this is called; bytes that this process stored and did not flush stay as it
    /// stored them.
    ///
    /// **Cost**: a look at a word of 4 bytes for each page. A digest of each present page, once until it changes. A message each way for
    /// each home that has some of them, with 16 bytes a page. Changed pages come again when they are touched, dirty ones at once. Pages
    /// that two updates in a row found changed are given up by the next ones without a question. **Errors**: as `Region::get`; a page
    /// that could not be asked for or brought is as it was.
    ///
    /// FEATURE: D2-F7
    pub fn update(&self, offset: u64, len: u64) -> Result<()> {
        // ORDERING: loads of bytes of this host come after whatever told us of them.
        fence(Ordering::SeqCst);
        self.update_by(Asking::Changed, offset, len)
    }

    /// [`Explicit::update`] for a range that is known to have changed: nothing is asked, and all of it comes again.
    ///
    /// **Cost**, **Errors**: as for [`Explicit::update`], without the question.
    pub fn renew(&self, offset: u64, len: u64) -> Result<()> {
        // ORDERING: as above.
        fence(Ordering::SeqCst);
        self.update_by(Asking::Nothing, offset, len)
    }

    fn update_by(&self, asking: Asking, offset: u64, len: u64) -> Result<()> {
        let _rest = self.at_rest();
        trace::slice_on("update", &self.name, (offset, len), || {
            self.each_part(offset, len, Retries::default(), |pager, first, end| pager.update_some(first, end, asking))
        })
    }
}
