//! The parameters of one run as cycle counts.
use crate::parameters::Parameters;
use crate::time::Picos;

/// A cycle on the event queue; the paper counts cycles and names no clock, so charts show one as a nanosecond.
pub const CYCLE: Picos = Picos::ns(1);

/// A count of cycles as time.
pub fn cycles(count: u64) -> Picos {
    CYCLE * count
}

/// A time as cycles, rounded down.
pub fn count(time: Picos) -> u64 {
    time.0 / CYCLE.0
}

/// Cycle counts and sizes of one run; immutable.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Words of a block.
    pub words: u64,
    /// Blocks of the cache.
    pub cache_blocks: usize,
    /// A block through the memory.
    pub memory_busy: Picos,
    /// From a memory access to its first word.
    pub memory_latency: Picos,
    /// A block through a port of the crossbar.
    pub port_busy: Picos,
    /// A word through a port of the crossbar.
    pub word_busy: Picos,
    /// Through the crossbar.
    pub network_latency: Picos,
    /// A block through the cache's port.
    pub cache_busy: Picos,
    /// Beyond the loads of a block that hits.
    pub cache_latency: Picos,
    /// Entries of the write port's context cache.
    pub write_entries: usize,
    /// Entries of the ring buffer's context cache.
    pub ring_entries: usize,
    /// Ways of the ring buffer's context cache.
    pub ring_ways: usize,
    /// An access to the ring buffer's context cache.
    pub ring_access: Picos,
    /// Entries of the read port's context cache.
    pub read_entries: usize,
    /// Blocks a read port shows.
    pub frames: usize,
    /// Whether queue traffic has a memory port of its own.
    pub is_memory_split: bool,
    /// Whether the buffers are in the cache.
    pub are_units_in_cache: bool,
    /// Wait before an overflow interrupt.
    pub grace: Picos,
    /// An overflow interrupt.
    pub interrupt: Picos,
}

impl Machine {
    /// Reads the parameters once.
    pub fn new(p: &Parameters) -> Machine {
        let span = |key: &str| cycles(p.count(key));
        Machine {
            write_entries: p.count("write_port.entries") as usize,
            ring_entries: p.count("ring.entries") as usize,
            ring_ways: p.count("ring.ways") as usize,
            ring_access: span("ring.access"),
            read_entries: p.count("read_port.entries") as usize,
            frames: p.count("read_port.frames") as usize,
            is_memory_split: p.is_on("memory.is_split"),
            are_units_in_cache: p.is_on("units.are_in_cache"),
            grace: span("queue.grace"),
            interrupt: span("queue.interrupt"),
            ..Machine::without_units(p)
        }
    }

    /// A node of shared memory alone: its units are the smallest there are, and nothing of them is read.
    pub fn without_units(p: &Parameters) -> Machine {
        let block = p.bytes("cache.block");
        let words = block / 8;
        let through = |key: &str, words: u64| cycles((words as f64 / p.get(key)).ceil() as u64);
        let span = |key: &str| cycles(p.count(key));
        Machine {
            words,
            cache_blocks: (p.bytes("cache.capacity") / block) as usize,
            memory_busy: through("memory.bandwidth", words),
            memory_latency: span("memory.latency"),
            port_busy: through("network.bandwidth", words),
            word_busy: through("network.bandwidth", 1),
            network_latency: span("network.latency"),
            cache_busy: through("cache.bandwidth", words),
            cache_latency: span("cache.latency"),
            write_entries: 1,
            ring_entries: 1,
            ring_ways: 1,
            ring_access: CYCLE,
            read_entries: 1,
            frames: 2,
            is_memory_split: false,
            are_units_in_cache: false,
            grace: Picos::ZERO,
            interrupt: Picos::ZERO,
        }
    }

    /// A miss to an idle memory: latency, and the fill through the cache's port.
    pub fn miss(&self) -> Picos {
        self.memory_latency + self.memory_busy.max(self.cache_busy)
    }
}
