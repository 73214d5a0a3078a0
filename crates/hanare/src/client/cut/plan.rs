//! Cutting of a command on a region into commands on extents.
//!
//! A shape on one extent stays one command, whatever its strides. Over several extents it is cut at their borders. A run of whole blocks
//! inside one piece stays one strided command. A block that a border cuts becomes one contiguous command on each side.

use hanare_protocol::placement::{Piece, Routes};
use hanare_protocol::shape::Strided;

/// A command on one extent, and where its bytes lie in the caller's contiguous buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CutPart {
    /// Position of the extent in the layout.
    pub extent: usize,
    /// The bytes of the extent.
    pub shape: Strided,
    /// First byte in the buffer.
    pub at: u64,
    /// Bytes.
    pub len: u64,
}

/// The parts of a checked shape, in buffer order. **Cost**: no allocation.
pub(crate) fn parts(routes: &Routes, shape: Strided) -> impl Iterator<Item = CutPart> {
    let len = shape.block * shape.count;
    let contiguous = shape.is_contiguous() || len == 0;
    let reach = if contiguous { len } else { shape.stride * (shape.count - 1) + shape.block };
    routes.pieces(shape.offset, reach).flat_map(move |piece| if contiguous { whole(piece) } else { cut(piece, shape) })
}

/// Two strided shapes on one extent as one, where the second goes on where the first ends.
pub(crate) fn join(before: &Strided, next: &Strided) -> Option<Strided> {
    let is_run = |shape: &Strided| shape.count == 1;
    if is_run(before) && is_run(next) {
        let is_adjacent = before.offset + before.block == next.offset;
        return is_adjacent.then(|| Strided::contiguous(before.offset, before.block + next.block));
    }
    let goes_on = before.block == next.block
        && (is_run(next) || before.stride == next.stride)
        && before.count > 1
        && before.offset + before.count * before.stride == next.offset;
    goes_on.then(|| Strided { count: before.count + next.count, ..*before })
}

/// A piece of a contiguous range is one part.
fn whole(piece: Piece) -> Cut {
    let part =
        CutPart { extent: piece.extent, shape: Strided::contiguous(piece.offset, piece.len), at: piece.at, len: piece.len };
    Cut { parts: [Some(part), None, None], next: 0 }
}

/// The parts of a strided shape that lie in one piece: a block's tail, whole blocks, a block's beginning.
fn cut(piece: Piece, shape: Strided) -> Cut {
    let (begin, end) = (piece.at, piece.at + piece.len);
    let part = |from: u64, blocks: u64, block: u64, at: u64| CutPart {
        extent: piece.extent,
        shape: Strided { offset: piece.offset + (from - begin), block, count: blocks, stride: shape.stride },
        at,
        len: blocks * block,
    };
    // Block k covers [k * stride, k * stride + block), measured from the shape's first byte, as are `begin` and `end`.
    let mut k = begin / shape.stride;
    let mut parts = [None; 3];
    let start = k * shape.stride;
    if start < begin {
        let block_end = (start + shape.block).min(end);
        if block_end > begin {
            parts[0] = Some(part(begin, 1, block_end - begin, k * shape.block + (begin - start)));
        }
        k += 1;
    }
    let first = k;
    // Whole blocks end at or before `end`.
    if end >= shape.block {
        k = k.max(((end - shape.block) / shape.stride + 1).min(shape.count));
    }
    if k > first {
        parts[1] = Some(part(first * shape.stride, k - first, shape.block, first * shape.block));
    }
    let start = k * shape.stride;
    if k < shape.count && start < end {
        parts[2] = Some(part(start, 1, end - start, k * shape.block));
    }
    Cut { parts, next: 0 }
}

/// At most three parts.
struct Cut {
    parts: [Option<CutPart>; 3],
    next: usize,
}

impl Iterator for Cut {
    type Item = CutPart;

    fn next(&mut self) -> Option<CutPart> {
        while let Some(slot) = self.parts.get(self.next) {
            self.next += 1;
            if slot.is_some() {
                return *slot;
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::cut::routes;
    use proptest::prelude::*;

    /// Every byte of the shape as (buffer position, extent, offset), byte by byte.
    fn slowly(routes: &Routes, shape: Strided) -> Vec<(u64, usize, u64)> {
        let mut bytes = Vec::new();
        for k in 0..shape.count {
            for byte in 0..shape.block {
                let piece = routes.pieces(shape.offset + k * shape.stride + byte, 1).next().unwrap();
                bytes.push((bytes.len() as u64, piece.extent, piece.offset));
            }
        }
        bytes
    }

    fn quickly(routes: &Routes, shape: Strided) -> Vec<(u64, usize, u64)> {
        let mut bytes = Vec::new();
        for part in parts(routes, shape) {
            assert_eq!(part.len, part.shape.block * part.shape.count);
            let mut at = part.at;
            for (offset, len) in part.shape.blocks() {
                bytes.extend((0..len).map(|byte| (at + byte, part.extent, offset + byte)));
                at += len;
            }
        }
        bytes.sort_unstable();
        bytes
    }

    proptest! {
        #[test]
        fn parts_are_the_shape_byte_for_byte(
            spans in proptest::collection::vec((1u64..40_000, 1u32..4), 1..4),
            offset in 0u64..20_000, block in 1u64..9_000, count in 1u64..12, gap in 0u64..9_000,
        ) {
            let shape = Strided { offset, block, count, stride: block + gap };
            // The region reaches as far as the shape does.
            let (len, end) = (spans.iter().map(|span| span.0).sum::<u64>(), offset + shape.stride * (count - 1) + block);
            let rest = (end > len).then(|| (end - len, 2));
            let routes = routes(&spans.into_iter().chain(rest).collect::<Vec<_>>());
            prop_assert_eq!(shape.check("r", routes.len()), Ok(block * count));
            prop_assert_eq!(quickly(&routes, shape), slowly(&routes, shape));
        }
    }

    #[test]
    fn a_shape_on_one_extent_stays_one_command() {
        let routes = routes(&[(1 << 20, 1)]);
        let shape = Strided { offset: 8, block: 8, count: 1000, stride: 128 };
        assert_eq!(parts(&routes, shape).collect::<Vec<_>>(), [CutPart { extent: 0, shape, at: 0, len: 8000 }]);
    }

    #[test]
    fn blocks_inside_a_chunk_travel_together() {
        let routes = routes(&[(1 << 16, 2)]);
        let shape = Strided { offset: 0, block: 8, count: 1024, stride: 64 };
        assert_eq!(parts(&routes, shape).count(), 16);
    }
}
