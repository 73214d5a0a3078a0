//! A mount's life among the mounts of a file system, and its two threads.
//!
//! A mount holds the lock `NAME@mount.ID` from before its `Start` until it ends. Another mount that finds the lock free for a while adds
//! `End` for it. A mount that could not look at the log for a shorter while does nothing more: others may have ended it.
//!
//! The *watch* holds the lock and looks at the log. It makes no change, because a change waits for others, up to [`STANDING`] and longer.
//! The *ticker* makes the changes.

use super::Files;
use super::bytes::TELL_AFTER;
use super::ledger::Ledger;
use super::open::Open;
use super::record::{Record, SessionId};
use super::refusal::{Result, failed};
use super::tree::Tree;
use hanare::{Error, LockGuard, Pool};
use rustix::io::Errno;
use std::collections::HashMap;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Time between two ticks.
const TICK: Duration = Duration::from_millis(200);

/// Time between two looks of the watch.
const LOOK: Duration = Duration::from_secs(1);

/// Time between its looks for mounts that died.
const LOOK_FOR_DEAD: Duration = Duration::from_secs(2);

/// Time that a mount goes on without a look at the log: longer than any call on the pool takes.
const STANDING: Duration = Duration::from_secs(15);

/// Time that another's lock is free before it counts as dead. Its last calls, begun within [`STANDING`], have ended by then.
const GRACE: Duration = Duration::from_secs(30);

/// Time that a data region is all free before it goes back to the pool.
const FREE_AFTER: Duration = Duration::from_secs(5);

/// Time that a full pool waits for blocks that others may still use.
const FREE_BOUND: Duration = Duration::from_secs(2);

/// The mount's number in the file system, and the time of the last proof of it.
pub struct Standing {
    name: String,
    state: Mutex<State>,
    bell: Condvar,
    /// Rings when the ticker has ended.
    last_bell: Condvar,
}

#[derive(Default)]
struct State {
    session: Option<SessionId>,
    seen: Option<Instant>,
    /// Ticks done, and those that somebody waits for.
    ticks: u64,
    wanted: u64,
    /// The mount ends.
    is_over: bool,
    /// The ticker has ended, so nobody needs the mount's lock.
    has_ended: bool,
}

impl Standing {
    /// No number yet.
    pub fn new(name: &str) -> Standing {
        Standing { name: name.to_owned(), state: Mutex::default(), bell: Condvar::new(), last_bell: Condvar::new() }
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The mount's number. **Errors**: `EIO` while it has none, because others may take it for dead.
    pub fn session(&self) -> Result<SessionId> {
        let state = self.state();
        match (state.session, state.seen) {
            (Some(session), Some(seen)) if seen.elapsed() < STANDING => Ok(session),
            _ => {
                drop(state);
                failed("files", "the pool's home has not answered for a while, so this mount may count as dead");
                Err(Errno::IO)
            }
        }
    }

    fn lock_name(&self, session: SessionId) -> String {
        format!("{}@mount.{session:x}", self.name)
    }
}

/// Lets the watch end when the ticker has ended, however it did.
struct Ending<'f>(&'f Standing);

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.0.state().has_ended = true;
        self.0.last_bell.notify_all();
    }
}

/// Proves that this mount lives.
struct Watch<'f> {
    files: &'f Files,
    lock: LockGuard,
    session: SessionId,
}

/// State of the ticker between two ticks.
struct Ticker<'f> {
    files: &'f Files,
    session: SessionId,
    slot: u32,
    /// The position to publish once all calls of the moment before have left.
    turning: Option<u64>,
    said: u64,
    looked: Instant,
    free_since: HashMap<SessionId, Instant>,
    regions_free_since: HashMap<u32, Instant>,
}

impl Files {
    /// Runs the ticker and the watch until [`Files::stop`]; calls `ready` once this mount is one.
    ///
    /// **Errors**: the pool's, before it is ready; [`Error::System`] where no thread can be made.
    pub fn tick_until_stopped(&self, ready: impl FnOnce()) -> Result<(), Error> {
        let (session, lock) = take_lock(&self.pool, &self.standing)?;
        let mut ticker = Ticker::start(self, session)?;
        std::thread::scope(|threads| {
            let ticks = std::thread::Builder::new().name("ticker".to_owned()).spawn_scoped(threads, move || {
                let _ending = Ending(&self.standing);
                ticker.run();
            });
            ticks.map_err(|error| Error::System { what: "start a mount".to_owned(), reason: error.to_string() })?;
            ready();
            Watch { files: self, lock, session }.run();
            Ok(())
        })
    }

    /// Ends the ticker, and with it this mount.
    pub fn stop(&self) {
        self.standing.state().is_over = true;
        self.standing.bell.notify_all();
    }

    /// Frees blocks that no mount uses any more, and waits for it. Returns true if some were freed.
    pub fn free_now(&self) -> bool {
        let free = || self.ledger.known().tree.space.free.count();
        let (before, begun) = (free(), Instant::now());
        if !self.ledger.known().tree.is_waiting() {
            return false;
        }
        let mut state = self.standing.state();
        while free() <= before && begun.elapsed() < FREE_BOUND && !state.is_over {
            state.wanted = state.ticks + 2;
            self.standing.bell.notify_all();
            state = self.standing.bell.wait_timeout(state, TICK).unwrap_or_else(PoisonError::into_inner).0;
        }
        drop(state);
        free() > before
    }

    /// Removes those of `some` data regions whose blocks are all free.
    fn drop_free_regions(&self, some: &[u32]) -> Result<()> {
        let dropped = self.ledger.commit(|tree| {
            let free: Vec<u32> = some.iter().copied().filter(|segment| tree.space.is_free(*segment)).collect();
            Ok((free.iter().map(|segment| Record::DropSegment { segment: *segment }).collect(), free))
        })?;
        dropped.into_iter().for_each(|segment| self.store.drop_region(segment));
        Ok(())
    }

    /// All files that are open here, or have something to tell.
    fn all_open(&self) -> Vec<Arc<Open>> {
        self.opens().values().cloned().collect()
    }
}

/// Adds a mount's `Start` to the log. Returns its slot.
fn begin(ledger: &Ledger, session: SessionId) -> Result<u32> {
    let is_there = |tree: &Tree| tree.sessions.get(&session).map(|session| session.slot);
    ledger.commit(|tree| Ok((if is_there(tree).is_some() { Vec::new() } else { vec![Record::Start { session }] }, ())))?;
    is_there(&ledger.known().tree).ok_or(Errno::NFILE)
}

impl Watch<'_> {
    /// Watches until the ticker has ended.
    fn run(mut self) {
        while !self.files.standing.state().has_ended {
            if let Err(error) = self.look() {
                failed("files", &error.to_string());
            }
            let state = self.files.standing.state();
            if !state.has_ended {
                drop(self.files.standing.last_bell.wait_timeout(state, LOOK));
            }
        }
    }

    /// Proves that the mount counts, or finds that others took it for dead.
    fn look(&mut self) -> Result<()> {
        self.check_lock()?;
        let begun = Instant::now();
        // The ticker may begin the mount again while this looks.
        let was_there = self.files.standing.state().session.is_some();
        let is_there = self.files.ledger.view()?.tree.sessions.contains_key(&self.session);
        let mut state = self.files.standing.state();
        if is_there {
            state.seen = Some(begun);
        } else if was_there {
            state.session = None;
        }
        Ok(())
    }

    /// Takes the lock again where the connection that held it broke.
    fn check_lock(&mut self) -> Result<()> {
        if self.lock.check().is_ok() {
            return Ok(());
        }
        let name = self.files.standing.lock_name(self.session);
        let again = self.files.pool.lock_within(&name, STANDING);
        // The first call after the loss only reports it.
        let again = again.or_else(|_| self.files.pool.lock_within(&name, STANDING));
        self.lock = again.map_err(|error| super::refusal::refused("a mount's lock", &error))?;
        Ok(())
    }
}

impl<'f> Ticker<'f> {
    fn start(files: &'f Files, session: SessionId) -> Result<Ticker<'f>, Error> {
        let full = |error: Errno| Error::System { what: "begin a mount".to_owned(), reason: error.to_string() };
        let now = Instant::now();
        let slot = begin(&files.ledger, session).map_err(full)?;
        let mut state = files.standing.state();
        (state.session, state.seen) = (Some(session), Some(now));
        drop(state);
        let (free_since, regions_free_since) = Default::default();
        Ok(Ticker { files, session, slot, turning: None, said: 0, looked: now, free_since, regions_free_since })
    }

    /// Ticks until the mount ends.
    fn run(&mut self) {
        let standing = &self.files.standing;
        while !standing.state().is_over {
            if let Err(error) = self.tick() {
                failed("files", &error.to_string());
            }
            let mut state = standing.state();
            state.ticks += 1;
            standing.bell.notify_all();
            if state.wanted <= state.ticks && !state.is_over {
                drop(standing.bell.wait_timeout(state, TICK));
            }
        }
        self.end();
    }

    fn tick(&mut self) -> Result<()> {
        // The watch has found that others took this mount for dead.
        if self.files.standing.state().session.is_none() {
            self.begin_anew()?;
        }
        drop(self.files.ledger.view()?);
        self.hold_orphans()?;
        self.tell_old();
        self.say_how_far()?;
        self.reclaim()?;
        self.drop_free()?;
        if self.looked.elapsed() > LOOK_FOR_DEAD {
            self.looked = Instant::now();
            self.end_dead()?;
        }
        Ok(())
    }

    /// Begins again after others took this mount for dead. Its reserve is theirs, and its writes that are not in the log are lost.
    fn begin_anew(&mut self) -> Result<()> {
        let files = self.files;
        let mut lost = 0;
        for open in files.all_open() {
            let mut pending = open.write();
            if pending.is_dirty() {
                pending.is_broken = true;
                lost += 1;
            }
            pending.settle();
            (pending.is_held, pending.cached) = (false, None);
        }
        files.store.forget_reserves();
        failed("files", &format!("this mount was taken for dead; what {lost} files had not told is lost"));
        self.slot = begin(&files.ledger, self.session)?;
        (self.turning, self.said) = (None, 0);
        files.standing.state().session = Some(self.session);
        Ok(())
    }

    /// Holds open files that have no name any more, so that they stay as long as they are open.
    fn hold_orphans(&self) -> Result<()> {
        for open in self.files.all_open() {
            let (session, ino) = (self.session, open.ino);
            if !self.files.ledger.known().tree.is_orphan(ino) {
                continue;
            }
            let Some(mut pending) = open.try_write() else { continue };
            if pending.handles > 0 && !pending.is_held {
                self.files.ledger.commit(|_| Ok((vec![Record::Hold { session, ino }], ())))?;
                pending.is_held = true;
            }
            if pending.handles == 0 && !pending.is_held {
                let fresh = pending.settle();
                self.files.store.give_back(&pending.key, fresh.iter().map(|(_, run)| run));
            }
        }
        Ok(())
    }

    /// Adds writes of a while ago to the log. Files that are being written have their turn at the next tick.
    fn tell_old(&self) {
        for open in self.files.all_open() {
            let Some(mut pending) = open.try_write() else { continue };
            if pending.since.is_some_and(|since| since.elapsed() >= TELL_AFTER) && self.files.tell(&open, &mut pending).is_err() {
                // Said again at the next flush, unless a later try succeeds.
                pending.since = Some(Instant::now());
            }
        }
    }

    /// Publishes the position that all calls of this mount have come past.
    fn say_how_far(&mut self) -> Result<()> {
        let files = self.files;
        if let Some(position) = self.turning {
            if !files.gate.is_past() {
                return Ok(());
            }
            self.turning = None;
            if position > self.said {
                files.ledger.mark(self.slot, position)?;
                self.said = position;
            }
        }
        // Calls from here on know all that was told until now.
        let position = files.ledger.known().tree.position + 1;
        let holds = |open: &Arc<Open>| {
            let is_orphan = files.ledger.known().tree.is_orphan(open.ino);
            is_orphan && open.try_write().is_none_or(|pending| pending.handles > 0 && !pending.is_held)
        };
        // A file that is open and not held yet must not go.
        if position > self.said && !files.all_open().iter().any(holds) {
            files.gate.turn();
            self.turning = Some(position);
        }
        Ok(())
    }

    /// Frees blocks and files that all mounts have come past.
    fn reclaim(&self) -> Result<()> {
        let files = self.files;
        let Some(oldest) = files.ledger.known().tree.oldest() else { return Ok(()) };
        let upto = files.ledger.slowest()?;
        if upto <= oldest {
            return Ok(());
        }
        files.ledger.commit(|tree| {
            let is_new = tree.oldest().is_some_and(|oldest| oldest < upto);
            Ok((if is_new { vec![Record::Reclaim { upto }] } else { Vec::new() }, ()))
        })?;
        Ok(())
    }

    /// Removes data regions that have been free for a while. Until then the next writes find room there.
    fn drop_free(&mut self) -> Result<()> {
        let free = free_regions(&self.files.ledger.known().tree);
        self.regions_free_since.retain(|segment, _| free.contains(segment));
        let now = Instant::now();
        for segment in free {
            self.regions_free_since.entry(segment).or_insert(now);
        }
        let idle = self.regions_free_since.iter().filter(|(_, since)| since.elapsed() >= FREE_AFTER);
        let idle: Vec<u32> = idle.map(|(segment, _)| *segment).collect();
        if idle.is_empty() { Ok(()) } else { self.files.drop_free_regions(&idle) }
    }

    /// Ends mounts whose lock nobody holds.
    fn end_dead(&mut self) -> Result<()> {
        let files = self.files;
        let others: Vec<SessionId> = {
            let known = files.ledger.known();
            known.tree.sessions.keys().copied().filter(|session| *session != self.session).collect()
        };
        self.free_since.retain(|session, _| others.contains(session));
        for session in others {
            let lock = files.pool.try_lock(&files.standing.lock_name(session));
            let Ok(Some(_lock)) = lock else {
                self.free_since.remove(&session);
                continue;
            };
            let since = *self.free_since.entry(session).or_insert_with(Instant::now);
            if since.elapsed() >= GRACE {
                let making = files.ledger.commit(|tree| {
                    let making = tree.sessions.get(&session).map(|of| of.making.clone());
                    Ok((if making.is_some() { vec![Record::End { session }] } else { Vec::new() }, making.unwrap_or_default()))
                })?;
                // The dead mount may have made these regions, and said nothing of them.
                making.into_iter().for_each(|segment| files.store.drop_region(segment));
                tracing::info!("mount {session:x} has ended without saying so");
            }
        }
        Ok(())
    }

    /// Adds all pending writes, and this mount's `End`, to the log.
    fn end(&self) {
        let files = self.files;
        for open in files.all_open() {
            if let Err(error) = files.flush(open.ino) {
                failed("files", &format!("what was written to file {} last is lost: {error}", open.ino));
            }
        }
        let session = self.session;
        let ended = files.ledger.commit(|tree| {
            let mut records = vec![Record::End { session }];
            // The last one frees at once what it had.
            if tree.sessions.len() == 1 {
                records.push(Record::Reclaim { upto: tree.position + 2 });
            }
            Ok((records, tree.sessions.get(&session).map(|of| of.making.clone()).unwrap_or_default()))
        });
        let free = free_regions(&files.ledger.known().tree);
        let ended = ended.map(|making| making.into_iter().for_each(|segment| files.store.drop_region(segment)));
        if let Err(error) = ended.and_then(|()| files.drop_free_regions(&free)) {
            failed("files", &format!("the end of this mount is not said: {error}"));
        }
        files.standing.state().session = None;
    }
}

/// Data regions that are all free.
fn free_regions(tree: &Tree) -> Vec<u32> {
    tree.space.segments.keys().copied().filter(|segment| tree.space.is_free(*segment)).collect()
}

/// A number whose lock is free, and the lock.
fn take_lock(pool: &Pool, standing: &Standing) -> Result<(SessionId, LockGuard), Error> {
    loop {
        let session = super::ledger::draw()?;
        if let Some(lock) = pool.try_lock(&standing.lock_name(session))? {
            return Ok((session, lock));
        }
    }
}
