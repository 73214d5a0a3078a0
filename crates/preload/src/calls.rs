//! The functions that stand before those of the C library. Each serves what is large, and passes on the rest.

use crate::next::{self, ForkHandler, fail};
use crate::{arena, keeper};
use hanare_protocol::limits::PAGE_LEN;
use hanare_protocol::wire::main_memory::BLOCK_LEN;
use libc::{c_int, c_void, off_t, size_t};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU8, Ordering};

const BLOCK: usize = BLOCK_LEN as usize;
const PAGE: usize = PAGE_LEN as usize;

/// Below this an allocation stays in the program's own heap: a block is what is evicted at once.
const LEAST: usize = BLOCK;

/// Malloc is served: 0 unknown, 1 no, 2 yes.
static SERVES: AtomicU8 = AtomicU8::new(0);

fn serves(size: usize) -> bool {
    if size < LEAST || arena::range().1 == 0 {
        return false;
    }
    match SERVES.load(Ordering::Relaxed) {
        0 => {
            let serves = next::is_usual();
            SERVES.store(1 + u8::from(serves), Ordering::Relaxed);
            serves
        }
        known => known == 2,
    }
}

/// Memory of the arena for malloc; null, with `errno`, where the pool has no room for it. `None` where no addresses are left: the next
/// function has some.
fn allocate(size: usize, align: usize) -> Option<*mut c_void> {
    let at = arena::take(size, align)?;
    if !reserve_taken(at, size) {
        fail(libc::ENOMEM);
        return Some(null_mut());
    }
    arena::set_size(at, size);
    Some(at as *mut c_void)
}

/// Reserves room for pages that were just taken; takes them no more where there is none.
fn reserve_taken(at: usize, len: usize) -> bool {
    let has_room = keeper::reserve(at..at + len);
    if !has_room {
        arena::LOCK.with(|| arena::mark(at..at + len, false));
    }
    has_room
}

/// True if a pointer is malloc's here. Another allocator's lie in the arena, too, because its mappings do.
fn is_own(ptr: *mut c_void) -> bool {
    let at = ptr as usize;
    arena::has(at) && at.is_multiple_of(BLOCK) && arena::size(at) != 0
}

/// Gives a range of whole pages back.
fn release(start: usize, end: usize) {
    if start < end {
        keeper::free(start, end - start);
        // SAFETY: whoever takes the pages next expects to read and write them.
        unsafe { libc::syscall(libc::SYS_mprotect, start, end - start, libc::PROT_READ | libc::PROT_WRITE) };
        keeper::unreserve(start..end);
        arena::LOCK.with(|| arena::mark(start..end, false));
    }
}

#[unsafe(no_mangle)]
extern "C" fn malloc(size: size_t) -> *mut c_void {
    let served = serves(size).then(|| allocate(size, BLOCK)).flatten();
    served.unwrap_or_else(|| next::malloc(size))
}

#[unsafe(no_mangle)]
extern "C" fn calloc(count: size_t, size: size_t) -> *mut c_void {
    let served = count.checked_mul(size).filter(|len| serves(*len)).and_then(|len| allocate(len, BLOCK));
    served.unwrap_or_else(|| next::calloc(count, size))
}

#[unsafe(no_mangle)]
extern "C" fn free(ptr: *mut c_void) {
    if !is_own(ptr) {
        return next::free(ptr);
    }
    let at = ptr as usize;
    let end = (at + arena::size(at)).next_multiple_of(PAGE);
    arena::set_size(at, 0);
    release(at, end);
}

#[unsafe(no_mangle)]
extern "C" fn realloc(ptr: *mut c_void, size: size_t) -> *mut c_void {
    let at = ptr as usize;
    if ptr.is_null() {
        return malloc(size);
    }
    if !is_own(ptr) {
        if !serves(size) {
            return next::realloc(ptr, size);
        }
        return move_to(ptr, next::usable_size(ptr), size);
    }
    let len = arena::size(at);
    if size < LEAST {
        return move_to(ptr, len, size);
    }
    let (old_end, end) = (at + len.next_multiple_of(PAGE), at + size.next_multiple_of(PAGE));
    if end <= old_end {
        release(end, old_end);
    } else if !arena::grow(at, old_end - at, end - at) {
        return move_to(ptr, len, size);
    } else if !reserve_taken(old_end, end - old_end) {
        fail(libc::ENOMEM);
        return null_mut();
    }
    arena::set_size(at, size);
    ptr
}

/// Has an allocation's first bytes elsewhere.
fn move_to(ptr: *mut c_void, len: usize, size: usize) -> *mut c_void {
    if size == 0 {
        free(ptr);
        return null_mut();
    }
    let fresh = malloc(size);
    if !fresh.is_null() {
        // SAFETY: both have so many bytes, and are apart.
        unsafe { std::ptr::copy_nonoverlapping(ptr.cast::<u8>(), fresh.cast::<u8>(), len.min(size)) };
        free(ptr);
    }
    fresh
}

#[unsafe(no_mangle)]
extern "C" fn memalign(align: size_t, size: size_t) -> *mut c_void {
    let served = (serves(size) && align.is_power_of_two()).then(|| allocate(size, align)).flatten();
    served.unwrap_or_else(|| next::memalign(align, size))
}

#[unsafe(no_mangle)]
extern "C" fn aligned_alloc(align: size_t, size: size_t) -> *mut c_void {
    memalign(align, size)
}

#[unsafe(no_mangle)]
extern "C" fn valloc(size: size_t) -> *mut c_void {
    memalign(PAGE, size)
}

#[unsafe(no_mangle)]
extern "C" fn posix_memalign(into: *mut *mut c_void, align: size_t, size: size_t) -> c_int {
    if !align.is_power_of_two() || !align.is_multiple_of(size_of::<*mut c_void>()) {
        return libc::EINVAL;
    }
    match memalign(align, size) {
        ptr if ptr.is_null() => libc::ENOMEM,
        ptr => {
            // SAFETY: the caller's place for the pointer, by contract.
            unsafe { *into = ptr };
            0
        }
    }
}

#[unsafe(no_mangle)]
extern "C" fn malloc_usable_size(ptr: *mut c_void) -> size_t {
    match is_own(ptr) {
        true => arena::size(ptr as usize),
        false if ptr.is_null() => 0,
        false => next::usable_size(ptr),
    }
}

/// Target of `pthread_atfork` in every library: the handlers of this one come first.
#[unsafe(no_mangle)]
extern "C" fn __register_atfork(before: ForkHandler, parent: ForkHandler, child: ForkHandler, library: *mut c_void) -> c_int {
    keeper::watch_forks();
    next::register_atfork(before, parent, child, library)
}

/// The work of `mmap`, past this library.
fn map(at: *mut c_void, len: size_t, prot: c_int, flags: c_int, fd: c_int, offset: off_t) -> *mut c_void {
    // SAFETY: the caller's own call.
    unsafe { libc::syscall(libc::SYS_mmap, at, len, prot, flags, fd, offset) as *mut c_void }
}

#[unsafe(no_mangle)]
extern "C" fn mmap(at: *mut c_void, len: size_t, prot: c_int, flags: c_int, fd: c_int, offset: off_t) -> *mut c_void {
    /// Flags of memory that the arena cannot be, or need not.
    const OTHER: c_int =
        libc::MAP_GROWSDOWN | libc::MAP_HUGETLB | libc::MAP_LOCKED | libc::MAP_STACK | libc::MAP_32BIT | MAP_FIXED_NOREPLACE;
    const MAP_FIXED_NOREPLACE: c_int = 0x10_0000;
    let is_plain = flags & libc::MAP_ANONYMOUS != 0
        && flags & libc::MAP_TYPE == libc::MAP_PRIVATE
        && flags & OTHER == 0
        && prot & libc::PROT_EXEC == 0;
    if flags & libc::MAP_FIXED != 0 {
        return match arena::has(at as usize) {
            true => map_over(at, len, prot, is_plain, flags, fd, offset),
            false => map(at, len, prot, flags, fd, offset),
        };
    }
    if is_plain
        && len >= LEAST
        && let Some(taken) = arena::take(len.next_multiple_of(PAGE), PAGE)
    {
        if prot & libc::PROT_WRITE != 0 && !reserve_taken(taken, len.next_multiple_of(PAGE)) {
            return fail(libc::ENOMEM);
        }
        if prot != libc::PROT_READ | libc::PROT_WRITE {
            // SAFETY: pages that were just taken.
            unsafe { libc::syscall(libc::SYS_mprotect, taken, len.next_multiple_of(PAGE), prot) };
        }
        return taken as *mut c_void;
    }
    map(at, len, prot, flags, fd, offset)
}

/// A mapping over pages of the arena: anonymous ones are the same pages, zero again. Others are not taken in.
fn map_over(at: *mut c_void, len: size_t, prot: c_int, is_plain: bool, flags: c_int, fd: c_int, offset: off_t) -> *mut c_void {
    let (start, end) = (at as usize, (at as usize).saturating_add(len).next_multiple_of(PAGE));
    if !start.is_multiple_of(PAGE) || len == 0 || !arena::has(end - 1) {
        return fail(libc::EINVAL);
    }
    if !is_plain {
        keeper::free(start, end - start);
        keeper::unreserve(start..end);
        return map(at, len, prot, flags, fd, offset);
    }
    let is_written = prot & libc::PROT_WRITE != 0;
    if is_written && !keeper::reserve(start..end) {
        return fail(libc::ENOMEM);
    }
    arena::LOCK.with(|| arena::mark(start..end, true));
    keeper::free(start, end - start);
    if !is_written {
        keeper::unreserve(start..end);
    }
    // SAFETY: the caller's own pages.
    match unsafe { libc::syscall(libc::SYS_mprotect, start, end - start, prot) } {
        0 => at,
        _ => libc::MAP_FAILED,
    }
}

#[unsafe(no_mangle)]
extern "C" fn mmap64(at: *mut c_void, len: size_t, prot: c_int, flags: c_int, fd: c_int, offset: off_t) -> *mut c_void {
    mmap(at, len, prot, flags, fd, offset)
}

#[unsafe(no_mangle)]
extern "C" fn munmap(at: *mut c_void, len: size_t) -> c_int {
    let start = at as usize;
    if !arena::has(start) {
        // SAFETY: the caller's own call.
        return unsafe { libc::syscall(libc::SYS_munmap, at, len) as c_int };
    }
    let end = start.saturating_add(len).next_multiple_of(PAGE);
    if !start.is_multiple_of(PAGE) || len == 0 || !arena::has(end - 1) {
        fail(libc::EINVAL);
        return -1;
    }
    release(start, end);
    0
}

/// # Safety
/// Same as the C library's: the fifth argument is there where the flags say so, and is read in any case, as a register.
#[unsafe(no_mangle)]
extern "C" fn mremap(at: *mut c_void, len: size_t, wanted: size_t, flags: c_int, to: *mut c_void) -> *mut c_void {
    let start = at as usize;
    if !arena::has(start) {
        // SAFETY: the caller's own call.
        return unsafe { libc::syscall(libc::SYS_mremap, at, len, wanted, flags, to) as *mut c_void };
    }
    let (len, wanted) = (len.next_multiple_of(PAGE), wanted.next_multiple_of(PAGE));
    if !start.is_multiple_of(PAGE) || len == 0 || wanted == 0 || flags & !libc::MREMAP_MAYMOVE != 0 {
        return fail(libc::EINVAL);
    }
    if wanted <= len {
        release(start + wanted, start + len);
        return at;
    }
    if arena::grow(start, len, wanted) {
        let is_written = arena::is_reserved(start + len - PAGE);
        return if !is_written || reserve_taken(start + len, wanted - len) { at } else { fail(libc::ENOMEM) };
    }
    if flags & libc::MREMAP_MAYMOVE == 0 {
        return fail(libc::ENOMEM);
    }
    match arena::take(wanted, PAGE).filter(|taken| reserve_taken(*taken, wanted)) {
        Some(taken) => {
            // SAFETY: the new range is ours alone; the caller answers for the old one.
            unsafe { std::ptr::copy_nonoverlapping(at.cast::<u8>(), taken as *mut u8, len) };
            release(start, start + len);
            taken as *mut c_void
        }
        None => fail(libc::ENOMEM),
    }
}

#[unsafe(no_mangle)]
extern "C" fn mprotect(at: *mut c_void, len: size_t, prot: c_int) -> c_int {
    let (start, end) = (at as usize, (at as usize).saturating_add(len).next_multiple_of(PAGE));
    let may_write = prot & libc::PROT_WRITE != 0 && start.is_multiple_of(PAGE) && len > 0;
    if may_write && arena::has(start) && arena::has(end - 1) && !keeper::reserve(start..end) {
        fail(libc::ENOMEM);
        return -1;
    }
    // SAFETY: the caller's own call.
    unsafe { libc::syscall(libc::SYS_mprotect, at, len, prot) as c_int }
}

/// A child may write all that its parent has: where the pool has no room for that there is no child.
#[unsafe(no_mangle)]
extern "C" fn fork() -> c_int {
    if arena::range().1 > 0 && !keeper::may_fork() {
        fail(libc::ENOMEM);
        return -1;
    }
    next::fork_program()
}

#[unsafe(no_mangle)]
extern "C" fn madvise(at: *mut c_void, len: size_t, advice: c_int) -> c_int {
    let start = at as usize;
    let gives_back = [libc::MADV_DONTNEED, libc::MADV_FREE].contains(&advice);
    // The keeper decides on the present pages.
    let is_hint = [libc::MADV_HUGEPAGE, libc::MADV_NOHUGEPAGE, libc::MADV_COLD, libc::MADV_PAGEOUT].contains(&advice);
    if !arena::has(start) || !(gives_back || is_hint) || !start.is_multiple_of(PAGE) {
        // SAFETY: the caller's own call.
        return unsafe { libc::syscall(libc::SYS_madvise, at, len, advice) as c_int };
    }
    let end = start.saturating_add(len).next_multiple_of(PAGE);
    if gives_back && len > 0 && arena::has(end - 1) {
        keeper::free(start, end - start);
    }
    0
}
