//! Regions with copies: what a write costs that two or three nodes have before it is answered, beside one copy. Homes are on another node.

use crate::Options;
use crate::compare::{baseline, bytes, compare};
use crate::nodes::Nodes;
use crate::report::Report;
use crate::table;
use crate::turns::{Contestant, Figures, take_turns, time_step};
use anyhow::{Result, ensure};
use hanare::{CreateOptions, Placement, Pool, Region};

/// The bench's name.
pub const NAME: &str = "copies";

const SIZES: [u64; 3] = [8, 4096, 1 << 20];

/// Goal for a write with two copies beside one: the time of one over that of two.
const GOAL: f64 = 1.0 / 2.2;

/// Memory that each node lends.
const MEMORY: u64 = 128 << 20;

/// Runs it.
pub fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Report> {
    progress("starting nodes");
    let nodes = Nodes::start(options, options.nodes_or(4), MEMORY)?;
    let pool = nodes.attach(0)?;
    let regions = [1, 2, 3].map(|copies| region(&pool, copies));
    let [one, two, three] = regions;
    let regions = [one?, two?, three?];
    let outcomes = take_turns(options.rounds(), vec![Contestant::ours("hanare", || turn(options, &regions))], progress)?;
    let (ours, mut report) = (&outcomes[0], Report::new(NAME));
    let one = baseline(ours, "one copy");
    for size in SIZES {
        for copies in [2, 3] {
            let case = format!("put {}, other node, {copies} copies, tcp", bytes(size));
            let goal = (copies == 2).then_some(GOAL);
            report.rows.push(compare(case, ours, &key("put", size, copies), &one, &key("put", size, 1), goal)?);
        }
        let case = format!("get {}, other node, 2 copies, tcp", bytes(size));
        report.rows.push(compare(case, ours, &key("get", size, 2), &one, &key("get", size, 1), Some(1.0))?);
    }
    Ok(report)
}

fn key(what: &str, size: u64, copies: u8) -> String {
    format!("{what} {} {copies}", bytes(size))
}

/// A region whose home is the first node but the client's.
fn region(pool: &Pool, copies: u8) -> Result<Region> {
    let far = table::far(pool)?;
    ensure!(far.len() > 2, "the pool has fewer than four nodes");
    let options = CreateOptions { placement: Placement::Node(far[0]), copies, ..CreateOptions::default() };
    Ok(pool.create(&format!("bench-copies-{copies}"), *SIZES.last().expect("there are some"), &options)?)
}

fn turn(options: &Options, regions: &[Region]) -> Result<Figures> {
    let mut figures = Figures::new();
    for size in SIZES {
        let mut buffer = vec![3; size as usize];
        for region in regions {
            let copies = region.copies();
            figures.insert(key("put", size, copies), time_step(options.budget(), || region.put(0, &buffer))?);
            figures.insert(key("get", size, copies), time_step(options.budget(), || region.get(0, &mut buffer))?);
        }
    }
    Ok(figures)
}
