//! Knowledge of a call that failed.

use serde::{Deserialize, Serialize};

/// Effect of a failed call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Happened {
    /// No effect.
    No,
    /// All of it was done; only the answer is missing.
    Yes,
    /// Perhaps an effect, in part or whole.
    Unknown,
}

impl std::fmt::Display for Happened {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Happened::No => "did not happen; it may be repeated",
            Happened::Yes => "happened; its answer is lost",
            Happened::Unknown => "may or may not have happened",
        })
    }
}
