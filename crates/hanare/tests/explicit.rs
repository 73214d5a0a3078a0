//! `Explicit` mappings over real nodes: what is stored through a pointer arrives, and nothing else does.

mod support;

use hanare::node::{Node, NodeOptions};
use hanare::{CreateOptions, Error, Explicit, MapOptions, Placement, Pool, Region, Rights};
use hanare_memory::uffd::Features;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};
use support::{TestPool, pattern};

const PAGE: usize = 4096;

/// What mappings may use here: with all of this kernel, and as if it were Linux 6.1. None, with the reason, where memory of other
/// nodes cannot be mapped.
fn kernels() -> Vec<MapOptions> {
    match MapOptions::new() {
        Ok(options) => vec![options, MapOptions { features: options.features & Features::LINUX_6_1, ..options }],
        Err(error) => {
            hanare_testkit::unable(error);
            Vec::new()
        }
    }
}

/// A plain load. The mapping lives.
fn load(mapping: &Explicit, at: usize) -> u8 {
    assert!(at < mapping.len());
    // SAFETY: within the mapping, of which no reference is made.
    unsafe { mapping.ptr().add(at).read_volatile() }
}

fn store(mapping: &Explicit, at: usize, byte: u8) {
    assert!(at < mapping.len());
    // SAFETY: as in `load`; it was opened for writing.
    unsafe { mapping.ptr().add(at).write_volatile(byte) }
}

fn contents(region: &Region) -> Vec<u8> {
    let mut bytes = vec![0; region.len() as usize];
    region.get(0, &mut bytes).unwrap();
    bytes
}

fn on(node: &Node) -> CreateOptions {
    CreateOptions { placement: Placement::Node(node.id()), ..CreateOptions::default() }
}

fn interleaved(chunk: u64) -> CreateOptions {
    CreateOptions { placement: Placement::Interleave(chunk), ..CreateOptions::default() }
}

/// Two nodes, and a client of each.
fn two() -> (TestPool, Pool, Pool) {
    let pool = TestPool::start(2, 64 << 20);
    let (one, two) = (pool.client(0), pool.client(1));
    (pool, one, two)
}

#[test]
// FEATURE: D2-F4 EU-F12
fn a_pointer_shows_what_is_at_home_wherever_it_lies() {
    for options in kernels() {
        let (pool, one, _) = two();
        let cases = [
            ("remote", 5 * PAGE + 17, on(&pool.nodes[1])),
            ("short", 3, on(&pool.nodes[1])),
            ("local", 3 * PAGE + 1, on(&pool.nodes[0])),
            ("fine", 40 * PAGE + 5, interleaved(4096)),
            ("coarse", 200 * PAGE + 5, interleaved(64 << 10)),
        ];
        for (name, len, how) in cases {
            let region = one.create(name, len as u64, &how).unwrap();
            let bytes = pattern(len, len as u64);
            region.put(0, &bytes).unwrap();
            let mapping = Explicit::with(&region, &options).unwrap();
            assert!((0..len).rev().step_by(61).all(|at| load(&mapping, at) == bytes[at]), "{name}, last to first");
            let mut read = vec![0; len];
            mapping.read(0, &mut read).unwrap();
            assert!(read == bytes, "{name}");
        }
    }
}

#[test]
fn a_region_whose_pages_lie_on_two_extents_is_mapped() {
    for options in kernels() {
        let (pool, one, _) = two();
        one.create("a", 10_001, &on(&pool.nodes[1])).unwrap();
        one.resize("a", 30_002).unwrap();
        let region = one.resize("a", 50_003).unwrap();
        let mut bytes = pattern(50_003, 1);
        region.put(0, &bytes).unwrap();
        let mapping = Explicit::with(&region, &options).unwrap();
        for at in (0..bytes.len()).step_by(7) {
            assert_eq!(load(&mapping, at), bytes[at], "byte {at}");
            bytes[at] ^= 0x5a;
            store(&mapping, at, bytes[at]);
        }
        mapping.flush(0, 50_003).unwrap();
        assert!(contents(&region) == bytes);
    }
}

/// Each piece of this host is a mapping of its own, of which a process has 65,530.
#[test]
fn a_region_of_more_pieces_than_a_process_has_mappings_is_fetched_from_its_own_host_too() {
    for options in kernels() {
        let pool = TestPool::start(2, 128 << 20);
        let one = pool.client(0);
        let pages = 2 * 8192 + 10;
        let region = one.create("a", (pages * PAGE) as u64, &interleaved(4096)).unwrap();
        let mapping = Explicit::with(&region, &options).unwrap();
        for page in [0, 1, 7000, 7001, pages - 2, pages - 1] {
            region.put((page * PAGE) as u64, &[5]).unwrap();
            assert_eq!(load(&mapping, page * PAGE), 5);
            store(&mapping, page * PAGE + 1, 6);
            mapping.flush((page * PAGE) as u64, 1).unwrap();
            let mut home = [0; 2];
            region.get((page * PAGE) as u64, &mut home).unwrap();
            assert_eq!(home, [5, 6]);
        }
        assert_eq!(mapping.counters().twins, 6);
    }
}

#[test]
// FEATURE: D2-F7
fn writers_of_different_bytes_of_one_page_both_survive() {
    for options in kernels() {
        let (pool, one, two) = two();
        let third = pool.client(0);
        let len = 4 * PAGE;
        // The home is the second client's host: there the bytes are mapped as they are.
        for (name, home) in [("a", 1), ("b", 0)] {
            let region = one.create(name, len as u64, &on(&pool.nodes[home])).unwrap();
            region.put(0, &pattern(len, 3)).unwrap();
            let mut wanted = pattern(len, 3);
            let regions = [region, two.open(name).unwrap(), third.open(name).unwrap()];
            let mappings: Vec<Explicit> = regions.iter().map(|region| Explicit::with(region, &options).unwrap()).collect();
            for round in 0..5 {
                for at in 0..len {
                    if (at * 7 + round) % 4 < 3 {
                        wanted[at] = wanted[at].wrapping_add(1);
                        store(&mappings[at % 3], at, wanted[at]);
                    }
                }
                mappings.iter().for_each(|mapping| mapping.flush(0, len as u64).unwrap());
                mappings.iter().for_each(|mapping| mapping.update(0, len as u64).unwrap());
                for (who, mapping) in mappings.iter().enumerate() {
                    let wrong = (0..len).find(|&at| load(mapping, at) != wanted[at]);
                    assert_eq!(wrong, None, "client {who} in round {round}");
                }
                assert!(contents(&regions[0]) == wanted);
            }
        }
    }
}

#[test]
// FEATURE: D2-F7
fn nothing_arrives_before_a_flush_and_nothing_is_seen_before_an_update() {
    for options in kernels() {
        let (pool, one, _) = two();
        let region = one.create("a", 2 * PAGE as u64, &on(&pool.nodes[1])).unwrap();
        let mapping = Explicit::with(&region, &options).unwrap();
        store(&mapping, 5, 1);
        assert_eq!(load(&mapping, PAGE), 0);
        region.put(6, &[2]).unwrap();
        region.put(PAGE as u64, &[3]).unwrap();
        assert_eq!(contents(&region)[5], 0);
        assert_eq!((load(&mapping, 6), load(&mapping, PAGE)), (0, 0));
        mapping.update(0, PAGE as u64).unwrap();
        assert_eq!((load(&mapping, 5), load(&mapping, 6), load(&mapping, PAGE)), (1, 2, 0), "the range, and no other page");
        assert_eq!(contents(&region)[5], 0, "an update sends nothing");
        // What the other wrote is not sent back with the next flush.
        region.put(6, &[4]).unwrap();
        store(&mapping, 7, 9);
        mapping.flush(0, 1).unwrap();
        assert_eq!(contents(&region)[4..8], [0, 1, 4, 9]);
        assert_eq!(mapping.counters().diff_bytes, 2);
        mapping.update(PAGE as u64, 1).unwrap();
        assert_eq!(load(&mapping, PAGE), 3);
    }
}

#[test]
fn a_store_after_a_flush_is_sent_by_the_next_one() {
    for options in kernels() {
        let (pool, one, _) = two();
        let region = one.create("a", PAGE as u64, &on(&pool.nodes[1])).unwrap();
        let mapping = Explicit::with(&region, &options).unwrap();
        for turn in 1..20 {
            store(&mapping, 100, turn);
            mapping.flush(0, PAGE as u64).unwrap();
            assert_eq!(contents(&region)[100], turn);
        }
        assert_eq!(mapping.counters().twins, 19);
        mapping.flush(0, PAGE as u64).unwrap();
        assert_eq!(mapping.counters().diff_bytes, 19, "a clean page sends nothing");
    }
}

#[test]
// FEATURE: D2-F4
fn more_pages_than_frames_are_evicted_and_come_back() {
    for options in kernels() {
        let (pool, one, _) = two();
        let pages = 700;
        for (name, how) in [("a", on(&pool.nodes[1])), ("b", interleaved(8192))] {
            let region = one.create(name, (pages * PAGE) as u64, &how).unwrap();
            let mapping = Explicit::with(&region, &MapOptions { frames_len: 0, lanes: 1, ..options }).unwrap();
            for round in 1..4 {
                for page in 0..pages {
                    store(&mapping, page * PAGE + page, page as u8 ^ round);
                }
                for page in (0..pages).rev() {
                    assert_eq!(load(&mapping, page * PAGE + page), page as u8 ^ round, "page {page} in round {round}");
                }
            }
            assert!(mapping.counters().evictions > 300);
            mapping.flush(0, region.len()).unwrap();
            let bytes = contents(&region);
            assert!((0..pages).all(|page| bytes[page * PAGE + page] == page as u8 ^ 3));
            assert!(bytes.iter().filter(|byte| **byte != 0).count() <= pages, "and nothing else");
        }
    }
}

#[test]
fn reading_page_after_page_fetches_ahead() {
    for options in kernels() {
        let (pool, one, _) = two();
        let pages = 1024;
        let region = one.create("a", (pages * PAGE) as u64, &on(&pool.nodes[1])).unwrap();
        let mapping = Explicit::with(&region, &options).unwrap();
        assert!((0..pages).all(|page| load(&mapping, page * PAGE) == 0));
        let counts = mapping.counters();
        assert_eq!(counts.fetches, pages as u64);
        // 1, 2, 4 ... 32, and then 64 at a time; without it, a fault for each page.
        assert!(counts.faults <= 7 + 1024 / 64, "{counts:?}");
        assert_eq!(counts.prefetched, counts.fetches - counts.faults);
        // Here and there: nothing is fetched that was not asked for.
        let mapping = Explicit::with(&region, &options).unwrap();
        assert!((0..100).all(|turn| load(&mapping, turn * 389 % 1024 * PAGE) == 0));
        assert!(mapping.counters().prefetched < 10, "{:?}", mapping.counters());
    }
}

#[test]
// FEATURE: EU-F17
fn threads_that_store_evict_flush_and_update_at_a_time_lose_nothing() {
    const THREADS: usize = 6;
    for options in kernels() {
        let (_pool, one, _) = two();
        let pages = 160;
        let region = one.create("a", (pages * PAGE) as u64, &interleaved(16 << 10)).unwrap();
        for frames_len in [0, 1 << 30] {
            let mapping = Explicit::with(&region, &MapOptions { frames_len, lanes: 2, ..options }).unwrap();
            let is_over = AtomicBool::new(false);
            std::thread::scope(|scope| {
                let writers: Vec<_> = (0..THREADS)
                    .map(|thread| {
                        let mapping = &mapping;
                        scope.spawn(move || {
                            let mut state = thread as u64 + 1;
                            // This thread's byte of each page and what it holds.
                            let mut own: Vec<u8> = (0..pages).map(|page| load(mapping, page * PAGE + thread * 500)).collect();
                            for _ in 0..3000 {
                                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                                let page = (state >> 33) as usize % pages;
                                let at = page * PAGE + thread * 500;
                                assert_eq!(load(mapping, at), own[page], "thread {thread}, page {page}");
                                own[page] = (state >> 20) as u8;
                                store(mapping, at, own[page]);
                            }
                            own
                        })
                    })
                    .collect();
                let keeper = scope.spawn(|| {
                    let mut turn = 0;
                    while !is_over.load(SeqCst) {
                        mapping.flush(0, region.len()).unwrap();
                        if turn % 2 == 0 {
                            mapping.update(0, region.len()).unwrap();
                        }
                        turn += 1;
                    }
                });
                let owns: Vec<_> = writers.into_iter().map(|writer| writer.join()).collect();
                is_over.store(true, SeqCst);
                let owns: Vec<Vec<u8>> = owns.into_iter().map(Result::unwrap).collect();
                keeper.join().unwrap();
                mapping.flush(0, region.len()).unwrap();
                let bytes = contents(&region);
                for (thread, own) in owns.iter().enumerate() {
                    let wrong = (0..pages).find(|page| bytes[page * PAGE + thread * 500] != own[*page]);
                    assert_eq!(wrong, None, "of thread {thread}");
                }
            });
        }
    }
}

#[test]
fn counting_up_while_another_flushes_shows_whole_numbers_that_never_go_back() {
    for options in kernels() {
        let (pool, one, two) = two();
        let region = one.create("a", 2 * PAGE as u64, &on(&pool.nodes[1])).unwrap();
        let mapping = Explicit::with(&region, &options).unwrap();
        let at_home = Explicit::with(&two.open("a").unwrap(), &options).unwrap();
        let last = 200_000u64;
        let (is_over, seen) = (AtomicBool::new(false), AtomicU64::new(0));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for number in 1..=last {
                    // SAFETY: aligned, within the mapping, of which no reference is made.
                    unsafe { mapping.ptr().add(PAGE).cast::<u64>().write_volatile(number << 32 | number) };
                }
                is_over.store(true, SeqCst);
            });
            while !is_over.load(SeqCst) {
                mapping.flush(0, region.len()).unwrap();
                // SAFETY: as above.
                let number = unsafe { at_home.ptr().add(PAGE).cast::<u64>().read_volatile() };
                assert_eq!(number >> 32, number & 0xffff_ffff, "a store was sent half");
                assert!(number >> 32 >= seen.swap(number >> 32, SeqCst));
            }
        });
        mapping.flush(0, region.len()).unwrap();
        assert_eq!(contents(&region)[PAGE..PAGE + 4], (last as u32).to_le_bytes());
    }
}

#[test]
fn a_home_that_is_lost_is_an_error_by_name_and_the_rest_goes_on() {
    for options in kernels() {
        let (mut pool, one, _) = two();
        let lost = pool.nodes[1].id();
        let region = one.create("a", 64 * PAGE as u64, &interleaved(16 << 10)).unwrap();
        let mapping = Explicit::with(&region, &options).unwrap();
        let chunk_of = |node| region.layout().extents().position(|extent| extent.node == node).unwrap() * (16 << 10);
        let (here, there) = (chunk_of(pool.nodes[0].id()), chunk_of(lost));
        store(&mapping, here, 7);
        store(&mapping, there, 8);
        drop(pool.nodes.pop());
        let error = mapping.read((there + 2 * PAGE) as u64, &mut [0; 1]).unwrap_err();
        assert!(matches!(error, Error::NodeLost { node, .. } if node == lost), "{error}");
        for _ in 0..2 {
            let error = mapping.flush(0, region.len()).unwrap_err();
            assert!(matches!(error, Error::NodeLost { node, .. } if node == lost), "{error}");
            let error = mapping.update(0, region.len()).unwrap_err();
            assert!(matches!(error, Error::NodeLost { node, .. } if node == lost), "{error}");
        }
        assert_eq!((load(&mapping, here), load(&mapping, there)), (7, 8), "what is here stays readable");
        store(&mapping, there, 9);
        assert_eq!(load(&mapping, there), 9);
        mapping.flush(here as u64, PAGE as u64).unwrap();
    }
}

/// Stands before a node that others reach through it.
struct Relay {
    streams: Mutex<Vec<TcpStream>>,
    /// Whether the node's answers are kept back, and how many parts of them are.
    held: Mutex<(bool, usize)>,
    changed: Condvar,
}

impl Relay {
    /// A node behind a relay, in the pool of `join`.
    fn before_a_node(join: &str) -> (Node, Arc<Relay>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = hanare_testkit::free_address();
        let advertise = Some(listener.local_addr().unwrap().to_string());
        let (join, listen) = (Some(join.to_owned()), port.to_string());
        let node = Node::start(NodeOptions { join, advertise, listen, ..support::options(64 << 20) }).unwrap();
        let relay = Arc::new(Relay { streams: Mutex::default(), held: Mutex::default(), changed: Condvar::new() });
        let of_all = relay.clone();
        std::thread::spawn(move || {
            for near in listener.incoming().map_while(Result::ok) {
                let far = TcpStream::connect(port).unwrap();
                for (from, into, is_answer) in [(&near, &far, false), (&far, &near, true)] {
                    let (from, into) = (from.try_clone().unwrap(), into.try_clone().unwrap());
                    let relay = of_all.clone();
                    std::thread::spawn(move || relay.pass(from, into, is_answer));
                }
                of_all.streams.lock().unwrap().push(near);
            }
        });
        (node, relay)
    }

    fn pass(&self, mut from: TcpStream, mut into: TcpStream, is_answer: bool) {
        let mut bytes = vec![0; 64 << 10];
        while let Some(len) = from.read(&mut bytes).ok().filter(|len| *len > 0) {
            if is_answer {
                let mut held = self.held.lock().unwrap();
                held.1 += 1;
                self.changed.notify_all();
                held = self.changed.wait_while(held, |held| held.0).unwrap();
                held.1 -= 1;
            }
            if into.write_all(&bytes[..len]).is_err() {
                break;
            }
        }
        let _ = into.shutdown(Shutdown::Both);
    }

    /// Ends all connections that there are.
    fn cut(&self) {
        self.streams.lock().unwrap().drain(..).for_each(|stream| stream.shutdown(Shutdown::Both).unwrap_or(()));
    }

    /// Keeps answers back from here on, or lets them go.
    fn hold(&self, is_held: bool) {
        self.held.lock().unwrap().0 = is_held;
        self.changed.notify_all();
    }

    /// Waits until an answer is kept back.
    fn wait_for_answer(&self) {
        drop(self.changed.wait_while(self.held.lock().unwrap(), |held| held.1 == 0).unwrap());
    }
}

#[test]
fn a_connection_that_broke_is_made_anew_by_the_next_flush_or_update() {
    for options in kernels() {
        let first = Node::start(support::options(64 << 20)).unwrap();
        let (second, relay) = Relay::before_a_node(first.address());
        let one = Pool::attach_to(first.socket(), None).unwrap();
        let region = one.create("a", 8 * PAGE as u64, &on(&second)).unwrap();
        let near = Pool::attach_to(second.socket(), None).unwrap().open("a").unwrap();
        let mapping = Explicit::with(&region, &MapOptions { lanes: 3, ..options }).unwrap();
        for turn in 1..4 {
            store(&mapping, 5, turn);
            relay.cut();
            mapping.flush(0, 1).unwrap();
            assert_eq!(contents(&near)[5], turn);
            near.put(PAGE as u64, &[turn]).unwrap();
            mapping.update(0, region.len()).unwrap();
            assert_eq!(load(&mapping, PAGE), turn);
            // An access that can report is made again over a new connection too.
            relay.cut();
            mapping.update(0, region.len()).unwrap();
            mapping.read(7 * PAGE as u64, &mut [0; 1]).unwrap();
        }
    }
}

#[test]
fn commands_take_and_give_bytes_of_mapped_memory() {
    for options in kernels() {
        let (pool, one, _) = two();
        let len = 20 * PAGE;
        let regions = ["a", "b"].map(|name| one.create(name, len as u64, &on(&pool.nodes[1])).unwrap());
        let bytes = pattern(len, 9);
        regions[0].put(0, &bytes).unwrap();
        let mapping = Explicit::with(&regions[0], &options).unwrap();
        // SAFETY: nobody else reaches the mapping as long as the slice is used.
        let mapped = unsafe { std::slice::from_raw_parts_mut(mapping.ptr(), len) };
        regions[1].put(5, &mapped[100..len - 100]).unwrap();
        assert!(contents(&regions[1])[5..len - 195] == bytes[100..len - 100]);
        regions[1].get(5, &mut mapped[7..len - 193]).unwrap();
        mapping.flush(0, len as u64).unwrap();
        assert!(contents(&regions[0])[7..len - 193] == bytes[100..len - 100]);
    }
}

#[test]
fn ranges_and_rights_are_checked() {
    for options in kernels() {
        let (pool, one, _) = two();
        let region = one.create("a", 100, &on(&pool.nodes[1])).unwrap();
        let mapping = Explicit::with(&region, &options).unwrap();
        for (offset, len) in [(0, 101), (100, 1), (u64::MAX, 2)] {
            assert!(matches!(mapping.flush(offset, len), Err(Error::OutOfRange { limit: 100, .. })));
            assert!(matches!(mapping.update(offset, len), Err(Error::OutOfRange { .. })));
        }
        assert!(mapping.read(90, &mut [0; 11]).is_err());
        mapping.flush(100, 0).unwrap();
        mapping.touch(0, 100, Rights::Write).unwrap();
        let faults = mapping.counters().faults;
        store(&mapping, 99, 1);
        assert_eq!((mapping.counters().faults, mapping.counters().twins), (faults, 1), "it was mapped for writing");
        let reader = one.open_for("a", Rights::Read).unwrap();
        let mapping = Explicit::with(&reader, &options).unwrap();
        assert_eq!(load(&mapping, 99), 0);
        assert!(matches!(mapping.write(0, &[1]), Err(Error::BadUse { .. })));
        assert!(matches!(mapping.touch(0, 1, Rights::Write), Err(Error::BadUse { .. })));
    }
}

thread_local! {
    static ALLOCATIONS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// Counts what each thread allocates.
struct Counting;

// SAFETY: the system's allocator does all the work.
unsafe impl std::alloc::GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: std::alloc::Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: passed on.
        unsafe { std::alloc::System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: std::alloc::Layout) {
        // SAFETY: passed on.
        unsafe { std::alloc::System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// Runs `work` on a thread whose signal handlers run on a stack of their own, and says how many bytes of it were used.
fn signal_stack_used(work: impl FnOnce() + Send) -> usize {
    const LEN: usize = 64 << 10;
    const UNUSED: u8 = 0xa5;
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| {
            let stack = vec![UNUSED; LEN];
            let on_this = libc::stack_t { ss_sp: stack.as_ptr().cast_mut().cast(), ss_flags: 0, ss_size: LEN };
            let off = libc::stack_t { ss_sp: std::ptr::null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 };
            // SAFETY: the stack outlives its use; plain calls.
            unsafe { assert_eq!(libc::sigaltstack(&on_this, std::ptr::null_mut()), 0) };
            work();
            // SAFETY: as above.
            unsafe { assert_eq!(libc::sigaltstack(&off, std::ptr::null_mut()), 0) };
            let stack = std::hint::black_box(stack);
            LEN - stack.iter().take_while(|byte| **byte == UNUSED).count()
        });
        thread.join().unwrap()
    })
}

/// Rust's threads have 8 KiB for signal handlers, of which the kernel takes up to 3.6 KiB for the registers.
#[test]
fn a_fault_allocates_nothing_and_keeps_to_a_small_stack() {
    let is_sealed = std::env::var("HANARE_SEAL").is_ok_and(|sealing| sealing == "always");
    for options in kernels() {
        let (pool, one, _) = two();
        let pages = 400;
        let region = one.create("a", (pages * PAGE) as u64, &on(&pool.nodes[1])).unwrap();
        let mapping = Explicit::with(&region, &MapOptions { frames_len: 0, lanes: 1, ..options }).unwrap();
        let bare = signal_stack_used(|| {
            // SAFETY: a signal whose handler does nothing.
            unsafe {
                extern "C" fn nothing(_: libc::c_int) {}
                let mut action: libc::sigaction = std::mem::zeroed();
                action.sa_sigaction = nothing as *const () as usize;
                action.sa_flags = libc::SA_ONSTACK;
                libc::sigaction(libc::SIGUSR2, &action, std::ptr::null_mut());
                libc::raise(libc::SIGUSR2);
            }
        });
        let used = signal_stack_used(|| {
            let before = ALLOCATIONS.get();
            for round in 0..3 {
                for page in 0..pages {
                    store(&mapping, page * PAGE + 9, (page as u8).wrapping_add(round));
                    // Single bytes here and there: the longest way through a diff.
                    (0..20).for_each(|k| store(&mapping, page * PAGE + 77 + k * k * 7, 1 + round));
                }
            }
            assert_eq!(ALLOCATIONS.get() - before, 0);
        });
        assert!(mapping.counters().evictions > 600 && mapping.counters().diff_bytes > 600 * 20);
        eprintln!("{bare} bytes of the signal stack for a handler that does nothing, {used} for a fault");
        // A cipher's own frames come on top; what remains of 8 KiB beside the kernel's 3.6 KiB is the most there is.
        let most = if is_sealed { 4400 } else { 7 << 9 };
        assert!(used - bare < most, "{used} bytes, {bare} of them the kernel's");
    }
}

#[test]
fn faults_over_sealed_connections() {
    support::once_more_sealed(
        module_path!(),
        &[
            "a_pointer_shows_what_is_at_home_wherever_it_lies",
            "more_pages_than_frames_are_evicted_and_come_back",
            "a_connection_that_broke_is_made_anew_by_the_next_flush_or_update",
            "a_fault_allocates_nothing_and_keeps_to_a_small_stack",
        ],
    );
}

#[test]
fn pages_that_all_fit_stay_where_they_are() {
    for options in kernels() {
        let (mut pool, one, _) = two();
        let pages = 64;
        let options = MapOptions { frames_len: 0, ..options };
        // Half of these are mapped as they are, and need no frames.
        let mixed = one.create("b", (2 * pages * PAGE) as u64, &interleaved(64 << 10)).unwrap();
        let mapping = Explicit::with(&mixed, &options).unwrap();
        (0..mapping.len()).for_each(|at| store(&mapping, at, 1));
        assert_eq!((mapping.counters().fetches, mapping.counters().evictions), (pages as u64, 0));
        let region = one.create("a", (pages * PAGE) as u64, &on(&pool.nodes[1])).unwrap();
        let mapping = Explicit::with(&region, &options).unwrap();
        (0..pages * PAGE).for_each(|at| store(&mapping, at, 1));
        mapping.flush(0, region.len()).unwrap();
        assert_eq!(mapping.counters().evictions, 0);
        drop(pool.nodes.pop());
        (0..pages * PAGE).for_each(|at| store(&mapping, at, 2));
        assert!(mapping.flush(0, region.len()).is_err() && mapping.update(0, region.len()).is_err());
        assert!((0..pages * PAGE).all(|at| load(&mapping, at) == 2));
    }
}

/// A page that is being fetched while the update begins may be getting bytes of before.
#[test]
fn an_update_does_not_pass_over_a_page_that_is_on_its_way() {
    for options in kernels() {
        let first = Node::start(support::options(64 << 20)).unwrap();
        let (second, relay) = Relay::before_a_node(first.address());
        let region = Pool::attach_to(first.socket(), None).unwrap().create("a", PAGE as u64, &on(&second)).unwrap();
        let near = Pool::attach_to(second.socket(), None).unwrap().open("a").unwrap();
        let mapping = Explicit::with(&region, &options).unwrap();
        relay.hold(true);
        std::thread::scope(|scope| {
            // It may see either: the update may take the page before the load that brought it is run again.
            let reader = scope.spawn(|| load(&mapping, 9));
            relay.wait_for_answer();
            near.put(9, &[1]).unwrap();
            let update = scope.spawn(|| mapping.update(0, 1).unwrap());
            // One that does not wait is over by then.
            (0..10_000).take_while(|_| !update.is_finished()).for_each(|_| std::thread::yield_now());
            relay.hold(false);
            update.join().unwrap();
            reader.join().unwrap();
            assert_eq!(load(&mapping, 9), 1);
        });
    }
}
