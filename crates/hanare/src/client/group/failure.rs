//! Why a group cannot go on. Who finds out tells all: nobody waits for what does not come.

use hanare_protocol::collective::header::PartHeaderKind;
use hanare_protocol::{Error, Result};

/// Why an operation failed.
#[derive(Clone, Debug)]
pub(super) enum Failure {
    /// A party is gone.
    Gone {
        party: u32,
        reason: String,
        /// Left in good order.
        has_left: bool,
        /// Another party has told all.
        is_told: bool,
    },
    /// The parties' calls do not fit together, or one of them cannot go on.
    Unlike { reason: String, is_told: bool },
    /// Anything else that happened to this party.
    Own(Error),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        match error {
            Error::RankGone { rank, reason } => Failure::Gone { party: rank.0, reason, has_left: false, is_told: false },
            other => Failure::Own(other),
        }
    }
}

/// Result of an operation inside this party.
pub(super) type Outcome<T> = Result<T, Failure>;

impl Failure {
    pub fn gone(party: u32, reason: &str) -> Failure {
        Failure::Gone { party, reason: reason.to_owned(), has_left: false, is_told: false }
    }

    pub fn left(party: u32) -> Failure {
        Failure::Gone { party, reason: "it left".to_owned(), has_left: true, is_told: false }
    }

    pub fn unlike(reason: String) -> Failure {
        Failure::Unlike { reason, is_told: false }
    }

    /// An error at the way to a party: where that is gone, the party is.
    pub fn on_the_way(party: u32, error: Error) -> Failure {
        match error {
            Error::ReaderGone { .. } => Failure::gone(party, "its process or its connection ended"),
            Error::UnknownRegion { .. } => Failure::left(party),
            error @ (Error::NodeLost { .. } | Error::RegionLost { .. }) => Failure::gone(party, &error.to_string()),
            other => Failure::from(other),
        }
    }

    /// News for others: the kind, the party that is gone, and words. `None` where they know.
    pub fn news(&self) -> Option<(PartHeaderKind, u32, String)> {
        match self {
            Failure::Gone { party, reason, is_told: false, .. } => Some((PartHeaderKind::Gone, *party, reason.clone())),
            Failure::Unlike { reason, is_told: false } => Some((PartHeaderKind::Unlike, 0, reason.clone())),
            Failure::Own(error) => Some((PartHeaderKind::Unlike, 0, error.to_string())),
            Failure::Gone { .. } | Failure::Unlike { .. } => None,
        }
    }
}
