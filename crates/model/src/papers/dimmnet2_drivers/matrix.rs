//! The distributed matrix product: Table 6, figure 9, and predictions beyond.
use crate::claim::{Check, Judgement, Limit};
use crate::outcome::{Axis, Outcome, Plot, Table, Tolerance};
use crate::parameters::Parameters;

use super::calibration::Program;
use super::cluster::{self, Prediction, PrintedCell, predict, predict_all};
use super::rules::RULES;

/// T_all rests on Himeno's operation times; the rest follows from the equations.
const TOTAL: Tolerance = Tolerance::Relative(0.001);
const HALF: Tolerance = Tolerance::Absolute(0.5);
/// Table 6 prints the prediction's counts with the fraction cut off.
const CUT: Tolerance = Tolerance::Absolute(0.999);

// FEATURE: D2-F8
const PRINTED: &[PrintedCell] = &[
    PrintedCell { fact: "d2.t6.t_barrier.p1", node_count: 1, value: |p| p.parts.barrier, tolerance: Tolerance::Exact },
    PrintedCell { fact: "d2.t6.t_barrier.p2", node_count: 2, value: |p| p.parts.barrier, tolerance: Tolerance::Exact },
    PrintedCell { fact: "d2.t6.t_barrier.p4", node_count: 4, value: |p| p.parts.barrier, tolerance: Tolerance::Exact },
    PrintedCell { fact: "d2.t6.n_page.p1", node_count: 1, value: |p| p.page_count, tolerance: Tolerance::Exact },
    PrintedCell { fact: "d2.t6.n_page.p2", node_count: 2, value: |p| p.page_count, tolerance: Tolerance::Exact },
    PrintedCell { fact: "d2.t6.n_page.p4", node_count: 4, value: |p| p.page_count, tolerance: CUT },
    PrintedCell { fact: "d2.t6.n_flush.p1", node_count: 1, value: |p| p.flush_count, tolerance: Tolerance::Exact },
    PrintedCell { fact: "d2.t6.n_flush.p2", node_count: 2, value: |p| p.flush_count, tolerance: Tolerance::Exact },
    PrintedCell { fact: "d2.t6.n_flush.p4", node_count: 4, value: |p| p.flush_count, tolerance: Tolerance::Exact },
    PrintedCell { fact: "d2.t6.nr0.p1", node_count: 1, value: |p| p.reads, tolerance: Tolerance::Exact },
    PrintedCell { fact: "d2.t6.nr0.p2", node_count: 2, value: |p| p.reads, tolerance: Tolerance::Exact },
    PrintedCell { fact: "d2.t6.nr0.p4", node_count: 4, value: |p| p.reads, tolerance: CUT },
    PrintedCell { fact: "d2.t6.nw0.p1", node_count: 1, value: |p| p.writes, tolerance: Tolerance::Exact },
    PrintedCell { fact: "d2.t6.nw0.p2", node_count: 2, value: |p| p.writes, tolerance: Tolerance::Exact },
    PrintedCell { fact: "d2.t6.nw0.p4", node_count: 4, value: |p| p.writes, tolerance: Tolerance::Exact },
    PrintedCell { fact: "d2.t6.t_calc.p1", node_count: 1, value: |p| p.parts.calc, tolerance: Tolerance::Exact },
    PrintedCell { fact: "d2.t6.t_calc.p2", node_count: 2, value: |p| p.parts.calc, tolerance: HALF },
    PrintedCell { fact: "d2.t6.t_calc.p4", node_count: 4, value: |p| p.parts.calc, tolerance: HALF },
    PrintedCell { fact: "d2.t6.t_all.p1", node_count: 1, value: |p| p.parts.total(), tolerance: TOTAL },
    PrintedCell { fact: "d2.t6.t_all.p2", node_count: 2, value: |p| p.parts.total(), tolerance: TOTAL },
    PrintedCell { fact: "d2.t6.t_all.p4", node_count: 4, value: |p| p.parts.total(), tolerance: TOTAL },
];

/// The experiment.
pub fn run(parameters: &Parameters) -> Outcome {
    let mut outcome = Outcome::new();
    let predictions = predict_all(Program::Matrix, parameters);
    let order = parameters.count("matrix.order");
    outcome.tables.push(cluster::table(&format!("Matrix product on ATR-DSM, N = {order}"), &predictions));
    outcome.tables.push(readings(parameters));
    let himeno = predict_all(Program::Himeno, parameters);
    let programs: [(&str, &[Prediction]); 2] = [("matrix product", &predictions), ("Himeno, for comparison", &himeno)];
    let mut gains = cluster::speed_up_plot("Matrix product: speed-up", &programs);
    gains.printed_at("paper: matrix product", &[(2.0, "d2.mm.speedup2"), (4.0, "d2.check.mm_speedup4")]);
    outcome.plots.push(gains.figure("D2 figure 9"));
    outcome.plots.push(readings_plot(parameters));
    cluster::produce(&mut outcome, PRINTED, &predictions);
    let two = speed_up(&predictions, 2, parameters);
    outcome.produce("d2.mm.speedup2", two, Tolerance::Absolute(0.01));
    let last = predictions.last().expect("one node is always there");
    outcome.headline("time, all nodes", "ms", last.parts.total());
    outcome.headline("speed-up over one node", "x", predictions[0].parts.total() / last.parts.total());
    outcome.note("Suspect: the text prints the scaling exponent P - 1 and equation (10) misses Table 6; both readings stand in the second table.");
    outcome
}

fn speed_up(predictions: &[Prediction], node_count: u64, parameters: &Parameters) -> f64 {
    predictions[0].parts.total() / predict(Program::Matrix, node_count, parameters).parts.total()
}

fn total(nodes: u64, parameters: &Parameters) -> f64 {
    predict(Program::Matrix, nodes, parameters).parts.total()
}

/// The two-node gain with the cost of every transfer multiplied.
fn gain_with_transfers(times: f64, parameters: &Parameters) -> f64 {
    let total = |nodes| {
        let parts = predict(Program::Matrix, nodes, parameters).parts;
        parts.total() + (times - 1.0) * parts.transfer
    };
    total(1) / total(2)
}

/// D2-C10.
pub fn two_nodes(parameters: &Parameters) -> Option<Judgement> {
    let gain = total(1, parameters) / total(2, parameters);
    let share = 100.0 * predict(Program::Matrix, 1, parameters).parts.calc / total(1, parameters);
    Some(Judgement::new(
        format!("{gain:.3}x"),
        format!(
            "Operation times come from Himeno's table, computation from the one-node column; the two-node total is not used. {share:.1} % of the time is the printed computation, halved by assumption: without any cost of transfers the gain is {:.4}x, with ten times the cost {:.4}x.",
            gain_with_transfers(0.0, parameters),
            gain_with_transfers(10.0, parameters)
        ),
        vec![Check::fact(&RULES, "d2.mm.speedup2", "two nodes over one", gain)],
    ))
}

/// D2-C11.
pub fn more_nodes(parameters: &Parameters) -> Option<Judgement> {
    let counts = [4_u64, 8, 16];
    let gains = counts.map(|nodes| total(1, parameters) / total(nodes, parameters));
    let mut checks = vec![Check::fact(&RULES, "d2.check.mm_speedup4", "4 nodes over one", gains[0])];
    checks.extend(counts.iter().zip(gains).map(|(nodes, gain)| {
        Check::new(format!("{nodes} nodes, of the ideal"), gain / *nodes as f64, "", Limit::AtLeast(RULES.word("near-linear")))
    }));
    Some(Judgement::new(
        format!("{:.2}x, {:.2}x, {:.2}x on 4, 8, 16 nodes", gains[0], gains[1], gains[2]),
        "The paper's own scaling with exponent log2 P; it leaves out any load that grows with the nodes. The paper's own numbers come from the same formula.",
        checks,
    ))
}

/// Pages and reads in every reading, beside what Table 6 prints.
fn readings(parameters: &Parameters) -> Table {
    let mut table = Table::new(
        "Readings of equation (10) and of the scaling's exponent",
        &[
            ("nodes", ""),
            ("N_page, Table 6", ""),
            ("eq 10 printed", ""),
            ("eq 10 corrected", ""),
            ("1.5^log2 P", ""),
            ("1.5^(P-1)", ""),
            ("T_all, log2 P", "ms"),
            ("T_all, P-1", "ms"),
        ],
    );
    for (nodes, printed) in [(1, Some(6144_u64)), (2, Some(4096)), (4, Some(2730)), (8, None), (16, None)] {
        let with = |pages: f64, exponent: f64| {
            let reading = parameters.with("scaling.pages", pages).with("scaling.exponent", exponent);
            predict(Program::Matrix, nodes, &reading)
        };
        let (log2, minus_one) = (with(0.0, 0.0), with(0.0, 1.0));
        table.row(vec![
            nodes.into(),
            printed.into(),
            with(2.0, 0.0).page_count.into(),
            with(1.0, 0.0).page_count.into(),
            log2.page_count.into(),
            minus_one.page_count.into(),
            log2.parts.total().into(),
            minus_one.parts.total().into(),
        ]);
    }
    table
}

fn readings_plot(parameters: &Parameters) -> Plot {
    let mut plot = Plot::new("Pages a node touches, in every reading", Axis::log("nodes", ""), Axis::log("N_page", ""));
    let readings: [(&str, f64, f64); 4] =
        [("eq 10 printed", 2.0, 0.0), ("eq 10 corrected", 1.0, 0.0), ("1.5^log2 P", 0.0, 0.0), ("1.5^(P-1)", 0.0, 1.0)];
    for (name, pages, exponent) in readings {
        let reading = parameters.with("scaling.pages", pages).with("scaling.exponent", exponent);
        plot.line(name, [1, 2, 4, 8, 16].map(|nodes| (nodes as f64, predict(Program::Matrix, nodes, &reading).page_count)));
    }
    plot.line("Table 6", [(1.0, 6144.0), (2.0, 4096.0), (4.0, 2730.0)]);
    plot
}
