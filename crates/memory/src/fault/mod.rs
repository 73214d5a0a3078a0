//! Page faults of registered mappings, resolved by the thread that touched, inside the process's one SIGBUS handler
//! ([`crate::guard`]).
//!
//! ```text
//! load or store -> SIGBUS -> guard's handler -> this table: whose mapping? -> Resolve::resolve(page, access) -> the
//! instruction again -> none: a guarded copy? -> none: the handler before, or the default
//! ```
//!
//! # What to do, in which order
//!
//! 1. Map the frames; [`withhold_from_children`]; open and register the userfaultfd ([`crate::uffd`]).
//! 2. [`watch`] the mapping with a resolver. It drives the page words (crate `ring`) by `fault`. On `Map`: [`crate::uffd::Uffd::install`]
//!    and `leave`. On `Fetch` and `Upgrade`: the request on the thread's own endpoint, [`crate::frames::Frames::fill`], `grant`. On
//!    `Wait`: pause and park. Then [`Resolved::Again`].
//! 3. Each thread that attaches: [`admit_thread`]. Threads made by an admitted thread inherit it.
//! 4. To unmap: drop the [`Watch`], then the mapping.
//!
//! A write whose fault was resolved for reading faults again. A fault that another thread resolved meanwhile is resolved again, for
//! nothing. A resolver finds that the page may be mapped, and maps it.
//!
//! # What a resolver must not do
//!
//! The thread may be anywhere: inside malloc, inside a lock of ours, inside the dynamic linker. So the handler makes no allocation, takes
//! no lock that other code takes and does not panic. It uses no thread-local that is not made yet. It touches no watched mapping: SIGBUS is
//! blocked in it, so the process would die. System calls are allowed; the handler keeps errno. Memory that it needs was prepared for the
//! thread.
//!
//! # What programs must know
//!
//! - A system call that touches an absent page fails with `EFAULT`; no signal is raised. Touch it first ([`bring`]).
//! - A thread that blocks SIGBUS dies of its first fault.
//! - A SIGBUS handler that a program installed *before* is called for the program's own faults. A handler installed *afterwards* must pass
//!   other faults on to the handler that it replaced.
//! - A child made by fork has no mapping: touching it is SIGSEGV, never silent zeros.
//!
//! # Costs
//!
//! The signal (1.3 us), the resolver's work, and 4 loads for each table entry up to the last that was ever used.

#[cfg(test)]
mod tests;

pub use crate::watched::{Resolve, Resolved, WATCH_COUNT_MAX, Watch};

use crate::mapping::Mapping;
use crate::uffd::Span;
use crate::window::Window;
use crate::{guard, watched};
use hanare_protocol::page::Access;
use hanare_protocol::{Error, Result};
use rustix::mm::{Advice, madvise};

/// Has the faults of a range of this process resolved, and installs the handler.
///
/// **Errors**: [`Error::System`] when [`WATCH_COUNT_MAX`] mappings are watched.
///
/// # Safety
/// The range is whole pages of a mapping that is not watched yet. No thread touches it while or after the watch is dropped.
// FEATURE: EU-F12
pub unsafe fn watch<R: Resolve>(span: Span, resolver: R) -> Result<Watch<R>> {
    guard::install();
    guard::unblock();
    // SAFETY: passed on.
    unsafe { Watch::new(span.start as usize..span.end() as usize, resolver) }.ok_or_else(|| Error::System {
        what: "mapping a region".to_owned(),
        reason: format!("this process has {WATCH_COUNT_MAX} mappings; unmap one first"),
    })
}

/// Unblocks SIGBUS on the calling thread: a fault while it is blocked kills the process.
pub fn admit_thread() {
    guard::install();
    guard::unblock();
}

/// Children of this process made by fork do not get the mapping. A touch there is SIGSEGV, where otherwise it would be zeros.
pub fn withhold_from_children(mapping: &Mapping) -> Result<()> {
    // SAFETY: the range is the mapping's own, and stays as it is in this process.
    let done = unsafe { madvise(mapping.ptr().cast(), mapping.len(), Advice::LinuxDontFork) };
    done.map_err(crate::file::system("withholding a mapping from children"))
}

/// Brings the pages of a window that lie in watched mappings, before a system call reads or writes there. For an absent page the kernel
/// returns `EFAULT`, and raises no signal. Pages that cannot be brought are left to the call.
///
/// **Cost**: a look at the table. For each page of a watched mapping its fault without the signal, and two calls. A page may go again
/// before the call, where a mapping has room for fewer than the window has.
pub fn bring(window: Window, access: Access) {
    for page in watched::pages_in(window.range()) {
        // SAFETY: the resolver lives as long as the window's memory is mapped.
        undisturbed(|| unsafe { page.resolve(access) });
    }
}

/// Runs `work` with all signals of this thread held back. The thread holds a page that faults wait for. A handler of the program on this
/// thread could touch that page, and would wait for itself.
///
/// **Cost**: two system calls.
pub fn undisturbed<R>(work: impl FnOnce() -> R) -> R {
    struct Restore(libc::sigset_t);
    impl Drop for Restore {
        fn drop(&mut self) {
            // SAFETY: the set is the one that was in force.
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &self.0, std::ptr::null_mut()) };
        }
    }
    // SAFETY: both sets live on this stack; all zeros are an empty one.
    let before = unsafe {
        let (mut all, mut before) = (std::mem::zeroed(), std::mem::zeroed());
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        before
    };
    let _restore = Restore(before);
    work()
}
