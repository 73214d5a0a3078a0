//! Barriers. They decide for a group's parties when all have met, and that no one waits for a party that is gone.
//!
//! Groups live at the pool's home node. The parties of a *named* group are clients that joined it ([`Groups`]). Those of a *job* are its
//! ranks, which need not join ([`Jobs`]). Both meet round after round, by the same machine:
//!
//! ```text
//!                  Meet
//!        +-------------------+   Go   +--------+
//!        |                   v        v        |
//!      Idle <----------- Gathering -----> Broken <-+ Meet, Go
//!   Join ^ |  MeetLast    ^ | Join          ^  | +-+
//!        +-+              +-+               |  |
//!        +-------------- Go ----------------+  |
//!                 GoLast (from any state)      +-----> Empty <-+ Meet, GoLast
//!                                                        +-----+
//! ```
//!
//! (`Repeat` leads from every state to itself.)
//!
//! | event | the reply |
//! |---|---|
//! | `Join` | that it is a party |
//! | `Meet` | nothing yet; when broken or empty: the failure, at once |
//! | `MeetLast` | everyone's release |
//! | `Repeat` of a round that completed | the release again, even when broken since |
//! | `Go` | the failure, to all that wait |
//!
//! An arrival may be repeated: while its round gathers that changes nothing.

mod jobs;
mod named;

pub use jobs::{Arrival, Jobs, RankAt};
pub use named::{Groups, PartySlot};

use crate::error::{Error, Result};
use crate::table::{self, Row};
use std::collections::BTreeSet;

/// The states of a group, as the table names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// No party waits.
    Idle,
    /// Some parties have arrived, some have not.
    Gathering,
    /// A party went: no round can complete any more.
    Broken,
    /// All parties went, as far as is known.
    Empty,
}

/// An event of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A client becomes a party.
    Join,
    /// A party arrives, and others are still missing.
    Meet,
    /// The last missing party arrives.
    MeetLast,
    /// A party repeats its arrival at a round that completed.
    Repeat,
    /// A party goes, and others are still there.
    Go,
    /// The last party goes.
    GoLast,
}

/// Every transition of a group.
pub const TABLE: &[Row<Phase, Event>] = &[
    Row { event: Event::Join, from: &[Phase::Idle], to: Phase::Idle },
    Row { event: Event::Join, from: &[Phase::Gathering], to: Phase::Gathering },
    Row { event: Event::Meet, from: &[Phase::Idle, Phase::Gathering], to: Phase::Gathering },
    Row { event: Event::Meet, from: &[Phase::Broken], to: Phase::Broken },
    Row { event: Event::Meet, from: &[Phase::Empty], to: Phase::Empty },
    Row { event: Event::MeetLast, from: &[Phase::Idle, Phase::Gathering], to: Phase::Idle },
    Row { event: Event::Repeat, from: &[Phase::Idle], to: Phase::Idle },
    Row { event: Event::Repeat, from: &[Phase::Gathering], to: Phase::Gathering },
    Row { event: Event::Repeat, from: &[Phase::Broken], to: Phase::Broken },
    Row { event: Event::Repeat, from: &[Phase::Empty], to: Phase::Empty },
    Row { event: Event::Go, from: &[Phase::Idle, Phase::Gathering, Phase::Broken], to: Phase::Broken },
    Row { event: Event::GoLast, from: &[Phase::Idle, Phase::Gathering, Phase::Broken, Phase::Empty], to: Phase::Empty },
];

/// Message to a party that arrived: of a group by its place, of a job by its rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartyReply<P> {
    /// The party. The driver knows on which link it waits.
    pub who: P,
    /// Success where all have arrived; the error names who went, or says why the arrival makes no sense.
    pub outcome: Result<()>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State<P> {
    /// Parties that have arrived at the round that gathers; empty while idle.
    Gathering { arrived: BTreeSet<P> },
    /// The error of every later arrival: it names the first party that went.
    Broken { why: Error },
    /// Broken like [`State::Broken`], and no party is left.
    Empty { why: Error },
}

/// The rounds of one group.
///
/// - `completed` rounds have released everyone: an arrival at one of them is a repetition.
/// - The caller knows the parties and their number.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Rounds<P> {
    completed: u64,
    state: State<P>,
}

impl<P: Copy + Ord> Rounds<P> {
    fn new() -> Rounds<P> {
        Rounds { completed: 0, state: State::Gathering { arrived: BTreeSet::new() } }
    }

    fn phase(&self) -> Phase {
        match &self.state {
            State::Gathering { arrived } if arrived.is_empty() => Phase::Idle,
            State::Gathering { .. } => Phase::Gathering,
            State::Broken { .. } => Phase::Broken,
            State::Empty { .. } => Phase::Empty,
        }
    }

    /// Checks a transition that was made against the table.
    fn assert_step(&self, from: Phase, event: Event) {
        assert_eq!(table::next(TABLE, from, event), Some(self.phase()), "{event:?} in {from:?}");
    }

    fn on_join(&self) {
        self.assert_step(self.phase(), Event::Join);
    }

    /// A party repeats its arrival at a round that completed.
    fn on_repeat(&self) {
        self.assert_step(self.phase(), Event::Repeat);
    }

    /// Rounds before `completed` have completed at another home. Returns the parties that wait at one of those.
    fn catch_up(&mut self, completed: u64) -> BTreeSet<P> {
        match &mut self.state {
            State::Gathering { arrived } if completed > self.completed => {
                self.completed = completed;
                std::mem::take(arrived)
            }
            _ => BTreeSet::new(),
        }
    }

    /// Refuses an arrival at a group that lost a party.
    fn check(&self) -> Result<()> {
        match &self.state {
            State::Gathering { .. } => Ok(()),
            State::Broken { why } | State::Empty { why } => {
                self.assert_step(self.phase(), Event::Meet);
                Err(why.clone())
            }
        }
    }

    /// True if a party waits.
    fn waits(&self, who: P) -> bool {
        matches!(&self.state, State::Gathering { arrived } if arrived.contains(&who))
    }

    /// Counts the arrival of one of `count` parties; returns the parties to release when it was the last.
    ///
    /// **Errors**: the one that names the first party that went.
    fn on_meet(&mut self, who: P, count: u32) -> Result<BTreeSet<P>> {
        self.check()?;
        let from = self.phase();
        let State::Gathering { arrived } = &mut self.state else { unreachable!("it is not broken") };
        arrived.insert(who);
        if arrived.len() < count as usize {
            self.assert_step(from, Event::Meet);
            return Ok(BTreeSet::new());
        }
        let released = std::mem::take(arrived);
        // The first arrival at a home that follows another may say any number.
        self.completed = self.completed.saturating_add(1);
        self.assert_step(from, Event::MeetLast);
        Ok(released)
    }

    /// A party goes, the last one or not; returns those who wait in vain.
    fn on_go(&mut self, why: Error, is_last: bool) -> BTreeSet<P> {
        let from = self.phase();
        let fresh = State::Gathering { arrived: BTreeSet::new() };
        let (waiting, first) = match std::mem::replace(&mut self.state, fresh) {
            State::Gathering { arrived } => (arrived, why),
            State::Broken { why } | State::Empty { why } => (BTreeSet::new(), why),
        };
        self.state = if is_last { State::Empty { why: first } } else { State::Broken { why: first } };
        self.assert_step(from, if is_last { Event::GoLast } else { Event::Go });
        waiting
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
Join           Idle                               -> Idle
Join           Gathering                          -> Gathering
Meet           Idle, Gathering                    -> Gathering
Meet           Broken                             -> Broken
Meet           Empty                              -> Empty
MeetLast       Idle, Gathering                    -> Idle
Repeat         Idle                               -> Idle
Repeat         Gathering                          -> Gathering
Repeat         Broken                             -> Broken
Repeat         Empty                              -> Empty
Go             Idle, Gathering, Broken            -> Broken
GoLast         Idle, Gathering, Broken, Empty     -> Empty
"
        );
    }
}
