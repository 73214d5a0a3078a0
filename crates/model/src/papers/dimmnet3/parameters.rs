//! Every constant of the DIMMnet-3 model, with where it is from.
//!
//! The paper prints sizes, clocks and rates, and no latency; latencies are public figures of parts of that time, and the
//! interface's pipeline is fitted to one public measurement (see `nic.command`), never to a claim of the paper.
use super::boards;
use crate::parameters::{Parameter, Parameters, Source};

const NO_OPTIMISATION: &str = "32-bit moves: the test was compiled by gcc 3.3.6 with -Wall only [D3 Table 4]";
const FRONT_SIDE_BUS: &str = "100 MHz quad-pumped front side bus, request and response phases of some ten bus clocks";
const FITTED: &str = "fitted to the public minimum one-way time of 0.632 us (d3.public.d2_min_oneway)";
const DATA_SHEET: &str = "data sheets of PC1600 DDR SDRAM and DDR2-533";

/// The table, in the order in which it is listed.
pub fn parameters() -> Parameters {
    let groups = [
        message(),
        host(),
        board(),
        memory(),
        network(),
        serial(),
        cell(),
        rdma(),
        descriptors(),
        halo(),
        servers(),
        workloads(),
    ];
    Parameters::new(groups.into_iter().flatten().collect())
}

fn message() -> Vec<Parameter> {
    vec![
        Parameter::cited("message.header", "d3.header", 8.0, 64.0, "packet header the host writes for BOTF"),
        Parameter::cited("message.envelope", "d3.envelope", 8.0, 64.0, "MPI envelope: rank, context, tag"),
        Parameter::chosen(
            "lhc.body_min",
            8.0,
            "B",
            (1.0, 64.0),
            "one word of the module's bus; the prototype cannot send 0 B [D3 6.1.4]",
            "fewest body bytes of an LHC message",
        )
        .from(&["d3.lhc_size_min"]),
        Parameter::chosen(
            "pingpong.rounds",
            16.0,
            "count",
            (1.0, 1000.0),
            "enough that the phase of the polling averages out",
            "round trips of one measurement",
        )
        .effort(),
    ]
}

fn host() -> Vec<Parameter> {
    vec![
        Parameter::choice(
            "host.interface",
            boards::INTERFACE_NAMES,
            0,
            Source::Fact("d3.t1.d2.speed"),
            "host interface of Table 1",
        ),
        Parameter::cited("host.cpu_clock", "d3.env.cpu_clock", 0.1, 10.0, "processor clock"),
        Parameter::chosen("host.access", 4.0, "B", (4.0, 64.0), NO_OPTIMISATION, "bytes of one uncached load or store")
            .from(&["d3.env.compiler"]),
        Parameter::chosen("host.request", 50.0, "ns", (5.0, 1000.0), FRONT_SIDE_BUS, "processor to chipset"),
        Parameter::chosen(
            "host.chipset",
            20.0,
            "ns",
            (1.0, 500.0),
            "two clocks of a 100 MHz north bridge",
            "through the chipset, each way",
        ),
        Parameter::chosen("host.response", 40.0, "ns", (5.0, 1000.0), FRONT_SIDE_BUS, "chipset to register"),
        Parameter::chosen(
            "host.answer",
            4.5,
            "clocks",
            (2.0, 20.0),
            "RAS to CAS 2 and CAS latency 2.5, which the board must keep as a module",
            "the board answers a load, in clocks of the host interface",
        ),
        Parameter::chosen(
            "host.store",
            30.0,
            "ns",
            (5.0, 1000.0),
            "three front side bus clocks for a posted write",
            "from one uncached store to the next",
        ),
        Parameter::chosen(
            "host.fence",
            40.0,
            "ns",
            (0.0, 1000.0),
            "about 100 cycles of a store fence on the Pentium 4",
            "draining the write-combining buffers",
        ),
        Parameter::chosen(
            "host.wc_line",
            64.0,
            "B",
            (16.0, 256.0),
            "write-combining buffer of the Pentium 4",
            "bytes of a write-combining buffer",
        ),
        Parameter::choice(
            "host.window_attribute",
            &["uncached", "write-combining"],
            1,
            Source::Chosen("the intended attribute; the boards ran uncached for a fault of the hardware [D2 §6.2]"),
            "attribute of the Write Window",
        )
        .reading(),
        Parameter::choice(
            "host.read_attribute",
            &["uncached", "cached"],
            0,
            Source::Chosen("a polled window must not be cached; the drivers paper intends it cached [D2 §3]"),
            "attribute of the Prefetch Window",
        )
        .reading(),
        Parameter::chosen(
            "host.line_flush",
            100.0,
            "ns",
            (0.0, 1000.0),
            "cache line flush on the Pentium 4, some 250 cycles",
            "dropping one cached line before it is read again",
        ),
        Parameter::chosen(
            "host.poll_loop",
            20.0,
            "cycles",
            (0.0, 10_000.0),
            "test and branch, not optimised",
            "one turn of a polling loop beside its load",
        ),
        Parameter::chosen(
            "host.matching",
            60.0,
            "cycles",
            (0.0, 10_000.0),
            "three compares, not optimised",
            "comparing rank, context and tag",
        ),
        Parameter::cited("host.line", "d3.p4_line", 16.0, 1024.0, "effective cache line of the Pentium 4"),
        Parameter::chosen(
            "host.memory_latency",
            150.0,
            "ns",
            (10.0, 2000.0),
            "lmbench on Pentium 4 with DDR200",
            "a cache miss to main memory",
        ),
        Parameter::chosen("host.memory_rate", 1.6, "GB/s", (0.1, 100.0), "PC1600: 100 MHz x 2 x 8 B", "main memory bandwidth"),
        Parameter::chosen(
            "host.tlb_entries",
            64.0,
            "entries",
            (1.0, 65_536.0),
            "data TLB of the Pentium 4",
            "pages the TLB holds",
        ),
        Parameter::chosen(
            "host.tlb_walk",
            60.0,
            "ns",
            (0.0, 2000.0),
            "a page table entry that is often in the L2 cache",
            "a TLB miss",
        ),
    ]
}

fn board() -> Vec<Parameter> {
    let pipeline = (1.0, 1000.0);
    vec![
        Parameter::choice(
            "board.kind",
            &["dimmnet2", "dimmnet3"],
            0,
            Source::Fact("d3.env.dimmnet2_clock"),
            "the board: the measured prototype or its successor",
        ),
        Parameter::choice(
            "board.module",
            boards::MODULE_NAMES,
            4,
            Source::Fact("d3.t2.d3.dimm_reg"),
            "memory module of Table 2 on DIMMnet-3",
        ),
        Parameter::chosen(
            "board.registered_dimm",
            8.0,
            "GB",
            (1.0, 8.0),
            "the largest of the printed range 1 to 8 GB [D3 Table 2]",
            "capacity of a registered DDR2-DIMM",
        )
        .from(&["d3.t2.d3.dimm_reg"]),
        Parameter::choice("board.form", boards::FORM_NAMES, 1, Source::Fact("d3.backend_forms"), "form of the Backend"),
        Parameter::chosen(
            "board.backends",
            1.0,
            "count",
            (1.0, 16.0),
            "several Backends may be attached to one host [D3 4.2]",
            "Backends of one host",
        ),
        Parameter::cited("nic.clock", "d3.env.dimmnet2_clock", 10.0, 2000.0, "clock of the network interface"),
        Parameter::chosen("nic.command", 2.0, "cycles", pipeline, FITTED, "taking a command apart")
            .from(&["d3.public.d2_min_oneway"]),
        Parameter::chosen("nic.packetise", 4.0, "cycles", pipeline, FITTED, "making a packet of window and memory contents")
            .from(&["d3.public.d2_min_oneway"]),
        Parameter::chosen("nic.receive", 4.0, "cycles", pipeline, FITTED, "taking a packet apart")
            .from(&["d3.public.d2_min_oneway"]),
        Parameter::chosen("nic.onchip", 1.0, "cycles", pipeline, "block memory of an FPGA", "one access to an on-chip memory"),
        Parameter::cited("nic.window", "d3.window_limit", 64.0, 65_536.0, "bytes of the Write Window and of the Prefetch Window"),
        Parameter::chosen(
            "nic.windows",
            4.0,
            "count",
            (1.0, 64.0),
            "not in the paper",
            "Write Windows the host may fill before it waits",
        ),
        Parameter::chosen(
            "nic.lh_entry",
            64.0,
            "B",
            (32.0, 4096.0),
            "48 B of data and 16 B of envelope part [D3 §6.1]; not printed",
            "bytes of an LH buffer entry",
        )
        .from(&["d3.lh_entry"]),
        Parameter::cited(
            "nic.envelope_part",
            "d3.lhs_envelope_part",
            8.0,
            64.0,
            "bytes the host reads for the envelope from an LH buffer entry",
        ),
        Parameter::chosen(
            "nic.status",
            16.0,
            "B",
            (8.0, 64.0),
            "size and address, 8 B each; not printed",
            "bytes of a packet-reception status",
        ),
        Parameter::chosen("nic.botf_command", 8.0, "B", (4.0, 64.0), "window and length; not printed", "bytes of a BOTF command"),
        Parameter::chosen(
            "nic.vector_command",
            16.0,
            "B",
            (4.0, 64.0),
            "address, length, stride, window; not printed",
            "bytes of a vector command",
        ),
        Parameter::chosen(
            "nic.lhc_command",
            24.0,
            "B",
            (4.0, 64.0),
            "header fields, address, lengths; not printed",
            "bytes of an LHC command",
        ),
    ]
}

fn memory() -> Vec<Parameter> {
    let active = (1.0, 64.0);
    vec![
        Parameter::chosen("memory.row_open", 20.0, "ns", (1.0, 200.0), DATA_SHEET, "opening a row"),
        Parameter::chosen("memory.column", 25.0, "ns", (1.0, 200.0), DATA_SHEET, "column command to first data"),
        Parameter::chosen(
            "memory.row_cycle",
            70.0,
            "ns",
            (1.0, 500.0),
            DATA_SHEET,
            "opening a row to opening the next of the bank",
        ),
        Parameter::chosen(
            "memory.controller",
            4.0,
            "clocks",
            (0.0, 100.0),
            "queue, address, command and capture registers",
            "the controller's own clocks of the module",
        ),
        Parameter::chosen(
            "memory.interleave",
            64.0,
            "B",
            (8.0, 65_536.0),
            "one burst of eight words",
            "consecutive bytes on one bank",
        ),
        Parameter::chosen(
            "memory.banks2",
            4.0,
            "count",
            (1.0, 64.0),
            "banks of a DDR chip",
            "banks behind a channel of DIMMnet-2",
        ),
        Parameter::chosen(
            "memory.active2",
            1.0,
            "count",
            active,
            "DIMMnet-2 has no multi-bank operation [D3 4.1.2]",
            "banks DIMMnet-2 activates in parallel",
        ),
        Parameter::chosen(
            "memory.banks3",
            8.0,
            "count",
            (1.0, 64.0),
            "banks of a 1 Gb DDR2 chip",
            "banks behind a channel of DIMMnet-3",
        ),
        Parameter::chosen(
            "memory.active3",
            8.0,
            "count",
            active,
            "many more banks in parallel [D3 4.1.2]",
            "banks DIMMnet-3 activates in parallel",
        ),
        Parameter::chosen(
            "memory.channels3",
            3.0,
            "count",
            (1.0, 16.0),
            "12.8 GB/s is three channels of DDR2-533 [D3 Table 3]",
            "independent channels of DIMMnet-3",
        )
        .from(&["d3.t3.mem_bw.d3"]),
    ]
}

fn network() -> Vec<Parameter> {
    vec![
        Parameter::chosen("link.lanes", 4.0, "count", (1.0, 12.0), "InfiniBand 4X [D3 Table 3]", "lanes of the network link")
            .from(&["d3.env.switch"]),
        Parameter::chosen(
            "link.lane_rate",
            2.5,
            "Gb/s",
            (0.1, 100.0),
            "InfiniBand single data rate, 8B/10B coded; twice that on DIMMnet-3 (4X DDR)",
            "signalling rate of a lane",
        ),
        Parameter::chosen(
            "link.overhead",
            26.0,
            "B",
            (0.0, 256.0),
            "InfiniBand local route and transport headers, both checksums",
            "bytes the link adds to a packet",
        ),
        Parameter::chosen(
            "link.packet",
            2048.0,
            "B",
            (64.0, 65_536.0),
            "InfiniBand path unit of that time",
            "largest body of one packet",
        ),
        Parameter::chosen(
            "link.serdes",
            50.0,
            "ns",
            (0.0, 1000.0),
            "serialiser and deserialiser of one cable",
            "both ends of one cable",
        ),
        Parameter::cited("link.cable", "d3.env.cable", 0.0, 1000.0, "one cable"),
        Parameter::chosen(
            "link.propagation",
            5.0,
            "ns/m",
            (3.0, 10.0),
            "two thirds of the speed of light",
            "signal delay of the cable",
        ),
        Parameter::chosen(
            "switch.latency",
            200.0,
            "ns",
            (0.0, 100_000.0),
            "InfiniBand 4X switch chips of 2004, cut through",
            "first bit in to first bit out",
        ),
    ]
}

fn serial() -> Vec<Parameter> {
    vec![
        Parameter::chosen(
            "serial.lanes",
            4.0,
            "count",
            (1.0, 32.0),
            "several RocketIO links over coaxial cable [D3 4.2]",
            "serial links between Frontend and Backend",
        ),
        Parameter::chosen(
            "serial.lane_rate",
            3.125,
            "Gb/s",
            (0.1, 100.0),
            "RocketIO of Virtex-II Pro",
            "signalling rate of one serial link, 8B/10B coded",
        ),
        Parameter::chosen(
            "serial.latency",
            80.0,
            "ns",
            (0.0, 1000.0),
            "RocketIO transmitter and receiver",
            "one crossing between Frontend and Backend",
        ),
        Parameter::chosen(
            "fbdimm.clock",
            266.0,
            "MHz",
            (100.0, 1000.0),
            "printed as a question mark [D3 Table 1]; as the other DDR2 interfaces",
            "clock of the FB-DIMM interface",
        )
        .from(&["d3.t1.d3.ddr2_dimm_reg.speed"]),
        Parameter::chosen(
            "fbdimm.latency",
            12.0,
            "ns",
            (0.0, 200.0),
            "advanced memory buffer, one way",
            "extra latency of FB-DIMM, one way",
        ),
        Parameter::chosen(
            "pcie.latency",
            250.0,
            "ns",
            (0.0, 5000.0),
            "root complexes of 2006: about 0.5 us for a read",
            "extra latency of PCI Express, one way",
        ),
        Parameter::chosen("pcie.lane_rate", 250.0, "MB/s", (50.0, 4000.0), "PCI Express 1.0", "bytes per second of one lane"),
    ]
}

fn cell() -> Vec<Parameter> {
    const CELL: &str = "Kistler et al., Cell multiprocessor communication network, IEEE Micro 26(3), 2006";
    vec![
        Parameter::cited("cell.spes", "d3.cbe_spe", 1.0, 64.0, "processors that transfer at once"),
        Parameter::chosen("cell.bus_clock", 1.6, "GHz", (0.1, 10.0), CELL, "clock of the element interconnect bus"),
        Parameter::chosen("cell.bus_width", 16.0, "B", (1.0, 128.0), CELL, "bytes a bus port moves per clock"),
        Parameter::chosen(
            "cell.command_clocks",
            1.0,
            "clocks",
            (0.1, 100.0),
            CELL,
            "one bus command accepted per bus clock, whatever its length",
        ),
        Parameter::chosen("cell.transfer_max", 128.0, "B", (16.0, 16_384.0), CELL, "bytes one bus command moves at most"),
        Parameter::chosen("cell.rings", 4.0, "count", (1.0, 64.0), CELL, "data rings"),
        Parameter::chosen("cell.ring_transfers", 3.0, "count", (1.0, 16.0), CELL, "transfers one ring carries at once"),
        Parameter::chosen(
            "cell.dma_latency",
            90.0,
            "ns",
            (0.0, 10_000.0),
            CELL,
            "issuing a DMA command until its bus command starts",
        ),
        Parameter::chosen(
            "cell.memory_latency",
            250.0,
            "ns",
            (0.0, 10_000.0),
            "main memory accesses of the Cell measured by Jimenez-Gonzalez et al., ISPASS 2007",
            "first byte of an access outside of the chip",
        ),
        Parameter::chosen("cell.queue", 16.0, "entries", (1.0, 256.0), CELL, "outstanding commands of one processor"),
        Parameter::chosen(
            "cell.issue",
            20.0,
            "ns",
            (0.0, 1000.0),
            "six channel writes of ten cycles at 3.2 GHz",
            "a processor's time to issue one DMA command",
        ),
    ]
}

fn rdma() -> Vec<Parameter> {
    const REGISTRATION: &str = "registration costs of Myrinet and InfiniBand interfaces, Tezuka et al. 1998, Liu et al. 2003";
    vec![
        Parameter::chosen(
            "rdma.transfer",
            6.0,
            "us",
            (0.1, 1000.0),
            "small RDMA writes of InfiniBand on PCI-X",
            "an RDMA whose pages are pinned",
        ),
        Parameter::chosen("rdma.pin", 25.0, "us", (0.0, 10_000.0), REGISTRATION, "pinning one page and telling the interface"),
        Parameter::chosen("rdma.unpin", 12.0, "us", (0.0, 10_000.0), REGISTRATION, "releasing one page"),
        Parameter::chosen(
            "rdma.cache_pages",
            4096.0,
            "pages",
            (1.0, 10_000_000.0),
            "16 MB of pinned memory",
            "pages a pin-down cache holds",
        ),
        Parameter::chosen(
            "rdma.interrupt",
            8.0,
            "us",
            (0.0, 1000.0),
            "interrupt entry, handler and return on a loaded Linux 2.4 host",
            "an interrupt on the target host",
        ),
        Parameter::chosen(
            "rdma.messages",
            20_000.0,
            "count",
            (100.0, 10_000_000.0),
            "enough for the cache to settle",
            "remote updates of one run",
        ),
        Parameter::chosen(
            "rdma.interval",
            100.0,
            "us",
            (1.0, 100_000.0),
            "10 000 transactions per second",
            "from one remote update to the next",
        ),
        Parameter::chosen("rdma.seed", 1.0, "seed", (0.0, 4_294_967_295.0), "any", "seed of the page sequence"),
    ]
}

fn descriptors() -> Vec<Parameter> {
    vec![
        Parameter::chosen(
            "io.firmware",
            0.4,
            "us",
            (0.0, 100.0),
            "some hundred cycles of a 250 MHz embedded processor",
            "the interface's firmware per descriptor",
        ),
        Parameter::chosen(
            "io.pci_latency",
            0.5,
            "us",
            (0.0, 100.0),
            "PCI-X 133: arbitration, address, split completion",
            "one DMA read over PCI, without its bytes",
        ),
        Parameter::chosen("io.pci_rate", 1.064, "GB/s", (0.01, 100.0), "PCI-X 133, 64 bit", "bytes per second of PCI"),
        Parameter::chosen(
            "io.pcie_latency",
            0.45,
            "us",
            (0.0, 100.0),
            "PCI Express 1.0 memory read round trip",
            "one DMA read over PCI Express, without its bytes",
        ),
        Parameter::chosen(
            "io.pcie_rate",
            2.0,
            "GB/s",
            (0.01, 100.0),
            "PCI Express 1.0, 8 lanes",
            "bytes per second of PCI Express",
        ),
        Parameter::chosen("io.descriptor", 16.0, "B", (8.0, 256.0), "address, length, key", "bytes of a descriptor"),
        Parameter::chosen(
            "io.descriptors_read",
            4.0,
            "count",
            (1.0, 64.0),
            "one 64 B line of descriptors",
            "descriptors fetched at once",
        ),
        Parameter::chosen("io.pieces", 256.0, "count", (1.0, 100_000.0), "a halo of a small lattice", "pieces of one message"),
    ]
}

fn halo() -> Vec<Parameter> {
    vec![
        Parameter::cited("halo.dimensions", "d3.qcd_dims", 2.0, 4.0, "dimensions of the lattice"),
        Parameter::chosen("halo.edge", 16.0, "count", (2.0, 64.0), "a local lattice of a cluster node", "sites along each edge"),
        Parameter::chosen(
            "halo.site",
            96.0,
            "B",
            (4.0, 4096.0),
            "half a spinor: two spins of three complex doubles",
            "bytes sent per site of a face",
        ),
        Parameter::chosen(
            "halo.site_stride",
            192.0,
            "B",
            (4.0, 8192.0),
            "a spinor: four spins of three complex doubles",
            "bytes of a site in memory",
        ),
    ]
}

fn servers() -> Vec<Parameter> {
    const POWER: &str = "servers of 2006, nameplate figures";
    const PRICE: &str = "street prices of 2006";
    vec![
        Parameter::chosen(
            "server.total",
            40_000.0,
            "GB",
            (1.0, 100_000_000.0),
            "tens of thousands of PCs [D3 5.3] with 2 to 4 GB each",
            "memory of the whole service",
        )
        .from(&["d3.google_pcs"]),
        Parameter::chosen(
            "server.main_memory",
            4.0,
            "GB",
            (0.5, 1024.0),
            "four slots of 1 GB, the most a board of that time took",
            "main memory of one host",
        ),
        Parameter::chosen("server.cpu_power", 90.0, "W", (1.0, 1000.0), POWER, "processors of one host"),
        Parameter::chosen(
            "server.board_power",
            60.0,
            "W",
            (1.0, 1000.0),
            POWER,
            "board, disk, fans and supply losses of one host",
        ),
        Parameter::chosen(
            "server.memory_power",
            2.0,
            "W",
            (0.01, 100.0),
            "a DDR2 module of 4 GB draws about 8 W",
            "one GB of memory",
        ),
        Parameter::chosen(
            "server.backend_power",
            20.0,
            "W",
            (0.0, 1000.0),
            "a large FPGA and its serial links",
            "Frontend and Backend without modules",
        ),
        Parameter::chosen("server.host_price", 600.0, "USD", (1.0, 100_000.0), PRICE, "one host without memory"),
        Parameter::chosen("server.memory_price", 100.0, "USD", (0.01, 100_000.0), PRICE, "one GB of memory"),
        Parameter::chosen("server.backend_price", 400.0, "USD", (0.0, 100_000.0), PRICE, "Frontend and Backend without modules"),
        Parameter::chosen(
            "server.core_gain",
            8.0,
            "x",
            (1.0, 1024.0),
            "four cores of twice the speed a host instead of one",
            "compute of a new host against an old one",
        ),
        Parameter::chosen(
            "server.query_rate",
            20.0,
            "MB/s",
            (0.01, 100_000.0),
            "index bytes read for the network per 4 GB of held memory",
            "data each old host answers per second",
        ),
    ]
}

fn workloads() -> Vec<Parameter> {
    vec![
        Parameter::chosen(
            "scan.record",
            256.0,
            "B",
            (8.0, 4096.0),
            "a tuple of the Wisconsin benchmark has 208 B",
            "bytes from one record to the next",
        ),
        Parameter::cited("scan.field", "d3.scan_useful", 4.0, 8.0, "bytes of the field a full scan looks at"),
        Parameter::chosen(
            "paging.disk",
            8.0,
            "ms",
            (0.01, 100.0),
            "seek and half a turn of a disk of 7200 turns a minute",
            "a page fault served by a disk",
        ),
        Parameter::chosen(
            "paging.fault",
            5.0,
            "us",
            (0.1, 1000.0),
            "page fault, block layer and copy of Linux on a 2.6 GHz host",
            "a page fault's own time on the host",
        ),
        Parameter::chosen(
            "paging.visits",
            100.0,
            "count",
            (1.0, 1e6),
            "mesh generation, a few visits of a page's data",
            "main memory accesses between two faults' chances",
        ),
        Parameter::chosen("video.titles", 10_000.0, "count", (1.0, 10_000_000.0), "a rental shop", "titles offered"),
        Parameter::chosen("video.title", 2.0, "GB", (0.01, 1000.0), "90 minutes at 3 Mb/s", "one title"),
        Parameter::chosen("video.rate", 0.4, "MB/s", (0.001, 1000.0), "3 Mb/s", "one stream"),
        Parameter::chosen(
            "video.disk_streams",
            60.0,
            "count",
            (1.0, 100_000.0),
            "a disk moves some 25 MB/s in pieces of 1 MB",
            "streams the disks of a host feed",
        ),
    ]
}
