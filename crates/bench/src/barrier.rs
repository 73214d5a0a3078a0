//! A barrier of two ranks on nodes of their own over TCP. Empty it stands beside MPI's. With bytes that it carries it stands beside a
//! flush, a barrier and a bring of the same bytes.
//!
// FEATURE: D2-F8

use crate::Options;
use crate::compare::{baseline, bytes, compare};
use crate::nodes::Nodes;
use crate::peers::mpi::Mpi;
use crate::peers::program::Compiled;
use crate::report::Report;
use crate::turns::{Contestant, Figures, median, take_turns};
use anyhow::{Result, anyhow};
use hanare::{Consistency, CreateOptions, Group, JobId, JobRank, NodeId, Part, Placement, Pool, Rank};
use std::time::Instant;

/// The bench's name.
pub const NAME: &str = "barrier";

/// Barriers of one turn, after some that are not counted; as in the peers' program.
const COUNT: usize = 3000;
const COUNT_QUICK: usize = 200;
const WARM_COUNT: usize = 200;

/// Memory that a node lends: none of it is used.
const MEMORY: u64 = 64 << 20;

/// Bytes that a barrier carries, half of them from each of two ranks, as in [RF §4].
const CARRIED: [u64; 5] = [1 << 10, 32 << 10, 128 << 10, 256 << 10, 512 << 10];
const CARRIED_COUNT: usize = 300;
const CARRIED_COUNT_QUICK: usize = 30;

/// Limit on its time beside the better MPI.
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
    let carried = Contestant::ours("hanare", || carried(&nodes, if options.quick { CARRIED_COUNT_QUICK } else { CARRIED_COUNT }));
    let outcomes = take_turns(options.rounds(), vec![carried], progress)?;
    let apart = baseline(&outcomes[0], "flush, barrier and bring");
    for len in CARRIED {
        let case = format!("barrier that carries {}, 2 ranks on nodes of their own, tcp", bytes(len));
        report.rows.push(compare(case, &outcomes[0], &format!("along {len}"), &apart, &format!("apart {len}"), None)?);
    }
    Ok(report)
}

/// A turn of barriers that carry bytes, by the first rank's clock.
fn carried(nodes: &Nodes, count: usize) -> Result<Figures> {
    let pools = [nodes.attach(0)?, nodes.attach(1)?];
    let name = "barrier-carries";
    // The barrier's home is the home of the bytes.
    let options = CreateOptions { placement: Placement::Node(NodeId(0)), ..CreateOptions::default() };
    pools[0].create(name, CARRIED[CARRIED.len() - 1], &options)?;
    let figures = std::thread::scope(|scope| {
        let other = scope.spawn(|| rank_of(&pools[1], name, 1, count));
        let figures = rank_of(&pools[0], name, 0, count)?;
        other.join().map_err(|_| anyhow!("a rank panicked"))??;
        Ok(figures)
    });
    pools[0].remove(name)?;
    figures
}

fn rank_of(pool: &Pool, name: &str, rank: u64, count: usize) -> Result<Figures> {
    // Neither rank has the memory mapped as it is, wherever it is.
    let mapping = pool.open(name)?.map(Consistency::Entry)?;
    let group = pool.group(name, 2)?;
    let mut figures = Figures::new();
    for len in CARRIED {
        let half = len / 2;
        let part = |rank: u64| Part { mapping: &mapping, offset: rank * half, len: half };
        let halves = [part(rank), part(1 - rank)];
        for (way, meet) in [("along", along as Meet), ("apart", apart as Meet)] {
            let mut times = Vec::with_capacity(count);
            for round in 0..count + 2 {
                mapping.write(rank * half, &vec![(round as u8).wrapping_add(1); half as usize])?;
                group.barrier()?;
                let start = Instant::now();
                meet(&group, halves)?;
                times.push(start.elapsed().as_nanos() as f64);
            }
            figures.insert(format!("{way} {len}"), median(times.split_off(2)));
        }
    }
    Ok(figures)
}

/// A barrier that carries a part, and another part of others.
type Meet = fn(&Group, [Part<'_>; 2]) -> Result<()>;

fn along(group: &Group, [own, other]: [Part<'_>; 2]) -> Result<()> {
    Ok(group.barrier_with(&[own], &[other])?)
}

fn apart(group: &Group, [own, other]: [Part<'_>; 2]) -> Result<()> {
    own.mapping.flush(own.offset, own.len)?;
    group.barrier()?;
    Ok(other.mapping.bring(other.offset, other.len)?)
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
