//! Conditions of locks: decides who waits for a notice, and in which order they have the lock again.
//!
//! A claimant that has a lock alone gives it back and *sleeps*, in one step. So no notice is missed in between. A notice comes from an
//! exclusive holder. It moves the longest sleeper of a condition, or all of them, to the end of the lock's queue. There they wait like any
//! other.
//!
//! ```text
//! has it alone --- on_sleep ---> asleep --- on_notify, on_bound, abandonment ---> waits for the lock ---> has it alone
//!                                  |
//!                                  +------- on_withdraw, on_link_gone ---> gone
//! ```
//!
//! A condition is a number under a lock; without waiters it has no state. A lock that is abandoned while nobody waits for it wakes all of
//! its sleepers. The first of them is told. The dead holder may have been the one to notify them.

use super::line::Line;
use super::{Claim, Claimant, Locks, Mode, Parting, one_less};
use crate::error::{Error, Result};
use std::collections::BTreeMap;
use std::ops::Bound;

/// Claimants that wait for conditions.
///
/// - Both maps have the same claims, and no line is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Sleepers {
    by_condition: BTreeMap<(String, u64), Line>,
    by_claimant: BTreeMap<Claimant, (String, u64)>,
}

impl Sleepers {
    /// The number of entries.
    pub fn len(&self) -> usize {
        self.by_claimant.len()
    }

    /// True if the claimant sleeps.
    pub fn has(&self, who: Claimant) -> bool {
        self.by_claimant.contains_key(&who)
    }

    /// The sleepers of a connection.
    pub fn of_link(&self, link: u64) -> Vec<Claimant> {
        self.by_claimant.range(Claimant::all_of(link)).map(|(who, _)| *who).collect()
    }

    fn push(&mut self, name: &str, condition: u64, claim: Claim) {
        let key = (name.to_owned(), condition);
        self.by_condition.entry(key.clone()).or_default().push(claim);
        self.by_claimant.insert(claim.who, key);
    }

    /// Ends a sleep. Returns its lock, and the claim to make there.
    fn remove(&mut self, who: Claimant) -> Option<(String, Claim)> {
        let key = self.by_claimant.remove(&who)?;
        let line = self.by_condition.get_mut(&key)?;
        let claim = line.iter().find(|claim| claim.who == who).copied();
        line.remove(who);
        if line.is_empty() {
            self.by_condition.remove(&key);
        }
        claim.map(|claim| (key.0, claim))
    }

    /// The one that has waited longest for a condition sleeps no more.
    fn wake_one(&mut self, name: &str, condition: u64) -> Option<Claim> {
        let first = self.by_condition.get(&(name.to_owned(), condition))?.first()?;
        self.remove(first.who).map(|(_, claim)| claim)
    }

    /// Ends all sleeps of a lock: condition by condition, each in order of arrival.
    pub fn wake_all_of(&mut self, name: &str) -> Vec<Claim> {
        let of_lock = (Bound::Included((name.to_owned(), 0)), Bound::Included((name.to_owned(), u64::MAX)));
        let all: Vec<Claim> = self.by_condition.range(of_lock).flat_map(|(_, line)| line.iter().copied()).collect();
        all.iter().for_each(|claim| drop(self.remove(claim.who)));
        all
    }
}

impl Locks {
    /// Gives back an exclusive lock and waits for a condition of it. `claim` says in which mode it is had afterwards.
    ///
    /// **Errors**: [`Error::LockMisused`] where it has not got the lock alone, or `claim` is not of its connection, alone and new.
    pub fn on_sleep(&mut self, who: Claimant, condition: u64, claim: Claim) -> Result<()> {
        let name = self.check_sleep(who, claim)?;
        self.sleepers.push(&name, condition, claim);
        *self.links.entry(claim.who.link).or_default() += 1;
        self.let_go(who, Parting::InOrder);
        Ok(())
    }

    /// Refuses what [`Locks::on_sleep`] does; returns the lock's name.
    pub fn check_sleep(&self, who: Claimant, claim: Claim) -> Result<String> {
        let name = self.alone(who, "wait for a condition")?;
        if self.is_used(claim.who) || claim.who.link != who.link || claim.mode != Mode::Exclusive {
            return Err(misused(&name, "the number of this taking has been used before"));
        }
        Ok(name)
    }

    /// Moves waiters for a condition of a lock to the lock's queue: all, or the one that has waited longest.
    ///
    /// **Errors**: [`Error::LockMisused`] where who notifies has not got the lock alone.
    pub fn on_notify(&mut self, who: Claimant, condition: u64, all: bool) -> Result<()> {
        let name = self.alone(who, "notify a condition")?;
        while let Some(claim) = self.sleepers.wake_one(&name, condition) {
            self.claims.insert(claim.who, name.clone());
            self.change(&name, |lock| lock.wait(claim, true));
            if !all {
                break;
            }
        }
        Ok(())
    }

    /// The bound of one that sleeps is over: it waits for the lock. False where it does not sleep.
    ///
    /// **Errors**: [`Error::LimitReached`] if the lock is free, and there is no room for one more held lock. Then it waits no more.
    pub fn on_sleep_bound(&mut self, who: Claimant) -> Result<bool> {
        let Some((name, claim)) = self.sleepers.remove(who) else { return Ok(false) };
        if let Err(full) = self.lock(&name) {
            one_less(&mut self.links, who.link);
            return Err(full);
        }
        self.claims.insert(who, name.clone());
        let mut grants = std::mem::take(&mut self.grants);
        self.change(&name, |lock| lock.enter(claim, &mut grants));
        // Only this claimant was served.
        grants.append(&mut self.grants);
        self.grants = grants;
        Ok(true)
    }

    /// True if a number is in use.
    pub(super) fn is_used(&self, who: Claimant) -> bool {
        self.claims.contains_key(&who) || self.sleepers.has(who)
    }

    /// Ends a sleep without a claim for the lock.
    pub(super) fn forget_sleeper(&mut self, who: Claimant) {
        if self.sleepers.remove(who).is_some() {
            one_less(&mut self.links, who.link);
        }
    }

    /// The lock of one that has it alone.
    fn alone(&self, who: Claimant, what: &str) -> Result<String> {
        match self.held(who) {
            Some((name, Mode::Exclusive)) => Ok(name.to_owned()),
            Some((name, _)) => Err(misused(name, &format!("who shares it cannot {what}; take it exclusively"))),
            None => Err(misused("", &format!("who would {what} has not got it"))),
        }
    }
}

fn misused(name: &str, reason: &str) -> Error {
    Error::LockMisused { name: name.to_owned(), reason: reason.to_owned() }
}
