//! Bytes from one node to another, neither of which is the client's: a copy, which goes from node to node, beside a get and
//! a put through the client. Contiguous, strided and indexed on both sides.
//!
// FEATURE: D3-F11 D3-F12

use crate::Options;
use crate::compare::{bytes, compare_rates};
use crate::nodes::Nodes;
use crate::report::{Better, Report, Row};
use crate::table;
use crate::turns::{Contestant, Figures, Outcome, Random, take_turns, time_step};
use anyhow::{Result, ensure};
use hanare::{Indexed, Placement, Pool, Region, Shape, Strided};
use rustix::time::{ClockId, clock_gettime};
use std::time::Instant;

/// The bench's name.
pub const NAME: &str = "copy";

/// Bytes moved.
const LEN: u64 = 64 << 20;
const LEN_QUICK: u64 = 8 << 20;

/// Bytes of a block of the shapes that have some, a cache line.
const BLOCK_LEN: u64 = 64;

/// Blocks that are not moved for each one that is, plus that one.
const SPREAD: u64 = 2;

/// Bytes of a piece where the client passes them on in pieces: its buffer stays in its cache.
const PIECE_LEN: u64 = 1 << 20;

/// What each node lends beyond a region.
const MEMORY_TO_SPARE: u64 = 128 << 20;

/// How many times faster a copy should be than passing the bytes through the client.
const GOAL: f64 = 1.6;

const KINDS: [&str; 3] = ["contiguous", "strided", "indexed"];

/// What is copied from where to where.
struct Ends<'a> {
    pool: &'a Pool,
    len: u64,
    from: Region,
    to: Region,
    /// Blocks of the source and of the target, in the order in which they are paired.
    lists: [Vec<u32>; 2],
}

/// Runs it.
pub fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Report> {
    let len = if options.quick { LEN_QUICK } else { LEN };
    progress("starting nodes");
    let nodes = Nodes::start(options, options.nodes_or(3), SPREAD * len + MEMORY_TO_SPARE)?;
    let pool = nodes.attach(0)?;
    let ends = Ends::new(&pool, len)?;
    let outcomes = take_turns(options.rounds(), vec![Contestant::ours("hanare", || ends.turn(options))], progress)?;
    let mut report = Report::new(NAME);
    for kind in KINDS {
        report.rows.extend(rows(kind, len, &outcomes[0])?);
    }
    Ok(report)
}

fn rows(kind: &str, len: u64, ours: &Outcome) -> Result<Vec<Row>> {
    let case = format!("copy {} {kind}, node to node, tcp", bytes(len));
    let key = format!("copy_{kind}");
    let mut rows = Vec::new();
    for (way, what) in
        [("pieces", "get then put by the client, 1 MiB at a time"), ("whole", "get then put by the client, at once")]
    {
        let peer = Outcome { name: format!("{what} (own baseline)"), ..ours.clone() };
        let amount = (len as f64, "GB/s");
        rows.push(compare_rates(case.clone(), amount, (ours, &key), (&peer, &format!("{way}_{kind}")), Some(GOAL))?);
    }
    let share = ours.median(&format!("cpu_{kind}")).map_err(|reason| anyhow::anyhow!("{case}: {reason}"))?;
    rows.push(Row::alone(format!("{case}: the client's CPU time"), share * 100.0, "% of one CPU", Better::Lower));
    Ok(rows)
}

impl Ends<'_> {
    fn new(pool: &Pool, len: u64) -> Result<Ends<'_>> {
        let far = table::far(pool)?;
        ensure!(far.len() > 1, "the pool has fewer than three nodes");
        let from = table::create(pool, "bench-from", SPREAD * len, Placement::Node(far[0]))?;
        let to = table::create(pool, "bench-to", SPREAD * len, Placement::Node(far[1]))?;
        let mut random = Random::SEED;
        let lists = [(); 2].map(|()| {
            // A shuffle of all blocks, of which the first ones are moved: none is a target twice.
            let mut all: Vec<u32> = (0..(SPREAD * len / BLOCK_LEN) as u32).collect();
            for k in 0..all.len() {
                let other = k + random.below((all.len() - k) as u64) as usize;
                all.swap(k, other);
            }
            all.truncate((len / BLOCK_LEN) as usize);
            all
        });
        Ok(Ends { pool, len, from, to, lists })
    }

    /// The bytes `at .. at + len` of one side's stream.
    fn shape(&self, kind: &str, side: usize, at: u64, len: u64) -> Shape<'_> {
        let first = at / BLOCK_LEN;
        let count = len / BLOCK_LEN;
        match kind {
            "contiguous" => Shape::contiguous(at, len),
            "strided" => {
                let stride = SPREAD * BLOCK_LEN;
                Strided { offset: first * stride, block: BLOCK_LEN, count, stride }.into()
            }
            _ => {
                let list = &self.lists[side][first as usize..(first + count) as usize];
                Indexed::elements(0, BLOCK_LEN, list).into()
            }
        }
    }

    fn turn(&self, options: &Options) -> Result<Figures> {
        let mut figures = Figures::new();
        let mut buffer = vec![0; self.len as usize];
        for kind in KINDS {
            let (mut busy, mut spent) = (0.0, 0.0);
            let ns = time_step(options.budget(), || {
                let (cpu, start) = (cpu_seconds(), Instant::now());
                let outcome =
                    self.pool.copy(&self.from, self.shape(kind, 0, 0, self.len), &self.to, self.shape(kind, 1, 0, self.len));
                busy += cpu_seconds() - cpu;
                spent += start.elapsed().as_secs_f64();
                outcome
            })?;
            figures.insert(format!("copy_{kind}"), ns);
            figures.insert(format!("cpu_{kind}"), busy / spent);
            self.check(kind, &mut buffer)?;
            for (way, piece) in [("pieces", PIECE_LEN), ("whole", self.len)] {
                let ns = time_step(options.budget(), || self.pass_on(kind, &mut buffer[..piece as usize]))?;
                figures.insert(format!("{way}_{kind}"), ns);
            }
        }
        Ok(figures)
    }

    /// Get and put by the client, a buffer at a time.
    fn pass_on(&self, kind: &str, buffer: &mut [u8]) -> hanare::Result<()> {
        let piece = buffer.len() as u64;
        (0..self.len).step_by(buffer.len()).try_for_each(|at| {
            self.from.get_shape(self.shape(kind, 0, at, piece), buffer)?;
            self.to.put_shape(self.shape(kind, 1, at, piece), buffer)
        })
    }

    /// The target has what the source has, in order.
    fn check(&self, kind: &str, buffer: &mut [u8]) -> Result<()> {
        self.to.get_shape(self.shape(kind, 1, 0, self.len), buffer)?;
        let source = self.shape(kind, 0, 0, self.len).check("bench-from", self.from.len())?;
        let block = source.shape().block();
        table::check(buffer, source.block_offsets().flat_map(|offset| offset / 8..(offset + block) / 8))
    }
}

/// What this process has used so far.
fn cpu_seconds() -> f64 {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    used.tv_sec as f64 + used.tv_nsec as f64 * 1e-9
}
