//! `hanare.h`: requests, and the put and get that give one.

use crate::argument::{bytes, bytes_mut, give, place, reference, take};
use crate::border::{Outcome, code_of};
use crate::code;
use crate::recorded::Recorded;
use crate::region::CRegion;
use hanare::{Batch, Completion, Pool, Result};
use std::ffi::{c_int, c_void};

/// Target of `hanare_request *`.
pub struct CRequest {
    completion: Completion<()>,
    /// Regions and the pool may be given back while the request is under way.
    _pool: Pool,
}

impl CRequest {
    fn of(pool: &Pool, fill: impl FnOnce(&mut Batch<'static>) -> Result<()>) -> Outcome<CRequest> {
        Ok(CRequest { completion: pool.start_batch(fill)?, _pool: pool.clone() })
    }

    /// Begins commands as one batch.
    ///
    /// # Safety
    /// All memory that the commands name is good until the request has ended.
    pub unsafe fn start(pool: &Pool, commands: &[Recorded]) -> Outcome<CRequest> {
        // SAFETY: promised by the caller.
        CRequest::of(pool, |batch| commands.iter().try_for_each(|command| unsafe { command.add(batch) }))
    }

    /// Waits for its end, which tells C what came of it.
    pub fn wait(self) -> Outcome {
        self.completion.wait()?;
        Ok(code::OK)
    }
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_put_nb(
    region: *mut CRegion,
    offset: u64,
    from: *const c_void,
    len: usize,
    request: *mut *mut CRequest,
) -> c_int {
    code_of("hanare_put_nb", || {
        let into = place(request, "request")?;
        // SAFETY: the caller's handle, and bytes that are the library's until hanare_wait.
        unsafe {
            let CRegion { pool, region, .. } = reference(region, "region")?;
            let from = bytes(from.cast(), len, "from")?;
            give(CRequest::of(pool, |batch| batch.put(region, offset, from))?, into);
        }
        Ok(code::OK)
    })
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_get_nb(
    region: *mut CRegion,
    offset: u64,
    into: *mut c_void,
    len: usize,
    request: *mut *mut CRequest,
) -> c_int {
    code_of("hanare_get_nb", || {
        let handle = place(request, "request")?;
        // SAFETY: the caller's handle, and bytes that are the library's until hanare_wait.
        unsafe {
            let CRegion { pool, region, .. } = reference(region, "region")?;
            let into = bytes_mut(into.cast(), len, "into")?;
            give(CRequest::of(pool, |batch| batch.get(region, offset, into))?, handle);
        }
        Ok(code::OK)
    })
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_wait(request: *mut CRequest) -> c_int {
    // SAFETY: the header makes this the request's last call, and keeps what it tells to until then.
    code_of("hanare_wait", || unsafe { take(request, "request")?.wait() })
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_wait_all(requests: *mut *mut CRequest, count: usize) -> c_int {
    code_of("hanare_wait_all", || {
        if count > 0 {
            place(requests, "requests")?;
        }
        let mut outcome = Ok(code::OK);
        for index in 0..count {
            // SAFETY: the caller's array of that length.
            let request = unsafe { requests.add(index).replace(std::ptr::null_mut()) };
            if request.is_null() {
                continue;
            }
            // SAFETY: the header makes this the request's last call, and keeps what it tells to until then.
            let ended = unsafe { take(request, "request") }.and_then(|request| request.wait());
            outcome = outcome.and(ended);
        }
        outcome
    })
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_test(request: *mut CRequest) -> c_int {
    code_of("hanare_test", || {
        // SAFETY: the caller's handle.
        Ok(c_int::from(unsafe { reference(request, "request") }?.completion.is_done()))
    })
}
