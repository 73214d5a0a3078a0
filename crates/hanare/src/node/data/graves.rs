//! What is known of connections that have ended, for clients that ask what became of a request that must not be repeated.

use super::session::{Epitaph, Session};
use hanare_protocol::error::Happened;
use hanare_protocol::wire::exchange::Question;
use std::collections::VecDeque;

/// Connections remembered: a client asks at once, so these are the last seconds' breaks.
const GRAVES_MAX: usize = 1024;

#[derive(Default)]
pub(crate) struct Graves(VecDeque<(u128, Epitaph)>);

impl Graves {
    /// Remembers a connection, if its client gave it a name.
    pub fn bury(&mut self, session: &Session) {
        let Some(name) = session.name() else { return };
        if self.0.len() == GRAVES_MAX {
            self.0.pop_front();
        }
        self.0.push_back((name, session.epitaph()));
    }

    /// What became of a request.
    pub fn happened(&self, question: Question) -> Happened {
        let grave = self.0.iter().find(|(name, _)| *name == question.connection);
        match grave {
            Some((_, epitaph)) => epitaph.happened(question.seq),
            // Its name comes before its first such request on the same link: what was never named did nothing, what was forgotten is unknown.
            None => Happened::Unknown,
        }
    }
}
