//! Data bound to locks, at the pool's home. It decides which bound bytes a taker of a lock has not seen, and whether the bytes at their
//! homes are whole. **Source**: [RF §3.4, P1], entry consistency.
//!
//! An exclusive holder *binds* bytes of regions to its lock. A *release* names the bytes that it changed, puts these at their homes, and
//! gives the lock back. Each release is a *version*. A taker of the lock names the version that it knows, and gets the later changes.
//!
//! ```text
//!           Publish                  Lose, with the bytes
//!   Whole ----------> Publishing -----------------------> Redo
//!    ^ ^ ^     Commit    |  ^                              |
//!    | | +---------------+  | Publish                      | Redone
//!    | |                 |  |                              |
//!    | |            Lose +->Torn <------ Distrust ---------+
//!    | +------- Mend --------+                             |
//!    +-----------------------------------------------------+
//! ```
//!
//! | state | bytes at their homes | the next holder |
//! |---|---|---|
//! | `Whole` | those of the last version | fetches what changed, or gets it with the grant |
//! | `Publishing` | a mixture, while the holder puts its changes there | waits for the lock |
//! | `Redo` | a mixture: the holder ended meanwhile, and this home has its changes | puts them there first |
//! | `Torn` | a mixture: the holder ended meanwhile, with more changes than a message holds, or they are another user's | is told so |
//!
//! A holder names its changes *before* it puts the first of them. So a release happens as a whole or not at all, if the changes fit a
//! message ([`RELEASE_LEN_MAX`]).
//!
//! A program that may take a lock may name any bytes, also of regions that it may not write. The regions' homes check its rights; this home
//! cannot. So bytes go with a lock, and are redone, only among programs of the publisher's user. Others fetch the bytes from the regions'
//! homes.
//!
//! A holder may have a lease of a lock with data ([`lock::lease`](crate::lock::lease)). It publishes as ever, and keeps the lock where it
//! would give it back. So the release is committed later. By the next release of the same holder, or when the holder's node reports that
//! the lock is only kept. Both come after the changes are at their homes. Where this home puts the changes in place itself, it commits them
//! at once.
//!
//! Stored releases are bounded by [`RELEASE_LINE_COUNT_MAX`] lines of 4 KiB for all locks. The least recently used lock loses its oldest
//! releases first. A claimant that asks for more than is stored takes all bound bytes for changed.
//!
//! [`RELEASE_LEN_MAX`]: crate::limits::RELEASE_LEN_MAX
//! [`RELEASE_LINE_COUNT_MAX`]: crate::limits::RELEASE_LINE_COUNT_MAX

#[cfg(test)]
mod explore;
mod publication;
mod staged_releases;
#[cfg(test)]
mod tests;

use publication::limited;
pub use publication::{BoundRange, BoundShape, Publication, Stores, check_binding};

use crate::error::{Error, Result};
use crate::id::{Gid, Slot, is_tenant};
use crate::limits::{BOUND_LOCK_COUNT_MAX, USER_BOUND_LOCK_COUNT_MAX};
use crate::lock::{Claimant, Locks, Mode, one_less};
use crate::name::extent_of_name;
use crate::table::{self, Row};
use serde::{Deserialize, Serialize};
use staged_releases::{Release, StagedReleases};
use std::collections::BTreeMap;

/// The states of what is bound to a lock, as the table names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Homes hold the last version.
    Whole,
    /// A holder puts its changes there.
    Publishing,
    /// A holder ended while it did, and its changes are known.
    Redo,
    /// A holder ended while it did, and its changes are not known.
    Torn,
}

/// An event of bound data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// The holder names its changes, before it puts any of them at its home.
    Publish,
    /// All of that is there, and the lock is given back.
    Commit,
    /// The holder ends, or gives up, before; the changes are known.
    Lose,
    /// See `Lose`; the changes are not known, or other bytes were torn before.
    Tear,
    /// A later holder has put the changes there.
    Redone,
    /// The next holder is another user's, which puts nothing anywhere for the first.
    Distrust,
    /// A holder that was told of torn bytes gives the lock back.
    Mend,
}

/// Every transition of what is bound to a lock.
pub const TABLE: &[Row<Phase, Event>] = &[
    Row { event: Event::Publish, from: &[Phase::Whole, Phase::Torn], to: Phase::Publishing },
    Row { event: Event::Commit, from: &[Phase::Publishing], to: Phase::Whole },
    Row { event: Event::Lose, from: &[Phase::Publishing], to: Phase::Redo },
    Row { event: Event::Tear, from: &[Phase::Publishing], to: Phase::Torn },
    Row { event: Event::Redone, from: &[Phase::Redo], to: Phase::Whole },
    Row { event: Event::Distrust, from: &[Phase::Redo], to: Phase::Torn },
    Row { event: Event::Mend, from: &[Phase::Torn], to: Phase::Whole },
];

/// A version of the bytes bound to a lock. Versions ascend over all locks of a pool, so a lock that is bound again never repeats one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Stamp {
    /// The life of the pool's home that counts: a random number.
    pub life: u64,
    /// The number of the release in that life.
    pub version: u64,
}

/// Message on bound data to a claimant that takes the lock.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataGrant {
    /// The version that the claimant has after it took in the rest.
    pub stamp: Stamp,
    /// The bound shapes, for a claimant that does not know them.
    pub bound: Option<Vec<BoundShape>>,
    /// Changes after the version that it knows.
    pub changes: Stores,
    /// Tells if homes hold that version.
    pub condition: Condition,
}

/// State of bytes at their homes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Condition {
    /// The bytes that the last release left.
    Whole,
    /// A holder died while it put these there; the taker is to put them there, and then to say so.
    Redo(Stores),
    /// A holder died while it put more there than is known: a mixture of two releases.
    Torn,
}

impl DataGrant {
    /// Bytes that it takes, some more or less.
    pub fn len_bytes(&self) -> u64 {
        let redone = if let Condition::Redo(stores) = &self.condition { stores.len_bytes() } else { 0 };
        let bound = self.bound.as_ref().map_or(0, |bound| size_of_val(&bound[..]));
        (size_of::<DataGrant>() + bound + redone + self.changes.len_bytes()) as u64
    }

    /// The same without the bytes of its changes, which the taker fetches.
    pub fn without_bytes(self) -> DataGrant {
        DataGrant { changes: self.changes.without_bytes(), ..self }
    }
}

/// Stores that a holder has named and not yet put at their homes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Staged {
    release: Release,
    binding: Option<Vec<BoundShape>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum State {
    Whole,
    Publishing {
        by: Claimant,
        staged: Box<Staged>,
        is_torn: bool,
    },
    /// The lost stores, and their user.
    Redo(Stores, u32),
    Torn,
}

/// Everybody but a tenant takes bytes of this user, who may write all regions as it is.
const ROOT: u32 = 0;

/// Data bound to one lock.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct BoundLock {
    /// The user in whose share of the table it is.
    uid: u32,
    state: State,
    bound: Vec<BoundShape>,
    /// The version by which that was bound.
    bound_at: u64,
    /// The last version.
    version: u64,
}

impl BoundLock {
    fn phase(&self) -> Phase {
        match self.state {
            State::Whole => Phase::Whole,
            State::Publishing { .. } => Phase::Publishing,
            State::Redo(..) => Phase::Redo,
            State::Torn => Phase::Torn,
        }
    }

    /// Makes a transition of the table; returns the state before.
    fn step(&mut self, event: Event, to: State) -> State {
        let from = self.phase();
        let before = std::mem::replace(&mut self.state, to);
        assert_eq!(table::next(TABLE, from, event), Some(self.phase()), "{event:?} in {from:?}");
        before
    }
}

/// Data bound to locks of a pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct BoundData {
    life: u64,
    version: u64,
    entries: BTreeMap<String, BoundLock>,
    /// The lock of each that publishes.
    publishing: BTreeMap<Claimant, String>,
    releases: StagedReleases,
    /// Number of entries of each user.
    shares: BTreeMap<u32, usize>,
}

impl BoundData {
    /// No bound data, in a life of the pool's home by that random number.
    pub fn new(life: u64) -> BoundData {
        BoundData { life, ..BoundData::default() }
    }

    /// Message on bound data for a user that has just got a lock; `None` without any. `known` is the version that it has.
    ///
    /// **Cost**: a copy of the changes since then.
    pub fn on_grant(&mut self, name: &str, known: Option<Stamp>, uid: u32) -> Option<Box<DataGrant>> {
        let entry = self.entries.get_mut(name)?;
        self.releases.touch(name);
        // Programs of a tenant do not see which regions of root's space are there.
        let trusts = |other: u32| other == uid || (other == ROOT && !is_tenant(uid));
        if matches!(&entry.state, State::Redo(_, by) if !trusts(*by))
            && let State::Redo(changes, by) = entry.step(Event::Distrust, State::Torn)
        {
            self.releases.unstage(&changes, by);
            self.releases.clear(name, entry.version);
        }
        let known = known.filter(|known| known.life == self.life && known.version <= entry.version).map(|known| known.version);
        let is_known = known.is_some_and(|known| known >= entry.bound_at);
        let (condition, redone) = match &entry.state {
            State::Whole | State::Publishing { .. } => (Condition::Whole, None),
            // Stores to be redone are not told twice.
            State::Redo(changes, _) => (Condition::Redo(changes.clone()), Some(entry.version)),
            State::Torn => (Condition::Torn, None),
        };
        let changes = known.filter(|_| is_known).and_then(|known| self.releases.since(name, known, redone, trusts));
        // Stores to be redone fill the message.
        let changes = if redone.is_some() { changes.map(Stores::without_bytes) } else { changes };
        Some(Box::new(DataGrant {
            stamp: Stamp { life: self.life, version: entry.version },
            bound: (!is_known).then(|| entry.bound.clone()),
            changes: changes.unwrap_or(Stores::All),
            condition,
        }))
    }

    /// A holder of that user names the changes that it will put at their homes, and perhaps new bound bytes.
    ///
    /// **Errors**: [`Error::LockMisused`] where it does not have the lock alone, or has not redone earlier changes. [`Error::BadUse`] for
    /// changes outside the bound bytes. [`Error::LimitReached`] for too many locks with data.
    pub fn on_publish(&mut self, locks: &Locks, who: Claimant, uid: u32, publication: Publication) -> Result<Stamp> {
        let Some((name, mode)) = locks.held(who) else { return misused("", "who publishes has not got it") };
        if mode != Mode::Exclusive {
            return misused(name, "who shares it may not change what is bound to it");
        }
        publication.check()?;
        // An earlier publication is at its homes.
        self.commit(name, who);
        let Publication { changes, binding } = publication;
        let bound = self.entries.get(name).map_or(&[][..], |entry| &entry.bound);
        if !changes.lie_within(bound.iter().chain(binding.iter().flatten())) {
            return misused(name, "the changes lie beside what is bound to it");
        }
        if !self.entries.contains_key(name) {
            let own = self.shares.get(&uid).copied().unwrap_or_default();
            limited("locks with data of one user", own + 1, USER_BOUND_LOCK_COUNT_MAX)?;
            limited("locks with data", self.entries.len() + 1, BOUND_LOCK_COUNT_MAX)?;
            self.shares.insert(uid, own + 1);
        }
        let version = self.version + 1;
        let entry = self.entries.entry(name.to_owned()).or_insert_with(|| BoundLock {
            uid,
            state: State::Whole,
            bound: Vec::new(),
            bound_at: version,
            version,
        });
        let is_torn = match entry.state {
            State::Whole => false,
            State::Torn => true,
            State::Publishing { .. } => return misused(name, "another is about to put changes of it at their homes"),
            State::Redo(..) => return misused(name, "its holder has not redone what one before it left half-done"),
        };
        self.version = version;
        let changes = self.releases.stage(changes, uid);
        let staged = Box::new(Staged { release: Release { version, uid, changes }, binding });
        entry.step(Event::Publish, State::Publishing { by: who, staged, is_torn });
        self.publishing.insert(who, name.to_owned());
        Ok(Stamp { life: self.life, version })
    }

    /// A holder has put the changes that it was to redo at their homes.
    ///
    /// **Errors**: [`Error::LockMisused`] where it has not got the lock.
    pub fn on_redone(&mut self, locks: &Locks, who: Claimant) -> Result<()> {
        let Some((name, _)) = locks.held(who) else { return misused("", "who redoes has not got it") };
        // Each sharing holder redoes, and the first says so.
        self.settle_redo(name);
        Ok(())
    }

    /// A holder gives its lock back; call this before [`Locks::on_unlock`].
    pub fn on_unlock(&mut self, locks: &Locks, who: Claimant) {
        let Some((name, mode)) = locks.held(who) else { return };
        let Some(entry) = self.entries.get_mut(name) else { return };
        match (entry.phase(), mode) {
            (Phase::Publishing, Mode::Exclusive) => self.commit(name, who),
            (Phase::Torn, Mode::Exclusive) => {
                entry.step(Event::Mend, State::Whole);
                self.sweep(name);
            }
            _ => {}
        }
    }

    /// All that a holder published is at its homes, and it has the lock still.
    pub fn on_put(&mut self, locks: &Locks, who: Claimant) {
        if let Some((name, _)) = locks.held(who) {
            self.commit(name, who);
        }
    }

    /// Takes the end of a lease that was only kept: all its publications are at their homes. Call this before [`Locks::on_recalled`].
    pub fn on_yield(&mut self, locks: &Locks, who: Claimant) {
        let Some(name) = locks.leased(who) else { return };
        self.commit(name, who);
        // Its connection ended meanwhile. Nobody had the lock since, so this is its own release.
        self.settle_redo(name);
    }

    /// Forgets what is bound to locks that another home may have given out since.
    pub fn forget(&mut self, is_it: impl Fn(&str) -> bool) {
        let forgotten: Vec<(String, BoundLock)> = self.entries.extract_if(.., |name, _| is_it(name)).collect();
        for (name, BoundLock { uid, state, .. }) in forgotten {
            match state {
                State::Publishing { by, staged, .. } => {
                    self.publishing.remove(&by);
                    self.releases.unstage(&staged.release.changes, staged.release.uid);
                }
                State::Redo(changes, by) => self.releases.unstage(&changes, by),
                State::Whole | State::Torn => {}
            }
            self.releases.forget(&name);
            one_less(&mut self.shares, uid);
        }
    }

    /// True if something is bound to a lock at a byte of an extent.
    pub fn is_at(&self, gid: Gid, slot: Slot) -> bool {
        self.entries.keys().any(|name| extent_of_name(name) == Some((gid, slot)))
    }

    /// Marks a claimant's publication as being at its homes, if there was one.
    fn commit(&mut self, name: &str, who: Claimant) {
        let is_its = |entry: &&mut BoundLock| matches!(&entry.state, State::Publishing { by, .. } if *by == who);
        if let Some(entry) = self.entries.get_mut(name).filter(is_its)
            && let State::Publishing { staged, .. } = entry.step(Event::Commit, State::Whole)
        {
            self.publishing.remove(&who);
            self.releases.unstage(&staged.release.changes, staged.release.uid);
            self.take_effect(name, *staged);
        }
    }

    /// Marks redone stores as being at their homes.
    fn settle_redo(&mut self, name: &str) {
        if let Some(entry) = self.entries.get_mut(name).filter(|entry| entry.phase() == Phase::Redo)
            && let State::Redo(changes, by) = entry.step(Event::Redone, State::Whole)
        {
            self.releases.unstage(&changes, by);
            self.sweep(name);
        }
    }

    /// A holder could not put at their homes what it published, and gives the lock back; call this before [`Locks::on_withdraw`].
    pub fn on_withdraw(&mut self, who: Claimant) {
        if let Some(name) = self.publishing.remove(&who) {
            self.lose(&name);
        }
    }

    /// A connection ended; call this before [`Locks::on_link_gone`].
    pub fn on_link_gone(&mut self, link: u64) {
        let gone: Vec<Claimant> = self.publishing.range(Claimant::all_of(link)).map(|(who, _)| *who).collect();
        gone.into_iter().for_each(|who| self.on_withdraw(who));
    }

    /// A holder ended in the middle of a release, which counts all the same. Its changes are redone by the next.
    fn lose(&mut self, name: &str) {
        let Some(entry) = self.entries.get_mut(name) else { return };
        let State::Publishing { staged, is_torn, .. } = &entry.state else { return };
        let (staged, can_redo) = (staged.clone(), matches!(staged.release.changes, Stores::Bytes(..)) && !is_torn);
        if can_redo {
            entry.step(Event::Lose, State::Redo(staged.release.changes.clone(), staged.release.uid));
            self.take_effect(name, *staged);
        } else {
            entry.step(Event::Tear, State::Torn);
            self.releases.unstage(&staged.release.changes, staged.release.uid);
            let release = Release { changes: Stores::All, ..staged.release };
            self.take_effect(name, Staged { release, ..*staged });
        }
    }

    /// A release counts from here on.
    fn take_effect(&mut self, name: &str, Staged { release, binding }: Staged) {
        let entry = self.entries.get_mut(name).expect("the caller found it");
        entry.version = release.version;
        match binding {
            Some(bound) => {
                (entry.bound, entry.bound_at) = (bound, release.version);
                self.releases.clear(name, release.version);
            }
            None => self.releases.put(name, release),
        }
        self.sweep(name);
    }

    /// A lock to which nothing is bound is not kept.
    fn sweep(&mut self, name: &str) {
        let is_bare = |entry: &BoundLock| entry.bound.is_empty() && entry.phase() == Phase::Whole;
        if self.entries.get(name).is_some_and(is_bare)
            && let Some(BoundLock { uid, .. }) = self.entries.remove(name)
        {
            self.releases.forget(name);
            one_less(&mut self.shares, uid);
        }
    }

    /// The state of what is bound to a lock; `None` where nothing is.
    #[cfg(test)]
    fn phase(&self, name: &str) -> Option<Phase> {
        self.entries.get(name).map(BoundLock::phase)
    }
}

fn misused<T>(name: &str, reason: &str) -> Result<T> {
    Err(Error::LockMisused { name: name.to_owned(), reason: reason.to_owned() })
}
