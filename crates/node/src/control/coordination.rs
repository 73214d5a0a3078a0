//! The driver of the coordinator's state machine: its journal, and the links of the pool's other nodes.

use super::journals::Journals;
use crate::control_link::ControlLink;
use crate::keepers::SharedEngine;
use crate::notices::ToService;
use hanare_fabric::LinkError;
use hanare_protocol::coordinator::{Commits, Coordinator, Output, Peer, Settings, WaitingOutputs};
use hanare_protocol::keeper_list::KnownKeepers;
use hanare_protocol::wire::control::{FromNode, ToNode};
use hanare_protocol::{Error, Result};
use rustix::event::epoll::EventFlags;
use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::Path;

/// The peer that is this process's own node.
pub(crate) const OWN: Peer = Peer(0);

/// Time between looks at a full journal's disk.
const JOURNAL_LOOK_MS: u64 = 1000;

pub(crate) struct Coordination {
    machine: Coordinator,
    /// Outputs of the machine that wait for the commit of their records.
    outputs: WaitingOutputs,
    journal: Journals,
    links: HashMap<u64, PeerLink>,
    /// When the journal's disk was looked at.
    looked_ms: u64,
}

/// A node's link, and what epoll watches of it.
pub(crate) struct PeerLink {
    pub link: ControlLink,
    pub interest: EventFlags,
}

/// An action for the rest of the node.
pub(crate) enum CoordinatorAction {
    /// A message for this process's own node.
    Own(ToNode),
    /// Tell the service.
    Tell(ToService),
}

/// The refusal of an address that leads everybody to the host that they are on, from a node on another host.
fn unreachable_from_remote(peer: &str, address: &str) -> Option<Error> {
    let (peer, told) = (peer.parse::<SocketAddr>().ok()?, address.parse::<SocketAddr>().ok()?);
    let reason = "it came from another host, and this leads every host to itself; give --listen HOST:PORT, or HANARE_ADVERTISE";
    (!peer.ip().is_loopback() && told.ip().is_loopback()).then(|| Error::BadSetting {
        key: "the address of a node".to_owned(),
        value: address.to_owned(),
        reason: reason.to_owned(),
    })
}

impl Coordination {
    /// Restores the coordinator from its journal.
    pub fn open(settings: Settings, path: Option<&Path>, now_ms: u64) -> Result<Coordination> {
        let (journal, records) = Journals::open(path)?;
        Ok(Coordination::new(Coordinator::restore(settings, records, now_ms), journal))
    }

    /// The coordinator of a pool with keepers, which reigns from here on. It knows what they have decided.
    pub fn begin_reign(settings: Settings, engine: SharedEngine, now_ms: u64) -> Coordination {
        let records = engine.lock().records().to_vec();
        Coordination::new(Coordinator::restore(settings, records, now_ms), Journals::Keepers(engine))
    }

    fn new(machine: Coordinator, journal: Journals) -> Coordination {
        Coordination { machine, outputs: WaitingOutputs::default(), journal, links: HashMap::new(), looked_ms: 0 }
    }

    /// The links of other nodes, of a coordinator that is none any more.
    pub fn into_links(self) -> HashMap<u64, PeerLink> {
        self.links
    }

    /// True if the journal tells of a life before this one.
    pub fn began_again(&self) -> bool {
        self.machine.began_again()
    }

    /// The keepers of its pool, as they are now.
    pub fn set_keepers(&mut self, keepers: KnownKeepers) {
        self.machine.set_keepers(keepers);
    }

    pub fn add_link(&mut self, id: u64, link: ControlLink, interest: EventFlags) {
        self.links.insert(id, PeerLink { link, interest });
    }

    pub fn links(&mut self) -> impl Iterator<Item = (u64, &mut PeerLink)> {
        self.links.iter_mut().map(|(id, link)| (*id, link))
    }

    /// A message of this process's own node.
    pub fn on_own_message(&mut self, now_ms: u64, message: FromNode) {
        self.machine.handle(now_ms, OWN, message);
    }

    /// Something happened on a link: its messages are handled. Returns whether there are more than one turn's. An error ends the
    /// link.
    pub fn on_event(&mut self, now_ms: u64, id: u64) -> Result<bool, LinkError> {
        let Some(peer) = self.links.get_mut(&id) else { return Ok(false) };
        let (messages, ending) = peer.link.receive::<FromNode>();
        let has_more = peer.link.has_more();
        for message in messages {
            if let Some((incarnation, address)) = message.joins()
                && let Some(error) = unreachable_from_remote(peer.link.peer(), address)
            {
                peer.link.send(&ToNode::Refused { incarnation, error })?;
                continue;
            }
            self.machine.handle(now_ms, Peer(id), message);
        }
        ending.map(|()| has_more)
    }

    /// A link ended; returns it for its owner to stop watching.
    pub fn close(&mut self, now_ms: u64, id: u64, reason: &str) -> Option<PeerLink> {
        let link = self.links.remove(&id)?;
        self.machine.disconnected(now_ms, Peer(id), reason);
        Some(link)
    }

    pub fn tick(&mut self, now_ms: u64) {
        if self.looked_ms.saturating_add(JOURNAL_LOOK_MS) <= now_ms {
            self.looked_ms = now_ms;
            self.journal.look();
            self.machine.set_journal_full(self.journal.is_full());
        }
        self.machine.tick(now_ms);
    }

    pub fn next_deadline(&self) -> Option<u64> {
        self.machine.next_deadline()
    }

    /// Appends the machine's records, acts on outputs whose records are committed, and returns what concerns others; links that failed
    /// are listed.
    ///
    /// **Errors**: the journal's: nothing more may be acknowledged then.
    pub fn act(&mut self, failed: &mut Vec<(u64, String)>) -> Result<Vec<CoordinatorAction>> {
        let mut actions = Vec::new();
        self.outputs.take(&mut self.machine, &mut self.journal)?;
        self.machine.set_journal_full(self.journal.is_full());
        while let Some(output) = self.outputs.next(self.journal.committed()) {
            match output {
                Output::Send(OWN, message) => actions.push(CoordinatorAction::Own(message)),
                Output::Send(Peer(id), message) => {
                    if let Some(peer) = self.links.get_mut(&id)
                        && let Err(error) = peer.link.send(&message)
                    {
                        failed.push((id, error.to_string()));
                    }
                }
                Output::JobRankGone { job, rank, ranks, reason, died } => {
                    actions.push(CoordinatorAction::Tell(ToService::RankGone { job, rank, ranks, reason, died }));
                }
                Output::NodeLost { node, reason, in_order: true, .. } => tracing::info!("{node} has gone: {reason}"),
                Output::NodeLost { node, reason, .. } => tracing::warn!("{node} is lost: {reason}"),
                Output::Journal(_) => unreachable!("it went to the journal"),
            }
        }
        self.journal.compact(&self.machine)?;
        Ok(actions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_loopback_address_is_refused_from_another_host_only() {
        assert!(unreachable_from_remote("10.0.0.2:40000", "127.0.0.1:7411").is_some());
        assert!(unreachable_from_remote("10.0.0.2:40000", "10.0.0.2:7411").is_none());
        assert!(unreachable_from_remote("127.0.0.1:40000", "127.0.0.1:7411").is_none());
        assert!(unreachable_from_remote("a peer", "host:7411").is_none());
    }
}
