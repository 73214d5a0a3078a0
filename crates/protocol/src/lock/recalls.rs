//! Recalls without an answer: decides when a node is asked again, and when it is not waited for any more.

use super::Claimant;
use crate::limits::{FAR_RECALL_MS, RECALL_MS, REPEAT_MS};
use std::collections::{BTreeMap, BTreeSet};

/// Next step of a lock's lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RecallDue {
    /// Its holder's node is to be asked, at first or again.
    Ask(Claimant),
    /// No answer came, and no lease can hold any more.
    Over(Claimant),
}

/// The recalls of a home that are under way. Times are in milliseconds.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RecallTimes {
    /// Time to wait for a reply.
    patience_ms: u64,
    /// True if the home is no member of its pool: then it does not know if nodes hear it.
    is_apart: bool,
    /// When each was begun, and when it is to be looked at.
    times: BTreeMap<Claimant, (u64, u64)>,
    /// The same by when it is to be looked at.
    due: BTreeSet<(u64, Claimant)>,
}

impl RecallTimes {
    /// An empty list, at the pool's home or at another of locks.
    pub fn new(is_pools_home: bool) -> RecallTimes {
        let patience_ms = if is_pools_home { RECALL_MS } else { FAR_RECALL_MS };
        RecallTimes { patience_ms, is_apart: false, times: BTreeMap::new(), due: BTreeSet::new() }
    }

    /// The home is a member of its pool, or not any more. While it is none, nodes that it does not reach may be members, and their clients
    /// at work. So none is given up meanwhile, and afterwards the wait for each begins again.
    pub fn set_member(&mut self, is_member: bool, now_ms: u64) {
        if std::mem::replace(&mut self.is_apart, !is_member) && is_member {
            let all: Vec<Claimant> = self.times.keys().copied().collect();
            all.into_iter().for_each(|who| self.begin(who, now_ms));
        }
    }

    /// A node is to be asked.
    pub fn begin(&mut self, who: Claimant, now_ms: u64) {
        self.end(who);
        self.times.insert(who, (now_ms, now_ms));
        self.due.insert((now_ms, who));
    }

    /// True if a node is being asked.
    pub fn has(&self, who: Claimant) -> bool {
        self.times.contains_key(&who)
    }

    /// Ends the questions to a node.
    pub fn end(&mut self, who: Claimant) {
        if let Some((_, due_ms)) = self.times.remove(&who) {
            self.due.remove(&(due_ms, who));
        }
    }

    /// When something is due.
    pub fn deadline(&self) -> Option<u64> {
        self.due.first().map(|(due_ms, _)| *due_ms)
    }

    /// The next due step, if there is one.
    pub fn next_due(&mut self, now_ms: u64) -> Option<RecallDue> {
        let (due_ms, who) = self.due.first().copied().filter(|(due_ms, _)| *due_ms <= now_ms)?;
        let (since_ms, next_ms) = self.times.get_mut(&who)?;
        if !self.is_apart && now_ms.saturating_sub(*since_ms) >= self.patience_ms {
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
        let mut recalls = RecallTimes::new(true);
        recalls.begin(who(1), 10);
        recalls.begin(who(2), 20);
        assert_eq!((recalls.deadline(), recalls.next_due(9)), (Some(10), None));
        assert_eq!(recalls.next_due(20), Some(RecallDue::Ask(who(1))));
        assert_eq!(recalls.next_due(20), Some(RecallDue::Ask(who(2))));
        assert_eq!((recalls.deadline(), recalls.next_due(20)), (Some(20 + REPEAT_MS), None));
        recalls.end(who(1));
        assert_eq!(recalls.next_due(20 + REPEAT_MS), Some(RecallDue::Ask(who(2))));
        assert_eq!(recalls.next_due(20 + RECALL_MS), Some(RecallDue::Over(who(2))));
        assert_eq!(recalls, RecallTimes::new(true), "nothing is kept");
    }

    #[test]
    fn a_home_that_is_no_member_gives_no_node_up_and_waits_as_long_again() {
        let who = Claimant { link: 1, number: 1 };
        let mut recalls = RecallTimes::new(false);
        recalls.begin(who, 0);
        recalls.set_member(false, 1);
        let back_ms = 2 * FAR_RECALL_MS;
        assert_eq!(recalls.next_due(back_ms), Some(RecallDue::Ask(who)), "as long as it takes");
        recalls.set_member(true, back_ms);
        assert_eq!(recalls.next_due(back_ms), Some(RecallDue::Ask(who)));
        assert_eq!(recalls.next_due(back_ms + FAR_RECALL_MS - 1), Some(RecallDue::Ask(who)));
        assert_eq!(recalls.next_due(back_ms + FAR_RECALL_MS), None);
        assert_eq!(recalls.next_due(back_ms + FAR_RECALL_MS + REPEAT_MS), Some(RecallDue::Over(who)));
    }
}
