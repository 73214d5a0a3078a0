//! Gather and scatter: a shape's stream to a flat range, and back.
//!
//! Safety invariants: those of the folder.

use super::blocks::{gather_run, scatter_run};
use super::runs::Runs;
use super::{check_runs, enter, shift};
use crate::guard::{Lost, Side, check_side, copy, guarded, is_any_lost};
use crate::window::Window;
use hanare_protocol::shape::Checked;

/// Gathers all of `shape`'s stream in `from` into `into`, which has exactly its length.
///
/// **Cost**: one copy. **Errors**: [`Lost`], counted in `from` or `into`. Panics where the shape was checked against more
/// bytes than `from` has. Where `from` and `into` overlap in memory, what arrives is some mixture.
pub fn gather(from: Window, shape: &Checked<'_>, into: Window) -> Result<(), Lost> {
    assert_eq!(shape.len(), into.len() as u64, "a gather fills its target");
    gather_part(from, shape, 0, into)
}

/// Gathers `into.len()` bytes of `shape`'s stream, beginning at byte `at` of it.
///
/// **Cost**, **Errors**: as [`gather`].
#[inline]
pub fn gather_part(from: Window, shape: &Checked<'_>, at: u64, into: Window) -> Result<(), Lost> {
    enter(from, shape, at, into.len() as u64);
    if let Some((offset, _)) = shape.range() {
        let base = offset + at;
        return copy(from.slice(base as usize, into.len()), into).map_err(|lost| shift(lost, Side::Source, base));
    }
    gather_blocks(from, shape, at, into)
}

fn gather_blocks(from: Window, shape: &Checked<'_>, at: u64, into: Window) -> Result<(), Lost> {
    let runs = Runs::new(shape, at, into.len() as u64);
    guarded(from.range(), into.range(), || {
        let mut flat = into.ptr();
        for run in runs {
            // SAFETY: the run lies in `from` (invariant 1), all runs together have as many bytes as `into`, and the guard
            // covers both (invariant 2).
            unsafe { gather_run(from.ptr(), &run, flat) };
            flat = flat.wrapping_add(run.len());
        }
    });
    if !is_any_lost() {
        return Ok(());
    }
    check_runs(Side::Source, from, shape, at, into.len() as u64)?;
    check_side(Side::Target, into, 0)
}

/// Scatters `from`, which has exactly its length, to all of `shape`'s stream in `to`. Of several writes to a byte the last in
/// order stays.
///
/// **Cost**, **Errors**: as [`gather`].
pub fn scatter(from: Window, to: Window, shape: &Checked<'_>) -> Result<(), Lost> {
    assert_eq!(shape.len(), from.len() as u64, "a scatter uses its source up");
    scatter_part(from, to, shape, 0)
}

/// Scatters `from` to `from.len()` bytes of `shape`'s stream in `to`, beginning at byte `at` of it.
///
/// **Cost**, **Errors**: as [`gather`].
#[inline]
pub fn scatter_part(from: Window, to: Window, shape: &Checked<'_>, at: u64) -> Result<(), Lost> {
    enter(to, shape, at, from.len() as u64);
    if let Some((offset, _)) = shape.range() {
        let base = offset + at;
        return copy(from, to.slice(base as usize, from.len())).map_err(|lost| shift(lost, Side::Target, base));
    }
    scatter_blocks(from, to, shape, at)
}

fn scatter_blocks(from: Window, to: Window, shape: &Checked<'_>, at: u64) -> Result<(), Lost> {
    let runs = Runs::new(shape, at, from.len() as u64);
    guarded(from.range(), to.range(), || {
        let mut flat = from.ptr().cast_const();
        for run in runs {
            // SAFETY: as in `gather_blocks`.
            unsafe { scatter_run(flat, to.ptr(), &run) };
            flat = flat.wrapping_add(run.len());
        }
    });
    if !is_any_lost() {
        return Ok(());
    }
    check_side(Side::Source, from, 0)?;
    check_runs(Side::Target, to, shape, at, from.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{LEN, bytes_of, noise, parts, shapes, stream, window};
    use super::*;
    use hanare_protocol::shape::{Indexed, Shape, Strided};
    use proptest::prelude::*;

    /// Result of a scatter, the slow way.
    fn scattered(flat: &[u8], shape: &Checked<'_>) -> Vec<u8> {
        let mut bytes = vec![0xee; LEN];
        bytes_of(shape).into_iter().zip(flat).for_each(|(at, byte)| bytes[at] = *byte);
        bytes
    }

    proptest! {
        // FEATURE: D2-F11
        // FEATURE: D3-F13
        #[test]
        fn gather_and_scatter_equal_slices(shape in shapes(1)) {
            let mut table = noise(LEN);
            let wanted = stream(&table, &shape);
            let mut flat = vec![0; wanted.len()];
            gather(window(&mut table), &shape, window(&mut flat)).unwrap();
            prop_assert_eq!(&flat, &wanted);

            let mut flat: Vec<u8> = noise(flat.len()).iter().map(|byte| !byte).collect();
            let mut other = vec![0xee; LEN];
            scatter(window(&mut flat), window(&mut other), &shape).unwrap();
            prop_assert_eq!(other, scattered(&flat, &shape));
        }

        #[test]
        fn parts_make_up_the_whole(shape in shapes(1), cuts in parts()) {
            let mut table = noise(LEN);
            let wanted = stream(&table, &shape);
            let (mut flat, mut other) = (vec![0; wanted.len()], vec![0xee; LEN]);
            let (table, flat_window, other_window) = (window(&mut table), window(&mut flat), window(&mut other));
            for (at, len) in cuts.of(shape.len()) {
                let part = flat_window.slice(at as usize, len as usize);
                gather_part(table, &shape, at, part).unwrap();
                scatter_part(part, other_window, &shape, at).unwrap();
            }
            prop_assert_eq!(other, scattered(&wanted, &shape));
            prop_assert_eq!(flat, wanted);
        }
    }

    #[test]
    fn a_shape_beyond_its_window_is_a_programmer_error() {
        let shape = Shape::from(Strided { offset: 0, block: 8, count: 3, stride: 16 }).check("r", 40).unwrap();
        let (mut table, mut flat) = (vec![0; 39], vec![0; 24]);
        let (table, flat) = (window(&mut table), window(&mut flat));
        assert!(std::panic::catch_unwind(|| gather(table, &shape, flat)).is_err());
        let whole = Shape::contiguous(0, 24).check("r", 24).unwrap();
        assert!(std::panic::catch_unwind(|| gather_part(flat, &whole, 20, flat.slice(0, 5))).is_err());
        assert!(std::panic::catch_unwind(|| scatter_part(flat.slice(0, 5), flat, &whole, 20)).is_err());
    }

    #[test]
    fn many_lines_at_random_places_arrive_whole() {
        const COUNT: usize = (4 << 20) / 64 + 5;
        let indices: Vec<u32> = (0..COUNT as u32).map(|k| k.wrapping_mul(2_654_435_761) >> 23).collect();
        let mut table = noise(64 * 512);
        let shape = Shape::from(Indexed::elements(0, 64, &indices[..])).check("r", 64 * 512).unwrap();
        let wanted = stream(&table, &shape);
        // At a multiple of 64, and off it.
        for off in [0, 1, 16] {
            let mut flat = vec![0; wanted.len() + 128];
            let start = flat.as_ptr().align_offset(64) + off;
            gather(window(&mut table), &shape, window(&mut flat[start..][..wanted.len()])).unwrap();
            assert!(flat[start..][..wanted.len()] == wanted, "off by {off}");
        }
    }
}
