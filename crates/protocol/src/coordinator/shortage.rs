//! Nodes whose hosts run short of memory: extents leave until what such a node holds fits what it lends.
//!
//! The node decides how much it lends, and tells it with each renewal. Extents move as those of `rebalance` do, so the moves are in no journal:
//! the next renewal tells a coordinator that begins again. As few bytes as possible move, and they do not come back by themselves.
//!
//! | extents of regions | leave |
//! |---|---|
//! | over all nodes | first |
//! | `local` | next |
//! | on named nodes | last: the alternative is that the kernel ends the node |
//!
//! An extent that does not leave rests for a while, and others leave in its place.

use super::Coordinator;
use super::balance::{Movable, Move, MoveCause, may_move};
use super::permission;
use super::placement::Room;
use super::records::RegionRecord;
use super::roster::Phase;
use super::settings::{MOVE_COUNT, REMAKE_MS};
use crate::id::{Asker, Gid, NodeId};
use crate::limits::SHORTAGE_REGION_COUNT_MAX;
use crate::wire::control::{StayingRegion, WhyStays};
use crate::wire::copies::CopiedExtent;
use std::collections::{BTreeMap, BTreeSet};

/// Order in which extents leave: the class of their placement, their length, and their names.
type LeaveKey = (u8, u64, CopiedExtent);

/// No extent is before it.
const FIRST: CopiedExtent = CopiedExtent { gid: Gid(0), index: 0 };

/// An extent that did not leave its node.
#[derive(Clone, Debug)]
struct Rest {
    node: NodeId,
    len: u64,
    why: WhyStays,
    /// When it is tried again.
    until_ms: u64,
}

/// All of them, until they leave or the node's host has memory enough.
#[derive(Clone, Debug, Default)]
pub(super) struct Resting(BTreeMap<CopiedExtent, Rest>);

impl Resting {
    /// A move has ended, without a reason where that is well.
    pub fn on_outcome(&mut self, now_ms: u64, next: &Move, why: Option<WhyStays>) {
        match why {
            Some(why) => self.add(now_ms, (next.extent, next.from, next.len), why),
            None => drop(self.0.remove(&next.extent)),
        }
    }

    fn add(&mut self, now_ms: u64, (extent, node, len): (CopiedExtent, NodeId, u64), why: WhyStays) {
        self.0.insert(extent, Rest { node, len, why, until_ms: now_ms.saturating_add(REMAKE_MS) });
    }

    fn has(&self, now_ms: u64, extent: CopiedExtent) -> bool {
        self.0.get(&extent).is_some_and(|rest| rest.until_ms > now_ms)
    }
}

impl Coordinator {
    /// Bytes that a member holds beyond those that it lends, because its host runs short of memory.
    pub(super) fn overhang(&self, node: NodeId) -> u64 {
        let member = self.roster.seat(node).filter(|seat| seat.phase() == Phase::Member);
        let Some(seat) = member.filter(|seat| seat.memory.withheld() > 0) else { return 0 };
        // Extents that have just left are used until the node hears of it, so the less counts.
        let [last, before] = seat.slack;
        self.known_use(node).saturating_add(last.min(before)).saturating_sub(seat.memory.lent)
    }

    /// Bytes of extents on a node, and those that its queues have spilled.
    fn known_use(&self, node: NodeId) -> u64 {
        let spilled = self.roster.seat(node).map_or(0, |seat| seat.memory.spilled);
        self.ledger.allotted.get(&node).copied().unwrap_or(0).saturating_add(spilled)
    }

    /// A member has told how much it lends: what it holds beyond that begins to leave.
    pub(super) fn relieve(&mut self, now_ms: u64, node: NodeId) {
        let known = self.known_use(node);
        if let Some(seat) = self.roster.seat_mut(node) {
            seat.slack = [seat.memory.used.saturating_sub(known), seat.slack[0]];
        }
        let overhang = self.overhang(node);
        if overhang == 0 {
            self.moves.resting.0.retain(|_, rest| rest.node != node);
            let is_its = |next: &Move| next.cause == MoveCause::Shortage && next.from == node;
            if self.moves.under_way.values().any(is_its) {
                self.give_up_moves(now_ms);
            }
            return;
        }
        let moving = self.moves.under_way.values().filter(|next| next.from == node);
        let missing = moving.map(|next| next.len).fold(overhang, u64::saturating_sub);
        if missing == 0 || self.ledger.draining.contains_key(&node) {
            return;
        }
        let moves = self.plan_relief(now_ms, node, missing);
        if !moves.is_empty() {
            self.move_extents(now_ms, moves);
        }
    }

    /// True of a move that has not begun and whose node has memory enough again.
    pub(super) fn is_needless(&self, next: &Move, holders: &[NodeId]) -> bool {
        let has_begun = holders.contains(&next.to) || self.copied.is_making(next.extent);
        next.cause == MoveCause::Shortage && !has_begun && self.overhang(next.from) == 0
    }

    /// Plans moves of the `missing` bytes from a node. Extents without a destination rest.
    fn plan_relief(&mut self, now_ms: u64, node: NodeId, mut missing: u64) -> Vec<Move> {
        let mut candidates = self.candidates(now_ms, node);
        let mut promised = self.promised_by_moves();
        let (mut moves, count) = (Vec::new(), MOVE_COUNT.saturating_sub(self.moves.under_way.len()));
        while missing > 0 && moves.len() < count {
            let Some(movable) = next_of(&candidates, missing).and_then(|key| candidates.remove(&key)) else { break };
            let Movable { extent, node: from, len, .. } = movable;
            match self.destination(&movable, &promised) {
                Some(to) => {
                    missing = missing.saturating_sub(len);
                    let sum = promised.entry(to).or_insert(0);
                    *sum = sum.saturating_add(len);
                    moves.push(Move { cause: MoveCause::Shortage, extent, from, to, len });
                }
                None => self.moves.resting.add(now_ms, (extent, from, len), self.why_no_room(extent)),
            }
        }
        moves
    }

    /// The extents that may leave a node now. Those with lost bytes rest.
    fn candidates(&mut self, now_ms: u64, node: NodeId) -> BTreeMap<LeaveKey, Movable> {
        let members = self.receivers();
        let gids: BTreeSet<Gid> = self.ledger.held_by(node).map(|(_, gid, _)| gid).collect();
        self.moves.resting.0.retain(|extent, rest| rest.node != node || gids.contains(&extent.gid));
        let (mut movables, mut lost) = (Vec::new(), Vec::new());
        for region in gids.iter().filter_map(|gid| self.ledger.regions.get(gid)) {
            self.movables_of(region, &members, &mut movables);
            let parts = region.layout.extents().enumerate().filter(|(_, home)| !region.lost.is_empty() && home.node == node);
            lost.extend(parts.map(|(index, home)| (CopiedExtent { gid: region.gid, index: index as u32 }, node, home.len)));
        }
        lost.into_iter().for_each(|part| self.moves.resting.add(now_ms, part, WhyStays::Lost));
        let here = movables.into_iter().filter(|movable| movable.node == node && !self.moves.resting.has(now_ms, movable.extent));
        let class = |movable: &Movable| self.ledger.regions.get(&movable.extent.gid).map_or(0, class_of);
        here.map(|movable| ((class(&movable), movable.len, movable.extent), movable)).collect()
    }

    /// Bytes that nodes will get by moves that have not begun.
    pub(super) fn promised_by_moves(&self) -> BTreeMap<NodeId, u64> {
        let mut promised: BTreeMap<NodeId, u64> = BTreeMap::new();
        for next in self.moves.under_way.values().filter(|next| !self.copied.is_making(next.extent)) {
            let sum = promised.entry(next.to).or_default();
            *sum = sum.saturating_add(next.len);
        }
        promised
    }

    /// The node that gets an extent: other hosts first.
    pub(super) fn destination(&self, movable: &Movable, promised: &BTreeMap<NodeId, u64>) -> Option<NodeId> {
        let holders: Vec<NodeId> = movable.others.iter().copied().chain([movable.node]).collect();
        let rest = |room: Room| {
            let promised = promised.get(&room.node).copied().unwrap_or(0);
            Room { free: room.free.saturating_sub(promised), ..room }
        };
        let rooms = self.rooms_of_copies(movable.extent, &holders);
        self.best_for_copy(&holders, movable.len, rooms.into_iter().map(rest))
    }

    /// Regions that did not leave nodes whose hosts run short, as far as a user may see them.
    pub(super) fn staying(&self, user: &Asker) -> BTreeMap<NodeId, Vec<StayingRegion>> {
        let mut by_region: BTreeMap<(NodeId, Gid), StayingRegion> = BTreeMap::new();
        for (extent, rest) in &self.moves.resting.0 {
            let region = self.ledger.regions.get(&extent.gid);
            let Some(region) = region.filter(|region| permission::may_see(region, user).is_ok()) else { continue };
            let is_known = by_region.contains_key(&(rest.node, extent.gid));
            if !is_known && by_region.len() >= SHORTAGE_REGION_COUNT_MAX {
                break;
            }
            let (name, why) = (region.name.clone(), rest.why.clone());
            let stays = by_region.entry((rest.node, extent.gid)).or_insert(StayingRegion { name, len: 0, why });
            stays.len = stays.len.saturating_add(rest.len);
        }
        let mut by_node: BTreeMap<NodeId, Vec<StayingRegion>> = BTreeMap::new();
        for ((node, _), stays) in by_region {
            by_node.entry(node).or_default().push(stays);
        }
        by_node.values_mut().for_each(|stays| stays.sort_by(|one, other| one.name.cmp(&other.name)));
        by_node
    }
}

/// The class of a region's placement; those of the lowest leave first.
fn class_of(region: &RegionRecord) -> u8 {
    match (may_move(region, false), may_move(region, true)) {
        (true, _) => 0,
        (false, true) => 1,
        (false, false) => 2,
    }
}

/// The next extent to leave, of the first class: the longest that is not longer than what is missing, or else the shortest.
fn next_of(candidates: &BTreeMap<LeaveKey, Movable>, missing: u64) -> Option<LeaveKey> {
    let ((class, ..), _) = candidates.first_key_value()?;
    let (begin, end) = ((*class, 0, FIRST), (class.saturating_add(1), 0, FIRST));
    let between = (*class, missing.saturating_add(1), FIRST);
    let fitting = candidates.range(begin..between).next_back();
    fitting.or_else(|| candidates.range(between..end).next()).map(|(key, _)| *key)
}
