//! Pages of this host that a mapping has as they are. A store to them is in the region's memory at once. So their extents stay where they are.

use crate::client::mapping::{fetch_files, map_piece};
use crate::client::region::Region;
use hanare_memory::Mapping;
use hanare_protocol::id::Grant;
use hanare_protocol::limits::PAGE_LEN;
use hanare_protocol::placement::Extent;
use hanare_protocol::wire::control::FilePart;
use hanare_protocol::{Error, Result};
use std::ops::Range;
use std::os::fd::OwnedFd;

/// Most pieces of this host that are mapped as they are, each a mapping of its own: a process has 65,530 of those. With more, the
/// pages of this host are fetched like all others.
const DIRECT_COUNT_MAX: usize = 8192;

/// Pages that are mapped as they are.
#[derive(Default)]
pub(super) struct DirectPages {
    /// Ascending.
    pub pages: Vec<Range<u64>>,
    /// For each extent whether it has some; `None` where none has.
    pub extents: Option<Box<[bool]>>,
}

/// Maps the whole pages of this host's extents over the frames. None of them where there are too many pieces for that, or the node gives no
/// file of them away.
pub(super) fn map_direct(region: &Region, mapping: &mut Mapping) -> Result<DirectPages> {
    let extents: Vec<(Extent, Grant)> = region.extents_today();
    let (here, mut pieces) = (|extent: usize| extents[extent].0.node == region.here(), Vec::new());
    for piece in region.layout().pieces(0, region.len()).filter(|piece| here(piece.extent)) {
        let end = piece.at + piece.len;
        let first = piece.at.next_multiple_of(PAGE_LEN);
        let last = if end == region.len() { end } else { end / PAGE_LEN * PAGE_LEN };
        if first < last && piece.at % PAGE_LEN == piece.offset % PAGE_LEN {
            if pieces.len() == DIRECT_COUNT_MAX {
                return Ok(DirectPages::default());
            }
            pieces.push((piece.extent, piece.offset + (first - piece.at), first..last));
        }
    }
    let mut files: Vec<Option<Vec<(OwnedFd, FilePart)>>> = extents.iter().map(|_| None).collect();
    for (extent, ..) in &pieces {
        let (at, grant) = &extents[*extent];
        let file = &mut files[*extent];
        if file.is_none() {
            *file = Some(match fetch_files(&region.shared, at, *grant, true) {
                // A node gives none away, or has made the extent ready for copies, and others have not.
                Err(Error::BadUse { .. } | Error::IsMapped { .. }) => return Ok(DirectPages::default()),
                fetched => fetched?,
            });
        }
    }
    for (extent, offset, range) in &pieces {
        let files = files[*extent].as_deref().unwrap_or_default();
        map_piece(mapping, range.start, *offset, range.end - range.start, files, region.rights())?;
    }
    let pages = |range: Range<u64>| range.start / PAGE_LEN..range.end.div_ceil(PAGE_LEN);
    let has_some = files.iter().map(Option::is_some).collect();
    let extents = Some(has_some).filter(|_| !pieces.is_empty());
    Ok(DirectPages { pages: pieces.into_iter().map(|(_, _, range)| pages(range)).collect(), extents })
}
