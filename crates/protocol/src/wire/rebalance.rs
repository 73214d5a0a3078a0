//! Moves of extents that spread the pool's bytes over its nodes again.

use crate::id::NodeId;
use serde::{Deserialize, Serialize};

/// A wish about how the pool's bytes lie on its nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RebalanceWish {
    /// Extents move to nodes with more room.
    Begin {
        /// True if regions of placement `local` move, too.
        with_local: bool,
    },
    /// No change: tells the moves under way, or those that would begin.
    Look {
        /// True if regions of placement `local` would move, too.
        with_local: bool,
    },
    /// Moves that have not ended are given up.
    Stop,
}

/// A look at the moves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RebalanceStatus {
    /// True while extents move. Else the moves are those that would begin.
    pub is_under_way: bool,
    /// The moves by bytes, the longest first: at most [`LIST_PAGE_COUNT_MAX`](crate::limits::LIST_PAGE_COUNT_MAX).
    pub moves: Vec<ExtentMove>,
    /// Bytes of all moves.
    pub left: u64,
    /// Moves that were given up since they began, by region.
    pub failed: Vec<FailedMove>,
    /// Bytes of regions that stay because their placement names nodes or a host.
    pub bound: u64,
}

/// An extent that moves.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExtentMove {
    /// Its region's name.
    pub region: String,
    /// The node that has it.
    pub from: NodeId,
    /// The node that gets it.
    pub to: NodeId,
    /// In bytes.
    pub len: u64,
}

/// A move that was given up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailedMove {
    /// The move.
    pub what: ExtentMove,
    /// Reason.
    pub why: WhyStays,
}

/// Reason for which a region does not move.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WhyStays {
    /// Its nodes cannot make it ready for copies: the reason of one.
    NotReady(String),
    /// Bytes of it are lost.
    Lost,
    /// No other node has room for it.
    NoRoom,
    /// Programs have locks or groups at its bytes.
    Locks,
}
