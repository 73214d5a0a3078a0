//! Rebalancing: extents move to nodes with more room, by the way of drains. A further copy is made, and then the old holder goes.
//! Moves of `shortage` and `following` go the same way.
//!
//! Moves are in no journal. A coordinator that begins again finds extents with a copy too many, or as before, and makes them fit.

use super::Coordinator;
use super::balance::{self, Movable, Move, MoveCause, NodeFill, may_move};
use super::following::Followers;
use super::records::RegionRecord;
use super::roster::Phase;
use super::settings::{MOVE_COUNT, REMAKE_MS};
use super::shortage::Resting;
use crate::error::Result;
use crate::id::{Gid, NodeId};
use crate::limits::LIST_PAGE_COUNT_MAX;
use crate::placement::Extent;
use crate::wire::control::{Answer, WhyStays};
use crate::wire::copies::CopiedExtent;
use crate::wire::rebalance::{ExtentMove, FailedMove, RebalanceStatus, RebalanceWish};
use std::collections::{BTreeMap, BTreeSet};

/// Time between looks at moves under way.
const LOOK_MS: u64 = REMAKE_MS / 3;

/// Moves under way, and those that were given up since they began.
#[derive(Clone, Debug, Default)]
pub(super) struct ExtentMoves {
    pub under_way: BTreeMap<CopiedExtent, Move>,
    failed: Vec<FailedMove>,
    /// Extents that did not leave nodes whose hosts run short of memory.
    pub resting: Resting,
    /// Extents that could not follow their users.
    pub followers: Followers,
    looks_at_ms: u64,
}

impl ExtentMoves {
    /// When [`Coordinator::tick_moves`] has something to do.
    pub fn deadline(&self) -> Option<u64> {
        (!self.under_way.is_empty()).then_some(self.looks_at_ms)
    }

    /// Moves under way that a rebalancing has begun.
    fn rebalancing(&self) -> impl Iterator<Item = &Move> {
        self.under_way.values().filter(|next| next.cause == MoveCause::Rebalance)
    }
}

impl Coordinator {
    /// Begins, ends or looks at moves. **Errors**: those of a journal that takes no records.
    pub(super) fn rebalance(&mut self, now_ms: u64, wish: RebalanceWish) -> Result<Answer> {
        self.give_up_moves(now_ms);
        let with_local = match wish {
            RebalanceWish::Begin { with_local } => {
                self.check_journal()?;
                self.begin_moves(now_ms, with_local);
                with_local
            }
            RebalanceWish::Look { with_local } => with_local,
            RebalanceWish::Stop => {
                let gids = self.moves.rebalancing().map(|next| next.extent.gid).collect();
                self.moves.under_way.retain(|_, next| next.cause != MoveCause::Rebalance);
                self.fit_regions(now_ms, &gids);
                false
            }
        };
        self.changed = true;
        Ok(Answer::Rebalance(self.rebalance_status(with_local)))
    }

    fn begin_moves(&mut self, now_ms: u64, with_local: bool) {
        if self.moves.rebalancing().next().is_none() {
            self.moves.failed.clear();
        }
        let room = MOVE_COUNT.saturating_sub(self.moves.under_way.len());
        let moves = self.plan_moves(with_local, room);
        self.move_extents(now_ms, moves);
    }

    /// Has these extents move. A home that had locks when it was asked before is asked again.
    pub(super) fn move_extents(&mut self, now_ms: u64, moves: Vec<Move>) {
        moves.iter().for_each(|next| self.copied.forget_locks(next.extent));
        let gids = moves.iter().map(|next| next.extent.gid).collect();
        self.moves.under_way.extend(moves.into_iter().map(|next| (next.extent, next)));
        self.fit_regions(now_ms, &gids);
    }

    /// The move of an extent, as long as its destination can get it. A home that is to follow to a copy stays where it is without that copy.
    pub(super) fn move_of(&self, extent: CopiedExtent) -> Option<Move> {
        let next = self.moves.under_way.get(&extent)?;
        let is_receiver = self.roster.phase(next.to) == Phase::Member && !self.ledger.draining.contains_key(&next.to);
        let is_of_use = next.cause.next_home().is_none_or(|home| home == next.to || self.copied.holds(extent, home));
        (is_receiver && is_of_use && self.may_hold(extent, next.to)).then_some(*next)
    }

    /// Members that may get extents: no drain empties them.
    pub(super) fn receivers(&self) -> BTreeSet<NodeId> {
        self.roster.members().map(|(node, _)| node).filter(|node| !self.ledger.draining.contains_key(node)).collect()
    }

    /// True if a node is not to hold an extent any more: it is drained, or the extent moves elsewhere.
    pub(super) fn is_leaving(&self, extent: CopiedExtent, node: NodeId) -> bool {
        self.ledger.draining.contains_key(&node) || self.move_of(extent).is_some_and(|next| next.from == node)
    }

    /// True if a home is not to hold its extent of the region any more.
    pub(super) fn has_leaving_home(&self, region: &RegionRecord) -> bool {
        let homes = region.layout.extents().enumerate();
        let mut homes = homes.map(|(index, home)| (CopiedExtent { gid: region.gid, index: index as u32 }, home.node));
        homes.any(|(extent, node)| self.is_leaving(extent, node))
    }

    /// Looks at moves from time to time. Extents that nobody looks at any more are taken up again: a destination may have been away.
    pub(super) fn tick_moves(&mut self, now_ms: u64) {
        if self.moves.deadline().is_none_or(|at_ms| at_ms > now_ms) {
            return;
        }
        self.give_up_moves(now_ms);
        let is_idle = |extent: &&CopiedExtent| !self.copied.is_unsettled(**extent) && !self.copied.readying.has(extent.gid);
        let idle: BTreeSet<Gid> = self.moves.under_way.keys().filter(is_idle).map(|extent| extent.gid).collect();
        self.moves.looks_at_ms = now_ms.saturating_add(LOOK_MS);
        self.want_holders(now_ms, &idle);
    }

    /// Moves that have ended, and those that cannot end, are none any more.
    pub(super) fn give_up_moves(&mut self, now_ms: u64) {
        let outcomes: Vec<(Move, Option<WhyStays>)> =
            self.moves.under_way.values().filter_map(|next| Some((*next, self.outcome(next)?))).collect();
        let mut gids = BTreeSet::new();
        for (next, why) in outcomes {
            self.moves.under_way.remove(&next.extent);
            gids.insert(next.extent.gid);
            match next.cause {
                MoveCause::Rebalance => {
                    let what = self.in_words(&next);
                    self.moves.failed.extend(what.zip(why).map(|(what, why)| FailedMove { what, why }));
                }
                MoveCause::Shortage => self.moves.resting.on_outcome(now_ms, &next, why),
                MoveCause::Users(_) => self.moves.followers.on_outcome(now_ms, &next, why),
            }
        }
        self.moves.failed.truncate(LIST_PAGE_COUNT_MAX);
        self.moves.looks_at_ms = now_ms.saturating_add(LOOK_MS);
        self.want_holders(now_ms, &gids);
    }

    /// The end of a move: `Some(None)` if the extent has left its node, or is no more. `None` while it moves.
    fn outcome(&self, next: &Move) -> Option<Option<WhyStays>> {
        let Some(region) = self.ledger.regions.get(&next.extent.gid) else { return Some(None) };
        let index = next.extent.index as usize;
        let Some(home) = region.layout.extents().nth(index) else { return Some(None) };
        let copies = region.holders.get(index).map_or(&[][..], |known| &known.copies);
        let holders: Vec<NodeId> = copies.iter().chain([home]).map(|extent| extent.node).collect();
        if !holders.contains(&next.from) || self.is_needless(next, &holders) {
            return Some(None);
        }
        if self.move_of(next.extent).is_none() {
            return Some(Some(WhyStays::NoRoom));
        }
        if let Some(why) = self.why_not_ready(region) {
            return Some(Some(why));
        }
        if home.node == next.from && self.copied.is_locked(next.extent) {
            return Some(Some(WhyStays::Locks));
        }
        let has_room = holders.contains(&next.to) || self.room(next.to).free >= next.len;
        let waits_for_room = !has_room && !self.copied.is_making(next.extent);
        waits_for_room.then_some(Some(WhyStays::NoRoom))
    }

    /// Plans moves.
    fn plan_moves(&self, with_local: bool, count: usize) -> Vec<Move> {
        let members = self.roster.members().filter(|(node, _)| !self.ledger.draining.contains_key(node));
        let nodes: BTreeMap<NodeId, u64> =
            members.map(|(node, seat)| (node, seat.memory.lent.saturating_sub(seat.memory.spilled))).collect();
        let keys = nodes.keys().copied().collect();
        let fill = |(node, lent): (&NodeId, &u64)| NodeFill {
            node: *node,
            lent: *lent,
            used: lent.saturating_sub(self.room(*node).free),
            persists: self.persists(*node),
        };
        let fills: Vec<NodeFill> = nodes.iter().map(fill).collect();
        let mut movables = Vec::new();
        let regions = self.ledger.regions.values().filter(|region| may_move(region, with_local));
        regions.for_each(|region| self.movables_of(region, &keys, &mut movables));
        balance::plan(&fills, movables, |node| self.host(node), count)
    }

    /// Adds the extents of a region that may move now: all holders are well, and nothing else moves them.
    pub(super) fn movables_of(&self, region: &RegionRecord, nodes: &BTreeSet<NodeId>, movables: &mut Vec<Movable>) {
        if !region.lost.is_empty() || self.growths.contains_key(&region.gid) {
            return;
        }
        for (index, home) in region.layout.extents().enumerate() {
            let extent = CopiedExtent { gid: region.gid, index: index as u32 };
            let copies = region.holders.get(index).map_or(&[][..], |known| &known.copies);
            let holders: Vec<&Extent> = copies.iter().chain([home]).collect();
            let is_well = holders.iter().all(|holder| nodes.contains(&holder.node));
            if !is_well || self.copied.is_making(extent) || self.moves.under_way.contains_key(&extent) {
                continue;
            }
            let is_written_down = self.is_written_down(extent);
            for holder in &holders {
                let others = holders.iter().map(|other| other.node).filter(|other| *other != holder.node).collect();
                movables.push(Movable { extent, node: holder.node, len: holder.len, others, is_written_down });
            }
        }
    }

    fn rebalance_status(&self, with_local: bool) -> RebalanceStatus {
        let is_under_way = self.moves.rebalancing().next().is_some();
        let mut moves: Vec<Move> = match is_under_way {
            true => self.moves.rebalancing().copied().collect(),
            false => self.plan_moves(with_local, MOVE_COUNT),
        };
        moves.sort_by_key(|next| (std::cmp::Reverse(next.len), next.extent));
        let left = moves.iter().map(|next| next.len).fold(0, u64::saturating_add);
        let bound = self.ledger.regions.values().filter(|region| !may_move(region, with_local));
        let bound = bound.flat_map(RegionRecord::all_extents).map(|extent| extent.len).fold(0, u64::saturating_add);
        let told = moves.iter().take(LIST_PAGE_COUNT_MAX).filter_map(|next| self.in_words(next)).collect();
        RebalanceStatus { is_under_way, moves: told, left, failed: self.moves.failed.clone(), bound }
    }

    /// A move with its region's name, while the region is there.
    fn in_words(&self, next: &Move) -> Option<ExtentMove> {
        let region = self.ledger.regions.get(&next.extent.gid)?.name.clone();
        Some(ExtentMove { region, from: next.from, to: next.to, len: next.len })
    }
}
