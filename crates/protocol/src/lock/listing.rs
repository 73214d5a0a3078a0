//! Which locks somebody has, for who looks at a pool.

use super::{Claimant, Locks, Mode, State};

/// A lock that somebody has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed<'l> {
    /// Its name.
    pub name: &'l str,
    /// How it is held.
    pub mode: Mode,
    /// Those who have it.
    pub holders: Vec<Claimant>,
    /// Those who wait, the next one first.
    pub waiters: Vec<Claimant>,
}

impl Locks {
    /// The locks that somebody has, by name. **Cost**: one look at each lock and claim that is taken from the iterator.
    pub fn listed(&self) -> impl Iterator<Item = Listed<'_>> {
        self.locks.iter().filter_map(|(name, lock)| {
            let (mode, holders) = match &lock.state {
                State::Free { .. } => return None,
                State::Shared { holders, .. } => (Mode::Shared, holders.keys().copied().collect()),
                State::Alone { holder } => (Mode::Exclusive, vec![holder.claim.who]),
            };
            let waiters = lock.queue.iter().map(|claim| claim.who).collect();
            Some(Listed { name, mode, holders, waiters })
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
        let shared = Listed { name: "a", mode: Mode::Shared, holders: vec![who(1), who(2)], waiters: vec![who(3), who(4)] };
        let alone = Listed { name: "b", mode: Mode::Exclusive, holders: vec![who(5)], waiters: vec![] };
        assert_eq!(listed, [shared, alone]);
    }
}
