//! Seeds that must pass, and sabotages that must not.

use super::*;

fn plan(seed: u64, nodes: u32, minutes: f64) -> Plan {
    Plan { seed, nodes, minutes }
}

#[test]
fn short_runs_hold_every_check() {
    for seed in 0..200 {
        if let Err(failure) = run(plan(seed, 1 + (seed % 4) as u32, 0.5), &mut |_| {}) {
            panic!("{failure}");
        }
    }
}

#[test]
fn a_long_run_holds_every_check_and_meets_every_fault() {
    let counts = run(plan(3, 4, 10.0), &mut |_| {}).unwrap_or_else(|failure| panic!("{failure}"));
    for what in [
        "appends",
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
    ] {
        assert!(counts.get(what).is_some_and(|count| *count > 10), "{what} hardly happened: {counts:?}");
    }
}

#[test]
fn a_seed_replays_exactly() {
    let once = |seed| run(plan(seed, 3, 1.0), &mut |_| {});
    assert_eq!(once(11), once(11));
    assert_ne!(once(11), once(12));
}

#[test]
fn every_sabotage_is_found() {
    for sabotage in [Sabotage::ForgetNumbers, Sabotage::FreeUnread, Sabotage::SpillBackwards, Sabotage::DropWhenFull] {
        let find = |seed| World::new(plan(seed, 3, 1.0), sabotage).run(&mut |_| {}).is_err();
        assert!((0..60).any(find), "{sabotage:?} was not found");
    }
}
