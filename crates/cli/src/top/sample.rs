//! A sample of all nodes of the pool at one moment, put together.

use crate::faces::{self, FaceSum};
use crate::look;
use anyhow::Result;
use hanare::{
    ClientId, Gid, LockStat, NodeId, NodeStatus, PageRun, PageStat, Pool, ProgramFace, ProgramStat, Region, RegionStat, Seen,
};
use std::collections::BTreeMap;
use std::time::Instant;

/// Cells of a map of a region: 16 rows of 64, which a screen of 80 by 24 has room for.
pub const CELL_COUNT: u32 = 1024;

/// The pool at one moment. All counts are since the nodes' start, or since the region was mapped.
#[derive(Debug)]
pub struct Sample {
    /// When it was taken.
    pub at: Instant,
    /// Indexed by number.
    pub nodes: Vec<NodeSample>,
    /// Regions that this user may see, by name.
    pub regions: Vec<RegionSample>,
    /// Programs that this user may see.
    pub programs: Vec<ProgramSample>,
    /// Taken locks that this user may share.
    pub locks: Vec<LockSample>,
    /// Number of such locks.
    pub lock_count: u64,
    /// Runs of regions that this user may read; most returns first.
    pub runs: Vec<RunSample>,
    /// The region that is looked into.
    pub map: Option<RegionMap>,
    /// Counts of commands of all nodes, by the face that sent them.
    pub faces: BTreeMap<ProgramFace, FaceSum>,
}

/// A node.
#[derive(Debug)]
pub struct NodeSample {
    /// Its coordinator's report.
    pub status: NodeStatus,
    /// True if it told anything.
    pub answers: bool,
    /// Commands that it did.
    pub commands: u64,
    /// Bytes that they touched.
    pub bytes: u64,
    /// Commands that it refused.
    pub refused: u64,
    /// Page counts of its host.
    pub traffic: Traffic,
}

/// Page counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Touches that the kernel could not serve.
    pub faults: u64,
    /// Pages that threads asked for.
    pub fetched: u64,
    /// Pages that one host gave up for another.
    pub hops: u64,
    /// Copies dropped for a writer.
    pub invalidated: u64,
    /// Pages given back to make room.
    pub evicted: u64,
}

impl Traffic {
    fn add(&mut self, stat: &PageStat) {
        let hops = stat.waited.saturating_add(stat.forwarded);
        let more = [stat.faults, stat.fetched, hops, stat.invalidated, stat.evicted];
        let sums = [&mut self.faults, &mut self.fetched, &mut self.hops, &mut self.invalidated, &mut self.evicted];
        for (sum, more) in sums.into_iter().zip(more) {
            *sum = sum.saturating_add(more);
        }
    }
}

/// A region.
#[derive(Debug)]
pub struct RegionSample {
    /// Its coordinator's report.
    pub stat: RegionStat,
    /// Programs that map it.
    pub programs: u64,
    /// Hosts that map it, as far as a home counts them.
    pub hosts: u64,
    /// Pages of other nodes that hosts keep.
    pub frames: u64,
    /// Counts of its pages.
    pub traffic: Traffic,
    /// Returns of the pages that went to and fro most.
    pub returns: u64,
}

/// A program.
#[derive(Clone, Debug)]
pub struct ProgramSample {
    /// The node that it is attached to.
    pub node: NodeId,
    /// Its node's report.
    pub stat: ProgramStat,
}

/// A lock.
#[derive(Debug)]
pub struct LockSample {
    /// Its home's report.
    pub stat: LockStat,
    /// Holders, by people's names for them.
    pub holders: Vec<String>,
    /// Waiting claimants.
    pub waiters: Vec<String>,
}

/// Pages that went to and fro.
#[derive(Clone, Debug)]
pub struct RunSample {
    /// Their region.
    pub gid: Gid,
    /// Its name.
    pub region: String,
    /// The node where they are at home.
    pub home: NodeId,
    /// The pages, and their counts.
    pub run: PageRun,
}

/// Counts of moves of a region's pages.
#[derive(Debug)]
pub struct RegionMap {
    /// Its name.
    pub region: String,
    /// Pages of each cell, but for the last.
    pub pages_each: u64,
    /// Returns of the pages of each cell.
    pub cells: Vec<u64>,
}

impl Sample {
    /// Looks at the pool, and into a region. **Errors**: where the coordinator does not answer.
    pub fn take(pool: &Pool, into: Option<Gid>) -> Result<Sample> {
        let status = pool.status()?;
        let stats = pool.list()?;
        let mut opened = look::open(pool, &stats);
        // The region that is looked into comes first: a map is of the first.
        opened.sort_by_key(|region| Some(region.gid()) != into);
        let into = opened.first().filter(|region| Some(region.gid()) == into);
        let cells = into.map_or(0, |_| CELL_COUNT);
        let seen = look::at_nodes(pool, &status.nodes, &opened.iter().collect::<Vec<_>>(), cells);
        let faces = look::faces_at_nodes(pool, &status.nodes);
        let told = faces.into_iter().zip(&seen).filter_map(|(told, seen)| Some(faces::of_node(told?, &seen.as_ref()?.counts)));
        let faces = faces::sums(told.flatten());
        let map = into.map(|region| RegionMap::of(region, &seen));
        let programs = programs(&status.nodes, &seen);
        let (locks, lock_count) = locks(&programs, &seen);
        let runs = runs(&status.nodes, &seen);
        let regions = stats.into_iter().map(|stat| region(stat, &seen)).collect();
        let nodes = status.nodes.into_iter().zip(&seen).map(|(status, seen)| node(status, seen.as_ref())).collect();
        Ok(Sample { at: Instant::now(), nodes, regions, programs, locks, lock_count, runs, map, faces })
    }
}

impl RegionMap {
    fn of(region: &Region, seen: &[Option<Seen>]) -> RegionMap {
        let mut cells: Vec<u64> = Vec::new();
        for part in seen.iter().flatten().map(|seen| &seen.map) {
            cells.resize(cells.len().max(part.len()), 0);
            cells.iter_mut().zip(part).for_each(|(sum, more)| *sum = sum.saturating_add(u64::from(*more)));
        }
        let pages = region.len().div_ceil(hanare_protocol::limits::PAGE_LEN);
        RegionMap { region: region.name().to_owned(), pages_each: pages.div_ceil(u64::from(CELL_COUNT)).max(1), cells }
    }
}

fn node(status: NodeStatus, seen: Option<&Seen>) -> NodeSample {
    let mut sample =
        NodeSample { status, answers: seen.is_some(), commands: 0, bytes: 0, refused: 0, traffic: Traffic::default() };
    let Some(seen) = seen else { return sample };
    for command in &seen.counts.commands {
        sample.commands = sample.commands.saturating_add(command.count);
        sample.bytes = sample.bytes.saturating_add(command.bytes);
    }
    sample.refused = seen.counts.refused.iter().fold(0, |sum, (_, count)| sum.saturating_add(*count));
    seen.pages.iter().for_each(|stat| sample.traffic.add(stat));
    sample
}

fn region(stat: RegionStat, seen: &[Option<Seen>]) -> RegionSample {
    let (traffic, gid) = (Traffic::default(), stat.gid);
    let mut sample = RegionSample { stat, programs: 0, hosts: 0, frames: 0, traffic, returns: 0 };
    for told in seen.iter().flatten().flat_map(|seen| &seen.pages).filter(|told| told.gid == gid) {
        sample.programs += u64::from(told.programs);
        sample.hosts = sample.hosts.max(told.hosts.into());
        sample.frames = sample.frames.saturating_add(told.frames);
        sample.traffic.add(told);
        sample.returns = told.contended.iter().fold(sample.returns, |sum, run| sum.saturating_add(run.returns));
    }
    sample
}

fn programs(nodes: &[NodeStatus], seen: &[Option<Seen>]) -> Vec<ProgramSample> {
    let of_node = |(node, seen): (&NodeStatus, &Option<Seen>)| {
        let programs = seen.iter().flat_map(|seen| &seen.programs);
        programs.map(|stat| ProgramSample { node: node.node, stat: *stat }).collect::<Vec<_>>()
    };
    nodes.iter().zip(seen).flat_map(of_node).collect()
}

fn locks(programs: &[ProgramSample], seen: &[Option<Seen>]) -> (Vec<LockSample>, u64) {
    let known: BTreeMap<ClientId, &ProgramSample> = programs.iter().map(|program| (program.stat.client, program)).collect();
    let named = |clients: &[ClientId]| clients.iter().map(|client| called(*client, known.get(client).copied())).collect();
    let all = seen.iter().flatten().flat_map(|seen| &seen.locks);
    let locks = all.map(|stat| LockSample { holders: named(&stat.holders), waiters: named(&stat.waiters), stat: stat.clone() });
    (locks.collect(), seen.iter().flatten().map(|seen| seen.lock_count).sum())
}

/// A program as people call it: by its rank where it has one.
pub fn called(client: ClientId, program: Option<&ProgramSample>) -> String {
    match program {
        Some(ProgramSample { stat: ProgramStat { job: Some(job), .. }, .. }) if job.ranks > 1 => format!("rank {}", job.rank.0),
        Some(ProgramSample { node, stat }) => format!("process {} on {node}", stat.process),
        None => client.to_string(),
    }
}

fn runs(nodes: &[NodeStatus], seen: &[Option<Seen>]) -> Vec<RunSample> {
    let mut runs = Vec::new();
    for (node, seen) in nodes.iter().zip(seen) {
        for stat in seen.iter().flat_map(|seen| &seen.pages) {
            let told = |run: &PageRun| RunSample { gid: stat.gid, region: stat.name.clone(), home: node.node, run: run.clone() };
            runs.extend(stat.contended.iter().map(told));
        }
    }
    runs.sort_by(|a, b| b.run.returns.cmp(&a.run.returns).then_with(|| a.region.cmp(&b.region)));
    runs
}
