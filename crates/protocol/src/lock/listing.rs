//! Which locks somebody has, for who looks at a pool.

use super::{Claimant, Locks, Mode, State};
use crate::limits::LOOK_CLAIM_COUNT_MAX;

/// A lock that somebody has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed<'l> {
    /// Its name.
    pub name: &'l str,
    /// How it is held.
    pub mode: Mode,
    /// Those who have it, [`LOOK_CLAIM_COUNT_MAX`] at most.
    pub holders: Vec<Claimant>,
    /// Those who wait, the next one first; as many at most.
    pub waiters: Vec<Claimant>,
    /// How many have it, and how many wait.
    pub counts: (u64, u64),
}

impl Locks {
    /// The locks that somebody has, by name. **Cost**: a look at each that is taken from the iterator, however many
    /// have it or wait.
    pub fn listed(&self) -> impl Iterator<Item = Listed<'_>> {
        self.locks.iter().filter_map(|(name, lock)| {
            let few = LOOK_CLAIM_COUNT_MAX;
            let (mode, holders, count) = match &lock.state {
                State::Free { .. } => return None,
                State::Shared { holders, .. } => {
                    (Mode::Shared, holders.keys().copied().take(few).collect(), holders.len() as u64)
                }
                State::Alone { holder } => (Mode::Exclusive, vec![holder.claim.who], 1),
            };
            let waiters = lock.queue.iter().map(|claim| claim.who).take(few).collect();
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
        let listed: Vec<Listed<'_>> = locks.listed().collect();
        let (holders, waiters) = (vec![who(1), who(2)], vec![who(3), who(4)]);
        let shared = Listed { name: "a", mode: Mode::Shared, holders, waiters, counts: (2, 2) };
        let alone = Listed { name: "b", mode: Mode::Exclusive, holders: vec![who(5)], waiters: vec![], counts: (1, 0) };
        assert_eq!(listed, [shared, alone]);
    }
}
