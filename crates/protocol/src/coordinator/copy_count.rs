//! The number of copies of a region, and the nodes that are chosen for them.

use super::Coordinator;
use super::placement::{Plan, Room};
use super::records::RegionRecord;
use crate::copies::HolderSet;
use crate::error::{Error, Result};
use crate::id::NodeId;
use crate::limits::COPY_COUNT_MAX;
use crate::wire::copies::CopiedExtent;
use std::collections::{BTreeMap, BTreeSet};

/// Refuses a number of copies that no region has.
pub(super) fn check(copies: u8) -> Result<()> {
    if (1..=COPY_COUNT_MAX).contains(&copies) {
        return Ok(());
    }
    Err(refusal(copies, format!("a region has 1 to {COPY_COUNT_MAX}")))
}

fn refusal(copies: u8, reason: String) -> Error {
    Error::BadPlacement { placement: format!("copies={copies}"), reason }
}

impl Coordinator {
    /// The nodes of the copies of each part of a plan. A part without copies has an empty list, if the region's homes may change (`has_holders`).
    ///
    /// **Errors**: [`Error::BadPlacement`] for more copies than nodes; [`Error::PoolFull`].
    pub(super) fn plan_copies(&self, plan: &Plan, copies: u8, has_holders: bool) -> Result<Vec<Vec<NodeId>>> {
        if !has_holders {
            return Ok(Vec::new());
        }
        let mut free = self.rooms_for(copies)?;
        for (node, len) in &plan.parts {
            free.entry(*node).and_modify(|free| *free = free.saturating_sub(*len));
        }
        let more = |(home, len): &(NodeId, u64)| self.more_holders(&mut free, vec![*home], *len, copies);
        plan.parts.iter().map(more).collect()
    }

    /// Refuses a number of copies that a region cannot have today.
    ///
    /// **Errors**: those of [`Coordinator::plan_copies`]; [`Error::RegionLost`].
    pub(super) fn may_have_copies(&self, region: &RegionRecord, copies: u8) -> Result<()> {
        check(copies)?;
        if copies == region.copies {
            return Ok(());
        }
        if let Some(node) = region.lost.first() {
            return Err(Error::RegionLost { region: region.name.clone(), node: *node });
        }
        if copies > region.copies {
            let mut free = self.rooms_for(copies)?;
            for (index, home) in region.layout.extents().enumerate() {
                let known = region.holders.get(index).map_or(&[][..], |known| &known.copies);
                let holders = std::iter::once(home).chain(known).map(|extent| extent.node).collect();
                self.more_holders(&mut free, holders, home.len, copies)?;
            }
        }
        Ok(())
    }

    /// Free bytes of each node, where there are enough nodes for so many copies.
    fn rooms_for(&self, copies: u8) -> Result<BTreeMap<NodeId, u64>> {
        let rooms: BTreeMap<NodeId, u64> = self
            .roster
            .members()
            .filter(|(node, seat)| seat.memory.is_lender() && !self.ledger.draining.contains_key(node))
            .map(|(node, _)| (node, self.room(node).free))
            .collect();
        if rooms.len() < usize::from(copies) {
            return Err(refusal(
                copies,
                format!("each copy is on a node of its own, and the pool has {} that lend memory", rooms.len()),
            ));
        }
        Ok(rooms)
    }

    /// Further nodes for an extent of those holders, until it has so many. Their free bytes become less.
    fn more_holders(&self, free: &mut BTreeMap<NodeId, u64>, holders: Vec<NodeId>, len: u64, copies: u8) -> Result<Vec<NodeId>> {
        let (count, mut all) = (holders.len(), holders);
        while all.len() < usize::from(copies) {
            let rooms = free.iter().map(|(node, free)| Room { free: *free, ..self.room(*node) });
            let node = self.best_for_copy(&all, len, rooms);
            let others = || free.iter().filter(|(node, _)| !all.contains(node));
            let (most, withheld) = (others().map(|(_, free)| *free).max(), others().map(|(node, _)| self.room(*node).withheld));
            let full = Error::PoolFull { asked: len, free: most.unwrap_or(0), withheld: withheld.fold(0, u64::saturating_add) };
            let node = node.ok_or(full)?;
            free.entry(node).and_modify(|free| *free = free.saturating_sub(len));
            all.push(node);
        }
        Ok(all.split_off(count))
    }

    /// The best node for a further copy of an extent that these nodes hold. Other hosts come before other nodes, those with most room first.
    pub(super) fn best_for_copy(&self, holders: &[NodeId], len: u64, rooms: impl Iterator<Item = Room>) -> Option<NodeId> {
        let hosts: BTreeSet<&str> = holders.iter().map(|node| self.host(*node)).collect();
        let fits = rooms.filter(|room| room.free >= len && !holders.contains(&room.node));
        let key = |room: &Room| (!hosts.contains(self.host(room.node)), room.free, std::cmp::Reverse(room.node));
        fits.max_by_key(key).map(|room| room.node)
    }

    /// The copy that an extent needs least: on a node that it leaves, on a host that has another holder, on the node with least room.
    pub(super) fn least_of_copies(&self, extent: CopiedExtent, set: &HolderSet) -> Option<NodeId> {
        let holders = || set.copies.iter().chain([&set.home]);
        let is_beside = |node: NodeId| holders().any(|other| *other != node && self.host(*other) == self.host(node));
        let key =
            |node: &NodeId| (self.is_leaving(extent, *node), is_beside(*node), std::cmp::Reverse(self.room(*node).free), *node);
        set.copies.iter().copied().max_by_key(key)
    }

    /// The host of a node, by its address.
    pub(super) fn host(&self, node: NodeId) -> &str {
        let address = self.ledger.nodes.get(&node).map_or("", |record| record.address.as_str());
        address.rsplit_once(':').map_or(address, |(host, _)| host)
    }
}
