//! `hanare.h`, "Put, get, copy": the non-blocking ones.

use crate::argument::{bytes, bytes_mut, give, place, reference, take};
use crate::border::code_of;
use crate::code;
use crate::region::CRegion;
use hanare::{Completion, Region};
use hanare_protocol::shape::Strided;
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
            let region = reference(region, "region")?.region.clone();
            let from = bytes(from.cast(), len, "from")?;
            let shape = Strided::contiguous(offset, len as u64);
            let completion = region.start_put_raw(shape, from.as_ptr(), len)?;
            give(CRequest { completion, _region: region }, into);
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
            let region = reference(region, "region")?.region.clone();
            let into = bytes_mut(into.cast(), len, "into")?;
            let shape = Strided::contiguous(offset, len as u64);
            let completion = region.start_get_raw(shape, into.as_mut_ptr(), len)?;
            give(CRequest { completion, _region: region }, handle);
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
