//! Seeds that must pass, and defects that must not.

use super::*;
use crate::Plan;
use crate::harness::testing::{finds_all, meets, passes, replays};

/// A program waited for ever: late news of the end of a node's life took messages to its next life away. The judge took a page for refused
/// without a cause: a host asked for it by a membership that it had forgotten, and the home heard that later.
#[test]
fn seeds_that_failed_once_hold() {
    passes::<PageWorld>(121..122, 4..5, 3.0);
    passes::<PageWorld>([1_206], 5..6, 2.0);
}

#[test]
// FEATURE: EU-F13
fn short_runs_hold_every_check() {
    passes::<PageWorld>(0..80, 1..6, 0.2);
}

/// Minutes: `cargo test --release -p hanare-sim --lib page::tests::many -- --ignored`.
#[test]
#[ignore = "takes minutes; the command is above it"]
fn many_seeds_hold_every_check() {
    passes::<PageWorld>(1_000..2_500, 2..7, 0.5);
}

#[test]
fn a_long_run_holds_every_check_and_meets_every_fault() {
    let whats = [
        "messages lost",
        "messages sent again",
        "grants overtaken",
        "deaths",
        "evictions",
        "programs killed",
        "requests taken over by a node",
        "links that broke",
        "frames filled by threads",
        "gets",
        "puts",
        "hits",
        "faults refused",
        "faults of a share that is over",
        "commands refused",
        "commands given up",
        "commands that waited for too long",
        "words seen",
        "words not seen in time",
        "waits for words given up",
        "regions used past their pages",
        "homes that came back",
        "hosts asked by a home that came back",
        "stores while the home is away",
        "next lives that nobody was told of",
        "programs that mapped",
        "programs that unmapped",
        "programs refused",
        "programs told that stores are kept",
        "programs told that stores are lost",
        "programs cut off with their host",
        "hosts that asked to join",
        "hosts that were let in",
        "hosts that were not let in",
        "hosts that left",
        "hosts told that a share is over",
        "shares forgotten",
        "grants that went with a reply",
        "pages that might be kept",
        "connections made",
        "connections that broke",
        "ways that were cut",
        "tries to connect that failed",
        "hosts that their home did without",
        "hosts told that their home did without them",
    ];
    let counts = meets::<PageWorld>(Plan { seed: 7, nodes: 4, minutes: 4.0 }, 0, &whats);
    assert!(counts["pages installed"] > 1_000, "{counts:?}");
    assert!(counts["faults refused"] * 2 < counts["pages installed"], "most faults are served: {counts:?}");
}

#[test]
fn a_seed_replays_exactly() {
    replays::<PageWorld>(0.3);
}

#[test]
fn every_defect_is_found() {
    finds_all::<PageWorld>((|_| 0, 60), (4, 0.5), |_| {});
}
