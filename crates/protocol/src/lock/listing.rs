//! Lists of locks, for a viewer of a pool.

use super::{Claimant, Locks, Mode, State};

/// A lock that somebody has, or keeps: of one that is leased nobody here knows which.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed<'l> {
    /// Its name.
    pub name: &'l str,
    /// Mode in which it is held.
    pub mode: Mode,
    /// The first of its holders.
    pub holders: Vec<Claimant>,
    /// Waiting claimants, the next one first; at most as many.
    pub waiters: Vec<Claimant>,
    /// Numbers of holders and of waiters.
    pub counts: (u64, u64),
}

impl Locks {
    /// The locks that somebody has, by name, with so many of their holders and waiters. **Cost**: one look at each lock that is taken from
    /// the iterator, however many claims it has.
    pub fn listed(&self, claim_count: usize) -> impl Iterator<Item = Listed<'_>> {
        self.locks.iter().filter_map(move |(name, lock)| {
            let (mode, holders, count) = match &lock.state {
                State::Free { .. } => return None,
                State::Shared { mode, holders, .. } => {
                    (*mode, holders.keys().take(claim_count).copied().collect(), holders.len() as u64)
                }
                State::Alone { holder } | State::Leased { holder, .. } => (Mode::Exclusive, vec![holder.claim.who], 1),
                State::Detached { .. } => (Mode::Exclusive, Vec::new(), 0),
            };
            let waiters = lock.queue.iter().take(claim_count).map(|claim| claim.who).collect();
            Some(Listed { name, mode, holders, waiters, counts: (count, lock.queue.len() as u64) })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::Claim;
    use super::*;

    #[test]
    fn who_has_a_lock_and_who_waits_stand_in_order() {
        let mut locks = Locks::new();
        let who = |link| Claimant { link, number: 1 };
        let claim = |link, mode| Claim { who: who(link), thread: 1, mode };
        locks.on_lock("a", claim(1, Mode::Shared), true).unwrap();
        locks.on_lock("a", claim(2, Mode::Shared), true).unwrap();
        locks.on_lock("a", claim(3, Mode::Exclusive), true).unwrap();
        locks.on_lock("a", claim(4, Mode::Shared), true).unwrap();
        locks.on_lock("b", claim(5, Mode::Exclusive), true).unwrap();
        locks.on_lock("c", claim(6, Mode::Exclusive), true).unwrap();
        locks.on_unlock(who(6)).unwrap();
        let (listed, few): (Vec<Listed<'_>>, Vec<Listed<'_>>) = (locks.listed(9).collect(), locks.listed(1).collect());
        let (holders, waiters) = (vec![who(1), who(2)], vec![who(3), who(4)]);
        let shared = Listed { name: "a", mode: Mode::Shared, holders, waiters, counts: (2, 2) };
        let alone = Listed { name: "b", mode: Mode::Exclusive, holders: vec![who(5)], waiters: vec![], counts: (1, 0) };
        assert_eq!(listed, [shared.clone(), alone.clone()]);
        // A crowd at one lock costs who looks no more than one that holds it.
        assert_eq!(few, [Listed { holders: vec![who(1)], waiters: vec![who(3)], ..shared }, alone]);
    }
}
