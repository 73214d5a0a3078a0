//! `dn_malloc` and its kin: which pointer is which region.

use super::rank::{self, Rank};
use super::report::{code_of, reported};
use crate::argument::text;
use crate::border::{Failure, Outcome};
use crate::code;
use hanare::{Consistency, CreateOptions, Pool, Region, SharedMapping};
use hanare_protocol::placement::Placement;
use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

impl Rank {
    fn enter(&self, region: Region) -> Outcome<*mut c_void> {
        let shared = region.map(Consistency::Explicit)?;
        let ptr = shared.ptr();
        let mut regions = self.shared.write().unwrap_or_else(PoisonError::into_inner);
        // A region is mapped once: who asks again gets the same pointer.
        regions.entry(ptr.addr()).or_default().push(Arc::new(shared));
        Ok(ptr.cast())
    }

    /// The region that holds the byte at `ptr`.
    fn find(&self, ptr: *mut c_void) -> Outcome<Arc<SharedMapping>> {
        let shared = self.shared.read().unwrap_or_else(PoisonError::into_inner);
        let below = shared.range(..=ptr.addr()).next_back().and_then(|(_, regions)| regions.first());
        let found = below.filter(|region| ((ptr.addr() - region.ptr().addr()) as u64) < region.len());
        found.cloned().ok_or_else(|| Failure::Argument(format!("{ptr:p} is in no region that dn_malloc returned")))
    }

    fn free(&self, ptr: *mut c_void) -> Outcome {
        let mut shared = self.shared.write().unwrap_or_else(PoisonError::into_inner);
        let freed = shared.get_mut(&ptr.addr()).and_then(Vec::pop);
        if shared.get(&ptr.addr()).is_some_and(Vec::is_empty) {
            shared.remove(&ptr.addr());
        }
        // Unmapping speaks with the node: others need not wait for it.
        drop(shared);
        match freed {
            Some(_) => Ok(code::OK),
            None => Err(Failure::Argument(format!("{ptr:p} is no pointer that dn_malloc returned, or was freed already"))),
        }
    }
}

/// `HANARE_PLACE`, for regions that dn_malloc makes.
fn placement() -> Outcome<Placement> {
    match std::env::var("HANARE_PLACE") {
        Ok(text) if !text.is_empty() => Ok(text.parse()?),
        _ => Ok(Placement::Local),
    }
}

fn allocate_named(pool: &Pool, name: &str, len: u64) -> Outcome<Region> {
    let options = CreateOptions { placement: placement()?, copies: 1, ..CreateOptions::default() };
    Ok(pool.create_or_attach(name, len, &options)?)
}

fn allocate_unnamed(rank: &Rank, len: u64) -> Outcome<*mut c_void> {
    let number = rank.unnamed_count.fetch_add(1, Ordering::Relaxed);
    let name = format!("{}.{}.local{number}", rank.prefix, rank.pool.rank());
    let ptr = rank.enter(rank.pool.create(&name, len, &CreateOptions { copies: 1, ..CreateOptions::default() })?)?;
    // The mapping keeps the bytes; without a name they end with this process, however it ends.
    rank.pool.remove(&name)?;
    Ok(ptr)
}

/// Does something with the whole region that holds `ptr`.
fn on_region(call: &'static str, ptr: *mut c_void, work: impl FnOnce(&SharedMapping) -> hanare::Result<()>) -> c_int {
    code_of(call, || Ok(work(&*rank::with(|rank| rank.find(ptr))?).map(|()| code::OK)?))
}

fn pointer(call: &'static str, work: impl FnOnce(&Rank) -> Outcome<*mut c_void>) -> *mut c_void {
    reported(call, || rank::with(work)).unwrap_or(std::ptr::null_mut())
}

/// See `dimmnet.h`.
// FEATURE: D2-F6
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dn_malloc_named(name: *const c_char, size: usize) -> *mut c_void {
    pointer("dn_malloc", |rank| {
        // SAFETY: the caller's string.
        let name = unsafe { text(name, "name") }?;
        rank.enter(allocate_named(&rank.pool, name, size as u64)?)
    })
}

/// See `dimmnet.h`.
// FEATURE: D2-F6
#[unsafe(no_mangle)]
pub extern "C" fn dn_malloc_local(size: usize) -> *mut c_void {
    pointer("dn_malloc", |rank| allocate_unnamed(rank, size as u64))
}

/// See `dimmnet.h`.
// FEATURE: D2-F6
#[unsafe(no_mangle)]
pub extern "C" fn dn_free(ptr: *mut c_void) -> c_int {
    code_of("dn_free", || if ptr.is_null() { Ok(code::OK) } else { rank::with(|rank| rank.free(ptr)) })
}

/// See `dimmnet.h`.
// FEATURE: D2-F7
#[unsafe(no_mangle)]
pub extern "C" fn dn_flush(ptr: *mut c_void) -> c_int {
    on_region("dn_flush", ptr, |region| region.flush(0, region.len()))
}

/// See `dimmnet.h`.
// FEATURE: D2-F7
#[unsafe(no_mangle)]
pub extern "C" fn dn_update(ptr: *mut c_void) -> c_int {
    on_region("dn_update", ptr, |region| region.update(0, region.len()))
}
