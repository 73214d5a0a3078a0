//! The reader of all queues of one array: whichever has something comes next.

use super::lanes::{QueueLanes, Reads, Unread, may_have};
use super::reach::QueueReach;
use crate::client::repetition::{Breaks, is_moving};
use hanare_protocol::shape::Strided;
use hanare_protocol::wire::queue::QueueRequest;
use hanare_protocol::wire::sync::SyncAnswer;
use hanare_protocol::{Error, Result};
use hanare_ring::array::{ALL_ASLEEP, BOARD};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// Queues whose lanes are kept at hand though they have nothing: as many as a program uses at once. **Source**: [VQ §2], 4 to 16.
const KEPT_COUNT: usize = 64;

/// Units of one queue before the next has its turn.
const TURN_COUNT: usize = 32;

/// Bytes of one look at the heads and tails of many queues.
const LOOK_LEN: u64 = 1 << 20;

/// The reader of all queues of an array.
pub(super) struct ArrayPort {
    reach: Arc<QueueReach>,
    reads: Reads,
    /// Queues that may have something, the next first.
    ready: VecDeque<u64>,
    /// The same, to be found by their numbers.
    is_ready: BTreeSet<u64>,
    /// Lanes of those, and of some that had. **Source**: [VQ §2] the context caches.
    at_hand: BTreeMap<u64, QueueLanes>,
    /// Units that the first of them may still give before the next.
    turn: usize,
    /// True if queues, or another host's bell, may have units that the board does not show.
    is_unsure: bool,
    is_open: bool,
}

impl ArrayPort {
    pub fn new(reach: Arc<QueueReach>) -> Result<ArrayPort> {
        const ABSENT: u64 = 0;
        let reads = Reads { id: QueueReach::port()?, first: 0, count: reach.count() };
        reach.here()?;
        // A reader that is there now refuses this one, or dies before it is asked for.
        let has_died = reach.reader_of_all()? != ABSENT;
        reach.ask(0, reads.open())?;
        let (ready, is_ready, at_hand) = Default::default();
        // A dead one had taken some from the board.
        let (is_unsure, is_open) = (has_died, true);
        let mut port = ArrayPort { reach, reads, ready, is_ready, at_hand, turn: TURN_COUNT, is_unsure, is_open };
        port.be_sure()?;
        Ok(port)
    }

    /// Looks at all queues, where the board may not tell of all that have something.
    fn be_sure(&mut self) -> Result<()> {
        for lanes in self.at_hand.values_mut() {
            self.is_unsure |= lanes.take_reopened();
        }
        if self.is_unsure {
            self.look_at_all()?;
            self.is_unsure = false;
        }
        Ok(())
    }

    /// Finds the queues that have something without the board, and those whose bell was left by another. **Cost**: reads bells, heads and
    /// tails of all.
    fn look_at_all(&mut self) -> Result<()> {
        let (form, count) = (*self.reach.form(), self.reach.count());
        let block = form.bytes_at(0);
        let step = (LOOK_LEN / block).max(1);
        let mut bytes = vec![0; (step.min(count) * block) as usize];
        let mut first = 0;
        while first < count {
            let many = step.min(count - first);
            let shape = Strided { offset: self.reach.offset(first), block, count: many, stride: form.queue_len() };
            let bytes = &mut bytes[..(many * block) as usize];
            self.reach.region().get_strided(shape, bytes)?;
            let looks = (first..).zip(bytes.chunks_exact(block as usize));
            let found: Vec<u64> = looks.filter(|(_, bytes)| may_have(&form, bytes)).map(|(queue, _)| queue).collect();
            self.note(&found);
            first += many;
        }
        Ok(())
    }

    fn note(&mut self, found: &[u64]) {
        for queue in found {
            if self.is_ready.insert(*queue) {
                self.ready.push_back(*queue);
            }
        }
    }

    pub fn reach(&self) -> &Arc<QueueReach> {
        &self.reach
    }

    /// The next unit of any queue, if there is one. Queues take turns.
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

    /// Takes from the board which have something; a queue that lies elsewhere is asked for by message.
    fn take_ready(&mut self) -> Result<bool> {
        let mut found = Vec::new();
        match self.reach.here()? {
            Some(array) => array.board().take(usize::MAX, &mut found),
            None => found = self.ask_ready()?,
        }
        found.retain(|queue| *queue < self.reach.count());
        self.note(&found);
        Ok(!self.ready.is_empty())
    }

    fn ask_ready(&mut self) -> Result<Vec<u64>> {
        let mut breaks = Breaks::default();
        loop {
            self.be_sure()?;
            // Without an answer, nobody else knows what was taken.
            self.is_unsure = true;
            match self.reach.ask(0, QueueRequest::TakeReady { reader: self.reads.id.0 }) {
                Ok(answer) => {
                    self.is_unsure = false;
                    let SyncAnswer::Ready { count, queues } = answer else { return Ok(Vec::new()) };
                    return Ok(queues.into_iter().take(count.into()).collect());
                }
                // The connection broke meanwhile, and another may have been here.
                Err(Error::SecondReader { .. }) => drop(self.reach.ask(0, self.reads.open())?),
                // Another node is home soon. What this one had taken is found by a look at all.
                Err(error) if self.reach.moves() && is_moving(&error) && breaks.may_repeat_moved() => {
                    self.reach.find_home()?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn lanes(&mut self, queue: u64) -> Result<&mut QueueLanes> {
        if !self.at_hand.contains_key(&queue) {
            let lanes = QueueLanes::new(self.reach.clone(), queue, self.reads)?;
            self.at_hand.insert(queue, lanes);
        }
        Ok(self.at_hand.get_mut(&queue).expect("it was just made"))
    }

    /// A queue is empty. It is left to the board, unless something comes meanwhile.
    #[cold]
    fn leave_queue(&mut self, queue: u64) -> Result<()> {
        if self.lanes(queue)?.look_further()? {
            return Ok(());
        }
        let is_here = match self.reach.here()? {
            Some(array) => {
                array.leave(queue);
                true
            }
            None => {
                self.reach.region().put(self.reach.reader_bell(queue), &BOARD.to_le_bytes())?;
                false
            }
        };
        let lanes = self.lanes(queue)?;
        if if is_here { lanes.has_more()? } else { lanes.look_further()? } {
            return Ok(());
        }
        lanes.on_left();
        self.ready.pop_front();
        self.is_ready.remove(&queue);
        self.turn = TURN_COUNT;
        if self.at_hand.len() > KEPT_COUNT && !self.lanes(queue)?.has_given() {
            self.lanes(queue)?.end()?;
            self.is_unsure |= self.at_hand.remove(&queue).is_some_and(|mut lanes| lanes.take_reopened());
        }
        Ok(())
    }

    /// Announces sleep at the bell of all queues. On this host [`hanare_ring::array::Array::fence`] follows before the next look.
    pub fn announce(&mut self) -> Result<()> {
        match self.reach.here()? {
            Some(array) => {
                array.announce_set();
                Ok(())
            }
            None => self.reach.region().put(self.reach.set_bell(), &ALL_ASLEEP.to_le_bytes()),
        }
    }

    /// True if something came before sleep was announced.
    pub fn has_come(&mut self) -> Result<bool> {
        Ok(!self.ready.is_empty() || self.take_ready()?)
    }

    #[inline]
    pub fn read(&self, unread: &Unread, at: usize, into: &mut [u8]) {
        self.at_hand[&unread.queue()].read(unread, at, into);
    }

    #[inline]
    pub fn free(&mut self, unread: &Unread) -> Result<()> {
        let lanes = self.at_hand.get_mut(&unread.queue()).expect("the unit was seen, and its queue is kept");
        lanes.free(unread)?;
        if lanes.is_due(unread) {
            self.note(&[unread.queue()]);
        }
        Ok(())
    }

    /// Leaves the queues. **Errors**: those of the node.
    pub fn leave(&mut self) -> Result<()> {
        if !std::mem::replace(&mut self.is_open, false) {
            return Ok(());
        }
        let mut at_hand = std::mem::take(&mut self.at_hand);
        let told: Result<()> = at_hand.values_mut().try_for_each(QueueLanes::end);
        // The next finds on the board what this one had taken from it.
        let mut left = Ok(());
        for queue in at_hand.keys().chain(&self.ready) {
            match self.reach.here()? {
                Some(array) => {
                    array.leave(*queue);
                    self.reach.tell_reader(array, *queue);
                }
                None => left = left.and_then(|()| self.leave_remote(*queue)),
            }
        }
        self.reach.end_port(0, told.and(left), self.reads.close())
    }

    /// Puts a queue of another host back on its board.
    fn leave_remote(&self, queue: u64) -> Result<()> {
        self.reach.ask(queue, QueueRequest::Leave { queue, reader: self.reads.id.0 }).map(drop)
    }
}

impl Drop for ArrayPort {
    fn drop(&mut self) {
        // A caller that wants the outcome calls `QueueSet::close`.
        let _ = self.leave();
    }
}
