//! CC, VQ and VR: columns stream from processor to processor, each sent on right after its use.
use super::{Measured, Plan, Scheme};
use crate::engine::Engine;
use crate::papers::virtual_queue::cache::Cache;
use crate::papers::virtual_queue::contexts::Use;
use crate::papers::virtual_queue::crossbar::Crossbar;
use crate::papers::virtual_queue::machine::{CYCLE, Machine, count, cycles};
use crate::papers::virtual_queue::node::{Head, Node};
use crate::time::Picos;

/// Halves of CC's double buffer.
const HALVES: usize = 2;
/// The queue and the write port of the only stream.
const STREAM: u32 = 0;

#[derive(Clone, Copy, Debug)]
enum Event {
    /// A processor goes on.
    Step(u32),
    /// A block reaches its queue.
    Arrive(u32),
    /// An update reaches a buffer's block.
    Update(u32, u32),
    /// An update's acknowledgement reaches the producer.
    Ack(u32),
    /// The flag of a full half reaches the consumer.
    Full(u32),
    /// The lock of a free half reaches the producer.
    Free(u32),
}

/// What a processor does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Look at a block of the column.
    Block,
    /// Multiply with rows from this one on; true: its block of A was fetched.
    Rows(usize, bool),
    /// A's block of this row must come from memory.
    Fetch(usize),
    /// Hand the block on.
    Send,
    /// Wait until every update of the column is acknowledged.
    Barrier,
    /// All done.
    Done,
}

struct Processor {
    phase: Phase,
    column: usize,
    block: usize,
    is_waiting: bool,
    waited_from: Option<Picos>,
    synchronising: Picos,
    disturbed: Picos,
    lookups: Use,
    /// CC: full halves to read, free halves of the consumer, updates not acknowledged.
    full: usize,
    free: usize,
    unacked: usize,
    /// VQ, VR: a block that found no room at its consumer keeps the write buffer full.
    is_held: bool,
    /// Blocks on their way here or here.
    reserved: usize,
    done: Picos,
}

struct Run<'a> {
    machine: &'a Machine,
    plan: &'a Plan,
    scheme: Scheme,
    engine: Engine<Event>,
    nodes: Vec<Node>,
    caches: Vec<Cache>,
    processors: Vec<Processor>,
    crossbar: Crossbar,
    updates: Use,
    columns: usize,
}

pub(super) fn run(machine: &Machine, plan: &Plan, scheme: Scheme) -> Measured {
    let node = || {
        let node = Node::new(machine);
        if scheme == Scheme::Vr { node.with_vector_registers() } else { node }
    };
    let processor = || Processor {
        phase: Phase::Block,
        column: 0,
        block: 0,
        is_waiting: false,
        waited_from: None,
        synchronising: Picos::ZERO,
        disturbed: Picos::ZERO,
        lookups: Use::default(),
        full: 0,
        free: HALVES,
        unacked: 0,
        is_held: false,
        reserved: 0,
        done: Picos::ZERO,
    };
    let count = plan.processors;
    let mut run = Run {
        machine,
        plan,
        scheme,
        engine: Engine::new(),
        nodes: (0..count).map(|_| node()).collect(),
        caches: (0..count).map(|_| Cache::new(machine.cache_blocks)).collect(),
        processors: (0..count).map(|_| processor()).collect(),
        crossbar: Crossbar::new(machine, count),
        updates: Use::default(),
        columns: plan.passes * plan.rounds * plan.ring,
    };
    run.simulate();
    run.measure()
}

impl Run<'_> {
    fn simulate(&mut self) {
        for processor in 0..self.plan.processors as u32 {
            self.engine.schedule(Picos::ZERO, Event::Step(processor));
        }
        while let Some((now, event)) = self.engine.pop() {
            match event {
                Event::Step(id) => self.step(now, id as usize),
                Event::Arrive(id) => self.on_arrive(now, id as usize),
                Event::Update(id, block) => self.on_update(now, id as usize, block),
                Event::Ack(id) => {
                    self.processors[id as usize].unacked -= 1;
                    self.wake(now, id as usize);
                }
                Event::Full(id) => {
                    self.processors[id as usize].full += 1;
                    self.wake(now, id as usize);
                }
                Event::Free(id) => {
                    self.processors[id as usize].free += 1;
                    self.wake(now, id as usize);
                }
            }
        }
    }

    fn next(&self, id: usize) -> usize {
        let ring = self.plan.ring;
        id / ring * ring + (id + 1) % ring
    }

    fn previous(&self, id: usize) -> usize {
        let ring = self.plan.ring;
        id / ring * ring + (id + ring - 1) % ring
    }

    /// Whether a processor brings the column in itself, and whether it sends it on.
    fn role(&self, column: usize) -> (bool, bool) {
        let hop = column % self.plan.ring;
        (hop == 0, hop + 1 < self.plan.ring)
    }

    fn wait(&mut self, now: Picos, id: usize) {
        let processor = &mut self.processors[id];
        processor.is_waiting = true;
        processor.waited_from.get_or_insert(now);
    }

    fn wake(&mut self, now: Picos, id: usize) {
        if self.processors[id].is_waiting {
            self.processors[id].is_waiting = false;
            self.engine.schedule(now, Event::Step(id as u32));
        }
    }

    /// Ends a wait; a wait for a lock or a barrier is synchronisation, one for data is not.
    fn end_wait(&mut self, now: Picos, id: usize, is_synchronisation: bool) {
        if let Some(from) = self.processors[id].waited_from.take()
            && is_synchronisation
        {
            self.processors[id].synchronising += now - from;
        }
    }

    fn step(&mut self, now: Picos, id: usize) {
        let stolen = std::mem::take(&mut self.nodes[id].stolen);
        if stolen > Picos::ZERO && self.processors[id].phase != Phase::Done {
            self.processors[id].disturbed += stolen;
            self.engine.schedule(now + stolen, Event::Step(id as u32));
            return;
        }
        match self.processors[id].phase {
            Phase::Block => self.take_block(now, id),
            Phase::Rows(row, is_fetched) => self.multiply(now, id, row, is_fetched),
            Phase::Fetch(row) => {
                let end = self.nodes[id].miss(now);
                self.go(end, id, Phase::Rows(row, true));
            }
            Phase::Send => self.send(now, id),
            Phase::Barrier => self.barrier(now, id),
            Phase::Done => {}
        }
    }

    fn go(&mut self, at: Picos, id: usize, phase: Phase) {
        self.processors[id].phase = phase;
        self.engine.schedule(at, Event::Step(id as u32));
    }

    /// Blocks of A, of own columns, and of CC's buffer have numbers of their own in a cache.
    fn number_of_column_block(&self, column: usize, block: usize) -> u32 {
        let (round, hop) = (column / self.plan.ring % self.plan.rounds, column % self.plan.ring);
        let buffer = self.plan.rows * self.plan.blocks;
        let own = buffer + HALVES * self.plan.blocks;
        let start = if hop == 0 { own + round * self.plan.blocks } else { buffer + (column - 1) % HALVES * self.plan.blocks };
        (start + block) as u32
    }

    fn touch(&mut self, id: usize, number: u32) -> bool {
        let is_hit = self.caches[id].touch(number);
        let lookups = &mut self.processors[id].lookups;
        lookups.asked += 1;
        lookups.hits += u64::from(is_hit);
        is_hit
    }

    fn take_block(&mut self, now: Picos, id: usize) {
        let (column, block) = (self.processors[id].column, self.processors[id].block);
        let (is_own, _) = self.role(column);
        if !is_own && self.scheme != Scheme::Cc {
            match self.nodes[id].head(now, STREAM) {
                Head::Block { ready, .. } if ready <= now => {}
                Head::Block { ready, .. } => return self.engine.schedule(ready, Event::Step(id as u32)),
                Head::Empty { .. } => return self.wait(now, id),
            }
            self.end_wait(now, id, false);
            return self.go(now, id, Phase::Rows(0, false));
        }
        if !is_own && block == 0 {
            if self.processors[id].full == 0 {
                return self.wait(now, id);
            }
            self.end_wait(now, id, false);
            self.processors[id].full -= 1;
        }
        let number = self.number_of_column_block(column, block);
        let is_hit = self.touch(id, number);
        let at = if is_hit { now } else { self.nodes[id].miss(now) };
        self.go(at, id, Phase::Rows(0, false));
    }

    /// Loads of A's and the column's words for the rows, up to the first miss.
    fn multiply(&mut self, now: Picos, id: usize, first: usize, is_fetched: bool) {
        let (column, block) = (self.processors[id].column, self.processors[id].block);
        let columns_in_pass = self.plan.rounds * self.plan.ring;
        let base = column / columns_in_pass * self.plan.reuse;
        // SOURCE: [VQ §6]: one load/store unit, two loads a multiply-add.
        let loads = cycles(2 * self.machine.words) + self.machine.cache_latency * 2;
        let mut at = now;
        for row in first..self.plan.reuse {
            let number = ((base + row) * self.plan.blocks + block) as u32;
            let is_present = (row == first && is_fetched) || self.touch(id, number);
            if !is_present {
                if at > now {
                    return self.go(at, id, Phase::Fetch(row));
                }
                let end = self.nodes[id].miss(now);
                return self.go(end, id, Phase::Rows(row, true));
            }
            at += loads;
        }
        let (_, is_sent_on) = self.role(column);
        if is_sent_on {
            at += cycles(self.machine.words);
        }
        self.go(at, id, Phase::Send);
    }

    fn send(&mut self, now: Picos, id: usize) {
        let column = self.processors[id].column;
        let (is_own, is_sent_on) = self.role(column);
        if is_sent_on {
            let may_leave = if self.scheme == Scheme::Cc { self.send_update(now, id) } else { self.send_block(now, id) };
            if !may_leave {
                return self.wait(now, id);
            }
        }
        self.end_wait(now, id, self.scheme == Scheme::Cc);
        if !is_own && self.scheme != Scheme::Cc {
            self.nodes[id].dequeue(now, STREAM);
            self.make_room(now, id);
        }
        self.next_block(now, id);
    }

    /// Room for a block at this node: a held one leaves its producer.
    fn make_room(&mut self, now: Picos, id: usize) {
        self.processors[id].reserved -= 1;
        let producer = self.previous(id);
        if std::mem::take(&mut self.processors[producer].is_held) {
            self.launch(now, producer, id);
            self.wake(now, producer);
        }
    }

    fn launch(&mut self, now: Picos, from: usize, to: usize) {
        self.processors[to].reserved += 1;
        let arrives = self.crossbar.block(now, from, to);
        self.engine.schedule(arrives, Event::Arrive(to as u32));
    }

    fn send_block(&mut self, now: Picos, id: usize) -> bool {
        if self.processors[id].is_held {
            return false;
        }
        let to = self.next(id);
        let leaves = self.nodes[id].send(now, STREAM);
        if self.processors[to].reserved < self.plan.blocks {
            self.launch(leaves, id, to);
        } else {
            self.processors[id].is_held = true;
        }
        true
    }

    fn on_arrive(&mut self, now: Picos, id: usize) {
        let processor = &self.processors[id];
        let is_awaited = processor.is_waiting && processor.phase == Phase::Block;
        self.nodes[id].arrive(now, STREAM, 0, is_awaited);
        if is_awaited {
            self.wake(now, id);
        }
    }

    // FEATURE: VQ-F24
    fn send_update(&mut self, now: Picos, id: usize) -> bool {
        let (column, block) = (self.processors[id].column, self.processors[id].block);
        if block == 0 {
            if self.processors[id].free == 0 {
                return false;
            }
            self.processors[id].free -= 1;
        }
        let to = self.next(id);
        let arrives = self.crossbar.block(now, id, to);
        // The consumer is one hop on.
        let number = self.number_of_column_block(column + 1, block);
        self.processors[id].unacked += 1;
        self.engine.schedule(arrives, Event::Update(to as u32, number));
        true
    }

    fn on_update(&mut self, now: Picos, id: usize, number: u32) {
        let end = self.nodes[id].serve(now);
        self.updates.asked += 1;
        if self.caches[id].contains(number) {
            self.updates.hits += 1;
            if !self.processors[id].is_waiting {
                self.nodes[id].stolen += self.machine.cache_busy;
            }
        }
        let producer = self.previous(id);
        let arrives = self.crossbar.word(end);
        self.engine.schedule(arrives, Event::Ack(producer as u32));
    }

    fn next_block(&mut self, now: Picos, id: usize) {
        self.processors[id].block += 1;
        if self.processors[id].block < self.plan.blocks {
            self.processors[id].phase = Phase::Block;
            return self.step(now, id);
        }
        // C's elements of this column: a store each.
        let at = now + cycles(self.plan.reuse as u64);
        if self.scheme == Scheme::Cc { self.go(at, id, Phase::Barrier) } else { self.next_column(at, id) }
    }

    /// The store barrier after a column, then the flags: full to the consumer, free to the producer.
    fn barrier(&mut self, now: Picos, id: usize) {
        let (is_own, is_sent_on) = self.role(self.processors[id].column);
        if is_sent_on && self.processors[id].unacked > 0 {
            return self.wait(now, id);
        }
        self.end_wait(now, id, true);
        let mut at = now;
        if is_sent_on {
            at += CYCLE;
            self.processors[id].synchronising += CYCLE;
            let arrives = self.crossbar.word(at);
            let to = self.next(id);
            self.engine.schedule(arrives, Event::Full(to as u32));
        }
        if !is_own {
            at += CYCLE;
            self.processors[id].synchronising += CYCLE;
            let arrives = self.crossbar.word(at);
            let producer = self.previous(id);
            self.engine.schedule(arrives, Event::Free(producer as u32));
        }
        self.next_column(at, id);
    }

    fn next_column(&mut self, at: Picos, id: usize) {
        self.processors[id].block = 0;
        self.processors[id].column += 1;
        if self.processors[id].column == self.columns {
            self.processors[id].phase = Phase::Done;
            self.processors[id].done = at;
        } else {
            self.go(at, id, Phase::Block);
        }
    }

    fn measure(&self) -> Measured {
        let last = self.processors.iter().map(|processor| processor.done).max().unwrap_or_default();
        assert!(self.processors.iter().all(|processor| processor.phase == Phase::Done), "the product is stuck");
        let all = count(last) as f64 * self.plan.processors as f64;
        let share = |time: Picos| count(time) as f64 / all;
        let lookups: Use = self.processors.iter().map(|processor| processor.lookups).fold(Use::default(), |a, b| a + b);
        let counts = self.nodes.iter().map(Node::counts);
        let (arrived, bypassed, queue) =
            counts.fold((0, 0, 0), |sum, c| (sum.0 + c.arrived, sum.1 + c.bypassed, sum.2 + c.queue_accesses));
        let busy: Picos = self.nodes.iter().map(Node::memory_busy).sum();
        let accesses = busy.0 / self.machine.memory_busy.0;
        let contexts = self.nodes.iter().map(|node| node.write_ports.used() + node.rings.used() + node.read_ports.used());
        Measured {
            cycles: count(last),
            efficiency: 2.0 * self.plan.work() as f64 / count(last) as f64,
            hit_ratio: lookups.hit_ratio(),
            synchronisation: share(self.processors.iter().map(|processor| processor.synchronising).sum()),
            disturbed: share(self.processors.iter().map(|processor| processor.disturbed).sum()),
            memory_use: share(busy),
            queue_share: if accesses == 0 { 0.0 } else { queue as f64 / accesses as f64 },
            updates_cached: self.updates.hit_ratio(),
            bypassed: if arrived == 0 { 0.0 } else { bypassed as f64 / arrived as f64 },
            contexts: contexts.fold(Use::default(), |a, b| a + b),
            events: self.engine.event_count(),
        }
    }
}
