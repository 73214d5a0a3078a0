//! `hanare what-if`: the words of the question, and this host's calibration; the answer is crate `model`'s.

use crate::forward;
use crate::print;
use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use hanare_bench::basics;
use hanare_model::network::Network;
use hanare_model::what_if::calibrate::{self, Measured, Provenance, Quietness};
use hanare_model::what_if::costs::{SoftwareCosts, Tail};
use hanare_model::what_if::kept::KeptComparisons;
use hanare_model::what_if::{self, ProgramSource, show};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Predicts what a program would do on another network, or on more nodes.
#[derive(Args, Clone, Debug)]
#[command(
    after_help = "A pattern is a line such as 'get 4KiB x1e4 depth 8 from 3 ranks': get, put, fetch, scan with a size, or strided, gather, scatter, \
    update N of SIZE; compute TIME, barrier, touch, store, walk SIZE; xN, depth N, from N ranks, near, far, spread. Steps with a comma between are repeated \
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

/// Calibrates, or answers.
pub fn run(options: &WhatIfOptions) -> Result<()> {
    let file = match &options.calibration {
        Some(file) => file.clone(),
        None => kept_at(),
    };
    if options.calibrate {
        return keep(options, &file);
    }
    if options.validate {
        return validate(options, &read(&file)?);
    }
    let source = match (&options.app, &options.trace, &options.pattern) {
        (Some(app), _, _) => ProgramSource::App(app.clone()),
        (_, Some(folder), _) => ProgramSource::Recording(folder.clone()),
        (_, _, Some(text)) => ProgramSource::Pattern(text.clone()),
        _ => bail!("name a program, or give --pattern, --trace or --calibrate"),
    };
    let answer = what_if::run(
        &what_if::Question {
            source,
            network: options.network.clone(),
            against: options.against.clone(),
            nodes: options.nodes,
            ranks: options.ranks,
            cores: options.cores,
            is_blocked: options.blocked,
            topology: options.topology.clone(),
            sweep: options.sweep.clone(),
            may_go_beyond: options.beyond,
            plot: options.plot.clone(),
            timeline: options.timeline.clone(),
            json: options.json,
        },
        &read(&file)?,
    )?;
    print::text(&answer);
    Ok(())
}

fn host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// Where this host's calibration is kept: a home folder may be shared by hosts.
fn kept_at() -> PathBuf {
    let name: String =
        host().chars().map(|letter| if letter.is_ascii_alphanumeric() || letter == '-' { letter } else { '_' }).collect();
    hanare::settings::state_folder().join(format!("what-if-{name}.toml"))
}

fn read(file: &Path) -> Result<SoftwareCosts> {
    match std::fs::read_to_string(file) {
        Ok(text) => SoftwareCosts::from_toml(&text).with_context(|| file.display().to_string()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            bail!(
                "what the software costs on this host was not measured ({} is not there); run hanare what-if --calibrate",
                file.display()
            )
        }
        Err(error) => Err(error).with_context(|| file.display().to_string()),
    }
}

/// Processes that could run, as the kernel counts them over a minute.
fn load() -> f64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0.0)
}

/// Measurements of single operations.
struct Basics {
    rows: Vec<Measured>,
    /// The nodes' share of the processors' time.
    node_share: f64,
    /// The slowest round over the fastest.
    spread: f64,
}

fn measure(quick: bool) -> Result<Basics> {
    let report = forward::run_bench(basics::NAME, quick, None, None)?;
    let all: BTreeMap<String, f64> = report.rows.iter().map(|row| (row.case.clone(), row.value)).collect();
    let of = |case: &str| all.get(case).copied().with_context(|| format!("the bench tells no {case}"));
    let row = |(case, ns): (&String, &f64)| {
        let beyond = |suffix: &str| all.get(&format!("{case}{suffix}")).copied();
        let tail = beyond(basics::MEAN).zip(beyond(basics::P99)).map(|(mean, p99)| Tail { mean, p99 });
        Measured { pattern: case.clone(), ns: *ns, tail }
    };
    let is_pattern = |(case, _): &(&String, &f64)| {
        ![basics::NODE_SHARE, basics::ROUND_SPREAD].contains(&case.as_str())
            && ![basics::MEAN, basics::P99].iter().any(|suffix| case.ends_with(suffix))
    };
    let rows = all.iter().filter(is_pattern).map(row).collect();
    Ok(Basics { rows, node_share: of(basics::NODE_SHARE)?, spread: of(basics::ROUND_SPREAD)? })
}

/// Measures, fits and keeps. What a busy host says of itself is not kept, unless that is asked for.
fn keep(options: &WhatIfOptions, file: &Path) -> Result<()> {
    let (load, cores) = (load(), std::thread::available_parallelism().map_or(1, usize::from));
    let Basics { rows, node_share, spread } = measure(options.quick)?;
    let made = forward::made();
    let kind = if cfg!(debug_assertions) { "debug build" } else { "release build" };
    let commit = if made.commit.is_empty() { "unknown commit" } else { &made.commit };
    let build = format!("hanare {} ({commit}, {kind})", made.version);
    // Another kind of build has other costs, and hosts may share a folder.
    let is_like_this =
        |before: &SoftwareCosts| before.host == host() && before.cores == cores && before.build.ends_with(&format!("{kind})"));
    let before = read(file).ok().filter(is_like_this);
    let objections = Quietness { load, cores, spread }.objections(&rows, before.as_ref());
    ensure!(
        objections.is_empty() || options.beyond,
        "this host is too busy to be calibrated: {}; try again when it is quiet, or keep it with --beyond",
        objections.join("; ")
    );
    let costs = calibrate::fit(Provenance { host: host(), date: made.date, build, cores, load }, &rows, node_share)?;
    if let Some(folder) = file.parent() {
        std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    std::fs::write(file, costs.to_toml()).with_context(|| file.display().to_string())?;
    match options.json {
        true => print::json(&serde_json::to_value(&costs)?)?,
        false => print::text(&show::calibration(&costs)),
    }
    Ok(())
}

/// Measures, and compares with what was predicted before.
fn validate(options: &WhatIfOptions, costs: &SoftwareCosts) -> Result<()> {
    let network = Network::find(&options.network)?;
    let Basics { rows, .. } = measure(options.quick)?;
    let comparison = calibrate::compare(costs, &rows, &network)?;
    print::text(&show::comparison(&comparison, costs));
    if let Some(file) = &options.keep {
        let mut kept = match std::fs::read_to_string(file) {
            Ok(text) => KeptComparisons::from_toml(&text).with_context(|| file.display().to_string())?,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => KeptComparisons::default(),
            Err(error) => return Err(error).with_context(|| file.display().to_string()),
        };
        kept.take(comparison.clone());
        std::fs::write(file, kept.to_toml()).with_context(|| file.display().to_string())?;
    }
    ensure!(comparison.holds(), "the predictions over {} do not hold", network.name);
    Ok(())
}
