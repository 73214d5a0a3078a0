//! Irregular fine-grain traffic, which the authors left as future work: many streams, blocks to anywhere.
//!
//! Each processor works for a while, sends one block to some queue of some processor, and reads one block where one of its
//! own queues has any. A block without room waits in the network for the grace period; then the receiver is interrupted
//! and makes room by the paper's four steps.
use std::collections::{BTreeMap, VecDeque};

use super::contexts::Use;
use super::crossbar::Crossbar;
use super::machine::{CYCLE, Machine, count, cycles};
use super::node::{Counts, Head, Node};
use crate::engine::Engine;
use crate::parameters::Parameters;
use crate::time::Picos;

/// The program's shape.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Processors.
    pub processors: usize,
    /// Messages each sends.
    pub messages: usize,
    /// Queues each reads.
    pub streams: usize,
    /// Work between messages.
    pub work: Picos,
    /// Share of messages that follow the last one's stream.
    pub locality: f64,
    /// Blocks of a ring buffer.
    pub capacity: usize,
    /// Time the program takes over a block it has read.
    pub reading: Picos,
    /// Every message goes to processor 0.
    pub is_hot: bool,
    /// Seed of the targets.
    pub seed: u64,
}

impl Shape {
    /// The shape of the parameters.
    pub fn new(p: &Parameters) -> Shape {
        Shape {
            processors: p.count("traffic.processors") as usize,
            messages: p.count("traffic.messages") as usize,
            streams: p.count("traffic.streams") as usize,
            work: cycles(p.count("traffic.work")),
            locality: p.get("traffic.locality") / 100.0,
            capacity: p.count("traffic.capacity") as usize,
            reading: Picos::ZERO,
            is_hot: false,
            seed: p.count("seed"),
        }
    }
}

/// What a run measured.
#[derive(Clone, Debug, Default)]
pub struct Measured {
    /// Cycles until everybody was done.
    pub cycles: u64,
    /// Processor cycles to send a block, stalls for contexts included.
    pub send: f64,
    /// Processor cycles to find and read a block, stalls for contexts and memory included.
    pub receive: f64,
    /// Use of the write ports', ring buffers' and read ports' context caches.
    pub contexts: [Use; 3],
    /// Blocks that found no room at once.
    pub held: u64,
    /// Sums of the nodes' counts.
    pub counts: Counts,
    /// Whether every stream's blocks were read in the order of their sending.
    pub is_in_order: bool,
}

#[derive(Clone, Copy)]
enum Event {
    Step(usize),
    Arrive(Block),
    Grace { to: usize, queue: u32, room_made: u64 },
}

#[derive(Clone, Copy)]
struct Block {
    from: usize,
    to: usize,
    queue: u32,
    seq: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Work,
    Send,
    Look,
    Read { queue: u32 },
    Load { queue: u32, seq: u64 },
    Done,
}

struct Processor {
    phase: Phase,
    targets: Vec<(usize, u32)>,
    next: usize,
    expected: usize,
    received: usize,
    looked_at: usize,
    last_queue: u32,
    is_waiting: bool,
    is_held: bool,
    interrupted_until: Picos,
    sending: Picos,
    receiving: Picos,
    done: Picos,
}

/// A queue as its producers see it.
#[derive(Default)]
struct Room {
    /// Blocks on their way.
    in_flight: usize,
    held: VecDeque<Block>,
    room_made: u64,
    /// A grace period runs.
    has_timer: bool,
}

struct Run<'a> {
    machine: &'a Machine,
    shape: &'a Shape,
    engine: Engine<Event>,
    nodes: Vec<Node>,
    /// Queues that have blocks on their way or held, by reader and number; all others have room and cost nothing.
    rooms: BTreeMap<(u32, u32), Room>,
    /// Last number read, by reader, queue and sender: those that have read any. 30 B for each.
    last_read: BTreeMap<(u32, u32, u32), u64>,
    processors: Vec<Processor>,
    crossbar: Crossbar,
    held: u64,
    is_in_order: bool,
}

/// Numbers carry their sender in the low part, so that the reader can check each sender's order.
const SENDERS: u64 = 1 << 12;

/// Runs the program.
// FEATURE: VQ-F5 VQ-F30
pub fn run(machine: &Machine, shape: &Shape) -> Measured {
    let mut state = shape.seed;
    let mut draw = |below: u64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % below
    };
    let mut expected = vec![0; shape.processors];
    let mut targets = Vec::new();
    for from in 0..shape.processors {
        let mut last: Option<(usize, u32)> = None;
        let list: Vec<(usize, u32)> = (0..if shape.is_hot && from == 0 { 0 } else { shape.messages })
            .map(|_| {
                let fresh = || (draw(shape.processors as u64 - 1) as usize, draw(shape.streams as u64) as u32, draw(1_000));
                let (other, queue, chance) = { fresh }();
                let other = if shape.is_hot { 0 } else { (from + 1 + other) % shape.processors };
                let target = last.filter(|_| (chance as f64) < shape.locality * 1e3).unwrap_or((other, queue));
                last = Some(target);
                expected[target.0] += 1;
                target
            })
            .collect();
        targets.push(list);
    }
    let processors = targets.into_iter().zip(&expected).map(|(targets, expected)| Processor {
        phase: Phase::Work,
        targets,
        next: 0,
        expected: *expected,
        received: 0,
        looked_at: 0,
        last_queue: 0,
        is_waiting: false,
        is_held: false,
        interrupted_until: Picos::ZERO,
        sending: Picos::ZERO,
        receiving: Picos::ZERO,
        done: Picos::ZERO,
    });
    let mut run = Run {
        machine,
        shape,
        engine: Engine::new(),
        nodes: (0..shape.processors).map(|_| Node::new(machine).restoring(shape.capacity / 2)).collect(),
        rooms: BTreeMap::new(),
        last_read: BTreeMap::new(),
        processors: processors.collect(),
        crossbar: Crossbar::new(machine, shape.processors),
        held: 0,
        is_in_order: true,
    };
    run.simulate();
    run.measure()
}

impl Run<'_> {
    fn simulate(&mut self) {
        for id in 0..self.shape.processors {
            self.engine.schedule(Picos::ZERO, Event::Step(id));
        }
        // Far more than any program needs: a run that does not end is a defect that must be seen.
        let limit = 2_000 * (self.shape.processors * (self.shape.messages + 100)) as u64;
        while let Some((now, event)) = self.engine.pop() {
            assert!(self.engine.event_count() < limit, "the program makes no progress at {now}");
            match event {
                Event::Step(id) => self.step(now, id),
                Event::Arrive(block) => self.on_arrive(now, block),
                Event::Grace { to, queue, room_made } => self.on_grace(now, to, queue, room_made),
            }
        }
    }

    fn go(&mut self, at: Picos, id: usize, phase: Phase) {
        self.processors[id].phase = phase;
        self.engine.schedule(at, Event::Step(id));
    }

    fn wake(&mut self, now: Picos, id: usize) {
        if std::mem::take(&mut self.processors[id].is_waiting) {
            self.engine.schedule(now, Event::Step(id));
        }
    }

    fn step(&mut self, now: Picos, id: usize) {
        let interrupted_until = self.processors[id].interrupted_until;
        if now < interrupted_until {
            return self.engine.schedule(interrupted_until, Event::Step(id));
        }
        let stolen = std::mem::take(&mut self.nodes[id].stolen);
        if stolen > Picos::ZERO && self.processors[id].phase != Phase::Done {
            self.processors[id].receiving += stolen;
            return self.engine.schedule(now + stolen, Event::Step(id));
        }
        match self.processors[id].phase {
            Phase::Work if self.processors[id].next < self.processors[id].targets.len() => {
                self.go(now + self.shape.work, id, Phase::Send);
            }
            Phase::Work => self.go(now, id, Phase::Look),
            Phase::Send => self.send(now, id),
            Phase::Look => self.look(now, id),
            Phase::Read { queue } => self.read(now, id, queue),
            Phase::Load { queue, seq } => self.load(now, id, queue, seq),
            Phase::Done => {}
        }
    }

    /// Four stores; the last one hands the block to the network.
    fn send(&mut self, now: Picos, id: usize) {
        if self.processors[id].is_held {
            self.processors[id].is_waiting = true;
            return;
        }
        let (to, queue) = self.processors[id].targets[self.processors[id].next];
        self.processors[id].next += 1;
        let stored = now + cycles(self.machine.words);
        let port = (to * self.shape.streams) as u32 + queue;
        let leaves = self.nodes[id].send(stored, port);
        // The store of the last byte waits for its port's context.
        self.processors[id].sending += leaves - now;
        let seq = self.processors[id].next as u64 * SENDERS + id as u64;
        let block = Block { from: id, to, queue, seq };
        let has_room = self.has_room(to, queue);
        let is_first = self.rooms.get(&(to as u32, queue)).is_none_or(|room| room.held.is_empty());
        if has_room && is_first {
            self.launch(leaves, block);
        } else {
            let room = self.room(to, queue);
            room.held.push_back(block);
            let room_made = room.room_made;
            let needs_timer = !std::mem::replace(&mut room.has_timer, true);
            self.held += 1;
            self.processors[id].is_held = true;
            if needs_timer {
                self.engine.schedule(leaves + self.machine.grace, Event::Grace { to, queue, room_made });
            }
        }
        self.go(leaves, id, Phase::Look);
    }

    fn room(&mut self, to: usize, queue: u32) -> &mut Room {
        self.rooms.entry((to as u32, queue)).or_default()
    }

    /// Drops what is known of a queue that has nothing on its way, nothing held and no timer.
    fn forget(&mut self, to: usize, queue: u32) {
        let is_idle = |room: &Room| room.in_flight == 0 && room.held.is_empty() && !room.has_timer;
        if self.rooms.get(&(to as u32, queue)).is_some_and(is_idle) {
            self.rooms.remove(&(to as u32, queue));
        }
    }

    fn has_room(&self, to: usize, queue: u32) -> bool {
        let in_flight = self.rooms.get(&(to as u32, queue)).map_or(0, |room| room.in_flight);
        in_flight + self.nodes[to].block_count(queue) < self.shape.capacity
    }

    fn launch(&mut self, now: Picos, block: Block) {
        self.room(block.to, block.queue).in_flight += 1;
        let arrives = self.crossbar.block(now, block.from, block.to);
        self.engine.schedule(arrives, Event::Arrive(block));
    }

    fn on_arrive(&mut self, now: Picos, block: Block) {
        self.room(block.to, block.queue).in_flight -= 1;
        self.forget(block.to, block.queue);
        let reader = &self.processors[block.to];
        let is_awaited = reader.is_waiting && reader.phase == Phase::Look && reader.last_queue == block.queue;
        self.nodes[block.to].arrive(now, block.queue, block.seq, is_awaited);
        if self.processors[block.to].phase == Phase::Look {
            self.wake(now, block.to);
        }
    }

    /// Held blocks go on as far as there is room.
    fn fill_room(&mut self, now: Picos, to: usize, queue: u32) {
        while self.has_room(to, queue) {
            let Some(room) = self.rooms.get_mut(&(to as u32, queue)) else { return };
            let Some(block) = room.held.pop_front() else { return };
            room.room_made += 1;
            self.launch(now, block);
            self.processors[block.from].is_held = false;
            if matches!(self.processors[block.from].phase, Phase::Send | Phase::Look) {
                self.wake(now, block.from);
            }
        }
    }

    /// The grace period is over: without any room meanwhile, the receiver is interrupted.
    // FEATURE: VQ-F20
    fn on_grace(&mut self, now: Picos, to: usize, queue: u32, room_made: u64) {
        let room = self.room(to, queue);
        if room.held.is_empty() {
            room.has_timer = false;
            self.forget(to, queue);
            return;
        }
        let made = room.room_made;
        let free_at = self.processors[to].interrupted_until;
        let again = free_at.max(now) + self.machine.grace.max(CYCLE);
        if made > room_made || free_at > now || !self.nodes[to].queue(queue).may_spill() {
            // The reader gets on, or is interrupted already, or the blocks that have the room are still on their way.
            return self.engine.schedule(again, Event::Grace { to, queue, room_made: made });
        }
        let spent = self.nodes[to].spill(now, queue);
        self.processors[to].receiving += spent;
        self.processors[to].interrupted_until = now + spent;
        self.fill_room(now + spent, to, queue);
        let room_made = self.room(to, queue).room_made;
        self.engine.schedule(now + spent + self.machine.grace.max(CYCLE), Event::Grace { to, queue, room_made });
    }

    /// Looks for a queue with blocks: one load of the count command for the thread that runs.
    fn look(&mut self, now: Picos, id: usize) {
        let found = self.nodes[id].next_with_blocks(self.processors[id].looked_at as u32);
        let is_done_sending = self.processors[id].next == self.processors[id].targets.len();
        match found {
            Some(queue) => {
                self.processors[id].looked_at = queue as usize;
                self.processors[id].receiving += CYCLE;
                self.go(now + CYCLE, id, Phase::Read { queue });
            }
            None if !is_done_sending => {
                self.processors[id].receiving += CYCLE;
                self.go(now + CYCLE, id, Phase::Work);
            }
            None if self.processors[id].received == self.processors[id].expected && !self.processors[id].is_held => {
                self.processors[id].phase = Phase::Done;
                self.processors[id].done = now;
            }
            None => self.processors[id].is_waiting = true,
        }
    }

    fn read(&mut self, now: Picos, id: usize, queue: u32) {
        let (seq, ready) = match self.nodes[id].head(now, queue) {
            Head::Block { seq, ready } => (seq, ready),
            Head::Empty { known } => return self.go(known + CYCLE, id, Phase::Look),
        };
        self.processors[id].receiving += ready.since(now);
        self.go(ready.max(now), id, Phase::Load { queue, seq });
    }

    /// Four loads; then the program moves on and the head is dequeued.
    fn load(&mut self, now: Picos, id: usize, queue: u32, seq: u64) {
        let loaded = now + cycles(self.machine.words);
        let restored = self.nodes[id].dequeue(loaded, queue);
        self.processors[id].receiving += loaded + restored - now;
        self.processors[id].received += 1;
        self.processors[id].last_queue = queue;
        self.processors[id].looked_at = (queue as usize + 1) % self.shape.streams;
        let last = self.last_read.entry((id as u32, queue, (seq % SENDERS) as u32)).or_default();
        self.is_in_order &= *last < seq;
        *last = seq;
        self.fill_room(loaded, id, queue);
        self.go(loaded + restored + self.shape.reading, id, Phase::Work);
    }

    fn measure(&self) -> Measured {
        let total: usize = self.processors.iter().map(|processor| processor.received).sum();
        assert!(self.processors.iter().all(|processor| processor.phase == Phase::Done), "the program is stuck");
        let mean = |times: Picos| count(times) as f64 / total as f64;
        let used = |pick: fn(&Node) -> Use| self.nodes.iter().map(pick).fold(Use::default(), |a, b| a + b);
        let counts = self.nodes.iter().map(Node::counts).fold(Counts::default(), |sum, c| Counts {
            arrived: sum.arrived + c.arrived,
            bypassed: sum.bypassed + c.bypassed,
            queue_accesses: sum.queue_accesses + c.queue_accesses,
            interrupts: sum.interrupts + c.interrupts,
            spilled: sum.spilled + c.spilled,
        });
        Measured {
            cycles: count(self.processors.iter().map(|processor| processor.done).max().unwrap_or_default()),
            send: mean(self.processors.iter().map(|processor| processor.sending).sum()),
            receive: mean(self.processors.iter().map(|processor| processor.receiving).sum()),
            contexts: [used(|n| n.write_ports.used()), used(|n| n.rings.used()), used(|n| n.read_ports.used())],
            held: self.held,
            counts,
            is_in_order: self.is_in_order,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::papers::virtual_queue::parameters;

    #[test]
    fn every_block_is_read_in_its_senders_order_whatever_the_room() {
        for (seed, capacity, streams, is_hot) in
            [(1, 63, 4, false), (2, 4, 2, false), (3, 2, 40, false), (4, 4, 1, true), (5, 8, 3, true)]
        {
            println!("seed {seed}");
            let reading = cycles(if is_hot { 300 } else { 0 });
            let base = Shape::new(&parameters());
            let shape = Shape { capacity, streams, is_hot, reading, seed, work: Picos::ZERO, messages: 200, ..base };
            let measured = run(&Machine::new(&parameters()), &shape);
            let sent = 200 * (shape.processors - usize::from(is_hot)) as u64;
            assert_eq!((measured.counts.arrived, measured.is_in_order), (sent, true), "seed {seed}");
            assert!(!is_hot || measured.counts.spilled > 0, "seed {seed} never overflowed");
        }
    }

    #[test]
    fn few_streams_hit_their_contexts_and_many_do_not() {
        let of = |streams| {
            let shape = Shape { streams, processors: 4, locality: 0.0, ..Shape::new(&parameters()) };
            run(&Machine::new(&parameters()), &shape).contexts.map(Use::hit_ratio)
        };
        let (few, many) = (of(2), of(256));
        assert!(few[0] > 0.95 && few[2] > 0.95, "{few:?}");
        assert!(many[0] < 0.6 && many[2] < 0.6, "{many:?}");
    }
}
