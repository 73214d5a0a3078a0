//! Bound shapes and releases of a lock: values that come from clients, with their checks.

use crate::error::{Error, Result};
use crate::id::Gid;
use crate::limits::{
    BOUND_BLOCK_COUNT_MAX, BOUND_SHAPE_COUNT_MAX, PAGE_LEN, REGION_LEN_MAX, RELEASE_LEN_MAX, RELEASE_RANGE_COUNT_MAX,
};
use crate::packed_bytes;
use crate::shape::Strided;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Bytes of a region that are bound to a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct BoundShape {
    /// The region.
    pub gid: Gid,
    /// Bytes of the region.
    pub shape: Strided,
}

impl BoundShape {
    /// From its first to its last byte.
    fn span(&self) -> Range<u64> {
        let Strided { offset, block, count, stride } = self.shape;
        let len = if count == 0 { 0 } else { stride.saturating_mul(count - 1).saturating_add(block) };
        offset..offset.saturating_add(len)
    }
}

/// A range of a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct BoundRange {
    /// The region.
    pub gid: Gid,
    /// Its first byte.
    pub offset: u64,
    /// Its length in bytes.
    pub len: u64,
}

/// Bytes that were changed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Stores {
    /// Any that are bound.
    All,
    /// Ranges without their bytes.
    Ranges(Vec<BoundRange>),
    /// Ranges with their bytes: range behind range, and where two overlap the later counts.
    Bytes(Vec<BoundRange>, #[serde(with = "packed_bytes")] Vec<u8>),
}

impl Stores {
    /// No stores.
    pub const NONE: Stores = Stores::Bytes(Vec::new(), Vec::new());

    /// The ranges; `None` for all that is bound.
    pub fn ranges(&self) -> Option<&[BoundRange]> {
        match self {
            Stores::All => None,
            Stores::Ranges(ranges) | Stores::Bytes(ranges, _) => Some(ranges),
        }
    }

    /// The ranges with their bytes, in order; nothing where the bytes are not known.
    pub fn pieces(&self) -> impl Iterator<Item = (BoundRange, &[u8])> {
        let (ranges, mut rest) = match self {
            Stores::Bytes(ranges, bytes) => (&ranges[..], &bytes[..]),
            _ => (&[][..], &[][..]),
        };
        ranges.iter().map_while(move |range| {
            let (bytes, behind) = rest.split_at_checked(usize::try_from(range.len).ok()?)?;
            rest = behind;
            Some((*range, bytes))
        })
    }

    /// The ranges alone.
    pub(super) fn without_bytes(self) -> Stores {
        match self {
            Stores::Bytes(ranges, _) => Stores::Ranges(ranges),
            other => other,
        }
    }

    /// True if nothing was changed.
    pub fn is_none(&self) -> bool {
        self.ranges().is_some_and(<[BoundRange]>::is_empty)
    }

    /// Bytes that it takes to keep this.
    pub(super) fn len_bytes(&self) -> usize {
        let ranges = size_of_val(self.ranges().unwrap_or_default());
        ranges + if let Stores::Bytes(_, bytes) = self { bytes.len() } else { 0 }
    }

    /// Lines of 4 KiB that it takes to keep this.
    pub(super) fn line_count(&self) -> usize {
        self.len_bytes().div_ceil(PAGE_LEN as usize)
    }

    /// True if all bytes lie where shapes are, from the first byte of one to its last. For ranges without bytes, others fetch from their
    /// homes.
    pub(super) fn lie_within<'s>(&self, shapes: impl Iterator<Item = &'s BoundShape>) -> bool {
        let Stores::Bytes(ranges, _) = self else { return true };
        let mut spans: Vec<(Gid, Range<u64>)> = shapes.map(|bound| (bound.gid, bound.span())).collect();
        spans.sort_by_key(|(gid, span)| (*gid, span.start));
        // Spans that touch are one.
        let mut joined: Vec<(Gid, Range<u64>)> = Vec::new();
        for (gid, span) in spans {
            match joined.last_mut().filter(|(last, before)| *last == gid && before.end >= span.start) {
                Some((_, before)) => before.end = before.end.max(span.end),
                None => joined.push((gid, span)),
            }
        }
        ranges.iter().all(|range| {
            let end = range.offset.saturating_add(range.len);
            joined.iter().any(|(gid, span)| *gid == range.gid && span.start <= range.offset && end <= span.end)
        })
    }

    /// Checks what comes from elsewhere. **Errors**: [`Error::LimitReached`], [`Error::BadShape`].
    pub fn check(&self) -> Result<()> {
        let ranges = self.ranges().unwrap_or_default();
        limited("ranges of one release", ranges.len(), RELEASE_RANGE_COUNT_MAX)?;
        let mut sum = 0u64;
        for range in ranges {
            Strided::contiguous(range.offset, range.len).check(&range.gid.to_string(), REGION_LEN_MAX)?;
            sum = sum.saturating_add(range.len);
        }
        let Stores::Bytes(_, bytes) = self else { return Ok(()) };
        limited("bytes of one release", bytes.len(), RELEASE_LEN_MAX)?;
        if bytes.len() as u64 == sum {
            return Ok(());
        }
        let reason = format!("{} bytes for ranges of {sum}", bytes.len());
        Err(Error::Garbage { peer: "a holder of a lock".to_owned(), reason })
    }
}

/// A holder's message before it puts its changes at their homes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Publication {
    /// The changes.
    pub changes: Stores,
    /// The lock's new binding from the end of this release on, if it changes.
    pub binding: Option<Vec<BoundShape>>,
}

impl Publication {
    /// Checks what comes from elsewhere. **Errors**: [`Error::LimitReached`], [`Error::BadShape`].
    pub fn check(&self) -> Result<()> {
        check_binding(self.binding.as_deref().unwrap_or_default())?;
        self.changes.check()
    }
}

/// Checks what is to be bound to a lock. **Errors**: as for [`Stores::check`].
pub fn check_binding(shapes: &[BoundShape]) -> Result<()> {
    limited("shapes bound to a lock", shapes.len(), BOUND_SHAPE_COUNT_MAX)?;
    let mut blocks = 0u64;
    for BoundShape { gid, shape } in shapes {
        shape.check(&gid.to_string(), REGION_LEN_MAX)?;
        blocks = blocks.saturating_add(shape.count);
        limited("blocks bound to a lock", usize::try_from(blocks).unwrap_or(usize::MAX), BOUND_BLOCK_COUNT_MAX)?;
    }
    Ok(())
}

pub(super) fn limited(what: &str, count: usize, limit: usize) -> Result<()> {
    match count <= limit {
        true => Ok(()),
        false => Err(Error::LimitReached { what: what.to_owned(), limit: limit as u64 }),
    }
}
