//! `hanare what-if`: what would a program do on that network, with so many nodes?
//!
//! | module | holds |
//! |---|---|
//! | [`program`] | what ranks do, step by step |
//! | [`pattern`], [`recording`] | where that is read from: a line of text, or what `hanare run --record` kept |
//! | [`costs`], [`calibrate`] | what the product's software costs on a host: fitted to a measurement, never typed |
//! | [`kept`] | comparisons with measurements, for the report |
//! | [`simulate`], [`path`] | the run, and what its time was spent on |
//! | [`replay`] | a recording run where it was made: what of its time the model knows |
//! | [`ask`] | the question: run, sensitivity, sweep, refusal |
//! | [`show`] | the answer as text, JSON and plot |
//!
//! The wire's lengths, the page rules, the barriers of jobs and the locks are the product's own code. The model leaves out loss and congestion control of
//! TCP, pages brought ahead in other orders than page after page, memory that has to be recalled before a command, and UCX.
pub mod ask;
pub mod calibrate;
pub mod costs;
#[cfg(test)]
mod fuzz;
pub mod kept;
pub mod path;
pub mod pattern;
pub mod program;
pub mod recording;
pub mod replay;
pub mod show;
pub mod simulate;

use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::network::{Network, NetworkError};
use crate::plot;
use crate::topology::Kind;
use costs::SoftwareCosts;
use program::Program;
use recording::Recording;
use replay::Replay;
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
        /// The fault in it.
        problem: String,
    },
    /// What a run recorded cannot be read.
    #[error("{file}: {problem}")]
    Recording {
        /// The file or folder.
        file: String,
        /// The fault in it.
        problem: String,
    },
    /// A calibration that cannot be used, or could not be made.
    #[error("calibration: {problem}")]
    Calibration {
        /// The fault in it.
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
        /// The problem.
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
    /// Ranks; as many as the program names, or one: of an app one a node.
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
    let (program, setting, replay) = understand(options, costs)?;
    let against = options.against.as_deref().map(Network::find).transpose()?;
    let around = ask::Around { against: against.as_ref(), sweep: options.sweep.as_deref(), may_go_beyond: options.may_go_beyond };
    let answer = ask::ask(&program, &setting, &around, replay)?;
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

/// A program, what to run it on, and, of a recording, its replay with what speaks against it.
type Understood = (Program, Setting, Option<(Replay, Vec<String>)>);

fn understand(options: &Question, costs: &SoftwareCosts) -> Result<Understood, WhatIfError> {
    let topology = Kind::find(&options.topology).ok_or_else(|| {
        let known = Kind::ALL.map(|(name, _)| name).join(", ");
        WhatIfError::Options(format!("--topology cannot be '{}': {known}", options.topology))
    })?;
    let network = Network::find(&options.network)?;
    let on = |nodes: usize, ranks: usize| Setting {
        // The fabric `here` is that between nodes of one host, who share its processors.
        hosts: if options.network == "here" { 1 } else { nodes },
        nodes,
        ranks,
        is_blocked: options.is_blocked,
        cores: options.cores.unwrap_or(costs.cores),
        network: network.clone(),
        topology,
        costs: costs.clone(),
        recorded_crowd: None,
        is_held_up: false,
        is_traced: options.timeline.is_some(),
        is_timed: false,
    };
    let program = match &options.source {
        ProgramSource::Pattern(text) => pattern::parse(text)?,
        ProgramSource::App(name) => app(name)?,
        ProgramSource::Recording(folder) => return replayed(recording::load(folder)?, options, &on),
    };
    let nodes = options.nodes.unwrap_or(2);
    // A pattern is one program, unless it says how many; an app is one on each node.
    let alone = if matches!(options.source, ProgramSource::App(_)) { nodes } else { 1 };
    let ranks = options.ranks.or(program.rank_count).unwrap_or(alone);
    Ok((program, on(nodes, ranks), None))
}

/// The program of a recording, with what its replay has to say.
fn replayed(recording: Recording, options: &Question, on: &dyn Fn(usize, usize) -> Setting) -> Result<Understood, WhatIfError> {
    let made = recording.made.clone();
    if let Some(ranks) = options.ranks.filter(|ranks| *ranks != made.ranks) {
        return Err(WhatIfError::Options(format!(
            "--ranks cannot be {ranks}: {} were recorded, and each did its own part",
            made.ranks
        )));
    }
    let asked = on(options.nodes.unwrap_or(made.nodes), made.ranks);
    let here = Setting {
        hosts: 1,
        nodes: made.nodes,
        is_blocked: false,
        cores: asked.costs.cores,
        network: Network::here(),
        topology: Kind::Switch,
        is_traced: false,
        ..asked.clone()
    };
    let recorded_crowd = Some(made.ranks as f64 / here.cores as f64);
    let nodes_asked = recording.nodes_asked();
    let (program, replay) = replay::replay(recording, &Setting { recorded_crowd, ..here })?;
    let mut objections = replay.objections();
    if !made.host.is_empty() && made.host != asked.costs.host {
        objections.push(format!("it was recorded on {}, and the calibration is of {}", made.host, asked.costs.host));
    }
    if nodes_asked > made.nodes {
        let last = nodes_asked - 1;
        objections
            .push(format!("it asked node {last} where {} nodes were started: the pool has nodes of other hosts", made.nodes));
    }
    Ok((program, Setting { recorded_crowd, ..asked }, Some((replay, objections))))
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

#[cfg(test)]
mod tests {
    use super::*;
    use costs::round_numbers;

    /// One rank gets 8 B of a node, and 10 us are recorded for it.
    fn recording(node: usize, host: &str) -> Recording {
        let text = format!(
            r#"[{{"ph":"B","name":"get","cat":"command","ts":10,"args":{{"bytes":8}}}},
                {{"ph":"b","name":"request to node {node}","cat":"request","ts":11,"id2":1,"args":{{"kind":"commands","bytes_sent":64}}}},
                {{"ph":"e","name":"request to node {node}","cat":"request","ts":19,"id2":1,"args":{{"bytes_received":8}}}},
                {{"ph":"E","name":"get","cat":"command","ts":20}}]"#
        );
        let made = recording::RecordedRun { program: Vec::new(), nodes: 2, ranks: 1, host: host.to_string() };
        recording::parse(made, &[text]).unwrap()
    }

    #[test]
    fn a_recording_of_another_host_or_of_several_is_objected_to() {
        let options = Question {
            source: ProgramSource::App(String::new()),
            network: "here".to_string(),
            against: None,
            nodes: None,
            ranks: None,
            cores: None,
            is_blocked: false,
            topology: "switch".to_string(),
            sweep: None,
            may_go_beyond: false,
            plot: None,
            timeline: None,
            json: false,
        };
        let on = |nodes: usize, ranks: usize| Setting {
            hosts: 1,
            nodes,
            ranks,
            is_blocked: false,
            cores: 2,
            network: Network::here(),
            topology: Kind::Switch,
            costs: round_numbers(),
            recorded_crowd: None,
            is_held_up: false,
            is_traced: false,
            is_timed: false,
        };
        let objections = |recording: Recording, options: &Question| {
            let (_, setting, replay) = replayed(recording, options, &on).unwrap();
            assert_eq!((setting.nodes, setting.ranks, setting.recorded_crowd), (2, 1, Some(0.5)));
            replay.unwrap().1
        };
        // The get costs 10 us and its bytes.
        assert_eq!(objections(recording(1, "test"), &options), Vec::<String>::new());
        assert_eq!(objections(recording(1, ""), &options), Vec::<String>::new(), "of an older one nothing says where");
        assert!(objections(recording(1, "elsewhere"), &options)[0].contains("recorded on elsewhere"));
        assert!(objections(recording(2, "test"), &options).iter().any(|line| line.contains("asked node 2 where 2 nodes")));
        let more = Question { ranks: Some(2), ..options };
        assert!(replayed(recording(1, "test"), &more, &on).err().unwrap().to_string().contains("--ranks cannot be 2"));
    }
}
