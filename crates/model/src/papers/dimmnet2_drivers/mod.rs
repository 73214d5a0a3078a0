//! Implementation and Evaluation of DIMMnet-2 Device Drivers for Microsoft Windows.
use crate::experiment::Paper;
use crate::parameters::Parameters;

/// The model of the paper.
pub static PAPER: Paper = Paper {
    id: "dimmnet2-drivers",
    title: "Implementation and Evaluation of DIMMnet-2 Device Drivers for Microsoft Windows",
    summary: "",
    parameters: || Parameters::new(Vec::new()),
    experiments: &[],
};
