//! A range of memory that a peer or the kernel may change at any time.
//!
//! Safety invariants of this module:
//!
//! 1. A window's maker promises that its range stays mapped and readable as long as any copy of the window is used. A range that is
//!    written through stays writable, too.
//! 2. A window's bytes are reached by raw pointer copies inside a guard only; no reference to them ever exists.
//! 3. A sub-window lies inside its window.

/// A range of mapped memory that others may change while we look. Reads give some mixture of old and new bytes.
///
/// A window is a plain pair of pointer and length: copyable, and free to cross threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    ptr: *mut u8,
    len: usize,
}

// SAFETY: a window is two numbers; what it points to may be changed by anyone at any time (invariant 2).
unsafe impl Send for Window {}
// SAFETY: as above.
unsafe impl Sync for Window {}

impl Window {
    /// The range of `len` bytes at `ptr`.
    ///
    /// # Safety
    /// The range stays mapped and readable while any copy of the window is used, and writable if anything is written through it. No Rust
    /// reference to its bytes is used meanwhile. Pages that the kernel cannot supply (SIGBUS) are no breach: copies report them.
    pub unsafe fn new(ptr: *mut u8, len: usize) -> Window {
        Window { ptr, len }
    }

    /// A window of no bytes.
    pub fn empty() -> Window {
        Window { ptr: std::ptr::NonNull::dangling().as_ptr(), len: 0 }
    }

    /// A caller's own buffer, to be written to.
    ///
    /// # Safety
    /// The buffer stays where it is, and nobody uses it otherwise, while any copy of the window is used.
    pub unsafe fn of_mut(bytes: &mut [u8]) -> Window {
        Window { ptr: bytes.as_mut_ptr(), len: bytes.len() }
    }

    /// A caller's own buffer, to be read from.
    ///
    /// # Safety
    /// While any copy of the window is used, the buffer stays where it is, and nobody writes to it, not even through the window.
    pub unsafe fn of(bytes: &[u8]) -> Window {
        Window { ptr: bytes.as_ptr().cast_mut(), len: bytes.len() }
    }

    /// Its first byte.
    #[inline]
    pub fn ptr(&self) -> *mut u8 {
        self.ptr
    }

    /// Its length in bytes.
    #[inline]
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The `len` bytes at `offset` of it. Panics when they do not lie inside: offsets from a peer are checked before.
    #[inline]
    pub fn slice(&self, offset: usize, len: usize) -> Window {
        if offset > self.len || len > self.len - offset {
            leaves(offset, len, self.len);
        }
        // SAFETY: invariant 3, just checked; so the pointer stays inside the range (or one past it).
        Window { ptr: unsafe { self.ptr.add(offset) }, len }
    }

    pub(crate) fn range(&self) -> std::ops::Range<usize> {
        self.ptr.addr()..self.ptr.addr() + self.len
    }
}

/// A function of its own, because callers would store the message's numbers each time if it were made in place.
#[cold]
#[inline(never)]
fn leaves(offset: usize, len: usize, window_len: usize) -> ! {
    panic!("{len} bytes at {offset} leave a window of {window_len}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_of_a_slice_is_where_it_should_be() {
        let mut bytes: Vec<u8> = (0..64).collect();
        // SAFETY: the buffer outlives the windows and is not used meanwhile.
        let window = unsafe { Window::of_mut(&mut bytes) };
        let mut two = [0; 2];
        window.slice(10, 20).slice(5, 2).read_into(&mut two).unwrap();
        assert_eq!(two, [15, 16]);
        window.slice(64, 0).read_into(&mut []).unwrap();
        window.slice(3, 2).write_from(&[90, 91]).unwrap();
        window.slice(0, 2).wipe().unwrap();
        assert_eq!(bytes[..6], [0, 0, 2, 90, 91, 5]);
    }

    #[test]
    fn slices_beyond_the_end_are_refused() {
        let mut bytes = [0; 8];
        // SAFETY: the buffer outlives the window and is not used meanwhile.
        let window = unsafe { Window::of_mut(&mut bytes) };
        for (offset, len) in [(0, 9), (9, 0), (8, 1), (usize::MAX, 2), (2, usize::MAX)] {
            assert!(std::panic::catch_unwind(|| window.slice(offset, len)).is_err(), "{offset} {len}");
        }
    }
}
