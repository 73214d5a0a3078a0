//! Cutting of a shape of any kind into shapes on extents.
//!
//! A shape on one extent stays as it is. Over several extents, strided shapes are cut at the borders (`plan`), and so are long lines of
//! sub-arrays. All else becomes one list of indices for each extent, so a node's message does not grow with the number of borders. A block
//! that a border cuts ends the lists under way and goes in pieces. So blocks keep their order on every extent.

use crate::client::cut::plan::{self, CutPart};
use hanare_protocol::placement::{Extent, Routes};
use hanare_protocol::shape::{Checked, Indexed, Indices, Shape, Strided, Subarray};
use std::borrow::Cow;

/// A shape on one extent, and which bytes of the whole stream it stands for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ExtentShape<'a> {
    /// Position of the extent in the layout.
    pub extent: usize,
    /// The bytes of the extent.
    pub shape: Checked<'a>,
    /// Their place in the stream.
    pub stream: StreamPart,
}

/// Bytes of a stream.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum StreamPart {
    /// From this byte on, as many as the share has.
    At(u64),
    /// Blocks that begin at these bytes, in order.
    Blocks(Vec<u64>),
}

/// A line of a sub-array with this many blocks in each chunk is cheaper as commands than as a list.
const LINE_BLOCKS_MIN: u64 = 16;

/// The shares of a checked shape; on every extent, and over pieces of one block, in stream order.
///
/// **Cost**: for one extent nothing is copied; else a word for each block that goes into a list.
pub(crate) fn shares<'a>(routes: &Routes, shape: Checked<'a>) -> Vec<ExtentShape<'a>> {
    if shape.is_empty() {
        return Vec::new();
    }
    if routes.extents().len() == 1 {
        return vec![ExtentShape { extent: 0, shape, stream: StreamPart::At(0) }];
    }
    match shape.shape() {
        Shape::Strided(strided) => plan::parts(routes, *strided).map(|part| of_part(part, routes.extents())).collect(),
        Shape::Subarray(subarray) if has_long_lines(routes, subarray) => lines(routes, subarray, &shape),
        _ => lists(routes, &shape),
    }
}

fn of_part(part: CutPart, extents: &[Extent]) -> ExtentShape<'static> {
    ExtentShape {
        extent: part.extent,
        shape: inside(part.shape.into(), extents[part.extent].len),
        stream: StreamPart::At(part.at),
    }
}

/// A shape that planning made inside an extent.
fn inside(shape: Shape<'_>, limit: u64) -> Checked<'_> {
    shape.check("", limit).unwrap_or_else(|error| panic!("a part leaves its extent: {error}"))
}

fn has_long_lines(routes: &Routes, shape: &Subarray) -> bool {
    let Some(line) = shape.dims().last() else { return true };
    let spans = routes.layout().spans.iter().filter(|span| span.extents.len() > 1);
    let chunk = spans.map(|span| span.chunk).min().unwrap_or(u64::MAX);
    let is_plain = line.stride > 0 && line.stride as u64 >= shape.block();
    is_plain && line.count >= LINE_BLOCKS_MIN && chunk / line.stride as u64 >= LINE_BLOCKS_MIN
}

/// Each line of a sub-array as a strided shape.
fn lines(routes: &Routes, shape: &Subarray, checked: &Checked<'_>) -> Vec<ExtentShape<'static>> {
    let line = shape.dims().last().copied().unwrap_or(hanare_protocol::shape::Dim { count: 1, stride: shape.block() as i64 });
    let line_len = line.count * shape.block();
    let mut all = Vec::new();
    for k in 0..checked.len() / line_len {
        let offset = checked.block_offset(k * line.count);
        let strided = Strided { offset, block: shape.block(), count: line.count, stride: line.stride as u64 };
        all.extend(
            plan::parts(routes, strided).map(|part| of_part(CutPart { at: k * line_len + part.at, ..part }, routes.extents())),
        );
    }
    all
}

/// The list under way on one extent.
#[derive(Default)]
struct List {
    offsets: Vec<u64>,
    positions: Vec<u64>,
}

impl List {
    fn take(&mut self, extent: usize, block: u64, limit: u64) -> Option<ExtentShape<'static>> {
        let List { offsets, positions } = std::mem::take(self);
        let greatest = offsets.iter().max()?;
        // Indices of 32 bits, if they fit, make a list of offsets half as long.
        let indices = match u32::try_from(*greatest) {
            Ok(_) => Indices::Narrow(Cow::Owned(offsets.iter().map(|offset| *offset as u32).collect())),
            Err(_) => Indices::Wide(Cow::Owned(offsets)),
        };
        let shape = inside(Shape::Indexed(Indexed { offset: 0, block, scale: 1, indices }), limit);
        Some(ExtentShape { extent, shape, stream: StreamPart::Blocks(positions) })
    }
}

fn lists(routes: &Routes, shape: &Checked<'_>) -> Vec<ExtentShape<'static>> {
    let block = shape.shape().block();
    let is_short = block <= hanare_protocol::limits::BLOCK_LEN_MAX;
    let mut lists: Vec<List> = routes.extents().iter().map(|_| List::default()).collect();
    let limit = |extent: usize| routes.extent(extent).len;
    let mut all = Vec::new();
    for (k, offset) in shape.block_offsets().enumerate() {
        let at = k as u64 * block;
        let first = routes.pieces(offset, block).next().expect("a block has bytes");
        if is_short && first.len == block {
            let list = &mut lists[first.extent];
            list.offsets.push(first.offset);
            list.positions.push(at);
            continue;
        }
        for piece in routes.pieces(offset, block) {
            all.extend(lists[piece.extent].take(piece.extent, block, limit(piece.extent)));
            let shape = inside(Shape::contiguous(piece.offset, piece.len), limit(piece.extent));
            all.push(ExtentShape { extent: piece.extent, shape, stream: StreamPart::At(at + piece.at) });
        }
    }
    all.extend(lists.iter_mut().enumerate().filter_map(|(extent, list)| list.take(extent, block, limit(extent))));
    all
}

/// The shares of a shape whose order does not matter, runs that lie side by side on an extent joined.
pub(crate) fn joined_shapes<'a>(routes: &Routes, shape: Checked<'a>) -> Vec<ExtentShape<'a>> {
    let mut all: Vec<ExtentShape<'a>> = Vec::new();
    let mut last: Vec<Option<usize>> = vec![None; routes.extents().len()];
    for share in shares(routes, shape) {
        if let (Some(index), Shape::Strided(next)) = (last[share.extent], share.shape.shape())
            && let Shape::Strided(before) = all[index].shape.shape()
            && let Some(joined) = plan::join(before, next)
        {
            all[index].shape = inside(joined.into(), share.shape.limit());
            continue;
        }
        last[share.extent] = Some(all.len());
        all.push(share);
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::cut::routes;
    use hanare_protocol::shape::Dim;
    use proptest::prelude::*;

    fn shapes(limit: u64) -> impl Strategy<Value = Checked<'static>> {
        let dims = proptest::collection::vec((0u64..9, -9000i64..9000).prop_map(|(count, stride)| Dim { count, stride }), 0..3);
        let subarray = (0..limit, 1u64..6000, dims)
            .prop_map(|(offset, block, dims)| Shape::from(Subarray::new(offset, block, &dims).unwrap()));
        let fine =
            (0..limit, 1u64..30, 1u64..4, 16u64..90, 1i64..9000, 1i64..60).prop_map(|(offset, block, rows, count, row, step)| {
                let dims = [Dim { count: rows, stride: row }, Dim { count, stride: step }];
                Shape::from(Subarray::new(offset, block, &dims).unwrap())
            });
        let indexed = (0..limit, 1u64..4000, 1u64..5000, proptest::collection::vec(0u32..60, 0..20)).prop_map(
            |(offset, block, scale, list)| Shape::from(Indexed { offset, block, scale, indices: Indices::Narrow(list.into()) }),
        );
        prop_oneof![subarray, fine, indexed].prop_filter_map("inside", move |shape| shape.check("r", limit).ok())
    }

    /// For every byte of the stream, its extent and offset.
    fn slowly(routes: &Routes, shape: &Checked<'_>) -> Vec<(u64, usize, u64)> {
        let block = shape.shape().block();
        let bytes = shape.block_offsets().flat_map(|offset| offset..offset + block);
        bytes
            .enumerate()
            .map(|(at, byte)| {
                let piece = routes.pieces(byte, 1).next().unwrap();
                (at as u64, piece.extent, piece.offset)
            })
            .collect()
    }

    fn quickly(shares: &[ExtentShape<'_>]) -> Vec<(u64, usize, u64)> {
        let mut all = Vec::new();
        for share in shares {
            let block = share.shape.shape().block();
            for (k, offset) in share.shape.block_offsets().enumerate() {
                let at = match &share.stream {
                    StreamPart::At(at) => at + k as u64 * block,
                    StreamPart::Blocks(positions) => positions[k],
                };
                all.extend((0..block).map(|byte| (at + byte, share.extent, offset + byte)));
            }
        }
        all
    }

    proptest! {
        #[test]
        fn shares_are_the_shape_byte_for_byte(spans in proptest::collection::vec((1u64..40_000, 1u32..4), 1..4), shape in shapes(60_000)) {
            let rest = (60_000u64.saturating_sub(spans.iter().map(|span| span.0).sum::<u64>()), 2);
            let routes = routes(&spans.into_iter().chain((rest.0 > 0).then_some(rest)).collect::<Vec<_>>());
            let mut found = quickly(&shares(&routes, shape.clone()));
            // On every extent the order of the stream is kept.
            for extent in 0..routes.extents().len() {
                let order: Vec<u64> = found.iter().filter(|byte| byte.1 == extent).map(|byte| byte.0).collect();
                prop_assert!(order.is_sorted());
            }
            found.sort_unstable();
            prop_assert_eq!(found, slowly(&routes, &shape));
        }

        #[test]
        fn joined_shares_touch_the_same_bytes(len in 1u64..200_000, offset in 0u64..5000) {
            let routes = routes(&[(210_000, 3)]);
            let shape = Shape::contiguous(offset, len).check("r", 210_000).unwrap();
            let joined = joined_shapes(&routes, shape.clone());
            prop_assert!(joined.len() <= 3);
            let bytes = |shares: &[ExtentShape<'_>]| {
                let mut bytes: Vec<_> = quickly(shares).into_iter().map(|byte| (byte.1, byte.2)).collect();
                bytes.sort_unstable();
                bytes
            };
            prop_assert_eq!(bytes(&joined), bytes(&shares(&routes, shape)));
        }
    }

    #[test]
    fn many_indices_are_one_list_for_each_extent() {
        let routes = routes(&[(1 << 20, 2)]);
        let indices: Vec<u32> = (0..10_000).map(|k| k * 7919 % (1 << 17)).collect();
        let shape = Shape::from(Indexed::elements(0, 8, &indices[..])).check("r", 1 << 20).unwrap();
        assert_eq!(shares(&routes, shape).len(), 2);
    }
}
