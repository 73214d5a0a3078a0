//! Waits for conditions of locks.

use super::naming::ensure_there;
use super::{AtOnce, Locks, WaitingLock, WantedLock};
use crate::events::SyncOutput;
use crate::memory::Memory;
use crate::waiter::{Waiter, deadline};
use hanare_protocol::entry::Stamp;
use hanare_protocol::id::{ClientId, User};
use hanare_protocol::lock::{Claim, Claimant};
use hanare_protocol::wire::sync::{LeaseWish, SyncAnswer};
use std::time::Duration;

/// Wait of a claimant that has given its lock back, to have it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sleep {
    /// Its deadline has not passed, so far.
    Bounded,
    /// Its deadline passed before anybody notified it.
    Over,
}

/// A claimant that waits for a condition: its request, its time, its version of the lock's data, and its user.
pub(crate) struct SleepAsks {
    pub seq: u64,
    pub wait_ms: Option<u64>,
    pub known: Option<Stamp>,
    pub user: User,
    pub client: ClientId,
}

impl Locks {
    /// A client gives a lock back, and waits for a condition of it.
    pub fn sleep(
        &mut self,
        now: Duration,
        (who, condition): (Claimant, u64),
        claim: Claim,
        asks: SleepAsks,
        memory: &impl Memory,
    ) -> AtOnce {
        let name = self.locks.check_sleep(who, claim)?;
        ensure_there(&name, memory)?;
        let SleepAsks { seq, wait_ms, known, user, client } = asks;
        self.data.on_unlock(&self.locks, who);
        self.locks.on_sleep(who, condition, claim)?;
        self.leases.end(who);
        self.recount(who.link);
        let wanted = WantedLock { name, known, uid: user.uid, client, lease: LeaseWish::default() };
        let deadline = wait_ms.and_then(|ms| Some((deadline(now, ms)?, ms)));
        self.wait(claim.who, WaitingLock { seq, deadline, sleep: Some(Sleep::Bounded), wanted });
        self.settle();
        Ok(None)
    }

    /// A client has those go on who wait for a condition of its lock.
    pub fn notify(&mut self, who: Claimant, condition: u64, all: bool) -> AtOnce {
        self.locks.on_notify(who, condition, all)?;
        Ok(Some(SyncAnswer::Done))
    }

    /// The deadline of a waiter for a condition has passed. From here on it waits for the lock, without a deadline.
    pub(super) fn is_over_asleep(&mut self, who: Claimant) -> bool {
        let Some(waiting) = self.waiting.get_mut(&who).filter(|waiting| waiting.sleep.is_some()) else { return false };
        match self.locks.on_sleep_bound(who) {
            Ok(true) => waiting.sleep = Some(Sleep::Over),
            // The sleeper was notified, and has a place in the queue.
            Ok(false) => {}
            Err(full) => {
                let seq = waiting.seq;
                self.waiting.remove(&who);
                self.outputs.push_back(SyncOutput::Answer(Waiter { link: who.link, seq }, Err(full)));
            }
        }
        self.recount(who.link);
        true
    }
}
