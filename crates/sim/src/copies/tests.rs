//! Seeds that must pass, and defects that must not.

use super::*;
use crate::Plan;
use crate::harness::testing::{finds_all, meets, passes, replays};

#[test]
fn short_runs_hold_every_check() {
    passes::<CopyWorld>(0..300, 4..7, 0.5);
}

#[test]
fn a_long_run_holds_every_check_and_meets_every_fault() {
    let whats = [
        "additions",
        "additions that were done before",
        "connections broken",
        "connections to the coordinator broken",
        "copies made",
        "homes elected",
        "messages lost with their connection",
        "node deaths",
        "nodes cut off from the coordinator",
        "nodes that programs alone reach",
        "nodes that came back",
        "nodes that stood still",
        "nodes taken for lost",
        "reads",
        "silent copies",
        "writes that failed",
    ];
    meets::<CopyWorld>(Plan { seed: 3, nodes: 5, minutes: 10.0 }, 5, &whats);
}

#[test]
fn a_seed_replays_exactly() {
    replays::<CopyWorld>(1.0);
}

#[test]
fn every_defect_is_found() {
    finds_all::<CopyWorld>(600, (5, 1.0), |_| {});
}
