//! `hanare what-if`: the words of the question, and what this host measures for it; `hanare-models` answers.

use crate::forward;
use crate::models::{self, Question};
use anyhow::{Context, Result};
use clap::Args;
use hanare_bench::basics;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Predicts what a program would do on another network, or on more nodes.
#[derive(Args, Clone, Debug, Serialize)]
#[command(
    after_help = "A pattern is a line such as 'get 4KiB x1e4 depth 8 from 3 ranks': get, put, fetch, scan with a size, or strided, gather, scatter, \
    update N of SIZE; compute TIME, barrier, lock, unlock, touch, store, walk SIZE; xN, depth N, from N ranks, near, far, spread. Steps with a comma between are repeated \
    together, phases with a semicolon follow each other.\n\nNetworks: here, 1gbe, 100gbe-tcp, 100gbe-rdma, ib-ndr, cxl2, cxl3, or a file of the form \
    that docs/models.md shows."
)]
pub struct WhatIfOptions {
    /// A program by name, as gups; see docs/models.md.
    #[arg(conflicts_with_all = ["trace", "pattern", "calibrate"])]
    pub app: Option<String>,
    /// What `hanare run --record DIR` kept.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["pattern", "calibrate"])]
    pub trace: Option<PathBuf>,
    /// What each rank does, as a line of text.
    #[arg(long, value_name = "TEXT", conflicts_with = "calibrate")]
    pub pattern: Option<String>,
    /// The network: a name, or a file.
    #[arg(long, value_name = "NAME|FILE", default_value = "here")]
    pub network: String,
    /// Another network, to compare with.
    #[arg(long, value_name = "NAME|FILE")]
    pub against: Option<String>,
    /// Nodes [default: as recorded, or 2].
    #[arg(long, value_name = "N")]
    pub nodes: Option<usize>,
    /// Ranks [default: as recorded or named; of a pattern one, of a program by name one a node].
    #[arg(short = 'n', long = "ranks", value_name = "RANKS")]
    pub ranks: Option<usize>,
    /// Processors of each host [default: as this one has].
    #[arg(long, value_name = "K")]
    pub cores: Option<usize>,
    /// Fill a node with ranks before the next.
    #[arg(long)]
    pub blocked: bool,
    /// How nodes are joined: switch, bus, fat-tree or torus.
    #[arg(long, value_name = "KIND", default_value = "switch")]
    pub topology: String,
    /// Ask for each value of latency, bandwidth, nodes, ranks or cores.
    #[arg(long, value_name = "KEY=A..B")]
    pub sweep: Option<String>,
    /// Answer also what was never compared with a measurement; with --calibrate, keep also what a busy host measured.
    #[arg(long)]
    pub beyond: bool,
    /// Measure what the software costs on this host, and keep it.
    #[arg(long)]
    pub calibrate: bool,
    /// Measure anew and compare with what is predicted for --network, which lies between this host's nodes, as a shaped loopback does.
    #[arg(long, conflicts_with_all = ["app", "trace", "pattern", "calibrate"])]
    pub validate: bool,
    /// Keep the comparison of --validate in this file, beside those over other networks.
    #[arg(long, value_name = "FILE.toml", requires = "validate")]
    pub keep: Option<PathBuf>,
    /// A short measurement, whose figures are worth little.
    #[arg(long)]
    pub quick: bool,
    /// The calibration to read, or to write [default: this host's, in the folder of the pool's state].
    #[arg(long, value_name = "FILE.toml")]
    pub calibration: Option<PathBuf>,
    /// Draw the sweep.
    #[arg(long, value_name = "FILE.svg")]
    pub plot: Option<PathBuf>,
    /// Write what happened when, for a trace viewer.
    #[arg(long, value_name = "FILE.json")]
    pub timeline: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Has the question answered; measures first where that is asked for.
pub fn run(options: &WhatIfOptions) -> Result<i32> {
    models::find()?;
    let basics = if options.calibrate || options.validate { Some(measure(options)?) } else { None };
    let mut words = serde_json::to_value(options)?;
    words["basics"] = serde_json::to_value(basics)?;
    words["calibration"] = serde_json::to_value(options.calibration.clone().unwrap_or_else(kept_at))?;
    models::ask(Question::WhatIf(words))
}

fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Path of this host's calibration: a home folder may be shared by hosts.
fn kept_at() -> PathBuf {
    let name: String =
        host().chars().map(|letter| if letter.is_ascii_alphanumeric() || letter == '-' { letter } else { '_' }).collect();
    hanare::settings::state_folder().join(format!("what-if-{name}.toml"))
}

/// Processes that could run, as the kernel counts them over a minute.
fn load() -> f64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0.0)
}

/// Mean and 99th percentile of an operation's single times, in ns.
#[derive(Serialize)]
struct Tail {
    mean: f64,
    p99: f64,
}

/// An operation: its pattern, and its median in ns.
#[derive(Serialize)]
struct Operation {
    pattern: String,
    ns: f64,
    tail: Option<Tail>,
}

/// Measurements of single operations, and the host that they are of.
#[derive(Serialize)]
struct Basics {
    is_to_calibrate: bool,
    rows: Vec<Operation>,
    /// The nodes' share of the processors' time.
    node_share: f64,
    /// The slowest round over the fastest.
    spread: f64,
    host: String,
    cores: usize,
    /// Processes that could run, before the measurement.
    load: f64,
    kind: &'static str,
}

fn measure(options: &WhatIfOptions) -> Result<Basics> {
    let (load, cores) = (load(), std::thread::available_parallelism().map_or(1, usize::from));
    let report = forward::run_bench(basics::NAME, options.quick, None, None)?;
    let all: BTreeMap<String, f64> = report.rows.iter().map(|row| (row.case.clone(), row.value)).collect();
    let of = |case: &str| all.get(case).copied().with_context(|| format!("the bench tells no {case}"));
    let row = |(case, ns): (&String, &f64)| {
        let beyond = |suffix: &str| all.get(&format!("{case}{suffix}")).copied();
        let tail = beyond(basics::MEAN).zip(beyond(basics::P99)).map(|(mean, p99)| Tail { mean, p99 });
        Operation { pattern: case.clone(), ns: *ns, tail }
    };
    let is_pattern = |(case, _): &(&String, &f64)| {
        ![basics::NODE_SHARE, basics::ROUND_SPREAD].contains(&case.as_str())
            && ![basics::MEAN, basics::P99].iter().any(|suffix| case.ends_with(suffix))
    };
    Ok(Basics {
        is_to_calibrate: options.calibrate,
        rows: all.iter().filter(is_pattern).map(row).collect(),
        node_share: of(basics::NODE_SHARE)?,
        spread: of(basics::ROUND_SPREAD)?,
        host: host(),
        cores,
        load,
        kind: if cfg!(debug_assertions) { "debug build" } else { "release build" },
    })
}
