//! The experiments, one file each.
mod claims;
mod message;
mod product;
mod traffic;
mod users;
mod variants;

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
        "product",
        "efficiency of CC, CC', VQ and VR against the number of processors: figure 6",
        product::run,
        &[
            Judge::new("VQ-C1", claims::cc_against_plain),
            Judge::new("VQ-C2", claims::plain),
            Judge::new("VQ-C3", claims::synchronisation),
            Judge::new("VQ-C4", claims::few_processors_cc),
            Judge::new("VQ-C5", claims::many_processors_cc),
            Judge::new("VQ-C6", claims::few_processors_queues),
            Judge::new("VQ-C7", claims::no_overflow),
            Judge::new("VQ-C8", claims::never_beats),
            Judge::new("VQ-C10", claims::hit_ratio),
            Judge::new("VQ-C11", claims::comparable),
        ],
    ),
    experiment("orders", "four claims in four orders of the loops", product::run_orders, &[]),
    experiment("scale", "the same beyond the number of rows, up to 1024 processors", product::run_scale, &[]),
    experiment(
        "contention",
        "what sets VQ and VR apart: contention for memory, or its bandwidth",
        variants::run_contention,
        &[Judge::new("VQ-C9", variants::contention_not_bandwidth)],
    ),
    experiment("on-chip", "the on-chip cache as write and read buffer in place of two-port memories", variants::run_on_chip, &[]),
    experiment("reuse", "how often a streamed column is used before it goes on", variants::run_reuse, &[]),
    experiment("ring-cache", "how slow the ring buffer's context cache may be", variants::run_ring_cache, &[]),
    experiment(
        "message",
        "one block step by step, with and without the bypass, and what the program pays",
        message::run,
        &[Judge::new("VQ-C14", message::no_further_work)],
    ),
    experiment(
        "fine-grain",
        "irregular traffic: context caches and cost of a message against the number of streams",
        traffic::run,
        &[Judge::new("VQ-C13", traffic::future_work)],
    ),
    experiment("overflow", "many senders and one slow reader: interrupts, saved blocks, order", traffic::run_overflow, &[]),
    experiment(
        crate::experiment::PRODUCT,
        "the same overflow under the rules of the product's queues, beside the paper's four steps",
        traffic::run_rules,
        &[],
    ),
    experiment(
        "users",
        "processes that share a processor: contexts on demand against registers saved",
        users::run,
        &[Judge::new("VQ-C12", users::registers_are_context)],
    ),
];
