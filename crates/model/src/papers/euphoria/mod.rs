//! Design and Preliminary Evaluation of an Optical Bus Computer Cluster.
pub mod analytic;
pub mod bus;
pub mod cluster;
mod experiments;
pub mod flow;
pub mod framing;
mod parameters;
pub mod timing;

use crate::experiment::Paper;

/// The model of the paper.
pub static PAPER: Paper = Paper {
    id: "euphoria",
    title: "Design and Preliminary Evaluation of an Optical Bus Computer Cluster",
    summary: "Workstations on an optical bus: MESI caches, directory, arbiter and data lines, packet by packet",
    parameters: parameters::parameters,
    experiments: experiments::EXPERIMENTS,
};
