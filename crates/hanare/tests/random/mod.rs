//! Random programs on real nodes, by seed, and what they may have seen.
//!
//! | module | holds |
//! |---|---|
//! | `plan` | what a seed stands for: nodes, programs and their deaths, whose each byte is |
//! | `program` | what a program does |
//! | `log` | what it notes of that |
//! | `oracle` | whether what was seen may have been |
//! | `run` | the nodes and the programs of a seed, from beginning to end |

mod log;
mod oracle;
mod plan;
pub mod program;
pub mod run;
