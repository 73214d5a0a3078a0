//! Taken addresses of the arena. An allocation begins at a block; pages of it may be given back singly.

use crate::lock::Lock;
use hanare_protocol::limits::{ARENA_LEN_MAX, PAGE_LEN};
use hanare_protocol::wire::main_memory::BLOCK_LEN;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};
use std::ops::Range;
use std::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

const PAGES: usize = (BLOCK_LEN / PAGE_LEN) as usize;
const BLOCK: usize = BLOCK_LEN as usize;
const PAGE: usize = PAGE_LEN as usize;

/// Least length that is tried where addresses are limited.
const LEN_MIN: u64 = 1 << 30;

static START: AtomicUsize = AtomicUsize::new(0);
/// 0 until the keeper has it.
static LEN: AtomicUsize = AtomicUsize::new(0);
/// For each block the pages that are taken, as bits.
static TAKEN: AtomicPtr<AtomicU64> = AtomicPtr::new(std::ptr::null_mut());
/// For each block the pages for which the pool has room reserved, as bits: those that the program may write.
static RESERVED: AtomicPtr<AtomicU64> = AtomicPtr::new(std::ptr::null_mut());
/// For the first block of each allocation of malloc, its length in bytes.
static SIZES: AtomicPtr<AtomicU64> = AtomicPtr::new(std::ptr::null_mut());
/// Begin of the search for free blocks.
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// Guards the tables. Nothing that waits happens under it.
pub static LOCK: Lock = Lock::new();

/// Reserves the addresses, as many as there are up to the most; where they begin, and how many. Nothing is served from them before
/// [`open`].
pub fn reserve() -> Option<(usize, usize)> {
    let mut len = ARENA_LEN_MAX;
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    let start = loop {
        // SAFETY: new memory, wherever the kernel has room.
        match unsafe { mmap_anonymous(std::ptr::null_mut(), len as usize + BLOCK, ProtFlags::READ | ProtFlags::WRITE, flags) } {
            Ok(start) => break start as usize,
            Err(_) if len > LEN_MIN => len /= 4,
            Err(_) => return None,
        }
    };
    let table = || {
        let bytes = len as usize / BLOCK * size_of::<AtomicU64>();
        // SAFETY: new memory, zeroed.
        unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, ProtFlags::READ | ProtFlags::WRITE, flags) }.ok()
    };
    TAKEN.store(table()?.cast(), Ordering::Relaxed);
    RESERVED.store(table()?.cast(), Ordering::Relaxed);
    SIZES.store(table()?.cast(), Ordering::Relaxed);
    let start = start.next_multiple_of(BLOCK);
    START.store(start, Ordering::Relaxed);
    // SAFETY: our own range. Without the advice it works, slower.
    let _ = unsafe { madvise(start as *mut _, len as usize, Advice::LinuxNoHugepage) };
    forbid_children(start, len as usize);
    Some((start, len as usize))
}

/// Lets memory be served.
pub fn open(len: usize) {
    LEN.store(len, Ordering::Release);
}

/// Its begin and length; 0 where nothing is served.
pub fn range() -> (usize, usize) {
    (START.load(Ordering::Relaxed), LEN.load(Ordering::Acquire))
}

/// Has children that are not made by way of [`crate::keeper`] crash at a touch: their absent pages would be zeros.
pub fn forbid_children(start: usize, len: usize) {
    // SAFETY: our own range.
    let _ = unsafe { madvise(start as *mut _, len, Advice::LinuxDontFork) };
}

/// True if an address is of the arena.
pub fn has(at: usize) -> bool {
    let (start, len) = range();
    at.wrapping_sub(start) < len
}

fn entry(table: &AtomicPtr<AtomicU64>, block: usize) -> &'static AtomicU64 {
    // SAFETY: callers have a block of the arena; the tables have an entry for each (invariant 3).
    unsafe { &*table.load(Ordering::Relaxed).add(block) }
}

fn block_of(at: usize) -> usize {
    (at - START.load(Ordering::Relaxed)) / BLOCK
}

/// The length that malloc was asked for at this address; 0 if it was not malloc.
pub fn size(at: usize) -> usize {
    entry(&SIZES, block_of(at)).load(Ordering::Relaxed) as usize
}

/// Notes it.
pub fn set_size(at: usize, size: usize) {
    entry(&SIZES, block_of(at)).store(size as u64, Ordering::Relaxed);
}

fn is_free(block: usize) -> bool {
    entry(&TAKEN, block).load(Ordering::Relaxed) == 0
}

/// Marks the pages of a range of addresses, or takes the marks off.
pub fn mark(range: Range<usize>, is_taken: bool) {
    change(&TAKEN, range, is_taken);
}

/// Sets the bits of a range's pages, or clears them. Returns how many blocks got their first bit, or lost their last one.
fn change(table: &AtomicPtr<AtomicU64>, range: Range<usize>, is_set: bool) -> u64 {
    let mut changed = 0;
    for (block, bits) in blocks(range) {
        let entry = entry(table, block);
        changed += u64::from(match is_set {
            true => entry.fetch_or(bits, Ordering::Relaxed) == 0,
            false => {
                let before = entry.fetch_and(!bits, Ordering::Relaxed);
                before != 0 && before & !bits == 0
            }
        });
    }
    changed
}

/// The blocks of a range of addresses, each with the bits of its pages.
fn blocks(range: Range<usize>) -> impl Iterator<Item = (usize, u64)> {
    (range.start / BLOCK * BLOCK..range.end).step_by(BLOCK).map(move |at| {
        let page = |end: usize| end.saturating_sub(at).min(BLOCK).div_ceil(PAGE) as u32;
        let (first, last) = (page(range.start), page(range.end));
        let bits = if last - first == PAGES as u32 { u64::MAX } else { ((1 << (last - first)) - 1) << first };
        (block_of(at), bits)
    })
}

/// Counts the blocks of a range without room. It takes no lock, because a signal's handler may ask for a range that has room.
pub fn unreserved(range: Range<usize>) -> u64 {
    blocks(range).filter(|(block, _)| entry(&RESERVED, *block).load(Ordering::Relaxed) == 0).count() as u64
}

/// Notes that the pages of a range have room. Returns for how many blocks that is new.
pub fn note_reserved(range: Range<usize>) -> u64 {
    change(&RESERVED, range, true)
}

/// Notes that the pages of a range need no room. Returns how many blocks need none any more.
pub fn note_returned(range: Range<usize>) -> u64 {
    change(&RESERVED, range, false)
}

/// True if the page at an address has room reserved.
pub fn is_reserved(at: usize) -> bool {
    let page = at % BLOCK / PAGE;
    entry(&RESERVED, block_of(at)).load(Ordering::Relaxed) >> page & 1 == 1
}

/// Takes `len` bytes at a multiple of `align`. `None` where there is no such room.
pub fn take(len: usize, align: usize) -> Option<usize> {
    let (start, arena) = range();
    let (count, step) = (len.div_ceil(BLOCK), align.div_ceil(BLOCK).max(1));
    let total = arena / BLOCK;
    if len == 0 || count > total || len > arena {
        return None;
    }
    LOCK.with(|| {
        let next = NEXT.load(Ordering::Relaxed);
        let from = search(next..total, count, step).or_else(|| search(0..(next + count).min(total), count, step))?;
        let at = start + from * BLOCK;
        mark(at..at + len, true);
        entry(&SIZES, from).store(0, Ordering::Relaxed);
        // Room behind it, so that it can grow where it is.
        NEXT.store((from + 2 * count) % total, Ordering::Relaxed);
        Some(at)
    })
}

/// The first of `count` free blocks, at a multiple of `step`.
fn search(range: Range<usize>, count: usize, step: usize) -> Option<usize> {
    let base = START.load(Ordering::Relaxed) / BLOCK;
    let align = |block: usize| (base + block).next_multiple_of(step) - base;
    let mut from = align(range.start);
    while from + count <= range.end {
        match (from..from + count).rev().find(|block| !is_free(*block)) {
            None => return Some(from),
            Some(taken) => from = align(taken + 1),
        }
    }
    None
}

/// Lets a range grow where it is, from `len` to `wanted` bytes. `false` where something stands behind it.
pub fn grow(at: usize, len: usize, wanted: usize) -> bool {
    let (start, arena) = range();
    if wanted > arena || at + wanted > start + arena {
        return false;
    }
    LOCK.with(|| {
        let can = (block_of(at + len - 1) + 1..=block_of(at + wanted - 1)).all(is_free);
        if can {
            mark(at..at + wanted, true);
        }
        can
    })
}
