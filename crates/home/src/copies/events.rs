//! Inputs and outputs of a node's homes and copies.

use hanare_protocol::Result;
use hanare_protocol::copies::HolderSet;
use hanare_protocol::id::{Gid, NodeId, Slot};
use hanare_protocol::wire::control::NodeAddress;
use hanare_protocol::wire::copies::{CopiedExtent, ExtentWrite, FromHolder, ToHolder};

/// An event that homes and copies hear of. `X` is an extent, and `A` names a command that waits.
#[derive(Debug)]
pub enum CopyInput<'a, X, A> {
    /// The node's number in its pool.
    Identity(NodeId),
    /// The coordinator had an extent made here.
    Made {
        /// Its name.
        extent: CopiedExtent,
        /// Its first holders.
        set: HolderSet,
        /// Its slot, and the extent.
        at: (Slot, X),
    },
    /// Extents are no more.
    Freed,
    /// The coordinator's message.
    Holder {
        /// The extent.
        extent: CopiedExtent,
        /// Addresses of the nodes that the message names.
        nodes: Vec<NodeAddress>,
        /// The message.
        message: ToHolder,
    },
    /// The connection to the coordinator is new: what it was told before may not have come.
    CoordinatorMet,
    /// A command's stage writes.
    Write {
        /// The region, and the extent's slot.
        at: (Gid, Slot),
        /// The command, for [`CopyOutput::Applied`].
        asker: A,
        /// The write.
        entry: ExtentWrite,
    },
    /// A try to reach a node ended: with the connection's place, or without.
    Dialed {
        /// The node.
        node: NodeId,
        /// The connection.
        place: Option<u64>,
    },
    /// A node with homes has made a connection.
    Came {
        /// The node.
        node: NodeId,
        /// The connection.
        place: u64,
    },
    /// Frames arrived.
    Frames {
        /// The connection.
        place: u64,
        /// The frames.
        frames: &'a [Vec<u8>],
    },
    /// A connection ended.
    Gone {
        /// The connection.
        place: u64,
    },
    /// Time has passed.
    Tick,
}

/// An order to the driver.
#[derive(Debug, PartialEq, Eq)]
pub enum CopyOutput<A> {
    /// A write was applied here, and all copies have it; with the elements before it. Or the node is not home, or not any more.
    Applied {
        /// The command.
        asker: A,
        /// The result.
        outcome: Result<Vec<u8>>,
    },
    /// Tell the coordinator.
    Say {
        /// The extent.
        extent: CopiedExtent,
        /// The message.
        message: FromHolder,
    },
    /// Connect to a node.
    Dial {
        /// The node.
        node: NodeId,
        /// Its address.
        address: String,
    },
    /// Send a frame.
    Send {
        /// The connection.
        place: u64,
        /// The frame.
        bytes: Vec<u8>,
    },
    /// Close a connection.
    Close {
        /// The connection.
        place: u64,
    },
}
