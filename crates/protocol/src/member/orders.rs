//! Orders of the coordinator: each number is obeyed once, its result remembered until it is settled.

use crate::error::Result;
use crate::id::Slot;
use crate::wire::control::{FromNode, ReportedExtent};
use std::collections::BTreeMap;

/// State of an order.
#[derive(Clone, Debug, PartialEq, Eq)]
enum OrderEntry {
    /// The driver makes extents, or makes them ready; `wanted` is false once the coordinator has settled the order without them.
    Making { wanted: bool },
    /// Done. `told`: the coordinator was sent the result at least once, so it decides what becomes of it.
    Done { result: Result<Vec<ReportedExtent>>, told: bool },
}

/// Standing of an arriving order.
#[allow(clippy::large_enum_variant, reason = "one at a time, on the stack")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum OrderArrival {
    /// Carry it out.
    New,
    /// No action: it is being carried out, or is settled.
    Known,
    /// Send the result again.
    Done(FromNode),
}

/// All orders that are not settled.
#[derive(Clone, Debug, Default)]
pub(super) struct ReceivedOrders {
    settled: u64,
    entries: BTreeMap<u64, OrderEntry>,
}

impl ReceivedOrders {
    /// Forgets orders below a number; returns the slots of extents that were made and that nobody ever heard of.
    pub fn settle(&mut self, below: u64) -> Vec<Slot> {
        if below <= self.settled {
            return Vec::new();
        }
        self.settled = below;
        let unsettled = self.entries.split_off(&below);
        let settled = std::mem::replace(&mut self.entries, unsettled);
        let mut orphans = Vec::new();
        for (order, entry) in settled {
            match entry {
                OrderEntry::Making { .. } => {
                    self.entries.insert(order, OrderEntry::Making { wanted: false });
                }
                OrderEntry::Done { result: Ok(made), told: false } => orphans.extend(made.iter().map(|extent| extent.slot)),
                OrderEntry::Done { .. } => {}
            }
        }
        orphans
    }

    /// An order arrives.
    pub fn arrived(&mut self, order: u64) -> OrderArrival {
        match self.entries.get_mut(&order) {
            Some(OrderEntry::Making { .. }) => OrderArrival::Known,
            Some(OrderEntry::Done { result, told }) => {
                *told = true;
                OrderArrival::Done(FromNode::Obeyed { order, result: result.clone() })
            }
            None if order < self.settled => OrderArrival::Known,
            None => OrderArrival::New,
        }
    }

    /// The driver begins to make extents.
    pub fn making(&mut self, order: u64) {
        self.entries.insert(order, OrderEntry::Making { wanted: true });
    }

    /// The driver made extents, or could not; returns whether anybody wants to know.
    pub fn made(&mut self, order: u64, result: &Result<Vec<ReportedExtent>>) -> bool {
        match self.entries.remove(&order) {
            Some(OrderEntry::Making { wanted: true }) => {
                self.entries.insert(order, OrderEntry::Done { result: result.clone(), told: false });
                true
            }
            _ => false,
        }
    }

    /// The driver made extents ready for copies, or could not; returns the message for whoever wants to know.
    pub fn made_ready(&mut self, order: u64, result: Result<Vec<ReportedExtent>>) -> Option<FromNode> {
        match self.entries.remove(&order) {
            Some(OrderEntry::Making { wanted: true }) => {
                // Extents that were there before are freed by nobody.
                self.entries.insert(order, OrderEntry::Done { result: result.clone(), told: true });
                Some(FromNode::Obeyed { order, result })
            }
            _ => None,
        }
    }

    /// An order was carried out on the spot.
    pub fn done(&mut self, order: u64) -> FromNode {
        self.entries.insert(order, OrderEntry::Done { result: Ok(Vec::new()), told: true });
        FromNode::Obeyed { order, result: Ok(Vec::new()) }
    }

    /// Number of unsettled orders.
    #[cfg(test)]
    pub fn count(&self) -> usize {
        self.entries.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{Gid, Grant};

    fn extent(slot: u32) -> ReportedExtent {
        ReportedExtent { slot: Slot(slot), gid: Gid(1), len: 1, read: Grant([0; 16]), write: Grant([0; 16]) }
    }

    #[test]
    fn an_order_is_obeyed_once_and_answered_as_often_as_it_comes() {
        let mut orders = ReceivedOrders::default();
        assert_eq!(orders.arrived(5), OrderArrival::New);
        orders.making(5);
        assert_eq!(orders.arrived(5), OrderArrival::Known);
        let result = Ok(vec![extent(3)]);
        assert!(orders.made(5, &result));
        for _ in 0..2 {
            assert_eq!(orders.arrived(5), OrderArrival::Done(FromNode::Obeyed { order: 5, result: result.clone() }));
        }
        assert!(orders.settle(6).is_empty());
        assert_eq!((orders.arrived(5), orders.count()), (OrderArrival::Known, 0));
    }

    #[test]
    fn extents_that_nobody_heard_of_are_freed_when_their_order_is_settled() {
        let mut orders = ReceivedOrders::default();
        orders.making(5);
        orders.making(6);
        orders.made(5, &Ok(vec![extent(3)]));
        assert_eq!(orders.settle(7), [Slot(3)]);
        assert!(!orders.made(6, &Ok(vec![extent(4)])), "the driver frees it");
        assert_eq!(orders.count(), 0);
    }
}
