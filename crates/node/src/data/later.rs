//! Answers that nobody waits for just now: held back, and sent in one call.
//!
//! ```text
//! hold ──> held ── many, old, or an answer that somebody waits for ──> leave ──> the link's next progress
//! ```

use hanare_fabric::{Link, LinkError};
use hanare_memory::Window;
use hanare_protocol::limits::{LATER_ANSWER_COUNT_MAX, LATER_ANSWER_US};
use hanare_protocol::wire::head::{Head, Kind};
use std::time::{Duration, Instant};

/// The answers of one link.
#[derive(Default)]
pub(crate) struct LaterAnswers {
    /// Each with the number of its message, and its result.
    held: Vec<(u64, Vec<u8>)>,
    /// When the first of them was held back.
    since: Option<Instant>,
    /// Shown to the link until it has nothing unsent.
    leaving: Vec<(u64, Vec<u8>)>,
    /// Whether the thread is about to sleep.
    is_hurried: bool,
}

impl LaterAnswers {
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Holds an answer back.
    pub fn hold(&mut self, seq: u64, result: Vec<u8>) {
        self.since.get_or_insert_with(Instant::now);
        self.held.push((seq, result));
    }

    /// What is held back goes with the next turn. Whether there is any.
    pub fn hurry(&mut self) -> bool {
        self.is_hurried = !self.held.is_empty();
        self.is_hurried
    }

    /// Whether it is time to send them.
    pub fn is_due(&self) -> bool {
        let Some(since) = self.since else { return false };
        let is_old = || since.elapsed() >= Duration::from_micros(LATER_ANSWER_US);
        self.is_hurried || self.held.len() >= LATER_ANSWER_COUNT_MAX || is_old()
    }

    /// Gives all to a link that has nothing unsent.
    pub fn leave(&mut self, link: &mut dyn Link) -> Result<(), LinkError> {
        self.leaving.clear();
        self.leaving.append(&mut self.held);
        (self.since, self.is_hurried) = (None, false);
        for (seq, result) in &self.leaving {
            let head = Head { body_len: result.len() as u64, ..Head::new(Kind::Done, *seq) };
            // SAFETY: the result stays as it is until the link has nothing unsent: this is called only then, and the session drops the
            // link before its replies.
            unsafe { link.send_later(&head, &[Window::of(result)])? };
        }
        Ok(())
    }
}
