//! The mappings of this process whose faults are resolved: a table that the handler of SIGBUS looks through. [`crate::fault`] says what a
//! resolver must not do.
//!
//! Safety invariants of this module:
//!
//! 1. A table entry is read as whole or not at all. Its start is 0 or `MAKING` while it changes, and is read again after the rest.
//! 2. A resolver lives from before its entry can be found until nobody touches its range any more ([`Watch::new`]'s contract).
//! 3. Code in the handler is async-signal-safe: atomics here, and [`Resolve`] by its contract.

use hanare_protocol::limits::PAGE_LEN;
use hanare_protocol::page::Access;
use std::ffi::c_void;
use std::ops::Range;
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
/// `resolve` is async-signal-safe, as [`crate::fault`] says, and may run on many threads at a time.
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

impl<R: Resolve> Watch<R> {
    /// The watched mapping of these addresses; `None` when [`WATCH_COUNT_MAX`] mappings are watched.
    ///
    /// # Safety
    /// The range is whole pages of a mapping that is not watched yet. No thread touches it while or after the watch is dropped.
    pub(crate) unsafe fn new(range: Range<usize>, resolver: R) -> Option<Watch<R>> {
        let free = |entry: &Entry| entry.start.compare_exchange(0, MAKING, Acquire, Relaxed).is_ok();
        let index = ENTRIES.iter().position(free)?;
        let resolver = Box::into_raw(Box::new(resolver));
        let entry = &ENTRIES[index];
        // ORDERING: a handler that read the old start finds another one when it looks again (pairs with its fence).
        fence(Release);
        entry.end.store(range.end, Relaxed);
        entry.call.store(call::<R> as *mut (), Relaxed);
        entry.resolver.store(resolver.cast(), Relaxed);
        USED.fetch_max(index + 1, Release);
        // ORDERING: whoever finds the start finds the rest.
        entry.start.store(range.start, Release);
        Some(Watch { entry: index, resolver })
    }
}

impl<R: Resolve> Drop for Watch<R> {
    fn drop(&mut self) {
        ENTRIES[self.entry].start.store(0, Release);
        // SAFETY: it was made by `watch`; nobody touches the range any more (invariant 2), so no handler uses it.
        drop(unsafe { Box::from_raw(self.resolver) });
    }
}

/// A page of a watched mapping.
pub(crate) struct WatchedPage {
    page: u64,
    call: Call,
    resolver: *const (),
}

impl WatchedPage {
    /// Has its fault resolved.
    ///
    /// # Safety
    /// Its mapping is watched still.
    pub unsafe fn resolve(&self, access: Access) -> Resolved {
        // SAFETY: the entry was whole (invariant 1); the rest is the caller's promise.
        unsafe { (self.call)(self.resolver, self.page, access) }
    }
}

/// The pages of a range that lie in watched mappings.
pub(crate) fn pages_in(range: Range<usize>) -> impl Iterator<Item = WatchedPage> {
    ENTRIES[..USED.load(Acquire)].iter().flat_map(move |entry| {
        let (start, end) = (entry.start.load(Acquire), entry.end.load(Relaxed));
        let (from, to) = (range.start.max(start), range.end.min(end));
        let is_there = start > MAKING && from < to;
        let pages = (from & !(PAGE_LEN as usize - 1)..if is_there { to } else { 0 }).step_by(PAGE_LEN as usize);
        pages.map_while(find)
    })
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
    let Some(page) = find(address) else { return false };
    // SAFETY: the C library's place of errno on this thread, which is there from the thread's beginning.
    let errno = unsafe { *libc::__errno_location() };
    // SAFETY: the resolver lives while a thread touches its range (invariant 2).
    let resolved = unsafe { page.resolve(access(machine)) };
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
    resolved == Resolved::Again
}

/// True if an address lies in a watched mapping.
pub(crate) fn is_watched(address: usize) -> bool {
    find(address).is_some()
}

fn find(address: usize) -> Option<WatchedPage> {
    for entry in &ENTRIES[..USED.load(Acquire)] {
        // ORDERING: pairs with the store of the start in `watch`.
        let start = entry.start.load(Acquire);
        let (end, call, resolver) = (entry.end.load(Relaxed), entry.call.load(Relaxed), entry.resolver.load(Relaxed));
        // ORDERING: if any of these is a later mapping's, the start read next is not the old one.
        fence(Acquire);
        if start > MAKING && (start..end).contains(&address) && entry.start.load(Relaxed) == start {
            // SAFETY: `watch` put a function of this type there.
            let call = unsafe { std::mem::transmute::<*mut (), Call>(call) };
            return Some(WatchedPage { page: (address - start) as u64 / PAGE_LEN, call, resolver });
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
