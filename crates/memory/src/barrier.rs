//! A barrier that one process makes in the threads of others, so that the side which looks seldom pays for both.
//!
//! Two sides that each store and then look at the other's store need a full barrier between the two steps. Where the kernel makes the one
//! side's barrier in the threads of the other ([membarrier], global and expedited), the other side needs to keep its compiler in order alone.
//!
//! [membarrier]: https://man7.org/linux/man-pages/man2/membarrier.2.html

use std::sync::atomic::{Ordering, fence};

/// Commands of the system call. SOURCE: `linux/membarrier.h`.
const QUERY: libc::c_long = 0;
const GLOBAL_EXPEDITED: libc::c_long = 1 << 1;
const REGISTER_GLOBAL_EXPEDITED: libc::c_long = 1 << 2;

fn call(command: libc::c_long) -> libc::c_long {
    // SAFETY: the commands used here take no memory.
    unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) }
}

/// Whether this kernel makes barriers in other processes.
pub fn is_offered() -> bool {
    let wanted = GLOBAL_EXPEDITED | REGISTER_GLOBAL_EXPEDITED;
    let offered = call(QUERY);
    offered > 0 && offered & wanted == wanted
}

/// Lets other processes make barriers in the threads of this one; says whether they can.
///
/// **Cost**: a system call, once a process; interrupts while others make barriers.
pub fn admit() -> bool {
    call(REGISTER_GLOBAL_EXPEDITED) == 0
}

/// A full barrier on this thread, and on every thread that runs at this moment of all processes that admit it. Says whether it was one
/// for the others, too.
///
/// **Cost**: a system call, and an interrupt of each processor that runs such a thread: some microseconds.
pub fn everywhere() -> bool {
    // ORDERING: the kernel makes a full barrier of its own before and after; this one is for kernels that refuse.
    fence(Ordering::SeqCst);
    call(GLOBAL_EXPEDITED) == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_offered_works() {
        if !is_offered() {
            return eprintln!("skipped: this kernel makes no barriers in other processes");
        }
        assert!(admit() && admit(), "it may be admitted twice");
        assert!(everywhere());
    }
}
