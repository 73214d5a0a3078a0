//! `hanare what-if`: what would a program do on that network, with so many nodes?
//!
//! | module | holds |
//! |---|---|
//! | [`program`] | what ranks do, step by step |
//! | [`pattern`], [`recording`] | where that is read from: a line of text, or what `hanare run --record` kept |
//! | [`costs`], [`calibrate`] | what the product's software costs on a host: fitted to a measurement, never typed |
//! | [`kept`] | comparisons with measurements, for the report |
//! | [`simulate`], [`path`] | the run, and what its time was spent on |
//! | [`ask`] | the question: run, sensitivity, sweep, refusal |
//! | [`show`] | the answer as text, JSON and plot |
//!
//! The wire's lengths, the page rules and the barriers of jobs are the product's own code. What is not in the model: loss and
//! congestion control of TCP, prefetch of pages, memory that has to be recalled before a command, and UCX.
pub mod ask;
pub mod calibrate;
pub mod costs;
pub mod kept;
pub mod path;
pub mod pattern;
pub mod program;
pub mod recording;
pub mod show;
pub mod simulate;

use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::network::{Network, NetworkError};
use crate::plot;
use crate::topology::Kind;
use costs::SoftwareCosts;
use program::Program;
use simulate::Setting;

/// Why a question was not answered; one line each.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum WhatIfError {
    /// A pattern that is none.
    #[error("pattern \"{text}\": {problem}")]
    Pattern {
        /// The part that was read.
        text: String,
        /// What is wrong with it.
        problem: String,
    },
    /// What a run recorded cannot be read.
    #[error("{file}: {problem}")]
    Recording {
        /// The file or folder.
        file: String,
        /// What is wrong with it.
        problem: String,
    },
    /// A calibration that cannot be used, or could not be made.
    #[error("calibration: {problem}")]
    Calibration {
        /// What is wrong with it.
        problem: String,
    },
    /// A network was refused.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// An option's value.
    #[error("{0}")]
    Options(String),
    /// A question whose answer nobody should rely on.
    #[error("refused: {reasons}")]
    Refused {
        /// Why, each reason named.
        reasons: String,
    },
    /// A file could not be written.
    #[error("{file}: {problem}")]
    Write {
        /// The file.
        file: String,
        /// What the system said.
        problem: String,
    },
}

/// Where a program is read from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProgramSource {
    /// A line of text.
    Pattern(String),
    /// A name of [`pattern::APPS`].
    App(String),
    /// A folder of `hanare run --record`.
    Recording(PathBuf),
}

/// What `hanare what-if` was asked.
#[derive(Clone, Debug)]
pub struct Question {
    /// The program.
    pub source: ProgramSource,
    /// A network by name, or a file.
    pub network: String,
    /// Another, to compare with.
    pub against: Option<String>,
    /// Nodes; as many as were recorded, or two.
    pub nodes: Option<usize>,
    /// Ranks; as many as the program names, or one a node.
    pub ranks: Option<usize>,
    /// Processors of each host; as many as the calibrated host has.
    pub cores: Option<usize>,
    /// Ranks fill a node before the next.
    pub is_blocked: bool,
    /// `switch`, `bus`, `fat-tree` or `torus`.
    pub topology: String,
    /// `KEY=A..B`.
    pub sweep: Option<String>,
    /// Whether to answer what was not validated, too.
    pub may_go_beyond: bool,
    /// Where to draw the sweep.
    pub plot: Option<PathBuf>,
    /// Where to write the timeline, for Perfetto.
    pub timeline: Option<PathBuf>,
    /// JSON in place of text.
    pub json: bool,
}

/// Answers what was asked, writes the files that the options name, and returns the text for standard output.
///
/// **Errors**: [`WhatIfError`], one line each.
pub fn run(options: &Question, costs: &SoftwareCosts) -> Result<String, WhatIfError> {
    let (program, setting) = understand(options, costs)?;
    let against = options.against.as_deref().map(Network::find).transpose()?;
    let answer = ask::ask(&program, &setting, against.as_ref(), options.sweep.as_deref(), options.may_go_beyond)?;
    if let Some(path) = &options.plot {
        let sweep =
            answer.sweep.as_ref().ok_or_else(|| WhatIfError::Options("--plot draws a sweep; name one by --sweep".to_string()))?;
        let drawn = show::plot(&program, &setting, sweep, against.as_ref().map(|network| network.name.as_str()));
        write(path, &plot::document(&[&drawn]))?;
    }
    if let (Some(path), Some(trace)) = (&options.timeline, &answer.run.trace) {
        write(path, &trace.to_json())?;
    }
    let show = if options.json { show::as_json } else { show::as_text };
    Ok(show(&program, &setting, &answer))
}

fn understand(options: &Question, costs: &SoftwareCosts) -> Result<(Program, Setting), WhatIfError> {
    let (recorded, program) = match &options.source {
        ProgramSource::Pattern(text) => (None, pattern::parse(text)?),
        ProgramSource::App(name) => (None, app(name)?),
        ProgramSource::Recording(folder) => {
            let (made, program) = recording::load(folder)?;
            (Some(made), program)
        }
    };
    if let (Some(made), Some(ranks)) =
        (&recorded, options.ranks.filter(|ranks| recorded.as_ref().is_some_and(|made| made.ranks != *ranks)))
    {
        return Err(WhatIfError::Options(format!(
            "--ranks cannot be {ranks}: {} were recorded, and each did its own part",
            made.ranks
        )));
    }
    let topology = Kind::find(&options.topology).ok_or_else(|| {
        let known = Kind::ALL.map(|(name, _)| name).join(", ");
        WhatIfError::Options(format!("--topology cannot be '{}': {known}", options.topology))
    })?;
    let network = Network::find(&options.network)?;
    let nodes = options.nodes.or(recorded.as_ref().map(|made| made.nodes)).unwrap_or(2);
    let setting = Setting {
        // The fabric `here` is that between nodes of one host, who share its processors.
        hosts: if options.network == "here" { 1 } else { nodes },
        nodes,
        ranks: options.ranks.or(program.rank_count).unwrap_or(nodes),
        is_blocked: options.is_blocked,
        cores: options.cores.unwrap_or(costs.cores),
        network,
        topology,
        costs: costs.clone(),
        is_traced: options.timeline.is_some(),
    };
    Ok((program, setting))
}

fn app(name: &str) -> Result<Program, WhatIfError> {
    let found = pattern::APPS.iter().find(|(known, ..)| *known == name);
    let (_, _, text) = found.ok_or_else(|| {
        let known: Vec<&str> = pattern::APPS.iter().map(|(known, ..)| *known).collect();
        let hint = "a program that computes is recorded by `hanare run --record DIR`, and asked for by --trace DIR";
        WhatIfError::Options(format!("{name} has no pattern here (known: {}); {hint}", known.join(", ")))
    })?;
    Ok(Program { name: format!("{name} ({text})"), ..pattern::parse(text)? })
}

fn write(path: &Path, text: &str) -> Result<(), WhatIfError> {
    std::fs::write(path, text)
        .map_err(|error| WhatIfError::Write { file: path.display().to_string(), problem: error.to_string() })
}
