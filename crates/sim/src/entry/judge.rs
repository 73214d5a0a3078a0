//! Each lock's true bytes: those of the last release, from the moment on at which the locks' home heard of it.

use super::frames::{Bound, LOCK_COUNT};
use crate::check::{Check, check};

/// A lock's data.
#[derive(Debug, Default)]
struct LockTruth {
    /// `None` where the bytes are unknown: after a life of the home, or a torn release.
    is: Option<Bound>,
    /// The releasing connection, and true if the home has the bytes.
    releases: Option<(u64, bool)>,
    /// A release is to be redone before the regions' homes have it.
    is_half_done: bool,
    is_torn: bool,
}

#[derive(Debug, Default)]
pub(super) struct LocksTruth([LockTruth; LOCK_COUNT]);

impl LocksTruth {
    /// The home of the locks knows nothing any more.
    pub fn forget(&mut self) {
        *self = LocksTruth::default();
    }

    /// A release counts from here on.
    pub fn on_published(&mut self, lock: usize, link: u64, has_bytes: bool, is: Bound) {
        let truth = &mut self.0[lock];
        (truth.is, truth.releases) = (Some(is), Some((link, has_bytes)));
    }

    /// Its bytes are at their homes, and the lock was given back, by one that has it alone.
    pub fn on_given_back(&mut self, lock: usize) {
        let truth = &mut self.0[lock];
        (truth.releases, truth.is_torn) = (None, false);
    }

    pub fn on_redone(&mut self, lock: usize) {
        self.0[lock].is_half_done = false;
    }

    /// A connection ended for the home.
    pub fn on_link_gone(&mut self, link: u64) {
        for truth in self.0.iter_mut() {
            let Some((_, has_bytes)) = truth.releases.take_if(|(by, _)| *by == link) else { continue };
            if has_bytes && !truth.is_torn {
                truth.is_half_done = true;
            } else {
                (truth.is, truth.is_torn) = (None, true);
            }
        }
    }

    /// Checks that a holder of a lock sees the right bytes.
    pub fn on_seen(&mut self, lock: usize, sees: Bound, is_told_torn: bool) -> Check {
        let truth = &mut self.0[lock];
        check(is_told_torn || !truth.is_torn, || format!("lock {lock} is torn, and its holder was not told"))?;
        let is = *truth.is.get_or_insert(sees);
        check(is == sees, || format!("a holder of lock {lock} sees {sees:?} in place of {is:?}"))
    }

    /// Bytes that the regions' homes must have, where that is known.
    pub fn at_homes(&self, lock: usize) -> Option<Bound> {
        let truth = &self.0[lock];
        truth.is.filter(|_| !truth.is_half_done && truth.releases.is_none() && !truth.is_torn)
    }
}
