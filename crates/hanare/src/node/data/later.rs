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

    /// When it is time to send them at the latest; `None` where there are none. A thread that sleeps wakes for it: to send each before it sleeps
    /// costs more than the sleep.
    pub fn due_at(&self) -> Option<Instant> {
        self.since.map(|since| since + Duration::from_micros(LATER_ANSWER_US))
    }

    /// Whether it is time to send them.
    pub fn is_due(&self) -> bool {
        self.held.len() >= LATER_ANSWER_COUNT_MAX || self.due_at().is_some_and(|at| Instant::now() >= at)
    }

    /// Gives all to a link that has nothing unsent.
    pub fn leave(&mut self, link: &mut dyn Link) -> Result<(), LinkError> {
        self.leaving.clear();
        self.leaving.append(&mut self.held);
        self.since = None;
        for (seq, result) in &self.leaving {
            let head = Head { body_len: result.len() as u64, ..Head::new(Kind::Done, *seq) };
            // SAFETY: the result stays as it is until the link has nothing unsent: this is called only then, and the session drops the
            // link before its replies.
            unsafe { link.send_later(&head, &[Window::of(result)])? };
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_due_when_they_are_many_or_old() {
        let mut later = LaterAnswers::default();
        assert_eq!((later.due_at(), later.is_due()), (None, false));
        for seq in 1..LATER_ANSWER_COUNT_MAX as u64 {
            later.hold(seq, Vec::new());
            // The first decides.
            later.since = Some(Instant::now() + Duration::from_secs(3600));
            assert!(!later.is_due(), "{seq} answers");
        }
        later.hold(LATER_ANSWER_COUNT_MAX as u64, Vec::new());
        assert!(later.is_due(), "many");
        let mut later = LaterAnswers::default();
        later.hold(1, Vec::new());
        later.since = later.since.and_then(|since| since.checked_sub(Duration::from_micros(LATER_ANSWER_US)));
        assert!(later.is_due() && later.due_at().is_some_and(|at| at <= Instant::now()), "old");
    }
}
