//! Floating-point numbers.

use hanare_protocol::element::{Element, Summary};

/// Takes the elements of `len` bytes at `from` that lie from `low` to `high`.
///
/// # Safety
/// They lie in a window.
pub(super) unsafe fn take(from: *const u8, len: usize, element: Element, low: f64, high: f64, summary: &mut Summary) {
    let is_inside = |value: &f64| *value >= low && *value <= high;
    // SAFETY: passed on; every number lies below `len`, which is that of whole ones.
    unsafe {
        if element == Element::F32 {
            let number = |k: usize| f64::from(from.cast::<f32>().add(k).read_unaligned());
            summary.take_floats((0..len / 4).map(number).filter(is_inside));
        } else {
            let number = |k: usize| from.cast::<f64>().add(k).read_unaligned();
            summary.take_floats((0..len / 8).map(number).filter(is_inside));
        }
    }
}
