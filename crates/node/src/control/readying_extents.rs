//! An order to make extents ready for copies, or to end that, until no command is under way on them.

use hanare_protocol::copies::HolderSet;
use hanare_protocol::id::{Gid, Slot};
use hanare_protocol::wire::copies::CopiedExtent;

/// Extents that are made ready for copies as soon as no command is under way. Without a set they are ready no more.
pub(super) struct ReadyingExtents {
    pub order: u64,
    pub gid: Gid,
    pub set: Option<HolderSet>,
    pub extents: Vec<(CopiedExtent, Slot)>,
    pub until_ms: u64,
    /// True if the service was told to let go of them.
    pub is_told: bool,
}
