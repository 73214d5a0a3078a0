//! The experiments, one file each.
mod claims;
mod message;
mod product;
mod traffic;
mod users;
mod variants;

use crate::experiment::Experiment;
use crate::outcome::Outcome;
use crate::parameters::Parameters;

const fn experiment(name: &'static str, shows: &'static str, run: fn(&Parameters) -> Outcome) -> Experiment {
    Experiment { name, shows, takes_network: false, run }
}

/// All of them.
pub const EXPERIMENTS: &[Experiment] = &[
    experiment("product", "efficiency of CC, CC', VQ and VR against the number of processors: figure 6", product::run),
    experiment("scale", "the same beyond the number of rows, up to 1024 processors", product::run_scale),
    experiment("contention", "what sets VQ and VR apart: contention for memory, or its bandwidth", variants::run_contention),
    experiment("on-chip", "the on-chip cache as write and read buffer in place of two-port memories", variants::run_on_chip),
    experiment("reuse", "how often a streamed column is used before it goes on", variants::run_reuse),
    experiment("ring-cache", "how slow the ring buffer's context cache may be", variants::run_ring_cache),
    experiment("message", "one block step by step, with and without the bypass, and what the program pays", message::run),
    experiment(
        "fine-grain",
        "irregular traffic: context caches and cost of a message against the number of streams",
        traffic::run,
    ),
    experiment("overflow", "many senders and one slow reader: interrupts, saved blocks, order", traffic::run_overflow),
    experiment("users", "processes that share a processor: contexts on demand against registers saved", users::run),
];
