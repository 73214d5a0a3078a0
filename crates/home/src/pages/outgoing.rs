//! A message on its way to another node, or to this very one.

use super::memory::PageBytes;
use hanare_protocol::id::NodeId;
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

/// The messages that come of one event at a home, and the time of the event.
#[derive(Debug)]
pub(super) struct Outbox {
    pub now_us: u64,
    pub messages: Vec<Outgoing>,
}

impl Outbox {
    pub fn push(&mut self, outgoing: Outgoing) {
        self.messages.push(outgoing);
    }
}
