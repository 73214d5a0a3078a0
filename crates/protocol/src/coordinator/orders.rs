//! Orders to nodes: numbered, repeated until obeyed, obeyed once.
//!
//! A number holds the coordinator's life in its upper bits, so a restarted coordinator never reuses one and needs no record of any.

use super::Coordinator;
use crate::id::{Epoch, Gid, NodeId, Slot};
use crate::limits::REPEAT_MS;
use crate::wire::control::{Order, ToNode};
use std::collections::BTreeMap;

/// Bits of an order's number below the life: 2^40 orders a life, a thousand a second for 34 years.
const LIFE_SHIFT: u32 = 40;

/// An order that was not obeyed yet.
#[derive(Clone, Debug)]
pub(super) struct Pending {
    pub node: NodeId,
    pub epoch: Epoch,
    pub what: Order,
    sent_ms: u64,
}

/// All orders that were not obeyed yet.
#[derive(Clone, Debug)]
pub(super) struct GivenOrders {
    next: u64,
    pending: BTreeMap<u64, Pending>,
}

impl GivenOrders {
    pub fn new(life: u64) -> GivenOrders {
        GivenOrders { next: life << LIFE_SHIFT, pending: BTreeMap::new() }
    }

    /// Gives an order; returns its number and what to send.
    pub fn give(&mut self, now_ms: u64, node: NodeId, epoch: Epoch, what: Order) -> (u64, ToNode) {
        let order = self.next;
        self.next = self.next.wrapping_add(1);
        self.pending.insert(order, Pending { node, epoch, what, sent_ms: now_ms });
        (order, self.message(order))
    }

    fn message(&self, order: u64) -> ToNode {
        let Pending { node, epoch, what, .. } = &self.pending[&order];
        ToNode::Order { order, settled: self.settled(*node), epoch: *epoch, what: what.clone() }
    }

    /// Below which number all orders to a node are settled.
    pub fn settled(&self, node: NodeId) -> u64 {
        self.of(node).next().map_or(self.next, |(order, _)| order)
    }

    /// The orders to a node that are pending, by number.
    pub fn of(&self, node: NodeId) -> impl Iterator<Item = (u64, &Pending)> {
        self.pending.iter().filter(move |(_, pending)| pending.node == node).map(|(order, pending)| (*order, pending))
    }

    /// Takes an order off the list because its node obeyed it; `None` when it is not pending for that node.
    pub fn obeyed(&mut self, node: NodeId, order: u64) -> Option<Pending> {
        match self.pending.get(&order) {
            Some(pending) if pending.node == node => self.pending.remove(&order),
            _ => None,
        }
    }

    /// Drops all orders to a node whose epoch ended: what it made for them it will be told to free when it joins again.
    pub fn cancel(&mut self, node: NodeId) {
        self.pending.retain(|_, pending| pending.node != node);
    }

    /// True if an order to `node` still makes extents for `gid`, or frees `slot`.
    pub fn is_about(&self, node: NodeId, gid: Gid, slot: Slot) -> bool {
        self.of(node).any(|(_, pending)| match &pending.what {
            Order::Make { gid: other, .. } => *other == gid,
            Order::Free { slots } => slots.contains(&slot),
            Order::MakeReady { .. } => false,
        })
    }

    /// Orders to repeat at `now_ms`, with their nodes.
    pub fn repeat(&mut self, now_ms: u64) -> Vec<(NodeId, ToNode)> {
        let due = |pending: &Pending| pending.sent_ms.saturating_add(REPEAT_MS) <= now_ms;
        let orders: Vec<u64> = self.pending.iter().filter(|(_, pending)| due(pending)).map(|(order, _)| *order).collect();
        let mut messages = Vec::new();
        for order in orders {
            messages.push((self.pending[&order].node, self.message(order)));
            self.pending.get_mut(&order).expect("just seen").sent_ms = now_ms;
        }
        messages
    }

    /// When the next repetition is due.
    pub fn deadline(&self) -> Option<u64> {
        self.pending.values().map(|pending| pending.sent_ms.saturating_add(REPEAT_MS)).min()
    }
}

impl Coordinator {
    /// Gives an order to a member.
    pub(super) fn order(&mut self, now_ms: u64, node: NodeId, what: Order) -> u64 {
        let epoch = self.epoch(node);
        let (order, message) = self.orders.give(now_ms, node, epoch, what);
        self.send(node, message);
        order
    }
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "numbers of a test")]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_repeated_until_obeyed_and_numbers_grow_over_lives() {
        let mut orders = GivenOrders::new(1);
        let (first, _) = orders.give(0, NodeId(1), Epoch(1), Order::Free { slots: vec![] });
        let (second, _) = orders.give(0, NodeId(2), Epoch(1), Order::Free { slots: vec![] });
        assert!(orders.repeat(REPEAT_MS - 1).is_empty());
        assert_eq!(orders.repeat(REPEAT_MS).len(), 2);
        assert!(orders.obeyed(NodeId(2), first).is_none(), "another node cannot obey it");
        assert!(orders.obeyed(NodeId(1), first).is_some());
        assert!(orders.obeyed(NodeId(1), first).is_none(), "once");
        assert_eq!((orders.settled(NodeId(1)), orders.settled(NodeId(2))), (second + 1, second));
        assert!(GivenOrders::new(2).next > second);
    }
}
