//! A touch of a page of mapped memory that is not here: from this host's frames, from another node, and page after page;
//! beside the bare gets that bring the same bytes.
//!
// FEATURE: EU-F12 EU-F17 D2-F4

use crate::Options;
use crate::compare::{baseline, bytes, compare, compare_rates, own, time_row};
use crate::nodes::Nodes;
use crate::report::Report;
use crate::table;
use crate::turns::{Contestant, Figures, median, take_turns};
use anyhow::Result;
use hanare::{Consistency, Placement, Pool, Region};
use std::time::Instant;

/// The bench's name.
pub const NAME: &str = "fault";

/// Bytes of the region that is read from its first byte to its last.
const STREAM_LEN: u64 = 1 << 30;
const STREAM_LEN_QUICK: u64 = 32 << 20;

/// Bytes of the region whose pages are touched here and there.
const PAGES_LEN: u64 = 64 << 20;

const PAGE_LEN: u64 = 4096;

/// Bytes that a bare get brings at once, and that are read from the mapping at once.
const PIECE_LEN: usize = 1 << 20;

/// Pages between two touches of pages that are in frames: more than are mapped around one.
const APART: u64 = 61;

/// What each node lends beyond the regions.
const MEMORY_TO_SPARE: u64 = 128 << 20;

/// Runs it.
pub fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Report> {
    let len = if options.quick { STREAM_LEN_QUICK } else { STREAM_LEN };
    progress("starting nodes and filling their memory");
    let nodes = Nodes::start(options, options.nodes_or(2), len + PAGES_LEN + MEMORY_TO_SPARE)?;
    let (pool, beside) = (nodes.attach(0)?, nodes.attach(0)?);
    let far = Placement::Node(table::far(&pool)?[0]);
    let stream = table::create(&pool, "bench-stream", len, far)?;
    let pages = table::create(&pool, "bench-pages", PAGES_LEN, far)?;
    let contestants = vec![Contestant::ours("hanare", || ours(&beside, &stream, &pages))];
    let outcomes = take_turns(options.rounds(), contestants, progress)?;
    let ours = &outcomes[0];
    let mut report = Report::new(NAME);
    let case = "a page in this host's frames, touched".to_owned();
    let (row, _) = time_row(case.clone(), own(&case, ours, "frames")?);
    let goal = crate::report::Row::beside(row, "the goal", 5.0, Some(1.0));
    report.rows.push(goal);
    let bare = baseline(ours, "bare get of a page");
    report.rows.push(compare("a page on another node, touched, tcp".to_owned(), ours, "far", &bare, "get", Some(1.0 / 1.6))?);
    let bare = baseline(ours, &format!("bare get of {} at a time", bytes(PIECE_LEN as u64)));
    let case = format!("{} on another node, read through the pointer, tcp", bytes(len));
    report.rows.push(compare_rates(case, (len as f64, "GB/s"), (ours, "stream"), (&bare, "pieces"), Some(0.45))?);
    let case = format!("{} on another node, mapped, read {} at a time, tcp", bytes(len), bytes(PIECE_LEN as u64));
    report.rows.push(compare_rates(case, (len as f64, "GB/s"), (ours, "ranges"), (&bare, "pieces"), None)?);
    Ok(report)
}

fn ours(beside: &Pool, stream: &Region, pages: &Region) -> Result<Figures> {
    let (mut piece, mut page) = (vec![0; PIECE_LEN], [0; PAGE_LEN as usize]);
    let mut times = Vec::new();
    for k in scattered() {
        let start = Instant::now();
        pages.get(k * PAGE_LEN, &mut page)?;
        times.push(start.elapsed().as_nanos() as f64);
    }
    let get = median(times);
    let start = Instant::now();
    for offset in (0..stream.len()).step_by(PIECE_LEN) {
        stream.get(offset, &mut piece)?;
    }
    let pieces = start.elapsed().as_nanos() as f64;
    let mapping = pages.map(Consistency::Coherent)?;
    let mut times = Vec::new();
    for k in scattered() {
        let start = Instant::now();
        mapping.read(k * PAGE_LEN, &mut page[..8])?;
        times.push(start.elapsed().as_nanos() as f64);
    }
    let far = median(times);
    mapping.touch(0, PAGES_LEN)?;
    // Another program of this host finds them in the frames.
    let second = beside.open(pages.name())?.map(Consistency::Coherent)?;
    let mut times = Vec::new();
    for k in (0..PAGES_LEN / PAGE_LEN).step_by(APART as usize) {
        let start = Instant::now();
        second.read(k * PAGE_LEN, &mut page[..8])?;
        times.push(start.elapsed().as_nanos() as f64);
    }
    let frames = median(times);
    drop((second, mapping));
    // A page at a time, each touched as by a load: what is asked for at once is what the faults' stream is worth.
    let read = read_mapped(stream, &mut page)?;
    let ranges = read_mapped(stream, &mut piece)?;
    let figures = [("get", get), ("pieces", pieces), ("far", far), ("frames", frames), ("stream", read), ("ranges", ranges)];
    Ok(figures.into_iter().map(|(key, figure)| (key.to_owned(), figure)).collect())
}

/// Nanoseconds in which a mapping of a region that is not here is read, so many bytes at a time.
fn read_mapped(region: &Region, into: &mut [u8]) -> Result<f64> {
    let mapping = region.map(Consistency::Coherent)?;
    let start = Instant::now();
    for offset in (0..region.len()).step_by(into.len()) {
        mapping.read(offset, into)?;
    }
    Ok(start.elapsed().as_nanos() as f64)
}

/// Pages in an order that no stream of faults follows; some hundreds.
fn scattered() -> impl Iterator<Item = u64> {
    let count = PAGES_LEN / PAGE_LEN;
    (0..count).step_by(29).map(move |k| k * 7919 % count)
}
