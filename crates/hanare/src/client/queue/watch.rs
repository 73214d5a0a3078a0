//! Waiting at the bell of a queue, or of an array: in this thread, or in one of its own that makes a descriptor readable.
//!
//! ```text
//! reader:  Idle, Told --arm--> Armed                    thread:  Armed --the bell has changed, or an error--> Told, and the event is raised
//! ```
//!
//! The reader announces sleep at the bell before it arms, and looks once more afterwards, so that nothing is missed (`hanare_ring::array`). The
//! thread looks at the bell and at nothing else; a raised event says that a look may be worth its while.

use super::reach::QueueReach;
use crate::client::threads;
use hanare_protocol::limits::{LEASE_MS, QUEUE_NAP_MS};
use hanare_protocol::wire::sync::{Wait, Word};
use hanare_protocol::{Error, Result};
use hanare_ring::array::AFAR;
use rustix::event::{EventfdFlags, eventfd};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Bytes of the thread's stack: it waits for a word.
const STACK_LEN: usize = 256 << 10;

/// How long a thread waits at a bell of another host before it has its reader look unasked.
const AFAR_NAP: Duration = Duration::from_millis(LEASE_MS / 3);

/// A descriptor that is readable once a queue may have something: see [`super::ReadPort::arm`]. Only to be waited for, not to be read.
#[derive(Clone, Debug)]
pub struct QueueEvent(Arc<OwnedFd>);

impl QueueEvent {
    pub(super) fn new() -> Result<QueueEvent> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let refused = |errno: rustix::io::Errno| Error::System { what: "make an event".to_owned(), reason: errno.to_string() };
        event.map(|event| QueueEvent(Arc::new(event))).map_err(refused)
    }

    /// Makes it readable.
    pub(super) fn raise(&self) {
        // The only failure is a counter at its maximum, which is readable all the same.
        let _ = rustix::io::write(&*self.0, &1u64.to_ne_bytes());
    }

    /// Makes it unreadable.
    pub(super) fn clear(&self) {
        let _ = rustix::io::read(&*self.0, &mut [0; 8]);
    }
}

impl AsFd for QueueEvent {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for QueueEvent {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// Waits at a bell at which sleep was announced, of a queue or of all, for `nap` at most. Whether the bell has changed.
pub(super) fn wait_once(reach: &QueueReach, queue: Option<u64>, nap: Duration) -> Result<bool> {
    if let Some(array) = reach.here()? {
        let is_asleep = || queue.map_or_else(|| array.is_set_asleep(), |queue| array.is_asleep(queue));
        if is_asleep() {
            match queue {
                Some(queue) => array.sleep_reader(queue, nap),
                None => array.sleep_set(nap),
            }
        }
        return Ok(!is_asleep());
    }
    let (bell, until) = match queue {
        Some(queue) => (reach.reader_bell(queue), Wait::NotEqual(Word::U64(AFAR))),
        None => (reach.set_bell(), Wait::Equal(Word::U64(0))),
    };
    match reach.region().wait_until(bell, until, Some(nap)) {
        Ok(_) => Ok(true),
        Err(Error::NotInTime { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// A thread that waits at a bell for a reader.
pub(super) struct BellWatch(Arc<Desk>);

struct Desk {
    reach: Arc<QueueReach>,
    /// `None`: the bell of all queues of the array.
    queue: Option<u64>,
    event: QueueEvent,
    state: Mutex<BellState>,
    changed: Condvar,
}

enum BellState {
    Idle,
    Armed,
    Told(Result<()>),
    /// The reader is gone.
    Over,
}

impl BellWatch {
    /// Starts the thread. **Errors**: [`Error::System`].
    pub fn start(reach: Arc<QueueReach>, queue: Option<u64>, event: QueueEvent) -> Result<BellWatch> {
        let desk = Arc::new(Desk { reach, queue, event, state: Mutex::new(BellState::Idle), changed: Condvar::new() });
        let its = desk.clone();
        threads::start("hanare-queue", STACK_LEN, move || its.run())?;
        Ok(BellWatch(desk))
    }

    pub fn event(&self) -> &QueueEvent {
        &self.0.event
    }

    /// The event is raised as soon as the bell changes. **Errors**: that of the last wait.
    pub fn arm(&self) -> Result<()> {
        let mut state = self.0.lock();
        let before = std::mem::replace(&mut *state, BellState::Armed);
        self.0.changed.notify_one();
        if let BellState::Told(outcome) = before { outcome } else { Ok(()) }
    }

    /// Whether it waits, and nothing came.
    pub fn is_waiting(&self) -> bool {
        matches!(*self.0.lock(), BellState::Armed)
    }
}

impl Drop for BellWatch {
    fn drop(&mut self) {
        *self.0.lock() = BellState::Over;
        self.0.changed.notify_one();
        // At a bell of another host it waits until its nap is over, and is not waited for.
        if let Ok(Some(array)) = self.0.reach.here() {
            array.rouse_sleepers(self.0.queue);
        }
    }
}

impl Desk {
    fn lock(&self) -> MutexGuard<'_, BellState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        loop {
            let mut state = self.lock();
            while matches!(*state, BellState::Idle | BellState::Told(_)) {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            if matches!(*state, BellState::Over) {
                return;
            }
            drop(state);
            let outcome = self.wait();
            let mut state = self.lock();
            if matches!(*state, BellState::Armed) {
                *state = BellState::Told(outcome);
                self.event.raise();
            }
        }
    }

    /// Until the bell has changed, the reader is gone, or it is time for a look unasked.
    fn wait(&self) -> Result<()> {
        let is_here = self.reach.here()?.is_some();
        let nap = if is_here { Duration::from_millis(QUEUE_NAP_MS) } else { AFAR_NAP };
        let begun = Instant::now();
        while matches!(*self.lock(), BellState::Armed) {
            if wait_once(&self.reach, self.queue, nap)? {
                return Ok(());
            }
            if begun.elapsed() >= AFAR_NAP {
                // Who waits elsewhere has asked the node just before.
                return if is_here { self.reach.ping(self.queue.unwrap_or(0)) } else { Ok(()) };
            }
        }
        Ok(())
    }
}
