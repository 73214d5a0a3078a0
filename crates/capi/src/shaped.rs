//! `hanare.h`, "Shapes" and "Updates": the blocking ones, and those on one word.

use crate::argument::reference;
use crate::border::code_of;
use crate::code;
use crate::element::{CRange, CSummary};
use crate::recorded::{Bytes, BytesMut, Recorded, Target};
use crate::region::CRegion;
use crate::shape::CShape;
use hanare::{Operator, Region, Result};
use std::ffi::{c_int, c_void};

/// See `hanare.h`.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_put_shape(
    region: *mut CRegion,
    shape: *const CShape,
    from: *const c_void,
    from_len: usize,
    from_shape: *const CShape,
) -> c_int {
    // SAFETY: the caller's pointers, good during the call.
    code_of("hanare_put_shape", || unsafe { Recorded::put(Target(region, shape), Bytes(from, from_len), from_shape)?.run() })
}

/// See `hanare.h`.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_get_shape(
    region: *mut CRegion,
    shape: *const CShape,
    into: *mut c_void,
    into_len: usize,
    into_shape: *const CShape,
) -> c_int {
    // SAFETY: the caller's pointers, good during the call.
    code_of("hanare_get_shape", || unsafe { Recorded::get(Target(region, shape), BytesMut(into, into_len), into_shape)?.run() })
}

/// See `hanare.h`.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_copy_shape(
    from: *mut CRegion,
    from_shape: *const CShape,
    to: *mut CRegion,
    to_shape: *const CShape,
) -> c_int {
    // SAFETY: the caller's pointers, good during the call.
    code_of("hanare_copy_shape", || unsafe { Recorded::copy(Target(from, from_shape), Target(to, to_shape))?.run() })
}

/// See `hanare.h`.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_fill(
    region: *mut CRegion,
    shape: *const CShape,
    pattern: *const c_void,
    pattern_len: usize,
) -> c_int {
    // SAFETY: the caller's pointers, good during the call.
    code_of("hanare_fill", || unsafe { Recorded::fill(Target(region, shape), Bytes(pattern, pattern_len))?.run() })
}

/// See `hanare.h`.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_compare(
    region: *mut CRegion,
    shape: *const CShape,
    bytes: *const c_void,
    len: usize,
    position: *mut u64,
) -> c_int {
    // SAFETY: the caller's pointers, good during the call.
    code_of("hanare_compare", || unsafe { Recorded::compare(Target(region, shape), Bytes(bytes, len), position)?.run() })
}

/// See `hanare.h`.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_reduce(
    region: *mut CRegion,
    shape: *const CShape,
    element: c_int,
    range: *const CRange,
    summary: *mut CSummary,
) -> c_int {
    // SAFETY: the caller's pointers, good during the call.
    code_of("hanare_reduce", || unsafe { Recorded::reduce(Target(region, shape), element, range, summary)?.run() })
}

/// See `hanare.h`.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_update(
    region: *mut CRegion,
    shape: *const CShape,
    element: c_int,
    operation: c_int,
    operands: *const c_void,
    operands_len: usize,
) -> c_int {
    // SAFETY: the caller's pointers, good during the call.
    code_of("hanare_update", || unsafe {
        Recorded::update(Target(region, shape), (element, operation), Bytes(operands, operands_len))?.run()
    })
}

/// See `hanare.h`.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_fetch(
    region: *mut CRegion,
    shape: *const CShape,
    element: c_int,
    operation: c_int,
    operands: *const c_void,
    operands_len: usize,
    olds: *mut c_void,
    olds_len: usize,
) -> c_int {
    // SAFETY: the caller's pointers, good during the call.
    code_of("hanare_fetch", || unsafe {
        Recorded::fetch(Target(region, shape), (element, operation), Bytes(operands, operands_len), BytesMut(olds, olds_len))?
            .run()
    })
}

/// See `hanare.h`.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_compare_and_swap(
    region: *mut CRegion,
    shape: *const CShape,
    element: c_int,
    expected: *const c_void,
    desired: *const c_void,
    olds: *mut c_void,
    len: usize,
) -> c_int {
    // SAFETY: the caller's pointers, good during the call.
    code_of("hanare_compare_and_swap", || unsafe {
        Recorded::compare_and_swap(
            Target(region, shape),
            element,
            Bytes(expected, len),
            Bytes(desired, len),
            BytesMut(olds, len),
        )?
        .run()
    })
}

/// Runs an operation on one word and tells the word before it, if that is wanted.
///
/// # Safety
/// The handle is `NULL` or valid; `old` is `NULL` or the caller's variable.
unsafe fn word(call: &'static str, region: *mut CRegion, old: *mut u64, run: impl FnOnce(&Region) -> Result<u64>) -> c_int {
    code_of(call, || {
        // SAFETY: promised by the caller.
        let before = run(unsafe { &reference(region, "region")?.region })?;
        if !old.is_null() {
            // SAFETY: not NULL, so it is the caller's variable.
            unsafe { old.write(before) };
        }
        Ok(code::OK)
    })
}

/// See `hanare.h`.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_fetch_add(region: *mut CRegion, offset: u64, operand: u64, old: *mut u64) -> c_int {
    // SAFETY: the caller's pointers.
    unsafe { word("hanare_fetch_add", region, old, |region| region.fetch_word(offset, Operator::Add, operand)) }
}

/// See `hanare.h`.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_fetch_and(region: *mut CRegion, offset: u64, operand: u64, old: *mut u64) -> c_int {
    // SAFETY: the caller's pointers.
    unsafe { word("hanare_fetch_and", region, old, |region| region.fetch_word(offset, Operator::And, operand)) }
}

/// See `hanare.h`.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_fetch_or(region: *mut CRegion, offset: u64, operand: u64, old: *mut u64) -> c_int {
    // SAFETY: the caller's pointers.
    unsafe { word("hanare_fetch_or", region, old, |region| region.fetch_word(offset, Operator::Or, operand)) }
}

/// See `hanare.h`.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_fetch_xor(region: *mut CRegion, offset: u64, operand: u64, old: *mut u64) -> c_int {
    // SAFETY: the caller's pointers.
    unsafe { word("hanare_fetch_xor", region, old, |region| region.fetch_word(offset, Operator::Xor, operand)) }
}

/// See `hanare.h`.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_swap(region: *mut CRegion, offset: u64, operand: u64, old: *mut u64) -> c_int {
    // SAFETY: the caller's pointers.
    unsafe { word("hanare_swap", region, old, |region| region.fetch_word(offset, Operator::Swap, operand)) }
}

/// See `hanare.h`.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_compare_and_swap_word(
    region: *mut CRegion,
    offset: u64,
    expected: u64,
    desired: u64,
    old: *mut u64,
) -> c_int {
    let swap = |region: &Region| region.compare_and_swap_word(offset, expected, desired);
    // SAFETY: the caller's pointers.
    unsafe { word("hanare_compare_and_swap_word", region, old, swap) }
}
