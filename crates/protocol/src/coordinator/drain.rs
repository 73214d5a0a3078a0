//! Draining a node: what it holds goes to other nodes, and nothing new comes to it.
//!
//! Regions without copies are made ready for them (`readying`). An extent gets a further copy, and then its home or its copy on the node goes. So
//! at each moment as many nodes hold it as are asked for. The journal knows which nodes are drained.

use super::Coordinator;
use super::balance::Move;
use super::placement::Room;
use super::records::{Record, RegionRecord};
use super::roster::Phase;
use crate::error::{Error, Result};
use crate::id::NodeId;
use crate::limits::LIST_PAGE_COUNT_MAX;
use crate::placement::Extent;
use crate::wire::control::{Answer, DrainStatus, DrainWish, StayingRegion, WhyStays};
use crate::wire::copies::CopiedExtent;
use std::collections::{BTreeMap, BTreeSet};

impl Coordinator {
    /// Begins, ends or looks at the drain of a node.
    ///
    /// **Errors**: [`Error::BadSetting`] for a node that is no member, and for nodes that can get nothing.
    pub(super) fn drain(&mut self, now_ms: u64, node: NodeId, wish: &DrainWish) -> Result<Answer> {
        match wish {
            DrainWish::Begin { to } => {
                self.may_drain(node, to)?;
                if self.ledger.draining.get(&node) != Some(to) {
                    self.record(Record::Drains { node, to: to.clone() });
                    self.fit_holders_with(now_ms, node);
                }
            }
            DrainWish::Stop if self.ledger.draining.contains_key(&node) => {
                self.record(Record::DrainEnded { node });
                self.fit_holders_with(now_ms, node);
            }
            DrainWish::Stop | DrainWish::Look => {}
        }
        self.changed = true;
        Ok(Answer::Drain(self.drain_status(node)))
    }

    fn may_drain(&self, node: NodeId, to: &BTreeSet<NodeId>) -> Result<()> {
        let refuse = |key: &str, node: NodeId, reason: &str| {
            Err(Error::BadSetting { key: key.to_owned(), value: node.to_string(), reason: reason.to_owned() })
        };
        if self.roster.phase(node) != Phase::Member {
            return refuse("the node to drain", node, "it is no member at present; see `hanare status`");
        }
        for other in to {
            if *other == node || self.roster.phase(*other) != Phase::Member {
                return refuse("a node to drain to", *other, "name other nodes that are alive; see `hanare status`");
            }
            if self.ledger.draining.contains_key(other) {
                return refuse("a node to drain to", *other, "it is being drained itself");
            }
        }
        self.check_journal()
    }

    /// Free bytes of the nodes that may get a copy of an extent of these holders. One that moves has a destination.
    pub(super) fn rooms_of_copies(&self, extent: CopiedExtent, holders: &[NodeId]) -> Vec<Room> {
        let goes_there = |next: &Move| {
            let is_drained = holders.iter().any(|node| self.ledger.draining.contains_key(node));
            holders.contains(&next.from) && !holders.contains(&next.to) && !is_drained && self.room(next.to).free >= next.len
        };
        if let Some(next) = self.move_of(extent).filter(goes_there) {
            return vec![self.room(next.to)];
        }
        let wishes = holders.iter().filter_map(|node| self.ledger.draining.get(node)).filter(|to| !to.is_empty());
        let wishes: Vec<_> = wishes.collect();
        let is_written_down = self.is_written_down(extent);
        let may_have = |node: &NodeId| {
            let is_named = wishes.iter().all(|to| to.contains(node));
            is_named && !self.ledger.draining.contains_key(node) && (!is_written_down || self.persists(*node))
        };
        self.roster.members().map(|(node, _)| node).filter(may_have).map(|node| self.room(node)).collect()
    }

    fn drain_status(&self, node: NodeId) -> DrainStatus {
        let mut status = DrainStatus { drains: self.ledger.draining.contains_key(&node), ..DrainStatus::default() };
        let mut by_region = BTreeMap::new();
        for (_, gid, len) in self.ledger.held_by(node) {
            status.left = status.left.saturating_add(len);
            status.extents = status.extents.saturating_add(1);
            by_region.entry(gid).and_modify(|sum: &mut u64| *sum = sum.saturating_add(len)).or_insert(len);
        }
        let regions = by_region.into_iter().filter_map(|(gid, len)| Some((self.ledger.regions.get(&gid)?, len)));
        let stays = |(region, len): (&RegionRecord, u64)| {
            let why = self.why_stays(region, node)?;
            Some(StayingRegion { name: region.name.clone(), len, why })
        };
        status.stays = regions.filter_map(stays).take(LIST_PAGE_COUNT_MAX).collect();
        status.stays.sort_by(|one, other| one.name.cmp(&other.name));
        status.has_coordinator = self.ledger.nodes.get(&node).is_some_and(|record| record.name == self.settings.home);
        status
    }

    /// The reason for which a region's bytes do not leave a node, if there is one.
    fn why_stays(&self, region: &RegionRecord, node: NodeId) -> Option<WhyStays> {
        if !region.lost.is_empty() {
            return Some(WhyStays::Lost);
        }
        if region.holders.is_empty() {
            return self.why_not_ready(region);
        }
        let is_locked = |(index, home): (usize, &Extent)| {
            home.node == node && self.copied.is_locked(CopiedExtent { gid: region.gid, index: index as u32 })
        };
        if region.layout.extents().enumerate().any(is_locked) {
            return Some(WhyStays::Locks);
        }
        let lacks_room = |(index, home): (usize, &Extent)| -> Option<CopiedExtent> {
            let copies = region.holders.get(index).map_or(&[][..], |known| &known.copies);
            let holders: Vec<NodeId> = copies.iter().chain([home]).map(|extent| extent.node).collect();
            let extent = CopiedExtent { gid: region.gid, index: index as u32 };
            let staying = holders.iter().filter(|node| !self.is_leaving(extent, **node)).count();
            let is_short = holders.contains(&node) && staying < usize::from(region.copies);
            let rooms = self.rooms_of_copies(extent, &holders).into_iter();
            let lacks = is_short && !self.copied.is_making(extent) && self.best_for_copy(&holders, home.len, rooms).is_none();
            lacks.then_some(extent)
        };
        region.layout.extents().enumerate().find_map(lacks_room).map(|extent| self.why_no_room(extent))
    }

    /// The reason for which the nodes of a region did not make it ready for copies, if they have tried.
    pub(super) fn why_not_ready(&self, region: &RegionRecord) -> Option<WhyStays> {
        self.copied.readying.refusal(region.gid).map(|error| match error {
            Error::PoolFull { .. } => WhyStays::NoRoom,
            Error::BadUse { reason, .. } => WhyStays::NotReady(cut(reason)),
            other => WhyStays::NotReady(cut(&other.to_string())),
        })
    }
}

/// A reason is input of its node.
fn cut(reason: &str) -> String {
    reason.chars().take(300).collect()
}
