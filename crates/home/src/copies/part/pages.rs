//! Hosts that map the extent coherently.

use super::CopiedPart;
use crate::memory::Bytes;
use hanare_protocol::copies::PageTable;
use hanare_protocol::wire::copies::{ExtentCall, ExtentWrite};

impl<E: Bytes, A: Copy> CopiedPart<E, A> {
    /// The hosts that map the extent coherently.
    pub fn pages(&self) -> &PageTable {
        &self.pages
    }

    /// True if this node is its home, or may be again: no other is home.
    pub fn serves(&self) -> bool {
        self.home.as_ref().is_some_and(|home| !home.is_deposed() || home.is_overtaken())
    }

    /// Notes a page that came home, and changes of its hosts. A copy that is made gets them at its end.
    pub(super) fn note_pages(&mut self, write: &ExtentWrite) {
        if self.is_made_now() {
            return;
        }
        if let Some((page, version)) = write.page() {
            self.pages.note(page, version);
        }
        if let Some(ExtentCall::Hosts(change)) = &write.call {
            self.pages.change(change);
        }
    }
}
