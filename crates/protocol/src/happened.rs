//! Knowledge of a call that failed.

use crate::error::Error;
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

impl Error {
    /// Tells whether the failed call may have changed anything.
    pub fn happened(&self) -> Happened {
        match self {
            Error::Broken { happened, .. } => *happened,
            Error::Timeout { .. }
            | Error::NodeLost { .. }
            | Error::Garbage { .. }
            | Error::System { .. }
            | Error::PageLost { .. }
            | Error::NotAWriter { .. } => Happened::Unknown,
            _ => Happened::No,
        }
    }

    /// True if the same call can succeed later without the caller changing it.
    pub fn may_retry(&self) -> bool {
        matches!(
            self,
            Error::Broken { happened: Happened::No, .. }
                | Error::Timeout { .. }
                | Error::NodeLost { .. }
                | Error::NoCoordinator { .. }
                | Error::NoNode { .. }
                | Error::PoolFull { .. }
                | Error::NotInTime { .. }
                | Error::HeapFull { .. }
                | Error::QueueFull { .. }
                | Error::SecondReader { .. }
                | Error::ReaderGone { .. }
        )
    }
}
