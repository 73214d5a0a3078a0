//! Bytes that are bound to locks: these alone go home, and these alone are taken in, whatever lies beside them in their pages.
//!
//! | what | steps, with the page held |
//! |---|---|
//! | look for stores | protect, read, compare with the twin |
//! | send them | as a flush, of a copy that has the twin's bytes elsewhere; then the twin is that copy |
//! | take in, clean page | read, patch, fill |
//! | take in, dirty page | the same, protected; the twin is patched too |
//! | discard | protect, read, put the twin's bytes there, fill |
//!
//! An absent page needs nothing to be taken in: its home has the bytes.
//!
//! Safety: as in `pager`, invariant 1.

use super::Explicit;
use super::pager::{PageList, Pager};
use crate::client::attachment::{BoundMemory, Spans, Stored};
use crate::client::shared::fault_contexts::LANE_PAGE_COUNT;
use hanare_memory::diff::{Diff, PAGE, PageBytes};
use hanare_memory::fault;
use hanare_memory::frames::Run;
use hanare_memory::uffd::Refused;
use hanare_protocol::limits::{PAGE_LEN, RELEASE_LEN_MAX};
use hanare_protocol::page::own_page::State;
use hanare_protocol::{Error, Result};
use std::ops::Range;
use std::sync::atomic::{Ordering, fence};

/// The parts of ascending ranges that lie in a page, as places in it.
fn parts_of(ranges: &[Range<u64>], page: u64) -> impl Iterator<Item = Range<usize>> + '_ {
    let (start, end) = (page * PAGE_LEN, (page + 1) * PAGE_LEN);
    let first = ranges.partition_point(|range| range.end <= start);
    let those = ranges[first..].iter().take_while(move |range| range.start < end);
    those.map(move |range| (range.start.max(start) - start) as usize..(range.end.min(end) - start) as usize)
}

/// Parts of a range outside all of `others`, which ascend.
pub(super) fn without(range: Range<u64>, others: &[Range<u64>]) -> Vec<Range<u64>> {
    let (mut left, mut at) = (Vec::new(), range.start);
    for other in others {
        left.push(at..other.start.min(range.end));
        at = at.max(other.end);
    }
    left.push(at..range.end);
    left.retain(|range| range.start < range.end);
    left
}

/// The pages of ascending ranges, as few runs as there are.
pub(super) fn page_runs(ranges: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut runs: Vec<Range<u64>> = Vec::new();
    for range in ranges.iter().filter(|range| !range.is_empty()) {
        let (first, end) = (range.start / PAGE_LEN, range.end.div_ceil(PAGE_LEN));
        match runs.last_mut().filter(|run| run.end >= first) {
            Some(run) => run.end = run.end.max(end),
            None => runs.push(first..end),
        }
    }
    runs
}

impl Stored {
    fn add(&mut self, page: u64, place: Range<usize>, bytes: &PageBytes) {
        let at = page * PAGE_LEN;
        self.ranges.push(at + place.start as u64..at + place.end as u64);
        self.bytes = self.bytes.take().filter(|known| known.len() + place.len() <= RELEASE_LEN_MAX);
        if let Some(known) = &mut self.bytes {
            known.extend_from_slice(&bytes[place]);
        }
    }
}

impl Pager {
    /// Puts the twin's bytes into pages that were read, outside the ranges. Returns a bit for each page in which that changed something.
    pub(super) fn leave_out(&self, pages: &[u64], ranges: &[Range<u64>], bytes: &mut [u8]) -> u64 {
        let mut others = 0;
        for (index, &page) in pages.iter().enumerate() {
            let read: &mut PageBytes = bytes[index * PAGE..].first_chunk_mut().expect("room for every page");
            // SAFETY: the caller holds the page; the reference ends here.
            let twin: &PageBytes = unsafe { self.twins.of(page) };
            let mut at = 0;
            for part in parts_of(ranges, page).chain(std::iter::once(PAGE..PAGE)) {
                if read[at..part.start] != twin[at..part.start] {
                    others |= 1 << index;
                    read[at..part.start].copy_from_slice(&twin[at..part.start]);
                }
                at = part.end;
            }
        }
        others
    }

    /// Has `work` on dirty pages of `first .. end`, held and protected, one after the other. Returns the page from which on nothing was
    /// looked at.
    fn each_dirty(&self, first: u64, end: u64, mut work: impl FnMut(u64) -> Result<(), Refused>) -> (u64, Result<()>) {
        let mut pages: PageList = [0; LANE_PAGE_COUNT];
        let (len, next) = self.hold_some(self.twins.pages_in(first..end), end, State::is_dirty, &mut pages);
        let dirty: Vec<u64> = pages[..len].iter().copied().filter(|page| self.words.look(*page).is_dirty()).collect();
        let done = self.close(&dirty).and_then(|()| dirty.iter().try_for_each(|page| work(*page)));
        pages[..len].iter().for_each(|page| self.words.release(*page));
        (next, done.map_err(Error::from))
    }

    /// Notes what was stored in the ranges of a page. Held: the page, protected.
    pub(super) fn note_stores(&self, page: u64, ranges: &[Range<u64>], spans: Spans, stored: &mut Stored) -> Result<(), Refused> {
        let bytes = self.frames.read_page(page)?;
        // SAFETY: the caller holds the page; the reference ends here.
        let twin: &PageBytes = unsafe { self.twins.of(page) };
        if spans == Spans::Changed {
            for (start, len) in Diff::between(twin, &bytes).runs() {
                let clip = |part: Range<usize>| part.start.max(start)..part.end.min(start + len);
                let those = parts_of(ranges, page).map(clip).filter(|run| !run.is_empty());
                those.for_each(|run| stored.add(page, run, &bytes));
            }
            return Ok(());
        }
        for part in parts_of(ranges, page) {
            let differs = |at: &usize| bytes[*at] != twin[*at];
            if let (Some(first), Some(last)) = (part.clone().find(differs), part.clone().rfind(differs)) {
                stored.add(page, first..last + 1, &bytes);
            }
        }
        Ok(())
    }

    /// Takes back what was stored in the ranges of a page. Held: the page, protected.
    fn restore(&self, page: u64, ranges: &[Range<u64>]) -> Result<(), Refused> {
        let mut bytes = self.frames.read_page(page)?;
        // SAFETY: the caller holds the page; the reference ends here.
        let twin: &PageBytes = unsafe { self.twins.of(page) };
        parts_of(ranges, page).for_each(|part| bytes[part.clone()].copy_from_slice(&twin[part]));
        self.frames.fill(Run::one(page), &bytes[..])
    }

    /// Puts bytes that are at home into a page, if it is here.
    fn patch(&self, page: u64, at: usize, bytes: &[u8]) -> Result<(), Refused> {
        let state = self.words.hold(page);
        let patched = || {
            if state == State::Dirty {
                self.close(&[page])?;
                // SAFETY: this thread holds the page; the reference ends here.
                let twin = unsafe { self.twins.of(page) };
                twin[at..at + bytes.len()].copy_from_slice(bytes);
            }
            let mut own = self.frames.read_page(page)?;
            own[at..at + bytes.len()].copy_from_slice(bytes);
            self.digests.change(page);
            self.frames.fill(Run::one(page), &own[..])
        };
        let done = if state.is_here() { patched() } else { Ok(()) };
        self.words.release(page);
        done
    }
}

impl Explicit {
    /// Works through the dirty pages of the ranges.
    pub(super) fn each_dirty(
        &self,
        ranges: &[Range<u64>],
        mut work: impl FnMut(&Pager, u64) -> Result<(), Refused>,
    ) -> Result<()> {
        let Some(pager) = self.pages.as_deref() else { return Ok(()) };
        for run in page_runs(ranges) {
            self.check(run.start * PAGE_LEN, 0)?;
            let (mut page, end) = (run.start, run.end.min(pager.page_count));
            while page < end {
                // The pager holds pages: no handler of the program may run on this thread and touch them.
                let (next, done) = fault::undisturbed(|| pager.each_dirty(page, end, |page| work(pager, page)));
                done?;
                page = next;
            }
        }
        Ok(())
    }
}

impl BoundMemory for Explicit {
    fn stores_in(&self, ranges: &[Range<u64>]) -> Result<Stored> {
        let _rest = self.at_rest();
        self.stored(ranges, Spans::Whole)
    }

    fn publish(&self, ranges: &[Range<u64>]) -> Result<()> {
        let _rest = self.at_rest();
        // ORDERING: stores come before whatever tells another program of them.
        fence(Ordering::SeqCst);
        self.flush_runs(ranges, Some(ranges))
    }

    fn take_in(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let range = self.check(offset, bytes.len() as u64)?;
        let _rest = self.at_rest();
        let Some(pager) = self.pages.as_deref() else { return Ok(()) };
        for page in range.start / PAGE_LEN..range.end.div_ceil(PAGE_LEN) {
            for part in parts_of(std::slice::from_ref(&range), page) {
                let at = (page * PAGE_LEN + part.start as u64 - offset) as usize;
                fault::undisturbed(|| pager.patch(page, part.start, &bytes[at..at + part.len()]))?;
            }
        }
        fence(Ordering::SeqCst);
        Ok(())
    }

    fn discard(&self, ranges: &[Range<u64>]) -> Result<()> {
        let _rest = self.at_rest();
        self.each_dirty(ranges, |pager, page| pager.restore(page, ranges))
    }
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init, reason = "one range is what is expected")]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_of_a_range_lies_in_no_other() {
        assert_eq!(without(10..20, &[]), [10..20]);
        assert_eq!(without(10..20, &[0..5, 8..11, 9..12, 15..16, 19..30, 40..41]), [12..15, 16..19]);
        assert_eq!(without(10..20, &[0..15, 12..13, 30..40]), [15..20]);
        assert_eq!(without(10..20, &[0..40, 15..16]), []);
    }

    #[test]
    fn parts_of_a_page_are_what_the_ranges_have_of_it() {
        let ranges = [0..10, 4000..5000, 5000..5001, 9000..20_000];
        let parts = |page| parts_of(&ranges, page).collect::<Vec<_>>();
        assert_eq!(parts(0), [0..10, 4000..4096]);
        assert_eq!(parts(1), [0..904, 904..905]);
        assert_eq!(parts(2), [808..4096]);
        assert_eq!(parts(3), [0..4096]);
        assert_eq!(parts(5), []);
        assert_eq!(page_runs(&ranges), [0..5]);
        assert_eq!(page_runs(&[0..1, 4096..4097, 12_288..12_288, 16_384..16_385]), [0..2, 4..5]);
    }
}
