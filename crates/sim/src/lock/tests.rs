//! Seeds that must pass, and defects that must not.

use super::*;
use crate::Plan;
use crate::harness::testing::{finds_all, meets, passes, replays};

#[test]
fn short_runs_hold_every_check() {
    passes::<LockWorld>(0..200, 1..6, 0.5);
}

#[test]
fn a_long_run_holds_every_check_and_meets_every_fault() {
    let whats = [
        "messages lost with their connection",
        "locks lost with their connection",
        "connections that stood still",
        "connections broken",
        "client deaths",
        "node deaths",
        "home deaths",
        "grants",
        "grants of abandoned locks",
        "waits for locks",
        "waits given up",
        "locks busy",
        "group rounds",
        "group failures",
        "waits forsaken",
        "grants beside holders of a life before",
        "locks leased",
        "locks kept",
        "locks taken again",
        "recalls",
        "locks that were kept",
        "locks that were held",
        "recalls without an answer",
        "locks busy after a recall",
        "nodes cut off",
        "questions lost",
    ];
    meets::<LockWorld>(Plan { seed: 3, nodes: 4, minutes: 180.0 }, 10, &whats);
}

#[test]
fn a_seed_replays_exactly() {
    replays::<LockWorld>(1.0);
}

#[test]
fn every_defect_is_found() {
    finds_all::<LockWorld>(400, (3, 1.0), |_| {});
}
