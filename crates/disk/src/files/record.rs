//! Records of a file system's log, by which mounts tell each other of changes. Each is one change that happens whole or not at all.

use super::space::Run;
use serde::{Deserialize, Serialize};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Number of a file, folder or link; never used twice in one file system.
pub type Ino = u64;

/// The root folder.
pub const ROOT: Ino = 1;

/// Number of a mount's life.
pub type SessionId = u64;

/// A moment, as `stat` shows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Stamp {
    secs: i64,
    nanos: u32,
}

impl Stamp {
    /// The present.
    pub fn now() -> Stamp {
        SystemTime::now().into()
    }
}

impl From<SystemTime> for Stamp {
    fn from(time: SystemTime) -> Stamp {
        match time.duration_since(UNIX_EPOCH) {
            Ok(since) => Stamp { secs: i64::try_from(since.as_secs()).unwrap_or(i64::MAX), nanos: since.subsec_nanos() },
            Err(before) => {
                let before = before.duration();
                let round = i64::from(before.subsec_nanos() > 0);
                let secs = i64::try_from(before.as_secs()).unwrap_or(i64::MAX);
                let nanos = (1_000_000_000 - before.subsec_nanos()) % 1_000_000_000;
                Stamp { secs: (-secs).saturating_sub(round), nanos }
            }
        }
    }
}

impl From<Stamp> for SystemTime {
    fn from(stamp: Stamp) -> SystemTime {
        let nanos = Duration::from_nanos(u64::from(stamp.nanos));
        let secs = Duration::from_secs(stamp.secs.unsigned_abs());
        let whole = if stamp.secs < 0 { UNIX_EPOCH.checked_sub(secs) } else { UNIX_EPOCH.checked_add(secs) };
        // A moment that this system cannot show is shown as the epoch.
        whole.and_then(|whole| whole.checked_add(nanos)).unwrap_or(UNIX_EPOCH)
    }
}

/// A thing made by [`Record::Make`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Fresh {
    /// An empty file.
    File,
    /// An empty folder.
    Folder,
    /// A symbolic link.
    Link {
        /// The link's target.
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

/// Owner and range of a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// The mount.
    pub session: SessionId,
    /// The owner, as that mount's kernel numbers it.
    pub owner: u64,
    /// The process, for programs that ask who holds the lock.
    pub pid: u32,
    /// First byte.
    pub start: u64,
    /// Last byte.
    pub end: u64,
    /// True if others are kept out.
    pub exclusive: bool,
}

/// A change of attributes; what is `None` stays.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attributes {
    /// Permission bits.
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Length in bytes; blocks beyond are freed.
    pub size: Option<u64>,
    /// Last access.
    pub atime: Option<Stamp>,
    /// Last change of the contents.
    pub mtime: Option<Stamp>,
}

/// A change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Record {
    /// A mount begins.
    Start { session: SessionId },
    /// A mount has ended. Its reserve becomes free, its locks go, and so do files without a name that it alone held open.
    End { session: SessionId },
    /// A name for something that is made with it.
    Make { parent: Ino, name: Vec<u8>, what: Fresh, mode: u32, uid: u32, gid: u32, time: Stamp },
    /// Another name for a file.
    Link { ino: Ino, parent: Ino, name: Vec<u8>, time: Stamp },
    /// A name less; a folder must be empty.
    Unlink { parent: Ino, name: Vec<u8>, time: Stamp },
    /// Another name. A thing with the new name goes, or gets the old name.
    Rename { parent: Ino, name: Vec<u8>, new_parent: Ino, new_name: Vec<u8>, exchange: bool, time: Stamp },
    /// Attributes change.
    Set { ino: Ino, set: Attributes, time: Stamp },
    /// Bytes were written: blocks of the session's reserve become a file's, in place of those that were there.
    Write { session: SessionId, ino: Ino, size: u64, time: Stamp, runs: Vec<(u64, Run)> },
    /// Blocks `from .. to` of a file become a hole.
    Punch { ino: Ino, from: u64, to: u64, time: Stamp },
    /// An extended attribute; `None` removes it.
    Xattr { ino: Ino, name: Vec<u8>, value: Option<Vec<u8>>, time: Stamp },
    /// The next data region's number is a mount's, which is about to make the region.
    Number { session: SessionId },
    /// And it is there.
    Segment { session: SessionId, segment: u32, key: String, blocks: u32 },
    /// A data region, all free, goes.
    DropSegment { segment: u32 },
    /// Free blocks become a mount's to fill.
    Reserve { session: SessionId, runs: Vec<Run> },
    /// And are given back.
    Return { session: SessionId, runs: Vec<Run> },
    /// A mount has the file open.
    Hold { session: SessionId, ino: Ino },
    /// And has it no more.
    Release { session: SessionId, ino: Ino },
    /// No mount uses a state from before that position any more.
    Reclaim { upto: u64 },
    /// A lock on a range is taken in place of what its owner had there.
    Lock { ino: Ino, claim: Claim },
    /// An owner gives back its locks of a range.
    Unlock { ino: Ino, claim: Claim },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_before_and_after_1970_come_back() {
        for nanos in [-1_500_000_001i64, -1, 0, 1, 1_999_999_999] {
            let part = Duration::from_nanos(nanos.unsigned_abs());
            let time = if nanos < 0 { UNIX_EPOCH - part } else { UNIX_EPOCH + part };
            assert_eq!(SystemTime::from(Stamp::from(time)), time, "{nanos}");
        }
    }
}
