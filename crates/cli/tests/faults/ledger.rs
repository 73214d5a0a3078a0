//! What is known of the rounds of one client: which surely happened, which may have.

use hanare::Happened;
use std::collections::BTreeSet;

/// Rounds that were done, and those that may have been done: they may land even later than those that came after.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    /// The last round that was surely done.
    pub last: u64,
    /// Rounds that may have been done, in part or whole.
    pub unknown: BTreeSet<u64>,
    /// How many rounds were surely done.
    pub done: u64,
}

impl Ledger {
    /// Takes in what became of a round.
    pub fn note(&mut self, round: u64, happened: Happened) {
        match happened {
            Happened::Yes => (self.last, self.done) = (round, self.done + 1),
            Happened::Unknown => {
                self.unknown.insert(round);
            }
            Happened::No => {}
        }
    }

    /// What a word that every round counts up by one may hold.
    pub fn counts(&self) -> std::ops::RangeInclusive<u64> {
        self.done..=self.done + self.unknown.len() as u64
    }

    /// The rounds of which a byte may be.
    pub fn rounds(&self) -> impl Iterator<Item = u64> {
        std::iter::once(self.last).chain(self.unknown.iter().copied())
    }
}
