//! Links to other nodes, made when a copy first needs them. Threads of their own dial them, because a node may be slow.

use super::execution::ReachedExtent;
use super::fetches::NodeFetch;
use crate::notice_queue::NoticeQueue;
use crate::notices::ToService;
use crate::proving;
use hanare_fabric::tcp::{self, Keys};
use hanare_fabric::{Link, agree};
use hanare_home::FetchPeers;
use hanare_protocol::id::NodeId;
use hanare_protocol::versions::OLDEST;
use hanare_protocol::wire::greeting::Role;
use hanare_protocol::{Error, Result};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Terms of connections to other nodes.
pub(crate) struct DialTerms {
    /// Proved to them.
    pub keys: Keys,
    /// Time to wait for them.
    pub bound: Duration,
    pub fabric: agree::Choice,
    pub notices: Arc<NoticeQueue<ToService>>,
}

pub(crate) struct Peers {
    dial: DialTerms,
    /// Links for copies are places of the service.
    pub fetches: FetchPeers<ReachedExtent>,
}

impl Peers {
    pub fn new(dial: DialTerms) -> Peers {
        Peers { dial, fetches: FetchPeers::default() }
    }

    pub fn bound(&self) -> Duration {
        self.dial.bound
    }

    /// Has a fetch wait for the link, which is made if nobody does so yet.
    pub fn dial(&mut self, session: u64, fetch: NodeFetch) -> Result<()> {
        let address = fetch.address.clone();
        if self.fetches.dial(session, fetch)? {
            self.start(address);
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

    /// Begins to connect to a node for messages about pages, or copies, from node `me`. [`ToService::Wired`] says what came of it.
    pub fn dial_wire(&self, role: Role, me: NodeId, node: NodeId, address: String) {
        let (keys, bound, notices) = (self.dial.keys.clone(), self.dial.bound, self.dial.notices.clone());
        let wired = move |link, spoken| ToService::Wired { role, node, is_ours: true, link, spoken };
        let dial = move || {
            let caller = keys.caller(role, u64::from(me.0));
            let greeted = tcp::connect(&address, caller, &proving(&keys), Instant::now() + bound);
            let spoken = greeted.as_ref().map_or(OLDEST, |greeted| greeted.spoken);
            notices.send(wired(greeted.map(|greeted| Box::new(greeted.link) as Box<dyn Link>), spoken));
        };
        if let Err(error) = std::thread::Builder::new().name("hanare-dial".to_owned()).spawn(dial) {
            let link = Err(Error::System { what: "start a thread".to_owned(), reason: error.to_string() });
            self.dial.notices.send(wired(link, OLDEST));
        }
    }
}
