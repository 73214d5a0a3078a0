//! Files' content: their length, blocks and attributes.

use super::super::record::{Attributes, Ino, SessionId, Stamp};
use super::super::space::{BLOCK_LEN, Run};
use super::{Inode, Kind, Tree};

/// Longest file: what `off_t` holds.
pub const FILE_LEN_MAX: u64 = i64::MAX as u64;

/// True if a run may be at that block of a file.
pub(super) fn is_place(block: u64, run: Run) -> bool {
    block.checked_add(u64::from(run.count)).is_some_and(|end| end <= FILE_LEN_MAX.div_ceil(BLOCK_LEN))
}

impl Tree {
    pub(super) fn set(&mut self, ino: Ino, set: &Attributes, time: Stamp) -> bool {
        let position = self.position;
        let Some(inode) = self.inodes.get_mut(&ino) else { return false };
        if let Some(len) = set.size {
            let Kind::File { size, .. } = &mut inode.kind else { return false };
            if len > FILE_LEN_MAX {
                return false;
            }
            let shrinks = len < *size;
            *size = len;
            inode.change = position;
            if shrinks {
                self.free_blocks(ino, len.div_ceil(BLOCK_LEN), u64::MAX);
            }
        }
        let Some(inode) = self.inodes.get_mut(&ino) else { return false };
        inode.mode = set.mode.unwrap_or(inode.mode);
        inode.uid = set.uid.unwrap_or(inode.uid);
        inode.gid = set.gid.unwrap_or(inode.gid);
        inode.atime = set.atime.unwrap_or(inode.atime);
        inode.mtime = set.mtime.unwrap_or(inode.mtime);
        inode.ctime = time;
        true
    }

    pub(super) fn write(&mut self, session: SessionId, ino: Ino, len: u64, time: Stamp, runs: &[(u64, Run)]) -> bool {
        if !matches!(self.inodes.get(&ino), Some(Inode { kind: Kind::File { .. }, .. })) {
            return false;
        }
        let Some(of) = self.sessions.get_mut(&session) else { return false };
        let (is_sane, taken): (bool, Vec<Run>) = (
            len <= FILE_LEN_MAX && runs.iter().all(|(block, run)| is_place(*block, *run)),
            runs.iter().map(|(_, run)| *run).collect(),
        );
        if !is_sane || !of.reserve.take_all(&taken) {
            return false;
        }
        for (block, run) in runs {
            self.free_blocks(ino, *block, block + u64::from(run.count));
            if let Some(Inode { kind: Kind::File { blocks, .. }, .. }) = self.inodes.get_mut(&ino) {
                blocks.insert(*block, *run);
            }
        }
        let position = self.position;
        if let Some(inode) = self.inodes.get_mut(&ino)
            && let Kind::File { size, .. } = &mut inode.kind
        {
            *size = len.max(*size);
            (inode.mtime, inode.ctime, inode.change) = (time, time, position);
        }
        true
    }

    pub(super) fn punch(&mut self, ino: Ino, from: u64, to: u64, time: Stamp) -> bool {
        let position = self.position;
        match self.inodes.get_mut(&ino) {
            Some(inode) if matches!(inode.kind, Kind::File { .. }) => {
                (inode.mtime, inode.ctime, inode.change) = (time, time, position);
            }
            _ => return false,
        }
        self.free_blocks(ino, from, to);
        true
    }

    /// Blocks `from .. to` of a file become a hole.
    pub(super) fn free_blocks(&mut self, ino: Ino, from: u64, to: u64) {
        let position = self.position;
        let Some(Inode { kind: Kind::File { blocks, .. }, .. }) = self.inodes.get_mut(&ino) else { return };
        for (_, run) in blocks.cut(from, to) {
            self.space.retire(position, run);
        }
    }

    pub(super) fn xattr(&mut self, ino: Ino, name: &[u8], value: Option<&[u8]>, time: Stamp) -> bool {
        let Some(inode) = self.inodes.get_mut(&ino) else { return false };
        match value {
            Some(value) => drop(inode.xattrs.insert(name.to_vec(), value.to_vec())),
            None => drop(inode.xattrs.remove(name)),
        }
        inode.ctime = time;
        true
    }

    pub(super) fn number(&mut self, session: SessionId) -> bool {
        let Some(of) = self.sessions.get_mut(&session) else { return false };
        let Some(next) = self.space.next.checked_add(1) else { return false };
        of.making.insert(self.space.next);
        self.space.next = next;
        true
    }

    pub(super) fn segment(&mut self, session: SessionId, segment: u32, key: &str, blocks: u32) -> bool {
        let Some(of) = self.sessions.get_mut(&session).filter(|of| of.making.contains(&segment)) else { return false };
        self.space.grow(segment, key, blocks) && of.making.remove(&segment)
    }

    pub(super) fn reserve(&mut self, session: SessionId, runs: &[Run]) -> bool {
        let Some(of) = self.sessions.get_mut(&session) else { return false };
        if !self.space.free.take_all(runs) {
            return false;
        }
        runs.iter().all(|run| of.reserve.add(*run))
    }

    pub(super) fn give_back(&mut self, session: SessionId, runs: &[Run]) -> bool {
        let position = self.position;
        let Some(of) = self.sessions.get_mut(&session) else { return false };
        if !of.reserve.take_all(runs) {
            return false;
        }
        runs.iter().for_each(|run| self.space.retire(position, *run));
        true
    }
}
