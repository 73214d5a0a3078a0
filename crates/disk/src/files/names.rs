//! Names, attributes and locks.

use super::Files;
use super::record::{Attributes, Claim, Fresh, Ino, Record, Stamp};
use super::refusal::Result;
use super::tree::{Kind, NAME_LEN_MAX, Tree};
use rustix::io::Errno;

/// Most names of one file.
const LINK_COUNT_MAX: u32 = 65_000;

/// Longest value of an extended attribute, and most bytes of all of one file: the kernel's limit.
const XATTR_LEN_MAX: usize = 64 << 10;

/// The attribute by which a file gives programs more rights than their users have.
const CAPABILITIES: &[u8] = b"security.capability";

/// Maker of a file or folder.
#[derive(Clone, Copy)]
pub struct Maker {
    /// The user.
    pub uid: u32,
    /// The group.
    pub gid: u32,
    /// The mode bits, less the mask.
    pub mode: u32,
}

/// Rule for a value among others.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Put {
    /// Present or not.
    Any,
    /// Only if it is not.
    New,
    /// Only if it is.
    Again,
}

impl Files {
    /// The inode of a name.
    pub fn lookup(&self, parent: Ino, name: &[u8]) -> Result<Ino> {
        check_name(name)?;
        let view = self.view()?;
        match name {
            b"." => Ok(parent),
            b".." => view.tree.parent(parent).ok_or(Errno::NOTDIR),
            _ => find(&view.tree, parent, name),
        }
    }

    /// Makes a file, folder, link or special file.
    pub fn make(&self, parent: Ino, name: &[u8], what: &Fresh, maker: Maker) -> Result<Ino> {
        check_name(name)?;
        let time = Stamp::now();
        self.ledger.commit(|tree| {
            check_folder(tree, parent)?;
            if tree.child(parent, name).is_some() {
                return Err(Errno::EXIST);
            }
            // In a folder that has the bit, all is of the folder's group, and folders have the bit too.
            let folder = tree.inode(parent).ok_or(Errno::NOENT)?;
            let passes_group = folder.mode & 0o2000 != 0;
            let gid = if passes_group { folder.gid } else { maker.gid };
            let is_folder = *what == Fresh::Folder;
            let mode = maker.mode & 0o7777 | if passes_group && is_folder { 0o2000 } else { 0 };
            if is_folder && folder.links >= LINK_COUNT_MAX {
                return Err(Errno::MLINK);
            }
            let (name, what) = (name.to_vec(), what.clone());
            let record = Record::Make { parent, name, what, mode, uid: maker.uid, gid, time };
            Ok((vec![record], tree.next()))
        })
    }

    /// Gives a file another name.
    pub fn link(&self, ino: Ino, parent: Ino, name: &[u8]) -> Result<()> {
        check_name(name)?;
        let time = Stamp::now();
        self.ledger.commit(|tree| {
            check_folder(tree, parent)?;
            let inode = tree.inode(ino).ok_or(Errno::NOENT)?;
            match () {
                () if inode.is_folder() => Err(Errno::PERM),
                () if inode.links >= LINK_COUNT_MAX => Err(Errno::MLINK),
                () if tree.child(parent, name).is_some() => Err(Errno::EXIST),
                () => Ok((vec![Record::Link { ino, parent, name: name.to_vec(), time }], ())),
            }
        })
    }

    /// Takes a name away.
    pub fn unlink(&self, parent: Ino, name: &[u8], is_folder: bool) -> Result<()> {
        check_name(name)?;
        let time = Stamp::now();
        self.ledger.commit(|tree| {
            let ino = find(tree, parent, name)?;
            match tree.inode(ino).ok_or(Errno::NOENT)?.kind {
                Kind::Folder { ref names, .. } if is_folder && !names.is_empty() => return Err(Errno::NOTEMPTY),
                Kind::Folder { .. } if !is_folder => return Err(Errno::ISDIR),
                Kind::Folder { .. } => {}
                _ if is_folder => return Err(Errno::NOTDIR),
                _ => {}
            }
            Ok((vec![Record::Unlink { parent, name: name.to_vec(), time }], ()))
        })
    }

    /// Gives something another name and place.
    pub fn rename(&self, from: (Ino, &[u8]), to: (Ino, &[u8]), put: Put, exchange: bool) -> Result<()> {
        check_name(from.1)?;
        check_name(to.1)?;
        let time = Stamp::now();
        self.ledger.commit(|tree| {
            let ino = find(tree, from.0, from.1)?;
            check_folder(tree, to.0)?;
            let inode = tree.inode(ino).ok_or(Errno::NOENT)?;
            let target = tree.child(to.0, to.1);
            if inode.is_folder() && tree.is_above(ino, to.0) {
                return Err(Errno::INVAL);
            }
            match target.and_then(|target| Some((target, tree.inode(target)?))) {
                None if exchange => return Err(Errno::NOENT),
                None => {}
                Some(_) if put == Put::New => return Err(Errno::EXIST),
                Some((target, there)) if exchange && there.is_folder() && tree.is_above(target, from.0) => {
                    return Err(Errno::INVAL);
                }
                Some((target, _)) if target == ino => return Ok((Vec::new(), ())),
                Some((_, there)) if there.is_folder() && !inode.is_folder() => return Err(Errno::ISDIR),
                Some((_, there)) if !there.is_folder() && inode.is_folder() => return Err(Errno::NOTDIR),
                Some((target, _)) if tree.names(target).is_some_and(|names| !names.is_empty()) => return Err(Errno::NOTEMPTY),
                Some(_) => {}
            }
            let (name, new_name) = (from.1.to_vec(), to.1.to_vec());
            let record = Record::Rename { parent: from.0, name, new_parent: to.0, new_name, exchange, time };
            Ok((vec![record], ()))
        })
    }

    /// Changes attributes but the length.
    pub fn set(&self, ino: Ino, set: &Attributes) -> Result<()> {
        // A time that was set is not overtaken by that of a write before.
        if set.mtime.is_some() {
            self.flush(ino)?;
        }
        let time = Stamp::now();
        self.ledger.commit(|tree| {
            tree.inode(ino).ok_or(Errno::STALE)?;
            Ok((vec![Record::Set { ino, set: set.clone(), time }], ()))
        })
    }

    /// A file's mode without the bits that let programs run with its owner's rights. `None` if it has none of them.
    pub fn mode_without_rights(&self, ino: Ino) -> Result<Option<u32>> {
        self.with_known(ino, |inode, _| {
            // Without the group's right to execute, the second bit is not one of execution.
            let bits = if inode.mode & 0o010 != 0 { 0o6000 } else { 0o4000 };
            (!inode.is_folder() && inode.mode & bits != 0).then_some(inode.mode & !bits)
        })
    }

    /// Removes a file's capabilities, and with `drops_bits` its set-user-ID and set-group-ID bits. The kernel leaves that to its file
    /// systems, so that it need not ask for them before each write. **Cost**: none where there is nothing to remove.
    pub fn drop_rights(&self, ino: Ino, drops_bits: bool) -> Result<()> {
        if self.with_known(ino, |inode, _| inode.xattrs.contains_key(CAPABILITIES))? {
            match self.set_xattr(ino, CAPABILITIES, None, Put::Any) {
                Err(Errno::NODATA) => {}
                done => done?,
            }
        }
        match if drops_bits { self.mode_without_rights(ino)? } else { None } {
            Some(mode) => self.set(ino, &Attributes { mode: Some(mode), ..Attributes::default() }),
            None => Ok(()),
        }
    }

    /// Sets or removes an extended attribute.
    pub fn set_xattr(&self, ino: Ino, name: &[u8], value: Option<&[u8]>, put: Put) -> Result<()> {
        if name.len() > NAME_LEN_MAX || value.is_some_and(|value| value.len() > XATTR_LEN_MAX) {
            return Err(if name.len() > NAME_LEN_MAX { Errno::RANGE } else { Errno::TOOBIG });
        }
        if name == super::PLACE
            && let Some(text) = value
        {
            self.store.key(std::str::from_utf8(text).map_err(|_| Errno::INVAL)?)?;
        }
        let time = Stamp::now();
        self.ledger.commit(|tree| {
            let inode = tree.inode(ino).ok_or(Errno::STALE)?;
            let is_there = inode.xattrs.contains_key(name);
            if (value.is_none() || put == Put::Again) && !is_there {
                return Err(Errno::NODATA);
            }
            if put == Put::New && is_there {
                return Err(Errno::EXIST);
            }
            // The bytes that are there do not move.
            if name == super::PLACE && inode.blocks() > 0 {
                return Err(Errno::BUSY);
            }
            let others = inode.xattrs.iter().filter(|(other, _)| *other != name);
            let sum: usize = others.map(|(name, value)| name.len() + value.len()).sum();
            if sum + name.len() + value.map_or(0, <[u8]>::len) > XATTR_LEN_MAX {
                return Err(Errno::NOSPC);
            }
            let value = value.map(<[u8]>::to_vec);
            Ok((vec![Record::Xattr { ino, name: name.to_vec(), value, time }], ()))
        })
    }

    /// A lock that keeps this one out.
    pub fn lock_conflict(&self, ino: Ino, claim: Claim) -> Result<Option<Claim>> {
        Ok(self.view()?.tree.locks(ino).and_then(|locks| locks.conflict(claim)))
    }

    /// Takes a lock; `EAGAIN` where others keep it out.
    pub fn lock(&self, ino: Ino, claim: Claim) -> Result<()> {
        // Earlier writes here go to the log first; under the lock this mount sees the writes of others.
        self.flush(ino)?;
        self.ledger.commit(|tree| {
            tree.inode(ino).ok_or(Errno::STALE)?;
            match tree.locks(ino).and_then(|locks| locks.conflict(claim)) {
                Some(_) => Err(Errno::AGAIN),
                None => Ok((vec![Record::Lock { ino, claim }], ())),
            }
        })
    }

    /// Releases an owner's locks of a range, after the writes under them went to the log.
    pub fn unlock(&self, ino: Ino, claim: Claim) -> Result<()> {
        if !self.ledger.known().tree.locks(ino).is_some_and(|locks| locks.has(claim.session, claim.owner)) {
            return Ok(());
        }
        self.flush(ino)?;
        self.ledger.commit(|_| Ok((vec![Record::Unlock { ino, claim }], ())))
    }

    /// A lock of this mount.
    pub fn claim(&self, owner: u64, pid: u32, range: (u64, u64), exclusive: bool) -> Result<Claim> {
        Ok(Claim { session: self.session()?, owner, pid, start: range.0, end: range.1, exclusive })
    }
}

fn check_name(name: &[u8]) -> Result<()> {
    if name.len() > NAME_LEN_MAX { Err(Errno::NAMETOOLONG) } else { Ok(()) }
}

fn check_folder(tree: &Tree, ino: Ino) -> Result<()> {
    match tree.inode(ino) {
        Some(inode) if !inode.is_folder() => Err(Errno::NOTDIR),
        Some(_) if !tree.is_orphan(ino) => Ok(()),
        _ => Err(Errno::NOENT),
    }
}

fn find(tree: &Tree, parent: Ino, name: &[u8]) -> Result<Ino> {
    match tree.names(parent) {
        Some(names) => names.get(name).copied().ok_or(Errno::NOENT),
        None if tree.inode(parent).is_some() => Err(Errno::NOTDIR),
        None => Err(Errno::NOENT),
    }
}
