//! Requests of clients about shared regions.

use hanare_protocol::id::{ClientId, Gid, Rights};
use hanare_protocol::page::Consistency;
use hanare_protocol::page::membership::MapRequest;
use hanare_protocol::wire::control::RegionView;

/// A client's request about a shared region. `F` is its mapping, as its node reaches it.
#[derive(Debug)]
pub enum RegionRequest<F> {
    /// The client will map a region.
    Share {
        /// The region, as the coordinator described it.
        view: Box<RegionView>,
        /// The mapping's promise.
        consistency: Consistency,
        /// The client's user.
        uid: u32,
        /// True if the mapping follows the region's bytes to other nodes.
        follows: bool,
    },
    /// The client has mapped a region.
    Hold {
        /// The region.
        gid: Gid,
        /// The mapping.
        mapping: F,
    },
    /// The client has unmapped a region.
    Unshare {
        /// The region.
        gid: Gid,
    },
    /// Stores of this host's programs to a region are to be at all nodes that hold its bytes.
    Flush {
        /// The region.
        gid: Gid,
    },
}

/// The page words and frames that a node keeps apart for one region. Programs that may not write have their own, shared with programs of
/// the same user alone. Both are memory that its programs write to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct HostKey {
    pub gid: Gid,
    /// The user whose programs only read it coherently; `None` for all others.
    pub readers: Option<u32>,
}

/// A client's request to share a region.
#[derive(Debug)]
pub(super) struct JoinRequest {
    pub client: ClientId,
    pub uid: u32,
    pub view: RegionView,
    pub consistency: Consistency,
    /// True if the program follows the region's bytes to other nodes.
    pub follows: bool,
}

impl JoinRequest {
    pub fn key(&self) -> HostKey {
        let only_reads = self.consistency == Consistency::Coherent && self.view.rights < Rights::Write;
        HostKey { gid: self.view.gid, readers: only_reads.then_some(self.uid) }
    }
}

impl MapRequest for JoinRequest {
    fn client(&self) -> ClientId {
        self.client
    }

    fn rights(&self) -> Rights {
        self.view.rights
    }
}
