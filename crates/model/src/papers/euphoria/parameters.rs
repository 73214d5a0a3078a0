//! Every constant of the Euphoria model, with where it comes from.
use crate::parameters::{Parameter, Parameters, Source};

/// The parameters with the prototype's defaults.
pub fn parameters() -> Parameters {
    Parameters::new([node(), optics(), arbiter(), workloads()].concat())
}

fn node() -> Vec<Parameter> {
    vec![
        Parameter::cited("node.cpu_clock", "eu.cpu_clock", 1.0, 5000.0, "clock of the processor"),
        Parameter::cited(
            "node.memory",
            "eu.memory",
            1.0,
            4096.0,
            "main memory of a node; the directory has an entry for each block of it",
        ),
        Parameter::chosen(
            "node.count",
            3.0,
            "nodes",
            (3.0, 64.0),
            "the least with a third node that holds a block dirty",
            "nodes of the cluster",
        )
        .effort(),
        Parameter::cited("cache.block", "eu.block", 8.0, 256.0, "coherence block, and length of a burst"),
        Parameter::chosen(
            "cache.capacity",
            32.0,
            "KB",
            (1.0, 4096.0),
            "PowerPC 601: unified 32 KB",
            "capacity of the processor's cache",
        ),
        Parameter::chosen("cache.ways", 8.0, "count", (1.0, 64.0), "PowerPC 601: 8 ways, LRU", "ways of the cache"),
        Parameter::cited(
            "bus.clock",
            "eu.bus_clock",
            1.0,
            1000.0,
            "clock of the node bus, and the unit C of the equations is its cycle",
        ),
        Parameter::chosen(
            "bus.width",
            8.0,
            "B",
            (1.0, 64.0),
            "[EU §5.1]: a single transfer is 1 to 8 B",
            "bytes of one data beat",
        ),
        Parameter::cited(
            "bus.transfer",
            "eu.t1.single.write.cycles",
            1.0,
            100.0,
            "address and data tenure of one beat into the write buffer, without any wait",
        ),
        Parameter::chosen(
            "bus.address_tenure",
            7.0,
            "cycles",
            (1.0, 50.0),
            "[EU §6.3]: Twb has 21 cycles, a local burst write 14",
            "address tenure up to its acknowledgement or retry",
        )
        .from(&["eu.twb.cycles", "eu.t1.burst.write.cycles"]),
        Parameter::chosen(
            "bus.back_off",
            1.0,
            "cycles",
            (0.0, 50.0),
            "[EU Table 3]: the 25-cycle write interval with 7 cycles of tenure",
            "cycles between a retry and the next request",
        )
        .from(&["eu.t3.throughput.write"]),
        Parameter::chosen(
            "bus.next_address",
            6.0,
            "cycles",
            (1.0, 50.0),
            "[EU Table 3]: the 19-cycle read interval less the check of 13",
            "from an accepted address to the end of the next address tenure",
        )
        .from(&["eu.t3.throughput.read", "eu.t3.extra_cycles"]),
        Parameter::chosen(
            "bus.restart",
            3.0,
            "cycles",
            (0.0, 50.0),
            "[EU §6.3]: Thr and Thw less their transfers",
            "request and grant before an address",
        )
        .from(&["eu.thr.cycles", "eu.thw.cycles"]),
        Parameter::chosen(
            "memory.wait_single",
            2.0,
            "cycles",
            (0.0, 100.0),
            "[EU Table 1]: single read less single write",
            "wait for a word of the memory, hidden from writes by the write buffer",
        )
        .from(&["eu.t1.single.read.cycles", "eu.t1.single.write.cycles"]),
        Parameter::chosen(
            "memory.wait_burst",
            6.0,
            "cycles",
            (0.0, 100.0),
            "[EU Table 1]: burst read less burst write",
            "wait for a block of the memory, hidden from writes by the write buffer",
        )
        .from(&["eu.t1.burst.read.cycles", "eu.t1.burst.write.cycles"]),
        Parameter::chosen(
            "memory.recovery",
            2.0,
            "cycles",
            (0.0, 100.0),
            "precharge of memory chips of the time, about 60 ns",
            "cycles the memory stays busy after a burst",
        ),
        Parameter::cited(
            "ck.check",
            "eu.t3.extra_cycles",
            0.0,
            200.0,
            "directory check before an address is accepted; the memory's wait runs beside it",
        ),
        Parameter::chosen(
            "ck.lookup",
            1.0,
            "cycles",
            (0.0, 50.0),
            "the least step of a clocked part",
            "CK's look at a write-back of a block that is exclusive here, and its go-ahead after a check",
        ),
    ]
}

fn optics() -> Vec<Parameter> {
    let domains = Source::Chosen("[EU §6.3]: today's nodes have 25 and 33 MHz parts");
    vec![
        Parameter::choice(
            "opc.domains",
            &["one", "two"],
            1,
            domains,
            "clock domains of a node: all on the bus clock, or OPC on its own",
        ),
        Parameter::chosen(
            "opc.clock",
            25.0,
            "MHz",
            (1.0, 1000.0),
            "[EU §6.3]: the slower of 25 and 33 MHz",
            "clock of OPC where a node has two domains",
        ),
        Parameter::chosen(
            "opc.synchroniser",
            2.5,
            "cycles",
            (0.0, 20.0),
            "two flip-flops and half a period of the receiving clock",
            "cost of a crossing between two clock domains",
        ),
        Parameter::chosen(
            "opc.processing",
            202.0,
            "ns",
            (0.0, 1e5),
            "[EU Table 2]: remote read throughput of 10.7 MB/s",
            "removable processing of OPC at each of an access's four passes",
        )
        .from(&["eu.t2.throughput.read"]),
        Parameter::cited("line.distance", "eu.distance", 0.0, 1e5, "fibre between two nodes, d of the equations"),
        Parameter::cited(
            "line.arbiter_share",
            "eu.arbiter_distance_ratio",
            0.0,
            1.0,
            "fibre to the arbiter as a share of the distance between nodes",
        ),
        Parameter::cited(
            "line.carrier",
            "eu.carrier",
            10.0,
            1e5,
            "carrier of a wavelength, f of the equations; ten bits make a byte (8B/10B)",
        ),
        Parameter::cited("line.fibre_delay", "eu.fibre_delay", 0.0, 100.0, "delay of a metre of fibre"),
        Parameter::cited(
            "line.arbitration_const",
            "eu.d_arb.const",
            0.0,
            1e5,
            "arbitration line: parallel-serial conversion and optics",
        ),
        Parameter::cited("line.data_const", "eu.d_dat.const", 0.0, 1e5, "data line: parallel-serial conversion and optics"),
        Parameter::chosen(
            "line.phase",
            0.5,
            "cycles",
            (0.0, 1.0),
            "[EU §6.3]: F is about C/2",
            "mean wait for the clock edge of the receiving node",
        ),
        Parameter::cited(
            "line.setup",
            "eu.line_setup",
            0.0,
            1e7,
            "set-up of a data line (PLL lock and initialisation checks) at the paper's distance",
        ),
        Parameter::cited("line.channels", "eu.duplex_channels", 1.0, 64.0, "full-duplex channels; each is two wavelengths"),
        Parameter::cited("packet.address", "eu.p_addr", 4.0, 100.0, "address packet on the line, delimiters included"),
        Parameter::cited("packet.data", "eu.p_data", 4.0, 4096.0, "data packet of a burst on the line, delimiters included"),
        Parameter::chosen(
            "packet.control",
            9.0,
            "B",
            (4.0, 100.0),
            "not given: as long as an address packet",
            "control packet on the line",
        ),
    ]
}

fn arbiter() -> Vec<Parameter> {
    let kind = Source::Chosen("[EU §3.2.3]: the prototype's arbiter is software on an XC68040");
    let policy = Source::Chosen("[EU §3.2.3]: the prototype acts on every access; deferring is the authors' later protocol");
    let organisation = Source::Chosen("not given");
    vec![
        Parameter::choice(
            "arbiter.kind",
            &["software", "hardware"],
            0,
            kind,
            "what decides: a program, or logic on the arbiter's bus clock",
        ),
        Parameter::cited("arbiter.arbitration", "eu.arbitration_time", 0.0, 1e7, "wavelength arbitration in software"),
        Parameter::chosen(
            "arbiter.step",
            25_506.0,
            "ns",
            (0.0, 1e7),
            "as long as the wavelength arbitration, the only step measured [EU §5.1.3]",
            "every other step of the software: one packet taken in and acted on",
        )
        .from(&["eu.arbitration_time"]),
        Parameter::cited("arbiter.clock", "eu.arbiter_bus", 1.0, 1000.0, "clock of the arbiter's bus"),
        Parameter::chosen(
            "arbiter.hardware_step",
            13.0,
            "cycles",
            (1.0, 100.0),
            "one single read of memory on a 33 MHz bus [EU Table 1]",
            "a step of the arbiter in hardware",
        )
        .from(&["eu.t1.single.read.cycles"]),
        Parameter::switch(
            "arbiter.write_end",
            false,
            Source::Chosen("the paper names a read-end notice only"),
            "whether the end of a remote write costs the arbiter a step",
        )
        .reading(),
        Parameter::switch(
            "arbiter.is_overlapped",
            false,
            Source::Chosen("the equations do not tell"),
            "whether the access goes ahead while the arbiter checks its coherence, and waits at its end",
        )
        .reading(),
        overtaking(),
        Parameter::cited("icc.capacity", "eu.icc", 0.0001, 4096.0, "memory of the arbiter's directory cache ICC"),
        Parameter::chosen("icc.entry", 8.0, "B", (1.0, 64.0), "not given: presence bits and an owner", "bytes of an ICC entry"),
        Parameter::choice(
            "icc.organisation",
            &["lru", "direct"],
            0,
            organisation,
            "fully associative with LRU, or direct-mapped",
        ),
        Parameter::choice(
            "coherence.policy",
            &["immediate", "deferred"],
            0,
            policy,
            "whether a store to a shared block waits for its invalidations, or merges them until the next synchronisation",
        ),
    ]
}

/// SOURCE: [EU §5.3]
fn overtaking() -> Parameter {
    Parameter::choice(
        "opc.overtaking",
        &["once a store", "never"],
        0,
        Source::Chosen("the text says that it happens, not how often"),
        "how often a load goes ahead of a store that waits for its line",
    )
    .reading()
}

fn workloads() -> Vec<Parameter> {
    vec![
        Parameter::cited("copy.size", "eu.t4.copy", 1.0, 1024.0, "bytes of one copy"),
        Parameter::cited("copy.times", "eu.t4.times", 1.0, 1e6, "number of copies the time is given for"),
        Parameter::chosen(
            "copy.simulated",
            4.0,
            "count",
            (1.0, 1000.0),
            "each copy after the first eight repeats",
            "copies simulated; the time is scaled to copy.times",
        )
        .effort(),
        Parameter::chosen(
            "copy.loop",
            8.0,
            "cycles",
            (0.0, 1000.0),
            "four 8-byte loads and stores, one a cycle",
            "processor cycles of the copy loop for a block",
        ),
        Parameter::chosen(
            "sort.keys",
            16_384.0,
            "count",
            (16.0, 4_194_304.0),
            "enough to overflow the cache in one half; the paper's size is not given",
            "4-byte keys to sort",
        ),
        Parameter::chosen(
            "sort.compare",
            10.0,
            "cycles",
            (1.0, 1000.0),
            "a loop of five instructions with a branch on the PowerPC 601",
            "processor cycles for each key looked at",
        ),
        Parameter::chosen(
            "defer.blocks",
            16.0,
            "count",
            (1.0, 4096.0),
            "not given",
            "blocks two nodes share in the comparison of coherence policies",
        ),
        Parameter::chosen(
            "defer.rounds",
            4.0,
            "count",
            (1.0, 1000.0),
            "not given",
            "synchronisations in the comparison of coherence policies",
        ),
        Parameter::chosen("seed", 1.0, "seed", (0.0, 1e9), "any", "seed of the keys to sort"),
    ]
}
