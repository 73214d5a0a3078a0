//! Network/Memory Architecture with Large Memory in addition to Main Memory.
use crate::experiment::Paper;
use crate::parameters::Parameters;

/// The model of the paper.
pub static PAPER: Paper = Paper {
    id: "dimmnet3",
    title: "Network/Memory Architecture with Large Memory in addition to Main Memory",
    summary: "",
    parameters: || Parameters::new(Vec::new()),
    experiments: &[],
};
