//! Whole numbers: one pass that the compiler turns into vector instructions.
//!
//! A number is taken as its *distance* above the range's low end, modulo its width. It lies in the range where the distance is at most the
//! range's. So one comparison does, signed numbers are like unsigned ones, and a least needs no look at what is outside.

use super::super::blocks::prefetch;
use super::AHEAD_LEN;
use hanare_protocol::element::{Element, Summary};

/// Result of a pass, in distances.
struct Found {
    count: u64,
    sum: u128,
    min: u64,
    max: u64,
}

/// Takes the elements of `len` bytes at `from` that lie from `low` to `high`.
///
/// # Safety
/// The bytes lie in a window.
#[inline(always)]
pub(super) unsafe fn take(from: *const u8, len: usize, element: Element, low: i128, high: i128, summary: &mut Summary) {
    let (least, greatest) = bounds(element);
    let (low, high) = (low.max(least), high.min(greatest));
    if low > high {
        return;
    }
    let (from_low, width) = (low as u64, (high - low) as u64);
    let is_all = (low, high) == (least, greatest);
    // SAFETY: passed on.
    let found = unsafe {
        match (element.len(), is_all) {
            (1, true) => pass_u8::<true>(from, len, from_low as u8, width as u8),
            (1, false) => pass_u8::<false>(from, len, from_low as u8, width as u8),
            (2, true) => pass_u16::<true>(from, len, from_low as u16, width as u16),
            (2, false) => pass_u16::<false>(from, len, from_low as u16, width as u16),
            (4, true) => pass_u32::<true>(from, len, from_low as u32, width as u32),
            (4, false) => pass_u32::<false>(from, len, from_low as u32, width as u32),
            (_, true) => pass_u64::<true>(from, len, from_low, width),
            (_, false) => pass_u64::<false>(from, len, from_low, width),
        }
    };
    let Found { count, sum, min, max } = found;
    summary.take_whole(count, sum as i128 + i128::from(count) * low, low + i128::from(min), low + i128::from(max));
}

/// The least and the greatest of a kind of whole numbers.
fn bounds(element: Element) -> (i128, i128) {
    match element {
        Element::U8 => (0, u8::MAX.into()),
        Element::I8 => (i8::MIN.into(), i8::MAX.into()),
        Element::U16 => (0, u16::MAX.into()),
        Element::I16 => (i16::MIN.into(), i16::MAX.into()),
        Element::U32 => (0, u32::MAX.into()),
        Element::I32 => (i32::MIN.into(), i32::MAX.into()),
        Element::U64 => (0, u64::MAX.into()),
        Element::I64 => (i64::MIN.into(), i64::MAX.into()),
        Element::F32 | Element::F64 | Element::U128 => panic!("a range of whole numbers for {element}"),
    }
}

/// Bytes of the lanes that a pass works on side by side: the widest vector there is.
const LANES_LEN: usize = 64;

/// A pass over numbers of one width. `$sum` holds the sum of a lane. After at most `$steps` numbers of a lane it is added up and cleared.
/// So neither it nor the lane's count overflows.
macro_rules! pass {
    ($name:ident, $number:ty, $sum:ty, $steps:expr) => {
        /// # Safety
        /// The `len` bytes at `from` lie in a window.
        #[inline(always)]
        unsafe fn $name<const ALL: bool>(from: *const u8, len: usize, low: $number, width: $number) -> Found {
            const LANES: usize = LANES_LEN / size_of::<$number>();
            let mut found = Found { count: 0, sum: 0, min: u64::MAX, max: 0 };
            let (mut at, whole) = (0, len / LANES_LEN * LANES_LEN);
            while at < whole {
                let steps = ((whole - at) / LANES_LEN).min($steps);
                let mut counts = [0 as $number; LANES];
                let (mut sums, mut mins, mut maxs) = ([0 as $sum; LANES], [<$number>::MAX; LANES], [0 as $number; LANES]);
                for step in 0..steps {
                    prefetch(from.wrapping_add(at + step * LANES_LEN + AHEAD_LEN));
                    // SAFETY: the lanes lie below `whole`.
                    let numbers = unsafe { from.add(at + step * LANES_LEN).cast::<[$number; LANES]>().read_unaligned() };
                    for lane in 0..LANES {
                        let distance = numbers[lane].wrapping_sub(low);
                        let is_inside = ALL || distance <= width;
                        let kept = if is_inside { distance } else { 0 };
                        counts[lane] += <$number>::from(is_inside);
                        sums[lane] += <$sum>::from(kept);
                        mins[lane] = mins[lane].min(distance);
                        maxs[lane] = maxs[lane].max(kept);
                    }
                }
                found.count += counts.iter().map(|count| u64::from(*count)).sum::<u64>();
                found.sum += sums.iter().map(|sum| u128::from(*sum)).sum::<u128>();
                found.min = mins.iter().fold(found.min, |min, lane| min.min(u64::from(*lane)));
                found.max = maxs.iter().fold(found.max, |max, lane| max.max(u64::from(*lane)));
                at += steps * LANES_LEN;
            }
            while at < len {
                // SAFETY: the number lies below `len`, which is that of whole numbers.
                let number = unsafe { from.add(at).cast::<$number>().read_unaligned() };
                let distance = number.wrapping_sub(low);
                found.min = found.min.min(u64::from(distance));
                if distance <= width {
                    found.count += 1;
                    found.sum += u128::from(distance);
                    found.max = found.max.max(u64::from(distance));
                }
                at += size_of::<$number>();
            }
            found
        }
    };
}

pass!(pass_u8, u8, u16, 255);
pass!(pass_u16, u16, u32, 65_535);
pass!(pass_u32, u32, u64, 1 << 20);

/// Like the passes above; a lane's sum is kept modulo 2^64, and that of the upper halves, from which its carries follow.
///
/// # Safety
/// Like the passes above.
#[inline(always)]
unsafe fn pass_u64<const ALL: bool>(from: *const u8, len: usize, low: u64, width: u64) -> Found {
    const LANES: usize = LANES_LEN / 8;
    // Fewer than 2^32 numbers in a lane: the sum of their lower halves is below 2^64.
    let mut found = Found { count: 0, sum: 0, min: u64::MAX, max: 0 };
    let (mut at, whole) = (0, len / LANES_LEN * LANES_LEN);
    while at < whole {
        let steps = ((whole - at) / LANES_LEN).min(1 << 20);
        let (mut counts, mut sums, mut uppers) = ([0u64; LANES], [0u64; LANES], [0u64; LANES]);
        let (mut mins, mut maxs) = ([u64::MAX; LANES], [0u64; LANES]);
        for step in 0..steps {
            prefetch(from.wrapping_add(at + step * LANES_LEN + AHEAD_LEN));
            // SAFETY: the lanes lie below `whole`.
            let numbers = unsafe { from.add(at + step * LANES_LEN).cast::<[u64; LANES]>().read_unaligned() };
            for lane in 0..LANES {
                let distance = numbers[lane].wrapping_sub(low);
                let is_inside = ALL || distance <= width;
                let kept = if is_inside { distance } else { 0 };
                counts[lane] += u64::from(is_inside);
                sums[lane] = sums[lane].wrapping_add(kept);
                uppers[lane] += kept >> 32;
                mins[lane] = mins[lane].min(distance);
                maxs[lane] = maxs[lane].max(kept);
            }
        }
        for lane in 0..LANES {
            let lower = sums[lane].wrapping_sub(uppers[lane] << 32);
            found.count += counts[lane];
            found.sum += (u128::from(uppers[lane]) << 32) + u128::from(lower);
            found.min = found.min.min(mins[lane]);
            found.max = found.max.max(maxs[lane]);
        }
        at += steps * LANES_LEN;
    }
    while at < len {
        // SAFETY: the number lies below `len`, which is that of whole numbers.
        let distance = unsafe { from.add(at).cast::<u64>().read_unaligned() }.wrapping_sub(low);
        found.min = found.min.min(distance);
        if distance <= width {
            found.count += 1;
            found.sum += u128::from(distance);
            found.max = found.max.max(distance);
        }
        at += 8;
    }
    found
}
