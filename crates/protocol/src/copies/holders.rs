//! The holders of an extent, as the coordinator knows them: the home, and the nodes with a full copy.

use super::{Position, Term};
use crate::id::NodeId;
use crate::table::{self, Row};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Home and copies of an extent.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct HolderSet {
    /// Its number.
    pub term: Term,
    /// The node that gives writes their order and answers.
    pub home: NodeId,
    /// Nodes that have all that was answered, without the home.
    pub copies: BTreeSet<NodeId>,
}

impl HolderSet {
    /// The first set of an extent that one node holds.
    pub fn alone(home: NodeId) -> HolderSet {
        HolderSet { term: Term::FIRST, home, copies: BTreeSet::new() }
    }
}

/// State of an extent's holders.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HoldersState {
    /// The set has a home.
    Steady,
    /// The home is asked to stop, so that a copy may follow.
    Releasing,
    /// The home is lost, or has stopped; copies are asked how far they are.
    Electing,
    /// No copy is left.
    Lost,
}

/// An event of an extent's holders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldersEvent {
    /// The home goes on without a copy.
    Drop,
    /// A copy that was made becomes a member.
    Admit,
    /// The home is lost, and copies are there.
    HomeLost,
    /// All copies have said how far they are.
    Elected,
    /// A copy is to follow the home.
    Move,
    /// The home does not stop now.
    Stay,
    /// No copy can follow: the home goes on.
    Return,
    /// Home and copies are lost.
    LastLost,
}

/// Every transition of an extent's holders.
pub const HOLDERS: &[Row<HoldersState, HoldersEvent>] = &[
    Row { event: HoldersEvent::Drop, from: &[HoldersState::Steady, HoldersState::Releasing], to: HoldersState::Steady },
    Row { event: HoldersEvent::Admit, from: &[HoldersState::Steady], to: HoldersState::Steady },
    Row { event: HoldersEvent::Move, from: &[HoldersState::Steady], to: HoldersState::Releasing },
    Row { event: HoldersEvent::Stay, from: &[HoldersState::Releasing], to: HoldersState::Steady },
    Row { event: HoldersEvent::HomeLost, from: &[HoldersState::Steady, HoldersState::Releasing], to: HoldersState::Electing },
    Row { event: HoldersEvent::Return, from: &[HoldersState::Electing], to: HoldersState::Steady },
    Row { event: HoldersEvent::Elected, from: &[HoldersState::Electing], to: HoldersState::Steady },
    Row { event: HoldersEvent::LastLost, from: &[HoldersState::Steady, HoldersState::Electing], to: HoldersState::Lost },
];

/// Result of an input, in order.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum HolderOutput {
    /// The set is durable before anything behind this.
    Record(HolderSet),
    /// A holder, old or new, is told the set.
    Set {
        /// Receiver.
        to: NodeId,
        /// The set of today.
        set: HolderSet,
    },
    /// The home of the set stops when all copies have its writes, and says so.
    Release(HolderSet),
    /// A copy takes no writes of lower terms any more, and says how far it is.
    Freeze {
        /// Receiver.
        to: NodeId,
        /// The term of the home that will be elected.
        term: Term,
    },
    /// A copy becomes the home.
    Elect {
        /// Receiver.
        to: NodeId,
        /// The set that it is home of.
        set: HolderSet,
        /// Positions of the other copies, as far as is known.
        has: BTreeMap<NodeId, Position>,
        /// The home before has stopped, as far as is known, and was not lost. The home left no doubt about locks at its bytes.
        stopped: bool,
    },
    /// The extent's bytes are lost.
    Lost,
}

/// Holders of one extent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Holders {
    state: HoldersState,
    set: HolderSet,
    /// The home has stopped, lives, and has all that was answered.
    has_stopped: bool,
    /// The home that stopped left a doubt about locks at its bytes.
    leaves_doubt: bool,
    /// The copy that is to follow the home, among those that have as many writes.
    next: Option<NodeId>,
    frozen: BTreeMap<NodeId, Position>,
    outputs: VecDeque<HolderOutput>,
}

impl Holders {
    /// An extent's first holders, or those of the journal. A home that was lost meanwhile is told by [`Holders::on_lost`] again.
    pub fn new(set: HolderSet) -> Holders {
        let (next, frozen, outputs) = Default::default();
        Holders { state: HoldersState::Steady, set, has_stopped: false, leaves_doubt: false, next, frozen, outputs }
    }

    /// The next output.
    pub fn poll(&mut self) -> Option<HolderOutput> {
        self.outputs.pop_front()
    }

    /// The set, as it was recorded last.
    pub fn set(&self) -> &HolderSet {
        &self.set
    }

    /// State, for those who look.
    pub fn state(&self) -> HoldersState {
        self.state
    }

    /// True if the home of before an election may go on where no copy can follow.
    pub fn may_return(&self) -> bool {
        self.has_stopped && self.state == HoldersState::Electing
    }

    fn step(&mut self, event: HoldersEvent) -> bool {
        let next = table::next(HOLDERS, self.state, event);
        self.state = next.unwrap_or(self.state);
        next.is_some()
    }

    /// The home wants to go on without a copy that is silent. A copy that is not of the set gets a new term, too. A wish to admit it that
    /// is still under way is of the old one.
    pub fn on_drop(&mut self, home: NodeId, term: Term, node: NodeId) {
        if self.is_home(home, term) && self.step(HoldersEvent::Drop) {
            self.set.copies.remove(&node);
            self.change_set();
        }
    }

    /// A copy is one too many. It may live: nothing that it has counts from the new term on.
    pub fn on_surplus(&mut self, node: NodeId) {
        if self.set.copies.contains(&node) && self.step(HoldersEvent::Drop) {
            self.set.copies.remove(&node);
            self.change_set();
        }
    }

    /// A copy that the home has made has all, and counts there. The caller refuses a node that is lost, or began anew since it was made.
    pub fn on_admit(&mut self, home: NodeId, term: Term, node: NodeId) {
        if self.is_home(home, term) && node != home && self.step(HoldersEvent::Admit) && self.set.copies.insert(node) {
            self.change_set();
        }
    }

    /// Another node is to be home, best of all `next`. The home is asked to stop, so nobody waits for the end of its lease. A second call
    /// asks it again.
    pub fn on_move(&mut self, next: Option<NodeId>) {
        self.next = next;
        if self.state == HoldersState::Releasing || (!self.set.copies.is_empty() && self.step(HoldersEvent::Move)) {
            self.outputs.push_back(HolderOutput::Release(self.set.clone()));
        }
    }

    /// The home has stopped. That may be at the wish of a coordinator before this one. `leaves_doubt` where the next home cannot know all about
    /// the locks at its bytes. A home that was lost, and is back with all bytes, may go on if no copy can follow.
    pub fn on_released(&mut self, home: NodeId, term: Term, leaves_doubt: bool) {
        if self.state == HoldersState::Electing && self.set.home == home && term < self.set.term && !self.has_stopped {
            (self.has_stopped, self.leaves_doubt) = (true, true);
        }
        if !self.is_home(home, term) {
            return;
        }
        match self.set.copies.is_empty() {
            // A higher term lets it go on.
            true => self.change_set(),
            false => {
                self.elect_anew();
                (self.has_stopped, self.leaves_doubt) = (true, leaves_doubt);
            }
        }
    }

    /// The home does not stop now. It may have stopped since, by a wish that it heard twice, and says so then. Returns true if it was asked.
    pub fn on_stays(&mut self, home: NodeId, term: Term) -> bool {
        self.is_home(home, term) && self.step(HoldersEvent::Stay)
    }

    /// True if that node is home in the term of today. A home of another term, and another node, are told the set.
    fn is_home(&mut self, node: NodeId, term: Term) -> bool {
        let has_home = matches!(self.state, HoldersState::Steady | HoldersState::Releasing);
        let is_home = self.set.home == node && self.set.term == term && has_home;
        if !is_home && has_home {
            self.outputs.push_back(match self.state {
                HoldersState::Releasing if self.set.home == node => HolderOutput::Release(self.set.clone()),
                _ => HolderOutput::Set { to: node, set: self.set.clone() },
            });
        }
        is_home
    }

    fn change_set(&mut self) {
        self.set.term = self.set.term.next();
        self.outputs.push_back(HolderOutput::Record(self.set.clone()));
        self.outputs.push_back(HolderOutput::Set { to: self.set.home, set: self.set.clone() });
    }

    /// The connection to a node is new: what it was told before may not have come.
    pub fn on_connected(&mut self, node: NodeId) {
        let (set, term) = (self.set.clone(), self.set.term);
        let output = match self.state {
            // The home that was lost stops, too.
            HoldersState::Electing if set.copies.contains(&node) || set.home == node => HolderOutput::Freeze { to: node, term },
            HoldersState::Releasing if set.home == node => HolderOutput::Release(set),
            // A node that is home already takes only the set from it.
            HoldersState::Steady if set.home == node => {
                HolderOutput::Elect { to: node, set, has: BTreeMap::new(), stopped: false }
            }
            _ => return,
        };
        self.outputs.push_back(output);
    }

    /// A node is lost: its lease is over, so it answers nothing any more.
    pub fn on_lost(&mut self, node: NodeId) {
        let was_copy = self.set.copies.remove(&node);
        self.frozen.remove(&node);
        self.has_stopped &= self.set.home != node;
        match self.state {
            HoldersState::Steady | HoldersState::Releasing if self.set.home == node => self.elect_anew(),
            HoldersState::Steady | HoldersState::Releasing if was_copy => {
                self.step(HoldersEvent::Drop);
                self.change_set();
            }
            HoldersState::Electing if self.set.copies.is_empty() && self.has_stopped => {
                self.step(HoldersEvent::Return);
                self.has_stopped = false;
                self.change_set();
            }
            HoldersState::Electing if self.set.copies.is_empty() => self.lose(),
            HoldersState::Electing => self.end_election(),
            _ => {}
        }
    }

    fn elect_anew(&mut self) {
        if self.set.copies.is_empty() {
            return self.lose();
        }
        self.step(HoldersEvent::HomeLost);
        self.set.term = self.set.term.next();
        self.frozen.clear();
        let term = self.set.term;
        self.outputs.extend(self.set.copies.iter().map(|to| HolderOutput::Freeze { to: *to, term }));
    }

    fn lose(&mut self) {
        if self.step(HoldersEvent::LastLost) {
            self.outputs.push_back(HolderOutput::Lost);
        }
    }

    /// A copy is frozen.
    pub fn on_frozen(&mut self, node: NodeId, term: Term, position: Position) {
        if self.state == HoldersState::Electing && term == self.set.term && self.set.copies.contains(&node) {
            self.frozen.insert(node, position);
            self.end_election();
        }
    }

    /// Copies that have not said how far they are will not be waited for. They are dropped, unless nobody has said so yet.
    pub fn on_late(&mut self) {
        if self.state == HoldersState::Electing && !self.frozen.is_empty() {
            let frozen = &self.frozen;
            self.set.copies.retain(|node| frozen.contains_key(node));
            self.end_election();
        }
    }

    /// The copy with the most writes becomes the home, when all have said how far they are. Among equal ones that is the wished one.
    fn end_election(&mut self) {
        if !self.set.copies.iter().all(|node| self.frozen.contains_key(node)) {
            return;
        }
        let next = self.next;
        let rank = |(node, position): &(&NodeId, &Position)| (**position, Some(**node) == next, std::cmp::Reverse(**node));
        let best = self.frozen.iter().max_by_key(rank);
        let Some((home, _)) = best.map(|(node, position)| (*node, *position)) else { return };
        self.step(HoldersEvent::Elected);
        self.next = None;
        let stopped = std::mem::take(&mut self.has_stopped) && !self.leaves_doubt;
        self.set.home = home;
        self.set.copies.remove(&home);
        let mut has = std::mem::take(&mut self.frozen);
        has.remove(&home);
        self.outputs.push_back(HolderOutput::Record(self.set.clone()));
        self.outputs.push_back(HolderOutput::Elect { to: home, set: self.set.clone(), has, stopped });
    }
}
