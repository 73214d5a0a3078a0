//! A lock without an owner: taken before a fork, it is opened in the parent and in the child.

use rustix::thread::futex;
use std::sync::atomic::{AtomicU32, Ordering};

/// 0 is open, 1 taken, 2 taken and waited for.
pub struct Lock(AtomicU32);

impl Lock {
    /// An open one.
    pub const fn new() -> Lock {
        Lock(AtomicU32::new(0))
    }

    /// Takes it, runs `work`, opens it.
    pub fn with<T>(&self, work: impl FnOnce() -> T) -> T {
        self.take();
        let value = work();
        self.open();
        value
    }

    /// Waits until it is open and takes it.
    pub fn take(&self) {
        if self.0.compare_exchange(0, 1, Ordering::Acquire, Ordering::Relaxed).is_ok() {
            return;
        }
        while self.0.swap(2, Ordering::Acquire) != 0 {
            let _ = futex::wait(&self.0, futex::Flags::PRIVATE, 2, None);
        }
    }

    /// Opens it, whoever took it.
    pub fn open(&self) {
        if self.0.swap(0, Ordering::Release) == 2 {
            let _ = futex::wake(&self.0, futex::Flags::PRIVATE, 1);
        }
    }
}
