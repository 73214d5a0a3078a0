//! Get and put on one host, and get between two hosts over TCP, beside what people use today.

mod local;
mod remote;

use crate::Options;
use crate::nodes::Nodes;
use crate::report::{Better, Report, Row};
use crate::turns::Outcome;
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

fn bytes(size: usize) -> String {
    match size {
        0..1024 => format!("{size} B"),
        1024..0x10_0000 => format!("{} KiB", size >> 10),
        _ => format!("{} MiB", size >> 20),
    }
}

/// A time in ns as a row in ns or us, whichever reads better.
fn time_row(case: String, ns: f64) -> (Row, f64) {
    let (unit, scale) = if ns < 1000.0 { ("ns", 1.0) } else { ("us", 1e-3) };
    (Row::alone(case, ns * scale, unit, Better::Lower), scale)
}

/// Our figure beside one of a peer, which may be missing.
fn compare(case: String, ours: &Outcome, key: &str, peer: &Outcome, peer_key: &str, goal: Option<f64>) -> Result<Row> {
    let ns = ours.median(key).map_err(|reason| anyhow::anyhow!("{case}: {reason}"))?;
    let (row, scale) = time_row(case, ns);
    Ok(match peer.median(peer_key) {
        Ok(peer_ns) => row.beside(&peer.name, peer_ns * scale, goal),
        Err(reason) => row.missing(&peer.name, reason, goal),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::turns::Figures;

    #[test]
    fn sizes_and_times_read_well() {
        assert_eq!(SIZES.map(bytes), ["8 B", "4 KiB", "1 MiB"]);
        assert_eq!(time_row("x".into(), 31.5).0.unit, "ns");
        assert_eq!(time_row("x".into(), 8100.0).0.value, 8.1);
        assert_eq!((rounds_of(8, 100), rounds_of(1 << 20, 100)), (100, 20));
    }

    #[test]
    fn both_sides_of_a_row_have_one_unit() {
        let outcome = |name: &str, ns: f64| Outcome { name: name.into(), medians: Ok(Figures::from([("k".to_owned(), ns)])) };
        let row = compare("x".into(), &outcome("a", 900.0), "k", &outcome("b", 1800.0), "k", Some(1.0)).unwrap();
        let beside = row.beside.unwrap();
        assert_eq!((row.unit, beside.peer_value, beside.ratio, beside.met), ("ns", Some(1800.0), Some(2.0), Some(true)));
    }
}
