//! Vector commands: scattered loads over 1 to N banks, against host software, and their longer relatives VDDC and VCOPI.
use super::banks::{MemoryShape, Request};
use super::boards::{Board, INTERFACES};
use super::machine::Machine;
use super::rules::RULES;
use crate::claim::{Check, Judgement, Limit};
use crate::facts::facts;
use crate::outcome::{Axis, Outcome, Plot, Table};
use crate::parameters::Parameters;
use crate::sequence::Sequence;
use crate::time::Picos;

/// Elements of one command in these experiments.
const ELEMENTS: u64 = 4096;

/// MB/s of `element_bytes` gathered from random places of 64 MB.
pub fn random_gather(shape: &MemoryShape, element_bytes: u64, seed: u64) -> f64 {
    const PLACES: u64 = 1 << 20;
    let mut places = Sequence::new(seed);
    let requests: Vec<Request> =
        (0..ELEMENTS).map(|_| Request { address: places.below(PLACES) * 64, len_bytes: element_bytes }).collect();
    shape.run(&requests).useful_megabytes_per_second()
}

/// The requests of a strided command.
pub fn strided(element_bytes: u64, stride_bytes: u64, count: u64) -> Vec<Request> {
    (0..count).map(|index| Request { address: index * stride_bytes, len_bytes: element_bytes }).collect()
}

fn boards(parameters: &Parameters) -> [MemoryShape; 2] {
    [Board::Dimmnet2, Board::Dimmnet3].map(|board| board.memory(parameters))
}

/// Scattered throughput with 1 to 64 banks active.
// FEATURE: D3-F13 D3-F15
pub fn banks(parameters: &Parameters) -> Outcome {
    let mut outcome = Outcome::new();
    let [prototype, successor] = boards(parameters);
    let columns = [
        ("banks active", "count"),
        ("DIMMnet-2 modules", "MB/s"),
        ("DIMMnet-3 modules, one channel", "MB/s"),
        ("DIMMnet-3", "MB/s"),
    ];
    let mut table = Table::new("Random 8 B elements gathered by a vector command", &columns);
    let mut plot =
        Plot::new("Scattered throughput", Axis::log("banks active in a channel", "count"), Axis::log("useful bytes", "MB/s"));
    let mut points = vec![Vec::new(); 3];
    for power in 0..=6 {
        let active = 1 << power;
        let with = |shape: &MemoryShape, channels| MemoryShape {
            channels,
            banks: shape.banks.max(active),
            banks_active_max: active,
            ..shape.clone()
        };
        let shapes = [with(&prototype, 1), with(&successor, 1), with(&successor, successor.channels)];
        let values = shapes.map(|shape| random_gather(&shape, 8, 1));
        table.row(vec![(active as u64).into(), values[0].into(), values[1].into(), values[2].into()]);
        points.iter_mut().zip(values).for_each(|(line, value)| line.push((active as f64, value)));
    }
    for (name, line) in ["DIMMnet-2 modules", "DIMMnet-3 modules, one channel", "DIMMnet-3"].iter().zip(points) {
        plot.line(*name, line);
    }
    outcome.tables.push(table);
    outcome.plots.push(plot);
    let rates = [&prototype, &successor].map(|shape| random_gather(shape, 8, 1));
    outcome.headline("DIMMnet-3, random 8 B", "MB/s", rates[1]);
    outcome.tables.push(strides(&prototype, &successor));
    outcome
}

/// D3-C16.
pub fn many_banks(parameters: &Parameters) -> Option<Judgement> {
    let [prototype, successor] = boards(parameters);
    let rates = [&prototype, &successor].map(|shape| random_gather(shape, 8, 1));
    let same_clock = random_gather(&MemoryShape { banks_active_max: 1, ..successor.clone() }, 8, 1);
    let (gain, by_banks) = (rates[1] / rates[0], rates[1] / same_clock);
    Some(Judgement::new(
        format!(
            "{:.0} against {:.0} MB/s of random 8 B: {gain:.1}x, of which {by_banks:.1}x by banks in parallel",
            rates[1], rates[0]
        ),
        "One bank costs a row cycle for each element; eight banks of three channels overlap them. Row timing is of data sheets, channels follow from the printed 12.8 GB/s.",
        vec![
            Check::new("DIMMnet-3 over DIMMnet-2, random 8 B", gain, "x", Limit::Above(RULES.word("well above"))),
            Check::new("of that by banks in parallel", by_banks, "x", Limit::Above(RULES.word("well above"))),
        ],
    ))
}

fn strides(prototype: &MemoryShape, successor: &MemoryShape) -> Table {
    let columns = [("stride", "B"), ("DIMMnet-2", "MB/s"), ("DIMMnet-3", "MB/s"), ("banks active on DIMMnet-3", "count")];
    let mut table = Table::new("Strided 8 B elements: interleaving decides how many banks take part", &columns);
    for power in 3..=14 {
        let stride_bytes = 1 << power;
        let requests = strided(8, stride_bytes, ELEMENTS);
        let [first, second] = [prototype, successor].map(|shape| shape.run(&requests));
        table.row(vec![
            stride_bytes.into(),
            first.useful_megabytes_per_second().into(),
            second.useful_megabytes_per_second().into(),
            (second.banks_active as u64).into(),
        ]);
    }
    table
}

/// Host software reading scattered elements: a cache miss each, and a TLB miss where the stride leaves the page.
pub fn host_gather(parameters: &Parameters, element_bytes: u64, stride_bytes: u64, count: u64) -> Picos {
    let line = parameters.bytes("host.line");
    let lines = element_bytes.div_ceil(line).max(1);
    let one = if stride_bytes > line {
        parameters.picos("host.memory_latency") + Picos::from_bytes(lines * line, parameters.bytes_per_second("host.memory_rate"))
    } else {
        // Neighbouring lines stream.
        Picos::from_bytes(stride_bytes, parameters.bytes_per_second("host.memory_rate"))
    };
    let walk = if stride_bytes >= 4096 { parameters.picos("host.tlb_walk") } else { Picos::ZERO };
    (one + walk) * count
}

/// Gathering 8 B elements with a large stride: vector commands against host software, on board and across the network.
pub fn gather(parameters: &Parameters) -> Outcome {
    let mut outcome = Outcome::new();
    const STRIDE: u64 = 4160;
    let columns = [("way", ""), ("DIMMnet-2", "us"), ("DIMMnet-3", "us")];
    let mut table = Table::new("4096 elements of 8 B, 4160 B apart", &columns);
    let software = host_gather(parameters, 8, STRIDE, ELEMENTS);
    let requests = strided(8, STRIDE, ELEMENTS);
    let machines =
        [Machine::with(parameters, Board::Dimmnet2, &INTERFACES[0]), Machine::with(parameters, Board::Dimmnet3, &INTERFACES[1])];
    let load =
        |machine: &Machine| machine.host.command(machine.nic.command_bytes.vector) + machine.memory.run(&requests).finished;
    let mut row = |name: &str, times: [Picos; 2]| table.row(vec![name.into(), times[0].as_us().into(), times[1].as_us().into()]);
    row("host software out of main memory", [software; 2]);
    row("strided vector load", machines.each_ref().map(load));
    row("VDDC: strided load, network, strided store", machines.each_ref().map(|machine| vddc(machine, &requests)));
    row("the same by host software on both sides", machines.each_ref().map(|machine| by_hosts(parameters, machine, software)));
    outcome.tables.push(table);
    let gain = software.as_us() / load(&machines[0]).as_us();
    outcome.tables.push(copies(&machines));
    outcome.headline("vector load against host software, DIMMnet-2", "x", gain);
    outcome.note(format!(
        "A public measurement of DIMMnet-2 found {} times the speed of host software for 8 B elements with a large stride ({}); the model gives {gain:.1}, with none of it fitted.",
        facts().fact("d3.public.d2_gather_gain").printed(),
        facts().fact("d3.public.d2_gather_gain").place
    ));
    outcome
}

/// VDDC: a strided load there, the network, a strided store here, element streams in step; the slowest sets the pace.
// FEATURE: D3-F12
fn vddc(machine: &Machine, requests: &[Request]) -> Picos {
    let bytes: u64 = requests.iter().map(|request| request.len_bytes).sum();
    let packets = bytes.div_ceil(machine.wire.packet_bytes);
    let wire = Picos::from_bytes(bytes + packets * machine.wire.overhead_bytes, machine.wire.bytes_per_second);
    let memory = machine.memory.run(requests).finished;
    let first =
        machine.host.command(machine.nic.command_bytes.vector) + machine.host.out + machine.nic.command + machine.nic.packetise;
    first + machine.wire.hop + machine.nic.receive + memory.max(wire)
}

/// Host software packs, sends and unpacks.
fn by_hosts(parameters: &Parameters, machine: &Machine, software: Picos) -> Picos {
    let bytes = ELEMENTS * 8;
    let copy = Picos::from_bytes(bytes, parameters.bytes_per_second("host.memory_rate"));
    let wire = Picos::from_bytes(bytes, machine.wire.bytes_per_second);
    software * 2 + copy * 2 + machine.host.stores(bytes) + wire + machine.wire.hop
}

/// VCOPI: a copy inside the board, against the host carrying the bytes through its windows.
// FEATURE: D3-F11
fn copies(machines: &[Machine; 2]) -> Table {
    let columns = [
        ("bytes", "B"),
        ("DIMMnet-2 by VCOPI", "us"),
        ("DIMMnet-2 through the host", "us"),
        ("DIMMnet-3 by VCOPI", "us"),
        ("DIMMnet-3 through the host", "us"),
    ];
    let mut table = Table::new("Copying inside the extended memory", &columns);
    for power in [9, 12, 16, 20] {
        let bytes: u64 = 1 << power;
        let times = machines.each_ref().map(|machine| {
            let command = machine.host.command(machine.nic.command_bytes.vector);
            // Read and written once: the modules move every byte twice.
            let inside = command + machine.nic.command + machine.memory.access(bytes) + machine.memory.stream(bytes);
            let windows = bytes.div_ceil(machine.nic.window_bytes);
            let by_host = (command + machine.memory.access(machine.nic.window_bytes) + machine.host.load()) * windows
                + machine.host.window_loads(bytes)
                + machine.host.stores(bytes)
                + command * windows;
            [inside, by_host]
        });
        table.row(vec![
            bytes.into(),
            times[0][0].as_us().into(),
            times[0][1].as_us().into(),
            times[1][0].as_us().into(),
            times[1][1].as_us().into(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::super::parameters;
    use super::*;

    #[test]
    fn more_banks_never_slow_a_gather() {
        let shape = Board::Dimmnet3.memory(&parameters());
        let rates: Vec<f64> =
            [1, 2, 4, 8].map(|active| random_gather(&MemoryShape { banks_active_max: active, ..shape.clone() }, 8, 1)).to_vec();
        assert!(rates.is_sorted(), "{rates:?}");
    }

    #[test]
    fn the_prototype_pays_a_row_cycle_an_element() {
        let rate = random_gather(&Board::Dimmnet2.memory(&parameters()), 8, 1);
        // 8 B in 70 ns.
        assert!((rate - 114.3).abs() < 1.0, "{rate}");
    }

    #[test]
    fn vector_commands_beat_host_software() {
        let outcome = gather(&parameters());
        assert!(outcome.headlines[0].value > 1.0);
    }
}
