//! Copies that are made: a node makes an empty extent, the home fills it, and the home asks to admit it.

use super::super::Coordinator;
use super::super::roster::Phase;
use super::super::settings::REMAKE_MS;
use super::{Copied, CopiedExtent, Remade};
use crate::error::Result;
use crate::id::{Gid, NodeId};
use crate::wire::control::{Order, ReportedExtent};
use crate::wire::copies::ToHolder;

impl Coordinator {
    /// Has a node make an empty extent for a copy. Without a node that has room, that is tried again later.
    pub(super) fn make_copy(&mut self, now_ms: u64, extent: CopiedExtent) {
        let Some(len) = self.extent_len(extent) else { return };
        let Some(copied) = self.copied.extents.get(&extent) else { return };
        let set = copied.holders.set().clone();
        let holders: Vec<NodeId> = std::iter::once(set.home).chain(set.copies.iter().copied()).collect();
        // A region that has lost bytes is opened by nobody. Its home may be a later life of the last holder.
        let is_lost = self.ledger.regions.get(&extent.gid).is_some_and(|region| !region.lost.is_empty());
        let is_home_there = self.roster.phase(set.home) == Phase::Member && !is_lost;
        let node =
            self.best_for_copy(&holders, len, self.rooms_of_copies(extent, &holders).into_iter()).filter(|_| is_home_there);
        let remade = node.map(|node| {
            let what = Order::Make { gid: extent.gid, lens: vec![len], copied: Some((extent, set)) };
            let (epoch, order) = (self.epoch(node), self.order(now_ms, node, what));
            Remade { node, epoch, len, order, slot: None }
        });
        if let Some(copied) = self.copied.extents.get_mut(&extent) {
            (copied.remade, copied.rests_until_ms) = (remade, now_ms.saturating_add(REMAKE_MS));
        }
        if remade.is_some() {
            self.copied.making.insert(extent);
        }
    }

    fn extent_len(&self, extent: CopiedExtent) -> Option<u64> {
        let region = self.ledger.regions.get(&extent.gid)?;
        region.layout.extents().nth(extent.index as usize).map(|home| home.len)
    }

    /// A node has made an empty extent for a copy, or could not.
    pub(in super::super) fn on_copy_extent(&mut self, now_ms: u64, node: NodeId, order: u64, made: Result<Vec<ReportedExtent>>) {
        let is_it = |copied: &Copied| copied.remade.is_some_and(|remade| remade.order == order);
        let extent = self.copied.extents.iter().find(|(_, copied)| is_it(copied)).map(|(extent, _)| *extent);
        let Some(extent) = extent else { return };
        let made = made.ok().and_then(|made| made.first().copied());
        let Some(copied) = self.copied.extents.get_mut(&extent) else { return };
        match (&mut copied.remade, made) {
            (Some(remade), Some(made)) => remade.slot = Some(made.slot),
            _ => {
                (copied.remade, copied.rests_until_ms) = (None, now_ms.saturating_add(REMAKE_MS));
                self.copied.making.remove(&extent);
                return;
            }
        }
        if let (Some(seat), Some(made)) = (self.roster.seat_mut(node), &made) {
            seat.add_grants(made);
        }
        self.say_make(extent);
    }

    /// Tells the home of an extent to fill the copy that is being made.
    pub(super) fn say_make(&mut self, extent: CopiedExtent) {
        let Some(copied) = self.copied.extents.get(&extent) else { return };
        let (home, remade) = (copied.holders.set().home, copied.remade.filter(|remade| remade.slot.is_some()));
        if let Some(Remade { node, order, .. }) = remade {
            self.say_to_holder(home, extent, ToHolder::Make { node, order });
        }
    }

    /// A node's epoch ended: copies that are being made there are given up.
    pub(in super::super) fn give_up_copies_on(&mut self, now_ms: u64, node: NodeId) {
        self.give_up_copies(now_ms, |copied| copied.remade.is_some_and(|remade| remade.node == node));
    }

    /// A node has a new process: nobody fills the copies that homes of its last one made.
    pub(in super::super) fn give_up_copies_of(&mut self, now_ms: u64, home: NodeId) {
        self.give_up_copies(now_ms, |copied| copied.holders.set().home == home);
    }

    /// Copies of a region that are being made are given up.
    pub(in super::super) fn give_up_copies_in(&mut self, now_ms: u64, gid: Gid) {
        self.copied.of(gid).into_iter().for_each(|extent| self.give_up_copy(now_ms, extent));
    }

    fn give_up_copies(&mut self, now_ms: u64, which: impl Fn(&Copied) -> bool) {
        let is_one = |extent: &CopiedExtent| self.copied.extents.get(extent).is_some_and(&which);
        let those: Vec<CopiedExtent> = self.copied.making.iter().copied().filter(is_one).collect();
        those.into_iter().for_each(|extent| self.give_up_copy(now_ms, extent));
    }

    /// A copy that is being made is given up, and the next one has time.
    pub(super) fn rest(&mut self, now_ms: u64, extent: CopiedExtent) {
        self.give_up_copy(now_ms, extent);
        self.copied.extents.entry(extent).and_modify(|copied| copied.rests_until_ms = now_ms.saturating_add(REMAKE_MS));
    }

    /// A copy that is being made is given up: its node frees what it made for it.
    pub(super) fn give_up_copy(&mut self, now_ms: u64, extent: CopiedExtent) {
        self.copied.making.remove(&extent);
        let Some(remade) = self.copied.extents.get_mut(&extent).and_then(|copied| copied.remade.take()) else { return };
        if let Some(slot) = remade.slot {
            self.free(now_ms, remade.node, vec![slot]);
        }
    }
}
