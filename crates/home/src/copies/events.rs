//! Inputs and outputs of a node's homes and copies.

use crate::wire_output::WireOutput;
use hanare_protocol::Result;
use hanare_protocol::copies::HolderSet;
use hanare_protocol::id::{NodeId, Slot};
use hanare_protocol::wire::control::NodeAddress;
use hanare_protocol::wire::copies::{CopiedExtent, FromHolder, ToHolder};

/// An event that homes and copies hear of.
#[derive(Debug)]
pub enum CopyInput<'a> {
    /// The coordinator had an extent made here.
    Made {
        /// Its name.
        extent: CopiedExtent,
        /// Its first holders.
        set: HolderSet,
        /// Its slot.
        slot: Slot,
    },
    /// The coordinator's message.
    Holder {
        /// The extent.
        extent: CopiedExtent,
        /// Addresses of the nodes that the message names.
        nodes: Vec<NodeAddress>,
        /// The message.
        message: ToHolder,
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
}

/// An order to the driver. `A` names a command that waits.
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
    /// An order about a connection between nodes; [`CopyInput::Dialed`] follows a dial.
    Wire(WireOutput),
}

impl<A> From<WireOutput> for CopyOutput<A> {
    fn from(output: WireOutput) -> CopyOutput<A> {
        CopyOutput::Wire(output)
    }
}
