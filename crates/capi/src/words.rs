//! `hanare.h`, "Updates": those on one word.

use crate::argument::{bytes, place, reference};
use crate::border::code_of;
use crate::code;
use crate::element::modify;
use crate::region::CRegion;
use hanare::{Element, Operator, Region, Result, Signal};
use std::ffi::c_int;

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
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_read_word(region: *mut CRegion, offset: u64, into: *mut u64) -> c_int {
    code_of("hanare_read_word", || {
        let into = place(into, "value")?;
        // SAFETY: the caller's handle.
        let value = unsafe { reference(region, "region") }?.region.read_word(offset)?;
        // SAFETY: not NULL, so it is the caller's variable.
        unsafe { into.write(value) };
        Ok(code::OK)
    })
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_put_signal(
    region: *mut CRegion,
    offset: u64,
    from: *const u8,
    len: usize,
    signal_region: *mut CRegion,
    signal_offset: u64,
    operation: c_int,
    value: u64,
) -> c_int {
    code_of("hanare_put_signal", || {
        // SAFETY: the caller's handles, and bytes that the header has readable during the call.
        let (to, word, bytes) =
            unsafe { (reference(region, "region")?, reference(signal_region, "signal_region")?, bytes(from, len, "from")?) };
        let operator = modify(Element::U64 as c_int, operation)?.operator;
        let signal = Signal { region: &word.region, offset: signal_offset, operator, value };
        to.region.put_with_signal(offset, bytes, signal)?;
        Ok(code::OK)
    })
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_fetch_add(region: *mut CRegion, offset: u64, operand: u64, old: *mut u64) -> c_int {
    // SAFETY: the caller's pointers.
    unsafe { word("hanare_fetch_add", region, old, |region| region.fetch_word(offset, Operator::Add, operand)) }
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_fetch_and(region: *mut CRegion, offset: u64, operand: u64, old: *mut u64) -> c_int {
    // SAFETY: the caller's pointers.
    unsafe { word("hanare_fetch_and", region, old, |region| region.fetch_word(offset, Operator::And, operand)) }
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_fetch_or(region: *mut CRegion, offset: u64, operand: u64, old: *mut u64) -> c_int {
    // SAFETY: the caller's pointers.
    unsafe { word("hanare_fetch_or", region, old, |region| region.fetch_word(offset, Operator::Or, operand)) }
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_fetch_xor(region: *mut CRegion, offset: u64, operand: u64, old: *mut u64) -> c_int {
    // SAFETY: the caller's pointers.
    unsafe { word("hanare_fetch_xor", region, old, |region| region.fetch_word(offset, Operator::Xor, operand)) }
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_swap(region: *mut CRegion, offset: u64, operand: u64, old: *mut u64) -> c_int {
    // SAFETY: the caller's pointers.
    unsafe { word("hanare_swap", region, old, |region| region.fetch_word(offset, Operator::Swap, operand)) }
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
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
