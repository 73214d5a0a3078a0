//! The connection from a node to another. It is made on demand, made again when it breaks, and given up with the node.
//!
//! ```text
//!           Want               Make
//!   Down ----------> Dialing ----------> Up
//!    ^                | |  ^  ^           |
//!    +---- GiveUp ----+ |  |  +-- Break --+
//!                  Fail v  | Due
//!                      Waiting -- Make --> Up
//! ```
//!
//! A node that was not reached for [`REACH_MS`] since the connection broke, or was first wanted, is lost. One try is under way at a time,
//! and one connection is there at most. A second that comes late is closed.

use crate::limits::{DIAL_AGAIN_MS, REACH_MS};
use crate::table::{self, Row};

/// State of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Not wanted yet.
    Down,
    /// A try is under way.
    Dialing,
    /// The last try failed: the next follows after a pause.
    Waiting,
    /// Connected.
    Up,
}

/// An event of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Something is to be said.
    Want,
    /// A try succeeds.
    Make,
    /// A try fails.
    Fail,
    /// The pause after a failure is over.
    Due,
    /// The connection breaks.
    Break,
    /// The node was not reached for too long.
    GiveUp,
}

/// The transitions.
pub const TABLE: &[Row<Phase, Event>] = &[
    Row { event: Event::Want, from: &[Phase::Down], to: Phase::Dialing },
    Row { event: Event::Make, from: &[Phase::Dialing, Phase::Waiting], to: Phase::Up },
    Row { event: Event::Fail, from: &[Phase::Dialing], to: Phase::Waiting },
    Row { event: Event::Due, from: &[Phase::Waiting], to: Phase::Dialing },
    Row { event: Event::Break, from: &[Phase::Up], to: Phase::Dialing },
    Row { event: Event::GiveUp, from: &[Phase::Dialing], to: Phase::Down },
];

/// Result of a try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialed {
    /// The connection is there: what was not confirmed goes over it.
    Up,
    /// Another is there: this one is closed.
    Spare,
    /// Tried again after a while.
    Again,
    /// The node was not reached for too long: it is lost.
    Lost,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State<P> {
    Down,
    Dialing { since_ms: u64 },
    Waiting { since_ms: u64, again_ms: u64 },
    Up(P),
}

/// The connection to one node. `P` names one that is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dialing<P>(State<P>);

impl<P> Default for Dialing<P> {
    fn default() -> Dialing<P> {
        Dialing(State::Down)
    }
}

impl<P: Copy + PartialEq> Dialing<P> {
    /// The connection's phase.
    pub fn phase(&self) -> Phase {
        match self.0 {
            State::Down => Phase::Down,
            State::Dialing { .. } => Phase::Dialing,
            State::Waiting { .. } => Phase::Waiting,
            State::Up(_) => Phase::Up,
        }
    }

    fn may(&self, event: Event) -> bool {
        table::next(TABLE, self.phase(), event).is_some()
    }

    /// The connection, if it is there.
    pub fn place(&self) -> Option<P> {
        match self.0 {
            State::Up(place) => Some(place),
            _ => None,
        }
    }

    /// A message is to be sent. Returns true if the node is to be dialed.
    #[must_use = "it is to be dialed"]
    pub fn want(&mut self, now_ms: u64) -> bool {
        let begins = self.may(Event::Want);
        if begins {
            self.0 = State::Dialing { since_ms: now_ms };
        }
        begins
    }

    /// Reports a try: a connection, or none.
    pub fn tried(&mut self, made: Option<P>, now_ms: u64) -> Dialed {
        match (made, self.0) {
            (Some(place), _) if self.may(Event::Make) => {
                self.0 = State::Up(place);
                Dialed::Up
            }
            (Some(_), _) => Dialed::Spare,
            (None, State::Dialing { since_ms }) if now_ms.saturating_sub(since_ms) >= REACH_MS => {
                self.0 = State::Down;
                Dialed::Lost
            }
            (None, State::Dialing { since_ms }) => {
                self.0 = State::Waiting { since_ms, again_ms: now_ms.saturating_add(DIAL_AGAIN_MS) };
                Dialed::Again
            }
            // A try for a connection that has ended since.
            (None, _) => Dialed::Spare,
        }
    }

    /// Time passes. Returns whether the node is to be dialed again.
    #[must_use = "it is to be dialed"]
    pub fn is_due(&mut self, now_ms: u64) -> bool {
        let State::Waiting { since_ms, again_ms } = self.0 else { return false };
        let is_due = again_ms <= now_ms && self.may(Event::Due);
        if is_due {
            self.0 = State::Dialing { since_ms };
        }
        is_due
    }

    /// A connection has ended. Returns whether it was this one, and the node is to be dialed.
    #[must_use = "it is to be dialed"]
    pub fn ended(&mut self, place: P, now_ms: u64) -> bool {
        let breaks = self.place() == Some(place) && self.may(Event::Break);
        if breaks {
            self.0 = State::Dialing { since_ms: now_ms };
        }
        breaks
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_table_is_that_in_the_text_and_says_one_thing() {
        assert_eq!(table::print(TABLE), include_str!("dialing.txt"));
        assert_eq!(table::contradiction(TABLE), None);
    }

    proptest! {
        /// Tries do not overlap. A node is lost only where it was not reached for the whole patience, and always then.
        #[test]
        fn a_node_is_dialed_once_at_a_time_and_lost_when_it_was_not_reached(steps in prop::collection::vec((0..6u8, 1..200u64), 1..200)) {
            let (mut dialing, mut now_ms, mut tries, mut place) = (Dialing::<u64>::default(), 0, 0, 0);
            // Since when it is not reached, if it was wanted.
            let mut since_ms = None;
            for (step, some) in steps {
                now_ms += some;
                match step {
                    0 => {
                        let begins = dialing.want(now_ms);
                        prop_assert_eq!(begins, since_ms.is_none() && dialing.place().is_none());
                        tries += u32::from(begins);
                        since_ms = if begins { Some(now_ms) } else { since_ms };
                    }
                    1 if tries > 0 => {
                        tries -= 1;
                        place += 1;
                        prop_assert_eq!(dialing.tried(Some(place), now_ms), Dialed::Up);
                        since_ms = None;
                    }
                    2 if tries > 0 => {
                        tries -= 1;
                        let is_late = now_ms - since_ms.expect("it is tried") >= REACH_MS;
                        prop_assert_eq!(dialing.tried(None, now_ms), if is_late { Dialed::Lost } else { Dialed::Again });
                        if is_late {
                            since_ms = None;
                        }
                    }
                    3 => tries += u32::from(dialing.is_due(now_ms)),
                    4 => {
                        let is_up = dialing.place() == Some(place);
                        prop_assert_eq!(dialing.ended(place, now_ms), is_up);
                        (tries, since_ms) = if is_up { (tries + 1, Some(now_ms)) } else { (tries, since_ms) };
                    }
                    _ => if dialing.place().is_some() {
                        prop_assert_eq!(dialing.tried(Some(place + 1), now_ms), Dialed::Spare);
                    },
                }
                prop_assert!(tries <= 1);
                prop_assert_eq!(tries == 1, dialing.phase() == Phase::Dialing);
            }
        }
    }
}
