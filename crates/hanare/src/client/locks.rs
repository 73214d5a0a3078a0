//! Locks at names, kept at the pool's home, and at bytes of regions, kept at the bytes' nodes.
//!
//! A lock is held by way of the connection to its home: when that ends, because the program does or because it breaks, the
//! home grants the lock on. A program that goes on is told so by its next call on a lock.
//!
//! A lock that this program takes again and again alone is lent to it: then it is given back and taken in memory
//! that it shares with its node, until the home wants it back.

use super::attachment::{Again, CONNECTION_BROKE, HeldLock, LentLock, LockData, Shared};
use super::bound::Section;
use super::pool::Pool;
use super::region::Region;
use super::remote::Remote;
use super::request::Patience;
use super::shared::SharedMapping;
use super::site::Place;
use super::threads::this_thread;
use hanare_protocol::entry::{BoundShape, DataGrant};
use hanare_protocol::error::Happened;
use hanare_protocol::limits::LATE_MS;
use hanare_protocol::name::check_name;
use hanare_protocol::wire::sync::{Mode, SyncAnswer, SyncRequest};
use hanare_protocol::{Error, Result};
use std::marker::PhantomData;
use std::sync::Arc;
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
    /// What this program keeps it by, and what people call it.
    key: String,
    title: String,
    home: Arc<Remote>,
    number: u64,
    connection: u128,
    /// How the program may keep it.
    lent: Option<LentLock>,
    was_abandoned: bool,
    is_open: bool,
    /// What is bound to it.
    data: Section,
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

    /// The lock's name; of one in a region the region's, and the offset.
    pub fn name(&self) -> &str {
        &self.title
    }

    /// Whether it is held still, as far as is known without asking. **Errors**: [`Error::LockLost`].
    pub fn check(&self) -> Result<()> {
        if self.home.connection() == Some(self.connection) { Ok(()) } else { Err(lost(&self.title)) }
    }

    /// Whether bytes that are bound to it are a mixture of two releases: the last holder died while it put at their homes more than goes
    /// with a lock. Said until one that has the lock alone gives it back.
    pub fn is_torn(&self) -> bool {
        self.data.is_torn()
    }

    /// Binds bytes of [`Consistency::Entry`](crate::Consistency::Entry) mappings to the lock, in the place of what was bound to it, from
    /// the moment on at which it is given back. They are brought here at once; stores to them from before, by whom ever, are to be
    /// flushed. Nothing bound: the lock has no data any more.
    ///
    /// Whoever takes the lock from then on has these bytes as the last holder left them, in all its mappings of their regions. A program
    /// stores to them while it has the lock alone; nobody sees any of its stores before it gives the lock back, and all see them from then
    /// on, or none if it dies before. Bytes of two locks may lie in one page.
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
        let reason = format!("bytes {offset} to {} are not bound to lock '{}'", offset.saturating_add(len), self.title);
        Err(Error::BadUse { region: mapping.name().to_owned(), reason })
    }

    /// Gives it back, and says whether it was held all the time. Stores to bytes that are bound to it are seen by those who take it next.
    ///
    /// **Cost**: one message each way. Where bytes that are bound to it were stored to, one more with them to the pool's home, and as
    /// [`SharedMapping::flush`]. **Errors**: [`Error::LockLost`] where the connection broke meanwhile: the lock may
    /// have gone to others, who were told that it was abandoned. As for [`Pool::check_stores`] where stores were lost, and for
    /// [`SharedMapping::flush`]; the lock is given back then, and stores to bytes that are bound to it are taken back.
    pub fn unlock(mut self) -> Result<()> {
        let kept = self.pool.check_stores();
        self.give_back().and(kept)
    }

    fn give_back(&mut self) -> Result<()> {
        fence(Ordering::SeqCst);
        self.is_open = false;
        let released = self.release();
        if released.is_err() {
            self.data.undo(&self.pool.shared);
        }
        released
    }

    /// As [`LockGuard::give_back`], but for what is to be undone.
    fn release(&mut self) -> Result<()> {
        let (claims, words) = (&self.pool.shared.claims, self.pool.shared.seats.leases());
        let told = claims.held().remove(&self.number).is_none_or(|held| held.is_told);
        let lent = self.lent.take();
        if let Some(lent) = lent.filter(|_| !told && self.data.is_bare())
            && claims.borrowed.keep(words, lent)
        {
            return Ok(());
        }
        let released = self.release_by_message(told);
        if let Some(lent) = lent {
            self.pool.shared.claims.borrowed.ended(self.pool.shared.seats.leases(), &self.key, lent, released.is_ok());
        }
        released
    }

    fn release_by_message(&mut self, told: bool) -> Result<()> {
        let shared = &self.pool.shared;
        self.ensure_held()?;
        let (published, last) = match self.data.publish(shared, &self.home) {
            Ok(published) => (Ok(published), SyncRequest::Unlock { number: self.number }),
            Err(Error::Broken { .. }) => return Err(lost(&self.title)),
            Err(error) => (Err(error), SyncRequest::Withdraw { number: self.number }),
        };
        match self.home.ask_sync(&last, Patience::Usual) {
            Ok(_) | Err(Error::Broken { happened: Happened::Yes, .. }) if !told => {}
            _ => return Err(lost(&self.title)),
        }
        self.data.leave(shared, published?);
        Ok(())
    }

    /// Refuses a lock whose connection has broken; it ends at the home, too.
    fn ensure_held(&self) -> Result<()> {
        self.check().inspect_err(|_| self.home.end(self.connection, Duration::MAX))
    }

    /// Gives the lock back, waits until a condition of it is notified, or for `bound` at most, and takes it again. Returns whether it was
    /// notified. A condition is any number: the offset of what is waited for is a good one. What is waited for is looked at anew
    /// afterwards, because others may have had the lock first, and because a lock that is abandoned wakes all who wait for its conditions:
    /// then [`LockGuard::was_abandoned`] says so to the first of them.
    ///
    /// **Ordering**: those who wait for a condition go on in the order in which they came, each when it has the lock.
    /// **Cost**: one message each way, and those of data bound to the lock, as for [`LockGuard::unlock`] and [`Pool::lock`].
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

    /// As this thread holds it.
    fn held(&self, connection: u128) -> HeldLock {
        let (key, title) = (self.key.clone(), self.title.clone());
        HeldLock { key, title, home: self.home.clone(), thread: this_thread(), connection, is_told: false }
    }

    /// Brings the data that is bound to it; where that fails, gives it back as if it had not been had.
    fn enter(&mut self, known: Option<LockData>, grant: Option<Box<DataGrant>>) -> Result<()> {
        let entered = self.data.enter(&self.pool.shared, &self.home, known, grant);
        if entered.is_err() {
            self.is_open = false;
            self.pool.shared.claims.held().remove(&self.number);
            self.data.undo(&self.pool.shared);
            let given_back = self.home.ask_sync(&SyncRequest::Withdraw { number: self.number }, Patience::Usual);
            if let Some(lent) = self.lent.take() {
                let shared = &self.pool.shared;
                shared.claims.borrowed.ended(shared.seats.leases(), &self.key, lent, given_back.is_ok());
            }
        }
        entered.map_err(ended)
    }
}

impl std::fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LockGuard").field("name", &self.title).field("was_abandoned", &self.was_abandoned).finish_non_exhaustive()
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

/// Locks at names, for all clients of the pool. They exist by being taken; names are as regions' are, apart from those.
///
/// **Ordering**: who comes first is served first; a shared taking does not overtake an exclusive one that waits.
/// **Cost**: one message each way to the pool's home, and the wait; the same to give it back. A lock to which nothing is bound, and that
/// this program has taken alone before while nobody else wanted it, is lent to it: from then on it is given back and taken again without a
/// message or a system call, until somebody else asks for it. That one waits for some messages between nodes more.
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

    /// Takes one of `count` places of a semaphore of that name, waiting for `bound` at most, or as long as others have all of them. The
    /// guard is the place: it is given back with it, and by the program's end. See [`RegionLock::one_of`].
    pub fn one_of(&self, name: &str, count: u32, bound: Option<Duration>) -> Result<LockGuard> {
        let late = || late(name, bound.unwrap_or_default());
        self.acquire(name, Mode::OneOf(count), bound)?.ok_or_else(late)
    }

    fn acquire(&self, name: &str, mode: Mode, bound: Option<Duration>) -> Result<Option<LockGuard>> {
        Place::name(&self.shared, name)?.acquire(mode, bound)
    }
}

impl Region {
    /// The lock at a byte of the region, kept at the node that holds the byte: as many locks as there are bytes, for what lies there or
    /// anywhere. The byte itself is neither read nor written.
    ///
    /// It is a lock like those at names ([`Pool::lock`]): fair, within bounds, granted on when its holder dies, lent to a program that alone
    /// wants it; data may be bound to it. Who may write the region may take it, and who may read the region may share it. It goes with the region.
    pub fn lock_at(&self, offset: u64) -> RegionLock<'_> {
        RegionLock { region: self, offset, mode: Mode::Exclusive }
    }
}

/// A lock at a byte of a region.
///
/// **Ordering**, **Cost**, **Errors** of all: as for locks at names ([`Pool::lock`]), with the byte's node in place of the pool's home;
/// [`Error::OutOfRange`]; [`Error::BadUse`] where the region was opened for reading, and the lock is not to be shared;
/// [`Error::UnknownRegion`] where the region is removed, also while the lock is waited for.
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

    /// The same lock as a semaphore: so many may have it at the same time, a thread one place of them. Who says another number, or takes the
    /// lock alone, waits until nobody has it. Who dies leaves its place to the next, who is told ([`LockGuard::was_abandoned`]).
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

    fn place(&self) -> Result<Place<'_>> {
        Place::byte(self.region, self.offset, self.mode == Mode::Shared)
    }
}

impl Place<'_> {
    /// `None`: others have it, and the bound was less than a millisecond.
    fn acquire(&self, mode: Mode, bound: Option<Duration>) -> Result<Option<LockGuard>> {
        let shared = self.shared();
        let (claims, words, key) = (&shared.claims, shared.seats.leases(), self.key());
        let begun = Instant::now();
        if let Some(guard) = self.acquire_again(&key, mode, bound)? {
            return Ok(Some(guard));
        }
        loop {
            let left = bound.map(|bound| bound.saturating_sub(begun.elapsed()));
            claims.check(left.map_or(Duration::MAX, |left| left.saturating_add(Duration::from_millis(LATE_MS))))?;
            if let Some((other, lent)) = claims.borrowed.spare(words, &key) {
                return_lease(shared, &other, lent);
            }
            match self.acquire_once(&key, mode, left) {
                Ok(taken) => return Ok(taken),
                // That connection has ended at the home, too: what it took there it has no more.
                Err(Error::Broken { happened: Happened::No | Happened::Yes, .. }) => {}
                Err(Error::NotInTime { .. }) => return Err(late(&self.title(), bound.unwrap_or_default())),
                // The home could not be reached in that time.
                Err(Error::Timeout { .. }) if bound.is_some_and(|bound| begun.elapsed() >= bound) => {
                    return Err(late(&self.title(), bound.unwrap_or_default()));
                }
                Err(error) => return Err(ended(error)),
            }
        }
    }

    /// Asks the home for it.
    fn acquire_once(&self, key: &str, mode: Mode, left: Option<Duration>) -> Result<Option<LockGuard>> {
        let shared = self.shared();
        let (claims, words) = (&shared.claims, shared.seats.leases());
        let data = claims.data().get(key).cloned();
        let (bound_ms, known) = (left.map(milliseconds), data.as_ref().map(|data| data.stamp));
        let (answer, number, wish, home) = self.ask(|home, site| {
            let (number, thread) = (claims.next(), this_thread());
            let wish = claims.borrowed.wish(words, key, mode, number);
            let request = SyncRequest::Lock { site, mode, number, thread, bound_ms, known, lease: wish.wire };
            let answer = crate::trace::slice("take a lock", || home.ask_sync(&request, patience(bound_ms)));
            if !matches!(answer, Ok((SyncAnswer::Granted { .. } | SyncAnswer::Busy, _))) {
                claims.borrowed.failed(words, &wish);
            }
            answer.map(|answer| (answer, number, wish, home.clone()))
        })?;
        match answer {
            (SyncAnswer::Granted { abandoned, data: grant, lent }, connection) => {
                let lent = claims.borrowed.answered(words, (key, wish), lent, connection);
                let mut guard = self.guard(key, mode, (home, number, connection), abandoned);
                guard.lent = lent;
                guard.enter(data, grant)?;
                Ok(Some(guard))
            }
            (SyncAnswer::Busy, connection) => {
                claims.borrowed.answered(words, (key, wish), false, connection);
                Ok(None)
            }
            _ => Err(nonsense(&self.title())),
        }
    }

    /// Takes a lock without a message, where it is lent to this program and kept.
    fn acquire_again(&self, key: &str, mode: Mode, bound: Option<Duration>) -> Result<Option<LockGuard>> {
        let shared = self.shared();
        let (claims, words) = (&shared.claims, shared.seats.leases());
        if claims.has_some() {
            // A thread that lost a lock hears of it before it takes another.
            claims.check(bound.map_or(Duration::MAX, |bound| bound.saturating_add(Duration::from_millis(LATE_MS))))?;
        }
        match claims.borrowed.take(words, key, mode) {
            Again::Ask => Ok(None),
            Again::Mine => {
                let reason = "this thread has it already and would wait for itself; give it back first".to_owned();
                Err(Error::LockMisused { name: self.title(), reason })
            }
            Again::Return(lent) => {
                return_lease(shared, key, lent);
                Ok(None)
            }
            Again::Taken(lent) => {
                let home = self.remote().inspect_err(|_| return_lease(shared, key, lent))?;
                let mut guard = self.guard(key, mode, (home, lent.number, lent.connection), false);
                guard.lent = Some(lent);
                Ok(Some(guard))
            }
        }
    }

    /// A lock that this thread has, by that taking on that connection.
    fn guard(
        &self,
        key: &str,
        mode: Mode,
        (home, number, connection): (Arc<Remote>, u64, u128),
        was_abandoned: bool,
    ) -> LockGuard {
        fence(Ordering::SeqCst);
        let guard = LockGuard {
            pool: Pool { shared: self.shared().clone() },
            key: key.to_owned(),
            title: self.title(),
            home,
            number,
            connection,
            lent: None,
            was_abandoned,
            is_open: true,
            data: Section::new(key, number, mode),
            not_send: PhantomData,
        };
        guard.pool.shared.claims.held().insert(number, guard.held(connection));
        guard
    }
}

/// The home that lent a lock, as long as the connection lasts that it came on.
fn lender(shared: &Shared, lent: LentLock) -> Option<Arc<Remote>> {
    shared.remotes().into_iter().find(|remote| remote.connection() == Some(lent.connection))
}

/// Gives a lock back by a message that is lent and that no thread has, though its word says so.
fn return_lease(shared: &Shared, key: &str, lent: LentLock) {
    let unlock = SyncRequest::Unlock { number: lent.number };
    let knows = lender(shared, lent).is_some_and(|home| home.ask_sync(&unlock, Patience::Usual).is_ok());
    shared.claims.borrowed.ended(shared.seats.leases(), key, lent, knows);
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
