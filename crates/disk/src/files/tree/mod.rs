//! A file system's state: folders, files, free blocks, locks and mounts, as the records of its log build it. Each record changes the state
//! in the same way for every mount.
//!
//! A record that makes no sense changes nothing: [`Tree::apply`] returns false, for every mount alike.
//!
//! ```text
//! a file:    named ──last name goes──> orphan ──Reclaim, and no mount holds it──> gone
//! a block:   free ──Reserve──> reserved ──Write──> a file's ──Write, Set, Punch, gone──> waiting ──Reclaim──> free
//! ```

mod bytes;
mod names;
mod sound;

pub use bytes::FILE_LEN_MAX;
pub use names::NAME_LEN_MAX;

use super::blocks::Blocks;
use super::locks::Locks;
use super::record::{Ino, ROOT, Record, SessionId, Stamp};
use super::space::{Run, Runs, Space};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The inode of a number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// A file.
    File {
        /// Its length in bytes.
        size: u64,
        /// Its blocks.
        blocks: Blocks,
    },
    /// A folder.
    Folder {
        /// The folder that it is in; the root is in itself.
        parent: Ino,
        /// Its entries.
        names: BTreeMap<Vec<u8>, Ino>,
    },
    /// A symbolic link.
    Link {
        /// Its target.
        target: Vec<u8>,
    },
    /// A fifo, socket or device.
    Special {
        /// The type bits of its mode.
        format: u32,
        /// The device's number.
        rdev: u32,
    },
}

/// A file, folder, link or special file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inode {
    /// Its kind.
    pub kind: Kind,
    /// Permission bits.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Number of its names; for a folder also of the folders in it.
    pub links: u32,
    /// Last access.
    pub atime: Stamp,
    /// Last change of the contents.
    pub mtime: Stamp,
    /// Last change of anything.
    pub ctime: Stamp,
    /// Position of the record that changed its bytes last.
    pub change: u64,
    /// Extended attributes.
    pub xattrs: BTreeMap<Vec<u8>, Vec<u8>>,
}

impl Inode {
    /// Length in bytes.
    pub fn size(&self) -> u64 {
        match &self.kind {
            Kind::File { size, .. } => *size,
            Kind::Link { target } => target.len() as u64,
            Kind::Folder { .. } | Kind::Special { .. } => 0,
        }
    }

    /// True for a folder.
    pub fn is_folder(&self) -> bool {
        matches!(self.kind, Kind::Folder { .. })
    }

    /// Number of its blocks; 0 but for files.
    pub fn blocks(&self) -> u64 {
        match &self.kind {
            Kind::File { blocks, .. } => blocks.count(),
            _ => 0,
        }
    }

    /// See [`Blocks::find`].
    pub fn find(&self, block: u64, limit: u64) -> Result<Run, u64> {
        match &self.kind {
            Kind::File { blocks, .. } => blocks.find(block, limit),
            _ => Err(limit),
        }
    }
}

/// A mount.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Session {
    /// Its index in the table of mounts' positions.
    pub slot: u32,
    /// Blocks that are its own to fill.
    pub reserve: Runs,
    /// Files that it has open though they have no name.
    pub holds: BTreeSet<Ino>,
    /// Numbers of data regions that it is making. Each number is one mount's, once: no two mounts make, or remove, one region.
    pub making: BTreeSet<u32>,
}

/// Most mounts of a file system at once: one on each node of the largest pool.
pub const SESSION_COUNT_MAX: u32 = 1024;

/// The state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tree {
    /// Number of frames of records that built it.
    pub position: u64,
    next: Ino,
    inodes: BTreeMap<Ino, Inode>,
    /// Files without a name, with the position since which they have none.
    orphans: BTreeMap<Ino, u64>,
    /// Blocks that are no file's.
    pub space: Space,
    /// The mounts.
    pub sessions: BTreeMap<SessionId, Session>,
    locks: BTreeMap<Ino, Locks>,
}

impl Tree {
    /// An empty file system: a root folder that belongs to a user.
    pub fn new(uid: u32, gid: u32, mode: u32, time: Stamp) -> Tree {
        let kind = Kind::Folder { parent: ROOT, names: BTreeMap::new() };
        let (atime, mtime, ctime, xattrs) = (time, time, time, BTreeMap::new());
        let root = Inode { kind, mode, uid, gid, links: 2, atime, mtime, ctime, change: 0, xattrs };
        Tree {
            position: 0,
            next: ROOT + 1,
            inodes: BTreeMap::from([(ROOT, root)]),
            orphans: BTreeMap::new(),
            space: Space::default(),
            sessions: BTreeMap::new(),
            locks: BTreeMap::new(),
        }
    }

    /// The inode of a number.
    pub fn inode(&self, ino: Ino) -> Option<&Inode> {
        self.inodes.get(&ino)
    }

    /// The inode of a name in a folder.
    pub fn child(&self, parent: Ino, name: &[u8]) -> Option<Ino> {
        self.names(parent)?.get(name).copied()
    }

    /// Entries of a folder.
    pub fn names(&self, folder: Ino) -> Option<&BTreeMap<Vec<u8>, Ino>> {
        match &self.inodes.get(&folder)?.kind {
            Kind::Folder { names, .. } => Some(names),
            _ => None,
        }
    }

    /// The folder that a folder is in.
    pub fn parent(&self, folder: Ino) -> Option<Ino> {
        match &self.inodes.get(&folder)?.kind {
            Kind::Folder { parent, .. } => Some(*parent),
            _ => None,
        }
    }

    /// Number of files, folders and links.
    pub fn count(&self) -> u64 {
        self.inodes.len() as u64
    }

    /// The number of the next that is made.
    pub fn next(&self) -> Ino {
        self.next
    }

    /// True if a file has no name left.
    pub fn is_orphan(&self, ino: Ino) -> bool {
        self.orphans.contains_key(&ino)
    }

    /// The position since which something waits for [`Record::Reclaim`], if it does.
    pub fn oldest(&self) -> Option<u64> {
        let is_held = |ino: &Ino| self.sessions.values().any(|session| session.holds.contains(ino));
        let orphans = self.orphans.iter().filter(|(ino, _)| !is_held(ino)).map(|(_, position)| *position);
        orphans.min().into_iter().chain(self.space.oldest()).min()
    }

    /// True if there are blocks that may become free by themselves.
    pub fn is_waiting(&self) -> bool {
        !self.orphans.is_empty() || self.space.oldest().is_some()
    }

    /// The locks of a file.
    pub fn locks(&self, ino: Ino) -> Option<&Locks> {
        self.locks.get(&ino)
    }

    /// True if `folder` is `inner`, or is above it.
    pub fn is_above(&self, folder: Ino, mut inner: Ino) -> bool {
        for _ in 0..self.inodes.len() {
            match self.parent(inner) {
                _ if inner == folder => return true,
                Some(parent) => inner = parent,
                None => return false,
            }
        }
        false
    }

    /// Applies a frame: records that were committed together.
    pub fn apply_frame(&mut self, records: &[Record]) {
        self.position += 1;
        for record in records {
            if !self.apply(record) {
                tracing::warn!("position {}: a record that makes no sense changes nothing: {record:?}", self.position);
            }
        }
    }

    /// Applies one record; `false` where it makes no sense, and changed nothing.
    #[must_use]
    fn apply(&mut self, record: &Record) -> bool {
        match record {
            Record::Start { session } => self.start(*session),
            Record::End { session } => self.end(*session),
            Record::Make { parent, name, what, mode, uid, gid, time } => {
                self.make(*parent, name, what, (*mode, *uid, *gid), *time)
            }
            Record::Link { ino, parent, name, time } => self.link(*ino, *parent, name, *time),
            Record::Unlink { parent, name, time } => self.unlink(*parent, name, *time),
            Record::Rename { parent, name, new_parent, new_name, exchange, time } => {
                let (from, to) = ((*parent, name.as_slice()), (*new_parent, new_name.as_slice()));
                if *exchange { self.exchange(from, to, *time) } else { self.rename(from, to, *time) }
            }
            Record::Set { ino, set, time } => self.set(*ino, set, *time),
            Record::Write { session, ino, size, time, runs } => self.write(*session, *ino, *size, *time, runs),
            Record::Punch { ino, from, to, time } => self.punch(*ino, *from, *to, *time),
            Record::Xattr { ino, name, value, time } => self.xattr(*ino, name, value.as_deref(), *time),
            Record::Number { session } => self.number(*session),
            Record::Segment { session, segment, key, blocks } => self.segment(*session, *segment, key, *blocks),
            Record::DropSegment { segment } => self.space.shrink(*segment),
            Record::Reserve { session, runs } => self.reserve(*session, runs),
            Record::Return { session, runs } => self.give_back(*session, runs),
            Record::Hold { session, ino } => self.hold(*session, *ino),
            Record::Release { session, ino } => self.sessions.get_mut(session).is_some_and(|of| of.holds.remove(ino)),
            Record::Reclaim { upto } => self.reclaim(*upto),
            Record::Lock { ino, claim } => {
                self.sessions.contains_key(&claim.session)
                    && self.inodes.contains_key(ino)
                    && self.locks.entry(*ino).or_default().take(*claim)
            }
            Record::Unlock { claim, .. } if claim.start > claim.end => false,
            Record::Unlock { ino, claim } => {
                let Some(locks) = self.locks.get_mut(ino) else { return true };
                locks.give_back(*claim);
                if locks.is_empty() {
                    self.locks.remove(ino);
                }
                true
            }
        }
    }

    fn start(&mut self, session: SessionId) -> bool {
        let taken: BTreeSet<u32> = self.sessions.values().map(|session| session.slot).collect();
        let Some(slot) = (0..SESSION_COUNT_MAX).find(|slot| !taken.contains(slot)) else { return false };
        if self.sessions.contains_key(&session) {
            return false;
        }
        self.sessions
            .insert(session, Session { slot, reserve: Runs::default(), holds: BTreeSet::new(), making: BTreeSet::new() });
        true
    }

    fn end(&mut self, session: SessionId) -> bool {
        let Some(ended) = self.sessions.remove(&session) else { return false };
        // Its host may still be writing to blocks that it reserved: they wait like those of files.
        let position = self.position;
        ended.reserve.iter().for_each(|run| self.space.retire(position, run));
        self.locks.values_mut().for_each(|locks| locks.end(session));
        self.locks.retain(|_, locks| !locks.is_empty());
        true
    }

    fn hold(&mut self, session: SessionId, ino: Ino) -> bool {
        if !self.inodes.contains_key(&ino) {
            return false;
        }
        self.sessions.get_mut(&session).is_some_and(|of| of.holds.insert(ino))
    }

    fn reclaim(&mut self, upto: u64) -> bool {
        let is_held = |ino: &Ino| self.sessions.values().any(|session| session.holds.contains(ino));
        let gone = self.orphans.iter().filter(|(ino, position)| **position < upto && !is_held(ino));
        let gone: Vec<Ino> = gone.map(|(ino, _)| *ino).collect();
        self.space.reclaim(upto);
        for ino in gone {
            // Every mount has come past the moment when it lost its name, and none has it open.
            self.free_blocks(ino, 0, u64::MAX);
            self.orphans.remove(&ino);
            self.inodes.remove(&ino);
            self.locks.remove(&ino);
        }
        true
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
