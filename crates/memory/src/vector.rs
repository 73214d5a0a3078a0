//! The vector kernels: blocks at equal distance gathered into a contiguous range, scattered from one, or copied
//! between two shapes. Indexed kernels join here.
//!
//! A shape's bytes in order form its *stream*. Every kernel can do a part of the stream, so that a long command is
//! staged through a small buffer.
//!
//! Safety invariants of this module:
//!
//! 1. A shape is checked against its window before any pointer is formed from it.
//! 2. Inner loops touch only blocks of checked shapes and the contiguous window, under a guard that covers both.
//!
//! No vector instructions: copies are bound by memory, and the compiler's moves of 4, 8, 16 and 64 bytes are as fast
//! as written-out ones.

use crate::guard::{Lost, Side, check_side, copy, guarded, is_any_lost};
use crate::window::Window;
use hanare_protocol::shape::Strided;

/// Gathers all of `shape`'s bytes in `from` into `into`, which has exactly their length.
///
/// **Cost**: one copy. **Errors**: [`Lost`], counted in `from` or `into`. Panics where the shape leaves its window:
/// shapes from a peer are checked before.
pub fn gather(from: Window, shape: &Strided, into: Window) -> Result<(), Lost> {
    assert_eq!(stream_len(from, shape), into.len(), "a gather fills its target");
    gather_part(from, shape, 0, into)
}

/// Gathers `into.len()` bytes of `shape`'s stream, beginning at byte `at` of it.
pub fn gather_part(from: Window, shape: &Strided, at: usize, into: Window) -> Result<(), Lost> {
    walk(from, shape, at, into, Way::Gather)
}

/// Scatters `from`, which has exactly their length, to all of `shape`'s bytes in `to`.
///
/// **Cost**, **Errors**: as [`gather`].
pub fn scatter(from: Window, to: Window, shape: &Strided) -> Result<(), Lost> {
    assert_eq!(stream_len(to, shape), from.len(), "a scatter uses its source up");
    scatter_part(from, to, shape, 0)
}

/// Scatters `from` to `from.len()` bytes of `shape`'s stream in `to`, beginning at byte `at` of it.
pub fn scatter_part(from: Window, to: Window, shape: &Strided, at: usize) -> Result<(), Lost> {
    walk(to, shape, at, from, Way::Scatter)
}

/// Copies the bytes of one shape to another of as many bytes; block sizes may differ.
///
/// **Cost**: one copy. **Errors**: as [`gather`]. Where the two overlap in memory, what arrives there is some mixture.
pub fn copy_strided(from: Window, source: &Strided, to: Window, target: &Strided) -> Result<(), Lost> {
    let len = stream_len(from, source);
    assert_eq!(len, stream_len(to, target), "a copy has two sides of one length");
    if len == 0 {
        return Ok(());
    }
    if source.block == target.block {
        return copy_equal(from, source, to, target);
    }
    let mut at = 0;
    // Runs of the shape with the larger blocks are contiguous, so the other shape's kernel does them whole.
    let (from_wide, wide) = if source.block >= target.block { (true, source) } else { (false, target) };
    for (offset, block) in wide.blocks() {
        let (offset, block) = (offset as usize, block as usize);
        if from_wide {
            scatter_part(from.slice(offset, block), to, target, at).map_err(|lost| shift(lost, Side::Source, offset))?;
        } else {
            gather_part(from, source, at, to.slice(offset, block)).map_err(|lost| shift(lost, Side::Target, offset))?;
        }
        at += block;
    }
    Ok(())
}

/// Copies block by block between shapes of equal blocks, which have some bytes.
fn copy_equal(from: Window, source: &Strided, to: Window, target: &Strided) -> Result<(), Lost> {
    let (block, count) = (source.block as usize, source.count as usize);
    let (from_step, to_step) = (source.stride as usize, target.stride as usize);
    let from_span = from.slice(source.offset as usize, (count - 1) * from_step + block);
    let to_span = to.slice(target.offset as usize, (count - 1) * to_step + block);
    guarded(from_span.range(), to_span.range(), || {
        // SAFETY: both shapes were checked (invariant 1), and the guard covers their spans (invariant 2).
        unsafe { move_blocks(Steps { from: from_span.ptr(), from_step, to: to_span.ptr(), to_step, block, count }) }
    });
    if !is_any_lost() {
        return Ok(());
    }
    for k in 0..count {
        check_side(Side::Source, from_span.slice(k * from_step, block), source.offset + (k * from_step) as u64)?;
        check_side(Side::Target, to_span.slice(k * to_step, block), target.offset + (k * to_step) as u64)?;
    }
    Ok(())
}

fn shift(lost: Lost, side: Side, offset: usize) -> Lost {
    if lost.side == side { Lost { offset: lost.offset + offset as u64, ..lost } } else { lost }
}

#[derive(Clone, Copy, PartialEq)]
enum Way {
    Gather,
    Scatter,
}

impl Way {
    fn strided_side(self) -> Side {
        if self == Way::Gather { Side::Source } else { Side::Target }
    }

    fn flat_side(self) -> Side {
        if self == Way::Gather { Side::Target } else { Side::Source }
    }
}

/// The bytes of a shape, after checking that it lies in `window` (invariant 1).
fn stream_len(window: Window, shape: &Strided) -> usize {
    let len = shape.check("", window.len() as u64);
    len.unwrap_or_else(|error| panic!("unchecked shape: {error}")) as usize
}

/// Moves `flat.len()` bytes between the stream of `shape` in `window`, from byte `at` on, and `flat`.
fn walk(window: Window, shape: &Strided, at: usize, flat: Window, way: Way) -> Result<(), Lost> {
    let len = stream_len(window, shape);
    assert!(at <= len && flat.len() <= len - at, "{} bytes at {at} leave a stream of {len}", flat.len());
    if flat.is_empty() {
        return Ok(());
    }
    if shape.is_contiguous() {
        let run = window.slice(shape.offset as usize + at, flat.len());
        let moved = if way == Way::Gather { copy(run, flat) } else { copy(flat, run) };
        return moved.map_err(|lost| shift(lost, way.strided_side(), shape.offset as usize + at));
    }
    let block = shape.block as usize;
    let front = (block - at % block) % block;
    let front = front.min(flat.len());
    let whole = (flat.len() - front) / block;
    part_of_block(window, shape, at, flat.slice(0, front), way)?;
    let first = (at + front) / block;
    whole_blocks(window, shape, first, flat.slice(front, whole * block), way)
        .map_err(|lost| shift(lost, way.flat_side(), front))?;
    let done = front + whole * block;
    part_of_block(window, shape, at + done, flat.slice(done, flat.len() - done), way)
        .map_err(|lost| shift(lost, way.flat_side(), done))
}

/// Moves less than a block, at byte `at` of the stream.
fn part_of_block(window: Window, shape: &Strided, at: usize, flat: Window, way: Way) -> Result<(), Lost> {
    if flat.is_empty() {
        return Ok(());
    }
    let (index, within) = (at as u64 / shape.block, at as u64 % shape.block);
    let offset = (shape.offset + index * shape.stride + within) as usize;
    let run = window.slice(offset, flat.len());
    let moved = if way == Way::Gather { copy(run, flat) } else { copy(flat, run) };
    moved.map_err(|lost| shift(lost, way.strided_side(), offset))
}

/// Moves whole blocks, the first of them number `first` of the shape.
fn whole_blocks(window: Window, shape: &Strided, first: usize, flat: Window, way: Way) -> Result<(), Lost> {
    let (block, stride) = (shape.block as usize, shape.stride as usize);
    let count = flat.len() / block;
    if count == 0 {
        return Ok(());
    }
    let start = shape.offset as usize + first * stride;
    let span = window.slice(start, (count - 1) * stride + block);
    let (strided_range, flat_range) = (span.range(), flat.range());
    match way {
        Way::Gather => guarded(strided_range, flat_range, || {
            // SAFETY: both ranges lie in windows, the shape was checked (invariant 1), and the guard covers both
            // (invariant 2).
            unsafe { move_blocks(Steps { from: span.ptr(), from_step: stride, to: flat.ptr(), to_step: block, block, count }) }
        }),
        Way::Scatter => guarded(flat_range, strided_range, || {
            // SAFETY: as above.
            unsafe { move_blocks(Steps { from: flat.ptr(), from_step: block, to: span.ptr(), to_step: stride, block, count }) }
        }),
    }
    if is_any_lost() { check_blocks(span, start, stride, flat, block, way) } else { Ok(()) }
}

#[cold]
fn check_blocks(span: Window, start: usize, stride: usize, flat: Window, block: usize, way: Way) -> Result<(), Lost> {
    for k in 0..flat.len() / block {
        check_side(way.strided_side(), span.slice(k * stride, block), (start + k * stride) as u64)?;
    }
    check_side(way.flat_side(), flat, 0)
}

/// `count` blocks, each side with its own distance from one to the next.
#[derive(Clone, Copy)]
struct Steps {
    from: *const u8,
    from_step: usize,
    to: *mut u8,
    to_step: usize,
    block: usize,
    count: usize,
}

/// # Safety
/// All blocks of both sides lie in windows.
unsafe fn move_blocks(steps: Steps) {
    // SAFETY: passed on.
    unsafe {
        match steps.block {
            4 => move_sized::<4>(steps),
            8 => move_sized::<8>(steps),
            16 => move_sized::<16>(steps),
            64 => move_sized::<64>(steps),
            block => {
                for k in 0..steps.count {
                    std::ptr::copy(steps.from.add(k * steps.from_step), steps.to.add(k * steps.to_step), block);
                }
            }
        }
    }
}

/// # Safety
/// As [`move_blocks`], and `steps.block == LEN`.
#[inline(always)]
unsafe fn move_sized<const LEN: usize>(steps: Steps) {
    let Steps { mut from, mut to, .. } = steps;
    for _ in 0..steps.count {
        // SAFETY: passed on; the block is read whole before it is written, so overlap does no harm. Stepping past the
        // last block is done without claiming that the address is inside anything.
        unsafe { to.cast::<[u8; LEN]>().write_unaligned(from.cast::<[u8; LEN]>().read_unaligned()) };
        from = from.wrapping_add(steps.from_step);
        to = to.wrapping_add(steps.to_step);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn shapes(limit: u64) -> impl Strategy<Value = Strided> {
        let block = prop_oneof![Just(4u64), Just(8), Just(16), Just(64), 1..100u64];
        (0..50u64, block, 0..40u64, 0..90u64)
            .prop_map(|(offset, block, count, gap)| Strided { offset, block, count, stride: block + gap })
            .prop_filter("inside", move |shape| shape.check("r", limit).is_ok())
    }

    fn noise(len: usize) -> Vec<u8> {
        (0..len).map(|k| (k as u32).wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect()
    }

    /// The stream of a shape, the slow way.
    fn stream(bytes: &[u8], shape: &Strided) -> Vec<u8> {
        (0..shape.count)
            .flat_map(|k| &bytes[(shape.offset + k * shape.stride) as usize..][..shape.block as usize])
            .copied()
            .collect()
    }

    fn window(bytes: &mut [u8]) -> Window {
        // SAFETY: every test keeps its buffers, and leaves them alone while it uses their windows.
        unsafe { Window::of_mut(bytes) }
    }

    const LEN: usize = 4000;

    proptest! {
        // FEATURE: D2-F11
        #[test]
        fn gather_and_scatter_equal_slices(shape in shapes(LEN as u64)) {
            let mut table = noise(LEN);
            let wanted = stream(&table, &shape);
            let mut flat = vec![0; wanted.len()];
            gather(window(&mut table), &shape, window(&mut flat)).unwrap();
            prop_assert_eq!(&flat, &wanted);

            let mut other = vec![0; LEN];
            scatter(window(&mut flat), window(&mut other), &shape).unwrap();
            prop_assert_eq!(stream(&other, &shape), wanted);
            prop_assert_eq!(other.iter().map(|b| u64::from(*b)).sum::<u64>(), flat.iter().map(|b| u64::from(*b)).sum::<u64>(), "nothing between the blocks");
        }

        #[test]
        fn parts_make_up_the_whole(shape in shapes(LEN as u64), stage in 1..300usize) {
            let mut table = noise(LEN);
            let wanted = stream(&table, &shape);
            let (mut flat, mut other) = (vec![0; wanted.len()], vec![0; LEN]);
            let (table, flat_window, other_window) = (window(&mut table), window(&mut flat), window(&mut other));
            for at in (0..wanted.len()).step_by(stage) {
                let part = flat_window.slice(at, stage.min(wanted.len() - at));
                gather_part(table, &shape, at, part).unwrap();
                scatter_part(part, other_window, &shape, at).unwrap();
            }
            prop_assert_eq!(stream(&other, &shape), wanted.clone());
            prop_assert_eq!(flat, wanted);
        }

        #[test]
        fn shapes_of_other_blocks_copy_into_each_other(source in shapes(LEN as u64), block in 1..64u64, gap in 0..9u64, same: bool) {
            let block = if same { source.block } else { block };
            let len = source.block * source.count;
            prop_assume!(len.is_multiple_of(block));
            let target = Strided { offset: 3, block, count: len / block, stride: block + gap };
            let (mut table, mut other) = (noise(LEN), vec![0; 3 + (len / block * (block + gap)) as usize]);
            copy_strided(window(&mut table), &source, window(&mut other), &target).unwrap();
            prop_assert_eq!(stream(&other, &target), stream(&table, &source));
        }
    }

    #[test]
    fn a_shape_beyond_its_window_is_a_programmer_error() {
        let shape = Strided { offset: 0, block: 8, count: 3, stride: 16 };
        let (mut table, mut flat) = (vec![0; 39], vec![0; 24]);
        let (table, flat) = (window(&mut table), window(&mut flat));
        assert!(std::panic::catch_unwind(|| gather(table, &shape, flat)).is_err());
        assert!(std::panic::catch_unwind(|| gather_part(flat, &Strided::contiguous(0, 24), 20, flat.slice(0, 5))).is_err());
    }
}
