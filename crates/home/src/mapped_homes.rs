//! Homes of pages whose bytes have copies, beside the homes of their extents.

use crate::home::Home;
use crate::memory::{Bytes, Memory};
use crate::pages::PageMemory;
use hanare_protocol::id::Gid;
use hanare_protocol::{Error, Result};

impl<P: PageMemory, E: Bytes + Clone> Home<P, E> {
    /// Homes of pages begin and end with the homes of their extents. Where this node has become home, hosts may map the extent coherently.
    pub(crate) fn follow_homes<M: Memory<Extent = E>>(&mut self, memory: &M) {
        for (gid, slot) in self.pages.copied_homes() {
            if !self.copies.serves(gid, slot) {
                self.pages.end_home(gid, !memory.has(gid, slot));
            }
        }
        for (gid, slot, table) in self.copies.mapped() {
            if let Some(found) = memory.find(gid, slot).filter(|_| !self.pages.is_coherent(gid)) {
                self.pages.begin_home((gid, slot), found.len_bytes(), table);
            }
        }
    }

    /// Queues are not reached beside coherent mappings.
    pub(crate) fn check_not_mapped(&self, gid: Gid) -> Result<()> {
        if self.pages.is_coherent(gid) { Err(Error::IsMapped { gid }) } else { Ok(()) }
    }
}
