//! The drivers paper's Wisconsin queries over regions, and over files of a mount by calls and by mapping, on one node and on two. Beside
//! them are files of this machine's disk whose pages the kernel was told to forget.

use crate::Options;
use crate::compare::{beside, compare, own};
use crate::peers::program;
use crate::report::{Better, Claim, Report, Row};
use crate::turns::{Contestant, Figures, Outcome, take_turns};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;
use tempfile::TempDir;

/// The bench's name.
pub const NAME: &str = "wisconsin";

/// Tuples of the large table. SOURCE: [drivers paper, table 7], 18944 pages of tuples of 148 bytes.
const TUPLES: u32 = 1 << 19;
const TUPLES_QUICK: u32 = 10_000;

/// The queries, and whether they read without computing, so that a disk is their bound.
const QUERIES: [(&str, bool); 6] = [("Q1", true), ("Q2", true), ("Q3", true), ("Q4", false), ("Q6", false), ("Q7", true)];

/// Memory of each node: both tables, and room for files.
const MEMORY: &str = "512M";

/// Goal for query 4's speed on two nodes, and query 1's in the paper beside its disk.
const GOAL_TWO: f64 = 1.9;
const PAPER_DISK: f64 = 2.49;

/// Location of the tables.
#[derive(Clone, Copy, PartialEq)]
enum Tables {
    Regions,
    Mount,
    Disk,
}

/// A variant of all queries: the tables' location, the way to read, and the number of ranks on nodes of their own.
#[derive(Clone, Copy)]
struct Way {
    place: Tables,
    store: &'static str,
    ranks: u32,
}

impl Way {
    const fn new(place: Tables, store: &'static str, ranks: u32) -> Way {
        Way { place, store, ranks }
    }

    fn name(self) -> String {
        let nodes = if self.ranks == 1 { "1 node".to_owned() } else { format!("{} nodes", self.ranks) };
        match (self.place, self.store) {
            (Tables::Regions, _) => format!("regions, {nodes}"),
            (Tables::Mount, "files") => format!("files of the mount by read, {nodes}"),
            (Tables::Mount, _) => format!("files of the mount by mapping, {nodes}"),
            (Tables::Disk, "files") => "the disk's files by read, cold cache".to_owned(),
            (Tables::Disk, _) => "the disk's files by mapping, cold cache".to_owned(),
        }
    }
}

const WAYS: [Way; 8] = [
    Way::new(Tables::Regions, "regions", 1),
    Way::new(Tables::Regions, "regions", 2),
    Way::new(Tables::Mount, "files", 1),
    Way::new(Tables::Mount, "files", 2),
    Way::new(Tables::Mount, "mapped", 1),
    Way::new(Tables::Mount, "mapped", 2),
    Way::new(Tables::Disk, "files", 1),
    Way::new(Tables::Disk, "mapped", 1),
];

/// Sums of the queries' rows, which are the same by every way.
type Sums = RefCell<BTreeMap<String, u64>>;

/// Runs it.
pub fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Report> {
    let app = options.apps.join("wisconsin");
    ensure!(app.is_file(), "{} is not there; `make apps` builds it", app.display());
    let sums = Sums::default();
    let contestant = |way: Way| {
        let (app, sums) = (&app, &sums);
        let turn = move || turn(options, app, way, sums);
        match way.place {
            Tables::Regions => Contestant::ours(&way.name(), turn),
            // An ordinary user may have no FUSE; what is missing is named.
            Tables::Mount | Tables::Disk => Contestant::peer(&way.name(), Ok(turn)),
        }
    };
    let outcomes = take_turns(options.rounds(), WAYS.into_iter().map(contestant).collect(), progress)?;
    let [alone, two, read, read_two, mapped, mapped_two, disk, disk_mapped] = &outcomes[..] else {
        unreachable!("there are eight")
    };
    let mut report = Report::new(NAME);
    for (query, is_disk_bound) in QUERIES {
        let goal = is_disk_bound.then_some(1.0);
        let row = |ours: &Outcome, peer: &Outcome, goal| row(query, ours, peer, goal);
        report.rows.push(row(alone, disk, goal)?);
        report.rows.push(row(read, disk, goal)?);
        report.rows.push(row(mapped, disk_mapped, goal)?);
        let goal = (query == "Q4").then_some(GOAL_TWO);
        for (ours, alone) in [(two, alone), (read_two, read), (mapped_two, mapped)] {
            let goal = goal.filter(|_| ours.name == two.name);
            report.rows.push(row(ours, &Outcome { name: format!("{} (own baseline)", alone.name), ..alone.clone() }, goal)?);
        }
    }
    if let Ok(disk) = disk.median("Q1") {
        let ratio = disk / own("Q1", alone, "Q1")?;
        report.claims.push(Claim::new("D2-C12", ratio, ratio >= PAPER_DISK));
    }
    let gain = own("Q4", alone, "Q4")? / own("Q4", two, "Q4")?;
    report.claims.push(Claim::new("D2-C13", gain, gain >= GOAL_TWO));
    Ok(report)
}

/// A query's row; one of our own ways that is missing says why.
fn row(query: &str, ours: &Outcome, peer: &Outcome, goal: Option<f64>) -> Result<Row> {
    let case = format!("{query}, {}", ours.name);
    match &ours.medians {
        Ok(_) => compare(case, ours, query, peer, query, goal),
        Err(reason) => {
            let row = Row::alone(format!("{case}: not measured, because {reason}"), 0.0, "ms", Better::Lower);
            Ok(beside(row, &peer.name, Err("our own side is missing"), goal))
        }
    }
}

/// All queries by one way.
fn turn(options: &Options, app: &Path, way: Way, sums: &Sums) -> Result<Figures> {
    let folder = folder()?;
    let tuples = if options.quick { TUPLES_QUICK } else { TUPLES }.to_string();
    let (app, folder, own) =
        (app.display().to_string(), folder.path().display().to_string(), options.command.display().to_string());
    let ranks = way.ranks.to_string();
    let mut words = vec!["run", "--nodes", &ranks, "-n", &ranks, "--memory", MEMORY, "--"];
    // Each rank has a mount of its own host's node.
    let script = "mkdir -p \"$1/$HANARE_RANK\" && command=$0 folder=$1/$HANARE_RANK && shift && exec \"$command\" mount \"$folder\" -- \"$@\"";
    if way.place == Tables::Mount {
        words.extend(["sh", "-c", script, &own, &folder]);
    }
    words.extend([app.as_str(), &tuples, "--json", "--store", way.store, "--dir", &folder]);
    match way.place {
        // Cached bytes of a file that was just written are not the subject.
        Tables::Mount => words.extend(["--each", "--cold"]),
        Tables::Disk => words.push("--cold"),
        Tables::Regions => {}
    }
    figures(&program::run(&options.command, &words, &[])?, sums)
}

/// A folder on a disk.
fn folder() -> Result<TempDir> {
    tempfile::Builder::new().prefix("hanare-bench-").tempdir_in("/var/tmp").context("no folder in /var/tmp")
}

/// Reads a line of JSON a query; the rows must be those of every way before.
fn figures(text: &str, sums: &Sums) -> Result<Figures> {
    let mut figures = Figures::new();
    for line in text.lines().filter(|line| line.starts_with('{')) {
        let said: Value = serde_json::from_str(line).with_context(|| format!("it printed '{line}'"))?;
        let (Some(query), Some(seconds)) = (said["variant"].as_str(), said["seconds"].as_f64()) else { continue };
        let sum = said["sum"].as_u64().context("a query has a sum")?;
        let first = *sums.borrow_mut().entry(query.to_owned()).or_insert(sum);
        ensure!(first == sum, "{query} found other rows than before");
        figures.insert(query.to_owned(), seconds * 1e9);
    }
    ensure!(figures.len() == QUERIES.len(), "it printed {} queries", figures.len());
    Ok(figures)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_differ_between_ways_are_an_error() {
        let line = |query: &str, sum: u64| format!("{{\"variant\": \"{query}\", \"seconds\": 0.5, \"sum\": {sum}}}\n");
        let text: String = QUERIES.iter().map(|(query, _)| line(query, 18_000_000_000_000_000_001)).collect();
        let sums = Sums::default();
        assert_eq!(figures(&text, &sums).unwrap()["Q7"], 5e8);
        let other = text.replacen("00001", "00002", 1);
        assert!(figures(&other, &sums).unwrap_err().to_string().contains("Q1 found other rows"));
        assert!(figures(&line("Q1", 18_000_000_000_000_000_001), &sums).is_err(), "the others are missing");
    }
}
