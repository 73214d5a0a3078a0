//! `HANARE_TRACE`: a timeline of a program's commands, in Chrome's trace format, for ui.perfetto.dev.
//!
//! | event | is |
//! |---|---|
//! | slice on a thread | a command or batch that was waited for; a barrier, a flush |
//! | async slice `command` | a command or batch that was begun, until it was waited for |
//! | async slice `request` | a request to one node, until its answer was noticed |
//! | arrow `request` | from where a thread sent a request to where a thread noticed its answer |
//! | slice `take a lock` | a lock by name, until it was granted |
//! | slice `fault, ...` on a thread | a touch of a mapped page that the kernel could not serve: region, offset, access, what it took |
//! | async slice `write port`, `read port` | a port of a queue, until it closes: units kept or seen, and how often it slept |
//! | slice `wait for a unit`, `wait for room` | a port of a queue that sleeps |
//! | slice `mapping` | a flush, update or touch of a range of a mapping |
//! | instant `faults dropped` | more faults than their room held until it was written: how many |
//! | `pages` of an event | messages for pages of mappings since the event before: how many, their bytes, pages that come to the node later, their nodes |
//! | `wrote` of an event | microseconds that the writing of the timeline took this thread since its event before |
//!
//! A timeline is one file for a process, which `hanare run` joins to one for the job. It begins with its first event: a program that
//! attaches and runs nothing leaves none. Every event is written at once, over the end of the array, so that a killed program's file is
//! whole. Times are microseconds since midnight (UTC) of the day it began, by the clock of the job's home. A rank asks for that clock when
//! it attaches ([`Trace::align`]).
//!
//! **Cost**: when unset, one load for each drafted command, and nothing for gets and puts of mapped memory. When set, all of them are
//! drafted, and each event costs a write to the file. A fault costs a branch when unset. When set it costs about a microsecond, and its
//! write to the file later ([`Faults`]).
//!
//! **Source**: "Trace Event Format", the JSON array form: complete (`X`), duration (`B`, `E`), async (`b`, `e`) and metadata (`M`) events.

mod clock;
mod fault;
mod pages;
mod port;
#[cfg(test)]
mod tests;

pub(crate) use fault::{Faults, Means, Seen, take_over};
pub(crate) use pages::PageTotals;
pub(crate) use port::PortLife;

use hanare_fabric::settings;
use hanare_protocol::id::{JobId, JobRank, NodeId};
use hanare_protocol::wire::command::Op;
use hanare_protocol::wire::head::{Head, Kind};
use hanare_protocol::{Error, Result};
use serde_json::{Value, json};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

static TRACE: OnceLock<Option<Trace>> = OnceLock::new();

/// The process's timeline.
pub(crate) struct Trace {
    out: Mutex<Out>,
    origin: Instant,
    /// Microseconds of the day at `origin`, by this host's clock.
    origin_us: f64,
    /// Offset of the job's clock from this host's, in nanoseconds.
    ahead_ns: AtomicI64,
    /// Number that tells this process from others of its job.
    pid: u32,
    /// A child made by `fork` has its parent's file, and must not write to it.
    process: u32,
    ids: AtomicU64,
    /// The noted faults of each mapping.
    rings: Mutex<Vec<Arc<fault::Ring>>>,
    exchanged: Mutex<pages::Exchanged>,
}

struct Out {
    path: PathBuf,
    /// Text before the first event.
    about: Vec<Value>,
    file: Option<File>,
    /// Begin of the array's end.
    end: u64,
    failed: bool,
    /// Threads whose names were written, each with what its writing took since its last event, in microseconds.
    threads: BTreeMap<i32, f64>,
}

/// The timeline, if one is wanted.
#[inline]
pub(crate) fn current() -> Option<&'static Trace> {
    TRACE.get()?.as_ref()
}

/// Reads `HANARE_TRACE`; the first attachment of a process decides its name and file.
///
/// **Errors**: [`Error::BadSetting`] where no file can be made at that place.
pub(crate) fn on_attach(job: Option<JobRank>) -> Result<()> {
    if TRACE.get().is_some() {
        return Ok(());
    }
    let trace = match settings::text("HANARE_TRACE") {
        Some(text) => Some(Trace::new(&text, job)?),
        None => None,
    };
    let mut is_ours = false;
    let trace = TRACE.get_or_init(|| {
        is_ours = true;
        trace
    });
    if is_ours && trace.is_some() {
        extern "C" fn at_exit() {
            take_over();
        }
        // SAFETY: a function that may be called at any time. Where there is no room for it the last faults are not written.
        unsafe { libc::atexit(at_exit) };
    }
    Ok(())
}

/// Public form of a job's number, for a file that may be passed on. A reader of the number itself may speak for the job's ranks.
fn told(job: JobId) -> String {
    blake3::derive_key("hanare timeline job", &job.0.to_le_bytes())[..4].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The file that the setting names: `%r` is the rank, `%p` the process. Ranks of a job that it does not tell apart get their number
/// before the suffix.
fn file_name(text: &str, rank: u32, ranks: u32, process: u32) -> PathBuf {
    let filled = text.replace("%r", &rank.to_string()).replace("%p", &process.to_string());
    let path = PathBuf::from(filled);
    if ranks < 2 || text.contains("%r") || text.contains("%p") {
        return path;
    }
    let part = |part: Option<&std::ffi::OsStr>| part.map(|part| part.to_string_lossy().into_owned());
    let stem = part(path.file_stem()).unwrap_or_default();
    let name = match part(path.extension()) {
        Some(suffix) => format!("{stem}.{rank}.{suffix}"),
        None => format!("{stem}.{rank}"),
    };
    path.with_file_name(name)
}

/// The files in which the ranks of a job write their timelines if the setting is `text`. None if they are named by process, or there is
/// one.
pub fn timeline_files(text: &str, ranks: u32) -> Option<Vec<PathBuf>> {
    (ranks > 1 && !text.contains("%p")).then(|| (0..ranks).map(|rank| file_name(text, rank, ranks, 0)).collect())
}

/// Refuses a path whose folder takes no new file.
fn check_folder(text: &str, path: &Path) -> Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let may_write = rustix::fs::access(folder, rustix::fs::Access::WRITE_OK | rustix::fs::Access::EXEC_OK);
    may_write.map_err(|errno| Error::BadSetting {
        key: "HANARE_TRACE".to_owned(),
        value: text.to_owned(),
        reason: format!("no file can be made in {} ({errno}); name one in a folder that is there", folder.display()),
    })
}

impl Trace {
    fn new(text: &str, job: Option<JobRank>) -> Result<Trace> {
        let process = std::process::id();
        let (rank, ranks) = job.map_or((0, 1), |job| (job.rank.0, job.ranks));
        let path = file_name(text, rank, ranks, process);
        check_folder(text, &path)?;
        let program = std::env::args_os().next().unwrap_or_default();
        let program = Path::new(&program).file_name().unwrap_or_default().to_string_lossy().into_owned();
        // Processes of one job may have one number on different hosts, ranks have not.
        let (pid, name) = match job {
            Some(job) if ranks > 1 => (rank, format!("rank {rank} of {ranks}, {program} (job {})", told(job.job))),
            _ => (process, program),
        };
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let about = |what: &str, args: Value| json!({ "name": what, "ph": "M", "pid": pid, "tid": 0, "args": args });
        let about = vec![
            about("process_name", json!({ "name": name })),
            about("process_labels", json!({ "labels": format!("process {process} on {host}") })),
            about("process_sort_index", json!({ "sort_index": rank })),
            about("day", json!({ "unix_s": now.as_secs() / 86_400 * 86_400 })),
        ];
        let origin_us = (now.as_secs() % 86_400) as f64 * 1e6 + f64::from(now.subsec_nanos()) / 1e3;
        let out = Mutex::new(Out { path, about, file: None, end: 0, failed: false, threads: BTreeMap::new() });
        let ahead_ns = AtomicI64::new(0);
        Ok(Trace {
            out,
            origin: Instant::now(),
            origin_us,
            ahead_ns,
            pid,
            process,
            ids: AtomicU64::new(1),
            rings: Default::default(),
            exchanged: Default::default(),
        })
    }

    fn now(&self) -> f64 {
        self.at(self.origin.elapsed().as_nanos() as u64)
    }

    /// The time so many nanoseconds after the origin.
    fn at(&self, ns: u64) -> f64 {
        self.origin_us + (self.ahead_ns.load(Ordering::Relaxed) as f64 + ns as f64) / 1e3
    }

    /// Takes the job's clock, which `ask` tells in nanoseconds since 1970, for this timeline's. Where it cannot be asked this host's stays.
    ///
    /// **Cost**: some messages each way, once.
    pub(crate) fn align(&self, ask: impl Fn() -> Result<u64>) {
        let ahead = clock::ahead_of(ask);
        self.ahead_ns.store(ahead.unwrap_or(0), Ordering::Relaxed);
        let args = json!({ "ahead_us": ahead.map(|ns| ns as f64 / 1e3) });
        self.out().about.push(json!({ "name": "clock", "ph": "M", "pid": self.pid, "tid": 0, "args": args }));
    }

    /// An arrow's begin (`s`) or end (`f`), in the slice that the thread is in. Arrows of one id are one, in all files of a job.
    fn arrow(&self, phase: &str, id: u64) {
        let id = format!("{}-{id:x}", self.pid);
        self.event(phase, "request", "request", self.now(), json!({ "id": id, "bp": "e" }));
    }

    fn id(&self) -> u64 {
        self.ids.fetch_add(1, Ordering::Relaxed)
    }

    /// Writes an event of this thread, with the messages for pages and the time of writing since its event before.
    fn event(&self, phase: &str, name: &str, category: &str, at: f64, mut more: Value) {
        if self.process != std::process::id() {
            return;
        }
        let begun = Instant::now();
        self.take_over();
        let tid = thread();
        if let Some(pages) = self.exchanged() {
            more["pages"] = pages;
        }
        let wrote = self.out().threads.get_mut(&tid).map_or(0.0, std::mem::take);
        if wrote > 0.0 {
            more["wrote"] = rounded(wrote).into();
        }
        self.event_of(tid, phase, name, category, at, more);
        if let Some(wrote) = self.out().threads.get_mut(&tid) {
            *wrote += begun.elapsed().as_nanos() as f64 / 1e3;
        }
    }

    fn out(&self) -> MutexGuard<'_, Out> {
        self.out.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes an event of the thread with that number.
    fn event_of(&self, tid: i32, phase: &str, name: &str, category: &str, at: f64, more: Value) {
        let at = rounded(at);
        let mut event = json!({ "name": name, "cat": category, "ph": phase, "ts": at, "pid": self.pid, "tid": tid });
        if let (Value::Object(event), Value::Object(more)) = (&mut event, more) {
            event.extend(more);
        }
        let mut out = self.out();
        if let Entry::Vacant(new) = out.threads.entry(tid) {
            new.insert(0.0);
            let thread = thread_name(tid);
            out.write(&json!({ "name": "thread_name", "ph": "M", "pid": self.pid, "tid": tid, "args": { "name": thread } }));
        }
        out.write(&event);
    }

    /// An event of an async slice: those of one id belong together.
    fn async_event(&self, phase: &str, name: &str, category: &str, at: f64, id: u64, args: Value) {
        self.event(phase, name, category, at, json!({ "id2": { "local": format!("{id:#x}") }, "args": args }));
    }

    fn slice<T>(&self, name: &str, category: &str, args: Value, work: impl FnOnce() -> Result<T>) -> Result<T> {
        self.event("B", name, category, self.now(), json!({ "args": args }));
        let result = work();
        self.event("E", name, category, self.now(), json!({ "args": { "outcome": outcome(&result) } }));
        result
    }

    /// Begins the slice of a request.
    pub(crate) fn request(&self, node: NodeId, head: &Head) -> Sent {
        let kind = match head.kind {
            Kind::Sync => "shared",
            Kind::Ask => "question",
            _ => "commands",
        };
        let sent = Sent { id: self.id(), node };
        let args = json!({ "kind": kind, "commands": head.count, "bytes_sent": head.body_len });
        self.async_event("b", &sent.name(), "request", self.now(), sent.id, args);
        self.arrow("s", sent.id);
        sent
    }
}

impl Out {
    /// Writes an event over the end of the array, and the end again. The first failure ends the tracing, not the program.
    fn write(&mut self, event: &Value) {
        if self.failed {
            return;
        }
        if let Err(error) = self.try_write(event) {
            self.failed = true;
            tracing::warn!("HANARE_TRACE: {} cannot be written: {error}", self.path.display());
        }
    }

    fn try_write(&mut self, event: &Value) -> std::io::Result<()> {
        if self.file.is_none() {
            self.file = Some(create(&self.path)?);
            for about in std::mem::take(&mut self.about) {
                self.try_write(&about)?;
            }
        }
        let before = if self.end == 0 { "[\n" } else { ",\n" };
        let text = format!("{before}{event}\n]\n");
        self.file.as_ref().expect("made above").write_all_at(text.as_bytes(), self.end)?;
        self.end += (text.len() - "\n]\n".len()) as u64;
        Ok(())
    }
}

/// A file for its user alone, in place of what was there: a link would lead to somebody else's.
fn create(path: &Path) -> std::io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).mode(0o600).custom_flags(rustix::fs::OFlags::NOFOLLOW.bits() as i32);
    options.open(path)
}

/// The thread's number.
fn thread() -> i32 {
    thread_local!(static NUMBER: Cell<Option<i32>> = const { Cell::new(None) });
    // At the end of a thread its number may be gone.
    let known = NUMBER.try_with(Cell::get).unwrap_or_default();
    let number = known.unwrap_or_else(|| rustix::thread::gettid().as_raw_nonzero().get());
    let _ = NUMBER.try_with(|own| own.set(Some(number)));
    number
}

/// Name of a thread of this process: the kernel's, where it is another than this.
fn thread_name(tid: i32) -> String {
    let current = std::thread::current();
    let own = current.name().filter(|_| tid == thread()).map(str::to_owned);
    let name = own.or_else(|| std::fs::read_to_string(format!("/proc/self/task/{tid}/comm")).ok());
    name.map_or_else(|| format!("thread {tid}"), |name| name.trim_end().to_owned())
}

fn outcome<T>(outcome: &Result<T>) -> String {
    outcome.as_ref().map_or_else(ToString::to_string, |_| "done".to_owned())
}

/// A request under way.
#[derive(Debug)]
pub(crate) struct Sent {
    id: u64,
    node: NodeId,
}

impl Sent {
    fn name(&self) -> String {
        format!("request to {}", self.node)
    }

    /// Its answer is here, with a body of `received` bytes, or will never be.
    pub(crate) fn end(self, result: &Result<()>, received: u64) {
        if let Some(trace) = current() {
            let args = json!({ "outcome": outcome(result), "bytes_received": received });
            trace.async_event("e", &self.name(), "request", trace.now(), self.id, args);
            trace.arrow("f", self.id);
        }
    }
}

/// Most regions that one slice names.
const REGION_COUNT_MAX: usize = 4;

/// A command or batch, from its drafting to its end.
pub(crate) struct Span {
    begin: f64,
    /// Number of commands of each kind.
    commands: BTreeMap<&'static str, u32>,
    regions: Vec<String>,
    bytes: u64,
    nodes: Vec<u32>,
    /// Its id, if it was begun without waiting for it.
    id: Option<u64>,
    /// True if its begin was written: it has requests under way.
    is_open: bool,
    /// Error that kept a request from being sent.
    failed: Option<Error>,
}

impl Span {
    /// Begins one, if a timeline is wanted.
    #[inline]
    pub(crate) fn begin() -> Option<Box<Span>> {
        current().map(Span::begin_now)
    }

    #[cold]
    fn begin_now(trace: &Trace) -> Box<Span> {
        let (commands, regions, nodes) = Default::default();
        Box::new(Span { begin: trace.now(), commands, regions, bytes: 0, nodes, id: None, is_open: false, failed: None })
    }

    /// Takes in a command.
    pub(crate) fn note(&mut self, op: Op, region: &str, bytes: u64) {
        *self.commands.entry(op.name()).or_default() += 1;
        self.bytes += bytes;
        if self.regions.len() < REGION_COUNT_MAX && self.regions.iter().all(|known| known != region) {
            self.regions.push(region.to_owned());
        }
    }

    /// Its requests are on their way to these nodes. `waits` is false where it was begun without waiting for it.
    pub(crate) fn sent(&mut self, nodes: impl Iterator<Item = NodeId>, waits: bool) {
        let Some(trace) = current() else { return };
        self.nodes.extend(nodes.map(|node| node.0));
        self.nodes.sort_unstable();
        self.nodes.dedup();
        self.is_open = !self.nodes.is_empty();
        match (self.is_open, waits) {
            (false, _) => {}
            (true, true) => trace.event("B", self.name(), "command", self.begin, json!({ "args": self.args() })),
            (true, false) => {
                let id = trace.id();
                self.id = Some(id);
                trace.async_event("b", self.name(), "command", self.begin, id, self.args());
            }
        }
    }

    /// A request could not be sent.
    pub(crate) fn fail(&mut self, error: &Error) {
        self.failed = Some(error.clone());
    }

    /// Ends the event.
    pub(crate) fn end(self, result: &Result<()>) {
        let Some(trace) = current() else { return };
        let text = self.failed.as_ref().map_or_else(|| outcome(result), ToString::to_string);
        let (now, told) = (trace.now(), json!({ "outcome": text }));
        match (self.is_open, self.id) {
            (true, None) => trace.event("E", self.name(), "command", now, json!({ "args": told })),
            (true, Some(id)) => trace.async_event("e", self.name(), "command", now, id, told),
            (false, _) => {
                let mut args = self.args();
                args["outcome"] = told["outcome"].clone();
                trace.event("X", self.name(), "command", self.begin, json!({ "dur": duration(self.begin, now), "args": args }));
            }
        }
    }

    fn name(&self) -> &'static str {
        match self.commands.first_key_value() {
            Some((name, 1)) if self.commands.len() == 1 => name,
            Some(_) => "batch",
            None => "command",
        }
    }

    fn args(&self) -> Value {
        json!({ "region": self.regions.join(", "), "bytes": self.bytes, "commands": self.commands, "nodes": self.nodes })
    }
}

fn duration(begin: f64, end: f64) -> f64 {
    rounded(end - begin)
}

/// Nanoseconds, and no digit that the clock does not have.
fn rounded(micros: f64) -> f64 {
    (micros * 1e3).round() / 1e3
}

/// Runs `work` as a slice of its own.
pub(crate) fn slice<T>(name: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    match current() {
        Some(trace) => trace.slice(name, "wait", json!({}), work),
        None => work(),
    }
}

/// Runs `work`, a wait of a queue's port, as a slice of its own.
pub(crate) fn at_queue<T>(name: &str, queue: impl FnOnce() -> String, work: impl FnOnce() -> Result<T>) -> Result<T> {
    match current() {
        Some(trace) => trace.slice(name, "queue", json!({ "queue": queue() }), work),
        None => work(),
    }
}

/// Runs `work` on a range of a region's mapping as a slice of its own.
pub(crate) fn slice_on<T>(name: &str, region: &str, (offset, len): (u64, u64), work: impl FnOnce() -> Result<T>) -> Result<T> {
    match current() {
        Some(trace) => trace.slice(name, "mapping", json!({ "region": region, "offset": offset, "bytes": len }), work),
        None => work(),
    }
}
