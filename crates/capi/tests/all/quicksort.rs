//! Quicksort on mapped memory sorts, and keeps every number.

use crate::stage;

use stage::{SHARINGS, Stage, each_app, threads_app, value};

fn assert_right(line: &str, ranks: usize) {
    assert_eq!((value(line, "ranks"), value(line, "wrong")), (ranks.to_string().as_str(), "0"), "{line}");
}

// FEATURE: EU-F20
#[test]
fn ranks_on_mapped_memory_sort() {
    each_app("quicksort/mapped", &[], |program| {
        for (nodes, ranks, mode) in SHARINGS {
            // Fewer numbers than ranks; parts that share a page; parts of many pages.
            for count in ["2", "1000", "100003"] {
                let arguments = [count, "--mode", mode, "--check"];
                assert_right(&Stage::of(nodes).pass(program, &arguments, ranks)[0], ranks);
            }
        }
    });
}

// FEATURE: EU-F20
#[test]
fn one_and_threads_in_main_memory_sort_too() {
    let stage = Stage::of(1);
    each_app("quicksort/plain", &[], |program| assert_right(&stage.pass(program, &["100003", "--check"], 1)[0], 1));
    let Some(threads) = threads_app("quicksort/threads") else { return };
    for (count, ranks) in [("100003", 2), ("1", 4)] {
        let arguments = [count, "--threads", &ranks.to_string(), "--check"];
        assert_right(&stage.pass(&threads, &arguments, 1)[0], ranks);
    }
}
