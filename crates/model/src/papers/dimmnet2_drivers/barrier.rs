//! The barrier: both readings of equation (9), and a barrier of remote operations by events.
use crate::claim::{Check, Judgement};
use crate::engine::Engine;
use crate::facts::facts;
use crate::outcome::{Axis, Outcome, Plot, Table};
use crate::parameters::Parameters;
use crate::time::Picos;
use crate::trace::Trace;

use super::calibration::{Program, solved};
use super::cluster::predict;
use super::equations::barrier_workable;
use super::rules::RULES;

enum Event {
    /// A node has written its flag.
    Arrived,
    /// Node `node` has read the count and looks whether all are there.
    Polled { node: usize },
}

/// Times of a barrier: a counter in the shared region, written by each node and read until it is full.
struct Barrier {
    write: Picos,
    read: Picos,
}

impl Barrier {
    /// None where an operation would take no time: what the operating system costs is then more than the tables' totals.
    fn new(parameters: &Parameters) -> Option<Barrier> {
        let operations = solved(2, parameters);
        let os = |key: &str| parameters.get_in(key, "ns");
        let (write, read) = (os("os.write") + operations.write * 1e6, os("os.read") + operations.read * 1e6);
        (write >= 1.0 && read >= 1.0).then(|| Barrier { write: Picos::from_ns_f64(write), read: Picos::from_ns_f64(read) })
    }

    /// From the common start to the last node's leaving.
    fn play(&self, node_count: u64, trace: &mut Trace) -> Picos {
        let parts: Vec<_> = (0..node_count).map(|node| trace.part(&format!("node {node}"), "barrier")).collect();
        let mut engine = Engine::new();
        let mut arrived = 0;
        // The home serves the writes one after the other.
        for (node, part) in parts.iter().enumerate() {
            let end = self.write * (node as u64 + 1);
            trace.span(*part, "write flag", end - self.write, end);
            engine.schedule(end, Event::Arrived);
            engine.schedule(end + self.read, Event::Polled { node });
        }
        while let Some((now, event)) = engine.pop() {
            match event {
                Event::Arrived => arrived += 1,
                Event::Polled { node } => {
                    trace.span(parts[node], "poll", now - self.read, now);
                    if arrived < node_count {
                        engine.schedule_in(self.read, Event::Polled { node });
                    }
                }
            }
        }
        engine.now()
    }
}

/// The experiment.
pub fn run(parameters: &Parameters) -> Outcome {
    let mut outcome = Outcome::new();
    outcome.tables.push(readings(parameters));

    let Some(barrier) = Barrier::new(parameters) else {
        let page = parameters.get("os.page");
        return Outcome::refuse(format!("os.page={page} us: nothing of the tables' totals is left for an operation"));
    };
    let mut trace = Trace::new();
    let two = barrier.play(2, &mut trace);
    let mut plot = Plot::new("Barrier by remote operations alone", Axis::log("nodes", ""), Axis::log("time", "ms"));
    plot.line("remote operations", [2, 4, 8, 16, 32].map(|nodes| (nodes as f64, barrier.play(nodes, &mut Trace::new()).as_ms())));
    plot.line("least measured", [2, 4, 8, 16, 32].map(|nodes| (f64::from(nodes), parameters.get_in("barrier.least", "ms"))));
    outcome.plots.push(plot);
    outcome.headline("barrier of two nodes by remote operations", "ms", two.as_ms());
    outcome.trace = Some(trace);
    outcome.note("Suspect: equation (9) as printed subtracts the largest part alone and contradicts equation (6); the workable reading gives every node the same T_all.");
    outcome
}

/// D2-C18.
pub fn at_least(parameters: &Parameters) -> Option<Judgement> {
    let two = Barrier::new(parameters)?.play(2, &mut Trace::new());
    Some(Judgement::new(
        format!("{two} for two nodes by remote operations alone"),
        "Remote operations and calls explain a few hundredths of the millisecond that was measured; the rest must be the operating system's timer or \
         scheduler, which the paper does not describe. Other models take 1 ms as an input.",
        vec![Check::fact(&RULES, "d2.barrier_min", "barrier of two nodes", two.as_ms())],
    ))
}

fn readings(parameters: &Parameters) -> Table {
    let mut table = Table::new(
        "T_barrier in both readings of equation (9), two nodes",
        &[("program", ""), ("as printed", "ms"), ("workable", "ms"), ("tables", "ms")],
    );
    let least = parameters.get_in("barrier.least", "ms");
    for (name, program) in
        [("matrix product", Program::Matrix), ("Wisconsin Q1", Program::Wisconsin), ("Himeno", Program::Himeno)]
    {
        let parts = predict(program, 2, parameters).parts;
        table.row(vec![
            name.into(),
            parts.barrier_printed().into(),
            barrier_workable(&[parts, parts], 0, least).into(),
            facts().cell("d2.t6.t_barrier.p2"),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_writer_decides() {
        let barrier = Barrier { write: Picos::us(10), read: Picos::us(3) };
        // Node 1 has written at 20 us and reads once; node 0 polls every 3 us from 13 us on and sees both at its read that ends at 22.
        assert_eq!(barrier.play(2, &mut Trace::new()), Picos::us(23));
        assert_eq!(barrier.play(1, &mut Trace::new()), Picos::us(13));
    }

    #[test]
    fn operations_that_take_no_time_are_refused_and_poll_for_nothing() {
        let costly = super::super::parameters().with("os.flush", 1e6);
        assert!(run(&costly).refused.is_some_and(|reason| reason.contains("os.page")));
        assert!(at_least(&costly).is_none());
    }
}
