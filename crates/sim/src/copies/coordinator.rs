//! The coordinator: leases of nodes, the set of holders of each extent, and new copies where too few are left.

use super::{COORDINATOR, CopyWorld, Defect, EXTENT_COUNT, Event, LEASE_MS, LOOK_MS, Message, index, node_id};
use crate::check::{Check, check};
use hanare_protocol::copies::{HolderOutput, HolderSet, Holders, HoldersState};
use hanare_protocol::id::{Epoch, NodeId};
use hanare_protocol::wire::copies::{FromHolder, ToHolder};

/// Time for a copy to be made before another node is asked.
const MAKE_MS: u64 = 5000;
/// Time for which copies are asked how far they are.
const ELECTION_MS: u64 = 1500;

/// The coordinator.
#[derive(Debug)]
pub(super) struct Coordinator {
    extents: Vec<CopiedExtent>,
    /// When each node was heard last; `None` for one that is lost.
    heard_ms: Vec<Option<u64>>,
    /// Each node's generation.
    epochs: Vec<Epoch>,
}

#[derive(Debug)]
struct CopiedExtent {
    holders: Holders,
    /// Copies that it is to have.
    wanted: usize,
    /// The home and the node of a copy that is being made, and since when.
    asked: Option<(NodeId, NodeId, u64)>,
    election_ms: u64,
}

impl Coordinator {
    pub fn new(sets: Vec<HolderSet>, node_count: usize) -> Coordinator {
        let extent =
            |set: HolderSet| CopiedExtent { wanted: set.copies.len(), holders: Holders::new(set), asked: None, election_ms: 0 };
        Coordinator {
            extents: sets.into_iter().map(extent).collect(),
            heard_ms: vec![Some(0); node_count],
            epochs: vec![Epoch(1); node_count],
        }
    }

    /// Nodes that have all of an extent that was answered. A home that is lost is none, though its place is not taken yet.
    pub fn members(&self, extent: usize) -> Vec<usize> {
        let holders = &self.extents[extent].holders;
        let home = (holders.state() == HoldersState::Steady).then_some(holders.set().home);
        home.into_iter().chain(holders.set().copies.iter().copied()).map(index).collect()
    }

    /// The node that is home as far as programs are told.
    pub fn home(&self, extent: usize) -> usize {
        index(self.extents[extent].holders.set().home)
    }

    pub fn is_lost(&self, node: usize) -> bool {
        self.heard_ms[node].is_none()
    }

    pub fn joins(&mut self, node: usize, now_ms: u64) {
        self.heard_ms[node] = Some(now_ms);
        self.epochs[node].0 += 1;
    }

    /// A node's generation.
    pub fn epoch(&self, node: usize) -> Epoch {
        self.epochs[node]
    }
}

impl CopyWorld {
    pub(super) fn look_as_coordinator(&mut self) -> Check {
        self.at(LOOK_MS, Event::Look(COORDINATOR));
        let now_ms = self.now_ms;
        for node in 0..self.hosts.len() {
            if self.coordinator.heard_ms[node].is_some_and(|heard_ms| now_ms > heard_ms + LEASE_MS) {
                self.count("nodes taken for lost");
                self.note(format!("node {node} is taken for lost"));
                self.coordinator.heard_ms[node] = None;
                self.coordinator.extents.iter_mut().for_each(|extent| extent.holders.on_lost(node_id(node)));
            }
        }
        for number in 0..EXTENT_COUNT {
            self.make_copies(number);
            let extent = &mut self.coordinator.extents[number];
            match extent.holders.state() {
                HoldersState::Electing if now_ms > extent.election_ms + ELECTION_MS => extent.holders.on_late(),
                HoldersState::Electing => {}
                _ => extent.election_ms = now_ms,
            }
            self.drive_coordinator(number)?;
        }
        Ok(())
    }

    /// Has the home make a copy at a node that has none, where copies are missing.
    fn make_copies(&mut self, number: usize) {
        let now_ms = self.now_ms;
        let extent = &self.coordinator.extents[number];
        let set = extent.holders.set();
        let goes_on = |(home, node, asked_ms): (NodeId, NodeId, u64)| {
            home == set.home
                && !self.coordinator.is_lost(index(node))
                && !set.copies.contains(&node)
                && now_ms < asked_ms + MAKE_MS
        };
        let is_asked = extent.asked.is_some_and(goes_on);
        if extent.holders.state() != HoldersState::Steady || set.copies.len() >= extent.wanted || is_asked {
            return;
        }
        let has_none = |node: &usize| {
            !self.coordinator.is_lost(*node) && set.home != node_id(*node) && !set.copies.contains(&node_id(*node))
        };
        let free: Vec<usize> = (0..self.hosts.len()).filter(has_none).collect();
        let set = set.clone();
        if !free.is_empty() {
            let node = self.dice.pick(&free);
            self.coordinator.extents[number].asked = Some((set.home, node_id(node), now_ms));
            self.send(COORDINATOR, node, number, Message::MakeEmpty(set));
        }
    }

    fn drive_coordinator(&mut self, number: usize) -> Check {
        while let Some(output) = self.coordinator.extents[number].holders.poll() {
            self.note(format!("extent {number}: {output:?}"));
            match output {
                HolderOutput::Set { to, set } => self.say(to, number, ToHolder::Set(set)),
                HolderOutput::Freeze { to, term } => self.say(to, number, ToHolder::Freeze { term }),
                HolderOutput::Elect { to, set, has } => self.say(to, number, ToHolder::Elect { set, has }),
                HolderOutput::Record(_) => {}
                HolderOutput::Lost => return Err(format!("extent {number} is lost, and one of its holders was well")),
            }
        }
        Ok(())
    }

    fn say(&mut self, to: NodeId, number: usize, message: ToHolder) {
        self.send(COORDINATOR, index(to), number, Message::ToHolder(message));
    }

    pub(super) fn on_coordinator(&mut self, from: usize, number: usize, message: Message) -> Check {
        let node = node_id(from);
        if let Message::Renew { sent_ms } = message {
            if self.coordinator.is_lost(from) {
                // The node hears that others have its extents, and begins anew.
                self.at(1, Event::Back(from));
            } else {
                self.coordinator.heard_ms[from] = Some(self.course.now_ms);
                self.send(COORDINATOR, from, 0, Message::Renewed { sent_ms });
            }
            return Ok(());
        }
        if self.coordinator.is_lost(from) {
            return Ok(());
        }
        if let Message::MadeEmpty(epoch) = message {
            let home = self.coordinator.extents[number].holders.set().home;
            self.say(home, number, ToHolder::Make { node, epoch });
            return Ok(());
        }
        let Message::FromHolder(message) = message else { return Ok(()) };
        let is_blind = self.has(Defect::AdmitDead);
        let coordinator = &mut self.coordinator;
        let is_of_today = |copy: NodeId, epoch: Epoch| {
            let copy = index(copy);
            is_blind || (coordinator.heard_ms[copy].is_some() && coordinator.epochs[copy] == epoch)
        };
        let admits = matches!(message, FromHolder::Admit { node, epoch, .. } if is_of_today(node, epoch));
        let CopiedExtent { holders, asked, .. } = &mut coordinator.extents[number];
        match message {
            FromHolder::IsFrozen { term, position } => holders.on_frozen(node, term, position),
            FromHolder::Drop { term, node: copy } => {
                holders.on_drop(node, term, copy);
                asked.take_if(|(home, made, _)| (*home, *made) == (node, copy));
            }
            FromHolder::Broken if holders.set().home == node || holders.set().copies.contains(&node) => holders.on_lost(node),
            FromHolder::Broken => drop(asked.take_if(|(_, made, _)| *made == node)),
            FromHolder::Admit { term, node: copy, .. } if admits => holders.on_admit(node, term, copy),
            FromHolder::Admit { .. } => {}
        }
        self.drive_coordinator(number)
    }

    pub(super) fn coordinator_reconnected(&mut self, node: usize) {
        for number in 0..EXTENT_COUNT {
            self.coordinator.extents[number].holders.on_connected(node_id(node));
            // No extent is lost by that.
            let _ = self.drive_coordinator(number);
        }
    }

    /// At rest each extent has all the copies that it is to have, and all have the same words.
    pub(super) fn judge_holders(&self) -> Check {
        for (number, extent) in self.coordinator.extents.iter().enumerate() {
            let (set, members) = (extent.holders.set(), self.coordinator.members(number));
            check(extent.holders.state() == HoldersState::Steady, || {
                format!("extent {number} has no home: {:?}", extent.holders)
            })?;
            check(set.copies.len() >= extent.wanted, || format!("extent {number} has too few copies: {set:?}"))?;
            for node in members {
                let words = self.hosts[node].memory.words(number);
                check(words == self.asked[number], || {
                    format!("extent {number} has {words:?} on node {node}, and {:?} were added", self.asked[number])
                })?;
                let home = index(set.home);
                let is_same = self.hosts[node].memory.bytes(number) == self.hosts[home].memory.bytes(number);
                check(is_same, || format!("extent {number} has other bytes on node {node} than on its home {home}"))?;
            }
        }
        Ok(())
    }
}
