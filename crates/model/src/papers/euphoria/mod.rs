//! Design and Preliminary Evaluation of an Optical Bus Computer Cluster.
use crate::experiment::Paper;
use crate::parameters::Parameters;

/// The model of the paper.
pub static PAPER: Paper = Paper {
    id: "euphoria",
    title: "Design and Preliminary Evaluation of an Optical Bus Computer Cluster",
    summary: "",
    parameters: || Parameters::new(Vec::new()),
    experiments: &[],
};
