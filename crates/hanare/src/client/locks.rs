//! Locks at names, kept at the pool's home, and at bytes of regions, kept at the bytes' nodes.
//!
//! A lock is held by way of the connection to its home. When that breaks or ends with the program, the home grants the lock on. A program
//! that goes on is told so by its next call on a lock.
//!
//! A program that takes a lock again and again, alone, gets a lease of it. Then it gives the lock back and takes it in memory that it
//! shares with its node, until the home recalls it.

mod conditions;
mod taking;

pub use taking::RegionLock;

use super::attachment::{CONNECTION_BROKE, GrantedLock, LockData};
use super::bound::{Section, WentAlong};
use super::pool::Pool;
use super::request::Patience;
use super::shared::SharedMapping;
use super::sync_address::SyncTarget;
use hanare_protocol::entry::{BoundShape, DataGrant};
use hanare_protocol::error::Happened;
use hanare_protocol::name::check_name;
use hanare_protocol::wire::sync::{Mode, SyncRequest};
use hanare_protocol::{Error, Result};
use hanare_ring::lease::table::LeasedLock;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::time::Duration;

/// Outcome of a lock that its holder gave back.
enum Released {
    /// Its home has it.
    GivenBack,
    /// The program keeps it, by its lease.
    Kept,
}

fn lost(name: &str) -> Error {
    Error::LockLost { name: name.to_owned(), reason: CONNECTION_BROKE.to_owned() }
}

/// A lock that this thread holds. Given back when dropped.
///
/// Once the lock is given back, the next holders see writes by calls that returned, and stores to maps. Commands that were begun and not
/// waited for are not.
pub struct LockGuard {
    pool: Pool,
    /// The lease, if the program has one.
    leased: Option<LeasedLock>,
    was_abandoned: bool,
    is_open: bool,
    /// The taking, and the data bound to it.
    data: Section,
    /// A guard belongs to its thread, which may not take the lock again.
    not_send: PhantomData<*const ()>,
}

impl LockGuard {
    /// True if the last exclusive holder ended without giving it back. The data under the lock may be half-written. After a restart of the
    /// pool's home the first to take a lock is told so, too: its earlier holder may still be at work. Said to the first holder after, and
    /// to no other. A connection that broke at the very moment of a grant counts as an end, too.
    pub fn was_abandoned(&self) -> bool {
        self.was_abandoned
    }

    /// The lock's name; of one in a region the region's, and the offset.
    pub fn name(&self) -> &str {
        &self.taking().title
    }

    fn taking(&self) -> &Arc<GrantedLock> {
        &self.data.taking
    }

    /// Checks that it is still held, as far as is known without asking. **Errors**: [`Error::LockLost`].
    pub fn check(&self) -> Result<()> {
        if self.taking().is_connected() { Ok(()) } else { Err(lost(self.name())) }
    }

    /// True if its bound bytes are a mixture of two releases. The last holder died while it put more to their homes than goes with a lock.
    /// Said until an exclusive holder gives it back. True once where the last holder's bytes have no home any more, because their region is
    /// removed or lost.
    pub fn is_torn(&self) -> bool {
        self.data.is_torn()
    }

    /// Binds bytes of [`Consistency::Entry`](crate::Consistency::Entry) mappings to the lock, in place of those bound before. It counts
    /// from the lock's return on. They are brought here at once. Earlier stores to them, whoever made them, have to be flushed. Nothing
    /// bound: the lock has no data any more.
    ///
    /// Each later holder has these bytes as the last holder left them, in all its mappings of their regions. A program stores to them
    /// while it has the lock alone. Nobody sees its stores before it gives the lock back. All see them from then on, or none if it dies
    /// before. Bytes of two locks may lie in one page.
    ///
    /// **Cost**: that of [`SharedMapping::update`] for what was not bound before. **Errors**: its; [`Error::LockMisused`] where the lock is
    /// shared; [`Error::LimitReached`] for more than [`BOUND_SHAPE_COUNT_MAX`](hanare_protocol::limits::BOUND_SHAPE_COUNT_MAX) shapes.
    /// **Source**: [RF §3.4].
    ///
    /// ```no_run
    /// # use hanare::{Consistency, Strided};
    /// # let pool = hanare::Pool::attach()?;
    /// let accounts = pool.open("accounts")?.map(Consistency::Entry)?;
    /// let mut lock = pool.lock("account 7")?;
    /// lock.bind(&[accounts.bytes(Strided::contiguous(7 * 64, 64))?])?;
    /// lock.write(&accounts, 7 * 64, &1000u64.to_le_bytes())?;
    /// lock.unlock()?;
    /// # Ok::<(), hanare::Error>(())
    /// ```
    // FEATURE: RF-F14
    pub fn bind(&mut self, bytes: &[BoundShape]) -> Result<()> {
        self.data.bind(&self.pool.shared, bytes)
    }

    /// Reads bytes that are bound to the lock. **Errors**: [`Error::BadUse`] where they are not; as for [`SharedMapping::read`].
    pub fn read(&self, mapping: &SharedMapping, offset: u64, into: &mut [u8]) -> Result<()> {
        self.check_bound(mapping, offset, into.len() as u64)?;
        mapping.read(offset, into)
    }

    /// Writes bytes that are bound to the lock; seen elsewhere once it is given back. **Errors**: [`Error::BadUse`] where they are not, or
    /// the lock is shared; as for [`SharedMapping::write`].
    pub fn write(&mut self, mapping: &SharedMapping, offset: u64, bytes: &[u8]) -> Result<()> {
        self.check_bound(mapping, offset, bytes.len() as u64)?;
        self.data.check_alone()?;
        mapping.write(offset, bytes)
    }

    fn check_bound(&self, mapping: &SharedMapping, offset: u64, len: u64) -> Result<()> {
        if self.data.has(mapping.gid(), &(offset..offset.saturating_add(len))) {
            return Ok(());
        }
        let reason = format!("bytes {offset} to {} are not bound to lock '{}'", offset.saturating_add(len), self.name());
        Err(Error::BadUse { region: mapping.name().to_owned(), reason })
    }

    /// Gives it back, and says whether it was held all the time. Stores to bytes that are bound to it are seen by those who take it next.
    ///
    /// **Cost**: one message each way. Stores to bound bytes go with it, up to
    /// [`RELEASE_LEN_MAX`](hanare_protocol::limits::RELEASE_LEN_MAX), if the bytes are of one region at the lock's home. Else they cost one
    /// more message to that home, and as [`SharedMapping::flush`]. A leased lock costs no message, or those of the stores, and stays with
    /// the program. Coherent mappings of regions with copies are flushed before, as by [`Pool::flush`]. **Errors**: [`Error::LockLost`] if the
    /// connection broke meanwhile. The lock may have gone to others, who were told that it was abandoned. As for [`Pool::check_stores`] where
    /// stores were lost, and for [`SharedMapping::flush`]. The lock is given back then, and stores to bound bytes are undone.
    pub fn unlock(mut self) -> Result<()> {
        self.give_back()
    }

    fn give_back(&mut self) -> Result<()> {
        let kept = self.pool.release_stores();
        self.is_open = false;
        let released = self.release();
        if released.is_err() {
            self.data.undo(&self.pool.shared);
        }
        released.and(kept)
    }

    /// [`LockGuard::give_back`] without the undoing.
    fn release(&mut self) -> Result<()> {
        let leased = self.leased.take();
        let (claims, words) = (&self.pool.shared.claims, self.pool.shared.life().thread_slots.leases());
        let told = self.taking().is_told();
        // Before another thread may take it.
        self.taking().set_mine(false);
        if let Some(leased) = leased.filter(|_| !told && self.data.is_bare())
            && claims.leases.keep(words, leased)
        {
            return Ok(());
        }
        fence(Ordering::SeqCst);
        if leased.is_none() {
            claims.held().remove(&self.taking().number);
        }
        let released = self.release_by_message(told, leased);
        if let Some(leased) = leased.filter(|_| !matches!(released, Ok(Released::Kept))) {
            claims.leases.ended(words, &self.taking().key, leased, released.is_ok());
        }
        released.map(drop)
    }

    /// Puts stores to bound data at their homes, and gives the lock back. Keeps a leased lock that nobody wants.
    fn release_by_message(&self, told: bool, leased: Option<LeasedLock>) -> Result<Released> {
        let shared = &self.pool.shared;
        let GrantedLock { home, number, .. } = &**self.taking();
        self.ensure_held()?;
        let unlock = SyncRequest::Unlock { number: *number };
        let keeps = leased.filter(|_| !told);
        let publish = || match self.data.release_along(shared, home, keeps.is_some())? {
            Some(along) => Ok(Err(along)),
            None => Ok(Ok(self.data.publish(shared, home)?)),
        };
        let (published, last, keeps) = match publish() {
            Ok(Err(_)) if told => return Err(lost(self.name())),
            Ok(Err(WentAlong { published, may_be_kept: false })) => {
                self.data.leave(shared, published);
                return Ok(Released::GivenBack);
            }
            Ok(Err(WentAlong { published, may_be_kept: true })) => (Ok(published), unlock, keeps),
            Ok(Ok(published)) => {
                let is_plain = published.as_ref().is_none_or(|published| published.is_plain);
                (Ok(published), unlock, keeps.filter(|_| is_plain))
            }
            Err(Error::Broken { .. }) => return Err(lost(self.name())),
            Err(error) => (Err(error), SyncRequest::Withdraw { number: *number }, None),
        };
        if let (Ok(published), Some(leased)) = (&published, keeps) {
            // Before another thread may take the lock.
            self.data.leave(shared, published.clone());
            if shared.claims.leases.keep(shared.life().thread_slots.leases(), leased) {
                return Ok(Released::Kept);
            }
        }
        match home.ask_sync(&last, Patience::Usual) {
            Ok(_) | Err(Error::Broken { happened: Happened::Yes, .. }) if !told => {}
            _ => return Err(lost(self.name())),
        }
        self.data.leave(shared, published?);
        Ok(Released::GivenBack)
    }

    /// Refuses a lock whose connection has broken; it ends at the home, too.
    fn ensure_held(&self) -> Result<()> {
        self.check().inspect_err(|_| self.taking().home.end(self.taking().connection, Duration::MAX))
    }

    /// Brings the data that is bound to it. If that fails, gives the lock back as if it had not been had.
    fn enter(&mut self, known: Option<LockData>, grant: Option<Box<DataGrant>>) -> Result<()> {
        let entered = self.data.enter(&self.pool.shared, known, grant);
        if entered.is_err() {
            self.is_open = false;
            let (taking, leased, shared) = (self.taking().clone(), self.leased.take(), &self.pool.shared);
            taking.set_mine(false);
            shared.claims.held().remove(&taking.number);
            self.data.undo(shared);
            let given_back = taking.home.ask_sync(&SyncRequest::Withdraw { number: taking.number }, Patience::Usual);
            if let Some(leased) = leased {
                shared.claims.leases.ended(shared.life().thread_slots.leases(), &taking.key, leased, given_back.is_ok());
            }
        }
        entered.map_err(ended)
    }
}

impl std::fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LockGuard")
            .field("name", &self.name())
            .field("was_abandoned", &self.was_abandoned)
            .finish_non_exhaustive()
    }
}

impl Drop for LockGuard {
    fn drop(&mut self) {
        if self.is_open {
            // A caller that wants the outcome calls `unlock`.
            let _ = self.give_back();
        }
        self.taking().leave();
    }
}

/// Locks at names, for all clients of the pool. They exist by being taken; names are as regions' are, apart from those.
///
/// **Ordering**: the first come is served first; a shared taking does not overtake an exclusive one that waits. **Cost**: one message
/// each way to the pool's home, and the wait; the same to give it back. A program that has taken a lock alone before, while nobody else
/// wanted it, gets a lease. Under a lease it gives the lock back and takes it again without a message or a system call, and without an
/// allocation where nothing is bound. Stores to bound bytes go home all the same. The next program that asks waits for some more messages
/// between nodes. **Errors** of all: [`Error::BadName`]. [`Error::NoPermission`] where the name is another user's that did not
/// [permit](Pool::permit) it. [`Error::LockMisused`] where this thread has the lock already, shared or not (a shared lock cannot be made
/// exclusive: two that try would wait for ever). [`Error::LockLost`] once for each lock that this thread held when the connection to the
/// home broke. [`Error::NodeLost`] where the home is gone.
impl Pool {
    /// Says who may use a name of locks and groups, as mode bits. `r` shares the lock; `r` and `w` together take it alone and join the
    /// group. A name belongs to its first user, with mode 0600, until the pool's home ends; root may do all. Of groups the primary one
    /// counts.
    ///
    /// **Cost**: one message each way. **Errors**: [`Error::NoPermission`] where the name is another user's; [`Error::BadSetting`] for a mode
    /// that is none; [`Error::LimitReached`].
    pub fn permit(&self, name: &str, mode: u32) -> Result<()> {
        check_name(name)?;
        let permit = SyncRequest::Permit { name: name.to_owned(), mode };
        self.shared.ask_home(|home| home.ask_sync(&permit, Patience::Usual)).map_err(ended)?;
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

    /// Takes a lock, and waits for `bound` at most (in whole milliseconds). For a home that does not answer it waits
    /// [`LATE_MS`](hanare_protocol::limits::LATE_MS) more. **Errors**: [`Error::NotInTime`] when others have it all that time, or the home
    /// did not answer.
    pub fn lock_within(&self, name: &str, bound: Duration) -> Result<LockGuard> {
        self.acquire(name, Mode::Exclusive, Some(bound))?.ok_or_else(|| late(name, bound))
    }

    /// [`Pool::lock_within`], shared.
    pub fn lock_shared_within(&self, name: &str, bound: Duration) -> Result<LockGuard> {
        self.acquire(name, Mode::Shared, Some(bound))?.ok_or_else(|| late(name, bound))
    }

    /// Takes one of `count` places of a semaphore of that name. Waits for `bound` at most, or as long as others have all of them. The guard
    /// is the place: its drop gives the place back, as does the program's end. See [`RegionLock::one_of`].
    pub fn one_of(&self, name: &str, count: u32, bound: Option<Duration>) -> Result<LockGuard> {
        let late = || late(name, bound.unwrap_or_default());
        self.acquire(name, Mode::OneOf(count), bound)?.ok_or_else(late)
    }

    fn acquire(&self, name: &str, mode: Mode, bound: Option<Duration>) -> Result<Option<LockGuard>> {
        SyncTarget::name(&self.shared, name)?.acquire(mode, bound)
    }
}

/// The error of a connection that broke under what ended with it. Whether that had happened does not matter any more.
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

/// Time for a reply that waits for others within a bound.
pub(crate) fn patience(bound_ms: Option<u64>) -> Patience {
    bound_ms.map_or(Patience::Endless, |ms| Patience::UpTo(Duration::from_millis(ms)))
}

fn late(name: &str, bound: Duration) -> Error {
    Error::NotInTime { what: format!("lock '{name}'"), after_ms: milliseconds(bound) }
}

fn nonsense(name: &str) -> Error {
    Error::Garbage { peer: "the pool's home".to_owned(), reason: format!("no answer to a taking of lock '{name}'") }
}
