use super::*;
use proptest::prelude::*;

fn encoded(diff: &Diff, page: &PageBytes) -> Vec<u8> {
    let mut bytes = vec![0xee; diff.encoded_len()];
    diff.encode(page, &mut bytes);
    bytes
}

/// A page as a program leaves it: a few stores at any place, in few values, so that some change nothing.
fn stores() -> impl Strategy<Value = Vec<(usize, Vec<u8>)>> {
    let store = (0..PAGE, prop::collection::vec(0..3u8, 1..70));
    prop::collection::vec(store, 0..40)
}

fn stored(base: &PageBytes, stores: &[(usize, Vec<u8>)]) -> PageBytes {
    let mut page = *base;
    for (at, bytes) in stores {
        let end = (at + bytes.len()).min(PAGE);
        page[*at..end].copy_from_slice(&bytes[..end - at]);
    }
    page
}

/// The runs as one finds them byte by byte.
fn naive_runs(twin: &PageBytes, page: &PageBytes) -> Vec<(usize, usize)> {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for at in (0..PAGE).filter(|&at| twin[at] != page[at]) {
        match runs.last_mut() {
            Some((start, len)) if *start + *len == at => *len += 1,
            _ => runs.push((at, 1)),
        }
    }
    runs
}

proptest! {
    #[test]
    // FEATURE: D2-F7
    fn a_diff_is_what_was_changed_and_nothing_else(base in stores(), own in stores()) {
        let twin = stored(&[0; PAGE], &base);
        let page = stored(&twin, &own);
        let diff = Diff::between(&twin, &page);
        let runs = naive_runs(&twin, &page);
        prop_assert_eq!(diff.runs().collect::<Vec<_>>(), runs.clone());
        prop_assert_eq!(diff.run_count(), runs.len());
        prop_assert_eq!(diff.changed_count(), runs.iter().map(|run| run.1).sum::<usize>());
        prop_assert!((0..PAGE).all(|at| diff.is_changed(at) == (twin[at] != page[at])));
        if !diff.is_empty() {
            let mut target = [0x55; PAGE];
            prop_assert_eq!(apply(&encoded(&diff, &page), &mut target), Ok(diff.clone()));
            let wanted = |at| if diff.is_changed(at) { page[at] } else { 0x55 };
            prop_assert!((0..PAGE).all(|at| target[at] == wanted(at)));
        }
    }

    #[test]
    // FEATURE: D2-F7
    fn writers_of_different_bytes_both_survive(base in stores(), one in stores(), two in stores(), later in stores()) {
        let clean = stored(&[0; PAGE], &base);
        // The second writer stores only where the first did not change.
        let first = stored(&clean, &one);
        let mut second = stored(&clean, &two);
        (0..PAGE).filter(|&at| first[at] != clean[at]).for_each(|at| second[at] = clean[at]);
        let diffs = [Diff::between(&clean, &first), Diff::between(&clean, &second)];
        prop_assert_eq!(diffs[0].count_common(&diffs[1]), 0);

        let mut home = clean;
        for (diff, page) in diffs.iter().zip([&first, &second]).filter(|(diff, _)| !diff.is_empty()) {
            apply(&encoded(diff, page), &mut home).unwrap();
        }
        let both = |at: usize| if first[at] != clean[at] { first[at] } else { second[at] };
        prop_assert!((0..PAGE).all(|at| home[at] == both(at)));

        // The second host updates before it flushed: it sees the first one's stores and keeps its own, and flushes them later.
        let mut at_home = clean;
        if !diffs[0].is_empty() {
            apply(&encoded(&diffs[0], &first), &mut at_home).unwrap();
        }
        let (mut page, mut twin) = (second, Twin::of(&clean));
        prop_assert_eq!(merge(&mut page, &mut twin, &at_home), diffs[1].clone());
        prop_assert!((0..PAGE).all(|at| page[at] == both(at)));
        prop_assert_eq!(twin.bytes(), &at_home);
        let page = stored(&page, &later);
        let rest = Diff::between(twin.bytes(), &page);
        if !rest.is_empty() {
            apply(&encoded(&rest, &page), &mut at_home).unwrap();
        }
        prop_assert_eq!(at_home, page);
    }

    #[test]
    fn what_a_peer_sends_is_refused_or_means_itself(mut bytes in prop::collection::vec(any::<u8>(), 0..700), form in 0..3u16) {
        if form > 0 && bytes.len() >= 2 {
            bytes[..2].copy_from_slice(&[0x8000, form][usize::from(form) - 1].to_le_bytes());
        }
        let mut page = [7; PAGE];
        match apply(&bytes, &mut page) {
            Ok(diff) => prop_assert_eq!(encoded(&diff, &page).len() <= bytes.len(), true),
            Err(_) => prop_assert_eq!(page, [7; PAGE]),
        }
    }

    #[test]
    fn a_changed_encoding_breaks_nothing(own in stores(), bit in 0..8u8, places in any::<[prop::sample::Index; 2]>()) {
        let [at, cut] = places;
        let page = stored(&[0; PAGE], &own);
        let diff = Diff::between(&[0; PAGE], &page);
        prop_assume!(!diff.is_empty());
        let mut bytes = encoded(&diff, &page);
        let cut = cut.index(bytes.len());
        let mut target = [9; PAGE];
        prop_assert!(apply(&bytes[..cut], &mut target).is_err(), "a part of it is no diff");
        prop_assert_eq!(target, [9; PAGE]);
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        if apply(&bytes, &mut target).is_err() {
            prop_assert_eq!(target, [9; PAGE]);
        }
    }
}

#[test]
fn the_length_is_bounded_by_the_shorter_form() {
    let twin = [0; PAGE];
    let page_of = |is_changed: &dyn Fn(usize) -> bool| std::array::from_fn(|at| u8::from(is_changed(at)));
    for (page, runs, len) in [
        (page_of(&|_| true), 1, 2 + 4 + PAGE),
        (page_of(&|at| at == 4095), 1, 2 + 4 + 1),
        (page_of(&|at| at % 32 == 5), 128, 2 + 128 * 5),
        (page_of(&|at| at % 31 == 5), 132, 2 + 512 + 132),
        (page_of(&|at| at % 2 == 0), 2048, 2 + 512 + 2048),
        (page_of(&|at| at % 16 != 0), 256, 2 + 512 + 256 * 15),
    ] {
        let diff = Diff::between(&twin, &page);
        assert_eq!((diff.run_count(), diff.encoded_len()), (runs, len));
        assert!(len <= DIFF_LEN_MAX);
        let mut target = twin;
        apply(&encoded(&diff, &page), &mut target).unwrap();
        assert_eq!(target, page);
    }
    assert!(Diff::between(&twin, &twin).is_empty());
}

#[test]
fn what_is_no_diff_is_refused() {
    let mask_of_none = [&0x8000u16.to_le_bytes()[..], &[0; 512]].concat();
    let bad: [(&str, &[u8]); 9] = [
        ("nothing", &[]),
        ("no runs", &[0, 0]),
        ("too many runs", &[129, 0]),
        ("an empty run", &[1, 0, 5, 0, 0, 0]),
        ("a run beyond the page", &[1, 0, 0xff, 0x0f, 2, 0, 1, 1]),
        ("runs out of order", &[2, 0, 9, 0, 1, 0, 1, 3, 0, 1, 0, 1]),
        ("runs that touch", &[2, 0, 3, 0, 1, 0, 1, 4, 0, 1, 0, 1]),
        ("bytes after the last run", &[1, 0, 3, 0, 1, 0, 1, 1]),
        ("a mask of nothing", &mask_of_none),
    ];
    for (what, bytes) in bad {
        let mut page = [3; PAGE];
        assert!(apply(bytes, &mut page).is_err(), "{what}");
        assert_eq!(page, [3; PAGE], "{what}");
    }
}

#[test]
fn a_race_is_counted_and_false_sharing_is_told_from_it() {
    let twin = [0; PAGE];
    let with = |range: std::ops::Range<usize>| {
        let mut page = twin;
        page[range].fill(1);
        Diff::between(&twin, &page)
    };
    assert_eq!(with(0..100).count_common(&with(90..200)), 10);
    assert!(!with(0..100).is_falsely_shared(&with(90..200)));
    assert!(with(0..100).is_falsely_shared(&with(100..200)));
    assert!(!with(0..100).is_falsely_shared(&with(0..0)));
}
