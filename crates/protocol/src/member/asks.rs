//! Requests that a node forwards: repeated until answered, given up after a bound.

use crate::error::Error;
use crate::id::{Asker, ClientId};
use crate::wire::control::{FromNode, KeeperChange, Request, Which};
use std::collections::BTreeMap;

/// A request on its way.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Open {
    user: Asker,
    client: ClientId,
    what: Request,
    since_ms: u64,
    /// When it was last sent; `None`: never, so surely nothing happened.
    sent_ms: Option<u64>,
}

/// A request that is given up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GivenUp {
    pub request: u64,
    pub client: ClientId,
    pub error: Error,
}

/// All requests on their way.
#[derive(Clone, Debug, Default)]
pub(super) struct ForwardedRequests {
    next: u64,
    open: BTreeMap<u64, Open>,
}

impl ForwardedRequests {
    /// Takes a request in; it is sent by the next [`ForwardedRequests::due`].
    pub fn add(&mut self, now_ms: u64, user: Asker, client: ClientId, what: Request) -> u64 {
        let request = self.next;
        self.next += 1;
        self.open.insert(request, Open { user, client, what, since_ms: now_ms, sent_ms: None });
        request
    }

    /// An answer arrives; returns whose it is, `None` when it was answered or given up before.
    pub fn answered(&mut self, request: u64) -> Option<ClientId> {
        self.open.remove(&request).map(|open| open.client)
    }

    /// The messages to send by now: those never sent, and those without an answer for `repeat_ms`.
    pub fn due(&mut self, now_ms: u64, repeat_ms: u64) -> Vec<FromNode> {
        let settled = self.settled();
        let due = self.open.iter_mut().filter(|(_, open)| open.sent_ms.is_none_or(|sent| sent + repeat_ms <= now_ms));
        let message = |(request, open): (&u64, &mut Open)| {
            open.sent_ms = Some(now_ms);
            FromNode::Ask { request: *request, settled, user: open.user.clone(), client: open.client, what: open.what.clone() }
        };
        due.map(message).collect()
    }

    /// Gives up what the coordinator does not know: both speak this version of the wire.
    pub fn take_unknown(&mut self, spoken: u32) -> Vec<GivenUp> {
        let unknown = self.open.extract_if(.., |_, open| open.what.since() > spoken);
        let give_up = |(request, open): (u64, Open)| {
            let error = open.what.check_known("the coordinator's node", spoken).err()?;
            Some(GivenUp { request, client: open.client, error })
        };
        unknown.filter_map(give_up).collect()
    }

    /// Gives up what was not answered within `answer_ms`.
    pub fn give_up(&mut self, now_ms: u64, answer_ms: u64) -> Vec<GivenUp> {
        let late: Vec<u64> =
            self.open.iter().filter(|(_, open)| open.since_ms + answer_ms <= now_ms).map(|(request, _)| *request).collect();
        let give_up = |request: u64| {
            let open = self.open.remove(&request)?;
            let error = match open.sent_ms {
                None => Error::NoCoordinator { reason: format!("no connection to it for {answer_ms} ms") },
                Some(_) => Error::Timeout { peer: "the coordinator".to_owned(), what: describe(&open.what), after_ms: answer_ms },
            };
            Some(GivenUp { request, client: open.client, error })
        };
        late.into_iter().filter_map(give_up).collect()
    }

    /// When the next one is given up, and, where `repeat_ms` is given, repeated.
    pub fn deadline(&self, answer_ms: u64, repeat_ms: Option<u64>) -> Option<u64> {
        let give_up = self.open.values().map(|open| open.since_ms + answer_ms).min();
        let repeat = repeat_ms.and_then(|repeat_ms| {
            self.open.values().map(|open| open.sent_ms.map_or(open.since_ms, |sent| sent + repeat_ms)).min()
        });
        [give_up, repeat].into_iter().flatten().min()
    }

    /// The connection is another one: everything is sent again at once, and what was sent stays "perhaps done".
    pub fn resend(&mut self) {
        for open in self.open.values_mut().filter(|open| open.sent_ms.is_some()) {
            open.sent_ms = Some(0);
        }
    }

    fn settled(&self) -> u64 {
        self.open.keys().next().copied().unwrap_or(self.next)
    }

    /// Number of open requests.
    pub fn count(&self) -> usize {
        self.open.len()
    }
}

/// A request in words, for a message to the user.
fn describe(what: &Request) -> String {
    match what {
        Request::Create { name, len, .. } => format!("create region '{name}' of {len} bytes"),
        Request::Open { which: Which::Name(name), .. } => format!("open region '{name}'"),
        Request::Open { which: Which::Gid(gid), .. } => format!("open {gid}"),
        Request::Alter { name, .. } => format!("change region '{name}'"),
        Request::Forget { node } => format!("forget {node}"),
        Request::Drain { node, .. } => format!("drain {node}"),
        Request::Keepers { address, change: KeeperChange::Add } => format!("add keeper {address}"),
        Request::Keepers { address, change: KeeperChange::Remove } => format!("remove keeper {address}"),
        Request::Keepers { address, change: KeeperChange::Replace } => format!("replace the disk of keeper {address}"),
        Request::Rebalance(_) => "rebalance the pool".to_owned(),
        Request::Stat { name } => format!("stat region '{name}'"),
        Request::Resize { name, len } => format!("resize region '{name}' to {len} bytes"),
        Request::Remove { name } => format!("remove region '{name}'"),
        Request::List { .. } => "list regions".to_owned(),
        Request::Status => "tell the pool's status".to_owned(),
        Request::Reserve { .. } => "tell how much queues may spill".to_owned(),
        Request::ProveTenant { tenant, .. } => format!("look at the key of tenant '{tenant}'"),
        Request::Tenants(_) => "list or change tenants".to_owned(),
        Request::RankEnded { rank, .. } => format!("note the end of {rank}"),
        Request::Attach { .. }
        | Request::AttachAs { .. }
        | Request::Detach
        | Request::Leave
        | Request::Map { .. }
        | Request::Own
        | Request::Release { .. }
        | Request::Share { .. }
        | Request::ShareFollowing { .. }
        | Request::Hold { .. }
        | Request::Link(_)
        | Request::Unshare { .. }
        | Request::FlushShared { .. }
        | Request::Prove { .. } => "answer".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::User;

    fn ask(asks: &mut ForwardedRequests, now_ms: u64) -> u64 {
        asks.add(now_ms, User { uid: 0, gid: 0 }.into(), ClientId(1), Request::Status)
    }

    #[test]
    fn settled_is_the_oldest_without_an_answer() {
        let mut asks = ForwardedRequests::default();
        let (first, second) = (ask(&mut asks, 0), ask(&mut asks, 0));
        assert_eq!(asks.settled(), first);
        asks.answered(second);
        assert_eq!(asks.settled(), first);
        asks.answered(first);
        assert_eq!((asks.settled(), asks.answered(first)), (second + 1, None));
    }

    #[test]
    fn what_was_never_sent_surely_did_not_happen() {
        let mut asks = ForwardedRequests::default();
        ask(&mut asks, 0);
        assert_eq!(asks.due(0, 10).len(), 1);
        assert_eq!((asks.due(9, 10).len(), asks.due(10, 10).len()), (0, 1));
        ask(&mut asks, 10);
        assert!(asks.give_up(99, 100).is_empty());
        assert!(matches!(asks.give_up(100, 100).as_slice(), [GivenUp { error: Error::Timeout { .. }, .. }]));
        assert!(matches!(asks.give_up(110, 100).as_slice(), [GivenUp { error: Error::NoCoordinator { .. }, .. }]));
    }
}
