//! Get and put on one host, and get between two hosts over TCP, beside what people use today.

mod local;
mod remote;

use crate::Options;
use crate::nodes::Nodes;
use crate::report::Report;
use anyhow::Result;

/// The bench's name.
pub const NAME: &str = "get";

/// Bytes of the transfers, as in the peers' programs.
const SIZES: [usize; 3] = [8, 4096, 1 << 20];

/// Bytes that each node lends: one slab for the regions, one to spare.
const MEMORY: u64 = 64 << 20;

/// Runs it.
pub fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Report> {
    let mut report = Report::new(NAME);
    let count = options.nodes.unwrap_or(2) as usize;
    progress(&format!("starting {count} nodes"));
    let nodes = Nodes::start(options, count, MEMORY)?;
    let pool = nodes.attach(0)?;
    report.rows.extend(local::rows(options, &pool, progress)?);
    if count > 1 {
        report.rows.extend(remote::rows(options, &pool, progress)?);
    }
    Ok(report)
}

/// Operations of `size` bytes in one measurement, as the peers' programs count them.
fn rounds_of(size: usize, rounds: usize) -> usize {
    (rounds / (1 + size / 4096)).max(20)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_operations_are_repeated_more_often() {
        assert_eq!((rounds_of(8, 100), rounds_of(1 << 20, 100)), (100, 20));
    }
}
