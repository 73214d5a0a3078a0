//! The model command as functions: the command line only forwards to [`list()`] and [`run()`] and prints what they return.
use std::path::PathBuf;

use serde::Deserialize;
use thiserror::Error;

use crate::experiment::{Experiment, Paper};
use crate::network::NetworkError;
use crate::parameters::ParameterError;

mod list;
mod run;
mod sweep;

pub use list::list;
pub use run::run;

/// The experiment name that runs all of a paper's.
pub const ALL: &str = "all";

/// What `hanare model PAPER [EXPERIMENT]` was asked.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct Options {
    /// The paper's id.
    pub paper: String,
    /// The experiment's name, or [`ALL`]; none lists what there is.
    pub experiment: Option<String>,
    /// Whether to run the product's own protocol on the paper's hardware.
    pub is_product: bool,
    /// `KEY=VALUE`, each value with an optional unit.
    pub set: Vec<String>,
    /// `KEY=A..B`, `KEY=A..B..STEP` or `KEY=A..B*FACTOR`.
    pub sweep: Option<String>,
    /// The user's own network; see [`Network::read`](crate::network::Network::read).
    pub network: Option<PathBuf>,
    /// Where to write the experiment's plots, one below the other, as SVG.
    pub plot: Option<PathBuf>,
    /// Where to write the timing chart, for Perfetto.
    pub trace: Option<PathBuf>,
    /// JSON in place of text.
    pub json: bool,
}

/// Why a command was refused; one line each.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum CommandError {
    /// No paper of this id.
    #[error("{given}: no such paper (papers: {known})")]
    Paper {
        /// The id given.
        given: String,
        /// The ids there are.
        known: String,
    },
    /// No experiment of this name.
    #[error("{given}: {paper} has no such experiment (experiments: {known}, all)")]
    Experiment {
        /// The name given.
        given: String,
        /// The paper.
        paper: &'static str,
        /// The names there are.
        known: String,
    },
    /// A parameter was refused.
    #[error(transparent)]
    Parameter(#[from] ParameterError),
    /// A network file was refused.
    #[error(transparent)]
    Network(#[from] NetworkError),
    /// Options that do not fit together or to the experiment.
    #[error("{0}")]
    Options(String),
    /// The parameters cannot be run together.
    #[error("{experiment}: {reason}")]
    Refused {
        /// The experiment.
        experiment: &'static str,
        /// Which keys collide, and how.
        reason: String,
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

fn find_paper(id: &str) -> Result<&'static Paper, CommandError> {
    crate::papers::find(id).ok_or_else(|| CommandError::Paper {
        given: id.to_string(),
        known: crate::papers().iter().map(|paper| paper.id).collect::<Vec<_>>().join(", "),
    })
}

fn find_experiments(paper: &'static Paper, name: &str) -> Result<Vec<&'static Experiment>, CommandError> {
    if name == ALL {
        return Ok(paper.experiments.iter().collect());
    }
    paper.experiment(name).map(|experiment| vec![experiment]).ok_or_else(|| CommandError::Experiment {
        given: name.to_string(),
        paper: paper.id,
        known: paper.experiments.iter().map(|experiment| experiment.name).collect::<Vec<_>>().join(", "),
    })
}

fn write_file(path: &std::path::Path, text: &str) -> Result<(), CommandError> {
    std::fs::write(path, text)
        .map_err(|error| CommandError::Write { file: path.display().to_string(), problem: error.to_string() })
}
