//! Benches, models, the report and the simulator: their words here, their work in crates of their own.

use anyhow::{Result, bail};
use clap::Args;
use hanare_model::command;
use std::path::PathBuf;

/// Measures beside peers.
#[derive(Args, Clone, Debug)]
pub struct BenchOptions {
    /// The bench, or all.
    #[arg(required_unless_present = "list")]
    pub name: Option<String>,
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
    /// What moves bytes between nodes.
    #[arg(long, value_name = "FABRIC", default_value = "tcp")]
    pub fabric: crate::run::Fabric,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Asks a timing model.
#[derive(Args, Clone, Debug)]
pub struct ModelOptions {
    /// The paper: dimmnet3, rhinet-fagus, dimmnet2-drivers, euphoria or virtual-queue; none lists them.
    pub paper: Option<String>,
    /// The experiment; none lists those of the paper.
    pub experiment: Option<String>,
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
    /// Measure this machine for it.
    #[arg(long)]
    pub measure: bool,
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
    /// Nodes of the cluster.
    #[arg(long, value_name = "N", default_value_t = 3)]
    pub nodes: u32,
    /// How long to go on with further seeds.
    #[arg(long, value_name = "M", default_value_t = 1.0)]
    pub minutes: f64,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

/// Runs a bench.
pub fn bench(options: &BenchOptions) -> Result<i32> {
    options.fabric.check()?;
    bail!("benches are not in this build")
}

/// Runs the simulator.
pub fn sim(_options: &SimOptions) -> Result<i32> {
    bail!("the simulator is not in this build")
}

/// Asks a model, or lists what can be asked.
pub fn model(options: &ModelOptions) -> Result<()> {
    let text = match &options.paper {
        None => command::list(None, options.json)?,
        Some(paper) => command::run(&command::Options {
            paper: paper.clone(),
            experiment: options.experiment.clone(),
            set: options.set.clone(),
            sweep: options.sweep.clone(),
            network: options.network.clone(),
            plot: options.plot.clone(),
            trace: options.trace.clone(),
            json: options.json,
        })?,
    };
    print!("{text}");
    Ok(())
}

/// Writes the report.
pub fn report(_options: &ReportOptions) -> Result<()> {
    bail!("the report is not in this build")
}
