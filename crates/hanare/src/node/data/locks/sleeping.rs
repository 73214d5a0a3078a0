//! Who waits for a condition of a lock, and until when.

use super::sites::ensure_there;
use super::{AtOnce, Locks, WaitingLock, WantedLock};
use crate::node::data::waiter::{Waiter, deadline};
use crate::node::extents::Extents;
use hanare_protocol::entry::Stamp;
use hanare_protocol::id::{ClientId, User};
use hanare_protocol::lock::{Claim, Claimant};
use hanare_protocol::wire::sync::{LeaseWish, SyncAnswer};

/// How one that has given its lock back waits to have it again.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Sleep {
    /// Its bound is not over, so far.
    Bounded,
    /// Its bound was over before anybody notified it.
    Over,
}

/// One that waits for a condition: its request, how long it would wait, what it knows of the data bound to its lock, and whose program it is.
pub(crate) struct SleepAsks {
    pub seq: u64,
    pub bound_ms: Option<u64>,
    pub known: Option<Stamp>,
    pub user: User,
    pub client: ClientId,
}

impl Locks {
    /// A client gives a lock back, and waits for a condition of it.
    pub fn sleep(&mut self, who: Claimant, condition: u64, claim: Claim, asks: SleepAsks, extents: &Extents) -> AtOnce {
        let name = self.locks.check_sleep(who, claim)?;
        ensure_there(&name, extents)?;
        let SleepAsks { seq, bound_ms, known, user, client } = asks;
        self.data.on_unlock(&self.locks, who);
        self.locks.on_sleep(who, condition, claim)?;
        self.lent.end(who);
        self.recount(who.link);
        let wanted = WantedLock { name, known, uid: user.uid, client, lease: LeaseWish::default() };
        let bound = bound_ms.and_then(|ms| Some((deadline(ms)?, ms)));
        self.wait(claim.who, WaitingLock { seq, bound, sleep: Some(Sleep::Bounded), wanted });
        self.settle();
        Ok(None)
    }

    /// A client has those go on who wait for a condition of its lock.
    pub fn notify(&mut self, who: Claimant, condition: u64, all: bool) -> AtOnce {
        self.locks.on_notify(who, condition, all)?;
        Ok(Some(SyncAnswer::Done))
    }

    /// The bound of one is over that waits for a condition: from here on it waits for the lock, without a bound.
    pub(super) fn is_over_asleep(&mut self, who: Claimant) -> bool {
        let Some(waiting) = self.waiting.get_mut(&who).filter(|waiting| waiting.sleep.is_some()) else { return false };
        match self.locks.on_sleep_bound(who) {
            Ok(true) => waiting.sleep = Some(Sleep::Over),
            // It was notified, and has a place in the queue.
            Ok(false) => {}
            Err(full) => {
                let seq = waiting.seq;
                self.waiting.remove(&who);
                self.answers.push_back((Waiter { session: who.link, seq }, Err(full)));
            }
        }
        self.recount(who.link);
        true
    }
}
