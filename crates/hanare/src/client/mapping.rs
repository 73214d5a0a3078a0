//! Extents of this host in the program's address space.
//!
//! Safety invariants:
//! 1. A mapping's bytes may change at any time; nothing here makes a reference to them.
//! 2. Files come from the node, sealed against shrinking, and are mapped for no more than their `map_len`.

use super::pool::Shared;
use super::region::Region;
use super::shared::DirectHold;
use hanare_memory::{Mapping, Window};
use hanare_protocol::id::{Grant, Rights};
use hanare_protocol::limits::PAGE_LEN;
use hanare_protocol::place::Extent;
use hanare_protocol::wire::control::{Answer, FilePart, Request};
use hanare_protocol::{Error, Result};
use std::os::fd::{AsFd, OwnedFd};

/// A region's bytes behind one pointer. Unmapped when dropped.
pub struct LocalMapping {
    mapping: Mapping,
    len: usize,
    /// Dropped after the mapping: the node is told.
    _hold: DirectHold,
}

impl LocalMapping {
    pub(crate) fn whole(region: &Region) -> Result<LocalMapping> {
        if !region.is_local() {
            return Err(bad_use(region, "some of its bytes are on other nodes; use get and put, or place it with local"));
        }
        if region.is_coherent() {
            return Err(bad_use(region, "this program has it mapped coherently; use that mapping"));
        }
        let hold = DirectHold::new(&region.shared, region.gid(), true);
        let len = usize::try_from(region.len()).map_err(|_| bad_use(region, "it is longer than the address space"))?;
        let mut mapping = Mapping::reserve(region.len())?;
        let extents: Vec<Extent> = region.layout().extents().copied().collect();
        let mut files: Vec<Option<Vec<(OwnedFd, FilePart)>>> = extents.iter().map(|_| None).collect();
        for piece in region.layout().pieces(0, region.len()) {
            if piece.at % PAGE_LEN != 0 || piece.offset % PAGE_LEN != 0 {
                return Err(bad_use(
                    region,
                    "it was resized from a length that is no multiple of a page; copy it to a new region",
                ));
            }
            let grant = region.grant(piece.extent);
            let files = match &mut files[piece.extent] {
                Some(files) => files,
                none => none.insert(fetch_files(&region.shared, &extents[piece.extent], grant)?),
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

/// Maps one extent of this host by itself.
pub(crate) fn map_extent(shared: &Shared, extent: &Extent, grant: Grant, rights: Rights) -> Result<Mapping> {
    let files = fetch_files(shared, extent, grant)?;
    let mut mapping = Mapping::reserve(extent.len)?;
    map_piece(&mut mapping, 0, 0, extent.len, &files, rights)?;
    Ok(mapping)
}

/// The files that hold an extent of this host, in order.
pub(crate) fn fetch_files(shared: &Shared, extent: &Extent, grant: Grant) -> Result<Vec<(OwnedFd, FilePart)>> {
    let request = Request::Map { slot: extent.slot, grant };
    match shared.session.ask_with_fds(&request, Vec::new())? {
        (Answer::Files(parts), fds) if parts.len() == fds.len() => Ok(fds.into_iter().zip(parts).collect()),
        (other, _) => Err(shared.session.nonsense(&other)),
    }
}

/// Maps bytes `offset .. offset + len` of an extent at `at` of the reservation.
pub(crate) fn map_piece(
    mapping: &mut Mapping,
    at: u64,
    offset: u64,
    len: u64,
    files: &[(OwnedFd, FilePart)],
    rights: Rights,
) -> Result<()> {
    let mut begin = 0;
    for (fd, file) in files {
        let end = begin + file.len;
        let (from, to) = (offset.max(begin), (offset + len).min(end));
        if from < to {
            let last = to == end;
            let part = FilePart {
                offset: file.offset + (from - begin),
                len: to - from,
                map_len: if last { file.map_len - (from - begin) } else { (to - from).next_multiple_of(PAGE_LEN) },
            };
            mapping.map_file(at + (from - offset), fd.as_fd(), part, rights)?;
        }
        begin = end;
    }
    Ok(())
}

fn bad_use(region: &Region, reason: &str) -> Error {
    Error::BadUse { region: region.name().to_owned(), reason: reason.to_owned() }
}
