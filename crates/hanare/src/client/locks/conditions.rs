//! Waiting for conditions of locks: a lock is given back and taken again in one request.

use super::{LockGuard, lost, milliseconds, nonsense};
use crate::client::bound::Section;
use crate::client::request::Patience;
use crate::client::threads::this_thread;
use hanare_protocol::error::Happened;
use hanare_protocol::wire::sync::{Mode, SyncAnswer, SyncRequest};
use hanare_protocol::{Error, Result};
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

impl LockGuard {
    /// Gives the lock back, waits until a condition of it is notified, or for `bound` at most, and takes it again. Returns whether it was
    /// notified. A condition is any number: the offset of what is waited for is a good one. What is waited for is looked at anew
    /// afterwards, because others may have had the lock first, and because a lock that is abandoned wakes all who wait for its conditions:
    /// then [`LockGuard::was_abandoned`] says so to the first of them.
    ///
    /// **Ordering**: those who wait for a condition go on in the order in which they came, each when it has the lock.
    /// **Cost**: one message each way, and those of data bound to the lock, as for [`LockGuard::unlock`] and [`crate::Pool::lock`].
    /// **Errors**: theirs, after which the lock is not held; [`Error::LockMisused`] where the lock is shared: it is held as before.
    pub fn wait(&mut self, condition: u64, bound: Option<Duration>) -> Result<bool> {
        self.data.check_alone()?;
        self.pool.check_stores()?;
        fence(Ordering::SeqCst);
        self.is_open = false;
        let woken = self.sleep(condition, bound);
        if woken.is_err() {
            self.pool.shared.claims.held().remove(&self.number);
        }
        woken
    }

    fn sleep(&mut self, condition: u64, bound: Option<Duration>) -> Result<bool> {
        let pool = self.pool.clone();
        let (claims, words) = (&pool.shared.claims, pool.shared.seats.leases());
        let told = claims.held().remove(&self.number).is_none_or(|held| held.is_told);
        let published = match self.ensure_held().and_then(|()| self.data.publish(&pool.shared, &self.home)) {
            Ok(published) if !told => published,
            Ok(_) | Err(Error::LockLost { .. } | Error::Broken { .. }) => return self.is_lost(None),
            Err(error) => return self.is_lost(Some(error)),
        };
        self.data.leave(&pool.shared, published);
        let data = claims.data().get(&self.key).cloned();
        let (next, bound_ms) = (claims.next(), bound.map(milliseconds));
        let known = data.as_ref().map(|data| data.stamp);
        let sleep = SyncRequest::Sleep { number: self.number, condition, next, thread: this_thread(), bound_ms, known };
        // Others may have the lock for long when its bound is over.
        let answer = crate::trace::slice("wait for a condition", || self.home.ask_sync(&sleep, Patience::Endless));
        let (notified, abandoned, grant, connection) = match answer {
            Ok((SyncAnswer::Woken { notified, abandoned, data }, connection)) => (notified, abandoned, data, connection),
            Ok(_) => return self.is_lost(Some(nonsense(&self.title))),
            Err(Error::Broken { .. }) => return self.is_lost(None),
            Err(Error::UnknownRegion { .. }) => {
                let name = self.title.rsplit_once('+').map_or(&*self.title, |(region, _)| region).to_owned();
                return self.is_lost(Some(Error::UnknownRegion { name }));
            }
            Err(error) => return self.is_lost(Some(error)),
        };
        if let Some(lent) = self.lent.take() {
            claims.borrowed.ended(words, &self.key, lent, true);
        }
        fence(Ordering::SeqCst);
        claims.held().insert(next, self.held(connection));
        (self.number, self.connection, self.was_abandoned, self.is_open) = (next, connection, abandoned, true);
        self.data = Section::new(&self.key, next, Mode::Exclusive);
        self.enter(data, grant)?;
        Ok(notified)
    }

    /// A wait failed: the lock is not held any more, and what was stored under it and not released is taken back. With an error of its
    /// own the home is told, which may believe it held.
    fn is_lost(&mut self, error: Option<Error>) -> Result<bool> {
        let shared = &self.pool.shared;
        self.data.undo(shared);
        let withdraw = SyncRequest::Withdraw { number: self.number };
        let knows = error.is_some() && self.home.ask_sync(&withdraw, Patience::Usual).is_ok();
        if let Some(lent) = self.lent.take() {
            shared.claims.borrowed.ended(shared.seats.leases(), &self.key, lent, knows);
        }
        Err(error.unwrap_or_else(|| lost(&self.title)))
    }

    /// Has those go on who wait for a condition of the lock, once it is given back: the one that has waited longest.
    ///
    /// **Cost**: one message each way. **Errors**: [`Error::LockMisused`] where the lock is shared; [`Error::LockLost`].
    pub fn notify_one(&self, condition: u64) -> Result<()> {
        self.notify(condition, false)
    }

    /// As [`LockGuard::notify_one`], all of them, one after the other.
    pub fn notify_all(&self, condition: u64) -> Result<()> {
        self.notify(condition, true)
    }

    fn notify(&self, condition: u64, all: bool) -> Result<()> {
        self.data.check_alone()?;
        self.check()?;
        let notify = SyncRequest::Notify { number: self.number, condition, all };
        match self.home.ask_sync(&notify, Patience::Usual) {
            Ok(_) | Err(Error::Broken { happened: Happened::Yes, .. }) => Ok(()),
            Err(Error::Broken { .. }) => Err(lost(&self.title)),
            Err(error) => Err(error),
        }
    }
}
