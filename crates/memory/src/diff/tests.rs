use super::*;
use proptest::prelude::*;

/// Puts what was changed of `page` to the home's bytes, as a flush does.
fn put(diff: &Diff, page: &PageBytes, home: &mut PageBytes) {
    diff.runs().for_each(|(start, len)| home[start..start + len].copy_from_slice(&page[start..start + len]));
}

/// A page as a program leaves it: a few stores anywhere, in few values, so that some change nothing.
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
        prop_assert_eq!(diff.is_empty(), runs.is_empty());
        let mut home = [0x55; PAGE];
        put(&diff, &page, &mut home);
        let wanted = |at: usize| if twin[at] != page[at] { page[at] } else { 0x55 };
        prop_assert!((0..PAGE).all(|at| home[at] == wanted(at)));
        let mut again = Diff::between(&page, &twin);
        again.renew(&twin, &page);
        prop_assert!(again == diff, "what was there before is gone");
    }

    #[test]
    // FEATURE: D2-F7
    fn writers_of_different_bytes_both_survive(base in stores(), one in stores(), two in stores()) {
        let clean = stored(&[0; PAGE], &base);
        // The second writer stores only where the first did not change.
        let first = stored(&clean, &one);
        let mut second = stored(&clean, &two);
        (0..PAGE).filter(|&at| first[at] != clean[at]).for_each(|at| second[at] = clean[at]);
        let diffs = [Diff::between(&clean, &first), Diff::between(&clean, &second)];

        let mut home = clean;
        for (diff, page) in diffs.iter().zip([&first, &second]) {
            put(diff, page, &mut home);
        }
        let both = |at: usize| if first[at] != clean[at] { first[at] } else { second[at] };
        prop_assert!((0..PAGE).all(|at| home[at] == both(at)));
    }
}

#[test]
fn runs_are_found_at_every_border() {
    let twin = [0; PAGE];
    let page_of = |is_changed: &dyn Fn(usize) -> bool| std::array::from_fn(|at| u8::from(is_changed(at)));
    for (page, runs) in [
        (page_of(&|_| true), 1),
        (page_of(&|at| at == 4095), 1),
        (page_of(&|at| at % 32 == 5), 128),
        (page_of(&|at| at % 31 == 5), 132),
        (page_of(&|at| at % 2 == 0), 2048),
        (page_of(&|at| at % 16 != 0), 256),
    ] {
        let diff = Diff::between(&twin, &page);
        assert_eq!(diff.runs().count(), runs);
        let mut home = twin;
        put(&diff, &page, &mut home);
        assert_eq!(home, page);
    }
    assert!(Diff::between(&twin, &twin).is_empty());
}

proptest! {
    #[test]
    fn a_block_has_the_same_changed_bytes_however_they_are_found(old: [u8; BLOCK], places: [bool; BLOCK], flip in 1..=u8::MAX) {
        let new: [u8; BLOCK] = std::array::from_fn(|at| if places[at] { old[at] ^ flip } else { old[at] });
        let wanted = (0..BLOCK).fold(0, |mask, at| mask | u64::from(places[at]) << at);
        prop_assert_eq!((changed_bytes(&old, &new), changed_by_words(&old, &new)), (wanted, wanted));
    }
}
