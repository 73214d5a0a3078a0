//! `rhinet.h`, "Push and pull".

use super::CNet;
use crate::argument::{bytes, bytes_mut, reference, write_sized};
use crate::border::{Failure, Outcome, code_of};
use crate::code;
use hanare::PushedPage;
use std::ffi::{c_int, c_void};

const NORMAL: c_int = 0;
const PAGE_CACHING: c_int = 1;
const SEND_FROM_CACHE: c_int = 2;

const PAGE_LEN: usize = 4096;

/// `rhinet_line` of the header.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CLine {
    struct_size: usize,
    fills: u64,
    hits: u64,
    is_filled: u32,
    unused: u32,
}

/// Does something with an interface.
///
/// # Safety
/// The handle is `NULL` or valid.
pub(super) unsafe fn with(call: &'static str, net: *const CNet, what: impl FnOnce(&CNet) -> Outcome<c_int>) -> c_int {
    // SAFETY: promised by the caller.
    code_of(call, || what(unsafe { reference(net, "net") }?))
}

/// Does something with an interface and bytes of the caller, which are checked after the handle.
///
/// # Safety
/// The handle is `NULL` or valid.
unsafe fn with_bytes<B>(
    call: &'static str,
    net: *const CNet,
    bytes: impl FnOnce() -> Outcome<B>,
    what: impl FnOnce(&CNet, B) -> Outcome<()>,
) -> c_int {
    // SAFETY: promised by the caller.
    unsafe { with(call, net, |net| what(net, bytes()?).map(|()| code::OK)) }
}

/// See `rhinet.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rhinet_push(net: *mut CNet, from: *const c_void, len: usize, gid: u64, offset: u64) -> c_int {
    // SAFETY: the caller's bytes.
    let from = || unsafe { bytes(from.cast(), len, "from") };
    // SAFETY: the caller's handle.
    unsafe { with_bytes("rhinet_push", net, from, |net, from| net.with_region(gid, |region| region.put(offset, from))) }
}

/// See `rhinet.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rhinet_pull(net: *mut CNet, into: *mut c_void, len: usize, gid: u64, offset: u64) -> c_int {
    // SAFETY: the caller's bytes.
    let into = || unsafe { bytes_mut(into.cast(), len, "into") };
    // SAFETY: the caller's handle.
    unsafe { with_bytes("rhinet_pull", net, into, |net, into| net.with_region(gid, |region| region.get(offset, into))) }
}

/// See `rhinet.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rhinet_push_page(
    net: *mut CNet,
    page: *const c_void,
    gid: u64,
    offset: u64,
    mode: c_int,
    line: u32,
) -> c_int {
    let push = |net: &CNet| {
        let own = || {
            // SAFETY: the caller's page.
            let page = unsafe { bytes(page.cast(), PAGE_LEN, "page") }?;
            Ok::<_, Failure>(page.first_chunk().expect("a page has its length"))
        };
        let page = match mode {
            NORMAL => PushedPage::Normal(own()?),
            PAGE_CACHING => PushedPage::Caching(own()?, line),
            SEND_FROM_CACHE => PushedPage::FromCache(line),
            other => return Err(Failure::Argument(format!("mode {other} is none of RHINET_NORMAL and its kin"))),
        };
        net.with_region(gid, |region| net.cache.push(page, region, offset))?;
        Ok(code::OK)
    };
    // SAFETY: the caller's handle.
    unsafe { with("rhinet_push_page", net, push) }
}

/// See `rhinet.h`.
///
/// # Safety
/// See the header.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rhinet_get_line(net: *const CNet, line: u32, stat: *mut CLine) -> c_int {
    let tell = |net: &CNet| {
        let line = net.cache.line(line)?;
        let (struct_size, is_filled) = (size_of::<CLine>(), u32::from(line.is_filled));
        let told = CLine { struct_size, fills: line.fills, hits: line.hits, is_filled, unused: 0 };
        // SAFETY: the caller's struct.
        unsafe { write_sized(&told, stat, "stat")? };
        Ok(code::OK)
    };
    // SAFETY: the caller's handle.
    unsafe { with("rhinet_get_line", net, tell) }
}
