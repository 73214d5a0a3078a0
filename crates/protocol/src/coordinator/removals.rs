//! When a removal is answered: decides when no member of the pool gives bytes of the region to anybody any more.
//!
//! ```text
//!   node is a member, ordered to free ----> obeys ----------------------------> done
//!        | its connection closes               ^ obeys
//!        v                                     |
//!   its lease goes on ----> joins again, ordered about nothing; what it has freed by its welcome is ahead of that
//!        | its lease ends, it leaves or is forgotten
//!        v
//!      done
//! ```
//!
//! A node that is away frees the region's extents when it is welcomed back. The journal has a removal without the region's nodes. So a
//! coordinator that restarts waits for all nodes that may come back.

use super::asks::AskKey;
use super::roster::Phase;
use super::{Coordinator, Step};
use crate::id::NodeId;
use crate::wire::control::{Answer, Order};
use std::collections::BTreeMap;

/// A removal that is not answered yet.
#[derive(Clone, Debug)]
struct Removal {
    /// Nodes that may have bytes, each with its order; none for one that is away within its lease.
    waits: BTreeMap<NodeId, Option<u64>>,
    /// When it is answered in any case, although a node renews its lease and does not obey.
    until_ms: u64,
}

/// Removals that are not answered yet.
///
/// - Each order that a removal waits for is in `orders` with that removal.
#[derive(Clone, Debug, Default)]
pub(super) struct Removals {
    open: BTreeMap<AskKey, Removal>,
    orders: BTreeMap<u64, Vec<AskKey>>,
}

impl Removals {
    fn await_order(&mut self, key: AskKey, node: NodeId, order: Option<u64>) {
        if let Some(removal) = self.open.get_mut(&key) {
            removal.waits.insert(node, order);
        }
        if let Some(order) = order {
            self.orders.entry(order).or_default().push(key);
        }
    }

    /// Takes a node off a removal's list. Says whether that was the last.
    fn strike(&mut self, key: AskKey, node: NodeId) -> bool {
        let Some(removal) = self.open.get_mut(&key) else { return false };
        if let Some(Some(order)) = removal.waits.remove(&node)
            && let Some(keys) = self.orders.get_mut(&order)
        {
            keys.retain(|other| *other != key);
            if keys.is_empty() {
                self.orders.remove(&order);
            }
        }
        removal.waits.is_empty()
    }

    /// Orders to a node are cancelled: it is waited for as one that is away.
    pub fn on_cancelled(&mut self, node: NodeId) {
        for removal in self.open.values_mut() {
            if let Some(order) = removal.waits.get_mut(&node).and_then(Option::take) {
                self.orders.remove(&order);
            }
        }
    }

    /// The removals that wait for a node.
    fn of(&self, node: NodeId) -> Vec<AskKey> {
        self.open.iter().filter(|(_, removal)| removal.waits.contains_key(&node)).map(|(key, _)| *key).collect()
    }

    /// When the first one is answered in any case.
    pub fn deadline(&self) -> Option<u64> {
        self.open.values().map(|removal| removal.until_ms).min()
    }
}

impl Coordinator {
    /// A removal is recorded. It is answered when these nodes have obeyed, or need not be waited for.
    pub(super) fn await_nodes(
        &mut self,
        now_ms: u64,
        key: AskKey,
        nodes: impl IntoIterator<Item = (NodeId, Option<u64>)>,
    ) -> Step {
        // After a restart nodes have twice the lease to come back.
        let until_ms = now_ms.saturating_add(self.settings.lease_ms.saturating_mul(2));
        self.removals.open.insert(key, Removal { waits: BTreeMap::new(), until_ms });
        for (node, order) in nodes {
            if order.is_some() || self.may_come_back(node) {
                self.removals.await_order(key, node, order);
            }
        }
        match self.removals.open.get(&key) {
            Some(removal) if !removal.waits.is_empty() => Step::Ordered,
            _ => {
                self.removals.open.remove(&key);
                Step::Done(Ok(Answer::Ok))
            }
        }
    }

    /// A removal is asked for again that the journal has.
    pub(super) fn await_all(&mut self, now_ms: u64, key: AskKey) -> Step {
        let nodes: Vec<NodeId> = self.ledger.nodes.keys().copied().collect();
        self.await_nodes(now_ms, key, nodes.into_iter().map(|node| (node, None)))
    }

    /// A node that is away may come back while its lease goes on.
    fn may_come_back(&self, node: NodeId) -> bool {
        matches!(self.roster.phase(node), Phase::Awaited | Phase::Closed)
    }

    /// A node has obeyed an order to free extents.
    pub(super) fn on_freed(&mut self, node: NodeId, order: u64) {
        for key in self.removals.orders.remove(&order).unwrap_or_default() {
            self.take_off(key, node);
        }
    }

    /// A node has joined: with what it answers next it has freed what its welcome did not name.
    pub(super) fn order_returned(&mut self, now_ms: u64, node: NodeId) {
        let is_away = |key: &AskKey| self.removals.open.get(key).is_some_and(|removal| removal.waits.get(&node) == Some(&None));
        let keys: Vec<AskKey> = self.removals.of(node).into_iter().filter(is_away).collect();
        if keys.is_empty() {
            return;
        }
        let order = self.order(now_ms, node, Order::Free { slots: Vec::new() });
        for key in keys {
            self.removals.await_order(key, node, Some(order));
        }
    }

    /// A node's epoch has ended, or it is gone for good: unless it may come back, nobody waits for it.
    pub(super) fn on_node_away(&mut self, node: NodeId) {
        self.removals.on_cancelled(node);
        if !self.may_come_back(node) {
            for key in self.removals.of(node) {
                self.take_off(key, node);
            }
        }
    }

    fn take_off(&mut self, key: AskKey, node: NodeId) {
        if self.removals.strike(key, node) {
            self.removals.open.remove(&key);
            self.answer(key, Ok(Answer::Ok));
        }
    }

    /// Answers removals for which a node was waited that renews its lease and does not obey.
    pub(super) fn give_up_removals(&mut self, now_ms: u64) {
        let late = self.removals.open.iter().filter(|(_, removal)| removal.until_ms <= now_ms);
        let late: Vec<(AskKey, Vec<NodeId>)> =
            late.map(|(key, removal)| (*key, removal.waits.keys().copied().collect())).collect();
        for (key, nodes) in late {
            nodes.into_iter().for_each(|node| self.take_off(key, node));
        }
    }
}
