//! Locks that are lent to clients, at their home: whose they are, and which nodes are asked for them.

use hanare_protocol::id::ClientId;
use hanare_protocol::lock::{Claimant, RecallDue, RecallStep, RecallTimes};
use std::collections::HashMap;
use std::time::{Duration, Instant};

pub(super) struct Lent {
    begun: Instant,
    /// The program of each taking that a lock is lent by.
    clients: HashMap<Claimant, ClientId>,
    /// Those of them that are asked for, as nodes name them.
    asked: HashMap<(ClientId, u64), Claimant>,
    recalls: RecallTimes,
}

impl Default for Lent {
    fn default() -> Lent {
        Lent::new(true)
    }
}

impl Lent {
    /// None yet, at the pool's home or at another of locks.
    pub fn new(is_pools_home: bool) -> Lent {
        let recalls = RecallTimes::new(is_pools_home);
        Lent { begun: Instant::now(), clients: HashMap::new(), asked: HashMap::new(), recalls }
    }

    fn now_ms(&self) -> u64 {
        self.begun.elapsed().as_millis() as u64
    }

    /// A lock is lent to a client.
    pub fn lend(&mut self, who: Claimant, client: ClientId) {
        self.clients.insert(who, client);
    }

    /// It is not any more.
    pub fn end(&mut self, who: Claimant) {
        self.recalls.end(who);
        if let Some(client) = self.clients.remove(&who)
            && self.asked.get(&(client, who.number)) == Some(&who)
        {
            self.asked.remove(&(client, who.number));
        }
    }

    /// A node is to be asked, or not any more.
    pub fn step(&mut self, step: RecallStep) {
        match step {
            RecallStep::End(who) => self.end(who),
            RecallStep::Begin(who) => {
                let now_ms = self.now_ms();
                self.recalls.begin(who, now_ms);
                if let Some(client) = self.clients.get(&who) {
                    // A connection may lie about its client: then the last one that does hears the answer, and the others none.
                    self.asked.insert((*client, who.number), who);
                }
            }
        }
    }

    /// The node is a member of its pool, or not any more.
    pub fn set_member(&mut self, is_member: bool) {
        let now_ms = self.now_ms();
        self.recalls.set_member(is_member, now_ms);
    }

    /// The taking that a node's answer is about.
    pub fn answered(&self, client: ClientId, number: u64) -> Option<Claimant> {
        self.asked.get(&(client, number)).copied()
    }

    /// What is due, if anything is.
    pub fn next_due(&mut self) -> Option<RecallDue> {
        let now_ms = self.now_ms();
        self.recalls.next_due(now_ms)
    }

    /// The client that a taking is of.
    pub fn client_of(&self, who: Claimant) -> Option<ClientId> {
        self.clients.get(&who).copied()
    }

    /// When something is due.
    pub fn deadline(&self) -> Option<Instant> {
        self.recalls.deadline().and_then(|at_ms| self.begun.checked_add(Duration::from_millis(at_ms)))
    }
}
