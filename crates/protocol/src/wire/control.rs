//! Control messages: naming, membership and jobs. One postcard value in a message's body.
//!
//! ```text
//! client  -- Request -->  its node  -- FromNode::Ask -->  coordinator
//!         <-- Answer ---            <-- ToNode::Reply --
//! ```
//!
//! A node forwards what only the coordinator can answer and adds who asked, as the kernel vouches for it.

use crate::attributes::Attributes;
use crate::copies::HolderSet;
use crate::error::Error;
use crate::id::{Asker, ClientId, Epoch, Gid, Grant, Incarnation, JobId, JobRank, NodeId, Rank, Rights, Slot, User};
use crate::keeper_list::KeeperList;
use crate::lock::Recalled;
use crate::page::Consistency;
pub use crate::page::moves::PageRun;
use crate::placement::{Layout, Placement};
use crate::tenant::{KeyHash, TenantKey};
use crate::usage::UsedElsewhere;
use crate::versions::{OLDEST, Versions};
use crate::wire::copies::{CopiedExtent, FromHolder, ToHolder};
use crate::wire::greeting::Sealing;
use crate::wire::link::LinkSocket;
pub use crate::wire::rebalance::WhyStays;
use crate::wire::rebalance::{RebalanceStatus, RebalanceWish};
pub use crate::wire::tenant::{TenantStat, TenantWish};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use std::collections::{BTreeMap, BTreeSet};

/// A client's request to its node. The first message on its Unix socket is [`Request::Attach`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// Becomes a client; answered by [`Answer::Attached`].
    Attach {
        /// Versions of the wire that the client speaks.
        versions: Versions,
        /// Its place in a job, when it has one.
        job: Option<JobRank>,
    },
    /// Creates a region; answered by [`Answer::Region`].
    Create {
        /// Its name.
        name: String,
        /// Its length in bytes.
        len: u64,
        /// Placement of its bytes.
        placement: Placement,
        /// Nodes that hold each of its bytes, the home among them.
        copies: u8,
        /// Rights to read and write: the bits of a file's mode.
        mode: u32,
        /// The owner's attributes.
        attributes: Attributes,
        /// Treatment of an existing region of that name.
        existing: Existing,
    },
    /// Opens a region; answered by [`Answer::Region`].
    Open {
        /// Its name, or its number.
        which: Which,
        /// Rights to open it with; `None` for the most that the user may do.
        rights: Option<Rights>,
    },
    /// Describes a region; answered by [`Answer::Stat`].
    Stat {
        /// Its name.
        name: String,
    },
    /// Lists regions by name; answered by [`Answer::List`].
    List {
        /// Only names after this one.
        after: String,
    },
    /// Makes a region longer; answered by [`Answer::Region`].
    Resize {
        /// Its name.
        name: String,
        /// Its length from now on, in bytes.
        len: u64,
    },
    /// Changes what is kept with a region's name, and the name; answered by [`Answer::Ok`].
    Alter {
        /// Its name.
        name: String,
        /// The changes.
        changes: Changes,
    },
    /// Removes a region; mappings of it stay valid until they go. Answered by [`Answer::Ok`].
    Remove {
        /// Its name.
        name: String,
    },
    /// Describes the pool; answered by [`Answer::Status`].
    Status,
    /// Asks what this host's node knows of itself and its pool, without asking its coordinator; answered by [`Answer::Own`].
    Own,
    /// Takes a node that is gone for good out of the list; answered by [`Answer::Ok`].
    Forget {
        /// The node.
        node: NodeId,
    },
    /// Has what a node holds moved to others, or ends that, and asks how far it is. Answered by [`Answer::Drain`].
    Drain {
        /// The node.
        node: NodeId,
        /// The wish.
        wish: DrainWish,
    },
    /// Changes the list of keepers; answered by [`Answer::Ok`].
    Keepers {
        /// The keeper's address.
        address: String,
        /// The change.
        change: KeeperChange,
    },
    /// Spreads the pool's bytes over its nodes again. Answered by [`Answer::Rebalance`].
    Rebalance(RebalanceWish),
    /// Asks for descriptors of an extent on this node; answered by [`Answer::Files`] with them attached.
    Map {
        /// The extent's slot.
        slot: Slot,
        /// The right that decides between read-only and read-write descriptors.
        grant: Grant,
        /// True if a pointer to the memory is given out, which nobody can take back.
        pins: bool,
    },
    /// Has no mapping of single extents of a region any more, or no pointer to them; answered by [`Answer::Ok`].
    Release {
        /// The region.
        gid: Gid,
        /// True if handles still have it mapped.
        keeps: bool,
    },
    /// Wants to map a region as others on other hosts do. Answered by [`Answer::Shared`] with descriptors, when all homes of its bytes
    /// agree. The client uses no mapping of single extents of it from here on.
    Share {
        /// The region as it was opened.
        view: RegionView,
        /// The mapping's promise.
        consistency: Consistency,
    },
    /// Has mapped what it shares: the descriptor of its userfaultfd comes along. Answered by [`Answer::Ok`].
    Hold {
        /// The region.
        gid: Gid,
        /// First byte of its mapping of the region.
        start: u64,
        /// Bytes, whole pages.
        len: u64,
        /// Features of its userfaultfd.
        features: u64,
    },
    /// Wants links of a queue's writers, each with its descriptor, on the socket whose descriptor comes along. Answered by [`Answer::Ok`].
    Link(LinkSocket),
    /// Has unmapped what it shared; answered by [`Answer::Ok`] when all that only this host had is at its home.
    Unshare {
        /// The region.
        gid: Gid,
    },
    /// Asks its node to vouch for a data link of its own to another node; answered by [`Answer::Proof`].
    Prove {
        /// Both hellos, the connector's first, which names the client.
        hellos: Vec<u8>,
    },
    /// Says that a rank's process ended (from the launcher); answered by [`Answer::Ok`].
    RankEnded {
        /// The job.
        job: JobId,
        /// The rank.
        rank: Rank,
        /// Manner of the end.
        reason: String,
        /// True if it failed: its status is not 0.
        died: bool,
    },
    /// Asks how many bytes a node's queues may have spilled for the user; of nodes alone. Answered by [`Answer::Reserved`].
    Reserve {
        /// Bytes that they have spilled for the user.
        used: u64,
        /// Bytes that it may become.
        wanted: u64,
    },
    /// Detaches in good order, and says no more: the end of the connection follows. Not answered.
    Detach,
    /// The program's end is no death from here on, although handles may still be open. Not answered.
    Leave,
    /// Becomes a client that is a tenant's, in place of [`Request::Attach`]. Answered by [`Answer::Attached`]. Since version 28.
    AttachAs {
        /// Versions of the wire that the client speaks.
        versions: Versions,
        /// Its place in a job, when it has one.
        job: Option<JobRank>,
        /// The tenant's name.
        tenant: String,
        /// The tenant's key.
        key: TenantKey,
    },
    /// Has a tenant's key looked at; of nodes alone. Answered by [`Answer::Tenant`]. Since version 28.
    ProveTenant {
        /// The tenant's name.
        tenant: String,
        /// The hash of the key that a program brought.
        hash: KeyHash,
    },
    /// Lists or changes tenants. Since version 28.
    Tenants(TenantWish),
    /// [`Request::Share`] of a mapping that follows the region's bytes to other nodes by itself. Since version 28.
    ShareFollowing {
        /// The region as it was opened.
        view: RegionView,
        /// The mapping's promise.
        consistency: Consistency,
    },
    /// Stores of this host's programs through coherent mappings of a region go to all nodes that hold its bytes. Answered by [`Answer::Ok`].
    /// Since version 28.
    FlushShared {
        /// The region.
        gid: Gid,
    },
}

impl Request {
    /// The first version of the wire that has the request.
    pub fn since(&self) -> u32 {
        match self {
            Request::AttachAs { .. } | Request::ProveTenant { .. } | Request::Tenants(_) => 28,
            Request::ShareFollowing { .. } | Request::FlushShared { .. } => 28,
            _ => OLDEST,
        }
    }

    /// Refuses a request that is younger than the version which `peer` speaks.
    ///
    /// **Errors**: [`Error::TooOld`].
    pub fn check_known(&self, peer: &str, speaks: u32) -> Result<(), Error> {
        match self.since() {
            needs if needs > speaks => Err(Error::TooOld { peer: peer.to_owned(), speaks, needs }),
            _ => Ok(()),
        }
    }
}

/// A wish about what a node holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DrainWish {
    /// All of it goes to other nodes: to these, or to any where none is named. The node gets nothing new from here on.
    Begin {
        /// The nodes.
        to: BTreeSet<NodeId>,
    },
    /// All that has not moved stays.
    Stop,
    /// No change.
    Look,
}

/// A look at what a node holds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrainStatus {
    /// True while it moves to other nodes.
    pub drains: bool,
    /// Bytes of regions on the node.
    pub left: u64,
    /// Extents of regions on the node.
    pub extents: u64,
    /// Regions that do not move as things are, by name: at most [`LIST_PAGE_COUNT_MAX`](crate::limits::LIST_PAGE_COUNT_MAX).
    pub stays: Vec<StayingRegion>,
    /// True if the coordinator is on the node.
    pub has_coordinator: bool,
}

/// A region that does not move.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StayingRegion {
    /// The region's name.
    pub name: String,
    /// Bytes of it on the node.
    pub len: u64,
    /// Reason.
    pub why: WhyStays,
}

/// Treatment of an existing region with the name of one to be created.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Existing {
    /// The region stays, and the call fails.
    Refuse,
    /// The region is opened, if it has the length; lost bytes are an error.
    Attach,
    /// The same, but where its bytes are lost its owner gets a new one in its place.
    AttachOrRenew,
}

/// The name or number of a region.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Which {
    /// The one that has this name today.
    Name(String),
    /// The one that got this number, whatever its name is by now.
    Gid(Gid),
}

/// Changes of a region; fields without a value stay.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changes {
    /// Its name.
    pub name: Option<String>,
    /// The new owner: an owner may give it to a group of its own, and root to anyone.
    pub owner: Option<User>,
    /// Its mode bits.
    pub mode: Option<u32>,
    /// Nodes that hold each of its bytes, the home among them.
    pub copies: Option<u8>,
    /// Attributes by name; `None` takes one away.
    pub attributes: BTreeMap<String, Option<Vec<u8>>>,
}

/// A node's answer to a [`Request`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// Done.
    Ok,
    /// To `Attach`.
    Attached(Attached),
    /// To `Create`, `Open`, `Resize`.
    Region(RegionView),
    /// To `Stat`.
    Stat(RegionStat),
    /// To `List`: in name order; another page may follow.
    List {
        /// The regions of this page.
        regions: Vec<RegionStat>,
        /// True if there are more after the last one.
        more: bool,
    },
    /// To `Status`.
    Status(PoolStatus),
    /// To `Drain`.
    Drain(DrainStatus),
    /// To `Rebalance`.
    Rebalance(RebalanceStatus),
    /// To `Own`.
    Own(OwnStatus),
    /// To `Map`: the extent's bytes lie one after another in these files, whose descriptors come along.
    Files(Vec<FilePart>),
    /// To `Share`. Descriptors of the page words, of the frames, and of the files of extents on this node come along.
    Shared(SharedView),
    /// To `Reserve`.
    Reserved {
        /// Bytes that the node's queues may have spilled for the user from here on.
        granted: u64,
        /// Bytes that the user has beside, in regions and spilled at other nodes.
        elsewhere: u64,
    },
    /// To `Prove`: the secret of these hellos, which proves the pool's key and seals this one link.
    Proof([u8; 32]),
    /// To `ProveTenant`: the tenant as a user. Since version 28.
    Tenant(User),
    /// To `Tenants`: in name order; another page may follow. Since version 28.
    Tenants {
        /// The tenants of this page.
        tenants: Vec<TenantStat>,
        /// True if there are more after the last one.
        more: bool,
    },
}

/// A part of an extent in one file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FilePart {
    /// First byte in the file; a multiple of a page.
    pub offset: u64,
    /// Bytes of the extent that lie there.
    pub len: u64,
    /// Bytes to map: `len` rounded up to the file's page size.
    pub map_len: u64,
}

/// A shared region as a client of one host maps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedView {
    /// The first of the client's slots in the page words.
    pub slot_first: u16,
    /// Number of its slots.
    pub slot_count: u16,
    /// Slots of all of the host.
    pub slots: u16,
    /// The homes of the region's pages.
    pub homes: Vec<SharedHome>,
    /// For each extent of the layout, if it is on this node, its files.
    pub files: Vec<Option<Vec<FilePart>>>,
    /// Frames that the host may fill before some are given back.
    pub frames_max: u64,
    /// Address of this node itself.
    pub address: String,
}

/// Counts of page actions on one host, for a region that it shares or is home of, since that began.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PageStat {
    /// The region.
    pub gid: Gid,
    /// Its name; empty for who may not see it.
    pub name: String,
    /// Promise of its mapping.
    pub consistency: Consistency,
    /// Programs of this host that map it.
    pub programs: u32,
    /// Hosts that map it, where this node is home of pages; else 0.
    pub hosts: u32,
    /// Pages of other nodes that are kept here.
    pub frames: u64,
    /// Touches that the kernel could not serve.
    pub faults: u64,
    /// Pages that threads asked for, those beside a touched one among them.
    pub fetched: u64,
    /// Pages that were asked for before they were touched.
    pub prefetched: u64,
    /// Copies that were to be written.
    pub upgraded: u64,
    /// Requests for which others had to give a page up.
    pub waited: u64,
    /// Copies dropped because others were to write.
    pub invalidated: u64,
    /// Pages passed on to other hosts.
    pub forwarded: u64,
    /// Pages given back to their home on demand.
    pub recalled: u64,
    /// Pages given back to make room.
    pub evicted: u64,
    /// Pages at home here that went to and fro most, most first: programs may share them without meaning to. Pages of earlier mappings
    /// are among them, as long as the node remembers them.
    pub contended: Vec<PageRun>,
}

impl PageStat {
    /// Counts of zero.
    pub fn new(gid: Gid, name: String, consistency: Consistency) -> PageStat {
        PageStat {
            gid,
            name,
            consistency,
            programs: 0,
            hosts: 0,
            frames: 0,
            faults: 0,
            fetched: 0,
            prefetched: 0,
            upgraded: 0,
            waited: 0,
            invalidated: 0,
            forwarded: 0,
            recalled: 0,
            evicted: 0,
            contended: Vec::new(),
        }
    }

    /// Puts the runs that went to and fro most first, and drops those beyond [`PAGE_RUN_COUNT_MAX`](crate::limits::PAGE_RUN_COUNT_MAX).
    pub fn rank_runs(&mut self) {
        self.contended.sort_by_key(|run| (std::cmp::Reverse(run.returns), run.first));
        self.contended.truncate(crate::limits::PAGE_RUN_COUNT_MAX);
    }

    /// Adds what happened to pages of the same region that the same node keeps apart.
    pub fn add(&mut self, other: &PageStat) {
        self.programs = self.programs.saturating_add(other.programs);
        let sums = [
            (&mut self.frames, other.frames),
            (&mut self.faults, other.faults),
            (&mut self.fetched, other.fetched),
            (&mut self.prefetched, other.prefetched),
            (&mut self.upgraded, other.upgraded),
            (&mut self.waited, other.waited),
            (&mut self.invalidated, other.invalidated),
            (&mut self.forwarded, other.forwarded),
            (&mut self.recalled, other.recalled),
            (&mut self.evicted, other.evicted),
        ];
        for (sum, more) in sums {
            *sum = sum.saturating_add(more);
        }
    }
}

/// Bounds of a histogram of times, in microseconds; what took longer is in none.
pub const BUCKETS_US: [u64; 10] = [1, 4, 16, 64, 256, 1_024, 4_096, 16_384, 65_536, 262_144];

/// A node's counts of commands since its start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeCounts {
    /// Counts by kind.
    pub commands: Vec<CommandCount>,
    /// Refused commands, by kind of error.
    pub refused: Vec<(String, u64)>,
}

/// Origin of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CommandOrigin {
    /// A program of the node's own host, by shared memory.
    OwnHost,
    /// A program or node of another host.
    OtherHost,
}

/// Commands of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CommandCount {
    /// Their kind: get, put ...
    pub kind: String,
    /// Origin of the commands: programs of this host, or of others.
    pub from: CommandOrigin,
    /// Number of commands.
    pub count: u64,
    /// Bytes of regions that they touched.
    pub bytes: u64,
    /// Time from admission to the end of the answer, in microseconds, of all together.
    pub micros: u64,
    /// Number of commands that took up to each of [`BUCKETS_US`], and longer than the one before.
    pub buckets: Vec<u64>,
}

/// A home of a shared region's pages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedHome {
    /// The node.
    pub node: NodeId,
    /// Its network address.
    pub address: String,
    /// The host's key in messages to it.
    pub share: u64,
}

/// Reply to a client that attaches.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attached {
    /// Its id.
    pub client: ClientId,
    /// Its user, as its node's kernel says.
    pub user: User,
    /// Its host's node.
    pub node: NodeId,
    /// Its node's epoch.
    pub epoch: Epoch,
    /// The node that is home to jobs' barriers: the coordinator's.
    pub home: NodeAddress,
    /// Connections that its node seals, and so does it.
    pub sealing: Sealing,
    /// Versions of the wire that the node speaks.
    pub versions: Versions,
}

/// Address of a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeAddress {
    /// The node.
    pub node: NodeId,
    /// Its epoch when this was said.
    pub epoch: Epoch,
    /// `host:port` of its TCP listener.
    pub address: String,
}

/// A region as a client that opened it sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegionView {
    /// Its name.
    pub name: String,
    /// Its GID.
    pub gid: Gid,
    /// The user that owns it.
    pub owner: User,
    /// Its mode bits.
    pub mode: u32,
    /// Rights of the grants.
    pub rights: Rights,
    /// The layout of its bytes.
    pub layout: Layout,
    /// A grant for each extent, in the layout's order.
    pub grants: Vec<Grant>,
    /// The nodes that hold extents.
    pub nodes: Vec<NodeAddress>,
    /// Nodes that are to hold each of its bytes, the home among them. From 2 on its bytes move to another node when one is lost.
    pub copies: u8,
    /// The owner's attributes.
    pub attributes: Attributes,
    /// Tells if this call made it.
    pub made: Made,
}

/// Origin of the region that a call returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Made {
    /// The region was there.
    Found,
    /// No region had the name.
    New,
    /// A region had the name whose bytes are lost: this one took its place, and is all zero.
    Renewed,
}

/// A region as listings show it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegionStat {
    /// Its name.
    pub name: String,
    /// Its GID.
    pub gid: Gid,
    /// Its length in bytes.
    pub len: u64,
    /// The requested placement of its bytes.
    pub placement: Placement,
    /// Bytes on each node that holds some, copies among them.
    pub nodes: Vec<(NodeId, u64)>,
    /// Nodes that are to hold each of its bytes, the home among them.
    pub copies: u8,
    /// Nodes that hold all bytes of the extent that has the fewest of them.
    pub whole_copies: u8,
    /// The owner's user id.
    pub owner: u32,
    /// Its mode bits.
    pub mode: u32,
    /// A node that is gone with bytes of it, if one is.
    pub lost: Option<NodeId>,
    /// The owner's attributes.
    pub attributes: Attributes,
}

/// The pool as `hanare status` shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PoolStatus {
    /// Its nodes, by number.
    pub nodes: Vec<NodeStatus>,
    /// Number of regions, without those of others' spaces of names.
    pub regions: u64,
}

/// A node as `hanare status` shows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeStatus {
    /// Its number.
    pub node: NodeId,
    /// Its name.
    pub name: String,
    /// Its address.
    pub address: String,
    /// Its epoch.
    pub epoch: Epoch,
    /// True while its lease holds.
    pub alive: bool,
    /// True if what it holds moves to other nodes.
    pub drains: bool,
    /// Its report on its memory, at the last renewal.
    pub memory: Memory,
    /// Bytes that are to leave it because its host runs short of memory.
    pub leaving: u64,
    /// Regions that cannot leave for that, of those that the asking user may see: at most
    /// [`SHORTAGE_REGION_COUNT_MAX`](crate::limits::SHORTAGE_REGION_COUNT_MAX) of all nodes together.
    pub stays: Vec<StayingRegion>,
}

/// A node's own knowledge, with or without a reply of its coordinator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OwnStatus {
    /// The node; alive where it is a member just now.
    pub own: NodeStatus,
    /// Regions that have bytes on it; 0 for who does not operate the node.
    pub regions: u64,
    /// The coordinator's own node.
    pub coordinator: NodeAddress,
    /// The keepers of the coordinator's journal, as far as this node knows them; none where one node alone has it.
    pub keepers: Vec<KeeperStatus>,
}

/// A change of the list of keepers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum KeeperChange {
    /// A member of the pool is a keeper from here on.
    Add,
    /// A keeper is none any more.
    Remove,
    /// A keeper's disk is lost: the next one at its address takes its place.
    Replace,
}

/// A keeper of the coordinator's journal, as a node sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeeperStatus {
    /// Its address, as the operator named it.
    pub address: String,
    /// True if it is the coordinator.
    pub leads: bool,
    /// True if the node heard of it lately; `None` where the node is no keeper and does not hear of the others.
    pub is_reached: Option<bool>,
}

/// Memory that a node lends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Memory {
    /// Bytes lent in all. Fewer than are used where the node's host runs short of memory, so that extents leave.
    pub lent: u64,
    /// Bytes to be lent where the host has memory enough.
    pub lent_max: u64,
    /// Bytes that were populated in no extent, and went back to the host because it ran short: all since the node's start.
    pub given_back: u64,
    /// Bytes of those that are populated.
    pub populated: u64,
    /// Bytes in extents.
    pub used: u64,
    /// Bytes of those that queues have spilled, which are in no region.
    pub spilled: u64,
    /// Bytes of a page of the lent memory: 4 KiB, or a huge page's.
    pub page: u64,
    /// Clients attached.
    pub clients: u32,
    /// True if it was told to do without sealing.
    pub is_plain: bool,
    /// Versions of the wire that the node speaks.
    pub versions: Versions,
}

impl Memory {
    /// Bytes that are not lent because the host runs short of memory.
    pub fn withheld(&self) -> u64 {
        self.lent_max.saturating_sub(self.lent)
    }

    /// True unless the node has its part in the pool without memory.
    pub fn is_lender(&self) -> bool {
        self.lent > 0 || self.lent_max > 0
    }
}

/// The first version of the wire that has [`FromNode::JoinPersisting`].
pub const PERSISTS_SINCE: u32 = 28;

/// The fields of [`FromNode::Join`], as [`FromNode::JoinPersisting`] has them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeJoin {
    /// The process's life.
    pub incarnation: Incarnation,
    /// Counts the lists of held extents that this life has sent.
    pub attempt: u64,
    /// The name it was started with.
    pub name: String,
    /// Address for others.
    pub address: String,
    /// Memory that it lends.
    pub memory: Memory,
    /// The number and epoch it had, if it was a member before in this life.
    pub was: Option<(NodeId, Epoch)>,
    /// The extents it still holds.
    pub held: Vec<ReportedExtent>,
    /// The number that it would have in the pool.
    pub wish: Option<NodeId>,
    /// The life whose extents it brings, which that life wrote down.
    pub restores: Option<Incarnation>,
}

impl From<NodeJoin> for FromNode {
    fn from(join: NodeJoin) -> FromNode {
        let NodeJoin { incarnation, attempt, name, address, memory, was, held, wish, restores } = join;
        FromNode::Join { incarnation, attempt, name, address, memory, was, held, wish, restores }
    }
}

/// A node's message to its coordinator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum FromNode {
    /// Asks to be a member, at first or again. Repeated until welcomed.
    Join {
        /// The process's life.
        incarnation: Incarnation,
        /// Counts the lists of held extents that this life has sent. A repetition keeps the number, a changed list takes the next one. It
        /// ties a `Welcome` to the list that it judges.
        attempt: u64,
        /// The name it was started with.
        name: String,
        /// Address for others.
        address: String,
        /// Memory that it lends.
        memory: Memory,
        /// The number and epoch it had, if it was a member before in this life. The grants in `held` are of that epoch.
        was: Option<(NodeId, Epoch)>,
        /// The extents it still holds.
        held: Vec<ReportedExtent>,
        /// The number that it would have in the pool, where it is new there and the number is free.
        wish: Option<NodeId>,
        /// The life whose extents it brings, which that life wrote down: those in `held`, before the first welcome.
        restores: Option<Incarnation>,
    },
    /// Keeps the lease.
    Renew {
        /// The epoch it believes in.
        epoch: Epoch,
        /// Memory that it lends.
        memory: Memory,
    },
    /// Goes in good order.
    Leave {
        /// True if its bytes are written down, so that its next start brings them.
        keeps: bool,
    },
    /// Says whether the member can be a keeper, and asks which nodes are. Said by every member but the coordinator's own node, and by keepers.
    Keeper {
        /// The name of its disk, if it can.
        disk: Option<u128>,
    },
    /// Forwards a client's request. Repeated with the same `request` until replied to.
    Ask {
        /// The node's number of the request, growing, never reused in one incarnation.
        request: u64,
        /// Requests below this one were replied to and are forgotten on both sides.
        settled: u64,
        /// The requester.
        user: Asker,
        /// The client.
        client: ClientId,
        /// The request.
        what: Request,
    },
    /// An order of the coordinator was carried out, or could not be.
    Obeyed {
        /// The order's number.
        order: u64,
        /// The grants of extents made, or why not.
        result: Result<Vec<ReportedExtent>, Error>,
    },
    /// A client of a job has attached. Repeated until the coordinator knows.
    ClientCame {
        /// The client.
        client: ClientId,
        /// Its place in the job.
        job: JobRank,
    },
    /// A client of a job is gone. Repeated until the coordinator knows.
    ClientGone {
        /// The client.
        client: ClientId,
        /// Its place in a job.
        job: JobRank,
        /// Manner of its end.
        reason: String,
        /// True if it went without detaching.
        died: bool,
    },
    /// Answers a `Recall`.
    Recalled {
        /// The client.
        client: ClientId,
        /// Its number of the taking.
        number: u64,
        /// State of the lock there.
        recalled: Recalled,
        /// The lock's home, which asked.
        home: NodeId,
    },
    /// On an extent of a region with copies.
    Holder {
        /// The extent.
        extent: CopiedExtent,
        /// The message.
        message: FromHolder,
    },
    /// The node wants a lock back that it lent to a client of any node. Repeated until answered.
    RecallLock {
        /// The client.
        client: ClientId,
        /// Its number of the taking that the lock was lent by.
        number: u64,
    },
    /// Other hosts use these extents of the node most: at most [`USED_ELSEWHERE_COUNT_MAX`](crate::limits::USED_ELSEWHERE_COUNT_MAX). Not
    /// repeated: a later round tells again. Since version 28.
    UsedElsewhere(Vec<UsedElsewhere>),
    /// Asks the same as `Join`, of a node that writes down what it holds (`--persist`). Since version 28.
    JoinPersisting(NodeJoin),
}

impl FromNode {
    /// Life and address of a node that asks to be a member.
    pub fn joins(&self) -> Option<(Incarnation, &str)> {
        match self {
            FromNode::Join { incarnation, address, .. } => Some((*incarnation, address)),
            FromNode::JoinPersisting(join) => Some((join.incarnation, &join.address)),
            _ => None,
        }
    }

    /// The first version of the wire that has the message.
    pub fn since(&self) -> u32 {
        match self {
            FromNode::UsedElsewhere(_) => 28,
            FromNode::JoinPersisting(_) => PERSISTS_SINCE,
            _ => OLDEST,
        }
    }
}

/// The coordinator's message to a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ToNode {
    /// The node is a member.
    Welcome {
        /// The incarnation that is meant.
        incarnation: Incarnation,
        /// The attempt that is answered; a node that has gone on since ignores the answer.
        attempt: u64,
        /// Its number.
        node: NodeId,
        /// Its epoch: a new one makes all its older grants void.
        epoch: Epoch,
        /// Time that it stays a member without renewal, in milliseconds.
        lease_ms: u64,
        /// Extents to keep; all others that it listed are freed.
        keep: Vec<Slot>,
        /// Orders below this one are settled: what they still make is not wanted.
        settled: u64,
        /// The coordinator's own node.
        home: NodeAddress,
        /// Bytes that each user may have in the pool; `None` for no limit.
        quota: Option<u64>,
    },
    /// The node may not be a member as things are; it goes on asking.
    Refused {
        /// The incarnation that is meant.
        incarnation: Incarnation,
        /// Why.
        error: Error,
    },
    /// The lease is kept.
    Renewed {
        /// The epoch it is kept for.
        epoch: Epoch,
    },
    /// The node is no member (any more): it must join again.
    Unknown,
    /// The list of keepers of today, for a node that said [`FromNode::Keeper`].
    Keepers(KeeperList),
    /// The keeper does not lead, or not any more. The node goes to the keeper that leads.
    Elsewhere {
        /// The keeper that leads, as far as this one knows.
        leader: Option<String>,
    },
    /// Answers an `Ask`.
    Reply {
        /// The request's number.
        request: u64,
        /// The request's result.
        result: Result<Answer, Error>,
    },
    /// Make or free extents. Repeated with the same number until obeyed; a node obeys each number once.
    Order {
        /// The order's number, growing, never reused.
        order: u64,
        /// Orders below this one are settled and may be forgotten.
        settled: u64,
        /// The epoch it is meant for.
        epoch: Epoch,
        /// The order.
        what: Order,
    },
    /// Confirms a message on a client of a job.
    ClientKnown {
        /// The client.
        client: ClientId,
        /// True if it is known to be gone.
        gone: bool,
    },
    /// Another node is gone.
    NodeLost {
        /// The node.
        node: NodeId,
        /// The epoch that ended.
        epoch: Epoch,
        /// The sign by which it was noticed.
        reason: String,
    },
    /// On an extent of a region with copies. Said again when the node's connection is new.
    Holder {
        /// The extent.
        extent: CopiedExtent,
        /// Addresses of the nodes that the message names.
        nodes: Vec<NodeAddress>,
        /// The message.
        message: ToHolder,
    },
    /// A lock is wanted that is lent to a client of the node. Repeated until answered.
    Recall {
        /// The client.
        client: ClientId,
        /// Its number of the taking that the lock was lent by.
        number: u64,
        /// The lock's home, which asks.
        home: NodeId,
    },
    /// Answers a `RecallLock`, in the words of the client's node.
    Recalled {
        /// The client.
        client: ClientId,
        /// Its number of the taking.
        number: u64,
        /// State of the lock there.
        recalled: Recalled,
    },
}

/// An order to a node on its memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Order {
    /// Make extents for a region; all or none.
    Make {
        /// The region.
        gid: Gid,
        /// Their lengths in bytes.
        lens: Vec<u64>,
        /// Name and first holders of an extent with copies: the node is the home or one of the copies. A node that is neither gets an empty
        /// extent, which a home makes a copy.
        copied: Option<(CopiedExtent, HolderSet)>,
    },
    /// Make extents ready for copies on other nodes, all or none: direct access ends. Or end that: programs may have direct access again. Their
    /// grants are new ones. The node is the home of each.
    MakeReady {
        /// The region.
        gid: Gid,
        /// Their first holders: the node alone. `None` where they are to have no copies any more.
        set: Option<HolderSet>,
        /// Their names and slots.
        extents: Vec<(CopiedExtent, Slot)>,
    },
    /// Free extents, wiped before anyone else gets their memory.
    Free {
        /// Their slots.
        slots: Vec<Slot>,
    },
}

/// An extent as its node reports it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReportedExtent {
    /// Its slot.
    pub slot: Slot,
    /// The region it belongs to.
    pub gid: Gid,
    /// Its length in bytes.
    pub len: u64,
    /// The grant to read it.
    pub read: Grant,
    /// The grant to read and write it.
    pub write: Grant,
}

/// The bytes of a control value.
pub fn encode<T: Serialize>(value: &T) -> Vec<u8> {
    postcard::to_stdvec(value).expect("control values have no unserialisable parts")
}

/// Reads a control value; refuses trailing bytes.
pub fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, super::Malformed> {
    match postcard::take_from_bytes(bytes) {
        Ok((value, [])) => Ok(value),
        Ok(_) => Err(super::Malformed("bytes after a control message")),
        Err(_) => Err(super::Malformed("not a control message")),
    }
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "numbers of a test")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes_are_a_control_message_or_refused(bytes: Vec<u8>) {
            let _ = decode::<Request>(&bytes);
            let _ = decode::<FromNode>(&bytes);
            let _ = decode::<ToNode>(&bytes);
            let _ = decode::<Result<Answer, Error>>(&bytes);
        }
    }

    #[test]
    fn a_message_with_bytes_behind_it_is_refused() {
        let mut bytes = encode(&Request::Status);
        assert_eq!(decode(&bytes), Ok(Request::Status));
        bytes.push(0);
        assert!(decode::<Request>(&bytes).is_err());
    }
}
