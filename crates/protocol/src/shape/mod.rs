//! Shapes: the bytes of a region or a buffer that a command touches, and their order; checked before anything moves.
//!
//! A shape is a list of *blocks* of equal length. Its bytes, block by block, form its *stream*. A get moves the stream of a region's shape
//! into the stream of a buffer's shape, and so on for every command.
//!
//! | shape | its blocks |
//! |---|---|
//! | [`Strided`] | at equal distance, without overlap |
//! | [`Subarray`] | an N-dimensional sub-array, each dimension with its own stride, negative too |
//! | [`Indexed`] | where a list of indices says |

mod indexed;
mod strided;
mod subarray;

pub use indexed::{Indexed, Indices};
pub use strided::Strided;
pub use subarray::{Dim, Subarray};

use crate::element::Element;
use crate::error::{Error, Result};

/// The bytes that a command touches, in order.
///
/// FEATURE: D3-F13
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Shape<'a> {
    /// Blocks at equal distance.
    Strided(Strided),
    /// An N-dimensional sub-array.
    Subarray(Subarray),
    /// Blocks where indices say.
    Indexed(Indexed<'a>),
}

impl<'a> Shape<'a> {
    /// The contiguous range of `len` bytes at `offset`.
    pub fn contiguous(offset: u64, len: u64) -> Shape<'static> {
        Shape::Strided(Strided::contiguous(offset, len))
    }

    /// Checks that every block lies within `limit` bytes; a [`Checked`] shape is what planning and kernels take.
    ///
    /// **Cost**: constant, but one look at every index of an [`Indexed`] shape. **Errors**: [`Error::OutOfRange`],
    /// [`Error::BadShape`], [`Error::BadDimension`], [`Error::BadIndex`]; each names `region` and where it fails.
    pub fn check(self, region: &str, limit: u64) -> Result<Checked<'a>> {
        let len = match &self {
            Shape::Strided(shape) => shape.check(region, limit)?,
            Shape::Subarray(shape) => shape.check(region, limit)?,
            Shape::Indexed(shape) => shape.check(region, limit)?,
        };
        Ok(Checked { shape: self, len, limit })
    }

    /// Bytes of a block.
    pub fn block(&self) -> u64 {
        match self {
            Shape::Strided(shape) => shape.block,
            Shape::Subarray(shape) => shape.block(),
            Shape::Indexed(shape) => shape.block,
        }
    }

    /// The shape without a borrowed index list.
    pub fn into_owned(self) -> Shape<'static> {
        match self {
            Shape::Strided(shape) => Shape::Strided(shape),
            Shape::Subarray(shape) => Shape::Subarray(shape),
            Shape::Indexed(shape) => Shape::Indexed(shape.into_owned()),
        }
    }

    /// The same shape, borrowing the index list.
    pub fn by_ref(&self) -> Shape<'_> {
        match self {
            Shape::Strided(shape) => Shape::Strided(*shape),
            Shape::Subarray(shape) => Shape::Subarray(*shape),
            Shape::Indexed(shape) => Shape::Indexed(shape.by_ref()),
        }
    }

    /// The same bytes in the same order, with as few and as long blocks as a look without the indices can tell.
    ///
    /// Not for commands that give each block a meaning of its own. The shape must have been checked.
    pub fn joined(self) -> Shape<'a> {
        match self {
            Shape::Strided(shape) if shape.is_contiguous() => Shape::contiguous(shape.offset, shape.block * shape.count),
            Shape::Subarray(shape) => shape.joined(),
            other => other,
        }
    }
}

impl From<Strided> for Shape<'_> {
    fn from(shape: Strided) -> Self {
        Shape::Strided(shape)
    }
}

impl From<Subarray> for Shape<'_> {
    fn from(shape: Subarray) -> Self {
        Shape::Subarray(shape)
    }
}

impl<'a> From<Indexed<'a>> for Shape<'a> {
    fn from(shape: Indexed<'a>) -> Self {
        Shape::Indexed(shape)
    }
}

/// A shape that lies within so many bytes. Only [`Shape::check`] makes one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked<'a> {
    shape: Shape<'a>,
    len: u64,
    limit: u64,
}

impl<'a> Checked<'a> {
    /// The shape.
    pub fn shape(&self) -> &Shape<'a> {
        &self.shape
    }

    /// The shape itself.
    pub fn into_shape(self) -> Shape<'a> {
        self.shape
    }

    /// Bytes of its stream.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// True if it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes within which all its blocks lie.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// The first byte and the length, where the stream is one contiguous range.
    pub fn range(&self) -> Option<(u64, u64)> {
        match &self.shape {
            Shape::Strided(shape) if shape.is_contiguous() => Some((shape.offset, self.len)),
            _ => None,
        }
    }

    /// The error for a shape that fits the region, and not what is to be done with it.
    #[cold]
    pub fn refused(&self, region: &str, reason: impl Into<String>) -> Error {
        let block = self.shape.block();
        let stride = if let Shape::Strided(shape) = &self.shape { shape.stride } else { 0 };
        let count = self.len.checked_div(block).unwrap_or_default();
        Error::BadShape { region: region.to_owned(), block, count, stride, reason: reason.into() }
    }

    /// Checks that its blocks are whole elements. For updates, it checks that each lies at a multiple of its length: only such can be
    /// changed in one step.
    ///
    /// **Cost**: one look at every index, if `offset` and `scale` alone do not say yes. Else constant, for any number of blocks.
    /// **Errors**: [`Error::BadElement`].
    pub fn check_elements(&self, region: &str, operation: &str, element: Element, must_align: bool) -> Result<()> {
        let bad = |reason: String| {
            Err(Error::BadElement {
                region: region.to_owned(),
                operation: operation.to_owned(),
                element: element.to_string(),
                reason,
            })
        };
        let (len, block) = (element.len(), self.shape.block());
        if !block.is_multiple_of(len) {
            return bad(format!("a block of {block} bytes is no whole number of them"));
        }
        match (must_align && !self.is_empty()).then(|| self.first_odd(len)).flatten() {
            Some(offset) => bad(format!("the one at offset {offset} is at no multiple of {len} bytes")),
            None => Ok(()),
        }
    }

    /// Offset of a block that is no multiple of `len`. The shape has blocks. Looks at strides, not at blocks: strides of zero make more
    /// blocks than anybody can look at.
    fn first_odd(&self, len: u64) -> Option<u64> {
        let is_odd = |offset: &u64| !offset.is_multiple_of(len);
        match &self.shape {
            Shape::Strided(shape) => {
                let second = (shape.count > 1).then(|| shape.offset + shape.stride);
                [Some(shape.offset), second].into_iter().flatten().find(is_odd)
            }
            Shape::Subarray(shape) => {
                let seconds = shape.dims().iter().filter(|dim| dim.count > 1);
                let seconds = seconds.map(|dim| shape.offset().wrapping_add_signed(dim.stride));
                std::iter::once(shape.offset()).chain(seconds).find(is_odd)
            }
            Shape::Indexed(shape) if shape.offset.is_multiple_of(len) && shape.scale.is_multiple_of(len) => None,
            Shape::Indexed(_) => self.block_offsets().find(is_odd),
        }
    }

    /// See [`Shape::joined`].
    pub fn joined(self) -> Checked<'a> {
        Checked { shape: self.shape.joined(), ..self }
    }

    /// The same, borrowing the index list.
    pub fn by_ref(&self) -> Checked<'_> {
        Checked { shape: self.shape.by_ref(), len: self.len, limit: self.limit }
    }

    /// The same without a borrowed index list.
    pub fn into_owned(self) -> Checked<'static> {
        Checked { shape: self.shape.into_owned(), len: self.len, limit: self.limit }
    }

    /// Offset of each block, in order. **Cost**: no allocation; for hot loops the kernels have their own walks.
    pub fn block_offsets(&self) -> impl Iterator<Item = u64> {
        let count = if self.len == 0 { 0 } else { self.len / self.shape.block() };
        (0..count).map(|k| self.block_offset(k))
    }

    /// Offset of block `k`, which is less than the number of blocks.
    pub fn block_offset(&self, k: u64) -> u64 {
        match &self.shape {
            Shape::Strided(shape) => shape.offset + k * shape.stride,
            Shape::Subarray(shape) => shape.block_offset(k),
            Shape::Indexed(shape) => shape.offset + shape.indices.get(k as usize) * shape.scale,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LIMIT: u64 = 4096;

    fn subarrays() -> impl Strategy<Value = Subarray> {
        let dims = proptest::collection::vec((0u64..6, -70i64..70).prop_map(|(count, stride)| Dim { count, stride }), 0..5);
        (0..LIMIT, 0u64..20, dims).prop_map(|(offset, block, dims)| Subarray::new(offset, block, &dims).unwrap())
    }

    /// Every byte of a checked shape, in order.
    fn bytes(shape: &Checked<'_>) -> Vec<u64> {
        let block = shape.shape().block();
        shape.block_offsets().flat_map(|offset| offset..offset + block).collect()
    }

    /// The nested loops that a sub-array stands for.
    fn slowly(shape: &Subarray, dims: &[Dim], offset: i64) -> Vec<i64> {
        match dims {
            [] => (0..shape.block() as i64).map(|byte| offset + byte).collect(),
            [dim, faster @ ..] => {
                (0..dim.count as i64).flat_map(|step| slowly(shape, faster, offset + step * dim.stride)).collect()
            }
        }
    }

    #[test]
    fn elements_of_endless_blocks_are_checked_at_once() {
        let odd = |block: u64, dims: &[Dim]| {
            let shape = Shape::from(Subarray::new(0, block, dims).unwrap()).check("r", LIMIT).unwrap();
            shape.check_elements("r", "an update", Element::U64, true).is_err()
        };
        let (endless, step) = (Dim { count: 1 << 59, stride: 0 }, |stride| Dim { count: 2, stride });
        assert!(odd(8, &[step(12), endless]));
        assert!(!odd(8, &[step(16), endless]));
    }

    #[test]
    fn an_empty_shape_is_an_empty_range_inside() {
        let huge = Dim { count: 1 << 62, stride: 1 };
        let none = Dim { count: 0, stride: 8 };
        for (block, dims) in
            [(0, &[huge, huge][..]), (8, &[none, huge, huge]), (8, &[none, Dim { count: 1 << 62, stride: 8 }]), (0, &[])]
        {
            let shape = |offset| Shape::from(Subarray::new(offset, block, dims).unwrap()).check("r", LIMIT);
            assert_eq!(shape(LIMIT).unwrap().joined().range(), Some((LIMIT, 0)));
            assert!(shape(LIMIT + 1).is_err(), "as for any other shape");
        }
    }

    proptest! {
        #[test]
        fn what_is_aligned_is_as_every_block_says(shape in subarrays(), step in prop_oneof![Just(1u64), Just(4), Just(8)]) {
            let scaled = |dim: &Dim| Dim { stride: dim.stride * step as i64, ..*dim };
            let dims: Vec<Dim> = shape.dims().iter().map(scaled).collect();
            let shape = Subarray::new(shape.offset() * step, shape.block() * 8, &dims).unwrap();
            if let Ok(checked) = Shape::from(shape).check("r", 16 * LIMIT) {
                let odd = checked.block_offsets().any(|offset| !offset.is_multiple_of(8));
                prop_assert_eq!(checked.check_elements("r", "an update", Element::U64, true).is_err(), odd);
            }
        }

        #[test]
        fn a_sub_array_is_its_nested_loops_and_joining_changes_nothing(shape in subarrays()) {
            let wanted = slowly(&shape, shape.dims(), shape.offset() as i64);
            let inside = wanted.iter().all(|byte| (0..LIMIT as i64).contains(byte));
            let checked = Shape::from(shape).check("r", LIMIT);
            prop_assert_eq!(checked.is_ok(), inside);
            if let Ok(checked) = checked {
                prop_assert_eq!(checked.len(), wanted.len() as u64);
                prop_assert!(bytes(&checked).iter().zip(&wanted).all(|(byte, wanted)| *byte as i64 == *wanted));
                let joined = checked.clone().joined();
                prop_assert_eq!(bytes(&joined), bytes(&checked));
                prop_assert!(joined.shape().clone().check("r", LIMIT).is_ok());
            }
        }

        #[test]
        fn an_index_list_is_its_elements(indices in proptest::collection::vec(0u32..600, 0..20), block in 1u64..16, offset in 0u64..100) {
            let inside = indices.iter().all(|index| offset + u64::from(*index) * block + block <= LIMIT);
            let checked = Shape::from(Indexed::elements(offset, block, &indices[..])).check("r", LIMIT);
            prop_assert_eq!(checked.is_ok(), inside);
            if let Ok(checked) = checked {
                let wanted: Vec<u64> = indices.iter().flat_map(|index| (0..block).map(move |byte| offset + u64::from(*index) * block + byte)).collect();
                prop_assert_eq!(bytes(&checked), wanted);
            }
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        let tile = Subarray::new(64, 8, &[Dim { count: 3, stride: 1000 }, Dim { count: 4, stride: -32 }]).unwrap();
        let error = Shape::from(tile).check("a", LIMIT).unwrap_err();
        assert!(matches!(error, Error::BadDimension { dimension: 1, stride: -32, .. }), "{error}");
        let far = Subarray::new(0, 8, &[Dim { count: u64::MAX, stride: i64::MAX }]).unwrap();
        assert!(matches!(Shape::from(far).check("a", LIMIT), Err(Error::BadDimension { dimension: 0, .. })));
        let error = Shape::from(Indexed::elements(0, 8, &[1u64, 512, u64::MAX][..])).check("a", LIMIT).unwrap_err();
        assert!(matches!(error, Error::BadIndex { position: 1, index: 512, limit: LIMIT, .. }), "{error}");
        assert!(Subarray::new(0, 8, &[Dim::default(); 9]).is_err());
        assert!(Shape::from(Indexed::elements(0, 4097, &[0u32][..])).check("a", 1 << 20).is_err());
    }

    #[test]
    fn whole_rows_become_one_range() {
        let rows = Subarray::new(8, 4, &[Dim { count: 3, stride: 40 }, Dim { count: 10, stride: 4 }]).unwrap();
        assert_eq!(Shape::from(rows).joined(), Shape::contiguous(8, 120));
        let tile = Subarray::new(8, 4, &[Dim { count: 3, stride: 400 }, Dim { count: 10, stride: 4 }]).unwrap();
        assert_eq!(Shape::from(tile).joined(), Shape::from(Strided { offset: 8, block: 40, count: 3, stride: 400 }));
    }
}
