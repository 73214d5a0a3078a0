//! The leases of locks of all programs of one host, as their node sees them.

use super::Leases;
use crate::words::Exchange;
use hanare_protocol::id::ClientId;
use hanare_protocol::limits::{ENDED_LEASE_PROGRAM_COUNT_MAX, LEASE_MS};
use hanare_protocol::lock::Recalled;
use hanare_protocol::lock::lease::PROGRAM_LIFE;
use std::collections::{BTreeMap, VecDeque};

/// Least step of the time that leases hold: the node is asked for it at each turn.
const STEP_NS: u64 = LEASE_MS * 1_000_000 / 16;

/// Memory that a node shares with one program.
pub trait HasLeases {
    /// Memory of its words.
    type Words: Exchange;
    /// The program's leases.
    fn leases(&self) -> &Leases<Self::Words>;
}

impl<W: Exchange> HasLeases for Leases<W> {
    type Words = W;

    fn leases(&self) -> &Leases<W> {
        self
    }
}

/// The programs of a host, and leases of those that have ended.
#[derive(Debug)]
pub struct LeasesOfClients<S> {
    clients: BTreeMap<ClientId, S>,
    /// Until when leases hold.
    until_ns: u64,
    /// Clients that have ended, each with the state of its leases, by the numbers of their takings.
    ended: VecDeque<(ClientId, Vec<(u64, Recalled)>)>,
}

impl<S> Default for LeasesOfClients<S> {
    fn default() -> LeasesOfClients<S> {
        LeasesOfClients { clients: BTreeMap::new(), until_ns: 0, ended: VecDeque::new() }
    }
}

impl<S: HasLeases> LeasesOfClients<S> {
    /// The programs, by client.
    pub fn clients(&self) -> &BTreeMap<ClientId, S> {
        &self.clients
    }

    /// A client has come.
    pub fn enter(&mut self, client: ClientId, shared: S) {
        shared.leases().hold_until(self.until_ns);
        self.clients.insert(client, shared);
    }

    /// A client has ended, and all of its threads. Its held and kept locks are remembered, because their home will ask. Returns what the node
    /// shared with it, which is of no use any more.
    pub fn end(&mut self, client: ClientId) -> Option<S> {
        let shared = self.clients.remove(&client)?;
        let leased = shared.leases().recall_all();
        if !leased.is_empty() {
            if self.ended.len() >= ENDED_LEASE_PROGRAM_COUNT_MAX {
                self.ended.pop_front();
            }
            self.ended.push_back((client, leased));
        }
        Some(shared)
    }

    /// A lock's home wants it back, and it is leased to a client. `None` where nothing is known of it. Under [`PROGRAM_LIFE`] a home asks for the
    /// client itself.
    pub fn recall(&self, client: ClientId, number: u64) -> Option<Recalled> {
        if number == PROGRAM_LIFE {
            return Some(if self.clients.contains_key(&client) { Recalled::Held } else { Recalled::Unknown });
        }
        let recalled = match self.clients.get(&client) {
            Some(shared) => shared.leases().recall(number),
            None => {
                let (_, leased) = self.ended.iter().find(|(other, _)| *other == client)?;
                leased.iter().find(|(other, _)| *other == number)?.1
            }
        };
        Some(recalled).filter(|recalled| *recalled != Recalled::Unknown)
    }

    /// No client may take a lock again that is leased to it, until leases are said to hold again.
    pub fn recall_all(&mut self) {
        self.hold_for(0, 0);
        self.recall_words();
    }

    /// No client may take a lock again that is leased to it at this moment.
    pub fn recall_words(&self) {
        self.clients.values().for_each(|shared| drop(shared.leases().recall_all()));
    }

    /// Leases hold for `left_ms` milliseconds from now on.
    pub fn hold_for(&mut self, left_ms: u64, now_ns: u64) {
        let until_ns = if left_ms == 0 { 0 } else { now_ns.saturating_add(left_ms.saturating_mul(1_000_000)) };
        if until_ns == self.until_ns || until_ns > 0 && until_ns.abs_diff(self.until_ns) < STEP_NS {
            return;
        }
        if self.until_ns == 0 {
            // Homes may have asked in vain for leases that were granted meanwhile, and gone on without them.
            self.recall_words();
        }
        self.until_ns = until_ns;
        self.clients.values().for_each(|shared| shared.leases().hold_until(until_ns));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::WORD_LEN;
    use crate::lease::LEASES_LEN;
    use crate::testing::Steps;
    use hanare_protocol::lock::lease::LeaseEvent::{Keep, Lend};

    fn program(slot: usize, number: u64) -> Leases<Steps> {
        let words = Leases::new(Steps::new(LEASES_LEN + WORD_LEN), 1);
        assert!(words.ask(slot, number) && words.step(slot, number, Lend).is_ok());
        words
    }

    #[test]
    fn a_program_that_ended_is_answered_for_until_too_many_have() {
        let mut all = LeasesOfClients::default();
        for number in 0..=ENDED_LEASE_PROGRAM_COUNT_MAX as u64 {
            let words = program(3, number);
            if number % 2 == 0 {
                words.step(3, number, Keep).unwrap();
            }
            all.enter(ClientId(number), words);
            assert!(all.end(ClientId(number)).is_some() && all.end(ClientId(number)).is_none());
        }
        assert_eq!(all.recall(ClientId(0), 0), None, "it ended first");
        assert_eq!(all.recall(ClientId(1), 1), Some(Recalled::Held));
        assert_eq!(all.recall(ClientId(2), 2), Some(Recalled::Kept));
        assert_eq!(all.recall(ClientId(2), 3), None);
        all.enter(ClientId(7), program(3, 1));
        assert_eq!(
            [2, 7].map(|client| all.recall(ClientId(client), PROGRAM_LIFE)),
            [Recalled::Unknown, Recalled::Held].map(Some)
        );
    }

    #[test]
    fn a_lease_that_was_granted_while_none_held_goes_back_when_they_hold_again() {
        let (mut all, words) = (LeasesOfClients::default(), program(0, 5));
        all.enter(ClientId(1), words.clone());
        all.hold_for(LEASE_MS, 0);
        assert!(words.holds(0) && words.step(0, 5, Keep).is_err());
    }

    #[test]
    fn leases_hold_as_long_as_they_are_said_to_and_go_back_at_once() {
        let (mut all, words) = (LeasesOfClients::default(), program(0, 5));
        all.hold_for(LEASE_MS, 0);
        all.enter(ClientId(1), words.clone());
        assert!(words.holds(STEP_NS) && !words.holds(LEASE_MS * 1_000_000));
        all.hold_for(LEASE_MS, STEP_NS - 1);
        assert!(!words.holds(LEASE_MS * 1_000_000), "the step is too small");
        all.hold_for(LEASE_MS, STEP_NS);
        assert!(words.holds(LEASE_MS * 1_000_000));
        all.recall_all();
        assert!(!words.holds(0) && words.step(0, 5, Keep).is_err());
    }
}
