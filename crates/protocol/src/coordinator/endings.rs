//! Regions whose extents one node each holds again, and which are to have no copies. Their nodes end the order of writes, and programs have direct
//! access again.
//!
//! ```text
//!                    for `REST_MS`                                all have ended it
//!   one holder each ---------------> [`Record::EndsCopies`] -----------------------> [`Record::CopiesEnded`]
//!                                     nodes asked |      ^
//!                                a node could not v      |  later each time
//!                                                resting
//! ```
//!
//! The record comes first: from then on nobody makes a copy that the node would know nothing of. A node that has not heard of it goes on with its order
//! of writes, and gives no direct access. It is asked until it has.

use super::Coordinator;
use super::readying::homes_of;
use super::records::{Record, RegionRecord};
use super::roster::Phase;
use super::settings::REMAKE_MS;
use crate::id::{Gid, NodeId};
use crate::limits;
use crate::placement::Extent;
use crate::wire::control::Order;
use crate::wire::copies::CopiedExtent;
use std::collections::BTreeMap;

/// Time for which one node has held each extent, before its region has no copies any more. Extents that move follow each other.
const REST_MS: u64 = limits::LEASE_MS;

/// Doublings of the time between tries. Commands that do not end are held up by each of them.
const DOUBLINGS: u32 = 6;

/// Regions that are to have no copies.
#[derive(Clone, Debug, Default)]
pub(super) struct Endings(BTreeMap<Gid, Ending>);

#[derive(Clone, Debug)]
struct Ending {
    /// Orders without an answer, with their nodes.
    orders: BTreeMap<u64, NodeId>,
    /// True if a node could not, or was away.
    is_tried_again: bool,
    tries: u32,
    due_ms: u64,
}

impl Ending {
    /// An ending of which no node has been asked.
    fn due(due_ms: u64, is_tried_again: bool) -> Ending {
        Ending { orders: BTreeMap::new(), is_tried_again, tries: 0, due_ms }
    }
}

impl Endings {
    /// True if nodes end it at this moment: grants change.
    pub fn is_under_way(&self, gid: Gid) -> bool {
        self.0.get(&gid).is_some_and(|ending| !ending.orders.is_empty())
    }

    /// When something is to be done.
    pub fn deadline(&self) -> Option<u64> {
        self.0.values().filter(|ending| ending.orders.is_empty()).map(|ending| ending.due_ms).min()
    }

    /// The region is to have copies, or is no more.
    pub fn forget(&mut self, gid: Gid) {
        self.0.remove(&gid);
    }

    /// A node's epoch ended, and its orders with it.
    pub fn on_node_away(&mut self, node: NodeId) {
        for ending in self.0.values_mut() {
            let count = ending.orders.len();
            ending.orders.retain(|_, at| *at != node);
            ending.is_tried_again |= ending.orders.len() < count;
        }
    }
}

impl Coordinator {
    /// True if each extent of the region has one holder, which is well, and is to have no more.
    fn may_end_copies(&self, region: &RegionRecord) -> bool {
        let is_settled = |(index, home): (usize, &Extent)| {
            let extent = CopiedExtent { gid: region.gid, index: index as u32 };
            self.has_one_holder(extent) && self.roster.phase(home.node) == Phase::Member
        };
        region.copies == 1
            && !region.holders.is_empty()
            && region.lost.is_empty()
            && !self.growths.contains_key(&region.gid)
            && !self.has_leaving_home(region)
            && region.layout.extents().enumerate().all(is_settled)
    }

    /// Something of the region is settled: it may have no copies some time later.
    pub(super) fn note_ending(&mut self, now_ms: u64, gid: Gid) {
        let may_end = self.ledger.regions.get(&gid).is_some_and(|region| region.copies == 1 && !region.holders.is_empty());
        if may_end {
            self.copied.endings.0.insert(gid, Ending::due(now_ms.saturating_add(REST_MS), false));
        }
    }

    /// Ends the copies of a region that one node each holds, members or not: its nodes are asked at once, and as they come back.
    pub(super) fn record_ending(&mut self, now_ms: u64, gid: Gid) {
        self.record(Record::EndsCopies { gid });
        self.forget_holders(now_ms, gid);
        self.copied.endings.0.insert(gid, Ending::due(now_ms, true));
    }

    /// A coordinator before this one has recorded it, and did not hear of the end.
    pub(super) fn resume_endings(&mut self, now_ms: u64) {
        for gid in self.ledger.ending.iter().copied() {
            self.copied.endings.0.insert(gid, Ending::due(now_ms.saturating_add(REST_MS), true));
        }
    }

    /// Begins what is due.
    pub(super) fn tick_endings(&mut self, now_ms: u64) {
        let is_due = |ending: &Ending| ending.orders.is_empty() && ending.due_ms <= now_ms;
        let due = self.copied.endings.0.iter().filter(|(_, ending)| is_due(ending));
        let due: Vec<(Gid, bool, u32)> = due.map(|(gid, ending)| (*gid, ending.is_tried_again, ending.tries)).collect();
        for (gid, is_tried_again, tries) in due {
            let region = self.ledger.regions.get(&gid).cloned();
            let is_recorded = is_tried_again && self.ledger.ending.contains(&gid);
            let may_end = |region: &RegionRecord| {
                if is_recorded { region.lost.is_empty() } else { self.may_end_copies(region) }
            };
            let Some(region) = region.filter(may_end) else {
                self.copied.endings.forget(gid);
                continue;
            };
            let pause_ms = REMAKE_MS.saturating_mul(1 << tries.min(DOUBLINGS));
            if self.copied.readying.has(gid) {
                // The nodes may be about to make it ready again.
                self.copied.endings.0.entry(gid).and_modify(|ending| ending.due_ms = now_ms.saturating_add(pause_ms));
                continue;
            }
            if !region.holders.is_empty() {
                self.record(Record::EndsCopies { gid });
                self.forget_holders(now_ms, gid);
            }
            let mut ending = Ending { tries: tries.saturating_add(1), ..Ending::due(now_ms.saturating_add(pause_ms), false) };
            for (node, extents) in homes_of(&region) {
                match self.roster.phase(node) {
                    Phase::Member => {
                        let order = self.order(now_ms, node, Order::MakeReady { gid, set: None, extents });
                        ending.orders.insert(order, node);
                    }
                    _ => ending.is_tried_again = true,
                }
            }
            self.copied.endings.0.insert(gid, ending);
        }
    }

    /// A node has ended the order of writes of a region, or could not.
    pub(super) fn on_ended(&mut self, now_ms: u64, order: u64, gid: Gid, is_done: bool) {
        let Some(ending) = self.copied.endings.0.get_mut(&gid) else { return };
        if ending.orders.remove(&order).is_none() {
            return;
        }
        ending.is_tried_again |= !is_done;
        ending.due_ms = ending.due_ms.max(now_ms.saturating_add(REMAKE_MS));
        if ending.orders.is_empty() && !ending.is_tried_again {
            self.copied.endings.forget(gid);
            self.record(Record::CopiesEnded { gid });
        }
        self.changed = true;
    }
}
