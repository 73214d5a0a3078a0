//! Waiting for a change of a key's value.

use super::CStore;
use crate::argument::{place, reference};
use crate::border::code_of;
use crate::dict::CKey;
use crate::sync::bound;
use hanare_dict::Stamp;
use std::ffi::c_int;

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_store_stamp(store: *mut CStore, key: CKey, stamp: *mut u64) -> c_int {
    code_of("hanare_store_stamp", || {
        // SAFETY: the caller's handle and key.
        let (store, key) = unsafe { (&reference(store, "store")?.0, key.key()?) };
        let into = place(stamp, "stamp")?;
        let found = store.stamp(&key)?;
        // SAFETY: not NULL, so it is the caller's variable.
        unsafe { into.write(found.0) };
        Ok(c_int::from(found != Stamp::ABSENT))
    })
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_store_watch(store: *mut CStore, key: CKey, stamp: *mut u64, bound_ms: u64) -> c_int {
    code_of("hanare_store_watch", || {
        // SAFETY: the caller's handle and key.
        let (store, key) = unsafe { (&reference(store, "store")?.0, key.key()?) };
        let stamp = place(stamp, "stamp")?;
        // SAFETY: not NULL, so it is the caller's variable.
        let since = Stamp(unsafe { stamp.read() });
        let Some(found) = store.watch(&key, since, bound(bound_ms))? else { return Ok(0) };
        // SAFETY: as above.
        unsafe { stamp.write(found.0) };
        Ok(1)
    })
}
