//! `hanare.h`, "Stores".

mod watch;

use crate::argument::{bytes, bytes_mut, give, items, place, reference, sized, take, text, write_sized};
use crate::border::{Failure, Outcome, code_of};
use crate::code;
use crate::dict::CKey;
use crate::naming::placement;
use crate::pool::CPool;
use crate::sync::bound;
use hanare::{Error, Result};
use hanare_dict::{Evict, Item, Key, Store, StoreOptions, Told, kind};
use std::ffi::{c_char, c_int, c_void};
use std::time::Duration;

/// Target of `hanare_store *`.
pub struct CStore(Store);

/// `hanare_store_options` of the header.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CStoreOptions {
    struct_size: usize,
    placement: *const c_char,
    evict: *const c_char,
    bytes: u64,
    entries: u64,
    mode: u32,
    copies: u32,
}

/// `hanare_store_memory` of the header.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CStoreMemory {
    struct_size: usize,
    bytes: u64,
    linked: u64,
    unlinked: u64,
    keys: u64,
}

/// `hanare_buffer` of the header.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CBuffer {
    into: *mut c_void,
    room: usize,
    len: usize,
    is_there: c_int,
}

/// `hanare_value` of the header.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CValue {
    bytes: *const c_void,
    len: usize,
}

/// Keys of the caller's list.
///
/// # Safety
/// The list and its keys' bytes are the caller's during the call.
unsafe fn keys_of(keys: *const CKey, count: usize) -> Outcome<Vec<Key<'static>>> {
    // SAFETY: promised by the caller.
    unsafe { items(keys, count, "keys")?.iter().map(|key| key.key()).collect() }
}

/// The options that a caller gave.
///
/// # Safety
/// The caller's struct and strings, or NULL.
unsafe fn options_of(options: *const CStoreOptions) -> Outcome<StoreOptions> {
    let how = StoreOptions::default();
    if options.is_null() {
        return Ok(how);
    }
    // SAFETY: promised by the caller.
    let (given, placement) = unsafe { (sized(options, "options")?, placement((*options).placement)?) };
    let CStoreOptions { evict, bytes, entries, mode, copies, .. } = given;
    let evict = match evict.is_null() {
        true => Evict::Lru,
        // SAFETY: promised by the caller.
        false => unsafe { text(evict, "options->evict")? }.parse()?,
    };
    // More than there can be is refused where the regions are made.
    let copies = u8::try_from(copies.max(1)).unwrap_or(u8::MAX);
    Ok(StoreOptions { bytes, evict, entries: (entries != 0).then_some(entries), placement, copies, mode, ..how })
}

/// A read within the caller's bound; `None` where it is over. On this host, where reads wait for nobody, there is none.
fn read<T: Send + 'static>(
    store: &Store,
    bound_ms: u64,
    call: impl FnOnce(&Store) -> Result<T> + Send + 'static,
) -> Result<Option<T>> {
    match bound(bound_ms).filter(|_| !store.is_here()) {
        Some(deadline) => store.within(deadline, call),
        None => call(store).map(Some),
    }
}

/// Time until an end, as the header has it.
fn ttl_of(ttl_ms: u64) -> Option<Duration> {
    bound(ttl_ms)
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_store_open(
    pool: *mut CPool,
    name: *const c_char,
    options: *const CStoreOptions,
    store: *mut *mut CStore,
) -> c_int {
    code_of("hanare_store_open", || {
        // SAFETY: the caller's handle, strings and struct.
        let (pool, name, how) = unsafe { (&reference(pool, "pool")?.pool, text(name, "name")?, options_of(options)?) };
        let into = place(store, "store")?;
        let opened = Store::open(pool, name, &how)?;
        // SAFETY: not NULL, so it is the caller's variable.
        unsafe { give(CStore(opened), into) };
        Ok(code::OK)
    })
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_store_close(store: *mut CStore) -> c_int {
    code_of("hanare_store_close", || {
        // SAFETY: the header makes this the handle's last call.
        let store = unsafe { take(store, "store") }?;
        store.0.give_back();
        Ok(code::OK)
    })
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_store_get(
    store: *mut CStore,
    key: CKey,
    into: *mut c_void,
    room: usize,
    len: *mut usize,
    bound_ms: u64,
) -> c_int {
    code_of("hanare_store_get", || {
        // SAFETY: the caller's handle, key and buffer.
        let (store, key, into) = unsafe { (&reference(store, "store")?.0, key.key()?, bytes_mut(into.cast(), room, "into")?) };
        let len = place(len, "len")?;
        let told = match bound(bound_ms).filter(|_| !store.is_here()) {
            Some(deadline) => store.get_many_within(&[key], &mut [into], deadline)?.pop().flatten(),
            None => store.get_into(&key, into)?,
        };
        let Some(told) = told else { return Ok(0) };
        // SAFETY: not NULL, so it is the caller's variable.
        unsafe { len.write(told.len) };
        Ok(1)
    })
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_store_get_many(
    store: *mut CStore,
    keys: *const CKey,
    buffers: *mut CBuffer,
    count: usize,
    bound_ms: u64,
) -> c_int {
    code_of("hanare_store_get_many", || {
        // SAFETY: the caller's handle and lists.
        let (store, keys) = unsafe { (&reference(store, "store")?.0, keys_of(keys, count)?) };
        // SAFETY: as above; the header makes the memory of two buffers apart.
        let mut into = unsafe { items(buffers.cast_const(), count, "buffers")? }
            .iter()
            // SAFETY: as above.
            .map(|buffer| unsafe { bytes_mut(buffer.into.cast(), buffer.room, "buffers->into") })
            .collect::<Outcome<Vec<&mut [u8]>>>()?;
        let told: Vec<Option<Told>> = match bound(bound_ms).filter(|_| !store.is_here()) {
            Some(deadline) => store.get_many_within(&keys, &mut into, deadline)?,
            None => store.get_many(&keys, &mut into)?,
        };
        for (index, told) in told.iter().enumerate() {
            // SAFETY: an item of the caller's list of `count`, to which nothing else refers by now.
            let buffer = unsafe { &mut *buffers.add(index) };
            (buffer.len, buffer.is_there) = (told.map_or(0, |told| told.len), told.is_some().into());
        }
        Ok(code::OK)
    })
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_store_exists(
    store: *mut CStore,
    keys: *const CKey,
    count: usize,
    there: *mut c_int,
    prefix: *mut usize,
    bound_ms: u64,
) -> c_int {
    code_of("hanare_store_exists", || {
        // SAFETY: the caller's handle and list.
        let (store, keys) = unsafe { (&reference(store, "store")?.0, keys_of(keys, count)?) };
        let known = match there.is_null() {
            // Keys behind the first that is missing are not asked for.
            true => read(store, bound_ms, move |store| store.known_prefix(&keys))?.unwrap_or(0),
            false => {
                let found = read(store, bound_ms, move |store| store.contains_many(&keys))?.unwrap_or_else(|| vec![false; count]);
                for (index, found) in found.iter().enumerate() {
                    // SAFETY: not NULL, so it is the caller's list of `count`.
                    unsafe { there.add(index).write((*found).into()) };
                }
                found.iter().take_while(|found| **found).count()
            }
        };
        if !prefix.is_null() {
            // SAFETY: not NULL, so it is the caller's variable.
            unsafe { prefix.write(known) };
        }
        Ok(code::OK)
    })
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_store_put(
    store: *mut CStore,
    key: CKey,
    value: *const c_void,
    len: usize,
    ttl_ms: u64,
    bound_ms: u64,
) -> c_int {
    code_of("hanare_store_put", || {
        // SAFETY: the caller's handle, key and bytes.
        let (store, key, value) = unsafe { (&reference(store, "store")?.0, key.key()?, bytes(value.cast(), len, "value")?) };
        let ttl = ttl_of(ttl_ms);
        let Some(deadline) = bound(bound_ms) else {
            store.put(&key, kind::PLAIN, value, ttl)?;
            return Ok(code::OK);
        };
        let value = value.to_vec();
        let done = store.within(deadline, move |store| store.put(&key, kind::PLAIN, &value, ttl))?;
        done.map(|()| code::OK).ok_or_else(|| {
            let (peer, what) = (format!("store '{}'", store.name()), "a put".to_owned());
            Failure::Pool(Error::Timeout { peer, what, after_ms: bound_ms })
        })
    })
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_store_put_many(
    store: *mut CStore,
    keys: *const CKey,
    values: *const CValue,
    count: usize,
    ttl_ms: u64,
    done: *mut c_int,
) -> c_int {
    code_of("hanare_store_put_many", || {
        // SAFETY: the caller's handle and lists.
        let (store, keys) = unsafe { (&reference(store, "store")?.0, keys_of(keys, count)?) };
        // SAFETY: as above.
        let values = unsafe { items(values, count, "values")? };
        let each = keys.iter().zip(values).map(|(key, value)| {
            // SAFETY: the caller's bytes.
            let bytes = unsafe { bytes(value.bytes.cast(), value.len, "values->bytes") }?;
            Ok(Item { key, kind: kind::PLAIN, bytes })
        });
        let were_put = store.put_many(&each.collect::<Outcome<Vec<Item<'_>>>>()?, ttl_of(ttl_ms))?;
        // SAFETY: as above.
        Ok(unsafe { tell(&were_put, done) })
    })
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_store_remove_many(
    store: *mut CStore,
    keys: *const CKey,
    count: usize,
    done: *mut c_int,
) -> c_int {
    code_of("hanare_store_remove_many", || {
        // SAFETY: the caller's handle and lists.
        let (store, keys) = unsafe { (&reference(store, "store")?.0, keys_of(keys, count)?) };
        let removed = store.remove_many(&keys)?;
        // SAFETY: as above.
        Ok(unsafe { tell(&removed, done) })
    })
}

/// Writes which keys were changed; returns how many.
///
/// # Safety
/// The caller's list of as many, or NULL.
unsafe fn tell(were_changed: &[bool], done: *mut c_int) -> c_int {
    if !done.is_null() {
        for (index, was_changed) in were_changed.iter().enumerate() {
            // SAFETY: not NULL, so it is the caller's list.
            unsafe { done.add(index).write((*was_changed).into()) };
        }
    }
    c_int::try_from(were_changed.iter().filter(|was_changed| **was_changed).count()).unwrap_or(c_int::MAX)
}

/// Runs a call on one key, which says whether it was there.
///
/// # Safety
/// The caller's handle and key.
unsafe fn on_key(
    name: &'static str,
    store: *mut CStore,
    key: CKey,
    call: impl FnOnce(&Store, &Key<'_>) -> Result<bool>,
) -> c_int {
    code_of(name, || {
        // SAFETY: promised by the caller.
        let (store, key) = unsafe { (&reference(store, "store")?.0, key.key()?) };
        Ok(c_int::from(call(store, &key)?))
    })
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_store_remove(store: *mut CStore, key: CKey) -> c_int {
    // SAFETY: the caller's handle and key.
    unsafe { on_key("hanare_store_remove", store, key, Store::remove) }
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_store_pin(store: *mut CStore, key: CKey, for_ms: u64) -> c_int {
    // SAFETY: the caller's handle and key.
    unsafe { on_key("hanare_store_pin", store, key, |store, key| store.pin(key, Duration::from_millis(for_ms))) }
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_store_unpin(store: *mut CStore, key: CKey) -> c_int {
    // SAFETY: the caller's handle and key.
    unsafe { on_key("hanare_store_unpin", store, key, Store::unpin) }
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_store_expire(store: *mut CStore, key: CKey, ttl_ms: u64) -> c_int {
    // SAFETY: the caller's handle and key.
    unsafe { on_key("hanare_store_expire", store, key, |store, key| store.expire(key, ttl_of(ttl_ms))) }
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_store_ttl(store: *mut CStore, key: CKey, ttl_ms: *mut u64) -> c_int {
    code_of("hanare_store_ttl", || {
        // SAFETY: the caller's handle and key.
        let (store, key) = unsafe { (&reference(store, "store")?.0, key.key()?) };
        let into = place(ttl_ms, "ttl_ms")?;
        let Some(left) = store.ttl(&key)? else { return Ok(0) };
        let left = left.map_or(u64::MAX, |left| u64::try_from(left.as_millis()).unwrap_or(u64::MAX));
        // SAFETY: not NULL, so it is the caller's variable.
        unsafe { into.write(left) };
        Ok(1)
    })
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_store_stat(store: *mut CStore, memory: *mut CStoreMemory) -> c_int {
    code_of("hanare_store_stat", || {
        // SAFETY: the caller's handle.
        let store = unsafe { &reference(store, "store")?.0 };
        let into = place(memory, "memory")?;
        let (told, keys) = (store.stat()?, store.len()?);
        let memory = CStoreMemory { struct_size: 0, bytes: told.bytes, linked: told.linked, unlinked: told.unlinked, keys };
        // SAFETY: the caller's struct, of the size that it says.
        unsafe { write_sized(&memory, into, "memory")? };
        Ok(code::OK)
    })
}

/// Runs a call on the whole store.
///
/// # Safety
/// The caller's handle.
unsafe fn on_all(name: &'static str, store: *mut CStore, call: impl FnOnce(&Store) -> Result<()>) -> c_int {
    code_of(name, || {
        // SAFETY: promised by the caller.
        call(unsafe { &reference(store, "store")?.0 })?;
        Ok(code::OK)
    })
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_store_clear(store: *mut CStore) -> c_int {
    // SAFETY: the caller's handle.
    unsafe { on_all("hanare_store_clear", store, Store::clear) }
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_store_sweep(store: *mut CStore) -> c_int {
    // SAFETY: the caller's handle.
    unsafe { on_all("hanare_store_sweep", store, |store| store.sweep().map(drop)) }
}

/// See `hanare.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hanare_store_destroy(store: *mut CStore) -> c_int {
    // SAFETY: the caller's handle.
    unsafe { on_all("hanare_store_destroy", store, Store::destroy) }
}
