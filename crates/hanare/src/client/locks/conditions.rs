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
    /// Gives the lock back, waits for a notice of a condition of it, or for `bound` at most, and takes it again. Returns true if it was
    /// notified. A condition is any number: the offset of the awaited thing is a good one. Look at that thing again afterwards, because
    /// others may have had the lock first. An abandoned lock wakes all who wait for its conditions. [`LockGuard::was_abandoned`] says so to
    /// the first of them.
    ///
    /// **Ordering**: waiters for a condition go on in the order in which they came, each when it has the lock. **Cost**: one message each
    /// way, and those of data bound to the lock, as for [`LockGuard::unlock`] and [`crate::Pool::lock`]. **Errors**: theirs, after which
    /// the lock is not held. [`Error::LockMisused`] if the lock is shared: it is held as before.
    pub fn wait(&mut self, condition: u64, bound: Option<Duration>) -> Result<bool> {
        self.data.check_alone()?;
        self.pool.release_stores()?;
        fence(Ordering::SeqCst);
        self.is_open = false;
        self.sleep(condition, bound)
    }

    fn sleep(&mut self, condition: u64, bound: Option<Duration>) -> Result<bool> {
        let (pool, before) = (self.pool.clone(), self.taking().clone());
        let (claims, words, home) = (&pool.shared.claims, pool.shared.life().thread_slots.leases(), &before.home);
        before.set_mine(false);
        claims.held().remove(&before.number);
        let published = match self.ensure_held().and_then(|()| self.data.publish(&pool.shared, home)) {
            Ok(published) if !before.is_told() => published,
            Ok(_) | Err(Error::LockLost { .. } | Error::Broken { .. }) => return self.is_lost(None),
            Err(error) => return self.is_lost(Some(error)),
        };
        self.data.leave(&pool.shared, published);
        let data = claims.data().get(&before.key).cloned();
        let (next, bound_ms) = (claims.next(), bound.map(milliseconds));
        let known = data.as_ref().map(|data| data.stamp);
        let sleep = SyncRequest::Sleep { number: before.number, condition, next, thread: this_thread(), bound_ms, known };
        // Others may have the lock for long when its bound is over.
        let answer = crate::trace::slice("wait for a condition", || home.ask_sync(&sleep, Patience::Endless));
        let (notified, abandoned, grant, connection) = match answer {
            Ok((SyncAnswer::Woken { notified, abandoned, data }, connection)) => (notified, abandoned, data, connection),
            Ok(_) => return self.is_lost(Some(nonsense(&before.title))),
            Err(Error::Broken { .. }) => return self.is_lost(None),
            Err(Error::UnknownRegion { .. }) => {
                let name = before.title.rsplit_once('+').map_or(&*before.title, |(region, _)| region).to_owned();
                return self.is_lost(Some(Error::UnknownRegion { name }));
            }
            Err(error) => return self.is_lost(Some(error)),
        };
        if let Some(leased) = self.leased.take() {
            claims.leases.ended(words, &before.key, leased, true);
        }
        fence(Ordering::SeqCst);
        before.leave();
        let taking = claims.taken((before.key.clone(), before.title.clone()), home.clone(), next, connection);
        claims.held().insert(next, taking.clone());
        taking.enter();
        (self.was_abandoned, self.is_open) = (abandoned, true);
        self.data = Section::new(taking, Mode::Exclusive);
        self.enter(data, grant)?;
        Ok(notified)
    }

    /// A wait failed. The lock is not held any more, and unreleased stores under it are taken back. With an error of its own it tells the
    /// home, which may believe the lock held.
    fn is_lost(&mut self, error: Option<Error>) -> Result<bool> {
        let (shared, taking) = (&self.pool.shared, self.data.taking.clone());
        self.data.undo(shared);
        let withdraw = SyncRequest::Withdraw { number: taking.number };
        let knows = error.is_some() && taking.home.ask_sync(&withdraw, Patience::Usual).is_ok();
        if let Some(leased) = self.leased.take() {
            shared.claims.leases.ended(shared.life().thread_slots.leases(), &taking.key, leased, knows);
        }
        Err(error.unwrap_or_else(|| lost(&taking.title)))
    }

    /// Wakes the one that has waited longest for a condition of the lock. It goes on once the lock is given back.
    ///
    /// **Cost**: one message each way. **Errors**: [`Error::LockMisused`] where the lock is shared; [`Error::LockLost`].
    pub fn notify_one(&self, condition: u64) -> Result<()> {
        self.notify(condition, false)
    }

    /// [`LockGuard::notify_one`] for all of them, in order.
    pub fn notify_all(&self, condition: u64) -> Result<()> {
        self.notify(condition, true)
    }

    fn notify(&self, condition: u64, all: bool) -> Result<()> {
        self.data.check_alone()?;
        self.check()?;
        let notify = SyncRequest::Notify { number: self.taking().number, condition, all };
        match self.taking().home.ask_sync(&notify, Patience::Usual) {
            Ok(_) | Err(Error::Broken { happened: Happened::Yes, .. }) => Ok(()),
            Err(Error::Broken { .. }) => Err(lost(self.name())),
            Err(error) => Err(error),
        }
    }
}
