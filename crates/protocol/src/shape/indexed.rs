//! Blocks where a list of indices says: gather and scatter.

use crate::error::{Error, Result};
use crate::limits::BLOCK_LEN_MAX;
use std::borrow::Cow;

/// Blocks of `block` bytes, number k at `offset + indices[k] * scale`.
///
/// **Units**: bytes; `scale` is the bytes of one index step, usually `block`. Indices may repeat: of several writes to a byte the last in
/// order stays, while updates all count. **Source**: [D3 §3] indirect forms of vector load and store.
///
/// FEATURE: D3-F13
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Indexed<'a> {
    /// The byte that index 0 names.
    pub offset: u64,
    /// Bytes of a block, 1 to [`BLOCK_LEN_MAX`].
    pub block: u64,
    /// Bytes from the block of one index to that of the next.
    pub scale: u64,
    /// The indices.
    pub indices: Indices<'a>,
}

/// A list of indices, borrowed or owned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Indices<'a> {
    /// Indices of 32 bits.
    Narrow(Cow<'a, [u32]>),
    /// Indices of 64 bits.
    Wide(Cow<'a, [u64]>),
}

impl Indices<'_> {
    /// The number of indices.
    pub fn len(&self) -> usize {
        match self {
            Indices::Narrow(list) => list.len(),
            Indices::Wide(list) => list.len(),
        }
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Index number `k`.
    pub fn get(&self, k: usize) -> u64 {
        match self {
            Indices::Narrow(list) => u64::from(list[k]),
            Indices::Wide(list) => list[k],
        }
    }

    /// Indices `from .. to`.
    pub fn slice(&self, from: usize, to: usize) -> Indices<'_> {
        match self {
            Indices::Narrow(list) => Indices::Narrow(Cow::Borrowed(&list[from..to])),
            Indices::Wide(list) => Indices::Wide(Cow::Borrowed(&list[from..to])),
        }
    }

    /// The greatest, if there is any. **Cost**: one look at each.
    fn greatest(&self) -> Option<u64> {
        match self {
            Indices::Narrow(list) => list.iter().copied().max().map(u64::from),
            Indices::Wide(list) => list.iter().copied().max(),
        }
    }

    fn into_owned(self) -> Indices<'static> {
        match self {
            Indices::Narrow(list) => Indices::Narrow(Cow::Owned(list.into_owned())),
            Indices::Wide(list) => Indices::Wide(Cow::Owned(list.into_owned())),
        }
    }
}

impl<'a> From<&'a [u32]> for Indices<'a> {
    fn from(list: &'a [u32]) -> Self {
        Indices::Narrow(Cow::Borrowed(list))
    }
}

impl<'a> From<&'a [u64]> for Indices<'a> {
    fn from(list: &'a [u64]) -> Self {
        Indices::Wide(Cow::Borrowed(list))
    }
}

impl<'a> Indexed<'a> {
    /// The elements of `block` bytes of an array that begins at `offset`, by their indices.
    pub fn elements(offset: u64, block: u64, indices: impl Into<Indices<'a>>) -> Indexed<'a> {
        Indexed { offset, block, scale: block, indices: indices.into() }
    }

    /// Checks it against `limit` bytes and returns the bytes it moves.
    pub(super) fn check(&self, region: &str, limit: u64) -> Result<u64> {
        if self.block == 0 || self.block > BLOCK_LEN_MAX {
            return Err(Error::BadShape {
                region: region.to_owned(),
                block: self.block,
                count: self.indices.len() as u64,
                stride: self.scale,
                reason: format!("an indexed block has 1 to {BLOCK_LEN_MAX} bytes"),
            });
        }
        let fits = |index: u64| {
            let end = u128::from(index) * u128::from(self.scale) + u128::from(self.offset) + u128::from(self.block);
            end <= u128::from(limit)
        };
        // Only the greatest index decides; which one is wrong is looked for when one is.
        if self.indices.greatest().is_some_and(|index| !fits(index)) {
            return Err(self.first_bad(region, limit, fits));
        }
        Ok(self.indices.len() as u64 * self.block)
    }

    #[cold]
    fn first_bad(&self, region: &str, limit: u64, fits: impl Fn(u64) -> bool) -> Error {
        let position = (0..self.indices.len()).find(|k| !fits(self.indices.get(*k))).unwrap_or_default();
        Error::BadIndex {
            region: region.to_owned(),
            position: position as u64,
            index: self.indices.get(position),
            block: self.block,
            limit,
        }
    }

    pub(super) fn into_owned(self) -> Indexed<'static> {
        Indexed { offset: self.offset, block: self.block, scale: self.scale, indices: self.indices.into_owned() }
    }

    pub(super) fn by_ref(&self) -> Indexed<'_> {
        Indexed { offset: self.offset, block: self.block, scale: self.scale, indices: self.indices.slice(0, self.indices.len()) }
    }
}
