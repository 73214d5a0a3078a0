//! The effect of a failed call, and if the call may be repeated.

use super::{Error, Happened};

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
