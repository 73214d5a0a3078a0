//! `hanare.h`, "Map".

use crate::argument::{place, reference};
use crate::border::{Failure, code_of};
use crate::code;
use crate::mapped::Map;
use crate::region::CRegion;
use hanare::{Consistency, MapAddress, SharedMapping};
use hanare_protocol::Error;
use std::ffi::{c_int, c_void};
use std::sync::{Arc, PoisonError};

/// Maps a region, or finds it mapped in the same way, and hands out where.
fn map(
    region: *mut CRegion,
    (ptr, len): (*mut *mut c_void, *mut usize),
    make: impl FnOnce(&CRegion) -> Result<Map, Failure>,
    is_same: impl FnOnce(&Map) -> bool,
) -> Result<c_int, Failure> {
    // SAFETY: the caller's handle.
    let region = unsafe { reference(region, "region") }?;
    let (ptr_into, len_into) = (place(ptr, "ptr")?, place(len, "len")?);
    let mut mapping = region.mapping.lock().unwrap_or_else(PoisonError::into_inner);
    match &*mapping {
        Some(known) if is_same(known) => {}
        Some(_) => return Err(bad_use(region, "this handle has it mapped in another way; hanare_unmap it first")),
        None => *mapping = Some(make(region)?),
    }
    let (start, len) = mapping.as_ref().expect("just filled").start();
    // SAFETY: not NULL, so they are the caller's variables.
    unsafe {
        ptr_into.write(start.cast());
        len_into.write(len);
    }
    Ok(code::OK)
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_map(region: *mut CRegion, ptr: *mut *mut c_void, len: *mut usize) -> c_int {
    code_of("hanare_map", || {
        let make = |region: &CRegion| Ok(Map::Local(region.region.map_local()?));
        map(region, (ptr, len), make, |known| matches!(known, Map::Local(_)))
    })
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_map_shared(
    region: *mut CRegion,
    consistency: c_int,
    ptr: *mut *mut c_void,
    len: *mut usize,
) -> c_int {
    code_of("hanare_map_shared", || map_shared(region, consistency, MapAddress::Usual, (ptr, len)))
}

/// HANARE_SAME_ADDRESS, which no mapping begins at.
const SAME_ADDRESS: usize = 1;

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_map_shared_at(
    region: *mut CRegion,
    consistency: c_int,
    address: *mut c_void,
    ptr: *mut *mut c_void,
    len: *mut usize,
) -> c_int {
    code_of("hanare_map_shared_at", || {
        let address = match address.addr() {
            0 => MapAddress::Usual,
            SAME_ADDRESS => MapAddress::Same,
            address => MapAddress::At(address),
        };
        map_shared(region, consistency, address, (ptr, len))
    })
}

fn map_shared(
    region: *mut CRegion,
    consistency: c_int,
    address: MapAddress,
    told: (*mut *mut c_void, *mut usize),
) -> Result<c_int, Failure> {
    let consistency = match consistency {
        1 => Consistency::Explicit,
        2 => Consistency::Coherent,
        3 => Consistency::Entry,
        other => {
            let known = "HANARE_EXPLICIT, HANARE_COHERENT, HANARE_ENTRY";
            return Err(Failure::Argument(format!("consistency {other} is none of {known}")));
        }
    };
    let make = |region: &CRegion| Ok(Map::Shared(Arc::new(region.region.map_at(consistency, address)?)));
    let is_met = |known: &SharedMapping| match address {
        MapAddress::Usual => true,
        MapAddress::Same => known.is_at_usual_address(),
        MapAddress::At(address) => known.ptr().addr() == address,
    };
    map(region, told, make, |known| matches!(known, Map::Shared(known) if known.consistency() == consistency && is_met(known)))
}

/// Runs `with` on a region's shared map.
pub(crate) fn with_shared(
    region: *mut CRegion,
    with: impl FnOnce(&SharedMapping) -> hanare::Result<()>,
) -> Result<c_int, Failure> {
    of_shared(region, with).map(|()| code::OK)
}

/// [`with_shared`], with its result.
pub(crate) fn of_shared<T>(region: *mut CRegion, with: impl FnOnce(&SharedMapping) -> hanare::Result<T>) -> Result<T, Failure> {
    of_kept(region, |mapping| with(mapping))
}

/// A region's shared map, kept for a call that waits for others: threads use the handle meanwhile.
pub(crate) fn shared(region: *mut CRegion) -> Result<Arc<SharedMapping>, Failure> {
    of_kept(region, |mapping| Ok(mapping.clone()))
}

fn of_kept<T>(region: *mut CRegion, with: impl FnOnce(&Arc<SharedMapping>) -> hanare::Result<T>) -> Result<T, Failure> {
    // SAFETY: the caller's handle.
    let region = unsafe { reference(region, "region") }?;
    let mapping = region.mapping.lock().unwrap_or_else(PoisonError::into_inner);
    match &*mapping {
        Some(Map::Shared(mapping)) => Ok(with(mapping)?),
        _ => Err(bad_use(region, "it is not mapped by hanare_map_shared")),
    }
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_flush_range(region: *mut CRegion, offset: u64, len: u64) -> c_int {
    code_of("hanare_flush_range", || with_shared(region, |mapping| mapping.flush(offset, len)))
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_update_range(region: *mut CRegion, offset: u64, len: u64) -> c_int {
    code_of("hanare_update_range", || with_shared(region, |mapping| mapping.update(offset, len)))
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_touch_range(region: *mut CRegion, offset: u64, len: u64) -> c_int {
    code_of("hanare_touch_range", || with_shared(region, |mapping| mapping.touch(offset, len)))
}

/// See `hanare.h`.
///
/// # Safety
/// The caller keeps the promises of `Remote::post`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_touch_range_to_write(region: *mut CRegion, offset: u64, len: u64) -> c_int {
    code_of("hanare_touch_range_to_write", || with_shared(region, |mapping| mapping.touch_to_write(offset, len)))
}

/// See `hanare.h`.
#[unsafe(no_mangle)]
pub extern "C" fn hanare_admit_thread() {
    SharedMapping::admit_thread();
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_unmap(region: *mut CRegion) -> c_int {
    code_of("hanare_unmap", || {
        // SAFETY: the caller's handle.
        let region = unsafe { reference(region, "region") }?;
        let mut kept = region.mapping.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.as_ref().is_some_and(Map::is_carried) {
            return Err(bad_use(region, "a thread is in hanare_group_barrier_with with it; unmap it after that"));
        }
        let mapping = kept.take();
        drop(kept);
        mapping.ok_or_else(|| bad_use(region, "it is not mapped"))?.end()?;
        Ok(code::OK)
    })
}

fn bad_use(region: &CRegion, reason: &str) -> Failure {
    Failure::Pool(Error::BadUse { region: region.region.name().to_owned(), reason: reason.to_owned() })
}
