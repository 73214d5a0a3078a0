//! The LU experiment: figure 6, with the completions and barrier orders the authors suspect or plan.
use super::lu::{Completion, Run, run};
use super::transport::Transport;
use crate::facts::facts;
use crate::outcome::{Axis, Cell, Outcome, Plot, Table, Tolerance};
use crate::parameters::Parameters;
use crate::trace::Trace;

/// Runs on 1 to 4 nodes: Ethernet, and RHiNET with each completion.
pub struct Runs {
    /// Node counts.
    pub nodes: Vec<usize>,
    /// Fagus/Ethernet.
    pub ethernet: Vec<Run>,
    /// Fagus/RHiNET, per completion of [`Completion::ALL`].
    pub rhinet: Vec<Vec<Run>>,
}

/// All runs for the parameters.
pub fn runs(parameters: &Parameters) -> Runs {
    let range = facts().fact("rf.lu.nodes").input().numbers();
    let nodes: Vec<usize> = (range[0] as usize..=range[1] as usize).collect();
    let [rhinet, ethernet] = Transport::both(parameters);
    let each = |transport: &Transport, completion| {
        nodes.iter().map(|&count| run(parameters, transport, completion, count, None)).collect()
    };
    Runs {
        ethernet: each(&ethernet, Completion::Interrupt),
        rhinet: Completion::ALL.iter().map(|completion| each(&rhinet, *completion)).collect(),
        nodes,
    }
}

/// LU decomposition on 1 to 4 nodes: figure 6.
pub fn lu(parameters: &Parameters) -> Outcome {
    let mut outcome = Outcome::new();
    let runs = runs(parameters);
    let order = parameters.count("lu.order");
    let chosen = parameters.choice("host.completion");
    outcome.tables.push(times(&runs, &format!("LU of order {order}, run time")));
    outcome.tables.push(parts(&runs, chosen));
    let mut plot = Plot::new(format!("LU of order {order}"), Axis::new("nodes", "count"), Axis::new("run time", "s"));
    let points =
        |line: &[Run]| -> Vec<(f64, f64)> { runs.nodes.iter().zip(line).map(|(n, run)| (*n as f64, run.total.as_s())).collect() };
    plot.line("Fagus/Ethernet", points(&runs.ethernet));
    for (completion, line) in Completion::ALL.iter().zip(&runs.rhinet) {
        plot.line(format!("Fagus/RHiNET, {}", completion.name()), points(line));
    }
    outcome.plots.push(plot.figure("RF figure 6"));
    let other = self::runs(&parameters.with("lu.release", (1 - parameters.choice("lu.release")) as f64));
    outcome.tables.push(times(
        &other,
        &format!("The same with lu.release = {}", release_name(parameters, 1 - parameters.choice("lu.release"))),
    ));
    outcome.produce("rf.lu.n", order as f64, Tolerance::Exact);
    outcome.produce_all("rf.lu.nodes", &[runs.nodes[0] as f64, runs.nodes[runs.nodes.len() - 1] as f64], Tolerance::Exact);
    let last = runs.nodes.len() - 1;
    outcome.headline("Fagus/RHiNET, 4 nodes", "s", runs.rhinet[chosen][last].total.as_s());
    outcome.headline("Fagus/Ethernet, 4 nodes", "s", runs.ethernet[last].total.as_s());
    outcome.note(
        "The element type is not stated (double taken), nor is the order in which the barrier's server lets its own thread go.",
    );
    outcome.trace = Some(chart(parameters, runs.nodes[last]));
    outcome
}

fn release_name(parameters: &Parameters, index: usize) -> &'static str {
    parameters.find("lu.release").map_or("", |parameter| parameter.choices[index])
}

fn times(runs: &Runs, title: &str) -> Table {
    let mut columns = vec![("nodes".to_string(), "count"), ("Ethernet".to_string(), "s")];
    columns.extend(Completion::ALL.iter().map(|completion| (format!("RHiNET, {}", completion.name()), "s")));
    let columns: Vec<(&str, &str)> = columns.iter().map(|(name, unit)| (name.as_str(), *unit)).collect();
    let mut table = Table::new(title, &columns);
    for (index, nodes) in runs.nodes.iter().enumerate() {
        let mut cells: Vec<Cell> = vec![(*nodes as u64).into(), runs.ethernet[index].total.as_s().into()];
        cells.extend(runs.rhinet.iter().map(|line| Cell::from(line[index].total.as_s())));
        table.row(cells);
    }
    table
}

fn parts(runs: &Runs, chosen: usize) -> Table {
    let columns = [
        ("configuration", ""),
        ("nodes", "count"),
        ("run time", "s"),
        ("computing", "s"),
        ("in barriers", "s"),
        ("of that moving rows", "s"),
    ];
    let mut table = Table::new("Where the time goes", &columns);
    for (name, line) in [("Fagus/Ethernet", &runs.ethernet), ("Fagus/RHiNET", &runs.rhinet[chosen])] {
        for (nodes, run) in runs.nodes.iter().zip(line) {
            table.row(vec![
                name.into(),
                (*nodes as u64).into(),
                run.total.as_s().into(),
                run.compute.as_s().into(),
                run.barrier.as_s().into(),
                run.rows.as_s().into(),
            ]);
        }
    }
    table
}

/// The first steps of each configuration.
fn chart(parameters: &Parameters, nodes: usize) -> Trace {
    let mut trace = Trace::new();
    let [rhinet, ethernet] = Transport::both(parameters);
    for completion in Completion::ALL {
        run(parameters, &rhinet, completion, nodes, Some(&mut trace));
    }
    run(parameters, &ethernet, Completion::Interrupt, nodes, Some(&mut trace));
    trace
}
