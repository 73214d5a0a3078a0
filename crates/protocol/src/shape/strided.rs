//! Blocks at equal distance: the shape of most commands.

use crate::error::{Error, Result};
use serde::{Deserialize, Serialize};

/// `count` blocks of `block` bytes, the first at `offset`, each `stride` bytes after the one before.
///
/// **Units**: bytes. A contiguous range is one block. **Source**: [D2 §3.2] VLS and VSS; [D3 §3].
///
/// FEATURE: D2-F11
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Strided {
    /// First byte of the first block.
    pub offset: u64,
    /// Bytes of a block.
    pub block: u64,
    /// Number of blocks.
    pub count: u64,
    /// Bytes from one block's start to the next; at least `block` when there are several.
    pub stride: u64,
}

impl Strided {
    /// The contiguous range of `len` bytes at `offset`.
    pub fn contiguous(offset: u64, len: u64) -> Strided {
        Strided { offset, block: len, count: 1, stride: len }
    }

    /// True if the bytes lie without gaps.
    pub fn is_contiguous(&self) -> bool {
        self.count <= 1 || self.stride == self.block
    }

    /// Checks the shape against a region (or extent) of `limit` bytes and returns the bytes it moves.
    ///
    /// **Errors**: [`Error::BadShape`] where blocks overlap or a product overflows, [`Error::OutOfRange`] beyond the end.
    pub fn check(&self, region: &str, limit: u64) -> Result<u64> {
        let (len, span) = self.extent(region)?;
        match self.offset.checked_add(span) {
            Some(end) if end <= limit => Ok(len),
            _ => Err(Error::OutOfRange { region: region.to_owned(), offset: self.offset, len: span, limit }),
        }
    }

    /// Bytes moved, and bytes from the first to the last touched.
    fn extent(&self, region: &str) -> Result<(u64, u64)> {
        let bad = |reason: &str| Error::BadShape {
            region: region.to_owned(),
            block: self.block,
            count: self.count,
            stride: self.stride,
            reason: reason.to_owned(),
        };
        if self.count > 1 && self.stride < self.block {
            return Err(bad("blocks overlap: the stride must be at least the block"));
        }
        let len = self.block.checked_mul(self.count).ok_or_else(|| bad("block times count is beyond 64 bits"))?;
        if len == 0 {
            return Ok((0, 0));
        }
        let gaps = self.stride.checked_mul(self.count - 1).ok_or_else(|| bad("stride times count is beyond 64 bits"))?;
        let span = gaps.checked_add(self.block).ok_or_else(|| bad("the last block ends beyond 64 bits"))?;
        Ok((len, span))
    }

    /// The blocks in order, gaps closed up where there are none.
    pub fn blocks(&self) -> impl Iterator<Item = (u64, u64)> + use<> {
        let whole = if self.is_contiguous() { Strided::contiguous(self.offset, self.block * self.count) } else { *self };
        (0..whole.count).map(move |k| (whole.offset + k * whole.stride, whole.block))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(offset: u64, block: u64, count: u64, stride: u64, limit: u64) -> Result<u64> {
        Strided { offset, block, count, stride }.check("r", limit)
    }

    #[test]
    fn a_shape_ends_with_its_last_block_not_its_last_stride() {
        assert_eq!(check(0, 8, 4, 16, 56), Ok(32));
        assert!(matches!(check(0, 8, 4, 16, 55), Err(Error::OutOfRange { len: 56, limit: 55, .. })));
    }

    #[test]
    fn products_that_overflow_are_refused() {
        assert!(matches!(check(0, 1 << 40, 1 << 40, 1 << 41, u64::MAX), Err(Error::BadShape { .. })));
        assert!(matches!(check(u64::MAX, 1, 1, 1, u64::MAX), Err(Error::OutOfRange { .. })));
        assert!(matches!(check(0, 1, 3, u64::MAX, u64::MAX), Err(Error::BadShape { .. })));
    }

    #[test]
    fn overlapping_blocks_are_refused_but_a_single_one_needs_no_stride() {
        assert!(matches!(check(0, 8, 2, 7, 100), Err(Error::BadShape { .. })));
        assert_eq!(check(0, 8, 1, 0, 8), Ok(8));
        assert_eq!(check(4, 8, 0, 0, 8), Ok(0));
    }

    #[test]
    fn adjacent_blocks_become_one() {
        let shape = Strided { offset: 3, block: 8, count: 4, stride: 8 };
        assert_eq!(shape.blocks().collect::<Vec<_>>(), [(3, 32)]);
        let shape = Strided { offset: 3, block: 8, count: 2, stride: 9 };
        assert_eq!(shape.blocks().collect::<Vec<_>>(), [(3, 8), (12, 8)]);
    }
}
