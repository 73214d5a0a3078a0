//! Ranks of jobs on each node, so that a node's end, or a client's, becomes a rank's.

use super::{Coordinator, Output};
use crate::id::{ClientId, JobId, JobRank, NodeId, Rank};
use std::collections::{BTreeMap, BTreeSet};

/// A rank that is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GoneRank {
    pub job: JobId,
    pub rank: Rank,
    pub ranks: Option<u32>,
}

/// The clients of each rank. A rank lives as long as one of its clients.
#[derive(Clone, Debug, Default)]
pub(super) struct Ranks {
    clients: BTreeMap<(JobId, Rank), RankClients>,
}

#[derive(Clone, Debug)]
struct RankClients {
    ranks: u32,
    here: BTreeSet<(NodeId, ClientId)>,
}

impl Ranks {
    /// A client of a rank attached to a node.
    pub fn on_client_came(&mut self, node: NodeId, client: ClientId, who: JobRank) {
        let fresh = RankClients { ranks: who.ranks, here: BTreeSet::new() };
        self.clients.entry((who.job, who.rank)).or_insert(fresh).here.insert((node, client));
    }

    /// A client of a rank is gone; returns the rank when it was the last.
    pub fn on_client_gone(&mut self, node: NodeId, client: ClientId, who: JobRank) -> Option<GoneRank> {
        let gone = GoneRank { job: who.job, rank: who.rank, ranks: Some(who.ranks) };
        let Some(clients) = self.clients.get_mut(&(who.job, who.rank)) else { return Some(gone) };
        clients.here.remove(&(node, client));
        if !clients.here.is_empty() {
            return None;
        }
        self.clients.remove(&(who.job, who.rank));
        Some(gone)
    }

    /// A rank's process ended, whatever its clients.
    pub fn on_rank_ended(&mut self, job: JobId, rank: Rank) -> GoneRank {
        let ranks = self.clients.remove(&(job, rank)).map(|clients| clients.ranks);
        GoneRank { job, rank, ranks }
    }

    /// A node is gone with its clients; returns the ranks that had no others.
    pub fn on_node_gone(&mut self, node: NodeId) -> Vec<GoneRank> {
        let mut gone = Vec::new();
        self.clients.retain(|(job, rank), clients| {
            clients.here.retain(|(other, _)| *other != node);
            if clients.here.is_empty() {
                gone.push(GoneRank { job: *job, rank: *rank, ranks: Some(clients.ranks) });
            }
            !clients.here.is_empty()
        });
        gone
    }
}

impl Coordinator {
    /// Reports ranks that are gone.
    pub(super) fn rank_gone(&mut self, gone: impl IntoIterator<Item = GoneRank>, reason: &str, died: bool) {
        let report = |GoneRank { job, rank, ranks }| Output::JobRankGone { job, rank, ranks, reason: reason.to_owned(), died };
        self.outputs.extend(gone.into_iter().map(report));
    }
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "numbers of a test")]
mod tests {
    use super::*;

    #[test]
    fn a_rank_lives_as_long_as_one_of_its_clients() {
        let who = JobRank { job: JobId(1), rank: Rank(3), ranks: 4 };
        let mut ranks = Ranks::default();
        ranks.on_client_came(NodeId(1), ClientId(1), who);
        ranks.on_client_came(NodeId(1), ClientId(2), who);
        ranks.on_client_came(NodeId(2), ClientId(1), JobRank { rank: Rank(0), ..who });
        assert_eq!(ranks.on_client_gone(NodeId(1), ClientId(1), who), None);
        let gone = GoneRank { job: JobId(1), rank: Rank(3), ranks: Some(4) };
        assert_eq!(ranks.on_node_gone(NodeId(1)), [gone]);
        assert_eq!(ranks.on_node_gone(NodeId(1)), []);
        assert_eq!(ranks.on_rank_ended(JobId(1), Rank(0)), GoneRank { rank: Rank(0), ..gone });
    }
}
