//! Notices between the node's threads, by a [`NoticeQueue`](super::notice_queue::NoticeQueue).

use super::pages::RegionRequest;
use hanare_fabric::Link;
use hanare_fabric::tcp::Greeted;
use hanare_protocol::Result;
use hanare_protocol::copies::HolderSet;
use hanare_protocol::id::{ClientId, Epoch, JobId, NodeId, Rank, Slot, User};
use hanare_protocol::lock::Recalled;
use hanare_protocol::session::Series;
use hanare_protocol::versions::OLDEST;
use hanare_protocol::wire::control::{Answer, NodeAddress};
use hanare_protocol::wire::copies::{CopiedExtent, FromHolder, ToHolder};
use hanare_protocol::wire::greeting::Role;
use hanare_protocol::wire::link::LinkSocket;
use std::os::fd::OwnedFd;

/// Notices of other threads to the control thread.
pub(crate) enum ToControl {
    /// Another node wants to be a member.
    Greeted(Greeted),
    /// A client elsewhere, or a node that copies, has a link for commands.
    Linked { link: Box<dyn Link>, series: Option<Series>, client: ClientId, user: User },
    /// Another node has a connection for messages about pages, or copies.
    Wired(Role, NodeId, Box<dyn Link>),
    /// Tell the coordinator something about an extent with copies.
    Holder(CopiedExtent, FromHolder),
    /// A program has a connection for the reader of its queue.
    HandOver(Box<Greeted>),
    /// The reply to a client's request on a shared region.
    Shared { client: ClientId, result: Result<Answer>, fds: Vec<OwnedFd> },
    /// A try to reach the coordinator ended.
    Dialed(Result<Greeted>),
    /// A keeper was asked who leads, and named that address.
    Leads(Option<String>),
    /// The node stood still for a lease, and answers no more as the pool's home of names.
    NamesLapsed,
    /// Another keeper has connected.
    KeeperCame(Greeted),
    /// A try to reach the keeper at that address ended.
    KeeperDialed(String, Result<Greeted>),
    /// The node wants a lock back that it lent to a client.
    Recall { client: ClientId, number: u64 },
    /// A queue would spill more than the coordinator has granted.
    Spills,
    /// End in good order.
    Stop,
}

/// Notices of other threads to the service.
pub(crate) enum ToService {
    /// Serve this link, for that program (0 for a node) of that user. It ends the one before of its series.
    Serve { link: Box<dyn Link>, series: Option<Series>, client: ClientId, user: User },
    /// A try to reach another node ended.
    Dialed { address: String, link: Result<Box<dyn Link>> },
    /// A connection for messages about pages, or copies. The other node made it, or it is the outcome of this node's try.
    /// Both sides speak that version of the wire, where this node made it.
    Wired { role: Role, node: NodeId, is_ours: bool, link: Result<Box<dyn Link>>, spoken: u32 },
    /// The coordinator had an extent with copies made here.
    Copied { extent: CopiedExtent, set: HolderSet, order: u64, slot: Slot },
    /// An extent has no copies any more, and its writes no order.
    CopiesEnd { extent: CopiedExtent },
    /// The coordinator's message on an extent with copies.
    Holder { extent: CopiedExtent, nodes: Vec<NodeAddress>, message: ToHolder },
    /// A client of this host wants links to a queue that it reads, on that socket.
    LinkSocket { client: ClientId, door: LinkSocket, socket: OwnedFd },
    /// A program has a connection for the reader of its queue.
    HandOver(Box<Greeted>),
    /// The node is a member, by that number in that epoch.
    Identity { node: NodeId, epoch: Epoch },
    /// An epoch of another node is over.
    NodeLost(NodeId, Epoch),
    /// A client of this host wants to share a region, or not any more.
    Request { client: ClientId, request: RegionRequest },
    /// A client of this host has ended.
    ClientGone(ClientId),
    /// A rank of a job is gone: barriers of the job fail.
    RankGone { job: JobId, rank: Rank, ranks: Option<u32>, reason: String, died: bool },
    /// A node says whether a client has a lock that this node wants back.
    Recalled { client: ClientId, number: u64, recalled: Recalled },
    /// The node is a member of its pool, or not any more.
    Member(bool),
    /// The node is its pool's home of locks and groups at names, or not any more. Said in pools with keepers, where the home may change.
    PoolHome(bool),
    /// Extents of this node are no more.
    Freed,
    /// End; `keeps` if the node writes its bytes down then.
    Stop { keeps: bool },
}

impl ToService {
    /// A connection of that node's making.
    pub fn wired_by(role: Role, node: NodeId, link: Box<dyn Link>) -> ToService {
        ToService::Wired { role, node, is_ours: false, link: Ok(link), spoken: OLDEST }
    }
}
