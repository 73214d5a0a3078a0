//! Halos exchanged as parts of regions and as packed bytes are the same, bit for bit, as those of a run in main memory.

use crate::stage;

use stage::{Stage, each_app, value};

// FEATURE: D3-F25
#[test]
fn layers_that_are_sent_copied_and_packed_give_the_bits_of_a_run_in_main_memory() {
    each_app("halo/halo", &[], |program| {
        for (nodes, ranks) in [(1, 1), (2, 2), (2, 4)] {
            let stage = Stage::of(nodes);
            for (dims, side) in [("3d", "6"), ("4d", "3")] {
                for mode in ["part", "copy", "pack"] {
                    let line =
                        &stage.pass(program, &["--dims", dims, side, "--sweeps", "5", "--mode", mode, "--check"], ranks)[0];
                    assert_eq!((value(line, "ranks"), value(line, "mode")), (ranks.to_string().as_str(), mode), "{line}");
                    assert_eq!((value(line, "wrong"), value(line, "ok")), ("0", "1"), "{line}");
                }
            }
        }
    });
}
