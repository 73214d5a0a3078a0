//! Links to other nodes, made when a copy first needs them: dialed in threads of their own, since a node may be slow.

use super::fetches::Fetch;
use super::service::Mail;
use crate::node::post::Post;
use hanare_fabric::{tcp, ucx};
use hanare_protocol::Error;
use hanare_protocol::wire::greeting::Role;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How other nodes are reached.
pub(crate) struct Dial {
    /// Proved to them.
    pub key: Option<[u8; 32]>,
    /// How long they are waited for.
    pub bound: Duration,
    pub fabric: ucx::Choice,
    pub post: Arc<Post<Mail>>,
}

enum Way {
    /// Fetches that wait for the link, and the sessions they are for.
    Dialing(Vec<(u64, Fetch)>),
    /// The link's place in the service.
    There(u64),
}

pub(crate) struct Peers {
    dial: Dial,
    ways: HashMap<String, Way>,
}

impl Peers {
    pub fn new(dial: Dial) -> Peers {
        Peers { dial, ways: HashMap::new() }
    }

    pub fn bound(&self) -> Duration {
        self.dial.bound
    }

    /// The place of the link to that address, if it is there.
    pub fn place(&self, address: &str) -> Option<u64> {
        match self.ways.get(address) {
            Some(Way::There(id)) => Some(*id),
            _ => None,
        }
    }

    /// Has a fetch wait for the link, which is made if nobody does so yet.
    pub fn dial(&mut self, session: u64, fetch: Fetch) {
        let address = fetch.address.clone();
        match self.ways.get_mut(&address) {
            Some(Way::Dialing(waiting)) => waiting.push((session, fetch)),
            _ => {
                self.ways.insert(address.clone(), Way::Dialing(vec![(session, fetch)]));
                self.start(address);
            }
        }
    }

    fn start(&self, address: String) {
        let (key, bound, post) = (self.dial.key, self.dial.bound, self.dial.post.clone());
        let to = address.clone();
        let (fabric, deadline) = (self.dial.fabric, Instant::now() + bound);
        let dial = move || {
            let prove = |hellos: &tcp::Hellos| Ok(tcp::proof(key.as_ref(), hellos));
            let greeted = tcp::connect(&address, Role::Data, 0, &prove, deadline);
            let link = greeted.and_then(|greeted| ucx::agree(greeted, fabric, deadline)).map(|agreed| agreed.link);
            post.send(Mail::Dialed { address, link });
        };
        if let Err(error) = std::thread::Builder::new().name("hanare-dial".to_owned()).spawn(dial) {
            let link = Err(Error::System { what: "start a thread".to_owned(), reason: error.to_string() });
            self.dial.post.send(Mail::Dialed { address: to, link });
        }
    }

    /// The try to reach that address has ended: those who waited for it.
    pub fn dialed(&mut self, address: &str) -> Vec<(u64, Fetch)> {
        match self.ways.remove(address) {
            Some(Way::Dialing(waiting)) => waiting,
            _ => Vec::new(),
        }
    }

    /// The link to that address has its place.
    pub fn enter(&mut self, address: &str, id: u64) {
        self.ways.insert(address.to_owned(), Way::There(id));
    }

    pub fn forget(&mut self, address: &str) {
        self.ways.remove(address);
    }
}
