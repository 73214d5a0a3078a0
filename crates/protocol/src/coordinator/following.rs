//! Regions that follow their users: extents go to the host that uses them most, as their homes say (`usage`).
//!
//! A home tells of all such extents, because it does not know which regions follow. A node that lies has regions moved that want to move. What
//! could not move rests for a while.

use super::Coordinator;
use super::balance::{Move, MoveCause};
use super::settings::MOVE_COUNT;
use crate::id::NodeId;
use crate::limits::USED_ELSEWHERE_COUNT_MAX;
use crate::usage::{self, ROUND_MS, UsedElsewhere};
use crate::wire::control::WhyStays;
use crate::wire::copies::CopiedExtent;
use std::collections::{BTreeMap, BTreeSet};

/// Time to the next try to move an extent that could not.
const REST_MS: u64 = 6 * ROUND_MS;

/// Extents that could not follow their users, and until when they rest.
#[derive(Clone, Debug, Default)]
pub(super) struct Followers(BTreeMap<CopiedExtent, u64>);

impl Followers {
    /// A move has ended, without a reason where that is well.
    pub fn on_outcome(&mut self, now_ms: u64, next: &Move, why: Option<WhyStays>) {
        self.0.retain(|_, until_ms| *until_ms > now_ms);
        if why.is_some() {
            self.0.insert(next.extent, now_ms.saturating_add(REST_MS));
        }
    }

    fn rests(&self, now_ms: u64, extent: CopiedExtent) -> bool {
        self.0.get(&extent).is_some_and(|until_ms| *until_ms > now_ms)
    }
}

/// Nodes that may get extents, and bytes of moves under way or planned to some of them.
type Receivers<'a> = (&'a BTreeSet<NodeId>, &'a BTreeMap<NodeId, u64>);

impl Coordinator {
    /// Other hosts use these extents of a node most. Those of regions that follow begin to move.
    pub(super) fn follow(&mut self, now_ms: u64, home: NodeId, extents: &[UsedElsewhere]) {
        let (members, mut promised) = (self.receivers(), self.promised_by_moves());
        let (mut moves, room): (Vec<Move>, _) = (Vec::new(), MOVE_COUNT.saturating_sub(self.moves.under_way.len()));
        for used in extents.iter().take(USED_ELSEWHERE_COUNT_MAX) {
            if moves.len() >= room {
                break;
            }
            let Some(next) = self.move_to_users(now_ms, home, used, (&members, &promised)) else { continue };
            let sum = promised.entry(next.to).or_default();
            let is_planned = moves.iter().any(|other| other.extent == next.extent);
            if !is_planned && self.room(next.to).free >= sum.saturating_add(next.len) {
                *sum = sum.saturating_add(next.len);
                moves.push(next);
            }
        }
        if !moves.is_empty() {
            self.move_extents(now_ms, moves);
        }
    }

    /// The move of an extent to its users, if its region follows them and nothing is in the way. Where their node has a copy, another one
    /// gets a further copy, and theirs becomes the home.
    fn move_to_users(&self, now_ms: u64, home: NodeId, used: &UsedElsewhere, (members, promised): Receivers<'_>) -> Option<Move> {
        let region = self.ledger.regions.get(&used.gid).filter(|region| usage::follows_users(&region.attributes))?;
        let is_it = |extent: &crate::placement::Extent| (extent.node, extent.slot) == (home, used.slot);
        let index = region.layout.extents().position(is_it)?;
        let extent = CopiedExtent { gid: used.gid, index: index as u32 };
        let may_have = members.contains(&used.by) && self.may_hold(extent, used.by);
        if self.moves.followers.rests(now_ms, extent) || !may_have || used.by == home {
            return None;
        }
        let mut movables = Vec::new();
        self.movables_of(region, members, &mut movables);
        let movable = movables.into_iter().find(|movable| movable.extent == extent && movable.node == home)?;
        let to = match movable.others.contains(&used.by) {
            true => self.destination(&movable, promised)?,
            false => used.by,
        };
        Some(Move { cause: MoveCause::Users(used.by), extent, from: home, to, len: movable.len })
    }
}
