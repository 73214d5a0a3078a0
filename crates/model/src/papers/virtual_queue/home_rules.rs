//! Overflow at a slow reader under the product's rules: the home of `protocol::queue` decides, this paper's machine gives the times.
//!
//! | | the paper | the product |
//! |---|---|---|
//! | a ring is | one queue's, for all its writers | one writer's: a lane |
//! | a block without room | waits in the network for the grace, then the receiver saves the later half of the ring | is spilled by the home, behind those of its lane |
//! | saved blocks come back | all, when the read pointer reaches them: an interrupt | one by one, as the reader frees |
//!
//! Memory is charged as in the paper's node: an access for a block that is written, two for one that comes back. The home is
//! software, and its own time is not charged.
use std::collections::VecDeque;

use hanare_protocol::queue::{Home, NoSpill, Overflow, PortId, QueueForm, Ring, Store, Unit};

use super::crossbar::Crossbar;
use super::machine::{CYCLE, Machine, count};
use super::traffic::Shape;
use crate::engine::Engine;
use crate::station::Station;
use crate::time::Picos;

/// A lane's memory.
#[derive(Default)]
struct LaneMemory {
    units: VecDeque<Vec<u8>>,
    depth: usize,
}

impl Ring for LaneMemory {
    fn push(&mut self, unit: &[u8]) -> hanare_protocol::Result<bool> {
        let has_room = self.units.len() < self.depth;
        if has_room {
            self.units.push_back(unit.to_vec());
        }
        Ok(has_room)
    }
}

/// Spilled blocks of a lane: as many as come.
#[derive(Default)]
struct SpilledBlocks(VecDeque<Vec<u8>>);

impl Store for SpilledBlocks {
    fn push(&mut self, unit: &[u8], _: u32) -> Result<(), NoSpill> {
        self.0.push_back(unit.to_vec());
        Ok(())
    }

    fn front(&mut self) -> Option<&[u8]> {
        self.0.front().map(Vec::as_slice)
    }

    fn pop(&mut self) {
        self.0.pop_front();
    }

    fn count(&self) -> u64 {
        self.0.len() as u64
    }
}

/// One queue at its home.
pub struct HomedQueue {
    home: Home<SpilledBlocks>,
    lanes: Vec<LaneMemory>,
    sent: Vec<u64>,
    /// The lane that the reader looks at next.
    next: usize,
    /// Blocks that were spilled, and those that came back.
    pub spilled: u64,
    /// Blocks that came back.
    pub refilled: u64,
}

impl HomedQueue {
    /// A queue of so many writers whose lanes hold so many blocks; a form that the product refuses panics.
    pub fn new(writers: usize, depth: usize) -> HomedQueue {
        let form =
            QueueForm { unit: Unit::Blocks { len: 32 }, depth: depth as u32, ports: writers as u32, overflow: Overflow::Spill };
        form.check().expect("a form of the product");
        let mut home = Home::new("hot".to_string(), form);
        for writer in 0..writers {
            let (lane, _) = home.open_lane(0, PortId(writer as u64 + 1), 0).expect("a lane for each writer");
            assert_eq!(lane as usize, writer);
        }
        let lanes = (0..writers).map(|_| LaneMemory { units: VecDeque::new(), depth }).collect();
        HomedQueue { home, lanes, sent: vec![0; writers], next: 0, spilled: 0, refilled: 0 }
    }

    /// A writer's next block arrives; whether it was spilled.
    pub fn arrive(&mut self, writer: usize) -> bool {
        let seq = self.sent[writer];
        let unit = seq.to_le_bytes();
        let before = self.home.spilled(0, writer as u32);
        let at = ((0, writer as u32), (PortId(writer as u64 + 1), seq));
        let appended = self.home.append(at.0, at.1, std::iter::once(&unit[..]), &mut self.lanes[writer], SpilledBlocks::default);
        let appended = appended.expect("an open lane");
        assert_eq!((appended.accepted, appended.refused), (seq + 1, None));
        self.sent[writer] += 1;
        self.spilled += appended.spilled - before;
        appended.spilled > before
    }

    /// The reader takes the next block, from the lanes in turn, and frees it; its writer, its number, and how many came back then.
    pub fn read(&mut self) -> Option<(usize, u64, u64)> {
        let count = self.lanes.len();
        let writer = (0..count).map(|step| (self.next + step) % count).find(|lane| !self.lanes[*lane].units.is_empty())?;
        self.next = (writer + 1) % count;
        let unit = self.lanes[writer].units.pop_front()?;
        let before = self.home.spilled(0, writer as u32);
        let left = self.home.refill(0, writer as u32, &mut self.lanes[writer]).expect("a ring of ours");
        self.refilled += before - left;
        let number = unit.try_into().map_or(u64::MAX, u64::from_le_bytes);
        Some((writer, number, before - left))
    }
}

/// What a run came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HotRun {
    /// Cycles until the last block was read.
    pub cycles: u64,
    /// Blocks that were spilled.
    pub spilled: u64,
    /// Blocks that came back.
    pub refilled: u64,
    /// Whether each writer's blocks were read in the order of their sending.
    pub is_in_order: bool,
}

enum Event {
    Arrive(usize),
    Read,
}

/// Every processor but the first sends its messages to the first as fast as the network takes them; each lane has its part of
/// the shape's capacity.
pub fn run(machine: &Machine, shape: &Shape) -> HotRun {
    let writers = shape.processors - 1;
    let mut queue = HomedQueue::new(writers, (shape.capacity / writers).max(1));
    let (mut crossbar, mut memory, mut engine) = (Crossbar::new(machine, shape.processors), Station::new(), Engine::new());
    for turn in 0..shape.messages {
        for writer in 0..writers {
            let arrives = crossbar.block(CYCLE * turn as u64, writer + 1, 0);
            engine.schedule(arrives, Event::Arrive(writer));
        }
    }
    let total = (writers * shape.messages) as u64;
    let (mut read, mut expected, mut is_in_order, mut is_idle) = (0, vec![0; writers], true, true);
    while let Some((now, event)) = engine.pop() {
        match event {
            Event::Arrive(writer) => {
                queue.arrive(writer);
                let written = memory.take(now, machine.memory_busy).end;
                if std::mem::take(&mut is_idle) {
                    engine.schedule(written, Event::Read);
                }
            }
            Event::Read => {
                let Some((writer, number, refilled)) = queue.read() else {
                    is_idle = true;
                    continue;
                };
                is_in_order &= number == expected[writer];
                expected[writer] = number + 1;
                read += 1;
                let mut at = memory.take(now, machine.memory_busy).end + machine.memory_latency;
                for _ in 0..2 * refilled {
                    at = memory.take(at, machine.memory_busy).end;
                }
                engine.schedule(at + shape.reading, Event::Read);
            }
        }
    }
    assert_eq!(read, total, "a block was lost");
    let cycles = count(engine.now().max(Picos::ZERO));
    HotRun { cycles, spilled: queue.spilled, refilled: queue.refilled, is_in_order }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::papers::virtual_queue::parameters;

    /// The counts of the product's own test, `what_finds_no_room_is_refused_or_spilled_and_comes_back_in_order`.
    #[test]
    fn counts_are_those_that_the_products_tests_assert() {
        let mut queue = HomedQueue::new(1, 2);
        let spilled: Vec<bool> = (0..4).map(|_| queue.arrive(0)).collect();
        assert_eq!((spilled, queue.spilled), (vec![false, false, true, true], 2));
        assert_eq!(queue.read().map(|read| read.1), Some(0));
        assert!(!queue.arrive(0) || queue.home.spilled(0, 0) > 0);
        let mut rest = Vec::new();
        while let Some((_, number, _)) = queue.read() {
            rest.push(number);
        }
        assert_eq!(rest, [1, 2, 3, 4]);
        assert_eq!(queue.refilled, queue.spilled);
    }

    #[test]
    fn a_hot_reader_gets_every_block_in_its_writers_order() {
        let (machine, base) = (Machine::new(&parameters()), Shape::new(&parameters()));
        for capacity in [16, 63, 127] {
            let shape = Shape { capacity, messages: 50, reading: CYCLE * 300, ..base.clone() };
            let ran = run(&machine, &shape);
            assert!(ran.is_in_order && ran.spilled > 0 && ran.spilled == ran.refilled, "{ran:?}");
        }
    }
}
