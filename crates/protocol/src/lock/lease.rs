//! The word of a lease of a lock. It decides, between a program and its node, whether the program may take the lock again without a
//! message.
//!
//! The home grants a lease to a program that has the lock alone. From there on the program gives the lock back and takes it again in a word
//! shared with its node. When another program wants the lock, the home asks the node, and the node answers by that word. No thread of the
//! program is woken. So a stopped or dead program delays nothing but the locks that it holds.
//!
//! ```text
//!            Ask            Lend           Keep
//!   Empty ---------> Asked ------> Held ---------> Kept
//!     ^                |            |  <---------   |
//!     |  End           | Recall     |     Take      | Recall
//!     |                v            v               v
//!     +------------- Wanted <-------+              Gone ---> End
//! ```
//!
//! | event | by | meaning |
//! |---|---|---|
//! | `Ask` | program | it asks the home for the lock by that number, and would keep it |
//! | `Lend` | program | the home granted it with a lease |
//! | `Keep`, `Take` | program | it gives the lock back, and has it again, without a message |
//! | `Recall` | node | the home wants it back; or the node is no member any more, so its leases end |
//! | `Recall` | program | it has no use for the lease any more |
//! | `End` | program | the home knows that the taking of that number is over |
//!
//! - A word is `Asked` before the request leaves, so a recall that overtakes the grant finds it.
//! - A word ends after the home has answered a message that says so. Until then a recall, or its repetition, finds the same answer.
//! - A program that finds its word `Wanted` gives the lock back by a message.
//!
//! Beside the words stands their time, by the clock of the host. They hold as long as the node is a member of the pool. A home that has had
//! no reply for twice that long goes on without it. A program takes the lock first and looks at the clock then. A node takes all words back
//! when another node is lost. That one may be the home of some of them and know nothing of them in its next life. It does so when it
//! becomes a member, too. Homes may have given up leases that were granted while it was none.

use crate::table::{self, Row};
use serde::{Deserialize, Serialize};

/// The states of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LeasePhase {
    /// The word has no lock.
    Empty,
    /// The lock was asked for.
    Asked,
    /// A thread of the program has the lock.
    Held,
    /// No thread has it, and the program may take it.
    Kept,
    /// `Asked` or `Held`, and the lock goes back by a message.
    Wanted,
    /// No thread has it, and the program may not take it.
    Gone,
}

/// An event of a word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeaseEvent {
    /// The lock is asked for.
    Ask,
    /// The lock is granted with a lease.
    Lend,
    /// A thread gives it back.
    Keep,
    /// A thread takes it.
    Take,
    /// The lease is recalled.
    Recall,
    /// The home knows that it is over.
    End,
}

/// Every transition of a word.
pub const TABLE: &[Row<LeasePhase, LeaseEvent>] = &[
    Row { event: LeaseEvent::Ask, from: &[LeasePhase::Empty], to: LeasePhase::Asked },
    Row { event: LeaseEvent::Lend, from: &[LeasePhase::Asked], to: LeasePhase::Held },
    Row { event: LeaseEvent::Lend, from: &[LeasePhase::Wanted], to: LeasePhase::Wanted },
    Row { event: LeaseEvent::Keep, from: &[LeasePhase::Held], to: LeasePhase::Kept },
    Row { event: LeaseEvent::Take, from: &[LeasePhase::Kept], to: LeasePhase::Held },
    Row { event: LeaseEvent::Recall, from: &[LeasePhase::Asked, LeasePhase::Held, LeasePhase::Wanted], to: LeasePhase::Wanted },
    Row { event: LeaseEvent::Recall, from: &[LeasePhase::Kept, LeasePhase::Gone], to: LeasePhase::Gone },
    Row {
        event: LeaseEvent::End,
        from: &[LeasePhase::Asked, LeasePhase::Held, LeasePhase::Wanted, LeasePhase::Gone],
        to: LeasePhase::Empty,
    },
];

/// In place of a taking's number: a home asks if the program lives. [`Recalled::Held`] says that it does, [`Recalled::Unknown`] that its node knows
/// nothing of it.
pub const PROGRAM_LIFE: u64 = u64::MAX;

/// A node's report on a recalled lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Recalled {
    /// No thread had it, and none takes it any more.
    Kept,
    /// A thread has it, or is about to have it, and gives it back by a message.
    Held,
    /// The node knows nothing of it.
    Unknown,
}

/// A word: its lock, by the number of the taking that it was leased by, and its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LeaseWord {
    /// The program's number of that taking.
    pub number: u64,
    /// The state.
    pub phase: LeasePhase,
}

/// Low bits of a word: its state.
const PHASE_BITS: u32 = 3;

/// In the order of their numbers in a word.
const PHASES: [LeasePhase; 6] =
    [LeasePhase::Empty, LeasePhase::Asked, LeasePhase::Held, LeasePhase::Kept, LeasePhase::Wanted, LeasePhase::Gone];

impl LeaseWord {
    /// True if a word has room for that number.
    pub fn has_room(number: u64) -> bool {
        number <= u64::MAX >> PHASE_BITS
    }

    /// A word of shared memory; anything that is none counts as empty.
    pub fn from_word(word: u64) -> LeaseWord {
        let phase = PHASES.get((word & ((1 << PHASE_BITS) - 1)) as usize).copied().unwrap_or(LeasePhase::Empty);
        LeaseWord { number: word >> PHASE_BITS, phase }
    }

    /// The word in shared memory; an empty one is zero.
    pub fn to_word(self) -> u64 {
        if self.phase == LeasePhase::Empty { 0 } else { self.number << PHASE_BITS | self.phase as u64 }
    }

    /// The word after an event. `None` where the table does not allow it.
    #[inline]
    pub fn after(self, event: LeaseEvent) -> Option<LeaseWord> {
        table::next(TABLE, self.phase, event).map(|phase| LeaseWord { phase, ..self })
    }

    /// A node's reply to a recall that made the word this one.
    pub fn recalled(self) -> Recalled {
        match self.phase {
            LeasePhase::Gone => Recalled::Kept,
            LeasePhase::Wanted => Recalled::Held,
            LeasePhase::Empty | LeasePhase::Asked | LeasePhase::Held | LeasePhase::Kept => Recalled::Unknown,
        }
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
Ask            Empty                              -> Asked
Lend           Asked                              -> Held
Lend           Wanted                             -> Wanted
Keep           Held                               -> Kept
Take           Kept                               -> Held
Recall         Asked, Held, Wanted                -> Wanted
Recall         Kept, Gone                         -> Gone
End            Asked, Held, Wanted, Gone          -> Empty
"
        );
    }

    #[test]
    fn a_word_is_its_number_and_its_state_and_rubbish_is_empty() {
        for number in [0, 7, u64::MAX >> PHASE_BITS] {
            assert!(LeaseWord::has_room(number));
            for (at, phase) in PHASES.into_iter().enumerate() {
                assert_eq!(phase as usize, at);
                let word = LeaseWord { number, phase };
                let number = if phase == LeasePhase::Empty { 0 } else { number };
                assert_eq!(LeaseWord::from_word(word.to_word()), LeaseWord { number, phase });
            }
        }
        assert!(!LeaseWord::has_room((u64::MAX >> PHASE_BITS) + 1));
        assert_eq!(LeaseWord::from_word(u64::MAX).phase, LeasePhase::Empty);
    }
}
