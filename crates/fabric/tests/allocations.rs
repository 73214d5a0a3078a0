//! The small path allocates nothing, on either side, once a link has warmed up.

use hanare_fabric::agree::{self, Choice};
use hanare_fabric::shm::ShmLink;
use hanare_fabric::tcp::{Greeted, Keys, Listener, connect};
use hanare_fabric::ucx;
use hanare_fabric::{Link, Refusal, Sink};
use hanare_memory::Window;
use hanare_protocol::wire::greeting::{Role, Sealing};
use hanare_protocol::wire::head::{Head, Kind};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::thread;
use std::time::{Duration, Instant};

struct Counting;

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: everything is left to the system's allocator; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(ptr, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

struct Place {
    window: Window,
    count: u64,
}

// SAFETY: the window's buffer outlives the links.
unsafe impl Sink for Place {
    fn place(&mut self, _: &Head, at: u64) -> Result<Window, Refusal> {
        Ok(self.window.slice(at as usize, self.window.len() - at as usize))
    }
    fn message(&mut self, _: &Head) {
        self.count += 1;
    }
}

fn keys(sealing: Sealing) -> Keys {
    Keys::of(&[1; 32], sealing)
}

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(20)
}

/// One message from one link to the other.
fn pass(from: &mut dyn Link, to: &mut dyn Link, window: Window, sink: &mut Place) {
    let head = Head { body_len: window.len() as u64, ..Head::new(Kind::Done, 0) };
    let before = sink.count;
    // SAFETY: the buffer outlives the links' use of it.
    unsafe { from.send(&head, &[window]) }.unwrap();
    let end = soon();
    while sink.count == before {
        to.progress(sink).unwrap();
        assert!(Instant::now() < end);
    }
    assert_eq!(from.unsent_len(), 0);
}

fn allocations_in_rounds(one: &mut dyn Link, other: &mut dyn Link, len: usize) -> u64 {
    let mut bytes = vec![1; len];
    let mut places = [vec![0; len], vec![0; len]];
    let [here, there] = &mut places;
    // SAFETY: the buffers outlive the links' use of them.
    let (window, here, there) = unsafe { (Window::of_mut(&mut bytes), Window::of_mut(here), Window::of_mut(there)) };
    let (mut here, mut there) = (Place { window: here, count: 0 }, Place { window: there, count: 0 });
    let mut rounds = |count| {
        for _ in 0..count {
            pass(one, other, window, &mut there);
            pass(other, one, window, &mut here);
        }
    };
    rounds(3);
    let before = COUNT.with(Cell::get);
    rounds(200);
    COUNT.with(Cell::get) - before
}

/// Two sides that have greeted each other.
fn greeted(sealing: Sealing) -> (Greeted, Greeted) {
    let keys = keys(sealing);
    let of_node = keys.clone();
    let listener = Listener::bind("127.0.0.1:0").unwrap();
    let address = listener.address().to_string();
    let greeter = thread::spawn(move || {
        loop {
            if let Some(incoming) = listener.accept().unwrap() {
                return incoming.greet(&of_node, &|_| Ok(()), soon()).unwrap();
            }
            thread::yield_now();
        }
    });
    let one = connect(&address, keys.caller(Role::Data, 0), &|hellos| Ok(keys.secret(hellos).unwrap()), soon()).unwrap();
    (one, greeter.join().unwrap())
}

#[test]
fn tcp_allocates_nothing() {
    for sealing in [Sealing::Auto, Sealing::Always] {
        let (one, other) = greeted(sealing);
        let (mut one, mut other) = (one.link, other.link);
        for len in [0, 8, 4096, 20_000] {
            assert_eq!(allocations_in_rounds(&mut one, &mut other, len), 0, "{len} bytes, {sealing:?}");
        }
    }
}

#[test]
fn shm_allocates_nothing() {
    let (mut one, parts) = ShmLink::create("the opener").unwrap();
    let mut other = ShmLink::open(parts, "the maker").unwrap();
    for len in [0, 8, 4096] {
        assert_eq!(allocations_in_rounds(&mut one, &mut other, len), 0, "{len} bytes");
    }
}

/// Nothing of ours: what UCX itself allocates goes past this program's allocator.
#[test]
fn ucx_allocates_nothing() {
    if let Err(reason) = ucx::available() {
        hanare_testkit::unable(reason);
        return;
    }
    for sealing in [Sealing::Auto, Sealing::Plain, Sealing::Always] {
        let (one, other) = greeted(sealing);
        let acceptor = thread::spawn(move || agree::agree(other, Choice::Named("ucx"), soon()).unwrap().link);
        let mut one = agree::agree(one, Choice::Named("ucx"), soon()).unwrap().link;
        let mut other = acceptor.join().unwrap();
        for len in [0, 8, 4096] {
            assert_eq!(allocations_in_rounds(&mut one, &mut other, len), 0, "{len} bytes, {sealing:?}");
        }
    }
}

#[test]
fn the_counter_counts() {
    let before = COUNT.with(Cell::get);
    drop(std::hint::black_box(Box::new(1)));
    assert_eq!(COUNT.with(Cell::get), before + 1);
}
