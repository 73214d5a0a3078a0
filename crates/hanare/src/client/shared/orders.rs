//! Connections made anew for threads that cannot make one: who resolves a fault may neither allocate nor take a lock.
//!
//! ```text
//! thread in a fault: Idle --> Wanted, rings --> waits --> changes its endpoint for the new one, or gives up (Idle)
//! the reconnector:                 Wanted --> connects, greets, proves --> Ready, or Failed
//! ```
//!
//! The reconnector is the attachment's thread. An order is one word. So a faulting thread does only async-signal-safe things to it:
//! atomics, `write`, `poll`, `sched_yield` and `clock_gettime`.

use super::endpoint::Endpoint;
use crate::client::attachment::{Reconnect, Shared};
use hanare_protocol::Result;
use hanare_protocol::id::NodeId;
use hanare_ring::wait::{Backoff, Step};
use rustix::event::{Timespec, poll};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::time::{Duration, Instant};

/// No connection is wanted.
const IDLE: usize = 0;
/// A thread waits for one.
const WANTED: usize = 1;
/// The connection could not be made. All other numbers are addresses of boxed endpoints that are ready.
const FAILED: usize = 2;

/// Time that a waiting thread sleeps before it looks again; connecting takes some round trips.
const NAP: Timespec = Timespec { tv_sec: 0, tv_nsec: 500_000 };

/// The orders of one mapping's lanes.
pub(crate) struct Orders {
    addresses: Box<[(NodeId, Box<str>)]>,
    /// For each lane and each of its connections.
    words: Box<[AtomicUsize]>,
    /// For each of them the address of a boxed endpoint to be dropped: a thread in a fault may not free memory.
    spent: Box<[AtomicUsize]>,
    bell: Arc<OwnedFd>,
}

impl Orders {
    /// Room for the orders of so many lanes that have a connection to each of these addresses. Not for a signal handler.
    ///
    /// **Errors**: [`hanare_protocol::Error::System`] where no thread can be started.
    pub fn of_lanes(shared: &Arc<Shared>, addresses: &[(NodeId, &str)], lanes: usize) -> Result<Arc<Orders>> {
        let words = || (0..lanes * addresses.len()).map(|_| AtomicUsize::new(IDLE)).collect();
        let addresses = addresses.iter().map(|(node, address)| (*node, Box::from(*address))).collect();
        shared.reconnect_on_order(|bell| Orders { addresses, words: words(), spent: words(), bell })
    }

    /// Orders another connection to home number `home` of a lane, and waits for it at most so long. Puts it in the old one's place. Returns
    /// true if there is one. Async-signal-safe.
    ///
    /// **Cost**: that of connecting, and two wakes.
    pub fn renew(&self, lane: usize, home: usize, endpoint: &mut Endpoint, bound: Duration) -> bool {
        let at = lane * self.addresses.len() + home;
        let Some(word) = self.words.get(at) else { return false };
        if word.compare_exchange(IDLE, WANTED, AcqRel, Relaxed).is_err() {
            return false;
        }
        let (begun, mut backoff) = (Instant::now(), Backoff::new());
        let _ = rustix::io::write(&*self.bell, &1u64.to_ne_bytes());
        loop {
            // ORDERING: pairs with the reconnector's exchange: the endpoint is ready.
            match word.load(Acquire) {
                WANTED => {}
                FAILED => {
                    word.store(IDLE, Release);
                    return false;
                }
                ready => {
                    // SAFETY: a number that is none of the states is a box that the reconnector gave away, to this thread alone.
                    std::mem::swap(endpoint, unsafe { &mut *(ready as *mut Endpoint) });
                    // ORDERING: pairs with the reconnector's exchange: it drops what is there before it makes the next, so the place is empty.
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
}

impl Reconnect for Orders {
    /// Makes what is wanted.
    fn carry_out(&self, shared: &Shared) {
        for (at, word) in self.words.iter().enumerate().filter(|(_, word)| word.load(Acquire) == WANTED) {
            // ORDERING: pairs with the store of the thread that left it.
            drop(unboxed(self.spent[at].swap(IDLE, AcqRel)));
            let (node, address) = &self.addresses[at % self.addresses.len()];
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
