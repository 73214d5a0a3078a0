//! The table of lost pages. Signal handlers of any thread note runs of pages, which are read after each guarded access.
//!
//! The table has no lock and takes no memory, because a signal handler writes to it.

use std::ops::Range;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicU64, AtomicUsize, fence};

/// Most runs of lost pages at one time; one truncated file is one run. Beyond it a fault is fatal, as without a guard.
const LOST_RUN_COUNT_MAX: usize = 256;

/// Bytes of the smallest page.
const PAGE_LEN: u64 = 4096;

/// Bits of a run's word that count its pages: 64 GiB, and a longer run takes several words.
const COUNT_BITS: u32 = 24;

/// Bits of the number of a page: addresses have at most 52 bits.
const PAGE_BITS: u32 = u64::BITS - COUNT_BITS;

static LOST: LostTable<LOST_RUN_COUNT_MAX> = LostTable::new();

/// Runs of lost pages.
struct LostTable<const N: usize> {
    /// Runs, one a word, see [`pack`]; 0 where there is none. A run is one word because threads and their signal handlers change it at once.
    runs: [AtomicU64; N],
    /// Number of words that hold a run.
    count: AtomicUsize,
}

/// The word of a run of pages. `None` where the run is too long, or too high.
fn pack(pages: &Range<u64>) -> Option<u64> {
    let count = pages.end - pages.start;
    (count < 1 << COUNT_BITS && pages.start < 1 << PAGE_BITS).then_some(pages.start << COUNT_BITS | count)
}

/// The run of pages of a word: an empty one of 0.
fn unpack(word: u64) -> Range<u64> {
    let start = word >> COUNT_BITS;
    start..start + (word & ((1 << COUNT_BITS) - 1))
}

/// The pages that have bytes of an address range.
fn pages_of(range: &Range<usize>) -> Range<u64> {
    range.start as u64 / PAGE_LEN..(range.end as u64).div_ceil(PAGE_LEN)
}

impl<const N: usize> LostTable<N> {
    const fn new() -> LostTable<N> {
        LostTable { runs: [const { AtomicU64::new(0) }; N], count: AtomicUsize::new(0) }
    }

    /// Adds pages to a run that they continue, or as a run of their own. False where the table is full.
    fn note(&self, pages: &Range<u64>) -> bool {
        let with = |word: u64| match unpack(word) {
            _ if word == 0 => pack(pages),
            run if run.end == pages.start => pack(&(run.start..pages.end)),
            run if run.start == pages.end => pack(&(pages.start..run.end)),
            _ => None,
        };
        self.runs.iter().any(|run| {
            let noted = run.fetch_update(SeqCst, SeqCst, with);
            if noted == Ok(0) {
                self.count.fetch_add(1, SeqCst);
            }
            noted.is_ok()
        })
    }

    /// Forgets pages. Where it would leave two runs of one and the table is full, all of that run stays lost.
    fn forget(&self, pages: &Range<u64>) {
        for run in &self.runs {
            let mut word = run.load(SeqCst);
            while let Some(left) = self.without(word, pages) {
                match run.compare_exchange(word, left, SeqCst, SeqCst) {
                    Ok(_) => {
                        self.count.fetch_sub(usize::from(left == 0), SeqCst);
                        break;
                    }
                    // A handler added pages to the run meanwhile.
                    Err(changed) => word = changed,
                }
            }
        }
    }

    /// The run of a word without some pages. Those behind them are noted as a run of their own before they leave this one.
    fn without(&self, word: u64, pages: &Range<u64>) -> Option<u64> {
        let run = unpack(word);
        if run.end <= pages.start || pages.end <= run.start {
            return None;
        }
        let (before, behind) = (run.start..pages.start, pages.end..run.end);
        match (before.is_empty(), behind.is_empty()) {
            (true, true) => Some(0),
            (true, false) => pack(&behind),
            (false, true) => pack(&before),
            (false, false) => self.note(&behind).then(|| pack(&before))?,
        }
    }

    /// The runs of lost pages at this moment.
    fn iter(&self) -> impl Iterator<Item = Range<usize>> {
        let bytes = |page: u64| (page * PAGE_LEN) as usize;
        let runs = self.runs.iter().map(|run| unpack(run.load(SeqCst))).filter(|run| !run.is_empty());
        runs.map(move |run| bytes(run.start)..bytes(run.end))
    }

    /// The first lost byte of a range, counted from its start.
    fn first(&self, range: &Range<usize>) -> Option<usize> {
        let overlaps = self.iter().map(|run| run.start.max(range.start)..run.end.min(range.end));
        overlaps.filter(|overlap| !overlap.is_empty()).map(|overlap| overlap.start - range.start).min()
    }
}

/// True if any page of this process is lost; asked after each access.
#[inline]
pub(crate) fn is_any_lost() -> bool {
    // ORDERING: pairs with the fetch_add in `note`: whoever read zeros from a replaced page finds it counted.
    fence(std::sync::atomic::Ordering::Acquire);
    LOST.count.load(Relaxed) != 0
}

/// Notes lost pages. False where the table is full.
pub(super) fn note_lost(range: Range<usize>) -> bool {
    LOST.note(&pages_of(&range))
}

/// The runs of lost pages at this moment.
pub(super) fn lost_runs() -> impl Iterator<Item = Range<usize>> {
    LOST.iter()
}

/// The first lost byte of a range, counted from its start.
pub(super) fn first_lost(range: Range<usize>) -> Option<usize> {
    LOST.first(&range)
}

/// If the table is full, a part of a longer run stays lost. Copies there are refused, and zeros never pass for its bytes.
pub fn forget(range: Range<usize>) {
    if LOST.count.load(SeqCst) > 0 {
        LOST.forget(&pages_of(&range));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(page: u64) -> Range<usize> {
        let start = (page * PAGE_LEN) as usize;
        start..start + PAGE_LEN as usize
    }

    #[test]
    fn what_lies_between_a_run_and_the_next_in_its_place_is_not_lost() {
        let table = LostTable::<4>::new();
        std::thread::scope(|scope| {
            let changing = scope.spawn(|| {
                for _ in 0..300_000 {
                    for run in [256..257, 768..769] {
                        assert!(table.note(&run));
                        table.forget(&run);
                    }
                }
            });
            while !changing.is_finished() {
                assert_eq!(table.first(&at(512)), None);
            }
        });
    }

    #[test]
    fn a_full_table_forgets_no_page_that_is_lost() {
        let table = LostTable::<2>::new();
        assert!(table.note(&(10..20)) && table.note(&(30..40)) && !table.note(&(50..51)));
        table.forget(&(12..14));
        assert_eq!((10..20).filter(|page| table.first(&at(*page)).is_none()).count(), 0, "both ends are lost still");
        table.forget(&(30..40));
        table.forget(&(12..14));
        assert_eq!((10..20).filter(|page| table.first(&at(*page)).is_none()).collect::<Vec<_>>(), [12, 13]);
        [10..12, 14..20].iter().for_each(|run| table.forget(run));
        assert_eq!((table.iter().count(), table.count.load(SeqCst)), (0, 0));
    }

    #[test]
    fn pages_that_continue_a_run_while_others_of_it_are_forgotten_stay_lost() {
        let (table, first) = (LostTable::<8>::new(), 1_000_000);
        let end = AtomicU64::new(first);
        assert!(table.note(&(1..first)));
        std::thread::scope(|scope| {
            let forgetting = scope.spawn(|| {
                while end.load(SeqCst) == first {
                    std::hint::spin_loop();
                }
                (1..first).for_each(|page| table.forget(&(page..page + 1)));
            });
            while !forgetting.is_finished() && end.load(SeqCst) < 10 * first {
                let page = end.fetch_add(1, SeqCst);
                assert!(table.note(&(page..page + 1)));
            }
        });
        let (start, end) = ((first * PAGE_LEN) as usize, (end.into_inner() * PAGE_LEN) as usize);
        assert_eq!((table.iter().next(), table.iter().count()), (Some(start..end), 1));
    }

    #[test]
    fn a_run_too_long_for_a_word_takes_another() {
        let table = LostTable::<2>::new();
        let longest = (1 << COUNT_BITS) - 1;
        assert!(table.note(&(1..1 + longest)) && table.note(&(1 + longest..2 + longest)));
        assert_eq!(table.iter().count(), 2);
        assert!(!LostTable::<2>::new().note(&(1 << PAGE_BITS..(1 << PAGE_BITS) + 1)), "no page is there");
    }
}
