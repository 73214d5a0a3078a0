//! Other nodes that copies fetch bytes from, and the fetches that wait for a link to one.

use super::fetch::Fetch;
use hanare_protocol::{Error, Result};
use std::collections::BTreeMap;

/// Most other nodes to which a node has links for copies. Addresses come from clients. Each costs a thread while it is dialed, and a
/// descriptor from then on.
const PEER_COUNT: usize = 256;

/// The other nodes, by their address.
#[derive(Debug)]
pub struct FetchPeers<E>(BTreeMap<String, PeerState<E>>);

#[derive(Debug)]
enum PeerState<E> {
    /// Fetches that wait for the link, and the sessions they are for.
    Dialing(Vec<(u64, Fetch<E>)>),
    /// The link that is there.
    There(u64),
}

impl<E> Default for FetchPeers<E> {
    fn default() -> FetchPeers<E> {
        FetchPeers(BTreeMap::new())
    }
}

impl<E> FetchPeers<E> {
    /// The link to that address, if it is there.
    pub fn link(&self, address: &str) -> Option<u64> {
        match self.0.get(address) {
            Some(PeerState::There(link)) => Some(*link),
            _ => None,
        }
    }

    /// Returns true if no link to a further node may be made.
    pub fn is_full(&self) -> bool {
        self.0.len() >= PEER_COUNT
    }

    /// Has a fetch wait for the link to its address. Returns true if nobody tries to reach it yet: the driver does, and tells how that ended
    /// by [`FetchPeers::dialed`].
    ///
    /// **Errors**: [`Error::LimitReached`] for a further node when there are as many as may be.
    pub fn dial(&mut self, session: u64, fetch: Fetch<E>) -> Result<bool> {
        let is_full = self.is_full();
        match self.0.get_mut(&fetch.address) {
            Some(PeerState::Dialing(waiting)) => {
                waiting.push((session, fetch));
                Ok(false)
            }
            None if is_full => {
                let what = "nodes that copies are fetched from at once".to_owned();
                Err(Error::LimitReached { what, limit: PEER_COUNT as u64 })
            }
            // A link that the driver has no more is made anew.
            Some(PeerState::There(_)) | None => {
                self.0.insert(fetch.address.clone(), PeerState::Dialing(vec![(session, fetch)]));
                Ok(true)
            }
        }
    }

    /// The try to reach that address has ended: those who waited for it.
    pub fn dialed(&mut self, address: &str) -> Vec<(u64, Fetch<E>)> {
        match self.0.remove(address) {
            Some(PeerState::Dialing(waiting)) => waiting,
            _ => Vec::new(),
        }
    }

    /// The link to that address is there.
    pub fn enter(&mut self, address: &str, link: u64) {
        self.0.insert(address.to_owned(), PeerState::There(link));
    }

    /// The link to that address has ended.
    pub fn forget(&mut self, address: &str) {
        self.0.remove(address);
    }

    /// A session has ended: it waits for no link any more.
    pub fn cancel(&mut self, session: u64) {
        for peer in self.0.values_mut() {
            if let PeerState::Dialing(waiting) = peer {
                waiting.retain(|(waits, _)| *waits != session);
            }
        }
    }
}
