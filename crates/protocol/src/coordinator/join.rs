//! Joining, renewing, leaving: what a node keeps, and in which epoch. The rule is in `roster`'s table.

use super::holders::Loss;
use super::records::{Ended, NodeRecord, Record};
use super::roster::Phase;
use super::{Coordinator, Output, Peer, permission};
use crate::error::{Error, Result};
use crate::id::{Asker, Epoch, Gid, Incarnation, NodeId, Slot};
use crate::limits::NODE_COUNT_MAX;
use crate::wire::control::{Answer, FromNode, Memory, NodeAddress, NodeJoin, ReportedExtent, ToNode};
use std::collections::BTreeSet;

/// The rule's verdict on a join.
enum Verdict {
    /// The node's record from here on, and whether it begins an epoch.
    Member(NodeRecord, bool),
    Refused(Error),
    /// A late message; no answer.
    Late,
}

/// Manner of a member's going.
#[derive(Clone, Copy, Debug)]
pub(super) enum Going<'a> {
    /// The member said so; its bytes go with it.
    Left,
    /// The member said so, and has written down its bytes for its next start.
    Kept,
    /// Others noticed it; with the reason.
    Lost(Ended, &'a str),
}

impl Going<'_> {
    /// The journal's record of it. A node that has written down its bytes is away like one that fell silent.
    pub(super) fn how(&self) -> Ended {
        match self {
            Going::Left => Ended::Left,
            Going::Kept => Ended::Silent,
            Going::Lost(how, _) => *how,
        }
    }

    /// The reason told to others.
    pub(super) fn reason(&self) -> &str {
        match self {
            Going::Left => "it left the pool",
            Going::Kept => "it ended, and keeps its bytes for its next start",
            Going::Lost(_, reason) => reason,
        }
    }
}

impl Coordinator {
    /// A node asks to be a member, or says something else, which is returned.
    pub(super) fn on_joining(&mut self, now_ms: u64, peer: Peer, message: FromNode) -> Option<FromNode> {
        let (join, persists) = match message {
            FromNode::Join { incarnation, attempt, name, address, memory, was, held, wish, restores } => {
                (NodeJoin { incarnation, attempt, name, address, memory, was, held, wish, restores }, false)
            }
            FromNode::JoinPersisting(join) => (join, true),
            other => return Some(other),
        };
        self.on_join(now_ms, peer, join, persists);
        None
    }

    fn on_join(&mut self, now_ms: u64, peer: Peer, join: NodeJoin, persists: bool) {
        let is_home = self.is_home(&join);
        if !is_home && self.own().is_none_or(|own| self.roster.phase(own) != Phase::Member) {
            return;
        }
        let verdict = match self.check_joins(&join.memory) {
            Ok(()) => self.judge(&join, is_home),
            Err(error) => Verdict::Refused(error),
        };
        match verdict {
            Verdict::Late => {}
            Verdict::Refused(error) => {
                self.outputs.push_back(Output::Send(peer, ToNode::Refused { incarnation: join.incarnation, error }));
            }
            Verdict::Member(record, new_epoch) => self.admit(now_ms, peer, (join, persists), (record, new_epoch)),
        }
    }

    /// True if the coordinator's own node joins.
    fn is_home(&self, join: &NodeJoin) -> bool {
        self.is_own(&join.name, join.incarnation)
    }

    /// True if a node of that name and life is the coordinator's own.
    fn is_own(&self, name: &str, life: Incarnation) -> bool {
        name == self.settings.home && self.settings.home_life.is_none_or(|own| own == life)
    }

    /// The coordinator's own node, once the pool knows it: it may have joined an earlier coordinator.
    fn own(&self) -> Option<NodeId> {
        let record = self.ledger.node_named(&self.settings.home)?;
        self.is_own(&record.name, record.incarnation).then_some(record.node)
    }

    /// Applies the rule of `roster`.
    fn judge(&mut self, join: &NodeJoin, is_home: bool) -> Verdict {
        if let Err(error) = crate::name::check_name(&join.name) {
            let reason = format!("it cannot name a node: {error}");
            return Verdict::Refused(Error::BadSetting { key: "--name".to_owned(), value: join.name.clone(), reason });
        }
        if join.name == self.settings.home && !is_home {
            let reason = "the coordinator's own node has that name; choose another".to_owned();
            return Verdict::Refused(Error::BadSetting { key: "--name".to_owned(), value: join.name.clone(), reason });
        }
        let Some(record) = self.ledger.node_named(&join.name).cloned() else {
            return self.judge_newcomer(join, is_home);
        };
        let phase = self.roster.phase(record.node);
        if record.past.contains(&join.incarnation) {
            return Verdict::Late;
        }
        let epoch_was = join.was.map_or(Epoch(0), |(_, epoch)| epoch);
        let next = Epoch(record.epoch.max(epoch_was).0.saturating_add(1));
        if record.incarnation != join.incarnation {
            // The coordinator's own node lives and dies with it: a new life proves the old one's end.
            if matches!(phase, Phase::Member | Phase::Awaited) && !is_home {
                let reason =
                    format!("{} has that name and its lease holds; choose another, or wait until it is lost", record.node);
                return Verdict::Refused(Error::BadSetting { key: "--name".to_owned(), value: join.name.clone(), reason });
            }
            let mut past = record.past;
            past.push(record.incarnation);
            let (incarnation, address) = (join.incarnation, join.address.clone());
            let has_extents = join.restores == Some(record.incarnation);
            return Verdict::Member(
                NodeRecord { incarnation, address, epoch: next, ended: None, past, has_extents, ..record },
                true,
            );
        }
        let seen = self.roster.seat(record.node).map_or(0, |seat| seat.attempt);
        if phase == Phase::Left || join.attempt < seen {
            return Verdict::Late;
        }
        let resumes = matches!(phase, Phase::Member | Phase::Awaited) && epoch_was <= record.epoch;
        let epoch = if resumes { record.epoch } else { next };
        Verdict::Member(NodeRecord { address: join.address.clone(), epoch, ended: None, ..record }, !resumes)
    }

    /// A name that the journal does not know.
    fn judge_newcomer(&mut self, join: &NodeJoin, is_home: bool) -> Verdict {
        if self.ledger.nodes.len() >= NODE_COUNT_MAX && !self.forget_a_node() {
            return Verdict::Refused(Error::LimitReached { what: "nodes of a pool".to_owned(), limit: NODE_COUNT_MAX as u64 });
        }
        let is_free = |wish: &NodeId| (1..NODE_COUNT_MAX as u32).contains(&wish.0) && !self.ledger.nodes.contains_key(wish);
        let next = NodeId(self.ledger.node_next.max(1));
        // The pool's first node is its first coordinator's.
        let begins = is_home && self.ledger.node_next == 0;
        let node = if begins { NodeId(0) } else { join.wish.filter(is_free).unwrap_or(next) };
        let epoch = Epoch(join.was.map_or(0, |(_, epoch)| epoch.0).saturating_add(1));
        let (name, address, incarnation) = (join.name.clone(), join.address.clone(), join.incarnation);
        let (ended, past, has_extents) = (None, Vec::new(), false);
        Verdict::Member(NodeRecord { node, name, address, incarnation, epoch, ended, past, has_extents }, true)
    }

    /// Makes room for a node by forgetting one that is gone for good and holds nothing.
    fn forget_a_node(&mut self) -> bool {
        let is_gone = |node: &NodeId| matches!(self.roster.phase(*node), Phase::Dead | Phase::Left);
        let holds = |node: &NodeId| {
            let lost = self.ledger.regions.values().any(|region| region.lost.contains(node));
            lost || self.ledger.held_by(*node).next().is_some()
        };
        let Some(node) = self.ledger.nodes.keys().copied().find(|node| is_gone(node) && !holds(node)) else { return false };
        self.forget(node);
        true
    }

    fn forget(&mut self, node: NodeId) {
        if let Some(life) = self.ledger.nodes.get(&node).map(|record| record.incarnation) {
            self.asks.forget(life);
        }
        self.orders.cancel(node);
        self.record(Record::NodeForgotten { node });
        self.roster.forget(node);
        self.on_node_away(node);
    }

    /// Forgets nodes that are gone for long, and cannot bring bytes back.
    pub(super) fn forget_long_gone(&mut self, now_ms: u64) {
        for node in self.roster.long_gone(now_ms) {
            if self.ledger.held_by(node).next().is_none() {
                self.forget(node);
            }
        }
    }

    /// Somebody says that a node does not come back. Bytes that it could have brought are lost; so only root says that of bytes of others.
    pub(super) fn forget_lost(&mut self, now_ms: u64, user: &Asker, node: NodeId) -> Result<Answer> {
        let refuse = |reason: &str| {
            Err(Error::BadSetting { key: "the node to forget".to_owned(), value: node.to_string(), reason: reason.to_owned() })
        };
        match self.roster.phase(node) {
            Phase::Absent => return refuse("the pool has none of that number; see `hanare status`"),
            Phase::Member => return refuse("it is a member; end its process first"),
            Phase::Awaited => return refuse("it may be coming back just now; try again in some seconds"),
            _ => {}
        }
        let gids: BTreeSet<Gid> = self.ledger.held_by(node).map(|(_, gid, _)| gid).collect();
        for gid in &gids {
            match permission::may_decide(&self.ledger.regions[gid], user, "give up") {
                Err(Error::UnknownRegion { .. }) => return refuse("it has bytes of others; root may give them up"),
                decides => decides?,
            }
        }
        self.lose_holder(now_ms, node, Loss::ForGood);
        for gid in gids {
            let is_gone = |other: NodeId| !self.ledger.nodes.contains_key(&other);
            if self.ledger.regions[&gid].is_lost_with(node, is_gone) {
                self.record(Record::Lost { gid, node });
            }
        }
        self.forget(node);
        self.changed = true;
        Ok(Answer::Ok)
    }

    /// Takes a node in: journal, lease, extents, welcome.
    fn admit(&mut self, now_ms: u64, peer: Peer, (join, persists): (NodeJoin, bool), (record, new_epoch): (NodeRecord, bool)) {
        let (node, epoch, has_extents) = (record.node, record.epoch, record.has_extents);
        self.free_connection(now_ms, peer, node);
        let before = self.ledger.nodes.get(&node);
        let new_life = before.is_none_or(|before| before.incarnation != record.incarnation);
        if let Some(before) = before.filter(|_| new_life).map(|before| before.incarnation) {
            self.asks.forget(before);
        }
        if before != Some(&record) || self.ledger.deposed.contains(&node) {
            self.record(Record::Node(record));
        }
        if new_life {
            self.give_up_copies_of(now_ms, node);
        }
        if new_epoch {
            self.keepers.forget(node);
            self.orders.cancel(node);
            self.copied.readying.on_node_away(node, "it began anew");
            self.copied.endings.on_node_away(node);
            self.removals.on_cancelled(node);
            self.forget_reserved(node);
        }
        let seat = self.roster.on_join(node, peer, self.lease_until_ms(now_ms, node));
        let is_new_list = new_life || join.attempt > seat.attempt;
        seat.attempt = join.attempt;
        (seat.memory, seat.persists) = (join.memory, persists);
        let grants_count = join.was == Some((node, epoch)) || join.held.is_empty();
        if new_epoch {
            seat.grants = None;
        }
        if grants_count && is_new_list {
            seat.set_grants(&join.held);
        }
        if is_new_list {
            let of_today = new_life.then(|| self.of_today(now_ms, node, &join.held, has_extents));
            self.report_missing(now_ms, node, of_today.as_ref().unwrap_or(&join.held));
        }
        let keep = self.keep(node, &join.held);
        let settled = self.orders.settled(node);
        let home = self.home();
        let (incarnation, attempt) = (join.incarnation, join.attempt);
        let super::Settings { lease_ms, quota, .. } = self.settings;
        self.send(node, ToNode::Welcome { incarnation, attempt, node, epoch, lease_ms, keep, settled, home, quota });
        if join.was.is_some() {
            self.tell_of_lost_nodes(node);
        }
        self.order_returned(now_ms, node);
        self.holder_joined(now_ms, node);
        self.changed = true;
    }

    /// The nodes of deposed coordinators that are not back in time.
    pub(super) fn close_deposed(&mut self, now_ms: u64) {
        while let Some(node) = self.roster.close_former_home(now_ms) {
            self.end_epoch(now_ms, node, Going::Lost(Ended::Closed, "its coordinator is deposed, and it did not come back"));
        }
    }

    /// A node that was away hears of the nodes that may have been lost meanwhile.
    fn tell_of_lost_nodes(&mut self, to: NodeId) {
        let lost = self.ledger.nodes.values().filter(|record| record.node != to && record.ended.is_some());
        let reason = "it was lost while this node was away";
        let notice = |record: &NodeRecord| ToNode::NodeLost { node: record.node, epoch: record.epoch, reason: reason.to_owned() };
        let notices: Vec<ToNode> = lost.map(notice).collect();
        notices.into_iter().for_each(|notice| self.send(to, notice));
    }

    /// When a lease that is given at this moment ends. That of the coordinator's own node never does: both are one process, and a
    /// coordinator that has no time to renew it has none to be a coordinator either.
    fn lease_until_ms(&self, now_ms: u64, node: NodeId) -> u64 {
        let record = self.ledger.nodes.get(&node);
        let is_own = record.is_some_and(|record| self.is_own(&record.name, record.incarnation));
        if is_own { u64::MAX } else { now_ms.saturating_add(self.settings.lease_ms) }
    }

    /// A connection speaks for one node: whoever it spoke for before is gone from it.
    fn free_connection(&mut self, now_ms: u64, peer: Peer, node: NodeId) {
        if self.roster.node_of(peer).is_some_and(|other| other != node)
            && let Some((other, true)) = self.roster.on_closed(now_ms, self.settings.lease_ms, peer)
        {
            self.end_epoch(now_ms, other, Going::Lost(Ended::Closed, "another node speaks on its connection"));
        }
    }

    /// Extents of regions that the node should hold and does not: their bytes are gone.
    fn report_missing(&mut self, now_ms: u64, node: NodeId, held: &[ReportedExtent]) {
        let is_there = |slot: Slot, gid, len| held.iter().any(|held| held.slot == slot && held.gid == gid && held.len == len);
        let missing = |(slot, gid, len): &(Slot, Gid, u64)| !is_there(*slot, *gid, *len);
        let missing: Vec<(Slot, Gid)> = self.ledger.held_by(node).filter(missing).map(|(slot, gid, _)| (slot, gid)).collect();
        for (slot, gid) in missing {
            if !self.go_on_without(now_ms, gid, (node, slot)) {
                self.record(Record::Lost { gid, node });
            }
        }
    }

    /// Extents that a joining node retains: those of regions, those made for a region with other parts in the making, and those of
    /// pending orders. A pending order's extent is wanted. Only the order itself may free one, because the slot may have another extent
    /// when it is repeated.
    fn keep(&self, node: NodeId, held: &[ReportedExtent]) -> Vec<Slot> {
        let mut keep: Vec<Slot> = self.ledger.held_by(node).map(|(slot, _, _)| slot).collect();
        let parts = self.growths.values().flat_map(|growth| &growth.parts).filter(|part| part.node == node);
        keep.extend(parts.filter_map(|part| part.made.as_ref()).map(|made| made.slot));
        keep.extend(self.copied.remade_at(node));
        let is_ordered = |held: &&ReportedExtent| self.orders.is_about(node, held.gid, held.slot);
        keep.extend(held.iter().filter(is_ordered).map(|held| held.slot));
        keep.sort_unstable();
        keep.dedup();
        keep
    }

    /// Address of the coordinator's own node.
    fn home(&self) -> NodeAddress {
        self.own().and_then(|own| self.node_address(own)).expect("the coordinator's own node joins first")
    }

    /// Address of a node.
    pub(super) fn node_address(&self, node: NodeId) -> Option<NodeAddress> {
        let record = self.ledger.nodes.get(&node)?;
        Some(NodeAddress { node, epoch: record.epoch, address: record.address.clone() })
    }

    /// A member renews its lease.
    pub(super) fn on_renew(&mut self, now_ms: u64, node: NodeId, epoch: Epoch, memory: Memory) {
        if epoch != self.epoch(node) {
            return self.send(node, ToNode::Unknown);
        }
        self.roster.on_renew(node, self.lease_until_ms(now_ms, node), memory);
        self.send(node, ToNode::Renewed { epoch });
        self.relieve(now_ms, node);
    }

    /// A member goes in good order; its bytes go with it, unless it keeps them.
    pub(super) fn on_leave(&mut self, now_ms: u64, node: NodeId, keeps: bool) {
        self.roster.on_leave(now_ms, node, keeps);
        // A node that says so answers nothing any more.
        self.lose_holder(now_ms, node, if keeps { Loss::MayReturn } else { Loss::ForGood });
        self.end_epoch(now_ms, node, if keeps { Going::Kept } else { Going::Left });
    }

    /// A node's epoch ended: its orders, what it was making, and its clients' ranks go with it, and everyone is told.
    pub(super) fn end_epoch(&mut self, now_ms: u64, node: NodeId, going: Going<'_>) {
        let (epoch, how, reason) = (self.epoch(node), going.how(), going.reason());
        self.record(Record::EpochEnded { node, how });
        self.keepers.forget(node);
        self.orders.cancel(node);
        if let Some(seat) = self.roster.seat_mut(node) {
            seat.grants = None;
        }
        self.on_node_away(node);
        self.forget_reserved(node);
        let in_order = !matches!(going, Going::Lost(..));
        self.outputs.push_back(Output::NodeLost { node, epoch, reason: reason.to_owned(), in_order });
        let others: Vec<NodeId> = self.roster.members().map(|(other, _)| other).filter(|other| *other != node).collect();
        for other in others {
            self.send(other, ToNode::NodeLost { node, epoch, reason: reason.to_owned() });
        }
        self.undo_makes_on(now_ms, node, reason);
        self.copied.readying.on_node_away(node, reason);
        self.copied.endings.on_node_away(node);
        self.give_up_copies_on(now_ms, node);
        let gone = self.ranks.on_node_gone(node);
        self.rank_gone(gone, &format!("{node} was lost: {reason}"), true);
        self.changed = true;
    }
}
