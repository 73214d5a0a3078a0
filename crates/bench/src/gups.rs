//! Random xor updates of 64-bit words in batches, each complete before the next begins. They run on one node, and over two by TCP, where
//! half of the table is elsewhere. Beside the best that MPI has for it.
//!
// FEATURE: RF-F4

use crate::Options;
use crate::compare::{best_of, bytes, compare_rates};
use crate::nodes::Nodes;
use crate::peers::mpi::{Link, Mpi};
use crate::peers::program::Compiled;
use crate::report::{Report, Row};
use crate::table;
use crate::turns::{Contestant, Figures, Outcome, Random, take_turns, time_step};
use anyhow::{Result, ensure};
use hanare::{CreateOptions, Element, Indexed, Modify, Operator, Placement, Range, Region, Shape};

/// The bench's name.
pub const NAME: &str = "gups";

/// Bytes of the table.
const TABLE_LEN: u64 = 256 << 20;
const TABLE_LEN_QUICK: u64 = 16 << 20;

/// Updates that are begun together.
const BATCHES: [u64; 3] = [1, 64, 1024];

/// Updates that are measured together, where batches are shorter; as in the peers' program.
const STEP_COUNT: u64 = 64;

/// Chunk of the table on two nodes.
const CHUNK: u64 = 1 << 20;

/// Memory that each node lends beyond the table.
const MEMORY_TO_SPARE: u64 = 128 << 20;

const XOR: Modify = Modify { operator: Operator::Xor, element: Element::U64 };

/// MPI's ways, as its program calls them.
const WAYS: [(&str, &str); 3] =
    [("accumulate", "MPI_Accumulate"), ("indexed", "MPI_Accumulate, indexed datatype"), ("fetch", "MPI_Fetch_and_op")];

/// Runs it.
pub fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Report> {
    let len = if options.quick { TABLE_LEN_QUICK } else { TABLE_LEN };
    progress("starting nodes");
    let count = options.nodes_or(2);
    let nodes = Nodes::start(options, count, len + len / 2 + MEMORY_TO_SPARE)?;
    let pool = nodes.attach(0)?;
    table::far(&pool)?;
    let one = pool.create("bench-one", len, &CreateOptions::default())?;
    let spread = CreateOptions { placement: Placement::Interleave(CHUNK), ..CreateOptions::default() };
    let two = pool.create("bench-two", len, &spread)?;
    // Every page is touched from here, as the peers' programs touch theirs: else the first updates count page faults.
    for region in [&one, &two] {
        region.fill(Shape::contiguous(0, len), &[0; 8])?;
    }
    let compiled = Compiled::new(options)?;
    let mut contestants = vec![Contestant::ours("hanare", || ours(options, &one, &two))];
    for (link, parts) in [(Link::Local, [0, len]), (Link::Tcp, [len / 2, len / 2])] {
        let words: Vec<String> = parts.iter().chain(&BATCHES).map(u64::to_string).collect();
        contestants.extend(Mpi::ALL.map(|mpi| mpi.contestant(&compiled, "mpi_gups", link, &words)));
    }
    let outcomes = take_turns(options.rounds(), contestants, progress)?;
    let [ours, near_open, near_mpich, open, mpich] = &outcomes[..] else { unreachable!("there are five contestants") };
    let mut report = Report::new(NAME);
    for (place, key, peers) in
        [("1 node", "one", [near_open, near_mpich]), (&format!("{count} nodes, tcp"), "two", [open, mpich])]
    {
        for batch in BATCHES {
            let case = format!("gups, {} table, batches of {batch}, {place}", bytes(len));
            report.rows.extend(rows(&case, (ours, &format!("{key}_{batch}")), peers, batch)?);
        }
    }
    Ok(report)
}

/// Beside the best way of each MPI.
fn rows(case: &str, ours: (&Outcome, &str), peers: [&Outcome; 2], batch: u64) -> Result<Vec<Row>> {
    let ways = WAYS.map(|(way, what)| (format!("{way}_{batch}"), what));
    let row = |peer| {
        let (peer, key) = best_of(peer, &ways);
        // From ns for an update to millions of them in a second.
        compare_rates(case.to_owned(), (1e3, "M updates/s"), ours, (&peer, &key), Some(1.0))
    };
    peers.into_iter().map(row).collect()
}

fn ours(options: &Options, one: &Region, two: &Region) -> Result<Figures> {
    let mut random = Random::SEED;
    let operands: Vec<u8> = (0..BATCHES[2]).flat_map(|_| random.next().to_le_bytes()).collect();
    let mut figures = Figures::new();
    for batch in BATCHES {
        let step = STEP_COUNT.max(batch);
        let operands = &operands[..8 * batch as usize];
        for (place, region) in [("one", one), ("two", two)] {
            let from = random.clone();
            let mut steps = 0;
            let ns = time_step(options.budget(), || {
                steps += 1;
                updates(region, &mut random, step / batch, batch, operands)
            })?;
            figures.insert(format!("{place}_{batch}"), ns / step as f64);
            // The same updates once more leave nothing of either.
            (0..steps)
                .try_fold(from, |mut random, _| updates(region, &mut random, step / batch, batch, operands).map(|()| random))?;
            check_zero(region)?;
        }
    }
    Ok(figures)
}

/// Runs `count` batches of updates of random words.
fn updates(region: &Region, random: &mut Random, count: u64, batch: u64, operands: &[u8]) -> hanare::Result<()> {
    let words = region.len() / 8;
    let mut list = Vec::with_capacity(batch as usize);
    let first = operands.first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
    for _ in 0..count {
        if batch == 1 {
            region.fetch_word(8 * random.below(words), XOR.operator, first)?;
            continue;
        }
        list.clear();
        list.extend((0..batch).map(|_| random.below(words) as u32));
        region.update(Indexed::elements(0, 8, &list[..]), XOR, operands)?;
    }
    Ok(())
}

fn check_zero(region: &Region) -> Result<()> {
    let others = region.reduce(Shape::contiguous(0, region.len()), Element::U64, Range::Whole(1, i128::MAX))?;
    ensure!(others.count == 0, "{} words were not updated as they should be", others.count);
    Ok(())
}
