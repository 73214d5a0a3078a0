//! The queue of one lock, in order of arrival.

use super::{Claim, Claimant};
use std::collections::BTreeMap;

/// Claims in their order. **Cost** of each call: a search, however many there are.
///
/// - Both maps have the same claims.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Line {
    by_arrival: BTreeMap<u64, Claim>,
    by_claimant: BTreeMap<Claimant, u64>,
    arrivals: u64,
}

impl Line {
    pub fn is_empty(&self) -> bool {
        self.by_arrival.is_empty()
    }

    /// Number of waiting claims.
    pub fn len(&self) -> usize {
        self.by_arrival.len()
    }

    /// True if the claimant waits.
    pub fn has(&self, who: Claimant) -> bool {
        self.by_claimant.contains_key(&who)
    }

    /// Adds a claimant that does not wait yet.
    pub fn push(&mut self, claim: Claim) {
        self.arrivals += 1;
        self.by_arrival.insert(self.arrivals, claim);
        self.by_claimant.insert(claim.who, self.arrivals);
    }

    /// The one that has waited longest.
    pub fn first(&self) -> Option<Claim> {
        self.by_arrival.first_key_value().map(|(_, claim)| *claim)
    }

    /// All, in their order.
    pub fn iter(&self) -> impl Iterator<Item = &Claim> {
        self.by_arrival.values()
    }

    /// Removes a claimant. False where it does not wait.
    pub fn remove(&mut self, who: Claimant) -> bool {
        let arrival = self.by_claimant.remove(&who);
        arrival.is_some_and(|arrival| self.by_arrival.remove(&arrival).is_some())
    }
}

/// Counts one less for a connection, or a user; zero is not stored.
pub(crate) fn one_less<K: Ord>(counts: &mut BTreeMap<K, usize>, whose: K) {
    let left = counts.get_mut(&whose).map(|count| {
        *count = count.saturating_sub(1);
        *count
    });
    if left == Some(0) {
        counts.remove(&whose);
    }
}
