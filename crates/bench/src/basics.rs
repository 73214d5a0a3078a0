//! Calibration of `hanare what-if`: one operation a row, each row named by its pattern, on two nodes of one host.
//!
//! Peers are absent here: the rows are measured to predict others from them. Some of them are held out and predicted.
//!
//! Each round has nodes of its own, and a row is the median of the rounds. The processors of a node and of its client decide more than all
//! else how fast they answer each other. They stay the same while both run.

use crate::Options;
use crate::nodes::Nodes;
use crate::report::{Better, Report, Row};
use crate::table;
use crate::turns::{Random, median};
use crate::usage::Watch;
use anyhow::{Result, anyhow};
use hanare::{
    Consistency, Element, Indexed, JobId, JobRank, Modify, NodeList, Operator, Placement, Pool, Range, Rank, Region, Shape,
    Strided,
};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// The bench's name.
pub const NAME: &str = "basics";

/// The row that tells which part of the processors' time the nodes take, of requests that follow each other.
pub const NODE_SHARE: &str = "nodes' share of get 8B depth 16";

/// The row that tells how far rounds differ: the slowest over the fastest, the median of the rows.
pub const ROUND_SPREAD: &str = "slowest round over fastest";

/// Behind a pattern: the mean of its single times, and their 99th percentile, in place of the median.
pub const MEAN: &str = ", mean";
/// See [`MEAN`].
pub const P99: &str = ", 99th percentile";

/// Bytes of the regions.
const REGION_LEN: u64 = 64 << 20;

/// Memory that each node lends: the regions, those that wait to be wiped, and some to spare.
const MEMORY: u64 = 5 * REGION_LEN;

/// Silence before an operation that finds its node parked.
const SILENCE: Duration = Duration::from_millis(1);

/// Operations before those that count, and how long they last at least: until a shaper's saved-up bytes are spent.
const WARM_COUNT: usize = 50;
const WARM_TIME: Duration = Duration::from_millis(30);

/// Longest list.
const LIST_LEN: usize = 1 << 18;

/// Runs it.
pub fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Report> {
    let rounds = options.rounds();
    let mut rows: Vec<(String, Vec<f64>)> = Vec::new();
    for number in 1..=rounds {
        let mut round = Round { options, rows: Vec::new() };
        round.measure(&mut |what| progress(&format!("round {number} of {rounds}: {what}")))?;
        for (case, value) in round.rows {
            match rows.iter_mut().find(|(known, _)| *known == case) {
                Some((_, values)) => values.push(value),
                None => rows.push((case, vec![value])),
            }
        }
    }
    let mut report = Report::new(NAME);
    report.rows.push(Row::alone(ROUND_SPREAD, spread(&rows), "times", Better::Lower));
    for (case, values) in rows {
        let unit = if case == NODE_SHARE { "share" } else { "ns" };
        report.rows.push(Row::alone(case, median(values), unit, Better::Lower));
    }
    Ok(report)
}

/// The median over the medians' rows of the slowest round over the fastest; 1 for a single round.
fn spread(rows: &[(String, Vec<f64>)]) -> f64 {
    let is_median = |case: &str| case != NODE_SHARE && !case.ends_with(MEAN) && !case.ends_with(P99);
    let ratio = |values: &[f64]| {
        let (least, most) = values.iter().fold((f64::MAX, 0.0f64), |(least, most), value| (value.min(least), value.max(most)));
        most / least
    };
    median(rows.iter().filter(|(case, _)| is_median(case)).map(|(_, values)| ratio(values)).collect())
}

/// All rows once, on nodes of their own.
struct Round<'a> {
    options: &'a Options,
    rows: Vec<(String, f64)>,
}

impl Round<'_> {
    fn measure(&mut self, progress: &mut dyn FnMut(&str)) -> Result<()> {
        progress("starting nodes");
        let nodes = Nodes::start(self.options, 4, MEMORY)?;
        let pool = nodes.attach(0)?;
        let far = table::create(&pool, "bench-far", REGION_LEN, Placement::Node(table::far(&pool)?[0]))?;
        let near = table::create(&pool, "bench-near", REGION_LEN, Placement::Local)?;
        progress("gets and puts");
        self.contiguous(&nodes, &near, &far)?;
        progress("elements");
        self.elements(&near, &far)?;
        progress("copies, scans and a table on two nodes");
        self.on_several_nodes(&pool, &far)?;
        progress("gets of several programs");
        for (size, len) in [("4KiB", 4 << 10), ("64KiB", 64 << 10)] {
            self.together(&nodes, &format!("get {size}"), 2, Some(len))?;
        }
        progress("barriers");
        // Each time with programs of their own, because where the kernel puts them decides.
        for ranks in [1, 2, 4, 1, 2, 4, 1, 2, 4] {
            self.together(&nodes, "barrier", ranks, None)?;
        }
        progress("touches");
        self.touch(&pool)
    }

    fn row(&mut self, pattern: &str, ns: f64) {
        self.rows.push((pattern.to_owned(), ns));
    }

    /// The median of single times, after some that are not counted. At least 20 are taken, however long they last.
    fn steps(&mut self, pattern: &str, silence: Duration, mut step: impl FnMut() -> hanare::Result<()>) -> Result<()> {
        let (budget, mut times) = (2 * self.options.budget(), Vec::new());
        let (begin, mut warm) = (Instant::now(), 0);
        while warm < WARM_COUNT || begin.elapsed() < WARM_TIME {
            std::thread::sleep(silence);
            step()?;
            warm += 1;
        }
        let begin = Instant::now();
        while times.len() < 20 || (begin.elapsed() < budget && times.len() < 20_000) {
            if !silence.is_zero() {
                std::thread::sleep(silence);
            }
            let start = Instant::now();
            step()?;
            times.push(start.elapsed().as_nanos() as f64);
        }
        self.times(pattern, times);
        Ok(())
    }

    /// The median of single times, their mean and 99th percentile.
    fn times(&mut self, pattern: &str, mut times: Vec<f64>) {
        times.sort_by(f64::total_cmp);
        let (count, last) = (times.len() as f64, times.len() - 1);
        self.row(&format!("{pattern}{MEAN}"), times.iter().sum::<f64>() / count);
        self.row(&format!("{pattern}{P99}"), times[(last as f64 * 0.99) as usize]);
        self.row(pattern, median(times));
    }

    fn contiguous(&mut self, nodes: &Nodes, near: &Region, far: &Region) -> Result<()> {
        let mut buffer = vec![0; 1 << 20];
        for (pattern, len) in [("get 8B", 8), ("get 4KiB", 4 << 10), ("get 64KiB", 64 << 10), ("get 1MiB", 1 << 20)] {
            self.steps(pattern, Duration::ZERO, || far.get(0, &mut buffer[..len]))?;
        }
        let near_rows =
            [("get 8B near", 8), ("get 128KiB near", 128 << 10), ("get 1MiB near", 1 << 20), ("get 64KiB near", 64 << 10)];
        for (pattern, len) in near_rows {
            self.steps(pattern, Duration::ZERO, || near.get(0, &mut buffer[..len]))?;
        }
        self.steps("get 8B, compute 1ms", SILENCE, || far.get(0, &mut buffer[..8]))?;
        self.steps("get 4KiB, compute 1ms", SILENCE, || far.get(0, &mut buffer[..4096]))?;
        for (pattern, len) in [("put 4KiB", 4 << 10), ("put 64KiB", 64 << 10)] {
            self.steps(pattern, Duration::ZERO, || far.put(0, &buffer[..len]))?;
        }
        let mut word = 0;
        self.steps("fetch", Duration::ZERO, || {
            word += 8;
            far.fetch_word(word % REGION_LEN, Operator::Xor, 0).map(|_| ())
        })?;
        let (ns, share) = pipelined(self.options, nodes, far, 8)?;
        self.row("get 8B depth 16", ns);
        self.row("get 4KiB depth 16", pipelined(self.options, nodes, far, 4096)?.0);
        self.row(NODE_SHARE, share);
        Ok(())
    }

    fn elements(&mut self, near: &Region, far: &Region) -> Result<()> {
        let mut random = Random::SEED;
        let list: Vec<u32> = (0..LIST_LEN).map(|_| random.below(REGION_LEN / 8) as u32).collect();
        let mut buffer = vec![0; LIST_LEN * 8];
        let elements = |list: &[u32], region: &Region, buffer: &mut [u8]| {
            region.get_shape(Indexed::elements(0, 8, list), &mut buffer[..list.len() * 8])
        };
        // Each list is another part of the long one: elements that were just gathered would lie in a cache.
        let mut parts = list.chunks_exact(4096).cycle();
        self.steps("gather 4096 of 8B", Duration::ZERO, || elements(parts.next().expect("a cycle goes on"), far, &mut buffer))?;
        self.steps("gather 4096 of 8B near", Duration::ZERO, || {
            elements(parts.next().expect("a cycle goes on"), near, &mut buffer)
        })?;
        self.steps("gather 262144 of 8B", Duration::ZERO, || elements(&list, far, &mut buffer))?;
        let strided = Strided { offset: 0, block: 8, count: 4096, stride: 4096 };
        self.steps("strided 4096 of 8B", Duration::ZERO, || far.get_strided(strided, &mut buffer[..4096 * 8]))?;
        let xor = Modify { operator: Operator::Xor, element: Element::U64 };
        for (pattern, count) in [("update 64 of 8B", 64), ("update 1024 of 8B", 1024)] {
            let (operands, mut parts) = (vec![0; count * 8], list.chunks_exact(count).cycle());
            self.steps(pattern, Duration::ZERO, || {
                far.update(Indexed::elements(0, 8, parts.next().expect("a cycle goes on")), xor, &operands)
            })?;
        }
        Ok(())
    }

    /// Bytes that go from node to node, that stay where they are, and that lie on two nodes.
    fn on_several_nodes(&mut self, pool: &Pool, far: &Region) -> Result<()> {
        let others = table::far(pool)?;
        let source = table::create(pool, "bench-source", 4 << 20, Placement::Node(others[1]))?;
        for (pattern, len) in [("copy 64KiB", 64 << 10), ("copy 1MiB", 1 << 20)] {
            self.steps(pattern, Duration::ZERO, || {
                pool.copy(&source, Shape::contiguous(0, len), far, Shape::contiguous(0, len))
            })?;
        }
        self.steps("scan 1MiB", Duration::ZERO, || {
            far.reduce(Shape::contiguous(0, 1 << 20), Element::I64, Range::Whole(0, i128::from(i64::MAX))).map(drop)
        })?;
        let nodes = NodeList::new(&[pool.node(), others[0]]).map_err(|bad| anyhow!("{bad}"))?;
        let table = table::create(pool, "bench-table", REGION_LEN, Placement::Nodes(nodes, 4096))?;
        let mut random = Random::SEED;
        let list: Vec<u32> = (0..LIST_LEN).map(|_| random.below(REGION_LEN / 8) as u32).collect();
        let xor = Modify { operator: Operator::Xor, element: Element::U64 };
        let (mut buffer, mut lists) = (vec![0; 4096 * 8], list.chunks_exact(4096).cycle());
        self.steps("gather 4096 of 8B spread", Duration::ZERO, || {
            table.get_shape(Indexed::elements(0, 8, lists.next().expect("a cycle goes on")), &mut buffer)
        })?;
        let (operands, mut parts) = (vec![0; 1024 * 8], list.chunks_exact(1024).cycle());
        self.steps("update 1024 of 8B spread", Duration::ZERO, || {
            table.update(Indexed::elements(0, 8, parts.next().expect("a cycle goes on")), xor, &operands)
        })
    }

    /// Times of the first of several ranks, each on a node of its own. All get `len` bytes of the next node, or meet at empty barriers.
    fn together(&mut self, nodes: &Nodes, step: &str, ranks: u32, len: Option<usize>) -> Result<()> {
        let job = JobId(rand::random());
        let attach = |rank| nodes.attach_as(rank as usize, JobRank { job, rank: Rank(rank), ranks });
        let pools: Vec<Pool> = (0..ranks).map(attach).collect::<Result<_>>()?;
        let far = |pool: &Pool| {
            let name = format!("bench-of-{}-{}", len.unwrap_or(0), pool.rank());
            len.map(|_| table::create(pool, &name, 1 << 20, Placement::Node(table::far(pool)?[0]))).transpose()
        };
        let far: Vec<Option<Region>> = pools.iter().map(far).collect::<Result<_>>()?;
        let count = if self.options.quick { 100 } else { 700 };
        let run = |pool: &Pool, far: &Option<Region>| {
            let (mut buffer, mut times) = (vec![0; len.unwrap_or(0)], Vec::with_capacity(count));
            pool.barrier()?;
            for _ in 0..count {
                let start = Instant::now();
                match far {
                    Some(far) => far.get(0, &mut buffer)?,
                    None => pool.barrier()?,
                }
                times.push(start.elapsed().as_nanos() as f64);
            }
            Ok::<_, hanare::Error>(times)
        };
        let all: Vec<_> = pools.iter().zip(&far).collect();
        let (first, others) = all.split_first().expect("there is a rank");
        let times = std::thread::scope(|scope| {
            let waiting: Vec<_> = others.iter().map(|(pool, far)| scope.spawn(move || run(pool, far))).collect();
            let times = run(first.0, first.1)?;
            for other in waiting {
                other.join().map_err(|_| anyhow!("a rank panicked"))??;
            }
            Ok::<_, anyhow::Error>(times)
        })?;
        self.times(&format!("{step} from {ranks} ranks"), times);
        Ok(())
    }

    /// Touches of pages in an order that no stream of faults follows, to read and to write. The first eighth is not counted.
    fn touch(&mut self, pool: &Pool) -> Result<()> {
        for (pattern, writes) in [("touch", false), ("store", true)] {
            // A mapping of its own: commands on a region that is mapped go another way.
            let region = table::create(pool, &format!("bench-{pattern}"), REGION_LEN, Placement::Node(table::far(pool)?[0]))?;
            let mapping = region.map(Consistency::Coherent)?;
            let (count, mut word) = (REGION_LEN / 4096, [0; 8]);
            let mut times = Vec::new();
            for k in (0..count).step_by(7).map(|k| k * 7919 % count) {
                let start = Instant::now();
                if writes {
                    mapping.write(k * 4096, &word)?
                } else {
                    mapping.read(k * 4096, &mut word)?
                }
                times.push(start.elapsed().as_nanos() as f64);
            }
            drop(mapping);
            self.times(pattern, times.split_off(times.len() / 8));
        }
        for number in 1..=3 {
            self.walk(pool, number)?;
        }
        Ok(())
    }

    /// A load from each page in turn: those behind are brought along.
    fn walk(&mut self, pool: &Pool, number: u32) -> Result<()> {
        let region = table::create(pool, &format!("bench-walk-{number}"), 16 << 20, Placement::Node(table::far(pool)?[0]))?;
        let mapping = region.map(Consistency::Coherent)?;
        let (start, mut word) = (Instant::now(), [0; 8]);
        for page in 0..(16 << 20) / 4096 {
            mapping.read(page * 4096, &mut word)?;
        }
        let ns = start.elapsed().as_nanos() as f64;
        drop(mapping);
        self.row("walk 16MiB", ns);
        Ok(())
    }
}

/// Nanoseconds of a get of which 16 are under way, and the nodes' share of the processors' time meanwhile.
fn pipelined(options: &Options, nodes: &Nodes, far: &Region, len: usize) -> Result<(f64, f64)> {
    let count = if options.quick { 2_000 } else { 20_000 };
    let mut under_way = VecDeque::new();
    let watch = Watch::begin(nodes.processes())?;
    let mut spare: Vec<Vec<u8>> = Vec::new();
    for _ in 0..count {
        if under_way.len() == 16 {
            let first: hanare::Completion<Vec<u8>> = under_way.pop_front().expect("there are 16");
            spare.push(first.wait()?);
        }
        under_way.push_back(far.start_get(0, spare.pop().unwrap_or_else(|| vec![0; len]))?);
    }
    for left in under_way {
        left.wait()?;
    }
    let spent = watch.end()?;
    Ok((spent.elapsed / f64::from(count), spent.nodes.cpu / (spent.nodes.cpu + spent.program.cpu)))
}
