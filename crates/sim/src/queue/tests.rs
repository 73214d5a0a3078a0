//! Seeds that must pass, and defects that must not.

use super::*;
use crate::Plan;
use crate::harness::testing::{finds_all, meets, passes, replays};

#[test]
fn short_runs_hold_every_check() {
    passes::<QueueWorld>(0..200, 1..5, 0.5);
}

#[test]
fn a_long_run_holds_every_check_and_meets_every_fault() {
    let whats = [
        "appends",
        "appends behind a refused one",
        "appends that were not waited for",
        "appends without room",
        "blocks seen",
        "connections broken",
        "deaths told",
        "home deaths",
        "homes that stood still",
        "lanes resumed",
        "messages lost with their connection",
        "program deaths",
        "units spilled",
    ];
    meets::<QueueWorld>(Plan { seed: 3, nodes: 4, minutes: 30.0 }, 5, &whats);
}

#[test]
fn a_seed_replays_exactly() {
    replays::<QueueWorld>(1.0);
}

#[test]
fn every_defect_is_found() {
    finds_all::<QueueWorld>((|_| 0, 60), (3, 1.0), |_| {});
}
