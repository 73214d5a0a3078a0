//! Regions with copies: what a write costs that two or three nodes have before it is answered, beside one copy. Homes are on another node. A flush
//! of a mapping with two copies is measured beside a put of the same pages.
//!
//! Eight bytes stand also beside bare sockets through as many processes: no write can be answered sooner than those messages.

use crate::Options;
use crate::compare::{baseline, beside, bytes, compare, time_row};
use crate::nodes::Nodes;
use crate::peers::program::Compiled;
use crate::peers::relay;
use crate::report::{Report, Row};
use crate::table;
use crate::turns::{Contestant, Figures, Outcome, median, take_turns, time_step};
use anyhow::{Result, ensure};
use hanare::{Consistency, CreateOptions, Placement, Pool, Region, SharedMapping, Strided};
use std::time::Instant;

/// The bench's name.
pub const NAME: &str = "copies";

const SIZES: [u64; 3] = [8, 4096, 1 << 20];

/// Goal for a write with two copies beside one: the time of one over that of two.
const GOAL: f64 = 1.0 / 2.2;

/// Ways of a bare message, by the number of copies: to the home, from there to the copies, and back.
const WAYS: [(u8, &str); 3] = [(1, "0"), (2, "010"), (3, "0+12")];

/// Bare messages of a turn, in full and in quick runs.
const MESSAGE_COUNTS: [u64; 2] = [2000, 50];

/// Pages that are stored to before a flush.
const PAGES: [u64; 2] = [16, 1024];

const PAGE: u64 = 4096;

/// Length of the region that is mapped. Its stored pages lie at equal distances.
const MAPPED_LEN: u64 = 64 << 20;

/// Goal for a flush beside a put of its pages.
const FLUSH_GOAL: f64 = 1.0 / 1.3;

/// Memory that each node lends.
const MEMORY: u64 = 128 << 20;

/// Runs it.
pub fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Report> {
    progress("starting nodes");
    let nodes = Nodes::start(options, options.nodes_or(4), MEMORY)?;
    let pool = nodes.attach(0)?;
    let regions = [1, 2, 3].map(|copies| region(&pool, copies, *SIZES.last().expect("there are some")));
    let [one, two, three] = regions;
    let regions = [one?, two?, three?];
    let compiled = Compiled::new(options)?;
    let bare = relay::contestant(&compiled, MESSAGE_COUNTS[usize::from(options.quick)], WAYS.into_iter());
    let mapped = region(&pool, 2, MAPPED_LEN)?;
    let mapping = mapped.map(Consistency::Explicit)?;
    let all = || Ok(turn(options, &regions)?.into_iter().chain(flushes(options, &mapped, &mapping)?).collect());
    let outcomes = take_turns(options.rounds(), vec![Contestant::ours("hanare", all), bare], progress)?;
    let (ours, mut report) = (&outcomes[0], Report::new(NAME));
    report.rows.extend(beside_bare(ours, &outcomes[1])?);
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
    let put = baseline(ours, "a put of them");
    for count in PAGES {
        let case = format!("flush {count} pages of {}, other node, 2 copies, tcp", bytes(MAPPED_LEN));
        report.rows.push(compare(case, ours, &key("flush", count, 2), &put, &key("put pages", count, 2), Some(FLUSH_GOAL))?);
    }
    Ok(report)
}

/// A put of eight bytes beside bare messages on the same way, and those beside each other.
fn beside_bare(ours: &Outcome, relay: &Outcome) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for (copies, way) in WAYS {
        let peer = relay::through(relay, way);
        let case = format!("put 8 B, other node, {copies} {}, tcp", if copies == 1 { "copy" } else { "copies" });
        rows.push(compare(case, ours, &key("put", 8, copies), &peer, &copies.to_string(), None)?);
    }
    let one = relay.median("1");
    for copies in [2, 3] {
        if let Ok(through) = relay.median(&copies.to_string()) {
            let (row, scale) = time_row(format!("bare sockets, the way of {copies} copies"), through);
            rows.push(beside(row, "bare sockets, the way of one copy (own baseline)", one.map(|ns| ns * scale), None));
        }
    }
    Ok(rows)
}

fn key(what: &str, size: u64, copies: u8) -> String {
    format!("{what} {} {copies}", bytes(size))
}

/// A region whose home is the first node but the client's.
fn region(pool: &Pool, copies: u8, len: u64) -> Result<Region> {
    let far = table::far(pool)?;
    ensure!(far.len() > 2, "the pool has fewer than four nodes");
    let options = CreateOptions { placement: Placement::Node(far[0]), copies, ..CreateOptions::default() };
    Ok(pool.create(&format!("bench-copies-{copies}-{len}"), len, &options)?)
}

/// Times of flushes, and of puts of the same pages.
fn flushes(options: &Options, region: &Region, mapping: &SharedMapping) -> Result<Figures> {
    let mut figures = Figures::new();
    for count in PAGES {
        let pages = Strided { offset: 0, block: PAGE, count, stride: MAPPED_LEN / count };
        let buffer = vec![3; (count * PAGE) as usize];
        figures.insert(key("put pages", count, 2), time_step(options.budget(), || region.put_shape(pages, &buffer))?);
        let (begin, mut times) = (Instant::now(), Vec::new());
        while times.len() < 4 || begin.elapsed() < options.budget() {
            let page = vec![(times.len() % 250) as u8 + 1; PAGE as usize];
            pages.blocks().try_for_each(|(offset, _)| mapping.write(offset, &page))?;
            let start = Instant::now();
            mapping.flush(0, MAPPED_LEN)?;
            times.push(start.elapsed().as_nanos() as f64);
        }
        figures.insert(key("flush", count, 2), median(times));
    }
    Ok(figures)
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
