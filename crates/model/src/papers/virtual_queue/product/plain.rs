//! CC': the plain triple loop. A processor runs through all columns for each of its rows and loads them where they are.
use super::{Measured, Plan};
use crate::engine::Engine;
use crate::papers::virtual_queue::cache::Cache;
use crate::papers::virtual_queue::contexts::Use;
use crate::papers::virtual_queue::crossbar::Crossbar;
use crate::papers::virtual_queue::machine::{Machine, count, cycles};
use crate::papers::virtual_queue::node::Node;
use crate::time::Picos;

#[derive(Clone, Copy, Debug)]
enum Event {
    /// A processor goes on.
    Step(u32),
    /// A request for a block reaches its home.
    Request { home: u32, processor: u32 },
}

/// Where a processor is in its loops; the column's block is fetched when `is_fetched`.
#[derive(Clone, Copy, Default)]
struct Place {
    row: usize,
    column: usize,
    block: usize,
    is_fetched: bool,
}

struct Run<'a> {
    machine: &'a Machine,
    plan: &'a Plan,
    engine: Engine<Event>,
    nodes: Vec<Node>,
    caches: Vec<Cache>,
    crossbar: Crossbar,
    places: Vec<Place>,
    lookups: Use,
    done: Picos,
}

/// Runs `plan.rounds` of every processor's rows.
// FEATURE: VQ-F25
pub(super) fn run(machine: &Machine, plan: &Plan) -> Measured {
    let count_of = plan.processors;
    let mut run = Run {
        machine,
        plan,
        engine: Engine::new(),
        nodes: (0..count_of).map(|_| Node::new(machine, 0)).collect(),
        caches: (0..count_of).map(|_| Cache::new(machine.cache_blocks)).collect(),
        crossbar: Crossbar::new(machine, count_of),
        places: vec![Place::default(); count_of],
        lookups: Use::default(),
        done: Picos::ZERO,
    };
    for processor in 0..count_of as u32 {
        run.engine.schedule(Picos::ZERO, Event::Step(processor));
    }
    while let Some((now, event)) = run.engine.pop() {
        match event {
            Event::Step(processor) => run.step(now, processor as usize),
            Event::Request { home, processor } => run.answer(now, home as usize, processor as usize),
        }
    }
    run.measure()
}

impl Run<'_> {
    /// The home of a column: its owner in the processor's own ring. Processors start at their own columns, so that they do
    /// not ask one home at once.
    fn home(&self, processor: usize, column: usize) -> usize {
        let ring = self.plan.ring;
        processor / ring * ring + self.column(processor, column) / (self.plan.order / ring)
    }

    fn column(&self, processor: usize, column: usize) -> usize {
        let own = processor % self.plan.ring * (self.plan.order / self.plan.ring);
        (own + column) % self.plan.order
    }

    fn touch(&mut self, processor: usize, number: usize) -> bool {
        let is_hit = self.caches[processor].touch(number as u32);
        self.lookups.asked += 1;
        self.lookups.hits += u64::from(is_hit);
        is_hit
    }

    fn step(&mut self, now: Picos, processor: usize) {
        let mut at = now;
        loop {
            let place = self.places[processor];
            if place.row == self.plan.rounds {
                self.done = self.done.max(at);
                return;
            }
            let row_block = place.row * self.plan.blocks + place.block;
            let column_block = (self.plan.rows + self.column(processor, place.column)) * self.plan.blocks + place.block;
            if !place.is_fetched {
                // Misses happen at their own time, so hits before one are charged first.
                let is_column_present = self.caches[processor].contains(column_block as u32);
                let is_row_present = self.caches[processor].contains(row_block as u32);
                if at > now && !(is_column_present && is_row_present) {
                    return self.engine.schedule(at, Event::Step(processor as u32));
                }
                self.touch(processor, row_block);
                self.touch(processor, column_block);
                if !is_row_present {
                    at = self.nodes[processor].miss(at);
                }
                if !is_column_present {
                    return self.load(at, processor);
                }
            }
            self.places[processor].is_fetched = false;
            at += cycles(2 * self.machine.words) + self.machine.cache_latency * 2;
            at += self.go_on(processor);
        }
    }

    /// The next block; returns the time of C's store where a column ended.
    fn go_on(&mut self, processor: usize) -> Picos {
        let place = &mut self.places[processor];
        place.block += 1;
        if place.block < self.plan.blocks {
            return Picos::ZERO;
        }
        place.block = 0;
        place.column += 1;
        if place.column == self.plan.order {
            place.column = 0;
            place.row += 1;
        }
        cycles(1)
    }

    fn load(&mut self, at: Picos, processor: usize) {
        self.places[processor].is_fetched = true;
        let home = self.home(processor, self.places[processor].column);
        if home == processor {
            let end = self.nodes[processor].miss(at);
            self.engine.schedule(end, Event::Step(processor as u32));
        } else {
            let arrives = self.crossbar.word(at);
            self.engine.schedule(arrives, Event::Request { home: home as u32, processor: processor as u32 });
        }
    }

    fn answer(&mut self, now: Picos, home: usize, processor: usize) {
        let read = self.nodes[home].serve(now) + self.machine.memory_latency;
        let arrives = self.crossbar.block(read, home, processor);
        self.engine.schedule(arrives, Event::Step(processor as u32));
    }

    fn measure(&self) -> Measured {
        let busy: Picos = self.nodes.iter().map(Node::memory_busy).sum();
        let all = count(self.done) as f64 * self.plan.processors as f64;
        Measured {
            cycles: count(self.done),
            efficiency: 2.0 * (self.plan.rounds * self.plan.order * self.plan.blocks * self.plan.words) as f64
                / count(self.done) as f64,
            hit_ratio: self.lookups.hit_ratio(),
            memory_use: count(busy) as f64 / all,
            events: self.engine.event_count(),
            ..Measured::default()
        }
    }
}
