//! How often a page can be sent from the Network Page Cache: by program, and by the cache's capacity.
//!
//! The process names the line. A page may be sent from its line if the line still holds this version of it: the first
//! send of a version goes with Page Caching, later ones from the cache, a write makes a new version.
use std::collections::HashMap;

use crate::outcome::{Axis, Cell, Outcome, Plot, Table, Tolerance};
use crate::parameters::Parameters;
use crate::recent::Recent;
use crate::sequence::Sequence;

/// One page sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Sent {
    /// The page of its region.
    pub page: u64,
    /// How often it had been written.
    pub version: u64,
}

/// A program's sends, in order.
pub struct Program {
    /// Its name.
    pub name: &'static str,
    /// The pages sent.
    pub sends: Vec<Sent>,
}

/// How the process chooses the line of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lines {
    /// The page's number modulo the lines.
    Direct,
    /// The line used longest ago.
    Oldest,
}

/// Lines of a cache with `sdram_bytes`.
pub fn line_count(sdram_bytes: u64, line_bytes: u64) -> u64 {
    sdram_bytes / line_bytes
}

/// Share of sends that could go from the cache.
// FEATURE: RF-F9 RF-F24
pub fn hit_ratio(sends: &[Sent], lines: u64, choice: Lines) -> f64 {
    let mut held: HashMap<u64, Sent> = HashMap::new();
    let mut recent = Recent::new(lines as usize);
    let mut hits = 0_u64;
    for sent in sends {
        let (line, is_kept) = match choice {
            Lines::Direct => (sent.page % lines, true),
            Lines::Oldest => (sent.page, recent.touch(sent.page)),
        };
        if is_kept && held.get(&line) == Some(sent) {
            hits += 1;
        } else {
            held.insert(line, *sent);
        }
    }
    hits as f64 / sends.len() as f64
}

/// Pivot rows of an LU decomposition of order 2048: each new row goes to every other node once.
fn lu(nodes: u64) -> Vec<Sent> {
    const ORDER: u64 = 2048;
    let pages = |row: u64| ((ORDER - row) * 8).div_ceil(4096);
    let row =
        |row: u64| (0..nodes - 1).flat_map(move |_| (0..pages(row)).map(move |page| Sent { page: row * 4 + page, version: 1 }));
    (0..ORDER).flat_map(row).collect()
}

/// A table that every client reads whole, again and again.
fn rounds(pages: u64, count: u64) -> Vec<Sent> {
    (0..count).flat_map(|_| (0..pages).map(|page| Sent { page, version: 1 })).collect()
}

/// Random reads of a region, of which a few pages are written now and then.
fn random(pages: u64, count: u64, seed: u64) -> Vec<Sent> {
    let mut sequence = Sequence::new(seed);
    let mut versions = vec![1; pages as usize];
    let mut send = |_| {
        let page = sequence.below(pages);
        if sequence.below(10) == 0 {
            versions[page as usize] += 1;
        }
        Sent { page, version: versions[page as usize] }
    };
    (0..count).map(&mut send).collect()
}

/// The border of a stencil: rewritten before each send, one neighbour.
fn border(pages: u64, count: u64) -> Vec<Sent> {
    (0..count).flat_map(|version| (0..pages).map(move |page| Sent { page, version })).collect()
}

/// The programs of the sweep.
pub fn programs() -> Vec<Program> {
    const MEGABYTE: u64 = 256;
    vec![
        Program { name: "LU, 2 nodes", sends: lu(2) },
        Program { name: "LU, 4 nodes", sends: lu(4) },
        Program { name: "table of 8 MB read in rounds", sends: rounds(8 * MEGABYTE, 8) },
        Program { name: "table of 32 MB read in rounds", sends: rounds(32 * MEGABYTE, 4) },
        Program { name: "random reads of 32 MB, 10 % writes", sends: random(32 * MEGABYTE, 100_000, 1) },
        Program { name: "stencil border of 64 KB", sends: border(16, 500) },
    ]
}

/// Hit ratio against capacity: the paper's future work.
pub fn hit_ratios(parameters: &Parameters) -> Outcome {
    let mut outcome = Outcome::new();
    let line_bytes = parameters.bytes("npc.line");
    let programs = programs();
    let mut columns = vec![("SDRAM", "MB"), ("lines", "count")];
    columns.extend(programs.iter().map(|program| (program.name, "%")));
    let mut table = Table::new("Pages that can be sent from the cache (line = page modulo lines)", &columns);
    let mut plot = Plot::new("Network Page Cache", Axis::log("SDRAM", "MB"), Axis::new("sent from the cache", "%"));
    let capacities: Vec<u64> = (16..=26).map(|power| 1 << power).collect();
    let mut points = vec![Vec::new(); programs.len()];
    for &capacity in &capacities {
        let lines = line_count(capacity, line_bytes).max(1);
        let megabytes = capacity as f64 / f64::from(1 << 20);
        let mut cells: Vec<Cell> = vec![megabytes.into(), lines.into()];
        for (program, line) in programs.iter().zip(&mut points) {
            let percent = 100.0 * hit_ratio(&program.sends, lines, Lines::Direct);
            cells.push(percent.into());
            line.push((megabytes, percent));
        }
        table.row(cells);
    }
    for (program, line) in programs.iter().zip(points) {
        plot.line(program.name, line);
    }
    outcome.tables.extend([table, policies(&programs, line_count(parameters.bytes("npc.sdram"), line_bytes).max(1))]);
    outcome.plots.push(plot);
    let lines = line_count(parameters.bytes("npc.sdram"), line_bytes);
    outcome.produce("rf.npc.lines", lines as f64, Tolerance::Exact);
    outcome.headline("hit ratio of LU on 4 nodes", "%", 100.0 * hit_ratio(&programs[1].sends, lines.max(1), Lines::Direct));
    outcome
}

fn policies(programs: &[Program], lines: u64) -> Table {
    let columns = [("program", ""), ("page modulo lines", "%"), ("line used longest ago", "%")];
    let mut table = Table::new(format!("The process chooses the line: two ways, {lines} lines"), &columns);
    for program in programs {
        let percent = |choice| 100.0 * hit_ratio(&program.sends, lines, choice);
        table.row(vec![program.name.into(), percent(Lines::Direct).into(), percent(Lines::Oldest).into()]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_receiver_after_the_first_is_served_from_the_cache() {
        assert_eq!(hit_ratio(&lu(2), 4096, Lines::Direct), 0.0);
        assert!((hit_ratio(&lu(4), 4096, Lines::Direct) - 2.0 / 3.0).abs() < 1e-12);
    }

    #[test]
    fn rounds_hit_only_when_the_table_fits() {
        let sends = rounds(1024, 4);
        assert_eq!(hit_ratio(&sends, 1024, Lines::Direct), 0.75);
        assert_eq!(hit_ratio(&sends, 512, Lines::Direct), 0.0);
        assert_eq!(hit_ratio(&sends, 512, Lines::Oldest), 0.0);
    }

    #[test]
    fn a_rewritten_page_is_never_sent_from_the_cache() {
        assert_eq!(hit_ratio(&border(16, 10), 4096, Lines::Direct), 0.0);
    }
}
