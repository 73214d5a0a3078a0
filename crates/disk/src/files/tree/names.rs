//! Names and their inodes.

use super::super::record::{Fresh, Ino, Stamp};
use super::{Inode, Kind, Tree};
use crate::files::blocks::Blocks;
use std::collections::BTreeMap;

/// Longest name in bytes, as the kernel has it.
pub const NAME_LEN_MAX: usize = 255;

/// True if a kernel takes it for a name in a folder. A name that it does not take would hide all others there.
pub(super) fn is_name(name: &[u8]) -> bool {
    let is_short = (1..=NAME_LEN_MAX).contains(&name.len());
    is_short && name != b"." && name != b".." && !name.iter().any(|byte| [b'/', 0].contains(byte))
}

impl Tree {
    /// The folder's names, if a name may be put there.
    fn room(&mut self, parent: Ino, name: &[u8]) -> Option<&mut BTreeMap<Vec<u8>, Ino>> {
        if !is_name(name) || self.is_orphan(parent) {
            return None;
        }
        match &mut self.inodes.get_mut(&parent)?.kind {
            Kind::Folder { names, .. } if !names.contains_key(name) => Some(names),
            _ => None,
        }
    }

    pub(super) fn make(&mut self, parent: Ino, name: &[u8], what: &Fresh, whose: (u32, u32, u32), time: Stamp) -> bool {
        let ino = self.next;
        let Some(names) = self.room(parent, name) else { return false };
        names.insert(name.to_vec(), ino);
        let (kind, links) = match what {
            Fresh::File => (Kind::File { size: 0, blocks: Blocks::default() }, 1),
            Fresh::Folder => (Kind::Folder { parent, names: BTreeMap::new() }, 2),
            Fresh::Link { target } => (Kind::Link { target: target.clone() }, 1),
            Fresh::Special { format, rdev } => (Kind::Special { format: *format, rdev: *rdev }, 1),
        };
        self.touch(parent, time, i64::from(*what == Fresh::Folder));
        let (mode, uid, gid) = whose;
        let (atime, mtime, ctime, change) = (time, time, time, self.position);
        let xattrs = self.inherited(parent, what);
        self.inodes.insert(ino, Inode { kind, mode, uid, gid, links, atime, mtime, ctime, change, xattrs });
        self.next += 1;
        true
    }

    /// Placement that a folder gives to things made in it.
    fn inherited(&self, parent: Ino, what: &Fresh) -> BTreeMap<Vec<u8>, Vec<u8>> {
        let place = self.inodes.get(&parent).and_then(|folder| folder.xattrs.get(crate::files::PLACE));
        match (what, place) {
            (Fresh::File | Fresh::Folder, Some(place)) => BTreeMap::from([(crate::files::PLACE.to_vec(), place.clone())]),
            _ => BTreeMap::new(),
        }
    }

    /// Records a change of a folder's contents; `folders` is the change of its number of folders.
    fn touch(&mut self, folder: Ino, time: Stamp, folders: i64) {
        if let Some(inode) = self.inodes.get_mut(&folder) {
            (inode.mtime, inode.ctime) = (time, time);
            inode.links = inode.links.saturating_add_signed(folders as i32);
        }
    }

    pub(super) fn link(&mut self, ino: Ino, parent: Ino, name: &[u8], time: Stamp) -> bool {
        let may = self.inodes.get(&ino).is_some_and(|inode| !inode.is_folder() && inode.links < u32::MAX);
        let Some(names) = self.room(parent, name).filter(|_| may) else { return false };
        names.insert(name.to_vec(), ino);
        self.touch(parent, time, 0);
        self.orphans.remove(&ino);
        if let Some(inode) = self.inodes.get_mut(&ino) {
            (inode.links, inode.ctime) = (inode.links + 1, time);
        }
        true
    }

    pub(super) fn unlink(&mut self, parent: Ino, name: &[u8], time: Stamp) -> bool {
        let Some(ino) = self.child(parent, name) else { return false };
        if self.names(ino).is_some_and(|names| !names.is_empty()) {
            return false;
        }
        let is_folder = self.inodes.get(&ino).is_some_and(Inode::is_folder);
        if let Some(Inode { kind: Kind::Folder { names, .. }, .. }) = self.inodes.get_mut(&parent) {
            names.remove(name);
        }
        self.touch(parent, time, -i64::from(is_folder));
        self.drop_name(ino, time);
        true
    }

    /// Counts one name less, which was removed from its folder.
    fn drop_name(&mut self, ino: Ino, time: Stamp) {
        let position = self.position;
        let Some(inode) = self.inodes.get_mut(&ino) else { return };
        inode.links = if inode.is_folder() { 0 } else { inode.links.saturating_sub(1) };
        inode.ctime = time;
        if inode.links == 0 {
            self.orphans.insert(ino, position);
        }
    }

    pub(super) fn rename(&mut self, from: (Ino, &[u8]), to: (Ino, &[u8]), time: Stamp) -> bool {
        let Some(ino) = self.child(from.0, from.1) else { return false };
        let is_folder = self.inodes.get(&ino).is_some_and(Inode::is_folder);
        let Some(target) = self.names(to.0).map(|names| names.get(to.1).copied()) else { return false };
        if !is_name(to.1) || self.is_orphan(to.0) || (is_folder && self.is_above(ino, to.0)) {
            return false;
        }
        if let Some(target) = target {
            if target == ino {
                return true;
            }
            let is_same = self.inodes.get(&target).is_some_and(|inode| inode.is_folder() == is_folder);
            if !is_same || !self.unlink(to.0, to.1, time) {
                return false;
            }
        }
        self.place(from, None);
        self.place(to, Some(ino));
        self.touch(from.0, time, -i64::from(is_folder));
        self.touch(to.0, time, i64::from(is_folder));
        self.moved(ino, to.0, time);
        true
    }

    pub(super) fn exchange(&mut self, from: (Ino, &[u8]), to: (Ino, &[u8]), time: Stamp) -> bool {
        let (Some(one), Some(other)) = (self.child(from.0, from.1), self.child(to.0, to.1)) else { return false };
        let folds = |ino: Ino| i64::from(self.inodes.get(&ino).is_some_and(Inode::is_folder));
        let (one_is, other_is) = (folds(one), folds(other));
        if (one_is > 0 && self.is_above(one, to.0)) || (other_is > 0 && self.is_above(other, from.0)) {
            return false;
        }
        self.place(from, Some(other));
        self.place(to, Some(one));
        self.touch(from.0, time, other_is - one_is);
        self.touch(to.0, time, one_is - other_is);
        self.moved(one, to.0, time);
        self.moved(other, from.0, time);
        true
    }

    /// Sets the inode of a name in a folder.
    fn place(&mut self, at: (Ino, &[u8]), ino: Option<Ino>) {
        if let Some(Inode { kind: Kind::Folder { names, .. }, .. }) = self.inodes.get_mut(&at.0) {
            match ino {
                Some(ino) => names.insert(at.1.to_vec(), ino),
                None => names.remove(at.1),
            };
        }
    }

    fn moved(&mut self, ino: Ino, to: Ino, time: Stamp) {
        if let Some(inode) = self.inodes.get_mut(&ino) {
            inode.ctime = time;
            if let Kind::Folder { parent, .. } = &mut inode.kind {
                *parent = to;
            }
        }
    }
}
