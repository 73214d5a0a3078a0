//! The vector commands of `dimmnet.h`: VL, VS, VLS, VSS on this rank's board, RVL, RVS on another's.

#![allow(non_snake_case, reason = "the papers' names")]

use super::board::Board;
use super::rank::{self, Rank};
use super::report::code_of;
use crate::argument::{bytes, bytes_mut};
use crate::border::{Failure, Outcome};
use crate::code;
use hanare::Region;
use hanare_memory::{Lost, Window, guard, vector};
use hanare_protocol::Error;
use hanare_protocol::shape::{Shape, Strided};
use std::ffi::{c_int, c_void};

/// The largest element: 2^6 bytes, a cache line.
const CODE_MAX: c_int = 6;

/// A command's effect on the board.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    Load,
    Store,
}

/// Runs a contiguous command on this rank's board. `host` is the program's memory.
///
/// **Cost**: a bounds check and the copy; programs without the strided commands live on this for single elements.
#[inline]
fn copy_here(rank: &Rank, way: Way, offset: usize, host: Window) -> Outcome {
    let board = rank.boards.own(&rank.pool)?;
    // SAFETY: used during this call, and boards stay until the rank is dropped.
    let window = unsafe { board.window() };
    if offset.checked_add(host.len()).is_none_or(|end| end > window.len()) {
        return Err(out_of_range(board, offset, host.len()));
    }
    let here = window.slice(offset, host.len());
    let moved = match way {
        Way::Load => guard::copy(here, host),
        Way::Store => guard::copy(host, here),
    };
    moved.map_err(|lost| lost_here(rank, board.name(), lost))?;
    Ok(code::OK)
}

#[cold]
fn out_of_range(board: &Board, offset: usize, len: usize) -> Failure {
    // SAFETY: only its length is used.
    let limit = unsafe { board.window() }.len() as u64;
    let region = board.name().to_owned();
    Failure::Pool(Error::OutOfRange { region, offset: offset as u64, len: len as u64, limit })
}

/// Runs a strided command on this rank's board. `host` is the program's memory.
///
/// **Cost**: the check of the shape and the copy.
fn run_here(rank: &Rank, way: Way, shape: Strided, host: Window) -> Outcome {
    let board = rank.boards.own(&rank.pool)?;
    // SAFETY: used during this call, and boards stay until the rank is dropped.
    let window = unsafe { board.window() };
    let shape = Shape::from(shape).check(board.name(), window.len() as u64)?;
    let moved = match way {
        Way::Load => vector::gather(window, &shape, host),
        Way::Store => vector::scatter(host, window, &shape),
    };
    moved.map_err(|lost| lost_here(rank, board.name(), lost))?;
    Ok(code::OK)
}

#[cold]
fn lost_here(rank: &Rank, region: &str, _lost: Lost) -> Failure {
    Failure::Pool(Error::RegionLost { region: region.to_owned(), node: rank.pool.node() })
}

/// The program's memory as a window, to be used during the call.
///
/// # Safety
/// See the header on `host`.
#[inline]
unsafe fn host(ptr: *const c_void, len: usize) -> Outcome<Window> {
    // SAFETY: promised by the caller.
    unsafe { bytes(ptr.cast(), len, "host").map(|bytes| Window::new(bytes.as_ptr().cast_mut(), bytes.len())) }
}

/// # Safety
/// See the header.
#[inline]
unsafe fn contiguous(call: &'static str, way: Way, ptr: *const c_void, offset: usize, len: usize) -> c_int {
    code_of(call, || {
        // SAFETY: promised by the caller.
        let host = unsafe { host(ptr, len) }?;
        rank::with_or_init(|rank| copy_here(rank, way, offset, host))
    })
}

/// The arguments of a strided command.
struct Elements {
    offset: usize,
    code: c_int,
    count: usize,
    stride: usize,
}

/// # Safety
/// See the header.
unsafe fn strided(call: &'static str, way: Way, ptr: *const c_void, elements: Elements) -> c_int {
    code_of(call, || {
        let Elements { offset, code, count, stride } = elements;
        if !(0..=CODE_MAX).contains(&code) {
            return Err(Failure::Argument(format!(
                "code {code} is no element size: 0 is a byte, 3 is 8 bytes, {CODE_MAX} is 64 bytes"
            )));
        }
        let block = 1 << code;
        let shape = Strided { offset: offset as u64, block, count: count as u64, stride: stride as u64 };
        let len = shape.check("vector memory", u64::MAX)?;
        // SAFETY: promised by the caller.
        let host = unsafe { host(ptr, len as usize) }?;
        rank::with_or_init(|rank| run_here(rank, way, shape, host))
    })
}

/// Runs a command on the board of a rank.
fn remote(
    call: &'static str,
    number: c_int,
    own: impl FnOnce(&Rank) -> Outcome,
    other: impl FnOnce(&Region) -> Outcome,
) -> c_int {
    code_of(call, || {
        let region = rank::with_or_init(|rank| match u32::try_from(number) {
            Ok(number) if number == rank.pool.rank() => Ok(None),
            Ok(number) if number < rank.pool.ranks() => rank.boards.other(&rank.pool, number).map(Some),
            _ => Err(Failure::Argument(format!("rank {number} does not exist: this job has {}", rank.pool.ranks()))),
        });
        // Not under the lock: the answer of another node may take its time.
        match region? {
            Some(region) => other(&region),
            None => rank::with_or_init(own),
        }
    })
}

/// See `dimmnet.h`.
///
/// # Safety
/// See the header.
#[unsafe(export_name = "dn_VL")]
pub unsafe extern "C" fn VL(host: *mut c_void, offset: usize, len: usize) -> c_int {
    // SAFETY: the caller's memory.
    unsafe { contiguous("VL", Way::Load, host, offset, len) }
}

/// See `dimmnet.h`.
///
/// # Safety
/// See the header.
#[unsafe(export_name = "dn_VS")]
pub unsafe extern "C" fn VS(host: *const c_void, offset: usize, len: usize) -> c_int {
    // SAFETY: the caller's memory.
    unsafe { contiguous("VS", Way::Store, host, offset, len) }
}

/// See `dimmnet.h`.
// FEATURE: D2-F11
///
/// # Safety
/// See the header.
#[unsafe(export_name = "dn_VLS")]
pub unsafe extern "C" fn VLS(host: *mut c_void, offset: usize, code: c_int, count: usize, stride: usize) -> c_int {
    // SAFETY: the caller's memory.
    unsafe { strided("VLS", Way::Load, host, Elements { offset, code, count, stride }) }
}

/// See `dimmnet.h`.
// FEATURE: D2-F11
///
/// # Safety
/// See the header.
#[unsafe(export_name = "dn_VSS")]
pub unsafe extern "C" fn VSS(host: *const c_void, offset: usize, code: c_int, count: usize, stride: usize) -> c_int {
    // SAFETY: the caller's memory.
    unsafe { strided("VSS", Way::Store, host, Elements { offset, code, count, stride }) }
}

/// See `dimmnet.h`.
// FEATURE: D2-F12
///
/// # Safety
/// See the header.
#[unsafe(export_name = "dn_RVL")]
pub unsafe extern "C" fn RVL(rank: c_int, into: *mut c_void, offset: usize, len: usize) -> c_int {
    // SAFETY: the caller's memory.
    let own = |rank: &Rank| copy_here(rank, Way::Load, offset, unsafe { host(into, len) }?);
    let other = |region: &Region| {
        // SAFETY: the caller's memory, ours during the call.
        region.get(offset as u64, unsafe { bytes_mut(into.cast(), len, "host") }?)?;
        Ok(code::OK)
    };
    remote("RVL", rank, own, other)
}

/// See `dimmnet.h`.
// FEATURE: D2-F12
///
/// # Safety
/// See the header.
#[unsafe(export_name = "dn_RVS")]
pub unsafe extern "C" fn RVS(rank: c_int, from: *const c_void, offset: usize, len: usize) -> c_int {
    // SAFETY: the caller's memory.
    let own = |rank: &Rank| copy_here(rank, Way::Store, offset, unsafe { host(from, len) }?);
    let other = |region: &Region| {
        // SAFETY: the caller's memory, which does not change during the call.
        region.put(offset as u64, unsafe { bytes(from.cast(), len, "host") }?)?;
        Ok(code::OK)
    };
    remote("RVS", rank, own, other)
}
