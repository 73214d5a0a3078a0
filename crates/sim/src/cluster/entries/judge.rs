//! Each lock's true bytes: those of the last release, from the moment on at which the lock's home heard of it.

use super::frames::{Bound, LOCK_COUNT, PAGE_LEN, Page};
use crate::check::{Check, check};
use crate::cluster::process::ProcessLife;
use hanare_protocol::id::Gid;
use hanare_protocol::lock::{Claimant, Mode};
use std::collections::BTreeMap;

/// A lock with data: its place, and its region where it is a byte.
pub(super) type DataLock = (Option<Gid>, usize);

/// A lock's data.
#[derive(Debug, Default)]
struct LockTruth {
    /// The home that gives the lock out.
    home: Option<ProcessLife>,
    /// `None` where the bytes are unknown: at the next home, or after a torn release.
    is: Option<Bound>,
    /// The release under way, and true if the home has the bytes.
    releases: Option<(Claimant, bool)>,
    /// A release is to be redone before the regions' homes have it.
    is_half_done: bool,
    is_torn: bool,
}

#[derive(Debug, Default)]
pub(super) struct EntryJudge {
    locks: BTreeMap<DataLock, LockTruth>,
    /// Locks that programs have of the home of today.
    taken: BTreeMap<Claimant, (DataLock, Mode)>,
    /// Bytes of a lock once a release counts that was sent.
    drafts: BTreeMap<Claimant, Bound>,
}

impl EntryJudge {
    /// A home gives a lock out for the first time in its time as home. It knows nothing of the bytes.
    pub fn on_first(&mut self, lock: DataLock, home: ProcessLife, is_told: bool) -> Check {
        let before = self.locks.insert(lock, LockTruth { home: Some(home), ..LockTruth::default() });
        self.taken.retain(|_, (other, _)| *other != lock);
        let is_bound = before.is_some_and(|before| before.is.is_some());
        check(is_told || !is_bound, || format!("{home:?} forgets what is bound to {lock:?}, and does not say so"))
    }

    /// A home is gone, and what it knew of releases.
    pub fn on_home_gone(&mut self, home: ProcessLife) {
        let gone = self.locks.extract_if(.., |_, truth| truth.home == Some(home));
        let gone: Vec<DataLock> = gone.map(|(lock, _)| lock).collect();
        self.taken.retain(|_, (lock, _)| !gone.contains(lock));
    }

    pub fn on_granted(&mut self, who: Claimant, lock: DataLock, mode: Mode) {
        self.taken.insert(who, (lock, mode));
    }

    /// True if a program has a lock of the home of today.
    pub fn has(&self, who: Claimant) -> bool {
        self.taken.contains_key(&who)
    }

    /// A program sends a release, by which a lock's bytes are these.
    pub fn on_sent(&mut self, who: Claimant, is: Bound) {
        self.drafts.insert(who, is);
    }

    /// The truth of a lock that a program has.
    fn of(&mut self, who: Claimant) -> Option<&mut LockTruth> {
        let (lock, _) = self.taken.get(&who)?;
        self.locks.get_mut(lock)
    }

    /// A release counts from here on.
    pub fn on_published(&mut self, who: Claimant, has_bytes: bool) {
        let draft = self.drafts.remove(&who);
        if let Some(truth) = self.of(who) {
            (truth.is, truth.releases) = (draft, Some((who, has_bytes)));
        }
    }

    /// A lock is given back. What its holder released alone is at its homes.
    pub fn on_given_back(&mut self, who: Claimant) {
        let is_alone = self.taken.get(&who).is_some_and(|(_, mode)| *mode == Mode::Exclusive);
        if let Some(truth) = self.of(who).filter(|_| is_alone) {
            (truth.releases, truth.is_torn) = (None, false);
        }
        self.taken.remove(&who);
    }

    pub fn on_redone(&mut self, who: Claimant) {
        if let Some(truth) = self.of(who) {
            truth.is_half_done = false;
        }
    }

    /// A connection ended for the home.
    pub fn on_link_gone(&mut self, link: u64) {
        let ended = |who: &Claimant| who.link == link;
        for truth in self.locks.values_mut() {
            let Some((_, has_bytes)) = truth.releases.take_if(|(who, _)| ended(who)) else { continue };
            if has_bytes && !truth.is_torn {
                truth.is_half_done = true;
            } else {
                (truth.is, truth.is_torn) = (None, true);
            }
        }
        self.taken.retain(|who, _| !ended(who));
        self.drafts.retain(|who, _| !ended(who));
    }

    /// Checks that a holder of a lock sees the right bytes. One that has it no more may see anything.
    pub fn on_seen(&mut self, who: Claimant, sees: Bound, is_told_torn: bool) -> Check {
        let Some(LockTruth { is, is_torn, .. }) = self.of(who) else { return Ok(()) };
        check(is_told_torn || !*is_torn, || format!("a lock is torn, and {who:?} was not told"))?;
        check(is.is_none_or(|is| is == sees), || format!("{who:?} sees {sees:?} in place of {is:?}"))
    }

    /// Checks a page at its home: it has what was released, where no release is under way.
    pub fn judge_page(&self, region: Option<Gid>, page: usize, bytes: Page) -> Check {
        for (at, byte) in bytes.into_iter().enumerate() {
            let lock = (region, at % LOCK_COUNT);
            let Some(truth) = self.locks.get(&lock) else { continue };
            let is_known = !truth.is_half_done && truth.releases.is_none() && !truth.is_torn;
            let wanted = truth.is.filter(|_| is_known).map(|is| is[(page * PAGE_LEN + at) / LOCK_COUNT]);
            check(wanted.is_none_or(|wanted| wanted == byte), || {
                format!("byte {at} of page {page} of {region:?} is {byte} at its home, and {truth:?}")
            })?;
        }
        Ok(())
    }
}
