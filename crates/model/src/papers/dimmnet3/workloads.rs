//! The applications the paper argues with, beyond those that have an experiment of their own: full scans, programs larger
//! than main memory, and video delivery.
use super::boards::{Board, INTERFACES, streaming};
use super::machine::Machine;
use super::vector;
use crate::outcome::{Axis, Outcome, Plot, Table};
use crate::parameters::Parameters;
use crate::time::Picos;

/// The applications' tables; search is in `servers`, halos in `halo`, OLTP in `remote-updates`, Cell in `cell-bus`.
// FEATURE: D3-F24
pub fn workloads(parameters: &Parameters) -> Outcome {
    let mut outcome = Outcome::new();
    scan(parameters, &mut outcome);
    paging(parameters, &mut outcome);
    video(parameters, &mut outcome);
    outcome.note("Records, titles and disks are chosen figures; the paper argues with these applications and prints no value.");
    outcome
}

/// A full scan of one field: host software out of main memory, or a vector load and reading packed windows.
fn scan(parameters: &Parameters, outcome: &mut Outcome) {
    const RECORDS: u64 = 4096;
    let field = parameters.bytes("scan.field");
    let columns =
        [("record", "B"), ("main memory", "ns"), ("DIMMnet-2", "ns"), ("DIMMnet-3", "ns"), ("main memory / DIMMnet-3", "x")];
    let mut table = Table::new(format!("Full scan of a {field} B field, time for each record"), &columns);
    let mut plot = Plot::new("Full scan of one field", Axis::log("record", "B"), Axis::log("time for each record", "ns"));
    let boards = [(Board::Dimmnet2, &INTERFACES[0]), (Board::Dimmnet3, &INTERFACES[1])]
        .map(|(board, interface)| Machine::with(&parameters.with("host.read_attribute", 1.0), board, interface));
    let each = |span: Picos| span.as_ns() / RECORDS as f64;
    let mut points = [Vec::new(), Vec::new(), Vec::new()];
    let chosen = parameters.bytes("scan.record");
    let mut sizes: Vec<u64> = (4..=12).map(|power| 1 << power).chain([chosen]).collect();
    sizes.sort_unstable();
    sizes.dedup();
    for record in sizes {
        let software = each(vector::host_gather(parameters, field, record, RECORDS));
        let by_board = boards.each_ref().map(|machine| {
            // Windows are read while the next is gathered; the slower of the two sets the pace.
            let gathered = machine.memory.run(&vector::strided(field, record, RECORDS)).finished;
            each(gathered.max(machine.host.window_loads(field * RECORDS)))
        });
        table.row(vec![record.into(), software.into(), by_board[0].into(), by_board[1].into(), (software / by_board[1]).into()]);
        if record == chosen {
            outcome.headline("full scan, main memory over DIMMnet-3", "x", software / by_board[1]);
        }
        let values = [software, by_board[0], by_board[1]];
        points.iter_mut().zip(values).for_each(|(line, value)| line.push((record as f64, value)));
    }
    for (name, line) in ["main memory", "DIMMnet-2", "DIMMnet-3"].iter().zip(points) {
        plot.line(*name, line);
    }
    outcome.tables.push(table);
    outcome.plots.push(plot);
}

/// A program whose data exceed main memory, visited evenly: swap on a disk, or swap on the board behind it.
fn paging(parameters: &Parameters, outcome: &mut Outcome) {
    const PAGE_BYTES: u64 = 4096;
    let columns =
        [("data", "GB"), ("not in main memory", "%"), ("swap on disk", "us"), ("swap on extended memory", "us"), ("gain", "x")];
    let mut table = Table::new("Mean time between two new pages of a large program", &columns);
    let mut plot =
        Plot::new("A program larger than main memory", Axis::log("data", "GB"), Axis::log("time for each new page", "us"));
    let main = parameters.get("server.main_memory");
    let board = Board::Dimmnet3.megabytes(parameters) as f64 / 1024.0;
    let work = parameters.picos("host.memory_latency").as_us() * parameters.get("paging.visits");
    let disk = parameters.picos("paging.disk").as_us();
    let fault = parameters.picos("paging.fault").as_us();
    let copy = Picos::from_bytes(PAGE_BYTES, streaming(parameters, &INTERFACES[1]).0).as_us();
    let mut points = [Vec::new(), Vec::new()];
    for power in 1..=5 {
        let data = f64::from(1 << power);
        let missing = (1.0 - main / data).max(0.0);
        let times = [fault + disk, fault + copy].map(|service| work + missing * service);
        let fits = data <= main + board;
        table.row(vec![
            data.into(),
            (100.0 * missing).into(),
            times[0].into(),
            fits.then_some(times[1]).into(),
            fits.then_some(times[0] / times[1]).into(),
        ]);
        points[0].push((data, times[0]));
        points[1].extend(fits.then_some((data, times[1])));
    }
    for (name, line) in ["swap on disk", "swap on extended memory"].iter().zip(points) {
        plot.line(*name, line);
    }
    outcome.tables.push(table);
    outcome.plots.push(plot);
}

/// Video delivery: the most wanted titles stay in memory, the disks feed the rest.
fn video(parameters: &Parameters, outcome: &mut Outcome) {
    let columns = [
        ("Backends a host", "count"),
        ("titles in memory", "count"),
        ("streams from memory", "%"),
        ("streams a host", "count"),
        ("bounded by", ""),
    ];
    let mut table = Table::new("Video streams of one host (requests by Zipf's law)", &columns);
    let network = Board::Dimmnet3.network_bytes_per_second(parameters) as f64 / parameters.bytes_per_second("video.rate") as f64;
    for backends in 0..=4_u32 {
        let extended = f64::from(backends) * Board::Dimmnet3.megabytes(parameters) as f64 / 1024.0;
        let held = ((parameters.get("server.main_memory") + extended) / parameters.get("video.title")).floor() as u64;
        let share = wanted(held.min(parameters.count("video.titles")), parameters.count("video.titles"));
        let by_disk = if share < 1.0 { parameters.get("video.disk_streams") / (1.0 - share) } else { f64::INFINITY };
        let bound = if by_disk < network { "disk" } else { "network" };
        table.row(vec![
            u64::from(backends).into(),
            held.into(),
            (100.0 * share).into(),
            by_disk.min(network).floor().into(),
            bound.into(),
        ]);
    }
    outcome.tables.push(table);
}

/// The share of requests for the `held` most wanted of `titles`, the k-th being wanted 1/k times as often as the first.
fn wanted(held: u64, titles: u64) -> f64 {
    let harmonic = |count: u64| (1..=count).map(|rank| 1.0 / rank as f64).sum::<f64>();
    harmonic(held) / harmonic(titles)
}

#[cfg(test)]
mod tests {
    use super::super::parameters;
    use super::*;

    #[test]
    fn wanted_titles_follow_zipf() {
        assert_eq!(wanted(3, 3), 1.0);
        assert!((wanted(1, 3) - 6.0 / 11.0).abs() < 1e-12);
        assert_eq!(wanted(0, 3), 0.0);
    }

    #[test]
    fn a_scan_of_long_records_gains_and_one_of_packed_fields_does_not() {
        let gain = |record| {
            let outcome = workloads(&parameters().with("scan.record", record));
            outcome.headlines[0].value
        };
        assert!(gain(1024.0) > 5.0, "{}", gain(1024.0));
        assert!(gain(16.0) < gain(1024.0));
    }
}
