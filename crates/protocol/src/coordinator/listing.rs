//! Views of the pool: a region, a page of regions, the nodes.

use super::records::RegionRecord;
use super::region::unknown;
use super::roster::Phase;
use super::{Coordinator, permission};
use crate::error::Result;
use crate::id::{Asker, NodeId};
use crate::limits::{CONTROL_LEN_MAX, LIST_PAGE_COUNT_MAX};
use crate::tenant::{is_tenant, parts};
use crate::wire::control::{Answer, Memory, NodeStatus, PoolStatus, RegionStat};
use std::collections::BTreeMap;
use std::ops::Bound;

/// Bytes of a page of a listing that are surely within a control message.
const PAGE_BUDGET: usize = CONTROL_LEN_MAX / 4;

impl Coordinator {
    /// Describes a region.
    pub(super) fn stat(&self, name: &str, user: &Asker) -> Result<Answer> {
        let region = self.ledger.region_named(name).ok_or_else(|| unknown(name))?;
        permission::may_see(region, user)?;
        Ok(Answer::Stat(self.stat_of(region)))
    }

    /// A page of the regions behind a name that a user may see, by name.
    pub(super) fn list(&self, after: &str, user: &Asker) -> Answer {
        let names = self.ledger.names.range::<str, _>((Bound::Excluded(after), Bound::Unbounded));
        // A tenant's names stand side by side: how many others have takes it no time.
        let tenant = |name: &str| parts(name).map(|(tenant, _)| tenant.to_owned());
        let (own, is_tenant) = (tenant(after), is_tenant(user.user.uid));
        let names = names.take_while(|(name, _)| !is_tenant || tenant(name) == own);
        let (mut regions, mut budget) = (Vec::new(), PAGE_BUDGET);
        for (name, gid) in names.filter(|(_, gid)| permission::may_see(&self.ledger.regions[gid], user).is_ok()) {
            let stat = self.stat_of(&self.ledger.regions[gid]);
            let extents = stat.nodes.len().saturating_mul(16);
            let cost = 64usize
                .saturating_add(name.len())
                .saturating_add(extents)
                .saturating_add(stat.attributes.len_bytes().saturating_mul(2));
            if regions.len() == LIST_PAGE_COUNT_MAX || cost > budget {
                return Answer::List { regions, more: true };
            }
            budget = budget.saturating_sub(cost);
            regions.push(stat);
        }
        Answer::List { regions, more: false }
    }

    fn stat_of(&self, region: &RegionRecord) -> RegionStat {
        let mut nodes: BTreeMap<NodeId, u64> = BTreeMap::new();
        for extent in region.all_extents() {
            let sum = nodes.entry(extent.node).or_default();
            *sum = sum.saturating_add(extent.len);
        }
        let is_gone = |node: &&NodeId| matches!(self.roster.phase(**node), Phase::Absent | Phase::Dead | Phase::Left);
        RegionStat {
            copies: region.copies,
            whole_copies: region.holders.iter().map(|holders| 1u8.saturating_add(holders.copies.len() as u8)).min().unwrap_or(1),
            name: region.name.clone(),
            gid: region.gid,
            len: region.layout.len(),
            placement: region.placement,
            lost: region.lost.first().or_else(|| nodes.keys().find(is_gone)).copied(),
            nodes: nodes.into_iter().collect(),
            owner: region.owner.uid,
            mode: region.mode,
            attributes: region.attributes.clone(),
        }
    }

    /// Describes the pool to a user.
    pub(super) fn status(&self, user: &Asker) -> PoolStatus {
        let mut stays = self.staying(user);
        let nodes = self.ledger.nodes.values().map(|record| NodeStatus {
            node: record.node,
            name: record.name.clone(),
            address: record.address.clone(),
            epoch: record.epoch,
            alive: self.roster.phase(record.node) == Phase::Member,
            drains: self.ledger.draining.contains_key(&record.node),
            memory: self.roster.seat(record.node).map_or(Memory::default(), |seat| seat.memory),
            leaving: self.overhang(record.node),
            stays: stays.remove(&record.node).unwrap_or_default(),
        });
        PoolStatus { nodes: nodes.collect(), regions: self.region_count(user) }
    }
}
