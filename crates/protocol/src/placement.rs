//! Placement: on which nodes a region's bytes lie, and how a range of it splits into pieces of extents.

mod nodes;

pub use nodes::NodeList;

use crate::error::{Error, Result};
use crate::id::{NodeId, Slot};
use crate::limits::{CHUNK_LEN_MIN, NODE_COUNT_MAX, REGION_LEN_MAX, SPAN_COUNT_MAX};
use crate::malformed::Malformed;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Placement of a region's bytes.
///
/// Written `local`, `node=K`, `interleave=CHUNK` or `nodes=K,L-M:CHUNK`. **Source**: [D3 §3] memory banks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Placement {
    /// On the node of the client that creates it.
    #[default]
    Local,
    /// On one named node.
    Node(NodeId),
    /// Over all nodes, in chunks of so many bytes (a power of two of at least a page).
    Interleave(u64),
    /// Over these nodes and no others, in their order, in chunks of so many bytes.
    Nodes(NodeList, u64),
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Placement::Local => f.write_str("local"),
            Placement::Node(node) => write!(f, "node={}", node.0),
            Placement::Interleave(chunk) => write!(f, "interleave={chunk}"),
            Placement::Nodes(nodes, chunk) => write!(f, "nodes={nodes}:{chunk}"),
        }
    }
}

impl Placement {
    /// Refuses a chunk that is no power of two of at least a page.
    pub fn check(&self) -> Result<()> {
        match self {
            Placement::Interleave(chunk) | Placement::Nodes(_, chunk) if !chunk.is_power_of_two() || *chunk < CHUNK_LEN_MIN => {
                Err(Error::BadPlacement {
                    placement: self.to_string(),
                    reason: format!("a chunk is a power of two of at least {CHUNK_LEN_MIN} bytes"),
                })
            }
            _ => Ok(()),
        }
    }
}

impl FromStr for Placement {
    type Err = Error;

    fn from_str(text: &str) -> Result<Placement> {
        let refused = |reason: &str| Error::BadPlacement { placement: text.to_owned(), reason: reason.to_owned() };
        let bad = || refused("write local, node=K, interleave=SIZE or nodes=K,L-M:SIZE");
        let placement = match text.split_once('=') {
            None if text == "local" => Placement::Local,
            Some(("node", number)) => Placement::Node(NodeId(number.parse().map_err(|_| bad())?)),
            Some(("interleave", chunk)) => Placement::Interleave(crate::size::parse(chunk).map_err(|_| bad())?),
            Some(("nodes", words)) => {
                let (nodes, chunk) = words.split_once(':').ok_or_else(bad)?;
                let chunk = crate::size::parse(chunk).map_err(|_| bad())?;
                Placement::Nodes(nodes.parse().map_err(|malformed: Malformed| refused(malformed.0))?, chunk)
            }
            _ => return Err(bad()),
        };
        placement.check().map(|()| placement)
    }
}

/// An extent of a region: so many bytes in one slot of one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extent {
    /// The node that holds it.
    pub node: NodeId,
    /// Its slot there.
    pub slot: Slot,
    /// Its length in bytes.
    pub len: u64,
}

/// A run of a region's bytes laid out in one way: on one extent, or in chunks over several.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Span {
    /// Bytes of the run.
    pub len: u64,
    /// Bytes of a chunk; ignored where there is one extent.
    pub chunk: u64,
    /// The extents, in chunk order.
    pub extents: Vec<Extent>,
}

/// Layout of a region's bytes: spans one after another. A resize appends a span, so no byte ever moves.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Layout {
    /// The spans in order.
    pub spans: Vec<Span>,
}

/// A part of a range that lies in one extent without a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Position of the extent among all of the layout's, in order.
    pub extent: usize,
    /// First byte in the extent.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
    /// First byte in the range that was asked for.
    pub at: u64,
}

#[expect(clippy::arithmetic_side_effects, reason = "no divisor is 0, and no result beyond the length: see `Layout::check`")]
impl Span {
    /// The lengths of `count` extents that share `len` bytes in chunks.
    ///
    /// A round of chunks beyond 64 bits is longer than any region: then all bytes are in the first round.
    pub fn shares(len: u64, chunk: u64, count: u64) -> impl Iterator<Item = u64> {
        let round = chunk.checked_mul(count).filter(|round| *round > 0);
        let (rounds, rest) = round.map_or((0, len), |round| (len / round, len % round));
        // At most `len`, so nothing here goes beyond 64 bits.
        (0..count).map(move |k| rounds * chunk + rest.saturating_sub(k.saturating_mul(chunk)).min(chunk))
    }

    /// Refuses a span that no coordinator makes: one that lies on nothing, or not as its chunk says.
    fn check(&self) -> Result<(), Malformed> {
        let count = self.extents.len();
        if self.len == 0 || count == 0 || count > NODE_COUNT_MAX {
            return Err(Malformed("a span without bytes, without extents or with too many"));
        }
        let is_true = match self.extents.as_slice() {
            [only] => only.len == self.len,
            _ if !self.chunk.is_power_of_two() || self.chunk < CHUNK_LEN_MIN => false,
            extents => Span::shares(self.len, self.chunk, count as u64).eq(extents.iter().map(|extent| extent.len)),
        };
        if is_true { Ok(()) } else { Err(Malformed("a span whose extents are not as long as its chunk says")) }
    }

    /// The extent of byte `at` of the span, the offset in it, and the number of contiguous bytes there.
    fn locate(&self, at: u64) -> (usize, u64, u64) {
        if self.extents.len() == 1 {
            return (0, at, self.len - at);
        }
        let (chunk_index, within) = (at / self.chunk, at % self.chunk);
        let count = self.extents.len() as u64;
        let offset = chunk_index / count * self.chunk + within;
        ((chunk_index % count) as usize, offset, (self.chunk - within).min(self.len - at))
    }
}

#[expect(clippy::arithmetic_side_effects, reason = "a layout is checked where it arrives: see `Layout::check`")]
impl Layout {
    /// Refuses a layout that no coordinator makes. A receiver of a layout calls this first; all other functions here rely on it.
    ///
    /// **Errors**: [`Malformed`], with the reason.
    pub fn check(&self) -> Result<(), Malformed> {
        if self.spans.is_empty() || self.spans.len() > SPAN_COUNT_MAX {
            return Err(Malformed("a layout without spans, or with too many"));
        }
        let mut len = 0u64;
        for span in &self.spans {
            span.check()?;
            len = len.saturating_add(span.len);
        }
        if len > REGION_LEN_MAX { Err(Malformed("a layout of more bytes than a region may have")) } else { Ok(()) }
    }

    /// The region's length in bytes.
    pub fn len(&self) -> u64 {
        self.spans.iter().map(|span| span.len).sum()
    }

    /// True if the region has no bytes (no created region has none).
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// True if both have the same bytes in extents of the same lengths, wherever these are.
    pub fn has_same_chunks(&self, other: &Layout) -> bool {
        let lens = |span: &Span| (span.len, span.chunk, span.extents.iter().map(|extent| extent.len).collect::<Vec<u64>>());
        self.spans.iter().map(lens).eq(other.spans.iter().map(lens))
    }

    /// All extents in order; [`Piece::extent`] counts in it.
    pub fn extents(&self) -> impl Iterator<Item = &Extent> {
        self.spans.iter().flat_map(|span| &span.extents)
    }

    /// The same, to change.
    pub fn extents_mut(&mut self) -> impl Iterator<Item = &mut Extent> {
        self.spans.iter_mut().flat_map(|span| &mut span.extents)
    }

    /// For a byte of a run in chunks over several extents: the distance to its counterpart in the extent's next chunk.
    pub fn period(&self, offset: u64) -> Option<u64> {
        let mut end = 0;
        let span = self.spans.iter().find(|span| {
            end += span.len;
            offset < end
        })?;
        (span.extents.len() > 1).then(|| span.chunk * span.extents.len() as u64)
    }

    /// Splits a range into pieces, in order of the range. The range must lie inside the region.
    pub fn pieces(&self, offset: u64, len: u64) -> Pieces<'_> {
        debug_assert!(offset.checked_add(len).is_some_and(|end| end <= self.len()));
        let mut pieces = Pieces { spans: &self.spans, extent_base: 0, offset, left: len, at: 0 };
        pieces.skip_spans();
        pieces
    }
}

/// A layout with its tables. They find a byte's extent by arithmetic and a search among spans, not by a walk over nodes.
///
/// Made once for each open region.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routes {
    layout: Layout,
    extents: Vec<Extent>,
    /// First byte of each span, and the position of its first extent.
    starts: Vec<(u64, usize)>,
    len: u64,
}

#[expect(clippy::arithmetic_side_effects, reason = "a layout is checked where it arrives: see `Layout::check`")]
impl From<Layout> for Routes {
    fn from(layout: Layout) -> Routes {
        let extents = layout.extents().copied().collect();
        let (mut begin, mut extent) = (0, 0);
        let start = |span: &Span| {
            let start = (begin, extent);
            (begin, extent) = (begin + span.len, extent + span.extents.len());
            start
        };
        let starts = layout.spans.iter().map(start).collect();
        Routes { layout, extents, starts, len: begin }
    }
}

#[expect(clippy::arithmetic_side_effects, reason = "a layout is checked where it arrives: see `Layout::check`")]
impl Routes {
    /// The layout.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The region's length in bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// True if the region has no bytes (no created region has none).
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// All extents in order; [`Piece::extent`] is a position in it.
    pub fn extents(&self) -> &[Extent] {
        &self.extents
    }

    /// The extent at that position. **Cost**: an index.
    pub fn extent(&self, extent: usize) -> &Extent {
        &self.extents[extent]
    }

    /// See [`Layout::pieces`]. **Cost**: for each piece a division; once a search among the spans.
    pub fn pieces(&self, offset: u64, len: u64) -> Pieces<'_> {
        debug_assert!(offset.checked_add(len).is_some_and(|end| end <= self.len));
        let span = self.starts.partition_point(|(begin, _)| *begin <= offset).saturating_sub(1);
        let (begin, extent_base) = self.starts.get(span).copied().unwrap_or_default();
        let mut pieces = Pieces { spans: &self.layout.spans[span..], extent_base, offset: offset - begin, left: len, at: 0 };
        pieces.skip_spans();
        pieces
    }

    /// Offsets in the region of an extent's bytes, in the extent's order. Each comes with its number of contiguous bytes.
    pub fn places(&self, extent: usize, offset: u64, len: u64) -> impl Iterator<Item = (u64, u64)> + use<> {
        let span = self.starts.partition_point(|(_, first)| *first <= extent) - 1;
        let ((begin, first), span) = (self.starts[span], &self.layout.spans[span]);
        let index = (extent - first) as u64;
        debug_assert!(offset.checked_add(len).is_some_and(|end| end <= self.extents[extent].len));
        let (chunk, count) = if span.extents.len() == 1 { (u64::MAX, 1) } else { (span.chunk, span.extents.len() as u64) };
        let mut at = 0;
        std::iter::from_fn(move || {
            let (round, within) = ((offset + at) / chunk, (offset + at) % chunk);
            let run = (chunk - within).min(len - at);
            at += run;
            let before = if count == 1 { 0 } else { (round * count + index) * chunk };
            (run > 0).then_some((begin + before + within, run))
        })
    }
}

/// Iterator over the pieces of a range. See [`Layout::pieces`].
#[derive(Clone, Debug)]
pub struct Pieces<'a> {
    spans: &'a [Span],
    extent_base: usize,
    offset: u64,
    left: u64,
    at: u64,
}

#[expect(clippy::arithmetic_side_effects, reason = "a layout is checked where it arrives: see `Layout::check`")]
impl Pieces<'_> {
    /// Moves on to the span that holds `offset`.
    fn skip_spans(&mut self) {
        while let [first, rest @ ..] = self.spans {
            if self.offset < first.len {
                break;
            }
            self.offset -= first.len;
            self.extent_base += first.extents.len();
            self.spans = rest;
        }
    }
}

#[expect(clippy::arithmetic_side_effects, reason = "a layout is checked where it arrives: see `Layout::check`")]
impl Iterator for Pieces<'_> {
    type Item = Piece;

    fn next(&mut self) -> Option<Piece> {
        let span = self.spans.first().filter(|_| self.left > 0)?;
        let (index, offset, run) = span.locate(self.offset);
        let piece = Piece { extent: self.extent_base + index, offset, len: run.min(self.left), at: self.at };
        self.offset += piece.len;
        self.left -= piece.len;
        self.at += piece.len;
        self.skip_spans();
        Some(piece)
    }
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "numbers of a test")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn span(len: u64, chunk: u64, nodes: u32) -> Span {
        let extents = Span::shares(len, chunk, u64::from(nodes))
            .enumerate()
            .map(|(k, len)| Extent { node: NodeId(k as u32), slot: Slot(0), len })
            .collect();
        Span { len, chunk, extents }
    }

    #[test]
    fn a_layout_that_no_coordinator_makes_is_refused() {
        let good = Layout { spans: vec![span(10_000, 4096, 1), span(50_001, 4096, 3), span(5, 8192, 2)] };
        assert_eq!(good.check(), Ok(()));
        let refused = |change: &dyn Fn(&mut Layout)| {
            let mut layout = good.clone();
            change(&mut layout);
            assert!(layout.check().is_err(), "{layout:?}");
        };
        refused(&|layout| layout.spans.clear());
        refused(&|layout| layout.spans[0].len = 0);
        refused(&|layout| layout.spans[0].extents.clear());
        refused(&|layout| layout.spans[0].len += 1);
        refused(&|layout| layout.spans[0].extents[0].len = u64::MAX);
        refused(&|layout| layout.spans[1].extents[2].len += 1);
        for chunk in [0, 1, 4095, 2048, 5000, u64::MAX, 1 << 63] {
            refused(&|layout| layout.spans[1].chunk = chunk);
        }
        refused(&|layout| {
            let len = REGION_LEN_MAX + 1;
            (layout.spans[0].len, layout.spans[0].extents[0].len) = (len, len);
        });
        let long = span(REGION_LEN_MAX, 4096, 1);
        refused(&|layout| layout.spans = vec![long.clone(); 8]);
        refused(&|layout| layout.spans = vec![span(1, 4096, 1); SPAN_COUNT_MAX + 1]);
    }

    fn number() -> impl Strategy<Value = u64> {
        prop_oneof![any::<u64>(), (0..64u32).prop_map(|bit| 1 << bit), 0..20_000u64, Just(REGION_LEN_MAX)]
    }

    fn any_span() -> impl Strategy<Value = Span> {
        let extent = (0..3u32, number()).prop_map(|(node, len)| Extent { node: NodeId(node), slot: Slot(0), len });
        let wild = (number(), number(), prop::collection::vec(extent, 0..4));
        let wild = wild.prop_map(|(len, chunk, extents)| Span { len, chunk, extents });
        prop_oneof![wild, (1..REGION_LEN_MAX, 12..44u32, 1..5u32).prop_map(|(len, chunk, nodes)| span(len, 1 << chunk, nodes))]
    }

    proptest! {
        #[test]
        fn what_is_made_of_a_layout_that_passed_is_inside(spans in prop::collection::vec(any_span(), 0..4), at: u64) {
            let layout = Layout { spans };
            if layout.check().is_ok() {
                let at = at % layout.len();
                let (extents, routes): (Vec<Extent>, _) = (layout.extents().copied().collect(), Routes::from(layout.clone()));
                for piece in layout.pieces(at, (layout.len() - at).min(5000)) {
                    prop_assert!(piece.offset.checked_add(piece.len).unwrap() <= extents[piece.extent].len);
                    let back = routes.places(piece.extent, piece.offset, piece.len).next();
                    prop_assert_eq!(back.map(|(place, _)| place), Some(at + piece.at));
                }
                let _ = layout.period(at);
            }
        }
    }

    #[test]
    fn shares_of_chunks_beyond_64_bits_are_those_of_one_round() {
        assert_eq!(Span::shares(10_000, 1 << 63, 3).collect::<Vec<_>>(), [10_000, 0, 0]);
        assert_eq!(Span::shares(u64::MAX, 1 << 63, 2).sum::<u64>(), u64::MAX);
    }

    #[test]
    fn pieces_cover_every_byte_once_and_stay_in_their_extents() {
        let layout = Layout { spans: vec![span(10_000, 4096, 1), span(50_001, 4096, 3), span(5, 8192, 2)] };
        let extents: Vec<_> = layout.extents().copied().collect();
        let mut used: Vec<Vec<bool>> = extents.iter().map(|e| vec![false; e.len as usize]).collect();
        let mut at = 0;
        for piece in layout.pieces(0, layout.len()) {
            assert_eq!(piece.at, at);
            at += piece.len;
            for byte in &mut used[piece.extent][piece.offset as usize..(piece.offset + piece.len) as usize] {
                assert!(!std::mem::replace(byte, true), "a byte of extent {} twice", piece.extent);
            }
        }
        assert_eq!(at, layout.len());
        assert!(used.iter().flatten().all(|byte| *byte));
    }

    #[test]
    fn places_are_pieces_seen_from_the_extent() {
        let layout = Layout { spans: vec![span(10_000, 4096, 1), span(50_001, 4096, 3), span(5, 8192, 2)] };
        let routes = Routes::from(layout.clone());
        let mut count = 0;
        for (extent, at) in layout.extents().enumerate() {
            let mut offset = 0;
            for (place, len) in routes.places(extent, 0, at.len) {
                for (k, byte) in [(0, place), (len - 1, place + len - 1)] {
                    let piece = layout.pieces(byte, 1).next().unwrap();
                    assert_eq!((piece.extent, piece.offset), (extent, offset + k));
                }
                (offset, count) = (offset + len, count + 1);
            }
            assert_eq!(offset, at.len);
        }
        assert_eq!(count, 1 + 13 + 1);
        assert_eq!(routes.places(2, 4000, 200).collect::<Vec<_>>(), [(10_000 + 4096 + 4000, 96), (10_000 + 4 * 4096, 104)]);
        assert_eq!(routes.places(1, 7, 0).next(), None);
    }

    #[test]
    fn routes_answer_what_a_walk_finds() {
        let layout = Layout { spans: vec![span(10_000, 4096, 1), span(50_001, 4096, 3), span(5, 8192, 2), span(9_000, 4096, 1)] };
        let routes = Routes::from(layout.clone());
        assert_eq!((routes.len(), routes.layout()), (layout.len(), &layout));
        assert!(layout.extents().enumerate().all(|(k, extent)| routes.extent(k) == extent));
        for (offset, len) in
            [(0, 1), (9_999, 2), (10_000, 1), (3, 60_000), (60_000, 6), (60_001, 9_005), (69_006, 0), (0, 69_006)]
        {
            assert!(routes.pieces(offset, len).eq(layout.pieces(offset, len)), "{len} bytes at {offset}");
        }
        assert_eq!(Routes::from(Layout::default()).pieces(0, 0).next(), None);
    }

    #[test]
    fn any_sub_range_is_the_same_cut_of_the_whole() {
        let layout = Layout { spans: vec![span(9_000, 4096, 2), span(9_000, 4096, 3)] };
        let locate = |position: u64| layout.pieces(position, 1).next().map(|p| (p.extent, p.offset));
        for (offset, len) in [(0, 1), (4095, 2), (8_999, 2), (3, 17_000), (17_999, 1)] {
            for piece in layout.pieces(offset, len) {
                assert_eq!(locate(offset + piece.at), Some((piece.extent, piece.offset)));
            }
        }
        assert_eq!(layout.pieces(100, 0).next(), None);
    }

    #[test]
    fn a_byte_s_like_is_a_period_behind_it() {
        let layout = Layout { spans: vec![span(9_000, 4096, 1), span(90_000, 4096, 3)] };
        assert_eq!((layout.period(8_999), layout.period(9_000), layout.period(99_000)), (None, Some(12_288), None));
        let at = |offset| layout.pieces(offset, 1).next().unwrap();
        let (this, next) = (at(14_000), at(14_000 + 12_288));
        assert_eq!((this.extent, this.offset + 4096), (next.extent, next.offset));
    }

    #[test]
    fn placement_reads_what_it_writes_and_refuses_the_rest() {
        for text in ["local", "node=3", "interleave=65536"] {
            assert_eq!(text.parse::<Placement>().unwrap().to_string(), text);
        }
        for text in ["", "node", "node=x", "interleave=1000", "interleave=2048", "near"] {
            assert!(text.parse::<Placement>().is_err(), "{text}");
        }
    }
}
