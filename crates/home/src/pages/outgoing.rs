//! A message on its way to another node, or to this very one.

use super::memory::PageBytes;
use hanare_protocol::id::{Incarnation, NodeId};
use hanare_protocol::wire::page::NodeMessage;

/// A message, where it goes, and its page if it has one.
#[derive(Clone, Debug)]
pub(super) struct Outgoing {
    pub node: NodeId,
    /// The node's network address.
    pub address: String,
    pub message: NodeMessage,
    pub bytes: Option<PageBytes>,
}

/// The other end of a connection: a node, its life, the number of its channel.
pub(super) type Speaker = (NodeId, Incarnation, u64);

/// A message of another node, by the channel that it came on and its number there.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    pub from: Speaker,
    pub number: u64,
}

/// The messages that come of one event at a home, and the time of the event.
#[derive(Debug)]
pub(super) struct Outbox {
    pub now_us: u64,
    pub messages: Vec<Outgoing>,
    /// The message that is heard.
    pub heard: Option<Arrival>,
    /// True if the message that is heard is not to be confirmed yet.
    pub holds: bool,
    /// Messages that may be confirmed.
    pub let_go: Vec<Arrival>,
}

impl Outbox {
    /// The message that is heard is not confirmed before it is in [`Outbox::let_go`]: its sender keeps it.
    pub fn hold(&mut self) -> Option<Arrival> {
        self.holds |= self.heard.is_some();
        self.heard
    }

    pub fn push(&mut self, outgoing: Outgoing) {
        self.messages.push(outgoing);
    }
}
