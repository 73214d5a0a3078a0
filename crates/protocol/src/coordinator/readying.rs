//! Regions that were made without copies. Before such a region gets its first copy, each of its nodes makes its extents ready: direct access of
//! programs ends, and writes get an order.
//!
//! ```text
//!               copies asked for, or a drain                all are ready
//!   no holders ------------------------------> node asked -----------------> holders of one node each ([`Record::TakesCopies`])
//!                                               |      ^
//!          a node refuses, or does not answer  v      |  `REMAKE_MS` later
//!                                               resting
//! ```
//!
//! The way back is that of `endings`.
//!
//! Readiness needs no record: a node that is ready answers commands as before, and answers a second order at once. Grants change with each
//! order that is obeyed, so who opens the region meanwhile waits.

use super::Coordinator;
use super::orders::Pending;
use super::records::{Record, RegionRecord};
use super::roster::Phase;
use super::settings::{MAKING_COUNT, REMAKE_MS};
use crate::copies::HolderSet;
use crate::error::{Error, Result};
use crate::id::{Gid, NodeId, Slot};
use crate::wire::control::{Order, ReportedExtent, WhyStays};
use crate::wire::copies::CopiedExtent;
use std::collections::{BTreeMap, BTreeSet};

/// Regions that are to be ready.
#[derive(Clone, Debug, Default)]
pub(super) struct Readying(BTreeMap<Gid, ReadyingRegion>);

#[derive(Clone, Debug, Default)]
struct ReadyingRegion {
    /// Orders without an answer, with their nodes.
    orders: BTreeMap<u64, NodeId>,
    /// The error of the last try.
    refused: Option<Error>,
    /// The next try. While one is under way, its end: who opens the region waits for that.
    rests_until_ms: u64,
}

impl Readying {
    /// True if nodes make the region ready at this moment.
    pub fn is_under_way(&self, gid: Gid) -> bool {
        self.0.get(&gid).is_some_and(|region| !region.orders.is_empty())
    }

    /// True if the region is to be made ready.
    pub fn has(&self, gid: Gid) -> bool {
        self.0.contains_key(&gid)
    }

    /// The reason for which the last try failed.
    pub fn refusal(&self, gid: Gid) -> Option<&Error> {
        self.0.get(&gid)?.refused.as_ref()
    }

    /// When a try ends, or the next one is due. With as many under way as may be, no other begins.
    pub fn deadline(&self) -> Option<u64> {
        let may_begin = self.under_way_count() < MAKING_COUNT;
        let counts = |region: &&ReadyingRegion| may_begin || !region.orders.is_empty();
        self.0.values().filter(counts).map(|region| region.rests_until_ms).min()
    }

    /// Ends tries of nodes that live and do not answer. Returns true if there were any.
    fn end_late(&mut self, now_ms: u64) -> bool {
        let is_late = |region: &&mut ReadyingRegion| !region.orders.is_empty() && region.rests_until_ms <= now_ms;
        let mut late = self.0.values_mut().filter(is_late).peekable();
        let has_ended = late.peek().is_some();
        for region in late {
            let peer = region.orders.values().next().map_or_else(String::new, NodeId::to_string);
            let what = "an order to make a region ready for copies".to_owned();
            region.orders.clear();
            region.refused = Some(Error::Timeout { peer, what, after_ms: REMAKE_MS });
            region.rests_until_ms = now_ms.saturating_add(REMAKE_MS);
        }
        has_ended
    }

    fn under_way_count(&self) -> usize {
        self.0.values().filter(|region| !region.orders.is_empty()).count()
    }

    /// A node's epoch ended, and its orders with it.
    pub fn on_node_away(&mut self, node: NodeId, reason: &str) {
        for region in self.0.values_mut() {
            let count = region.orders.len();
            region.orders.retain(|_, at| *at != node);
            if region.orders.len() < count {
                region.refused = Some(Error::NodeLost { node, reason: reason.to_owned() });
            }
        }
    }
}

/// The extents of a region by their homes.
pub(super) fn homes_of(region: &RegionRecord) -> BTreeMap<NodeId, Vec<(CopiedExtent, Slot)>> {
    let mut by_node: BTreeMap<NodeId, Vec<(CopiedExtent, Slot)>> = BTreeMap::new();
    for (index, extent) in region.layout.extents().enumerate() {
        let name = CopiedExtent { gid: region.gid, index: index as u32 };
        by_node.entry(extent.node).or_default().push((name, extent.slot));
    }
    by_node
}

impl Coordinator {
    /// True if a region without holders is to have some: copies are asked for, or a node of it is drained.
    fn wants_ready(&self, region: &RegionRecord) -> bool {
        region.holders.is_empty() && region.lost.is_empty() && (region.copies > 1 || self.has_leaving_home(region))
    }

    /// Notes the region, if it is to be made ready. A tick begins.
    pub(super) fn want_ready(&mut self, now_ms: u64, gid: Gid) {
        if self.ledger.regions.get(&gid).is_some_and(|region| self.wants_ready(region)) {
            let region = self.copied.readying.0.entry(gid).or_default();
            // A try that is under way has its time.
            if region.orders.is_empty() {
                region.rests_until_ms = now_ms;
            }
        }
    }

    /// The same for all regions of a node.
    pub(super) fn want_ready_on(&mut self, now_ms: u64, node: NodeId) {
        let gids: BTreeSet<Gid> = self.ledger.held_by(node).map(|(_, gid, _)| gid).collect();
        gids.into_iter().for_each(|gid| self.want_ready(now_ms, gid));
    }

    /// Begins tries that are due. Regions that are ready, or need it no more, are forgotten.
    pub(super) fn tick_readying(&mut self, now_ms: u64) {
        self.changed |= self.copied.readying.end_late(now_ms);
        let idle = |(gid, region): (&Gid, &ReadyingRegion)| region.orders.is_empty().then_some((*gid, region.rests_until_ms));
        let idle: Vec<(Gid, u64)> = self.copied.readying.0.iter().filter_map(idle).collect();
        for (gid, rests_until_ms) in idle {
            let Some(region) = self.ledger.regions.get(&gid).filter(|region| self.wants_ready(region)) else {
                self.copied.readying.0.remove(&gid);
                continue;
            };
            if rests_until_ms > now_ms || self.copied.readying.under_way_count() >= MAKING_COUNT {
                continue;
            }
            let region = region.clone();
            let refused = self.may_make_ready(&region).err();
            let orders = if refused.is_none() { self.order_ready(now_ms, &region) } else { BTreeMap::new() };
            let rests_until_ms = now_ms.saturating_add(REMAKE_MS);
            self.copied.readying.0.insert(gid, ReadyingRegion { orders, refused, rests_until_ms });
        }
    }

    /// Refuses what would fail, or help nobody.
    fn may_make_ready(&self, region: &RegionRecord) -> Result<()> {
        if self.growths.contains_key(&region.gid) {
            return Err(Error::BadUse { region: region.name.clone(), reason: "it grows at this moment".to_owned() });
        }
        for (index, home) in region.layout.extents().enumerate() {
            let extent = CopiedExtent { gid: region.gid, index: index as u32 };
            if self.roster.phase(home.node) != Phase::Member {
                return Err(Error::NodeLost { node: home.node, reason: "it is no member at present".to_owned() });
            }
            if region.copies < 2 && !self.is_leaving(extent, home.node) {
                continue;
            }
            let rooms = self.rooms_of_copies(extent, &[home.node]);
            let most = rooms.iter().map(|room| room.free).max().unwrap_or(0);
            let withheld = rooms.iter().map(|room| room.withheld).fold(0, u64::saturating_add);
            if self.best_for_copy(&[home.node], home.len, rooms.into_iter()).is_none() {
                return Err(match self.why_no_room(extent) {
                    WhyStays::NotReady(reason) => Error::BadUse { region: region.name.clone(), reason },
                    _ => Error::PoolFull { asked: home.len, free: most, withheld },
                });
            }
        }
        Ok(())
    }

    /// Orders all nodes of a region to make its extents ready.
    fn order_ready(&mut self, now_ms: u64, region: &RegionRecord) -> BTreeMap<u64, NodeId> {
        let order = |(node, extents)| {
            let set = Some(HolderSet::alone(node));
            (self.order(now_ms, node, Order::MakeReady { gid: region.gid, set, extents }), node)
        };
        homes_of(region).into_iter().map(order).collect()
    }

    /// A node has made extents ready or ended that, or could not.
    pub(super) fn on_made_ready(&mut self, now_ms: u64, order: u64, pending: &Pending, result: Result<Vec<ReportedExtent>>) {
        let Order::MakeReady { gid, set, extents } = &pending.what else { return };
        let result = result.and_then(|ready| self.check_ready(pending.node, *gid, extents, &ready).map(|()| ready));
        if let Some(seat) = self.roster.seat_mut(pending.node) {
            result.iter().flatten().for_each(|ready| seat.add_grants(ready));
        }
        if set.is_none() {
            return self.on_ended(now_ms, order, *gid, result.is_ok());
        }
        let Some(region) = self.copied.readying.0.get_mut(gid) else { return };
        if region.orders.remove(&order).is_none() {
            return;
        }
        region.refused = result.err().or(region.refused.take());
        region.rests_until_ms = now_ms.saturating_add(REMAKE_MS);
        let is_ready = region.orders.is_empty() && region.refused.is_none();
        self.changed = true;
        let takes = self.ledger.regions.get(gid).is_some_and(|region| region.holders.is_empty() && region.lost.is_empty());
        if is_ready && takes {
            self.copied.readying.0.remove(gid);
            self.copied.endings.forget(*gid);
            self.record(Record::TakesCopies { gid: *gid });
            self.take_up_holders(now_ms, *gid);
            self.fit_copies(now_ms, *gid);
        }
    }

    /// A node must have made ready what it was ordered.
    fn check_ready(&self, node: NodeId, gid: Gid, asked: &[(CopiedExtent, Slot)], ready: &[ReportedExtent]) -> Result<()> {
        let is_it = |(ready, (_, slot)): (&ReportedExtent, &(CopiedExtent, Slot))| {
            ready.slot == *slot && ready.gid == gid && self.ledger.extents.get(&(node, *slot)) == Some(&(gid, ready.len))
        };
        match ready.len() == asked.len() && ready.iter().zip(asked).all(is_it) {
            true => Ok(()),
            false => {
                let reason = format!("it made other extents of {gid} ready than ordered");
                Err(Error::Garbage { peer: node.to_string(), reason })
            }
        }
    }
}
