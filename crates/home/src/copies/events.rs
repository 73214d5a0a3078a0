//! Inputs and outputs of a node's homes and copies.

use crate::open_stores::StoresAt;
use crate::waiter::Waiter;
use crate::wire_output::WireOutput;
use hanare_protocol::copies::HolderSet;
use hanare_protocol::heap::answers_of;
use hanare_protocol::id::{Gid, NodeId, Slot};
use hanare_protocol::queue::PortId;
use hanare_protocol::wire::control::{NodeAddress, decode};
use hanare_protocol::wire::copies::{CopiedExtent, FromHolder, ToHolder};
use hanare_protocol::wire::sync::SyncAnswer;
use hanare_protocol::{Error, Result};

/// An event that homes and copies hear of.
#[derive(Debug)]
pub enum CopyInput<'a> {
    /// The coordinator had an extent made here.
    Made {
        /// Its name.
        extent: CopiedExtent,
        /// Its first holders.
        set: HolderSet,
        /// The coordinator's order for it. Of two orders the later one counts.
        order: u64,
        /// Its slot.
        slot: Slot,
    },
    /// An extent has no copies any more, and its writes no order.
    Ended {
        /// Its name.
        extent: CopiedExtent,
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
        /// The version of the wire that both sides speak.
        spoken: u32,
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

/// A request that waits for a write.
#[derive(Clone, Copy, Debug)]
pub(crate) enum CopyAsker {
    /// The commands of a link.
    Link(u64),
    /// A call on the heap of a region.
    Heap(Waiter),
    /// A comparison of copies.
    Compare(Waiter),
    /// A port's request; with the port, if it is to come.
    Queue(Waiter, Option<PortId>),
    /// Ports of programs that are gone, of queues in that extent.
    Gone(Gid, Slot),
    /// A part of stores.
    Store(Waiter, StoresAt, bool),
    /// Stores of a program that is gone.
    ForgetStores,
    /// The home of a region's pages, which knows the write by that number.
    Pages(Gid, u64),
}

/// The answers to a call on a heap, of their bytes.
pub(crate) fn blocks(outcome: Result<Vec<u8>>) -> Result<SyncAnswer> {
    let no_answer = || Error::Garbage { peer: "a home".to_owned(), reason: "no answers of a heap".to_owned() };
    Ok(SyncAnswer::Blocks(answers_of(&outcome?).ok_or_else(no_answer)?))
}

/// The answer to a comparison.
pub(crate) fn compared(outcome: Result<Vec<u8>>) -> Result<SyncAnswer> {
    let no_answer = |_| Error::Garbage { peer: "a home".to_owned(), reason: "no comparison".to_owned() };
    Ok(SyncAnswer::Compared(Box::new(decode(&outcome?).map_err(no_answer)?)))
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
