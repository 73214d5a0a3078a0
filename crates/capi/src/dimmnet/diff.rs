//! Which bytes of a copy differ from its twin: runs, and patterns of equal runs at equal distance.
//!
//! A run never holds a byte that is equal in both: another rank may have changed that byte at its home, and sending
//! ours would undo it.

use hanare_protocol::shape::Strided;
use std::ops::Range;

/// Bytes compared at once where nothing differs.
const WIDE: usize = 4096;
const WORD: usize = size_of::<u64>();

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + WORD].try_into().expect("eight bytes"))
}

/// The first position from `at` on where the two differ, or their length.
fn first_difference(copy: &[u8], twin: &[u8], mut at: usize) -> usize {
    while at + WIDE <= copy.len() && copy[at..at + WIDE] == twin[at..at + WIDE] {
        at += WIDE;
    }
    while at + WORD <= copy.len() {
        let different = word(copy, at) ^ word(twin, at);
        if different != 0 {
            return at + different.trailing_zeros() as usize / 8;
        }
        at += WORD;
    }
    (at..copy.len()).find(|at| copy[*at] != twin[*at]).unwrap_or(copy.len())
}

/// The first position from `at` on where the two are equal, or their length.
fn first_equality(copy: &[u8], twin: &[u8], mut at: usize) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const TOPS: u64 = 0x8080_8080_8080_8080;
    while at + WORD <= copy.len() {
        let different = word(copy, at) ^ word(twin, at);
        // Borrows run upwards only, so the lowest top bit that is set marks the lowest zero byte.
        let zeros = different.wrapping_sub(ONES) & !different & TOPS;
        if zeros != 0 {
            return at + zeros.trailing_zeros() as usize / 8;
        }
        at += WORD;
    }
    (at..copy.len()).find(|at| copy[*at] == twin[*at]).unwrap_or(copy.len())
}

/// The first run of differing bytes from `at` on.
///
/// **Shapes**: `copy` and `twin` have the same length. **Cost**: about a memcmp of what is equal.
pub fn next_run(copy: &[u8], twin: &[u8], at: usize) -> Option<Range<usize>> {
    assert_eq!(copy.len(), twin.len(), "a twin is as long as its copy");
    let start = first_difference(copy, twin, at);
    (start < copy.len()).then(|| start..first_equality(copy, twin, start))
}

/// Adds a run behind the last one of `pattern`, if the pattern goes on with it.
pub fn extend(pattern: &mut Strided, run: &Range<u64>) -> bool {
    if run.end - run.start != pattern.block {
        return false;
    }
    let distance = run.start - pattern.offset;
    if pattern.count == 1 {
        pattern.stride = distance;
    } else if distance != pattern.count * pattern.stride {
        return false;
    }
    pattern.count += 1;
    true
}

/// Brings `copy` and `twin` up to date with the home's `fresh` bytes. Bytes of the copy that differ from the twin are
/// this rank's own stores and stay.
pub fn merge(copy: &mut [u8], twin: &mut [u8], fresh: &[u8]) {
    let pages = copy.chunks_mut(WIDE).zip(twin.chunks_mut(WIDE)).zip(fresh.chunks(WIDE));
    for ((copy, twin), fresh) in pages {
        // Most pages have no news; not writing to them keeps untouched memory untouched.
        if twin == fresh {
            continue;
        }
        if copy == twin {
            copy.copy_from_slice(fresh);
        } else {
            for ((copy, twin), fresh) in copy.iter_mut().zip(&*twin).zip(fresh) {
                if copy == twin {
                    *copy = *fresh;
                }
            }
        }
        twin.copy_from_slice(fresh);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all_runs(copy: &[u8], twin: &[u8]) -> Vec<Range<usize>> {
        std::iter::successors(next_run(copy, twin, 0), |last| next_run(copy, twin, last.end)).collect()
    }

    /// Few distinct bytes, so that equal ones are as frequent as different ones; long enough for every inner loop.
    fn pairs() -> impl Strategy<Value = (Vec<u8>, Vec<u8>)> {
        let sparse = (1usize..20_000, proptest::collection::vec((0usize..20_000, 0usize..40), 0..20)).prop_map(|(len, marks)| {
            let twin = vec![7u8; len];
            let mut copy = twin.clone();
            for (at, count) in marks {
                copy.iter_mut().skip(at % len).take(count).for_each(|byte| *byte = 9);
            }
            (copy, twin)
        });
        let dense = proptest::collection::vec((0u8..3, 0u8..3), 0..200).prop_map(|pairs| pairs.into_iter().unzip());
        prop_oneof![sparse, dense]
    }

    proptest! {
        // FEATURE: D2-F7
        #[test]
        fn runs_hold_exactly_the_bytes_that_differ((copy, twin) in pairs()) {
            let mut marked = vec![false; copy.len()];
            for run in all_runs(&copy, &twin) {
                prop_assert!(!run.is_empty());
                marked[run].fill(true);
            }
            for at in 0..copy.len() {
                prop_assert_eq!(marked[at], copy[at] != twin[at], "byte {}", at);
            }
        }

        #[test]
        fn patterns_hold_exactly_their_runs((copy, twin) in pairs()) {
            let runs: Vec<Range<u64>> = all_runs(&copy, &twin).into_iter().map(|run| run.start as u64..run.end as u64).collect();
            let mut patterns: Vec<Strided> = Vec::new();
            for run in &runs {
                if !patterns.last_mut().is_some_and(|last| extend(last, run)) {
                    patterns.push(Strided::contiguous(run.start, run.end - run.start));
                }
            }
            let again: Vec<Range<u64>> = patterns.iter().flat_map(|pattern| {
                assert!(pattern.check("r", copy.len() as u64).is_ok(), "{pattern:?}");
                (0..pattern.count).map(|k| pattern.offset + k * pattern.stride).map(|at| at..at + pattern.block).collect::<Vec<_>>()
            }).collect();
            prop_assert_eq!(again, runs);
        }

        #[test]
        fn merging_keeps_own_stores_and_takes_all_other_news((copy, twin) in pairs(), seed: u64) {
            let fresh: Vec<u8> = (0..copy.len() as u64).map(|at| (at.wrapping_mul(seed | 1) >> 60) as u8).collect();
            let (mut merged, mut newer) = (copy.clone(), twin.clone());
            merge(&mut merged, &mut newer, &fresh);
            prop_assert_eq!(&newer, &fresh);
            for at in 0..copy.len() {
                prop_assert_eq!(merged[at], if copy[at] == twin[at] { fresh[at] } else { copy[at] });
            }
        }
    }

    #[test]
    fn equal_runs_at_equal_distance_are_one_pattern() {
        let (mut copy, twin) = (vec![0u8; 8192], vec![0u8; 8192]);
        for row in 0..64 {
            copy[row * 128 + 8..row * 128 + 13].fill(1);
        }
        let mut pattern = Strided::contiguous(8, 5);
        for run in all_runs(&copy, &twin).iter().skip(1) {
            assert!(extend(&mut pattern, &(run.start as u64..run.end as u64)));
        }
        assert_eq!(pattern, Strided { offset: 8, block: 5, count: 64, stride: 128 });
    }
}
