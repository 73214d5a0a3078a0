//! The parts of the fault matrix: what commands there are and what they leave behind, the processes that run them, the nodes that
//! are hit, and one cell of the matrix.

pub mod cell;
pub mod client;
pub mod cluster;
pub mod kind;
pub mod ledger;
pub mod level;
pub mod runner;
