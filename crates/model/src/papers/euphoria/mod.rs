//! Design and Preliminary Evaluation of an Optical Bus Computer Cluster.
mod analytic;
mod bus;
mod cluster;
mod flow;
mod framing;
mod parameters;
mod timing;

use crate::experiment::Paper;

/// The model of the paper.
pub static PAPER: Paper = Paper {
    id: "euphoria",
    title: "Design and Preliminary Evaluation of an Optical Bus Computer Cluster",
    summary: "Workstations on an optical bus: MESI caches, directory, arbiter and data lines, packet by packet",
    parameters: parameters::parameters,
    experiments: &[],
};
