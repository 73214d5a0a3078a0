//! Extents of this host in the program's address space.
//!
//! Safety invariants:
//! 1. A mapping's bytes may change at any time; nothing here makes a reference to them.
//! 2. Files come from the node, sealed against shrinking, and are mapped for no more than their `map_len`.

use super::attachment::Shared;
use hanare_memory::Mapping;
use hanare_protocol::Result;
use hanare_protocol::id::{Grant, Rights};
use hanare_protocol::limits::PAGE_LEN;
use hanare_protocol::placement::Extent;
use hanare_protocol::wire::control::{Answer, FilePart, Request};
use std::os::fd::{AsFd, OwnedFd};

/// The files that hold an extent of this host, in order.
pub(crate) type FilesHere = Vec<(OwnedFd, FilePart)>;

/// Maps one extent of this host by itself.
pub(crate) fn map_extent(extent: &Extent, files: &FilesHere, rights: Rights) -> Result<Mapping> {
    let mut mapping = Mapping::reserve(extent.len)?;
    map_piece(&mut mapping, 0, 0, extent.len, files, rights)?;
    Ok(mapping)
}

/// Asks for the files of an extent of this host, and for direct access to it. `pins` if a pointer is given out.
pub(crate) fn fetch_files(shared: &Shared, extent: &Extent, grant: Grant, pins: bool) -> Result<FilesHere> {
    let request = Request::Map { slot: extent.slot, grant, pins };
    match shared.ask_with_fds(&request, Vec::new())? {
        (Answer::Files(parts), fds) if parts.len() == fds.len() => Ok(fds.into_iter().zip(parts).collect()),
        (other, _) => Err(shared.nonsense(&other)),
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
