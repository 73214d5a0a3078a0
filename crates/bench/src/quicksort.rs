//! Parallel quicksort on mapped memory, which Euphoria could not speed up: by ranks on nodes of their own beside threads.
//!
// FEATURE: EU-F20

use crate::Options;
use crate::programs::Program;
use crate::report::{Claim, Report};
use anyhow::Result;

/// The bench's name.
pub const NAME: &str = "quicksort";

const QUICKSORT: Program = Program {
    name: NAME,
    size: &["16777216"],
    size_quick: &["200000"],
    memory: "256M",
    mpi: None,
    goal_alone: None,
    goal_speed_up: Some(0.75),
    goal_many: Some(0.8),
};

/// Euphoria's memory is coherent.
const COHERENT: usize = 0;

/// Runs it.
pub fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Report> {
    let mut report = Report::new(NAME);
    let was = QUICKSORT.measure(options, progress)?;
    QUICKSORT.rows(&was, &mut report)?;
    if !options.quick && options.ranks.unwrap_or(2) == 2 {
        let speed_up = was.plain / was.few(COHERENT)?;
        // SOURCE: [Euphoria §5.3] on two nodes slower than on one processor
        report.claims.push(Claim::new("EU-C12", speed_up, speed_up < 1.0));
    }
    Ok(report)
}
