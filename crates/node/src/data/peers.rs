//! Links to other nodes, made when a copy first needs them: dialed in threads of their own, because a node may be slow.

use super::fetches::NodeFetch;
use crate::notice_queue::NoticeQueue;
use crate::notices::ToService;
use crate::proving;
use hanare_fabric::tcp::{self, Keys};
use hanare_fabric::{Link, agree};
use hanare_protocol::id::NodeId;
use hanare_protocol::wire::greeting::Role;
use hanare_protocol::{Error, Result};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Most other nodes that a node has links to for copies: addresses come from clients, and each costs a thread while it is dialed and a
/// descriptor from then on.
const PEER_COUNT_MAX: usize = 256;

/// Terms of connections to other nodes.
pub(crate) struct DialTerms {
    /// Proved to them.
    pub keys: Keys,
    /// Time to wait for them.
    pub bound: Duration,
    pub fabric: agree::Choice,
    pub notices: Arc<NoticeQueue<ToService>>,
}

enum PeerState {
    /// Fetches that wait for the link, and the sessions they are for.
    Dialing(Vec<(u64, NodeFetch)>),
    /// The link's place in the service.
    There(u64),
}

pub(crate) struct Peers {
    dial: DialTerms,
    ways: HashMap<String, PeerState>,
}

impl Peers {
    pub fn new(dial: DialTerms) -> Peers {
        Peers { dial, ways: HashMap::new() }
    }

    pub fn bound(&self) -> Duration {
        self.dial.bound
    }

    /// The place of the link to that address, if it is there.
    pub fn place(&self, address: &str) -> Option<u64> {
        match self.ways.get(address) {
            Some(PeerState::There(id)) => Some(*id),
            _ => None,
        }
    }

    /// True if no link to a further node may be made.
    pub fn is_full(&self) -> bool {
        self.ways.len() >= PEER_COUNT_MAX
    }

    /// Has a fetch wait for the link, which is made if nobody does so yet.
    ///
    /// **Errors**: [`Error::LimitReached`] for a further node when there are [`PEER_COUNT_MAX`].
    pub fn dial(&mut self, session: u64, fetch: NodeFetch) -> Result<()> {
        let (address, is_full) = (fetch.address.clone(), self.is_full());
        match self.ways.get_mut(&address) {
            Some(PeerState::Dialing(waiting)) => waiting.push((session, fetch)),
            _ if is_full => {
                let what = "nodes that copies are fetched from at once".to_owned();
                return Err(Error::LimitReached { what, limit: PEER_COUNT_MAX as u64 });
            }
            _ => {
                self.ways.insert(address.clone(), PeerState::Dialing(vec![(session, fetch)]));
                self.start(address);
            }
        }
        Ok(())
    }

    fn start(&self, address: String) {
        let (keys, bound, notices) = (self.dial.keys.clone(), self.dial.bound, self.dial.notices.clone());
        let to = address.clone();
        let (fabric, deadline) = (self.dial.fabric, Instant::now() + bound);
        let dial = move || {
            let greeted = tcp::connect(&address, keys.caller(Role::Data, 0), &proving(&keys), deadline);
            let link = greeted.and_then(|mut greeted| {
                greeted.end_by_reset(bound)?;
                agree::agree(greeted, fabric, deadline).map(|agreed| agreed.link)
            });
            notices.send(ToService::Dialed { address, link });
        };
        if let Err(error) = std::thread::Builder::new().name("hanare-dial".to_owned()).spawn(dial) {
            let link = Err(Error::System { what: "start a thread".to_owned(), reason: error.to_string() });
            self.dial.notices.send(ToService::Dialed { address: to, link });
        }
    }

    /// Begins to connect to a node for messages about pages; [`ToService::Wired`] says what came of it.
    pub fn dial_wire(&self, node: NodeId, address: String) {
        let (keys, bound, notices) = (self.dial.keys.clone(), self.dial.bound, self.dial.notices.clone());
        let dial = move || {
            let caller = keys.caller(Role::Pages, u64::from(node.0));
            let greeted = tcp::connect(&address, caller, &proving(&keys), Instant::now() + bound);
            notices.send(ToService::Wired {
                node: Some(node),
                link: greeted.map(|greeted| Box::new(greeted.link) as Box<dyn Link>),
            });
        };
        if let Err(error) = std::thread::Builder::new().name("hanare-dial".to_owned()).spawn(dial) {
            let link = Err(Error::System { what: "start a thread".to_owned(), reason: error.to_string() });
            self.dial.notices.send(ToService::Wired { node: Some(node), link });
        }
    }

    /// The try to reach that address has ended: those who waited for it.
    pub fn dialed(&mut self, address: &str) -> Vec<(u64, NodeFetch)> {
        match self.ways.remove(address) {
            Some(PeerState::Dialing(waiting)) => waiting,
            _ => Vec::new(),
        }
    }

    /// A session has ended: it waits for no link any more.
    pub fn cancel(&mut self, session: u64) {
        for way in self.ways.values_mut() {
            if let PeerState::Dialing(waiting) = way {
                waiting.retain(|(waits, _)| *waits != session);
            }
        }
    }

    /// The link to that address has its place.
    pub fn enter(&mut self, address: &str, id: u64) {
        self.ways.insert(address.to_owned(), PeerState::There(id));
    }

    pub fn forget(&mut self, address: &str) {
        self.ways.remove(address);
    }
}
