//! Memory of shared regions on this node, for its home ([`hanare_home::Home`]).
//!
//! | module | holds |
//! |---|---|
//! | `memory` | the pages that lie here: read, written, taken out of mappings |
//! | `frames` | page words, frames and mappings of a region where it is mapped |
//! | `reply` | the reply to a thread's page requests, as it leaves |

mod frames;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
mod memory;
mod reply;
#[cfg(test)]
mod tests;

use crate::extents::{Extents, Opened};
use frames::NodeFrames;
use hanare_home::{FrameTerms, NotShared, PageMemory};
use hanare_memory::frames::ClientFrames;
use hanare_protocol::Result;
use hanare_protocol::id::{Gid, Grant, NodeId, Rights, Slot};
use hanare_protocol::wire::page::Join;
use memory::{HomeMemory, SharedMemory};
pub(crate) use reply::SealedReply;
use std::sync::Arc;

/// The home on this node.
pub(crate) type NodeHome = hanare_home::Home<NodePages, Opened>;
/// An event of it.
pub(crate) type HomeInput<'a> = hanare_home::Input<'a, NodePages>;
/// A client's request about one.
pub(crate) type RegionRequest = hanare_home::RegionRequest<ClientFrames>;

/// The memory of shared regions on this node.
pub(crate) struct NodePages {
    extents: Arc<Extents>,
    /// Draws numbers that nobody can guess.
    draw: fn() -> Result<u64>,
}

impl NodePages {
    pub fn new(extents: Arc<Extents>) -> NodePages {
        NodePages { extents, draw: || hanare_memory::random::bytes().map(u64::from_le_bytes) }
    }
}

impl PageMemory for NodePages {
    type Pages = SharedMemory;
    type Frames = NodeFrames;

    fn open(&mut self, join: &Join, node: NodeId) -> Result<SharedMemory, NotShared> {
        HomeMemory::open(join, node, &self.extents).map(Arc::new).map(SharedMemory)
    }

    fn open_home(&mut self, extent: (Gid, Slot), node: NodeId) -> Result<SharedMemory, NotShared> {
        HomeMemory::open_home(extent, node, &self.extents).map(Arc::new).map(SharedMemory)
    }

    fn rights(&self, gid: Gid, extent: (Slot, u64), grant: Grant) -> Result<Rights> {
        self.extents.rights(gid, extent, grant)
    }

    fn cancel_share_wait(&mut self, gid: Gid, slot: Slot) {
        self.extents.cancel_share_wait(gid, slot);
    }

    fn make_frames(&mut self, terms: FrameTerms<'_>) -> Result<NodeFrames> {
        NodeFrames::new(terms)
    }

    fn draw(&mut self) -> Result<u64> {
        (self.draw)()
    }
}
