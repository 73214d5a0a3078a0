//! `hanare demo memory`: programs that nobody changed, on three times the memory that they may have on this host.
//!
//! | way | where the rest of their memory lies |
//! |---|---|
//! | all in memory | on this host: nothing is bounded |
//! | swap file | on this host's disk; a control group bounds the program, which needs root |
//! | pool | on a second node, over TCP; the keeper of `hanare run --main-memory` bounds the program |
//!
//! The kernel may make no room in time and kill the program. Then it runs again with more memory, and the table says with how much.
//!
//! Two programs that nearly every machine has stand for two kinds. Perl counts keys of which few come often, as keys of real data do:
//! most touches are of memory that is here. GNU sort reads its lines in an order that no read-ahead foresees: nearly every touch is
//! of memory that is not. Each way's output is compared, byte by byte, with that of the first.

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
use hanare_bench::cage::{self, Swap, with_room};
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
/// Free memory that the demonstration needs for each byte of lines: lines, a result, sort's own memory and two nodes' pools.
const ROOM: u64 = 8;
/// Bytes that are compared at once.
const CHUNK: usize = 1 << 16;
/// Bytes of the table for each key that is counted.
const TABLE_PER_KEY: u64 = 24;
/// Counts keys in a table of so many bytes: 255 of 256 keys lie in an eighth of it. Prints the sum of its words.
const COUNT: &str = r#"my ($len, $times) = @ARGV; my $table = "\0" x $len; my ($all, $hot, $seed) = ($len >> 2, $len >> 5, 1);
for (1 .. $times) {
    $seed = ($seed * 1103515245 + 12345) & 0x7fffffff;
    my $key = $seed >> 6;
    vec($table, $key & 255 ? $key % $hot : $key % $all, 32)++;
}
print unpack("%32N*", $table), "\n";"#;

/// Size of the demonstration.
#[derive(Args, Clone, Debug)]
pub struct Options {
    /// Bytes of a program's memory; a third of it may be on this host [default: 96MiB, less where memory is short].
    #[arg(long, value_name = "SIZE", value_parser = size::parse_some)]
    data: Option<u64>,
    /// Seconds after which a way that is not done is given up.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    at_most: u64,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Result of one way.
struct Done {
    time: Duration,
    /// True if it came to its end in that time.
    is_done: bool,
    /// Pages that were brought when they were touched; bytes that came from where the rest lies, and that went there.
    counts: Option<cage::Counts>,
    /// Bytes that might be here; `None` where nothing is bounded.
    here: Option<u64>,
}

/// A program that is shown.
struct Shown {
    name: String,
    /// The kind that it stands for.
    kind: &'static str,
    program: &'static str,
    arguments: Vec<String>,
}

/// A program's result by each way, or the reason that a way could not be gone.
struct Trial<'a> {
    work: &'a Shown,
    memory: Done,
    swap: Result<Done, String>,
    pool: Result<Done, String>,
}

/// The lines, a program's first result, and what may happen meanwhile.
struct Contest<'a> {
    lines: File,
    result: File,
    data: u64,
    at_most: Duration,
    events: &'a Receiver<Event>,
    guard: Pid,
}

/// Destination of a way's output.
#[derive(Clone, Copy, PartialEq)]
enum Judge {
    Keep,
    Compare,
}

/// Runs each program by each way and prints the table.
pub fn run(options: &Options, guard: Pid) -> Result<i32> {
    let (_, events) = signals::catch_with()?;
    guard::enter(guard)?;
    let begun = Instant::now();
    let data = fitted(options.data)?;
    let works = [counting(data), sorting(data)];
    ensure!(works.iter().any(Result::is_ok), "neither perl nor GNU sort is here; install perl or coreutils");
    let contest = Contest::set(data, Duration::from_secs(options.at_most), &events, guard)?;
    let trials = works.iter().flatten().map(|work| contest.trial(work, data / SHARE)).collect::<Result<Vec<_>>>()?;
    let missing = works.iter().filter_map(|work| work.as_ref().err().map(|error| format!("{error:#}"))).collect();
    let told = Told { data, limit: data / SHARE, trials, missing, whole: begun.elapsed() };
    match options.json {
        true => print::json(&told.facts())?,
        false => told.show(),
    }
    Ok(0)
}

/// Keys that are counted in a table. **Errors**: there is no Perl.
fn counting(data: u64) -> Result<Shown> {
    let said = Command::new("perl")
        .args(["-e", "print $^V"])
        .output()
        .context("no `perl` is here; Debian's package perl-base has it")?;
    let arguments = ["-e".to_owned(), COUNT.to_owned(), data.to_string(), (data / TABLE_PER_KEY).to_string()];
    Ok(Shown {
        name: format!("Perl {}: count keys", String::from_utf8_lossy(&said.stdout)),
        kind: "most touches are of a part of its memory, as in tables, caches and simulations",
        program: "perl",
        arguments: arguments.to_vec(),
    })
}

/// Lines that are sorted. **Errors**: there is no `sort` that holds all lines in memory.
fn sorting(data: u64) -> Result<Shown> {
    let said = Command::new("sort").arg("--version").output().context("no `sort` is here; Debian's package coreutils has it")?;
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    let number = said.lines().next().filter(|line| line.contains("GNU")).and_then(|line| line.split_whitespace().last());
    let number = number.context("the `sort` here is not GNU's, whose memory can be set; package coreutils has it")?;
    Ok(Shown {
        name: format!("GNU sort {number}"),
        kind: "the worst case: each comparison touches two lines anywhere",
        program: "sort",
        // Room for all lines, and for what sort notes of each.
        arguments: vec!["-S".to_owned(), format!("{}b", 2 * data)],
    })
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
        "a program works on at least {}; free memory is {room}, and {ROOM} times as much is needed",
        size::show(least)
    );
    ensure!(
        data.saturating_mul(ROOM) <= available,
        "{} need {ROOM} times as much free memory; there are {room}",
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

    /// Runs a program by each way. **Errors**: the whole demonstration is given up.
    fn trial<'w>(&self, work: &'w Shown, limit: u64) -> Result<Trial<'w>> {
        let memory = self.alone(work)?;
        let swap = self.or_reason(work, "a swap file", || self.with_swap(work, limit))?;
        let pool = self.or_reason(work, "the pool of a second node", || self.with_pool(work, limit))?;
        Ok(Trial { work, memory, swap, pool })
    }

    /// A way's result, or the reason that it could not be gone. **Errors**: the whole demonstration is given up.
    fn or_reason(&self, work: &Shown, with: &str, way: impl FnOnce() -> Result<Done>) -> Result<Result<Done, String>> {
        let _step = Step::start(&format!("{} with {with}", work.name));
        match way() {
            Err(error) if error.is::<GivenUp>() || error.is::<Wrong>() => Err(error),
            other => Ok(other.map_err(|error| format!("{error:#}"))),
        }
    }

    fn alone(&self, work: &Shown) -> Result<Done> {
        let _step = Step::start(&format!("{} with all in memory", work.name));
        self.result.set_len(0)?;
        let done = self.perform(Command::new(work.program), work, Judge::Keep)?;
        ensure!(done.is_done, "even with all in memory {} was not done in {} s", work.name, self.at_most.as_secs());
        Ok(done)
    }

    fn with_swap(&self, work: &Shown, limit: u64) -> Result<Done> {
        let (done, here) = with_room(limit, Swap::File, 3 * self.data, |cage| {
            let done = self.perform(cage.command(Path::new(work.program)), work, Judge::Compare)?;
            Ok(Done { counts: Some(cage.counts()?), ..done })
        })?;
        Ok(Done { here: Some(here), ..done })
    }

    fn with_pool(&self, work: &Shown, limit: u64) -> Result<Done> {
        main_memory::check(limit, &Program::find(&[OsString::from(work.program)])?)?;
        let nodes = Nodes::start(2, (2 * self.data).next_multiple_of(64 << 20))?;
        let mut variables = Vec::new();
        let keeper = main_memory::start(limit, &nodes.sockets()[0], &mut variables)?;
        let mut command = Command::new(work.program);
        command.envs(variables);
        let done = self.perform(command, work, Judge::Compare)?;
        let count = |count: &std::sync::atomic::AtomicU64| count.load(Ordering::Relaxed);
        let counts = keeper.counts();
        let (faults, read, written) = (count(&counts.faults), count(&counts.fetched), count(&counts.written));
        Ok(Done { counts: Some(cage::Counts { faults, read, written }), here: Some(limit), ..done })
    }

    /// Has the program do its work, within the time that it has.
    fn perform(&self, mut command: Command, work: &Shown, judge: Judge) -> Result<Done> {
        command.args(&work.arguments).env("LC_ALL", "C");
        let again = format!("/proc/self/fd/{}", self.lines.as_raw_fd());
        let lines = File::open(again).context("cannot read the lines")?;
        let begun = Instant::now();
        let mut child =
            command.stdin(lines).stdout(Stdio::piped()).spawn().with_context(|| format!("cannot start {}", work.program))?;
        let stdout = child.stdout.take().context("the output is a pipe")?;
        let result = self.result.try_clone()?;
        let reader = thread::spawn(move || take(stdout, &result, judge));
        let ended = self.wait(children::pid_of(&child));
        let read = reader.join().map_err(|_| anyhow!("the output could not be read"))?;
        let time = begun.elapsed();
        let done = |is_done| Done { time, is_done, counts: None, here: None };
        let Some(end) = ended? else { return Ok(done(false)) };
        ensure!(end == End::Exited(0), "{} ended with {end}", work.program);
        ensure!(read? == self.result.metadata()?.len(), Wrong);
        Ok(done(true))
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
        f.write_str("the output is not the same bytes as with all in memory")
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
struct Told<'a> {
    data: u64,
    limit: u64,
    trials: Vec<Trial<'a>>,
    /// Why programs are not shown.
    missing: Vec<String>,
    whole: Duration,
}

impl Trial<'_> {
    /// Speed beside the swap file's, where both were had: at least this, where the swap file was given up.
    fn ratio(&self) -> Option<f64> {
        let (swap, pool) = (self.swap.as_ref().ok()?, self.pool.as_ref().ok().filter(|pool| pool.is_done)?);
        Some(swap.time.as_secs_f64() / pool.time.as_secs_f64())
    }

    fn facts(&self) -> Value {
        let way = |done: &Done| {
            let counts = done.counts.unwrap_or_default();
            json!({ "seconds": done.time.as_secs_f64(), "done": done.is_done, "here": done.here, "faults": counts.faults, "read": counts.read, "written": counts.written })
        };
        let or_reason = |way_of: &Result<Done, String>| match way_of {
            Ok(done) => way(done),
            Err(reason) => json!({ "missing": reason }),
        };
        json!({
            "program": self.work.name, "kind": self.work.kind, "memory": way(&self.memory), "swap_file": or_reason(&self.swap),
            "pool": or_reason(&self.pool), "times_as_fast": self.ratio(),
        })
    }

    /// The rows of the table: one for each way that was gone.
    fn rows(&self) -> Vec<Vec<String>> {
        let alone = self.memory.time.as_secs_f64();
        let row = |program: &str, way: &str, done: &Done| {
            let seconds = done.time.as_secs_f64();
            let (more, times) = if done.is_done { ("", format!("{:.1}", seconds / alone)) } else { ("> ", String::new()) };
            let counts =
                done.counts.map(|counts| [counts.faults.to_string(), size::show(counts.read), size::show(counts.written)]);
            let result = match (done.is_done, done.counts.is_some()) {
                (false, _) => "not done by then",
                (true, true) => "the same bytes",
                (true, false) => "",
            };
            let here = done.here.map(size::show).unwrap_or_default();
            let first = [program.to_owned(), way.to_owned(), here, format!("{more}{seconds:.2} s"), times].to_vec();
            [first, counts.unwrap_or_default().to_vec(), vec![result.to_owned()]].concat()
        };
        let had = self.ways().into_iter().filter_map(|(way, done)| Some(row("", way, done.as_ref().ok()?)));
        std::iter::once(row(&self.work.name, "none: all here", &self.memory)).chain(had).collect()
    }

    fn ways(&self) -> [(&'static str, &Result<Done, String>); 2] {
        [("swap file", &self.swap), ("pool of a second node, TCP", &self.pool)]
    }

    /// Summary of the kind of program.
    fn sum_up(&self) -> String {
        let beside = self.ratio().map(|ratio| {
            let least = if self.swap.as_ref().is_ok_and(|swap| swap.is_done) { "" } else { "more than " };
            format!("; the pool is {least}{ratio:.1} times as fast as the swap file")
        });
        format!("{}: {}{}.", self.work.name, self.work.kind, beside.unwrap_or_default())
    }
}

impl Told<'_> {
    fn facts(&self) -> Value {
        json!({
            "data": self.data, "here": self.limit, "programs": self.trials.iter().map(Trial::facts).collect::<Vec<_>>(),
            "missing": self.missing, "whole_s": self.whole.as_secs_f64(),
        })
    }

    fn show(&self) {
        use Column::{Number, Text};
        let (data, limit) = (size::show(self.data), size::show(self.limit));
        print::line(&format!(
            "Programs that nobody changed work on {data}; at most {limit} of it may be in the memory of this host.\n"
        ));
        let columns = [
            Text("PROGRAM"),
            Text("REST OF ITS MEMORY"),
            Number("HERE"),
            Number("TIME"),
            Number("TIMES ALL HERE"),
            Number("FAULTS"),
            Number("CAME BACK"),
            Number("WENT OUT"),
            Text("RESULT"),
        ];
        print::table(&columns, self.trials.iter().flat_map(Trial::rows).collect());
        print::line("");
        self.missing.iter().for_each(|reason| print::line(&format!("Not shown: {reason}")));
        self.show_missing_ways();
        self.trials.iter().for_each(|trial| print::line(&trial.sum_up()));
        let whole = self.whole.as_secs_f64();
        print::line(&format!(
            "Both nodes are on this machine. All of it took {whole:.0} s, and nothing is left of it. With the memory of other hosts:"
        ));
        print::line(&format!("  \x1b[2m> hanare run --main-memory {} -- PROGRAM\x1b[0m", limit.replace(' ', "")));
    }

    /// Each way that could not be gone, with the reason and the line that mends it.
    fn show_missing_ways(&self) {
        let mut told = Vec::new();
        for (way, reason) in self.trials.iter().flat_map(Trial::ways).filter_map(|(way, done)| Some((way, done.as_ref().err()?)))
        {
            if told.contains(&(way, reason)) {
                continue;
            }
            told.push((way, reason));
            print::line(&format!("{way}: not shown, because {reason}"));
            let is_root = rustix::process::geteuid().is_root();
            let remedy = match way {
                "swap file" => (!is_root).then(|| "sudo hanare demo memory".to_owned()),
                _ => main_memory::check_machine().err().and_then(|(_, remedy)| remedy),
            };
            remedy.into_iter().for_each(|remedy| print::line(&format!("  \x1b[2m> {remedy}\x1b[0m")));
        }
    }
}
