//! Software Distributed Shared Memory on an Optical Network Interface with FPGA.
use crate::experiment::Paper;
use crate::parameters::Parameters;

/// The model of the paper.
pub static PAPER: Paper = Paper {
    id: "rhinet-fagus",
    title: "Software Distributed Shared Memory on an Optical Network Interface with FPGA",
    summary: "",
    parameters: || Parameters::new(Vec::new()),
    experiments: &[],
};
