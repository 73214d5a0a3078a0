//! Replies to the kernel's requests.

use super::Files;
use super::bytes::Source;
use super::names::{Maker, Put};
use super::owners::Owners;
use super::plain::{Plain, is_plain};
use super::record::{Attributes, Fresh, Ino, ROOT, Stamp};
use super::refusal::Result;
use super::space::BLOCK_LEN;
use super::tree::{Inode, Kind};
use fuser::{Errno as Code, FileAttr, FileType, FopenFlags, Generation, INodeNo, ReplyAttr, ReplyEntry, Request};
use hanare::RegionStat;
use rustix::io::Errno;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

/// Time that the kernel believes a reply, while no other mount can change it.
const BELIEVE: Duration = Duration::from_secs(1);

/// Preferred length of a program's reads and writes.
const IO_LEN: u32 = 64 << 10;

/// Entries that `readdir` gives of a folder: as it was when its first entry was read.
pub type Listing = Arc<Vec<(Vec<u8>, Ino, FileType)>>;

/// The file system behind the kernel's requests.
pub struct Calls {
    pub(super) files: Arc<Files>,
    pub(super) plain: Plain,
    pub(super) listings: Mutex<HashMap<u64, Listing>>,
    pub(super) next: AtomicU64,
}

pub fn code(error: Errno) -> Code {
    Code::from_i32(error.raw_os_error())
}

fn kind_of(kind: &Kind) -> FileType {
    match kind {
        Kind::File { .. } => FileType::RegularFile,
        Kind::Folder { .. } => FileType::Directory,
        Kind::Link { .. } => FileType::Symlink,
        Kind::Special { format, .. } => match *format & libc::S_IFMT {
            libc::S_IFIFO => FileType::NamedPipe,
            libc::S_IFSOCK => FileType::Socket,
            libc::S_IFCHR => FileType::CharDevice,
            _ => FileType::BlockDevice,
        },
    }
}

/// Attributes that `stat` shows.
fn attributes(owners: &Owners, ino: Ino, inode: &Inode, source: &Source<'_>) -> FileAttr {
    let written = source.pending.and_then(|pending| pending.time);
    let fresh = source.pending.map_or(0, |pending| pending.fresh.count());
    let later = |stamp: Stamp| SystemTime::from(written.map_or(stamp, |written| written.max(stamp)));
    FileAttr {
        ino: INodeNo(ino),
        size: source.size(),
        blocks: (inode.blocks() + fresh) * (BLOCK_LEN / 512),
        atime: inode.atime.into(),
        mtime: later(inode.mtime),
        ctime: later(inode.ctime),
        crtime: SystemTime::UNIX_EPOCH,
        kind: kind_of(&inode.kind),
        perm: owners.mode(inode.mode, inode.is_folder()) as u16,
        nlink: inode.links,
        uid: owners.owner(inode.uid),
        gid: inode.gid,
        rdev: if let Kind::Special { rdev, .. } = inode.kind { owners.device(rdev) } else { 0 },
        blksize: IO_LEN,
        flags: 0,
    }
}

fn plain_attributes(ino: u64, stat: &RegionStat) -> FileAttr {
    let time = SystemTime::UNIX_EPOCH;
    FileAttr {
        ino: INodeNo(ino),
        size: stat.len,
        blocks: stat.len.div_ceil(512),
        atime: time,
        mtime: time,
        ctime: time,
        crtime: time,
        kind: FileType::RegularFile,
        perm: (stat.mode & 0o777) as u16,
        nlink: 1,
        uid: stat.owner,
        gid: stat.owner,
        rdev: 0,
        blksize: IO_LEN,
        flags: 0,
    }
}

impl Calls {
    /// Answers from a file system.
    pub fn new(files: &Arc<Files>) -> Calls {
        let (plain, next) = (Plain::new(&files.pool), AtomicU64::new(1));
        Calls { files: files.clone(), plain, listings: Mutex::default(), next }
    }

    pub(super) fn listings(&self) -> MutexGuard<'_, HashMap<u64, Listing>> {
        self.listings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn believe(&self) -> Duration {
        if self.files.is_shared() { Duration::ZERO } else { BELIEVE }
    }

    pub(super) fn attributes(&self, ino: Ino) -> Result<FileAttr> {
        if is_plain(ino) {
            return self.plain.stat(ino).map(|stat| plain_attributes(ino, &stat));
        }
        self.files.with(ino, |inode, source| attributes(&self.files.owners, ino, inode, source))
    }

    pub(super) fn find(&self, parent: Ino, name: &[u8]) -> Result<FileAttr> {
        match self.files.lookup(parent, name) {
            Err(Errno::NOENT) if parent == ROOT => self.plain.lookup(name).map(|(ino, stat)| plain_attributes(ino, &stat)),
            found => found.and_then(|ino| self.attributes(ino)),
        }
    }

    pub(super) fn answer_entry(&self, found: Result<FileAttr>, reply: ReplyEntry) {
        match found {
            Ok(attr) => reply.entry(&self.believe(), &attr, Generation(0)),
            Err(error) => reply.error(code(error)),
        }
    }

    pub(super) fn answer_attr(&self, found: Result<FileAttr>, reply: ReplyAttr) {
        match found {
            Ok(attr) => reply.attr(&self.believe(), &attr),
            Err(error) => reply.error(code(error)),
        }
    }

    pub(super) fn make(&self, req: &Request, parent: Ino, name: &OsStr, what: &Fresh, mode: u32) -> Result<FileAttr> {
        if is_plain(parent) {
            return Err(Errno::NOTDIR);
        }
        let owners = &self.files.owners;
        if let Fresh::Special { rdev, .. } = what
            && owners.device(*rdev) != *rdev
        {
            return Err(Errno::PERM);
        }
        let mode = owners.mode(mode, *what == Fresh::Folder);
        let maker = Maker { uid: owners.owner(req.uid()), gid: req.gid(), mode };
        self.files.make(parent, name.as_bytes(), what, maker).and_then(|ino| self.attributes(ino))
    }

    /// The kernel's way to cache a file's pages. It stays if no other mount has changed the file since it was last open here.
    pub(super) fn open_flags(&self, ino: Ino) -> Result<FopenFlags> {
        if is_plain(ino) {
            self.plain.open_file(ino)?;
            return Ok(FopenFlags::FOPEN_DIRECT_IO);
        }
        let is_cached = self.files.open_file(ino)?;
        Ok(match is_cached {
            _ if self.files.is_coherent() => FopenFlags::FOPEN_DIRECT_IO,
            true => FopenFlags::FOPEN_KEEP_CACHE,
            false => FopenFlags::empty(),
        })
    }

    /// Sets a file's length or attributes for a user. A request that sets nothing is a change of owner to the same, or comes before a
    /// write.
    pub(super) fn set(&self, uid: u32, ino: Ino, size: Option<u64>, mut set: Attributes) -> Result<FileAttr> {
        if is_plain(ino) {
            if set != Attributes::default() && set != (Attributes { mtime: set.mtime, ..Attributes::default() }) {
                return Err(Errno::OPNOTSUPP);
            }
            size.map_or(Ok(()), |len| self.plain.truncate(ino, len))?;
        } else {
            let owners = &self.files.owners;
            if set.uid.is_some_and(|uid| !owners.speaks_for(uid)) {
                return Err(Errno::PERM);
            }
            let is_folder = self.files.with_known(ino, |inode, _| inode.is_folder())?;
            set.mode = set.mode.map(|mode| owners.mode(mode, is_folder));
            let is_of_owner = set.uid.is_some() || set.gid.is_some() || (size.is_none() && set == Attributes::default());
            if is_of_owner || size.is_some() {
                self.files.drop_rights(ino, false)?;
            }
            // Root may change a length and keep the mode's bits.
            if set.mode.is_none() && (is_of_owner || (size.is_some() && uid != 0)) {
                set.mode = self.files.mode_without_rights(ino)?;
            }
            match size {
                Some(len) => self.files.truncate(ino, len, set)?,
                None => self.files.set(ino, &set)?,
            }
        }
        self.attributes(ino)
    }

    pub(super) fn listing(&self, folder: Ino) -> Result<Listing> {
        let mut all: Vec<(Vec<u8>, Ino, FileType)> = {
            let view = self.files.view()?;
            let tree = &view.tree;
            let names = tree.names(folder).ok_or(Errno::NOTDIR)?;
            let kind = |ino: Ino| tree.inode(ino).map_or(FileType::RegularFile, |inode| kind_of(&inode.kind));
            let up = tree.parent(folder).unwrap_or(ROOT);
            let dots = [(b".".to_vec(), folder), (b"..".to_vec(), up)].into_iter();
            dots.chain(names.iter().map(|(name, ino)| (name.clone(), *ino))).map(|(name, ino)| (name, ino, kind(ino))).collect()
        };
        if folder == ROOT {
            let own: std::collections::HashSet<Vec<u8>> = all.iter().map(|(name, ..)| name.clone()).collect();
            let regions = self.plain.all()?.into_iter().filter(|(name, _)| !own.contains(name.as_bytes()));
            all.extend(regions.map(|(name, ino)| (name.into_bytes(), ino, FileType::RegularFile)));
        }
        Ok(Arc::new(all))
    }

    /// Listing of an open folder: taken at offset 0.
    pub(super) fn listing_from(&self, folder: Ino, handle: u64, offset: u64) -> Result<Listing> {
        let known = self.listings().get(&handle).cloned().filter(|_| offset > 0);
        let listing = known.map_or_else(|| self.listing(folder), Ok)?;
        self.listings().insert(handle, listing.clone());
        Ok(listing)
    }

    /// The attributes of an entry of a listing, as far as they are known here. `None` if it has gone since.
    pub(super) fn listed(&self, ino: Ino, name: &[u8]) -> Result<Option<FileAttr>> {
        let found = match is_plain(ino) {
            true => self.plain.lookup(name).map(|(_, stat)| plain_attributes(ino, &stat)),
            false => self.files.with_known(ino, |inode, source| attributes(&self.files.owners, ino, inode, source)),
        };
        match found {
            Err(Errno::NOENT) => Ok(None),
            found => found.map(Some),
        }
    }

    pub(super) fn xattr(&self, ino: Ino, name: &[u8]) -> Result<Vec<u8>> {
        if is_plain(ino) {
            let stat = self.plain.stat(ino)?;
            return match name {
                b"user.hanare.gid" => Ok(stat.gid.0.to_string().into_bytes()),
                super::PLACE => Ok(stat.placement.to_string().into_bytes()),
                _ => Err(Errno::NODATA),
            };
        }
        if name == REGIONS {
            return self.files.regions_of(ino);
        }
        if !self.files.owners.shows(name) {
            return Err(Errno::NODATA);
        }
        self.files.with(ino, |inode, _| inode.xattrs.get(name).cloned().ok_or(Errno::NODATA))?
    }

    pub(super) fn xattr_names(&self, ino: Ino) -> Result<Vec<u8>> {
        let mut names: Vec<Vec<u8>> = if is_plain(ino) {
            self.plain.stat(ino)?;
            vec![b"user.hanare.gid".to_vec(), super::PLACE.to_vec()]
        } else {
            let names = self.files.with(ino, |inode, _| {
                let regions = matches!(inode.kind, Kind::File { .. }).then(|| REGIONS.to_vec());
                let shown = inode.xattrs.keys().filter(|name| self.files.owners.shows(name));
                shown.cloned().chain(regions).collect()
            });
            names?
        };
        names.iter_mut().for_each(|name| name.push(0));
        Ok(names.concat())
    }

    pub(super) fn space(&self) -> Result<(u64, u64)> {
        let status = self.files.pool.status().map_err(|error| super::refusal::refused("the pool's state", &error))?;
        let alive = status.nodes.iter().filter(|node| node.alive).map(|node| node.memory);
        let (lent, used) = alive.fold((0u64, 0u64), |(lent, used), memory| (lent + memory.lent, used + memory.used));
        let view = self.files.view()?;
        let spare = view.tree.space.free.count() + view.tree.space.limbo().map(|run| u64::from(run.count)).sum::<u64>();
        let len = BLOCK_LEN * u64::from(self.files.ledger.parts().copies().max(1));
        Ok((lent / len, lent.saturating_sub(used) / len + spare))
    }

    pub(super) fn put_xattr(&self, ino: Ino, name: &[u8], value: Option<&[u8]>, put: Put) -> Result<()> {
        if is_plain(ino) || name == REGIONS {
            return Err(Errno::OPNOTSUPP);
        }
        // The kernel would not act here on attributes that it keeps for itself, access lists for instance.
        if name.starts_with(b"system.") {
            return Err(Errno::OPNOTSUPP);
        }
        if !self.files.owners.shows(name) {
            return Err(Errno::PERM);
        }
        self.files.set_xattr(ino, name, value, put)
    }
}

/// The attribute that names the regions, and so the nodes, that a file's bytes are in.
const REGIONS: &[u8] = b"user.hanare.regions";
