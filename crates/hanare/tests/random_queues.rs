//! Random programs that write and read queues on two and three nodes: writers, readers and a node are killed at random moments, others take
//! their places, nodes stop for a while. Each committed unit is read once and in order, of queues with copies too when their home is killed.
//!
//! `HANARE_TEST_SEED=N` runs one seed, `HANARE_TEST_SEEDS=N` so many instead of a dozen. A failure names the seed, and keeps the logs.

#[path = "support/processes.rs"]
mod processes;
mod queue_programs;
mod support;

hanare_testkit::actors![processes::node_process, program_process,];

fn program_process() {
    queue_programs::program::run();
}

// FEATURE: VQ-F5 VQ-F14 VQ-F30
#[test]
fn every_committed_unit_is_read_once_and_in_order_whoever_dies() {
    run(12, 1);
}

/// The same of queues with copies, whose homes are killed: none is lost.
#[test]
fn every_unit_that_copies_have_is_read_once_and_in_order_whoever_dies() {
    run(6, 2);
}

fn run(usual: u64, copies: u8) {
    let number = |name| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let seeds = match number("HANARE_TEST_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("HANARE_TEST_SEEDS").unwrap_or(usual),
    };
    let wrong: Vec<String> = seeds.filter_map(|seed| queue_programs::run::run(seed, copies).err()).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// The judge refuses logs in which a unit is left out, read twice, torn, or never read.
#[test]
fn the_judge_knows_what_is_wrong() {
    use queue_programs::{judge, plan::Plan};
    let plan = (0..).map(Plan::new).find(|plan| plan.arrays[0].reader.node == plan.arrays[0].node).unwrap();
    let queue = plan.writers[0].queue;
    let judge = |lines: &[&str]| {
        let folder = tempfile::tempdir().unwrap();
        let text: Vec<String> = lines.iter().map(|line| line.replace('Q', &queue.to_string())).collect();
        std::fs::write(plan.log_of_reader(folder.path(), 0), text.join("\n")).unwrap();
        std::fs::write(plan.log_of_writer(folder.path(), 0, 0), "begun 2\ndone 1\n").unwrap();
        judge::check(&plan, folder.path(), |array| array != 0)
    };
    let (zero, one, freed) = ("seen Q 0 0 0 whole", "seen Q 0 0 1 whole", "freed Q 0 0 0 whole");
    for good in [&["life", zero, one][..], &["life", zero, "life", zero, one], &["life", zero, freed, one, "seen Q 0 0 2 whole"]]
    {
        assert_eq!(judge(good), Ok(()), "{good:?}");
    }
    for bad in [
        &["life", zero][..],
        &["life", one],
        &["life", zero, one, one],
        &["life", zero, freed, "life", zero, one],
        &["life", zero, "seen Q 0 0 1 torn"],
        &["life", zero, one, "seen Q 0 0 2 whole", "seen Q 0 0 3 whole"],
    ] {
        assert!(judge(bad).is_err(), "{bad:?}");
    }
}
