//! Parking on a word of shared memory, whose low half the kernel watches.

use crate::words::Shared;
use hanare_memory::Window;
use rustix::thread::futex;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

fn low_half(words: &Shared, word: usize) -> Window {
    words.window(word * crate::layout::WORD_LEN, 4)
}

/// Sleeps as long as the word is `value` and nobody wakes it, for `bound` at most. Returns early now and then.
pub fn park(words: &Shared, word: usize, value: u64, bound: Duration) {
    let bound = futex::Timespec { tv_sec: bound.as_secs() as i64, tv_nsec: i64::from(bound.subsec_nanos()) };
    let window = low_half(words, word);
    // SAFETY: words are mapped and aligned as long as their window is used (`Shared`); the low half of a little-endian word is its first
    // four bytes, and an atomic may be changed by others at any time.
    let word = unsafe { AtomicU32::from_ptr(window.ptr().cast()) };
    let _ = futex::wait(word, futex::Flags::empty(), value as u32, Some(&bound));
}

/// Wakes all who sleep on the word, in any process.
pub fn wake(words: &Shared, word: usize) {
    let window = low_half(words, word);
    // SAFETY: as in `park`.
    let word = unsafe { AtomicU32::from_ptr(window.ptr().cast()) };
    let _ = futex::wake(word, futex::Flags::empty(), i32::MAX as u32);
}
