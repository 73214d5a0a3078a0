//! Locks that are leased: the words that clients share with their nodes, the home's questions, and the nodes' answers.
//!
//! Questions and answers go from node to node, and any of them may be lost. A node may be cut off from the pool's home for long while the
//! connections of its clients go on. A node outlives its clients, and dies with them.
//!
//! In half of the pools the locks' home is another node than the pool's home, which passes questions and answers on. Then the locks' home may be cut
//! off from it, too; and nodes hear that the locks' home died, each at its time, and keep their places in the pool.

use super::{Defect, Event, LockWorld};
use crate::check::{Check, check};
use hanare_home::Input;
use hanare_protocol::id::ClientId;
use hanare_protocol::limits::LEASE_MS;
use hanare_protocol::lock::lease::{LeaseEvent, LeasePhase, LeaseWord};
use hanare_protocol::lock::{Claimant, Recalled};
use std::collections::{BTreeMap, BTreeSet};

/// A word, and the connection of its taking.
#[derive(Debug)]
struct Lease {
    node: u64,
    link: u64,
    phase: LeasePhase,
}

/// The locks' home's own node.
const HOME: u64 = 0;

/// Nodes' knowledge of leases of locks.
#[derive(Debug, Default)]
pub(super) struct Leases {
    /// True if the locks' home is another node than the pool's home.
    is_far: bool,
    /// Words by client, and by the number of the taking.
    words: BTreeMap<(u64, u64), Lease>,
    /// Nodes that are cut off from the home, since when and until when.
    away: BTreeMap<u64, (u64, u64)>,
    /// Questions that were asked, by the life of the home.
    asked: BTreeSet<(u64, u64, u64)>,
    /// Takings whose node did not answer in time: who has them may go on.
    pub given_up: BTreeSet<Claimant>,
}

impl Leases {
    /// No leases yet.
    pub fn new(is_far: bool) -> Leases {
        Leases { is_far, ..Leases::default() }
    }

    /// A client asks for a lock, and would keep it.
    pub fn ask(&mut self, (client, node): (u64, u64), link: u64, number: u64) {
        self.words.insert((client, number), Lease { node, link, phase: LeasePhase::Asked });
    }

    /// An event of a client's word. False where the word does not allow it.
    pub fn step(&mut self, client: u64, number: u64, event: LeaseEvent) -> bool {
        let Some(lease) = self.words.get_mut(&(client, number)) else { return false };
        let word = LeaseWord { number, phase: lease.phase };
        match word.after(event) {
            Some(LeaseWord { phase: LeasePhase::Empty, .. }) => drop(self.words.remove(&(client, number))),
            Some(next) => lease.phase = next.phase,
            None => return false,
        }
        true
    }

    /// The state of a client's word.
    pub fn phase(&self, client: u64, number: u64) -> LeasePhase {
        self.words.get(&(client, number)).map_or(LeasePhase::Empty, |lease| lease.phase)
    }

    /// A node has died, and its clients with it.
    pub fn forget_node(&mut self, node: u64) {
        self.words.retain(|_, lease| lease.node != node);
    }
}

impl LockWorld {
    /// A node hears nothing of the home for a while, nor the home of it.
    pub(super) fn cut_node_off(&mut self) {
        let node = self.course.dice.below(u64::from(self.course.plan.nodes));
        let for_ms = self.dice.pick(&[200, 2_000, 9_000]);
        let until = self.now_ms + for_ms;
        self.note(format!("node {node} is cut off until {until}"));
        self.count("nodes cut off");
        let before = self.leases.away.get(&node).filter(|_| self.is_away(node));
        let since = before.map_or(self.now_ms, |(since, _)| *since);
        self.leases.away.insert(node, (since, until));
        self.at(LEASE_MS, Event::Lapse { node, sure: false });
    }

    fn is_away(&self, node: u64) -> bool {
        self.leases.away.get(&node).is_some_and(|(_, until)| self.now_ms < *until)
    }

    /// True if the locks' home reaches the pool's home, which passes on its questions to nodes.
    fn home_is_heard(&self) -> bool {
        !self.leases.is_far || !self.is_away(HOME)
    }

    /// Time of a question or a reply.
    fn question_ms(&mut self) -> u64 {
        let once = self.delay_ms();
        if self.leases.is_far { once + self.delay_ms() } else { once }
    }

    /// Returns true where the locks' home believes to be the pool's home.
    pub(super) fn is_pools_home(&self) -> bool {
        !self.leases.is_far || self.has(Defect::GiveUpUnheard)
    }

    /// Returns true while the locks' home believes to be a member of the pool.
    pub(super) fn home_is_member(&self) -> bool {
        self.is_pools_home() || self.leases_hold(HOME)
    }

    /// True if leases of a node's clients hold, by the time that the node has stored beside their words.
    pub(super) fn leases_hold(&self, node: u64) -> bool {
        !self.is_away(node) || self.now_ms < self.leases.away[&node].0 + LEASE_MS
    }

    /// A node that is cut off for a lease's time takes all locks back that are leased to its clients.
    pub(super) fn on_lapse(&mut self, node: u64, sure: bool) -> Check {
        if sure || self.is_away(node) {
            self.recall_all(|lease| lease.node == node);
        }
        if node == HOME { self.on_input(Input::Tick) } else { Ok(()) }
    }

    /// The home has died: each node notices at its time, and all have by the end of a lease.
    pub(super) fn lapse_all(&mut self) {
        for node in 0..u64::from(self.course.plan.nodes) {
            if !self.leases.is_far {
                self.leases.away.insert(node, (self.now_ms, u64::MAX));
            }
            let after = self.dice.pick(&[0, 5, 200, LEASE_MS]);
            self.at(after, Event::Lapse { node, sure: true });
        }
    }

    /// The home is there again, and nodes find it; those that did not notice before do then.
    pub(super) fn rejoin_all(&mut self) {
        if !self.leases.is_far {
            self.recall_all(|_| true);
            self.leases.away.clear();
        }
    }

    fn recall_all(&mut self, which: impl Fn(&Lease) -> bool) {
        for (number, lease) in self.leases.words.iter_mut().filter(|(_, lease)| which(lease)) {
            let word = LeaseWord { number: number.1, phase: lease.phase };
            lease.phase = word.after(LeaseEvent::Recall).map_or(lease.phase, |word| word.phase);
        }
    }

    /// The home asks a client's node about a lock.
    pub(super) fn ask_node(&mut self, client: u64, number: u64) {
        let Some(life) = self.home.as_ref().map(|home| home.served.life) else { return };
        if !self.leases.asked.insert((life, client, number)) && self.has(Defect::AskOnce) {
            return;
        }
        self.count("recalls");
        if self.dice.chance(1_000) {
            self.lose_question(client, number);
        } else {
            let after = self.question_ms();
            self.at(after, Event::Recall { life, client, number });
        }
    }

    /// A question is lost, because the node's connection to the home breaks: within a lease the node notices.
    fn lose_question(&mut self, client: u64, number: u64) {
        self.count("questions lost");
        if let Some(node) = self.leases.words.get(&(client, number)).map(|lease| lease.node) {
            let after = self.dice.pick(&[0, 200, LEASE_MS]);
            self.at(after, Event::Lapse { node, sure: true });
        }
    }

    /// A question reaches a node, which answers by the client's word.
    pub(super) fn on_recall(&mut self, life: u64, client: u64, number: u64) -> Check {
        let Some(lease) = self.leases.words.get(&(client, number)) else { return Ok(()) };
        let (node, who) = (lease.node, Claimant { link: lease.link, number });
        if self.is_away(node) || !self.home_is_heard() {
            return Ok(());
        }
        let mut word = LeaseWord { number, phase: lease.phase }
            .after(LeaseEvent::Recall)
            .unwrap_or(LeaseWord { number, phase: lease.phase });
        let mut recalled = word.recalled();
        if self.has(Defect::YieldHeld) && recalled == Recalled::Held {
            recalled = Recalled::Kept;
        }
        if self.has(Defect::RecallSoftly) && recalled == Recalled::Kept {
            word.phase = LeasePhase::Kept;
        }
        if self.has(Defect::BuryKept) && !self.clients.contains_key(&client) {
            recalled = Recalled::Held;
        }
        self.leases.words.get_mut(&(client, number)).expect("just seen").phase = word.phase;
        self.note(format!("node {node} says of lock {number} of client {client}: {recalled:?}"));
        if self.home.as_ref().is_some_and(|home| home.served.life == life) {
            self.model.judge_answer(who, recalled)?;
        }
        if recalled != Recalled::Unknown && !self.dice.chance(1_000) {
            let after = self.question_ms();
            self.at(after, Event::Recalled { life, client, who, recalled });
        }
        Ok(())
    }

    /// A node's answer reaches the home.
    pub(super) fn on_recalled(&mut self, life: u64, client: u64, who: Claimant, recalled: Recalled) -> Check {
        if !self.home_is_heard() || self.home.as_ref().is_none_or(|home| home.served.life != life) {
            return Ok(());
        }
        if self.model.has_lease(who) {
            self.model.on_recalled(who, recalled);
            self.count(if recalled == Recalled::Kept { "locks that were kept" } else { "locks that were held" });
        }
        self.on_input(Input::LeaseAnswer { client: ClientId(client), number: who.number, recalled })
    }

    /// At the end what is kept is known to the home, and the other way round.
    pub(super) fn judge_leases(&self) -> Check {
        for ((client, number), lease) in &self.leases.words {
            let is_known = self.model.has_lease(Claimant { link: lease.link, number: *number });
            let is_kept = lease.phase == LeasePhase::Kept;
            check(is_known || !is_kept, || {
                format!("client {client} keeps lock {number}, and the home does not know: {lease:?}")
            })?;
        }
        Ok(())
    }
}
