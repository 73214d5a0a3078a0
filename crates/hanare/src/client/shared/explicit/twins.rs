//! The clean bytes of dirty pages, in a reservation as long as the region. The twin of page k lies k pages from its start, so a signal
//! handler finds its place without a look-up or an allocation.
//!
//! The twins of some clean pages stay in memory, because many pages are stored to again. So the bits that say which pages have a twin also find
//! the dirty pages: a look at 32 pages at once.
//!
//! Safety invariant of this module: a page's twin is reached by the thread that holds the page, and by nobody else.

use hanare_memory::Mapping;
use hanare_memory::diff::PageBytes;
use hanare_memory::frames::Run;
use hanare_protocol::Result;
use hanare_protocol::limits::PAGE_LEN;
use hanare_ring::own_page::Numbers;
use rustix::mm::{Advice, madvise};
use std::ops::Range;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};

/// Pages of a word.
const WORD_COUNT: u64 = u32::BITS as u64;

/// The twins of a mapping's pages.
pub(super) struct Twins {
    mapping: Mapping,
    /// A bit for each page that has a twin in memory.
    present: Numbers,
    /// Number of those.
    count: AtomicU64,
    /// Clean pages keep their twins while there are no more than these.
    count_kept: u64,
}

impl Twins {
    /// An empty set of twins. **Cost**: addresses, no memory.
    pub fn new(pages: u64, count_kept: u64) -> Result<Twins> {
        let mut mapping = Mapping::reserve(pages.saturating_mul(PAGE_LEN))?;
        mapping.map_sparse(0, mapping.len() as u64)?;
        Ok(Twins { mapping, present: Numbers::new(pages.div_ceil(WORD_COUNT))?, count: AtomicU64::new(0), count_kept })
    }

    /// Room for a page's twin, which counts as one from here on.
    ///
    /// # Safety
    /// The same as of [`Twins::of`].
    #[expect(clippy::mut_from_ref, reason = "each page's twin belongs to whoever holds the page")]
    pub unsafe fn make(&self, page: u64) -> &mut PageBytes {
        let bit = 1 << (page % WORD_COUNT);
        // ORDERING: pairs with the look in `pages_in`: a page that is seen dirty was seen here.
        if self.present.at(page / WORD_COUNT).fetch_or(bit, AcqRel) & bit == 0 {
            self.count.fetch_add(1, Relaxed);
        }
        // SAFETY: promised by the caller.
        unsafe { self.of(page) }
    }

    /// A page's twin; zeros if it has none.
    ///
    /// # Safety
    /// The caller holds the page as long as it uses the reference, and has no other to it.
    #[expect(clippy::mut_from_ref, reason = "each page's twin belongs to whoever holds the page")]
    pub unsafe fn of(&self, page: u64) -> &mut PageBytes {
        let at = usize::try_from(page * PAGE_LEN).ok().filter(|at| *at < self.mapping.len());
        let at = at.expect("a page of the mapping");
        // SAFETY: it lies in the mapping, which is memory of this process; the rest is the caller's promise.
        unsafe { &mut *self.mapping.ptr().add(at).cast() }
    }

    /// Pages of a range that have a twin, ascending: all dirty ones, and clean ones.
    ///
    /// **Cost**: a load for each 32 pages.
    pub fn pages_in(&self, pages: Range<u64>) -> impl Iterator<Item = u64> + '_ {
        let (mut next, end) = (pages.start, pages.end);
        std::iter::from_fn(move || {
            while next < end {
                let word = self.present.at(next / WORD_COUNT).load(Acquire) >> (next % WORD_COUNT);
                if word == 0 {
                    next = (next / WORD_COUNT + 1) * WORD_COUNT;
                    continue;
                }
                let page = next + u64::from(word.trailing_zeros());
                next = page + 1;
                return (page < end).then_some(page);
            }
            None
        })
    }

    /// Pages are clean: their twins stay where there is room. Held: their pages.
    pub fn settle(&self, run: Run) {
        if self.count.load(Relaxed) > self.count_kept {
            self.forget(run);
        }
    }

    /// Gives the memory of twins back. Held: their pages.
    pub fn forget(&self, run: Run) {
        let mut gone = 0;
        for page in self.pages_in(run.first..run.first + run.count) {
            self.present.at(page / WORD_COUNT).fetch_and(!(1 << (page % WORD_COUNT)), AcqRel);
            gone += 1;
        }
        if gone == 0 {
            return;
        }
        self.count.fetch_sub(gone, Relaxed);
        let at = self.mapping.ptr().wrapping_add((run.first * PAGE_LEN) as usize);
        // SAFETY: the pages' holder gives up their bytes; the range is the mapping's, because some of it has twins.
        let done = unsafe { madvise(at.cast(), run.len_bytes(), Advice::LinuxDontNeed) };
        debug_assert_eq!(done, Ok(()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn make(twins: &Twins, page: u64) {
        // SAFETY: this thread alone has the twins; the reference ends here.
        let twin = unsafe { twins.make(page) };
        twin.fill(page as u8 + 1);
    }

    fn byte(twins: &Twins, page: u64) -> u8 {
        // SAFETY: as above.
        let twin = unsafe { twins.of(page) };
        twin[77]
    }

    #[test]
    fn twins_are_found_whatever_lies_between_them() {
        let twins = Twins::new(200, 10).unwrap();
        let those = [0, 1, 31, 32, 100, 127, 199];
        those.into_iter().for_each(|page| make(&twins, page));
        assert_eq!(twins.pages_in(0..200).collect::<Vec<_>>(), those);
        assert_eq!(twins.pages_in(1..127).collect::<Vec<_>>(), those[1..5]);
        assert_eq!(twins.pages_in(33..100).count() + twins.pages_in(5..5).count(), 0);
    }

    #[test]
    fn twins_of_clean_pages_stay_up_to_a_bound() {
        let twins = Twins::new(200, 3).unwrap();
        (0..3).for_each(|page| make(&twins, page));
        twins.settle(Run { first: 0, count: 3 });
        assert_eq!((byte(&twins, 2), twins.pages_in(0..200).count()), (3, 3));
        (2..6).for_each(|page| make(&twins, page));
        // The runs of a flush, with a clean page between.
        [Run { first: 4, count: 2 }, Run::one(2)].into_iter().for_each(|run| twins.settle(run));
        assert_eq!(twins.pages_in(0..200).collect::<Vec<_>>(), [0, 1, 3]);
        assert_eq!([2, 3, 4].map(|page| byte(&twins, page)), [0, 4, 0]);
        twins.forget(Run { first: 0, count: 100 });
        assert_eq!((twins.pages_in(0..200).count(), twins.count.load(Relaxed), byte(&twins, 3)), (0, 0, 0));
    }
}
