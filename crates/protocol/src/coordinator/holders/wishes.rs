//! The next change of an extent's holders: more copies, fewer, or another home. Regions and drains of nodes ask for it.

use super::super::Coordinator;
use super::super::roster::Phase;
use super::super::settings::REMAKE_MS;
use super::CopiedExtent;
use crate::id::{Gid, NodeId};

/// The next change of an extent whose home answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HolderWish {
    None,
    /// A copy is missing.
    More,
    /// A copy is one too many.
    Fewer,
    /// A copy is to follow the home, whose node is drained.
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
        let (set, count, is_drained) =
            (copied.holders.set(), copied.count(), |node: &NodeId| self.ledger.draining.contains_key(node));
        let leaving = set.copies.iter().chain([&set.home]).filter(|node| is_drained(node)).count();
        match count.saturating_sub(leaving) {
            staying if staying < wanted => HolderWish::More,
            _ if is_drained(&set.home) && !set.copies.iter().any(is_drained) => HolderWish::Move,
            _ if count > wanted => HolderWish::Fewer,
            _ => HolderWish::None,
        }
    }

    /// The number of copies of a region has changed.
    pub(in super::super) fn fit_copies(&mut self, now_ms: u64, gid: Gid) {
        self.want_ready(now_ms, gid);
        self.fit_holders(now_ms, self.copied.of(gid));
    }

    /// A node is drained from here on, or not any more.
    pub(in super::super) fn fit_holders_with(&mut self, now_ms: u64, node: NodeId) {
        self.want_ready_on(now_ms, node);
        self.fit_holders(now_ms, self.copied.those(|copied| copied.has(node)));
    }

    fn fit_holders(&mut self, now_ms: u64, extents: Vec<CopiedExtent>) {
        for extent in extents {
            self.copied.extents.entry(extent).and_modify(|copied| copied.rests_until_ms = now_ms);
            self.settle_holders(now_ms, extent);
        }
        self.tick_holders(now_ms);
    }

    /// The home of an extent goes on without one of its copies, as long as it lives itself. A copy that is being made comes first: it may count.
    pub(super) fn drop_surplus(&mut self, now_ms: u64, extent: CopiedExtent) {
        let Some(copied) = self.copied.extents.get(&extent) else { return };
        let set = copied.holders.set();
        let node = self.least_of_copies(set).filter(|_| self.roster.phase(set.home) == Phase::Member);
        let Some(copied) = self.copied.extents.get_mut(&extent) else { return };
        copied.rests_until_ms = if node.is_some() { now_ms } else { now_ms.saturating_add(REMAKE_MS) };
        if let Some(node) = node {
            copied.holders.on_surplus(node);
            self.drive_holders(now_ms, extent);
        }
    }

    /// A copy is to follow the home of an extent. A home that does not answer is asked again, until its lease is over.
    pub(super) fn move_home(&mut self, now_ms: u64, extent: CopiedExtent) {
        let Some(copied) = self.copied.extents.get_mut(&extent) else { return };
        (copied.rests_until_ms, copied.is_locked) = (now_ms.saturating_add(REMAKE_MS), false);
        copied.holders.on_move();
        self.drive_holders(now_ms, extent);
    }
}
