//! A touch of a mapped page that is not here: from this host's frames, from another node, and page after page. Beside it are the bare gets
//! that bring the same bytes. If a goal is missed, the rows behind it say what the limit is: the program's CPU, its nodes' CPU, or waits.
//!
// FEATURE: EU-F12 EU-F17 D2-F4

use crate::Options;
use crate::compare::{Part, baseline, bytes, compare, compare_rates, own, time_row, with_parts};
use crate::nodes::Nodes;
use crate::report::Report;
use crate::table;
use crate::turns::{Contestant, Figures, median, take_turns};
use crate::usage::Watch;
use anyhow::{Context, Result, ensure};
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

/// Bytes that a bare get brings at once if they are kept. A stream of faults asks for as many before it takes them in.
const KEPT_LEN: usize = 256 << 10;

/// Pages between two touches of pages that are in frames: more than are mapped around one.
const APART: u64 = 61;

/// Memory that each node lends beyond the regions.
const MEMORY_TO_SPARE: u64 = 128 << 20;

/// Parts of a touch's time, in figures and in rows; the mean of all touches.
const PARTS: [Part; 4] = [
    Part { key: "program", name: "computing, the program", unit: "us a page", scale: 1e-3 },
    Part { key: "nodes", name: "computing, its nodes", unit: "us a page", scale: 1e-3 },
    Part { key: "waiting", name: "waiting, the program", unit: "us a page", scale: 1e-3 },
    Part { key: "moved", name: "moved", unit: "KB a page", scale: 1e-3 },
];

/// Further figures of a region that is read on and on.
const STREAM_PARTS: [Part; 2] = [
    Part { key: "faults", name: "faults", unit: "times", scale: 1.0 },
    Part { key: "ahead", name: "brought before they were touched", unit: "pages", scale: 1.0 },
];

/// Runs it.
pub fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Report> {
    let len = if options.quick { STREAM_LEN_QUICK } else { STREAM_LEN };
    progress("starting nodes and filling their memory");
    let nodes = Nodes::start(options, options.nodes_or(2), len + PAGES_LEN + MEMORY_TO_SPARE)?;
    let (pool, beside) = (nodes.attach(0)?, nodes.attach(0)?);
    let far = Placement::Node(table::far(&pool)?[0]);
    let stream = table::create(&pool, "bench-stream", len, far)?;
    let pages = table::create(&pool, "bench-pages", PAGES_LEN, far)?;
    let touched = Touched { nodes: &nodes, pool: &pool, beside: &beside, stream, pages };
    let outcomes = take_turns(options.rounds(), vec![Contestant::ours("hanare", || touched.turn())], progress)?;
    let ours = &outcomes[0];
    let mut report = Report::new(NAME);
    let case = "a page in this host's frames, touched".to_owned();
    let (row, _) = time_row(case.clone(), own(&case, ours, "frames")?);
    report.rows.extend(with_parts(vec![row.beside("the goal", 5.0, Some(1.0))], ours, "frames_", &PARTS)?);
    let bare = baseline(ours, "bare get of a page");
    let row = compare("a page on another node, touched, tcp".to_owned(), ours, "far", &bare, "get", Some(1.0 / 1.6))?;
    report.rows.extend(with_parts(vec![row], ours, "far_", &PARTS)?);
    let bare = baseline(ours, &format!("bare get of {} at a time", bytes(PIECE_LEN as u64)));
    let case = format!("{} on another node, read through the pointer, tcp", bytes(len));
    let row = compare_rates(case.clone(), (len as f64, "GB/s"), (ours, "stream"), (&bare, "pieces"), Some(0.45))?;
    // The least that keeping them costs: memory that is new, and cold.
    let kept = baseline(ours, &format!("bare gets of {}, kept in a new memory file", bytes(KEPT_LEN as u64)));
    let beside_kept = compare_rates(case, (len as f64, "GB/s"), (ours, "stream"), (&kept, "kept"), None)?;
    let parts = [&PARTS[..], &STREAM_PARTS].concat();
    report.rows.extend(with_parts(vec![row, beside_kept], ours, "stream_", &parts)?);
    let case = format!("{} on another node, mapped, read {} at a time, tcp", bytes(len), bytes(PIECE_LEN as u64));
    report.rows.push(compare_rates(case, (len as f64, "GB/s"), (ours, "ranges"), (&bare, "pieces"), None)?);
    Ok(report)
}

/// Touched memory, and the toucher.
struct Touched<'a> {
    nodes: &'a Nodes,
    pool: &'a Pool,
    /// Another program of the same host.
    beside: &'a Pool,
    stream: Region,
    pages: Region,
}

impl Touched<'_> {
    fn turn(&self) -> Result<Figures> {
        let Touched { nodes, pool, beside, stream, pages } = self;
        let (mut piece, mut page) = (vec![0; PIECE_LEN], [0; PAGE_LEN as usize]);
        let mut figures = Figures::new();
        nodes.settle()?;
        let times = scattered().map(|k| time(|| pages.get(k * PAGE_LEN, &mut page)));
        figures.insert("get".to_owned(), median(times.collect::<hanare::Result<_>>()?));
        let start = Instant::now();
        for offset in (0..stream.len()).step_by(PIECE_LEN) {
            stream.get(offset, &mut piece)?;
        }
        figures.insert("pieces".to_owned(), start.elapsed().as_nanos() as f64);
        figures.insert("kept".to_owned(), keep(stream)?);
        let mapping = pages.map(Consistency::Coherent)?;
        self.touch(pool, "far", &mut figures, scattered(), |k| mapping.read(k * PAGE_LEN, &mut page[..8]))?;
        mapping.touch(0, PAGES_LEN)?;
        // Another program of this host finds them in the frames.
        let second = beside.open(pages.name())?.map(Consistency::Coherent)?;
        let apart = (0..PAGES_LEN / PAGE_LEN).step_by(APART as usize);
        self.touch(beside, "frames", &mut figures, apart, |k| second.read(k * PAGE_LEN, &mut page[..8]))?;
        drop((second, mapping));
        // A page at a time, each touched as by a load: what comes at once is what the faults' stream is worth.
        let mapping = stream.map(Consistency::Coherent)?;
        let all = 0..stream.len() / PAGE_LEN;
        let read = self.touch(pool, "stream", &mut figures, all, |k| mapping.read(k * PAGE_LEN, &mut page))?;
        let counts = mapping.counts();
        let told = [("stream", read), ("stream_faults", counts.faults as f64), ("stream_ahead", counts.prefetched as f64)];
        figures.extend(told.map(|(key, figure)| (key.to_owned(), figure)));
        drop(mapping);
        let mapping = stream.map(Consistency::Coherent)?;
        nodes.settle()?;
        let start = Instant::now();
        for offset in (0..stream.len()).step_by(PIECE_LEN) {
            mapping.read(offset, &mut piece)?;
        }
        figures.insert("ranges".to_owned(), start.elapsed().as_nanos() as f64);
        Ok(figures)
    }

    /// Touches pages of a program's mapping. Keeps the median time as `key`, and the resources of a touch as its parts.
    fn touch(
        &self,
        pool: &Pool,
        key: &str,
        figures: &mut Figures,
        pages: impl Iterator<Item = u64>,
        mut read: impl FnMut(u64) -> hanare::Result<()>,
    ) -> Result<f64> {
        self.nodes.settle()?;
        let before = pool.traffic();
        let watch = Watch::begin(self.nodes.processes())?;
        let times = pages.map(|page| time(|| read(page))).collect::<hanare::Result<Vec<f64>>>()?;
        let spent = watch.end()?;
        let after = pool.traffic();
        let moved = (after.bytes_sent + after.bytes_received - before.bytes_sent - before.bytes_received) as f64;
        let sums = [("program", spent.program.cpu), ("nodes", spent.nodes.cpu), ("waiting", spent.waited()), ("moved", moved)];
        figures.extend(sums.map(|(part, sum)| (format!("{key}_{part}"), sum / times.len() as f64)));
        figures.insert(key.to_owned(), median(times));
        Ok(spent.elapsed)
    }
}

/// Nanoseconds that a step takes.
fn time(step: impl FnOnce() -> hanare::Result<()>) -> hanare::Result<f64> {
    let start = Instant::now();
    step().map(|()| start.elapsed().as_nanos() as f64)
}

/// Nanoseconds in which bare gets bring a region into memory that is new, as frames are. One is under way while the earlier one's bytes are
/// written to their place in a memory file.
fn keep(region: &Region) -> Result<f64> {
    let file = hanare_memory::file::create("bench-kept", region.len())?;
    let mut spare = vec![0; KEPT_LEN];
    let start = Instant::now();
    let mut under_way = Some(region.start_get(0, vec![0; KEPT_LEN])?);
    for offset in (0..region.len()).step_by(KEPT_LEN) {
        let next = offset + KEPT_LEN as u64;
        let behind = if next < region.len() { Some(region.start_get(next, spare)?) } else { None };
        let bytes = under_way.take().context("a get is under way")?.wait()?;
        ensure!(rustix::io::pwrite(&file, &bytes, offset)? == bytes.len(), "a memory file took only a part");
        spare = bytes;
        under_way = behind;
    }
    Ok(start.elapsed().as_nanos() as f64)
}

/// Pages in an order that no stream of faults follows; some hundreds.
fn scattered() -> impl Iterator<Item = u64> {
    let count = PAGES_LEN / PAGE_LEN;
    (0..count).step_by(29).map(move |k| k * 7919 % count)
}
