//! Gather through chained descriptors on an I/O-bus interface, against packing by the host and against vector commands.
use super::boards::Board;
use super::rules::RULES;
use super::vector;
use crate::claim::{Check, Judgement, Limit};
use crate::engine::Engine;
use crate::outcome::{Axis, Outcome, Plot, Table};
use crate::parameters::Parameters;
use crate::station::Station;
use crate::time::Picos;

/// The cited constants of an interface on an I/O bus.
struct Interface {
    firmware: Picos,
    latency: Picos,
    bytes_per_second: u64,
    descriptor_bytes: u64,
    descriptors_read: u64,
}

enum Event {
    /// Descriptors have been fetched, so many.
    Fetched(u64),
    /// Firmware is through with a descriptor.
    Ready,
}

impl Interface {
    fn new(parameters: &Parameters, bus: &str) -> Interface {
        let key = |name: &str| format!("io.{bus}_{name}");
        Interface {
            firmware: parameters.picos("io.firmware"),
            latency: parameters.picos(&key("latency")),
            bytes_per_second: parameters.bytes_per_second(&key("rate")),
            descriptor_bytes: parameters.bytes("io.descriptor"),
            descriptors_read: parameters.count("io.descriptors_read"),
        }
    }

    fn read(&self, len_bytes: u64) -> Picos {
        self.latency + Picos::from_bytes(len_bytes, self.bytes_per_second)
    }

    /// Reading `pieces` pieces by their descriptors: fetch, firmware and data reads overlap, each in its own order.
    fn gather(&self, pieces: u64, piece_bytes: u64) -> Picos {
        let mut engine = Engine::new();
        let (mut bus, mut firmware) = (Station::new(), Station::new());
        let mut left = pieces;
        let batch = self.descriptors_read.min(left);
        engine.schedule(bus.take(Picos::ZERO, self.read(batch * self.descriptor_bytes)).end, Event::Fetched(batch));
        let mut finished = Picos::ZERO;
        while let Some((now, event)) = engine.pop() {
            match event {
                Event::Fetched(count) => {
                    left -= count;
                    for _ in 0..count {
                        engine.schedule(firmware.take(now, self.firmware).end, Event::Ready);
                    }
                    let batch = self.descriptors_read.min(left);
                    if batch > 0 {
                        engine.schedule(bus.take(now, self.read(batch * self.descriptor_bytes)).end, Event::Fetched(batch));
                    }
                }
                Event::Ready => finished = bus.take(now, self.read(piece_bytes)).end,
            }
        }
        finished
    }

    /// The host packs, then the interface reads one contiguous buffer.
    fn packed(&self, parameters: &Parameters, pieces: u64, piece_bytes: u64) -> Picos {
        let copy = Picos::from_bytes(pieces * piece_bytes, parameters.bytes_per_second("host.memory_rate"));
        let scattered = vector::host_gather(parameters, piece_bytes, stride(piece_bytes), pieces);
        scattered + copy + self.read(pieces * piece_bytes) + self.firmware
    }
}

/// Pieces lie four of their lengths apart, at least two lines.
fn stride(piece_bytes: u64) -> u64 {
    (4 * piece_bytes).max(320)
}

/// How much faster a message of pieces is by descriptors than by packing, on both buses, and by a vector command.
pub fn descriptors(parameters: &Parameters) -> Outcome {
    let mut outcome = Outcome::new();
    let pieces = parameters.count("io.pieces");
    let interfaces = ["pci", "pcie"].map(|bus| Interface::new(parameters, bus));
    let columns = [
        ("piece", "B"),
        ("PCI packed", "us"),
        ("PCI descriptors", "us"),
        ("PCI gain", "x"),
        ("PCI Express packed", "us"),
        ("PCI Express descriptors", "us"),
        ("PCI Express gain", "x"),
        ("vector command, DIMMnet-3", "us"),
    ];
    let mut table = Table::new(format!("Reading {pieces} pieces for one message"), &columns);
    let mut plot = Plot::new("Gain of descriptors over packing", Axis::log("piece", "B"), Axis::log("packed / descriptors", "x"));
    let board = Board::Dimmnet3.memory(parameters);
    let mut gains = [Vec::new(), Vec::new(), Vec::new()];
    for power in 3..=13 {
        let piece: u64 = 1 << power;
        let times =
            interfaces.each_ref().map(|interface| [interface.packed(parameters, pieces, piece), interface.gather(pieces, piece)]);
        let vector = board.run(&vector::strided(piece, stride(piece), pieces)).finished;
        let gain = times.map(|[packed, gathered]| packed.as_us() / gathered.as_us());
        let mut row = vec![piece.into()];
        for (time, gain) in times.iter().zip(gain) {
            row.extend([time[0].as_us().into(), time[1].as_us().into(), gain.into()]);
        }
        row.push(vector.as_us().into());
        table.row(row);
        let values = [gain[0], gain[1], times[1][0].as_us() / vector.as_us()];
        gains.iter_mut().zip(values).for_each(|(line, value)| line.push((piece as f64, value)));
    }
    for (name, line) in ["PCI", "PCI Express", "vector command"].iter().zip(gains) {
        plot.line(*name, line);
    }
    outcome.tables.push(table);
    outcome.plots.push(plot);
    outcome
}

/// D3-C18.
pub fn little_gain(parameters: &Parameters) -> Option<Judgement> {
    let pieces = parameters.count("io.pieces");
    let gain = |bus: &'static str, piece: u64| {
        let interface = Interface::new(parameters, bus);
        interface.packed(parameters, pieces, piece).as_us() / interface.gather(pieces, piece).as_us()
    };
    let best = |bus, powers: std::ops::RangeInclusive<u32>| powers.map(|power| gain(bus, 1 << power)).fold(0.0, f64::max);
    let small = ["pci", "pcie"].map(|bus| best(bus, 3..=6));
    let any = ["pci", "pcie"].map(|bus| best(bus, 3..=13));
    let check = |name, gain| {
        Check::new(format!("descriptors over packing, up to 64 B, {name}"), gain, "x", Limit::Below(RULES.word("little")))
    };
    Some(Judgement::new(
        format!(
            "pieces up to 64 B: {:.2}x on PCI, {:.2}x on PCI Express (longer pieces up to {:.1}x and {:.1}x)",
            small[0], small[1], any[0], any[1]
        ),
        "Firmware and one bus latency a piece cost more than the host's cache miss; latencies and rates of the buses are public ones.",
        vec![check("PCI", small[0]), check("PCI Express", small[1])],
    ))
}

#[cfg(test)]
mod tests {
    use super::super::parameters;
    use super::*;

    #[test]
    fn one_piece_is_a_fetch_a_descriptor_and_a_read() {
        let interface = Interface {
            firmware: Picos::ns(400),
            latency: Picos::ns(500),
            bytes_per_second: 1_000_000_000,
            descriptor_bytes: 16,
            descriptors_read: 4,
        };
        assert_eq!(interface.gather(1, 100), Picos::ns(500 + 16 + 400 + 500 + 100));
        assert!(interface.gather(8, 100) < interface.gather(1, 100) * 8);
    }

    #[test]
    fn long_pieces_gain() {
        let parameters = parameters();
        let interface = Interface::new(&parameters, "pcie");
        assert!(interface.gather(16, 8192) < interface.packed(&parameters, 16, 8192));
    }
}
