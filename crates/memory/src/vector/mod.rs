//! The vector kernels: what a command does to the bytes of a shape, run where the memory is.
//!
//! | file | holds |
//! |---|---|
//! | `runs` | the walk that all kernels share: a part of a stream as lines and lists of blocks |
//! | `blocks` | loops that move blocks, one for each usual length |
//! | `gather`, `copy`, `fill`, `compare`, `digest`, `reduce`, `update`, `word` | the kernels |
//! | `wide` | words of 128 bits |
//!
//! A shape's bytes in order form its *stream*. Every kernel can do a part of the stream, so that a long command is staged
//! through a small buffer. Shapes come checked; a kernel compares the limit they were checked against with its window, in
//! constant time.
//!
//! Safety invariants of this module and its files:
//!
//! 1. A block that `Runs` gives lies within its shape's limit, because only `Shape::check` makes a checked shape. `enter` has compared
//!    that limit with the window, and the part with the stream, before any pointer is formed.
//! 2. Memory is touched under a guard that covers every window which others can change; a caller's private buffers need
//!    none.
//! 3. Bytes of windows are read and written by raw pointers, or by atomics where a word is changed. No reference to them exists.

mod blocks;
mod compare;
mod copy;
mod digest;
mod fill;
mod gather;
mod reduce;
mod runs;
mod update;
mod wide;
mod word;

#[cfg(test)]
mod testing;

pub use compare::compare_part;
pub use copy::copy_shapes;
pub use digest::digest_part;
pub use fill::fill_part;
pub use gather::{gather, gather_part, scatter, scatter_part};
pub use reduce::reduce_part;
pub use update::{compare_and_swap_part, compare_and_swap_word, update_part, update_word};
pub use wide::is_here as has_wide_words;
pub use word::load_word;

use crate::guard::{Lost, Side, check_side};
use crate::window::Window;
use hanare_protocol::shape::Checked;
use runs::Runs;
use std::mem::MaybeUninit;

/// Checks that `shape` was checked against no more than `window`, and that `len` bytes at `at` lie in its stream. Panics otherwise: both
/// are errors of the caller, never of a peer. Invariant 1.
#[inline]
fn enter(window: Window, shape: &Checked<'_>, at: u64, len: u64) {
    let (limit, stream) = (shape.limit(), shape.len());
    assert!(limit <= window.len() as u64, "a shape within {limit} bytes is no shape of {} bytes", window.len());
    assert!(at <= stream && len <= stream - at, "{len} bytes at {at} leave a stream of {stream}");
}

/// **Errors**: [`Lost`] with the first lost byte of the part, counted in the window. Called when anything in the process was lost.
#[cold]
fn check_runs(side: Side, window: Window, shape: &Checked<'_>, at: u64, len: u64) -> Result<(), Lost> {
    if check_side(side, window, 0).is_ok() {
        return Ok(());
    }
    for run in Runs::new(shape, at, len) {
        for (offset, block) in run.blocks() {
            check_side(side, window.slice(offset, block), offset as u64)?;
        }
    }
    Ok(())
}

/// Counts a loss on `side` from `base` bytes further up.
fn shift(lost: Lost, side: Side, base: u64) -> Lost {
    if lost.side == side { Lost { offset: lost.offset + base, ..lost } } else { lost }
}

/// Bytes of a [`StageBytes`]: with what it is compared to or filled from, well within an L1 cache.
const STAGE_LEN: usize = 16 << 10;

/// Least length of a block, in bytes, that kernels work on where it lies. They gather shorter blocks into a stage first.
const LONG_BLOCK: u64 = 512;

/// A small buffer on the stack, through which kernels pass bytes that lie scattered.
#[repr(align(64))]
struct StageBytes([MaybeUninit<u8>; STAGE_LEN]);

impl StageBytes {
    fn new() -> StageBytes {
        StageBytes([MaybeUninit::uninit(); STAGE_LEN])
    }

    /// Its first `len` bytes; written before they are read.
    fn window(&mut self, len: usize) -> Window {
        // SAFETY: a stage lives in the kernel that made it, longer than its windows, and is used through them alone.
        unsafe { Window::new(self.0.as_mut_ptr().cast(), STAGE_LEN) }.slice(0, len)
    }

    /// Its first `len` bytes, filled with `pattern` over and over, from byte `first` of it on.
    fn tile(&mut self, pattern: &[u8], first: usize, len: usize) -> Window {
        let bytes = &mut self.0[..len];
        bytes.iter_mut().zip(pattern.iter().cycle().skip(first)).for_each(|(byte, pattern)| *byte = MaybeUninit::new(*pattern));
        self.window(len)
    }
}

/// The part of a stream in pieces of at most `len` bytes. Each has its begin, counted from the part's start, and its length.
fn pieces(part: u64, len: usize) -> impl Iterator<Item = (u64, usize)> {
    (0..part).step_by(len).map(move |done| (done, (part - done).min(len as u64) as usize))
}

#[cfg(test)]
mod tests {
    use super::testing::{Torn, window};
    use super::*;
    use hanare_protocol::element::{Element, Operator, Range, Summary};
    use hanare_protocol::shape::{Dim, Indexed, Shape, Strided, Subarray};
    use hanare_protocol::wire::command::Update;

    const LEN: usize = 16 << 10;

    /// Shapes of 16 words, with the first byte in their order that lies behind the first page.
    fn torn_shapes() -> [(Shape<'static>, u64); 4] {
        let back = Subarray::new(3000, 8, &[Dim { count: 2, stride: 3000 }, Dim { count: 8, stride: -64 }]).unwrap();
        [
            (Strided { offset: 0, block: 8, count: 16, stride: 1000 }.into(), 5000),
            (back.into(), 6000),
            (Indexed::elements(0, 8, &[1u32, 2, 1000, 3, 1000, 1200, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13][..]).into(), 8000),
            (Shape::contiguous(4000, 128), 4096),
        ]
    }

    // FEATURE: D3-F13
    #[test]
    fn what_is_lost_is_named_by_side_and_place() {
        for (shape, first) in torn_shapes() {
            let shape = shape.check("r", LEN as u64).unwrap();
            // The kernels touch what came before the loss too: each gets a file of its own.
            let torn = || Torn::new(LEN);
            let (mut flat, mut other) = (vec![0; 128], vec![0; 256]);
            let (flat, other) = (window(&mut flat), window(&mut other));
            let source = Err(Lost { side: Side::Source, offset: first });
            let target = Err(Lost { side: Side::Target, offset: first });
            let (element, all) = (Element::U64, Range::all(Element::U64));
            let update = Update { operator: Operator::Add, element, is_same: false };
            assert_eq!(gather(torn().window(), &shape, flat), source);
            assert_eq!(gather_part(torn().window(), &shape, 3, flat.slice(3, 125)), source);
            assert_eq!(scatter(flat, torn().window(), &shape), target);
            assert_eq!(fill_part(torn().window(), &shape, 0, 128, &[0]), target);
            assert_eq!(fill_part(torn().window(), &shape, 0, 128, b"abc"), target);
            assert_eq!(update_part(torn().window(), &shape, 0, 128, update, flat, None), target);
            assert_eq!(compare_and_swap_part(torn().window(), &shape, 0, 128, element, other, flat), target);
            assert_eq!(reduce_part(torn().window(), &shape, 0, 128, element, &all, &mut Summary::new(element)), source);
            let mut zeros = vec![0; 128];
            assert_eq!(compare_part(torn().window(), &shape, 0, window(&mut zeros)), source.map(|()| None));

            let whole = Shape::contiguous(0, 128).check("r", 128).unwrap();
            let blocks = Shape::from(Strided { offset: 0, block: 4, count: 32, stride: 8 }).check("r", 256).unwrap();
            assert_eq!(copy_shapes(torn().window(), &shape, flat, &whole), source);
            assert_eq!(copy_shapes(torn().window(), &shape, other, &blocks), source);
            assert_eq!(copy_shapes(flat, &whole, torn().window(), &shape), target);
            assert_eq!(copy_shapes(other, &blocks, torn().window(), &shape), target);
        }
    }

    #[test]
    fn what_is_lost_elsewhere_in_the_window_is_no_loss() {
        let torn = Torn::new(LEN);
        let memory = torn.window();
        let mut flat = vec![0; 128];
        let flat = window(&mut flat);
        let far = Shape::from(Strided { offset: 5000, block: 8, count: 16, stride: 16 }).check("r", LEN as u64).unwrap();
        let near = Shape::from(Strided { offset: 0, block: 8, count: 16, stride: 16 }).check("r", LEN as u64).unwrap();
        assert!(gather(memory, &far, flat).is_err());
        assert_eq!(gather(memory, &near, flat), Ok(()));
        assert_eq!(compare_part(memory, &near, 0, flat), Ok(None));
    }
}
