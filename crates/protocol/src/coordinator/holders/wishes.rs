//! The next change of an extent's holders: more copies, fewer, or another home. Regions and drains of nodes ask for it.

use super::super::Coordinator;
use super::super::roster::Phase;
use super::super::settings::REMAKE_MS;
use super::CopiedExtent;
use crate::id::{Gid, NodeId};
use std::collections::BTreeSet;

/// The next change of an extent whose home answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HolderWish {
    None,
    /// A copy is missing.
    More,
    /// A copy is one too many.
    Fewer,
    /// A copy is to follow the home, whose node is drained or gives the extent to another.
    Move,
}

impl Coordinator {
    /// The order by which a copy of an extent is made at present, for checks.
    pub fn making_order(&self, extent: CopiedExtent) -> Option<u64> {
        self.copied.extents.get(&extent)?.remade.map(|remade| remade.order)
    }

    /// The next change of an extent whose home answers.
    pub(super) fn wish(&self, extent: CopiedExtent) -> HolderWish {
        let wanted = self.ledger.regions.get(&extent.gid).map_or(1, |region| usize::from(region.copies));
        let Some(copied) = self.copied.extents.get(&extent) else { return HolderWish::None };
        let (set, count, is_drained) = (copied.holders.set(), copied.count(), |node: &NodeId| self.is_leaving(extent, *node));
        let leaving = set.copies.iter().chain([&set.home]).filter(|node| is_drained(node)).count();
        match count.saturating_sub(leaving) {
            // A single holder writes them down. Of two that end together each might leave that to the other.
            0 if count > wanted && self.is_written_down(extent) => HolderWish::Fewer,
            staying if staying < wanted => HolderWish::More,
            _ if is_drained(&set.home) && !set.copies.iter().any(is_drained) => HolderWish::Move,
            _ if count > wanted => HolderWish::Fewer,
            _ => HolderWish::None,
        }
    }

    /// The number of copies of a region has changed.
    pub(in super::super) fn fit_copies(&mut self, now_ms: u64, gid: Gid) {
        self.fit_regions(now_ms, &BTreeSet::from([gid]));
    }

    /// Extents of these regions are to be held by others from here on.
    pub(in super::super) fn fit_regions(&mut self, now_ms: u64, gids: &BTreeSet<Gid>) {
        self.want_holders(now_ms, gids);
        self.tick_holders(now_ms);
    }

    /// The same, where a tick follows.
    pub(in super::super) fn want_holders(&mut self, now_ms: u64, gids: &BTreeSet<Gid>) {
        gids.iter().for_each(|gid| self.want_ready(now_ms, *gid));
        let extents = gids.iter().flat_map(|gid| self.copied.of(*gid)).collect();
        self.want_holders_of(now_ms, extents);
    }

    /// A node is drained from here on, or not any more.
    pub(in super::super) fn fit_holders_with(&mut self, now_ms: u64, node: NodeId) {
        self.want_ready_on(now_ms, node);
        self.want_holders_of(now_ms, self.copied.those(|copied| copied.has(node)));
        self.tick_holders(now_ms);
    }

    fn want_holders_of(&mut self, now_ms: u64, extents: Vec<CopiedExtent>) {
        for extent in extents {
            self.copied.extents.entry(extent).and_modify(|copied| copied.rests_until_ms = now_ms);
            self.settle_holders(now_ms, extent);
        }
    }

    /// The home of an extent goes on without one of its copies, as long as it lives itself. A copy that is being made comes first: it may count.
    pub(super) fn drop_surplus(&mut self, now_ms: u64, extent: CopiedExtent) {
        let Some(copied) = self.copied.extents.get(&extent) else { return };
        let set = copied.holders.set();
        let node = self.least_of_copies(extent, set).filter(|_| self.roster.phase(set.home) == Phase::Member);
        let Some(copied) = self.copied.extents.get_mut(&extent) else { return };
        copied.rests_until_ms = if node.is_some() { now_ms } else { now_ms.saturating_add(REMAKE_MS) };
        if let Some(node) = node {
            copied.holders.on_surplus(node);
            self.drive_holders(now_ms, extent);
        }
    }

    /// A copy is to follow the home of an extent. A home that does not answer is asked again, until its lease is over.
    pub(super) fn move_home(&mut self, now_ms: u64, extent: CopiedExtent) {
        let next = self.move_of(extent).and_then(|next| next.cause.next_home());
        let Some(copied) = self.copied.extents.get_mut(&extent) else { return };
        (copied.rests_until_ms, copied.is_locked) = (now_ms.saturating_add(REMAKE_MS), false);
        copied.holders.on_move(next);
        self.drive_holders(now_ms, extent);
    }
}
