//! What the parts of the cluster spent their time on, for break-downs and timing charts.
use crate::papers::euphoria::flow::Cause;
use crate::time::Picos;
use crate::trace::Trace;

/// A part of the machine that a step belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// A node's bus, memory and cache.
    Bus(usize),
    /// A node's OPC.
    Opc(usize),
    /// The arbitration line of a node.
    ArbitrationLine(usize),
    /// A data line.
    DataLine,
    /// The arbiter.
    Arbiter,
}

impl Part {
    fn names(self) -> (String, &'static str) {
        match self {
            Part::Bus(node) => (format!("node {node}"), "bus, memory, cache"),
            Part::Opc(node) => (format!("node {node}"), "OPC"),
            Part::ArbitrationLine(node) => (
                "concentrator".to_string(),
                ["arbitration line 0", "arbitration line 1", "arbitration line 2"]
                    .get(node)
                    .copied()
                    .unwrap_or("other arbitration lines"),
            ),
            Part::DataLine => ("concentrator".to_string(), "data line"),
            Part::Arbiter => ("concentrator".to_string(), "arbiter"),
        }
    }
}

/// One step of one access.
#[derive(Clone, Debug)]
pub struct Step {
    /// The access.
    pub access: usize,
    /// The part at work.
    pub part: Part,
    /// The name of the event.
    pub name: &'static str,
    /// What the time is spent on.
    pub cause: Cause,
    /// From.
    pub start: Picos,
    /// To.
    pub end: Picos,
}

/// The steps of a run, kept only where somebody asked for them.
#[derive(Default)]
pub struct Log {
    is_on: bool,
    steps: Vec<Step>,
}

impl Log {
    /// A log that keeps its steps.
    pub fn on() -> Log {
        Log { is_on: true, steps: Vec::new() }
    }

    /// Adds a step.
    pub fn step(&mut self, step: Step) {
        if self.is_on && step.end > step.start {
            self.steps.push(step);
        }
    }

    /// The steps so far.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Time by cause between two moments: each moment counts for the step that began last, and for waiting where there is none.
    pub fn by_cause(&self, start: Picos, end: Picos) -> Vec<(Cause, Picos)> {
        let mut edges: Vec<Picos> = self.steps.iter().flat_map(|step| [step.start, step.end]).collect();
        edges.extend([start, end]);
        edges.retain(|edge| *edge >= start && *edge <= end);
        edges.sort_unstable();
        edges.dedup();
        let mut spent = Cause::ALL.map(|cause| (cause, Picos::ZERO));
        for window in edges.windows(2) {
            let running = self.steps.iter().filter(|step| step.start <= window[0] && step.end >= window[1]);
            let cause = running.max_by_key(|step| step.start).map_or(Cause::Wait, |step| step.cause);
            let slot = spent.iter_mut().find(|entry| entry.0 == cause).expect("every cause is in ALL");
            slot.1 += window[1] - window[0];
        }
        spent.to_vec()
    }

    /// The steps as a timing chart.
    pub fn to_trace(&self) -> Trace {
        let mut trace = Trace::new();
        for step in &self.steps {
            let (group, part) = step.part.names();
            let id = trace.part(&group, part);
            trace.span(id, step.name, step.start, step.end);
        }
        trace
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_moment_counts_once() {
        let mut log = Log::on();
        let mut add = |cause, start, end| {
            log.step(Step { access: 0, part: Part::Arbiter, name: "x", cause, start: Picos(start), end: Picos(end) });
        };
        add(Cause::Arbiter, 0, 10);
        add(Cause::Serial, 5, 15);
        let spent = log.by_cause(Picos(0), Picos(20));
        let of = |cause| spent.iter().find(|entry| entry.0 == cause).unwrap().1;
        assert_eq!((of(Cause::Arbiter), of(Cause::Serial), of(Cause::Wait)), (Picos(5), Picos(10), Picos(5)));
    }
}
