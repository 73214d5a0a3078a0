//! A part of a stream as runs, which inner loops take whole: lines of blocks at equal distance, and lists of indices.

use hanare_protocol::limits::DIM_COUNT_MAX;
use hanare_protocol::shape::{Checked, Dim, Indices, Shape, Subarray};

/// `count` blocks of `block` bytes, the first at `offset` of the window, each `step` bytes after the one before.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    pub offset: usize,
    pub block: usize,
    pub step: isize,
    pub count: usize,
}

/// Blocks of `block` bytes, number k at `offset + indices[k] * scale` of the window.
#[derive(Clone, Copy, Debug)]
pub(super) struct List<'a, I> {
    pub offset: usize,
    pub block: usize,
    pub scale: usize,
    pub indices: &'a [I],
}

/// An index of a list.
pub(super) trait Index: Copy {
    fn get(self) -> usize;
}

impl Index for u32 {
    #[inline(always)]
    fn get(self) -> usize {
        self as usize
    }
}

impl Index for u64 {
    #[inline(always)]
    fn get(self) -> usize {
        self as usize
    }
}

/// Some blocks in the order of the stream. A line without gaps is one long block.
#[derive(Clone, Copy, Debug)]
pub(super) enum Run<'a> {
    Line(Line),
    Narrow(List<'a, u32>),
    Wide(List<'a, u64>),
}

impl Run<'_> {
    /// Bytes of all blocks.
    #[inline]
    pub fn len(&self) -> usize {
        match self {
            Run::Line(line) => line.block * line.count,
            Run::Narrow(list) => list.block * list.indices.len(),
            Run::Wide(list) => list.block * list.indices.len(),
        }
    }

    /// Offset and length of each block. Not for hot loops.
    pub fn blocks(&self) -> impl Iterator<Item = (usize, usize)> {
        let count = match self {
            Run::Line(line) => line.count,
            Run::Narrow(list) => list.indices.len(),
            Run::Wide(list) => list.indices.len(),
        };
        (0..count).map(|k| match self {
            Run::Line(line) => (line.offset.wrapping_add_signed(line.step.wrapping_mul(k as isize)), line.block),
            Run::Narrow(list) => (list.offset + list.indices[k].get() * list.scale, list.block),
            Run::Wide(list) => (list.offset + list.indices[k].get() * list.scale, list.block),
        })
    }
}

/// The runs of a part of a stream, in order.
#[derive(Clone, Debug)]
pub(super) struct Runs<'a> {
    blocks: Blocks<'a>,
    block: usize,
    /// Bytes of the next block that lie before the part.
    within: usize,
    /// Bytes of the part that are still to come.
    left: usize,
}

/// Blocks from the next one on.
#[derive(Clone, Debug)]
enum Blocks<'a> {
    Strided { next: usize, stride: usize },
    Subarray(Odometer<'a>),
    Narrow { offset: usize, scale: usize, indices: &'a [u32] },
    Wide { offset: usize, scale: usize, indices: &'a [u64] },
}

impl<'a> Runs<'a> {
    /// The runs of `len` bytes from byte `at` of a shape's stream, which has them.
    pub fn new(shape: &'a Checked<'_>, at: u64, len: u64) -> Runs<'a> {
        if len == 0 {
            return Runs { blocks: Blocks::Strided { next: 0, stride: 0 }, block: 0, within: 0, left: 0 };
        }
        let block = shape.shape().block();
        let (number, within) = if at == 0 { (0, 0) } else { (at / block, at % block) };
        let blocks = match shape.shape() {
            Shape::Strided(shape) => {
                let next = shape.offset + number * shape.stride;
                Blocks::Strided { next: next as usize, stride: shape.stride as usize }
            }
            Shape::Subarray(shape) => Blocks::Subarray(Odometer::new(shape, number)),
            Shape::Indexed(shape) => {
                let (offset, scale, first) = (shape.offset as usize, shape.scale as usize, number as usize);
                match &shape.indices {
                    Indices::Narrow(list) => Blocks::Narrow { offset, scale, indices: &list[first..] },
                    Indices::Wide(list) => Blocks::Wide { offset, scale, indices: &list[first..] },
                }
            }
        };
        Runs { blocks, block: block as usize, within: within as usize, left: len as usize }
    }

    /// The rest of a block, or its beginning, where the part cuts it.
    fn cut_block(&mut self) -> Run<'a> {
        let len = (self.block - self.within).min(self.left);
        let offset = self.blocks.take_one() + self.within;
        (self.within, self.left) = (0, self.left - len);
        Run::Line(Line { offset, block: len, step: 0, count: 1 })
    }
}

impl<'a> Iterator for Runs<'a> {
    type Item = Run<'a>;

    #[inline]
    fn next(&mut self) -> Option<Run<'a>> {
        if self.left == 0 {
            return None;
        }
        if self.within > 0 || self.left < self.block {
            return Some(self.cut_block());
        }
        let most = if self.left == self.block { 1 } else { self.left / self.block };
        let run = self.blocks.take(most, self.block);
        self.left -= run.len();
        Some(run)
    }
}

impl<'a> Blocks<'a> {
    /// The next run of at most `most` blocks.
    #[inline]
    fn take(&mut self, most: usize, block: usize) -> Run<'a> {
        let (offset, step, count) = match self {
            Blocks::Strided { next, stride } => {
                let first = *next;
                *next = first.wrapping_add(stride.wrapping_mul(most));
                (first, *stride as isize, most)
            }
            Blocks::Subarray(odometer) => odometer.take(most),
            Blocks::Narrow { offset, scale, indices } => {
                let (front, rest) = indices.split_at(most);
                *indices = rest;
                return Run::Narrow(List { offset: *offset, block, scale: *scale, indices: front });
            }
            Blocks::Wide { offset, scale, indices } => {
                let (front, rest) = indices.split_at(most);
                *indices = rest;
                return Run::Wide(List { offset: *offset, block, scale: *scale, indices: front });
            }
        };
        if step == block as isize {
            return Run::Line(Line { offset, block: block * count, step: 0, count: 1 });
        }
        Run::Line(Line { offset, block, step, count })
    }

    /// Offset of the next block.
    fn take_one(&mut self) -> usize {
        match self.take(1, 0) {
            Run::Line(line) => line.offset,
            Run::Narrow(list) => list.offset + list.indices[0].get() * list.scale,
            Run::Wide(list) => list.offset + list.indices[0].get() * list.scale,
        }
    }
}

/// The place in a sub-array: a digit for each dimension.
#[derive(Clone, Debug)]
struct Odometer<'a> {
    dims: &'a [Dim],
    digits: [u64; DIM_COUNT_MAX],
    /// Offset of the block of these digits.
    next: usize,
}

impl<'a> Odometer<'a> {
    fn new(shape: &'a Subarray, mut number: u64) -> Odometer<'a> {
        let mut odometer = Odometer { dims: shape.dims(), digits: [0; DIM_COUNT_MAX], next: shape.offset() as usize };
        for (digit, dim) in odometer.digits.iter_mut().zip(odometer.dims).rev() {
            if number == 0 {
                break;
            }
            *digit = number % dim.count;
            number /= dim.count;
            odometer.next = odometer.next.wrapping_add_signed((*digit as i64).wrapping_mul(dim.stride) as isize);
        }
        odometer
    }

    /// At most `most` blocks of the fastest dimension: the first's offset, the step, and how many.
    #[inline]
    fn take(&mut self, most: usize) -> (usize, isize, usize) {
        let (first, Some(fastest)) = (self.next, self.dims.len().checked_sub(1)) else { return (self.next, 0, 1) };
        let dim = self.dims[fastest];
        let count = ((dim.count - self.digits[fastest]) as usize).min(most);
        self.digits[fastest] += count as u64;
        self.next = first.wrapping_add_signed((dim.stride as isize).wrapping_mul(count as isize));
        // Every digit that is full goes back to zero, and the next slower one takes a step.
        let mut place = fastest;
        while self.digits[place] == self.dims[place].count && place > 0 {
            let Dim { count, stride } = self.dims[place];
            self.digits[place] = 0;
            self.digits[place - 1] += 1;
            let step = self.dims[place - 1].stride.wrapping_sub(stride.wrapping_mul(count as i64));
            self.next = self.next.wrapping_add_signed(step as isize);
            place -= 1;
        }
        (first, dim.stride as isize, count)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{bytes_of, parts, shapes};
    use super::*;
    use proptest::prelude::*;

    proptest! {
        // FEATURE: D3-F13
        #[test]
        fn runs_are_the_stream(shape in shapes(1), cuts in parts()) {
            let wanted = bytes_of(&shape);
            let mut seen = Vec::new();
            for (at, len) in cuts.of(shape.len()) {
                for run in Runs::new(&shape, at, len) {
                    let before = seen.len();
                    seen.extend(run.blocks().flat_map(|(offset, block)| offset..offset + block));
                    prop_assert_eq!(run.len(), seen.len() - before);
                }
            }
            prop_assert_eq!(seen, wanted);
        }
    }
}
