//! Design and Preliminary Evaluation of an Optical Bus Computer Cluster.
pub mod analytic;
pub mod bus;
pub mod cluster;
mod experiments;
pub mod flow;
pub mod product;
mod rules;
pub mod timing;

use crate::experiment::{Citation, Paper};
use crate::parameters::Parameters;

/// The parameters with their defaults.
pub fn parameters() -> Parameters {
    Parameters::of("euphoria")
}

/// The model of the paper.
pub static PAPER: Paper = Paper {
    id: "euphoria",
    name: "Euphoria",
    title: "Design and Preliminary Evaluation of an Optical Bus Computer Cluster",
    citation: Citation {
        original_title: "光バスクラスタシステムの仕様と基本性能の評価",
        authors: "T. Fukui, S. Suzuki, S. Nakamura, T. Shimoyama, Y. Sudou, K. Hamaguchi, S. Shibayama (Canon Media Technology Laboratory, CyberMedia Project)",
        published: "Year and venue are not in the material this project has; it cites work of 1996",
        record: &[],
    },
    summary: "Workstations on an optical bus: MESI caches, directory, arbiter and data lines, packet by packet",
    rules: &rules::RULES,
    parameters,
    experiments: experiments::EXPERIMENTS,
};
