//! Nodes that write down what they hold (`--persist`), as they said when they joined: where bytes that their users want kept may go, and
//! which of them come back.
//!
//! | a region of one copy per byte, with its home on such a node | |
//! |---|---|
//! | moves | to another such node alone |
//! | gets copies | anywhere: others have its bytes then, and it is not written down any more |
//!
//! A node's next life brings extents as its last life wrote them. They are those of the pool where no other node may have had later bytes:
//!
//! | extents of a region | are taken back |
//! |---|---|
//! | without holders | if the life right before wrote them |
//! | of one holder each, and one copy | the same; its nodes end the order of writes |
//! | with any other holders | never: another holder goes on, or the bytes are lost |

use super::Coordinator;
use crate::id::{Gid, NodeId};
use crate::wire::control::{ReportedExtent, WhyStays};
use crate::wire::copies::CopiedExtent;
use std::collections::BTreeSet;

/// The advice where an extent has nowhere to go.
pub(super) const NO_OTHER_PERSISTS: &str = "it is written down (--persist), and no other node that writes down has room: start one, or let \
                                            this one end in good order, whose next start has it";

impl Coordinator {
    /// True if the node said that it writes down what it holds.
    pub(super) fn persists(&self, node: NodeId) -> bool {
        self.roster.seat(node).is_some_and(|seat| seat.persists)
    }

    /// True if an extent is written down by its home, because no other node is to have its bytes.
    pub(super) fn is_written_down(&self, extent: CopiedExtent) -> bool {
        let region = self.ledger.regions.get(&extent.gid).filter(|region| region.copies < 2);
        let home = region.and_then(|region| region.layout.extents().nth(extent.index as usize));
        home.is_some_and(|home| self.persists(home.node))
    }

    /// True if the node may become the home of an extent that its home gives away.
    pub(super) fn may_hold(&self, extent: CopiedExtent, node: NodeId) -> bool {
        self.persists(node) || !self.is_written_down(extent)
    }

    /// The reason for which an extent stays that no other node can get.
    pub(super) fn why_no_room(&self, extent: CopiedExtent) -> WhyStays {
        match self.is_written_down(extent) {
            true => WhyStays::NotReady(NO_OTHER_PERSISTS.to_owned()),
            false => WhyStays::NoRoom,
        }
    }

    /// The extents that a node's new life brings, without those that are not of today. `has_extents` if the life right before wrote them.
    pub(super) fn of_today(
        &mut self,
        now_ms: u64,
        node: NodeId,
        held: &[ReportedExtent],
        has_extents: bool,
    ) -> Vec<ReportedExtent> {
        let is_known = |held: &&ReportedExtent| self.ledger.extents.get(&(node, held.slot)) == Some(&(held.gid, held.len));
        let has_holders = |gid: &Gid| self.ledger.regions.get(gid).is_some_and(|region| !region.holders.is_empty());
        let mut void: BTreeSet<Gid> = held.iter().filter(is_known).map(|held| held.gid).filter(has_holders).collect();
        void.retain(|gid| !has_extents || !self.end_copies_now(now_ms, *gid));
        held.iter().filter(|held| !void.contains(&held.gid)).copied().collect()
    }

    /// Ends the copies of a region that has none, as far as the journal knows, and is to have none. Returns false where another node holds
    /// some of its bytes, too.
    fn end_copies_now(&mut self, now_ms: u64, gid: Gid) -> bool {
        let Some(region) = self.ledger.regions.get(&gid) else { return false };
        let extents: Vec<CopiedExtent> = (0..region.holders.len() as u32).map(|index| CopiedExtent { gid, index }).collect();
        let is_single = region.copies < 2 && region.lost.is_empty() && region.holders.iter().all(|known| known.copies.is_empty());
        if !is_single || self.growths.contains_key(&gid) {
            return false;
        }
        self.give_up_copies_in(now_ms, gid);
        let is_settled = extents.into_iter().all(|extent| self.has_one_holder(extent));
        if is_settled {
            self.record_ending(now_ms, gid);
        }
        is_settled
    }
}
