//! The deterministic cluster simulator: the protocol for N nodes under a seed, with faults and checkers.
//!
//! [`run`] drives the machines of `hanare-protocol` (coordinator, members, job barriers) as a node's process does, over virtual time
//! and a network that loses, delays, reorders, duplicates and partitions; processes die at any output, restart, and stop for a while;
//! clients ask at random and ranks of jobs meet at barriers and die. After every event a naive model judges what came out. At the end
//! all faults heal, and nothing may be left over: no extent without a region, no request without an answer, no rank that waits.
//!
//! Everything comes from the seed: a failure prints the one line that replays it.
#![forbid(unsafe_code)]

mod checks;
mod cluster;
mod dice;
mod faults;
mod jobs;
mod lender;
mod network;
pub mod page;
mod process;
mod report;
mod work;

pub use report::{Failure, Plan, Report};

use cluster::Cluster;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Simulates `nodes` nodes for so many minutes of virtual time under faults chosen by `seed`, then until all is quiet.
///
/// `progress` is called now and then with the share that is done. **Cost**: about a second for ten virtual minutes of three nodes.
///
/// **Errors**: the first check that did not hold, with the line that replays it.
pub fn run(seed: u64, nodes: u32, minutes: f64, progress: &mut dyn FnMut(f64)) -> Result<Report, Failure> {
    run_sabotaged(Plan { seed, nodes: nodes.max(1), minutes }, Sabotage::None, progress)
}

/// A defect put in on purpose: the checkers must find it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sabotage {
    /// None: the real thing.
    None,
    /// The coordinator's process acts on outputs before its journal is durable.
    #[cfg(test)]
    JournalLate,
    /// A node does not free extents.
    #[cfg(test)]
    FreeNothing,
    /// A node goes on with the grants of its old epoch.
    #[cfg(test)]
    KeepGrants,
    /// A node forgets extents when its connection closes.
    #[cfg(test)]
    ForgetExtents,
    /// The barrier's home releases a rank when the first arrives.
    #[cfg(test)]
    ReleaseEarly,
    /// A node answers requests of its clients never.
    #[cfg(test)]
    SwallowAnswers,
    /// A new life of a node claims to be the old one.
    #[cfg(test)]
    ReuseIncarnation,
}

fn run_sabotaged(plan: Plan, sabotage: Sabotage, progress: &mut dyn FnMut(f64)) -> Result<Report, Failure> {
    let mut cluster = Cluster::new(plan, sabotage);
    let outcome = catch_unwind(AssertUnwindSafe(|| cluster.run(progress)));
    let what = match outcome {
        Ok(Ok(())) => return Ok(Report { plan, counts: cluster.counts() }),
        Ok(Err(what)) => what,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
            format!("an assertion failed: {}", text.unwrap_or("see above"))
        }
    };
    Err(Failure { plan, at_ms: cluster.now_ms(), what, trail: cluster.trail() })
}

#[cfg(test)]
mod tests;
