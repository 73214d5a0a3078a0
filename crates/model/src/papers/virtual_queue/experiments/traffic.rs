//! Irregular traffic: the cost of a message against streams and grain; overflow at a slow reader.
use crate::claim::Judgement;
use crate::outcome::{Axis, Outcome, Plot, Table};
use crate::papers::virtual_queue::contexts::Use;
use crate::papers::virtual_queue::home_rules;
use crate::papers::virtual_queue::machine::{Machine, cycles};
use crate::papers::virtual_queue::traffic::{Measured, Shape, run as simulate};
use crate::parameters::Parameters;

fn cost(measured: &Measured) -> f64 {
    measured.send + measured.receive
}

/// Streams and grain.
pub fn run(parameters: &Parameters) -> Outcome {
    let machine = Machine::new(parameters);
    let base = Shape::new(parameters);
    let mut outcome = Outcome::new();
    by_streams(&mut outcome, &machine, &base);
    by_grain(&mut outcome, parameters, &machine, &base);
    let own = simulate(&machine, &base);
    outcome.headline("send and receive", "cycles", cost(&own));
    outcome
}

/// VQ-C13.
pub fn future_work(parameters: &Parameters) -> Option<Judgement> {
    let (machine, base) = (Machine::new(parameters), Shape::new(parameters));
    let [few, many] = [1, 256].map(|streams| cost(&simulate(&machine, &Shape { streams, ..base.clone() })));
    Some(Judgement::nothing(
        format!("{few:.0} cycles a message with 1 stream a processor, {many:.0} with 256"),
        "A statement about what the paper shows, which no model can miss. The model does what it leaves to the future: a message costs tens of cycles while its contexts are on the chip, and more when many streams share them.",
    ))
}

fn by_streams(outcome: &mut Outcome, machine: &Machine, base: &Shape) {
    let columns = [
        ("streams", "a processor"),
        ("send", "cycles"),
        ("receive", "cycles"),
        ("write port hits", "%"),
        ("ring buffer hits", "%"),
        ("read port hits", "%"),
        ("bypassed", "%"),
        ("order kept", ""),
    ];
    let mut table = Table::new("A message against the number of streams", &columns);
    let mut hits = Plot::new(
        "Context caches against the number of streams",
        Axis::log("streams a processor reads", "count"),
        Axis::new("hit ratio", "%"),
    );
    let counts = [1, 2, 4, 8, 16, 32, 64, 128, 256];
    let mut all = Vec::new();
    for streams in counts {
        let measured = simulate(machine, &Shape { streams, ..base.clone() });
        let ratios = measured.contexts.map(|used| Use::hit_ratio(used) * 100.0);
        table.row(vec![
            (streams as u64).into(),
            measured.send.into(),
            measured.receive.into(),
            ratios[0].into(),
            ratios[1].into(),
            ratios[2].into(),
            (measured.counts.bypassed as f64 / measured.counts.arrived as f64 * 100.0).into(),
            if measured.is_in_order { "yes" } else { "no" }.into(),
        ]);
        all.push(measured);
    }
    for (index, name) in ["write port", "ring buffer", "read port"].into_iter().enumerate() {
        let points =
            counts.iter().zip(&all).map(|(streams, measured)| (*streams as f64, measured.contexts[index].hit_ratio() * 100.0));
        hits.line(name, points);
    }
    outcome.tables.push(table);
    outcome.plots.push(hits);
}

fn by_grain(outcome: &mut Outcome, parameters: &Parameters, machine: &Machine, base: &Shape) {
    let baselines = [("remote lock", parameters.get("baseline.lock")), ("system call", parameters.get("baseline.call"))];
    let mut table = Table::new(
        "Efficiency against the work between messages",
        &[("work", "cycles"), ("VQ", "of time"), ("remote lock", "of time"), ("system call", "of time")],
    );
    let mut plot =
        Plot::new("Efficiency against grain", Axis::log("work between messages", "cycles"), Axis::new("useful time", "%"));
    let mut lines = [Vec::new(), Vec::new(), Vec::new()];
    for work in [10_u64, 30, 100, 300, 1_000, 3_000, 10_000] {
        let measured = simulate(machine, &Shape { work: cycles(work), ..base.clone() });
        let useful = |spent: f64| work as f64 / (work as f64 + spent);
        let row = [useful(cost(&measured)), useful(baselines[0].1), useful(baselines[1].1)];
        table.row(vec![work.into(), row[0].into(), row[1].into(), row[2].into()]);
        for (line, value) in lines.iter_mut().zip(row) {
            line.push((work as f64, value * 100.0));
        }
    }
    for (name, line) in ["VQ", baselines[0].0, baselines[1].0].into_iter().zip(lines) {
        plot.line(name, line);
    }
    outcome.tables.push(table);
    outcome.plots.push(plot);
}

/// Every processor sends to one, which cannot keep up.
pub fn run_overflow(parameters: &Parameters) -> Outcome {
    let machine = Machine::new(parameters);
    let reading = cycles(parameters.count("overflow.reading"));
    let base = Shape { is_hot: true, work: cycles(0), reading, streams: 1, ..Shape::new(parameters) };
    let columns = [
        ("ring buffer", "blocks"),
        ("time", "cycles"),
        ("held in the network", "blocks"),
        ("interrupts", "count"),
        ("saved elsewhere", "blocks"),
        ("receive", "cycles"),
        ("order kept", ""),
    ];
    let mut table = Table::new("Many senders, one reader", &columns);
    let mut plot =
        Plot::new("Overflow against the ring buffer's size", Axis::log("blocks", "count"), Axis::new("interrupts", "count"));
    let mut line = Vec::new();
    for capacity in [4, 8, 16, 32, 63, 127] {
        let measured = simulate(&machine, &Shape { capacity, ..base.clone() });
        table.row(vec![
            (capacity as u64).into(),
            measured.cycles.into(),
            measured.held.into(),
            measured.counts.interrupts.into(),
            measured.counts.spilled.into(),
            measured.receive.into(),
            if measured.is_in_order { "yes" } else { "no" }.into(),
        ]);
        line.push((capacity as f64, measured.counts.interrupts as f64));
    }
    plot.line("interrupts", line);
    let mut outcome = Outcome::new();
    outcome.tables.push(table);
    outcome.plots.push(plot);
    outcome
}

/// The same overflow with the product's home in the place of the paper's four steps.
pub fn run_rules(parameters: &Parameters) -> Outcome {
    let machine = Machine::new(parameters);
    let reading = cycles(parameters.count("overflow.reading"));
    let base = Shape { is_hot: true, work: cycles(0), reading, streams: 1, ..Shape::new(parameters) };
    let columns = [
        ("blocks of room", "count"),
        ("paper: time", "cycles"),
        ("interrupts", "count"),
        ("saved", "blocks"),
        ("product: time", "cycles"),
        ("spilled", "blocks"),
        ("came back", "blocks"),
        ("order kept", ""),
    ];
    let mut table = Table::new("Many senders, one reader, under each rule", &columns);
    for capacity in [16, 32, 63, 127] {
        let shape = Shape { capacity, ..base.clone() };
        let (paper, product) = (simulate(&machine, &shape), home_rules::run(&machine, &shape));
        table.row(vec![
            (capacity as u64).into(),
            paper.cycles.into(),
            paper.counts.interrupts.into(),
            paper.counts.spilled.into(),
            product.cycles.into(),
            product.spilled.into(),
            product.refilled.into(),
            if paper.is_in_order && product.is_in_order { "yes" } else { "no" }.into(),
        ]);
    }
    let mut outcome = Outcome::new();
    outcome.tables.push(table);
    outcome.note("The product gives each writer a lane of its own and spills a block that finds no room; the paper has one ring a queue and moves its later half away in an interrupt. The home's own processor time is not charged, so the times are no verdict on either.");
    outcome.note("Under the product's rule nobody waits in the network: what is spilled is only bounded by the node's memory and its users' quota.");
    outcome
}
