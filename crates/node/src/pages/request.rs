//! Requests of clients about shared regions.

use hanare_memory::frames::ClientFrames;
use hanare_protocol::id::{ClientId, Gid, Rights};
use hanare_protocol::page::Consistency;
use hanare_protocol::page::share::MapRequest;
use hanare_protocol::wire::control::RegionView;

/// What a client asks of its node about shared regions.
pub(crate) enum RegionRequest {
    Share { view: Box<RegionView>, consistency: Consistency, uid: u32 },
    Hold { gid: Gid, frames: ClientFrames },
    Unshare { gid: Gid },
}

/// What a node keeps apart of a region: who may not write has page words and frames of its own, shared with programs of the same user
/// alone, because both are memory that its programs write to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct HostKey {
    pub gid: Gid,
    /// The user whose programs only read it coherently; `None` for all others.
    pub readers: Option<u32>,
}

/// A client's request to share a region.
#[derive(Debug)]
pub(super) struct ShareRequest {
    pub client: ClientId,
    pub uid: u32,
    pub view: RegionView,
    pub consistency: Consistency,
}

impl ShareRequest {
    pub fn key(&self) -> HostKey {
        let only_reads = self.consistency == Consistency::Coherent && self.view.rights < Rights::Write;
        HostKey { gid: self.view.gid, readers: only_reads.then_some(self.uid) }
    }
}

impl MapRequest for ShareRequest {
    fn client(&self) -> ClientId {
        self.client
    }

    fn rights(&self) -> Rights {
        self.view.rights
    }
}
