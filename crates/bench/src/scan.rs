//! A scan of a large table on the other node. Count and sum of the numbers in a range, reduced where they are. Beside bringing the table, a
//! loop over as much local memory, and DuckDB on local data.

use crate::Options;
use crate::compare::{baseline, bytes, compare, own};
use crate::nodes::Nodes;
use crate::peers::local::{duckdb, local_loop};
use crate::peers::program::Compiled;
use crate::report::{Better, Report, Row};
use crate::table;
use crate::turns::{Contestant, Figures, Outcome, take_turns, time_step};
use anyhow::{Result, ensure};
use hanare::{Element, Placement, Pool, Range, Region, Shape, Value};

/// The bench's name.
pub const NAME: &str = "scan";

/// Bytes of the table.
const TABLE_LEN: u64 = 1 << 30;
const TABLE_LEN_QUICK: u64 = 64 << 20;

/// A quarter of all 64-bit numbers; as in the peers' programs.
const LOW: i64 = -(1 << 61);
const HIGH: i64 = 1 << 61;

/// Bytes brought at once where the table is brought.
const PIECE_LEN: usize = 1 << 20;

/// Bytes that may move to and from each node.
const MOVED_MAX: f64 = 1024.0;

/// Memory that each node lends beyond the table.
const MEMORY_TO_SPARE: u64 = 128 << 20;

/// Runs it.
pub fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Report> {
    let len = if options.quick { TABLE_LEN_QUICK } else { TABLE_LEN };
    progress("starting nodes and filling their memory");
    let nodes = Nodes::start(options, options.nodes_or(2), len + MEMORY_TO_SPARE)?;
    let pool = nodes.attach(0)?;
    let table = table::create(&pool, "bench-far", len, Placement::Node(table::far(&pool)?[0]))?;
    let compiled = Compiled::new(options)?;
    let contestants = vec![
        Contestant::ours("hanare", || ours(options, &pool, &table)),
        local_loop(&compiled, "scan", nodes.pages()?, &[len.to_string()]),
        duckdb(options, len),
    ];
    let outcomes = take_turns(options.rounds(), contestants, progress)?;
    let [ours, tuned, duckdb] = &outcomes[..] else { unreachable!("there are three contestants") };
    let mut report = Report::new(NAME);
    report.rows = rows(len, ours, tuned, duckdb)?;
    Ok(report)
}

fn rows(len: u64, ours: &Outcome, tuned: &Outcome, duckdb: &Outcome) -> Result<Vec<Row>> {
    let case = format!("scan {}, count and sum in a range, 2 nodes, tcp", bytes(len));
    let moved = format!("{case}: bytes moved");
    let key = format!("scan_{len}");
    let brought = baseline(ours, &format!("get of {} at a time, then a loop", bytes(PIECE_LEN as u64)));
    let times = |peer, key: &str, goal| compare(case.clone(), ours, "reduce", peer, key, goal);
    Ok(vec![
        times(&brought, "bring", None)?,
        times(tuned, &key, Some(0.8))?,
        times(duckdb, &key, None)?,
        Row::alone(&moved, own(&moved, ours, "moved")?, "B", Better::Lower).beside(
            "the limit for each node",
            MOVED_MAX,
            Some(1.0),
        ),
    ])
}

fn ours(options: &Options, pool: &Pool, table: &Region) -> Result<Figures> {
    let mut found = None;
    let before = pool.traffic();
    let mut count = 0u32;
    let reduce = time_step(options.budget(), || {
        let all = Shape::contiguous(0, table.len());
        found = Some(table.reduce(all, Element::I64, Range::Whole(LOW.into(), HIGH.into()))?);
        count += 1;
        Ok(())
    })?;
    let after = pool.traffic();
    let moved = after.bytes_sent + after.bytes_received - before.bytes_sent - before.bytes_received;
    let (mut brought, mut buffer) = ((0, 0), vec![0; PIECE_LEN]);
    let bring = time_step(options.budget(), || {
        brought = bring(table, &mut buffer)?;
        Ok(())
    })?;
    let (count_found, sum_found) = match found.map(|summary| (summary.count, summary.sum())) {
        Some((count, Value::Whole(sum))) => (count, sum as i64),
        other => anyhow::bail!("a scan of whole numbers told {other:?}"),
    };
    ensure!(brought == (count_found, sum_found) && count_found > 0, "{brought:?} were brought, {count_found}, {sum_found} found");
    let figures = [("reduce", reduce), ("bring", bring), ("moved", moved as f64 / f64::from(count))];
    Ok(figures.into_iter().map(|(key, figure)| (key.to_owned(), figure)).collect())
}

/// Count and sum, the latter in 64 bits, of numbers that are brought here.
fn bring(table: &Region, buffer: &mut [u8]) -> hanare::Result<(u64, i64)> {
    let (mut count, mut sum) = (0, 0i64);
    for offset in (0..table.len()).step_by(PIECE_LEN) {
        table.get(offset, buffer)?;
        for bytes in buffer.chunks_exact(8) {
            let number = i64::from_le_bytes(bytes.try_into().expect("8 bytes"));
            let is_in = (LOW..=HIGH).contains(&number);
            count += u64::from(is_in);
            sum = sum.wrapping_add(if is_in { number } else { 0 });
        }
    }
    Ok((count, sum))
}
