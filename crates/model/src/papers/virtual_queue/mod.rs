//! Virtual Queue: A Message Communication Mechanism for Massively Parallel Computers.
pub mod cache;
pub mod contexts;
pub mod crossbar;
mod experiments;
pub mod home_rules;
pub mod machine;
pub mod node;
pub mod product;
pub mod queue;
mod rules;
pub mod traffic;
pub mod write_port;

use crate::experiment::{Citation, Paper};
use crate::parameters::Parameters;

/// The parameters with their defaults.
pub fn parameters() -> Parameters {
    Parameters::of("virtual-queue")
}

/// The model of the paper.
pub static PAPER: Paper = Paper {
    id: "virtual-queue",
    name: "Virtual Queue",
    title: "Virtual Queue: A Message Communication Mechanism for Massively Parallel Computers",
    citation: Citation {
        original_title: "Virtual Queue: 超並列計算機向きメッセージ通信機構",
        authors: "M. Goshima, S. Mori, H. Nakashima, S. Tomita (Kyoto University)",
        published: "July 1996, Transactions of the Information Processing Society of Japan 37 (7), pages 1399 to 1408; received 1 September 1995, accepted 12 March 1996",
        record: &[
            ("year", "1996"),
            ("month", "7"),
            ("journal", "Transactions of the Information Processing Society of Japan"),
            ("volume", "37"),
            ("number", "7"),
            ("pages", "1399--1408"),
        ],
    },
    summary: "Nodes cycle by cycle with the three units and their context caches; the matrix product in four schemes",
    rules: &rules::RULES,
    parameters,
    experiments: experiments::EXPERIMENTS,
};
