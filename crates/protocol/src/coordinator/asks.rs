//! Requests that nodes forward: each is carried out once, however often it arrives.
//!
//! A request that is worked on is *open*. One that was refused is remembered with its refusal, one that did something as an effect in
//! the journal, until the node says that it is settled; one that only read is forgotten at once and may be read again.

use crate::error::Error;
use crate::id::{Asker, ClientId, Incarnation, NodeId};
use crate::limits::ASK_COUNT_MAX;
use crate::wire::control::Request;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A request's identity: the node's life, and its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct AskKey {
    /// The life of the node that forwards it.
    pub incarnation: Incarnation,
    /// Its number.
    pub request: u64,
}

/// A request as it arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Task {
    pub node: NodeId,
    pub user: Asker,
    pub client: ClientId,
    pub what: Request,
}

#[derive(Clone, Debug)]
enum Received {
    Open { task: Task, parked: bool },
    Refused(Error),
}

/// What a request that arrives is.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum RequestArrival {
    /// Never seen, or only read: to be worked on.
    New,
    /// Worked on, or settled: nothing to do.
    Known,
    /// Refused before; the refusal is to be repeated.
    Refused(Error),
    /// The node has too many requests open.
    TooMany,
}

/// All requests that are open or remembered.
#[derive(Clone, Debug, Default)]
pub(super) struct ReceivedRequests {
    entries: BTreeMap<AskKey, Received>,
    /// Below which number requests of a life are settled.
    settled: BTreeMap<Incarnation, u64>,
}

/// The requests of one life.
fn of(incarnation: Incarnation, below: u64) -> std::ops::Range<AskKey> {
    AskKey { incarnation, request: 0 }..AskKey { incarnation, request: below }
}

impl ReceivedRequests {
    /// Forgets the requests of a life below a number.
    pub fn settle(&mut self, incarnation: Incarnation, below: u64) {
        let settled = self.settled.entry(incarnation).or_default();
        if below > *settled {
            *settled = below;
            let keys: Vec<AskKey> = self.entries.range(of(incarnation, below)).map(|(key, _)| *key).collect();
            keys.iter().for_each(|key| {
                self.entries.remove(key);
            });
        }
    }

    /// Forgets a life: nobody is left to be answered.
    pub fn forget(&mut self, incarnation: Incarnation) {
        self.settle(incarnation, u64::MAX);
        self.settled.remove(&incarnation);
    }

    /// Says what a request that arrives is.
    pub fn arrived(&self, key: AskKey) -> RequestArrival {
        if key.request < self.settled.get(&key.incarnation).copied().unwrap_or(0) {
            return RequestArrival::Known;
        }
        match self.entries.get(&key) {
            Some(Received::Open { .. }) => RequestArrival::Known,
            Some(Received::Refused(error)) => RequestArrival::Refused(error.clone()),
            None if self.entries.range(of(key.incarnation, u64::MAX)).count() >= ASK_COUNT_MAX => RequestArrival::TooMany,
            None => RequestArrival::New,
        }
    }

    /// Begins to work on a request.
    pub fn open(&mut self, key: AskKey, task: Task) {
        self.entries.insert(key, Received::Open { task, parked: false });
    }

    /// The request, while it is open.
    pub fn task(&self, key: AskKey) -> Option<&Task> {
        match self.entries.get(&key) {
            Some(Received::Open { task, .. }) => Some(task),
            _ => None,
        }
    }

    /// Sets a request aside until something changes.
    pub fn park(&mut self, key: AskKey) {
        if let Some(Received::Open { parked, .. }) = self.entries.get_mut(&key) {
            *parked = true;
        }
    }

    /// Takes up all requests that were set aside, in order.
    pub fn unpark(&mut self) -> Vec<AskKey> {
        let parked = self.entries.iter_mut().filter_map(|(key, entry)| match entry {
            Received::Open { parked, .. } if *parked => {
                *parked = false;
                Some(*key)
            }
            _ => None,
        });
        parked.collect()
    }

    /// Ends the work on a request; remembers a refusal.
    pub fn close(&mut self, key: AskKey, refusal: Option<&Error>) {
        let open = self.entries.remove(&key).is_some();
        if let Some(error) = refusal.filter(|_| open) {
            self.entries.insert(key, Received::Refused(error.clone()));
        }
    }

    /// How many are open or remembered.
    pub fn count(&self) -> usize {
        self.entries.len()
    }
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "numbers of a test")]
mod tests {
    use super::*;
    use crate::id::User;

    fn key(request: u64) -> AskKey {
        AskKey { incarnation: Incarnation(1), request }
    }

    fn task() -> Task {
        Task { node: NodeId(0), user: User { uid: 0, gid: 0 }.into(), client: ClientId(0), what: Request::Status }
    }

    #[test]
    fn a_request_is_new_once_and_its_refusal_is_repeated_until_settled() {
        let mut asks = ReceivedRequests::default();
        assert_eq!(asks.arrived(key(5)), RequestArrival::New);
        asks.open(key(5), task());
        assert_eq!(asks.arrived(key(5)), RequestArrival::Known);
        let error = Error::UnknownRegion { name: "a".into() };
        asks.close(key(5), Some(&error));
        assert_eq!(asks.arrived(key(5)), RequestArrival::Refused(error));
        asks.settle(Incarnation(1), 6);
        assert_eq!((asks.arrived(key(5)), asks.count()), (RequestArrival::Known, 0));
        asks.settle(Incarnation(1), 2);
        assert_eq!(asks.arrived(key(5)), RequestArrival::Known, "an older word of what is settled changes nothing");
    }

    #[test]
    fn parked_requests_come_back_once() {
        let mut asks = ReceivedRequests::default();
        asks.open(key(1), task());
        asks.open(key(2), task());
        asks.park(key(1));
        assert_eq!(asks.unpark(), [key(1)]);
        assert_eq!(asks.unpark(), []);
    }
}
