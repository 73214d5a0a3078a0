//! Every constant of the Virtual Queue model, with where it comes from.
use crate::parameters::{Parameter, Parameters, Source};

/// The parameters with the paper's defaults.
pub fn parameters() -> Parameters {
    Parameters::new([machine(), units(), programs()].concat())
}

fn machine() -> Vec<Parameter> {
    vec![
        Parameter::cited("cache.capacity", "vq.t1.cache.capacity", 1.0, 65_536.0, "cache of a node, fully associative with LRU"),
        Parameter::cited("cache.block", "vq.t1.cache.block", 8.0, 256.0, "block of the caches and of the queues"),
        Parameter::cited(
            "cache.bandwidth",
            "vq.t1.cache.bandwidth",
            1.0,
            1.0,
            "words of 8 B through the cache's port; a fill and an update take it from the processor",
        ),
        Parameter::cited("cache.latency", "vq.t1.cache.latency", 0.0, 100.0, "cycles a hit costs beyond its load"),
        Parameter::cited("memory.bandwidth", "vq.t1.memory.bandwidth", 0.125, 8.0, "words a cycle of a node's memory"),
        Parameter::cited("memory.latency", "vq.t1.memory.latency", 0.0, 1000.0, "cycles from an access to its first word"),
        Parameter::cited("network.bandwidth", "vq.t1.network.bandwidth", 0.125, 8.0, "words a cycle of a crossbar port"),
        Parameter::cited("network.latency", "vq.t1.network.latency", 0.0, 10_000.0, "cycles through the crossbar"),
        Parameter::cited(
            "node.load_store_units",
            "vq.load_store_units",
            1.0,
            1.0,
            "loads and stores a cycle of the superscalar, which has no other limit",
        ),
        Parameter::switch(
            "memory.is_split",
            false,
            Source::Chosen("the paper's node has one memory"),
            "whether queue traffic has a memory port of its own, which ends contention with misses",
        ),
    ]
}

fn units() -> Vec<Parameter> {
    let variant = Source::Chosen("[VQ §4]: the base case has no on-chip first-level cache");
    vec![
        Parameter::chosen(
            "write_port.entries",
            16.0,
            "entries",
            (1.0, 64.0),
            "[VQ Fig 5]: 4 to 16",
            "contexts of the write port's cache, fully associative",
        )
        .from(&["vq.fig5.write_port.entries"]),
        Parameter::chosen(
            "ring.entries",
            1024.0,
            "entries",
            (1.0, 65_536.0),
            "[VQ Fig 5]: 1K to 64K",
            "contexts of the ring buffer's cache",
        )
        .from(&["vq.fig5.ring.entries"]),
        Parameter::chosen("ring.ways", 4.0, "count", (1.0, 4.0), "[VQ Fig 5]: 1 to 4", "ways of the ring buffer's cache")
            .from(&["vq.fig5.ring.assoc"]),
        Parameter::chosen(
            "ring.access",
            4.0,
            "cycles",
            (1.0, 1000.0),
            "main-memory cycle time [VQ §4.3]",
            "cycles of an access to the ring buffer's cache",
        ),
        Parameter::chosen(
            "read_port.entries",
            16.0,
            "entries",
            (1.0, 64.0),
            "[VQ Fig 5]: 4 to 16",
            "contexts of the read port's cache, fully associative",
        )
        .from(&["vq.fig5.read_port.entries"]),
        Parameter::cited("read_port.frames", "vq.ports.read_frames", 2.0, 2.0, "blocks a read port shows"),
        Parameter::switch(
            "units.are_in_cache",
            false,
            variant,
            "whether the on-chip cache serves as write and read buffer, so that blocks pass its port",
        ),
        Parameter::chosen(
            "queue.grace",
            100.0,
            "cycles",
            (0.0, 1e6),
            "[VQ §5]: a fraction of the handling cost",
            "how long a block without room waits before the receiver is interrupted",
        )
        .from(&["vq.grace"]),
        Parameter::chosen(
            "queue.interrupt",
            400.0,
            "cycles",
            (0.0, 1e6),
            "an interrupt's entry, exit and handler of the time",
            "cost of an overflow interrupt at the receiver, without the blocks it moves",
        ),
    ]
}

fn programs() -> Vec<Parameter> {
    vec![
        Parameter::cited("matrix.order", "vq.matrix", 16.0, 256.0, "rows and columns of the matrices"),
        Parameter::cited("matrix.buffer_rows", "vq.buffer_rows", 1.0, 1.0, "rows a scheme buffers for a stream"),
        Parameter::chosen(
            "product.processors",
            64.0,
            "processors",
            (1.0, 1024.0),
            "the paper's counts are lost with figure 6",
            "largest processor count of the product",
        )
        .effort(),
        Parameter::chosen(
            "product.rounds",
            1.0,
            "count",
            (1.0, 256.0),
            "quick; 256 runs the whole product",
            "rounds simulated: in a round each column a processor brings in passes all",
        )
        .effort_to(256.0),
        Parameter::choice(
            "product.order",
            super::product::ORDER_NAMES,
            0,
            Source::Chosen("\"a simple program\" [VQ §5.3]; each streamed column then passes once"),
            "rows of A that a block of a column meets before the next block, in every scheme",
        )
        .reading(),
        Parameter::choice(
            "plain.first",
            super::product::FIRST_NAMES,
            0,
            Source::Chosen("not given; the streams of the other schemes begin so"),
            "the column that a processor of CC' begins with: its own, or the one that all others begin with",
        )
        .reading(),
        Parameter::chosen(
            "scale.order",
            128.0,
            "count",
            (64.0, 256.0),
            "quick; 256 is the paper's order",
            "rows of the matrices where more processors than rows are tried",
        )
        .effort(),
        Parameter::chosen(
            "overflow.reading",
            300.0,
            "cycles",
            (0.0, 1e6),
            "longer than the grace period, so that the reader cannot keep up",
            "time the reader of the overflow experiment takes over a block",
        ),
        Parameter::chosen("users.turns", 400.0, "count", (16.0, 1e6), "quick", "turns of the processes that share a processor")
            .effort(),
        Parameter::chosen("users.blocks", 8.0, "count", (1.0, 64.0), "not given", "blocks a process sends and reads in a turn"),
        Parameter::chosen(
            "traffic.processors",
            16.0,
            "processors",
            (2.0, 256.0),
            "not given: the authors' future work",
            "processors of the irregular program",
        ),
        Parameter::chosen("traffic.messages", 500.0, "count", (1.0, 1e6), "quick", "messages each processor sends").effort(),
        Parameter::chosen("traffic.streams", 16.0, "count", (1.0, 4096.0), "not given", "queues each processor reads"),
        Parameter::chosen(
            "traffic.work",
            50.0,
            "cycles",
            (0.0, 1e6),
            "not given: fine grain",
            "cycles of work between two messages",
        ),
        Parameter::chosen(
            "traffic.locality",
            50.0,
            "%",
            (0.0, 100.0),
            "not given",
            "share of messages that go where the last one went",
        ),
        Parameter::chosen(
            "traffic.capacity",
            63.0,
            "count",
            (2.0, 127.0),
            "half of a 4 KB page of 32 B frames",
            "blocks of a ring buffer in the irregular program",
        ),
        Parameter::chosen(
            "baseline.lock",
            200.0,
            "cycles",
            (1.0, 1e6),
            "[VQ §2.1]: hundreds of cycles",
            "a message by shared memory with a remote lock",
        )
        .from(&["vq.remote_latency"]),
        Parameter::chosen(
            "baseline.call",
            1000.0,
            "cycles",
            (1.0, 1e6),
            "[VQ §2.1]: hundreds to thousands of cycles",
            "a message by a system call",
        )
        .from(&["vq.sw_overhead"]),
        Parameter::chosen("seed", 1.0, "seed", (0.0, 1e9), "any", "seed of the irregular program"),
    ]
}
