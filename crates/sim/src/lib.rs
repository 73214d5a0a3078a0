//! The deterministic cluster simulator: the protocol for N nodes under a seed, with faults and checkers.
//!
//! [`run`] drives the home of nodes (`hanare-home`) and the machines of `hanare-protocol`, as a node's process does. Time is virtual, and
//! each world has machines of its own:
//!
//! | world | machines | what goes wrong |
//! |---|---|---|
//! | `cluster` | coordinator, members, job barriers; the home of nodes with its commands of links, the sessions of nodes, copies of extents, flushes, queues with copies, locks with leases, data bound to locks, named groups; the leases of programs and nodes | messages lost, late, twice, in another order; partitions; processes that die or stop; connections that break, seen by either side at its own time; commits that come late; in pools with keepers, leaders that are deposed and do not know it; nodes of two releases, tenants that go and come again |
//! | `pages` | the shared regions of nodes: homes, hosts, connections between nodes | connections between nodes and links of threads that break; nodes that do not reach each other; programs that map, unmap and die; nodes that die, or stand still while their pages are written elsewhere |
//! | `queues` | homes of queues that spill | the same connections; writers and readers that die; homes that stop, or die |
//!
//! Everything comes from the seed: a failure prints the one line that replays it.
#![forbid(unsafe_code)]

mod check;
mod cluster;
mod dice;
mod harness;
mod links;
mod network;
mod page;
mod queue;
mod report;
mod served;
mod wires;

use harness::World;
pub use report::{Counts, Failure, Plan, Report};

/// Simulates a plan in one world, and tells how far it is.
type Simulate = fn(Plan, &mut dyn FnMut(f64)) -> Result<Counts, Failure>;

const WORLDS: &[(&str, Simulate)] = &[named::<cluster::Cluster>(), named::<page::PageWorld>(), named::<queue::QueueWorld>()];

const fn named<W: World>() -> (&'static str, Simulate) {
    (W::NAME, harness::simulate::<W>)
}

/// Simulates `nodes` nodes for so many minutes of virtual time under faults chosen by `seed`, then until all is quiet: in each
/// world, one after the other.
///
/// `progress` is called now and then with the share that is done. **Cost**: about a second for ten virtual minutes of three nodes.
///
/// **Errors**: the first check that did not hold, with the line that replays it.
pub fn run(seed: u64, nodes: u32, minutes: f64, progress: &mut dyn FnMut(f64)) -> Result<Report, Failure> {
    let plan = Plan { seed, nodes: nodes.max(1), minutes };
    let mut report = Report { plan, worlds: Default::default() };
    for (at, (name, run)) in WORLDS.iter().enumerate() {
        let counts = run(plan, &mut |share| progress((at as f64 + share) / WORLDS.len() as f64))?;
        report.worlds.insert(name, counts);
    }
    Ok(report)
}

#[cfg(test)]
mod tests;
