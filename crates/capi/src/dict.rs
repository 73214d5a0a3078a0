//! `hanare.h`, "Dictionaries".

use crate::argument::{bytes, bytes_mut, give, place, reference, sized, take, text};
use crate::border::{Failure, Outcome, code_of};
use crate::code;
use crate::naming::placement;
use crate::pool::CPool;
use hanare_dict::{Dict, Key, Options, Walk};
use std::ffi::{c_char, c_int, c_void};

/// Target of `hanare_dict *`.
pub struct CDict(Dict);

/// Target of `hanare_dict_walk *`.
pub struct CWalk {
    walk: Walk,
    ready: std::vec::IntoIter<Vec<u8>>,
    /// The key that was told last.
    told: Vec<u8>,
}

/// `hanare_dict_options` of the header.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CDictOptions {
    struct_size: usize,
    placement: *const c_char,
    buckets: u64,
    memory: u64,
    mode: u32,
    copies: u32,
}

/// `hanare_key` of the header.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CKey {
    letter: c_int,
    bytes: *const c_void,
    len: usize,
}

impl CKey {
    /// # Safety
    /// The bytes are the caller's.
    pub(crate) unsafe fn key(self) -> Outcome<Key<'static>> {
        // SAFETY: promised by the caller.
        let rest = unsafe { bytes(self.bytes.cast(), self.len, "key.bytes") }?;
        let letter =
            u8::try_from(self.letter).map_err(|_| Failure::Argument(format!("key.type {} is no letter", self.letter)))?;
        Ok(Key::of(letter, rest)?)
    }
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_dict_open(
    pool: *mut CPool,
    name: *const c_char,
    options: *const CDictOptions,
    dict: *mut *mut CDict,
) -> c_int {
    code_of("hanare_dict_open", || {
        // SAFETY: the caller's handle and string.
        let (pool, name) = unsafe { (&reference(pool, "pool")?.pool, text(name, "name")?) };
        let into = place(dict, "dict")?;
        let mut how = Options::default();
        if !options.is_null() {
            // SAFETY: the caller's struct, and its string.
            let (given, placement) = unsafe { (sized(options, "options")?, placement((*options).placement)?) };
            let CDictOptions { buckets, memory, mode, copies, .. } = given;
            // More than there can be is refused where the region is made.
            let copies = u8::try_from(copies.max(1)).unwrap_or(u8::MAX);
            how = Options { placement, copies, buckets, memory, mode, ..how };
        }
        let opened = Dict::open(pool, name, &how)?;
        // SAFETY: not NULL, so it is the caller's variable.
        unsafe { give(CDict(opened), into) };
        Ok(code::OK)
    })
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_dict_close(dict: *mut CDict) -> c_int {
    code_of("hanare_dict_close", || {
        // SAFETY: the header makes this the handle's last call.
        drop(unsafe { take(dict, "dict") }?);
        Ok(code::OK)
    })
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_dict_get(
    dict: *mut CDict,
    key: CKey,
    into: *mut c_void,
    room: usize,
    len: *mut usize,
    kind: *mut c_int,
) -> c_int {
    code_of("hanare_dict_get", || {
        // SAFETY: the caller's handle, key and buffer.
        let (dict, key, into) = unsafe { (&reference(dict, "dict")?.0, key.key()?, bytes_mut(into.cast(), room, "into")?) };
        let len = place(len, "len")?;
        let Some(told) = dict.get_into(&key, into)? else { return Ok(0) };
        // SAFETY: not NULL, so they are the caller's variables; the second one may be NULL.
        unsafe {
            len.write(told.len);
            if !kind.is_null() {
                kind.write(told.kind.into());
            }
        }
        Ok(1)
    })
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_dict_set(dict: *mut CDict, key: CKey, kind: c_int, value: *const c_void, len: usize) -> c_int {
    code_of("hanare_dict_set", || {
        // SAFETY: the caller's handle, key and bytes.
        let (dict, key, value) = unsafe { (&reference(dict, "dict")?.0, key.key()?, bytes(value.cast(), len, "value")?) };
        let kind = u8::try_from(kind).map_err(|_| Failure::Argument(format!("kind {kind} is none of HANARE_VALUE_…")))?;
        dict.set(&key, kind, value)?;
        Ok(code::OK)
    })
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_dict_remove(dict: *mut CDict, key: CKey) -> c_int {
    code_of("hanare_dict_remove", || {
        // SAFETY: the caller's handle and key.
        let (dict, key) = unsafe { (&reference(dict, "dict")?.0, key.key()?) };
        Ok(c_int::from(dict.remove(&key)?))
    })
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_dict_next(dict: *mut CDict, walk: *mut *mut CWalk, key: *mut CKey) -> c_int {
    code_of("hanare_dict_next", || {
        // SAFETY: the caller's handle.
        let dict = unsafe { &reference(dict, "dict")?.0 };
        let (walk, key) = (place(walk, "walk")?, place(key, "key")?);
        // SAFETY: not NULL, so it is the caller's variable, with NULL or a walk that no other thread uses.
        let is_new = unsafe { (*walk).is_null() };
        // SAFETY: as above.
        let mut going = match is_new {
            true => Box::new(CWalk { walk: Walk::default(), ready: Vec::new().into_iter(), told: Vec::new() }),
            // SAFETY: as above.
            false => unsafe { take(*walk, "walk") }?,
        };
        let found = next_of(dict, &mut going);
        let Ok(true) = found else {
            match found {
                // SAFETY: as above; the walk has ended.
                Ok(_) => unsafe { walk.write(std::ptr::null_mut()) },
                // The caller's walk goes on where it was, or is closed.
                Err(_) if !is_new => {
                    let _ = Box::into_raw(going);
                }
                Err(_) => {}
            }
            return found.map(c_int::from);
        };
        let (letter, rest) = going.told.split_first().unwrap_or((&0, &[]));
        let told = CKey { letter: (*letter).into(), bytes: rest.as_ptr().cast(), len: rest.len() };
        // SAFETY: not NULL, so they are the caller's variables. The key's bytes stay where they are until the walk's next call.
        unsafe {
            key.write(told);
            walk.write(Box::into_raw(going));
        }
        Ok(1)
    })
}

/// Goes on to the next key; says whether there is one.
fn next_of(dict: &Dict, going: &mut CWalk) -> Outcome<bool> {
    if going.ready.len() == 0 {
        going.ready = dict.next_keys(&mut going.walk)?.into_iter();
    }
    let next = going.ready.next();
    let is_there = next.is_some();
    going.told = next.unwrap_or_default();
    Ok(is_there)
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_dict_walk_close(walk: *mut CWalk) -> c_int {
    code_of("hanare_dict_walk_close", || {
        // SAFETY: the header makes this the handle's last call.
        drop(unsafe { take(walk, "walk") }?);
        Ok(code::OK)
    })
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_dict_sweep(dict: *mut CDict, unlinked: *mut u64) -> c_int {
    code_of("hanare_dict_sweep", || {
        // SAFETY: the caller's handle.
        let found = unsafe { &reference(dict, "dict")?.0 }.sweep()?;
        if !unlinked.is_null() {
            // SAFETY: not NULL, so it is the caller's variable.
            unsafe { unlinked.write(found) };
        }
        Ok(code::OK)
    })
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_dict_destroy(dict: *mut CDict) -> c_int {
    code_of("hanare_dict_destroy", || {
        // SAFETY: the caller's handle.
        unsafe { &reference(dict, "dict")?.0 }.destroy()?;
        Ok(code::OK)
    })
}
