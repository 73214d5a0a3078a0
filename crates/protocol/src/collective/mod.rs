//! Plans of collective operations, without bytes: the parts that each party sends, and its use of those that come.
//!
//! Bytes are divided into *parts*. A plan is a list of steps, which a party does in order. In a step it first sends, then *folds*. It takes
//! one part from each of several parties, in a fixed order, whatever the order of arrival. So a result is the same, bit for bit, each time,
//! and at every party.
//!
//! ```text
//! all-reduce   parties of a host ──> its first party ──> first parties of the other hosts ──> back to the parties of each host
//!              folded in order of number                folded in order of hosts
//! ```
//!
//! | operation | messages between hosts |
//! |---|---|
//! | broadcast | one to each host, along a binomial tree |
//! | reduce | one from each host |
//! | all-reduce | one between any two hosts; of long vectors on more than two hosts two, each with a part |
//! | all-gather | one between any two hosts, with the blocks of its parties |
//! | gather, scatter, all-to-all | one for each block |
//!
//! | module | holds |
//! |---|---|
//! | `plan` | the plans |
//! | [`header`] | the fields before the bytes of a part |

pub mod header;
mod plan;

#[cfg(test)]
mod tests;

pub use plan::{Fold, PartyPlan, PlanStep, Source};

use std::collections::BTreeMap;

/// A collective operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Collective {
    /// All have the root's vector. One part.
    Broadcast {
        /// The party that gets.
        root: u32,
    },
    /// The root has the fold of all vectors. One part.
    Reduce {
        /// The root of the operation.
        root: u32,
    },
    /// All have the fold of all vectors.
    AllReduce {
        /// True if the vector is so short that dividing it gains nothing. Does not change the result.
        is_short: bool,
    },
    /// The root has a block of each party. A part for each party.
    Gather {
        /// The root of the operation.
        root: u32,
    },
    /// Each has a block of the root's. A part for each party.
    Scatter {
        /// The party that gets.
        root: u32,
    },
    /// All have a block of each party. A part for each party.
    AllGather,
    /// Each gets a block of each party's, meant for it. A sent part is named by its receiver, a folded part by its sender.
    AllToAll,
}

/// Parties by host. Hosts are in the order of their first parties, and parties of a host in the order of their numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartyHosts {
    host_of: Vec<usize>,
    members: Vec<Vec<u32>>,
}

impl PartyHosts {
    /// For parties on those nodes, one for each party; at most as many as a `u32` counts.
    pub fn new(nodes: &[u64]) -> PartyHosts {
        let mut hosts = PartyHosts { host_of: Vec::with_capacity(nodes.len()), members: Vec::new() };
        let mut known = BTreeMap::new();
        for (party, node) in (0..).zip(nodes) {
            let host = *known.entry(*node).or_insert(hosts.members.len());
            if host == hosts.members.len() {
                hosts.members.push(Vec::new());
            }
            hosts.members[host].push(party);
            hosts.host_of.push(host);
        }
        hosts
    }

    /// Number of parties.
    pub fn party_count(&self) -> usize {
        self.host_of.len()
    }

    /// Number of their hosts.
    pub fn host_count(&self) -> usize {
        self.members.len()
    }
}
