//! LeaderRounds of questions by which a leader proves that it still leads, and writes nothing.
//!
//! The leader asks the other keepers whether they have promised anything to a later leader. When a majority has said no, nobody was elected
//! before the round began: a later leader needs promises of a majority, and one of those who said no would be among them. So all that the
//! leader decided before the round may be told.
//!
//! A keeper has a single round under way. Decisions of that time wait for the next one.
//!
//! **Source**: reads without a write of Raft [Ongaro 2014, §6.4].

use std::collections::BTreeSet;

/// Time to the next try of a round, whose messages may have been lost, in milliseconds.
const AGAIN_MS: u64 = 100;

/// The rounds of one keeper.
#[derive(Clone, Debug, Default)]
pub struct LeaderRounds {
    /// Number of the last round that began.
    last: u64,
    open: Option<OpenRound>,
    is_wanted: bool,
    /// The last round that ended with a majority.
    proved: u64,
}

/// A round under way.
#[derive(Clone, Debug)]
struct OpenRound {
    asked_ms: u64,
    /// Keepers that said no.
    heard: BTreeSet<u64>,
}

impl LeaderRounds {
    /// Something was decided. Returns the number of the round that proves it.
    pub fn want(&mut self) -> u64 {
        self.is_wanted = true;
        self.last.saturating_add(1)
    }

    /// The round to ask all other keepers about now.
    pub fn due(&mut self, now_ms: u64) -> Option<u64> {
        match &mut self.open {
            Some(open) if now_ms.saturating_sub(open.asked_ms) < AGAIN_MS => return None,
            Some(open) => open.asked_ms = now_ms,
            None if !std::mem::take(&mut self.is_wanted) => return None,
            None => {
                self.last = self.last.saturating_add(1);
                self.open = Some(OpenRound { asked_ms: now_ms, heard: BTreeSet::new() });
            }
        }
        Some(self.last)
    }

    /// A keeper, of this number of them, has promised nothing to a later leader.
    pub fn on_no_other(&mut self, from: u64, round: u64, keepers: u64) {
        let Some(open) = self.open.as_mut().filter(|_| round == self.last) else { return };
        open.heard.insert(from);
        // The leader itself is one of them.
        if open.heard.len() as u64 >= keepers / 2 {
            (self.open, self.proved) = (None, round);
        }
    }

    /// The last round that a majority answered.
    pub fn proved(&self) -> u64 {
        self.proved
    }

    /// The keeper leads no more, or leads again: earlier questions prove nothing.
    pub fn cancel(&mut self) {
        (self.open, self.is_wanted) = (None, false);
    }
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "numbers of a test")]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn decisions_of_one_round_share_the_next_and_lost_messages_are_asked_for_again() {
        let mut rounds = LeaderRounds::default();
        assert_eq!(rounds.due(0), None, "nothing is to be proved");
        assert_eq!((rounds.want(), rounds.want(), rounds.due(0)), (1, 1, Some(1)));
        assert_eq!((rounds.want(), rounds.due(50), rounds.due(100), rounds.due(150)), (2, None, Some(1), None));
        rounds.on_no_other(2, 2, 3);
        assert_eq!(rounds.proved(), 0, "nobody asked that");
        rounds.on_no_other(2, 1, 3);
        assert_eq!((rounds.proved(), rounds.due(150)), (1, Some(2)));
        rounds.cancel();
        rounds.on_no_other(2, 2, 3);
        assert_eq!((rounds.proved(), rounds.due(300)), (1, None), "it is of a reign that is over");
        assert_eq!((rounds.want(), rounds.due(300)), (3, Some(3)));
        rounds.on_no_other(2, 3, 5);
        rounds.on_no_other(2, 3, 5);
        assert_eq!(rounds.proved(), 1, "two of five are no majority");
        rounds.on_no_other(4, 3, 5);
        assert_eq!(rounds.proved(), 3);
    }

    proptest! {
        /// Keeper 0 leads. The others promise themselves to a later leader at any time, and messages take any time. What is proved was
        /// decided before a majority had done so.
        #[test]
        fn what_is_proved_was_decided_before_another_could_be_elected(five: bool, steps in prop::collection::vec((0..5u8, any::<u8>()), 1..80)) {
            let keepers = if five { 5 } else { 3 };
            let (mut rounds, mut later) = (LeaderRounds::default(), BTreeSet::new());
            // Rounds that prove a decision, with the number of promises to a later leader at its time.
            let mut decided: Vec<(u64, usize)> = Vec::new();
            let mut asked: Vec<(u64, u64)> = Vec::new();
            let mut said: Vec<(u64, u64)> = Vec::new();
            for (now, (what, draw)) in steps.into_iter().enumerate() {
                match what {
                    0 => decided.push((rounds.want(), later.len())),
                    1 => asked.extend(rounds.due(now as u64 * 40).into_iter().flat_map(|round| (1..keepers).map(move |to| (to, round)))),
                    2 if !asked.is_empty() => {
                        let (to, round) = asked.swap_remove(usize::from(draw) % asked.len());
                        said.extend((!later.contains(&to)).then_some((to, round)));
                    }
                    3 if !said.is_empty() => {
                        let (from, round) = said.swap_remove(usize::from(draw) % said.len());
                        rounds.on_no_other(from, round, keepers);
                    }
                    4 if draw < 40 => drop(later.insert(1 + u64::from(draw) % (keepers - 1))),
                    _ => {}
                }
                let majority = keepers as usize / 2 + 1;
                for (round, promised) in &decided {
                    prop_assert!(*round > rounds.proved() || *promised < majority);
                }
            }
        }
    }
}
