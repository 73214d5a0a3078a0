//! The functions that the program would have called without this library.

use libc::{c_char, c_int, c_void, size_t};
use std::mem::transmute;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

/// Memory for whoever allocates while the functions are looked up: the loader does, for some hundred bytes. Never given back.
const EARLY_LEN: usize = 64 << 10;

#[repr(align(64))]
struct Early(std::cell::UnsafeCell<[u8; EARLY_LEN]>);

// SAFETY: each byte is given to one caller, by the counter.
unsafe impl Sync for Early {}

static EARLY: Early = Early(std::cell::UnsafeCell::new([0; EARLY_LEN]));
static EARLY_USED: AtomicUsize = AtomicUsize::new(0);
static IS_LOOKING: AtomicBool = AtomicBool::new(false);

/// A function of the next library that has it, found at its first use.
pub struct Next {
    name: &'static [u8],
    found: AtomicPtr<c_void>,
}

macro_rules! next {
    ($($constant:ident $name:literal),*) => { $(pub static $constant: Next = Next::new($name);)* };
}

next!(
    MALLOC b"malloc\0", CALLOC b"calloc\0", REALLOC b"realloc\0", FREE b"free\0", MEMALIGN b"memalign\0",
    USABLE b"malloc_usable_size\0", REGISTER b"__register_atfork\0", FORK b"fork\0"
);

impl Next {
    const fn new(name: &'static [u8]) -> Next {
        Next { name, found: AtomicPtr::new(std::ptr::null_mut()) }
    }

    /// The function; `None` while this very thread looks for it, or where there is none.
    fn find(&self) -> Option<*mut c_void> {
        let found = self.found.load(Ordering::Acquire);
        if !found.is_null() {
            return Some(found);
        }
        // Looking up may allocate, and the first allocation of a program is made by one thread.
        if IS_LOOKING.swap(true, Ordering::AcqRel) {
            return None;
        }
        // SAFETY: the name ends with a zero byte.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr().cast::<c_char>()) };
        self.found.store(found, Ordering::Release);
        IS_LOOKING.store(false, Ordering::Release);
        (!found.is_null()).then_some(found)
    }
}

/// True if the program's allocator is the C library's own. Others have further functions that would meet memory of ours.
pub fn is_usual() -> bool {
    // SAFETY: the names end with zero bytes.
    let usual = unsafe { libc::dlsym(libc::RTLD_NEXT, c"__libc_malloc".as_ptr()) };
    !usual.is_null() && MALLOC.find() == Some(usual)
}

fn early(size: size_t) -> *mut c_void {
    let size = size.saturating_add(15) & !15;
    let at = EARLY_USED.fetch_add(size, Ordering::Relaxed);
    match at.checked_add(size) {
        // SAFETY: the range lies in the array, and the counter gave it to nobody else.
        Some(end) if end <= EARLY_LEN => unsafe { EARLY.0.get().cast::<u8>().add(at).cast() },
        _ => std::ptr::null_mut(),
    }
}

fn is_early(ptr: *mut c_void) -> bool {
    (ptr as usize).wrapping_sub(EARLY.0.get() as usize) < EARLY_LEN
}

/// `malloc`.
pub fn malloc(size: size_t) -> *mut c_void {
    match MALLOC.find() {
        // SAFETY: the function of that name.
        Some(found) => unsafe { transmute::<*mut c_void, extern "C" fn(size_t) -> *mut c_void>(found)(size) },
        None => early(size),
    }
}

/// `calloc`.
pub fn calloc(count: size_t, size: size_t) -> *mut c_void {
    match CALLOC.find() {
        // SAFETY: the function of that name.
        Some(found) => unsafe { transmute::<*mut c_void, extern "C" fn(size_t, size_t) -> *mut c_void>(found)(count, size) },
        None => early(count.saturating_mul(size)),
    }
}

/// `realloc`, of a pointer that is not the arena's.
pub fn realloc(ptr: *mut c_void, size: size_t) -> *mut c_void {
    if is_early(ptr) {
        let fresh = malloc(size);
        if !fresh.is_null() {
            let len = size.min(EARLY.0.get() as usize + EARLY_LEN - ptr as usize);
            // SAFETY: both ranges have that length; one is new.
            unsafe { std::ptr::copy_nonoverlapping(ptr.cast::<u8>(), fresh.cast::<u8>(), len) };
        }
        return fresh;
    }
    match REALLOC.find() {
        // SAFETY: the function of that name.
        Some(found) => unsafe { transmute::<*mut c_void, extern "C" fn(*mut c_void, size_t) -> *mut c_void>(found)(ptr, size) },
        None => early(size),
    }
}

/// `free`, of a pointer that is not the arena's.
pub fn free(ptr: *mut c_void) {
    if !is_early(ptr)
        && let Some(found) = FREE.find()
    {
        // SAFETY: the function of that name.
        unsafe { transmute::<*mut c_void, extern "C" fn(*mut c_void)>(found)(ptr) }
    }
}

/// `memalign`.
pub fn memalign(align: size_t, size: size_t) -> *mut c_void {
    match MEMALIGN.find() {
        // SAFETY: the function of that name.
        Some(found) => unsafe { transmute::<*mut c_void, extern "C" fn(size_t, size_t) -> *mut c_void>(found)(align, size) },
        None => early(size),
    }
}

/// `malloc_usable_size`, of a pointer that is not the arena's.
pub fn usable_size(ptr: *mut c_void) -> size_t {
    match USABLE.find() {
        // SAFETY: the function of that name.
        Some(found) if !is_early(ptr) => unsafe { transmute::<*mut c_void, extern "C" fn(*mut c_void) -> size_t>(found)(ptr) },
        _ => 0,
    }
}

/// `fork`.
pub fn fork_program() -> c_int {
    match FORK.find() {
        // SAFETY: the function of that name.
        Some(found) => unsafe { transmute::<*mut c_void, extern "C" fn() -> c_int>(found)() },
        None => {
            fail(libc::ENOSYS);
            -1
        }
    }
}

/// A handler of `fork`.
pub type ForkHandler = Option<unsafe extern "C" fn()>;

/// `__register_atfork`, which `pthread_atfork` is; an `errno` where it is refused.
pub fn register_atfork(before: ForkHandler, parent: ForkHandler, child: ForkHandler, library: *mut c_void) -> c_int {
    type Register = extern "C" fn(ForkHandler, ForkHandler, ForkHandler, *mut c_void) -> c_int;
    match REGISTER.find() {
        // SAFETY: the function of that name.
        Some(found) => unsafe { transmute::<*mut c_void, Register>(found)(before, parent, child, library) },
        None => libc::ENOMEM,
    }
}

/// Sets `errno` and returns what a mapping call returns then.
pub fn fail(errno: c_int) -> *mut c_void {
    // SAFETY: the calling thread's own.
    unsafe { *libc::__errno_location() = errno };
    libc::MAP_FAILED
}
