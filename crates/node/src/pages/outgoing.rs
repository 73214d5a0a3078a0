//! A message on its way to another node, or to this very one.

use hanare_protocol::id::NodeId;
use hanare_protocol::wire::page::NodeMessage;

/// A page's bytes.
pub(super) type PageBytes = Box<[u8]>;

/// A message, where it goes, and its page if it has one.
#[derive(Clone)]
pub(super) struct Outgoing {
    pub node: NodeId,
    /// Where the node is reached.
    pub address: String,
    pub message: NodeMessage,
    pub bytes: Option<PageBytes>,
}
