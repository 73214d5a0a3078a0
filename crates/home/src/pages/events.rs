//! The inputs and outputs of shared regions.

use super::memory::{HostFrames, PageMemory};
use super::reply::PageReply;
use super::request::RegionRequest;
use crate::wire_output::WireOutput;
use hanare_protocol::id::{ClientId, Epoch, Gid, Incarnation, NodeId};
use hanare_protocol::page::Face;
use hanare_protocol::page::membership::Over;
use hanare_protocol::wire::control::Answer;
use hanare_protocol::wire::page::{PageRequest, Settled};
use hanare_protocol::{Error, Result};
use std::ops::Range;
use std::time::Duration;

/// The part of shared regions that differs from node to node.
#[derive(Clone, Debug, Default)]
pub struct PageTerms {
    /// Address of this node for others.
    pub address: String,
    /// The life of its process.
    pub life: Incarnation,
    /// Time to wait for others.
    pub answer: Duration,
    /// Frames of all mappings of this host together.
    pub frames_max: u64,
}

/// An event that shared regions hear of.
pub enum PageInput<'a, M: PageMemory> {
    /// The node has joined its pool, perhaps anew.
    Identity {
        /// Its number.
        node: NodeId,
        /// Its epoch.
        epoch: Epoch,
    },
    /// Lives of a node are over, as the membership says.
    NodeLost {
        /// The node.
        node: NodeId,
        /// The lives.
        over: Over,
    },
    /// A client wants to share a region, or not any more. Answered by [`PageOutput::Reply`].
    Request {
        /// The client.
        client: ClientId,
        /// The request.
        request: RegionRequest<<M::Frames as HostFrames>::Mapping>,
    },
    /// A client has ended.
    ClientGone(ClientId),
    /// A thread of a client wants pages of a share. Answered by [`PageOutput::Grant`].
    PageRequests {
        /// The thread's link.
        session: u64,
        /// The number of its message.
        seq: u64,
        /// The share.
        share: u64,
        /// The pages.
        requests: &'a [PageRequest],
    },
    /// A thread of a client has installed grants of a share.
    Settled {
        /// The thread's link.
        session: u64,
        /// The share.
        share: u64,
        /// The grants.
        settled: &'a [Settled],
    },
    /// Clients of this host have more frames of a region than they may.
    Crowded(Gid),
    /// A thread's link broke, and the thread does not know what its home made of the requests of these slots. What they claimed stays claimed,
    /// and is asked for again in their names.
    TakeOver {
        /// The thread's program.
        client: ClientId,
        /// The region.
        gid: Gid,
        /// The slots.
        slots: Range<u16>,
    },
    /// A connection to a node was made, and has that place; or it was not.
    Dialed {
        /// The node.
        node: NodeId,
        /// The connection.
        place: Option<u64>,
        /// The version of the wire that both nodes speak on it.
        spoken: u32,
    },
    /// Frames of another node came over a connection.
    Frames {
        /// The connection.
        place: u64,
        /// The frames, in order.
        frames: &'a [Vec<u8>],
    },
    /// A connection between nodes has ended.
    WireGone {
        /// The connection.
        place: u64,
    },
    /// A stage whose pages were at home is done, or will not be.
    Release(Face),
    /// The node ends in good order. Pages that only this host had go home. Where the node `keeps` its bytes, pages that others have come
    /// here, and nobody gets a page any more.
    Stop {
        /// The node keeps its bytes.
        keeps: bool,
    },
}

/// An order of shared regions to their driver.
pub enum PageOutput<M: PageMemory> {
    /// An order about a connection between nodes; [`PageInput::Dialed`] follows a dial.
    Wire(WireOutput),
    /// Reply to the page requests of a thread.
    Grant {
        /// The thread's link.
        session: u64,
        /// The number of its message.
        seq: u64,
        /// The reply.
        reply: PageReply<M::Pages>,
    },
    /// Pages that a stage of a link's commands waits for are at home, or will not come.
    Recalled {
        /// The link.
        link: u64,
        /// The stage.
        face: Face,
        /// The error says why they will not come.
        outcome: Result<()>,
    },
    /// End the link of a client that sent nonsense.
    End {
        /// The link.
        session: u64,
        /// The nonsense.
        error: Error,
    },
    /// Answer a client's request.
    Reply {
        /// The client.
        client: ClientId,
        /// The answer.
        result: Result<Answer>,
        /// Files that the client maps.
        files: <M::Frames as HostFrames>::Files,
    },
    /// Let commands that are under way go on by pages, because hosts wait to be let in.
    GiveWay,
}

impl<M: PageMemory> From<WireOutput> for PageOutput<M> {
    fn from(output: WireOutput) -> PageOutput<M> {
        PageOutput::Wire(output)
    }
}

/// The requester of a recall.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Asker {
    /// The commands of that link.
    Link(u64),
    /// A request that waits for a word.
    Word,
    /// The node itself, at its end.
    End,
}
