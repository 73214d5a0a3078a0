//! Predictions: the question put to the model, and this host's calibration, read, fitted and compared.

use anyhow::{Context, Result, bail, ensure};
use hanare_model::network::Network;
use hanare_model::report::Made;
use hanare_model::what_if::calibrate::{self, Measured, Provenance, Quietness};
use hanare_model::what_if::costs::SoftwareCosts;
use hanare_model::what_if::kept::KeptComparisons;
use hanare_model::what_if::{self, ProgramSource, Question, show};
use serde::Deserialize;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The words of `hanare what-if`, with what it found out for them.
#[derive(Deserialize)]
pub struct WhatIfWords {
    app: Option<String>,
    trace: Option<PathBuf>,
    pattern: Option<String>,
    network: String,
    against: Option<String>,
    nodes: Option<usize>,
    ranks: Option<usize>,
    cores: Option<usize>,
    blocked: bool,
    topology: String,
    sweep: Option<String>,
    beyond: bool,
    keep: Option<PathBuf>,
    calibration: PathBuf,
    plot: Option<PathBuf>,
    timeline: Option<PathBuf>,
    json: bool,
    /// Present where single operations were measured: to calibrate by them, or to compare them.
    basics: Option<Basics>,
}

/// Measurements of single operations, and the host that they are of.
#[derive(Deserialize)]
struct Basics {
    is_to_calibrate: bool,
    rows: Vec<Measured>,
    node_share: f64,
    spread: f64,
    host: String,
    cores: usize,
    load: f64,
    /// `debug build` or `release build`.
    kind: String,
}

impl WhatIfWords {
    /// Calibrates, compares, or answers.
    pub fn answer(self, made: &Made) -> Result<String> {
        match &self.basics {
            Some(basics) if basics.is_to_calibrate => self.calibrate(basics, made),
            Some(basics) => self.compare(basics),
            None => {
                let costs = read(&self.calibration)?;
                Ok(what_if::run(&self.question()?, &costs)?)
            }
        }
    }

    fn question(self) -> Result<Question> {
        let source = match (self.app, self.trace, self.pattern) {
            (Some(app), _, _) => ProgramSource::App(app),
            (_, Some(folder), _) => ProgramSource::Recording(folder),
            (_, _, Some(text)) => ProgramSource::Pattern(text),
            _ => bail!("name a program, or give --pattern, --trace or --calibrate"),
        };
        Ok(Question {
            source,
            network: self.network,
            against: self.against,
            nodes: self.nodes,
            ranks: self.ranks,
            cores: self.cores,
            is_blocked: self.blocked,
            topology: self.topology,
            sweep: self.sweep,
            may_go_beyond: self.beyond,
            plot: self.plot,
            timeline: self.timeline,
            json: self.json,
        })
    }

    /// Fits and keeps. Measurements of a busy host are kept only where that is asked for.
    fn calibrate(&self, basics: &Basics, made: &Made) -> Result<String> {
        let Basics { rows, host, kind, cores, load, .. } = basics;
        let commit = if made.commit.is_empty() { "unknown commit" } else { &made.commit };
        let build = format!("hanare {} ({commit}, {kind})", made.version);
        // Another kind of build has other costs, and hosts may share a folder.
        let is_like_this = |before: &SoftwareCosts| {
            before.host == *host && before.cores == *cores && before.build.ends_with(&format!("{kind})"))
        };
        let before = read(&self.calibration).ok().filter(is_like_this);
        let quietness = Quietness { load: *load, cores: *cores, spread: basics.spread };
        let objections = quietness.objections(rows, before.as_ref());
        ensure!(
            objections.is_empty() || self.beyond,
            "this host is too busy to be calibrated: {}; try again when it is quiet, or keep it with --beyond",
            objections.join("; ")
        );
        let provenance = Provenance { host: host.clone(), date: made.date.clone(), build, cores: *cores, load: *load };
        let costs = calibrate::fit(provenance, rows, basics.node_share)?;
        if let Some(folder) = self.calibration.parent() {
            std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
        }
        std::fs::write(&self.calibration, costs.to_toml()).with_context(|| self.calibration.display().to_string())?;
        Ok(if self.json { format!("{}\n", serde_json::to_string(&costs)?) } else { show::calibration(&costs) })
    }

    /// Compares the measurements with what was predicted before.
    fn compare(&self, basics: &Basics) -> Result<String> {
        let (costs, network) = (read(&self.calibration)?, Network::find(&self.network)?);
        let comparison = calibrate::compare(&costs, &basics.rows, &network)?;
        let text = match self.json {
            true => format!("{}\n", show::comparison_json(&comparison)),
            false => show::comparison(&comparison, &costs),
        };
        if let Some(file) = &self.keep {
            let mut kept = match std::fs::read_to_string(file) {
                Ok(text) => KeptComparisons::from_toml(&text).with_context(|| file.display().to_string())?,
                Err(error) if error.kind() == ErrorKind::NotFound => KeptComparisons::default(),
                Err(error) => return Err(error).with_context(|| file.display().to_string()),
            };
            kept.take(comparison.clone());
            std::fs::write(file, kept.to_toml()).with_context(|| file.display().to_string())?;
        }
        if !comparison.holds() {
            // The comparison is shown, whatever comes of it.
            print!("{text}");
            bail!("the predictions over {} do not hold", network.name);
        }
        Ok(text)
    }
}

fn read(file: &Path) -> Result<SoftwareCosts> {
    match std::fs::read_to_string(file) {
        Ok(text) => SoftwareCosts::from_toml(&text).with_context(|| file.display().to_string()),
        Err(error) if error.kind() == ErrorKind::NotFound => {
            bail!(
                "what the software costs on this host was not measured ({} is not there); run hanare what-if --calibrate",
                file.display()
            )
        }
        Err(error) => Err(error).with_context(|| file.display().to_string()),
    }
}
