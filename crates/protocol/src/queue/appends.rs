//! The appends of a write port by their numbers, for the port's program. The rule says which are sent again, and which units count.
//!
//! ```text
//! begin ──> under way, the oldest first ── an answer ──> Counted
//!                  ^                          │
//!                  └── Again, Resume, Pause <─┴──> GiveUp: the port asks how many units count, and begins again behind those
//! ```
//!
//! | answer to the oldest | step |
//! |---|---|
//! | all its units count | `Counted` |
//! | there is no room, and writers of the queue wait for some | `Pause`, while the port is patient |
//! | the home asks the coordinator how much may be spilled | the same |
//! | an error after the first try: its connection broke, its grant is refused, one before it was not there | `Again` |
//! | the lane has lost its connection to the port | `Resume`, then again |
//! | no room, or another error after a further try | `GiveUp`, with all later ones |
//!
//! Units are numbered, so a repeated append counts once. A home refuses an append whose predecessor did not arrive, so units are read in the order of
//! sending. A repeated append goes to the home of that moment.

use super::home::{Appended, NoSpill};
use super::layout::Overflow;
use crate::Error;
use crate::limits::{QUEUE_BEGUN_COUNT_MAX, QUEUE_BEGUN_LEN_MAX};
use std::collections::VecDeque;

/// An append without an answer.
#[derive(Clone, Debug)]
pub struct BegunAppend<T> {
    /// The message, and its way.
    pub what: T,
    /// Number of the unit behind its last.
    pub end: u64,
    /// Bytes of the message.
    pub len: usize,
}

/// The next act of a port that has the answer to its oldest append.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppendStep {
    /// All its units count.
    Counted,
    /// The port sends it again, to the home of that moment.
    Again,
    /// The port resumes its lane, and sends it again.
    Resume,
    /// The port sends it again after a pause.
    Pause,
    /// The port gives it up, and all later ones with it.
    GiveUp,
}

/// Knowledge of a port beside an answer.
#[derive(Clone, Copy, Debug)]
pub struct AppendTerms {
    /// True for the answer to the first try, for which nobody waited at once.
    pub is_first: bool,
    /// True if another node becomes the queue's home where one is lost.
    pub moves: bool,
    /// The queue's treatment of units without room.
    pub overflow: Overflow,
    /// True if the port may resume its lane: the lane's connections have ended since a short time.
    pub may_resume: bool,
    /// True if the port still waits for room.
    pub is_patient: bool,
}

/// The appends of a port.
#[derive(Clone, Debug)]
pub struct AppendOrder<T> {
    under_way: VecDeque<BegunAppend<T>>,
    /// Bytes under way.
    len: usize,
    /// Units that count so far, and units that were sent.
    counted: u64,
    sent: u64,
}

impl<T> Default for AppendOrder<T> {
    fn default() -> AppendOrder<T> {
        AppendOrder { under_way: VecDeque::new(), len: 0, counted: 0, sent: 0 }
    }
}

impl<T> AppendOrder<T> {
    /// Units that count so far.
    pub fn counted(&self) -> u64 {
        self.counted
    }

    /// Units that were sent: the number of the next one.
    pub fn sent(&self) -> u64 {
        self.sent
    }

    /// Number of appends under way.
    pub fn count(&self) -> usize {
        self.under_way.len()
    }

    /// True if none is under way.
    #[inline]
    pub fn is_idle(&self) -> bool {
        self.under_way.is_empty()
    }

    /// The oldest append under way.
    pub fn oldest(&self) -> Option<&BegunAppend<T>> {
        self.under_way.front()
    }

    /// All appends under way.
    pub fn under_way(&mut self) -> impl Iterator<Item = &mut BegunAppend<T>> {
        self.under_way.iter_mut()
    }

    /// True if an append of `len` bytes has to wait for older ones.
    pub fn is_full(&self, len: usize) -> bool {
        let is_long = self.len.saturating_add(len) > QUEUE_BEGUN_LEN_MAX;
        self.under_way.len() >= QUEUE_BEGUN_COUNT_MAX || is_long && !self.is_idle()
    }

    /// An append of `units` units and `len` bytes is sent. Its number is that of [`AppendOrder::sent`] before.
    pub fn begin(&mut self, units: u64, len: usize, what: T) {
        self.sent = self.sent.saturating_add(units);
        self.len = self.len.saturating_add(len);
        self.under_way.push_back(BegunAppend { what, end: self.sent, len });
    }

    /// Takes the oldest append, whose answer is there.
    pub fn take_oldest(&mut self) -> Option<BegunAppend<T>> {
        let oldest = self.under_way.pop_front()?;
        self.len = self.len.saturating_sub(oldest.len);
        Some(oldest)
    }

    /// The next act after an answer to the append that ends at unit `end`.
    pub fn step(&mut self, end: u64, outcome: Result<&Appended, &Error>, terms: AppendTerms) -> AppendStep {
        match outcome {
            Ok(appended) => {
                // An answer to a first try may be older than that to a later one.
                self.counted = self.counted.max(appended.accepted);
                let has_writers_wait = appended.refused == Some(NoSpill::NotYet) || terms.overflow == Overflow::Wait;
                // A repeated append finds later ones counted.
                match appended.accepted >= end {
                    true => AppendStep::Counted,
                    false if has_writers_wait && terms.is_patient => AppendStep::Pause,
                    false => AppendStep::GiveUp,
                }
            }
            // A silent node is waited for once, where no other becomes home.
            Err(Error::Timeout { .. }) if terms.is_first && !terms.moves => AppendStep::GiveUp,
            Err(_) if terms.is_first => AppendStep::Again,
            // Another's lane is not given back.
            Err(Error::NotAWriter { .. }) if terms.may_resume => AppendStep::Resume,
            Err(_) => AppendStep::GiveUp,
        }
    }

    /// True if `counted` units may count: no fewer than before, and none that was not sent.
    pub fn may_count(&self, counted: u64) -> bool {
        (self.counted..=self.sent).contains(&counted)
    }

    /// Units up to `counted` count. Takes the oldest append, if all its units do.
    pub fn take_counted(&mut self, counted: u64) -> Option<BegunAppend<T>> {
        self.counted = counted;
        if self.oldest().is_some_and(|oldest| oldest.end <= counted) { self.take_oldest() } else { None }
    }

    /// Forgets all that is under way. [`AppendOrder::restart`] follows before the next append.
    pub fn give_up(&mut self) {
        self.under_way.clear();
        self.len = 0;
    }

    /// The home says how many units count. Further ones begin there.
    pub fn restart(&mut self, counted: u64) {
        (self.counted, self.sent) = (counted, counted);
    }
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "numbers of a test")]
mod tests {
    use super::*;
    use crate::id::NodeId;
    use AppendStep::{Again, Counted, GiveUp, Pause, Resume};

    const FIRST: AppendTerms =
        AppendTerms { is_first: true, moves: true, overflow: Overflow::Wait, may_resume: true, is_patient: true };
    const LATER: AppendTerms = AppendTerms { is_first: false, ..FIRST };

    fn counts(accepted: u64, refused: Option<NoSpill>) -> Result<Appended, Error> {
        Ok(Appended { accepted, spilled: 0, refused })
    }

    fn step(outcome: &Result<Appended, Error>, terms: AppendTerms) -> AppendStep {
        let mut order = AppendOrder::<()>::default();
        order.begin(5, 80, ());
        order.step(5, outcome.as_ref(), terms)
    }

    #[test]
    fn an_append_is_sent_again_until_its_units_count() {
        let not_a_writer = Err(Error::NotAWriter { queue: "q".to_owned(), lane: 0 });
        let lost = Err(Error::NodeLost { node: NodeId(1), reason: String::new() });
        let gap = Err(Error::Garbage { peer: "a writer".to_owned(), reason: "a gap".to_owned() });
        let silent = Err(Error::Timeout { peer: "n1".to_owned(), what: "an append".to_owned(), after_ms: 1 });
        for error in [&not_a_writer, &lost, &gap, &silent] {
            assert_eq!(step(error, FIRST), Again);
        }
        assert_eq!(step(&silent, AppendTerms { moves: false, ..FIRST }), GiveUp);
        assert_eq!((step(&not_a_writer, LATER), step(&gap, LATER)), (Resume, GiveUp));
        assert_eq!(step(&not_a_writer, AppendTerms { may_resume: false, ..LATER }), GiveUp);
        assert_eq!([5, 9].map(|accepted| step(&counts(accepted, None), FIRST)), [Counted; 2]);
    }

    #[test]
    fn units_without_room_wait_where_writers_wait() {
        let (partly, asking) = (counts(4, None), counts(4, Some(NoSpill::NotYet)));
        assert_eq!(step(&partly, FIRST), Pause);
        assert_eq!(step(&partly, AppendTerms { is_patient: false, ..FIRST }), GiveUp);
        let refuses = AppendTerms { overflow: Overflow::Refuse, ..FIRST };
        assert_eq!((step(&partly, refuses), step(&asking, refuses)), (GiveUp, Pause));
        assert_eq!(step(&counts(4, Some(NoSpill::PoolFull)), AppendTerms { overflow: Overflow::Spill, ..FIRST }), GiveUp);
    }

    #[test]
    fn what_is_given_up_begins_again_behind_the_units_that_count() {
        let mut order = AppendOrder::default();
        order.begin(2, 48, 'a');
        order.begin(3, 64, 'b');
        assert_eq!((order.sent(), order.count(), order.oldest().map(|first| first.end)), (5, 2, Some(2)));
        assert!(order.is_full(QUEUE_BEGUN_LEN_MAX) && !order.is_full(16));
        let first = order.take_oldest().unwrap();
        assert_eq!((first.what, order.step(first.end, counts(1, None).as_ref(), LATER)), ('a', Pause));
        assert_eq!((order.step(first.end, counts(5, None).as_ref(), LATER), order.counted()), (Counted, 5));
        assert_eq!((order.step(3, counts(3, None).as_ref(), FIRST), order.counted()), (Counted, 5), "an older answer");
        order.give_up();
        order.restart(1);
        assert_eq!((order.counted(), order.sent(), order.is_idle()), (1, 1, true));
        assert!(!order.is_full(QUEUE_BEGUN_LEN_MAX + 1), "a long one goes alone");
        order.begin(1, 32, 'c');
        assert!(order.may_count(2) && !order.may_count(0) && !order.may_count(3));
        assert_eq!((order.take_counted(1).is_none(), order.take_counted(2).map(|first| first.what)), (true, Some('c')));
    }
}
