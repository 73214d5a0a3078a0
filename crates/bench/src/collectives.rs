//! All-reduce of doubles by 2 and 4 ranks on two nodes over TCP, beside MPI's. Our ranks of one node share memory; MPI's talk over TCP.

use crate::Options;
use crate::compare::{bytes, compare};
use crate::nodes::Nodes;
use crate::peers::mpi::Mpi;
use crate::peers::program::Compiled;
use crate::report::Report;
use crate::turns::{Contestant, Figures, Outcome, median, take_turns};
use anyhow::{Result, anyhow, ensure};
use hanare::{Group, JobId, JobRank, Operator, Pool, Rank};
use std::time::Instant;

/// The bench's name.
pub const NAME: &str = "collectives";

/// Lengths of the vectors in bytes, and how often each is reduced in one turn.
const LENGTHS: [(usize, usize); 6] =
    [(8, 2000), (1 << 10, 2000), (32 << 10, 500), (256 << 10, 100), (1 << 20, 40), (4 << 20, 20)];
/// A quick turn does so many times fewer.
const QUICK: usize = 10;

/// Memory that a node lends: a few MiB for each rank.
const MEMORY: u64 = 64 << 20;

/// Runs it.
pub fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Report> {
    progress("starting nodes");
    let nodes = Nodes::start(options, options.nodes_or(2), MEMORY)?;
    let compiled = Compiled::new(options)?;
    let mut report = Report::new(NAME);
    for ranks in options.ranks.map_or(vec![2, 4], |ranks| vec![ranks]) {
        let lengths = LENGTHS.map(|(len, count)| (len, if options.quick { (count / QUICK).max(2) } else { count }));
        let words = lengths.map(|(len, count)| format!("{len}:{count}"));
        let mut contestants = vec![Contestant::ours("hanare", || ours(&nodes, ranks, &lengths))];
        contestants.extend(Mpi::ALL.map(|mpi| mpi.job(ranks, &compiled, "mpi_all_reduce", &words, figures_of)));
        let outcomes = take_turns(options.rounds(), contestants, progress)?;
        let (ours, peers) = outcomes.split_first().expect("we are the first");
        for (len, _) in lengths {
            let slowest = slowest(peers, &key(len));
            for (index, peer) in peers.iter().enumerate() {
                let case = format!("all-reduce {}, {ranks} ranks, 2 nodes, tcp", bytes(len as u64));
                let goal = (slowest == Some(index)).then_some(1.0);
                report.rows.push(compare(case, ours, &key(len), peer, &key(len), goal)?);
            }
        }
    }
    Ok(report)
}

fn key(len: usize) -> String {
    format!("all_reduce_{len}")
}

/// The peer that we are to be ahead of.
fn slowest(peers: &[Outcome], key: &str) -> Option<usize> {
    let figures = peers.iter().enumerate().filter_map(|(index, peer)| Some((index, peer.median(key).ok()?)));
    figures.max_by(|(_, a), (_, b)| a.total_cmp(b)).map(|(index, _)| index)
}

fn figures_of(line: &str) -> Option<Result<Figures>> {
    let numbers: Vec<f64> = line.strip_prefix("all_reduce ")?.split_whitespace().map_while(|word| word.parse().ok()).collect();
    Some(Ok(LENGTHS.iter().map(|(len, _)| key(*len)).zip(numbers).collect()))
}

fn ours(nodes: &Nodes, ranks: u32, lengths: &[(usize, usize)]) -> Result<Figures> {
    let job = JobId(rand::random());
    let pools: Vec<Pool> =
        (0..ranks).map(|rank| nodes.attach_as(rank as usize, JobRank { job, rank: Rank(rank), ranks })).collect::<Result<_>>()?;
    let groups: Vec<Group> = pools.iter().map(Pool::job_group).collect();
    std::thread::scope(|scope| {
        let running: Vec<_> = groups.iter().map(|group| scope.spawn(move || reduce_all(group, lengths))).collect();
        let mut figures = Figures::new();
        for running in running.into_iter().rev() {
            // The last is that of rank 0.
            figures = running.join().map_err(|_| anyhow!("a rank panicked"))??;
        }
        Ok(figures)
    })
}

fn reduce_all(group: &Group, lengths: &[(usize, usize)]) -> Result<Figures> {
    let mut figures = Figures::new();
    for (len, count) in lengths {
        let own: Vec<f64> = (0..len / 8).map(|place| f64::from(group.number()) + place as f64).collect();
        let mut times = Vec::with_capacity(*count);
        let mut sum = own.clone();
        for round in 0..count + count / 10 + 1 {
            sum.copy_from_slice(&own);
            let start = Instant::now();
            group.all_reduce(Operator::Add, &mut sum)?;
            // The first are not counted.
            if round > count / 10 {
                times.push(start.elapsed().as_nanos() as f64);
            }
        }
        let parties = f64::from(group.parties());
        let is_right = |(place, sum): (usize, &f64)| *sum == parties * place as f64 + parties * (parties - 1.0) / 2.0;
        ensure!(sum.iter().enumerate().all(is_right), "the sum of {len} bytes is wrong");
        figures.insert(key(*len), median(times));
    }
    Ok(figures)
}
