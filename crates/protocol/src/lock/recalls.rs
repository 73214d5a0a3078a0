//! Recalls without an answer: decides when a node is asked again, and when it is not waited for any more.

use super::Claimant;
use crate::limits::{RECALL_MS, REPEAT_MS};
use std::collections::{BTreeMap, BTreeSet};

/// What is due for a lock that is lent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RecallDue {
    /// Its holder's node is to be asked, at first or again.
    Ask(Claimant),
    /// No answer came, and no lease can hold any more.
    Over(Claimant),
}

/// The recalls of a home that are under way. Times are in milliseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct RecallTimes {
    /// When each was begun, and when it is to be looked at.
    times: BTreeMap<Claimant, (u64, u64)>,
    /// The same by when it is to be looked at.
    due: BTreeSet<(u64, Claimant)>,
}

impl RecallTimes {
    /// A node is to be asked.
    pub fn begin(&mut self, who: Claimant, now_ms: u64) {
        self.end(who);
        self.times.insert(who, (now_ms, now_ms));
        self.due.insert((now_ms, who));
    }

    /// It need not be asked any more.
    pub fn end(&mut self, who: Claimant) {
        if let Some((_, due_ms)) = self.times.remove(&who) {
            self.due.remove(&(due_ms, who));
        }
    }

    /// When something is due.
    pub fn deadline(&self) -> Option<u64> {
        self.due.first().map(|(due_ms, _)| *due_ms)
    }

    /// What is due next, if anything is.
    pub fn next_due(&mut self, now_ms: u64) -> Option<RecallDue> {
        let (due_ms, who) = self.due.first().copied().filter(|(due_ms, _)| *due_ms <= now_ms)?;
        let (since_ms, next_ms) = self.times.get_mut(&who)?;
        if now_ms.saturating_sub(*since_ms) >= RECALL_MS {
            self.end(who);
            return Some(RecallDue::Over(who));
        }
        self.due.remove(&(due_ms, who));
        *next_ms = now_ms.saturating_add(REPEAT_MS);
        self.due.insert((*next_ms, who));
        Some(RecallDue::Ask(who))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_asked_until_it_answers_or_its_leases_are_over() {
        let who = |number| Claimant { link: 1, number };
        let mut recalls = RecallTimes::default();
        recalls.begin(who(1), 10);
        recalls.begin(who(2), 20);
        assert_eq!((recalls.deadline(), recalls.next_due(9)), (Some(10), None));
        assert_eq!(recalls.next_due(20), Some(RecallDue::Ask(who(1))));
        assert_eq!(recalls.next_due(20), Some(RecallDue::Ask(who(2))));
        assert_eq!((recalls.deadline(), recalls.next_due(20)), (Some(20 + REPEAT_MS), None));
        recalls.end(who(1));
        assert_eq!(recalls.next_due(20 + REPEAT_MS), Some(RecallDue::Ask(who(2))));
        assert_eq!(recalls.next_due(20 + RECALL_MS), Some(RecallDue::Over(who(2))));
        assert_eq!(recalls, RecallTimes::default(), "nothing is kept");
    }
}
