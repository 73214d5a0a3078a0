//! The report: every claim of the five papers beside what the models say and what was measured here.
//!
//! [`gather()`] runs every experiment at its defaults; from that come one self-contained HTML page ([`write()`]) and one
//! JSON object ([`json()`]).
use std::collections::BTreeMap;
use std::path::Path;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::claim::Verdict;

mod cite;
mod claim_card;
mod features;
mod figures;
mod findings;
mod gather;
mod html;
mod json;
mod predictions;
mod style;

pub use features::{Place, features_markdown, features_toml, recorded, scan};
pub use gather::{Gathered, Row, gather};

/// What a bench measured for a claim on this machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measured {
    /// The value with its unit, as one short text.
    pub value: String,
    /// What the bench says of the claim.
    pub verdict: Verdict,
}

/// Measurements by claim id.
pub type Measurements = BTreeMap<String, Measured>;

/// When and of what a page was made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub struct Made {
    /// The day, `2026-01-31`.
    pub date: String,
    /// The version of the program.
    pub version: String,
    /// The commit of its sources; empty where it is not known.
    pub commit: String,
}

/// What a report came to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Claims of each verdict, in the order of [`Verdict::ALL`].
    pub counts: [usize; 7],
}

impl std::fmt::Display for Summary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let each = Verdict::ALL.iter().zip(self.counts).map(|(verdict, count)| format!("{count} {}", verdict.name()));
        f.write_str(&each.collect::<Vec<_>>().join(", "))
    }
}

/// Why there is no report; one line.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ReportError {
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
        /// The system's message.
        problem: String,
    },
}

/// Writes the page to `out`.
///
/// **Errors**: [`ReportError::Write`].
pub fn write(out: &Path, gathered: &Gathered, made: &Made) -> Result<Summary, ReportError> {
    std::fs::write(out, html::page(gathered, made))
        .map_err(|error| ReportError::Write { file: out.display().to_string(), problem: error.to_string() })?;
    Ok(gathered.summary())
}

/// Everything the page says of claims and plots, as JSON with a newline at the end.
pub fn json(gathered: &Gathered, made: &Made) -> String {
    json::report(gathered, made)
}
