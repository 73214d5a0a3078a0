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
use hanare_protocol::id::NodeId;
use hanare_protocol::wire::exchange::name_head;
use hanare_protocol::{Error, Result};
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
/// The connection could not be made.
const FAILED: usize = 2;
/// The bytes are lost, or may not be used any more. All other numbers are addresses of boxed endpoints that are ready.
const GONE: usize = 3;

/// Time that a waiting thread sleeps before it looks again; connecting takes some round trips.
const NAP: Timespec = Timespec { tv_sec: 0, tv_nsec: 500_000 };

/// The homes of a mapping's bytes, with their addresses.
pub(crate) trait FindHomes: Send + Sync {
    /// True if another node may become a home.
    fn moves(&self) -> bool;

    /// The node that is a home today, and its address.
    fn find(&self, shared: &Shared, home: usize) -> Result<(NodeId, Box<str>)>;
}

/// Homes that stay the same.
pub(crate) struct FixedHomes(Box<[(NodeId, Box<str>)]>);

impl FixedHomes {
    pub fn new(homes: &[(NodeId, &str)]) -> FixedHomes {
        FixedHomes(homes.iter().map(|(node, address)| (*node, Box::from(*address))).collect())
    }
}

impl FindHomes for FixedHomes {
    fn moves(&self) -> bool {
        false
    }

    fn find(&self, _: &Shared, home: usize) -> Result<(NodeId, Box<str>)> {
        Ok(self.0[home].clone())
    }
}

/// The outcome of an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Renewal {
    /// The endpoint is a good one.
    Made,
    /// There was no answer.
    NotNow,
    /// The bytes are lost, or may not be used any more.
    Never,
}

/// The orders of one mapping's lanes.
pub(crate) struct Orders {
    homes: Arc<dyn FindHomes>,
    home_count: usize,
    /// Each lane, for homes that move: nobody can guess it. Their calls count once.
    clients: Box<[u64]>,
    /// Time for an answer on the connections that are made.
    bound: Duration,
    /// For each lane and each of its connections.
    words: Box<[AtomicUsize]>,
    /// For each of them the address of a boxed endpoint to be dropped: a thread in a fault may not free memory.
    spent: Box<[AtomicUsize]>,
    bell: Arc<OwnedFd>,
}

impl Orders {
    /// Room for the orders of `lanes` that have a connection to each of `home_count` homes. Not for a signal handler.
    ///
    /// **Errors**: [`hanare_protocol::Error::System`] where no thread can be started.
    pub fn of_lanes(
        shared: &Arc<Shared>,
        homes: Arc<dyn FindHomes>,
        home_count: usize,
        lanes: usize,
        bound: Duration,
    ) -> Result<Arc<Orders>> {
        let words = || (0..lanes * home_count).map(|_| AtomicUsize::new(IDLE)).collect();
        let client = |_| hanare_memory::random::bytes().map(u64::from_le_bytes);
        let clients = if homes.moves() { (0..lanes).map(client).collect::<Result<_>>()? } else { Box::default() };
        shared.reconnect_on_order(|bell| Orders { homes, home_count, clients, bound, words: words(), spent: words(), bell })
    }

    /// Tells a home on a new connection of a lane whose calls come on it. A connection that breaks under it is found broken later.
    pub fn introduce(&self, lane: usize, endpoint: &Endpoint) {
        if let Some(client) = self.clients.get(lane) {
            let _ = endpoint.send(&[&name_head(u128::from(*client) << 64 | lane as u128).encode()]);
        }
    }

    /// The program of a lane's calls, where homes move.
    pub fn client(&self, lane: usize) -> Option<u64> {
        self.clients.get(lane).copied()
    }

    /// True if another node may become a home.
    pub fn moves(&self) -> bool {
        self.homes.moves()
    }

    /// Orders another connection to home number `home` of a lane, and waits for it at most so long. Puts it in the old one's place.
    /// Async-signal-safe.
    ///
    /// **Cost**: that of connecting, and two wakes. Homes that move cost a message each way to the coordinator, too.
    pub fn renew(&self, lane: usize, home: usize, endpoint: &mut Endpoint, bound: Duration) -> Renewal {
        let at = lane * self.home_count + home;
        let Some(word) = self.words.get(at) else { return Renewal::Never };
        if word.compare_exchange(IDLE, WANTED, AcqRel, Relaxed).is_err() {
            return Renewal::Never;
        }
        let (begun, mut backoff) = (Instant::now(), Backoff::new());
        let _ = rustix::io::write(&*self.bell, &1u64.to_ne_bytes());
        loop {
            // ORDERING: pairs with the reconnector's exchange: the endpoint is ready.
            match word.load(Acquire) {
                WANTED => {}
                failed @ (FAILED | GONE) => {
                    word.store(IDLE, Release);
                    return if failed == GONE { Renewal::Never } else { Renewal::NotNow };
                }
                ready => {
                    // SAFETY: a number that is none of the states is a box that the reconnector gave away, to this thread alone.
                    std::mem::swap(endpoint, unsafe { &mut *(ready as *mut Endpoint) });
                    // ORDERING: pairs with the reconnector's exchange: it drops what is there before it makes the next, so the place is empty.
                    self.spent[at].store(ready, Release);
                    word.store(IDLE, Release);
                    return Renewal::Made;
                }
            }
            if begun.elapsed() > bound && word.compare_exchange(WANTED, IDLE, AcqRel, Relaxed).is_ok() {
                return Renewal::NotNow;
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
            let found = self.homes.find(shared, at % self.home_count);
            let made = found.and_then(|(node, address)| Endpoint::connect(shared, node, &address, self.bound));
            made.iter().for_each(|endpoint| self.introduce(at / self.home_count, endpoint));
            let ready = match made {
                Ok(endpoint) => Box::into_raw(Box::new(endpoint)) as usize,
                Err(error) => {
                    tracing::debug!("no connection for faults: {error}");
                    if is_for_good(&error) { GONE } else { FAILED }
                }
            };
            // ORDERING: pairs with the load of the thread that waits.
            if word.compare_exchange(WANTED, ready, AcqRel, Relaxed).is_err() {
                drop(unboxed(ready));
            }
        }
    }
}

/// True if bytes cannot be reached any more by who got this error.
pub(crate) fn is_for_good(error: &Error) -> bool {
    matches!(error, Error::UnknownRegion { .. } | Error::RegionLost { .. } | Error::NoPermission { .. })
}

/// The endpoint at an address that one of the words held, and nobody holds any more.
fn unboxed(word: usize) -> Option<Box<Endpoint>> {
    // SAFETY: a number that is none of the states is the address of a box; whoever takes it out of its word has it alone.
    (word > GONE).then(|| unsafe { Box::from_raw(word as *mut Endpoint) })
}

impl Drop for Orders {
    fn drop(&mut self) {
        self.words.iter_mut().chain(&mut self.spent).for_each(|word| drop(unboxed(*word.get_mut())));
    }
}
