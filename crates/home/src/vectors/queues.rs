//! Queues of blocks in a vector: one thread runs all sides, and nobody sleeps.

use crate::queue_words::{QueueMemory, QueueWords};
use hanare_protocol::queue::layout::{BOARD_AT, BOARD_BITS, LINE_LEN, NEWS_AT, READER_BELL_AT, TAIL_AT, WORD_LEN};
use hanare_protocol::queue::{NoSpill, QueueForm, Ring, Store};
use hanare_protocol::{Error, Result};
use std::cell::Cell;
use std::rc::Rc;

/// A store of spilled units without room.
#[derive(Clone, Debug, Default)]
pub struct NoRoom;

impl Store for NoRoom {
    fn push(&mut self, _unit: &[u8], _uid: u32) -> std::result::Result<(), NoSpill> {
        Err(NoSpill::PoolFull)
    }

    fn front(&mut self) -> Option<&[u8]> {
        None
    }

    fn pop(&mut self) {}

    fn count(&self) -> u64 {
        0
    }
}

/// The bytes of an extent, and the store that lanes begin with.
#[derive(Clone, Debug)]
pub(super) struct VectorQueues<S> {
    pub bytes: Rc<[Cell<u8>]>,
    pub spill: S,
}

impl<S: Store + Clone> QueueMemory for VectorQueues<S> {
    type Words = VectorWords<S>;

    fn len_bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn line(&self, at: u64) -> Result<[u8; LINE_LEN as usize]> {
        Ok(std::array::from_fn(|k| self.bytes[at as usize + k].get()))
    }

    fn words(&self, (at, len): (u64, u64), form: QueueForm, count: u64) -> VectorWords<S> {
        let array = Array { bytes: self.bytes.clone(), at, len, form, queues_at: form.queue_at(count, 0), count };
        VectorWords { array, spill: self.spill.clone() }
    }
}

/// The words of one array of queues of blocks.
#[derive(Clone, Debug)]
pub struct VectorWords<S> {
    array: Array,
    spill: S,
}

#[derive(Clone, Debug)]
struct Array {
    bytes: Rc<[Cell<u8>]>,
    at: u64,
    len: u64,
    form: QueueForm,
    queues_at: u64,
    count: u64,
}

impl Array {
    fn queue_at(&self, queue: u64) -> u64 {
        self.queues_at + queue * self.form.queue_len()
    }

    fn cells(&self, at: u64, len: u64) -> &[Cell<u8>] {
        &self.bytes[self.at as usize..][..self.len as usize][at as usize..][..len as usize]
    }

    fn load(&self, at: u64) -> u64 {
        let bytes = self.cells(at, WORD_LEN);
        u64::from_le_bytes(std::array::from_fn(|k| bytes[k].get()))
    }

    fn store(&self, at: u64, value: u64) {
        self.cells(at, WORD_LEN).iter().zip(value.to_le_bytes()).for_each(|(cell, byte)| cell.set(byte));
    }
}

/// A lane of blocks.
#[derive(Clone, Debug)]
pub struct VectorLane {
    array: Array,
    head_at: u64,
    tail_at: u64,
    bytes_at: u64,
}

impl VectorLane {
    fn used(&self) -> u64 {
        self.array.load(self.tail_at).wrapping_sub(self.array.load(self.head_at))
    }
}

impl Ring for VectorLane {
    fn push(&mut self, unit: &[u8]) -> Result<bool> {
        let (form, tail) = (self.array.form, self.array.load(self.tail_at));
        let frame = form.frame_len(unit.len() as u64);
        let has_room = self.used() + frame <= form.lane_len();
        if has_room {
            let into = self.array.cells(self.bytes_at + tail % form.lane_len(), unit.len() as u64);
            into.iter().zip(unit).for_each(|(cell, byte)| cell.set(*byte));
            self.array.store(self.tail_at, tail + frame);
        }
        Ok(has_room)
    }
}

impl<S: Store + Clone> QueueWords for VectorWords<S> {
    type Store = S;
    type Lane = VectorLane;

    fn queue_at(&self, queue: u64) -> u64 {
        self.array.queue_at(queue)
    }

    fn load(&self, at: u64) -> u64 {
        self.array.load(at)
    }

    fn store(&self, at: u64, value: u64) {
        self.array.store(at, value);
    }

    fn swap(&self, at: u64, value: u64) -> u64 {
        let old = self.load(at);
        self.store(at, value);
        old
    }

    fn lane(&self, queue: u64, lane: u32) -> Result<VectorLane> {
        let (form, first) = (self.array.form, self.array.queue_at(queue));
        let (head_at, tail_at, bytes_at) =
            (first + form.head_at(lane), first + form.lane_at(lane) + TAIL_AT, first + form.bytes_at(lane));
        Ok(VectorLane { array: self.array.clone(), head_at, tail_at, bytes_at })
    }

    fn free_to(&self, queue: u64, lane: u32, head: u64) -> Result<()> {
        let lane = self.lane(queue, lane)?;
        let freed = head.wrapping_sub(self.array.load(lane.head_at));
        if freed > lane.used() {
            let reason = "more freed than is there".to_owned();
            return Err(Error::NoQueue { region: "a vector".to_owned(), offset: self.array.at, reason });
        }
        self.array.store(lane.head_at, head);
        Ok(())
    }

    fn tell_news(&self, queue: u64) {
        let at = self.queue_at(queue) + NEWS_AT;
        self.store(at, self.load(at).wrapping_add(1));
    }

    /// Blocks are committed by their tail.
    fn settle_tail(&self, _queue: u64, _lane: u32) {}

    fn put_on_board(&self, queue: u64) {
        let at = BOARD_AT + queue / BOARD_BITS * WORD_LEN;
        self.store(at, self.load(at) | 1 << (queue % BOARD_BITS));
    }

    fn take_from_board(&self, most: usize) -> Vec<u64> {
        let bit = |queue: u64| (BOARD_AT + queue / BOARD_BITS * WORD_LEN, 1 << (queue % BOARD_BITS));
        let is_set = |queue: &u64| self.load(bit(*queue).0) & bit(*queue).1 != 0;
        let ready: Vec<u64> = (0..self.array.count).filter(is_set).take(most).collect();
        for queue in &ready {
            let (at, bit) = bit(*queue);
            self.store(at, self.load(at) & !bit);
        }
        ready
    }

    fn tell_reader(&self, _queue: u64) {}

    fn tell_writers(&self, _queue: u64) {}

    fn call_set(&self, queue: u64) {
        self.put_on_board(queue);
    }

    fn hand_over(&self, queue: u64) {
        self.store(self.queue_at(queue) + READER_BELL_AT, 0);
    }

    fn spill(&self) -> S {
        self.spill.clone()
    }
}
