//! The reading side of a queue.

use super::lanes::{QueueLanes, Reads, Unread};
use super::linked::{self, ReadLinks};
use super::reach::QueueReach;
use super::watch::{self, BellWatch, QueueEvent};
use crate::client::locks::milliseconds;
use crate::client::region::Region;
use crate::trace::PortLife;
use hanare_memory::Window;
use hanare_protocol::limits::{LEASE_MS, QUEUE_LAG_COUNT_MAX, QUEUE_NAP_MS};
use hanare_protocol::wire::control::Request;
use hanare_protocol::wire::link::LinkSocket;
use hanare_protocol::wire::queue::ArrayAt;
use hanare_protocol::{Error, Result};
use hanare_ring::array::REMOTE;
use hanare_ring::wait::{Backoff, Step};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The reader of a queue. Leaves it when dropped: the next goes on with what this one has not freed.
///
/// A unit is seen where it lies, several at once if wanted, and stays until it is freed. Freeing one frees those of its lane that were seen
/// before. So a unit that a reader dies with is seen again by its successor.
///
/// **Cost**: on the queue's host a few nanoseconds a unit, without a system call while there are any. Elsewhere three messages each way
/// for as many units as a lane holds.
///
/// FEATURE: VQ-F7 VQ-F10
pub struct ReadPort {
    reach: Arc<QueueReach>,
    reads: Reads,
    lanes: QueueLanes,
    /// Pauses before a look after nothing was found, and the units seen by then: see [`ReadPort::let_ahead`].
    lag: u32,
    units_before: u64,
    /// The pace of its waits, learned from earlier ones.
    backoff: Backoff,
    /// Once a descriptor was asked for.
    watch: Option<BellWatch>,
    life: PortLife,
    is_open: bool,
}

impl ReadPort {
    pub(super) fn new(reach: Arc<QueueReach>, queue: u64) -> Result<ReadPort> {
        let reads = Reads { id: QueueReach::port()?, first: queue, count: 1 };
        // Maps it first, so that a region that cannot be used refuses before anybody is told of a reader.
        reach.here()?;
        reach.ask(queue, reads.open())?;
        let lanes = QueueLanes::new(reach.clone(), queue, reads).inspect_err(|_| drop(reach.ask(queue, reads.close())))?;
        if let Some(array) = reach.here()? {
            array.attend(queue);
        }
        Ok(ReadPort {
            life: PortLife::begin("read port", || reach.name(queue)),
            reach,
            reads,
            lanes,
            lag: 0,
            units_before: 0,
            backoff: Backoff::new(),
            watch: None,
            is_open: true,
        })
    }

    /// Keeps the lanes of writers whose connections end: they may come back over others. [`Error::WriterGone`] says that one ended, each time.
    pub(crate) fn keep_broken(&mut self) {
        self.lanes.keep_broken();
    }

    /// Lets writers on other hosts send straight to this program, if they want to. Bytes that go before units come to `ahead`. Without it,
    /// or if that cannot be, units come by the queue's node.
    ///
    /// **Cost**: a message each way to this host's node.
    pub(crate) fn link(&mut self, ahead: Option<&Region>) -> Result<()> {
        if !self.is_here() {
            return Ok(());
        }
        let (own, other) = linked::socket_pair()?;
        let (route, queue) = (self.reach.region().extent_route(0), self.lanes.queue());
        let array = ArrayAt { slot: route.slot, grant: route.grant, offset: self.reach.at() };
        let request = Request::Link(LinkSocket { array, queue, reader: self.reads.id.0 });
        let mut links = ReadLinks::new(own, self.reach.form().ports);
        if let Some(ahead) = ahead {
            match ahead.map_local() {
                Ok(memory) => links.set_ahead(memory),
                // Its node gives no memory away.
                Err(Error::BadUse { .. }) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        self.reach.region().shared.ask_with_fds(&request, vec![other])?;
        self.lanes.links = Some(Box::new(links));
        Ok(())
    }

    /// The next unit that was not seen, if there is one. Never waits for a writer; where the queue lies on another host, for its node.
    ///
    /// **Errors**: [`Error::WriterGone`], once, where a writer has died and all that it had committed was freed: the others go on.
    /// [`Error::NoQueue`] where a program has overwritten the queue's memory; [`Error::NodeLost`].
    ///
    /// FEATURE: VQ-F18
    #[inline]
    pub fn try_see(&mut self) -> Result<Option<Unread>> {
        match self.lanes.try_next()? {
            Some(unread) => {
                self.life.units += 1;
                Ok(Some(unread))
            }
            None => self.look_further(),
        }
    }

    #[cold]
    fn look_further(&mut self) -> Result<Option<Unread>> {
        let found = if self.lanes.look_further()? { self.lanes.try_next()? } else { None };
        self.life.units += u64::from(found.is_some());
        Ok(found)
    }

    /// The next unit that was not seen, if it comes within a few pauses. Between them it looks at the lanes of this host alone: news of the
    /// node may wait as long.
    ///
    /// **Errors**: those of [`ReadPort::try_see`].
    #[inline]
    pub(crate) fn see_soon(&mut self) -> Result<Option<Unread>> {
        let first = self.try_see()?;
        if first.is_some() || !self.is_here() {
            return Ok(first);
        }
        if self.lanes.are_linked() {
            return self.see_linked_soon();
        }
        while self.backoff.pause() {
            // Two such looks are as short as one of others.
            for _ in 0..2 {
                if let Some(unread) = self.lanes.try_next()? {
                    self.life.units += 1;
                    self.backoff.reset();
                    return Ok(Some(unread));
                }
                std::hint::spin_loop();
            }
        }
        Ok(None)
    }

    /// The same where units come by links: each look is a system call, and as long as some pauses.
    fn see_linked_soon(&mut self) -> Result<Option<Unread>> {
        while self.backoff.pause() {
            if let Some(unread) = self.try_see()? {
                self.backoff.reset();
                return Ok(Some(unread));
            }
        }
        Ok(None)
    }

    /// The next unit that was not seen; waits for one, `bound` at most; `None` for ever.
    ///
    /// **Errors**: [`Error::NotInTime`], and those of [`ReadPort::try_see`].
    #[inline]
    pub fn see(&mut self, bound: Option<Duration>) -> Result<Unread> {
        match self.lanes.try_next()? {
            Some(unread) => {
                self.life.units += 1;
                Ok(unread)
            }
            None => self.wait_to_see(bound),
        }
    }

    /// Lets a writer get ahead that commits one unit after another. Each look takes its line away from it. A look for each unit costs both
    /// sides more than the unit. If more units came than there were pauses, the next wait has more pauses.
    fn let_ahead(&mut self) {
        let fresh = self.life.units - std::mem::replace(&mut self.units_before, self.life.units);
        self.lag = if fresh > u64::from(self.lag) { (self.lag + 1).min(QUEUE_LAG_COUNT_MAX) } else { self.lag / 2 };
        (0..self.lag).for_each(|_| std::hint::spin_loop());
    }

    #[cold]
    fn wait_to_see(&mut self, bound: Option<Duration>) -> Result<Unread> {
        self.let_ahead();
        // A unit that comes at once is not worth a look at the clock.
        if self.is_here()
            && bound != Some(Duration::ZERO)
            && let Some(unread) = self.see_soon()?
        {
            return Ok(unread);
        }
        let (begun, mut asked) = (Instant::now(), Instant::now());
        loop {
            if let Some(unread) = self.try_see()? {
                self.backoff.reset();
                return Ok(unread);
            }
            let left = bound.map(|bound| bound.saturating_sub(begun.elapsed()));
            if left == Some(Duration::ZERO) {
                self.backoff.reset();
                let what = format!("something in queue {}", self.reach.name(self.lanes.queue()));
                return Err(Error::NotInTime { what, after_ms: bound.map_or(0, milliseconds) });
            }
            if self.backoff.step_after(true) == Step::Again {
                continue;
            }
            let nap = Duration::from_millis(QUEUE_NAP_MS);
            self.sleep(left.map_or(nap, |left| left.min(nap)))?;
            if asked.elapsed() >= Duration::from_millis(LEASE_MS) {
                asked = Instant::now();
                self.reach.ping(self.lanes.queue())?;
            }
        }
    }

    /// True if the queue lies in memory of this host.
    fn is_here(&self) -> bool {
        self.lanes.are_here()
    }

    fn sleep(&mut self, nap: Duration) -> Result<()> {
        let queue = self.lanes.queue();
        if let Some(links) = &self.lanes.links {
            links.clear();
        }
        let is_ready = self.doze()?;
        if !is_ready {
            self.life.waits += 1;
            let name = || self.reach.name(queue);
            let links = self.lanes.links.as_mut().filter(|links| links.are_open());
            crate::trace::at_queue("wait for a unit", name, || match links {
                Some(links) => links.sleep(&self.reach, queue, nap),
                None => watch::wait_once(&self.reach, Some(queue), nap),
            })?;
        }
        if let Some(array) = self.reach.here()? {
            array.attend(queue);
        }
        Ok(())
    }

    /// Announces sleep at the queue's bell. Whether something is there already.
    fn doze(&mut self) -> Result<bool> {
        self.announce()?;
        if let Some(array) = self.reach.here()? {
            array.fence();
        }
        self.has_come()
    }

    /// Announces sleep. On this host [`hanare_ring::array::Array::fence`] follows before the next look.
    pub(super) fn announce(&mut self) -> Result<()> {
        let queue = self.lanes.queue();
        match self.reach.here()? {
            Some(array) => {
                array.announce(queue);
                Ok(())
            }
            // As on this host, a writer that commits by commands changes the bell.
            None => self.reach.region().put(self.reach.reader_bell(queue), &REMOTE.to_le_bytes()),
        }
    }

    /// True if something came before sleep was announced.
    pub(super) fn has_come(&mut self) -> Result<bool> {
        if self.is_here() { self.lanes.has_more() } else { self.lanes.look_further() }
    }

    /// The queue, and what waits at its bell.
    pub(super) fn bell(&self) -> (Arc<QueueReach>, Option<u64>) {
        (self.reach.clone(), Some(self.lanes.queue()))
    }

    /// A descriptor for `poll`, `epoll` and event loops: readable once the queue may have something, after [`ReadPort::arm`]. The first
    /// call makes it, and it lives as long as any handle of it. On the queue's host a thread of the library's own waits in this one's
    /// place.
    ///
    /// **Errors**: [`Error::System`].
    pub fn event(&mut self) -> Result<QueueEvent> {
        if self.watch.is_none() {
            let mut watch = BellWatch::new(self.is_here())?;
            let (reach, queue) = self.bell();
            watch.add(reach, queue)?;
            self.watch = Some(watch);
        }
        Ok(self.watch.as_ref().expect("it was just made").event().clone())
    }

    /// Arms the descriptor of [`ReadPort::event`], when [`ReadPort::try_see`] has found nothing. From here on it becomes readable as soon
    /// as there may be something. It stays so until it is armed again. If something has come meanwhile, it is readable at once.
    ///
    /// ```text
    /// loop { while let Some(unread) = port.try_see()? { ...; port.free(&unread)? }  port.arm()?;  wait until the descriptor is readable }
    /// ```
    ///
    /// **Cost**: two system calls; none for a unit while the program finds units by `try_see`. On a queue of another host four messages each
    /// way. **Errors**: as for [`ReadPort::try_see`].
    pub fn arm(&mut self) -> Result<()> {
        self.event()?;
        let mut watch = self.watch.take().expect("it was just made");
        let armed = self.arm_at(&mut watch);
        self.watch = Some(watch);
        armed
    }

    fn arm_at(&mut self, watch: &mut BellWatch) -> Result<()> {
        watch.clear();
        watch.hear_remote();
        let is_ready = self.doze()?;
        if self.is_here() {
            watch.arm_here()?;
        } else if !is_ready {
            watch.ask(0)?;
        }
        if is_ready {
            watch.raise();
        }
        Ok(())
    }

    /// Copies bytes of a unit out, from byte `at` of it on. Panics beyond its end.
    #[inline]
    pub fn read(&self, unread: &Unread, at: usize, into: &mut [u8]) {
        self.lanes.read(unread, at, into);
    }

    /// The unit's bytes where they lie; `None` where the queue lies on another host. Its writer may be wrong and change them: copy, then
    /// validate.
    ///
    /// # Safety
    /// No copy of the window is used after the unit was freed, or after the port is gone.
    pub unsafe fn window(&self, unread: &Unread) -> Result<Option<Window>> {
        self.lanes.window(unread)
    }

    /// Gives the room of a unit, and of those of its lane that were seen before, back to the writer. Panics where it was freed before.
    ///
    /// **Errors**: where the queue lies on another host those of its node.
    #[inline]
    pub fn free(&mut self, unread: &Unread) -> Result<()> {
        self.lanes.free(unread)
    }

    /// Sees again, from the first on, what was seen and not freed.
    pub fn rewind(&mut self) {
        self.lanes.rewind();
    }

    /// Receives a unit into `into`, which has its length then; waits for one, `bound` at most.
    ///
    /// **Errors**: as for [`ReadPort::see`].
    pub fn receive(&mut self, into: &mut Vec<u8>, bound: Option<Duration>) -> Result<()> {
        let unread = self.see(bound)?;
        self.take(&unread, into)
    }

    #[inline]
    fn take(&mut self, unread: &Unread, into: &mut Vec<u8>) -> Result<()> {
        into.resize(unread.len(), 0);
        self.read(unread, 0, into);
        self.free(unread)
    }

    /// Leaves the queue. **Errors**: those of the node.
    pub fn close(mut self) -> Result<()> {
        self.leave()
    }

    /// Leaves the queue before it is dropped, for an owner that sees no unit any more.
    pub(crate) fn leave_early(&mut self) {
        // The queue is gone with a node that does not answer.
        let _ = self.leave();
    }

    fn leave(&mut self) -> Result<()> {
        if !std::mem::replace(&mut self.is_open, false) {
            return Ok(());
        }
        let queue = self.lanes.queue();
        let told = self.lanes.end();
        self.life.end();
        self.reach.end_port(queue, told, self.reads.close())
    }
}

impl Drop for ReadPort {
    fn drop(&mut self) {
        // A caller that wants the outcome calls `close`.
        let _ = self.leave();
    }
}

impl std::fmt::Debug for ReadPort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReadPort").field("queue", &self.reach.name(self.lanes.queue())).finish_non_exhaustive()
    }
}
