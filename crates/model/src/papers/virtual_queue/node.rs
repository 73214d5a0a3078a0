//! A node's three units around its memory: write port, ring buffer, read port, with their context caches.
//!
//! ```text
//! store of the last byte ──> write port ──> network ──> ring buffer ──> main memory ──> read port ──> loads
//!                                                            └──(reader waits: bypass)──────^
//! ```
//!
//! Contexts live in save areas in memory; a miss fetches one and may write another back. Management data are in the ring
//! buffer's cache or in the read port's, and the read port's copy wins.
use std::collections::BTreeMap;

use super::contexts::{ContextCache, Found};
use super::machine::Machine;
use super::queue::{Held, Queue};
use crate::station::Station;
use crate::time::Picos;

/// What the head of a queue is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Head {
    /// A block, readable from this time on.
    Block {
        /// Its number.
        seq: u64,
        /// Readable from.
        ready: Picos,
    },
    /// No block.
    Empty {
        /// When the reader knows.
        known: Picos,
    },
}

/// Counts of a node's units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Blocks that arrived.
    pub arrived: u64,
    /// Blocks that went past main memory.
    pub bypassed: u64,
    /// Accesses to main memory for queues.
    pub queue_accesses: u64,
    /// Overflow interrupts.
    pub interrupts: u64,
    /// Blocks saved elsewhere.
    pub spilled: u64,
}

/// The state of every queue that has none of its own.
static EMPTY: Queue = Queue::new();

/// Queues that keep their state while they are empty.
const EMPTY_KEPT: usize = 64;

/// One node's memory and units.
pub struct Node {
    machine: Machine,
    memory: Station,
    /// The queues' own memory port, where the machine has one.
    queue_memory: Station,
    ring_cache: Station,
    /// Contexts of write ports, by port.
    pub write_ports: ContextCache,
    /// Contexts of ring buffers, by queue.
    pub rings: ContextCache,
    /// Contexts of read ports, by queue.
    pub read_ports: ContextCache,
    /// Queues that have, or lately had, a block; all others are empty and cost nothing.
    queues: BTreeMap<u32, Queue>,
    has_ring_memory: bool,
    /// Blocks an overflow's handler brings back at a time.
    restored_at_once: usize,
    /// Time the units took from the cache's port, not yet charged to the processor.
    pub stolen: Picos,
    counts: Counts,
}

impl Node {
    /// A node whose queues are all empty: as many as there are numbers.
    pub fn new(machine: &Machine) -> Node {
        Node {
            memory: Station::new(),
            queue_memory: Station::new(),
            ring_cache: Station::new(),
            write_ports: ContextCache::full(machine.write_entries),
            rings: ContextCache::new(machine.ring_entries, machine.ring_ways),
            read_ports: ContextCache::full(machine.read_entries),
            queues: BTreeMap::new(),
            has_ring_memory: true,
            restored_at_once: usize::MAX,
            stolen: Picos::ZERO,
            counts: Counts::default(),
            machine: machine.clone(),
        }
    }

    /// The same node with vector registers that take whole streams in place of buffers and memory.
    // FEATURE: VQ-F26
    pub fn with_vector_registers(self) -> Node {
        Node { has_ring_memory: false, ..self }
    }

    /// The same node with an overflow handler that brings at most this many saved blocks back at a time.
    pub fn restoring(self, blocks: usize) -> Node {
        Node { restored_at_once: blocks.max(1), ..self }
    }

    /// A processor's miss: the time at which its block is in the cache. It meets none of the units, only the same memory.
    pub fn miss(&mut self, now: Picos) -> Picos {
        self.memory.take(now, self.machine.memory_busy).end
            + self.machine.memory_latency.max(self.machine.miss() - self.machine.memory_busy)
    }

    /// A block of another node's access or update through the memory; returns when it has passed.
    pub fn serve(&mut self, now: Picos) -> Picos {
        self.memory.take(now, self.machine.memory_busy).end
    }

    fn state(&mut self, queue: u32) -> &mut Queue {
        self.queues.entry(queue).or_default()
    }

    /// Drops the state of a queue that has become empty, unless few have any: those are likely to be used again.
    fn forget(&mut self, queue: u32) {
        if self.queues.len() > EMPTY_KEPT && self.queue(queue).is_empty() {
            self.queues.remove(&queue);
        }
    }

    fn queue_access(&mut self, now: Picos) -> Picos {
        self.counts.queue_accesses += 1;
        let memory = if self.machine.is_memory_split { &mut self.queue_memory } else { &mut self.memory };
        memory.take(now, self.machine.memory_busy).end
    }

    /// A context from its save area, after the one it drives out.
    fn fetch_context(&mut self, now: Picos, victim: Option<u32>) -> Picos {
        let free = if victim.is_some() { self.queue_access(now) } else { now };
        self.queue_access(free) + self.machine.memory_latency
    }

    /// The block of a write port is complete; returns when it may leave.
    // FEATURE: VQ-F8
    pub fn send(&mut self, now: Picos, port: u32) -> Picos {
        if self.machine.are_units_in_cache {
            self.stolen += self.machine.cache_busy;
        }
        match self.write_ports.access(port) {
            Found::Hit => now,
            // A half-built block is part of the context and goes with it.
            Found::Miss(victim) => self.fetch_context(now, victim),
        }
    }

    /// A block arrives for a queue; `is_awaited` says that the processor waits for this queue.
    // FEATURE: VQ-F9 VQ-F12 VQ-F13
    pub fn arrive(&mut self, now: Picos, queue: u32, seq: u64, is_awaited: bool) {
        self.counts.arrived += 1;
        if !self.has_ring_memory {
            self.state(queue).shown.push_back(Held { seq, ready: now, is_bypassed: true });
            return;
        }
        // Both caches are looked at; the read port's copy is the valid one and the other is dropped.
        let mut at = self.ring_cache.take(now, self.machine.ring_access).end;
        if self.read_ports.holds(queue) {
            self.rings.invalidate(queue);
        } else if let Found::Miss(victim) = self.rings.access(queue) {
            at = self.fetch_context(at, victim);
        }
        let state = self.queue(queue);
        if is_awaited && state.ring.is_empty() && state.shown.len() < self.machine.frames && self.read_ports.holds(queue) {
            self.counts.bypassed += 1;
            self.charge_buffer();
            self.state(queue).shown.push_back(Held { seq, ready: at, is_bypassed: true });
            return;
        }
        let ready = self.queue_access(at);
        self.state(queue).ring.push_back(Held { seq, ready, is_bypassed: false });
        self.prefetch(at, queue);
    }

    /// Buffers in the cache take its port for every block.
    // FEATURE: VQ-F28
    fn charge_buffer(&mut self) {
        if self.machine.are_units_in_cache {
            self.stolen += self.machine.cache_busy;
        }
    }

    /// Fills the read buffer from the ring buffer, where the read port is on the chip.
    // FEATURE: VQ-F10
    fn prefetch(&mut self, now: Picos, queue: u32) {
        while self.read_ports.holds(queue) && self.queue(queue).shown.len() < self.machine.frames {
            let Some(next) = self.queues.get_mut(&queue).and_then(|state| state.ring.pop_front()) else { return };
            let ready = self.queue_access(now.max(next.ready)) + self.machine.memory_latency;
            self.charge_buffer();
            self.state(queue).shown.push_back(Held { ready, ..next });
        }
    }

    /// Brings a queue's read port onto the chip; returns when its context is there.
    fn open_read_port(&mut self, now: Picos, queue: u32) -> Picos {
        let Found::Miss(victim) = self.read_ports.access(queue) else { return now };
        let mut at = self.fetch_context(now, victim);
        if let Some(victim) = victim {
            // Shown blocks are copies of the ring buffer, but bypassed ones are nowhere else.
            let shown: Vec<Held> = self.state(victim).shown.drain(..).collect();
            for held in shown.into_iter().rev() {
                if held.is_bypassed {
                    at = self.queue_access(at);
                }
                self.state(victim).ring.push_front(Held { is_bypassed: false, ..held });
            }
        }
        self.prefetch(at, queue);
        at
    }

    /// A load from the read port, or a read-or-null command: the head, or that there is none.
    // FEATURE: VQ-F7 VQ-F18
    pub fn head(&mut self, now: Picos, queue: u32) -> Head {
        let known = if self.has_ring_memory { self.open_read_port(now, queue) } else { now };
        if self.queue(queue).shown.is_empty() {
            // An overflow may have taken the shown blocks back.
            self.prefetch(known, queue);
        }
        match self.queue(queue).shown.front() {
            Some(held) => Head::Block { seq: held.seq, ready: held.ready.max(known) },
            None => Head::Empty { known },
        }
    }

    /// The program has finished the head: it is dequeued, and the freed frame shows the next block.
    ///
    /// Returns the time an interrupt took to bring spilled blocks back, if this was their moment.
    pub fn dequeue(&mut self, now: Picos, queue: u32) -> Picos {
        self.state(queue).shown.pop_front();
        let restored = self.pass_trigger(now, queue);
        self.prefetch(now + restored, queue);
        self.forget(queue);
        restored
    }

    /// The count command: blocks in a queue, as the management data say.
    // FEATURE: VQ-F17
    pub fn block_count(&self, queue: u32) -> usize {
        self.queue(queue).len()
    }

    /// The first queue from this number on, then from 0 on, that has blocks.
    pub fn next_with_blocks(&self, from: u32) -> Option<u32> {
        let mut later = self.queues.range(from..).chain(self.queues.range(..from));
        later.find(|(_, state)| !state.is_empty()).map(|(queue, _)| *queue)
    }

    /// The state of a queue.
    pub fn queue(&self, queue: u32) -> &Queue {
        self.queues.get(&queue).unwrap_or(&EMPTY)
    }

    /// Counts so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The time the memory was busy.
    pub fn memory_busy(&self) -> Picos {
        self.memory.busy()
    }

    /// Steps 1 and 2 of an overflow: save the later half of the ring buffer elsewhere and set the read-pointer interrupt.
    ///
    /// Returns the processor's time. Where blocks are saved already the later ones join them at once.
    // FEATURE: VQ-F20
    pub fn spill(&mut self, now: Picos, queue: u32) -> Picos {
        self.counts.interrupts += 1;
        let state = self.state(queue);
        let is_after_saved = state.trigger.is_some_and(|left| state.len() > left);
        let kept = state.kept_by_spill();
        // Shown blocks are the ring buffer's first ones; those beyond the trigger go with the saved ones.
        let later = state.shown.split_off(kept.min(state.shown.len()));
        later.into_iter().rev().for_each(|held| state.ring.push_front(held));
        let mut saved = state.ring.split_off((kept - state.shown.len()).min(state.ring.len()));
        let moved = saved.len() as u64;
        if is_after_saved {
            state.spilled.append(&mut saved);
        } else if moved > 0 {
            saved.append(&mut state.spilled);
            state.spilled = saved;
            state.trigger = Some(kept);
        }
        self.counts.spilled += moved;
        let mut at = now + self.machine.interrupt;
        for _ in 0..2 * moved {
            at = self.queue_access(at);
        }
        at - now
    }

    /// Steps 3 and 4: the read pointer arrived; saved blocks come back, and those that came later go behind them.
    fn pass_trigger(&mut self, now: Picos, queue: u32) -> Picos {
        let restored_at_once = self.restored_at_once;
        let state = self.state(queue);
        let Some(left) = &mut state.trigger else { return Picos::ZERO };
        *left -= 1;
        if *left > 0 {
            return Picos::ZERO;
        }
        let mut ring = std::mem::take(&mut state.spilled);
        let restored = ring.len().min(restored_at_once);
        // Where saved blocks remain, the later ones are saved behind them.
        let remains = restored < ring.len();
        let later = if remains { state.len() } else { 0 };
        // Blocks that came later may be shown already.
        ring.extend(state.shown.drain(..));
        ring.append(&mut state.ring);
        if remains {
            state.spilled = ring.split_off(restored);
        }
        state.trigger = if state.spilled.is_empty() { None } else { Some(restored) };
        state.ring = ring;
        self.counts.interrupts += 1;
        self.counts.spilled += later as u64;
        let mut at = now + self.machine.interrupt;
        for _ in 0..2 * (restored + later) {
            at = self.queue_access(at);
        }
        at - now
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::papers::virtual_queue::machine::cycles;
    use crate::papers::virtual_queue::parameters;

    fn node() -> Node {
        Node::new(&Machine::new(&parameters().with("read_port.entries", 2.0)))
    }

    fn read(node: &mut Node, queue: u32) -> Vec<u64> {
        let mut seen = Vec::new();
        let mut now = cycles(1_000_000);
        while let Head::Block { seq, ready } = node.head(now, queue) {
            seen.push(seq);
            now = now.max(ready);
            node.dequeue(now, queue);
        }
        seen
    }

    #[test]
    fn a_waiting_reader_gets_its_block_past_memory() {
        let mut node = node();
        assert!(matches!(node.head(Picos::ZERO, 0), Head::Empty { .. }));
        let before = node.counts().queue_accesses;
        node.arrive(cycles(100), 0, 5, true);
        assert_eq!((node.counts().bypassed, node.counts().queue_accesses), (1, before));
        assert_eq!(node.head(cycles(100), 0), Head::Block { seq: 5, ready: cycles(104) });
    }

    #[test]
    fn blocks_keep_their_order_through_evictions_of_the_read_port() {
        let mut node = node();
        node.head(Picos::ZERO, 0);
        for seq in 0..6 {
            node.arrive(cycles(100 * seq), 0, seq, seq % 2 == 0);
        }
        node.head(cycles(1_000), 1);
        node.head(cycles(1_100), 2);
        assert!(!node.read_ports.holds(0));
        assert_eq!(node.block_count(0), 6);
        assert_eq!(read(&mut node, 0), (0..6).collect::<Vec<_>>());
    }

    #[test]
    fn spilled_blocks_come_back_in_order() {
        for spill_after in [4, 7, 9] {
            let mut node = node().restoring(spill_after as usize - 2);
            let mut seen = Vec::new();
            for seq in 0..30_u64 {
                node.arrive(cycles(100 * seq), 0, seq, false);
                if seq % spill_after == spill_after - 1 {
                    node.spill(cycles(100 * seq), 0);
                }
                if seq % 3 == 0
                    && let Head::Block { seq, .. } = node.head(cycles(100 * seq + 50), 0)
                {
                    seen.push(seq);
                    node.dequeue(cycles(100 * seq + 50), 0);
                }
            }
            seen.extend(read(&mut node, 0));
            assert_eq!(seen, (0..30).collect::<Vec<_>>(), "spilled every {spill_after}");
        }
    }

    /// A slow ring buffer's cache holds up blocks, and a processor's miss that comes after them is served before them. The one
    /// memory serves in the order of its requests, so a block that is in it goes first.
    // FEATURE: VQ-F21
    #[test]
    fn an_ordinary_access_passes_the_units_and_waits_for_the_memory_alone() {
        let slow = parameters().with("ring.access", 1000.0);
        let miss = |parameters: &crate::parameters::Parameters, blocks: u64| {
            let mut node = Node::new(&Machine::new(parameters));
            // Contexts are on the chip from here on.
            node.head(Picos::ZERO, 0);
            (0..blocks).for_each(|seq| node.arrive(cycles(500), 0, seq, true));
            node.miss(cycles(501)) - cycles(501)
        };
        let idle = miss(&slow, 0);
        assert_eq!(miss(&slow, 2), idle, "two blocks on their way into the read buffer delay no miss");
        let in_memory = miss(&parameters(), 6);
        assert!(in_memory > idle, "blocks that are written to the one memory do");
        assert_eq!(miss(&parameters().with("memory.is_split", 1.0), 6), idle, "with a port of their own they do not");
    }

    #[test]
    fn the_read_ports_copy_of_the_management_data_wins() {
        let mut node = node();
        node.arrive(Picos::ZERO, 0, 0, false);
        assert!(node.rings.holds(0) && !node.read_ports.holds(0));
        node.head(cycles(50), 0);
        node.arrive(cycles(100), 0, 1, false);
        assert!(!node.rings.holds(0) && node.read_ports.holds(0));
    }
}
