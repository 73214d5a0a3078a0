//! `hanare.h`, "Naming": what is kept with a region, and the change of it.

use crate::argument::{bytes, bytes_mut, items, reference, sized, text};
use crate::border::{Failure, Outcome, code_of};
use crate::code;
use crate::pool::CPool;
use crate::region::CRegion;
use hanare::{Changes, User};
use std::ffi::{c_char, c_int, c_void};

/// `hanare_attribute` of the header.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CAttribute {
    name: *const c_char,
    value: *const c_void,
    len: usize,
}

/// The caller's attributes; a value that is `NULL` is none.
///
/// # Safety
/// The caller owns `count` of them, with their strings and values; see the header.
pub(crate) unsafe fn attributes(list: *const CAttribute, count: usize) -> Outcome<Vec<(String, Option<Vec<u8>>)>> {
    // SAFETY: promised by the caller.
    let list = unsafe { items(list, count, "attributes") }?;
    let read = |given: &CAttribute| {
        // SAFETY: promised by the caller.
        let name = unsafe { text(given.name, "an attribute's name") }?.to_owned();
        let value = match given.value.is_null() {
            true => None,
            // SAFETY: promised by the caller.
            false => Some(unsafe { bytes(given.value.cast(), given.len, "an attribute's value") }?.to_vec()),
        };
        Ok((name, value))
    };
    list.iter().map(read).collect()
}

/// `hanare_changes` of the header.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CChanges {
    struct_size: usize,
    name: *const c_char,
    mode: u32,
    uid: u32,
    gid: u32,
    attributes: *const CAttribute,
    attribute_count: usize,
    copies: u32,
}

/// `HANARE_SAME` of the header.
const SAME: u32 = u32::MAX;

/// # Safety
/// The caller's struct that begins with its size.
unsafe fn changes(ptr: *const CChanges) -> Outcome<Changes> {
    // SAFETY: promised by the caller.
    let given = unsafe { sized(ptr, "changes") }?;
    let owner = match (given.uid, given.gid) {
        (SAME, SAME) => None,
        (SAME, _) | (_, SAME) => {
            return Err(Failure::Argument("changes->uid and changes->gid are given together, or both HANARE_SAME".to_owned()));
        }
        (uid, gid) => Some(User { uid, gid }),
    };
    let name = match given.name.is_null() {
        true => None,
        // SAFETY: the caller's string.
        false => Some(unsafe { text(given.name, "changes->name") }?.to_owned()),
    };
    // SAFETY: the caller's list.
    let attributes = unsafe { attributes(given.attributes, given.attribute_count) }?.into_iter().collect();
    // A number above 255 is refused as too many copies.
    let copies = Some(given.copies).filter(|copies| *copies != 0).map(|copies| u8::try_from(copies).unwrap_or(u8::MAX));
    Ok(Changes { name, owner, mode: Some(given.mode).filter(|mode| *mode != SAME), copies, attributes })
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_alter(pool: *mut CPool, name: *const c_char, what: *const CChanges) -> c_int {
    code_of("hanare_alter", || {
        // SAFETY: the caller's handle, string and struct.
        unsafe { reference(pool, "pool")?.pool.alter(text(name, "name")?, &changes(what)?)? };
        Ok(code::OK)
    })
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_get_attribute(
    region: *const CRegion,
    name: *const c_char,
    into: *mut c_void,
    max: usize,
) -> c_int {
    code_of("hanare_get_attribute", || {
        // SAFETY: the caller's handle, string and memory.
        let (region, name, into) =
            unsafe { (&reference(region, "region")?.region, text(name, "name")?, bytes_mut(into.cast(), max, "into")?) };
        let missing = || Failure::Attribute { region: region.name().to_owned(), name: name.to_owned() };
        let value = region.attributes().get(name).ok_or_else(missing)?;
        let len = value.len().min(into.len());
        into[..len].copy_from_slice(&value[..len]);
        // At most ATTRIBUTES_LEN_MAX.
        Ok(value.len() as c_int)
    })
}
