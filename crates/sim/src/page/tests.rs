//! Seeds that must pass, and sabotages that must not.

use super::*;

fn plan(seed: u64, nodes: u32, minutes: f64) -> Plan {
    Plan { seed, nodes, minutes }
}

#[test]
// FEATURE: EU-F13
fn short_runs_hold_every_check() {
    for seed in 0..80 {
        if let Err(failure) = run(plan(seed, 1 + (seed % 5) as u32, 0.2), &mut |_| {}) {
            panic!("{failure}");
        }
    }
}

/// Minutes: `cargo test --release -p hanare-sim --lib page::tests::many -- --ignored`.
#[test]
#[ignore = "takes minutes; the command is above it"]
fn many_seeds_hold_every_check() {
    for seed in 1_000..2_500 {
        if let Err(failure) = run(plan(seed, 2 + (seed % 5) as u32, 0.5), &mut |_| {}) {
            panic!("{failure}");
        }
    }
}

#[test]
fn a_long_run_holds_every_check_and_meets_every_fault() {
    let counts = run(plan(4, 4, 3.0), &mut |_| {}).unwrap_or_else(|failure| panic!("{failure}"));
    for what in [
        "messages lost",
        "messages duplicated",
        "messages overtaken",
        "deaths",
        "evictions",
        "threads killed",
        "frames filled by threads",
        "gets",
        "puts",
        "hits",
        "faults refused",
        "commands refused",
        "commands given up",
        "homes that came back",
        "pages that came home",
        "stores while the home is away",
        "next lives that nobody was told of",
    ] {
        assert!(counts.get(what).is_some_and(|count| *count > 0), "{what} never happened: {counts:?}");
    }
    assert!(counts["pages installed"] > 1_000, "{counts:?}");
    assert!(counts["faults refused"] * 2 < counts["pages installed"], "most faults are served: {counts:?}");
}

#[test]
fn a_seed_replays_exactly() {
    let once = |seed| run(plan(seed, 3, 0.3), &mut |_| {});
    assert_eq!(once(11), once(11));
    assert_ne!(once(11), once(12));
}

#[test]
fn every_sabotage_is_found() {
    use Sabotage::*;
    for sabotage in [HearTwice, SendOnce, KeepDead, ForgetOwners, TakeForOld, AskInTurns] {
        let found = (0..60).find_map(|seed| run_sabotaged(plan(seed, 4, 0.5), sabotage, &mut |_| {}).err());
        assert!(found.is_some(), "{sabotage:?} was not found");
    }
}
