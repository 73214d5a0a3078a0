//! The budget of faults: no fault takes the last well holder of programs' words. A byte that is lost is a failure then.

use super::memory::SimExtent;
use super::process::{Home, Process};
use super::{Cluster, Terms};
use hanare_protocol::coordinator::{Coordinator, Record, Settings};
use hanare_protocol::copies::HoldersState;
use hanare_protocol::id::{Gid, NodeId, Slot};
use std::collections::BTreeSet;

impl Cluster {
    /// True if this node may be taken away. Each region of words keeps a well holder, in each set of holders that may count.
    pub(super) fn may_lose(&self, node: usize) -> bool {
        if self.terms != Terms::Budget {
            return true;
        }
        let is_of_today = |home: &&Home| self.keepers.as_ref().is_none_or(|keepers| home.reign == Some(keepers.truth.reign()));
        let Some(home) = self.home().filter(is_of_today) else { return false };
        self.keeps(&home.coordinator, node) && self.journals().iter().all(|coordinator| self.keeps(coordinator, node))
    }

    /// The coordinators that may come after this one: of the batches that are not committed the first few are kept, or none.
    fn journals(&self) -> Vec<Coordinator> {
        let restore =
            |records: &mut dyn Iterator<Item = Record>| Coordinator::restore(Settings::new("any"), records, self.now_ms);
        match &self.keepers {
            Some(keepers) => keepers.possible().iter().map(|history| restore(&mut history.records().iter().cloned())).collect(),
            None => self.journal.possible().map(|mut records| restore(&mut records)).collect(),
        }
    }

    /// True if this coordinator has a well holder of each region of words without the node.
    fn keeps(&self, coordinator: &Coordinator, node: usize) -> bool {
        let electing: BTreeSet<Gid> = coordinator
            .holders()
            .filter(|(_, _, state)| *state == HoldersState::Electing)
            .map(|(extent, ..)| extent.gid)
            .collect();
        Self::word_regions(coordinator).all(|region| {
            // A home that is lost counts for none, though its place is not taken yet.
            let home = region.layout.extents().next().filter(|_| !electing.contains(&region.gid));
            let copies = region.holders.first().map_or(&[][..], |known| &known.copies);
            let mut holders = home.into_iter().chain(copies);
            holders.any(|holder| self.is_well(node, (holder.node, holder.slot), region.gid))
        })
    }

    /// True if a holder has all that was answered, and nothing is wrong with it. A copy that a home wants to drop is not well.
    fn is_well(&self, lost: usize, (node, slot): (NodeId, Slot), gid: Gid) -> bool {
        let Some(at) = self.host_of(node).filter(|at| *at != lost) else { return false };
        let host = &self.hosts[at];
        let Some(process) = &host.process else { return false };
        let is_reached =
            !host.is_stopped && !host.is_partitioned && process.member.phase() == hanare_protocol::member::Phase::Member;
        let is_doubted = |process: &Process| process.doubted.iter().any(|(extent, copy)| extent.gid == gid && *copy == node);
        let is_doubted = self.hosts.iter().filter_map(|host| host.process.as_ref()).any(is_doubted);
        is_reached && !is_doubted && process.lender.bytes(gid, slot).is_some_and(|extent| !extent.has_failed())
    }

    /// The host whose process has that number in the pool.
    fn host_of(&self, node: NodeId) -> Option<usize> {
        let is_it = |process: &Process| process.member.identity().is_some_and(|(id, _)| id == node);
        self.hosts.iter().position(|host| host.process.as_ref().is_some_and(is_it))
    }

    /// An extent on a node.
    pub(super) fn holder(&self, node: NodeId, gid: Gid, slot: Slot) -> Option<&SimExtent> {
        self.hosts[self.host_of(node)?].process.as_ref()?.lender.bytes(gid, slot)
    }
}
