//! The experiments, one file each, in the order of the paper.
mod arbiter;
mod cases;
mod coherence;
mod copy;
mod first_use;
mod local;
mod optimised;
mod policies;
mod product;
mod remote;
mod sort;

use crate::claim::Judge;
use crate::experiment::Experiment;
use crate::outcome::Outcome;
use crate::parameters::Parameters;

const fn experiment(
    name: &'static str,
    shows: &'static str,
    run: fn(&Parameters) -> Outcome,
    claims: &'static [Judge],
) -> Experiment {
    Experiment { name, shows, takes_network: false, run, claims }
}

/// All of them.
pub const EXPERIMENTS: &[Experiment] = &[
    experiment(
        "local",
        "own memory without and with CK's check: tables 1 and 3, retries, steady state",
        local::run,
        &[
            Judge::new("EU-C1", local::local_writes)
                .fitted("bus timing solved from table 3 and the read responses of table 1", local::on_table_3),
            Judge::new("EU-C4", local::checked_accesses),
            Judge::new("EU-C5", local::checked_reads_are_faster),
        ],
    ),
    experiment(
        "remote",
        "another node's memory over a line that is up: table 2, one and two clock domains",
        remote::run,
        &[
            Judge::new("EU-C2", remote::table_2)
                .fitted("OPC's processing solved from the read throughput", remote::on_read_throughput),
            Judge::new("EU-C3", remote::read_against_write)
                .fitted("OPC's processing solved from the burst read's response", remote::on_read_response),
            Judge::new("EU-C13", remote::internal_overhead)
                .fitted("OPC's processing solved from the read throughput, as the default was", remote::on_read_throughput),
        ],
    ),
    experiment(
        "first-use",
        "a remote read packet by packet when the line must be set up: figures 3, 5 and 6",
        first_use::run,
        &[Judge::new("EU-C6", first_use::most_of_the_delay)],
    ),
    experiment("burst-write", "the timeline of a burst write: figure 7", first_use::run_write, &[]),
    experiment(
        "coherence",
        "clean and dirty blocks, ICC hit and miss, own and other memory: figures 4, 8 and 9",
        coherence::run,
        &[
            Judge::new("EU-C7", coherence::software_dominates),
            Judge::new("EU-C8", coherence::worst_against_best),
            Judge::new("EU-C9", coherence::write_back_overhead),
        ],
    ),
    experiment(
        "copy",
        "1000 copies of 4 KB between local and remote memory: table 4",
        copy::run,
        &[Judge::new("EU-C10", copy::order), Judge::new("EU-C11", copy::more_than_twice)],
    ),
    experiment("quicksort", "a parallel quicksort on one and two nodes", sort::run, &[Judge::new("EU-C12", sort::slower_on_two)]),
    experiment(
        "line-rate",
        "the optimised system against the line rate: figure 10",
        optimised::run_rate,
        &[
            Judge::new("EU-C14", optimised::goal_hit),
            Judge::new("EU-C15", optimised::goal_miss),
            Judge::new("EU-C17", optimised::rate_and_distance),
        ],
    ),
    experiment(
        "distance",
        "the optimised system against the distance: figure 11",
        optimised::run_distance,
        &[Judge::new("EU-C16", optimised::goal_far)],
    ),
    experiment(
        "arbiter",
        "software and hardware arbiter, and what each access gains",
        arbiter::run,
        &[Judge::new("EU-C18", arbiter::hardware_step)],
    ),
    experiment("policies", "immediate and deferred coherence on a program that shares and synchronises", policies::run, &[]),
    experiment(
        crate::experiment::PRODUCT,
        "the product's page rules on this hardware, beside the paper's arbiter, and on up to 1024 nodes",
        product::run,
        &[],
    ),
    experiment("icc", "ICC's hit ratio against its capacity", policies::run_icc, &[]),
];
