//! Floating-point numbers: exact sums at the speed of memory.
//!
//! *Keys* decide on the range, the least and the greatest: whole numbers in the order of the numbers, so that one comparison does, as in
//! [`super::whole`]. NaN has keys beyond those of the infinities.
//!
//! The sum of a block is exact, because each number is split at fixed places. Let all numbers be below 2^T in size. Adding and taking away
//! 1.5 * 2^(T + 12) rounds a number to multiples of 2^(T - 40). The rest is at most half of that: it is split in the same way 40 bits
//! further down. The multiples of one level sum without rounding, as many as a block has. With a rest below the last level, or a larger
//! number, the block is taken again with another T, and at last number by number. [after S. Rump, T. Ogita, S. Oishi, "Accurate
//! floating-point summation", part I; J. Demmel, H. Nguyen, "Fast reproducible floating-point summation"]

use super::super::blocks::prefetch;
use super::AHEAD_LEN;
use hanare_protocol::element::{Element, Summary};

/// Levels at which numbers are split. Numbers that differ in size by less than 2^(40 * LEVELS - 53 - HEADROOM) have nothing left below.
const LEVELS: usize = 3;

/// Bits of a level.
const LEVEL_BITS: i32 = 40;

/// Numbers of a block at most. Each is at most 2^40 units of its level, so that their sum is at most 2^52 units.
const BLOCK_COUNT: usize = 4096;

/// Growth of numbers from block to block before T has to change.
const HEADROOM: i32 = 8;

/// T within which all levels and what they are split by are normal numbers.
const TOP_MIN: i32 = -900;
const TOP_MAX: i32 = 1000;

/// Result of a pass over a block; keys as distances above that of the range's low end.
struct Found {
    count: u64,
    min: u64,
    max: u64,
    /// Sum of each level; exact where nothing `is_left` and all numbers are below 2^T.
    parts: [f64; LEVELS],
    is_left: bool,
}

/// Takes the elements of `len` bytes at `from` that lie from `low` to `high`.
///
/// # Safety
/// The bytes lie in a window.
#[inline(always)]
pub(super) unsafe fn take(from: *const u8, len: usize, element: Element, low: f64, high: f64, summary: &mut Summary) {
    // SAFETY: passed on.
    unsafe {
        match element {
            Element::F32 => take_f32(from, len, low, high, summary),
            _ => take_f64(from, len, low, high, summary),
        }
    }
}

/// The least number of a kind that is at least `low`, and the greatest that is at most `high`; zeros so that both are inside.
/// `None`: none is.
macro_rules! ends {
    ($float:ty, $low:expr, $high:expr) => {{
        let (low, high) = ($low as $float, $high as $float);
        let low = if f64::from(low) < $low { low.next_up() } else { low };
        let high = if f64::from(high) > $high { high.next_down() } else { high };
        let (low, high) = (if low == 0.0 { -0.0 } else { low }, if high == 0.0 { 0.0 } else { high });
        (low <= high).then_some((low, high))
    }};
}

/// The walk over blocks, and the pass over one, for one kind of numbers.
macro_rules! floats {
    ($take:ident, $pass:ident, $float:ty, $bits:ty, $signed:ty) => {
        /// # Safety
        /// The `len` bytes at `from` lie in a window.
        #[inline(always)]
        unsafe fn $take(from: *const u8, len: usize, low: f64, high: f64, summary: &mut Summary) {
            const SIZE: usize = size_of::<$float>();
            const SIGN: $bits = 1 << (<$bits>::BITS - 1);
            let key = |bits: $bits| bits ^ (((bits as $signed) >> (<$bits>::BITS - 1)) as $bits | SIGN);
            let number = |key: $bits| <$float>::from_bits(if key & SIGN != 0 { key ^ SIGN } else { !key });
            let Some((low, high)) = ends!($float, low, high) else { return };
            let low_key = key(low.to_bits());
            let width = key(high.to_bits()) - low_key;
            let mut top = TOP_MIN;
            for block in (0..len).step_by(BLOCK_COUNT * SIZE) {
                let block_len = (BLOCK_COUNT * SIZE).min(len - block);
                // SAFETY: the block lies below `len`.
                let block = unsafe { from.add(block) };
                // Others may change the numbers from try to try; each is right by itself.
                let mut tries = 0;
                loop {
                    // SAFETY: as above.
                    let found = unsafe { $pass(block, block_len, low_key, width, top) };
                    if found.count == 0 {
                        break;
                    }
                    let number = |distance: u64| f64::from(number((distance as $bits).wrapping_add(low_key)));
                    let (min, max) = (number(found.min), number(found.max));
                    let need = exponent_above(min.abs().max(max.abs()));
                    if !found.is_left && need <= top {
                        summary.take_float_parts(found.count, &found.parts, min, max);
                        break;
                    }
                    let wanted = (need + HEADROOM).max(TOP_MIN);
                    tries += 1;
                    if tries == 3 || wanted == top || wanted > TOP_MAX {
                        // SAFETY: every number lies below `block_len`.
                        let read = |k: usize| unsafe { block.cast::<$float>().add(k).read_unaligned() };
                        let inside = (0..block_len / SIZE).map(read).filter(|x| *x >= low && *x <= high);
                        summary.take_floats(inside.map(f64::from));
                        break;
                    }
                    top = wanted;
                }
            }
        }

        /// # Safety
        /// The `len` bytes at `from` lie in a window.
        #[inline(always)]
        unsafe fn $pass(from: *const u8, len: usize, low: $bits, width: $bits, top: i32) -> Found {
            const LANES: usize = 64 / size_of::<$float>();
            const SIGN: $bits = 1 << (<$bits>::BITS - 1);
            let splitters: [f64; LEVELS] = std::array::from_fn(|level| 1.5 * power(top + 12 - LEVEL_BITS * level as i32));
            let (mut counts, mut mins, mut maxs) = ([0 as $bits; LANES], [<$bits>::MAX; LANES], [0 as $bits; LANES]);
            let (mut sums, mut lefts) = ([[0f64; LANES]; LEVELS], [0u64; LANES]);
            let mut step = |numbers: [$bits; LANES]| {
                for lane in 0..LANES {
                    let bits = numbers[lane];
                    let key = bits ^ (((bits as $signed) >> (<$bits>::BITS - 1)) as $bits | SIGN);
                    let distance = key.wrapping_sub(low);
                    let is_inside = distance <= width;
                    counts[lane] += <$bits>::from(is_inside);
                    mins[lane] = mins[lane].min(distance);
                    maxs[lane] = maxs[lane].max(if is_inside { distance } else { 0 });
                    let mut left = f64::from(<$float>::from_bits(if is_inside { bits } else { 0 }));
                    for level in 0..LEVELS {
                        let part = (left + splitters[level]) - splitters[level];
                        sums[level][lane] += part;
                        left -= part;
                    }
                    lefts[lane] |= left.to_bits();
                }
            };
            for at in 0..len / 64 {
                prefetch(from.wrapping_add(at * 64 + AHEAD_LEN));
                // SAFETY: the lanes lie below `len`.
                step(unsafe { from.add(at * 64).cast::<[$bits; LANES]>().read_unaligned() });
            }
            let whole = len / 64 * 64;
            if whole < len {
                // NaN lies in no range.
                let mut rest = [<$bits>::MAX; LANES];
                // SAFETY: what is left is less than the lanes take.
                unsafe { std::ptr::copy_nonoverlapping(from.add(whole), rest.as_mut_ptr().cast(), len - whole) };
                step(rest);
            }
            Found {
                count: counts.iter().map(|count| u64::from(*count)).sum(),
                min: mins.iter().fold(u64::MAX, |min, lane| min.min(u64::from(*lane))),
                max: maxs.iter().fold(0, |max, lane| max.max(u64::from(*lane))),
                parts: sums.map(|lanes| lanes.iter().sum()),
                // All but the sign: nothing left is zero, or its negative.
                is_left: lefts.iter().fold(0, |all, lane| all | lane) << 1 != 0,
            }
        }
    };
}

floats!(take_f32, pass_f32, f32, u32, i32);
floats!(take_f64, pass_f64, f64, u64, i64);

/// Two to a power that is a normal number.
fn power(exponent: i32) -> f64 {
    f64::from_bits(((1023 + exponent) as u64) << 52)
}

/// The power of two above the size of a number; that of subnormal ones is taken as the least of normal ones.
fn exponent_above(size: f64) -> i32 {
    (size.to_bits() >> 52) as i32 - 1022
}
