//! A program on P nodes under ATR-DSM: equations (6) to (12) and the scaling, as Tables 6 to 8 use them.
// FEATURE: D2-F18
use crate::outcome::{Axis, Cell, Outcome, Plot, Table, Tolerance};
use crate::parameters::Parameters;

use super::calibration::{Operations, Program, operations};
use super::equations::{
    Exponent, Parts, himeno_pages, matrix_pages, matrix_pages_printed, os_of_pages, transfer, wisconsin_pages,
};

/// SOURCE: [D2 §6.5(1)] with each doubling of the nodes reads fall to 1/1.5 and writes to 1/2.
const READ_BASE: f64 = 1.5;
const WRITE_BASE: f64 = 2.0;

/// A prediction for one number of nodes: a column of a table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prediction {
    /// Number of nodes.
    pub node_count: u64,
    /// N_page, pages a node touches.
    pub page_count: f64,
    /// N_flush.
    pub flush_count: f64,
    /// Nr_0, disk reads of a node.
    pub reads: f64,
    /// Nw_0, disk writes of a node.
    pub writes: f64,
    /// The parts of T_all.
    pub parts: Parts,
}

fn exponent(parameters: &Parameters) -> Exponent {
    [Exponent::Log2, Exponent::Printed][parameters.choice("scaling.exponent")]
}

/// Counts of one node: pages, flushes, reads, writes.
struct Counts {
    pages: f64,
    flushes: f64,
    reads: f64,
    writes: f64,
}

fn counts(program: Program, node_count: f64, parameters: &Parameters) -> Counts {
    let page = parameters.get_in("page.size", "B");
    let per_page = page / parameters.get_in("io.unit", "B");
    match program {
        Program::Matrix => matrix_counts(node_count, page, per_page, parameters),
        Program::Wisconsin => {
            let tuple_bytes = parameters.get_in("wisconsin.tuple_size", "B");
            let pages = wisconsin_pages(parameters.get("wisconsin.tuples"), tuple_bytes, page) / node_count;
            Counts { pages, flushes: 0.0, reads: pages * per_page, writes: 0.0 }
        }
        Program::Himeno => {
            let pages = himeno_pages(parameters.get("himeno.cells"), node_count, page);
            Counts { pages, flushes: 1.0, reads: pages * per_page, writes: pages * per_page }
        }
    }
}

fn matrix_counts(node_count: f64, page: f64, per_page: f64, parameters: &Parameters) -> Counts {
    let order = parameters.get("matrix.order");
    let exponent = exponent(parameters);
    let pages = match parameters.choice("scaling.pages") {
        0 => exponent.scale(matrix_pages(order, 1.0, page), READ_BASE, node_count),
        1 => matrix_pages(order, node_count, page),
        _ => matrix_pages_printed(order, node_count, page),
    };
    // Every page of C is written once, and a page is eight operations.
    let result_pages = matrix_pages(order, 1.0, page) - matrix_pages_printed(order, 1.0, page);
    let writes = exponent.scale(result_pages * per_page, WRITE_BASE, node_count);
    Counts { pages, flushes: 1.0, reads: pages * per_page, writes }
}

/// Computation on one node, in milliseconds; the matrix product's grows with the cube of its order.
fn calc_of_one(program: Program, parameters: &Parameters) -> f64 {
    match program {
        Program::Matrix => {
            parameters.get("matrix.calc") * (parameters.get("matrix.order") / crate::facts::facts().number("d2.mm.n")).powi(3)
        }
        Program::Wisconsin => {
            parameters.get("wisconsin.calc") * parameters.get("wisconsin.tuples") / crate::facts::facts().number("d2.wis.tuples")
        }
        Program::Himeno => {
            parameters.get("himeno.calc") * parameters.get("himeno.cells") / crate::facts::facts().number("d2.check.himeno_cells")
        }
    }
}

/// The prediction of a program for a number of nodes, with operation times from another program's table.
pub fn predict(program: Program, node_count: u64, parameters: &Parameters) -> Prediction {
    predict_with(program, node_count, operations(program, node_count, parameters), parameters)
}

/// The prediction with operation times of the caller's choice.
pub fn predict_with(program: Program, node_count: u64, times: Operations, parameters: &Parameters) -> Prediction {
    let nodes = node_count as f64;
    let counts = counts(program, nodes, parameters);
    let per_page = parameters.get_in("os.page", "ms");
    let per_flush = parameters.get_in("os.flush", "ms");
    let parts = Parts {
        os: os_of_pages(per_page, counts.pages, per_flush, counts.flushes),
        barrier: parameters.get_in("barrier.least", "ms"),
        transfer: transfer(&[times.read, times.write], &[counts.reads, counts.writes]),
        calc: calc_of_one(program, parameters) / nodes,
    };
    let Counts { pages: page_count, flushes: flush_count, reads, writes } = counts;
    Prediction { node_count, page_count, flush_count, reads, writes, parts }
}

/// The predictions for 1, 2, 4 … nodes up to the parameter `node.count`, which is the last even where it is no power of two.
pub fn predict_all(program: Program, parameters: &Parameters) -> Vec<Prediction> {
    let most = parameters.count("node.count");
    let mut node_counts: Vec<u64> =
        std::iter::successors(Some(1), |count| Some(count * 2)).take_while(|count| *count <= most).collect();
    if !node_counts.contains(&most) {
        node_counts.push(most);
    }
    node_counts.into_iter().map(|node_count| predict(program, node_count, parameters)).collect()
}

/// The table of a program's predictions, laid out as in the paper but with one row a number of nodes.
pub fn table(title: &str, predictions: &[Prediction]) -> Table {
    let mut table = Table::new(
        title,
        &[
            ("nodes", ""),
            ("T_barrier", "ms"),
            ("N_page", ""),
            ("N_flush", ""),
            ("Nr_0", ""),
            ("Nw_0", ""),
            ("T_os", "ms"),
            ("T_tr", "ms"),
            ("T_calc", "ms"),
            ("T_all", "ms"),
            ("speed-up", "x"),
        ],
    );
    for prediction in predictions {
        let parts = prediction.parts;
        let numbers = [
            parts.barrier,
            prediction.page_count,
            prediction.flush_count,
            prediction.reads,
            prediction.writes,
            parts.os,
            parts.transfer,
            parts.calc,
            parts.total(),
            predictions[0].parts.total() / parts.total(),
        ];
        table.row(std::iter::once(Cell::from(prediction.node_count)).chain(numbers.map(Cell::from)).collect());
    }
    table
}

/// Speed-up over one node against the number of nodes, one line a program, with the line of the ideal.
pub fn speed_up_plot(title: &str, programs: &[(&str, &[Prediction])]) -> Plot {
    let mut plot = Plot::new(title, Axis::log("nodes", ""), Axis::log("speed-up over one node", "x"));
    for (name, predictions) in programs {
        let one = predictions[0].parts.total();
        plot.line(*name, predictions.iter().map(|p| (p.node_count as f64, one / p.parts.total())));
    }
    plot.line("ideal", programs[0].1.iter().map(|p| (p.node_count as f64, p.node_count as f64)));
    plot
}

/// Where the time goes, one stacked bar a number of nodes.
pub fn parts_plot(title: &str, predictions: &[Prediction]) -> Plot {
    let names: Vec<String> =
        predictions.iter().map(|p| format!("{} node{}", p.node_count, if p.node_count == 1 { "" } else { "s" })).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let mut plot = Plot::bars(title, &names, Axis::new("time", "ms")).stacked();
    let part = |of: fn(&Parts) -> f64| predictions.iter().map(|p| of(&p.parts)).collect::<Vec<_>>();
    plot.bar("computation", &part(|parts| parts.calc));
    plot.bar("transfer", &part(|parts| parts.transfer));
    plot.bar("operating system", &part(|parts| parts.os));
    plot.bar("barrier", &part(|parts| parts.barrier));
    plot
}

/// One printed cell a prediction produces.
pub struct PrintedCell {
    /// The fact.
    pub fact: &'static str,
    /// Nodes of its column.
    pub node_count: u64,
    /// The value in the prediction.
    pub value: fn(&Prediction) -> f64,
    /// How close the model must come.
    pub tolerance: Tolerance,
}

/// Notes every printed cell that the predictions hold.
pub fn produce(outcome: &mut Outcome, cells: &[PrintedCell], predictions: &[Prediction]) {
    for cell in cells {
        if let Some(prediction) = predictions.iter().find(|prediction| prediction.node_count == cell.node_count) {
            outcome.produce(cell.fact, (cell.value)(prediction), cell.tolerance);
        }
    }
}
