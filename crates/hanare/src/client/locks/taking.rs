//! Taking of locks: by a lease without a message, else by asking their home.

use super::{LockGuard, ended, late, milliseconds, nonsense, patience};
use crate::client::attachment::{Again, GrantOf, GrantedLock, Lease, Shared};
use crate::client::bound::Section;
use crate::client::pool::Pool;
use crate::client::region::Region;
use crate::client::request::Patience;
use crate::client::sync_address::SyncTarget;
use crate::client::threads::this_thread;
use hanare_protocol::error::Happened;
use hanare_protocol::limits::LATE_MS;
use hanare_protocol::wire::sync::{Mode, SyncAnswer, SyncRequest};
use hanare_protocol::{Error, Result};
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

impl Region {
    /// The lock at a byte of the region, kept at the node that holds the byte. There are as many locks as bytes, for data there or
    /// anywhere. The byte itself is neither read nor written.
    ///
    /// The lock is like those at names ([`Pool::lock`]). It is fair, it may be waited for within a bound, its holder's death grants it on,
    /// and it is leased to a program that alone wants it. Data may be bound to it. A user who may write the region may take it, and one who
    /// may read the region may share it. The lock goes with the region.
    pub fn lock_at(&self, offset: u64) -> RegionLock<'_> {
        RegionLock { region: self, offset, mode: Mode::Exclusive }
    }
}

/// A lock at a byte of a region.
///
/// **Ordering**, **Cost**, **Errors** of all: as for locks at names ([`Pool::lock`]), with the byte's node in place of the pool's home.
/// [`Error::OutOfRange`]. [`Error::BadUse`] where the region was opened for reading, and the lock is not to be shared.
/// [`Error::UnknownRegion`] where the region is removed, also during the wait.
#[derive(Clone, Copy, Debug)]
pub struct RegionLock<'r> {
    region: &'r Region,
    offset: u64,
    mode: Mode,
}

impl RegionLock<'_> {
    /// The same lock, to be shared with others that share it.
    pub fn shared(self) -> Self {
        RegionLock { mode: Mode::Shared, ..self }
    }

    /// The same lock as a semaphore. So many may have it at the same time; a thread has one place. Whoever says another number, or takes
    /// the lock alone, waits until nobody has it. Who dies leaves its place to the next, who is told ([`LockGuard::was_abandoned`]).
    ///
    /// ```no_run
    /// # let region = hanare::Pool::attach()?.open("printers")?;
    /// let place = region.lock_at(0).one_of(4).lock()?;
    /// // No more than four are here.
    /// place.unlock()?;
    /// # Ok::<(), hanare::Error>(())
    /// ```
    pub fn one_of(self, count: u32) -> Self {
        RegionLock { mode: Mode::OneOf(count), ..self }
    }

    /// Takes it, waiting as long as others have it.
    pub fn lock(self) -> Result<LockGuard> {
        self.acquire(None)?.ok_or_else(|| nonsense(self.region.name()))
    }

    /// Takes it if it can be had at once.
    pub fn try_lock(self) -> Result<Option<LockGuard>> {
        self.acquire(Some(Duration::ZERO))
    }

    /// Takes it, waiting for `bound` at most. **Errors**: as for [`Pool::lock_within`].
    pub fn lock_within(self, bound: Duration) -> Result<LockGuard> {
        let place = self.place()?;
        place.acquire(self.mode, Some(bound))?.ok_or_else(|| late(&place.title(), bound))
    }

    fn acquire(self, bound: Option<Duration>) -> Result<Option<LockGuard>> {
        self.place()?.acquire(self.mode, bound)
    }

    fn place(&self) -> Result<SyncTarget<'_>> {
        SyncTarget::byte(self.region, self.offset, self.mode == Mode::Shared)
    }
}

impl SyncTarget<'_> {
    /// `None`: others have it, and the bound was less than a millisecond.
    pub(super) fn acquire(&self, mode: Mode, bound: Option<Duration>) -> Result<Option<LockGuard>> {
        let shared = self.shared();
        let (claims, words, key) = (&shared.claims, shared.life().thread_slots.leases(), self.key());
        let begun = bound.map(|_| Instant::now());
        let left = || bound.zip(begun).map(|(bound, begun)| bound.saturating_sub(begun.elapsed()));
        let late_after =
            |left: Option<Duration>| left.map_or(Duration::MAX, |left| left.saturating_add(Duration::from_millis(LATE_MS)));
        // A thread that lost a lock hears of it before it takes another.
        claims.check(late_after(bound))?;
        if let Some(guard) = self.acquire_again(&key, mode)? {
            return Ok(Some(guard));
        }
        loop {
            if let Some(lease) = claims.leases.spare(words, &key) {
                return_lease(shared, &lease);
            }
            match self.acquire_once(&key, mode, left()) {
                Ok(taken) => return Ok(taken),
                // The connection has ended at the home, too: locks taken over it are gone.
                Err(Error::Broken { happened: Happened::No | Happened::Yes, .. }) => {}
                Err(Error::NotInTime { .. }) => return Err(late(&self.title(), bound.unwrap_or_default())),
                // The home could not be reached in that time.
                Err(Error::Timeout { .. }) if left().is_some_and(|left| left.is_zero()) => {
                    return Err(late(&self.title(), bound.unwrap_or_default()));
                }
                Err(error) => return Err(ended(error)),
            }
            claims.check(late_after(left()))?;
        }
    }

    /// Asks the home for it.
    fn acquire_once(&self, key: &str, mode: Mode, left: Option<Duration>) -> Result<Option<LockGuard>> {
        let shared = self.shared();
        let (claims, words) = (&shared.claims, shared.life().thread_slots.leases());
        let data = claims.data().get(key).cloned();
        let (bound_ms, known) = (left.map(milliseconds), data.as_ref().map(|data| data.stamp));
        let (answer, number, wish, home) = self.ask(|home, address| {
            let (number, thread) = (claims.next(), this_thread());
            let wish = claims.leases.wish(words, key, mode, number);
            let request = SyncRequest::Lock { address, mode, number, thread, bound_ms, known, lease: wish.wire };
            let answer = crate::trace::slice("take a lock", || home.ask_sync(&request, patience(bound_ms)));
            if !matches!(answer, Ok((SyncAnswer::Granted { .. } | SyncAnswer::Busy, _))) {
                claims.leases.failed(words, &wish);
            }
            answer.map(|answer| (answer, number, wish, home.clone()))
        })?;
        match answer {
            (SyncAnswer::Granted { abandoned, data: grant, leased }, connection) => {
                let taking = claims.taken((key.to_owned(), self.title()), home, number, connection);
                let of = GrantOf { connection, leased: leased.then_some(&taking), has_data: grant.is_some() };
                let leased = claims.leases.answered(words, (key, wish), of);
                fence(Ordering::SeqCst);
                if leased.is_none() {
                    claims.held().insert(number, taking.clone());
                }
                let mut guard = self.guard(taking, mode);
                (guard.was_abandoned, guard.leased) = (abandoned, leased);
                guard.enter(data, grant)?;
                Ok(Some(guard))
            }
            (SyncAnswer::Busy, connection) => {
                claims.leases.answered(words, (key, wish), GrantOf { connection, leased: None, has_data: false });
                Ok(None)
            }
            _ => Err(nonsense(&self.title())),
        }
    }

    /// Takes a lock without a message, where it is leased to this program and kept.
    fn acquire_again(&self, key: &str, mode: Mode) -> Result<Option<LockGuard>> {
        let shared = self.shared();
        match shared.claims.leases.take(shared.life().thread_slots.leases(), key, mode) {
            Again::Ask => Ok(None),
            Again::Mine => {
                let reason = "this thread has it already and would wait for itself; give it back first".to_owned();
                Err(Error::LockMisused { name: self.title(), reason })
            }
            Again::Return(lease) => {
                return_lease(shared, &lease);
                Ok(None)
            }
            Again::Taken(Lease { leased, taking }) => {
                let mut guard = self.guard(taking, mode);
                guard.leased = Some(leased);
                if leased.has_data {
                    // The lock was not granted elsewhere meanwhile, so all mappings show this program's last stores.
                    let data = shared.claims.data().get(key).cloned();
                    guard.data.enter_again(data.expect("as long as a lock is leased its data are known"));
                }
                Ok(Some(guard))
            }
        }
    }

    /// A lock that this thread has, by that taking.
    fn guard(&self, taking: Arc<GrantedLock>, mode: Mode) -> LockGuard {
        taking.enter();
        LockGuard {
            pool: Pool::of(self.shared().clone()),
            leased: None,
            was_abandoned: false,
            is_open: true,
            data: Section::new(taking, mode),
            not_send: PhantomData,
        }
    }
}

/// Gives a lock back by a message that is leased and that no thread has, though its word says so.
fn return_lease(shared: &Shared, Lease { leased, taking }: &Lease) {
    let unlock = SyncRequest::Unlock { number: taking.number };
    // Only the home that leased it knows of it, as long as that connection lasts.
    let knows = taking.is_connected() && taking.home.ask_sync(&unlock, Patience::Usual).is_ok();
    shared.claims.leases.ended(shared.life().thread_slots.leases(), &taking.key, *leased, knows);
}
