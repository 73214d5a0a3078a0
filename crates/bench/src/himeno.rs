//! Himeno's benchmark with the pressure on mapped memory. One rank stands beside main memory, ranks on nodes of their own beside threads
//! and MPI.
//!
// FEATURE: D2-F21

use crate::Options;
use crate::programs::{Medians, Program};
use crate::report::{Claim, Report};
use anyhow::Result;

/// The bench's name.
pub const NAME: &str = "himeno";

const HIMENO: Program = Program {
    name: NAME,
    size: &["M"],
    size_quick: &["XS", "--sweeps", "3"],
    memory: "128M",
    mpi: Some("mpi_himeno"),
    goal_alone: Some(0.97),
    goal_speed_up: Some(0.9),
    goal_many: Some(0.8),
};

/// The paper's library flushes and updates by the program's word: its mode is Explicit.
const EXPLICIT: usize = 1;

/// Runs it.
pub fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Report> {
    let mut report = Report::new(NAME);
    let was = HIMENO.measure(options, progress)?;
    HIMENO.rows(&was, &mut report)?;
    report.claims = claims(options, &was)?;
    Ok(report)
}

/// The paper's figures of size M, and of two nodes.
fn claims(options: &Options, was: &Medians) -> Result<Vec<Claim>> {
    let mut claims = Vec::new();
    if options.quick {
        return Ok(claims);
    }
    let (alone, few) = (was.alone(EXPLICIT)?, was.few(EXPLICIT)?);
    // SOURCE: [D2 §6.5(3), Table 8] one node 0.82 times main memory; two nodes 1.38 times that, and 1.69 times one node
    claims.push(Claim::new("D2-C14", was.plain / alone, was.plain / alone >= 0.82));
    if options.ranks.unwrap_or(2) == 2 {
        claims.push(Claim::new("D2-C15", was.plain / few, was.plain / few >= 1.38));
        claims.push(Claim::new("D2-C16", alone / few, alone / few >= 1.69));
    }
    Ok(claims)
}
