//! C pointers, strings and structs, checked. Everything here answers the crate's safety invariants 1 and 2.

use crate::border::{Failure, Outcome};
use hanare_protocol::shape::Strided;
use std::ffi::{CStr, c_char};

fn null(what: &str) -> Failure {
    Failure::Argument(format!("{what} is NULL"))
}

/// The value behind a pointer.
///
/// # Safety
/// The pointer is `NULL`, or points to a `T` that stays valid and is not written to while the result is used.
pub unsafe fn reference<'a, T>(ptr: *const T, what: &str) -> Outcome<&'a T> {
    // SAFETY: promised by the caller.
    unsafe { ptr.as_ref() }.ok_or_else(|| null(what))
}

/// Refuses `NULL` for a place that a result goes to.
pub fn place<T>(ptr: *mut T, what: &str) -> Outcome<*mut T> {
    if ptr.is_null() { Err(null(what)) } else { Ok(ptr) }
}

/// Gives a new handle to C.
///
/// # Safety
/// `into` is valid for a write.
pub unsafe fn give<T>(value: T, into: *mut *mut T) {
    // SAFETY: promised by the caller.
    unsafe { into.write(Box::into_raw(Box::new(value))) }
}

/// Takes a handle back from C.
///
/// # Safety
/// The handle is `NULL`, or came from [`give`], is taken back for the first time, and is in no other use.
pub unsafe fn take<T>(handle: *mut T, what: &str) -> Outcome<Box<T>> {
    // SAFETY: promised by the caller.
    if handle.is_null() { Err(null(what)) } else { Ok(unsafe { Box::from_raw(handle) }) }
}

/// A C string.
///
/// # Safety
/// The pointer is `NULL`, or points to bytes that end with a zero and do not change while the result is used.
pub unsafe fn text<'a>(ptr: *const c_char, what: &str) -> Outcome<&'a str> {
    if ptr.is_null() {
        return Err(null(what));
    }
    // SAFETY: promised by the caller.
    let text = unsafe { CStr::from_ptr(ptr) };
    text.to_str().map_err(|_| Failure::Argument(format!("{what} '{}' is not UTF-8", text.to_string_lossy())))
}

fn checked_len(is_null: bool, len: usize, what: &str) -> Outcome<()> {
    match (is_null, isize::try_from(len)) {
        (true, _) => Err(null(what)),
        (false, Err(_)) => Err(Failure::Argument(format!("{what} cannot have {len} bytes"))),
        (false, Ok(_)) => Ok(()),
    }
}

/// Bytes to read. `NULL` is allowed for none.
///
/// # Safety
/// `len` bytes at the pointer are readable and do not change while the result is used.
#[inline]
pub unsafe fn bytes<'a>(ptr: *const u8, len: usize, what: &str) -> Outcome<&'a [u8]> {
    if len == 0 {
        return Ok(&[]);
    }
    checked_len(ptr.is_null(), len, what)?;
    // SAFETY: promised by the caller; the length is within what a slice may have.
    Ok(unsafe { std::slice::from_raw_parts(ptr, len) })
}

/// A list to read. `NULL` is allowed for none.
///
/// # Safety
/// `count` items at the pointer are readable and do not change while the result is used.
pub unsafe fn items<'a, T>(ptr: *const T, count: usize, what: &str) -> Outcome<&'a [T]> {
    if count == 0 {
        return Ok(&[]);
    }
    checked_len(ptr.is_null(), count.saturating_mul(size_of::<T>()), what)?;
    // SAFETY: promised by the caller; the length is within what a slice may have.
    Ok(unsafe { std::slice::from_raw_parts(ptr, count) })
}

/// Bytes to write. `NULL` is allowed for none.
///
/// # Safety
/// `len` bytes at the pointer are writable, and used by nobody else while the result is used.
#[inline]
pub unsafe fn bytes_mut<'a>(ptr: *mut u8, len: usize, what: &str) -> Outcome<&'a mut [u8]> {
    if len == 0 {
        return Ok(&mut []);
    }
    checked_len(ptr.is_null(), len, what)?;
    // SAFETY: promised by the caller; the length is within what a slice may have.
    Ok(unsafe { std::slice::from_raw_parts_mut(ptr, len) })
}

/// `hanare_strided` of the header.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CStrided {
    offset: u64,
    block: u64,
    count: u64,
    stride: u64,
}

impl From<CStrided> for Strided {
    fn from(shape: CStrided) -> Strided {
        let CStrided { offset, block, count, stride } = shape;
        Strided { offset, block, count, stride }
    }
}

/// A struct that begins with its size, as the caller's header knew it: bytes that an older caller lacks are zero.
///
/// # Safety
/// `ptr` is `NULL`, or points to a `size_t` and as many bytes in all as that says. `T` is plain numbers and pointers, for which zero
/// bytes are a value, and begins with its `struct_size`.
pub unsafe fn sized<T: Copy>(ptr: *const T, what: &str) -> Outcome<T> {
    let len = struct_size(ptr, what)?;
    let mut value = std::mem::MaybeUninit::<T>::zeroed();
    // SAFETY: as many bytes as the caller has, and no more than a T; the rest is zero, which is a value of T.
    unsafe {
        std::ptr::copy_nonoverlapping(ptr.cast::<u8>(), value.as_mut_ptr().cast(), len.min(size_of::<T>()));
        Ok(value.assume_init())
    }
}

/// The caller's struct that begins with its size, to be written to.
#[derive(Clone, Copy)]
pub struct Room<T> {
    into: *mut T,
    len: usize,
}

impl<T: Copy> Room<T> {
    /// # Safety
    /// Like [`sized`], and writable as long as the room is used.
    pub unsafe fn of(into: *mut T, what: &str) -> Outcome<Room<T>> {
        Ok(Room { into, len: struct_size(into, what)?.min(size_of::<T>()) })
    }

    /// Writes as much of `value` as the caller's struct holds, and leaves its `struct_size`.
    pub fn write(&self, value: &T) {
        let skip = size_of::<usize>();
        // SAFETY: both sides have `len` bytes, which whoever made this promised to be writable; `struct_size` found room for itself at least.
        unsafe {
            let from = std::ptr::from_ref(value).cast::<u8>();
            std::ptr::copy_nonoverlapping(from.add(skip), self.into.cast::<u8>().add(skip), self.len - skip);
        }
    }
}

/// [`Room::write`] at once.
///
/// # Safety
/// Like [`sized`], and writable.
pub unsafe fn write_sized<T: Copy>(value: &T, into: *mut T, what: &str) -> Outcome<()> {
    // SAFETY: promised by the caller.
    unsafe { Room::of(into, what)? }.write(value);
    Ok(())
}

fn struct_size<T>(ptr: *const T, what: &str) -> Outcome<usize> {
    if ptr.is_null() {
        return Err(null(what));
    }
    // SAFETY: every sized struct begins with its size (see `sized`).
    let len = unsafe { ptr.cast::<usize>().read() };
    // A struct of this version is well below a page; more is an uninitialised struct_size.
    if len < 2 * size_of::<usize>() || len > 4096 {
        return Err(Failure::Argument(format!("{what}->struct_size is {len}: set it to sizeof *{what}")));
    }
    Ok(len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Copy, Debug, PartialEq)]
    #[repr(C)]
    struct Young {
        struct_size: usize,
        first: u64,
        second: u64,
    }

    #[test]
    fn an_older_callers_struct_is_read_and_written_up_to_its_size() {
        let mut old = Young { struct_size: 16, first: 1, second: 2 };
        // SAFETY: the struct is there.
        let read = unsafe { sized(&old, "options") }.unwrap();
        assert_eq!(read, Young { struct_size: 16, first: 1, second: 0 });
        // SAFETY: as above.
        unsafe { write_sized(&Young { struct_size: 24, first: 7, second: 8 }, &mut old, "stat") }.unwrap();
        assert_eq!(old, Young { struct_size: 16, first: 7, second: 2 });
    }

    #[test]
    fn a_size_that_was_not_set_is_refused() {
        for struct_size in [0, 8, 1 << 40] {
            let young = Young { struct_size, first: 0, second: 0 };
            // SAFETY: the struct is there.
            let refused = unsafe { sized(&young, "options") };
            assert!(matches!(refused, Err(Failure::Argument(text)) if text.contains("options->struct_size")));
        }
    }
}
