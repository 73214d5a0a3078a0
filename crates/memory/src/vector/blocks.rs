//! Loops that move blocks between a run and a flat range, written out for each usual length.
//!
//! No gathers by vector instructions and no prefetch for short elements. The processor overlaps independent loads by itself, and page walks
//! are the limit. \[measured\]
//!
//! Safety invariants: those of the folder; every function here says what its caller promises.

use super::runs::{Index, Line, List, Run};

/// Moves the blocks of `run` in the window that begins at `base` to `flat`, one after another.
///
/// # Safety
/// The blocks lie in the window, and `flat` has room for them (invariants 1 and 2 of the folder).
#[inline]
pub(super) unsafe fn gather_run(base: *const u8, run: &Run<'_>, flat: *mut u8) {
    // SAFETY: passed on.
    unsafe {
        match run {
            Run::Line(line) => move_line(Steps {
                from: base.wrapping_add(line.offset),
                from_step: line.step,
                to: flat,
                to_step: line.block as isize,
                ..Steps::of(line)
            }),
            Run::Narrow(list) => gather_list(base, list, flat),
            Run::Wide(list) => gather_list(base, list, flat),
        }
    }
}

/// Moves blocks from `flat`, where they lie one after another, to `run` in the window that begins at `base`.
///
/// # Safety
/// Like [`gather_run`].
#[inline]
pub(super) unsafe fn scatter_run(flat: *const u8, base: *mut u8, run: &Run<'_>) {
    // SAFETY: passed on.
    unsafe {
        match run {
            Run::Line(line) => move_line(Steps {
                from: flat,
                from_step: line.block as isize,
                to: base.wrapping_add(line.offset),
                to_step: line.step,
                ..Steps::of(line)
            }),
            Run::Narrow(list) => scatter_list(flat, base, list),
            Run::Wide(list) => scatter_list(flat, base, list),
        }
    }
}

/// `count` blocks, each side with its own distance from one to the next.
#[derive(Clone, Copy)]
struct Steps {
    from: *const u8,
    from_step: isize,
    to: *mut u8,
    to_step: isize,
    block: usize,
    count: usize,
}

impl Steps {
    fn of(line: &Line) -> Steps {
        let Line { block, count, .. } = *line;
        Steps { from: std::ptr::null(), from_step: 0, to: std::ptr::null_mut(), to_step: 0, block, count }
    }
}

/// Calls `$sized::<LEN>` where `$block` is a usual length, else `$any`.
macro_rules! by_block {
    ($block:expr, $sized:ident($($argument:expr),*), $any:expr) => {
        match $block {
            1 => $sized::<1>($($argument),*),
            2 => $sized::<2>($($argument),*),
            4 => $sized::<4>($($argument),*),
            8 => $sized::<8>($($argument),*),
            12 => $sized::<12>($($argument),*),
            16 => $sized::<16>($($argument),*),
            24 => $sized::<24>($($argument),*),
            32 => $sized::<32>($($argument),*),
            48 => $sized::<48>($($argument),*),
            64 => $sized::<64>($($argument),*),
            _ => $any,
        }
    };
}

/// # Safety
/// All blocks of both sides lie in windows.
#[inline]
unsafe fn move_line(steps: Steps) {
    let mut each = steps;
    // SAFETY: passed on.
    unsafe {
        by_block!(steps.block, move_sized(steps), {
            for _ in 0..steps.count {
                crate::guard::move_bytes(each.from, each.to, each.block);
                each.from = each.from.wrapping_offset(each.from_step);
                each.to = each.to.wrapping_offset(each.to_step);
            }
        })
    }
}

/// # Safety
/// Like [`move_line`], and `steps.block == LEN`.
#[inline(always)]
unsafe fn move_sized<const LEN: usize>(steps: Steps) {
    let Steps { mut from, mut to, .. } = steps;
    for _ in 0..steps.count {
        // SAFETY: passed on.
        unsafe { move_block::<LEN>(from, to) };
        // Stepping past the last block is done without claiming that the address is inside anything.
        from = from.wrapping_offset(steps.from_step);
        to = to.wrapping_offset(steps.to_step);
    }
}

/// # Safety
/// Both blocks lie in windows.
#[inline(always)]
unsafe fn move_block<const LEN: usize>(from: *const u8, to: *mut u8) {
    // SAFETY: passed on; the block is read whole before it is written, so overlap does no harm.
    unsafe { to.cast::<[u8; LEN]>().write_unaligned(from.cast::<[u8; LEN]>().read_unaligned()) }
}

/// Asks for the memory of a block that will be touched soon. It may be any address.
#[inline(always)]
pub(super) fn prefetch(at: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch never faults and changes nothing but caches.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(at.cast())
    };
    #[cfg(not(target_arch = "x86_64"))]
    let _ = at;
}

/// # Safety
/// Like [`gather_run`].
unsafe fn gather_list<I: Index>(base: *const u8, list: &List<'_, I>, flat: *mut u8) {
    let base = base.wrapping_add(list.offset);
    #[cfg(target_arch = "x86_64")]
    if list.block == 64 && is_x86_feature_detected!("avx512f") {
        // SAFETY: passed on; the machine has what is asked for.
        return unsafe { gather_lines(base, list, flat) };
    }
    // SAFETY: passed on.
    unsafe {
        by_block!(list.block, gather_sized(base, list, flat), {
            for (k, index) in list.indices.iter().enumerate() {
                std::ptr::copy(base.add(index.get() * list.scale), flat.add(k * list.block), list.block);
            }
        })
    }
}

/// # Safety
/// Like [`gather_run`]; `base` is the address of index 0, and `list.block == LEN`.
#[inline(always)]
unsafe fn gather_sized<const LEN: usize>(base: *const u8, list: &List<'_, impl Index>, flat: *mut u8) {
    for (k, index) in list.indices.iter().enumerate() {
        // SAFETY: passed on.
        unsafe { move_block::<LEN>(base.add(index.get() * list.scale), flat.add(k * LEN)) };
    }
}

/// Blocks ahead for which [`gather_lines`] asks for memory.
#[cfg(target_arch = "x86_64")]
const LINES_AHEAD: usize = 16;

/// Least bytes that are stored past the caches: shorter ones are read again soon, by whoever sends them.
#[cfg(target_arch = "x86_64")]
const PAST_CACHE_LEN: usize = 4 << 20;

/// Gathers blocks of 64 bytes: the one length where vectors, prefetches and stores past the caches gain.
///
/// # Safety
/// Like [`gather_run`]; `base` is the address of index 0, and `list.block == 64`.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn gather_lines<I: Index>(base: *const u8, list: &List<'_, I>, flat: *mut u8) {
    use std::arch::x86_64::{_mm_sfence, _mm512_loadu_si512, _mm512_storeu_si512, _mm512_stream_si512};
    let count = list.indices.len();
    let ahead = |k: usize| base.wrapping_add(list.indices[(k + LINES_AHEAD).min(count - 1)].get() * list.scale);
    let is_past_cache = count * 64 >= PAST_CACHE_LEN && flat.addr().is_multiple_of(64);
    for (k, index) in list.indices.iter().enumerate() {
        prefetch(ahead(k));
        // SAFETY: passed on; stores past the cache go to multiples of 64 only.
        unsafe {
            let block = _mm512_loadu_si512(base.add(index.get() * list.scale).cast());
            let to = flat.add(k * 64).cast();
            if is_past_cache { _mm512_stream_si512(to, block) } else { _mm512_storeu_si512(to, block) }
        }
    }
    // Stores past the caches may come after later ones otherwise.
    _mm_sfence();
}

/// # Safety
/// Like [`scatter_run`].
unsafe fn scatter_list<I: Index>(flat: *const u8, base: *mut u8, list: &List<'_, I>) {
    let base = base.wrapping_add(list.offset);
    // SAFETY: passed on.
    unsafe {
        by_block!(list.block, scatter_sized(flat, base, list), {
            for (k, index) in list.indices.iter().enumerate() {
                std::ptr::copy(flat.add(k * list.block), base.add(index.get() * list.scale), list.block);
            }
        })
    }
}

/// # Safety
/// Like [`scatter_run`]; `base` is the address of index 0, and `list.block == LEN`.
#[inline(always)]
unsafe fn scatter_sized<const LEN: usize>(flat: *const u8, base: *mut u8, list: &List<'_, impl Index>) {
    for (k, index) in list.indices.iter().enumerate() {
        // SAFETY: passed on.
        unsafe { move_block::<LEN>(flat.add(k * LEN), base.add(index.get() * list.scale)) };
    }
}
