//! Threads of a program: their numbers, and those of the library's own.

use hanare_protocol::{Error, Result};
use std::sync::atomic::{AtomicU64, Ordering};

/// Starts a thread that takes none of the program's signals. It is not waited for.
///
/// **Errors**: [`Error::System`].
pub(crate) fn start(name: &str, stack_len: usize, run: impl FnOnce() + Send + 'static) -> Result<()> {
    let thread = std::thread::Builder::new().name(name.to_owned()).stack_size(stack_len);
    // SAFETY: the sets are this function's own, and initialised before they are read.
    let started = unsafe {
        let (mut all, mut before) = std::mem::zeroed::<(libc::sigset_t, libc::sigset_t)>();
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        let started = thread.spawn(run);
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, std::ptr::null_mut());
        started
    };
    started.map(drop).map_err(|error| Error::System { what: "start a thread".to_owned(), reason: error.to_string() })
}

/// The thread's number in its process.
pub(crate) fn this_thread() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    thread_local! {
        static NUMBER: u64 = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    NUMBER.with(|number| *number)
}
