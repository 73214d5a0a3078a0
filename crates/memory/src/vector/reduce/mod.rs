//! Reduce: how many numbers of a stream lie in a range, their sum, the least and the greatest.
//!
//! Safety invariants: those of the folder.

mod float;
mod whole;

use super::gather::gather_part;
use super::runs::Runs;
use super::{LONG_BLOCK, STAGE_LEN, StageBytes, check_runs, enter, pieces};
use crate::guard::{Lost, Side, guarded, is_any_lost};
use crate::window::Window;
use hanare_protocol::element::{Element, Range, Summary};
use hanare_protocol::shape::Checked;

/// Adds to `summary` the elements of `len` bytes of `shape`'s stream from `at` on that lie in `range`. `summary` is of the same element.
/// `at`, `len` and the shape's blocks are whole elements; they may lie at any address.
///
/// **Cost**: one read of each; contiguous elements at the speed of memory. **Errors**: [`Lost`], counted in `from`; the
/// summary is then of no use.
pub fn reduce_part(
    from: Window,
    shape: &Checked<'_>,
    at: u64,
    len: u64,
    element: Element,
    range: &Range,
    summary: &mut Summary,
) -> Result<(), Lost> {
    enter(from, shape, at, len);
    let block = shape.shape().block();
    let is_whole = |bytes: u64| bytes.is_multiple_of(element.len());
    assert!(is_whole(at) && is_whole(len) && (len == 0 || is_whole(block)), "whole elements of {element}");
    if block < LONG_BLOCK && shape.range().is_none() {
        let mut stage = StageBytes::new();
        for (done, piece) in pieces(len, STAGE_LEN) {
            let staged = stage.window(piece);
            gather_part(from, shape, at + done, staged)?;
            // SAFETY: the stage is a window of `piece` bytes of our own (invariant 2).
            unsafe { take(staged.ptr(), piece, element, range, summary) };
        }
        return Ok(());
    }
    guarded(from.range(), 0..0, || {
        for run in Runs::new(shape, at, len) {
            for (offset, block) in run.blocks() {
                // SAFETY: the block lies in `from` (invariant 1), which the guard covers (invariant 2).
                unsafe { take(from.ptr().add(offset), block, element, range, summary) };
            }
        }
    });
    if is_any_lost() { check_runs(Side::Source, from, shape, at, len) } else { Ok(()) }
}

/// Distance ahead of a pass at which memory is asked for. The work on a line keeps the processor from looking as far ahead as a plain sum
/// would.
const AHEAD_LEN: usize = 2048;

/// Takes the elements of `len` bytes at `from`, by the widest vectors that this machine has.
///
/// # Safety
/// The bytes lie in a window.
unsafe fn take(from: *const u8, len: usize, element: Element, range: &Range, summary: &mut Summary) {
    // SAFETY: passed on; the machine has what it is compiled for.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        if has_avx512() {
            return take_by_512(from, len, element, range, summary);
        } else if is_x86_feature_detected!("avx2") {
            return take_by_256(from, len, element, range, summary);
        }
        take_here(from, len, element, range, summary)
    }
}

#[cfg(target_arch = "x86_64")]
fn has_avx512() -> bool {
    is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl")
}

/// # Safety
/// Like [`take`], on a machine that [`has_avx512`].
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
unsafe fn take_by_512(from: *const u8, len: usize, element: Element, range: &Range, summary: &mut Summary) {
    // SAFETY: passed on.
    unsafe { take_here(from, len, element, range, summary) }
}

/// # Safety
/// Like [`take`], on a machine that has AVX2.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
unsafe fn take_by_256(from: *const u8, len: usize, element: Element, range: &Range, summary: &mut Summary) {
    // SAFETY: passed on.
    unsafe { take_here(from, len, element, range, summary) }
}

/// Like [`take`], compiled for its caller's machine.
///
/// # Safety
/// Like [`take`].
#[inline(always)]
unsafe fn take_here(from: *const u8, len: usize, element: Element, range: &Range, summary: &mut Summary) {
    // SAFETY: passed on.
    unsafe {
        match *range {
            Range::Whole(low, high) => whole::take(from, len, element, low, high, summary),
            Range::Float(low, high) => float::take(from, len, element, low, high, summary),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{LEN, noise, parts, shapes, stream, window};
    use super::*;
    use hanare_protocol::element::Value;
    use hanare_protocol::shape::Shape;
    use proptest::prelude::*;

    /// The summary of elements told by their bytes, one by one.
    fn slowly(bytes: &[u8], element: Element, range: &Range) -> Summary {
        let mut summary = Summary::new(element);
        macro_rules! whole {
            ($number:ty) => {{
                let numbers =
                    bytes.chunks_exact(size_of::<$number>()).map(|b| i128::from(<$number>::from_le_bytes(b.try_into().unwrap())));
                let Range::Whole(low, high) = *range else { unreachable!() };
                numbers.filter(|x| (low..=high).contains(x)).for_each(|x| summary.take_whole(1, x, x, x));
            }};
        }
        macro_rules! float {
            ($number:ty) => {{
                let numbers =
                    bytes.chunks_exact(size_of::<$number>()).map(|b| f64::from(<$number>::from_le_bytes(b.try_into().unwrap())));
                let Range::Float(low, high) = *range else { unreachable!() };
                numbers.filter(|x| low <= *x && *x <= high).for_each(|x| summary.take_floats([x].into_iter()));
            }};
        }
        match element {
            Element::U8 => whole!(u8),
            Element::I8 => whole!(i8),
            Element::U16 => whole!(u16),
            Element::I16 => whole!(i16),
            Element::U32 => whole!(u32),
            Element::I32 => whole!(i32),
            Element::U64 => whole!(u64),
            Element::I64 => whole!(i64),
            Element::F32 => float!(f32),
            Element::F64 => float!(f64),
            Element::U128 => unreachable!("no reduction takes them"),
        }
        summary
    }

    /// The numbers that come into question as ends of a range: all, none, and those near what the table holds.
    fn ranges(element: Element, low: i64, high: i64, how: u8) -> Range {
        let float = |bits: i64| {
            if element == Element::F32 { f64::from(f32::from_bits(bits as u32)) } else { f64::from_bits(bits as u64) }
        };
        match (how, element.is_float()) {
            (0, _) => Range::all(element),
            (1, false) => Range::Whole(low.into(), high.into()),
            (1, true) => Range::Float(float(low), float(high)),
            (2, false) => Range::Whole(i128::from(low) >> (64 - 8 * element.len()), i128::from(high) >> (64 - 8 * element.len())),
            (_, false) => Range::Whole(i128::from(low as u64), i128::from(high as u64)),
            (2, true) => Range::Float(-float(low).abs(), float(high).abs()),
            (_, true) => Range::Float(0.0, 0.0),
        }
    }

    /// Bytes of elements: any bits, or numbers of like size, as programs have them.
    fn table(element: Element, len: usize, how: u8) -> Vec<u8> {
        let bits = noise(len);
        let numbers = |scale: f64| bits.chunks_exact(8).map(move |b| (b[0] as f64 - 100.0) * scale + b[5] as f64 * 0.1);
        match (how, element) {
            (0, Element::F64) => numbers(1e10).flat_map(f64::to_le_bytes).collect(),
            (0, Element::F32) => {
                numbers(1e3).flat_map(|x| [(x as f32).to_le_bytes(), (-x as f32).to_le_bytes()].concat()).collect()
            }
            (1, Element::F64) => numbers(0.0).flat_map(|x| (if x > 12.0 { -0.0 } else { 0.0 * x }).to_le_bytes()).collect(),
            _ => bits,
        }
    }

    fn check(element: Element, shape: &Checked<'_>, parts: &[(u64, u64)], range: &Range, table: &[u8]) {
        let mut summary = Summary::new(element);
        let mut table = table.to_vec();
        let wanted = slowly(&stream(&table, shape), element, range);
        for (at, len) in parts {
            reduce_part(window(&mut table), shape, *at, *len, element, range, &mut summary).unwrap();
        }
        assert_eq!(summary.encode(), wanted.encode(), "{element} {range:?} {summary:?} {wanted:?}");
        if let Some((offset, len)) = shape.range() {
            check_each_way(&mut table[offset as usize..][..len as usize], element, range, &wanted);
        }
    }

    /// The loops that this machine would not choose.
    fn check_each_way(bytes: &mut [u8], element: Element, range: &Range, wanted: &Summary) {
        let mut here = Summary::new(element);
        // SAFETY: the bytes are borrowed for as long.
        unsafe { take_here(bytes.as_ptr(), bytes.len(), element, range, &mut here) };
        assert_eq!(here.encode(), wanted.encode(), "{element} {range:?}, without wider vectors");
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") {
            let mut wide = Summary::new(element);
            // SAFETY: as above, and the machine has what it takes.
            unsafe { take_by_256(bytes.as_ptr(), bytes.len(), element, range, &mut wide) };
            assert_eq!(wide.encode(), wanted.encode(), "{element} {range:?}, with vectors of 256 bits");
        }
    }

    proptest! {
        // FEATURE: D3-F13
        #[test]
        fn a_reduction_equals_one_element_at_a_time(
            element in proptest::sample::select(Element::ALL[..10].to_vec()),
            shape in shapes(8),
            cuts in parts(),
            (low, high, how, data) in any::<(i64, i64, u8, u8)>(),
        ) {
            let range = ranges(element, low, high, how % 4);
            check(element, &shape, &cuts.of_units(shape.len(), element.len()), &range, &table(element, LEN, data % 3));
        }

        #[test]
        fn long_ranges_reduce_like_short_ones(
            element in proptest::sample::select(Element::ALL[..10].to_vec()),
            (low, high, how, data) in any::<(i64, i64, u8, u8)>(),
            skip in 0..9u64,
        ) {
            let len = (40_000 + skip) * element.len();
            let shape = Shape::contiguous(skip, len).check("r", len + skip).unwrap();
            let range = ranges(element, low, high, how % 4);
            check(element, &shape, &[(0, len)], &range, &table(element, (len + 16) as usize, data % 3));
        }
    }

    #[test]
    fn sums_beyond_64_bits_are_kept() {
        let mut table = vec![0xff; 8 << 14];
        let shape = Shape::contiguous(0, 8 << 14).check("r", 8 << 14).unwrap();
        let mut summary = Summary::new(Element::U64);
        reduce_part(window(&mut table), &shape, 0, 8 << 14, Element::U64, &Range::all(Element::U64), &mut summary).unwrap();
        assert_eq!((summary.count, summary.sum()), (1 << 14, Value::Whole(i128::from(u64::MAX) << 14)));
        let mut summary = Summary::new(Element::I8);
        reduce_part(window(&mut table), &shape, 0, 8 << 14, Element::I8, &Range::Whole(-1, 5), &mut summary).unwrap();
        assert_eq!((summary.count, summary.sum(), summary.max), (8 << 14, Value::Whole(-(8 << 14)), Some(Value::Whole(-1))));
    }

    /// Numbers that the fast way cannot take, among those that it can: block after block, larger, smaller, beyond its reach
    /// and back.
    #[test]
    fn floats_of_every_size_sum_exactly() {
        let like = |size: f64| (0..5000).map(move |k| size * (f64::from(k) - 2499.75) / 7.0);
        let sizes = [1.0, 1e-3, 1e30, 1e-300, 1e-320, 1e304, 1e15, 0.0, 1.0];
        let mut numbers: Vec<f64> = sizes.into_iter().flat_map(like).collect();
        numbers.extend([1e300, 1e-300, 1.0].iter().cycle().take(9001));
        let check_all = |numbers: &[f64]| {
            let bytes: Vec<u8> = numbers.iter().flat_map(|x| x.to_le_bytes()).collect();
            let small: Vec<u8> = numbers.iter().flat_map(|x| ((x / 1e270) as f32).to_le_bytes()).collect();
            for (element, bytes) in [(Element::F64, bytes), (Element::F32, small)] {
                let shape = Shape::contiguous(0, bytes.len() as u64).check("r", bytes.len() as u64).unwrap();
                for range in [Range::all(element), Range::Float(-1e301, 1e301), Range::Float(0.0, f64::MAX)] {
                    check(element, &shape, &[(0, shape.len())], &range, &bytes);
                }
            }
        };
        check_all(&numbers);
        for special in [f64::INFINITY, f64::NEG_INFINITY, f64::NAN, -f64::NAN, f64::MAX] {
            numbers[17_000] = special;
            check_all(&numbers);
        }
    }
}
