//! A node that asks to be a member.

use super::control::{FromNode, Memory, ReportedExtent};
use crate::id::{Epoch, Incarnation, NodeId};
use serde::{Deserialize, Serialize};

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

impl FromNode {
    /// Life and address of a node that asks to be a member.
    pub fn joins(&self) -> Option<(Incarnation, &str)> {
        match self {
            FromNode::Join { incarnation, address, .. } => Some((*incarnation, address)),
            FromNode::JoinPersisting(join) => Some((join.incarnation, &join.address)),
            _ => None,
        }
    }
}
