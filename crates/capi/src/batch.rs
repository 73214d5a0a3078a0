//! `hanare.h`, "Batches".

use crate::argument::{give, place, reference, take};
use crate::border::{Outcome, code_of};
use crate::code;
use crate::element::{CRange, CSummary};
use crate::pool::CPool;
use crate::recorded::{Bytes, BytesMut, Recorded, Target};
use crate::region::CRegion;
use crate::request::CRequest;
use crate::shape::CShape;
use hanare::Pool;
use std::ffi::{c_int, c_void};
use std::sync::{Mutex, PoisonError};

/// What `hanare_batch *` points to.
pub struct CBatch {
    pool: Pool,
    commands: Mutex<Vec<Recorded>>,
}

impl CBatch {
    /// Keeps a command, if it could be run.
    fn push(&self, command: Recorded) -> Outcome {
        command.check(&self.pool)?;
        self.commands.lock().unwrap_or_else(PoisonError::into_inner).push(command);
        Ok(code::OK)
    }

    /// Begins all its commands.
    ///
    /// # Safety
    /// All memory that its commands name is good until the request has ended.
    unsafe fn start(&self) -> Outcome<CRequest> {
        let commands = self.commands.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: promised by the caller.
        unsafe { CRequest::start(&self.pool, &commands) }
    }
}

/// See `hanare.h`.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_batch_begin(pool: *mut CPool, batch: *mut *mut CBatch) -> c_int {
    code_of("hanare_batch_begin", || {
        // SAFETY: the caller's handle.
        let pool = unsafe { &reference(pool, "pool")?.pool };
        let into = place(batch, "batch")?;
        // SAFETY: not NULL, so it is the caller's variable.
        unsafe { give(CBatch { pool: pool.clone(), commands: Mutex::default() }, into) };
        Ok(code::OK)
    })
}

/// See `hanare.h`.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_batch_put(
    batch: *mut CBatch,
    region: *mut CRegion,
    shape: *const CShape,
    from: *const c_void,
    from_len: usize,
    from_shape: *const CShape,
) -> c_int {
    // SAFETY: the caller's pointers, good until the batch was run for the last time.
    code_of("hanare_batch_put", || unsafe {
        reference(batch, "batch")?.push(Recorded::put(Target(region, shape), Bytes(from, from_len), from_shape)?)
    })
}

/// See `hanare.h`.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_batch_get(
    batch: *mut CBatch,
    region: *mut CRegion,
    shape: *const CShape,
    into: *mut c_void,
    into_len: usize,
    into_shape: *const CShape,
) -> c_int {
    // SAFETY: the caller's pointers, good until the batch was run for the last time.
    code_of("hanare_batch_get", || unsafe {
        reference(batch, "batch")?.push(Recorded::get(Target(region, shape), BytesMut(into, into_len), into_shape)?)
    })
}

/// See `hanare.h`.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_batch_copy(
    batch: *mut CBatch,
    from: *mut CRegion,
    from_shape: *const CShape,
    to: *mut CRegion,
    to_shape: *const CShape,
) -> c_int {
    // SAFETY: the caller's pointers, good until the batch was run for the last time.
    code_of("hanare_batch_copy", || unsafe {
        reference(batch, "batch")?.push(Recorded::copy(Target(from, from_shape), Target(to, to_shape))?)
    })
}

/// See `hanare.h`.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_batch_fill(
    batch: *mut CBatch,
    region: *mut CRegion,
    shape: *const CShape,
    pattern: *const c_void,
    pattern_len: usize,
) -> c_int {
    // SAFETY: the caller's pointers, good until the batch was run for the last time.
    code_of("hanare_batch_fill", || unsafe {
        reference(batch, "batch")?.push(Recorded::fill(Target(region, shape), Bytes(pattern, pattern_len))?)
    })
}

/// See `hanare.h`.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_batch_compare(
    batch: *mut CBatch,
    region: *mut CRegion,
    shape: *const CShape,
    bytes: *const c_void,
    len: usize,
    position: *mut u64,
) -> c_int {
    // SAFETY: the caller's pointers, good until the batch was run for the last time.
    code_of("hanare_batch_compare", || unsafe {
        reference(batch, "batch")?.push(Recorded::compare(Target(region, shape), Bytes(bytes, len), position)?)
    })
}

/// See `hanare.h`.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_batch_reduce(
    batch: *mut CBatch,
    region: *mut CRegion,
    shape: *const CShape,
    element: c_int,
    range: *const CRange,
    summary: *mut CSummary,
) -> c_int {
    // SAFETY: the caller's pointers, good until the batch was run for the last time.
    code_of("hanare_batch_reduce", || unsafe {
        reference(batch, "batch")?.push(Recorded::reduce(Target(region, shape), element, range, summary)?)
    })
}

/// See `hanare.h`.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_batch_update(
    batch: *mut CBatch,
    region: *mut CRegion,
    shape: *const CShape,
    element: c_int,
    operation: c_int,
    operands: *const c_void,
    operands_len: usize,
) -> c_int {
    // SAFETY: the caller's pointers, good until the batch was run for the last time.
    code_of("hanare_batch_update", || unsafe {
        reference(batch, "batch")?.push(Recorded::update(
            Target(region, shape),
            (element, operation),
            Bytes(operands, operands_len),
        )?)
    })
}

/// See `hanare.h`.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_batch_fetch(
    batch: *mut CBatch,
    region: *mut CRegion,
    shape: *const CShape,
    element: c_int,
    operation: c_int,
    operands: *const c_void,
    operands_len: usize,
    olds: *mut c_void,
    olds_len: usize,
) -> c_int {
    // SAFETY: the caller's pointers, good until the batch was run for the last time.
    code_of("hanare_batch_fetch", || unsafe {
        reference(batch, "batch")?.push(Recorded::fetch(
            Target(region, shape),
            (element, operation),
            Bytes(operands, operands_len),
            BytesMut(olds, olds_len),
        )?)
    })
}

/// See `hanare.h`.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_batch_compare_and_swap(
    batch: *mut CBatch,
    region: *mut CRegion,
    shape: *const CShape,
    element: c_int,
    expected: *const c_void,
    desired: *const c_void,
    olds: *mut c_void,
    len: usize,
) -> c_int {
    // SAFETY: the caller's pointers, good until the batch was run for the last time.
    code_of("hanare_batch_compare_and_swap", || unsafe {
        reference(batch, "batch")?.push(Recorded::compare_and_swap(
            Target(region, shape),
            element,
            Bytes(expected, len),
            Bytes(desired, len),
            BytesMut(olds, len),
        )?)
    })
}

/// See `hanare.h`.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_batch_run(batch: *mut CBatch) -> c_int {
    // SAFETY: the caller's handle, and memory that is good until this returns.
    code_of("hanare_batch_run", || unsafe { reference(batch, "batch")?.start()?.wait() })
}

/// See `hanare.h`.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_batch_start(batch: *mut CBatch, request: *mut *mut CRequest) -> c_int {
    code_of("hanare_batch_start", || {
        let into = place(request, "request")?;
        // SAFETY: the caller's handle and variable, and memory that is the library's until hanare_wait.
        unsafe { give(reference(batch, "batch")?.start()?, into) };
        Ok(code::OK)
    })
}

/// See `hanare.h`.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_batch_drop(batch: *mut CBatch) -> c_int {
    code_of("hanare_batch_drop", || {
        // SAFETY: the header makes this the handle's last call.
        drop(unsafe { take(batch, "batch") }?);
        Ok(code::OK)
    })
}
