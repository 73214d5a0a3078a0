//! Fill: a pattern over a stream.
//!
//! Safety invariants: those of the folder.

use super::gather::scatter_part;
use super::{STAGE_LEN, StageBytes, enter, pieces};
use crate::guard::{self, Lost};
use crate::window::Window;
use hanare_protocol::shape::Checked;

/// Sets byte k of `shape`'s stream to `pattern[k % pattern.len()]`, for the `len` bytes from `at` on. The pattern has some
/// bytes.
///
/// **Cost**: one write of each byte; no more for a long pattern than for a short one. **Errors**: [`Lost`], counted in `to`.
pub fn fill_part(to: Window, shape: &Checked<'_>, at: u64, len: u64, pattern: &[u8]) -> Result<(), Lost> {
    enter(to, shape, at, len);
    assert!(!pattern.is_empty(), "a fill needs a pattern");
    if len == 0 {
        return Ok(());
    }
    if let ([byte], Some((offset, _))) = (pattern, shape.range()) {
        let base = offset + at;
        return guard::fill(to.slice(base as usize, len as usize), *byte)
            .map_err(|lost| Lost { offset: lost.offset + base, ..lost });
    }
    if pattern.len() > STAGE_LEN / 2 {
        return fill_long(to, shape, at, len, pattern);
    }
    // Whole patterns that fit, rotated so that they begin with the byte that belongs at `at`: every piece begins alike.
    let tile_len = (STAGE_LEN / pattern.len() * pattern.len()).min((len as usize).next_multiple_of(pattern.len()));
    let mut stage = StageBytes::new();
    let tile = stage.tile(pattern, (at % pattern.len() as u64) as usize, tile_len);
    for (done, piece) in pieces(len, tile_len) {
        scatter_part(tile.slice(0, piece), to, shape, at + done)?;
    }
    Ok(())
}

/// Scatters the pattern itself, from where it is cut to its end, then over and over.
fn fill_long(to: Window, shape: &Checked<'_>, at: u64, len: u64, pattern: &[u8]) -> Result<(), Lost> {
    // SAFETY: the pattern is borrowed for this call and only read.
    let pattern = unsafe { Window::of(pattern) };
    let mut done = 0;
    while done < len {
        let from = ((at + done) % pattern.len() as u64) as usize;
        let piece = (pattern.len() - from).min((len - done) as usize);
        scatter_part(pattern.slice(from, piece), to, shape, at + done)?;
        done += piece as u64;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{LEN, bytes_of, noise, parts, shapes, window};
    use super::*;
    use proptest::prelude::*;

    proptest! {
        // FEATURE: D3-F13
        #[test]
        fn a_fill_repeats_its_pattern_over_the_stream(
            shape in shapes(1),
            cuts in parts(),
            pattern_len in prop_oneof![1..20usize, 1..3000usize, 8190..8200usize],
        ) {
            let pattern = noise(pattern_len);
            let (mut table, mut wanted) = (vec![0xee; LEN], vec![0xee; LEN]);
            bytes_of(&shape).into_iter().zip(pattern.iter().cycle()).for_each(|(at, byte)| wanted[at] = *byte);
            for (at, len) in cuts.of(shape.len()) {
                fill_part(window(&mut table), &shape, at, len, &pattern).unwrap();
            }
            prop_assert_eq!(table, wanted);
        }
    }
}
