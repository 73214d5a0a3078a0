//! An empty barrier of two ranks on nodes of their own over TCP, beside MPI's.
//!
// FEATURE: D2-F8

use crate::Options;
use crate::compare::compare;
use crate::nodes::Nodes;
use crate::peers::mpi::Mpi;
use crate::peers::program::Compiled;
use crate::report::Report;
use crate::turns::{Contestant, Figures, median, take_turns};
use anyhow::{Result, anyhow};
use hanare::{JobId, JobRank, Pool, Rank};
use std::time::Instant;

/// The bench's name.
pub const NAME: &str = "barrier";

/// Barriers of one turn, after some that are not counted; as in the peers' program.
const COUNT: usize = 3000;
const COUNT_QUICK: usize = 200;
const WARM_COUNT: usize = 200;

/// What a node lends: nothing of it is used.
const MEMORY: u64 = 64 << 20;

/// How much slower than the better MPI it may be.
const TIMES_MAX: f64 = 2.0;

/// Runs it.
pub fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Report> {
    progress("starting nodes");
    let ranks = options.ranks.unwrap_or(2);
    let nodes = Nodes::start(options, options.nodes_or(ranks as usize), MEMORY)?;
    let compiled = Compiled::new(options)?;
    let count = if options.quick { COUNT_QUICK } else { COUNT };
    let mut contestants = vec![Contestant::ours("hanare", || ours(&nodes, ranks, count))];
    contestants.extend(Mpi::ALL.map(|mpi| mpi.job(2, &compiled, "mpi_barrier", &[], figure_of)));
    let outcomes = take_turns(options.rounds(), contestants, progress)?;
    let (ours, peers) = outcomes.split_first().expect("we are the first");
    let mut report = Report::new(NAME);
    for peer in peers {
        let case = format!("empty barrier, {ranks} ranks on nodes of their own, tcp");
        report.rows.push(compare(case, ours, "barrier", peer, "barrier", Some(1.0 / TIMES_MAX))?);
    }
    Ok(report)
}

fn figure_of(line: &str) -> Option<Result<Figures>> {
    let ns: f64 = line.strip_prefix("barrier ")?.trim().parse().ok()?;
    Some(Ok([("barrier".to_owned(), ns)].into_iter().collect()))
}

fn ours(nodes: &Nodes, ranks: u32, count: usize) -> Result<Figures> {
    let job = JobId(rand::random());
    let pools: Vec<Pool> =
        (0..ranks).map(|rank| nodes.attach_as(rank as usize, JobRank { job, rank: Rank(rank), ranks })).collect::<Result<_>>()?;
    let (first, others) = pools.split_first().expect("there is a rank");
    let meet = |pool: &Pool, count: usize| (0..count).try_for_each(|_| pool.barrier());
    std::thread::scope(|scope| {
        let waiting: Vec<_> = others.iter().map(|pool| scope.spawn(move || meet(pool, WARM_COUNT + count))).collect();
        meet(first, WARM_COUNT)?;
        let mut times = Vec::with_capacity(count);
        for _ in 0..count {
            let start = Instant::now();
            first.barrier()?;
            times.push(start.elapsed().as_nanos() as f64);
        }
        for other in waiting {
            other.join().map_err(|_| anyhow!("a rank panicked"))??;
        }
        Ok([("barrier".to_owned(), median(times))].into_iter().collect())
    })
}
