//! `hanare.h`, "Put, get, copy": the non-blocking ones.

use crate::argument::{bytes, bytes_mut, give, place, reference, take};
use crate::border::code_of;
use crate::code;
use crate::region::CRegion;
use hanare::{Completion, Region};
use std::ffi::{c_int, c_void};
use std::sync::Arc;

/// What `hanare_request *` points to.
pub struct CRequest {
    completion: Completion<()>,
    /// The region may be closed while the request is under way.
    _region: Arc<Region>,
}

/// See `hanare.h`.
///
/// # Safety
/// As the header says.
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
            let completion = pool.start_batch(|batch| batch.put(region, offset, from))?;
            give(CRequest { completion, _region: region.clone() }, into);
        }
        Ok(code::OK)
    })
}

/// See `hanare.h`.
///
/// # Safety
/// As the header says.
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
            let completion = pool.start_batch(|batch| batch.get(region, offset, into))?;
            give(CRequest { completion, _region: region.clone() }, handle);
        }
        Ok(code::OK)
    })
}

/// See `hanare.h`.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_wait(request: *mut CRequest) -> c_int {
    code_of("hanare_wait", || {
        // SAFETY: the header makes this the request's last call.
        unsafe { take(request, "request") }?.completion.wait()?;
        Ok(code::OK)
    })
}

/// See `hanare.h`.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_test(request: *mut CRequest) -> c_int {
    code_of("hanare_test", || {
        // SAFETY: the caller's handle.
        Ok(c_int::from(unsafe { reference(request, "request") }?.completion.is_done()))
    })
}
