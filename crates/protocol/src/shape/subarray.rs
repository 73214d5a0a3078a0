//! N-dimensional sub-arrays: a halo, a tile, a reversed row, in one command.

use super::{Shape, Strided};
use crate::error::{Error, Result};
use crate::limits::DIM_COUNT_MAX;

/// A dimension of a [`Subarray`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dim {
    /// Steps in this dimension.
    pub count: u64,
    /// Bytes from one step to the next; negative where the order is reversed, zero where one block is repeated.
    pub stride: i64,
}

/// Blocks at `offset` plus, for each dimension, its step times its stride: the last dimension runs fastest.
///
/// **Units**: bytes. `offset` is that of the first block in order, wherever negative strides lead from there. Blocks may overlap; what is
/// written to a byte last in order stays.
/// **Source**: [D3 §3] derived datatypes on hardware gather and scatter.
///
/// FEATURE: D3-F25
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Subarray {
    offset: u64,
    block: u64,
    dims: [Dim; DIM_COUNT_MAX],
    rank: usize,
}

impl Subarray {
    /// A sub-array of `dims`, the slowest first; without any it is one block.
    ///
    /// **Errors**: [`Error::LimitReached`] beyond [`DIM_COUNT_MAX`] dimensions.
    pub fn new(offset: u64, block: u64, dims: &[Dim]) -> Result<Subarray> {
        let mut own = [Dim::default(); DIM_COUNT_MAX];
        match own.get_mut(..dims.len()) {
            Some(own) => own.copy_from_slice(dims),
            None => {
                return Err(Error::LimitReached {
                    what: format!("a shape of {} dimensions", dims.len()),
                    limit: DIM_COUNT_MAX as u64,
                });
            }
        }
        Ok(Subarray { offset, block, dims: own, rank: dims.len() })
    }

    /// First byte of the first block.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Bytes of a block.
    pub fn block(&self) -> u64 {
        self.block
    }

    /// The dimensions, the slowest first.
    pub fn dims(&self) -> &[Dim] {
        &self.dims[..self.rank]
    }

    /// Checks it against `limit` bytes and returns the bytes it moves.
    pub(super) fn check(&self, region: &str, limit: u64) -> Result<u64> {
        let mut len = self.block;
        for (position, dim) in self.dims().iter().enumerate() {
            len = len
                .checked_mul(dim.count)
                .ok_or_else(|| self.bad(region, position, "the sub-array has more than 64 bits of bytes"))?;
        }
        if len == 0 && self.offset <= limit {
            return Ok(0);
        } else if len == 0 {
            return Err(Error::OutOfRange { region: region.to_owned(), offset: self.offset, len, limit });
        }
        let (mut low, mut high) = (i128::from(self.offset), i128::from(self.offset) + i128::from(self.block));
        for (position, dim) in self.dims().iter().enumerate() {
            let reach = i128::from(dim.count - 1) * i128::from(dim.stride);
            *(if reach < 0 { &mut low } else { &mut high }) += reach;
            if low < 0 {
                return Err(self.bad(
                    region,
                    position,
                    "it reaches below the first byte: `offset` is that of the first block in order",
                ));
            }
            if high > i128::from(limit) {
                return Err(self.bad(region, position, &format!("it reaches byte {high} of {limit}")));
            }
        }
        if high > i128::from(limit) {
            return Err(Error::OutOfRange { region: region.to_owned(), offset: self.offset, len: self.block, limit });
        }
        Ok(len)
    }

    fn bad(&self, region: &str, position: usize, reason: &str) -> Error {
        let dim = self.dims[position];
        Error::BadDimension {
            region: region.to_owned(),
            dimension: position as u32,
            count: dim.count,
            stride: dim.stride,
            reason: reason.to_owned(),
        }
    }

    /// See [`Shape::joined`].
    pub(super) fn joined<'a>(self) -> Shape<'a> {
        // A shape without bytes has no bound on its dimensions.
        if self.block == 0 || self.dims().iter().any(|dim| dim.count == 0) {
            return Shape::contiguous(self.offset, 0);
        }
        let mut joined = Subarray { rank: 0, ..self };
        let mut inner: Vec<Dim> = Vec::with_capacity(self.rank);
        // From the fastest dimension to the slowest: `inner` holds those kept so far.
        for dim in self.dims().iter().rev().filter(|dim| dim.count != 1) {
            match inner.last_mut() {
                None if dim.stride == joined.block as i64 => joined.block *= dim.count,
                Some(faster) if i128::from(faster.stride) * i128::from(faster.count) == i128::from(dim.stride) => {
                    faster.count *= dim.count
                }
                _ => inner.push(*dim),
            }
        }
        match inner[..] {
            [] => Shape::contiguous(self.offset, joined.block),
            [Dim { count, stride }] if u64::try_from(stride).is_ok_and(|stride| stride >= joined.block) => {
                Shape::Strided(Strided { offset: self.offset, block: joined.block, count, stride: stride as u64 })
            }
            _ => {
                inner.reverse();
                joined.rank = inner.len();
                joined.dims[..inner.len()].copy_from_slice(&inner);
                Shape::Subarray(joined)
            }
        }
    }

    /// Offset of block `k`.
    pub(super) fn block_offset(&self, mut k: u64) -> u64 {
        let mut offset = self.offset;
        for dim in self.dims().iter().rev() {
            offset = offset.wrapping_add_signed((k % dim.count) as i64 * dim.stride);
            k /= dim.count;
        }
        offset
    }
}
