//! Routes of a region's pages that lie at a home.

use hanare_protocol::id::{NodeId, Slot};
use hanare_protocol::limits::PAGE_LEN;
use hanare_protocol::page::{Consistency, Page};
use hanare_protocol::placement::{Extent, Layout, Piece, Routes, Span};
use hanare_protocol::wire::page::Join;
use hanare_protocol::{Error, Result};

/// The pages of a region that lie on one node. Of a region that is not coherent there are none.
pub(super) struct PageRoutes {
    node: NodeId,
    layout: Routes,
    is_coherent: bool,
}

impl PageRoutes {
    /// The pages of the region that a host wants to map. **Errors**: [`Error::BadUse`] where an extent begins inside a page.
    pub fn new(join: &Join, node: NodeId) -> Result<PageRoutes> {
        let is_coherent = join.consistency == Consistency::Coherent;
        let is_whole = |piece: Piece| piece.at.is_multiple_of(PAGE_LEN) && piece.offset.is_multiple_of(PAGE_LEN);
        if is_coherent && !join.layout.pieces(0, join.layout.len()).all(is_whole) {
            let reason = "it was resized from a length that is no multiple of a page; copy it to a new region".to_owned();
            return Err(Error::BadUse { region: join.name.clone(), reason });
        }
        Ok(PageRoutes { node, layout: join.layout.clone().into(), is_coherent })
    }

    /// The pages of the only extent of a region, of that length, in a slot of this node.
    pub fn of_extent(node: NodeId, slot: Slot, len: u64) -> PageRoutes {
        let layout = Layout { spans: vec![Span { len, chunk: 0, extents: vec![Extent { node, slot, len }] }] };
        PageRoutes { node, layout: layout.into(), is_coherent: true }
    }

    /// The place of a page's bytes in its extent: the first, and how many are the region's.
    pub fn place(&self, page: Page) -> (u64, u64) {
        let at = page.0.saturating_mul(PAGE_LEN);
        let len = PAGE_LEN.min(self.layout.len().saturating_sub(at));
        let piece = (len > 0).then(|| self.layout.pieces(at, len).next()).flatten();
        piece.map_or((0, 0), |piece| (piece.offset, piece.len))
    }

    /// The node on which they lie.
    pub fn node(&self) -> NodeId {
        self.node
    }

    /// The layout of the region's bytes.
    pub fn layout(&self) -> &Layout {
        self.layout.layout()
    }

    /// Pages of the whole region.
    pub fn page_count(&self) -> u64 {
        self.layout.len().div_ceil(PAGE_LEN)
    }

    /// True if a page lies on this node.
    pub fn is_here(&self, page: Page) -> bool {
        let Some(at) = page.0.checked_mul(PAGE_LEN).filter(|at| self.is_coherent && *at < self.layout.len()) else {
            return false;
        };
        let piece = self.layout.pieces(at, 1).next();
        piece.is_some_and(|piece| self.layout.extent(piece.extent).node == self.node)
    }

    /// Pages of an extent as pages of the region, in order; `None` where it is not reached through its pages.
    pub fn pages_of(&self, slot: Slot, pages: &[u64]) -> Option<Vec<Page>> {
        let is_it = |extent: &Extent| (extent.node, extent.slot) == (self.node, slot);
        let at = self.layout.extents().iter().position(is_it).filter(|_| self.is_coherent)?;
        let len = self.layout.extent(at).len;
        let page = |page: &u64| {
            let at_extent = page.checked_mul(PAGE_LEN).filter(|offset| *offset < len)?;
            let (offset, _) = self.layout.places(at, at_extent, PAGE_LEN.min(len - at_extent)).next()?;
            Some(Page(offset / PAGE_LEN))
        };
        pages.iter().map(page).collect()
    }
}

/// The error for a coherent mapping of a region with copies that lies in parts.
pub(super) fn several_extents(region: &str) -> Error {
    let reason = "a region with copies is mapped coherent if it has one extent; create it with --place local or node=K, or map it \
                  explicit or entry";
    Error::BadUse { region: region.to_owned(), reason: reason.to_owned() }
}
