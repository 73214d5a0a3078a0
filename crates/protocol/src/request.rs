//! The life of a client's request: decides when its outcome is known, and who still waits for it.
//!
//! ```text
//!             Post           Answer, Lose           Clear
//!    Draft ────────> Sent ──────────────────> Over ───────> Draft
//!                     │ Forsake                │ Forsake
//!                     v      Answer, Lose      v    Clear
//!                 Forsaken ────────────────> Spent ───────> Draft
//! ```
//!
//! The outcome is kept until its owner takes it. A request that nobody waits for stays until its node has answered, because the
//! answer must find it.

use crate::error::{Error, Result};
use crate::table::{self, Row};

/// The states of a request, as the table names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The request is being filled, or put aside for its next use.
    Draft,
    /// Its node has it, or will.
    Sent,
    /// Its outcome is known.
    Over,
    /// Its node has it, or will, and nobody waits for the answer.
    Forsaken,
    /// Its outcome is known, and nobody waits for it.
    Spent,
}

/// An event of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The request is given to a connection.
    Post,
    /// Its answer is whole.
    Answer,
    /// Its connection ends without an answer.
    Lose,
    /// Its owner does not wait any longer.
    Forsake,
    /// Its owner has the outcome.
    Clear,
}

/// Every transition of a request.
pub const TABLE: &[Row<Phase, Event>] = &[
    Row { event: Event::Post, from: &[Phase::Draft], to: Phase::Sent },
    Row { event: Event::Answer, from: &[Phase::Sent], to: Phase::Over },
    Row { event: Event::Answer, from: &[Phase::Forsaken], to: Phase::Spent },
    Row { event: Event::Lose, from: &[Phase::Sent], to: Phase::Over },
    Row { event: Event::Lose, from: &[Phase::Forsaken], to: Phase::Spent },
    Row { event: Event::Forsake, from: &[Phase::Sent], to: Phase::Forsaken },
    Row { event: Event::Forsake, from: &[Phase::Over], to: Phase::Spent },
    Row { event: Event::Clear, from: &[Phase::Over, Phase::Spent], to: Phase::Draft },
];

/// State of a request's life.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestLife(State);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Draft,
    Sent,
    Over(Result<()>),
    Forsaken,
    Spent(Result<()>),
}

impl RequestLife {
    /// The state, as the table names it.
    pub fn phase(&self) -> Phase {
        match self.0 {
            State::Draft => Phase::Draft,
            State::Sent => Phase::Sent,
            State::Over(_) => Phase::Over,
            State::Forsaken => Phase::Forsaken,
            State::Spent(_) => Phase::Spent,
        }
    }

    /// Goes on to `to` and gives the state before.
    fn go(&mut self, event: Event, to: State) -> State {
        let from = self.phase();
        let before = std::mem::replace(&mut self.0, to);
        assert_eq!(table::next(TABLE, from, event), Some(self.phase()), "{event:?} in {from:?}");
        before
    }

    /// The request is given to a connection.
    pub fn on_post(&mut self) {
        self.go(Event::Post, State::Sent);
    }

    /// Its answer is whole.
    pub fn on_answer(&mut self, outcome: Result<()>) {
        self.go(Event::Answer, self.end(outcome));
    }

    /// Its connection ended without an answer.
    pub fn on_lose(&mut self, error: Error) {
        self.go(Event::Lose, self.end(Err(error)));
    }

    /// Its owner does not wait any longer, or does not ask for the outcome.
    pub fn on_forsake(&mut self) {
        let to = if let State::Over(outcome) = &self.0 { State::Spent(outcome.clone()) } else { State::Forsaken };
        self.go(Event::Forsake, to);
    }

    /// The state that an outcome leads to.
    fn end(&self, outcome: Result<()>) -> State {
        if self.0 == State::Forsaken { State::Spent(outcome) } else { State::Over(outcome) }
    }

    /// Its owner takes the outcome.
    pub fn on_clear(&mut self) -> Result<()> {
        match self.go(Event::Clear, State::Draft) {
            State::Over(outcome) | State::Spent(outcome) => outcome,
            other => unreachable!("the table allows no {other:?}"),
        }
    }

    /// The outcome, once it is known.
    pub fn outcome(&self) -> Option<&Result<()>> {
        match &self.0 {
            State::Over(outcome) | State::Spent(outcome) => Some(outcome),
            State::Draft | State::Sent | State::Forsaken => None,
        }
    }

    /// True if its node may still reply.
    pub fn is_sent(&self) -> bool {
        matches!(self.0, State::Sent | State::Forsaken)
    }

    /// True if its outcome is known, and nobody waits for it.
    pub fn is_spent(&self) -> bool {
        matches!(self.0, State::Spent(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_this() {
        assert_eq!(table::contradiction(TABLE), None);
        assert_eq!(
            table::print(TABLE),
            "\
Post           Draft                              -> Sent
Answer         Sent                               -> Over
Answer         Forsaken                           -> Spent
Lose           Sent                               -> Over
Lose           Forsaken                           -> Spent
Forsake        Sent                               -> Forsaken
Forsake        Over                               -> Spent
Clear          Over, Spent                        -> Draft
"
        );
    }

    #[test]
    fn an_outcome_is_kept_until_it_is_taken() {
        let mut life = RequestLife::default();
        life.on_post();
        assert!(life.is_sent() && life.outcome().is_none());
        let outcome = Err(Error::NodeLost { node: crate::id::NodeId(1), reason: "gone".to_owned() });
        life.on_answer(outcome.clone());
        assert!(!life.is_sent());
        assert_eq!(life.outcome(), Some(&outcome));
        assert_eq!(life.on_clear(), outcome);
        assert_eq!(life, RequestLife::default());
    }

    #[test]
    fn what_nobody_waits_for_stays_until_it_is_answered() {
        let mut life = RequestLife::default();
        life.on_post();
        life.on_forsake();
        assert!(life.is_sent() && !life.is_spent());
        life.on_answer(Ok(()));
        assert!(life.is_spent() && !life.is_sent());
        assert_eq!((life.on_clear(), life), (Ok(()), RequestLife::default()));
    }

    #[test]
    fn an_outcome_that_nobody_asks_for_is_spent() {
        let mut life = RequestLife::default();
        life.on_post();
        life.on_answer(Ok(()));
        life.on_forsake();
        assert!(life.is_spent() && !life.is_sent());
        assert_eq!((life.on_clear(), life), (Ok(()), RequestLife::default()));
    }

    #[test]
    #[should_panic(expected = "Answer in Over")]
    fn an_answer_that_comes_twice_is_no_step() {
        let mut life = RequestLife::default();
        life.on_post();
        life.on_answer(Ok(()));
        life.on_answer(Ok(()));
    }
}
