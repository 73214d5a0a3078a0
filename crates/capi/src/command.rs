//! `hanare.h`, "Put, get, copy": the blocking ones.

use crate::argument::{CStrided, bytes, bytes_mut, reference};
use crate::border::code_of;
use crate::code;
use crate::recorded::check_attachment;
use crate::region::CRegion;
use hanare_protocol::shape::Strided;
use std::ffi::{c_int, c_void};

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_put(region: *mut CRegion, offset: u64, from: *const c_void, len: usize) -> c_int {
    code_of("hanare_put", || {
        // SAFETY: the caller's handle, and bytes that do not change during the call.
        unsafe { reference(region, "region")?.region.put(offset, bytes(from.cast(), len, "from")?)? };
        Ok(code::OK)
    })
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_get(region: *mut CRegion, offset: u64, into: *mut c_void, len: usize) -> c_int {
    code_of("hanare_get", || {
        // SAFETY: the caller's handle, and bytes that are ours during the call.
        unsafe { reference(region, "region")?.region.get(offset, bytes_mut(into.cast(), len, "into")?)? };
        Ok(code::OK)
    })
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_put_strided(
    region: *mut CRegion,
    shape: *const CStrided,
    from: *const c_void,
    from_len: usize,
) -> c_int {
    code_of("hanare_put_strided", || {
        // SAFETY: the caller's handle and shape, and bytes that do not change during the call.
        unsafe {
            let (region, shape) = (reference(region, "region")?, *reference(shape, "shape")?);
            region.region.put_strided(shape.into(), bytes(from.cast(), from_len, "from")?)?;
        }
        Ok(code::OK)
    })
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_get_strided(
    region: *mut CRegion,
    shape: *const CStrided,
    into: *mut c_void,
    into_len: usize,
) -> c_int {
    code_of("hanare_get_strided", || {
        // SAFETY: the caller's handle and shape, and bytes that are ours during the call.
        unsafe {
            let (region, shape) = (reference(region, "region")?, *reference(shape, "shape")?);
            region.region.get_strided(shape.into(), bytes_mut(into.cast(), into_len, "into")?)?;
        }
        Ok(code::OK)
    })
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_copy(
    from: *mut CRegion,
    from_shape: *const CStrided,
    to: *mut CRegion,
    to_shape: *const CStrided,
) -> c_int {
    code_of("hanare_copy", || {
        // SAFETY: the caller's handles.
        let (from, to) = unsafe { (reference(from, "from")?, reference(to, "to")?) };
        // SAFETY: the caller's shapes.
        let shapes = unsafe { (*reference(from_shape, "from_shape")?, *reference(to_shape, "to_shape")?) };
        check_attachment(&from.pool, to, &from.region)?;
        from.pool.copy(&from.region, Strided::from(shapes.0), &to.region, Strided::from(shapes.1))?;
        Ok(code::OK)
    })
}
