//! Himeno, size M: Table 8, figure 12.
use crate::claim::ClaimResult;
use crate::outcome::{Axis, Outcome, Plot, Tolerance};
use crate::parameters::Parameters;

use super::calibration::{Operations, Program, WISCONSIN, mean_of, operations};
use super::cluster::{self, PrintedCell, RATIO_TOLERANCE, predict, predict_all, predict_with};

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
    outcome.produce("d2.him.ratio_1node_vs_orig", one_vs_original, Tolerance::Relative(RATIO_TOLERANCE));
    outcome.produce("d2.him.ratio_2node_vs_orig", two_vs_original, Tolerance::Relative(RATIO_TOLERANCE));
    outcome.produce("d2.him.ratio_2node_vs_1node", two_vs_one, Tolerance::Relative(RATIO_TOLERANCE));
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
    claims(&mut outcome, [one_vs_original, two_vs_original, two_vs_one], parameters);
    outcome
}

fn claims(outcome: &mut Outcome, [one_vs_original, two_vs_original, two_vs_one]: [f64; 3], parameters: &Parameters) {
    let (_, calibrated_on) = operations(Program::Himeno, 2, parameters);
    const REASON: &str =
        "Operation times come from the matrix product's table; only the computation time is Himeno's own. Judged within 3 %.";
    for (id, printed, got) in [("D2-C14", 0.82, one_vs_original), ("D2-C15", 1.38, two_vs_original), ("D2-C16", 1.69, two_vs_one)]
    {
        outcome.claims.push(ClaimResult::judged(
            id,
            cluster::matches_ratio(printed, got),
            format!("{got:.3}x"),
            REASON,
            calibrated_on,
        ));
    }
    // Both programs take the third one's times, so that neither side of the order rests on a table it is about.
    let gain = |program: Program| {
        let total = |nodes: u64| {
            let time = mean_of(Program::Wisconsin, nodes, parameters);
            predict_with(program, nodes, Operations { read: time, write: time }, parameters).parts.total()
        };
        total(1) / total(2)
    };
    let (matrix, himeno) = (gain(Program::Matrix), gain(Program::Himeno));
    outcome.claims.push(ClaimResult::judged(
        "D2-C17",
        matrix > himeno,
        format!("two nodes gain {matrix:.2}x (matrix product) and {himeno:.2}x (Himeno)"),
        "The order follows from computation over transfer; both programs take their operation times from the Wisconsin query's table.",
        WISCONSIN,
    ));
}
