//! Compare: where a stream first differs from flat bytes.
//!
//! Safety invariants: those of the folder.

use super::gather::gather_part;
use super::runs::Runs;
use super::{LONG_BLOCK, STAGE_LEN, StageBytes, enter, pieces, shift};
use crate::guard::{Lost, Side, check_side, guarded, is_any_lost};
use crate::window::Window;
use hanare_protocol::shape::Checked;

/// The position in `shape`'s stream of the first byte that differs from `bytes`. `bytes` are compared from byte `at` of the stream on.
///
/// **Cost**: one read of each, up to the first difference. **Errors**: [`Lost`]; the shape's window is the source, `bytes`
/// count as the target. Bytes that others change meanwhile may be seen as they were or as they are.
pub fn compare_part(from: Window, shape: &Checked<'_>, at: u64, bytes: Window) -> Result<Option<u64>, Lost> {
    enter(from, shape, at, bytes.len() as u64);
    if shape.shape().block() >= LONG_BLOCK || shape.range().is_some() {
        return compare_blocks(from, shape, at, bytes);
    }
    let mut stage = StageBytes::new();
    for (done, len) in pieces(bytes.len() as u64, STAGE_LEN) {
        let staged = stage.window(len);
        gather_part(from, shape, at + done, staged)?;
        let difference = difference(staged, bytes.slice(done as usize, len)).map_err(|lost| shift(lost, Side::Target, done))?;
        if let Some(difference) = difference {
            return Ok(Some(at + done + difference as u64));
        }
    }
    Ok(None)
}

fn compare_blocks(from: Window, shape: &Checked<'_>, at: u64, bytes: Window) -> Result<Option<u64>, Lost> {
    let mut done = 0;
    for run in Runs::new(shape, at, bytes.len() as u64) {
        for (offset, block) in run.blocks() {
            let found = difference(from.slice(offset, block), bytes.slice(done, block));
            let found = found.map_err(|lost| shift(shift(lost, Side::Source, offset as u64), Side::Target, done as u64))?;
            if let Some(difference) = found {
                return Ok(Some(at + (done + difference) as u64));
            }
            done += block;
        }
    }
    Ok(None)
}

/// Offset of the first difference of two windows of the same length.
fn difference(from: Window, other: Window) -> Result<Option<usize>, Lost> {
    let mut found = None;
    guarded(from.range(), other.range(), || {
        // SAFETY: both windows have `from.len()` bytes, and the guard covers them (invariant 2).
        found = unsafe { first_difference(from.ptr(), other.ptr(), from.len()) };
    });
    if is_any_lost() {
        // Bytes behind the difference were not looked at, and may be lost.
        let seen = found.map_or(from.len(), |found| found + 1);
        check_side(Side::Source, from.slice(0, seen), 0)?;
        check_side(Side::Target, other.slice(0, seen), 0)?;
    }
    Ok(found)
}

/// Bytes compared by the C library at once, before the place of a difference is looked for.
const STEP_LEN: usize = 4096;

/// # Safety
/// Both ranges of `len` bytes lie in windows.
unsafe fn first_difference(one: *const u8, other: *const u8, len: usize) -> Option<usize> {
    for at in (0..len).step_by(STEP_LEN) {
        let step = STEP_LEN.min(len - at);
        // SAFETY: the step lies inside both ranges.
        let place = unsafe {
            let (one, other) = (one.add(at), other.add(at));
            let differs = libc::memcmp(one.cast(), other.cast(), step) != 0;
            // Bytes that others changed meanwhile may have no difference left.
            if differs { (0..step).find(|k| one.add(*k).read() != other.add(*k).read()) } else { None }
        };
        if let Some(place) = place {
            return Some(at + place);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::testing::{LEN, bytes_of, noise, parts, shapes, stream, window};
    use super::*;
    use hanare_protocol::shape::Shape;
    use proptest::prelude::*;

    proptest! {
        // FEATURE: D3-F13
        #[test]
        fn the_first_difference_is_found_wherever_it_is(
            shape in shapes(1),
            cuts in parts(),
            spots in proptest::collection::vec(any::<prop::sample::Index>(), 0..3),
        ) {
            let mut table = noise(LEN);
            let mut bytes = stream(&table, &shape);
            if !bytes.is_empty() {
                spots.iter().for_each(|spot| bytes[spot.index(shape.len() as usize)] ^= 0x40);
            }
            let wanted = (0..bytes.len()).zip(bytes_of(&shape)).filter(|&(k, at)| bytes[k] != table[at]).map(|(k, _)| k as u64);
            let wanted: Vec<u64> = wanted.collect();
            for (at, len) in cuts.of(shape.len()) {
                let part = window(&mut bytes).slice(at as usize, len as usize);
                let first = wanted.iter().copied().find(|k| (at..at + len).contains(k));
                prop_assert_eq!(compare_part(window(&mut table), &shape, at, part), Ok(first));
            }
        }
    }

    #[test]
    fn long_ranges_differ_where_they_do() {
        let (mut table, mut bytes) = (noise(50_000), noise(50_000));
        let shape = Shape::contiguous(0, 50_000).check("r", 50_000).unwrap();
        assert_eq!(compare_part(window(&mut table), &shape, 0, window(&mut bytes)), Ok(None));
        for at in [49_999, 49_152, 4096, 4095, 0] {
            bytes[at] ^= 1;
            assert_eq!(compare_part(window(&mut table), &shape, 0, window(&mut bytes)), Ok(Some(at as u64)));
        }
    }
}
