//! The experiments, one file each, in the order of the paper.
mod arbiter;
mod cases;
mod coherence;
mod copy;
mod first_use;
mod local;
mod optimised;
mod policies;
mod remote;
mod sort;

use crate::experiment::Experiment;
use crate::outcome::Outcome;
use crate::parameters::Parameters;

const fn experiment(name: &'static str, shows: &'static str, run: fn(&Parameters) -> Outcome) -> Experiment {
    Experiment { name, shows, takes_network: false, run }
}

/// All of them.
pub const EXPERIMENTS: &[Experiment] = &[
    experiment("local", "own memory without and with CK's check: tables 1 and 3, retries, steady state", local::run),
    experiment("remote", "another node's memory over a line that is up: table 2, one and two clock domains", remote::run),
    experiment("first-use", "a remote read packet by packet when the line must be set up: figures 3, 5 and 6", first_use::run),
    experiment("burst-write", "the timeline of a burst write: figure 7", first_use::run_write),
    experiment("coherence", "clean and dirty blocks, ICC hit and miss, own and other memory: figures 4, 8 and 9", coherence::run),
    experiment("copy", "1000 copies of 4 KB between local and remote memory: table 4", copy::run),
    experiment("quicksort", "a parallel quicksort on one and two nodes", sort::run),
    experiment("line-rate", "the optimised system against the line rate: figure 10", optimised::run_rate),
    experiment("distance", "the optimised system against the distance: figure 11", optimised::run_distance),
    experiment("arbiter", "software and hardware arbiter, and what each access gains", arbiter::run),
    experiment("policies", "immediate and deferred coherence on a program that shares and synchronises", policies::run),
    experiment("icc", "ICC's hit ratio against its capacity", policies::run_icc),
];
