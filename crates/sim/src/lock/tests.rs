//! Seeds that must pass, and sabotages that must not.

use super::*;

fn plan(seed: u64, nodes: u32, minutes: f64) -> Plan {
    Plan { seed, nodes, minutes }
}

#[test]
fn short_runs_hold_every_check() {
    for seed in 0..200 {
        if let Err(failure) = run(plan(seed, 1 + (seed % 5) as u32, 0.5), &mut |_| {}) {
            panic!("{failure}");
        }
    }
}

#[test]
fn a_long_run_holds_every_check_and_meets_every_fault() {
    let counts = run(plan(3, 4, 20.0), &mut |_| {}).unwrap_or_else(|failure| panic!("{failure}"));
    for what in [
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
    use Sabotage::*;
    let all = [
        ForgetGrants,
        GrantTwice,
        KeepDead,
        DieQuietly,
        ForgetBounds,
        ReleaseEarly,
        SwallowFailures,
        TrustRestart,
        WithdrawLikeUnlock,
    ];
    for sabotage in all {
        let found = (0..20).find_map(|seed| run_sabotaged(plan(seed, 3, 1.0), sabotage, &mut |_| {}).err());
        assert!(found.is_some(), "{sabotage:?} was not found");
    }
}
