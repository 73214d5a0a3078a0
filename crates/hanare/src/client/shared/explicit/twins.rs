//! The clean bytes of dirty pages, in a reservation as long as the region. The twin of page k lies k pages from its start, so a signal
//! handler finds its place without a look-up or an allocation.
//!
//! Safety invariant of this module: a page's twin is reached by the thread that holds the page, and by nobody else.

use hanare_memory::Mapping;
use hanare_memory::diff::PageBytes;
use hanare_memory::frames::Run;
use hanare_protocol::Result;
use hanare_protocol::limits::PAGE_LEN;
use rustix::mm::{Advice, madvise};

/// The twins of a mapping's pages.
pub(super) struct Twins(Mapping);

impl Twins {
    /// An empty set of twins. **Cost**: addresses, no memory.
    pub fn new(pages: u64) -> Result<Twins> {
        let mut mapping = Mapping::reserve(pages.saturating_mul(PAGE_LEN))?;
        mapping.map_sparse(0, mapping.len() as u64)?;
        Ok(Twins(mapping))
    }

    /// A page's twin; zeros if it has none.
    ///
    /// # Safety
    /// The caller holds the page as long as it uses the reference, and has no other to it.
    #[expect(clippy::mut_from_ref, reason = "each page's twin belongs to whoever holds the page")]
    pub unsafe fn of(&self, page: u64) -> &mut PageBytes {
        let at = usize::try_from(page * PAGE_LEN).ok().filter(|at| *at < self.0.len());
        let at = at.expect("a page of the mapping");
        // SAFETY: it lies in the mapping, which is memory of this process; the rest is the caller's promise.
        unsafe { &mut *self.0.ptr().add(at).cast() }
    }

    /// Gives the memory of twins back. Held: their pages.
    pub fn forget(&self, run: Run) {
        let at = self.0.ptr().wrapping_add((run.first * PAGE_LEN) as usize);
        // SAFETY: the pages' holder gives up their bytes; the range is the mapping's (`of` was called for each page).
        let done = unsafe { madvise(at.cast(), run.len_bytes(), Advice::LinuxDontNeed) };
        debug_assert_eq!(done, Ok(()));
    }
}
