//! Safety invariants of this module:
//!
//! 1. Every scenario is a process of its own: it may die, and its handlers are its own.
//! 2. A watched mapping is reached by volatile loads and stores and by guarded copies, and outlives them.

use super::*;
use crate::frames::{Frames, Run};
use crate::guard::{Lost, Side};
use crate::uffd::peer::{self, DONE};
use crate::uffd::{Features, Refused, Uffd};
use hanare_protocol::id::Rights;
use hanare_protocol::limits::PAGE_LEN;
use hanare_protocol::wire::control::FilePart;
use std::ffi::c_void;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU64, AtomicUsize, Ordering::SeqCst};

const PAGES: u64 = 16;

/// The first page that nobody can supply.
const LOST: u64 = 15;

/// Fetches pages from a home that is a file, as if it were far. Its words are the page words of crate `ring` in small.
struct Fetcher {
    home: Frames,
    frames: Frames,
    uffd: Uffd,
    span: Span,
    /// For each page its state, and in steps of [`INSTALLER`] the threads that map it at this moment.
    words: [AtomicU64; PAGES as usize],
    /// A page of bytes for the thread that fetches each page: a handler's stack may have 8 KiB, and a signal takes half of them.
    buffers: Vec<Mutex<[u8; PAGE_LEN as usize]>>,
    faults: AtomicU64,
}

const ABSENT: u64 = 0;
const FETCHING: u64 = 1;
const HERE: u64 = 2;
const TAKING: u64 = 3;
const INSTALLER: u64 = 4;

impl Fetcher {
    /// Changes a word from one state to another, keeping the count.
    fn change(&self, page: u64, from: u64, to: u64) -> bool {
        let changed = |word: u64| (word % INSTALLER == from).then(|| word - from + to);
        self.words[page as usize].fetch_update(SeqCst, SeqCst, changed).is_ok()
    }

    fn fetch(&self, page: u64) -> Result<(), Refused> {
        let mut bytes = self.buffers[page as usize].lock().expect("nobody panics with it");
        self.home.read(Run::one(page), &mut bytes[..])?;
        self.frames.fill(Run::one(page), &bytes[..])
    }

    /// As a node does: the page goes home, if it is here.
    fn take(&self, page: u64) -> bool {
        if !self.change(page, HERE, TAKING) {
            return false;
        }
        while self.words[page as usize].load(SeqCst) >= INSTALLER {
            std::thread::yield_now();
        }
        self.uffd.protect(self.span.pages(page, 1)).unwrap();
        self.home.fill(Run::one(page), &self.frames.read_page(page).unwrap()[..]).unwrap();
        self.frames.punch(Run::one(page)).unwrap();
        self.change(page, TAKING, ABSENT)
    }
}

// SAFETY: system calls that keep to the stack, and atomics.
unsafe impl Resolve for Fetcher {
    fn resolve(&self, page: u64, access: Access) -> Resolved {
        self.faults.fetch_add(1, SeqCst);
        if INTERRUPTS.swap(0, SeqCst) != 0 {
            // SAFETY: a signal to this thread, as if it came from outside.
            unsafe { libc::raise(libc::SIGUSR1) };
        }
        // SAFETY: a call that fails, and sets errno as a resolver's calls may.
        unsafe { libc::close(-1) };
        if page >= LOST {
            return Resolved::Lost;
        }
        loop {
            let word = &self.words[page as usize];
            let seen = word.load(SeqCst);
            if seen % INSTALLER == HERE {
                if word.compare_exchange(seen, seen + INSTALLER, SeqCst, SeqCst).is_ok() {
                    let installed = self.uffd.install(self.span.pages(page, 1), access);
                    word.fetch_sub(INSTALLER, SeqCst);
                    return if installed.is_ok() { Resolved::Again } else { Resolved::Lost };
                }
            } else if seen % INSTALLER == ABSENT && self.change(page, ABSENT, FETCHING) {
                let is_fetched = self.fetch(page).is_ok();
                self.change(page, FETCHING, if is_fetched { HERE } else { ABSENT });
                if !is_fetched {
                    return Resolved::Lost;
                }
            } else {
                std::thread::yield_now();
            }
        }
    }
}

struct Region {
    watch: Watch<Fetcher>,
    mapping: Mapping,
}

impl Region {
    fn new(features: Features) -> Region {
        let (home, frames) = (Frames::new("home", PAGES).unwrap(), Frames::new("frames", PAGES).unwrap());
        for page in 0..PAGES {
            home.fill(Run::one(page), &[100 + page as u8; PAGE_LEN as usize]).unwrap();
        }
        let len = PAGES * PAGE_LEN;
        let mut mapping = Mapping::reserve(len).unwrap();
        mapping.map_file(0, frames.as_fd(), FilePart { offset: 0, len, map_len: len }, Rights::Write).unwrap();
        let (uffd, span) = (Uffd::open(features).unwrap(), Span::of(&mapping));
        // SAFETY: nobody holds a reference (invariant 2).
        unsafe { uffd.register(span) }.unwrap();
        let words = std::array::from_fn(|_| AtomicU64::new(ABSENT));
        let buffers = (0..PAGES).map(|_| Mutex::new([0; PAGE_LEN as usize])).collect();
        let fetcher = Fetcher { home, frames, uffd, span, words, buffers, faults: AtomicU64::new(0) };
        // SAFETY: invariant 2.
        Region { watch: unsafe { watch(span, fetcher) }.unwrap(), mapping }
    }

    fn at(&self, page: u64) -> *mut u8 {
        self.mapping.ptr().wrapping_add((page * PAGE_LEN) as usize)
    }

    fn load(&self, page: u64) -> u8 {
        // SAFETY: invariant 2.
        unsafe { self.at(page).read_volatile() }
    }

    fn store(&self, page: u64, byte: u8) {
        // SAFETY: invariant 2.
        unsafe { self.at(page).write_volatile(byte) };
    }

    fn faults(&self) -> u64 {
        self.watch.faults.load(SeqCst)
    }
}

fn mask(how: libc::c_int) {
    // SAFETY: plain calls on a set that lives on this stack.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        libc::sigaddset(&mut set, libc::SIGBUS);
        libc::pthread_sigmask(how, &set, std::ptr::null_mut());
    }
}

fn errno() -> &'static mut i32 {
    // SAFETY: this thread's own; used at once.
    unsafe { &mut *libc::__errno_location() }
}

type Scenario = fn(&Region);

/// Each runs in a process of its own, twice: with this kernel's features, and as if it were Linux 6.1.
const SCENARIOS: &[(&str, Scenario)] = &[
    ("pages come when they are touched", |region| {
        for page in 0..LOST {
            *errno() = 77;
            assert_eq!(region.load(page), 100 + page as u8);
            region.store(page, page as u8);
            assert_eq!(*errno(), 77, "errno is kept");
            assert_eq!(region.watch.frames.read_page(page).unwrap()[0], page as u8, "stored in the frame");
        }
        let faults = region.faults();
        assert_eq!(faults, 2 * LOST, "one to read, one to write");
        region.store(3, 1);
        assert_eq!((region.load(3), region.faults()), (1, faults), "no fault after that");
        assert!(region.watch.take(3));
        assert_eq!((region.load(3), region.faults()), (1, faults + 1), "it came back as it went");
    }),
    ("a fresh thread faults", |region| {
        std::thread::scope(|scope| {
            scope.spawn(|| assert_eq!(region.load(2), 102));
        });
        assert_eq!(region.faults(), 1);
    }),
    ("many threads fault at once", |region| {
        std::thread::scope(|scope| {
            for thread in 0..4usize {
                scope.spawn(move || {
                    for page in 0..LOST {
                        assert_eq!(region.load(page), 100 + page as u8);
                        // SAFETY: invariant 2.
                        unsafe { region.at(page).add(64 + thread).write_volatile(thread as u8 + 1) };
                    }
                });
            }
        });
        for page in 0..LOST {
            assert_eq!(region.watch.frames.read_page(page).unwrap()[64..68], [1, 2, 3, 4], "no store is lost");
        }
    }),
    ("no store is lost while pages come and go", |region| {
        const THREADS: u64 = 3;
        const USED: u64 = 3;
        /// Times that each page goes home: the threads store until then.
        const TAKEN: u64 = 50;
        (0..USED).for_each(|page| region.watch.home.fill(Run::one(page), &[0; PAGE_LEN as usize]).unwrap());
        let (is_over, stored) = (AtomicBool::new(false), AtomicU64::new(0));
        let place = |page, thread: u64| region.at(page).cast::<u64>().wrapping_add(thread as usize);
        std::thread::scope(|scope| {
            for thread in 0..THREADS {
                let (is_over, stored) = (&is_over, &stored);
                scope.spawn(move || {
                    for page in (0..USED).cycle().take_while(|_| !is_over.load(SeqCst)) {
                        // SAFETY: invariant 2; the word is this thread's own.
                        unsafe { place(page, thread).write_volatile(place(page, thread).read_volatile() + 1) };
                        stored.fetch_add(1, SeqCst);
                    }
                });
            }
            let mut taken = 0;
            while taken < USED * TAKEN {
                taken += (0..USED).filter(|&page| region.watch.take(page)).count() as u64;
                std::thread::yield_now();
            }
            is_over.store(true, SeqCst);
        });
        // SAFETY: invariant 2.
        let words = (0..USED).flat_map(|page| (0..THREADS).map(move |thread| unsafe { place(page, thread).read_volatile() }));
        assert_eq!(words.sum::<u64>(), stored.load(SeqCst));
    }),
    #[cfg(target_env = "gnu")]
    ("malloc and free fault", |region| {
        // A page with an allocation of 24 bytes, as the C library writes one. In front of it are 0 and its size with a flag.
        let mut page = [0; PAGE_LEN as usize];
        page[8] = 0x21;
        region.watch.home.fill(Run::one(0), &page).unwrap();
        let place = region.at(0).wrapping_add(16).cast::<c_void>();
        // SAFETY: to the C library the place is an allocation; it is given out once and never given back.
        unsafe { libc::free(place) };
        let faults = region.faults();
        assert!(faults >= 2, "free read the size and noted the place: {faults}");
        assert!(region.watch.take(0));
        // SAFETY: a plain allocation.
        let again = unsafe { libc::malloc(24) };
        assert_eq!(again, place);
        assert!(region.faults() > faults, "malloc read where it had noted the next");
    }),
    ("a guarded copy faults", |region| {
        // SAFETY: the mapping outlives the window.
        let window = unsafe { region.mapping.window() };
        let mut bytes = vec![0; (LOST * PAGE_LEN) as usize];
        window.slice(0, bytes.len()).read_into(&mut bytes).unwrap();
        assert!(bytes.chunks(PAGE_LEN as usize).zip(100..).all(|(page, byte)| page.iter().all(|b| *b == byte)));
        window.slice(0, bytes.len()).write_from(&bytes).unwrap();
        let lost = window.slice((LOST * PAGE_LEN) as usize, 8).read_into(&mut [0; 8]);
        assert_eq!(lost, Err(Lost { side: Side::Source, offset: 0 }), "what cannot be supplied costs the copy, not the process");
    }),
    ("a system call finds what was brought", |region| {
        let len = 3 * PAGE_LEN as usize - 20;
        // SAFETY: the mapping outlives the window.
        let window = unsafe { region.mapping.window() }.slice(PAGE_LEN as usize + 10, len);
        let file = Frames::new("target", 4).unwrap();
        // SAFETY: the calls are given mapped memory, and answer what they cannot reach with an error.
        let write = || unsafe { libc::pwrite(file.as_fd().as_raw_fd(), window.ptr().cast(), len, 0) };
        // SAFETY: as above.
        let read = || unsafe { libc::pread(file.as_fd().as_raw_fd(), window.ptr().cast(), len, 0) };
        assert_eq!((write(), *errno()), (-1, libc::EFAULT));
        bring(window, Access::Read);
        assert_eq!(write(), len as isize);
        assert_eq!(region.faults(), 3, "those that the window touches");
        assert!(read() < len as isize, "protected from writing");
        bring(window, Access::Write);
        assert_eq!((read(), region.load(2)), (len as isize, 102));
    }),
    ("an admitted thread that blocked SIGBUS faults", |region| {
        mask(libc::SIG_BLOCK);
        admit_thread();
        assert_eq!(region.load(0), 100);
    }),
    ("a signal's handler that touches the page runs when it is here", |region| {
        // Two of the kernel's frames are on it, of 3.4 KiB each on processors with AVX-512. Threads of Rust have 8 KiB.
        let stack = vec![0u8; 64 << 10].leak();
        let stack = libc::stack_t { ss_sp: stack.as_mut_ptr().cast(), ss_flags: 0, ss_size: stack.len() };
        // SAFETY: the memory is never given back.
        assert_eq!(unsafe { libc::sigaltstack(&stack, std::ptr::null_mut()) }, 0);
        TOUCHED.store(region.at(5), SeqCst);
        handle(libc::SIGUSR1, touch);
        INTERRUPTS.store(1, SeqCst);
        assert_eq!(region.load(5), 105);
        assert_eq!(PASSED.load(SeqCst), 105 + 106, "it saw that page, and the next, which it brought itself");
    }),
    ("a program's handler installed before has its own faults", |region| {
        own_faults(region);
    }),
    ("a handler installed afterwards passes on", |region| {
        handle(libc::SIGBUS, pass_to_previous);
        assert_eq!((region.load(1), PASSED.load(SeqCst)), (101, 1));
    }),
    ("a child has no mapping", |region| {
        withhold_from_children(&region.mapping).unwrap();
        assert_eq!(region.load(0), 100);
        assert_eq!(in_child(|| region.load(0)).signal(), Some(libc::SIGSEGV));
        assert_eq!(in_child(|| region.load(1)).signal(), Some(libc::SIGSEGV));
        assert_eq!(region.load(1), 101, "the parent goes on");
    }),
    ("a child that was not kept out sees zeros", |region| {
        // Why mappings are withheld: the child's copy is not registered, and its touch plants a page for all.
        assert_eq!(in_child(|| region.load(1)).code(), Some(0));
        assert_eq!(region.watch.frames.present_count().unwrap(), 1);
    }),
    ("a mapping that is no longer watched is nobody's", |region| {
        let other = Region::new(region.watch.uffd.features());
        assert_eq!(other.load(0), 100);
        let (start, again) = (other.watch.span, Region::new(region.watch.uffd.features()));
        drop(other);
        assert!(!watched::is_watched(start.start as usize));
        assert_eq!((again.load(1), region.load(1)), (101, 101), "the others are");
        let third = Region::new(region.watch.uffd.features());
        assert_eq!((third.load(2), third.faults(), region.faults()), (102, 1, 1), "an entry is used again");
    }),
];

/// Those end with a signal.
const DEATHS: &[(&str, i32, Scenario)] = &[
    ("a wild pointer", libc::SIGSEGV, |region| {
        let end = region.mapping.ptr().wrapping_add(region.mapping.len() + (1 << 40));
        // SAFETY: none: it is what the process dies of.
        unsafe { end.read_volatile() };
    }),
    ("a thread that blocks SIGBUS", libc::SIGBUS, |region| {
        mask(libc::SIG_BLOCK);
        region.load(0);
    }),
    ("a page that nobody can supply", libc::SIGBUS, |region| {
        region.load(LOST);
    }),
    ("a page that a copy has lost", libc::SIGBUS, |region| {
        let lost = |read: Result<(), Lost>| assert!(read.is_err_and(|lost| lost.offset == LOST * PAGE_LEN));
        // SAFETY: the window does not outlive the region.
        let window = unsafe { region.mapping.window() };
        let mut bytes = vec![0; (PAGES * PAGE_LEN) as usize];
        (0..1000).for_each(|_| lost(window.read_into(&mut bytes)));
        assert_eq!(region.faults(), PAGES, "it is asked for once, and copies go on to tell");
        lost(window.write_from(&bytes));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| (0..1000).for_each(|_| lost(window.read_into(&mut vec![0; bytes.len()]))));
            }
        });
        assert_eq!((region.load(0), region.load(LOST - 1)), (100, 100 + LOST as u8 - 1), "what is here stays");
        // Zeros, if it went on.
        region.load(LOST);
    }),
];

/// Runs `body` in a child made by fork, and ends it with the byte that was seen.
fn in_child(body: impl FnOnce() -> u8) -> ExitStatus {
    let mut status = 0;
    // SAFETY: the child touches memory and ends; it makes no call that another thread's lock could stop.
    unsafe {
        match libc::fork() {
            0 => libc::_exit(i32::from(body())),
            child => assert_eq!(libc::waitpid(child, &mut status, 0), child),
        }
    }
    ExitStatus::from_raw(status)
}

type Handler = extern "C" fn(i32, *mut libc::siginfo_t, *mut c_void);

static PASSED: AtomicU64 = AtomicU64::new(0);
static PREVIOUS: AtomicUsize = AtomicUsize::new(0);

fn handle(signal: i32, handler: Handler) {
    // SAFETY: valid structures, and handlers that call only what is async-signal-safe.
    unsafe {
        let (mut action, mut previous): (libc::sigaction, libc::sigaction) = (std::mem::zeroed(), std::mem::zeroed());
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
        assert_eq!(libc::sigaction(signal, &action, &mut previous), 0);
        PREVIOUS.store(previous.sa_sigaction, SeqCst);
    }
}

/// Whether the next fault meets a signal.
static INTERRUPTS: AtomicU64 = AtomicU64::new(0);
static TOUCHED: AtomicPtr<u8> = AtomicPtr::new(std::ptr::null_mut());

/// Adds up what is at a place, and a page behind it.
extern "C" fn touch(_: i32, _: *mut libc::siginfo_t, _: *mut c_void) {
    let place = TOUCHED.load(SeqCst);
    // SAFETY: within a watched mapping.
    let sum = unsafe { u64::from(place.read_volatile()) + u64::from(place.add(PAGE_LEN as usize).read_volatile()) };
    PASSED.fetch_add(sum, SeqCst);
}

extern "C" fn pass_to_previous(signal: i32, about: *mut libc::siginfo_t, machine: *mut c_void) {
    PASSED.fetch_add(1, SeqCst);
    // SAFETY: the handler before this one takes three arguments, as ours does.
    let previous = unsafe { std::mem::transmute::<usize, Handler>(PREVIOUS.load(SeqCst)) };
    previous(signal, about, machine);
}

/// What a program does about a file of its own that became shorter: it puts memory there.
extern "C" fn mend(_: i32, about: *mut libc::siginfo_t, _: *mut c_void) {
    PASSED.fetch_add(1, SeqCst);
    // SAFETY: the page is the program's own, and mapped; the set lives on this stack.
    unsafe {
        let mut mask = std::mem::zeroed();
        libc::pthread_sigmask(libc::SIG_SETMASK, std::ptr::null(), &mut mask);
        let blocked = |signal| libc::sigismember(&mask, signal);
        assert_eq!((blocked(libc::SIGBUS), blocked(libc::SIGUSR1)), (1, 0), "the mask is as without us");
        let page = (*about).si_addr().map_addr(|address| address & !(PAGE_LEN as usize - 1));
        let flags = libc::MAP_PRIVATE | libc::MAP_FIXED | libc::MAP_ANONYMOUS;
        libc::mmap(page, PAGE_LEN as usize, libc::PROT_READ | libc::PROT_WRITE, flags, -1, 0);
    }
}

fn own_faults(region: &Region) {
    use rustix::fs::{MemfdFlags, ftruncate, memfd_create};
    use rustix::mm::{MapFlags, ProtFlags, mmap};
    let file = memfd_create("own", MemfdFlags::CLOEXEC).unwrap();
    ftruncate(&file, PAGE_LEN).unwrap();
    // SAFETY: the kernel chooses a free range, which stays mapped to the end of the process.
    let own = unsafe { mmap(std::ptr::null_mut(), PAGE_LEN as usize, ProtFlags::READ, MapFlags::SHARED, &file, 0) }.unwrap();
    ftruncate(&file, 0).unwrap();
    assert_eq!((region.load(1), PASSED.load(SeqCst)), (101, 0), "ours");
    // SAFETY: mapped; the program's handler mends it.
    assert_eq!((unsafe { own.cast::<u8>().read_volatile() }, PASSED.load(SeqCst)), (0, 1), "the program's");
    assert_eq!((region.load(2), region.faults(), PASSED.load(SeqCst)), (102, 2, 1));
}

/// Not a test of its own: one scenario, in a process that was started for it.
#[test]
fn a_scenario() {
    let Some(about) = peer::about() else { return };
    let (name, bits) = about.split_once('/').unwrap();
    let features = Features::from_bits_retain(bits.parse().unwrap());
    if name.contains("installed before") {
        handle(libc::SIGBUS, mend);
    }
    let region = Region::new(features);
    let all = SCENARIOS.iter().map(|(name, run)| (name, run)).chain(DEATHS.iter().map(|(name, _, run)| (name, run)));
    let (_, run) = { all }.find(|(one, _)| **one == name).expect("a scenario of that name");
    run(&region);
    // SAFETY: nothing is left to do; the number says that the scenario came to its end.
    unsafe { libc::_exit(DONE) };
}

fn run(name: &str, features: Features) -> ExitStatus {
    let (_socket, theirs) = UnixStream::pair().unwrap();
    peer::start("fault::tests::a_scenario", &format!("{name}/{}", features.bits()), theirs).wait().unwrap()
}

fn kernels() -> Vec<Features> {
    match Features::probe().and_then(|features| features.check().map(|()| features)) {
        Ok(features) => vec![features, features & Features::LINUX_6_1],
        Err(error) => {
            hanare_testkit::unable(error);
            Vec::new()
        }
    }
}

#[test]
// FEATURE: EU-F12 EU-F17
fn faults_are_resolved_wherever_the_thread_is() {
    for features in kernels() {
        for (name, _) in SCENARIOS {
            let status = run(name, features);
            assert_eq!(status.code(), Some(DONE), "{name}, {features:?}: {status}");
        }
    }
}

#[test]
fn what_cannot_be_resolved_is_what_it_was_without_us() {
    for features in kernels() {
        for (name, signal, _) in DEATHS {
            let status = run(name, features);
            assert_eq!(status.signal(), Some(*signal), "{name}, {features:?}: {status}");
        }
    }
}
