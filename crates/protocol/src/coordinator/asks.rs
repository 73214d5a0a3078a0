//! Requests that nodes forward: each is carried out once, however often it arrives.
//!
//! A request that is worked on, or waits for that, is *open*. While several users change regions, each has one such request begun at a time. So
//! nobody waits for all that another one asks. One that was refused is remembered with its refusal, one that did something as an effect in
//! the journal, until the node says that it is settled; one that only read is forgotten at once and may be read again.

use crate::error::{Error, Result};
use crate::id::{Asker, ClientId, Incarnation, NodeId};
use crate::limits::{ASK_COUNT_MAX, USER_ASKED_MS, USER_WORK_COUNT, USER_WORK_MS};
use crate::wire::control::{Answer, Request};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};

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

/// A request's next step.
#[expect(clippy::large_enum_variant, reason = "it is returned once a request, and kept nowhere")]
pub(super) enum Step {
    /// The request is answered.
    Done(Result<Answer>),
    /// The request waits until something changes.
    Park,
    /// The request is answered when nodes have obeyed: its extents are made, or freed.
    Ordered,
}

impl From<Error> for Step {
    fn from(error: Error) -> Step {
        Step::Done(Err(error))
    }
}

#[derive(Clone, Debug)]
enum Received {
    Open { task: Task, stage: AskStage },
    Refused(Error),
}

/// Stage of an open request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AskStage {
    /// Others of its user come first.
    Waits,
    /// Worked on.
    Begun,
    /// Set aside until something changes.
    Parked,
}

/// The requests of a user that change regions.
#[derive(Clone, Debug, Default)]
struct UserRequests {
    /// Requests that were begun lately, and when, in milliseconds. A longer one waits for a node, and is in nobody's way.
    begun: BTreeMap<AskKey, u64>,
    /// Requests that wait, and some that are closed.
    waiting: VecDeque<AskKey>,
    /// When the last came, in milliseconds.
    asked_ms: u64,
}

/// Standing of an arriving request.
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
    users: BTreeMap<u32, UserRequests>,
    /// Others, which are answered when they are begun.
    short: Vec<AskKey>,
}

/// True of requests that give orders to nodes, and write records.
fn changes_regions(what: &Request) -> bool {
    matches!(what, Request::Create { .. } | Request::Resize { .. } | Request::Remove { .. } | Request::Alter { .. })
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
            keys.into_iter().for_each(|key| drop(self.take(key)));
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

    /// Takes a request in; [`ReceivedRequests::begin`] says when it is worked on.
    pub fn open(&mut self, now_ms: u64, key: AskKey, task: Task) {
        if changes_regions(&task.what) {
            let user = self.users.entry(task.user.user.uid).or_default();
            user.waiting.push_back(key);
            user.asked_ms = now_ms;
        } else {
            self.short.push(key);
        }
        self.entries.insert(key, Received::Open { task, stage: AskStage::Waits });
    }

    /// The requests that are worked on from here on. **Cost**: a look at each user that asked lately.
    pub fn begin(&mut self, now_ms: u64) -> Vec<AskKey> {
        let ReceivedRequests { entries, users, short, .. } = self;
        users.retain(|_, user| {
            user.begun.retain(|_, since_ms| now_ms.saturating_sub(*since_ms) < USER_WORK_MS);
            !user.begun.is_empty() || !user.waiting.is_empty() || now_ms.saturating_sub(user.asked_ms) < USER_ASKED_MS
        });
        let most = if users.len() > 1 { USER_WORK_COUNT } else { usize::MAX };
        let mut begin = |key: &AskKey| match entries.get_mut(key) {
            Some(Received::Open { stage: stage @ AskStage::Waits, .. }) => {
                *stage = AskStage::Begun;
                true
            }
            _ => false,
        };
        let mut fresh = std::mem::take(short);
        fresh.retain(&mut begin);
        for user in users.values_mut() {
            while user.begun.len() < most
                && let Some(key) = user.waiting.pop_front()
            {
                if begin(&key) {
                    user.begun.insert(key, now_ms);
                    fresh.push(key);
                }
            }
        }
        fresh
    }

    /// When [`ReceivedRequests::begin`] has something, unless others are closed before.
    pub fn deadline(&self) -> Option<u64> {
        let waits = |user: &&UserRequests| !user.waiting.is_empty();
        let oldest = self.users.values().filter(waits).filter_map(|user| user.begun.values().min()).min();
        oldest.map(|since_ms| since_ms.saturating_add(USER_WORK_MS))
    }

    /// Takes a request out, or its refusal.
    fn take(&mut self, key: AskKey) -> Option<Received> {
        let taken = self.entries.remove(&key)?;
        if let Received::Open { task, .. } = &taken
            && let Some(user) = self.users.get_mut(&task.user.user.uid)
        {
            user.begun.remove(&key);
        }
        Some(taken)
    }

    /// The request, while it is open.
    pub fn task(&self, key: AskKey) -> Option<&Task> {
        match self.entries.get(&key) {
            Some(Received::Open { task, .. }) => Some(task),
            _ => None,
        }
    }

    /// All open requests.
    pub fn open_tasks(&self) -> impl Iterator<Item = &Task> {
        self.entries.values().filter_map(|entry| match entry {
            Received::Open { task, .. } => Some(task),
            Received::Refused(_) => None,
        })
    }

    /// Sets a request aside until something changes.
    pub fn park(&mut self, key: AskKey) {
        if let Some(Received::Open { task, stage: stage @ AskStage::Begun }) = self.entries.get_mut(&key) {
            *stage = AskStage::Parked;
            if let Some(user) = self.users.get_mut(&task.user.user.uid) {
                user.begun.remove(&key);
            }
        }
    }

    /// Takes up all requests that were set aside, in order.
    pub fn unpark(&mut self) -> Vec<AskKey> {
        let parked = self.entries.iter_mut().filter_map(|(key, entry)| match entry {
            Received::Open { stage: stage @ AskStage::Parked, .. } => {
                *stage = AskStage::Begun;
                Some(*key)
            }
            _ => None,
        });
        parked.collect()
    }

    /// Ends the work on a request; remembers a refusal.
    pub fn close(&mut self, key: AskKey, refusal: Option<&Error>) {
        let open = self.take(key).is_some();
        if let Some(error) = refusal.filter(|_| open) {
            self.entries.insert(key, Received::Refused(error.clone()));
        }
    }

    /// Number of open or remembered requests.
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

    fn task(uid: u32) -> Task {
        let what = Request::Remove { name: "a".into() };
        Task { node: NodeId(0), user: User { uid, gid: 0 }.into(), client: ClientId(0), what }
    }

    fn keys(requests: std::ops::Range<u64>) -> Vec<AskKey> {
        requests.map(key).collect()
    }

    #[test]
    fn a_request_is_new_once_and_its_refusal_is_repeated_until_settled() {
        let mut asks = ReceivedRequests::default();
        assert_eq!(asks.arrived(key(5)), RequestArrival::New);
        asks.open(0, key(5), task(0));
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
        asks.open(0, key(1), task(0));
        asks.open(0, key(2), task(0));
        assert_eq!(asks.begin(0), keys(1..3));
        asks.park(key(1));
        assert_eq!(asks.unpark(), [key(1)]);
        assert_eq!(asks.unpark(), []);
    }

    #[test]
    fn a_user_alone_has_all_its_requests_worked_on_and_among_others_few() {
        let most = USER_WORK_COUNT as u64;
        let mut asks = ReceivedRequests::default();
        (0..50).for_each(|request| asks.open(0, key(request), task(7)));
        assert_eq!(asks.begin(0), keys(0..50));
        asks.open(10, key(50), task(8));
        (51..80).for_each(|request| asks.open(10, key(request), task(7)));
        assert_eq!(asks.begin(10), [key(50)], "the other user has enough");
        (0..50).for_each(|request| asks.close(key(request), None));
        assert_eq!(asks.begin(10), keys(51..51 + most));
        asks.close(key(50), None);
        assert_eq!(asks.begin(10), [], "it may ask again soon");
        asks.open(10, key(90), Task { what: Request::Status, ..task(7) });
        assert_eq!(asks.begin(10), [key(90)], "what is answered at once is in nobody's way");
        // A request that is set aside is in nobody's way. A settled one is over.
        asks.park(key(51));
        assert_eq!(asks.begin(10), [key(51 + most)]);
        asks.settle(Incarnation(1), 53);
        assert_eq!(asks.begin(10), [key(52 + most)]);
        assert_eq!(asks.deadline(), Some(10 + USER_WORK_MS));
        assert_eq!(asks.begin(10 + USER_WORK_MS), keys(53 + most..53 + 2 * most), "those before wait for nodes");
        assert_eq!(asks.begin(10 + USER_ASKED_MS), keys(53 + 2 * most..80), "nobody else is there any more");
        asks.forget(Incarnation(1));
        assert_eq!((asks.begin(5000), asks.users.len()), (Vec::new(), 0));
    }
}
