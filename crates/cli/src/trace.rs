//! `hanare trace`: where the time of a job went, by its timelines (`HANARE_TRACE`); and timelines of several ranks as one file.
//!
//! A slice that lies in another, as a fault inside a command, is counted for itself: the times of one thread add up to no more than its life.

mod events;
mod otlp;

use crate::print::{self, Column};
use anyhow::{Context, Result, ensure};
use clap::Args;
use hanare_protocol::limits::WHAT_IF_RECORDING_LEN_MAX;
use otlp::Spans;
use serde::Deserialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{BufReader, BufWriter, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Which timelines, and what becomes of them.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Timelines that programs wrote; those of a job's ranks together.
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    /// Write all of them as one timeline, for ui.perfetto.dev.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
    /// Write them as one trace of OpenTelemetry (OTLP in JSON), as a collector reads it from a file.
    #[arg(long, value_name = "FILE")]
    pub otlp: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Tells where the time went.
pub fn run(options: &Options) -> Result<()> {
    if let Some(out) = &options.out {
        join(&options.files, out)?;
    }
    let mut spans = options.otlp.as_ref().map(|_| Spans::default());
    let report = read(&options.files, spans.as_mut())?.report();
    if let (Some(spans), Some(out)) = (spans, &options.otlp) {
        spans.write(out)?;
    }
    if options.json {
        return print::json(&report.value());
    }
    report.print();
    Ok(())
}

/// Writes timelines as one. What is in them stays as it is: their clocks were aligned when they were written.
///
/// **Errors**: where a file is no array of events; nothing is left at `out` then.
pub fn join(files: &[PathBuf], out: &Path) -> Result<()> {
    write_whole(out, |file| write_joined(files, file))
}

/// Writes a file for its user alone, whole or not at all.
fn write_whole(out: &Path, write: impl FnOnce(&mut BufWriter<File>) -> Result<()>) -> Result<()> {
    let folder = out.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = out.file_name().context("no name for the file")?.to_string_lossy();
    let whole = folder.join(format!(".{name}.{}", std::process::id()));
    // A killed process of the same number may have left a file.
    let _ = std::fs::remove_file(&whole);
    let filled = || {
        // Somebody else may have put a link there.
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&whole)?;
        let mut file = BufWriter::new(file);
        write(&mut file)?;
        file.flush()?;
        Ok(std::fs::rename(&whole, out)?)
    };
    let written: Result<()> = filled();
    if written.is_err() {
        // Written parts of it are of no use, and may be missing.
        let _ = std::fs::remove_file(&whole);
    }
    written.with_context(|| format!("cannot write {}", out.display()))
}

fn write_joined(files: &[PathBuf], out: &mut BufWriter<File>) -> Result<()> {
    let mut before = "[\n";
    for file in files {
        let text = std::fs::read_to_string(file).with_context(|| file.display().to_string())?;
        let events = text.trim().strip_prefix('[').and_then(|text| text.strip_suffix(']'));
        let events = events.with_context(|| format!("{} is no timeline", file.display()))?.trim();
        if !events.is_empty() {
            write!(out, "{before}{events}")?;
            before = ",\n";
        }
    }
    Ok(out.write_all(if before == "[\n" { b"[\n]\n" } else { b"\n]\n" })?)
}

/// Kind of a slice's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Spent {
    Commands,
    Faults,
    Locks,
    Waits,
    Queues,
    Mappings,
}

impl Spent {
    const ALL: [Spent; 6] = [Spent::Commands, Spent::Faults, Spent::Locks, Spent::Waits, Spent::Queues, Spent::Mappings];

    fn name(self) -> &'static str {
        match self {
            Spent::Commands => "commands",
            Spent::Faults => "faults",
            Spent::Locks => "locks",
            Spent::Waits => "waits",
            Spent::Queues => "queues",
            Spent::Mappings => "mappings",
        }
    }

    /// The kind of an event.
    fn of(category: &str, name: &str) -> Option<Spent> {
        Some(match category {
            "command" => Spent::Commands,
            "fault" => Spent::Faults,
            "wait" if name == "take a lock" => Spent::Locks,
            "wait" => Spent::Waits,
            "queue" => Spent::Queues,
            "mapping" => Spent::Mappings,
            _ => return None,
        })
    }
}

/// An event, as far as it is looked at.
#[derive(Deserialize)]
pub struct Traced {
    name: String,
    #[serde(default)]
    cat: String,
    ph: String,
    #[serde(default)]
    ts: f64,
    #[serde(default)]
    dur: f64,
    pid: u64,
    #[serde(default)]
    tid: i64,
    #[serde(default)]
    id2: Option<Id>,
    #[serde(default)]
    args: Value,
}

#[derive(Deserialize)]
struct Id {
    local: String,
}

impl Traced {
    /// True if its times are times.
    fn is_timed(&self) -> bool {
        let is_time = |at: f64| at.is_finite() && at >= 0.0;
        is_time(self.ts) && is_time(self.dur)
    }
}

/// Reads timelines, each once. `spans` gets each event, too. No more than one event is in memory beside what the two keep of them.
///
/// **Errors**: where a file is no timeline, or too long.
fn read(files: &[PathBuf], mut spans: Option<&mut Spans>) -> Result<Timeline> {
    let mut timeline = Timeline::default();
    let mut take = |file: &Path| {
        timeline.take_all(open(file)?, |event| spans.iter_mut().for_each(|spans| spans.take(event)))?;
        spans.iter_mut().try_for_each(|spans| spans.end_file(file))
    };
    files.iter().try_for_each(|file| take(file).with_context(|| file.display().to_string()))?;
    Ok(timeline)
}

/// A timeline's file, which is not too long to be read.
fn open(file: &Path) -> Result<BufReader<File>> {
    let open = File::open(file)?;
    let len = open.metadata()?.len();
    ensure!(len <= WHAT_IF_RECORDING_LEN_MAX, "{len} bytes are more than {WHAT_IF_RECORDING_LEN_MAX}");
    Ok(BufReader::new(open))
}

/// A time in which a thread did something, in microseconds.
#[derive(Clone, Debug)]
struct Slice {
    begin: f64,
    end: f64,
    kind: Spent,
    name: String,
}

/// Events of a process.
#[derive(Default)]
struct Process {
    name: String,
    /// From its first event to its last.
    life: Option<(f64, f64)>,
    /// Slices by thread: those that ended, and those that are open.
    threads: BTreeMap<i64, (Vec<Slice>, Vec<Slice>)>,
    /// Requests under way: when they began, and to which node.
    open: BTreeMap<String, (f64, String)>,
}

/// Content of all files.
#[derive(Default)]
pub struct Timeline {
    processes: BTreeMap<u64, Process>,
    /// Times of requests, by their kind.
    requests: BTreeMap<String, Spread>,
}

/// Times of the same thing, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Spread {
    count: u64,
    sum: f64,
    longest: f64,
}

impl Spread {
    fn add(&mut self, micros: f64) {
        self.count += 1;
        self.sum += micros;
        self.longest = self.longest.max(micros);
    }

    fn mean(&self) -> f64 {
        if self.count == 0 { 0.0 } else { self.sum / self.count as f64 }
    }
}

impl Timeline {
    /// Takes the events of a file. `also` sees each before. What came before an error is taken.
    pub fn take_all(&mut self, from: impl Read, mut also: impl FnMut(&Traced)) -> Result<()> {
        events::each(from, |event| {
            also(&event);
            self.take(event);
        })
    }

    fn take(&mut self, event: Traced) {
        let process = self.processes.entry(event.pid).or_default();
        if event.ph == "M" {
            if event.name == "process_name" {
                event.args["name"].as_str().unwrap_or_default().clone_into(&mut process.name);
            }
            return;
        }
        if !event.is_timed() {
            return;
        }
        let (first, last) = process.life.unwrap_or((event.ts, event.ts));
        process.life = Some((first.min(event.ts), last.max(event.ts + event.dur)));
        let kind = Spent::of(&event.cat, &event.name);
        let slice = |kind| Slice { begin: event.ts, end: event.ts + event.dur, kind, name: event.name.clone() };
        let (ended, open) = process.threads.entry(event.tid).or_default();
        match (event.ph.as_str(), kind) {
            ("X", Some(kind)) => ended.push(slice(kind)),
            ("B", Some(kind)) => open.push(slice(kind)),
            ("E", _) => {
                if let Some(begun) = open.pop() {
                    ended.push(Slice { end: event.ts.max(begun.begin), ..begun });
                }
            }
            ("b", _) if event.cat == "request" => {
                if let Some(id) = event.id2 {
                    process.open.insert(id.local, (event.ts, event.name));
                }
            }
            ("e", _) if event.cat == "request" => {
                if let Some((begun, name)) = event.id2.and_then(|id| process.open.remove(&id.local)) {
                    self.requests.entry(name).or_default().add((event.ts - begun).max(0.0));
                }
            }
            _ => {}
        }
    }

    /// Adds up what is known.
    pub fn report(self) -> Report {
        let (mut ranks, mut names) = (Vec::new(), BTreeMap::<(Spent, String), Spread>::new());
        for (number, process) in self.processes {
            let (first, last) = process.life.unwrap_or_default();
            let mut rank = RankReport { number, name: process.name, life: last - first, kinds: [0.0; Spent::ALL.len()] };
            for (_, (mut slices, open)) in process.threads {
                // A killed program's open slices lasted to its end.
                slices.extend(open.into_iter().map(|slice| Slice { end: last, ..slice }));
                for (slice, own) in own_times(slices) {
                    rank.kinds[slice.kind as usize] += own;
                    names.entry((slice.kind, slice.name)).or_default().add(slice.end - slice.begin);
                }
            }
            ranks.push(rank);
        }
        let mut names: Vec<_> = names.into_iter().collect();
        names.sort_by(|(_, a), (_, b)| b.sum.total_cmp(&a.sum));
        Report { ranks, names, requests: self.requests.into_iter().collect() }
    }
}

/// The slices of a thread, each with its time without those that lie in it.
fn own_times(mut slices: Vec<Slice>) -> Vec<(Slice, f64)> {
    // An outer one comes before those that begin with it.
    slices.sort_by(|a, b| a.begin.total_cmp(&b.begin).then(b.end.total_cmp(&a.end)));
    let mut timed: Vec<(Slice, f64)> = slices.into_iter().map(|slice| (slice.clone(), slice.end - slice.begin)).collect();
    let mut around: Vec<usize> = Vec::new();
    for at in 0..timed.len() {
        let (begin, end) = (timed[at].0.begin, timed[at].0.end);
        while around.last().is_some_and(|outer| timed[*outer].0.end <= begin) {
            around.pop();
        }
        if let Some(outer) = around.last().copied() {
            // Clocks of signal handlers and threads are read apart: an inner slice may end a little later.
            timed[outer].1 = (timed[outer].1 - (end.min(timed[outer].0.end) - begin)).max(0.0);
        }
        around.push(at);
    }
    timed
}

/// Parts of a process's time, in microseconds.
struct RankReport {
    /// Its rank, or its process's number.
    number: u64,
    name: String,
    life: f64,
    kinds: [f64; Spent::ALL.len()],
}

/// Parts of the time.
pub struct Report {
    ranks: Vec<RankReport>,
    /// Most time first.
    names: Vec<((Spent, String), Spread)>,
    requests: Vec<(String, Spread)>,
}

/// Most lines of what took time.
const NAME_LINES: usize = 20;

impl Report {
    fn print(&self) {
        let seconds = |micros: f64| format!("{:.3}", micros / 1e6);
        let heads = ["COMMANDS", "FAULTS", "LOCKS", "WAITS", "QUEUES", "MAPPINGS"].map(Column::Number);
        let columns =
            [vec![Column::Number("RANK"), Column::Number("SECONDS")], heads.to_vec(), vec![Column::Text("PROGRAM")]].concat();
        let row = |rank: &RankReport| {
            let times = rank.kinds.iter().map(|micros| seconds(*micros));
            [rank.number.to_string(), seconds(rank.life)].into_iter().chain(times).chain([rank.name.clone()]).collect()
        };
        print::table(&columns, self.ranks.iter().map(row).collect());
        let spread = |kind: &str, name: &str, spread: &Spread| {
            let micros = |micros: f64| format!("{micros:.1}");
            vec![
                kind.to_owned(),
                name.to_owned(),
                spread.count.to_string(),
                seconds(spread.sum),
                micros(spread.mean()),
                micros(spread.longest),
            ]
        };
        let columns = [
            Column::Text("KIND"),
            Column::Text("WHAT"),
            Column::Number("TIMES"),
            Column::Number("SECONDS"),
            Column::Number("MEAN US"),
            Column::Number("LONGEST US"),
        ];
        let names = self.names.iter().take(NAME_LINES).map(|((kind, name), times)| spread(kind.name(), name, times));
        let requests = self.requests.iter().map(|(name, times)| spread("requests", name, times));
        print::line("");
        print::table(&columns, names.chain(requests).collect());
    }

    /// The report as JSON.
    pub fn value(&self) -> Value {
        let spread = |name: &str, spread: &Spread| {
            json!({
                "what": name, "times": spread.count, "seconds": spread.sum / 1e6, "mean_us": spread.mean(), "longest_us": spread.longest,
            })
        };
        let rank = |rank: &RankReport| {
            let mut value = json!({ "rank": rank.number, "program": rank.name, "seconds": rank.life / 1e6 });
            Spent::ALL.iter().zip(rank.kinds).for_each(|(kind, micros)| value[kind.name()] = (micros / 1e6).into());
            value
        };
        let name = |((kind, name), times): &((Spent, String), Spread)| {
            let mut value = spread(name, times);
            value["kind"] = kind.name().into();
            value
        };
        json!({
            "ranks": self.ranks.iter().map(rank).collect::<Vec<_>>(),
            "what": self.names.iter().map(name).collect::<Vec<_>>(),
            "requests": self.requests.iter().map(|(name, times)| spread(name, times)).collect::<Vec<_>>(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(ph: &str, cat: &str, name: &str, ts: f64, dur: f64) -> Value {
        json!({ "name": name, "cat": cat, "ph": ph, "ts": ts, "dur": dur, "pid": 1, "tid": 5 })
    }

    fn timeline(events: &[Value]) -> Report {
        let mut timeline = Timeline::default();
        events.iter().for_each(|event| timeline.take(serde_json::from_value(event.clone()).unwrap()));
        timeline.report()
    }

    #[test]
    fn a_slice_in_another_is_counted_once() {
        let report = timeline(&[
            event("B", "wait", "barrier", 100.0, 0.0),
            event("E", "wait", "barrier", 400.0, 0.0),
            // Written when they ended, so behind what lies in them.
            event("X", "fault", "fault, fetched", 520.0, 30.0),
            event("X", "fault", "fault, mapped", 560.0, 10.0),
            event("X", "command", "put", 500.0, 100.0),
            event("X", "wait", "take a lock", 700.0, 50.0),
            // The program was killed in it.
            event("B", "queue", "wait for room", 900.0, 0.0),
            event("i", "fault", "faults dropped", 1000.0, 0.0),
        ]);
        let [rank] = &report.ranks[..] else { panic!("one process") };
        assert_eq!((rank.life, rank.kinds), (900.0, [60.0, 40.0, 50.0, 300.0, 100.0, 0.0]));
        let of = |name: &str| report.names.iter().find(|((_, known), _)| known == name).unwrap().1;
        assert_eq!(of("put"), Spread { count: 1, sum: 100.0, longest: 100.0 });
        assert_eq!(report.names[0].0.1, "barrier", "most time first");
    }

    #[test]
    fn requests_are_told_by_node() {
        let request = |ph: &str, id: &str, ts: f64| {
            let mut event = event(ph, "request", "request to node1", ts, 0.0);
            event["id2"] = json!({ "local": id });
            event
        };
        let events = [
            request("b", "0x1", 0.0),
            request("b", "0x2", 5.0),
            request("e", "0x2", 9.0),
            request("e", "0x1", 30.0),
            request("e", "0x9", 31.0),
        ];
        let report = timeline(&events);
        assert_eq!(report.requests, [("request to node1".to_owned(), Spread { count: 2, sum: 34.0, longest: 30.0 })]);
    }

    #[test]
    fn timelines_are_joined_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for (name, text) in
            [("a", "[\n{\"a\":1},\n{\"a\":2}\n]\n"), ("b", "[\n]\n"), ("c", "[{\"c\":1}]"), ("broken", "{\"c\":1}")]
        {
            std::fs::write(path(name), text).unwrap();
        }
        join(&[path("a"), path("b"), path("c")], &path("all")).unwrap();
        let all: Value = serde_json::from_str(&std::fs::read_to_string(path("all")).unwrap()).unwrap();
        assert_eq!(all, json!([{ "a": 1 }, { "a": 2 }, { "c": 1 }]));
        assert!(join(&[path("a"), path("broken")], &path("none")).is_err());
        assert!(join(&[path("a"), path("nowhere")], &path("none")).is_err());
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 5, "nothing half-written is left");
        join(&[path("b")], &path("empty")).unwrap();
        assert_eq!(std::fs::read_to_string(path("empty")).unwrap(), "[\n]\n");
    }
}
