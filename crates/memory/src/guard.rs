//! Copies that survive SIGBUS. The kernel cannot supply a page of a truncated file, of broken memory, or where it has no memory. The copy
//! then ends with an error: the process lives, and the page never passes for zeros.
//!
//! A thread registers the two ranges it copies between. When SIGBUS hits one of them, the process-wide handler notes the page in the table
//! of lost pages. The handler puts a page of zeros there, and the copy goes on. Every guarded access ends with a look at the table. So this
//! copy and all later ones over that page, on any thread, return [`Lost`]. Faults of mappings that [`crate::fault`] knows are resolved
//! before. If such a fault cannot be resolved, programs have pointers to the page. The zeros go with the copy, and a later touch of the
//! page gets SIGBUS. A SIGBUS anywhere else goes to the handler before ours.
//!
//! Safety invariants of this module:
//!
//! 1. The handler calls only what is async-signal-safe: atomics, `mmap`, `sigaction`, resolvers of faults (which promise it), and the
//!    handler before it.
//! 2. The handler replaces a page only inside a range that the same thread is copying between at that moment.
//! 3. A page is in the table before zeros can be read from it.
//! 4. Pages of watched mappings are replaced only while they are in the table: nobody has references to them.
//! 5. Ranges given to the kernels here lie inside windows, so what windows promise holds for them.

mod lost_pages;

pub use lost_pages::forget;
pub(crate) use lost_pages::is_any_lost;

use crate::watched::{self, is_watched};
use crate::window::Window;
use lost_pages::{first_lost, lost_runs, note_lost};
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous};
use std::cell::Cell;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicPtr, AtomicUsize, compiler_fence};
use std::sync::{Once, OnceLock};
use thiserror::Error;

/// The lost side of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The one that is read.
    Source,
    /// The one that is written.
    Target,
}

/// The kernel could not supply a page of a copy: its bytes are gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("memory at offset {offset} of the {side:?} is lost")]
pub struct Lost {
    /// The lost side.
    pub side: Side,
    /// First lost byte, counted from the start of that side's window.
    pub offset: u64,
}

/// Copies between two windows of the same length; they may overlap.
///
/// **Cost**: one copy and about 2 ns. **Errors**: [`Lost`]; some bytes may have been copied.
#[inline]
pub fn copy(from: Window, to: Window) -> Result<(), Lost> {
    assert_eq!(from.len(), to.len(), "a copy has two sides of one length");
    // SAFETY: both ranges lie inside windows of this length (invariant 5).
    guarded(from.range(), to.range(), || unsafe { move_bytes(from.ptr(), to.ptr(), from.len()) });
    if is_any_lost() { check(from, to) } else { Ok(()) }
}

/// Longest run that is copied without the processor's string instruction, whatever the C library prefers.
const RUN_LEN: usize = 2048;

/// # Safety
/// Both ranges may be accessed; they may overlap.
#[inline]
pub(crate) unsafe fn move_bytes(from: *const u8, to: *mut u8, len: usize) {
    // On Zen 3 the string instruction takes 25 times as long for a target 1 to 63 bytes above the source, counted within a page.
    // A page-aligned region and a buffer from malloc lie so. Short runs do not use the instruction.
    let is_slow = len > RUN_LEN && (1..64).contains(&(to.addr().wrapping_sub(from.addr()) % 4096));
    if is_slow && from.addr().abs_diff(to.addr()) >= len {
        for at in (0..len).step_by(RUN_LEN) {
            // SAFETY: the run lies inside both ranges.
            unsafe { std::ptr::copy(from.add(at), to.add(at), RUN_LEN.min(len - at)) };
        }
    } else {
        // SAFETY: passed on.
        unsafe { std::ptr::copy(from, to, len) };
    }
}

/// Sets all bytes of a window.
pub fn fill(to: Window, byte: u8) -> Result<(), Lost> {
    // SAFETY: the range lies inside a window (invariant 5).
    guarded(0..0, to.range(), || unsafe { std::ptr::write_bytes(to.ptr(), byte, to.len()) });
    if is_any_lost() { check(Window::empty(), to) } else { Ok(()) }
}

impl Window {
    /// Copies its bytes into a buffer of the same length.
    ///
    /// **Cost**: one copy and about 2 ns. **Errors**: [`Lost`] when the kernel could not supply a page; the buffer's
    /// bytes are then of no use.
    #[inline]
    pub fn read_into(&self, into: &mut [u8]) -> Result<(), Lost> {
        // SAFETY: the buffer is borrowed for the length of this call, and the window of it does not leave it.
        copy(*self, unsafe { Window::of_mut(into) })
    }

    /// Copies a buffer of the same length into it.
    ///
    /// **Cost** and **Errors**: as [`Window::read_into`].
    #[inline]
    pub fn write_from(&self, from: &[u8]) -> Result<(), Lost> {
        // SAFETY: as in `read_into`; the source is only read.
        copy(unsafe { Window::of(from) }, *self)
    }

    /// Sets all its bytes to zero.
    pub fn wipe(&self) -> Result<(), Lost> {
        fill(*self, 0)
    }
}

#[cold]
fn check(from: Window, to: Window) -> Result<(), Lost> {
    check_side(Side::Source, from, 0)?;
    check_side(Side::Target, to, 0)
}

/// **Errors**: [`Lost`] where a byte of `window`, which begins at `base` of its side, was lost.
#[cold]
pub(crate) fn check_side(side: Side, window: Window, base: u64) -> Result<(), Lost> {
    match first_lost(window.range()) {
        Some(offset) => {
            withdraw(window.range());
            Err(Lost { side, offset: base + offset as u64 })
        }
        None => Ok(()),
    }
}

/// Makes the lost pages of a range raise SIGBUS, if they are of watched mappings. Nobody who has a pointer finds zeros there.
#[cold]
fn withdraw(range: Range<usize>) {
    let Some(nothing) = nothing() else { return };
    for run in lost_runs() {
        let (start, end) = (run.start, run.end);
        let (from, to) = (start.max(range.start & !(PAGE_LENS[0] - 1)), end.min(range.end.next_multiple_of(PAGE_LENS[0])));
        for page in (from..to).step_by(PAGE_LENS[0]).filter(|page| is_watched(*page)) {
            let (protection, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::FIXED);
            // SAFETY: a page of a watched mapping that is in the table (invariant 4).
            let _ = unsafe { mmap(std::ptr::without_provenance_mut(page), PAGE_LENS[0], protection, flags, nothing, 0) };
        }
    }
}

/// A file of no bytes: there is no page that the kernel could supply for a mapping of it.
fn nothing() -> Option<&'static OwnedFd> {
    static NOTHING: OnceLock<Option<OwnedFd>> = OnceLock::new();
    NOTHING.get_or_init(|| memfd_create("hanare-lost", MemfdFlags::CLOEXEC).ok()).as_ref()
}

/// Runs `body`, in which another library may touch both windows, and says afterwards whether any page of them is lost.
///
/// **Cost**: as a copy of no bytes. **Errors**: [`Lost`], for pages that were lost before too; what `body` did is not undone.
///
/// # Safety
/// On this thread `body` touches only the two windows and memory that the kernel can always supply. It does not panic, and makes no guarded
/// copy.
#[inline]
pub unsafe fn watch(from: Window, to: Window, body: impl FnOnce()) -> Result<(), Lost> {
    guarded(from.range(), to.range(), body);
    if is_any_lost() { check(from, to) } else { Ok(()) }
}

struct Registered {
    /// Start and end of the source, then of the target; equal where there is none.
    bounds: [AtomicUsize; 4],
    is_ready: Cell<bool>,
}

thread_local! {
    static REGISTERED: Registered = const { Registered { bounds: [const { AtomicUsize::new(0) }; 4], is_ready: Cell::new(false) } };
}

/// Runs `body`, which may touch only the two ranges and this thread's own memory, and does not panic.
#[inline]
pub(crate) fn guarded(source: Range<usize>, target: Range<usize>, body: impl FnOnce()) {
    REGISTERED.with(|registered| {
        if !registered.is_ready.get() {
            prepare_thread(registered);
        }
        let [source_start, source_end, target_start, target_end] = &registered.bounds;
        source_start.store(source.start, Relaxed);
        source_end.store(source.end, Relaxed);
        target_start.store(target.start, Relaxed);
        target_end.store(target.end, Relaxed);
        // ORDERING: the handler runs on this very thread, so keeping the compiler in order is enough.
        compiler_fence(SeqCst);
        body();
        compiler_fence(SeqCst);
        source_end.store(0, Relaxed);
        target_end.store(0, Relaxed);
    });
}

/// Installs the handler once, and lets SIGBUS through on this thread: a blocked one kills the process.
#[cold]
fn prepare_thread(registered: &Registered) {
    install();
    unblock();
    registered.is_ready.set(true);
}

/// Lets SIGBUS through on this thread.
pub(crate) fn unblock() {
    // SAFETY: plain calls on a set that lives on this stack.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, libc::SIGBUS);
        libc::pthread_sigmask(libc::SIG_UNBLOCK, &set, std::ptr::null_mut());
    }
}

/// The handler of SIGBUS before ours; leaked once, so that ours can read it at any time.
static PREVIOUS: AtomicPtr<libc::sigaction> = AtomicPtr::new(std::ptr::null_mut());

/// Installs the SIGBUS handler of this process, in front of the one before. Later calls do nothing.
///
/// Guarded copies do this by themselves. A program that installs its own handler afterwards must pass on what is
/// not its own.
pub fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: both structures are valid; the handler keeps to invariant 1.
        unsafe {
            let previous = Box::leak(Box::new(std::mem::zeroed::<libc::sigaction>()));
            libc::sigaction(libc::SIGBUS, std::ptr::null(), previous);
            PREVIOUS.store(previous, SeqCst);
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_sigbus as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            // A page is held while its fault is resolved. Another signal's handler that touched it on this thread would wait for itself.
            libc::sigfillset(&mut action.sa_mask);
            libc::sigaction(libc::SIGBUS, &action, std::ptr::null_mut());
        }
    });
}

extern "C" fn on_sigbus(signal: libc::c_int, about: *mut libc::siginfo_t, machine: *mut libc::c_void) {
    // SAFETY: the kernel hands over a valid siginfo.
    let address = unsafe { (*about).si_addr() }.addr();
    let was_lost = is_any_lost() && first_lost(address..address + 1).is_some();
    // First, and before any thread-local of ours: in a library that was loaded late the first use of one allocates. A page that cannot be
    // resolved is lost to a guarded copy like any other. One that was lost before is not asked for again.
    // SAFETY: both pointers are the kernel's.
    if !was_lost && unsafe { watched::resolve(about, machine) } {
        return;
    }
    if !(is_guarded(address) && replace_page(address, was_lost)) {
        pass_on(signal, about, machine);
    }
}

/// True if this thread is at a guarded copy of a range with that address.
fn is_guarded(address: usize) -> bool {
    REGISTERED.with(|registered| {
        let [source_start, source_end, target_start, target_end] = &registered.bounds;
        (source_start.load(Relaxed)..source_end.load(Relaxed)).contains(&address)
            || (target_start.load(Relaxed)..target_end.load(Relaxed)).contains(&address)
    })
}

/// Page sizes that a mapping may have, smallest first: only a whole huge page can be replaced.
const PAGE_LENS: [usize; 2] = [4096, 2 << 20];

fn replace_page(address: usize, is_noted: bool) -> bool {
    for len in PAGE_LENS {
        let page = address & !(len - 1);
        if !is_noted && !note_lost(page..page + len) {
            return false;
        }
        // SAFETY: the page lies inside a range that this thread copies between (invariant 2); it is in the table
        // (invariant 3).
        let replaced = unsafe {
            mmap_anonymous(
                std::ptr::without_provenance_mut(page),
                len,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE | MapFlags::FIXED,
            )
        };
        match replaced {
            Ok(_) => return true,
            // Part of a huge page: the kernel replaces only whole ones.
            Err(Errno::INVAL) => {}
            // Memory around a small page is not ours to replace.
            Err(_) => return false,
        }
    }
    false
}

fn pass_on(signal: libc::c_int, about: *mut libc::siginfo_t, machine: *mut libc::c_void) {
    // SAFETY: `PREVIOUS` was set before this handler was installed and is never freed; a handler found there has the
    // type that its flags say; `machine` is the kernel's structure, whose mask is that of the interrupted thread.
    unsafe {
        // The earlier handler is called with the mask that it would have had without us.
        let mut mask = (*machine.cast::<libc::ucontext_t>()).uc_sigmask;
        libc::sigaddset(&mut mask, signal);
        libc::pthread_sigmask(libc::SIG_SETMASK, &mask, std::ptr::null_mut());
        let previous = &*PREVIOUS.load(SeqCst);
        match previous.sa_sigaction {
            // Default or ignored: a fault that returns would come again for ever, so the default is what remains.
            libc::SIG_DFL | libc::SIG_IGN => {
                let mut default: libc::sigaction = std::mem::zeroed();
                default.sa_sigaction = libc::SIG_DFL;
                libc::sigaction(signal, &default, std::ptr::null_mut());
            }
            address if previous.sa_flags & libc::SA_SIGINFO != 0 => {
                let handler: extern "C" fn(libc::c_int, *mut libc::siginfo_t, *mut libc::c_void) = std::mem::transmute(address);
                handler(signal, about, machine);
            }
            address => {
                let handler: extern "C" fn(libc::c_int) = std::mem::transmute(address);
                handler(signal);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::ftruncate;
    use rustix::mm::munmap;

    struct Mapped {
        file: OwnedFd,
        window: Window,
    }

    impl Mapped {
        fn new(len: usize) -> Mapped {
            let file = memfd_create("guard", MemfdFlags::CLOEXEC).unwrap();
            ftruncate(&file, len as u64).unwrap();
            let both = ProtFlags::READ | ProtFlags::WRITE;
            // SAFETY: the kernel chooses a free range; it is unmapped in `drop`, after the last use of the window.
            let window = unsafe {
                let ptr = mmap(std::ptr::null_mut(), len, both, MapFlags::SHARED, &file, 0).unwrap();
                Window::new(ptr.cast(), len)
            };
            Mapped { file, window }
        }
    }

    impl Drop for Mapped {
        fn drop(&mut self) {
            forget(self.window.range());
            // SAFETY: mapped in `new` with this length.
            unsafe { munmap(self.window.ptr().cast(), self.window.len()).unwrap() };
        }
    }

    #[test]
    fn a_truncated_file_costs_an_error_not_the_process() {
        let mapped = Mapped::new(64 << 10);
        let mut bytes = vec![7; 64 << 10];
        mapped.window.write_from(&bytes).unwrap();
        ftruncate(&mapped.file, 8192).unwrap();
        let lost = mapped.window.read_into(&mut bytes).unwrap_err();
        assert_eq!(lost, Lost { side: Side::Source, offset: 8192 });
        assert_eq!(mapped.window.slice(0, 8192).read_into(&mut bytes[..8192]), Ok(()));
        assert_eq!(mapped.window.write_from(&bytes), Err(Lost { side: Side::Target, offset: 8192 }));
        assert_eq!(mapped.window.slice(100, 60_000).wipe(), Err(Lost { side: Side::Target, offset: 8092 }));
    }

    #[test]
    fn a_lost_page_never_shows_as_zeros_to_anyone_later() {
        let mapped = Mapped::new(16 << 10);
        ftruncate(&mapped.file, 0).unwrap();
        let window = mapped.window;
        assert!(window.slice(4096, 8).read_into(&mut [0; 8]).is_err());
        let later = std::thread::spawn(move || window.slice(4097, 1).read_into(&mut [0])).join().unwrap();
        assert_eq!(later, Err(Lost { side: Side::Source, offset: 0 }));
    }

    #[test]
    fn addresses_mapped_anew_are_not_lost() {
        let mapped = Mapped::new(8192);
        ftruncate(&mapped.file, 0).unwrap();
        assert!(mapped.window.read_into(&mut [0; 8192]).is_err());
        let range = mapped.window.range();
        forget(range.start + 4096..range.end);
        assert_eq!(first_lost(range.clone()), Some(0));
        assert_eq!(first_lost(range.start + 4096..range.end), None);
    }

    #[test]
    fn every_alignment_copies_the_same_bytes() {
        let pattern: Vec<u8> = (0..3 * 4096u32).map(|k| (k % 251) as u8).collect();
        for shift in [0, 1, 16, 63, 64, 4095] {
            for len in [2047, 2048, 2049, 5000, 8192] {
                let (mut source, mut target) = (pattern.clone(), vec![0xee; 4 * 4096]);
                // SAFETY: the buffers outlive the windows and are not used meanwhile.
                let (from, to) = unsafe { (Window::of_mut(&mut source), Window::of_mut(&mut target)) };
                let at = (from.ptr().addr().wrapping_sub(to.ptr().addr()) + shift) % 4096;
                copy(from.slice(0, len), to.slice(at, len)).unwrap();
                assert_eq!(target[at..at + len], pattern[..len], "{shift} {len}");
                assert!(target[..at].iter().chain(&target[at + len..]).all(|byte| *byte == 0xee), "{shift} {len}");
            }
        }
    }

    #[test]
    fn overlapping_copies_move_as_if_through_a_buffer() {
        let mut bytes: Vec<u8> = (0..100).collect();
        // SAFETY: the buffer outlives the windows and is not used meanwhile.
        let window = unsafe { Window::of_mut(&mut bytes) };
        copy(window.slice(0, 50), window.slice(10, 50)).unwrap();
        assert_eq!(bytes[10..60], (0..50).collect::<Vec<u8>>()[..]);

        let pattern: Vec<u8> = (0..8192u32).map(|k| (k % 251) as u8).collect();
        let mut bytes = pattern.clone();
        // SAFETY: as above.
        let window = unsafe { Window::of_mut(&mut bytes) };
        copy(window.slice(0, 8000), window.slice(16, 8000)).unwrap();
        assert_eq!(bytes[16..8016], pattern[..8000], "long enough for runs, and overlapping");
    }
}
