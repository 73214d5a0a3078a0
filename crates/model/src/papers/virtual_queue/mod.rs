//! Virtual Queue: A Message Communication Mechanism for Massively Parallel Computers.
pub mod address;
pub mod cache;
pub mod contexts;
pub mod crossbar;
mod experiments;
pub mod machine;
pub mod node;
mod parameters;
pub mod product;
pub mod queue;
pub mod traffic;
pub mod write_port;

use crate::experiment::Paper;

/// The model of the paper.
pub static PAPER: Paper = Paper {
    id: "virtual-queue",
    title: "Virtual Queue: A Message Communication Mechanism for Massively Parallel Computers",
    summary: "Nodes cycle by cycle with the three units and their context caches; the matrix product in four schemes",
    parameters: parameters::parameters,
    experiments: experiments::EXPERIMENTS,
};
