//! Parking on a word of shared memory, or on several, whose low half the kernel watches.

use crate::words::{Shared, Words};
use hanare_memory::Window;
use rustix::io::Errno;
use rustix::thread::futex;
use rustix::time::ClockId;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

fn low_half(words: &Shared, word: usize) -> Window {
    words.window(word * crate::layout::WORD_LEN, 4)
}

/// Sleeps as long as the word is `value` and nobody wakes it, for `timeout` at most. Returns early now and then.
pub fn park(words: &Shared, word: usize, value: u64, timeout: Duration) {
    let timeout = futex::Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: i64::from(timeout.subsec_nanos()) };
    let window = low_half(words, word);
    // SAFETY: words are mapped and aligned as long as their window is used (`Shared`); the low half of a little-endian word is its first
    // four bytes, and an atomic may be changed by others at any time.
    let word = unsafe { AtomicU32::from_ptr(window.ptr().cast()) };
    let _ = futex::wait(word, futex::Flags::empty(), value as u32, Some(&timeout));
}

/// Wakes all who sleep on the word, in any process.
pub fn wake(words: &Shared, word: usize) {
    let window = low_half(words, word);
    // SAFETY: as in `park`.
    let word = unsafe { AtomicU32::from_ptr(window.ptr().cast()) };
    let _ = futex::wake(word, futex::Flags::empty(), i32::MAX as u32);
}

/// A word at which a reader sleeps.
#[derive(Clone, Copy, Debug)]
pub struct Bell<W> {
    words: W,
    word: usize,
    /// Value while the reader sleeps; `None` for anything but zero.
    says: Option<u64>,
}

impl<W: Words> Bell<W> {
    pub(crate) fn new(words: W, word: usize, says: Option<u64>) -> Bell<W> {
        Bell { words, word, says }
    }

    /// The bell's value, if it says that the reader sleeps on this host and nobody has committed since.
    fn asleep(&self) -> Option<u64> {
        let value = self.words.load(self.word);
        let is_asleep = self.says.map_or(value != 0, |says| value == says);
        is_asleep.then_some(value)
    }

    /// True if the bell says that its reader sleeps.
    pub fn is_asleep(&self) -> bool {
        self.asleep().is_some()
    }
}

/// A counter by which threads call back a thread of this process that parks at bells.
#[derive(Debug, Default)]
pub struct Call(AtomicU32);

impl Call {
    /// Number of its calls, modulo 2^32.
    pub fn count(&self) -> u32 {
        self.0.load(Ordering::Acquire)
    }

    /// Calls.
    pub fn call(&self) {
        self.0.fetch_add(1, Ordering::Release);
        let _ = futex::wake(&self.0, futex::Flags::PRIVATE, i32::MAX as u32);
    }
}

/// Time that a thread sleeps at once if the kernel does not let it sleep at several words. That is Linux before 5.16, or a filter of system
/// calls.
const NAP_WITHOUT: Duration = Duration::from_millis(1);

/// Sleeps while all bells say that their readers sleep and no call followed that count, for `timeout` at most. Returns early now and then.
/// At most
/// `QUEUE_SET_SOURCE_COUNT_MAX` bells.
pub fn park_at_any(bells: &[Bell<Shared>], call: Option<(&Call, u32)>, timeout: Duration) {
    let mut words = Vec::with_capacity(bells.len() + 1);
    for bell in bells {
        let Some(value) = bell.asleep() else { return };
        words.push(waits(low_half(&bell.words, bell.word).ptr().cast(), value as u32, futex::WaitFlags::SIZE_U32));
    }
    if let Some((call, count)) = call {
        words.push(waits(call.0.as_ptr().cast(), count, futex::WaitFlags::SIZE_U32 | futex::WaitFlags::PRIVATE));
    }
    let now = rustix::time::clock_gettime(ClockId::Monotonic);
    let ns = now.tv_nsec as u64 + u64::from(timeout.subsec_nanos());
    let until = futex::Timespec {
        tv_sec: now.tv_sec + timeout.as_secs() as i64 + (ns / 1_000_000_000) as i64,
        tv_nsec: (ns % 1_000_000_000) as i64,
    };
    match futex::waitv(&words, futex::WaitvFlags::empty(), Some(&until), ClockId::Monotonic) {
        Ok(_) | Err(Errno::AGAIN | Errno::INTR | Errno::TIMEDOUT) => {}
        Err(_) => std::thread::sleep(timeout.min(NAP_WITHOUT)),
    }
}

fn waits(word: *mut std::ffi::c_void, value: u32, flags: futex::WaitFlags) -> futex::Wait {
    let mut wait = futex::Wait::new();
    (wait.val, wait.uaddr, wait.flags) = (value.into(), futex::WaitPtr::new(word), flags);
    wait
}
