//! Random programs on two and three nodes, killed at random moments and others started in their place, against an oracle for each
//! way to map.
//!
//! `HANARE_TEST_SEED=N` runs one seed, `HANARE_TEST_SEEDS=N` so many instead of a dozen. A failure names the seed, and keeps
//! what each thread noted; the moments of a run differ from one to the next.

#[path = "support/processes.rs"]
mod processes;
mod random;
mod support;

hanare_testkit::actors![processes::node_process, program_process,];

use hanare::Consistency;

fn program_process() {
    random::program::run();
}

fn run_all(mode: Consistency) {
    let number = |name| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let seeds = match number("HANARE_TEST_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("HANARE_TEST_SEEDS").unwrap_or(12),
    };
    let wrong: Vec<String> = seeds.filter_map(|seed| random::run::run(seed, mode).err()).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

#[test]
// FEATURE: EU-F12 EU-F13 EU-F14 EU-F17
fn coherent_programs_see_one_memory_whoever_dies() {
    run_all(Consistency::Coherent);
}

#[test]
// FEATURE: D2-F4 D2-F7
fn explicit_programs_see_what_was_flushed_and_nothing_else() {
    run_all(Consistency::Explicit);
}

#[test]
fn explicit_programs_as_on_linux_6_1() {
    support::once_more_as_on_linux(module_path!(), "6.1", &["as_on_linux", "coherent_programs"]);
}
