//! A ring's view of its memory. Real memory is one implementation; model checkers and tests that stop a side at every step are others.
//!
//! Safety invariants of this module:
//!
//! 1. A [`Shared`] lies in a window that promises to stay mapped and writable, at an 8-byte boundary.
//! 2. Words are touched by atomics only, and data bytes by raw copies. The other side may write anything at any time.
//!
//! A fence on the hot path waits until the stores before it have left the processor. That takes as long as the line of the other side takes
//! to come, some 100 ns for each unit. `membarrier` moves that cost to the side that goes to sleep. The kernel has every processor that
//! runs a registered process pass a fence. A process that cannot register keeps its own fences. A sleeper that cannot call it (a filter of
//! system calls that the other side has not) may miss a wake, and looks again unasked, as all sleepers do.
//!
//! Short bytes are copied in by words. A program has often just stored a word of what it sends. A wider load of that word and others
//! waits until the processor has written all its earlier stores. So it waits for the lines of earlier units that are still on their way
//! from the other side. Then one line comes after another; else several come at once.

use crate::layout::WORD_LEN;
use hanare_memory::Window;
use rustix::thread::{MembarrierCommand, MembarrierQuery, membarrier, membarrier_query};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering, compiler_fence, fence};

/// Memory as 64-bit words with the orderings that a ring needs, and as bytes.
pub trait Words {
    /// Number of words.
    fn count(&self) -> usize;
    /// Reads a word. All that was written before the store of its value is visible then (acquire).
    fn load(&self, word: usize) -> u64;
    /// Writes a word after everything written before (release).
    fn store(&self, word: usize, value: u64);
    /// Writes a word and returns what was there, in one order with all other exchanges and [`Words::fence`]s.
    fn swap(&self, word: usize, value: u64) -> u64;
    /// Keeps stores before it ahead of loads after it.
    fn fence(&self);
    /// The same, but only beside sides that use [`Words::heavy_fence`]. For the side that has the fence on its hot path.
    fn light_fence(&self) {
        self.fence();
    }
    /// The same beside all other sides, also those that use [`Words::light_fence`].
    fn heavy_fence(&self) {
        self.fence();
    }
    /// Says that the line of byte `at` will soon be written, so that it may come meanwhile.
    fn will_write(&self, at: usize) {
        let _ = at;
    }
    /// Copies bytes out, from byte `at` on. What the other side writes meanwhile shows in some mixture.
    fn read(&self, at: usize, into: &mut [u8]);
    /// Copies bytes in, from byte `at` on.
    fn write(&self, at: usize, from: &[u8]);
}

/// Words that several sides may change at the same time.
pub trait Exchange: Words {
    /// Writes `new` if the word is `old`. Returns the value before, as `Ok` if it was `old`. A side that reads the new value sees all that
    /// was written before it. So does the caller for the value before (acquire and release).
    fn compare_exchange(&self, word: usize, old: u64, new: u64) -> Result<u64, u64>;
}

/// Longest range that is copied in by words. For a longer one that takes more time than one wait for a line.
const BY_WORDS_LEN: usize = 256;
/// Bytes of two words.
const PAIR_LEN: usize = 2 * WORD_LEN;

/// Words in memory shared with another process.
#[derive(Clone, Copy, Debug)]
pub struct Shared {
    window: Window,
    /// True if this process passes a fence when another asks the kernel.
    is_fenced_by_others: bool,
}

impl Shared {
    /// The words of a window, which begins at an 8-byte boundary. **Cost**: a system call.
    pub fn new(window: Window) -> Shared {
        assert!(window.ptr().addr().is_multiple_of(WORD_LEN), "words begin on their boundary");
        let is_fenced_by_others = membarrier(MembarrierCommand::RegisterGlobalExpedited).is_ok();
        Shared { window: window.slice(0, window.len() / WORD_LEN * WORD_LEN), is_fenced_by_others }
    }

    /// True if this process can make the others pass a fence, in its [`Words::heavy_fence`]. The call is tried, because a filter of system
    /// calls may refuse it. **Cost**: the first time two system calls, one of them a barrier.
    pub fn fences_others() -> bool {
        static CAN: OnceLock<bool> = OnceLock::new();
        let has = || membarrier_query().contains(MembarrierQuery::GLOBAL_EXPEDITED);
        *CAN.get_or_init(|| has() && membarrier(MembarrierCommand::GlobalExpedited).is_ok())
    }

    /// `len` bytes at byte `at`, for moving bodies without another copy.
    pub fn window(&self, at: usize, len: usize) -> Window {
        self.window.slice(at, len)
    }

    #[inline]
    fn word(&self, index: usize) -> &AtomicU64 {
        let count = self.count();
        if index >= count {
            outside(index, count);
        }
        // SAFETY: the index lies inside, and so the word is mapped, writable and aligned (invariant 1); an atomic may be changed by others
        // at any time (invariant 2), and the window stays mapped as long as this copy of it is used.
        unsafe { AtomicU64::from_ptr(self.window.ptr().cast::<u64>().add(index)) }
    }
}

/// The message is made elsewhere, so that a short command has few instructions.
#[cold]
#[inline(never)]
fn outside(index: usize, count: usize) -> ! {
    panic!("word {index} of {count}");
}

impl Exchange for Shared {
    #[inline]
    fn compare_exchange(&self, word: usize, old: u64, new: u64) -> Result<u64, u64> {
        self.word(word).compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire)
    }
}

impl Words for Shared {
    #[inline]
    fn count(&self) -> usize {
        self.window.len() / WORD_LEN
    }

    #[inline]
    fn load(&self, word: usize) -> u64 {
        self.word(word).load(Ordering::Acquire)
    }

    #[inline]
    fn store(&self, word: usize, value: u64) {
        self.word(word).store(value, Ordering::Release);
    }

    #[inline]
    fn swap(&self, word: usize, value: u64) -> u64 {
        self.word(word).swap(value, Ordering::SeqCst)
    }

    #[inline]
    fn fence(&self) {
        fence(Ordering::SeqCst);
    }

    #[inline]
    fn light_fence(&self) {
        if self.is_fenced_by_others { compiler_fence(Ordering::SeqCst) } else { fence(Ordering::SeqCst) }
    }

    fn heavy_fence(&self) {
        fence(Ordering::SeqCst);
        // Processes that cannot be asked have fences of their own.
        let _ = membarrier(MembarrierCommand::GlobalExpedited);
    }

    #[inline]
    fn will_write(&self, at: usize) {
        let line = self.window.slice(at, 1).ptr();
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a hint, which touches neither registers nor flags, changes no byte and never faults.
        unsafe {
            std::arch::asm!("prefetchw [{}]", in(reg) line, options(nostack, preserves_flags, readonly));
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = line;
    }

    #[inline]
    fn read(&self, at: usize, into: &mut [u8]) {
        let from = self.window.slice(at, into.len());
        // SAFETY: both ranges are valid for the length; the slice is exclusively ours (invariants 1 and 2).
        unsafe { std::ptr::copy_nonoverlapping(from.ptr(), into.as_mut_ptr(), into.len()) }
    }

    #[inline]
    fn write(&self, at: usize, from: &[u8]) {
        let into = self.window.slice(at, from.len());
        let mut to = into.ptr();
        let (pairs, rest) = if from.len() <= BY_WORDS_LEN { from.as_chunks::<PAIR_LEN>() } else { (&[][..], from) };
        for pair in pairs {
            // SAFETY: as in `read`; pairs are those of the range, one after another.
            unsafe {
                copy_pair(pair, to);
                to = to.add(PAIR_LEN);
            }
        }
        if !rest.is_empty() {
            // SAFETY: as in `read`; what is left of the range is as long as the rest.
            unsafe { std::ptr::copy_nonoverlapping(rest.as_ptr(), to, rest.len()) }
        }
    }
}

/// Copies two words, each loaded by itself, with one store. A processor holds a bounded number of stores that wait for their lines.
///
/// # Safety
/// The target is valid for two words.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn copy_pair(from: &[u8; PAIR_LEN], to: *mut u8) {
    use std::arch::x86_64::{_mm_set_epi64x, _mm_storeu_si128};
    let (words, _) = from.as_chunks::<WORD_LEN>();
    let [low, high] = [words[0], words[1]].map(|word| {
        let mut loaded = i64::from_ne_bytes(word);
        // The compiler makes no wider load of what passes here.
        // SAFETY: no instruction.
        unsafe { std::arch::asm!("/* {0} */", inlateout(reg) loaded, options(pure, nomem, nostack, preserves_flags)) };
        loaded
    });
    // SAFETY: valid for two words, as the caller says; it need not be aligned.
    unsafe { _mm_storeu_si128(to.cast(), _mm_set_epi64x(high, low)) }
}

/// Copies two words.
///
/// # Safety
/// The target is valid for two words.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
unsafe fn copy_pair(from: &[u8; PAIR_LEN], to: *mut u8) {
    // SAFETY: valid for two words, as the caller says.
    unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to, PAIR_LEN) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_any_length_are_copied_in_and_none_beside_them() {
        let mut memory = vec![0u64; 64];
        // SAFETY: the memory outlives the window and is used through it alone, but where it is filled and compared between.
        let window = unsafe { Window::of_mut(std::slice::from_raw_parts_mut(memory.as_mut_ptr().cast(), 64 * WORD_LEN)) };
        let words = Shared::new(window);
        let from: Vec<u8> = (0..300u16).map(|k| k as u8 | 1).collect();
        let mut found = [0; 64 * WORD_LEN];
        for at in [0, 8, 11] {
            for len in 0..=from.len() {
                words.write(0, &[0; 64 * WORD_LEN]);
                words.write(at, &from[..len]);
                words.read(0, &mut found);
                assert_eq!(found[at..at + len], from[..len], "{len} bytes at {at}");
                assert!(found[..at].iter().chain(&found[at + len..]).all(|byte| *byte == 0), "{len} bytes at {at}");
            }
        }
    }
}
