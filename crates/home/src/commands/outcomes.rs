//! Outcomes of requests whose connections have ended. A client asks for them before it repeats a request that must not be done twice.

use hanare_protocol::error::Happened;
use hanare_protocol::wire::exchange::Question;
use std::collections::VecDeque;

/// Connections remembered: a client asks at once, so these are the last seconds' breaks.
const ENDED_LINK_COUNT_MAX: usize = 1024;

/// Outcomes of a connection's requests, after its end.
#[derive(Debug)]
pub struct LinkOutcomes {
    /// The last request that was begun.
    pub(super) last: u64,
    /// The last request whose failure is not remembered any more.
    pub(super) forgotten: u64,
    /// Requests that were refused, or not done to the end.
    pub(super) requests: Vec<(u64, Happened)>,
}

impl LinkOutcomes {
    /// The outcome of a request.
    pub fn happened(&self, seq: u64) -> Happened {
        match self.requests.iter().find(|(known, _)| *known == seq) {
            _ if seq > self.last => Happened::No,
            Some((_, happened)) => *happened,
            None if seq <= self.forgotten => Happened::Unknown,
            None => Happened::Yes,
        }
    }
}

/// Connections that have ended, by their clients' names for them.
#[derive(Debug, Default)]
pub struct EndedLinks(VecDeque<(u128, LinkOutcomes)>);

impl EndedLinks {
    /// Remembers a connection.
    pub fn remember(&mut self, name: u128, outcomes: LinkOutcomes) {
        if self.0.len() == ENDED_LINK_COUNT_MAX {
            self.0.pop_front();
        }
        self.0.push_back((name, outcomes));
    }

    /// The outcome of a request.
    pub fn happened(&self, question: Question) -> Happened {
        let ended = self.0.iter().find(|(name, _)| *name == question.connection);
        match ended {
            Some((_, outcomes)) => outcomes.happened(question.seq),
            // Its name comes before its first such request on the same link. What was never named did nothing, what was forgotten is
            // unknown.
            None => Happened::Unknown,
        }
    }
}
