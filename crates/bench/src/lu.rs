//! LU decomposition on mapped memory. One rank stands beside main memory, ranks on nodes of their own beside threads and MPI.

use crate::Options;
use crate::programs::Program;
use crate::report::Report;
use anyhow::Result;

/// The bench's name.
pub const NAME: &str = "lu";

const LU: Program = Program {
    name: NAME,
    size: &["2048"],
    size_quick: &["192"],
    memory: "128M",
    mpi: Some("mpi_lu"),
    goal_alone: Some(0.97),
    goal_speed_up: Some(0.9),
    goal_many: Some(0.8),
};

/// Runs it.
pub fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Report> {
    let mut report = Report::new(NAME);
    let was = LU.measure(options, progress)?;
    LU.rows(&was, &mut report)?;
    Ok(report)
}
