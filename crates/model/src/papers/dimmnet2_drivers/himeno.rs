//! Himeno, size M: Table 8, figure 12.
use crate::claim::{Check, Judgement, Limit};
use crate::outcome::{Axis, Outcome, Plot, Tolerance};
use crate::parameters::Parameters;

use super::calibration::Program;
use super::cluster::{self, PrintedCell, predict, predict_all};
use super::rules::RULES;

/// Measured counts differ from whole pages by up to 1.9 %: the run's first and last pages are partly touched.
const COUNT: Tolerance = Tolerance::Relative(0.02);
/// T_all rests on the matrix product's operation times.
const TOTAL: Tolerance = Tolerance::Relative(0.01);
const HALF: Tolerance = Tolerance::Absolute(0.5);

const PRINTED: &[PrintedCell] = &[
    PrintedCell { fact: "d2.t8.t_barrier.p1", node_count: 1, value: |p| p.parts.barrier, tolerance: Tolerance::Exact },
    PrintedCell { fact: "d2.t8.t_barrier.p2", node_count: 2, value: |p| p.parts.barrier, tolerance: Tolerance::Exact },
    PrintedCell { fact: "d2.t8.n_page.p1", node_count: 1, value: |p| p.page_count, tolerance: Tolerance::Exact },
    PrintedCell { fact: "d2.t8.n_page.p2", node_count: 2, value: |p| p.page_count, tolerance: Tolerance::Exact },
    PrintedCell { fact: "d2.t8.n_flush.p1", node_count: 1, value: |p| p.flush_count, tolerance: Tolerance::Exact },
    PrintedCell { fact: "d2.t8.n_flush.p2", node_count: 2, value: |p| p.flush_count, tolerance: Tolerance::Exact },
    PrintedCell { fact: "d2.t8.nr0.p1", node_count: 1, value: |p| p.reads, tolerance: COUNT },
    PrintedCell { fact: "d2.t8.nr0.p2", node_count: 2, value: |p| p.reads, tolerance: COUNT },
    PrintedCell { fact: "d2.t8.nw0.p1", node_count: 1, value: |p| p.writes, tolerance: COUNT },
    PrintedCell { fact: "d2.t8.nw0.p2", node_count: 2, value: |p| p.writes, tolerance: COUNT },
    PrintedCell { fact: "d2.t8.t_calc.p1", node_count: 1, value: |p| p.parts.calc, tolerance: Tolerance::Exact },
    PrintedCell { fact: "d2.t8.t_calc.p2", node_count: 2, value: |p| p.parts.calc, tolerance: HALF },
    PrintedCell { fact: "d2.t8.t_all.p1", node_count: 1, value: |p| p.parts.total(), tolerance: TOTAL },
    PrintedCell { fact: "d2.t8.t_all.p2", node_count: 2, value: |p| p.parts.total(), tolerance: TOTAL },
];

/// The experiment.
pub fn run(parameters: &Parameters) -> Outcome {
    let mut outcome = Outcome::new();
    let predictions = predict_all(Program::Himeno, parameters);
    outcome.tables.push(cluster::table("Himeno on ATR-DSM, one sweep, size M by default", &predictions));
    outcome.plots.push(cluster::parts_plot("Himeno: where the time goes", &predictions));
    cluster::produce(&mut outcome, PRINTED, &predictions);

    let main_memory = predictions[0].parts.calc;
    let one = predictions[0].parts.total();
    let two = predict(Program::Himeno, 2, parameters).parts.total();
    let (one_vs_original, two_vs_original, two_vs_one) = (main_memory / one, main_memory / two, one / two);
    outcome.produce("d2.him.ratio_1node_vs_orig", one_vs_original, Tolerance::Relative(RULES.share));
    outcome.produce("d2.him.ratio_2node_vs_orig", two_vs_original, Tolerance::Relative(RULES.share));
    outcome.produce("d2.him.ratio_2node_vs_1node", two_vs_one, Tolerance::Relative(RULES.share));
    let mut plot = Plot::bars(
        "Himeno M: speed relative to main memory",
        &["main memory", "DSM, 1 node", "DSM, 2 nodes"],
        Axis::new("speed", "x"),
    );
    plot.bar("model", &[1.0, one_vs_original, two_vs_original]);
    plot.bar("paper", &[1.0, 0.82, 1.38]);
    outcome.plots.push(plot.figure("D2 figure 12"));
    outcome.headline("one node under DSM, against main memory", "x", one_vs_original);
    outcome.headline("two nodes, against main memory", "x", two_vs_original);
    outcome.headline("two nodes, against one", "x", two_vs_one);
    outcome
}

const REASON: &str = "Operation times come from the matrix product's table; only the computation time, which is the main-memory version's, is Himeno's own.";

/// Main memory over one node, main memory over two, one over two.
fn ratios(parameters: &Parameters) -> [f64; 3] {
    let parts = [1, 2].map(|nodes| predict(Program::Himeno, nodes, parameters).parts);
    let (main_memory, one, two) = (parts[0].calc, parts[0].total(), parts[1].total());
    [main_memory / one, main_memory / two, one / two]
}

fn ratio(got: f64, key: &'static str, what: &str) -> Option<Judgement> {
    Some(Judgement::new(format!("{got:.3}x"), REASON, vec![Check::fact(&RULES, key, what, got)]))
}

/// D2-C14.
pub fn one_node(parameters: &Parameters) -> Option<Judgement> {
    ratio(ratios(parameters)[0], "d2.him.ratio_1node_vs_orig", "one node against main memory")
}

/// D2-C15.
pub fn two_nodes(parameters: &Parameters) -> Option<Judgement> {
    ratio(ratios(parameters)[1], "d2.him.ratio_2node_vs_orig", "two nodes against main memory")
}

/// D2-C16.
pub fn two_over_one(parameters: &Parameters) -> Option<Judgement> {
    ratio(ratios(parameters)[2], "d2.him.ratio_2node_vs_1node", "two nodes over one")
}

/// The third program's times, so that neither side of the order rests on a table it is about.
pub fn on_wisconsin(parameters: &Parameters) -> Parameters {
    parameters.with_choice("transfer.from", "wisconsin")
}

/// D2-C17.
pub fn order(parameters: &Parameters) -> Option<Judgement> {
    let gain = |program| {
        let total = |nodes| predict(program, nodes, parameters).parts.total();
        total(1) / total(2)
    };
    let (matrix, himeno) = (gain(Program::Matrix), gain(Program::Himeno));
    Some(Judgement::new(
        format!("two nodes gain {matrix:.2}x (matrix product) and {himeno:.2}x (Himeno)"),
        "The order follows from computation over transfer. Only the order is judged; Himeno's gain itself is that of D2-C16.",
        vec![Check::new("matrix product's gain over Himeno's", matrix / himeno, "x", Limit::Above(1.0))],
    ))
}
