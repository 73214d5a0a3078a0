//! Membership as the coordinator sees it: decides for each node whether its lease holds, and whether its bytes may come back.
//!
//! ```text
//!               Join               LeaseEnds
//!   Absent ------------> Member --------------> Silent <------+
//!                         ^  |                    |           | LeaseEnds
//!                         |  | Closes             | Closes    |
//!          Join (all but  |  v                    v           |
//!          Left) ---------+ Closed <--------------+        Awaited  (restored from the journal)
//!                            |  ^                             | |
//!                            |  +-------- Closes (another ----+ | Join
//!                            | StaysClosed coordinator's node)  v
//!                            v                                Member
//!                           Dead
//! ```
//!
//! A join may end the old epoch:
//!
//! | who joins | its state here | epoch | its extents |
//! |---|---|---|---|
//! | the same life | `Member`, `Awaited` | kept ("resume"): nobody was told that it was lost | kept |
//! | the same life | `Closed`, `Silent`, `Dead` | the next one: it was announced as lost, so its old grants must fail | kept |
//! | a new life of the name | `Closed`, `Silent`, `Dead`, `Left` | the next one | lost: they went with the old life |
//! | a new life of the name, with the extents that the old one wrote down | `Closed`, `Silent`, `Dead` | the next one | those that it brings are kept |
//! | a new life of the name | `Member`, `Awaited` | refused until the lease ends: two live nodes of one name would destroy each other's regions | kept |
//! | a life that was superseded | any | ignored: its message is late | - |
//!
//! The coordinator's own node has no lease: a stall of their process must not count against it.
//!
//! Verdicts on a region with an extent on a node: `Silent` and `Closed` are "node lost, perhaps for now". `Dead`, `Left` and a new life
//! are "region lost". A closed connection shows at once that a process ended. A broken network closes connections too, so the verdict
//! "dead" waits for the rest of the lease. Even a dead node that comes back in the same life brings its bytes with it.
//!
//! The node of a deposed coordinator counts as closed when its homes answer no more: the keepers gave it up. It may be back before that.
//!
//! A closed node answers for bytes with copies until its shorter lease ends ([`HOME_LEASE_MS`](crate::limits::HOME_LEASE_MS)), even if it
//! lives. Another node is their home then.

use super::Peer;
use super::journal::Ledger;
use super::records::Ended;
use super::spills::Reservation;
use crate::id::{Grant, NodeId, Slot};
use crate::limits::{FORGET_MS, home_until_ms};
use crate::table::{self, Row};
use crate::versions::{OLDEST, Versions};
use crate::wire::control::{Memory, ReportedExtent};
use std::collections::BTreeMap;

/// The states of a node, as the table names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Unknown.
    Absent,
    /// Known from the journal; not heard of since the coordinator started.
    Awaited,
    /// Its lease holds.
    Member,
    /// Its lease ended without a word.
    Silent,
    /// Its connection closed a moment ago.
    Closed,
    /// Its connection closed, and it did not come back within a lease.
    Dead,
    /// The node said that it goes.
    Left,
}

/// An event of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The node joins, in this life or a new one.
    Join,
    /// The node renews its lease.
    Renew,
    /// Its lease ends.
    LeaseEnds,
    /// Its connection closes.
    Closes,
    /// The node has been away for a lease after its connection closed.
    StaysClosed,
    /// The node says that it goes.
    Leave,
}

/// Every transition of a node.
pub const TABLE: &[Row<Phase, Event>] = &[
    Row {
        event: Event::Join,
        from: &[Phase::Absent, Phase::Awaited, Phase::Member, Phase::Silent, Phase::Closed, Phase::Dead, Phase::Left],
        to: Phase::Member,
    },
    Row { event: Event::Renew, from: &[Phase::Member], to: Phase::Member },
    Row { event: Event::LeaseEnds, from: &[Phase::Awaited, Phase::Member], to: Phase::Silent },
    Row { event: Event::Closes, from: &[Phase::Awaited, Phase::Member, Phase::Silent], to: Phase::Closed },
    Row { event: Event::StaysClosed, from: &[Phase::Closed], to: Phase::Dead },
    Row { event: Event::Leave, from: &[Phase::Member], to: Phase::Left },
];

/// A node's state with what belongs to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum State {
    Awaited {
        until_ms: u64,
        /// Time at which the node of a deposed coordinator counts as closed: its homes answer no more.
        closes_at_ms: Option<u64>,
    },
    Member {
        lease_until_ms: u64,
    },
    Silent,
    Closed {
        dead_at_ms: u64,
        /// When homes of extents with copies answer there no more; `None` where somebody was told so.
        mute_at_ms: Option<u64>,
    },
    Dead {
        since_ms: u64,
    },
    Left {
        since_ms: u64,
    },
}

/// The rights to an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Grants {
    pub read: Grant,
    pub write: Grant,
}

/// The coordinator's state of a node beyond the journal.
///
/// - `grants` are of the node's epoch; `None` until it has listed them for this epoch.
#[derive(Clone, Debug)]
pub(super) struct NodeEntry {
    pub state: State,
    pub memory: Memory,
    /// Bytes by which the node used more than its extents have, at its last two renewals: it counts whole pages and shared files.
    pub slack: [u64; 2],
    pub grants: Option<BTreeMap<Slot, Grants>>,
    /// Allowances of its queues' spills, by user.
    pub reserved: BTreeMap<u32, Reservation>,
    /// The last list of extents that its life sent.
    pub attempt: u64,
    /// True if it said, when it joined, that it writes down what it holds.
    pub persists: bool,
}

impl NodeEntry {
    fn new(state: State) -> NodeEntry {
        let (memory, slack, grants, reserved) = Default::default();
        NodeEntry { state, memory, slack, grants, reserved, attempt: 0, persists: false }
    }

    pub fn phase(&self) -> Phase {
        match self.state {
            State::Awaited { .. } => Phase::Awaited,
            State::Member { .. } => Phase::Member,
            State::Silent => Phase::Silent,
            State::Closed { .. } => Phase::Closed,
            State::Dead { .. } => Phase::Dead,
            State::Left { .. } => Phase::Left,
        }
    }

    /// Makes a transition; the table must allow it.
    fn step(&mut self, event: Event, to: State) {
        let from = self.phase();
        self.state = to;
        assert_eq!(table::next(TABLE, from, event), Some(self.phase()), "{event:?} in {from:?}");
    }

    /// When time alone changes the state.
    fn deadline(&self) -> Option<u64> {
        match self.state {
            State::Awaited { until_ms, closes_at_ms } => Some(closes_at_ms.map_or(until_ms, |at| at.min(until_ms))),
            State::Member { lease_until_ms } => Some(lease_until_ms).filter(|until| *until < u64::MAX),
            State::Closed { dead_at_ms, mute_at_ms } => Some(mute_at_ms.map_or(dead_at_ms, |at| at.min(dead_at_ms))),
            State::Dead { since_ms } | State::Left { since_ms } => Some(since_ms.saturating_add(FORGET_MS)),
            State::Silent => None,
        }
    }

    /// Takes a list of extents as the node's grants.
    pub fn set_grants(&mut self, held: &[ReportedExtent]) {
        self.grants = Some(held.iter().map(|extent| (extent.slot, grants_of(extent))).collect());
    }

    /// Takes the grants of extents that were made in this epoch.
    pub fn add_grants(&mut self, held: &ReportedExtent) {
        self.grants.get_or_insert_default().insert(held.slot, grants_of(held));
    }
}

fn grants_of(extent: &ReportedExtent) -> Grants {
    Grants { read: extent.read, write: extent.write }
}

/// The seats of all nodes, and who sits behind which connection.
#[derive(Clone, Debug, Default)]
pub(super) struct Roster {
    seats: BTreeMap<NodeId, NodeEntry>,
    peers: BTreeMap<Peer, NodeId>,
    /// Until when regions that go over all nodes wait for those that may come back.
    gathers_until_ms: Option<u64>,
}

impl Roster {
    /// The seats of all nodes of the journal.
    pub fn of_journal(ledger: &Ledger, now_ms: u64, lease_ms: u64) -> Roster {
        let mut roster = Roster::default();
        for node in ledger.nodes.values() {
            let was_home = ledger.deposed.contains(&node.node);
            roster.restore(node.node, (node.ended, was_home), now_ms, lease_ms);
        }
        // Live nodes are back in milliseconds. None that is lost is waited for longer than the former coordinator's.
        roster.gathers_until_ms = roster.awaits().then(|| home_until_ms(now_ms.saturating_add(lease_ms), lease_ms));
        roster
    }

    /// True while regions that go over all nodes wait: the coordinator began a moment ago, and nodes are on their way to it.
    pub fn gathers(&self) -> bool {
        self.gathers_until_ms.is_some() && self.awaits()
    }

    /// Time passes; returns true once, when regions are to wait no more.
    pub fn has_gathered(&mut self, now_ms: u64) -> bool {
        self.gathers_until_ms.take_if(|until_ms| *until_ms <= now_ms).is_some()
    }

    /// Puts a node of the journal back on its seat. `was_home`: another coordinator ran there.
    fn restore(&mut self, node: NodeId, (ended, was_home): (Option<Ended>, bool), now_ms: u64, lease_ms: u64) {
        // Twice the lease: the node must first notice that its connection is gone and find the way back.
        let until_ms = now_ms.saturating_add(lease_ms).saturating_add(lease_ms);
        // No coordinator before this one gives it a lease any more.
        let mute_at_ms = home_until_ms(now_ms.saturating_add(lease_ms), lease_ms);
        let state = match ended {
            None => State::Awaited { until_ms, closes_at_ms: was_home.then_some(mute_at_ms) },
            Some(Ended::Silent) => State::Silent,
            Some(Ended::Closed) => State::Closed { dead_at_ms: until_ms, mute_at_ms: Some(mute_at_ms) },
            Some(Ended::Left) => State::Left { since_ms: now_ms },
        };
        let mut entry = NodeEntry::new(state);
        // Its build is not known yet.
        entry.memory.versions = Versions { oldest: OLDEST, newest: OLDEST };
        self.seats.insert(node, entry);
    }

    /// A node's seat.
    pub fn seat(&self, node: NodeId) -> Option<&NodeEntry> {
        self.seats.get(&node)
    }

    /// True if nodes of the journal may still come back with all that they had.
    pub fn awaits(&self) -> bool {
        self.seats.values().any(|seat| seat.phase() == Phase::Awaited)
    }

    /// A node's seat, to change.
    pub fn seat_mut(&mut self, node: NodeId) -> Option<&mut NodeEntry> {
        self.seats.get_mut(&node)
    }

    /// A node's state.
    pub fn phase(&self, node: NodeId) -> Phase {
        self.seats.get(&node).map_or(Phase::Absent, NodeEntry::phase)
    }

    /// The node behind a connection.
    pub fn node_of(&self, peer: Peer) -> Option<NodeId> {
        self.peers.get(&peer).copied()
    }

    /// The connection to a node.
    pub fn peer_of(&self, node: NodeId) -> Option<Peer> {
        self.peers.iter().find(|(_, other)| **other == node).map(|(peer, _)| *peer)
    }

    /// All nodes.
    pub fn all(&self) -> impl Iterator<Item = (NodeId, &NodeEntry)> {
        self.seats.iter().map(|(node, seat)| (*node, seat))
    }

    /// All members.
    pub fn members(&self) -> impl Iterator<Item = (NodeId, &NodeEntry)> {
        self.all().filter(|(_, seat)| seat.phase() == Phase::Member)
    }

    /// A node joins behind a connection.
    pub fn on_join(&mut self, node: NodeId, peer: Peer, lease_until_ms: u64) -> &mut NodeEntry {
        self.unbind(node);
        self.peers.insert(peer, node);
        let member = State::Member { lease_until_ms };
        let seat = self.seats.entry(node).or_insert_with(|| NodeEntry::new(member.clone()));
        seat.step(Event::Join, member);
        seat
    }

    /// A member renews its lease.
    pub fn on_renew(&mut self, node: NodeId, lease_until_ms: u64, memory: Memory) {
        if let Some(seat) = self.seats.get_mut(&node) {
            seat.step(Event::Renew, State::Member { lease_until_ms });
            seat.memory = memory;
        }
    }

    /// A connection closes, while leases have that length; returns the node behind it, and whether its epoch ends by that.
    pub fn on_closed(&mut self, now_ms: u64, lease_ms: u64, peer: Peer) -> Option<(NodeId, bool)> {
        let node = self.peers.remove(&peer)?;
        let seat = self.seats.get_mut(&node)?;
        let dead_at_ms = now_ms.saturating_add(lease_ms);
        let mute_at_ms = match seat.state {
            State::Member { lease_until_ms } => Some(home_until_ms(lease_until_ms, lease_ms)),
            _ => None,
        };
        let was_member = seat.phase() == Phase::Member;
        if was_member || seat.phase() == Phase::Silent {
            seat.step(Event::Closes, State::Closed { dead_at_ms, mute_at_ms });
        }
        Some((node, was_member))
    }

    /// True if homes of extents with copies answer at a node: it has renewed its lease a moment ago. Leases have that length.
    pub fn answers(&self, node: NodeId, now_ms: u64, lease_ms: u64) -> bool {
        let until_ms = |seat: &NodeEntry| match seat.state {
            State::Member { lease_until_ms } => home_until_ms(lease_until_ms, lease_ms),
            _ => 0,
        };
        self.seats.get(&node).map_or(0, until_ms) > now_ms
    }

    /// True if a node is away and its homes of extents with copies answer nothing any more.
    pub fn is_over(&self, node: NodeId) -> bool {
        match self.seats.get(&node).map(|seat| &seat.state) {
            Some(State::Member { .. } | State::Awaited { .. }) => false,
            Some(State::Closed { mute_at_ms, .. }) => mute_at_ms.is_none(),
            Some(State::Silent | State::Dead { .. } | State::Left { .. }) | None => true,
        }
    }

    /// Closed nodes where homes of extents with copies answer no more; each is named once.
    pub fn mute(&mut self, now_ms: u64) -> Vec<NodeId> {
        let mut mute = Vec::new();
        for (node, seat) in &mut self.seats {
            if let State::Closed { mute_at_ms, .. } = &mut seat.state
                && mute_at_ms.take_if(|at| *at <= now_ms).is_some()
            {
                mute.push(*node);
            }
        }
        mute
    }

    /// A member goes in good order. One that keeps its bytes is away as one that fell silent: it may come back with them.
    pub fn on_leave(&mut self, now_ms: u64, node: NodeId, keeps: bool) {
        if let Some(seat) = self.seats.get_mut(&node) {
            match keeps {
                true => seat.step(Event::LeaseEnds, State::Silent),
                false => seat.step(Event::Leave, State::Left { since_ms: now_ms }),
            }
        }
        self.unbind(node);
    }

    /// The node of a deposed coordinator, if it did not come back in time. It is named once.
    pub fn close_former_home(&mut self, now_ms: u64) -> Option<NodeId> {
        self.seats.iter_mut().find_map(|(node, seat)| {
            let State::Awaited { until_ms, closes_at_ms: Some(at) } = seat.state else { return None };
            (at <= now_ms).then(|| {
                seat.step(Event::Closes, State::Closed { dead_at_ms: until_ms, mute_at_ms: Some(at) });
                *node
            })
        })
    }

    /// Time passes; returns the nodes whose lease ended, and the closed ones that are dead by now.
    pub fn on_tick(&mut self, now_ms: u64) -> (Vec<NodeId>, Vec<NodeId>) {
        let (mut silent, mut died) = (Vec::new(), Vec::new());
        for (node, seat) in &mut self.seats {
            match seat.state {
                State::Awaited { until_ms: at, .. } | State::Member { lease_until_ms: at } if at <= now_ms => {
                    seat.step(Event::LeaseEnds, State::Silent);
                    silent.push(*node);
                }
                State::Closed { dead_at_ms, .. } if dead_at_ms <= now_ms => {
                    seat.step(Event::StaysClosed, State::Dead { since_ms: now_ms });
                    died.push(*node);
                }
                _ => {}
            }
        }
        (silent, died)
    }

    /// Gives all nodes time until then at least.
    pub fn forgive(&mut self, until_ms: u64) {
        for seat in self.seats.values_mut() {
            match &mut seat.state {
                State::Awaited { until_ms: at, closes_at_ms } => {
                    *at = (*at).max(until_ms);
                    *closes_at_ms = closes_at_ms.map(|at| at.max(until_ms));
                }
                State::Member { lease_until_ms: at } | State::Closed { dead_at_ms: at, .. } => *at = (*at).max(until_ms),
                State::Silent | State::Dead { .. } | State::Left { .. } => {}
            }
        }
    }

    /// When time alone changes something.
    pub fn deadline(&self) -> Option<u64> {
        self.seats.values().filter_map(NodeEntry::deadline).chain(self.gathers_until_ms).min()
    }

    /// Nodes that are gone for so long that they may be forgotten; those that are not are looked at again as long after.
    pub fn long_gone(&mut self, now_ms: u64) -> Vec<NodeId> {
        let mut gone = Vec::new();
        for (node, seat) in &mut self.seats {
            match &mut seat.state {
                State::Dead { since_ms } | State::Left { since_ms } if since_ms.saturating_add(FORGET_MS) <= now_ms => {
                    *since_ms = now_ms;
                    gone.push(*node);
                }
                _ => {}
            }
        }
        gone
    }

    /// Forgets a node.
    pub fn forget(&mut self, node: NodeId) {
        self.unbind(node);
        self.seats.remove(&node);
    }

    fn unbind(&mut self, node: NodeId) {
        self.peers.retain(|_, other| *other != node);
    }
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "numbers of a test")]
mod tests;
