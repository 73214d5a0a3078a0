//! Locks by name, kept at the pool's home.
//!
//! A lock is held by way of the connection to the home: when that ends, because the program does or because it breaks, the
//! home grants the lock on. A program that goes on is told so by its next call on a lock.

use super::attachment::{CONNECTION_BROKE, HeldLock, this_thread};
use super::pool::Pool;
use super::request::Patience;
use hanare_protocol::error::Happened;
use hanare_protocol::limits::LATE_MS;
use hanare_protocol::name::check_name;
use hanare_protocol::wire::sync::{Mode, SyncAnswer, SyncRequest};
use hanare_protocol::{Error, Result};
use std::marker::PhantomData;
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

fn lost(name: &str) -> Error {
    Error::LockLost { name: name.to_owned(), reason: CONNECTION_BROKE.to_owned() }
}

/// A lock that this thread holds. Given back when dropped.
///
/// What was written by calls that returned, or stored to maps, before it is given back is seen by those who take it next;
/// commands that were begun and not waited for are not.
pub struct LockGuard {
    pool: Pool,
    name: String,
    number: u64,
    connection: u128,
    was_abandoned: bool,
    is_open: bool,
    /// It belongs to its thread, which may not take the lock again.
    not_send: PhantomData<*const ()>,
}

impl LockGuard {
    /// Whether the last one to hold it exclusively ended without giving it back: what the lock protects may be half-written. After
    /// a restart of the pool's home the first to take a lock is told so too, because its holder of before may still be at work.
    /// Said to the first holder after, and to no other. A connection that broke at the very moment of a grant counts as an
    /// end, too.
    pub fn was_abandoned(&self) -> bool {
        self.was_abandoned
    }

    /// The lock's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it is held still, as far as is known without asking. **Errors**: [`Error::LockLost`].
    pub fn check(&self) -> Result<()> {
        let is_same = self.pool.shared.home().is_ok_and(|home| home.connection() == Some(self.connection));
        if is_same { Ok(()) } else { Err(lost(&self.name)) }
    }

    /// Gives it back, and says whether it was held all the time.
    ///
    /// **Cost**: one message each way. **Errors**: [`Error::LockLost`] where the connection broke meanwhile: the lock may
    /// have gone to others, who were told that it was abandoned. As for [`Pool::check_stores`] where stores were lost; the lock is
    /// given back then.
    pub fn unlock(mut self) -> Result<()> {
        let kept = self.pool.check_stores();
        self.give_back().and(kept)
    }

    fn give_back(&mut self) -> Result<()> {
        fence(Ordering::SeqCst);
        self.is_open = false;
        let told = self.pool.shared.claims.held().remove(&self.number).is_none_or(|held| held.is_told);
        let home = self.pool.shared.home()?;
        if home.connection() != Some(self.connection) {
            home.end(self.connection, Duration::MAX);
            return Err(lost(&self.name));
        }
        let unlock = SyncRequest::Unlock { number: self.number };
        match home.ask_sync(&unlock, Patience::Usual) {
            Ok(_) | Err(Error::Broken { happened: Happened::Yes, .. }) if !told => Ok(()),
            _ => Err(lost(&self.name)),
        }
    }
}

impl std::fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LockGuard").field("name", &self.name).field("was_abandoned", &self.was_abandoned).finish_non_exhaustive()
    }
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        if self.is_open {
            // Who wants to know calls `unlock`.
            let _ = self.give_back();
        }
    }
}

/// Locks by name, for all clients of the pool. They exist by being taken; names are as regions' are, apart from those.
///
/// **Ordering**: who comes first is served first; a shared taking does not overtake an exclusive one that waits.
/// **Cost**: one message each way to the pool's home, and the wait; the same to give it back.
/// **Errors** of all: [`Error::BadName`]; [`Error::NoPermission`] where the name is another user's that did not [permit](Pool::permit) it; [`Error::LockMisused`] where this thread has the lock already, shared or not (a
/// shared lock cannot be made exclusive: two that try would wait for ever); [`Error::LockLost`] once for each lock that this
/// thread held when the connection to the home broke; [`Error::NodeLost`] where the home is gone.
impl Pool {
    /// Says who may use a name of locks and groups, as mode bits: `r` shares the lock, `r` and `w` together take it alone and join the
    /// group. A name belongs to the user that used it first, with mode 0600, until the pool's home ends; root may do all. Of groups the
    /// primary one counts.
    ///
    /// **Cost**: one message each way. **Errors**: [`Error::NoPermission`] where the name is another user's; [`Error::BadSetting`] for a mode
    /// that is none; [`Error::LimitReached`].
    pub fn permit(&self, name: &str, mode: u32) -> Result<()> {
        check_name(name)?;
        self.shared.home()?.ask_sync(&SyncRequest::Permit { name: name.to_owned(), mode }, Patience::Usual).map_err(ended)?;
        Ok(())
    }

    /// Takes a lock, waiting as long as others have it.
    ///
    /// ```no_run
    /// # let pool = hanare::Pool::attach()?;
    /// let lock = pool.lock("accounts")?;
    /// if lock.was_abandoned() { /* look at what the lock protects, and mend it */ }
    /// // …
    /// lock.unlock()?;
    /// # Ok::<(), hanare::Error>(())
    /// ```
    pub fn lock(&self, name: &str) -> Result<LockGuard> {
        self.acquire(name, Mode::Exclusive, None)?.ok_or_else(|| nonsense(name))
    }

    /// Takes a lock that others may share at the same time.
    pub fn lock_shared(&self, name: &str) -> Result<LockGuard> {
        self.acquire(name, Mode::Shared, None)?.ok_or_else(|| nonsense(name))
    }

    /// Takes a lock if it can be had at once.
    pub fn try_lock(&self, name: &str) -> Result<Option<LockGuard>> {
        self.acquire(name, Mode::Exclusive, Some(Duration::ZERO))
    }

    /// Shares a lock if it can be had at once.
    pub fn try_lock_shared(&self, name: &str) -> Result<Option<LockGuard>> {
        self.acquire(name, Mode::Shared, Some(Duration::ZERO))
    }

    /// Takes a lock, waiting for `bound` at most (in whole milliseconds), and [`LATE_MS`] more for a home that does not answer.
    /// **Errors**: [`Error::NotInTime`] when others have it all that time, or the home did not answer.
    pub fn lock_within(&self, name: &str, bound: Duration) -> Result<LockGuard> {
        self.acquire(name, Mode::Exclusive, Some(bound))?.ok_or_else(|| late(name, bound))
    }

    /// As [`Pool::lock_within`], shared.
    pub fn lock_shared_within(&self, name: &str, bound: Duration) -> Result<LockGuard> {
        self.acquire(name, Mode::Shared, Some(bound))?.ok_or_else(|| late(name, bound))
    }

    /// `None`: others have it, and the bound was less than a millisecond.
    fn acquire(&self, name: &str, mode: Mode, bound: Option<Duration>) -> Result<Option<LockGuard>> {
        check_name(name)?;
        let claims = &self.shared.claims;
        let begun = Instant::now();
        loop {
            let home = self.shared.home()?;
            let left = bound.map(|bound| bound.saturating_sub(begun.elapsed()));
            claims.check(&home, left.map_or(Duration::MAX, |left| left.saturating_add(Duration::from_millis(LATE_MS))))?;
            let (number, thread) = (claims.next(), this_thread());
            let bound_ms = left.map(milliseconds);
            let request = SyncRequest::Lock { name: name.to_owned(), mode, number, thread, bound_ms };
            match crate::trace::slice("take a lock", || home.ask_sync(&request, patience(bound_ms))) {
                Ok((SyncAnswer::Granted { abandoned }, connection)) => {
                    fence(Ordering::SeqCst);
                    let held = HeldLock { name: name.to_owned(), thread, connection, is_told: false };
                    claims.held().insert(number, held);
                    return Ok(Some(LockGuard {
                        pool: self.clone(),
                        name: name.to_owned(),
                        number,
                        connection,
                        was_abandoned: abandoned,
                        is_open: true,
                        not_send: PhantomData,
                    }));
                }
                Ok((SyncAnswer::Busy, _)) => return Ok(None),
                Ok(_) => return Err(nonsense(name)),
                // That connection has ended at the home, too: what it took there it has no more.
                Err(Error::Broken { happened: Happened::No | Happened::Yes, .. }) => {}
                Err(Error::NotInTime { .. }) => return Err(late(name, bound.unwrap_or_default())),
                // The home could not be reached in that time.
                Err(Error::Timeout { .. }) if bound.is_some_and(|bound| begun.elapsed() >= bound) => {
                    return Err(late(name, bound.unwrap_or_default()));
                }
                Err(error) => return Err(ended(error)),
            }
        }
    }
}

/// The error of a connection that broke under what ended with it: whether that had happened does not matter any more.
pub(crate) fn ended(error: Error) -> Error {
    match error {
        Error::Broken { node, reason, .. } => Error::NodeLost { node, reason },
        other => other,
    }
}

/// A bound as the wire has it.
pub(crate) fn milliseconds(bound: Duration) -> u64 {
    u64::try_from(bound.as_millis()).unwrap_or(u64::MAX)
}

/// How long an answer may take that waits for others within a bound.
pub(crate) fn patience(bound_ms: Option<u64>) -> Patience {
    bound_ms.map_or(Patience::Endless, |ms| Patience::UpTo(Duration::from_millis(ms)))
}

fn late(name: &str, bound: Duration) -> Error {
    Error::NotInTime { what: format!("lock '{name}'"), after_ms: milliseconds(bound) }
}

fn nonsense(name: &str) -> Error {
    Error::Garbage { peer: "the pool's home".to_owned(), reason: format!("no answer to a taking of lock '{name}'") }
}
