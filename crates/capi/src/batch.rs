//! `hanare.h`, "Batches".

use crate::argument::{give, place, reference, take};
use crate::border::{Outcome, code_of};
use crate::code;
use crate::pool::CPool;
use crate::recorded::Recorded;
use crate::request::CRequest;
use hanare::Pool;
use std::ffi::c_int;
use std::sync::{Mutex, PoisonError};

/// Target of `hanare_batch *`.
pub struct CBatch {
    pool: Pool,
    commands: Mutex<Vec<Recorded>>,
}

impl CBatch {
    /// Keeps a command, if it could be run.
    pub fn push(&self, command: Recorded) -> Outcome {
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
/// See the header.
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
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_batch_run(batch: *mut CBatch) -> c_int {
    // SAFETY: the caller's handle, and memory that is good until this returns.
    code_of("hanare_batch_run", || unsafe { reference(batch, "batch")?.start()?.wait() })
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
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
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_batch_drop(batch: *mut CBatch) -> c_int {
    code_of("hanare_batch_drop", || {
        // SAFETY: the header makes this the handle's last call.
        drop(unsafe { take(batch, "batch") }?);
        Ok(code::OK)
    })
}
