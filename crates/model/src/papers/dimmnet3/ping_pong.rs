//! The paper's measurement and what lies around it: the four conditions, long messages, control messages, windows.
use super::boards::{Board, HostInterface};
use super::claims;
use super::exchange::{Exchange, ping_pong};
use super::machine::Machine;
use super::programs::{Condition, entry_data_bytes};
use crate::facts::facts;
use crate::outcome::{Axis, Cell, Outcome, Plot, Table, Tolerance};
use crate::parameters::Parameters;
use crate::trace::Trace;

/// One-way times of every measured condition and message size.
pub struct Measurement {
    /// Message sizes: envelope and data.
    pub sizes: Vec<u64>,
    /// Per condition of [`Condition::MEASURED`], per size; none where the condition cannot send that size.
    pub exchanges: Vec<Vec<Option<Exchange>>>,
}

impl Measurement {
    /// One-way microseconds of a condition at a size.
    pub fn us(&self, condition: Condition, size: u64) -> Option<f64> {
        self.exchange(condition, size).map(|exchange| exchange.one_way.as_us())
    }

    /// The exchange of a condition at a size.
    pub fn exchange(&self, condition: Condition, size: u64) -> Option<Exchange> {
        let row = Condition::MEASURED.iter().position(|other| *other == condition)?;
        let column = self.sizes.iter().position(|other| *other == size)?;
        self.exchanges[row][column]
    }
}

/// Runs the four conditions over the sizes.
pub fn measure(machine: &Machine, sizes: &[u64], rounds: u64) -> Measurement {
    let run = |condition: Condition, size: u64| {
        let data = size.checked_sub(machine.envelope_bytes).filter(|data| *data >= condition.data_bytes_min(machine));
        data.map(|data| ping_pong(machine, condition, data, rounds, None))
    };
    let exchanges = Condition::MEASURED.iter().map(|condition| sizes.iter().map(|size| run(*condition, *size)).collect());
    Measurement { sizes: sizes.to_vec(), exchanges: exchanges.collect() }
}

/// The paper's sizes: 8 to 128 B in steps of one word.
pub fn paper_sizes() -> Vec<u64> {
    let data_max = facts().fact("d3.data_range").input().numbers()[1] as u64;
    let least = facts().number("d3.size_axis_min") as u64;
    (least..=least + data_max).step_by(8).collect()
}

fn latency_table(title: &str, measured: &Measurement) -> Table {
    let mut columns = vec![("message size", "B")];
    columns.extend(Condition::MEASURED.iter().map(|condition| (condition.name(), "us")));
    let mut table = Table::new(title, &columns);
    for (index, size) in measured.sizes.iter().enumerate() {
        let mut row: Vec<Cell> = vec![(*size).into()];
        row.extend(measured.exchanges.iter().map(|line| line[index].map(|exchange| exchange.one_way.as_us()).into()));
        table.row(row);
    }
    table
}

fn latency_plot(title: &str, x: Axis, y: Axis, measured: &Measurement) -> Plot {
    let mut plot = Plot::new(title, x, y);
    for (condition, line) in Condition::MEASURED.iter().zip(&measured.exchanges) {
        let points = measured.sizes.iter().zip(line).filter_map(|(size, e)| e.map(|e| (*size as f64, e.one_way.as_us())));
        plot.line(condition.name(), points);
    }
    plot
}

/// The four conditions at the paper's sizes: figure 7.
// FEATURE: D3-F23
pub fn conditions(parameters: &Parameters) -> Outcome {
    let machine = Machine::new(parameters);
    if let Some(reason) = machine.contradiction() {
        return Outcome::refuse(reason);
    }
    let mut outcome = Outcome::new();
    let measured = measure(&machine, &paper_sizes(), parameters.count("pingpong.rounds"));
    outcome.tables.push(latency_table("One-way time, half of the round trip", &measured));
    outcome.tables.push(busy_table(&measured));
    let plot = latency_plot(
        "Latency of the four conditions",
        Axis::new("message size", "B"),
        Axis::new("one-way time", "us"),
        &measured,
    );
    outcome.plots.push(plot.figure("D3 figure 7"));
    let gap = claims::vector_load_gap(&measured);
    outcome.produce("d3.conditions", Condition::MEASURED.len() as f64, Tolerance::Exact);
    outcome.produce("d3.size_axis_min", measured.sizes[0] as f64, Tolerance::Exact);
    outcome.produce("d3.size_axis_max", measured.sizes[measured.sizes.len() - 1] as f64, Tolerance::Exact);
    outcome.produce("d3.lhc_size_min", (machine.envelope_bytes + machine.lhc_body_bytes_min) as f64, Tolerance::Exact);
    outcome.produce("d3.lhs_data_limit", entry_data_bytes(&machine) as f64, Tolerance::Exact);
    outcome.produce("d3.lh_entry", machine.nic.lh_entry_bytes as f64, Tolerance::Exact);
    outcome.headline("BOTF+IPUSH+LHS, smallest message", "us", measured.us(Condition::BotfLhs, 8).unwrap_or(0.0));
    outcome.headline("LHC+IPUSH+LHS, 16 B", "us", measured.us(Condition::LhcLhs, 16).unwrap_or(0.0));
    outcome.headline("least lead of LHC over VL+BOTF, one way", "us", gap.least);
    outcome.note("The paper does not say whether figure 7 halves the round trip; the tables hold the half.");
    outcome.note(
        "An LHS receiver reads an envelope part of 16 B where the sender wrote 8 B; unexplained in the paper, kept as printed.",
    );
    outcome.trace = Some(charts(&machine));
    outcome
}

/// One round trip of each condition with data on both sides of the LH buffer's limit.
fn charts(machine: &Machine) -> Trace {
    let mut trace = Trace::new();
    for condition in Condition::MEASURED {
        ping_pong(machine, condition, 64, 1, Some(&mut trace));
    }
    trace
}

fn busy_table(measured: &Measurement) -> Table {
    let columns = [
        ("message size", "B"),
        ("condition", ""),
        ("sender's processor", "us"),
        ("receiver's processor", "us"),
        ("one way", "us"),
    ];
    let mut table = Table::new("Processor time of one message (waiting not counted)", &columns);
    for size in [8, 16, 56, 64, 128] {
        for condition in Condition::MEASURED {
            if let Some(exchange) = measured.exchange(condition, size) {
                table.row(vec![
                    size.into(),
                    condition.name().into(),
                    exchange.send_busy.as_us().into(),
                    exchange.receive_busy.as_us().into(),
                    exchange.one_way.as_us().into(),
                ]);
            }
        }
    }
    table
}

/// Beyond the paper's sizes: a BOTF message is cut by the window, an LHC message is not.
pub fn lengths(parameters: &Parameters) -> Outcome {
    let machine = Machine::new(parameters);
    if let Some(reason) = machine.contradiction() {
        return Outcome::refuse(reason);
    }
    let mut outcome = Outcome::new();
    let sizes: Vec<u64> = (4..=16).map(|power| 1 << power).collect();
    let measured = measure(&machine, &sizes, 2);
    outcome.tables.push(latency_table("One-way time of long messages", &measured));
    let columns = [
        ("message size", "B"),
        ("BOTF packets", "count"),
        ("BOTF sender's processor", "us"),
        ("VL+BOTF sender's processor", "us"),
        ("LHC sender's processor", "us"),
    ];
    let mut table = Table::new("What the sending host does for a long message", &columns);
    let mut plot = Plot::new("Processor time of the sender", Axis::log("message size", "B"), Axis::log("processor time", "us"));
    let busy = |condition, size| measured.exchange(condition, size).map(|exchange| exchange.send_busy.as_us());
    for &size in &sizes {
        let packets = measured.exchange(Condition::BotfLhs, size).map(|exchange| exchange.packets);
        let times = [Condition::BotfLhs, Condition::VlBotfLhs, Condition::LhcLhs].map(|condition| busy(condition, size));
        table.row(vec![size.into(), packets.into(), times[0].into(), times[1].into(), times[2].into()]);
    }
    for condition in [Condition::BotfLhs, Condition::VlBotfLhs, Condition::LhcLhs] {
        plot.line(condition.name(), sizes.iter().filter_map(|&size| Some((size as f64, busy(condition, size)?))));
    }
    outcome.tables.push(table);
    outcome.plots.push(plot);
    let (x, y) = (Axis::log("message size", "B"), Axis::log("one-way time", "us"));
    outcome.plots.push(latency_plot("Latency beyond the measured sizes", x, y, &measured));
    outcome
        .note("The receiving host reads every body from SO-DIMM through uncached windows, which bounds all long messages alike.");
    outcome
}

/// Control messages: envelope only or a few words, with the other ways to send them beside the measured ones.
pub fn control(parameters: &Parameters) -> Outcome {
    let machine = Machine::new(parameters);
    if let Some(reason) = machine.contradiction() {
        return Outcome::refuse(reason);
    }
    let rounds = parameters.count("pingpong.rounds");
    let mut outcome = Outcome::new();
    let conditions =
        [Condition::AotfLhs, Condition::BotfLhs, Condition::VlBotfLhs, Condition::LhcLhs, Condition::Botf, Condition::BotfLhsHtp];
    let columns = [("condition", ""), ("8 B", "us"), ("16 B", "us"), ("56 B", "us"), ("64 B", "us"), ("128 B", "us")];
    let mut table = Table::new("Short messages, one way", &columns);
    for condition in conditions {
        let mut row: Vec<Cell> = vec![condition.name().into()];
        for size in [8, 16, 56, 64, 128] {
            let data = u64::checked_sub(size, machine.envelope_bytes).filter(|data| *data >= condition.data_bytes_min(&machine));
            row.push(data.map(|data| ping_pong(&machine, condition, data, rounds, None).one_way.as_us()).into());
        }
        table.row(row);
    }
    outcome.tables.push(table);
    outcome.note("AOTF and HTP are described by function only; AOTF is modelled as BOTF without its command, HTP as a vector load the receiving board starts itself.");
    outcome
}

/// How the width of the host's loads changes the picture: the one assumption that moves it most.
pub fn access_width(parameters: &Parameters) -> Outcome {
    if let Some(reason) = Machine::new(parameters).contradiction() {
        return Outcome::refuse(reason);
    }
    let mut outcome = Outcome::new();
    let columns = [
        ("host loads", "B"),
        ("BOTF+IPUSH+LHS 8 B", "us"),
        ("BOTF+IPUSH over LHC, 16 B", "x"),
        ("BOTF+IPUSH over LHC, 128 B", "x"),
        ("VL+BOTF behind LHC, 16 B", "us"),
        ("VL+BOTF behind LHC, 128 B", "us"),
    ];
    let mut table = Table::new("One-way times by the width of uncached loads and stores", &columns);
    let rounds = parameters.count("pingpong.rounds");
    for width in [4.0, 8.0, 16.0] {
        let measured = measure(&Machine::new(&parameters.with("host.access", width)), &[8, 16, 128], rounds);
        let us = |condition, size| measured.us(condition, size).unwrap_or(0.0);
        let ratio = |size| us(Condition::Botf, size) / us(Condition::LhcLhs, size);
        let gap = |size| us(Condition::VlBotfLhs, size) - us(Condition::LhcLhs, size);
        let row = [width, us(Condition::BotfLhs, 8), ratio(16), ratio(128), gap(16), gap(128)];
        table.row(row.into_iter().map(Cell::from).collect());
    }
    outcome.tables.push(table);
    outcome.note("32-bit moves follow from the compiler's options; 8 and 16 B would need MMX or SSE written by hand.");
    outcome
}

/// How the window's attributes change a store, a load and a message.
// FEATURE: D3-F2
pub fn windows(parameters: &Parameters) -> Outcome {
    if let Some(reason) = Machine::new(parameters).contradiction() {
        return Outcome::refuse(reason);
    }
    let mut outcome = Outcome::new();
    let columns = [
        ("bytes", "B"),
        ("write, uncached", "ns"),
        ("write, combining", "ns"),
        ("read, uncached", "ns"),
        ("read, cached and flushed", "ns"),
    ];
    let mut table = Table::new("One pass over a window by the host", &columns);
    let host = |window: usize, read: usize| {
        let chosen = parameters.with("host.window_attribute", window as f64).with("host.read_attribute", read as f64);
        Machine::new(&chosen)
    };
    let (uncached, combining) = (host(0, 0), host(1, 1));
    let mut plot = Plot::new("One pass over a window", Axis::log("bytes", "B"), Axis::log("time", "ns"));
    let mut lines = vec![Vec::new(); 4];
    for power in 3..=9 {
        let len: u64 = 1 << power;
        let values = [
            uncached.host.stores(len),
            combining.host.stores(len),
            uncached.host.window_loads(len),
            combining.host.window_loads(len),
        ];
        let mut row: Vec<Cell> = vec![len.into()];
        row.extend(values.map(|value| Cell::from(value.as_ns())));
        table.row(row);
        lines.iter_mut().zip(values).for_each(|(line, value)| line.push((len as f64, value.as_ns())));
    }
    for (name, points) in ["write, uncached", "write, combining", "read, uncached", "read, cached and flushed"].iter().zip(lines)
    {
        plot.line(*name, points);
    }
    outcome.tables.push(table);
    outcome.plots.push(plot);
    outcome.tables.push(attribute_latencies(parameters));
    outcome
}

fn attribute_latencies(parameters: &Parameters) -> Table {
    let columns = [("Write Window", ""), ("Prefetch Window", ""), ("BOTF+IPUSH+LHS 128 B", "us"), ("LHC+IPUSH+LHS 128 B", "us")];
    let mut table = Table::new("One-way time by window attributes", &columns);
    let rounds = parameters.count("pingpong.rounds");
    for (window, window_name) in ["uncached", "combining"].iter().enumerate() {
        for (read, read_name) in ["uncached", "cached"].iter().enumerate() {
            let chosen = parameters.with("host.window_attribute", window as f64).with("host.read_attribute", read as f64);
            let machine = Machine::new(&chosen);
            let us = |condition| ping_pong(&machine, condition, 120, rounds, None).one_way.as_us();
            table.row(vec![
                (*window_name).into(),
                (*read_name).into(),
                us(Condition::BotfLhs).into(),
                us(Condition::LhcLhs).into(),
            ]);
        }
    }
    table
}

/// The public measurement that fits the interface's pipeline: smallest BOTF message, no switch, until a poll sees it.
pub fn fit(parameters: &Parameters) -> Outcome {
    if let Some(reason) = Machine::new(parameters).contradiction() {
        return Outcome::refuse(reason);
    }
    let mut outcome = Outcome::new();
    let machine = Machine::with(parameters, Board::Dimmnet2, HostInterface::chosen(parameters)).without_switch(parameters);
    let exchange = ping_pong(&machine, Condition::BotfLhs, 0, 64, None);
    // The public figure is a bare one-way message: what the MPI receiver does with the head afterwards is not in it.
    let matching = machine.host.loads(machine.nic.envelope_part_bytes) + machine.host.matching;
    let one_way = exchange.one_way.since(matching).as_us();
    let with_switch = ping_pong(&Machine::new(parameters), Condition::BotfLhs, 0, 64, None).one_way.as_us();
    let columns = [("what", ""), ("model", "us"), ("public", "us"), ("source", "")];
    let mut table = Table::new("The model beside public measurements of DIMMnet-2", &columns);
    for (what, model, fact) in [
        ("smallest BOTF message, no switch, until seen (fitted)", one_way, "d3.public.d2_min_oneway"),
        ("8 B, another set-up", one_way, "d3.public.d2_8B"),
        ("4 B with envelope matching, another set-up", with_switch, "d3.public.d2_4B"),
    ] {
        table.row(vec![what.into(), model.into(), facts().cell(fact), facts().fact(fact).place.clone().into()]);
    }
    outcome.tables.push(table);
    outcome.produce("d3.public.d2_min_oneway", one_way, Tolerance::Relative(0.03));
    outcome.headline("smallest BOTF message, no switch", "us", one_way);
    outcome.note("The three public figures come from different set-ups; only the first is fitted, none is asserted.");
    outcome
}

#[cfg(test)]
mod tests {
    use super::super::parameters;
    use super::*;

    #[test]
    fn the_pipeline_is_fitted_to_the_public_time() {
        let one_way = fit(&parameters()).headlines[0].value;
        assert!((one_way - facts().number("d3.public.d2_min_oneway")).abs() < 0.01, "{one_way}");
    }

    // FEATURE: D3-F2
    #[test]
    fn write_combining_shortens_a_message() {
        let us = |attribute| {
            let machine = Machine::new(&parameters().with("host.window_attribute", attribute));
            ping_pong(&machine, Condition::BotfLhs, 120, 16, None).one_way
        };
        assert!(us(1.0) < us(0.0));
    }
}
