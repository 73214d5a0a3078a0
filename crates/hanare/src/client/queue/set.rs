//! Many queues and one reader thread: whichever has something comes next.

use super::all::ArrayPort;
use super::lanes::Unread;
use super::reach::QueueReach;
use super::reader::ReadPort;
use super::watch::{BellWatch, QueueEvent, wait_once};
use super::{Queue, Queues};
use crate::client::locks::milliseconds;
use hanare_protocol::limits::{LEASE_MS, QUEUE_NAP_MS, QUEUE_SET_SOURCE_COUNT_MAX};
use hanare_protocol::{Error, Result};
use hanare_ring::wait::{Backoff, Step};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Units of one source before the next has its turn.
const TURN_COUNT: usize = 32;

/// The reader of all queues of some arrays, and of some single queues, on any hosts. Leaves them when dropped.
///
/// **Cost**: of an array that of its queues that have something, however many there are: a bit for each, found through words of bits; and a
/// load for each array and each single queue on this host, which are looked at in turn. Those of other hosts are looked at when their
/// nodes say so. A set of several, or with queues elsewhere, waits by one thread for each array and each single queue.
///
/// FEATURE: VQ-F14
#[derive(Default)]
pub struct QueueSet {
    sources: Vec<Source>,
    /// The one that is looked at first, and how many units it may give before the next.
    first: usize,
    turn: usize,
    /// Once several are waited for, or a descriptor was asked for.
    event: Option<QueueEvent>,
}

struct Source {
    port: SetPort,
    is_here: bool,
    watch: Option<BellWatch>,
}

enum SetPort {
    All(ArrayPort),
    One(Box<ReadPort>),
}

impl Source {
    fn try_see(&mut self) -> Result<Option<Unread>> {
        match &mut self.port {
            SetPort::All(port) => port.try_see(),
            SetPort::One(port) => port.try_see(),
        }
    }

    /// The queues, and what waits at their bell.
    fn bell(&self) -> (Arc<QueueReach>, Option<u64>) {
        match &self.port {
            SetPort::All(port) => (port.reach().clone(), None),
            SetPort::One(port) => port.bell(),
        }
    }

    /// Announces sleep. Whether something is there already.
    fn doze(&mut self) -> Result<bool> {
        match &mut self.port {
            SetPort::All(port) => port.doze(),
            SetPort::One(port) => port.doze(),
        }
    }

    /// Whether a look would cost messages, and the node has not said that there may be something.
    fn is_asleep(&self) -> bool {
        !self.is_here && self.watch.as_ref().is_some_and(BellWatch::is_waiting)
    }

    /// Has its thread wait. Whether something is there already.
    fn arm(&mut self, event: &QueueEvent) -> Result<bool> {
        if self.is_asleep() {
            return Ok(false);
        }
        let is_ready = self.doze()?;
        if self.watch.is_none() {
            let (reach, queue) = self.bell();
            self.watch = Some(BellWatch::start(reach, queue, event.clone())?);
        }
        if let Some(watch) = self.watch.as_mut().filter(|_| !is_ready) {
            watch.arm()?;
        }
        Ok(is_ready)
    }
}

impl QueueSet {
    /// A set of nothing yet.
    pub fn new() -> QueueSet {
        QueueSet::default()
    }

    /// Becomes the reader of all queues of an array too. Gives its number in the set, which [`Unread::source`] says of its units.
    ///
    /// **Cost**: a message each way. **Errors**: as for [`Queue::reader`]; [`Error::LimitReached`].
    pub fn add(&mut self, queues: &Queues) -> Result<usize> {
        self.check_room()?;
        let is_here = queues.reach.here()?.is_some();
        self.push(SetPort::All(ArrayPort::new(queues.reach.clone())?), is_here)
    }

    /// Becomes the reader of one queue too. Many queues are better made as an array: each single one on this host is looked at in turn.
    ///
    /// **Cost**, **Errors**: as for [`QueueSet::add`].
    pub fn add_queue(&mut self, queue: &Queue) -> Result<usize> {
        self.check_room()?;
        let is_here = queue.reach.here()?.is_some();
        self.push(SetPort::One(Box::new(queue.reader()?)), is_here)
    }

    fn check_room(&self) -> Result<()> {
        if self.sources.len() < QUEUE_SET_SOURCE_COUNT_MAX {
            return Ok(());
        }
        Err(Error::LimitReached {
            what: "arrays and single queues of a set".to_owned(),
            limit: QUEUE_SET_SOURCE_COUNT_MAX as u64,
        })
    }

    fn push(&mut self, port: SetPort, is_here: bool) -> Result<usize> {
        self.sources.push(Source { port, is_here, watch: None });
        Ok(self.sources.len() - 1)
    }

    /// Whether a look at all costs no message, so that one thread waits at one bell.
    fn is_simple(&self) -> bool {
        self.sources.len() == 1 && self.event.is_none()
    }

    /// The next unit of any queue, if there is one; never waits for a writer. Arrays, single queues and queues of an array take turns.
    ///
    /// **Errors**: as for [`super::ReadPort::try_see`].
    #[inline]
    pub fn try_see(&mut self) -> Result<Option<Unread>> {
        for _ in 0..self.sources.len() {
            if self.turn == 0 {
                self.next_source();
            }
            let (first, source) = (self.first, &mut self.sources[self.first]);
            if !source.is_asleep()
                && let Some(unread) = source.try_see()?
            {
                self.turn -= 1;
                return Ok(Some(unread.with_source(first)));
            }
            self.next_source();
        }
        if self.is_simple() { Ok(None) } else { self.arm_afar() }
    }

    fn next_source(&mut self) {
        self.first = if self.first + 1 >= self.sources.len() { 0 } else { self.first + 1 };
        self.turn = TURN_COUNT;
    }

    /// Sources elsewhere that have nothing are not asked again until their nodes say so.
    #[cold]
    fn arm_afar(&mut self) -> Result<Option<Unread>> {
        let event = self.make_event()?;
        for index in 0..self.sources.len() {
            let source = &mut self.sources[index];
            if !source.is_here
                && source.arm(&event)?
                && let Some(unread) = source.try_see()?
            {
                return Ok(Some(unread.with_source(index)));
            }
        }
        Ok(None)
    }

    fn make_event(&mut self) -> Result<QueueEvent> {
        if let Some(event) = &self.event {
            return Ok(event.clone());
        }
        Ok(self.event.insert(QueueEvent::new()?).clone())
    }

    /// The next unit of any queue; waits for one, `bound` at most. **Errors**: [`Error::NotInTime`]; [`Error::BadUse`] for a set of nothing; as
    /// for [`QueueSet::try_see`].
    pub fn see(&mut self, bound: Option<Duration>) -> Result<Unread> {
        // As for a port, the clock is asked only where there is something to wait for.
        match self.try_see()? {
            Some(unread) => Ok(unread),
            None => self.wait_to_see(bound),
        }
    }

    #[cold]
    fn wait_to_see(&mut self, bound: Option<Duration>) -> Result<Unread> {
        let (begun, mut backoff, mut asked) = (Instant::now(), Backoff::new(), Instant::now());
        loop {
            if let Some(unread) = self.try_see()? {
                return Ok(unread);
            }
            let left = bound.map(|bound| bound.saturating_sub(begun.elapsed()));
            if left == Some(Duration::ZERO) {
                return Err(Error::NotInTime { what: self.what(), after_ms: bound.map_or(0, milliseconds) });
            }
            let was_call = self.is_simple() && !self.sources.iter().all(|source| source.is_here);
            if backoff.step_after(was_call) == Step::Again {
                continue;
            }
            let nap = Duration::from_millis(QUEUE_NAP_MS);
            self.sleep(left.map_or(nap, |left| left.min(nap)))?;
            if asked.elapsed() >= Duration::from_millis(LEASE_MS) {
                asked = Instant::now();
                self.sources.iter().try_for_each(|source| {
                    let (reach, queue) = source.bell();
                    reach.ping(queue.unwrap_or(0))
                })?;
            }
        }
    }

    fn what(&self) -> String {
        let names: Vec<String> = self.sources.iter().map(|source| source.bell().0.region().name().to_owned()).collect();
        format!("something in the queues of '{}'", names.join("', '"))
    }

    fn sleep(&mut self, nap: Duration) -> Result<()> {
        if self.sources.is_empty() {
            let reason = "a set of no queues waits for ever: add some".to_owned();
            return Err(Error::BadUse { region: String::new(), reason });
        }
        if !self.is_simple() {
            self.arm()?;
            let event = self.make_event()?;
            let nap = Timespec { tv_sec: nap.as_secs() as i64, tv_nsec: i64::from(nap.subsec_nanos()) };
            // The next look says more than the outcome.
            let wait = || {
                let _ = poll(&mut [PollFd::new(&event, PollFlags::IN)], Some(&nap));
                Ok(())
            };
            return crate::trace::at_queue("wait for a unit", || self.what(), wait);
        }
        let what = self.what();
        let source = &mut self.sources[0];
        if !source.doze()? {
            let (reach, queue) = source.bell();
            crate::trace::at_queue("wait for a unit", || what, || wait_once(&reach, queue, nap))?;
        }
        if let SetPort::All(port) = &mut source.port { port.rouse() } else { Ok(()) }
    }

    /// A descriptor for `poll`, `epoll` and event loops: see [`super::ReadPort::event`].
    pub fn event(&mut self) -> Result<QueueEvent> {
        self.make_event()
    }

    /// Before a program waits for [`QueueSet::event`]: see [`super::ReadPort::arm`]. **Cost**: as there, for each array and each single queue.
    pub fn arm(&mut self) -> Result<()> {
        let event = self.make_event()?;
        event.clear();
        let mut is_ready = false;
        for source in &mut self.sources {
            is_ready |= source.arm(&event)?;
            // A thread may have been told before the event was cleared.
            is_ready |= !source.watch.as_ref().is_some_and(BellWatch::is_waiting);
        }
        if is_ready {
            event.raise();
        }
        Ok(())
    }

    /// Copies bytes of a unit out, from byte `at` of it on. Panics beyond its end.
    #[inline]
    pub fn read(&self, unread: &Unread, at: usize, into: &mut [u8]) {
        match &self.sources[unread.source()].port {
            SetPort::All(port) => port.read(unread, at, into),
            SetPort::One(port) => port.read(unread, at, into),
        }
    }

    /// Gives the room of a unit, and of those of its lane that were seen before, back to the writer. Panics where it was freed before.
    #[inline]
    pub fn free(&mut self, unread: &Unread) -> Result<()> {
        match &mut self.sources[unread.source()].port {
            SetPort::All(port) => port.free(unread),
            SetPort::One(port) => port.free(unread),
        }
    }

    /// Leaves the queues. **Errors**: those of the nodes.
    pub fn close(self) -> Result<()> {
        let close = |source: Source| match source.port {
            SetPort::All(mut port) => port.leave(),
            SetPort::One(port) => port.close(),
        };
        self.sources.into_iter().map(close).fold(Ok(()), Result::and)
    }
}

impl std::fmt::Debug for QueueSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("QueueSet").field("sources", &self.sources.len()).finish_non_exhaustive()
    }
}
