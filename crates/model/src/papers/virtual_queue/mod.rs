//! Virtual Queue: A Message Communication Mechanism for Massively Parallel Computers.
use crate::experiment::Paper;
use crate::parameters::Parameters;

/// The model of the paper.
pub static PAPER: Paper = Paper {
    id: "virtual-queue",
    title: "Virtual Queue: A Message Communication Mechanism for Massively Parallel Computers",
    summary: "",
    parameters: || Parameters::new(Vec::new()),
    experiments: &[],
};
