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
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Units of one source before the next has its turn.
const TURN_COUNT: usize = 32;

/// The reader of all queues of some arrays, and of some single queues, on any hosts. Leaves them when dropped.
///
/// **Cost**: for an array the queues that have something, however many queues there are: a bit for each, found through words of bits. A
/// load for each array and each single queue on this host, in turn. Queues of other hosts are looked at when their nodes say so. The
/// waiting thread sleeps at all of them at once. With a descriptor, or with remote queues, a thread of the library waits in its place for
/// those of this host.
///
/// FEATURE: VQ-F14
#[derive(Default)]
pub struct QueueSet {
    sources: Vec<Source>,
    /// The one that is looked at first, and how many units it may give before the next.
    first: usize,
    turn: usize,
    /// Once something is waited for, or a descriptor was asked for.
    watch: Option<BellWatch>,
    /// True if a queue is remote.
    has_remote: bool,
    /// The pace of its waits, learned from earlier ones.
    backoff: Backoff,
}

struct Source {
    port: SetPort,
    is_here: bool,
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

    /// Announces sleep, unless that stands. On this host the fence of its array follows before the next look. Whether it did.
    fn announce(&mut self) -> Result<bool> {
        let (reach, queue) = self.bell();
        if reach.here()?.is_some_and(|array| array.bell(queue).is_asleep()) {
            return Ok(false);
        }
        match &mut self.port {
            SetPort::All(port) => port.announce()?,
            SetPort::One(port) => port.announce()?,
        }
        Ok(true)
    }

    /// True if something came before sleep was announced.
    fn has_come(&mut self) -> Result<bool> {
        match &mut self.port {
            SetPort::All(port) => port.has_come(),
            SetPort::One(port) => port.has_come(),
        }
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
        let source = Source { port, is_here };
        if let Some(watch) = &mut self.watch {
            let (reach, queue) = source.bell();
            watch.add(reach, queue)?;
        }
        self.has_remote |= !is_here;
        self.sources.push(source);
        Ok(self.sources.len() - 1)
    }

    /// True for one source without a descriptor: it is asked at each look and waits at its bell.
    #[inline]
    fn is_simple(&self) -> bool {
        self.sources.len() == 1 && self.watch.is_none()
    }

    fn make_watch(&mut self) -> Result<&mut BellWatch> {
        if self.watch.is_none() {
            let mut watch = BellWatch::new(false)?;
            for source in &self.sources {
                let (reach, queue) = source.bell();
                watch.add(reach, queue)?;
            }
            self.watch = Some(watch);
        }
        Ok(self.watch.as_mut().expect("it was just made"))
    }

    /// True if a look would cost messages and the node has announced nothing.
    #[inline]
    fn is_asleep(&self, index: usize) -> bool {
        !self.sources[index].is_here && self.watch.as_ref().is_some_and(|watch| watch.is_asked(index))
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
            let first = self.first;
            if !self.is_asleep(first)
                && let Some(unread) = self.sources[first].try_see()?
            {
                self.turn -= 1;
                return Ok(Some(unread.with_source(first)));
            }
            self.next_source();
        }
        if self.has_remote && !self.is_simple() { self.ask_remote() } else { Ok(None) }
    }

    #[inline]
    fn next_source(&mut self) {
        self.turn = TURN_COUNT;
        self.first += 1;
        if self.first >= self.sources.len() {
            self.first = 0;
            // Remote queues are heard however busy the local ones are.
            if self.has_remote
                && let Some(watch) = &mut self.watch
            {
                watch.hear_remote();
            }
        }
    }

    /// Sources elsewhere that have nothing are not looked at again until their nodes say so.
    #[cold]
    fn ask_remote(&mut self) -> Result<Option<Unread>> {
        self.make_watch()?;
        for index in 0..self.sources.len() {
            if !self.sources[index].is_here
                && self.arm_remote(index)?
                && let Some(unread) = self.sources[index].try_see()?
            {
                return Ok(Some(unread.with_source(index)));
            }
        }
        Ok(None)
    }

    /// Has the node of a source elsewhere say when something comes. Whether something is there already.
    fn arm_remote(&mut self, index: usize) -> Result<bool> {
        if self.is_asleep(index) {
            return Ok(false);
        }
        let source = &mut self.sources[index];
        source.announce()?;
        if source.has_come()? {
            return Ok(true);
        }
        self.make_watch()?.ask(index)?;
        Ok(false)
    }

    /// Announces sleep at all bells. Whether something is there already.
    fn arm_all(&mut self) -> Result<bool> {
        let mut fences = None;
        for source in self.sources.iter_mut().filter(|source| source.is_here) {
            if source.announce()? {
                fences = Some(source.bell().0);
            }
        }
        // A single barrier serves all arrays: it has every processor pass one.
        if let Some(array) = fences.as_ref().map(|reach| reach.here()).transpose()?.flatten() {
            array.fence();
        }
        let mut is_ready = false;
        for index in 0..self.sources.len() {
            is_ready |= match self.sources[index].is_here {
                true => self.sources[index].has_come()?,
                false if self.is_simple() => {
                    let source = &mut self.sources[index];
                    source.announce()?;
                    source.has_come()?
                }
                false => self.arm_remote(index)?,
            };
        }
        Ok(is_ready)
    }

    /// The next unit of any queue; waits for one, `bound` at most. **Errors**: [`Error::NotInTime`]; [`Error::BadUse`] for a set of nothing; as
    /// for [`QueueSet::try_see`].
    pub fn see(&mut self, bound: Option<Duration>) -> Result<Unread> {
        // The clock is asked only where a wait is needed, as at a port.
        match self.try_see()? {
            Some(unread) => Ok(unread),
            None => self.wait_to_see(bound),
        }
    }

    #[cold]
    fn wait_to_see(&mut self, bound: Option<Duration>) -> Result<Unread> {
        let (begun, mut asked) = (Instant::now(), Instant::now());
        loop {
            if let Some(unread) = self.try_see()? {
                self.backoff.reset();
                return Ok(unread);
            }
            let left = bound.map(|bound| bound.saturating_sub(begun.elapsed()));
            if left == Some(Duration::ZERO) {
                self.backoff.reset();
                return Err(Error::NotInTime { what: self.what(), after_ms: bound.map_or(0, milliseconds) });
            }
            // A look at sources elsewhere moves their connections.
            if self.backoff.step_after(self.has_remote) == Step::Again {
                continue;
            }
            let nap = Duration::from_millis(QUEUE_NAP_MS);
            self.sleep(left.map_or(nap, |left| left.min(nap)))?;
            if asked.elapsed() >= Duration::from_millis(LEASE_MS) {
                asked = Instant::now();
                self.ping_here()?;
            }
        }
    }

    /// Asks this host's node whether it lives; others are asked each second, or looked at.
    fn ping_here(&self) -> Result<()> {
        match self.sources.iter().find(|source| source.is_here) {
            Some(source) => source.bell().0.ping(source.bell().1.unwrap_or(0)),
            None => Ok(()),
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
        let what = self.what();
        if self.is_simple() {
            let (reach, queue) = self.sources[0].bell();
            if self.arm_all()? {
                return Ok(());
            }
            return crate::trace::at_queue("wait for a unit", || what, || wait_once(&reach, queue, nap));
        }
        // Later units make the event readable again.
        let watch = self.make_watch()?;
        watch.clear();
        watch.hear_remote();
        if self.arm_all()? {
            return Ok(());
        }
        let watch = self.make_watch()?;
        crate::trace::at_queue("wait for a unit", || what, || watch.sleep(nap))
    }

    /// A descriptor for `poll`, `epoll` and event loops: see [`super::ReadPort::event`].
    pub fn event(&mut self) -> Result<QueueEvent> {
        Ok(self.make_watch()?.event().clone())
    }

    /// Before a program waits for [`QueueSet::event`]: see [`super::ReadPort::arm`]. **Cost**: a system call or two, and a look at each
    /// array and each single queue. For remote ones that have given something since, as there.
    pub fn arm(&mut self) -> Result<()> {
        let watch = self.make_watch()?;
        watch.clear();
        watch.hear_remote();
        let is_ready = self.arm_all()?;
        let watch = self.make_watch()?;
        watch.arm_here()?;
        if is_ready {
            watch.raise();
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
