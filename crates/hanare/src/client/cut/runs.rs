//! Cutting of a copy: runs that are one shape on one extent at either side.
//!
//! A copy with each side on one extent is one pair of commands, whatever the shapes. Strided shapes over several extents are cut where
//! either side is cut. Other shapes become lists of blocks for each pair of extents.

use super::plan::{CutPart, parts};
use hanare_protocol::limits::{BLOCK_LEN_MAX, LIST_LEN_MAX};
use hanare_protocol::placement::Routes;
use hanare_protocol::shape::{Checked, Indexed, Indices, Shape, Strided};
use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};

/// Most blocks in one list: both lists of a pair and another pair fit a message.
const LIST_BLOCKS_MAX: usize = LIST_LEN_MAX as usize / 8 / 4;

/// Bytes that are one shape on one extent at either side.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Run<'f, 't> {
    pub from: (usize, Shape<'f>),
    pub to: (usize, Shape<'t>),
}

impl Run<'_, '_> {
    /// Bytes that are copied.
    pub fn len(&self) -> hanare_protocol::Result<u64> {
        self.from.1.by_ref().check("", u64::MAX).map(|checked| checked.len())
    }
}

/// Bytes that a program brings and sends on at once, if a side is mapped coherently: page directories know no copies between nodes.
pub(crate) const THROUGH_LEN: u64 = 1 << 20;

/// The runs of a copy of as many bytes.
pub(crate) fn runs<'f, 't>(from: &Routes, from_shape: Checked<'f>, to: &Routes, to_shape: Checked<'t>) -> Vec<Run<'f, 't>> {
    let is_short = |shape: &Shape<'_>| !matches!(shape, Shape::Indexed(shape) if shape.indices.len() > LIST_BLOCKS_MAX);
    let is_single = |routes: &Routes| routes.extents().len() == 1;
    match (from_shape.shape(), to_shape.shape()) {
        _ if from_shape.is_empty() => Vec::new(),
        (source, target) if is_single(from) && is_single(to) && is_short(source) && is_short(target) => {
            vec![Run { from: (0, from_shape.into_shape()), to: (0, to_shape.into_shape()) }]
        }
        _ if is_single(from) && is_single(to) && piece_len(&from_shape, &to_shape).is_some() => {
            let len = piece_len(&from_shape, &to_shape).expect("just seen");
            let pieces = (0..from_shape.len()).step_by(len as usize);
            let end = |at: u64| (at + len).min(from_shape.len());
            let cut =
                |at| Run { from: (0, slice(from_shape.shape(), at, end(at))), to: (0, slice(to_shape.shape(), at, end(at))) };
            pieces.map(cut).collect()
        }
        (Shape::Strided(source), Shape::Strided(target)) => cut_runs(from, *source, to, *target),
        _ => list_runs(from, &from_shape, to, &to_shape),
    }
}

/// Bytes of which two shapes on one extent each are whole blocks, and lists as long as may be. `None`: they cannot be cut so.
fn piece_len(from: &Checked<'_>, to: &Checked<'_>) -> Option<u64> {
    let unit = |shape: &Checked<'_>| match shape.shape() {
        _ if shape.range().is_some() => Some((1, u64::MAX)),
        Shape::Strided(shape) => Some((shape.block, u64::MAX)),
        Shape::Indexed(shape) => Some((shape.block, shape.block * LIST_BLOCKS_MAX as u64)),
        Shape::Subarray(_) => None,
    };
    let ((a, a_most), (b, b_most)) = (unit(from)?, unit(to)?);
    let both = lcm(a, b)?;
    let most = a_most.min(b_most).min(from.len());
    (most >= both).then(|| most - most % both)
}

/// Bytes `from .. to` of a shape's stream: whole blocks of it.
pub(crate) fn slice<'a>(shape: &Shape<'a>, from: u64, to: u64) -> Shape<'a> {
    let block = shape.block();
    match shape {
        Shape::Strided(shape) if shape.is_contiguous() => Shape::contiguous(shape.offset + from, to - from),
        Shape::Strided(shape) => {
            Shape::Strided(Strided { offset: shape.offset + from / block * shape.stride, count: (to - from) / block, ..*shape })
        }
        Shape::Indexed(Indexed { offset, scale, indices, .. }) => {
            let range = (from / block) as usize..(to / block) as usize;
            let indices = match indices {
                Indices::Narrow(Cow::Borrowed(list)) => Indices::Narrow(Cow::Borrowed(&list[range])),
                Indices::Wide(Cow::Borrowed(list)) => Indices::Wide(Cow::Borrowed(&list[range])),
                Indices::Narrow(list) => Indices::Narrow(Cow::Owned(list[range].to_vec())),
                Indices::Wide(list) => Indices::Wide(Cow::Owned(list[range].to_vec())),
            };
            Shape::Indexed(Indexed { offset: *offset, block, scale: *scale, indices })
        }
        Shape::Subarray(_) => unreachable!("sub-arrays are not cut"),
    }
}

/// The runs of two strided shapes: whole blocks together where both sides have them, pieces of blocks at borders.
fn cut_runs(from: &Routes, from_shape: Strided, to: &Routes, to_shape: Strided) -> Vec<Run<'static, 'static>> {
    let mut sources: VecDeque<CutPart> = parts(from, from_shape).collect();
    let mut targets: VecDeque<CutPart> = parts(to, to_shape).collect();
    let mut runs = Vec::new();
    while let (Some(source), Some(target)) = (sources.front(), targets.front()) {
        let len = common_len(source, target);
        let (source, target) = (take(&mut sources, len), take(&mut targets, len));
        runs.push(Run { from: (source.extent, source.shape.into()), to: (target.extent, target.shape.into()) });
    }
    runs
}

/// The most bytes that both parts can give as one shape each. They are whole blocks of both if there are some, else less than a block.
fn common_len(source: &CutPart, target: &CutPart) -> u64 {
    let len = source.len.min(target.len);
    let unit = |part: &CutPart| if part.shape.is_contiguous() { 1 } else { part.shape.block };
    let (a, b) = (unit(source), unit(target));
    match len / lcm(a, b).unwrap_or(u64::MAX) {
        0 => len.min(if a > 1 { a } else { len }).min(if b > 1 { b } else { len }),
        count => count * lcm(a, b).expect("some fit"),
    }
}

fn lcm(a: u64, b: u64) -> Option<u64> {
    let gcd = |mut a: u64, mut b: u64| {
        while b != 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    (a / gcd(a, b)).checked_mul(b)
}

/// Takes the first `len` bytes off the first part: whole blocks, or no more than one.
fn take(parts: &mut VecDeque<CutPart>, len: u64) -> CutPart {
    let part = parts.pop_front().expect("the caller looked");
    let shape = part.shape;
    let rest = |shape: Strided, taken: u64| CutPart { shape, at: part.at + taken, len: part.len - taken, ..part };
    if shape.is_contiguous() {
        if len < part.len {
            parts.push_front(rest(Strided::contiguous(shape.offset + len, part.len - len), len));
        }
        return CutPart { shape: Strided::contiguous(shape.offset, len), len, ..part };
    }
    let (whole, within) = (len / shape.block, len % shape.block);
    debug_assert!(whole == 0 || within == 0, "whole blocks, or less than one");
    let used = whole.max(1);
    if used < shape.count {
        let after = Strided { offset: shape.offset + used * shape.stride, count: shape.count - used, ..shape };
        let taken = used * shape.block;
        parts.push_front(rest(after, taken));
    }
    if whole == 0 {
        let tail = Strided::contiguous(shape.offset + len, shape.block - len);
        parts.push_front(CutPart { shape: tail, at: part.at + len, len: shape.block - len, ..part });
        return CutPart { shape: Strided::contiguous(shape.offset, len), len, ..part };
    }
    CutPart { shape: Strided { count: whole, ..shape }, len, ..part }
}

/// The runs of shapes of any kind. Between each two extents they are lists of blocks of one length; long blocks come one by one.
fn list_runs(from: &Routes, from_shape: &Checked<'_>, to: &Routes, to_shape: &Checked<'_>) -> Vec<Run<'static, 'static>> {
    let mut sources = pieces(from, from_shape);
    let mut targets = pieces(to, to_shape);
    let mut lists: BTreeMap<Between, (Vec<u64>, Vec<u64>)> = BTreeMap::new();
    let mut runs = Vec::new();
    let (mut source, mut target) = (sources.next(), targets.next());
    while let (Some(mut left), Some(mut right)) = (source, target) {
        let len = left.len.min(right.len);
        if len > BLOCK_LEN_MAX {
            let (from, to) = (Shape::contiguous(left.offset, len), Shape::contiguous(right.offset, len));
            runs.push(Run { from: (left.extent, from), to: (right.extent, to) });
        } else {
            let (offsets, others) = lists.entry((left.extent, right.extent, len)).or_default();
            offsets.push(left.offset);
            others.push(right.offset);
            if offsets.len() == LIST_BLOCKS_MAX {
                let (offsets, others) = (std::mem::take(offsets), std::mem::take(others));
                runs.push(list_run((left.extent, right.extent, len), offsets, others));
            }
        }
        left.advance(len);
        right.advance(len);
        source = if left.len == 0 { sources.next() } else { Some(left) };
        target = if right.len == 0 { targets.next() } else { Some(right) };
    }
    runs.extend(
        lists
            .into_iter()
            .filter(|(_, (offsets, _))| !offsets.is_empty())
            .map(|(key, (offsets, others))| list_run(key, offsets, others)),
    );
    runs
}

/// Source and target extent, and the length of blocks.
type Between = (usize, usize, u64);

fn list_run((from, to, block): Between, offsets: Vec<u64>, others: Vec<u64>) -> Run<'static, 'static> {
    Run { from: (from, list(block, offsets)), to: (to, list(block, others)) }
}

fn list(block: u64, offsets: Vec<u64>) -> Shape<'static> {
    let fits = offsets.iter().all(|offset| u32::try_from(*offset).is_ok());
    let indices = match fits {
        true => Indices::Narrow(Cow::Owned(offsets.into_iter().map(|offset| offset as u32).collect())),
        false => Indices::Wide(Cow::Owned(offsets)),
    };
    Shape::Indexed(Indexed { offset: 0, block, scale: 1, indices })
}

/// Bytes of one extent without a gap.
#[derive(Clone, Copy)]
struct Stretch {
    extent: usize,
    offset: u64,
    len: u64,
}

impl Stretch {
    fn advance(&mut self, len: u64) {
        self.offset += len;
        self.len -= len;
    }
}

/// The blocks of a shape in order, cut at borders of extents.
fn pieces<'a>(routes: &'a Routes, shape: &'a Checked<'_>) -> impl Iterator<Item = Stretch> + 'a {
    let block = shape.shape().block();
    let stretch =
        |piece: hanare_protocol::placement::Piece| Stretch { extent: piece.extent, offset: piece.offset, len: piece.len };
    shape.block_offsets().flat_map(move |offset| routes.pieces(offset, block).map(stretch))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hanare_protocol::id::{NodeId, Slot};
    use hanare_protocol::placement::{Extent, Layout, Span};
    use hanare_protocol::shape::{Dim, Subarray};
    use proptest::prelude::*;

    fn routes(len: u64, nodes: u32) -> Routes {
        let extents =
            Span::shares(len, 4096, u64::from(nodes)).map(|len| Extent { node: NodeId(0), slot: Slot(0), len }).collect();
        Layout { spans: vec![Span { len, chunk: 4096, extents }] }.into()
    }

    /// The bytes of one side, as (extent, offset).
    fn bytes(extent: usize, shape: &Shape<'_>) -> Vec<(usize, u64)> {
        let checked = shape.by_ref().check("", u64::MAX).unwrap();
        let block = shape.block();
        checked.block_offsets().flat_map(|at| (at..at + block).map(|byte| (extent, byte))).collect()
    }

    /// Extent and offset of every byte of a shape.
    fn slowly(routes: &Routes, shape: &Checked<'_>) -> Vec<(usize, u64)> {
        let block = shape.shape().block();
        let locate = |byte| routes.pieces(byte, 1).next().map(|piece| (piece.extent, piece.offset)).unwrap();
        shape.block_offsets().flat_map(|at| at..at + block).map(locate).collect()
    }

    const LEN: u64 = 30_000;

    fn shapes() -> impl Strategy<Value = Shape<'static>> {
        let strided = (0u64..100, 1u64..3000, 1u64..6, 0u64..500)
            .prop_map(|(offset, block, count, gap)| Shape::from(Strided { offset, block, count, stride: block + gap }));
        let tile = (0u64..9000, 1u64..40, 1u64..9, -600i64..600, 1u64..9, -90i64..90).prop_map(
            |(offset, block, rows, row, count, step)| {
                let dims = [Dim { count: rows, stride: row }, Dim { count, stride: step }];
                Shape::from(Subarray::new(offset, block, &dims).unwrap())
            },
        );
        let list = (1u64..3000, proptest::collection::vec(0u32..LEN as u32, 1..30))
            .prop_map(|(block, list)| Shape::from(Indexed { offset: 0, block, scale: 1, indices: Indices::Narrow(list.into()) }));
        prop_oneof![strided, tile, list].prop_filter("inside", |shape| shape.by_ref().check("", LEN).is_ok())
    }

    /// The first `len` bytes, as a list of bytes: any two shapes can be brought to one length that way.
    fn first(shape: Shape<'static>, len: u64) -> Shape<'static> {
        let checked = shape.by_ref().check("", LEN).unwrap();
        if checked.len() == len {
            return shape;
        }
        let block = shape.block();
        let offsets = checked.block_offsets().flat_map(|at| at..at + block).take(len as usize).collect();
        list(1, offsets)
    }

    proptest! {
        #[test]
        fn runs_pair_every_byte_with_its_own(from_nodes in 1u32..4, to_nodes in 1u32..4, from in shapes(), to in shapes(), alike: bool) {
            let to = if alike { from.clone() } else { to };
            let len = |shape: &Shape<'_>| shape.by_ref().check("", LEN).unwrap().len();
            let least = len(&from).min(len(&to));
            let (from, to) = (first(from, least).check("", LEN).unwrap().joined(), first(to, least).check("", LEN).unwrap().joined());
            let (from_routes, to_routes) = (routes(LEN, from_nodes), routes(LEN, to_nodes));
            let mut pairs: Vec<((usize, u64), (usize, u64))> = Vec::new();
            for run in runs(&from_routes, from.clone(), &to_routes, to.clone()) {
                let (source, target) = (bytes(run.from.0, &run.from.1), bytes(run.to.0, &run.to.1));
                prop_assert_eq!(source.len(), target.len());
                pairs.extend(source.into_iter().zip(target));
            }
            let mut wanted: Vec<_> = slowly(&from_routes, &from).into_iter().zip(slowly(&to_routes, &to)).collect();
            pairs.sort_unstable();
            wanted.sort_unstable();
            prop_assert_eq!(pairs, wanted);
        }
    }

    #[test]
    fn strided_shapes_travel_whole() {
        let (one, two) = (routes(LEN, 1), routes(LEN, 2));
        let spread = Shape::from(Strided { offset: 0, block: 8, count: 1000, stride: 16 }).check("", LEN).unwrap();
        let packed = Shape::contiguous(0, 8000).check("", LEN).unwrap();
        assert_eq!(runs(&one, spread.clone(), &one, packed.clone()).len(), 1);
        assert!(runs(&two, spread, &two, packed).len() < 12);
    }
}
