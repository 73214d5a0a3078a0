//! LU on mapped memory gives the bits of the sequential run, on any number of ranks.

use crate::stage;

use stage::{SHARINGS, Stage, each_app, threads_app, value};

fn assert_right(line: &str, ranks: usize) {
    assert_eq!(value(line, "ranks"), ranks.to_string(), "{line}");
    assert_eq!(value(line, "max_difference"), "0", "{line}");
    assert!(value(line, "max_residual").parse::<f64>().is_ok_and(|most| most < 1e-9), "{line}");
}

#[test]
// FEATURE: RF-F21
fn ranks_on_mapped_memory_find_what_one_finds() {
    each_app("lu/mapped", &[], |program| {
        for (nodes, ranks, mode) in SHARINGS {
            // 101 rows are no whole number of blocks of 7; a block for each row has a meeting for each row.
            for block in ["7", "1"] {
                let arguments = ["101", "--block", block, "--mode", mode, "--check"];
                assert_right(&Stage::of(nodes).pass(program, &arguments, ranks)[0], ranks);
            }
        }
    });
}

#[test]
fn one_and_threads_in_main_memory_are_right_too() {
    let stage = Stage::of(1);
    each_app("lu/plain", &[], |program| assert_right(&stage.pass(program, &["100", "--check"], 1)[0], 1));
    let Some(threads) = threads_app("lu/threads") else { return };
    assert_right(&stage.pass(&threads, &["100", "--threads", "3", "--check"], 1)[0], 3);
}

#[test]
fn a_wrong_word_gets_the_usage() {
    let stage = Stage::of(1);
    each_app("lu/plain", &[], |program| {
        for wrong in [&["--mode", "other"][..], &["--block"], &["0"], &["-x"], &["40000"]] {
            let output = &stage.run(program, wrong, 1)[0];
            assert_eq!(output.status.code(), Some(2), "{wrong:?}");
            assert!(!output.stderr.is_empty(), "{wrong:?}");
        }
    });
}
