//! Bytes of other nodes: links to those, made when they are needed, and what came of asking them.

use super::*;

impl ServiceLoop {
    /// Has bytes fetched from another node, over the link to it that is there or has to be made.
    pub(super) fn fetch(&mut self, session: u64, fetch: NodeFetch) {
        if !self.sessions.serves(session) {
            return;
        }
        let Some(id) = self.peers.fetches.link(&fetch.address) else { return self.dial(session, fetch) };
        self.ask_peer(id, session, fetch);
    }

    pub(super) fn dial(&mut self, session: u64, fetch: NodeFetch) {
        if self.peers.fetches.is_full() {
            self.close_idle_peer();
        }
        if let Err(error) = self.peers.dial(session, fetch) {
            self.deliver(vec![EndedFetch { session, outcome: Err(error) }]);
        }
    }

    /// Makes room for a link to a node that is needed.
    pub(super) fn close_idle_peer(&mut self) {
        let is_idle = |place: &SeatedLink| matches!(&place.seat, Connection::Peer(peer) if peer.fetches().is_idle());
        let idle = self.places.iter().find(|(_, place)| is_idle(place)).map(|(id, _)| *id);
        if let Some(SeatedLink { seat: Connection::Peer(peer), .. }) = idle.and_then(|id| self.unseat(id)) {
            self.peers.fetches.forget(&peer.address);
        }
    }

    pub(super) fn ask_peer(&mut self, id: u64, session: u64, fetch: NodeFetch) {
        // The link may have ended under another's request just before.
        let Some(SeatedLink { seat: Connection::Peer(peer), .. }) = self.places.get_mut(&id) else {
            return self.dial(session, fetch);
        };
        match peer.ask(self.now, session, fetch) {
            Ok(()) => self.wake(id),
            Err(error) => self.end(id, &error),
        }
    }

    /// Before bytes of another node are written: closes the session that waits for them, if its client is gone.
    pub(super) fn look_who_fetches(&mut self, id: u64) {
        let Some(SeatedLink { seat: Connection::Peer(peer), .. }) = self.places.get(&id) else { return };
        let Some(session) = peer.fetches().session() else { return };
        if matches!(self.places.get(&session), Some(SeatedLink { seat: Connection::Client(session), .. }) if session.has_ended())
        {
            self.close(session);
        }
    }

    /// A session has ended: bytes that come for it are written nowhere.
    ///
    /// Ends a link with bytes on their way into an extent; other sessions' fetches on it are asked for again.
    pub(super) fn end_fetches(&mut self, session: u64) {
        self.peers.fetches.cancel(session);
        let cannot = |place: &mut SeatedLink| match &mut place.seat {
            Connection::Peer(peer) => !peer.cancel(session),
            Connection::Client(_) | Connection::Wire(..) => false,
        };
        let begun: Vec<u64> = self.places.iter_mut().filter_map(|(id, place)| cannot(place).then_some(*id)).collect();
        for id in begun {
            let Some(SeatedLink { seat: Connection::Peer(peer), .. }) = self.unseat(id) else { continue };
            self.peers.fetches.forget(&peer.address);
            peer.into_fetches().others().into_iter().for_each(|(session, fetch)| self.fetch(session, fetch));
        }
    }

    /// Hands ended fetches to the sessions that wait for them.
    pub(super) fn deliver(&mut self, ended: Vec<EndedFetch>) {
        for EndedFetch { session, outcome } in ended {
            if let Some(SeatedLink { seat: Connection::Client(waiting), .. }) = self.places.get_mut(&session) {
                waiting.fetched(outcome);
                self.wake(session);
            }
        }
    }

    /// Another node was reached, or not: those who wait for it go on.
    pub(super) fn dialed(&mut self, address: &str, link: Result<Box<dyn Link>>) {
        let waiting = self.peers.fetches.dialed(address);
        let Some(node) = waiting.first().map(|(_, fetch)| fetch.node) else { return };
        let outcome = link.and_then(|link| {
            let peer = crate::data::fetches::Peer::new(link, address.to_owned(), node);
            self.seat(Connection::Peer(Box::new(peer))).ok_or_else(|| system("watch a link", rustix::io::Errno::NOSPC))
        });
        match outcome {
            Ok(id) => {
                self.peers.fetches.enter(address, id);
                waiting.into_iter().for_each(|(session, fetch)| self.ask_peer(id, session, fetch));
            }
            Err(error) => {
                // No process listens at the node's address: for those that wait the node is lost.
                let error = match error {
                    Error::NoNode { reason, .. } => Error::NodeLost { node, reason },
                    other => other,
                };
                let failed = |(session, _): (u64, NodeFetch)| EndedFetch { session, outcome: Err(error.clone()) };
                self.deliver(waiting.into_iter().map(failed).collect());
            }
        }
    }

    /// There is a connection for messages about pages, or copies, or there could not be.
    pub(super) fn wired(&mut self, role: Role, (node, is_ours): (NodeId, bool), link: Result<Box<dyn Link>>, spoken: u32) {
        let place = match link {
            Ok(link) => self.seat(Connection::Wire(role, Box::new(ControlLink::new(link)))),
            Err(error) => {
                tracing::debug!("{node} was not reached: {error}");
                None
            }
        };
        match (role, is_ours, place) {
            (Role::Copies, true, place) => self.tell_home(CopyInput::Dialed { node, place, spoken }),
            (Role::Copies, false, Some(place)) => self.tell_home(CopyInput::Came { node, place }),
            (_, true, place) => self.tell_home(PageInput::Dialed { node, place, spoken }),
            (_, false, _) => {}
        }
    }
}
