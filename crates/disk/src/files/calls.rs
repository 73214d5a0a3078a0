//! The kernel's requests, each answered from [`super::Files`] or [`super::plain::Plain`].

use super::answers::{Calls, code};
use super::names::Put;
use super::plain::is_plain;
use super::record::{Attributes, Fresh, Ino, ROOT, Stamp};
use super::refusal::Result;
use super::space::BLOCK_LEN;
use super::tree::{Kind, NAME_LEN_MAX};
use fuser::{
    BsdFileFlags, Errno as Code, FileHandle, Filesystem, FopenFlags, Generation, INodeNo, InitFlags, KernelConfig, LockOwner,
    OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory, ReplyDirectoryPlus, ReplyEmpty, ReplyEntry,
    ReplyLock, ReplyLseek, ReplyOpen, ReplyStatfs, ReplyWrite, ReplyXattr, Request, TimeOrNow, WriteFlags,
};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::SystemTime;

/// Largest read or write of one request: 1 MiB, in which a trip to another node is a small part.
const REQUEST_LEN: u32 = 1 << 20;

fn answer(done: Result<()>, reply: ReplyEmpty) {
    match done {
        Ok(()) => reply.ok(),
        Err(error) => reply.error(code(error)),
    }
}

fn answer_xattr(found: Result<Vec<u8>>, size: u32, reply: ReplyXattr) {
    match found {
        Ok(value) if size == 0 => reply.size(value.len() as u32),
        Ok(value) if value.len() > size as usize => reply.error(Code::ERANGE),
        Ok(value) => reply.data(&value),
        Err(error) => reply.error(code(error)),
    }
}

impl Filesystem for Calls {
    fn init(&mut self, _: &Request, config: &mut KernelConfig) -> std::io::Result<()> {
        let _ = config.set_max_write(REQUEST_LEN);
        let _ = config.set_max_readahead(REQUEST_LEN);
        let _ = config.set_max_background(64);
        // Features that this kernel lacks are done without.
        let wishes = [
            InitFlags::FUSE_POSIX_LOCKS,
            InitFlags::FUSE_FLOCK_LOCKS,
            InitFlags::FUSE_PARALLEL_DIROPS,
            InitFlags::FUSE_DO_READDIRPLUS,
            InitFlags::FUSE_READDIRPLUS_AUTO,
            // Without it the kernel asks for an attribute before each write, which takes as long as the write.
            InitFlags::FUSE_HANDLE_KILLPRIV_V2,
        ];
        for wish in wishes {
            let _ = config.add_capabilities(wish);
        }
        let _ = config.add_capabilities(InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        self.answer_entry(self.find(parent.0, name.as_bytes()), reply);
    }

    fn getattr(&self, _: &Request, ino: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        self.answer_attr(self.attributes(ino.0), reply);
    }

    fn setattr(
        &self,
        req: &Request,
        ino: INodeNo,
        mode: Option<u32>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime: Option<TimeOrNow>,
        mtime: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let stamp = |time: TimeOrNow| match time {
            TimeOrNow::SpecificTime(time) => Stamp::from(time),
            TimeOrNow::Now => Stamp::now(),
        };
        let mode = mode.map(|mode| mode & 0o7777);
        let set = Attributes { mode, uid, gid, size: None, atime: atime.map(stamp), mtime: mtime.map(stamp) };
        self.answer_attr(self.set(req.uid(), ino.0, size, set), reply);
    }

    fn readlink(&self, _: &Request, ino: INodeNo, reply: ReplyData) {
        let target = self.files.with(ino.0, |inode, _| match &inode.kind {
            Kind::Link { target } => Ok(target.clone()),
            _ => Err(Errno::INVAL),
        });
        match target.and_then(|target| target) {
            Ok(target) => reply.data(&target),
            Err(error) => reply.error(code(error)),
        }
    }

    fn mknod(&self, req: &Request, parent: INodeNo, name: &OsStr, mode: u32, umask: u32, rdev: u32, reply: ReplyEntry) {
        let what = match mode & libc::S_IFMT {
            libc::S_IFREG | 0 => Fresh::File,
            format => Fresh::Special { format, rdev },
        };
        self.answer_entry(self.make(req, parent.0, name, &what, mode & !umask), reply);
    }

    fn mkdir(&self, req: &Request, parent: INodeNo, name: &OsStr, mode: u32, umask: u32, reply: ReplyEntry) {
        self.answer_entry(self.make(req, parent.0, name, &Fresh::Folder, mode & !umask), reply);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        let done = match self.files.unlink(parent.0, name.as_bytes(), false) {
            Err(Errno::NOENT) if parent.0 == ROOT => self.plain.unlink(name.as_bytes()),
            done => done,
        };
        answer(done, reply);
    }

    fn rmdir(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer(self.files.unlink(parent.0, name.as_bytes(), true), reply);
    }

    fn symlink(&self, req: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        let what = Fresh::Link { target: target.as_os_str().as_bytes().to_vec() };
        self.answer_entry(self.make(req, parent.0, name, &what, 0o777), reply);
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        if flags.contains(RenameFlags::RENAME_WHITEOUT) {
            return reply.error(Code::EINVAL);
        }
        let put = if flags.contains(RenameFlags::RENAME_NOREPLACE) { Put::New } else { Put::Any };
        let (from, to) = ((parent.0, name.as_bytes()), (new_parent.0, new_name.as_bytes()));
        let is_region = |at: (Ino, &[u8])| {
            at.0 == ROOT && self.files.lookup(at.0, at.1) == Err(Errno::NOENT) && self.plain.lookup(at.1).is_ok()
        };
        // A region's name is the pool's: programs that move files copy then.
        let done = match self.files.rename(from, to, put, flags.contains(RenameFlags::RENAME_EXCHANGE)) {
            Err(Errno::NOENT) if is_region(from) => Err(Errno::XDEV),
            done => done,
        };
        answer(done, reply);
    }

    fn link(&self, _: &Request, ino: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let done = if is_plain(ino.0) { Err(Errno::PERM) } else { self.files.link(ino.0, parent.0, name.as_bytes()) };
        self.answer_entry(done.and_then(|()| self.attributes(ino.0)), reply);
    }

    fn open(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.open_flags(ino.0) {
            Ok(flags) => reply.opened(FileHandle(0), flags),
            Err(error) => reply.error(code(error)),
        }
    }

    fn create(&self, req: &Request, parent: INodeNo, name: &OsStr, mode: u32, umask: u32, flags: i32, reply: ReplyCreate) {
        let made = match self.make(req, parent.0, name, &Fresh::File, mode & !umask) {
            // Another host was faster.
            Err(Errno::EXIST) if flags & libc::O_EXCL == 0 => self.find(parent.0, name.as_bytes()),
            made => made,
        };
        match made.and_then(|attr| Ok((attr, self.open_flags(attr.ino.0)?))) {
            Ok((attr, flags)) => reply.created(&self.believe(), &attr, Generation(0), FileHandle(0), flags),
            Err(error) => reply.error(code(error)),
        }
    }

    fn read(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let (ino, len) = (ino.0, size as usize);
        let read = if is_plain(ino) { self.plain.read(ino, offset, len) } else { self.files.read(ino, offset, len) };
        match read {
            Ok(bytes) => reply.data(&bytes),
            Err(error) => reply.error(code(error)),
        }
    }

    fn write(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        flags: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let ino = ino.0;
        let drops_bits = flags.contains(WriteFlags::FUSE_WRITE_KILL_SUIDGID);
        let done = match is_plain(ino) {
            true => self.plain.write(ino, offset, data),
            false => self.files.drop_rights(ino, drops_bits).and_then(|()| self.files.write(ino, offset, data)),
        };
        match done {
            Ok(()) => reply.written(data.len() as u32),
            Err(error) => reply.error(code(error)),
        }
    }

    fn flush(&self, _: &Request, ino: INodeNo, _: FileHandle, owner: LockOwner, reply: ReplyEmpty) {
        if is_plain(ino.0) {
            return reply.ok();
        }
        let told = self.files.flush(ino.0);
        // A process that closes a file has no locks on it any more.
        let freed = self.files.claim(owner.0, 0, (0, u64::MAX), false).and_then(|all| self.files.unlock(ino.0, all));
        answer(told.and(freed), reply);
    }

    fn release(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        _: OpenFlags,
        owner: Option<LockOwner>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        if is_plain(ino.0) {
            self.plain.close_file(ino.0);
        } else {
            if let Some(owner) = owner {
                let all = self.files.claim(owner.0, 0, (0, u64::MAX), false);
                // The lock goes with this mount at the latest.
                let _ = all.and_then(|all| self.files.unlock(ino.0, all));
            }
            self.files.close_file(ino.0);
        }
        reply.ok();
    }

    fn fsync(&self, _: &Request, ino: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        answer(if is_plain(ino.0) { Ok(()) } else { self.files.flush(ino.0) }, reply);
    }

    fn opendir(&self, _: &Request, ino: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.attributes(ino.0) {
            Ok(_) => reply.opened(FileHandle(self.next.fetch_add(1, Ordering::Relaxed)), FopenFlags::empty()),
            Err(error) => reply.error(code(error)),
        }
    }

    fn readdir(&self, _: &Request, ino: INodeNo, fh: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let listing = match self.listing_from(ino.0, fh.0, offset) {
            Ok(listing) => listing,
            Err(error) => return reply.error(code(error)),
        };
        for (index, (name, ino, kind)) in listing.iter().enumerate().skip(offset as usize) {
            if reply.add(INodeNo(*ino), index as u64 + 1, *kind, OsStr::from_bytes(name)) {
                break;
            }
        }
        reply.ok();
    }

    fn readdirplus(&self, _: &Request, ino: INodeNo, fh: FileHandle, offset: u64, mut reply: ReplyDirectoryPlus) {
        let listing = match self.listing_from(ino.0, fh.0, offset) {
            Ok(listing) => listing,
            Err(error) => return reply.error(code(error)),
        };
        if let Err(error) = self.files.view() {
            return reply.error(code(error));
        }
        for (index, (name, ino, _)) in listing.iter().enumerate().skip(offset as usize) {
            let attr = match self.listed(*ino, name) {
                Ok(Some(attr)) => attr,
                Ok(None) => continue,
                Err(error) => return reply.error(code(error)),
            };
            if reply.add(INodeNo(*ino), index as u64 + 1, OsStr::from_bytes(name), &self.believe(), &attr, Generation(0)) {
                break;
            }
        }
        reply.ok();
    }

    fn releasedir(&self, _: &Request, _: INodeNo, fh: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        self.listings().remove(&fh.0);
        reply.ok();
    }

    fn fsyncdir(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        // A change of names is told before its call returns.
        reply.ok();
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let count = self.files.ledger.known().tree.count();
        match self.space() {
            Ok((all, free)) => {
                reply.statfs(all, free, free, count + free, free, BLOCK_LEN as u32, NAME_LEN_MAX as u32, BLOCK_LEN as u32)
            }
            Err(error) => reply.error(code(error)),
        }
    }

    fn setxattr(&self, _: &Request, ino: INodeNo, name: &OsStr, value: &[u8], flags: i32, _: u32, reply: ReplyEmpty) {
        let put = match flags {
            libc::XATTR_CREATE => Put::New,
            libc::XATTR_REPLACE => Put::Again,
            _ => Put::Any,
        };
        answer(self.put_xattr(ino.0, name.as_bytes(), Some(value), put), reply);
    }

    fn removexattr(&self, _: &Request, ino: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        answer(self.put_xattr(ino.0, name.as_bytes(), None, Put::Any), reply);
    }

    fn getxattr(&self, _: &Request, ino: INodeNo, name: &OsStr, size: u32, reply: ReplyXattr) {
        answer_xattr(self.xattr(ino.0, name.as_bytes()), size, reply);
    }

    fn listxattr(&self, _: &Request, ino: INodeNo, size: u32, reply: ReplyXattr) {
        answer_xattr(self.xattr_names(ino.0), size, reply);
    }

    fn getlk(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        owner: LockOwner,
        start: u64,
        end: u64,
        kind: i32,
        pid: u32,
        reply: ReplyLock,
    ) {
        if is_plain(ino.0) {
            return reply.error(Code::EOPNOTSUPP);
        }
        let claim = self.files.claim(owner.0, pid, (start, end), kind == libc::F_WRLCK);
        match claim.and_then(|claim| self.files.lock_conflict(ino.0, claim)) {
            Ok(None) => reply.locked(0, 0, libc::F_UNLCK, 0),
            Ok(Some(held)) => {
                let kind = if held.exclusive { libc::F_WRLCK } else { libc::F_RDLCK };
                reply.locked(held.start, held.end, kind, held.pid);
            }
            Err(error) => reply.error(code(error)),
        }
    }

    fn setlk(
        &self,
        _: &Request,
        ino: INodeNo,
        _: FileHandle,
        owner: LockOwner,
        start: u64,
        end: u64,
        kind: i32,
        pid: u32,
        sleep: bool,
        reply: ReplyEmpty,
    ) {
        if is_plain(ino.0) {
            return reply.error(Code::EOPNOTSUPP);
        }
        let claim = match self.files.claim(owner.0, pid, (start, end), kind == libc::F_WRLCK) {
            Ok(claim) => claim,
            Err(error) => return reply.error(code(error)),
        };
        if kind == libc::F_UNLCK {
            return answer(self.files.unlock(ino.0, claim), reply);
        }
        match self.files.lock(ino.0, claim) {
            Err(Errno::AGAIN) if sleep => super::waits::wait_for_lock(&self.files, ino.0, claim, reply),
            done => answer(done, reply),
        }
    }

    fn fallocate(&self, req: &Request, ino: INodeNo, _: FileHandle, offset: u64, len: u64, mode: i32, reply: ReplyEmpty) {
        if !is_plain(ino.0)
            && let Err(error) = self.files.drop_rights(ino.0, req.uid() != 0)
        {
            return reply.error(code(error));
        }
        let keeps_size = mode & libc::FALLOC_FL_KEEP_SIZE != 0;
        let done = match mode & !libc::FALLOC_FL_KEEP_SIZE {
            _ if is_plain(ino.0) => Err(Errno::OPNOTSUPP),
            0 => self.files.allocate(ino.0, offset, len, keeps_size),
            libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_ZERO_RANGE => self.files.punch(ino.0, offset, len, keeps_size),
            _ => Err(Errno::OPNOTSUPP),
        };
        answer(done, reply);
    }

    fn lseek(&self, _: &Request, ino: INodeNo, _: FileHandle, offset: i64, whence: i32, reply: ReplyLseek) {
        let data = match whence {
            libc::SEEK_DATA => true,
            libc::SEEK_HOLE => false,
            _ => return reply.error(Code::EINVAL),
        };
        let from = u64::try_from(offset).map_err(|_| Errno::NXIO);
        let found = from.and_then(|from| match is_plain(ino.0) {
            true => self.plain.stat(ino.0).map(|stat| (from < stat.len).then_some(if data { from } else { stat.len })),
            false => self.files.with(ino.0, |_, source| source.seek(from, data)),
        });
        match found {
            Ok(Some(at)) => reply.offset(at as i64),
            Ok(None) => reply.error(Code::ENXIO),
            Err(error) => reply.error(code(error)),
        }
    }
}
