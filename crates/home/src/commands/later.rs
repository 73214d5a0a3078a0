//! Answers that nobody waits for just now: held back, and sent in one call.
//!
//! ```text
//! hold ──> held ── many, old, or an answer that somebody waits for ──> leave ──> the link's next progress
//! ```

use hanare_protocol::limits::{LATER_ANSWER_COUNT_MAX, LATER_ANSWER_US};
use std::time::Duration;

/// The answers of one link, each with the number of its message, and the result of its command.
#[derive(Debug)]
pub(super) struct LaterAnswers<R> {
    held: Vec<(u64, R)>,
    /// When the first of them was held back.
    since: Option<Duration>,
    /// The driver's thread is about to sleep.
    is_hurried: bool,
}

impl<R> Default for LaterAnswers<R> {
    fn default() -> LaterAnswers<R> {
        LaterAnswers { held: Vec::new(), since: None, is_hurried: false }
    }
}

impl<R> LaterAnswers<R> {
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Holds an answer back.
    pub fn hold(&mut self, now: Duration, seq: u64, result: R) {
        self.since.get_or_insert(now);
        self.held.push((seq, result));
    }

    /// Answers that are held back go with the next turn. Returns true if there are any.
    pub fn hurry(&mut self) -> bool {
        self.is_hurried = !self.held.is_empty();
        self.is_hurried
    }

    /// Returns true when it is time to send them.
    pub fn is_due(&self, now: Duration) -> bool {
        let Some(since) = self.since else { return false };
        let is_old = || now.saturating_sub(since) >= Duration::from_micros(LATER_ANSWER_US);
        self.is_hurried || self.held.len() >= LATER_ANSWER_COUNT_MAX || is_old()
    }

    /// Gives all to the driver, which has nothing unsent.
    pub fn leave(&mut self, into: &mut Vec<(u64, R)>) {
        into.append(&mut self.held);
        (self.since, self.is_hurried) = (None, false);
    }
}
