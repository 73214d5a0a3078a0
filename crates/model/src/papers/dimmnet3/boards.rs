//! What the boards are made of: host interfaces, memory modules, forms, and what follows for capacity and bandwidth.
//!
//! SOURCE: [D3 Tables 1 to 3, §4.2].
use super::banks::MemoryShape;
use crate::outcome::{Axis, Outcome, Plot, Table, Tolerance};
use crate::parameters::Parameters;
use crate::time::Picos;

/// How a host interface is clocked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Speed {
    /// A memory bus: nominal MHz, both edges, 8 B wide.
    Dimm(u64),
    /// FB-DIMM, whose speed is printed as a question mark.
    FullyBuffered,
    /// PCI Express lanes.
    Lanes(u64),
}

/// One row of Table 1.
#[derive(Debug)]
pub struct HostInterface {
    /// The name of the choice.
    pub name: &'static str,
    /// Standard of the slot.
    pub base: &'static str,
    /// Buffer as printed.
    pub buffer: &'static str,
    /// ECC as printed.
    pub ecc: &'static str,
    /// Clock or lanes.
    pub speed: Speed,
    /// Whether it is on DIMMnet-3, behind a Frontend and a serial link.
    pub needs_frontend: bool,
    /// The fact that prints its speed.
    pub fact: &'static str,
}

const fn row(
    name: &'static str,
    (base, buffer, ecc): (&'static str, &'static str, &'static str),
    speed: Speed,
    fact: &'static str,
) -> HostInterface {
    HostInterface { name, base, buffer, ecc, speed, needs_frontend: !matches!(speed, Speed::Dimm(100)), fact }
}

/// SOURCE: [D3 Table 1].
// FEATURE: D3-F17
pub static INTERFACES: [HostInterface; 8] = [
    row("ddr-dimm", ("DDR-DIMM", "unbuffered", "no"), Speed::Dimm(100), "d3.t1.d2.speed"),
    row("ddr2-dimm-unbuffered", ("DDR2-DIMM", "unbuffered", "no"), Speed::Dimm(266), "d3.t1.d3.ddr2_dimm_unbuf.speed"),
    row("ddr2-dimm-registered", ("DDR2-DIMM", "registered", "yes"), Speed::Dimm(266), "d3.t1.d3.ddr2_dimm_reg.speed"),
    row("crs-sodimm", ("DDR2-SODIMM on CRS", "", ""), Speed::Dimm(166), "d3.t1.d3.crs_sodimm.speed"),
    row("fb-dimm", ("FB-DIMM", "", ""), Speed::FullyBuffered, "d3.t1.d3.fbdimm.speed"),
    row("pcie-4x", ("PCI Express", "", ""), Speed::Lanes(4), "d3.t1.d3.pcie.width"),
    row("pcie-8x", ("PCI Express", "", ""), Speed::Lanes(8), "d3.t1.d3.pcie.width"),
    row("pcie-16x", ("PCI Express", "", ""), Speed::Lanes(16), "d3.t1.d3.pcie.width"),
];

const REGISTERED_DIMM: usize = 4;
const ALL_IN_ONE: usize = 0;

/// One row of Table 2.
#[derive(Debug)]
pub struct Module {
    /// The name of the choice.
    pub name: &'static str,
    /// Nominal clock in MHz.
    pub clock_mhz: u64,
    /// Whether it corrects single-bit errors.
    pub has_ecc: bool,
    /// Capacity in MB; of a range the least.
    pub megabytes: u64,
    /// The fact that prints its capacity.
    pub fact: &'static str,
}

/// SOURCE: [D3 Table 2].
pub static MODULES: [Module; 5] = [
    Module { name: "ddr-dimm", clock_mhz: 100, has_ecc: false, megabytes: 256, fact: "d3.t2.d2.module" },
    Module { name: "ddr2-sodimm-unbuffered", clock_mhz: 266, has_ecc: false, megabytes: 1024, fact: "d3.t2.d3.sodimm_unbuf" },
    Module { name: "ddr2-sodimm-registered", clock_mhz: 266, has_ecc: true, megabytes: 2048, fact: "d3.t2.d3.sodimm_reg" },
    Module { name: "ddr2-dimm-unbuffered", clock_mhz: 266, has_ecc: false, megabytes: 1024, fact: "d3.t2.d3.dimm_unbuf" },
    Module { name: "ddr2-dimm-registered", clock_mhz: 266, has_ecc: true, megabytes: 1024, fact: "d3.t2.d3.dimm_reg" },
];

/// The true clock behind a nominal one: 166 and 266 MHz are fifths and eighths of 100/3 MHz, cut off.
pub fn true_hertz(nominal_mhz: u64) -> u64 {
    match nominal_mhz {
        166 => 166_666_667,
        266 => 266_666_667,
        mhz => mhz * 1_000_000,
    }
}

impl HostInterface {
    /// The interface the parameters choose.
    pub fn chosen(parameters: &Parameters) -> &'static HostInterface {
        &INTERFACES[parameters.choice("host.interface")]
    }

    /// The interface clock; PCI Express answers in its latency alone.
    pub fn hertz(&self, parameters: &Parameters) -> Option<u64> {
        match self.speed {
            Speed::Dimm(mhz) => Some(true_hertz(mhz)),
            Speed::FullyBuffered => Some(true_hertz(parameters.count("fbdimm.clock"))),
            Speed::Lanes(_) => None,
        }
    }

    /// Peak bytes per second of the slot.
    pub fn peak_bytes_per_second(&self, parameters: &Parameters) -> u64 {
        match self.speed {
            Speed::Lanes(lanes) => lanes * parameters.bytes_per_second("pcie.lane_rate"),
            _ => self.hertz(parameters).unwrap_or_default() * BYTES_PER_CLOCK,
        }
    }

    /// Latency the interface adds to a transfer, each way.
    pub fn extra(&self, parameters: &Parameters) -> Picos {
        match self.speed {
            Speed::Lanes(_) => parameters.picos("pcie.latency"),
            Speed::FullyBuffered => parameters.picos("fbdimm.latency"),
            // A register delays commands and data by a clock.
            Speed::Dimm(mhz) if self.buffer == "registered" => Picos::from_cycles(1, true_hertz(mhz)),
            Speed::Dimm(_) => Picos::ZERO,
        }
    }
}

/// 64 data wires, both edges.
const BYTES_PER_CLOCK: u64 = 16;

/// The two boards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Board {
    /// The measured prototype.
    Dimmnet2,
    /// Its successor.
    Dimmnet3,
}

impl Board {
    /// The board the parameters choose.
    pub fn chosen(parameters: &Parameters) -> Board {
        if parameters.choice("board.kind") == 0 { Board::Dimmnet2 } else { Board::Dimmnet3 }
    }

    /// Memory modules in the form the parameters choose.
    ///
    /// SOURCE: [D3 Table 3]; the all-in-one DIMMnet-3 has only its riser for two DIMMs [D3 §4.2].
    pub fn modules(self, parameters: &Parameters) -> u64 {
        match self {
            Board::Dimmnet2 => 2,
            Board::Dimmnet3 if parameters.choice("board.form") == ALL_IN_ONE => 2,
            Board::Dimmnet3 => 5,
        }
    }

    /// Capacity of one Backend in MB.
    pub fn megabytes(self, parameters: &Parameters) -> u64 {
        let chosen = parameters.choice("board.module");
        let module = match (self, chosen) {
            (Board::Dimmnet2, _) => MODULES[0].megabytes,
            (Board::Dimmnet3, REGISTERED_DIMM) => parameters.bytes("board.registered_dimm") >> 20,
            (Board::Dimmnet3, module) => MODULES[module].megabytes,
        };
        self.modules(parameters) * module
    }

    /// The memory behind the vector commands.
    ///
    /// DIMMnet-2's two modules work in step as one wide channel, since it lacks operation across channels.
    pub fn memory(self, parameters: &Parameters) -> MemoryShape {
        let (channels, width, nominal) = match self {
            Board::Dimmnet2 => (1, 2 * BYTES_PER_CLOCK, MODULES[0].clock_mhz),
            Board::Dimmnet3 => (parameters.count("memory.channels3") as usize, BYTES_PER_CLOCK, MODULES[4].clock_mhz),
        };
        let (banks, active) = match self {
            Board::Dimmnet2 => ("memory.banks2", "memory.active2"),
            Board::Dimmnet3 => ("memory.banks3", "memory.active3"),
        };
        let clock_hertz = true_hertz(nominal);
        MemoryShape {
            channels,
            banks: parameters.count(banks) as usize,
            banks_active_max: parameters.count(active) as usize,
            interleave_bytes: parameters.bytes("memory.interleave"),
            bytes_per_clock: width,
            // The shortest burst is two transfers of DDR, four of DDR2.
            burst_clocks: if self == Board::Dimmnet2 { 1 } else { 2 },
            clock_hertz,
            row_open: parameters.picos("memory.row_open"),
            column: parameters.picos("memory.column"),
            row_cycle: parameters.picos("memory.row_cycle"),
            controller: Picos::from_cycles(parameters.count("memory.controller"), clock_hertz),
        }
    }

    /// Payload bytes per second and direction of the network link: 8B/10B leaves four fifths.
    pub fn network_bytes_per_second(self, parameters: &Parameters) -> u64 {
        let rate = if self == Board::Dimmnet2 { 1 } else { 2 };
        parameters.count("link.lanes") * rate * parameters.bytes_per_second("link.lane_rate") * 8 / 10
    }
}

/// Payload bytes per second between Frontend and Backend.
pub fn serial_bytes_per_second(parameters: &Parameters) -> u64 {
    parameters.count("serial.lanes") * parameters.bytes_per_second("serial.lane_rate") * 8 / 10
}

/// What one host interface with a Backend behind it can stream, and what bounds it.
pub fn streaming(parameters: &Parameters, interface: &HostInterface) -> (u64, &'static str) {
    let memory = Board::Dimmnet3.memory(parameters).peak_bytes_per_second();
    let bounds = [
        (interface.peak_bytes_per_second(parameters), "host interface"),
        (serial_bytes_per_second(parameters), "serial link"),
        (memory, "memory"),
    ];
    bounds.into_iter().min_by_key(|bound| bound.0).unwrap_or((0, ""))
}

/// Table 3 from its inputs, and the capacities of every module and form.
pub fn specification(parameters: &Parameters) -> Outcome {
    let mut outcome = Outcome::new();
    let columns = [("item", ""), ("DIMMnet-2", ""), ("DIMMnet-3", "")];
    let mut table = Table::new("Basic specification, from parts", &columns);
    let boards = [Board::Dimmnet2, Board::Dimmnet3];
    let pair = |value: &dyn Fn(Board) -> f64| boards.map(value);
    let capacity = pair(&|board| board.megabytes(parameters) as f64);
    let modules = pair(&|board| board.modules(parameters) as f64);
    let memory = pair(&|board| board.memory(parameters).peak_bytes_per_second() as f64 / 1e9);
    let network = pair(&|board| board.network_bytes_per_second(parameters) as f64 / 1e9);
    for (item, values) in [
        ("memory capacity (MB)", capacity),
        ("memory modules", modules),
        ("memory bandwidth (GB/s)", memory),
        ("network bandwidth per direction (GB/s)", network),
    ] {
        table.row(vec![item.into(), values[0].into(), values[1].into()]);
    }
    outcome.tables.push(table);
    produce_specification(&mut outcome, capacity, modules, memory, network);
    outcome.tables.push(capacities(parameters));
    // FEATURE: D3-F18
    outcome.produce(
        "d3.backend_forms",
        parameters.find("board.form").map_or(0, |form| form.choices.len()) as f64,
        Tolerance::Exact,
    );
    outcome.produce("d3.boards", 2.0, Tolerance::Exact);
    outcome.note(
        "Table 3 prints 2 GB for DIMMnet-3, which fits no five modules of Table 2 (5 to 40 GB); the text says tens of GB. \
         Both are shown, neither is asserted.",
    );
    outcome.headline("capacity of one host's Backends", "GB", capacity[1] * parameters.get("board.backends") / 1024.0);
    outcome
}

fn produce_specification(outcome: &mut Outcome, capacity: [f64; 2], modules: [f64; 2], memory: [f64; 2], network: [f64; 2]) {
    outcome.produce("d3.t3.capacity.d2", capacity[0], Tolerance::Exact);
    outcome.produce("d3.t3.capacity.d3", capacity[1] / 1024.0, Tolerance::Exact);
    outcome.produce("d3.t3.modules.d2", modules[0], Tolerance::Exact);
    outcome.produce("d3.t3.modules.d3", modules[1], Tolerance::Exact);
    outcome.produce("d3.t3.mem_bw.d2", memory[0], Tolerance::Exact);
    // 266.666667 MHz instead of 266 2/3.
    outcome.produce("d3.t3.mem_bw.d3", memory[1], Tolerance::Absolute(0.05));
    outcome.produce("d3.t3.net_bw.d2", network[0], Tolerance::Exact);
    outcome.produce("d3.t3.net_bw.d3", network[1], Tolerance::Exact);
}

fn capacities(parameters: &Parameters) -> Table {
    let columns =
        [("module", ""), ("ECC", ""), ("all-in-one", "GB"), ("PCI card", "GB"), ("hard disk", "GB"), ("against DIMMnet-2", "x")];
    let mut table = Table::new("Capacity of one Backend by module and form", &columns);
    for (index, module) in MODULES.iter().enumerate().skip(1) {
        let sizes = [0, 1, 2].map(|form| {
            let chosen = parameters.with("board.module", index as f64).with("board.form", form as f64);
            Board::Dimmnet3.megabytes(&chosen) as f64 / 1024.0
        });
        let ecc = if module.has_ecc { "yes" } else { "no" };
        let mut row = vec![module.name.into(), ecc.into()];
        row.extend(sizes.map(Into::into));
        row.push((sizes[1] * 1024.0 / Board::Dimmnet2.megabytes(parameters) as f64).into());
        table.row(row);
    }
    table
}

/// Host interfaces of Table 1: peak, what a Frontend with its serial link leaves of it, and the latency it adds.
pub fn interfaces(parameters: &Parameters) -> Outcome {
    let mut outcome = Outcome::new();
    let columns = [
        ("interface", ""),
        ("buffer", ""),
        ("ECC", ""),
        ("slot peak", "GB/s"),
        ("streamed", "GB/s"),
        ("bounded by", ""),
        ("added each way", "ns"),
    ];
    let mut table = Table::new("DIMMnet-3 behind each host interface", &columns);
    let names: Vec<&str> = INTERFACES[1..].iter().map(|interface| interface.name).collect();
    let mut plot = Plot::bars("What a host streams from one Backend", &names, Axis::new("bandwidth", "GB/s"));
    let giga = |bytes_per_second: u64| bytes_per_second as f64 / 1e9;
    for interface in &INTERFACES[1..] {
        let (bytes_per_second, bound) = streaming(parameters, interface);
        let crossing = interface.extra(parameters) + parameters.picos("serial.latency");
        table.row(vec![
            interface.name.into(),
            interface.buffer.into(),
            interface.ecc.into(),
            giga(interface.peak_bytes_per_second(parameters)).into(),
            giga(bytes_per_second).into(),
            bound.into(),
            crossing.as_ns().into(),
        ]);
    }
    plot.bar("slot peak", &slot_bandwidths(|interface| interface.peak_bytes_per_second(parameters)));
    plot.bar("streamed", &slot_bandwidths(|interface| streaming(parameters, interface).0));
    outcome.tables.push(table);
    outcome.plots.push(plot);
    let crs = giga(streaming(parameters, &INTERFACES[3]).0);
    outcome.produce("d3.crs_bw", crs, Tolerance::Exact);
    outcome.headline("streamed through the CRS slot", "GB/s", crs);
    outcome
}

fn slot_bandwidths(rate: impl Fn(&HostInterface) -> u64) -> Vec<f64> {
    INTERFACES[1..].iter().map(|interface| rate(interface) as f64 / 1e9).collect()
}

#[cfg(test)]
mod tests {
    use super::super::parameters;
    use super::*;
    use crate::facts::facts;

    #[test]
    fn tables_one_and_two_are_as_printed() {
        for interface in &INTERFACES {
            let printed = facts().fact(interface.fact).printed().numbers();
            match interface.speed {
                Speed::Dimm(mhz) => assert_eq!(printed, [mhz as f64], "{}", interface.name),
                Speed::Lanes(lanes) => assert!(printed.contains(&(lanes as f64)), "{}", interface.name),
                Speed::FullyBuffered => assert!(printed.is_empty()),
            }
        }
        for module in &MODULES {
            let fact = facts().fact(module.fact);
            let first = crate::unit::convert(fact.printed().numbers()[0], &fact.unit, "MB");
            assert_eq!(first, Some(module.megabytes as f64), "{}", module.name);
        }
    }

    #[test]
    fn names_stand_in_the_tables_order() {
        let choices = |key| parameters().find(key).unwrap().choices;
        assert_eq!(INTERFACES.each_ref().map(|interface| interface.name), choices("host.interface"));
        assert_eq!(MODULES.each_ref().map(|module| module.name), choices("board.module"));
    }

    #[test]
    fn the_specification_agrees_with_table_three() {
        let outcome = specification(&parameters());
        assert_eq!(outcome.disagreements(), Vec::<String>::new());
        assert_eq!(outcome.produced.len(), 10);
    }

    #[test]
    fn capacity_reaches_tens_of_gigabytes_only_with_large_modules() {
        assert_eq!(Board::Dimmnet3.megabytes(&parameters()), 40 * 1024);
        assert_eq!(Board::Dimmnet3.megabytes(&parameters().with("board.module", 1.0)), 5 * 1024);
        assert_eq!(Board::Dimmnet3.megabytes(&parameters().with("board.form", 0.0)), 16 * 1024);
    }
}
