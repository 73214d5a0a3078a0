//! The thread that gives back, wipes, populates and makes slabs, in that order of importance.
//!
//! The worker works in short pieces and looks at the stock between them. So a wipe that a maker waits for comes soon.

use super::slab::{Slab, SlabFile};
use super::stock::{State, Stock, Surplus};
use crate::file::Pages;
use crate::mapping::Mapping;
use crate::promise::Promise;
use hanare_protocol::limits::PAGE_LEN;
use rustix::mm::{Advice, madvise};
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Arc, MutexGuard, Weak};

/// Bytes populated at a time, in small pages: some 25 us. Threads of this process that map, unmap or touch a new page wait for the end of a
/// piece. So does a thread that yields this processor.
const PIECE_LEN: u64 = 64 << 10;

/// Bytes between two yields: some 400 us where they are populated, and some 100 us where they are wiped.
/// Beside busy programs a yield costs a turn of theirs. Shorter distances would hold the lender up.
const YIELD_LEN: u64 = 16 * PIECE_LEN;

/// Bytes populated at a time in other pages.
const PIECE_LEN_HUGE: u64 = 4 << 20;

/// A file that is being populated. The worker has a mapping of its own, so as not to disturb others that have the file.
struct Job {
    file: Arc<SlabFile>,
    mapping: Mapping,
}

impl Job {
    fn new(file: Arc<SlabFile>) -> Option<Job> {
        let mapping = file.map().ok()?;
        Some(Job { file, mapping })
    }

    /// Populates the next piece; says whether there is more to do.
    ///
    /// The thread yields after each [`YIELD_LEN`]: the kernel ends a turn only at a tick of its clock, up to 4 ms later. Threads that wait
    /// for an answer yield, too, and would be back no sooner. Turns of this thread stay long, so that a yield costs it one.
    fn step(&mut self, pages: Pages) -> bool {
        let at = self.file.populated();
        let most = if pages == Pages::Small { PIECE_LEN } else { PIECE_LEN_HUGE };
        let len = most.min(self.file.len - at);
        let is_done = populate(&self.mapping, at as usize, len as usize);
        self.file.add_populated(if is_done { len } else { 0 });
        if self.file.populated().is_multiple_of(YIELD_LEN) {
            std::thread::yield_now();
        }
        is_done && !self.file.is_populated()
    }

    /// True if the worker alone still has the file.
    fn is_abandoned(&self) -> bool {
        Arc::strong_count(&self.file) == 1
    }
}

/// Has the kernel supply the pages of a part of a mapping, filled page tables and all.
fn populate(mapping: &Mapping, at: usize, len: usize) -> bool {
    let start = mapping.ptr().wrapping_add(at);
    // SAFETY: the part lies inside the mapping; populating changes no byte.
    match unsafe { madvise(start.cast(), len, Advice::LinuxPopulateWrite) } {
        Ok(()) => true,
        // Before Linux 5.14: touch every page, without changing what a client may have written there.
        Err(rustix::io::Errno::INVAL) => {
            for page in (0..len).step_by(PAGE_LEN as usize) {
                // SAFETY: as above; atomics may meet writes of others.
                unsafe { AtomicU8::from_ptr(start.add(page)) }.fetch_or(0, Ordering::Relaxed);
            }
            true
        }
        Err(_) => false,
    }
}

/// Works until the stock is stopped.
pub fn run(stock: &Stock, promise: Option<&Promise>) {
    let (mut urgent, mut growing) = (None, None);
    let mut state = stock.lock();
    while !state.is_stopped {
        if let Some(promise) = promise {
            // Memory that is not on offer is not taken soon either.
            let withheld = stock.bytes - state.offer;
            promise.on_taken(stock.populated().saturating_add(withheld));
        }
        state = if let Some(surplus) = stock.take_surplus(&mut state) {
            give_back(stock, state, surplus)
        } else if let Some(slab) = state.dirty.pop() {
            wipe(stock, state, slab)
        } else if let Some(job) = urgent.take().or_else(|| next_urgent(&mut state)) {
            let (state, more) = step_urgent(stock, state, job);
            urgent = more;
            state
        } else if let Some(job) = growing.take() {
            let (state, more) = step_growing(stock, state, job);
            growing = more;
            state
        } else if stock.has_room_to_grow(&state) {
            growing = begin_growing(stock, &mut state);
            state
        } else {
            stock.wait(state)
        };
    }
}

/// The host runs short of memory: a slab's goes back to it.
fn give_back<'a>(stock: &'a Stock, state: MutexGuard<'a, State>, surplus: Surplus) -> MutexGuard<'a, State> {
    drop(state);
    match surplus {
        Surplus::Whole(slab) => slab.give_back(PIECE_LEN_HUGE, |len| {
            stock.count_given_back(len);
            std::thread::yield_now();
        }),
        // The job that populates it finds it abandoned.
        Surplus::Growing(file) => stock.count_given_back(file.populated()),
    }
    stock.notify();
    stock.lock()
}

fn wipe<'a>(stock: &'a Stock, mut state: MutexGuard<'a, State>, slab: Slab) -> MutexGuard<'a, State> {
    state.wiping += 1;
    drop(state);
    let wiped = slab.wipe(YIELD_LEN as usize, std::thread::yield_now).then_some(slab);
    let mut state = stock.lock();
    state.wiping -= 1;
    state.ready.extend(wiped);
    stock.notify();
    state
}

fn next_urgent(state: &mut State) -> Option<Job> {
    std::iter::from_fn(|| state.urgent.pop_front())
        .filter_map(|file: Weak<SlabFile>| file.upgrade())
        .filter(|file| !file.is_populated())
        .find_map(Job::new)
}

fn step_urgent<'a>(stock: &'a Stock, state: MutexGuard<'a, State>, mut job: Job) -> (MutexGuard<'a, State>, Option<Job>) {
    drop(state);
    let more = !job.is_abandoned() && job.step(stock.pages());
    let job = more.then_some(job);
    (stock.lock(), job)
}

fn begin_growing(stock: &Stock, state: &mut State) -> Option<Job> {
    let job = stock.make_slab_file().ok().and_then(Job::new);
    match &job {
        Some(job) => state.growing = Some(Arc::clone(&job.file)),
        None => state.may_grow = false,
    }
    job
}

fn step_growing<'a>(stock: &'a Stock, state: MutexGuard<'a, State>, mut job: Job) -> (MutexGuard<'a, State>, Option<Job>) {
    drop(state);
    let more = !job.is_abandoned() && job.step(stock.pages());
    if job.file.is_populated() && stock.pages() == Pages::Transparent && !is_joined(&job.mapping) {
        stock.set_pages(Pages::Small);
    }
    let mut state = stock.lock();
    if more {
        return (state, Some(job));
    }
    if state.growing.as_ref().is_some_and(|file| Arc::ptr_eq(file, &job.file)) {
        state.growing = None;
        if job.file.is_populated() {
            state.ready.push(Slab { file: job.file, mapping: job.mapping });
        } else {
            state.may_grow = false;
        }
        stock.notify();
    }
    (state, None)
}

/// True if the kernel did join pages of a populated mapping, by its own account.
fn is_joined(mapping: &Mapping) -> bool {
    let start = format!("{:x}-", mapping.ptr().addr());
    let maps = std::fs::read_to_string("/proc/self/smaps").unwrap_or_default();
    let ours = maps.lines().skip_while(|line| !line.starts_with(&start)).skip(1);
    let counted = ours.take_while(|line| !line.starts_with("VmFlags")).find_map(|line| line.strip_prefix("ShmemPmdMapped:"));
    counted.is_some_and(|kib| kib.trim() != "0 kB")
}
