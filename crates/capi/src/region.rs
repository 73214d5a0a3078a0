//! `hanare.h`, "Naming": region handles and what they know of themselves.

use crate::argument::{give, reference, take};
use crate::border::{code_of, enter};
use crate::code;
use crate::mapped::Map;
use hanare::{Pool, Region};
use std::ffi::c_int;
use std::sync::{Arc, Mutex, PoisonError};

/// Target of `hanare_region *`.
pub struct CRegion {
    pub(crate) pool: Pool,
    pub(crate) region: Arc<Region>,
    /// Given out by `hanare_map`.
    pub(crate) mapping: Mutex<Option<Map>>,
}

impl CRegion {
    /// Gives a new handle to C.
    ///
    /// # Safety
    /// `into` is valid for a write.
    pub(crate) unsafe fn give(pool: &Pool, region: Region, into: *mut *mut CRegion) {
        let handle = CRegion { pool: pool.clone(), region: Arc::new(region), mapping: Mutex::default() };
        // SAFETY: promised by the caller.
        unsafe { give(handle, into) }
    }
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_close(region: *mut CRegion) -> c_int {
    code_of("hanare_close", || {
        // SAFETY: the header makes this the handle's last call.
        let region = unsafe { take(region, "region") }?;
        let mapping = region.mapping.into_inner().unwrap_or_else(PoisonError::into_inner);
        mapping.map_or(Ok(()), Map::end)?;
        Ok(code::OK)
    })
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_len(region: *const CRegion) -> i64 {
    let len = enter("hanare_len", || {
        // SAFETY: the caller's handle.
        Ok(unsafe { reference(region, "region") }?.region.len())
    });
    len.map_or_else(i64::from, |len| i64::try_from(len).unwrap_or(i64::MAX))
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_is_local(region: *const CRegion) -> c_int {
    code_of("hanare_is_local", || {
        // SAFETY: the caller's handle.
        Ok(c_int::from(unsafe { reference(region, "region") }?.region.is_local()))
    })
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_was_created(region: *const CRegion) -> c_int {
    code_of("hanare_was_created", || {
        // SAFETY: the caller's handle.
        let region = unsafe { &reference(region, "region")?.region };
        Ok(c_int::from(region.created()) + c_int::from(region.renewed()))
    })
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_gid(region: *const CRegion) -> u64 {
    let gid = enter("hanare_gid", || {
        // SAFETY: the caller's handle.
        Ok(unsafe { reference(region, "region") }?.region.gid().0)
    });
    gid.unwrap_or(0)
}
