//! `hanare demo memory`: a program that nobody changed, on three times the memory that it may have on this host.
//!
//! | way | where the rest of its memory lies |
//! |---|---|
//! | all in memory | on this host: nothing is bounded |
//! | swap file | on this host's disk; a control group bounds the program, which needs root |
//! | pool | on a second node, over TCP; the keeper of `hanare run --main-memory` bounds the program |
//!
//! The program is GNU sort, because nearly every machine has it. It holds all lines in memory and reads them in an order that no
//! read-ahead foresees. Each way sorts the same lines, and its output is compared, byte by byte, with that of the first.

use crate::print::{self, Column};
use crate::progress::Step;
use crate::run::children::{self, End};
use crate::run::nodes::Nodes;
use crate::run::rank::Program;
use crate::run::signals::{self, Event};
use crate::run::{guard, main_memory};
use crate::size;
use anyhow::{Context, Result, anyhow, bail, ensure};
use clap::Args;
use hanare_bench::cage::{self, Cage, Swap};
use hanare_disk::main_memory::LIMIT_MIN;
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::process::{Pid, Signal};
use serde_json::{Value, json};
use std::ffi::OsString;
use std::fs::File;
use std::io::{BufWriter, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{ChildStdout, Command, Stdio};
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

/// Lines are three times what may be here.
const SHARE: u64 = 3;
/// Bytes of lines where the machine has room: more would take more than a minute by way of a slow disk.
const DATA_DEFAULT: u64 = 96 << 20;
/// Bytes of a line, its end included, so that a line is about what a record of a log is.
const LINE_LEN: u64 = 1024;
/// What the demonstration needs of free memory for each byte of lines: lines, a result, sort's own memory and two nodes' pools.
const ROOM: u64 = 8;
/// Bytes that are compared at once.
const CHUNK: usize = 1 << 16;
/// The program.
const SORT: &str = "sort";

/// How large the demonstration is.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Bytes of lines to sort; a third of it may be on this host [default: 96MiB, less where memory is short].
    #[arg(long, value_name = "SIZE", value_parser = size::parse_some)]
    data: Option<u64>,
    /// Seconds after which a way that is not done is given up.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    at_most: u64,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// What one way came to.
struct Done {
    time: Duration,
    /// Whether it came to its end in that time.
    is_done: bool,
    /// Pages that were brought when they were touched; bytes that came from where the rest lies, and that went there.
    counts: Option<cage::Counts>,
}

/// The lines, the first result, and what may happen meanwhile.
struct Contest<'a> {
    lines: File,
    result: File,
    data: u64,
    at_most: Duration,
    events: &'a Receiver<Event>,
    guard: Pid,
}

/// What becomes of a way's output.
#[derive(Clone, Copy, PartialEq)]
enum Judge {
    Keep,
    Compare,
}

/// Sorts by each way and prints the table.
pub fn run(options: &Options, guard: Pid) -> Result<i32> {
    let (_, events) = signals::catch_with()?;
    guard::enter(guard)?;
    let begun = Instant::now();
    let version = version()?;
    let data = fitted(options.data)?;
    let limit = data / SHARE;
    let contest = Contest::set(data, Duration::from_secs(options.at_most), &events, guard)?;
    let memory = contest.alone()?;
    let swap = contest.or_reason("with a swap file", || contest.with_swap(limit))?;
    let pool = contest.or_reason("with the pool of a second node", || contest.with_pool(limit))?;
    let told = Told { version, data, limit, memory, swap, pool, whole: begun.elapsed() };
    match options.json {
        true => print::json(&told.facts())?,
        false => told.show(),
    }
    Ok(0)
}

/// The program's name and version. **Errors**: there is none that holds all lines in memory.
fn version() -> Result<String> {
    let said = Command::new(SORT).arg("--version").output().context("no `sort` is here; Debian's package coreutils has it")?;
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    let number = said.lines().next().filter(|line| line.contains("GNU")).and_then(|line| line.split_whitespace().last());
    Ok(format!("GNU sort {}", number.context("the `sort` here is not GNU's, whose memory can be set; package coreutils has it")?))
}

/// Bytes of lines that this machine has room for.
fn fitted(wanted: Option<u64>) -> Result<u64> {
    let meminfo = std::fs::read_to_string("/proc/meminfo").context("no /proc/meminfo")?;
    let available = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:")?.trim().strip_suffix(" kB")?.parse().ok());
    let available = available.unwrap_or(0u64) << 10;
    let data = wanted.unwrap_or_else(|| DATA_DEFAULT.min(available / ROOM)) / LINE_LEN * LINE_LEN;
    let (least, room) = (SHARE * LIMIT_MIN, size::show(available));
    ensure!(
        data >= least,
        "at least {} are to be sorted; free memory is {room}, and {ROOM} times as much is needed",
        size::show(least)
    );
    ensure!(
        data.saturating_mul(ROOM) <= available,
        "{} of lines need {ROOM} times as much free memory; there are {room}",
        size::show(data)
    );
    Ok(data)
}

impl<'a> Contest<'a> {
    /// Writes the lines.
    fn set(data: u64, at_most: Duration, events: &'a Receiver<Event>, guard: Pid) -> Result<Contest<'a>> {
        let _step = Step::start(&format!("writing {} of lines", size::show(data)));
        let file = |name| memfd_create(name, MemfdFlags::CLOEXEC).map(File::from).context("cannot make a file in memory");
        let (lines, result) = (file("lines")?, file("result")?);
        let mut into = BufWriter::new(&lines);
        let mut random = Pcg64Mcg::seed_from_u64(1);
        let mut line = [b'\n'; LINE_LEN as usize];
        for _ in 0..data / LINE_LEN {
            for sixteen in line[..LINE_LEN as usize - 1].chunks_mut(16) {
                let digits = format!("{:016x}", random.random::<u64>());
                sixteen.copy_from_slice(&digits.as_bytes()[..sixteen.len()]);
            }
            into.write_all(&line)?;
        }
        into.flush()?;
        drop(into);
        Ok(Contest { lines, result, data, at_most, events, guard })
    }

    /// What a way came to, or why it could not be gone. **Errors**: the whole demonstration is given up.
    fn or_reason(&self, what: &str, way: impl FnOnce() -> Result<Done>) -> Result<Result<Done, String>> {
        let _step = Step::start(&format!("sorting {what}"));
        match way() {
            Err(error) if error.is::<GivenUp>() || error.is::<Wrong>() => Err(error),
            other => Ok(other.map_err(|error| format!("{error:#}"))),
        }
    }

    fn alone(&self) -> Result<Done> {
        let _step = Step::start("sorting with all in memory");
        let done = self.sort(Command::new(SORT), Judge::Keep)?;
        ensure!(done.is_done, "even with all in memory it was not done in {} s", self.at_most.as_secs());
        Ok(done)
    }

    fn with_swap(&self, limit: u64) -> Result<Done> {
        let cage = Cage::new(limit, Swap::File, 3 * self.data)?;
        let sorted = self.sort(cage.command(Path::new(SORT)), Judge::Compare);
        ensure!(!cage.has_killed(), "the kernel could not make room in time and killed it");
        Ok(Done { counts: Some(cage.counts()?), ..sorted? })
    }

    fn with_pool(&self, limit: u64) -> Result<Done> {
        main_memory::check(limit, &Program::find(&[OsString::from(SORT)])?)?;
        let nodes = Nodes::start(2, (2 * self.data).next_multiple_of(64 << 20))?;
        let mut variables = Vec::new();
        let keeper = main_memory::start(limit, &nodes.sockets()[0], &mut variables)?;
        let mut command = Command::new(SORT);
        command.envs(variables);
        let done = self.sort(command, Judge::Compare)?;
        let count = |count: &std::sync::atomic::AtomicU64| count.load(Ordering::Relaxed);
        let counts = keeper.counts();
        let (faults, read, written) = (count(&counts.faults), count(&counts.fetched), count(&counts.written));
        Ok(Done { counts: Some(cage::Counts { faults, read, written }), ..done })
    }

    /// Has the program sort the lines, within the time that it has.
    fn sort(&self, mut command: Command, judge: Judge) -> Result<Done> {
        // Room for all lines, and for what sort notes of each.
        let buffer = 2 * self.data;
        command.args(["-S".to_owned(), format!("{buffer}b")]).env("LC_ALL", "C");
        let again = format!("/proc/self/fd/{}", self.lines.as_raw_fd());
        let lines = File::open(again).context("cannot read the lines")?;
        let begun = Instant::now();
        let mut child = command.stdin(lines).stdout(Stdio::piped()).spawn().context("cannot start sort")?;
        let stdout = child.stdout.take().context("the output is a pipe")?;
        let result = self.result.try_clone()?;
        let reader = thread::spawn(move || take(stdout, &result, judge));
        let ended = self.wait(children::pid_of(&child));
        let read = reader.join().map_err(|_| anyhow!("the output could not be read"))?;
        let time = begun.elapsed();
        let Some(end) = ended? else { return Ok(Done { time, is_done: false, counts: None }) };
        ensure!(end == End::Exited(0), "sort ended with {end}");
        ensure!(read? == self.data, Wrong);
        Ok(Done { time, is_done: true, counts: None })
    }

    /// Waits for a child, and ends it when its time is over or the user gives up. `None` where its time was over.
    fn wait(&self, child: Pid) -> Result<Option<End>> {
        let deadline = Instant::now() + self.at_most;
        let mut why: Option<Result<()>> = None;
        loop {
            let wait = if why.is_some() { Duration::MAX } else { deadline.saturating_duration_since(Instant::now()) };
            match self.events.recv_timeout(wait) {
                Ok(Event::ChildEnded) => {
                    if let Some((_, end)) = std::iter::from_fn(children::reap).find(|(pid, _)| *pid == child) {
                        return why.map_or(Ok(Some(end)), |why| why.map(|()| None));
                    }
                    continue;
                }
                Ok(Event::Signal { signal, .. }) if [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT].contains(&signal) => {
                    why = Some(Err(GivenUp.into()));
                }
                Err(RecvTimeoutError::Timeout) => why = Some(Ok(())),
                Err(RecvTimeoutError::Disconnected) => bail!("signals cannot be caught any more"),
                Ok(_) if guard::is_guarded(self.guard) => continue,
                Ok(_) => why = Some(Err(GivenUp.into())),
            }
            children::send(child, Signal::KILL);
        }
    }
}

/// The user, or a launcher's end, ended it.
#[derive(Debug)]
struct GivenUp;

impl std::fmt::Display for GivenUp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the demonstration was ended; nothing of it is left")
    }
}

impl std::error::Error for GivenUp {}

/// A way's output is not that of the first.
#[derive(Debug)]
struct Wrong;

impl std::fmt::Display for Wrong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the sorted lines are not the same bytes as those of the sort with all in memory")
    }
}

impl std::error::Error for Wrong {}

/// Takes the output of a way; how many bytes are as they should be, up to the first that is not.
fn take(mut output: ChildStdout, result: &File, judge: Judge) -> Result<u64> {
    let (mut chunk, mut kept) = (vec![0; CHUNK], vec![0; CHUNK]);
    let (mut at, mut is_same) = (0, true);
    loop {
        let len = output.read(&mut chunk)?;
        if len == 0 {
            return Ok(at);
        }
        match judge {
            Judge::Keep => result.write_all_at(&chunk[..len], at)?,
            Judge::Compare => is_same &= result.read_exact_at(&mut kept[..len], at).is_ok() && kept[..len] == chunk[..len],
        }
        // The rest is read all the same, so that the program comes to its end.
        at += if is_same { len as u64 } else { 0 };
    }
}

/// The table.
struct Told {
    version: String,
    data: u64,
    limit: u64,
    memory: Done,
    swap: Result<Done, String>,
    pool: Result<Done, String>,
    whole: Duration,
}

impl Told {
    /// How many times as fast as with the swap file, where both were had: at least so many, where the swap file was given up.
    fn ratio(&self) -> Option<f64> {
        let (swap, pool) = (self.swap.as_ref().ok()?, self.pool.as_ref().ok().filter(|pool| pool.is_done)?);
        Some(swap.time.as_secs_f64() / pool.time.as_secs_f64())
    }

    fn facts(&self) -> Value {
        let way = |done: &Done| {
            let counts = done.counts.unwrap_or_default();
            json!({ "seconds": done.time.as_secs_f64(), "done": done.is_done, "faults": counts.faults, "read": counts.read, "written": counts.written })
        };
        let or_reason = |way_of: &Result<Done, String>| match way_of {
            Ok(done) => way(done),
            Err(reason) => json!({ "missing": reason }),
        };
        json!({
            "program": self.version, "data": self.data, "here": self.limit, "memory": way(&self.memory),
            "swap_file": or_reason(&self.swap), "pool": or_reason(&self.pool), "times_as_fast": self.ratio(),
            "whole_s": self.whole.as_secs_f64(),
        })
    }

    fn show(&self) {
        use Column::{Number, Text};
        let (data, limit) = (size::show(self.data), size::show(self.limit));
        print::line(&format!("{}, unchanged, sorts {data} of lines; at most {limit} of its memory may be here.\n", self.version));
        let row = |way: &str, done: &Done| {
            let counts =
                done.counts.map(|counts| [counts.faults.to_string(), size::show(counts.read), size::show(counts.written)]);
            let time = format!("{}{:.2} s", if done.is_done { "" } else { "> " }, done.time.as_secs_f64());
            let result = match (done.is_done, done.counts.is_some()) {
                (false, _) => "not done by then",
                (true, true) => "the same bytes",
                (true, false) => "",
            };
            [vec![way.to_owned(), time], counts.unwrap_or_default().to_vec(), vec![result.to_owned()]].concat()
        };
        let ways = [("swap file", &self.swap), ("pool of a second node, TCP", &self.pool)];
        let had = ways.iter().filter_map(|(way, done)| Some(row(way, done.as_ref().ok()?)));
        let columns = [
            Text("REST OF ITS MEMORY"),
            Number("TIME"),
            Number("FAULTS"),
            Number("CAME BACK"),
            Number("WENT OUT"),
            Text("RESULT"),
        ];
        print::table(&columns, std::iter::once(row("none: all here", &self.memory)).chain(had).collect());
        print::line("");
        for (way, done) in ways {
            if let Err(reason) = done {
                print::line(&format!("{way}: not shown, because {reason}"));
            }
        }
        if let Some(ratio) = self.ratio() {
            let least = if self.swap.as_ref().is_ok_and(|swap| swap.is_done) { "" } else { "more than " };
            print::line(&format!(
                "The pool is {least}{ratio:.2} times as fast as the swap file. Both nodes are on this machine."
            ));
        }
        let whole = self.whole.as_secs_f64();
        print::line(&format!("All of it took {whole:.0} s, and nothing is left of it. Yours, with the memory of other hosts:"));
        print::line(&format!("  \x1b[2m> hanare run --main-memory {} -- PROGRAM\x1b[0m", limit.replace(' ', "")));
    }
}
