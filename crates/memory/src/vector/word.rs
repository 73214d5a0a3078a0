//! A look at one word, for waiters on its change.

use crate::Window;
use crate::guard::{Lost, watch};
use std::sync::atomic::{AtomicU16, AtomicU32, AtomicU64, Ordering::SeqCst};

/// The word of 2, 4 or 8 bytes at byte `offset` of a window, a multiple of its length. It is little-endian, as all numbers in regions.
///
/// **Ordering**: sequentially consistent with updates: a caller that sees the word sees all that was written before it.
/// **Cost**: one load and about 2 ns. **Errors**: [`Lost`] when the kernel could not supply the page.
pub fn load_word(from: Window, offset: u64, len: u64) -> Result<u64, Lost> {
    let word = from.slice(offset as usize, len as usize);
    assert!(matches!(len, 2 | 4 | 8), "a word has 2, 4 or 8 bytes, not {len}");
    assert!((word.ptr().addr() as u64).is_multiple_of(len), "a word at offset {offset} is at no multiple of {len} bytes");
    let mut seen = 0;
    // SAFETY: the body touches the word alone, which lies in a window and is aligned, as just asserted; it does not panic.
    unsafe {
        watch(word, Window::empty(), || {
            // ORDERING: pairs with the update, or the atomic store of another program, that made the word.
            seen = match len {
                2 => AtomicU16::from_ptr(word.ptr().cast()).load(SeqCst).into(),
                4 => AtomicU32::from_ptr(word.ptr().cast()).load(SeqCst).into(),
                _ => AtomicU64::from_ptr(word.ptr().cast()).load(SeqCst),
            };
        })?;
    }
    Ok(seen)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_both_lengths_are_seen() {
        let mut memory = [0x1122_3344_5566_7788_u64, 9];
        // SAFETY: the array outlives the window, and nobody else uses it.
        let window = unsafe { Window::new(memory.as_mut_ptr().cast(), 16) };
        assert_eq!(load_word(window, 0, 8), Ok(0x1122_3344_5566_7788));
        assert_eq!(load_word(window, 0, 4), Ok(0x5566_7788));
        assert_eq!(load_word(window, 4, 4), Ok(0x1122_3344));
        assert_eq!(load_word(window, 8, 8), Ok(9));
    }

    #[test]
    #[should_panic(expected = "no multiple of 8")]
    fn a_word_between_two_is_refused() {
        let mut memory = [0u64; 2];
        // SAFETY: as above.
        let window = unsafe { Window::new(memory.as_mut_ptr().cast(), 16) };
        let _ = load_word(window, 4, 8);
    }
}
