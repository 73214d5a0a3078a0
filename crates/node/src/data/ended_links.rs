//! What is known of connections that have ended, for clients that ask what became of a request that must not be repeated.

use super::session::{LinkOutcomes, Session};
use hanare_protocol::error::Happened;
use hanare_protocol::wire::exchange::Question;
use std::collections::VecDeque;

/// Connections remembered: a client asks at once, so these are the last seconds' breaks.
const ENDED_LINK_COUNT_MAX: usize = 1024;

#[derive(Default)]
pub(crate) struct EndedLinks(VecDeque<(u128, LinkOutcomes)>);

impl EndedLinks {
    /// Remembers a connection, if its client gave it a name.
    pub fn remember(&mut self, session: &Session) {
        let Some(name) = session.name() else { return };
        if self.0.len() == ENDED_LINK_COUNT_MAX {
            self.0.pop_front();
        }
        self.0.push_back((name, session.outcomes()));
    }

    /// What became of a request.
    pub fn happened(&self, question: Question) -> Happened {
        let ended = self.0.iter().find(|(name, _)| *name == question.connection);
        match ended {
            Some((_, outcomes)) => outcomes.happened(question.seq),
            // Its name comes before its first such request on the same link: what was never named did nothing, what was forgotten is unknown.
            None => Happened::Unknown,
        }
    }
}
