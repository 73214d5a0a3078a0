//! Euphoria's table 4: all four placements are copied, and the bytes are right wherever they are looked at.

use crate::stage;

use stage::{Stage, each_app, value};

/// The placements in the paper's order, and its times beside that from own to own memory.
const PAPER: [(&str, f64); 4] =
    [("own-to-own", 1.0), ("own-to-other", 28.2 / 0.28), ("other-to-own", 20.1 / 0.28), ("other-to-other", 62.5 / 0.28)];

// FEATURE: EU-F19
#[test]
fn four_placements_are_copied_and_stand_beside_the_papers() {
    each_app("table4/table4", &[], |program| {
        for (nodes, ranks, mode) in [(1, 1, "coherent"), (1, 2, "coherent"), (1, 3, "explicit"), (2, 2, "explicit")] {
            let lines = Stage::of(nodes).pass(program, &["25", "--mode", mode], ranks);
            assert_eq!(lines[0].lines().count(), PAPER.len());
            for (line, (variant, ratio)) in lines[0].lines().zip(PAPER) {
                assert_eq!((value(line, "variant"), value(line, "copies")), (variant, "25"));
                assert_eq!(value(line, "nodes"), nodes.to_string());
                let told: f64 = value(line, "paper_ratio").parse().unwrap();
                assert!((told / ratio - 1.0).abs() < 1e-6, "{line}");
            }
        }
    });
}
