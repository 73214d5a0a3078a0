//! Connections made anew for threads that cannot make one: who resolves a fault may neither allocate nor take a lock.
//!
//! ```text
//! thread in a fault: Idle --> Known, Today or Elsewhere, rings --> waits --> changes its endpoint for the new one, or gives up (Idle)
//! the reconnector:            asks for the home, connects, greets, proves --> Ready, or Failed
//! ```
//!
//! The reconnector is the attachment's thread. An order is one word. So a faulting thread does only async-signal-safe things to it:
//! atomics, `write`, `poll`, `sched_yield` and `clock_gettime`.

use super::endpoint::Endpoint;
use crate::client::attachment::{Reconnect, Shared};
use crate::client::repetition::MOVE_MS;
use hanare_protocol::id::NodeId;
use hanare_protocol::wire::control::SharedHome;
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
/// The connection could not be made.
const FAILED: usize = 1;
/// The bytes are lost, or may not be used any more.
const GONE: usize = 2;
/// The highest number that is a state. All others are addresses of boxed endpoints that are ready.
const LAST: usize = NewHome::Elsewhere as usize;

/// The home that a thread waits to be connected to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub(crate) enum NewHome {
    /// The known home, if it is reached; else the home of today.
    Known = 3,
    /// The home of today.
    Today = 4,
    /// The home of today, if it is another one.
    Elsewhere = 5,
}

impl NewHome {
    fn of(word: usize) -> Option<NewHome> {
        [NewHome::Known, NewHome::Today, NewHome::Elsewhere].into_iter().find(|wanted| *wanted as usize == word)
    }
}

/// Time that a waiting thread sleeps before it looks again; connecting takes some round trips.
const NAP: Timespec = Timespec { tv_sec: 0, tv_nsec: 500_000 };

/// The homes of a mapping's bytes, with their addresses.
pub(crate) trait FindHomes: Send + Sync {
    /// True if another node may become a home, once the bytes have copies.
    fn may_move(&self) -> bool;

    /// True if the bytes have copies, or had some. Async-signal-safe.
    fn moves(&self) -> bool;

    /// The node that is a home, as far as is known. Async-signal-safe.
    fn node(&self, home: usize) -> NodeId;

    /// The same with its address, where nobody need be asked for it.
    fn known(&self, home: usize) -> Option<SharedHome>;

    /// The node that is a home today, with its address.
    fn find(&self, shared: &Shared, home: usize) -> Result<SharedHome>;
}

/// Homes that stay the same.
pub(crate) struct FixedHomes(pub Box<[SharedHome]>);

impl FindHomes for FixedHomes {
    fn may_move(&self) -> bool {
        false
    }

    fn moves(&self) -> bool {
        false
    }

    fn node(&self, home: usize) -> NodeId {
        self.0[home].node
    }

    fn known(&self, _: usize) -> Option<SharedHome> {
        None
    }

    fn find(&self, _: &Shared, home: usize) -> Result<SharedHome> {
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
    /// Each lane, for homes that may move: nobody can guess it. Their calls count once.
    clients: Box<[u64]>,
    /// Time for an answer on the connections that are made, where homes do not move.
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
        let clients = if homes.may_move() { (0..lanes).map(client).collect::<Result<_>>()? } else { Box::default() };
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

    /// True if another node may become a home, once the bytes have copies.
    pub fn may_move(&self) -> bool {
        self.homes.may_move()
    }

    /// True if the bytes have copies, or had some.
    pub fn moves(&self) -> bool {
        self.homes.moves()
    }

    /// Time for an answer on a connection that is made. A silent home of bytes with copies may be home no more.
    pub fn bound(&self) -> Duration {
        if self.moves() { self.bound.min(Duration::from_millis(MOVE_MS)) } else { self.bound }
    }

    /// A home that was silent is home no more, or may be.
    pub fn after_silence(&self, home: usize, endpoint: &Endpoint) -> NewHome {
        if self.homes.node(home) == endpoint.node() { NewHome::Elsewhere } else { NewHome::Today }
    }

    /// Orders another connection for home number `home` of a lane, and waits for it at most so long. Puts it in the old one's place.
    /// Async-signal-safe.
    ///
    /// **Cost**: that of connecting, and two wakes. The home of today costs a message each way to the coordinator, too.
    pub fn renew(&self, lane: usize, (home, wanted): (usize, NewHome), endpoint: &mut Endpoint, bound: Duration) -> Renewal {
        let at = lane * self.home_count + home;
        let Some(word) = self.words.get(at) else { return Renewal::Never };
        let wanted = wanted as usize;
        if word.compare_exchange(IDLE, wanted, AcqRel, Relaxed).is_err() {
            return Renewal::Never;
        }
        let (begun, mut backoff) = (Instant::now(), Backoff::new());
        let _ = rustix::io::write(&*self.bell, &1u64.to_ne_bytes());
        loop {
            // ORDERING: pairs with the reconnector's exchange: the endpoint is ready.
            match word.load(Acquire) {
                waits if waits == wanted => {}
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
            if begun.elapsed() > bound && word.compare_exchange(wanted, IDLE, AcqRel, Relaxed).is_ok() {
                return Renewal::NotNow;
            }
            if backoff.step() == Step::Park {
                let _ = poll(&mut [], Some(&NAP));
            }
        }
    }
}

impl Orders {
    /// Connects to a home. Not for a signal handler.
    fn connect(&self, shared: &Shared, home: usize, wanted: NewHome) -> Result<Endpoint> {
        let connect = |home: SharedHome| Endpoint::connect(shared, &home, self.bound());
        let before = self.homes.node(home);
        if let Some(known) = self.homes.known(home).filter(|_| wanted == NewHome::Known) {
            match connect(known) {
                // Without the coordinator's own node nobody would reply.
                Err(_) if before != shared.life().attached.home.node => {}
                made => return made,
            }
        }
        let found = self.homes.find(shared, home)?;
        if wanted == NewHome::Elsewhere && found.node == before && !self.moves() {
            return Err(Error::NodeLost {
                node: before,
                reason: "it does not answer, and its bytes are not elsewhere".to_owned(),
            });
        }
        connect(found)
    }
}

impl Reconnect for Orders {
    /// Makes what is wanted.
    fn carry_out(&self, shared: &Shared) {
        for (at, word) in self.words.iter().enumerate() {
            let Some(wanted) = NewHome::of(word.load(Acquire)) else { continue };
            // ORDERING: pairs with the store of the thread that left it.
            drop(unboxed(self.spent[at].swap(IDLE, AcqRel)));
            let made = self.connect(shared, at % self.home_count, wanted);
            made.iter().for_each(|endpoint| self.introduce(at / self.home_count, endpoint));
            let ready = match made {
                Ok(endpoint) => Box::into_raw(Box::new(endpoint)) as usize,
                Err(error) => {
                    tracing::debug!("no connection for faults: {error}");
                    if is_for_good(&error) { GONE } else { FAILED }
                }
            };
            // ORDERING: pairs with the load of the thread that waits.
            if word.compare_exchange(wanted as usize, ready, AcqRel, Relaxed).is_err() {
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
    (word > LAST).then(|| unsafe { Box::from_raw(word as *mut Endpoint) })
}

impl Drop for Orders {
    fn drop(&mut self) {
        self.words.iter_mut().chain(&mut self.spent).for_each(|word| drop(unboxed(*word.get_mut())));
    }
}
