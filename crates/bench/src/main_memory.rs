//! Plain programs with more memory than they may keep here. The rest is on another node over TCP. Beside it are all memory here, and the
//! kernel's swap to a file and to zram under a control group of the same size. No compressor makes the data smaller.

use crate::Options;
use crate::cage::{Swap, with_room};
use crate::compare::{bytes, compare};
use crate::nodes::Nodes;
use crate::peers::program::{self, Compiled};
use crate::peers::redis::Redis;
use crate::report::{Better, Report, Row};
use crate::turns::{Contestant, Figures, Outcome, take_turns};
use anyhow::{Context, Result, ensure};
use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The bench's name.
pub const NAME: &str = "main-memory";

/// Bytes of a program's working set.
const LEN: u64 = 256 << 20;
const LEN_QUICK: u64 = 64 << 20;

/// Random updates, and random gets of Redis.
const UPDATES: u64 = 50_000;
const UPDATES_QUICK: u64 = 500;

/// Bytes that Redis has for a key: the value, the key, and what it notes of them.
const REDIS_KEY_LEN: u64 = 2300;

/// Goal for a sweep's remaining speed.
const GOAL_SWEEP: f64 = 0.5;

/// A program's figure.
struct Figure {
    key: &'static str,
    name: &'static str,
    /// Goal beside all in memory.
    goal: Option<f64>,
}

const fn figure(key: &'static str, name: &'static str, goal: Option<f64>) -> Figure {
    Figure { key, name, goal }
}

/// A program, what it measures, and how it is run by a command.
struct Workload<'a> {
    figures: &'static [Figure],
    run: Box<MeasuringRun<'a>>,
}

/// Makes the command that runs a program.
type Start<'a> = dyn Fn(&Path) -> Command + 'a;

/// Runs a program by such a command.
type MeasuringRun<'a> = dyn Fn(&Start<'_>) -> Result<Figures> + 'a;

/// Runs it.
pub fn run(options: &Options, progress: &mut dyn FnMut(&str)) -> Result<Report> {
    let len = if options.quick { LEN_QUICK } else { LEN };
    progress("starting nodes");
    let nodes = Nodes::start(options, options.nodes_or(2).max(2), 3 * len)?;
    let compiled = Compiled::new(options)?;
    let mut report = Report::new(NAME);
    let found = [
        loops(options, &compiled, len),
        script(options, "numpy_product.py", &PRODUCT, len),
        redis(options, len),
        script(options, "duckdb_join.py", &JOIN, len),
    ];
    let mut workloads = Vec::new();
    for (workload, what) in found.into_iter().zip(["loops in C", "NumPy", "Redis", "DuckDB"]) {
        match workload {
            Ok(workload) => workloads.push(workload),
            Err(reason) => {
                report.rows.push(Row::alone(format!("{what}: not measured, because {reason:#}"), 0.0, "runs", Better::Higher));
            }
        }
    }
    let workloads = &workloads;
    let run_all = |start: &Start<'_>| -> Result<Figures> {
        let mut all = Figures::new();
        for workload in workloads {
            all.extend((workload.run)(start)?);
        }
        Ok(all)
    };
    let most_here = [const { Cell::new(0) }; 4];
    let mut cells = most_here.iter();
    let mut contestants = vec![Contestant::peer("all in memory", Ok(|| run_all(&|program| Command::new(program))))];
    for share in [2, 4] {
        let limit = len / share;
        let nodes = &nodes;
        let ours = move || {
            run_all(&|program| {
                let mut command = Command::new(&options.command);
                command.args(["run", "-n", "1", "--main-memory", &limit.to_string(), "--"]).arg(program);
                command.env("HANARE_NODE", nodes.socket(0));
                command
            })
        };
        contestants.push(Contestant::ours(&format!("hanare, {} of {} here", bytes(limit), bytes(len)), ours));
        for (name, swap) in [("swap file", Swap::File), ("zram", Swap::Zram)] {
            let most = cells.next().context("four have swap")?;
            let turn = move || {
                let run = |cage: &crate::cage::Cage| run_all(&|program: &Path| cage.command(program));
                let (figures, here) = with_room(limit, swap, 3 * len, run)?;
                most.set(here.max(most.get()));
                Ok(figures)
            };
            contestants.push(Contestant::peer(name, Ok(turn)));
        }
    }
    let mut outcomes = take_turns(options.rounds().min(5), contestants, progress)?;
    for (outcome, here) in outcomes[1..].chunks_mut(3).flat_map(|share| &mut share[1..]).zip(&most_here) {
        outcome.name = format!("{}, {} here", outcome.name, bytes(here.get()));
    }
    let [memory, shares @ ..] = &outcomes[..] else { unreachable!("all in memory is a contestant") };
    for outcomes in shares.chunks_exact(3) {
        for figure in workloads.iter().flat_map(|workload| workload.figures) {
            report.rows.extend(rows(figure, memory, outcomes)?);
        }
    }
    Ok(report)
}

/// The rows of a figure at one share: beside all in memory, the swap file and zram.
fn rows(figure: &Figure, memory: &Outcome, outcomes: &[Outcome]) -> Result<Vec<Row>> {
    let [ours, swap, zram] = outcomes else { unreachable!("there are three for a share") };
    let case = format!("{}, {}", figure.name, ours.name);
    let beside = |peer: &Outcome, goal| compare(case.clone(), ours, figure.key, peer, figure.key, goal);
    Ok(vec![beside(memory, figure.goal)?, beside(swap, Some(1.0))?, beside(zram, Some(1.0))?])
}

/// A program in C that knows of nothing.
fn loops<'a>(options: &Options, compiled: &Compiled, len: u64) -> Result<Workload<'a>> {
    const FIGURES: [Figure; 5] = [
        figure("update", "random update", None),
        figure("sweep", "page of a sweep that writes", Some(GOAL_SWEEP)),
        figure("read", "page of a sweep that reads", Some(GOAL_SWEEP)),
        figure("sort", "page of a quicksort", None),
        figure("kmeans", "page of a step of k-means", None),
    ];
    let program = compiled.build("gcc", "main_memory", &[])?;
    let updates = if options.quick { UPDATES_QUICK } else { UPDATES };
    let words = vec![(len >> 20).to_string(), updates.to_string()];
    Ok(Workload { figures: &FIGURES, run: Box::new(move |start: &Start<'_>| figures_of(start(&program).args(&words), &FIGURES)) })
}

/// NumPy's product of two matrices.
const PRODUCT: [Figure; 1] = [figure("product", "page of a product by NumPy", None)];

/// DuckDB's join of two tables.
const JOIN: [Figure; 1] = [figure("join", "page of a join by DuckDB", None)];

/// A script in Python that says what its work costs.
fn script<'a>(options: &Options, name: &str, figures: &'static [Figure], len: u64) -> Result<Workload<'a>> {
    let script = options.peers.join(name);
    ensure!(script.is_file(), "{} is not there; run this in the folder of the sources", script.display());
    // A wrapper that chooses one of several Pythons would be what is started: the one that it chose is.
    let python = program::run(Path::new("python3"), &["-c", "import sys; print(sys.executable)"], &[])?;
    let python = PathBuf::from(python.trim());
    program::run(&python, &[script.as_os_str()], &[])?;
    let run = move |start: &Start<'_>| {
        let mut command = start(&python);
        figures_of(command.arg(&script).arg((len >> 20).to_string()), figures)
    };
    Ok(Workload { figures, run: Box::new(run) })
}

/// Redis with as many keys as fill its memory.
fn redis<'a>(options: &Options, len: u64) -> Result<Workload<'a>> {
    const FIGURES: [Figure; 2] = [
        figure("redis_set", "a SET of 2 kB by Redis, 64 at a time", None),
        figure("redis_get", "a random GET of 2 kB by Redis", None),
    ];
    Redis::version()?;
    let (keys, gets) = (len / REDIS_KEY_LEN, if options.quick { UPDATES_QUICK } else { UPDATES });
    let run = move |start: &Start<'_>| {
        let mut redis = Redis::start_by(start(Path::new("redis-server")))?;
        let set = redis.load(keys)?;
        let get = redis.get_random(keys, gets)?;
        redis.end()?;
        Ok(Figures::from([("redis_set".to_owned(), set), ("redis_get".to_owned(), get)]))
    };
    Ok(Workload { figures: &FIGURES, run: Box::new(run) })
}

/// A program's own figures: a name and ns a line.
fn figures_of(command: &mut Command, wanted: &[Figure]) -> Result<Figures> {
    let program = Path::new(command.get_program()).to_owned();
    let ended = command.output().with_context(|| format!("cannot start {}", program.display()))?;
    ensure!(ended.status.success(), "{}: {}", ended.status, String::from_utf8_lossy(&ended.stderr).trim());
    let figures = program::figures(&String::from_utf8_lossy(&ended.stdout))?;
    ensure!(wanted.iter().all(|figure| figures.contains_key(figure.key)), "the program said {figures:?}");
    Ok(figures)
}
