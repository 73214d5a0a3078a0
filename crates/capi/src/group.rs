//! `hanare.h`, "Collective operations".

use crate::argument::{bytes, bytes_mut, give, place, reference, take, text};
use crate::border::{Failure, Outcome, code_of};
use crate::code;
use crate::element::modify;
use crate::pool::{CPool, count};
use crate::region::CRegion;
use hanare::{Group, Modify};
use std::ffi::{c_char, c_int, c_void};

/// Target of `hanare_group *`.
pub struct CGroup(pub(crate) Group);

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_group_open(
    pool: *mut CPool,
    name: *const c_char,
    parties: u32,
    group: *mut *mut CGroup,
) -> c_int {
    code_of("hanare_group_open", || {
        // SAFETY: the caller's handle.
        let pool = unsafe { &reference(pool, "pool")?.pool };
        let into = place(group, "group")?;
        let opened = if name.is_null() {
            let job = pool.job_group();
            if parties != 0 && parties != job.parties() {
                let reason = format!("parties is {parties}, and the job has {} ranks: give 0, or their number", job.parties());
                return Err(Failure::Argument(reason));
            }
            job
        } else {
            // SAFETY: the caller's string.
            pool.group(unsafe { text(name, "name")? }, parties)?
        };
        // SAFETY: not NULL, so it is the caller's variable.
        unsafe { give(CGroup(opened), into) };
        Ok(code::OK)
    })
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_group_open_at(region: *mut CRegion, offset: u64, parties: u32, group: *mut *mut CGroup) -> c_int {
    code_of("hanare_group_open_at", || {
        // SAFETY: the caller's handle.
        let region = unsafe { reference(region, "region") }?;
        let into = place(group, "group")?;
        let opened = region.region.group_at(offset, parties)?;
        // SAFETY: not NULL, so it is the caller's variable.
        unsafe { give(CGroup(opened), into) };
        Ok(code::OK)
    })
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_group_meet(group: *mut CGroup) -> c_int {
    // SAFETY: the caller's handle.
    unsafe { with("hanare_group_meet", group, |group| Ok(group.barrier().map(|()| code::OK)?)) }
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_group_close(group: *mut CGroup) -> c_int {
    code_of("hanare_group_close", || {
        // SAFETY: the header makes this the handle's last call.
        drop(unsafe { take(group, "group") }?);
        Ok(code::OK)
    })
}

/// Does something with a group.
///
/// # Safety
/// The handle is `NULL` or valid.
unsafe fn with(call: &'static str, group: *const CGroup, what: impl FnOnce(&Group) -> Outcome<c_int>) -> c_int {
    // SAFETY: promised by the caller.
    code_of(call, || what(unsafe { &reference(group, "group")?.0 }))
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_group_number(group: *const CGroup) -> c_int {
    // SAFETY: the caller's handle.
    unsafe { with("hanare_group_number", group, |group| Ok(count(group.number()))) }
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_group_parties(group: *const CGroup) -> c_int {
    // SAFETY: the caller's handle.
    unsafe { with("hanare_group_parties", group, |group| Ok(count(group.parties()))) }
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_broadcast(group: *mut CGroup, values: *mut c_void, len: usize, root: u32) -> c_int {
    let broadcast = |group: &Group| {
        // SAFETY: the caller's bytes.
        group.broadcast(unsafe { bytes_mut(values.cast(), len, "values") }?, root)?;
        Ok(code::OK)
    };
    // SAFETY: the caller's handle.
    unsafe { with("hanare_broadcast", group, broadcast) }
}

/// Bytes of so many elements.
fn len_of(elements: usize, modify: Modify) -> Outcome<usize> {
    let len = elements.checked_mul(modify.element.len() as usize).filter(|len| isize::try_from(*len).is_ok());
    len.ok_or_else(|| Failure::Argument(format!("count {elements} is more elements than any memory has")))
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_all_reduce(
    group: *mut CGroup,
    values: *mut c_void,
    count: usize,
    element: c_int,
    operator: c_int,
) -> c_int {
    let reduce = |group: &Group| {
        let modify = modify(element, operator)?;
        // SAFETY: the caller's elements.
        let values = unsafe { bytes_mut(values.cast(), len_of(count, modify)?, "values") }?;
        group.all_reduce_bytes(modify.element, modify.operator, values)?;
        Ok(code::OK)
    };
    // SAFETY: the caller's handle.
    unsafe { with("hanare_all_reduce", group, reduce) }
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_reduce_to(
    group: *mut CGroup,
    values: *mut c_void,
    count: usize,
    element: c_int,
    operator: c_int,
    root: u32,
) -> c_int {
    let reduce = |group: &Group| {
        let modify = modify(element, operator)?;
        // SAFETY: the caller's elements.
        let values = unsafe { bytes_mut(values.cast(), len_of(count, modify)?, "values") }?;
        group.reduce_bytes(modify.element, modify.operator, values, root)?;
        Ok(code::OK)
    };
    // SAFETY: the caller's handle.
    unsafe { with("hanare_reduce_to", group, reduce) }
}

/// Bytes of a block of each party.
fn all_len(group: &Group, len: usize) -> Outcome<usize> {
    let all = len.checked_mul(group.parties() as usize).filter(|len| isize::try_from(*len).is_ok());
    all.ok_or_else(|| Failure::Argument(format!("len {len} for each party is more than any memory has")))
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_gather(
    group: *mut CGroup,
    own: *const c_void,
    len: usize,
    into: *mut c_void,
    root: u32,
) -> c_int {
    let gather = |group: &Group| {
        let all = if group.number() == root { all_len(group, len)? } else { 0 };
        // SAFETY: the caller's bytes, of which `into` has none but at the root.
        let (own, into) = unsafe { (bytes(own.cast(), len, "own")?, bytes_mut(into.cast(), all, "into")?) };
        group.gather(own, into, root)?;
        Ok(code::OK)
    };
    // SAFETY: the caller's handle.
    unsafe { with("hanare_gather", group, gather) }
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_scatter(
    group: *mut CGroup,
    from: *const c_void,
    own: *mut c_void,
    len: usize,
    root: u32,
) -> c_int {
    let scatter = |group: &Group| {
        let all = if group.number() == root { all_len(group, len)? } else { 0 };
        // SAFETY: the caller's bytes, of which `from` has none but at the root.
        let (from, own) = unsafe { (bytes(from.cast(), all, "from")?, bytes_mut(own.cast(), len, "own")?) };
        group.scatter(from, own, root)?;
        Ok(code::OK)
    };
    // SAFETY: the caller's handle.
    unsafe { with("hanare_scatter", group, scatter) }
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_all_gather(group: *mut CGroup, own: *const c_void, len: usize, into: *mut c_void) -> c_int {
    let gather = |group: &Group| {
        let all = all_len(group, len)?;
        // SAFETY: the caller's bytes.
        let (own, into) = unsafe { (bytes(own.cast(), len, "own")?, bytes_mut(into.cast(), all, "into")?) };
        group.all_gather(own, into)?;
        Ok(code::OK)
    };
    // SAFETY: the caller's handle.
    unsafe { with("hanare_all_gather", group, gather) }
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_all_to_all(group: *mut CGroup, from: *const c_void, into: *mut c_void, len: usize) -> c_int {
    let exchange = |group: &Group| {
        let all = all_len(group, len)?;
        // SAFETY: the caller's bytes.
        let (from, into) = unsafe { (bytes(from.cast(), all, "from")?, bytes_mut(into.cast(), all, "into")?) };
        group.all_to_all(from, into)?;
        Ok(code::OK)
    };
    // SAFETY: the caller's handle.
    unsafe { with("hanare_all_to_all", group, exchange) }
}
