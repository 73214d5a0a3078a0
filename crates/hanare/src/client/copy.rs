//! Copies from region to region.
//!
//! Runs that lie on one node become one pair of commands there. Runs between two nodes pass through this client's
//! memory in pieces, until nodes copy to each other.

use super::drafts::{Drafts, Tickets};
use super::plan::{Part, parts};
use super::region::Region;
use hanare_memory::Window;
use hanare_protocol::place::Layout;
use hanare_protocol::shape::Strided;
use hanare_protocol::wire::command::Op;
use hanare_protocol::{Error, Result};

/// Bytes that pass through the client at once.
const PIECE_LEN: u64 = 1 << 20;

/// A run of bytes that is one shape on one extent at either side.
struct Run {
    from: Part,
    to: Part,
}

pub(crate) fn copy(from: &Region, from_shape: Strided, to: &Region, to_shape: Strided) -> Result<()> {
    let len = from_shape.check(from.name(), from.len())?;
    if to_shape.check(to.name(), to.len())? != len {
        return Err(Error::BadShape {
            region: to.name().to_owned(),
            block: to_shape.block,
            count: to_shape.count,
            stride: to_shape.stride,
            reason: format!("the source has {len} bytes, this has another number"),
        });
    }
    from.check(Op::CopyFrom, from_shape, len as usize)?;
    to.check(Op::CopyTo, to_shape, len as usize)?;
    let mut drafts = Drafts::default();
    let mut tickets = Tickets::default();
    for run in runs(from.layout(), from_shape, to.layout(), to_shape) {
        let (_, from_command) = from.command(Op::CopyFrom, &run.from);
        let (target, to_command) = to.command(Op::CopyTo, &run.to);
        if from_command.node == to_command.node {
            drafts.push_pair(&target, &from_command, &to_command);
        } else {
            through_client(from, to, run)?;
        }
    }
    // SAFETY: copies have no memory of ours.
    let posted = unsafe { drafts.post(&mut tickets) };
    let waited = tickets.wait();
    posted.and(waited)
}

/// The runs of a copy: one where both sides are the same blocks on one extent each, else contiguous ones cut at both sides' borders.
fn runs(from: &Layout, from_shape: Strided, to: &Layout, to_shape: Strided) -> Box<dyn Iterator<Item = Run>> {
    // Adjacent blocks have become one by now, so it is the parts that must be alike.
    if let (Some(from), Some(to)) = (single(from, from_shape), single(to, to_shape))
        && from.shape.block == to.shape.block
    {
        return Box::new(std::iter::once(Run { from, to }));
    }
    let mut sources = blocks(from, from_shape).into_iter().peekable();
    let mut targets = blocks(to, to_shape).into_iter().peekable();
    Box::new(std::iter::from_fn(move || {
        let (source, target) = (sources.peek_mut()?, targets.peek_mut()?);
        let len = source.len.min(target.len);
        let run = Run { from: take(source, len), to: take(target, len) };
        sources.next_if(|source| source.len == 0);
        targets.next_if(|target| target.len == 0);
        Some(run)
    }))
}

/// The shape's only part, if it has just one.
fn single(layout: &Layout, shape: Strided) -> Option<Part> {
    let mut parts = parts(layout, shape);
    parts.next().filter(|_| parts.next().is_none())
}

/// The contiguous blocks of a shape's parts. **Cost**: memory in proportion to their number.
fn blocks(layout: &Layout, shape: Strided) -> Vec<Part> {
    let mut all = Vec::new();
    for part in parts(layout, shape) {
        let mut at = part.at;
        for (offset, len) in part.shape.blocks() {
            all.push(Part { extent: part.extent, shape: Strided::contiguous(offset, len), at, len });
            at += len;
        }
    }
    all
}

/// Takes the first `len` bytes off a contiguous part.
fn take(part: &mut Part, len: u64) -> Part {
    let taken = Part { shape: Strided::contiguous(part.shape.offset, len), len, ..*part };
    part.shape = Strided::contiguous(part.shape.offset + len, part.len - len);
    part.at += len;
    part.len -= len;
    taken
}

/// Copies a run between two nodes by get and put, a piece at a time.
fn through_client(from: &Region, to: &Region, run: Run) -> Result<()> {
    let block = run.from.shape.block.max(1);
    let blocks_at_once = (PIECE_LEN / block).max(1);
    let mut buffer = Vec::new();
    for first in (0..run.from.shape.count).step_by(blocks_at_once as usize) {
        let count = blocks_at_once.min(run.from.shape.count - first);
        for within in (0..block).step_by(PIECE_LEN as usize) {
            let len = (block - within).min(PIECE_LEN);
            let piece = |part: &Part| {
                let Strided { offset, stride, .. } = part.shape;
                let shape = Strided { offset: offset + first * stride + within, block: len, count, stride };
                Part { shape, len: len * count, ..*part }
            };
            buffer.resize((len * count) as usize, 0);
            transfer(from, Op::Get, &piece(&run.from), &mut buffer)?;
            transfer(to, Op::Put, &piece(&run.to), &mut buffer)?;
        }
    }
    Ok(())
}

fn transfer(region: &Region, op: Op, part: &Part, buffer: &mut [u8]) -> Result<()> {
    let (remote, command) = region.command(op, part);
    let (mut drafts, mut tickets) = (Drafts::default(), Tickets::default());
    // SAFETY: the buffer is borrowed until this returns, and the tickets are waited for before it does.
    let posted = unsafe {
        drafts.push(&remote, &command, Some(Window::of_mut(buffer)));
        drafts.post(&mut tickets)
    };
    let waited = tickets.wait();
    posted.and(waited)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hanare_protocol::id::{NodeId, Slot};
    use hanare_protocol::place::{Extent, Span};
    use proptest::prelude::*;

    fn layout(len: u64, nodes: u32) -> Layout {
        let extents =
            Span::shares(len, 4096, u64::from(nodes)).map(|len| Extent { node: NodeId(0), slot: Slot(0), len }).collect();
        Layout { spans: vec![Span { len, chunk: 4096, extents }] }
    }

    /// The bytes of parts in order, as (extent, offset).
    fn bytes(parts: impl Iterator<Item = Part>) -> Vec<(usize, u64)> {
        parts
            .flat_map(|part| part.shape.blocks().flat_map(move |(at, len)| (at..at + len).map(move |byte| (part.extent, byte))))
            .collect()
    }

    #[test]
    fn adjacent_blocks_on_one_side_alone_are_cut_like_the_other_side() {
        let layout = layout(100, 1);
        let (packed, spread) =
            (Strided { offset: 5, block: 1, count: 2, stride: 1 }, Strided { offset: 9, block: 1, count: 2, stride: 8 });
        for (from, to) in [(packed, spread), (spread, packed)] {
            let all: Vec<Run> = runs(&layout, from, &layout, to).collect();
            assert_eq!(bytes(all.iter().map(|run| run.from)), bytes(parts(&layout, from)));
            assert!(
                all.iter().all(|run| (run.from.shape.block, run.from.shape.count) == (run.to.shape.block, run.to.shape.count))
            );
        }
    }

    proptest! {
        #[test]
        fn runs_pair_every_byte_with_its_own(from_nodes in 1u32..4, to_nodes in 1u32..4, block in 1u64..3000, count in 1u64..6, gap in 0u64..500, flat: bool) {
            let from_shape = Strided { offset: 5, block, count, stride: block + gap };
            let to_shape = if flat { Strided::contiguous(9, block * count) } else { Strided { offset: 9, block, count, stride: block + 7 } };
            let (from, to) = (layout(30_000, from_nodes), layout(30_000, to_nodes));
            let all: Vec<Run> = runs(&from, from_shape, &to, to_shape).collect();
            let pair = |part: &Part| (part.len, part.shape.block, part.shape.count);
            prop_assert!(all.iter().all(|run| pair(&run.from) == pair(&run.to)));
            prop_assert_eq!(bytes(all.iter().map(|run| run.from)), bytes(parts(&from, from_shape)));
            prop_assert_eq!(bytes(all.iter().map(|run| run.to)), bytes(parts(&to, to_shape)));
        }
    }
}
