//! Records of the coordinator's journal.

use super::asks::AskKey;
use crate::attributes::Attributes;
use crate::copies::Term;
use crate::id::{Epoch, Gid, Incarnation, NodeId, Slot, User};
use crate::keeper_list::KeeperList;
use crate::placement::{Extent, Layout, Placement, Span};
use crate::tenant::KeyHash;
use crate::versions::OLDEST;
use crate::wire::control::Changes;
use crate::wire::copies::CopiedExtent;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// A durable fact. The driver appends records in the order in which they come out, and gives them back in that order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(clippy::large_enum_variant, reason = "one exists at a time, between the change and the disk")]
pub enum Record {
    /// A coordinator process began its `life`-th life.
    Started {
        /// Counted from 1.
        life: u64,
        /// The name of its own node.
        home: String,
        /// The nodes of earlier coordinators that have not joined a later one.
        deposed: BTreeSet<NodeId>,
    },
    /// GIDs below this one may have been used.
    GidsReserved {
        /// The first that was surely not.
        below: u64,
    },
    /// A node is a member in this life and epoch.
    Node(NodeRecord),
    /// A node's epoch ended.
    EpochEnded {
        /// The node.
        node: NodeId,
        /// Manner of the end.
        how: Ended,
    },
    /// A node of which nothing is left but the name is forgotten.
    NodeForgotten {
        /// The node.
        node: NodeId,
    },
    /// A region is complete and has its name.
    Created {
        /// The region.
        region: RegionRecord,
        /// The request that made it; `None` in a snapshot.
        by: Option<AskKey>,
        /// The region whose name it takes, which is removed.
        instead: Option<Gid>,
    },
    /// A region's name or attributes have changed.
    Altered {
        /// The region.
        gid: Gid,
        /// The changes.
        changes: Changes,
        /// The request that did it.
        by: AskKey,
    },
    /// A region got longer.
    Resized {
        /// The region.
        gid: Gid,
        /// The added span.
        span: Span,
        /// The copies of its extents, as of [`RegionRecord::holders`].
        holders: Vec<ExtentCopies>,
        /// The request that did it.
        by: AskKey,
    },
    /// A region has no name any more, and its extents no region.
    Removed {
        /// The region.
        gid: Gid,
        /// The request that did it.
        by: AskKey,
    },
    /// Other nodes hold an extent of a region with copies.
    Held {
        /// The extent.
        extent: CopiedExtent,
        /// Its bytes at its home.
        home: Extent,
        /// Its copies.
        holders: ExtentCopies,
    },
    /// Each extent of a region that was made without copies may have some from here on.
    TakesCopies {
        /// The region.
        gid: Gid,
    },
    /// Each extent of a region has one holder again, and none is to have copies. Its nodes are to end the order of writes.
    EndsCopies {
        /// The region.
        gid: Gid,
    },
    /// All of them have.
    CopiesEnded {
        /// The region.
        gid: Gid,
    },
    /// The bytes of a region that lay on a node are gone.
    Lost {
        /// The region.
        gid: Gid,
        /// The node.
        node: NodeId,
    },
    /// A node gives all that it holds to others from here on.
    Drains {
        /// The node.
        node: NodeId,
        /// The only nodes that get it, or none for any.
        to: BTreeSet<NodeId>,
    },
    /// A node keeps all that it holds from here on.
    DrainEnded {
        /// The node.
        node: NodeId,
    },
    /// A request was carried out; only in snapshots.
    Done {
        /// The request.
        by: AskKey,
        /// The request's effect.
        effect: Effect,
    },
    /// The next list of keepers: an edition of the common log ends here.
    Keepers {
        /// The list.
        list: KeeperList,
        /// The request that changed it; `None` where a seat that waited for a disk got one.
        by: Option<AskKey>,
    },
    /// A tenant is there, or has another key or quota. Since version 28.
    Tenant {
        /// The tenant.
        tenant: TenantRecord,
        /// The request that did it; `None` in a snapshot.
        by: Option<AskKey>,
    },
    /// A tenant is no more, and its number is never given again. Since version 28.
    TenantRemoved {
        /// Its number. In a snapshot it is the highest that any tenant had.
        number: u32,
        /// The request that did it; `None` in a snapshot.
        by: Option<AskKey>,
    },
}

/// A tenant as the journal knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TenantRecord {
    /// Its number as a user.
    pub number: u32,
    /// Its name.
    pub name: String,
    /// The hash of its key.
    pub hash: KeyHash,
    /// Bytes that it may have; `None` for as many as a user may.
    pub quota: Option<u64>,
}

impl Record {
    /// The first version of the wire whose builds can read the record.
    pub fn since(&self) -> u32 {
        match self {
            Record::Tenant { .. } | Record::TenantRemoved { .. } | Record::Done { effect: Effect::TenantRemoved, .. } => 28,
            _ => OLDEST,
        }
    }
}

/// Manner of the end of a node's epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ended {
    /// The node did not renew its lease; its process may live.
    Silent,
    /// Its connection closed: its process is taken for dead unless it comes back.
    Closed,
    /// The node said that it goes: its bytes are gone.
    Left,
}

/// A node as the journal knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeRecord {
    /// Its number.
    pub node: NodeId,
    /// Its name: what stays the same over its lives.
    pub name: String,
    /// Address for others.
    pub address: String,
    /// Its life.
    pub incarnation: Incarnation,
    /// Its epoch.
    pub epoch: Epoch,
    /// Manner of that epoch's end, if it ended.
    pub ended: Option<Ended>,
    /// Lives that came before, the latest last.
    pub past: Vec<Incarnation>,
    /// True if this life has the extents of the one before, which wrote them down.
    pub has_extents: bool,
}

/// The copies of an extent, whose home is in the region's layout.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExtentCopies {
    /// Number of the set of home and copies.
    pub term: Term,
    /// The copies.
    pub copies: Vec<Extent>,
}

/// A complete region as the journal knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegionRecord {
    /// Its GID.
    pub gid: Gid,
    /// Its name.
    pub name: String,
    /// The requested placement of its bytes.
    pub placement: Placement,
    /// The user that made it.
    pub owner: User,
    /// Its mode bits.
    pub mode: u32,
    /// The layout of its bytes.
    pub layout: Layout,
    /// Nodes that are to hold each of its bytes, the home among them.
    pub copies: u8,
    /// The copies of each extent, in the layout's order; none where one node holds each byte.
    pub holders: Vec<ExtentCopies>,
    /// Nodes that went with bytes of it.
    pub lost: BTreeSet<NodeId>,
    /// The owner's attributes.
    pub attributes: Attributes,
}

impl RegionRecord {
    /// All extents that are there: homes, then copies.
    pub fn all_extents(&self) -> impl Iterator<Item = &Extent> {
        let all = self.layout.extents().chain(self.holders.iter().flat_map(|holders| &holders.copies));
        all.filter(|extent| extent.slot != Slot::VOID)
    }

    /// True if that node is a holder of some extent whose other holders are all gone.
    pub fn is_lost_with(&self, node: NodeId, is_gone: impl Fn(NodeId) -> bool) -> bool {
        let is_lost = |(index, home): (usize, &Extent)| {
            let copies = self.holders.get(index).into_iter().flat_map(|known| &known.copies);
            let mut holders = std::iter::once(home).chain(copies).map(|extent| extent.node);
            holders.clone().any(|holder| holder == node) && holders.all(|holder| holder == node || is_gone(holder))
        };
        self.layout.extents().enumerate().any(is_lost)
    }

    /// Home and copies of an extent; `None` where it has no copies.
    pub fn holders_of(&self, index: usize) -> Option<(&Extent, &ExtentCopies)> {
        Some((self.layout.extents().nth(index)?, self.holders.get(index)?))
    }
}

/// Effect of a request, so that its repetition is answered and not carried out again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Effect {
    /// The request made this region.
    Created(Gid),
    /// The request made this region in the place of one that was lost.
    Renewed(Gid),
    /// The request made this region longer.
    Resized(Gid),
    /// The request removed a region, or changed its attributes.
    Changed,
    /// The request removed a tenant, and all regions that it had. Since version 28.
    TenantRemoved,
}
