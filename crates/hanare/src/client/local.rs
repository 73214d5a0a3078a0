//! A region whose bytes are all on this host, behind one pointer.

use super::attachment::DirectHold;
use super::mapping::{fetch_files, map_piece};
use super::region::Region;
use hanare_memory::{Mapping, Window};
use hanare_protocol::id::Grant;
use hanare_protocol::limits::PAGE_LEN;
use hanare_protocol::placement::Extent;
use hanare_protocol::wire::control::FilePart;
use hanare_protocol::{Error, Result};
use std::os::fd::OwnedFd;

/// A region's bytes behind one pointer. Unmapped when dropped.
pub struct LocalMapping {
    mapping: Mapping,
    len: usize,
    /// Dropped after the mapping: the node is told.
    _hold: DirectHold,
}

impl LocalMapping {
    fn whole(region: &Region) -> Result<LocalMapping> {
        if !region.is_local() {
            return Err(bad_use(region, "some of its bytes are on other nodes; use get and put, or place it with local"));
        }
        if region.is_coherent() {
            return Err(bad_use(region, "this program has it mapped coherently; use that mapping"));
        }
        let hold = DirectHold::new(&region.shared, region.gid(), true);
        let len = usize::try_from(region.len()).map_err(|_| bad_use(region, "it is longer than the address space"))?;
        let mut mapping = Mapping::reserve(region.len())?;
        let extents: Vec<(Extent, Grant)> = region.extents_today();
        let mut files: Vec<Option<Vec<(OwnedFd, FilePart)>>> = extents.iter().map(|_| None).collect();
        for piece in region.layout().pieces(0, region.len()) {
            if piece.at % PAGE_LEN != 0 || piece.offset % PAGE_LEN != 0 {
                return Err(bad_use(
                    region,
                    "it was resized from a length that is no multiple of a page; copy it to a new region",
                ));
            }
            let (extent, grant) = &extents[piece.extent];
            let files = match &mut files[piece.extent] {
                Some(files) => files,
                none => none.insert(fetch_files(&region.shared, extent, *grant, true)?),
            };
            map_piece(&mut mapping, piece.at, piece.offset, piece.len, files, region.rights())?;
        }
        Ok(LocalMapping { mapping, len, _hold: hold })
    }

    /// The region's bytes, as long as this lives. They may be changed by others at any time.
    ///
    /// # Safety
    /// No copy of the window is used after this is dropped.
    pub unsafe fn window(&self) -> Window {
        // SAFETY: all of it is mapped, for the rights that the region was opened for; the caller promises the rest.
        unsafe { self.mapping.window() }.slice(0, self.len)
    }

    /// The first byte's address: the one door to a raw pointer. Other programs may change what it points to at any time.
    pub fn ptr(&self) -> *mut u8 {
        self.mapping.ptr()
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Always false: no region has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl Region {
    /// A plain pointer to the whole region, all of whose bytes are on this host.
    ///
    /// **Errors**: [`Error::BadUse`] where some bytes are on other nodes.
    pub fn map_local(&self) -> Result<LocalMapping> {
        if self.copies() > 1 {
            return Err(bad_use(
                self,
                "a pointer to a region with copies would store bytes that copies do not have; use get and put",
            ));
        }
        LocalMapping::whole(self)
    }
}

fn bad_use(region: &Region, reason: &str) -> Error {
    Error::BadUse { region: region.name().to_owned(), reason: reason.to_owned() }
}
