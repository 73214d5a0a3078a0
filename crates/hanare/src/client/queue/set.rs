//! Many queues and one reader: whichever has something comes next.

use super::lanes::{QueueLanes, Unread};
use super::reach::QueueReach;
use crate::client::locks::milliseconds;
use hanare_protocol::limits::{LEASE_MS, QUEUE_NAP_MS};
use hanare_protocol::queue::PortId;
use hanare_protocol::wire::queue::QueueRequest;
use hanare_protocol::{Error, Result};
use hanare_ring::Shared;
use hanare_ring::array::Array;
use hanare_ring::wait::{Backoff, Step};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Queues whose lanes are kept at hand though they have nothing: as many as a program uses at once. **Source**: [VQ §2], 4 to 16.
const KEPT_COUNT: usize = 64;

/// Units of one queue before the next has its turn.
const TURN_COUNT: usize = 32;

/// The reader of all queues of an array on this host. Leaves them when dropped.
///
/// **Cost**: that of the queues that have something, however many there are: a bit for each, found through words of bits.
///
/// FEATURE: VQ-F14
pub struct QueueSet {
    reach: Arc<QueueReach>,
    id: PortId,
    /// Queues that may have something, the next first.
    ready: VecDeque<u64>,
    /// The same, to be found by their numbers.
    is_ready: BTreeSet<u64>,
    /// Lanes of those, and of some that had. **Source**: [VQ §2] the context caches.
    at_hand: BTreeMap<u64, QueueLanes>,
    /// Units that the first of them may still give before the next.
    turn: usize,
    found: Vec<u64>,
}

impl QueueSet {
    pub(super) fn new(reach: Arc<QueueReach>) -> Result<QueueSet> {
        const BROKEN: u64 = 2;
        let id = QueueReach::port()?;
        if reach.here()?.is_none() {
            let reason = "one reader waits for many queues on their own host; elsewhere open each by itself".to_owned();
            return Err(Error::BadUse { region: reach.region().name().to_owned(), reason });
        }
        let has_died = reach.reader_of_all()? == BROKEN;
        reach.ask(0, QueueRequest::OpenReader { first: 0, count: reach.count(), reader: id.0 })?;
        let mut set = QueueSet {
            reach,
            id,
            ready: VecDeque::new(),
            is_ready: BTreeSet::new(),
            at_hand: BTreeMap::new(),
            turn: TURN_COUNT,
            found: Vec::new(),
        };
        if has_died {
            // The dead one had taken some from the board.
            set.ready.extend(0..set.reach.count());
            set.is_ready.extend(0..set.reach.count());
        }
        Ok(set)
    }

    fn array(&self) -> Result<&Array<Shared>> {
        let gone = || Error::BadUse { region: self.reach.region().name().to_owned(), reason: "it is not mapped".to_owned() };
        self.reach.here()?.ok_or_else(gone)
    }

    /// The next unit of any queue, if there is one; never waits. Queues take turns.
    ///
    /// **Errors**: as for [`super::ReadPort::try_see`].
    #[inline]
    pub fn try_see(&mut self) -> Result<Option<Unread>> {
        loop {
            let Some(queue) = self.ready.front().copied() else {
                if !self.take_ready()? {
                    return Ok(None);
                }
                continue;
            };
            if self.turn == 0 {
                self.ready.rotate_left(1);
                self.turn = TURN_COUNT;
                continue;
            }
            if let Some(unread) = self.lanes(queue)?.try_next()? {
                self.turn -= 1;
                return Ok(Some(unread));
            }
            self.leave_queue(queue)?;
        }
    }

    /// Takes from the board which have something.
    fn take_ready(&mut self) -> Result<bool> {
        let mut found = std::mem::take(&mut self.found);
        found.clear();
        self.array()?.board().take(&mut found);
        for queue in &found {
            if self.is_ready.insert(*queue) {
                self.ready.push_back(*queue);
            }
        }
        self.found = found;
        Ok(!self.ready.is_empty())
    }

    fn lanes(&mut self, queue: u64) -> Result<&mut QueueLanes> {
        if !self.at_hand.contains_key(&queue) {
            let lanes = QueueLanes::new(self.reach.clone(), queue, self.id)?;
            self.at_hand.insert(queue, lanes);
        }
        Ok(self.at_hand.get_mut(&queue).expect("it was just made"))
    }

    /// Nothing is left in a queue: it is left to the board, unless something comes meanwhile.
    #[cold]
    fn leave_queue(&mut self, queue: u64) -> Result<()> {
        if self.lanes(queue)?.look_further()? {
            return Ok(());
        }
        self.array()?.leave(queue);
        if self.lanes(queue)?.has_more()? {
            return Ok(());
        }
        self.ready.pop_front();
        self.is_ready.remove(&queue);
        self.turn = TURN_COUNT;
        if self.at_hand.len() > KEPT_COUNT && !self.lanes(queue)?.has_given() {
            self.at_hand.remove(&queue);
        }
        Ok(())
    }

    /// The next unit of any queue; waits for one, `bound` at most. **Errors**: [`Error::NotInTime`]; as for [`QueueSet::try_see`].
    pub fn see(&mut self, bound: Option<Duration>) -> Result<Unread> {
        let (begun, mut backoff, mut asked) = (Instant::now(), Backoff::new(), Instant::now());
        loop {
            if let Some(unread) = self.try_see()? {
                return Ok(unread);
            }
            let left = bound.map(|bound| bound.saturating_sub(begun.elapsed()));
            if left == Some(Duration::ZERO) {
                let what = format!("something in the queues of '{}'", self.reach.region().name());
                return Err(Error::NotInTime { what, after_ms: bound.map_or(0, milliseconds) });
            }
            if backoff.step() == Step::Again {
                continue;
            }
            let nap = Duration::from_millis(QUEUE_NAP_MS);
            let bell = self.array()?.set_bell();
            bell.doze();
            if !self.take_ready()? {
                self.array()?.sleep_set(left.map_or(nap, |left| left.min(nap)));
            }
            bell.rouse();
            if asked.elapsed() >= Duration::from_millis(LEASE_MS) {
                asked = Instant::now();
                self.reach.ping(0)?;
            }
        }
    }

    /// Copies bytes of a unit out, from byte `at` of it on. Panics beyond its end.
    #[inline]
    pub fn read(&self, unread: &Unread, at: usize, into: &mut [u8]) {
        self.at_hand[&unread.queue()].read(unread, at, into);
    }

    /// Gives the room of a unit, and of those of its lane that were seen before, back to the writer. Panics where it was freed before.
    #[inline]
    pub fn free(&mut self, unread: &Unread) -> Result<()> {
        self.at_hand.get_mut(&unread.queue()).expect("the unit was seen, and its queue is kept").free(unread)
    }

    /// Leaves the queues. **Errors**: those of the node.
    pub fn close(mut self) -> Result<()> {
        self.leave()
    }

    fn leave(&mut self) -> Result<()> {
        let in_hand = std::mem::take(&mut self.at_hand);
        if self.id == PortId(0) {
            return Ok(());
        }
        let request = QueueRequest::CloseReader { first: 0, reader: self.id.0 };
        self.id = PortId(0);
        // The next finds on the board what this one had taken from it.
        for queue in in_hand.keys().chain(&self.ready) {
            let array = self.array()?;
            array.leave(*queue);
            array.tell_reader(*queue);
        }
        self.reach.ask(0, request).map(drop)
    }
}

impl Drop for QueueSet {
    fn drop(&mut self) {
        // Who wants to know calls `close`.
        let _ = self.leave();
    }
}

impl std::fmt::Debug for QueueSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("QueueSet").field("region", &self.reach.region().name()).finish_non_exhaustive()
    }
}
