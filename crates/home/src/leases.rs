//! Leases of locks, at their home: which program has each, and which nodes are asked for them.

use hanare_protocol::id::ClientId;
use hanare_protocol::lock::{Claimant, RecallDue, RecallStep, RecallTimes};
use std::collections::BTreeMap;
use std::time::Duration;

#[derive(Debug)]
pub(crate) struct Leases {
    /// The program of each taking with a lease.
    clients: BTreeMap<Claimant, ClientId>,
    /// Claimants of recalled leases, by their nodes' names for them.
    asked: BTreeMap<(ClientId, u64), Claimant>,
    recalls: RecallTimes,
}

impl Default for Leases {
    fn default() -> Leases {
        Leases::new(true)
    }
}

impl Leases {
    /// An empty list, at the pool's home or at another of locks.
    pub fn new(is_pools_home: bool) -> Leases {
        Leases { clients: BTreeMap::new(), asked: BTreeMap::new(), recalls: RecallTimes::new(is_pools_home) }
    }

    /// Number of leases.
    pub fn count(&self) -> usize {
        self.clients.len()
    }

    /// A client gets a lease.
    pub fn grant(&mut self, who: Claimant, client: ClientId) {
        self.clients.insert(who, client);
    }

    /// A lease is over.
    pub fn end(&mut self, who: Claimant) {
        self.recalls.end(who);
        if let Some(client) = self.clients.remove(&who)
            && self.asked.get(&(client, who.number)) == Some(&who)
        {
            self.asked.remove(&(client, who.number));
        }
    }

    /// A node is to be asked, or not any more.
    pub fn step(&mut self, now: Duration, step: RecallStep) {
        match step {
            RecallStep::End(who) => self.end(who),
            RecallStep::Begin(who) => {
                self.recalls.begin(who, ms(now));
                if let Some(client) = self.clients.get(&who) {
                    // A connection may lie about its client: then the last one that does hears the answer, and the others none.
                    self.asked.insert((*client, who.number), who);
                }
            }
        }
    }

    /// The node is a member of its pool, or not any more.
    pub fn set_member(&mut self, now: Duration, is_member: bool) {
        self.recalls.set_member(is_member, ms(now));
    }

    /// The taking that a node's answer is about.
    pub fn answered(&self, client: ClientId, number: u64) -> Option<Claimant> {
        self.asked.get(&(client, number)).copied()
    }

    /// The next due step, if there is one.
    pub fn next_due(&mut self, now: Duration) -> Option<RecallDue> {
        self.recalls.next_due(ms(now))
    }

    /// The client that a taking is of.
    pub fn client_of(&self, who: Claimant) -> Option<ClientId> {
        self.clients.get(&who).copied()
    }

    /// When something is due.
    pub fn deadline(&self) -> Option<Duration> {
        self.recalls.deadline().map(Duration::from_millis)
    }
}

fn ms(now: Duration) -> u64 {
    now.as_millis() as u64
}
