//! Every constant of the RHiNET and Fagus model, with where it is from.
//!
//! The paper prints bandwidths and no latency. One constant is fitted, the DMA set-up, to the bandwidth of Push; the
//! others are public figures of parts of that time or counts that follow from the mechanism.
use crate::parameters::{Parameter, Parameters, Source};

const PCI: &str = "PCI 2.2 timing of one burst";
const FPGA: &str = "a small state machine of the network interface's FPGA";
const WORDS: &str = "counted from the operands of the command; not printed";
const LINUX: &str = "Linux 2.2 on a Pentium III of 800 MHz";

/// The table, in the order in which it is listed.
pub fn parameters() -> Parameters {
    let groups = [pci(), interface(), link(), host(), ethernet(), fagus(), lu(), defect()];
    Parameters::new(groups.into_iter().flatten().collect())
}

fn pci() -> Vec<Parameter> {
    let clocks = (0.0, 64.0);
    vec![
        Parameter::cited("pci.clock", "rf.env.pci_clock", 10.0, 533.0, "PCI clock"),
        Parameter::cited("pci.width", "rf.env.pci_width", 8.0, 64.0, "PCI data width"),
        Parameter::chosen(
            "pci.burst",
            32.0,
            "B",
            (4.0, 4096.0),
            "one cache line of the Pentium III, at which the bridge disconnects",
            "bytes of one burst",
        ),
        Parameter::chosen("pci.arbitration", 2.0, "clocks", clocks, PCI, "request to grant"),
        Parameter::chosen("pci.address", 1.0, "clocks", clocks, PCI, "address phase"),
        Parameter::chosen(
            "pci.wait",
            9.0,
            "clocks",
            clocks,
            "within the 16 clocks a target may take for its first data",
            "first data of a burst",
        ),
        Parameter::chosen("pci.turnaround", 1.0, "clocks", clocks, PCI, "idle clock after a burst"),
        Parameter::chosen("pci.write", 6.0, "clocks", (1.0, 64.0), PCI, "one word written by the host to the interface"),
    ]
}

fn interface() -> Vec<Parameter> {
    let cycles = (0.0, 10_000.0);
    vec![
        Parameter::chosen(
            "nic.clock",
            33.0,
            "MHz",
            (1.0, 1000.0),
            "the FPGA runs with its bus",
            "clock of the network interface",
        ),
        Parameter::chosen(
            "dma.setup",
            3.66,
            "us",
            (0.0, 100.0),
            "fitted to the bandwidth of Push (rf.push_bw)",
            "setting up a DMA and waiting for its start, once a page",
        )
        .from(&["rf.push_bw"]),
        Parameter::chosen("nic.decode", 16.0, "cycles", cycles, FPGA, "taking a command or packet apart"),
        Parameter::chosen("nic.lookup", 6.0, "cycles", cycles, FPGA, "one look-up in the page table or the GID table"),
        Parameter::chosen(
            "nic.push_words",
            8.0,
            "count",
            (1.0, 64.0),
            WORDS,
            "words of a Push: operation, node, GID, offset, address, length, flags, go",
        ),
        Parameter::chosen("nic.page_words", 9.0, "count", (1.0, 64.0), WORDS, "words of a Push Page: those of Push and the line"),
        Parameter::chosen("nic.pull_words", 8.0, "count", (1.0, 64.0), WORDS, "words of a Pull"),
        Parameter::chosen(
            "nic.send_words",
            5.0,
            "count",
            (1.0, 64.0),
            WORDS,
            "words of a Send: operation, node, address, length, go",
        ),
        Parameter::cited("npc.line", "rf.npc.line", 1024.0, 65_536.0, "bytes of a line of the Network Page Cache, and of a page"),
        Parameter::cited("npc.sdram", "rf.npc.sdram", 0.0625, 4096.0, "SDRAM of the interface"),
        Parameter::chosen(
            "npc.rate",
            264.0,
            "MB/s",
            (1.0, 100_000.0),
            "64 bit SDRAM on the FPGA's clock",
            "bytes per second out of the SDRAM",
        ),
        Parameter::choice(
            "npc.use",
            &["off", "on"],
            1,
            Source::Chosen("libFagus pushes pages with NPC support [RF 3]"),
            "whether updates use the Network Page Cache",
        ),
    ]
}

fn link() -> Vec<Parameter> {
    vec![
        Parameter::chosen(
            "link.rate",
            8.0,
            "Gb/s",
            (0.01, 1000.0),
            "RHiNET-2 optical link, 8 Gb/s class",
            "signalling rate of the optical link",
        ),
        Parameter::chosen(
            "link.header",
            32.0,
            "B",
            (0.0, 1024.0),
            "not printed",
            "bytes of a packet's header, and of a Pull request",
        ),
        Parameter::chosen(
            "link.latency",
            250.0,
            "ns",
            (0.0, 1_000_000.0),
            "two optical interfaces and 10 m of fibre",
            "interface to switch to interface, fibre and optics",
        ),
        Parameter::chosen(
            "switch.latency",
            350.0,
            "ns",
            (0.0, 1_000_000.0),
            "cut through; not printed",
            "through the RHiNET-2 switch",
        ),
    ]
}

fn host() -> Vec<Parameter> {
    vec![
        Parameter::choice(
            "host.completion",
            &["polling-yield", "interrupt", "spin-park"],
            0,
            Source::Chosen("[RF 4.4]: polling, with sched_yield where the condition is not met"),
            "how a process learns of a completion on RHiNET",
        ),
        Parameter::chosen(
            "host.poll",
            0.2,
            "us",
            (0.01, 100.0),
            "a flag in host memory, written by the interface",
            "one look at a completion flag",
        ),
        Parameter::chosen("host.yield", 2.0, "us", (0.1, 1000.0), LINUX, "sched_yield and the switch to another thread"),
        Parameter::chosen("host.interrupt", 9.0, "us", (0.1, 1000.0), LINUX, "interrupt entry, handler and return"),
        Parameter::chosen("host.wake", 5.0, "us", (0.1, 1000.0), LINUX, "scheduler from the interrupt to the woken thread"),
        Parameter::chosen(
            "host.spin",
            50.0,
            "us",
            (0.0, 10_000.0),
            "some twenty looks and yields before parking",
            "how long spin-then-park spins",
        ),
        Parameter::chosen(
            "host.quantum",
            200.0,
            "ms",
            (1.0, 1000.0),
            "Linux 2.2: priority 20, ticks of 10 ms",
            "time slice of a thread that does not yield",
        ),
        Parameter::chosen(
            "host.copy",
            250.0,
            "MB/s",
            (1.0, 100_000.0),
            "memory copy of a Pentium III with PC133",
            "copying inside the host",
        ),
    ]
}

fn ethernet() -> Vec<Parameter> {
    vec![
        Parameter::cited("ethernet.rate", "rf.env.ethernet_rate", 1.0, 100_000.0, "line rate of 100BASE"),
        Parameter::chosen(
            "ethernet.payload",
            1480.0,
            "B",
            (46.0, 9000.0),
            "1500 B less the IP header",
            "IP payload of one frame",
        ),
        Parameter::chosen(
            "ethernet.frame",
            58.0,
            "B",
            (0.0, 256.0),
            "preamble 8, header 14, checksum 4, gap 12, IP 20",
            "bytes around the IP payload of one frame",
        ),
        Parameter::chosen("ethernet.udp", 8.0, "B", (0.0, 64.0), "UDP", "bytes of the UDP header, once a datagram"),
        Parameter::chosen(
            "ethernet.switch",
            12.0,
            "us",
            (0.0, 1000.0),
            "store and forward of the first bytes, and the switch's look-up",
            "switch and cables",
        ),
        Parameter::chosen("ethernet.send", 25.0, "us", (0.0, 1000.0), LINUX, "sendto, copy not counted"),
        Parameter::chosen(
            "ethernet.receive",
            35.0,
            "us",
            (0.0, 1000.0),
            LINUX,
            "interrupt, IP, wake-up and recvfrom, copy not counted",
        ),
        Parameter::chosen(
            "ethernet.buffer",
            65_535.0,
            "B",
            (4096.0, 16_777_216.0),
            "default socket buffer of Linux 2.2: more unacknowledged bytes could be dropped",
            "bytes sent before an acknowledgement is waited for",
        ),
    ]
}

fn fagus() -> Vec<Parameter> {
    vec![
        Parameter::cited("fagus.variable", "rf.coherence.var", 1.0, 4096.0, "the shared variable"),
        Parameter::chosen("fagus.message", 64.0, "B", (4.0, 4096.0), "not printed", "bytes of a control message"),
        Parameter::chosen(
            "fagus.handle",
            5.0,
            "us",
            (0.0, 1000.0),
            "some thousand instructions of a table walk and a list",
            "libFagus' own work on one message",
        ),
    ]
}

fn lu() -> Vec<Parameter> {
    vec![
        Parameter::cited("lu.order", "rf.lu.n", 8.0, 4096.0, "order of the matrix"),
        Parameter::chosen("lu.element", 8.0, "B", (4.0, 16.0), "double; the paper does not state it", "bytes of an element"),
        Parameter::chosen(
            "lu.rate",
            45.0,
            "Mflop/s",
            (1.0, 100_000.0),
            "row updates bound by memory: 16 B a multiply-add at some 350 MB/s",
            "row updates of one node",
        ),
        Parameter::choice(
            "lu.release",
            &["own-thread-first", "own-thread-last"],
            0,
            Source::Chosen("a thread that polls a count in memory sees it complete before any message leaves; not printed"),
            "when the barrier's server lets its own thread go",
        )
        .reading(),
    ]
}

fn defect() -> Vec<Parameter> {
    vec![
        Parameter::chosen(
            "lock.messages",
            10_000.0,
            "count",
            (1.0, 1_000_000.0),
            "enough to see a lock that can happen",
            "messages received in the test of the bus",
        )
        .effort(),
        Parameter::chosen(
            "lock.interval",
            200.0,
            "us",
            (1.0, 100_000.0),
            "half of the bus at 4 KB a message",
            "mean time between messages",
        ),
        Parameter::chosen("lock.read", 8.0, "clocks", (1.0, 64.0), PCI, "one word read by the host from the interface"),
        Parameter::chosen("lock.seed", 1.0, "seed", (0.0, 4_294_967_295.0), "any", "seed of the arrivals"),
    ]
}
