//! The pool home's store of each lock's last releases. It is a cache of lines of 4 KiB, with a bound for all locks together. The least
//! recently used lock loses its oldest releases first. **Source**: [RF §3.3], the network page cache.

use super::publication::{BoundRange, Stores};
use crate::limits::{
    RELEASE_COUNT_MAX, RELEASE_LEN_MAX, RELEASE_LINE_COUNT_MAX, RELEASE_RANGE_COUNT_MAX, USER_STAGED_LINE_COUNT_MAX,
};
use std::collections::{BTreeMap, VecDeque};

/// A lock's release.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Release {
    pub version: u64,
    /// The user whose program published it.
    pub uid: u32,
    pub changes: Stores,
}

/// The last releases of one lock.
///
/// - Versions ascend, and all behind `floor` are there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct LockReleases {
    releases: VecDeque<Release>,
    /// The newest version that is not there any more.
    floor: u64,
    /// When it was used last.
    used: u64,
}

/// The releases of all locks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct StagedReleases {
    rows: BTreeMap<String, LockReleases>,
    /// The locks by their last use.
    order: BTreeMap<u64, String>,
    uses: u64,
    /// Lines that releases take, those included that are staged.
    line_count: usize,
    /// Staged releases, by user.
    staged: BTreeMap<u32, usize>,
}

impl StagedReleases {
    /// A lock is used.
    pub fn touch(&mut self, name: &str) {
        let Some(row) = self.rows.get_mut(name) else { return };
        self.uses += 1;
        self.order.remove(&row.used);
        row.used = self.uses;
        self.order.insert(self.uses, name.to_owned());
    }

    /// Takes room for a user's changes that are not released yet. Returns those for which there is room.
    pub fn stage(&mut self, changes: Stores, uid: u32) -> Stores {
        let wanted = changes.line_count();
        let own = self.staged.get(&uid).copied().unwrap_or_default() + wanted;
        if own <= USER_STAGED_LINE_COUNT_MAX && self.make_room(wanted) {
            self.line_count += wanted;
            if wanted > 0 {
                self.staged.insert(uid, own);
            }
            return changes;
        }
        Stores::All
    }

    /// Gives the room of staged changes back.
    pub fn unstage(&mut self, changes: &Stores, uid: u32) {
        let lines = changes.line_count();
        self.line_count -= lines;
        if let Some(own) = self.staged.get_mut(&uid) {
            *own -= lines;
            if *own == 0 {
                self.staged.remove(&uid);
            }
        }
    }

    /// Keeps a release of a lock, the newest.
    pub fn put(&mut self, name: &str, release: Release) {
        let wanted = release.changes.line_count();
        if matches!(release.changes, Stores::All) || !self.make_room(wanted) {
            return self.clear(name, release.version);
        }
        self.line_count += wanted;
        let row = self.rows.entry(name.to_owned()).or_default();
        row.releases.push_back(release);
        if row.releases.len() > RELEASE_COUNT_MAX {
            self.drop_oldest(name);
        }
        self.touch(name);
    }

    /// Forgets all releases of a lock up to a version.
    pub fn clear(&mut self, name: &str, version: u64) {
        while self.drop_oldest(name) {}
        self.rows.entry(name.to_owned()).or_default().floor = version;
        self.touch(name);
    }

    /// A lock has no data any more.
    pub fn forget(&mut self, name: &str) {
        while self.drop_oldest(name) {}
        if let Some(row) = self.rows.remove(name) {
            self.order.remove(&row.used);
        }
    }

    /// Changes after version `known`, as stored, except version `without`; `None` where not all of them are there. With their bytes where
    /// `trusts` all users that made them.
    // FEATURE: RF-F11
    pub fn since(&self, name: &str, known: u64, without: Option<u64>, trusts: impl Fn(u32) -> bool) -> Option<Stores> {
        let row = self.rows.get(name)?;
        if known < row.floor {
            return None;
        }
        let later = || row.releases.iter().filter(|release| release.version > known && Some(release.version) != without);
        let ranges: Vec<BoundRange> = later().flat_map(|release| release.changes.ranges().unwrap_or_default()).copied().collect();
        if ranges.len() > RELEASE_RANGE_COUNT_MAX {
            return None;
        }
        let mut bytes = Vec::new();
        for release in later() {
            match &release.changes {
                Stores::Bytes(_, more) if bytes.len() + more.len() <= RELEASE_LEN_MAX && trusts(release.uid) => {
                    bytes.extend_from_slice(more)
                }
                _ => return Some(Stores::Ranges(ranges)),
            }
        }
        Some(Stores::Bytes(ranges, bytes))
    }

    fn make_room(&mut self, wanted: usize) -> bool {
        while self.line_count + wanted > RELEASE_LINE_COUNT_MAX {
            let oldest = self.order.values().find(|name| !self.rows[*name].releases.is_empty()).cloned();
            let Some(oldest) = oldest else { return false };
            self.drop_oldest(&oldest);
        }
        true
    }

    /// Drops the oldest release of a lock. Returns true if there was one.
    fn drop_oldest(&mut self, name: &str) -> bool {
        let Some(row) = self.rows.get_mut(name) else { return false };
        let Some(release) = row.releases.pop_front() else { return false };
        row.floor = release.version;
        self.line_count -= release.changes.line_count();
        true
    }

    /// Lines that releases take.
    #[cfg(test)]
    pub fn line_count(&self) -> usize {
        self.line_count
    }

    /// Lines that are staged.
    #[cfg(test)]
    pub fn staged_count(&self) -> usize {
        self.staged.values().sum()
    }
}
