//! Orders about connections between nodes.

use crate::wire_frame::WireFrame;
use hanare_protocol::id::NodeId;

/// An order about a connection of this node to another, or of another to this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum WireOutput {
    /// Connect to a node. An input says what came of it.
    Dial {
        /// The node.
        node: NodeId,
        /// Its network address.
        address: String,
    },
    /// Send a frame.
    Send {
        /// The connection.
        place: u64,
        /// The frame.
        frame: WireFrame,
    },
    /// Close a connection.
    Close {
        /// The connection.
        place: u64,
    },
}
