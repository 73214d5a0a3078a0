//! The life of a client's request: decides when its outcome is known, and whether its node or its client carries it out.
//!
//! ```text
//!             Post           Answer, Lose
//!    Draft ────────> Sent ──────────────────> Over
//!      ^              │ Refuse                 ^ │
//!      │              v        Begin           │ │
//!      │           Refused ──────────> Here ───┘ │
//!      │                                 End     │
//!      └─────────────────────────────────────────┘
//!                         Clear
//! ```
//!
//! | event | what follows |
//! |---|---|
//! | `Answer`, `Lose`, `End` | the outcome is kept until its owner takes it |
//! | `Refuse` | programs have the region mapped: a thread of the client that asks next begins it |
//! | `Begin` | that thread has the commands; the end of the connection is nothing to them |

use crate::error::{Error, Result};
use crate::id::Gid;
use crate::table::{self, Row};

/// The states of a request, as the table names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// It is being filled, or put aside for its next use.
    Draft,
    /// Its node has it, or will.
    Sent,
    /// Its node has done nothing of it, since programs have its region mapped.
    Refused,
    /// A thread of the client carries it out.
    Here,
    /// Its outcome is known.
    Over,
}

/// What happens to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// It is given to a connection.
    Post,
    /// Its answer is whole.
    Answer,
    /// Its node refuses it because programs have its region mapped, and its client is to carry it out.
    Refuse,
    /// Its connection ends without an answer.
    Lose,
    /// A thread of the client begins it.
    Begin,
    /// That thread is done with it.
    End,
    /// Its owner has the outcome.
    Clear,
}

/// Every transition of a request.
pub const TABLE: &[Row<Phase, Event>] = &[
    Row { event: Event::Post, from: &[Phase::Draft], to: Phase::Sent },
    Row { event: Event::Answer, from: &[Phase::Sent], to: Phase::Over },
    Row { event: Event::Refuse, from: &[Phase::Sent], to: Phase::Refused },
    Row { event: Event::Lose, from: &[Phase::Sent], to: Phase::Over },
    Row { event: Event::Begin, from: &[Phase::Refused], to: Phase::Here },
    Row { event: Event::End, from: &[Phase::Here], to: Phase::Over },
    Row { event: Event::Clear, from: &[Phase::Over], to: Phase::Draft },
];

/// Where a request is in its life.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Life(State);

#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Draft,
    Sent,
    Refused(Gid),
    Here,
    Over(Result<()>),
}

impl Life {
    /// The state, as the table names it.
    pub fn phase(&self) -> Phase {
        match self.0 {
            State::Draft => Phase::Draft,
            State::Sent => Phase::Sent,
            State::Refused(_) => Phase::Refused,
            State::Here => Phase::Here,
            State::Over(_) => Phase::Over,
        }
    }

    /// Goes on to `to` and gives the state before.
    fn go(&mut self, event: Event, to: State) -> State {
        let from = self.phase();
        let before = std::mem::replace(&mut self.0, to);
        assert_eq!(table::next(TABLE, from, event), Some(self.phase()), "{event:?} in {from:?}");
        before
    }

    /// It is given to a connection.
    pub fn on_post(&mut self) {
        self.go(Event::Post, State::Sent);
    }

    /// Its answer is whole.
    pub fn on_answer(&mut self, outcome: Result<()>) {
        self.go(Event::Answer, State::Over(outcome));
    }

    /// Its node refused it because programs have that region mapped, and its client is to carry it out.
    pub fn on_refuse(&mut self, gid: Gid) {
        self.go(Event::Refuse, State::Refused(gid));
    }

    /// Its connection ended without an answer.
    pub fn on_lose(&mut self, error: Error) {
        self.go(Event::Lose, State::Over(Err(error)));
    }

    /// A thread of the client begins to carry it out; gives the region that it was refused for.
    pub fn on_begin(&mut self) -> Gid {
        match self.go(Event::Begin, State::Here) {
            State::Refused(gid) => gid,
            other => unreachable!("the table allows no {other:?}"),
        }
    }

    /// That thread is done with it.
    pub fn on_end(&mut self, outcome: Result<()>) {
        self.go(Event::End, State::Over(outcome));
    }

    /// Its owner takes the outcome.
    pub fn on_clear(&mut self) -> Result<()> {
        match self.go(Event::Clear, State::Draft) {
            State::Over(outcome) => outcome,
            other => unreachable!("the table allows no {other:?}"),
        }
    }

    /// The outcome, once it is known.
    pub fn outcome(&self) -> Option<&Result<()>> {
        match &self.0 {
            State::Over(outcome) => Some(outcome),
            _ => None,
        }
    }

    /// Whether its node may still answer.
    pub fn is_sent(&self) -> bool {
        self.0 == State::Sent
    }

    /// Whether its client has still to carry it out, or to end that.
    pub fn is_left(&self) -> bool {
        matches!(self.0, State::Refused(_) | State::Here)
    }

    /// Whether it waits for a thread of the client.
    pub fn is_refused(&self) -> bool {
        matches!(self.0, State::Refused(_))
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
Refuse         Sent                               -> Refused
Lose           Sent                               -> Over
Begin          Refused                            -> Here
End            Here                               -> Over
Clear          Over                               -> Draft
"
        );
    }

    #[test]
    fn a_request_that_its_client_carries_out_outlives_its_connection() {
        let mut life = Life::default();
        life.on_post();
        life.on_refuse(Gid(7));
        assert!(life.is_refused() && life.is_left() && !life.is_sent());
        assert_eq!(life.on_begin(), Gid(7));
        assert!(!life.is_refused() && life.is_left() && life.outcome().is_none());
        let outcome = Err(Error::IsMapped { gid: Gid(7) });
        life.on_end(outcome.clone());
        assert!(!life.is_left(), "an outcome is the last, whatever it is");
        assert_eq!(life.outcome(), Some(&outcome));
        assert_eq!(life.on_clear(), outcome);
        assert_eq!(life, Life::default());
    }

    #[test]
    #[should_panic(expected = "Answer in Over")]
    fn an_answer_that_comes_twice_is_no_step() {
        let mut life = Life::default();
        life.on_post();
        life.on_answer(Ok(()));
        life.on_answer(Ok(()));
    }
}
