//! The table of lost pages: runs of addresses, noted by signal handlers of any thread and read after each guarded access.
//!
//! The list has no lock and takes no memory, because a signal handler writes to it.

use std::ops::Range;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicUsize, fence};

/// A run of lost pages; free when `start` is 0.
struct LostRun {
    start: AtomicUsize,
    end: AtomicUsize,
    /// Count of runs stored here so far. It rises after a run's start is stored and before its end.
    runs: AtomicUsize,
}

impl LostRun {
    /// Both ends of one run. Between two loads another thread may free this entry and use it for another run.
    fn bounds(&self) -> (usize, usize) {
        loop {
            let runs = self.runs.load(SeqCst);
            let bounds = (self.start.load(SeqCst), self.end.load(SeqCst));
            if self.runs.load(SeqCst) == runs {
                return bounds;
            }
        }
    }
}

/// Most runs of lost pages at one time; one truncated file is one run. Beyond it a fault is fatal, as without a guard.
const LOST_RUN_COUNT_MAX: usize = 256;

static LOST: [LostRun; LOST_RUN_COUNT_MAX] =
    [const { LostRun { start: AtomicUsize::new(0), end: AtomicUsize::new(0), runs: AtomicUsize::new(0) } }; LOST_RUN_COUNT_MAX];
static LOST_COUNT: AtomicUsize = AtomicUsize::new(0);

/// True if any page of this process is lost; asked after each access.
#[inline]
pub(crate) fn is_any_lost() -> bool {
    // ORDERING: pairs with the fetch_add in `note_lost`: whoever read zeros from a replaced page finds it counted.
    fence(std::sync::atomic::Ordering::Acquire);
    LOST_COUNT.load(Relaxed) != 0
}

/// Adds pages to a run that they continue, or as a run of their own. False where the table is full.
pub(super) fn note_lost(pages: Range<usize>) -> bool {
    for run in &LOST {
        let (start, end) = run.bounds();
        let continues = start != 0
            && (end == pages.start && run.end.compare_exchange(end, pages.end, SeqCst, SeqCst).is_ok()
                || start == pages.end && run.start.compare_exchange(start, pages.start, SeqCst, SeqCst).is_ok());
        if continues || start == 0 && run.start.compare_exchange(0, pages.start, SeqCst, SeqCst).is_ok() {
            if !continues {
                run.runs.fetch_add(1, SeqCst);
                run.end.store(pages.end, SeqCst);
                LOST_COUNT.fetch_add(1, SeqCst);
            }
            return true;
        }
    }
    false
}

/// The runs of lost pages at this moment.
pub(super) fn lost_runs() -> impl Iterator<Item = Range<usize>> {
    LOST.iter().map(LostRun::bounds).filter(|(start, _)| *start != 0).map(|(start, end)| start..end)
}

/// The first lost byte of a range, counted from its start.
pub(super) fn first_lost(range: Range<usize>) -> Option<usize> {
    let overlap = |run: &LostRun| {
        let (start, end) = run.bounds();
        let (start, end) = (start.max(range.start), end.min(range.end));
        (start < end).then(|| start - range.start)
    };
    LOST.iter().filter_map(overlap).min()
}

/// Forgets what was lost in an address range that is unmapped or mapped anew; [`crate::Mapping`] does so by itself.
pub fn forget(range: Range<usize>) {
    if LOST_COUNT.load(SeqCst) == 0 {
        return;
    }
    for run in &LOST {
        let (start, end) = run.bounds();
        if start == 0 || end <= range.start || range.end <= start {
            continue;
        }
        match (start < range.start, range.end < end) {
            (false, false) => {
                LOST_COUNT.fetch_sub(1, SeqCst);
                run.end.store(0, SeqCst);
                run.start.store(0, SeqCst);
            }
            (false, true) => run.start.store(range.end, SeqCst),
            (true, is_more_behind) => {
                run.end.store(range.start, SeqCst);
                if is_more_behind {
                    note_lost(range.end..end);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_between_a_run_and_the_next_in_its_place_is_not_lost() {
        // Addresses that nothing of this process is at.
        let (low, between, high) = (1 << 20..(1 << 20) + 4096, 2 << 20..(2 << 20) + 4096, 3 << 20..(3 << 20) + 4096);
        std::thread::scope(|scope| {
            let changing = scope.spawn(|| {
                for _ in 0..300_000 {
                    for run in [&low, &high] {
                        assert!(note_lost(run.clone()));
                        forget(run.clone());
                    }
                }
            });
            while !changing.is_finished() {
                assert_eq!(first_lost(between.clone()), None);
            }
        });
    }
}
