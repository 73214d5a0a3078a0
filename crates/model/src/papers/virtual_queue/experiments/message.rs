//! One block from store to load, and what the program pays for it.
use crate::claim::{Check, Judgement};
use crate::outcome::{Axis, Outcome, Plot, Table, Tolerance};
use crate::papers::virtual_queue::crossbar::Crossbar;
use crate::papers::virtual_queue::machine::{CYCLE, Machine, count, cycles};
use crate::papers::virtual_queue::node::{Head, Node};
use crate::papers::virtual_queue::write_port::stores_to_send;
use crate::parameters::Parameters;
use crate::time::Picos;
use crate::trace::Trace;

struct Steps {
    names: [&'static str; 5],
    times: [Picos; 5],
}

/// The times at which a block's steps end; contexts are on the chip.
fn send_one(machine: &Machine, is_awaited: bool) -> Steps {
    let mut nodes = [Node::new(machine), Node::new(machine)];
    let mut crossbar = Crossbar::new(machine, 2);
    // Contexts come onto the chip before the block is measured.
    nodes[0].send(Picos::ZERO, 0);
    nodes[1].head(Picos::ZERO, 0);
    let start = cycles(1_000);
    let stored = start + cycles(machine.words);
    let left = nodes[0].send(stored, 0);
    let arrived = crossbar.block(left, 0, 1);
    nodes[1].arrive(arrived, 0, 1, is_awaited);
    let ready = match nodes[1].head(arrived, 0) {
        Head::Block { ready, .. } => ready,
        Head::Empty { known } => known,
    };
    let loaded = ready + cycles(machine.words);
    Steps {
        names: [
            "stores into the write port",
            "write port",
            "crossbar",
            if is_awaited { "ring buffer unit, bypass" } else { "ring buffer, memory, prefetch" },
            "loads from the read port",
        ],
        times: [stored, left, arrived, ready, loaded].map(|time| time.since(start)),
    }
}

/// A block's steps with and without the bypass; stores for short and whole blocks.
pub fn run(parameters: &Parameters) -> Outcome {
    let machine = Machine::new(parameters);
    let mut outcome = Outcome::new();
    let mut table = Table::new(
        "One block, contexts on the chip: when each step ends",
        &[("step", ""), ("through memory", "cycles"), ("reader waits: bypass", "cycles")],
    );
    let runs = [send_one(&machine, false), send_one(&machine, true)];
    let mut trace = Trace::new();
    for (run, group) in runs.iter().zip(["through memory", "bypass"]) {
        let mut from = Picos::ZERO;
        for (name, at) in run.names.into_iter().zip(run.times) {
            let part = trace.part(group, name);
            trace.span(part, name, from, at);
            from = at;
        }
    }
    for index in 0..runs[0].times.len() {
        table.row(vec![runs[0].names[index].into(), count(runs[0].times[index]).into(), count(runs[1].times[index]).into()]);
    }
    outcome.tables.push(table);
    let mut plot = Plot::bars("One block", &["through memory", "bypass"], Axis::new("cycles", "")).stacked();
    for index in 0..runs[0].times.len() {
        let spans = runs.each_ref().map(|run| {
            let before = if index == 0 { Picos::ZERO } else { run.times[index - 1] };
            count(run.times[index] - before) as f64
        });
        plot.bar(["stores", "write port", "crossbar", "ring buffer", "loads"][index], &spans);
    }
    outcome.plots.push(plot);
    outcome.trace = Some(trace);
    stores(&mut outcome, parameters);
    let frames = parameters.get("read_port.frames");
    let block = parameters.get("cache.block");
    let entries = crate::facts::facts().fact("vq.fig5.read_port.entries").input().numbers();
    let buffer: Vec<f64> = entries.iter().map(|entries| entries * frames * block).collect();
    outcome.produce_all("vq.buffer", &buffer, Tolerance::Exact);
    outcome.headline("through memory", "cycles", count(runs[0].times[4]) as f64);
    outcome.headline("bypass", "cycles", count(runs[1].times[4]) as f64);
    outcome
}

fn stores(outcome: &mut Outcome, parameters: &Parameters) {
    let block = parameters.bytes("cache.block") as usize;
    let mut table = Table::new(
        "What the program pays to send",
        &[("data", "B"), ("words", "count"), ("stores", "count"), ("dummy stores", "count")],
    );
    for len in (8..=block).step_by(8) {
        let words = (len / 8) as u64;
        let stores = stores_to_send(len, block);
        table.row(vec![(len as u64).into(), words.into(), stores.into(), (stores - words).into()]);
    }
    outcome.tables.push(table);
}

/// VQ-C14.
pub fn no_further_work(parameters: &Parameters) -> Option<Judgement> {
    let block = parameters.bytes("cache.block") as usize;
    let dummies = |len: usize| stores_to_send(len, block) - (len / 8) as u64;
    let holds = (8..=block).step_by(8).all(|len| dummies(len) == u64::from(len < block));
    let whole = parameters.count("cache.block") / 8;
    Some(
        Judgement::new(
            format!("{whole} stores and {whole} loads a block ({} cycles each way), one more store for a short one", count(CYCLE * whole)),
            "The write port is run store by store: the last byte's store sends. The read port shows the head as memory and dequeues it when the program moves on. The model has no system to call.",
            vec![Check::is("one store a word, and one dummy store for a short block alone", holds)],
        )
        .finding("The product shows it for its own commands: a test runs vector commands on local memory under seccomp's strict mode, where any system call but read, write and exit ends the process."),
    )
}
