//! Connections made anew for threads that cannot make one: who resolves a fault may neither allocate nor take a lock.
//!
//! ```text
//! thread in a fault: Idle --> Wanted, rings --> waits --> changes its endpoint for the new one, or gives up (Idle)
//! the mender:                 Wanted --> connects, greets, proves --> Ready, or Failed
//! ```
//!
//! One thread for each attachment, from its first mapping on; it sleeps until it is rung for. An order is one word, so that what a
//! faulting thread does to it is async-signal-safe: atomics, `write`, `poll`, `sched_yield` and `clock_gettime`.

use super::endpoint::Endpoint;
use crate::client::pool::Shared;
use crate::client::threads;
use hanare_protocol::id::NodeId;
use hanare_protocol::{Error, Result};
use hanare_ring::wait::{Backoff, Step};
use rustix::event::{EventfdFlags, Timespec, eventfd, poll};
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

/// Nobody wants a connection.
const IDLE: usize = 0;
/// A thread waits for one.
const WANTED: usize = 1;
/// It could not be made. All other numbers are addresses of boxed endpoints that are ready.
const FAILED: usize = 2;

/// How long a waiting thread sleeps before it looks again; connecting takes some round trips.
const NAP: Timespec = Timespec { tv_sec: 0, tv_nsec: 500_000 };

/// Bytes of the thread's stack: it connects and proves the pool's key, no more.
const STACK_LEN: usize = 256 << 10;

/// The orders of one mapping's lanes.
pub(crate) struct Orders {
    doors: Box<[(NodeId, Box<str>)]>,
    /// For each lane and each of its connections.
    words: Box<[AtomicUsize]>,
    /// For each of them the address of a boxed endpoint that is to be dropped: a thread in a fault may not free memory.
    spent: Box<[AtomicUsize]>,
    bell: Arc<OwnedFd>,
}

impl Orders {
    /// Has the connection to home number `home` of a lane made anew, waits for it at most so long, and puts it in the old one's place.
    /// Says whether there is one. Async-signal-safe.
    ///
    /// **Cost**: that of connecting, and two wakes.
    pub fn renew(&self, lane: usize, home: usize, endpoint: &mut Endpoint, bound: Duration) -> bool {
        let at = lane * self.doors.len() + home;
        let Some(word) = self.words.get(at) else { return false };
        if word.compare_exchange(IDLE, WANTED, AcqRel, Relaxed).is_err() {
            return false;
        }
        let (begun, mut backoff) = (Instant::now(), Backoff::new());
        let _ = rustix::io::write(&*self.bell, &1u64.to_ne_bytes());
        loop {
            // ORDERING: pairs with the mender's exchange: the endpoint is ready.
            match word.load(Acquire) {
                WANTED => {}
                FAILED => {
                    word.store(IDLE, Release);
                    return false;
                }
                ready => {
                    // SAFETY: a number that is none of the states is a box that the mender gave away, to this thread alone.
                    std::mem::swap(endpoint, unsafe { &mut *(ready as *mut Endpoint) });
                    // ORDERING: pairs with the mender's exchange: it drops what is there before it makes the next, so the place is empty.
                    self.spent[at].store(ready, Release);
                    word.store(IDLE, Release);
                    return true;
                }
            }
            if begun.elapsed() > bound && word.compare_exchange(WANTED, IDLE, AcqRel, Relaxed).is_ok() {
                return false;
            }
            if backoff.step() == Step::Park {
                let _ = poll(&mut [], Some(&NAP));
            }
        }
    }

    /// Makes what is wanted.
    fn carry_out(&self, shared: &Shared) {
        for (at, word) in self.words.iter().enumerate().filter(|(_, word)| word.load(Acquire) == WANTED) {
            // ORDERING: pairs with the store of the thread that left it.
            drop(unboxed(self.spent[at].swap(IDLE, AcqRel)));
            let (node, address) = &self.doors[at % self.doors.len()];
            let made = Endpoint::connect(shared, *node, address).map(Box::new);
            let made = made.inspect_err(|error| tracing::debug!("no connection for faults: {error}"));
            let ready = made.map_or(FAILED, |endpoint| Box::into_raw(endpoint) as usize);
            // ORDERING: pairs with the load of the thread that waits.
            if word.compare_exchange(WANTED, ready, AcqRel, Relaxed).is_err() {
                drop(unboxed(ready));
            }
        }
    }
}

/// The endpoint at an address that one of the words held, and nobody holds any more.
fn unboxed(word: usize) -> Option<Box<Endpoint>> {
    // SAFETY: a number that is none of the states is the address of a box; whoever takes it out of its word has it alone.
    (word > FAILED).then(|| unsafe { Box::from_raw(word as *mut Endpoint) })
}

impl Drop for Orders {
    fn drop(&mut self) {
        self.words.iter_mut().chain(&mut self.spent).for_each(|word| drop(unboxed(*word.get_mut())));
    }
}

/// What an attachment knows of its mender.
#[derive(Default)]
pub(crate) struct Mender(Mutex<Option<Arc<Desk>>>);

/// What the thread works on.
struct Desk {
    bell: Arc<OwnedFd>,
    orders: Mutex<Vec<Weak<Orders>>>,
    is_over: AtomicBool,
}

impl Shared {
    /// Room for the orders of so many lanes that have a connection to each of these doors. Not for a signal handler.
    ///
    /// **Errors**: [`Error::System`] where no thread can be started.
    pub fn orders(self: &Arc<Shared>, doors: &[(NodeId, &str)], lanes: usize) -> Result<Arc<Orders>> {
        let mut mender = self.mender.0.lock().unwrap_or_else(PoisonError::into_inner);
        let desk = match &*mender {
            Some(desk) => desk,
            None => mender.insert(start(Arc::downgrade(self))?),
        };
        let orders = Arc::new(Orders {
            doors: doors.iter().map(|(node, address)| (*node, Box::from(*address))).collect(),
            words: (0..lanes * doors.len()).map(|_| AtomicUsize::new(IDLE)).collect(),
            spent: (0..lanes * doors.len()).map(|_| AtomicUsize::new(IDLE)).collect(),
            bell: desk.bell.clone(),
        });
        let mut all = desk.orders.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|orders| orders.strong_count() > 0);
        all.push(Arc::downgrade(&orders));
        Ok(orders)
    }
}

/// Starts the thread. It is not waited for: it may be the one that drops the attachment.
fn start(shared: Weak<Shared>) -> Result<Arc<Desk>> {
    let bell = eventfd(0, EventfdFlags::CLOEXEC).map_err(|errno| system("make an event", &errno.into()))?;
    let desk = Arc::new(Desk { bell: Arc::new(bell), orders: Mutex::default(), is_over: AtomicBool::new(false) });
    let its = desk.clone();
    threads::start("hanare-mender", STACK_LEN, move || run(&its, &shared))?;
    Ok(desk)
}

fn run(desk: &Desk, shared: &Weak<Shared>) {
    loop {
        let _ = rustix::io::read(&*desk.bell, &mut [0; 8]);
        if desk.is_over.load(Acquire) {
            return;
        }
        let orders: Vec<Arc<Orders>> = {
            let all = desk.orders.lock().unwrap_or_else(PoisonError::into_inner);
            all.iter().filter_map(Weak::upgrade).collect()
        };
        let Some(shared) = shared.upgrade() else { return };
        orders.iter().for_each(|orders| orders.carry_out(&shared));
    }
}

impl Drop for Mender {
    fn drop(&mut self) {
        if let Some(desk) = self.0.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            desk.is_over.store(true, Release);
            let _ = rustix::io::write(&*desk.bell, &1u64.to_ne_bytes());
        }
    }
}

fn system(what: &str, error: &std::io::Error) -> Error {
    Error::System { what: what.to_owned(), reason: error.to_string() }
}
