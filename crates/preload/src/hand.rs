//! The thread that takes pages out of this program when the keeper says so: only a program itself can.
//!
//! The C library does not know it, so that a program with one thread stays one for its locks. It makes system calls alone, without
//! `errno`, which it would share with the thread that made it. It ends with the keeper's end of its socket, or with the program.

use hanare_memory::prompt::shorten_turns;
use hanare_protocol::limits::ZAP_COUNT_MAX;
use hanare_protocol::wire::main_memory::{CALL_LEN, Call};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous};
use rustix::net::{RecvFlags, SendFlags, recv, send};
use std::ffi::{c_int, c_void};
use std::os::fd::BorrowedFd;

/// Enough for a few nested calls.
const STACK_LEN: usize = 64 << 10;

/// Starts it, with its end of the socket, which it keeps for ever. `None` where the kernel has no thread.
pub fn start(socket: c_int) -> Option<()> {
    // SAFETY: new memory.
    let stack = unsafe {
        mmap_anonymous(std::ptr::null_mut(), STACK_LEN, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE | MapFlags::STACK)
    };
    let top = stack.ok()?.wrapping_byte_add(STACK_LEN);
    let flags =
        libc::CLONE_VM | libc::CLONE_FS | libc::CLONE_FILES | libc::CLONE_SIGHAND | libc::CLONE_THREAD | libc::CLONE_SYSVSEM;
    // SAFETY: signal sets are plain values; the thread gets a stack of its own and no other memory.
    let started = unsafe {
        let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&mut all);
        // The thread inherits the mask: no signal of the program is its business.
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        let started = libc::clone(work, top, flags, socket as usize as *mut c_void);
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        started
    };
    let thread = u32::try_from(started).ok().filter(|thread| *thread > 0)?;
    shorten_turns(thread);
    Some(())
}

extern "C" fn work(socket: *mut c_void) -> c_int {
    // SAFETY: the descriptor is this thread's alone. A program that closes all of its descriptors closes it, too: calls fail then.
    let socket = unsafe { BorrowedFd::borrow_raw(socket as usize as c_int) };
    let mut bytes = [0; ZAP_COUNT_MAX * CALL_LEN];
    loop {
        let len = match recv(socket, &mut bytes[..], RecvFlags::empty()) {
            Ok((len, _)) if len > 0 => len,
            Err(Errno::INTR) => continue,
            _ => return 0,
        };
        let done = take_out(&bytes[..len]);
        if send(socket, &u64::from(!done).to_le_bytes(), SendFlags::NOSIGNAL).is_err() {
            return 0;
        }
    }
}

/// Does what the calls of a packet say.
fn take_out(calls: &[u8]) -> bool {
    let mut ranges = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; ZAP_COUNT_MAX];
    let mut count = 0;
    for call in calls.chunks(CALL_LEN) {
        let Ok(Call::Zap { start, len }) = Call::decode(call) else { return false };
        ranges[count] = libc::iovec { iov_base: start as *mut _, iov_len: len as usize };
        count += 1;
    }
    let ranges = &ranges[..count];
    zap_together(ranges) || ranges.iter().all(|range| zap(range.iov_base.addr(), range.iov_len))
}

/// Takes pages out with one shoot-down for all. `false` where this kernel does not, or not all of them.
fn zap_together(ranges: &[libc::iovec]) -> bool {
    let all: usize = ranges.iter().map(|range| range.iov_len).sum();
    // SAFETY: as in `zap`; the ranges outlive the call.
    let done =
        unsafe { libc::syscall(libc::SYS_process_madvise, PIDFD_SELF, ranges.as_ptr(), ranges.len(), libc::MADV_DONTNEED, 0) };
    usize::try_from(done) == Ok(all)
}

/// Number of the calling process since Linux 6.15. Before 6.13 no kernel takes out several ranges at once.
const PIDFD_SELF: c_int = -10001;

/// Takes pages out, also such as the program has locked in memory. `false` where the kernel refuses.
pub fn zap(start: usize, len: usize) -> bool {
    // SAFETY: pages of the arena whose blocks the keeper holds: their bytes are kept, or given back.
    match unsafe { madvise(start as *mut _, len, Advice::LinuxDontNeed) } {
        // Pages that the program has unmapped behind our back fail; the others are out.
        Ok(()) | Err(Errno::NOMEM) => true,
        // SAFETY: as above.
        Err(_) => unsafe { libc::syscall(libc::SYS_madvise, start, len, MADV_DONTNEED_LOCKED) == 0 },
    }
}

/// Since Linux 5.18.
const MADV_DONTNEED_LOCKED: c_int = 24;
