//! CC': the same loops as the streams, without explicit communication. A processor loads columns where they are.
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
    pass: usize,
    column: usize,
    block: usize,
    row: usize,
    is_fetched: bool,
}

struct Run<'a> {
    machine: &'a Machine,
    plan: &'a Plan,
    /// Passes and columns of a pass that are simulated.
    passes: usize,
    columns: usize,
    begins_with_own: bool,
    engine: Engine<Event>,
    nodes: Vec<Node>,
    caches: Vec<Cache>,
    crossbar: Crossbar,
    places: Vec<Place>,
    lookups: Use,
    done: Picos,
}

/// Runs the passes of the plan.
// FEATURE: VQ-F25
pub(super) fn run(machine: &Machine, plan: &Plan, begins_with_own: bool) -> Measured {
    let count_of = plan.processors;
    let mut run = Run {
        machine,
        plan,
        passes: plan.passes,
        columns: plan.ring * plan.rounds,
        begins_with_own,
        engine: Engine::new(),
        nodes: (0..count_of).map(|_| Node::new(machine)).collect(),
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
    /// The owner of the column in a processor's ring.
    ///
    /// Columns come in the order of the streams: own first, then the one before's, so that no two processors ask one home at
    /// once. Or all begin with the same one, and ask its home together.
    fn home(&self, processor: usize, column: usize) -> usize {
        let ring = self.plan.ring;
        let first = if self.begins_with_own { processor } else { 0 };
        processor / ring * ring + (first + ring - column % ring) % ring
    }

    /// Rows of A and columns have numbers of their own in a cache.
    fn number_of_column_block(&self, processor: usize, place: Place) -> usize {
        let owner = self.home(processor, place.column) % self.plan.ring;
        let column = owner * self.plan.rows + place.column / self.plan.ring;
        (self.plan.rows + column) * self.plan.blocks + place.block
    }

    fn touch(&mut self, processor: usize, number: usize) -> bool {
        let is_hit = self.caches[processor].touch(number as u32);
        self.lookups.asked += 1;
        self.lookups.hits += u64::from(is_hit);
        is_hit
    }

    /// Goes on up to the next miss, which happens at its own time: hits before it are charged first.
    fn step(&mut self, now: Picos, processor: usize) {
        let mut at = now;
        loop {
            let place = self.places[processor];
            if place.pass == self.passes {
                self.done = self.done.max(at);
                return;
            }
            let later = |run: &mut Self| run.engine.schedule(at, Event::Step(processor as u32));
            if place.row == 0 && !place.is_fetched {
                let number = self.number_of_column_block(processor, place);
                let is_present = self.caches[processor].contains(number as u32);
                if !is_present && at > now {
                    return later(self);
                }
                self.touch(processor, number);
                self.places[processor].is_fetched = true;
                if !is_present {
                    return self.load(at, processor);
                }
            }
            let number = (place.pass * self.plan.reuse + place.row) * self.plan.blocks + place.block;
            let is_present = self.caches[processor].contains(number as u32);
            if !is_present && at > now {
                return later(self);
            }
            self.touch(processor, number);
            if !is_present {
                at = self.nodes[processor].miss(at);
            }
            at += cycles(2 * self.machine.words) + self.machine.cache_latency * 2;
            at += self.go_on(processor);
        }
    }

    /// The next row of the pass, block, column, pass; returns the time of C's stores where a column ended.
    fn go_on(&mut self, processor: usize) -> Picos {
        let place = &mut self.places[processor];
        place.row += 1;
        if place.row < self.plan.reuse {
            return Picos::ZERO;
        }
        place.row = 0;
        place.is_fetched = false;
        place.block += 1;
        if place.block < self.plan.blocks {
            return Picos::ZERO;
        }
        place.block = 0;
        place.column += 1;
        if place.column == self.columns {
            place.column = 0;
            place.pass += 1;
        }
        cycles(self.plan.reuse as u64)
    }

    fn load(&mut self, at: Picos, processor: usize) {
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
        let work = self.passes * self.plan.reuse * self.columns * self.plan.blocks * self.plan.words;
        Measured {
            cycles: count(self.done),
            efficiency: 2.0 * work as f64 / count(self.done) as f64,
            hit_ratio: self.lookups.hit_ratio(),
            memory_use: count(busy) as f64 / all,
            events: self.engine.event_count(),
            ..Measured::default()
        }
    }
}
