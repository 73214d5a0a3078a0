//! Seeds that must pass, and sabotages that must not.

use super::*;

fn passes(seed: u64, nodes: u32, minutes: f64) {
    if let Err(failure) = run(Plan { seed, nodes, minutes }, &mut |_| {}) {
        panic!("{failure}");
    }
}

#[test]
fn many_short_runs_hold_every_check() {
    for seed in 0..200 {
        passes(seed, 1 + (seed % 4) as u32, 1.0);
    }
}

#[test]
fn a_long_run_holds_every_check_and_meets_every_fault() {
    let counts = run(Plan { seed: 7, nodes: 4, minutes: 20.0 }, &mut |_| {}).unwrap_or_else(|failure| panic!("{failure}"));
    for what in [
        "messages lost",
        "messages duplicated",
        "process deaths",
        "partitions",
        "barrier releases",
        "barrier failures",
        "accesses refused",
        "refused: region lost",
        "refused: node lost",
        "refused: quota",
        "journals compacted",
        "nodes left",
    ] {
        assert!(counts.get(what).is_some_and(|count| *count > 0), "{what} never happened: {counts:?}");
    }
}

#[test]
fn a_seed_replays_exactly() {
    let once = |seed| run(Plan { seed, nodes: 3, minutes: 2.0 }, &mut |_| {});
    assert_eq!(once(11), once(11));
    assert_ne!(once(11), once(12));
}

#[test]
fn every_sabotage_is_found_and_names_the_line_that_replays_it() {
    use Sabotage::*;
    for sabotage in [JournalLate, FreeNothing, KeepGrants, ForgetExtents, ReleaseEarly, SwallowAnswers, ReuseIncarnation] {
        let found = (0..20).find_map(|seed| {
            let plan = Plan { seed, nodes: 3, minutes: 2.0 };
            run_sabotaged(plan, sabotage, &mut |_| {}).err()
        });
        let failure = found.unwrap_or_else(|| panic!("{sabotage:?} was not found"));
        let line = format!("replay: hanare sim --seed {} --nodes 3 --minutes 2", failure.plan.seed);
        assert!(failure.to_string().contains(&line), "{failure}");
    }
}
