//! `hanare.h`, "Map".

use crate::argument::{place, reference};
use crate::border::{Failure, code_of};
use crate::code;
use crate::region::CRegion;
use hanare_protocol::Error;
use std::ffi::{c_int, c_void};
use std::sync::PoisonError;

/// See `hanare.h`.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_map(region: *mut CRegion, ptr: *mut *mut c_void, len: *mut usize) -> c_int {
    code_of("hanare_map", || {
        // SAFETY: the caller's handle.
        let region = unsafe { reference(region, "region") }?;
        let (ptr_into, len_into) = (place(ptr, "ptr")?, place(len, "len")?);
        let mut mapping = region.mapping.lock().unwrap_or_else(PoisonError::into_inner);
        if mapping.is_none() {
            *mapping = Some(region.region.map_local()?);
        }
        let mapping = mapping.as_ref().expect("just filled");
        // SAFETY: not NULL, so they are the caller's variables.
        unsafe {
            ptr_into.write(mapping.ptr().cast());
            len_into.write(mapping.len());
        }
        Ok(code::OK)
    })
}

/// See `hanare.h`.
///
/// # Safety
/// As the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_unmap(region: *mut CRegion) -> c_int {
    code_of("hanare_unmap", || {
        // SAFETY: the caller's handle.
        let region = unsafe { reference(region, "region") }?;
        let mapping = region.mapping.lock().unwrap_or_else(PoisonError::into_inner).take();
        mapping.map(|_| code::OK).ok_or_else(|| {
            Failure::Pool(Error::BadUse { region: region.region.name().to_owned(), reason: "it is not mapped".to_owned() })
        })
    })
}
