//! Seeds that must pass, and defects that must not.

use super::*;
use crate::Plan;
use crate::harness::testing::{finds_all, meets, passes, replays};

#[test]
fn short_runs_hold_every_check() {
    passes::<EntryWorld>(0..200, 1..6, 0.5);
}

#[test]
fn a_long_run_holds_every_check_and_meets_every_fault() {
    let whats = [
        "messages lost with their connection",
        "locks lost with their connection",
        "connections that stood still",
        "connections broken",
        "program deaths",
        "node deaths",
        "home deaths",
        "grants",
        "grants of abandoned locks",
        "grants with all",
        "grants with bytes",
        "grants with places",
        "grants with nothing more",
        "waits for locks",
        "looks at bound data",
        "releases",
        "releases in one message",
        "releases redone",
        "torn releases",
        "stores of the dead refused",
    ];
    meets::<EntryWorld>(Plan { seed: 3, nodes: 4, minutes: 50.0 }, 10, &whats);
}

#[test]
fn a_seed_replays_exactly() {
    replays::<EntryWorld>(1.0);
}

#[test]
fn every_defect_is_found() {
    finds_all::<EntryWorld>((|_| 0, 200), (3, 1.0), |_| {});
}
