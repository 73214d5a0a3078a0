//! The home of an extent with copies. It orders writes, and applies each when all copies that count have it.

use super::home_states::{HOMES, HomeLogEvent, HomeLogState, HomeOutput, PEERS, PeerEvent, PeerState};
use super::{HolderSet, Position, Term};
use crate::id::NodeId;
use crate::table;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A copy, as its home sees it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct PeerCopy {
    state: PeerState,
    order: u64,
    has: Position,
    /// The next range to send.
    range: u64,
    /// Ranges before that to send again.
    again: BTreeSet<u64>,
    /// The last write before it began to count.
    from: Position,
}

/// The home of one extent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct HomeLog<E> {
    state: HomeLogState,
    term: Term,
    me: NodeId,
    /// Ranges of the extent that a copy is made of.
    ranges: u64,
    last: Position,
    applied: Position,
    /// Writes that some copy that counts may lack, oldest first.
    tail: VecDeque<(Position, E)>,
    /// Writes wait, because a copy that is made cannot keep up with them.
    is_held_back: bool,
    peers: BTreeMap<NodeId, PeerCopy>,
    outputs: VecDeque<HomeOutput<E>>,
}

impl<E: Clone> HomeLog<E> {
    /// The home of an extent that was made together with its copies: all are empty.
    pub fn new(me: NodeId, set: &HolderSet, ranges: u64) -> HomeLog<E> {
        let all = set.copies.iter().map(|copy| (*copy, Position::default())).collect();
        HomeLog::begin(me, set, ranges, (Position::default(), VecDeque::new()), &all)
    }

    /// A copy becomes the home, with what [`CopyLog::elect`](super::CopyLog::elect) gave. `has` says how far the other copies of the set
    /// are. It answers when they have all that it has. Until then the loss of this node would take back what it showed.
    pub fn elected(
        me: NodeId,
        set: &HolderSet,
        ranges: u64,
        log: (Position, VecDeque<(Position, E)>),
        has: &BTreeMap<NodeId, Position>,
    ) -> HomeLog<E> {
        let mut home = HomeLog::begin(me, set, ranges, log, has);
        home.send_all_again();
        home
    }

    fn begin(
        me: NodeId,
        set: &HolderSet,
        ranges: u64,
        (last, tail): (Position, VecDeque<(Position, E)>),
        has: &BTreeMap<NodeId, Position>,
    ) -> HomeLog<E> {
        let peer = |node: &NodeId| {
            let has = has.get(node).copied().unwrap_or_default();
            (*node, PeerCopy { state: PeerState::Member, order: 0, has, range: ranges, again: BTreeSet::new(), from: last })
        };
        let peers = set.copies.iter().filter(|node| **node != me).map(peer).collect();
        let (state, outputs) = (HomeLogState::Filling, VecDeque::new());
        let mut home =
            HomeLog { state, term: set.term, me, ranges, last, applied: last, tail, is_held_back: false, peers, outputs };
        home.advance();
        home
    }

    /// The next output. The caller carries each out before it asks for the next.
    pub fn poll(&mut self) -> Option<HomeOutput<E>> {
        self.outputs.pop_front()
    }

    /// True if reads are answered, as long as the node's lease lasts.
    pub fn is_open(&self) -> bool {
        self.state == HomeLogState::Open
    }

    /// True if another is home, or will be.
    pub fn is_deposed(&self) -> bool {
        matches!(self.state, HomeLogState::Overtaken | HomeLogState::Deposed)
    }

    /// True if a copy has heard of a higher term, whose home is not known.
    pub fn is_overtaken(&self) -> bool {
        self.state == HomeLogState::Overtaken
    }

    /// Asks a copy how far it is, which also says that it lives.
    pub fn ask(&mut self, node: NodeId) {
        if self.peers.get(&node).is_some_and(PeerCopy::counts) {
            self.outputs.push_back(HomeOutput::Ask { to: node, term: self.term });
        }
    }

    /// The home's node.
    pub fn node(&self) -> NodeId {
        self.me
    }

    /// Term, for messages of this home.
    pub fn term(&self) -> Term {
        self.term
    }

    /// Copies that are made or that count, with the state of each.
    pub fn peers(&self) -> impl Iterator<Item = (NodeId, PeerState)> {
        self.peers.iter().map(|(node, peer)| (*node, peer.state))
    }

    /// Has writes wait, or go on. A copy that is made gets each write when it is applied: the caller bounds how many are on their way to it.
    pub fn hold_back(&mut self, is_held_back: bool) {
        if std::mem::replace(&mut self.is_held_back, is_held_back) && !is_held_back {
            self.advance();
        }
    }

    /// A write comes. `None` where this home is not open.
    pub fn write(&mut self, entry: E) -> Option<Position> {
        if self.state != HomeLogState::Open {
            return None;
        }
        self.last = self.last.next();
        let position = self.last;
        self.tail.push_back((position, entry.clone()));
        let (term, stable) = (self.term, self.stable());
        let counting = self.peers.iter().filter(|(_, peer)| peer.counts());
        let writes = counting.map(|(to, _)| HomeOutput::Write { to: *to, term, position, stable, entry: entry.clone() });
        self.outputs.extend(writes);
        self.advance();
        Some(position)
    }

    /// A copy has all writes up to a position.
    pub fn on_has(&mut self, node: NodeId, term: Term, position: Position) {
        if term > self.term {
            return self.overtake();
        }
        let last = self.last;
        let Some(peer) = self.peers.get_mut(&node).filter(|_| term == self.term) else { return };
        // A position is input.
        peer.has = peer.has.max(position.min(last));
        if peer.state == PeerState::Counts && peer.has >= peer.from {
            let order = peer.order;
            self.step(node, PeerEvent::Ask);
            self.outputs.push_back(HomeOutput::Admit { term, node, order });
        }
        self.advance();
    }

    /// Another node is to be home. This one takes no writes any more, and says so when all copies have those that it took.
    pub fn release(&mut self, term: Term) {
        if term == self.term && self.change(HomeLogEvent::Release) {
            self.outputs.push_back(HomeOutput::Close);
        }
        self.advance();
    }

    /// A copy of a higher term was heard of. A home that has stopped and owes nothing waits for the coordinator's word: it may go on.
    pub fn on_stale(&mut self, term: Term) {
        let has_stopped = self.state == HomeLogState::Releasing && self.tail.is_empty();
        if term > self.term && !has_stopped {
            self.overtake();
        }
    }

    /// The coordinator elects a home for a higher term. It took this node for lost.
    pub fn freeze(&mut self, term: Term) {
        self.on_stale(term);
        self.advance();
    }

    /// A connection to a copy is made anew. A copy gets again what it may lack; one that is made gets all ranges again.
    pub fn on_reconnected(&mut self, node: NodeId) {
        match self.peers.get(&node).map(|peer| (peer.state, peer.order)) {
            // Ranges are lost with the connection, unless it has said that it has all.
            Some((PeerState::Making | PeerState::Counts, order)) => {
                self.peers.remove(&node);
                if !self.make(node, order) && !self.is_deposed() {
                    // A home that stops makes none. The coordinator, which may let it go on, waits for this one no more.
                    self.outputs.push_back(HomeOutput::Drop { term: self.term, node });
                }
                self.advance();
            }
            _ => self.send_again(node),
        }
    }

    fn send_again(&mut self, node: NodeId) {
        let (term, stable) = (self.term, self.stable());
        let Some(peer) = self.peers.get(&node).filter(|peer| peer.counts()) else { return };
        self.outputs.push_back(HomeOutput::Ask { to: node, term });
        let lacks = self.tail.iter().filter(|(position, _)| *position > peer.has);
        let writes = lacks.map(|(position, entry)| {
            let (position, entry) = (*position, entry.clone());
            HomeOutput::Write { to: node, term, position, stable, entry }
        });
        self.outputs.extend(writes);
    }

    /// Copies take writes of the new term alone.
    fn send_all_again(&mut self) {
        let nodes: Vec<NodeId> = self.peers.keys().copied().collect();
        nodes.into_iter().for_each(|node| self.send_again(node));
    }

    /// A copy does not answer. The home goes on without a member when the coordinator says so. One that is being made it gives up, and the
    /// coordinator finds another.
    pub fn on_silent(&mut self, node: NodeId) {
        match self.peers.get(&node).map(|peer| peer.state) {
            Some(PeerState::Making | PeerState::Counts) => {
                self.peers.remove(&node);
                self.outputs.push_back(HomeOutput::Drop { term: self.term, node });
                self.advance();
            }
            Some(_) if self.step(node, PeerEvent::Silent) => {
                self.outputs.push_back(HomeOutput::Drop { term: self.term, node });
            }
            _ => {}
        }
    }

    /// The coordinator has changed the set.
    pub fn on_set(&mut self, set: &HolderSet) {
        if set.term <= self.term {
            return;
        }
        if set.home != self.me {
            return self.depose();
        }
        self.term = set.term;
        let was_overtaken = self.is_overtaken();
        if self.change(HomeLogEvent::Reopen) && was_overtaken {
            self.apply_all();
        }
        let known: Vec<(NodeId, PeerState)> = self.peers().filter(|(_, state)| state.is_known()).collect();
        for (node, state) in known {
            self.on_place(node, state, set.copies.contains(&node));
        }
        self.send_all_again();
        self.advance();
    }

    /// A copy is of the new set, or is not.
    fn on_place(&mut self, node: NodeId, state: PeerState, is_member: bool) {
        let term = self.term;
        match (state, is_member) {
            (PeerState::Asked, true) => drop(self.step(node, PeerEvent::Admit)),
            // The wish was of an earlier term.
            (PeerState::Asked, false) => {
                let order = self.peers.get(&node).map(|peer| peer.order).unwrap_or_default();
                self.outputs.push_back(HomeOutput::Admit { term, node, order });
            }
            (PeerState::Silent, true) => self.outputs.push_back(HomeOutput::Drop { term, node }),
            (_, true) => {}
            (_, false) => drop(self.peers.remove(&node)),
        }
    }

    /// The connection to the coordinator is new: what it was asked before may not have come.
    pub fn ask_again(&mut self) {
        let term = self.term;
        if self.is_overtaken() {
            self.outputs.push_back(HomeOutput::Released { term });
        }
        if self.is_deposed() {
            return;
        }
        let asks = self.peers.iter().filter_map(|(node, peer)| match peer.state {
            PeerState::Asked => Some(HomeOutput::Admit { term, node: *node, order: peer.order }),
            PeerState::Silent => Some(HomeOutput::Drop { term, node: *node }),
            _ => None,
        });
        self.outputs.extend(asks);
        self.advance();
    }

    /// A node without the extent's bytes becomes a copy. It gets all ranges, and each write when it is applied here. A copy that the node had
    /// by another order, and that is no member yet, is void. Returns false where nothing begins.
    pub fn make(&mut self, node: NodeId, order: u64) -> bool {
        let is_void = |peer: &PeerCopy| peer.order != order && !peer.is_member();
        if self.state != HomeLogState::Open || node == self.me || !self.peers.get(&node).is_none_or(is_void) {
            return false;
        }
        let (term, at) = (self.term, self.applied);
        let (has, again, from) = (Position::default(), BTreeSet::new(), self.last);
        self.peers.insert(node, PeerCopy { state: PeerState::Making, order, has, range: 0, again, from });
        self.outputs.push_back(HomeOutput::Make { to: node, term, at });
        self.advance();
        true
    }

    /// The next range of a copy that is made; false where there is none. The caller bounds how fast they go. Behind the last one the copy counts.
    pub fn send_range(&mut self, node: NodeId) -> bool {
        let (term, ranges, last) = (self.term, self.ranges, self.last);
        let Some(peer) = self.peers.get_mut(&node).filter(|peer| peer.state == PeerState::Making) else { return false };
        if peer.range < ranges {
            self.outputs.push_back(HomeOutput::Range { to: node, term, range: peer.range });
            peer.range = peer.range.saturating_add(1);
            return true;
        }
        if let Some(range) = peer.again.pop_first() {
            self.outputs.push_back(HomeOutput::Range { to: node, term, range });
            return true;
        }
        peer.from = last;
        peer.has = self.applied;
        self.step(node, PeerEvent::Sent);
        self.outputs.push_back(HomeOutput::Made { to: node, term });
        // The copy has the writes that are applied. Those that wait it gets now, and they wait for it.
        self.send_again(node);
        false
    }

    /// A write that copies carry out only when they are whole has changed bytes of a range: copies that are made get it again. The caller says so
    /// before it asks for the next output. Gives those copies that would not get it anyway.
    pub fn touch(&mut self, range: u64) -> Vec<NodeId> {
        let making = self.peers.iter_mut().filter(|(_, peer)| peer.state == PeerState::Making && range < peer.range);
        making.filter_map(|(node, peer)| peer.again.insert(range).then_some(*node)).collect()
    }

    fn step(&mut self, node: NodeId, event: PeerEvent) -> bool {
        let Some(peer) = self.peers.get_mut(&node) else { return false };
        let next = table::next(PEERS, peer.state, event);
        peer.state = next.unwrap_or(peer.state);
        next.is_some()
    }

    /// The last write that all copies that count have.
    fn stable(&self) -> Position {
        let counting = self.peers.values().filter(|peer| peer.counts());
        counting.map(|peer| peer.has).min().unwrap_or(self.last)
    }

    /// True if the oldest write may be applied, or was.
    fn may_advance(&self, stable: Position) -> bool {
        let may_go = |position: Position| position <= stable && (!self.is_held_back || position <= self.applied);
        self.tail.front().is_some_and(|(position, _)| may_go(*position))
    }

    /// Applies what all have.
    fn advance(&mut self) {
        if self.is_deposed() {
            return;
        }
        let stable = self.stable();
        while self.may_advance(stable) {
            let Some((position, entry)) = self.tail.pop_front() else { break };
            if position > self.applied {
                self.apply(position, entry);
            }
        }
        if self.state == HomeLogState::Filling && stable >= self.applied {
            self.change(HomeLogEvent::Filled);
            self.outputs.push_back(HomeOutput::Open);
        }
        // Said again with each word of a copy, because it may be lost.
        if self.state == HomeLogState::Releasing && self.tail.is_empty() && stable >= self.applied {
            self.outputs.push_back(HomeOutput::Released { term: self.term });
        }
    }

    fn apply(&mut self, position: Position, entry: E) {
        self.applied = position;
        self.outputs.push_back(HomeOutput::Apply { position, entry: entry.clone() });
        let (term, stable) = (self.term, position);
        let making = self.peers.iter().filter(|(_, peer)| peer.state == PeerState::Making);
        let writes = making.map(|(to, _)| HomeOutput::Write { to: *to, term, position, stable, entry: entry.clone() });
        self.outputs.extend(writes);
    }

    /// Applies writes that some copy lacks. Those who asked for them send them again, and they count once. Nothing is shown before all have them.
    fn apply_all(&mut self) {
        let waiting: Vec<(Position, E)> = self.tail.iter().filter(|(position, _)| *position > self.applied).cloned().collect();
        waiting.into_iter().for_each(|(position, entry)| self.apply(position, entry));
    }

    fn change(&mut self, event: HomeLogEvent) -> bool {
        let next = table::next(HOMES, self.state, event);
        self.state = next.unwrap_or(self.state);
        next.is_some()
    }

    /// A coordinator has begun an election. It may have died before it recorded that: then nobody would follow this home, if it said nothing.
    fn overtake(&mut self) {
        if self.change(HomeLogEvent::Overtake) {
            self.outputs.extend([HomeOutput::Deposed, HomeOutput::Released { term: self.term }]);
        }
    }

    fn depose(&mut self) {
        if self.change(HomeLogEvent::Depose) {
            self.outputs.push_back(HomeOutput::Deposed);
        }
    }
}

impl PeerCopy {
    fn counts(&self) -> bool {
        self.state != PeerState::Making
    }

    /// True if the coordinator has it in the set.
    fn is_member(&self) -> bool {
        matches!(self.state, PeerState::Member | PeerState::Silent)
    }
}
