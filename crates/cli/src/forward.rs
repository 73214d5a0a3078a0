//! Benches, models, the report and the simulator: their words here, their work in crates and a program of their own.

use crate::models::{self, Question};
use crate::print::{self, Column};
use crate::progress::{Count, Step};
use anyhow::{Context, Result, ensure};
use clap::Args;
use hanare_protocol::limits::NODE_COUNT_MAX;
use serde::Serialize;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

mod measure;

/// The name that stands for every bench.
const ALL: &str = "all";

/// Measures beside peers.
#[derive(Args, Clone, Debug)]
pub struct BenchOptions {
    /// The bench, or all.
    #[arg(required_unless_present_any = ["list", "page"], conflicts_with = "page")]
    pub name: Option<String>,
    /// A process of a bench: what it does.
    #[arg(long, num_args = 1.., value_name = "WORD", hide = true)]
    pub port: Vec<String>,
    /// Name the benches.
    #[arg(long)]
    pub list: bool,
    /// A short run that only shows that it works.
    #[arg(long)]
    pub quick: bool,
    /// Nodes of the pool that is measured.
    #[arg(long, value_name = "N")]
    pub nodes: Option<u32>,
    /// Ranks of the job that is measured.
    #[arg(short = 'n', long = "ranks", value_name = "RANKS")]
    pub ranks: Option<u32>,
    /// What moves bytes between hosts [default: tcp].
    #[arg(long, value_name = "FABRIC", default_value = "tcp", value_parser = crate::fabric::parser())]
    pub fabric: String,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
    /// Measure nothing; write a page of results that --json printed.
    #[arg(long, value_name = "FILE.md", requires = "from")]
    pub page: Option<PathBuf>,
    /// The file of such results; may be repeated: of a bench that several have, the last counts.
    #[arg(long, value_name = "FILE.json", requires = "page")]
    pub from: Vec<PathBuf>,
}

/// Asks a timing model.
#[derive(Args, Clone, Debug, Serialize)]
pub struct ModelOptions {
    /// The paper: dimmnet3, rhinet-fagus, dimmnet2-drivers, euphoria or virtual-queue; none lists them.
    pub paper: Option<String>,
    /// The experiment; none lists those of the paper.
    pub experiment: Option<String>,
    /// Whose protocol runs on the paper's hardware.
    #[arg(long, value_name = "PROTOCOL", value_parser = ["paper", "product"], default_value = "paper")]
    pub protocol: String,
    /// Set a parameter.
    #[arg(long, value_name = "KEY=VALUE")]
    pub set: Vec<String>,
    /// Run it for each value of a parameter.
    #[arg(long, value_name = "KEY=A..B")]
    pub sweep: Option<String>,
    /// Use the network described in this file.
    #[arg(long, value_name = "FILE.toml")]
    pub network: Option<PathBuf>,
    /// Draw the outcome.
    #[arg(long, value_name = "FILE.svg")]
    pub plot: Option<PathBuf>,
    /// Write what happened when, for a trace viewer.
    #[arg(long, value_name = "FILE.json")]
    pub trace: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Writes the report.
#[derive(Args, Clone, Debug, Serialize)]
pub struct ReportOptions {
    /// Measure this machine for it. Results are kept beside the page, bench by bench; a run that was stopped goes on there.
    #[arg(long)]
    pub measure: bool,
    /// Measure anew what an earlier run has measured.
    #[arg(long, requires = "measure")]
    pub afresh: bool,
    /// Where to write it.
    #[arg(long, value_name = "FILE.html", default_value = "report.html")]
    pub out: PathBuf,
    /// Print the report's numbers as JSON instead.
    #[arg(long)]
    pub json: bool,
}

/// Runs the simulator.
#[derive(Args, Clone, Debug)]
pub struct SimOptions {
    /// Seed of the run; without it one is drawn and printed.
    #[arg(long, value_name = "S")]
    pub seed: Option<u64>,
    /// Nodes of the pool.
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=NODE_COUNT_MAX as i64))]
    pub nodes: u32,
    /// How long to simulate, in minutes of the pool's own time: ten pass in about a second.
    #[arg(long, value_name = "M", default_value_t = 10.0)]
    pub minutes: f64,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Runs a bench, or all of them: a table each, or one JSON object a line.
pub fn bench(options: &BenchOptions) -> Result<()> {
    if options.list {
        return list_benches(options.json);
    }
    if let Some(page) = &options.page {
        return write_page(page, &options.from);
    }
    match &options.port[..] {
        [] => {}
        [word, words @ ..] if word == hanare_bench::fair::NEIGHBOUR => return hanare_bench::fair::run_neighbour(words),
        words => return hanare_bench::queue::run_port(words),
    }
    crate::fabric::settle(Some(&options.fabric), false)?;
    let asked = options.name.as_deref().unwrap_or(ALL);
    let names: Vec<&str> = match asked {
        ALL => hanare_bench::list().iter().map(|bench| bench.name).collect(),
        name => vec![name],
    };
    for (position, name) in names.iter().enumerate() {
        let report = run_bench(name, options.quick, options.nodes, options.ranks)?;
        match options.json {
            true => print::line(&report.json()),
            false if position > 0 => print::line(&format!("\n{}", report.table())),
            false => print::line(&report.table()),
        }
    }
    Ok(())
}

fn write_page(page: &Path, from: &[PathBuf]) -> Result<()> {
    let mut lines = String::new();
    for file in from {
        lines += &std::fs::read_to_string(file).with_context(|| format!("{}", file.display()))?;
        lines.push('\n');
    }
    std::fs::write(page, hanare_bench::page::page(&lines)?).with_context(|| format!("{}", page.display()))
}

/// Runs one bench, and shows what it does meanwhile.
pub fn run_bench(name: &str, quick: bool, nodes: Option<u32>, ranks: Option<u32>) -> Result<hanare_bench::Report> {
    let options = hanare_bench::Options { quick, nodes, ranks, ..hanare_bench::Options::here() };
    let mut step = None;
    hanare_bench::run(name, &options, &mut |what| {
        // The one before ends first: two lines that move cannot share a terminal's line.
        drop(step.take());
        step = Some(Step::start(&format!("{name}: {what}")));
    })
}

fn list_benches(as_json: bool) -> Result<()> {
    let benches = hanare_bench::list();
    if as_json {
        return print::json(&benches.iter().map(|bench| json!({ "name": bench.name, "about": bench.about })).collect());
    }
    let rows = benches.iter().map(|bench| vec![bench.name.to_owned(), bench.about.to_owned()]);
    print::table(&[Column::Text("BENCH"), Column::Text("MEASURES")], rows.collect());
    Ok(())
}

/// Asks a model, or lists what can be asked.
pub fn model(options: &ModelOptions) -> Result<i32> {
    let mut words = serde_json::to_value(options)?;
    words["paper"] = options.paper.clone().unwrap_or_default().into();
    words["is_product"] = (options.protocol == "product").into();
    models::ask(Question::Model(words))
}

/// Writes the report, or prints its numbers.
pub fn report(options: &ReportOptions) -> Result<i32> {
    let words = |measured: Option<&measure::Measurements>, goes_on: bool| -> Result<Value> {
        let mut words = serde_json::to_value(options)?;
        words["measured"] = serde_json::to_value(measured)?;
        words["goes_on"] = goes_on.into();
        Ok(words)
    };
    if !options.measure {
        return models::ask(Question::Report(words(None, false)?));
    }
    models::find()?;
    // A page after every bench: whoever stops half-way has what was measured.
    let mut page = |measured: &measure::Measurements| -> Result<()> {
        if !options.json {
            let status = models::ask(Question::Report(words(Some(measured), true)?))?;
            ensure!(status == 0, "the report could not be written");
        }
        Ok(())
    };
    let measured = measure::all(&options.out, options.afresh, &mut page)?;
    models::ask(Question::Report(words(Some(&measured), false)?))
}

/// Runs the simulator; a check that does not hold is told with the line that replays it.
pub fn sim(options: &SimOptions) -> Result<i32> {
    ensure!(options.minutes.is_finite() && options.minutes > 0.0, "--minutes cannot be {}: it must be above 0", options.minutes);
    let seed = options.seed.unwrap_or_else(rand::random);
    let mut bar = Count::start();
    let what = format!("{} nodes, seed {seed}", options.nodes);
    let outcome =
        hanare_sim::run(seed, options.nodes, options.minutes, &mut |share| bar.at((share * 100.0) as usize, 100, &what));
    bar.finish();
    match outcome {
        Ok(report) if options.json => {
            let plan = json!({ "seed": seed, "nodes": options.nodes, "minutes": options.minutes });
            print::json(&json!({ "plan": plan, "held": true, "counts": report.worlds }))?;
            Ok(0)
        }
        Ok(report) => {
            print::text(&report.to_string());
            Ok(0)
        }
        Err(failure) if options.json => {
            print::json(
                &json!({ "replay": failure.plan.to_string(), "held": false, "world": failure.world, "at_ms": failure.at_ms, "what": failure.what }),
            )?;
            Ok(1)
        }
        Err(failure) => {
            eprintln!("{failure}");
            Ok(1)
        }
    }
}
