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
//!
//! Safety invariants of this module:
//!
//! 1. A table entry is read as whole or not at all. Its start is 0 or `MAKING` while it changes, and is read again after the rest.
//! 2. A resolver lives from before its entry can be found until nobody touches its range any more ([`watch`]'s contract).
//! 3. Code in the handler is async-signal-safe: atomics here, and [`Resolve`] by its contract.

#[cfg(test)]
mod tests;

use crate::guard;
use crate::mapping::Mapping;
use crate::uffd::Span;
use crate::window::Window;
use hanare_protocol::limits::PAGE_LEN;
use hanare_protocol::page::Access;
use hanare_protocol::{Error, Result};
use rustix::mm::{Advice, madvise};
use std::ffi::c_void;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicPtr, AtomicUsize, fence};

/// Outcome of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolved {
    /// The instruction is run again.
    Again,
    /// The page cannot be supplied: a guarded copy reports it, anything else gets SIGBUS as without us.
    Lost,
}

/// A resolver of one mapping's faults.
///
/// # Safety
/// `resolve` is async-signal-safe, as the module says, and may run on many threads at a time.
pub unsafe trait Resolve: Send + Sync + 'static {
    /// A thread touched page `page` of the mapping, and may not.
    fn resolve(&self, page: u64, access: Access) -> Resolved;
}

/// Most mappings watched at one time in a process; the table is looked through at each fault.
pub const WATCH_COUNT_MAX: usize = 1024;

/// The start of an entry that is being made: below every address that can be mapped.
const MAKING: usize = 1;

/// A watched mapping; free when `start` is 0.
struct Entry {
    start: AtomicUsize,
    end: AtomicUsize,
    call: AtomicPtr<()>,
    resolver: AtomicPtr<()>,
}

static ENTRIES: [Entry; WATCH_COUNT_MAX] = [const {
    Entry {
        start: AtomicUsize::new(0),
        end: AtomicUsize::new(0),
        call: AtomicPtr::new(std::ptr::null_mut()),
        resolver: AtomicPtr::new(std::ptr::null_mut()),
    }
}; WATCH_COUNT_MAX];

/// End of the entries that were ever used. Entries from here on need no look.
static USED: AtomicUsize = AtomicUsize::new(0);

type Call = unsafe fn(resolver: *const (), page: u64, access: Access) -> Resolved;

/// # Safety
/// `resolver` points to a living `R`.
unsafe fn call<R: Resolve>(resolver: *const (), page: u64, access: Access) -> Resolved {
    // SAFETY: the caller's promise.
    unsafe { &*resolver.cast::<R>() }.resolve(page, access)
}

/// A mapping whose faults are resolved, until this is dropped.
#[derive(Debug)]
pub struct Watch<R: Resolve> {
    entry: usize,
    resolver: *mut R,
}

// SAFETY: the resolver may be used and dropped on any thread (`Resolve` says so); the entry is a number.
unsafe impl<R: Resolve> Send for Watch<R> {}
// SAFETY: as above.
unsafe impl<R: Resolve> Sync for Watch<R> {}

impl<R: Resolve> std::ops::Deref for Watch<R> {
    type Target = R;

    fn deref(&self) -> &R {
        // SAFETY: it lives until drop.
        unsafe { &*self.resolver }
    }
}

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
    let free = |entry: &Entry| entry.start.compare_exchange(0, MAKING, Acquire, Relaxed).is_ok();
    let Some(index) = ENTRIES.iter().position(free) else {
        return Err(Error::System {
            what: "mapping a region".to_owned(),
            reason: format!("this process has {WATCH_COUNT_MAX} mappings; unmap one first"),
        });
    };
    let resolver = Box::into_raw(Box::new(resolver));
    let entry = &ENTRIES[index];
    // ORDERING: a handler that read the old start finds another one when it looks again (pairs with its fence).
    fence(Release);
    entry.end.store(span.end() as usize, Relaxed);
    entry.call.store(call::<R> as *mut (), Relaxed);
    entry.resolver.store(resolver.cast(), Relaxed);
    USED.fetch_max(index + 1, Release);
    // ORDERING: whoever finds the start finds the rest.
    entry.start.store(span.start as usize, Release);
    Ok(Watch { entry: index, resolver })
}

impl<R: Resolve> Drop for Watch<R> {
    fn drop(&mut self) {
        ENTRIES[self.entry].start.store(0, Release);
        // SAFETY: it was made by `watch`; nobody touches the range any more (invariant 2), so no handler uses it.
        drop(unsafe { Box::from_raw(self.resolver) });
    }
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
    let range = window.range();
    for entry in &ENTRIES[..USED.load(Acquire)] {
        let (start, end) = (entry.start.load(Acquire), entry.end.load(Relaxed));
        let (from, to) = (range.start.max(start), range.end.min(end));
        if start <= MAKING || from >= to {
            continue;
        }
        for at in (from & !(PAGE_LEN as usize - 1)..to).step_by(PAGE_LEN as usize) {
            let Some((start, call, resolver)) = find(at) else { break };
            let page = (at - start) as u64 / PAGE_LEN;
            // SAFETY: the entry was whole (invariant 1), and its resolver lives as long as the window's memory is mapped.
            undisturbed(|| unsafe { call(resolver, page, access) });
        }
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

/// Resolves a SIGBUS of a watched mapping; says whether the instruction is to run again. Called by the handler only.
///
/// # Safety
/// Both pointers are those that the kernel gave to the handler.
pub(crate) unsafe fn resolve(about: *const libc::siginfo_t, machine: *const c_void) -> bool {
    // SAFETY: the kernel's structure.
    let (code, address) = unsafe { ((*about).si_code, (*about).si_addr().addr()) };
    // Broken memory (BUS_MCEERR_*) is nothing that a fetch could mend.
    if code != libc::BUS_ADRERR {
        return false;
    }
    let Some((start, call, resolver)) = find(address) else { return false };
    // SAFETY: the C library's place of errno on this thread, which is there from the thread's beginning.
    let errno = unsafe { *libc::__errno_location() };
    // SAFETY: the entry was whole (invariant 1), and its resolver lives while a thread touches its range (invariant 2).
    let resolved = unsafe { call(resolver, (address - start) as u64 / PAGE_LEN, access(machine)) };
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
    resolved == Resolved::Again
}

/// True if an address lies in a watched mapping.
pub(crate) fn is_watched(address: usize) -> bool {
    find(address).is_some()
}

fn find(address: usize) -> Option<(usize, Call, *const ())> {
    for entry in &ENTRIES[..USED.load(Acquire)] {
        // ORDERING: pairs with the store of the start in `watch`.
        let start = entry.start.load(Acquire);
        let (end, call, resolver) = (entry.end.load(Relaxed), entry.call.load(Relaxed), entry.resolver.load(Relaxed));
        // ORDERING: if any of these is a later mapping's, the start read next is not the old one.
        fence(Acquire);
        if start > MAKING && (start..end).contains(&address) && entry.start.load(Relaxed) == start {
            // SAFETY: `watch` put a function of this type there.
            let call = unsafe { std::mem::transmute::<*mut (), Call>(call) };
            return Some((start, call, resolver));
        }
    }
    None
}

/// The thread's access. Where the machine does not tell, it counts as a write: correct, but fewer hosts can share the page.
fn access(machine: *const c_void) -> Access {
    #[cfg(target_arch = "x86_64")]
    {
        /// In the page fault's error code: it was a write.
        const WRITE: i64 = 1 << 1;
        // SAFETY: the kernel's structure, which the C library describes.
        let code = unsafe { (*machine.cast::<libc::ucontext_t>()).uc_mcontext.gregs[libc::REG_ERR as usize] };
        if code & WRITE == 0 { Access::Read } else { Access::Write }
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        let _ = machine;
        Access::Write
    }
}
