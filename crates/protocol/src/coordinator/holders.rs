//! Extents with copies: which node is home of each, which have copies, and copies that are made anew.
//!
//! The rules are those of [`crate::copies::Holders`]. Each change is in the journal before anybody hears of it.
//!
//! | what happens to a node | its part in each extent |
//! |---|---|
//! | its lease is over (that of a home, if its connection closed), it left, or it began anew | it is none of the holders any more: another becomes home, or the home goes on |
//! | the same, and it is the last holder | as for a region without copies: its bytes may come back with it |
//! | its connection is new | it hears again what it may have missed |
//!
//! A copy is made in three steps: a node makes an empty extent, the home fills it, and the home asks to admit it.

mod making;
mod wishes;

use super::endings::Endings;
use super::readying::Readying;
use super::records::{ExtentCopies, Record, RegionRecord};
use super::roster::Phase;
use super::settings::MAKING_COUNT;
use super::{Coordinator, limits};
use crate::copies::{HolderOutput, HolderSet, Holders, HoldersState};
use crate::id::{Epoch, Gid, NodeId, Slot};
use crate::placement::Extent;
use crate::wire::control::{NodeAddress, ToNode};
use crate::wire::copies::{CopiedExtent, FromHolder, ToHolder};
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use wishes::HolderWish;

/// Time for which copies are asked how far they are: those that do not answer are dropped.
const ELECTION_MS: u64 = limits::LEASE_MS / 3;

/// A copy that is being made.
#[derive(Clone, Copy, Debug)]
struct Remade {
    node: NodeId,
    /// The node's epoch when the extent was ordered.
    epoch: Epoch,
    len: u64,
    order: u64,
    slot: Option<Slot>,
}

/// Decides the fate of the bytes of a node that is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loss {
    /// The node may come back with them.
    MayReturn,
    /// The bytes are gone.
    ForGood,
}

/// An extent with copies.
#[derive(Clone, Debug)]
struct Copied {
    holders: Holders,
    /// When copies that have not said how far they are are dropped.
    elects_until_ms: Option<u64>,
    remade: Option<Remade>,
    /// No copy is made before that.
    rests_until_ms: u64,
    /// The home did not stop for another, because of locks at its bytes.
    is_locked: bool,
}

impl Copied {
    /// Nodes that hold it.
    fn count(&self) -> usize {
        self.holders.set().copies.len().saturating_add(1)
    }

    /// True if the node is one of the holders.
    fn has(&self, node: NodeId) -> bool {
        let set = self.holders.set();
        set.home == node || set.copies.contains(&node)
    }
}

/// All extents with copies.
#[derive(Clone, Debug, Default)]
pub(super) struct CopiedExtents {
    extents: BTreeMap<CopiedExtent, Copied>,
    /// Extents that have too few copies, or elect a home.
    unsettled: BTreeSet<CopiedExtent>,
    /// Extents of which a copy is being made.
    making: BTreeSet<CopiedExtent>,
    pub readying: Readying,
    pub endings: Endings,
}

impl CopiedExtents {
    /// True if the region's grants change at this moment: its nodes make it ready for copies, or end that.
    pub fn is_changing(&self, gid: Gid) -> bool {
        self.readying.is_under_way(gid) || self.endings.is_under_way(gid)
    }

    /// True if a node holds that extent.
    pub fn holds(&self, extent: CopiedExtent, node: NodeId) -> bool {
        self.extents.get(&extent).is_some_and(|copied| copied.has(node))
    }

    /// True if something is to be done for that extent.
    pub fn is_unsettled(&self, extent: CopiedExtent) -> bool {
        self.unsettled.contains(&extent)
    }

    /// True if a copy of that extent is being made.
    pub fn is_making(&self, extent: CopiedExtent) -> bool {
        self.making.contains(&extent)
    }

    /// Bytes of copies that are being made on a node.
    pub fn promised_to(&self, node: NodeId) -> u64 {
        self.remade().filter(|remade| remade.node == node).map(|remade| remade.len).fold(0, u64::saturating_add)
    }

    /// True if the home of that extent does not stop for another, because of locks.
    pub fn is_locked(&self, extent: CopiedExtent) -> bool {
        self.extents.get(&extent).is_some_and(|copied| copied.is_locked)
    }

    /// The home of that extent may have no locks any more.
    pub fn forget_locks(&mut self, extent: CopiedExtent) {
        self.extents.entry(extent).and_modify(|copied| copied.is_locked = false);
    }

    /// True if that order makes an extent for a copy.
    pub fn is_remade_by(&self, order: u64) -> bool {
        self.remade().any(|remade| remade.order == order)
    }

    /// Slots of copies that are being made on a node.
    pub fn remade_at(&self, node: NodeId) -> impl Iterator<Item = Slot> {
        self.remade().filter(move |remade| remade.node == node).filter_map(|remade| remade.slot)
    }

    fn remade(&self) -> impl Iterator<Item = &Remade> {
        self.making.iter().filter_map(|extent| self.extents.get(extent)?.remade.as_ref())
    }

    /// When [`Coordinator::tick_holders`] has something to do.
    pub fn deadline(&self) -> Option<u64> {
        let due = |extent: &CopiedExtent| {
            let copied = self.extents.get(extent)?;
            match (copied.elects_until_ms, copied.remade) {
                (Some(until_ms), _) => Some(until_ms),
                (None, Some(_)) => None,
                // The end of another one's making is looked at.
                (None, None) if self.making.len() >= MAKING_COUNT => None,
                (None, None) => Some(copied.rests_until_ms),
            }
        };
        self.unsettled.iter().filter_map(due).chain(self.readying.deadline()).chain(self.endings.deadline()).min()
    }

    fn those(&self, which: impl Fn(&Copied) -> bool) -> Vec<CopiedExtent> {
        self.extents.iter().filter(|(_, copied)| which(copied)).map(|(extent, _)| *extent).collect()
    }

    fn of(&self, gid: Gid) -> Vec<CopiedExtent> {
        let all = CopiedExtent { gid, index: 0 }..=CopiedExtent { gid, index: u32::MAX };
        self.extents.range(all).map(|(extent, _)| *extent).collect()
    }
}

impl Coordinator {
    /// The holders of each extent with copies, for checks.
    pub fn holders(&self) -> impl Iterator<Item = (CopiedExtent, &HolderSet, HoldersState)> {
        self.copied.extents.iter().map(|(extent, copied)| (*extent, copied.holders.set(), copied.holders.state()))
    }

    /// Takes up the extents of a region with copies that are not known yet.
    pub(super) fn take_up_holders(&mut self, now_ms: u64, gid: Gid) {
        let Some(region) = self.ledger.regions.get(&gid) else { return };
        let mut taken = Vec::new();
        for (index, (home, known)) in region.layout.extents().zip(&region.holders).enumerate() {
            let copies = known.copies.iter().map(|copy| copy.node).collect();
            let set = HolderSet { term: known.term, home: home.node, copies };
            let extent = CopiedExtent { gid, index: index as u32 };
            let Entry::Vacant(place) = self.copied.extents.entry(extent) else { continue };
            place.insert(Copied {
                holders: Holders::new(set),
                elects_until_ms: None,
                remade: None,
                rests_until_ms: 0,
                is_locked: false,
            });
            let void = std::iter::once(home).chain(&known.copies).filter(|holder| holder.slot == Slot::VOID);
            taken.push((extent, home.node, void.map(|holder| holder.node).collect::<Vec<_>>()));
        }
        for (extent, home, void) in taken {
            // The coordinator before this one died while another home was elected.
            void.iter().for_each(|node| self.lose_holder_of(now_ms, extent, (*node, Loss::ForGood)));
            if void.contains(&home) {
                continue;
            }
            // A home learns the addresses of its copies.
            self.copied.extents.entry(extent).and_modify(|copied| copied.holders.on_connected(home));
            self.drive_holders(now_ms, extent);
        }
    }

    /// A region is no more.
    pub(super) fn forget_holders(&mut self, now_ms: u64, gid: Gid) {
        self.copied.endings.forget(gid);
        for extent in self.copied.of(gid) {
            self.give_up_copy(now_ms, extent);
            self.copied.extents.remove(&extent);
            self.copied.unsettled.remove(&extent);
        }
    }

    /// True if another node will be home of some extent of the region: its home is lost, or its lease goes on without it.
    pub(super) fn waits_for_home(&self, region: &RegionRecord) -> bool {
        let waits = |(index, home): (usize, &Extent)| {
            let extent = CopiedExtent { gid: region.gid, index: index as u32 };
            let Some(copied) = self.copied.extents.get(&extent) else { return false };
            let has_copies = !copied.holders.set().copies.is_empty();
            has_copies && (copied.holders.state() != HoldersState::Steady || self.roster.phase(home.node) != Phase::Member)
        };
        region.layout.extents().enumerate().any(waits)
    }

    /// A node's lease is over: it answers for nothing any more. What it holds may come back with it, unless it is gone for good.
    pub(super) fn lose_holder(&mut self, now_ms: u64, node: NodeId, loss: Loss) {
        let holds = |copied: &Copied| copied.has(node) || copied.remade.is_some_and(|remade| remade.node == node);
        for extent in self.copied.those(holds) {
            self.lose_holder_of(now_ms, extent, (node, loss));
        }
    }

    /// Nodes that hold the extent when a node does not.
    fn others_of<'a>(copied: &'a Copied, node: NodeId) -> impl Iterator<Item = NodeId> + 'a {
        let set = copied.holders.set();
        let has_home = copied.holders.state() != HoldersState::Electing || copied.holders.may_return();
        let home = Some(set.home).filter(|_| has_home);
        home.into_iter().chain(set.copies.iter().copied()).filter(move |other| *other != node)
    }

    /// True if others hold the extent when the node does not. Those that are away count if the node's bytes are gone for good. A home
    /// that stands still does not: it may be lost next, and it answers nothing that the node's copy would hold up.
    fn goes_on_without(&self, now_ms: u64, extent: CopiedExtent, (node, loss): (NodeId, Loss)) -> bool {
        let Some(copied) = self.copied.extents.get(&extent) else { return false };
        let is_there = |other: NodeId| match other == copied.holders.set().home {
            true => self.roster.answers(other, now_ms, self.settings.lease_ms),
            false => self.roster.phase(other) == Phase::Member,
        };
        Coordinator::others_of(copied, node).any(|other| loss == Loss::ForGood || is_there(other))
    }

    /// The last holder is never lost here. If all are away, the first to come back says who goes on: it may be the home with all its bytes.
    fn lose_holder_of(&mut self, now_ms: u64, extent: CopiedExtent, (node, loss): (NodeId, Loss)) {
        let goes_on = self.goes_on_without(now_ms, extent, (node, loss));
        let Some(copied) = self.copied.extents.get(&extent) else { return };
        if copied.remade.is_some_and(|remade| remade.node == node || copied.holders.set().home == node) {
            self.give_up_copy(now_ms, extent);
        }
        if let Some(copied) = self.copied.extents.get_mut(&extent).filter(|_| goes_on) {
            copied.holders.on_lost(node);
        }
        self.drive_holders(now_ms, extent);
    }

    /// An extent that a node should have is not there. Returns true where other nodes hold its bytes.
    pub(super) fn go_on_without(&mut self, now_ms: u64, gid: Gid, (node, slot): (NodeId, Slot)) -> bool {
        let Some(region) = self.ledger.regions.get(&gid) else { return false };
        let is_it = |at: &Extent| (at.node, at.slot) == (node, slot);
        let holds =
            |index: &usize| region.holders_of(*index).is_some_and(|(home, known)| is_it(home) || known.copies.iter().any(is_it));
        let Some(index) = (0..region.holders.len()).find(holds) else { return false };
        let extent = CopiedExtent { gid, index: index as u32 };
        let goes_on = self.goes_on_without(now_ms, extent, (node, Loss::ForGood));
        if goes_on {
            self.void_holder(extent, (node, slot));
        }
        self.lose_holder_of(now_ms, extent, (node, Loss::ForGood));
        goes_on
    }

    /// A holder's bytes are no more. Its slot may have another extent soon, which a later set of holders must not free.
    fn void_holder(&mut self, extent: CopiedExtent, (node, slot): (NodeId, Slot)) {
        let Some(region) = self.ledger.regions.get(&extent.gid) else { return };
        let Some((home, known)) = region.holders_of(extent.index as usize) else { return };
        let voided = |at: &Extent| if (at.node, at.slot) == (node, slot) { Extent { slot: Slot::VOID, ..*at } } else { *at };
        let copies = known.copies.iter().map(voided).collect();
        self.record(Record::Held { extent, home: voided(home), holders: ExtentCopies { term: known.term, copies } });
    }

    /// A node has joined: it hears what it may have missed, and may take copies.
    pub(super) fn holder_joined(&mut self, now_ms: u64, node: NodeId) {
        for extent in self.copied.those(|copied| copied.has(node)) {
            if let Some(copied) = self.copied.extents.get_mut(&extent) {
                copied.holders.on_connected(node);
            }
            self.drive_holders(now_ms, extent);
            self.lose_others(now_ms, extent, node);
            self.say_make(extent);
        }
        for extent in self.copied.unsettled.clone() {
            if let Some(copied) = self.copied.extents.get_mut(&extent) {
                copied.rests_until_ms = now_ms;
            }
        }
        self.tick_holders(now_ms);
    }

    /// Holders that were lost when this one was away, too, are none any more.
    fn lose_others(&mut self, now_ms: u64, extent: CopiedExtent, node: NodeId) {
        let Some(copied) = self.copied.extents.get(&extent) else { return };
        let is_over = |other: &NodeId| self.roster.is_over(*other);
        let over: Vec<NodeId> = Coordinator::others_of(copied, node).filter(is_over).collect();
        over.into_iter().for_each(|other| self.lose_holder_of(now_ms, extent, (other, Loss::MayReturn)));
    }

    /// A member says something about an extent.
    pub(super) fn on_holder(&mut self, now_ms: u64, from: NodeId, extent: CopiedExtent, message: FromHolder) {
        // A copy that it made in another epoch is void.
        let epoch_of = |node: NodeId| self.ledger.nodes.get(&node).map(|record| record.epoch);
        let is_of_today = self.copied.extents.get(&extent).and_then(|copied| copied.remade);
        let is_of_today = is_of_today.is_some_and(|remade| epoch_of(remade.node) == Some(remade.epoch));
        let admits = match message {
            FromHolder::Admit { node, .. } => self.roster.phase(node) == Phase::Member,
            _ => true,
        };
        let Some(copied) = self.copied.extents.get_mut(&extent).filter(|_| admits) else { return };
        match message {
            FromHolder::Released { term, leaves_doubt } => {
                copied.holders.on_released(from, term, leaves_doubt);
                let may_return = copied.holders.may_return();
                if copied.holders.state() == HoldersState::Electing && copied.remade.is_some() {
                    // The home that filled it fills it no more.
                    self.rest(now_ms, extent);
                }
                if may_return {
                    self.lose_others(now_ms, extent, from);
                }
            }
            FromHolder::IsFrozen { term, position } => copied.holders.on_frozen(from, term, position),
            FromHolder::Drop { term, node } => {
                let is_of_home = copied.holders.set().home == from;
                copied.holders.on_drop(from, term, node);
                if is_of_home && copied.remade.is_some_and(|remade| remade.node == node) {
                    // The home has given up what it made there.
                    self.rest(now_ms, extent);
                }
            }
            FromHolder::Stays { term } => {
                if copied.holders.on_stays(from, term) {
                    copied.is_locked = true;
                    // Requests that wait for its next home go on with this one.
                    self.changed = true;
                }
            }
            FromHolder::Broken => {
                if copied.remade.is_some_and(|remade| remade.node == from) {
                    self.rest(now_ms, extent);
                } else if copied.has(from) {
                    self.lose_holder_of(now_ms, extent, (from, Loss::ForGood));
                }
            }
            FromHolder::Admit { term, node, order } => {
                let is_asked =
                    |remade: Remade| (remade.node, remade.order) == (node, order) && remade.slot.is_some() && is_of_today;
                if copied.holders.set().copies.contains(&node) || copied.remade.is_some_and(is_asked) {
                    copied.holders.on_admit(from, term, node);
                }
            }
        }
        self.drive_holders(now_ms, extent);
    }

    /// Carries out what the rules of an extent order.
    fn drive_holders(&mut self, now_ms: u64, extent: CopiedExtent) {
        while let Some(output) = self.copied.extents.get_mut(&extent).and_then(|copied| copied.holders.poll()) {
            match output {
                HolderOutput::Record(set) => self.record_holders(now_ms, extent, &set),
                HolderOutput::Set { to, set } => self.say_to_holder(to, extent, ToHolder::Set(set)),
                HolderOutput::Release(set) => self.say_to_holder(set.home, extent, ToHolder::Release(set)),
                HolderOutput::Freeze { to, term } => self.say_to_holder(to, extent, ToHolder::Freeze { term }),
                HolderOutput::Elect { to, set, has, stopped } => {
                    self.say_to_holder(to, extent, ToHolder::Elect { set, has, stopped });
                }
                // The last holder is never given up here: its bytes may come back.
                HolderOutput::Lost => {}
            }
        }
        self.settle_holders(now_ms, extent);
    }

    /// Notes whether something is still to be done for an extent.
    fn settle_holders(&mut self, now_ms: u64, extent: CopiedExtent) {
        let is_whole = self.wish(extent) == HolderWish::None;
        let Some(copied) = self.copied.extents.get_mut(&extent) else { return };
        let is_electing = copied.holders.state() == HoldersState::Electing;
        copied.elects_until_ms = match copied.elects_until_ms {
            Some(until_ms) if is_electing => Some(until_ms),
            _ => is_electing.then(|| now_ms.saturating_add(ELECTION_MS)),
        };
        match is_electing || !is_whole || copied.remade.is_some() {
            true => drop(self.copied.unsettled.insert(extent)),
            false => {
                self.copied.unsettled.remove(&extent);
                self.note_ending(now_ms, extent.gid);
            }
        }
    }

    /// True if one node holds an extent with copies, and that does not change now.
    pub(super) fn has_one_holder(&self, extent: CopiedExtent) -> bool {
        let is_settled = |copied: &Copied| copied.holders.state() == HoldersState::Steady && copied.remade.is_none();
        self.copied.extents.get(&extent).is_some_and(|copied| copied.count() == 1 && is_settled(copied))
    }

    /// Journals a set of holders. Nodes that are none any more free their extents.
    fn record_holders(&mut self, now_ms: u64, extent: CopiedExtent, set: &HolderSet) {
        let Some(region) = self.ledger.regions.get(&extent.gid) else { return };
        let Some((home, known)) = region.holders_of(extent.index as usize) else { return };
        let remade = self.copied.extents.get(&extent).and_then(|copied| copied.remade);
        let new = remade.and_then(|remade| Some(Extent { node: remade.node, slot: remade.slot?, len: remade.len }));
        // A slot is input of its node: another region may have it by now.
        let new = new.filter(|new| !self.ledger.extents.contains_key(&(new.node, new.slot)));
        let before: Vec<Extent> = std::iter::once(*home).chain(known.copies.iter().copied()).collect();
        let at = |node: NodeId| before.iter().chain(&new).find(|extent| extent.node == node).copied();
        let Some(home) = at(set.home) else { return };
        let holders = ExtentCopies { term: set.term, copies: set.copies.iter().filter_map(|node| at(*node)).collect() };
        if remade.is_some_and(|remade| set.copies.contains(&remade.node)) {
            self.copied.extents.entry(extent).and_modify(|copied| (copied.remade, copied.rests_until_ms) = (None, now_ms));
            self.copied.making.remove(&extent);
        }
        // An extent that its node has lost is not there to be freed: the slot may have another region's.
        let is_there = |at: &Extent| at.slot != Slot::VOID && !region.lost.contains(&at.node);
        let is_gone = |at: &&Extent| at.node != home.node && !holders.copies.contains(at) && is_there(at);
        let gone: Vec<Extent> = before.iter().filter(is_gone).copied().collect();
        self.record(Record::Held { extent, home, holders });
        for Extent { node, slot, .. } in gone {
            self.free(now_ms, node, vec![slot]);
        }
        self.changed = true;
    }

    fn say_to_holder(&mut self, to: NodeId, extent: CopiedExtent, message: ToHolder) {
        let named: Vec<NodeId> = match &message {
            ToHolder::Set(set) | ToHolder::Elect { set, .. } | ToHolder::Release(set) => set.copies.iter().copied().collect(),
            ToHolder::Make { node, .. } => vec![*node],
            ToHolder::Freeze { .. } => Vec::new(),
        };
        let nodes: Vec<NodeAddress> = named.into_iter().filter_map(|node| self.node_address(node)).collect();
        self.send(to, ToNode::Holder { extent, nodes, message });
    }

    /// Time passes: closed nodes answer no more, elections end, and copies are made where too few are left.
    pub(super) fn tick_holders(&mut self, now_ms: u64) {
        for node in self.roster.mute(now_ms) {
            self.lose_holder(now_ms, node, Loss::MayReturn);
        }
        self.tick_moves(now_ms);
        self.tick_readying(now_ms);
        self.tick_endings(now_ms);
        for extent in self.copied.unsettled.clone() {
            let wish = self.wish(extent);
            let Some(copied) = self.copied.extents.get_mut(&extent) else { continue };
            let may_begin = copied.remade.is_none() && copied.rests_until_ms <= now_ms;
            match copied.elects_until_ms {
                Some(until_ms) if until_ms <= now_ms => {
                    copied.elects_until_ms = Some(now_ms.saturating_add(ELECTION_MS));
                    copied.holders.on_late();
                    self.drive_holders(now_ms, extent);
                }
                Some(_) => {}
                None if self.copied.making.len() >= MAKING_COUNT => {}
                None if !may_begin => {}
                None => match wish {
                    HolderWish::None => self.settle_holders(now_ms, extent),
                    HolderWish::More => self.make_copy(now_ms, extent),
                    HolderWish::Fewer => self.drop_surplus(now_ms, extent),
                    HolderWish::Move => self.move_home(now_ms, extent),
                },
            }
        }
    }
}
