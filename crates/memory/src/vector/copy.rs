//! Copies from one shape to another within the memory of one machine.

use super::gather::{gather_part, scatter_part};
use super::runs::Runs;
use super::{LONG_BLOCK, STAGE_LEN, StageBytes, enter, pieces, shift};
use crate::guard::{Lost, Side};
use crate::window::Window;
use hanare_protocol::shape::Checked;

/// Copies the stream of one shape to that of another, of the same length; blocks may differ.
///
/// **Cost**: one copy from or to long blocks, else two, one of them within the cache. **Errors**: [`Lost`], counted in `from`
/// or `to`. Where the two overlap in memory, what arrives there is some mixture.
pub fn copy_shapes(from: Window, source: &Checked<'_>, to: Window, target: &Checked<'_>) -> Result<(), Lost> {
    assert_eq!(source.len(), target.len(), "a copy has two sides of one length");
    enter(from, source, 0, source.len());
    enter(to, target, 0, target.len());
    let (source_block, target_block) = (source.shape().block(), target.shape().block());
    if source_block.max(target_block) < LONG_BLOCK {
        return through_stage(from, source, to, target);
    }
    // A long block is a flat range, to or from which the other shape's kernel moves as much.
    let is_from = source_block >= target_block;
    let (long, mut at) = (if is_from { source } else { target }, 0);
    for run in Runs::new(long, 0, long.len()) {
        for (offset, block) in run.blocks() {
            if is_from {
                let moved = scatter_part(from.slice(offset, block), to, target, at);
                moved.map_err(|lost| shift(lost, Side::Source, offset as u64))?;
            } else {
                let moved = gather_part(from, source, at, to.slice(offset, block));
                moved.map_err(|lost| shift(lost, Side::Target, offset as u64))?;
            }
            at += block as u64;
        }
    }
    Ok(())
}

fn through_stage(from: Window, source: &Checked<'_>, to: Window, target: &Checked<'_>) -> Result<(), Lost> {
    let mut stage = StageBytes::new();
    for (at, len) in pieces(source.len(), STAGE_LEN) {
        let bytes = stage.window(len);
        gather_part(from, source, at, bytes)?;
        scatter_part(bytes, to, target, at)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::testing::{LEN, bytes_of, noise, shapes, stream, window};
    use super::*;
    use hanare_protocol::shape::{Indexed, Shape, Strided};
    use proptest::prelude::*;

    proptest! {
        // FEATURE: D3-F11
        // FEATURE: D3-F13
        #[test]
        fn any_shape_copies_into_any_other(
            source in shapes(1),
            block in 1..700u64,
            gap in 0..9u64,
            narrow in any::<Option<bool>>(),
        ) {
            let mut block = block;
            while !source.len().is_multiple_of(block) {
                block -= 1;
            }
            let count = source.len() / block;
            // Blocks in order, backwards as 32-bit indices, or backwards as 64-bit ones.
            let (narrows, wides): (Vec<u32>, Vec<u64>) = (0..count).rev().map(|k| (k as u32, k)).unzip();
            let target: Shape<'_> = match narrow {
                None => Strided { offset: 3, block, count, stride: block + gap }.into(),
                Some(true) => Indexed { offset: 3, block, scale: block + gap, indices: narrows[..].into() }.into(),
                Some(false) => Indexed { offset: 3, block, scale: block + gap, indices: wides[..].into() }.into(),
            };
            let limit = 3 + count * (block + gap);
            let target = target.check("r", limit).unwrap();
            let (mut table, mut other) = (noise(LEN), vec![0xee; limit as usize]);
            copy_shapes(window(&mut table), &source, window(&mut other), &target).unwrap();
            prop_assert_eq!(stream(&other, &target), stream(&table, &source));
            let touched = bytes_of(&target);
            prop_assert!((0..other.len()).all(|at| touched.contains(&at) || other[at] == 0xee), "nothing between the blocks");
        }
    }
}
