//! The report: every claim of the five papers beside what the models say and what was measured here.
//!
//! One self-contained HTML page ([`write()`]) or one JSON object ([`json()`]). Both run every experiment at its defaults.
//! A verdict that rests on a fit to its own claim stops the report: there is no page that shows one.
use std::collections::BTreeMap;
use std::path::Path;

use thiserror::Error;

use crate::claim::{Circular, Verdict};

mod features;
mod figures;
mod findings;
mod gather;
mod html;
mod json;

mod style;

pub use features::{Place, features_markdown, features_toml, recorded, scan};
pub use gather::{Gathered, Row, gather};

/// What a bench measured for a claim on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Measured {
    /// The value with its unit, as one short text.
    pub value: String,
    /// What the bench says of the claim.
    pub verdict: Verdict,
}

/// Measurements by claim id.
pub type Measurements = BTreeMap<String, Measured>;

/// What a report came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Claims a model or a bench showed.
    pub reproduced: usize,
    /// Claims that came out otherwise.
    pub differs: usize,
    /// Claims only the papers' hardware could show.
    pub hardware_only: usize,
    /// Claims nobody tried, each with its reason.
    pub not_tried: usize,
}

/// Why there is no report; one line.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ReportError {
    /// A verdict rests on a fit to its own claim.
    #[error(transparent)]
    Circular(#[from] Circular),
    /// An experiment refuses its own defaults, which is a defect of the model.
    #[error("{experiment} of {paper}: {reason}")]
    Refused {
        /// The paper.
        paper: &'static str,
        /// The experiment.
        experiment: &'static str,
        /// Why.
        reason: String,
    },
    /// A measurement names a claim that does not exist.
    #[error("{0}: no such claim; claims are D3-C1 to VQ-C14")]
    Claim(String),
    /// The page could not be written.
    #[error("{file}: {problem}")]
    Write {
        /// The file.
        file: String,
        /// What the system said.
        problem: String,
    },
}

/// Writes the page to `out`. `progress` hears, before each experiment, how many are done, how many there are, and its name,
/// and once more at the end.
///
/// **Errors**: [`ReportError`]; nothing is written where one occurs before the page is whole.
pub fn write(
    out: &Path,
    measured: Option<&Measurements>,
    progress: &mut dyn FnMut(usize, usize, &str),
) -> Result<Summary, ReportError> {
    let gathered = gather(crate::papers(), measured, progress)?;
    std::fs::write(out, html::page(&gathered))
        .map_err(|error| ReportError::Write { file: out.display().to_string(), problem: error.to_string() })?;
    Ok(gathered.summary())
}

/// The claims as JSON, `{"claims": [{"id", "paper", "model", "measured", "verdict", "calibrated_on"}]}`, with a newline at the end.
///
/// **Errors**: [`ReportError`], as [`write()`].
pub fn json(measured: Option<&Measurements>, progress: &mut dyn FnMut(usize, usize, &str)) -> Result<String, ReportError> {
    Ok(json::claims(&gather(crate::papers(), measured, progress)?))
}
