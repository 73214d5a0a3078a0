//! Limits of inheritance by fork. A child must not use its parent's handles, nor keep connections open for a parent that is dead.
//!
//! The C library runs a handler in each child. The handler increments the generation and replaces every withheld descriptor by one of
//! `/dev/null`. A process made without the C library's `fork` keeps handles and connections.
//!
//! Safety invariants of this module:
//! 1. The handler makes only calls that are safe in a child of a program with threads: loads, stores and `dup3`.
//! 2. A slot names a descriptor only while its [`Withheld`] lives, and with it the descriptor.

use std::os::fd::{AsRawFd, BorrowedFd, IntoRawFd};
use std::sync::Once;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicUsize, Ordering};

/// Most descriptors that are withheld at once; beyond, children get them.
const SLOT_COUNT: usize = 1 << 14;

static GENERATION: AtomicU32 = AtomicU32::new(0);

/// In each slot a descriptor plus 1; 0 where the slot is free.
static SLOTS: [AtomicI32; SLOT_COUNT] = [const { AtomicI32::new(0) }; SLOT_COUNT];

/// End of the slots that were ever used.
static USED: AtomicUsize = AtomicUsize::new(0);

/// A descriptor of `/dev/null`; -1 until it is open.
static NOTHING: AtomicI32 = AtomicI32::new(-1);

/// The process in which something was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lineage(u32);

impl Lineage {
    /// The present process.
    pub fn here() -> Lineage {
        install();
        Lineage(GENERATION.load(Ordering::Relaxed))
    }

    /// Number of forks between this process and the first that used the library.
    pub fn generation(self) -> u32 {
        self.0
    }

    /// True in that process, and in no child of it.
    ///
    /// **Cost**: a load.
    #[inline]
    pub fn is_here(self) -> bool {
        // ORDERING: it changes only while a process has one thread.
        self.0 == GENERATION.load(Ordering::Relaxed)
    }
}

/// A descriptor that children do not get, as long as this lives; dropped before the descriptor is closed.
#[derive(Debug)]
pub struct Withheld(Option<usize>);

impl Withheld {
    /// Children made from here on get `/dev/null` in its place.
    pub fn new(fd: BorrowedFd<'_>) -> Withheld {
        install();
        let take = |slot: &AtomicI32| slot.compare_exchange(0, fd.as_raw_fd() + 1, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        let index = SLOTS.iter().position(take);
        if let Some(index) = index {
            USED.fetch_max(index + 1, Ordering::Relaxed);
        }
        Withheld(index)
    }
}

impl Drop for Withheld {
    fn drop(&mut self) {
        if let Some(index) = self.0 {
            SLOTS[index].store(0, Ordering::Relaxed);
        }
    }
}

fn install() {
    static INSTALL: Once = Once::new();
    INSTALL.call_once(|| {
        if let Ok(null) = std::fs::File::open("/dev/null") {
            NOTHING.store(null.into_raw_fd(), Ordering::Relaxed);
        }
        // SAFETY: the handler is a function of this library (invariant 1), which is never unloaded.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
    });
}

unsafe extern "C" fn in_child() {
    GENERATION.fetch_add(1, Ordering::Relaxed);
    let nothing = NOTHING.load(Ordering::Relaxed);
    for slot in &SLOTS[..USED.load(Ordering::Relaxed)] {
        let fd = slot.load(Ordering::Relaxed) - 1;
        if fd >= 0 && nothing >= 0 {
            // SAFETY: the descriptor is this library's own (invariant 2); its number stays in use, so that nobody closes another's.
            unsafe { libc::dup3(nothing, fd, libc::O_CLOEXEC) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::fd::AsFd;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_child_is_another_lineage_and_keeps_no_connection_open() {
        let (mut ours, kept) = UnixStream::pair().unwrap();
        let (mut theirs, inherited) = UnixStream::pair().unwrap();
        let withheld = Withheld::new(kept.as_fd());
        let here = Lineage::here();
        let mut ready = [0; 2];
        // SAFETY: both ends are this block's own.
        assert_eq!(unsafe { libc::pipe(ready.as_mut_ptr()) }, 0);
        // SAFETY: the child makes no call but those that are safe after fork, and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let is_here = u8::from(here.is_here());
            // SAFETY: as above; it lives until its parent kills it.
            unsafe {
                libc::write(ready[1], (&raw const is_here).cast(), 1);
                loop {
                    libc::pause();
                }
            }
        }
        let mut is_here = 7u8;
        // SAFETY: one byte into a variable of ours.
        assert_eq!(unsafe { libc::read(ready[0], (&raw mut is_here).cast(), 1) }, 1);
        assert_eq!((is_here, here.is_here()), (0, true));
        drop((withheld, kept, inherited));
        assert_eq!(ours.read(&mut [0; 1]).unwrap(), 0, "the child has no copy of it");
        theirs.set_nonblocking(true).unwrap();
        assert!(theirs.read(&mut [0; 1]).is_err(), "what is not withheld is the child's too");
        // SAFETY: the child is ours, and is waited for.
        unsafe {
            libc::kill(child, libc::SIGKILL);
            libc::waitpid(child, std::ptr::null_mut(), 0);
            libc::close(ready[0]);
            libc::close(ready[1]);
        }
    }
}
