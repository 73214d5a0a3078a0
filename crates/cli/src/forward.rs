//! Benches, models, the report and the simulator: their words here, their work in crates of their own.

use crate::print::{self, Column};
use crate::progress::{Count, Step};
use anyhow::{Context, Result, ensure};
use clap::Args;
use hanare_model::{command, report};
use hanare_protocol::limits::NODE_COUNT_MAX;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

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
    #[arg(long, value_name = "FABRIC", default_value = "tcp")]
    pub fabric: crate::fabric::Fabric,
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
#[derive(Args, Clone, Debug)]
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
#[derive(Args, Clone, Debug)]
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
    crate::fabric::settle(Some(options.fabric), false)?;
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
pub fn model(options: &ModelOptions) -> Result<()> {
    let text = match &options.paper {
        None => command::list(None, options.json)?,
        Some(paper) => command::run(&command::Options {
            paper: paper.clone(),
            experiment: options.experiment.clone(),
            is_product: options.protocol == "product",
            set: options.set.clone(),
            sweep: options.sweep.clone(),
            network: options.network.clone(),
            plot: options.plot.clone(),
            trace: options.trace.clone(),
            json: options.json,
        })?,
    };
    print::text(&text);
    Ok(())
}

/// Writes the report, or prints its numbers.
pub fn report(options: &ReportOptions) -> Result<()> {
    let mut bar = Count::start();
    let mut progress = |done: usize, count: usize, what: &str| bar.at(done, count, what);
    let mut gathered = report::gather(hanare_model::papers(), &mut progress)?;
    bar.finish();
    let made = made();
    if options.measure {
        // A page after every bench: whoever stops half-way has what was measured.
        let mut page = |measured: &report::Measurements| -> Result<()> {
            gathered = gathered.clone().measured(measured)?;
            if !options.json {
                report::write(&options.out, &gathered, &made)?;
            }
            Ok(())
        };
        measure::all(&options.out, options.afresh, &mut page)?;
    }
    if options.json {
        print::text(&report::json(&gathered, &made));
        return Ok(());
    }
    let summary = report::write(&options.out, &gathered, &made)?;
    print::line(&format!("{}: {summary}", options.out.display()));
    Ok(())
}

/// Today, this version, and the commit it was built from.
pub fn made() -> report::Made {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    report::Made {
        date: day(seconds / 86_400),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        commit: option_env!("BUILT_FROM").unwrap_or_default().to_owned(),
    }
}

/// The date of a day counted from 1 January 1970, as `2026-01-31`: years of March to February, in eras of 400.
fn day(days: u64) -> String {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}")
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

#[cfg(test)]
mod tests {
    use super::day;

    #[test]
    fn days_have_their_dates() {
        for (days, date) in [(0, "1970-01-01"), (59, "1970-03-01"), (11_016, "2000-02-29"), (20_484, "2026-01-31")] {
            assert_eq!(day(days), date);
        }
    }
}
