//! A node with one thread and with two: bytes that several programs get and put at once, plain and sealed.

use crate::Options;
use crate::compare::{baseline, compare_rates, own};
use crate::nodes::Nodes;
use crate::report::{Better, Report, Row};
use crate::table;
use crate::turns::{Contestant, Figures, take_turns};
use crate::usage::Usage;
use anyhow::Result;
use hanare::{Placement, Pool, Region};
use std::num::NonZero;
use std::process::Command;
use std::time::{Duration, Instant};

/// The bench's name.
pub const NAME: &str = "threads";

/// Programs that work at once, each with a region of that length on one node.
const PROGRAM_COUNT: usize = 4;
const LEN: u64 = 1 << 20;

/// Bytes that each node lends.
const MEMORY: u64 = 32 << 20;

/// Two threads are to move so much more than one.
const GOAL: f64 = 1.5;

/// Processors from which on that is a goal: the programs, too, need some.
const PROCESSOR_COUNT_MIN: usize = 8;

/// Wishes for connections, and their word in rows.
const SEALINGS: [(&str, &str); 2] = [("plain", "plain"), ("always", "sealed")];

/// Threads of the node.
const COUNTS: [usize; 2] = [1, 2];

/// A pool, and programs that are attached to its first node. The second node has the threads in question.
struct Bed {
    nodes: Nodes,
    regions: Vec<(Pool, Region)>,
}

/// Runs it.
pub fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Report> {
    let mut report = Report::new(NAME);
    let processors = std::thread::available_parallelism().map_or(1, NonZero::get);
    let goal = (processors >= PROCESSOR_COUNT_MIN).then_some(GOAL);
    for (sealing, word) in SEALINGS {
        progress(&format!("starting nodes, {word}"));
        let beds = [bed(options, COUNTS[0], sealing)?, bed(options, COUNTS[1], sealing)?];
        let contestant = |bed| Contestant::ours("hanare", move || measure(bed, options.budget()));
        let outcomes = take_turns(options.rounds(), beds.iter().map(contestant).collect(), progress)?;
        let (alone, several) = (baseline(&outcomes[0], "one thread"), &outcomes[1]);
        for way in ["get", "put"] {
            let case = format!("{way} of 1 MiB by {PROGRAM_COUNT} programs of another node, {word}, tcp, two threads");
            let key = |what: &str| format!("{way} {what}");
            let bytes = (LEN as f64, "GB/s");
            report.rows.push(compare_rates(case.clone(), bytes, (several, &key("time")), (&alone, &key("time")), goal)?);
            let case = format!("{case}: the node's processor time a KiB");
            let cpu = |of| Ok::<f64, anyhow::Error>(own(&case, of, &key("cpu"))? / (LEN >> 10) as f64);
            report.rows.push(Row::alone(&case, cpu(several)?, "ns", Better::Lower).beside(&alone.name, cpu(&alone)?, None));
        }
    }
    Ok(report)
}

fn bed(options: &Options, threads: usize, sealing: &str) -> Result<Bed> {
    let dress = |command: &mut Command| {
        command.args(["--threads", &threads.to_string()]).env("HANARE_SEAL", sealing);
    };
    let nodes = Nodes::start_as(options, 2, MEMORY, &dress)?;
    let program = |at| {
        let pool = nodes.attach(0)?;
        let far = table::far(&pool)?[0];
        let region = table::create(&pool, &format!("bench-threads-{at}"), LEN, Placement::Node(far))?;
        Ok((pool, region))
    };
    let regions = (0..PROGRAM_COUNT).map(program).collect::<Result<_>>()?;
    Ok(Bed { nodes, regions })
}

/// Time in ns for each region's bytes of both ways, and processor time of the node for it.
fn measure(Bed { nodes, regions }: &Bed, budget: Duration) -> Result<Figures> {
    nodes.settle()?;
    let node = &nodes.processes()[1..];
    let mut figures = Figures::new();
    for way in ["get", "put"] {
        let (before, begun) = (Usage::of_processes(node)?, Instant::now());
        let counts: Vec<Result<u64>> = std::thread::scope(|scope| {
            let program = |region| scope.spawn(move || repeat(region, way == "put", begun + budget));
            let programs: Vec<_> = regions.iter().map(|(_, region)| program(region)).collect();
            programs.into_iter().map(|program| program.join().expect("a program does not panic")).collect()
        });
        let taken = begun.elapsed().as_nanos() as f64;
        let count = counts.into_iter().sum::<Result<u64>>()? as f64;
        let cpu = (Usage::of_processes(node)? - before).cpu;
        figures.insert(format!("{way} time"), taken / count);
        figures.insert(format!("{way} cpu"), cpu / count);
    }
    Ok(figures)
}

/// Moves a region's bytes until then, three times at least. Returns how often, and fails if one came other than it was put.
fn repeat(region: &Region, puts: bool, until: Instant) -> Result<u64> {
    let mut bytes: Vec<u8> = (0..LEN / 8).flat_map(|k| table::word(k).to_le_bytes()).collect();
    let mut count = 0;
    while count < 3 || Instant::now() < until {
        match puts {
            true => region.put(0, &bytes)?,
            false => region.get(0, &mut bytes)?,
        }
        count += 1;
    }
    table::check(&bytes, 0..)?;
    Ok(count)
}
