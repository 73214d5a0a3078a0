//! Processes that share a processor in turns: queue contexts replaced on demand, or vector registers saved and restored.
use crate::claim::{Check, Judgement, Limit};
use crate::outcome::{Axis, Outcome, Plot, Table};
use crate::papers::virtual_queue::machine::{Machine, count, cycles};
use crate::papers::virtual_queue::node::{Head, Node};
use crate::papers::virtual_queue::rules::RULES;
use crate::parameters::Parameters;
use crate::time::Picos;

/// Cycles a turn loses to its contexts, beyond its own loads and stores.
fn queues(parameters: &Parameters, machine: &Machine, users: u32) -> f64 {
    let (turns, blocks) = (parameters.count("users.turns"), parameters.count("users.blocks"));
    let mut node = Node::new(machine);
    let mut now = Picos::ZERO;
    let mut lost = Picos::ZERO;
    for turn in 0..turns {
        let user = (turn % u64::from(users)) as u32;
        for seq in 0..blocks {
            node.arrive(now, user, seq, false);
        }
        // The blocks came while others ran.
        now += cycles(1_000);
        for _ in 0..blocks {
            if let Head::Block { ready, .. } = node.head(now, user) {
                lost += ready.since(now);
                now = now.max(ready) + cycles(machine.words);
                node.dequeue(now, user);
            }
            let leaves = node.send(now + cycles(machine.words), user);
            lost += leaves.since(now + cycles(machine.words));
            now = leaves;
        }
    }
    count(lost) as f64 / turns as f64
}

/// Cycles to save one stream's register, a row, and to restore another.
fn registers(machine: &Machine, row_blocks: u64) -> f64 {
    let through = machine.memory_busy.max(machine.cache_busy) * row_blocks + machine.memory_latency;
    count(through * 2) as f64
}

const USERS: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];

/// The price of a turn against the number of processes.
pub fn run(parameters: &Parameters) -> Outcome {
    let machine = Machine::new(parameters);
    let row_blocks = parameters.count("matrix.order") / machine.words;
    let mut table = Table::new("What a turn loses", &[("processes", "count"), ("VQ", "cycles"), ("VR", "cycles")]);
    let mut plot = Plot::new("What a turn loses", Axis::log("processes", "count"), Axis::new("cycles a turn", ""));
    let rows = USERS.map(|users| {
        let register = if users == 1 { 0.0 } else { registers(&machine, row_blocks) };
        let row = (f64::from(users), queues(parameters, &machine, users), register);
        table.row(vec![row.0.into(), row.1.into(), row.2.into()]);
        row
    });
    plot.line("VQ: contexts on demand", rows.iter().map(|row| (row.0, row.1)));
    plot.line("VR: registers saved and restored", rows.iter().map(|row| (row.0, row.2)));
    let mut outcome = Outcome::new();
    outcome.tables.push(table);
    outcome.plots.push(plot);
    outcome
}

/// VQ-C12.
pub fn registers_are_context(parameters: &Parameters) -> Option<Judgement> {
    let machine = Machine::new(parameters);
    let register = registers(&machine, parameters.count("matrix.order") / machine.words);
    let lost = |users: u32| queues(parameters, &machine, users);
    let worst = USERS.into_iter().skip(1).map(|users| lost(users) / register).fold(0.0, f64::max);
    let fitting = USERS.into_iter().filter(|users| f64::from(*users) <= parameters.get("read_port.entries"));
    let within = fitting.map(lost).fold(0.0, f64::max);
    Some(Judgement::new(
        format!(
            "a turn loses {register:.0} cycles for a register; for queues {:.0} alone, {within:.0} at most while the contexts fit, {:.0} with 64 processes",
            lost(1),
            lost(64)
        ),
        "A register of a row is state of its process and must be saved and restored at every turn; contexts are replaced by hardware when they are used, a frame each.",
        vec![Check::new(
            "a turn's loss with queues over registers, greatest",
            worst,
            "x",
            Limit::Below(RULES.word("hard to use")),
        )],
    ))
}
