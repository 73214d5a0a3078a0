//! A file system at a folder of this host.

use super::Files;
use super::answers::Calls;
use fuser::{Config, MountOption, Session, SessionACL};
use hanare::{Error, Pool};
use hanare_protocol::tenant::is_tenant;
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

/// Threads that answer the kernel: two for each of two processors. So a thread that waits for another node holds nobody up.
const THREADS: usize = 4;

/// Readahead of a mount that root makes, in KiB: as long as a request.
const READAHEAD_KB: &str = "1024";

/// Tries to unmount a busy folder before it is detached.
const BUSY_TRIES: u32 = 20;

/// Tries after which the folder's users are named.
const BUSY_TRIES_UNSAID: u32 = 5;

/// Options of a mount.
#[derive(Clone, Debug, Default)]
pub struct MountOptions {
    /// Its name in the pool; by default `files`, and `files-UID` for users other than root.
    pub name: Option<String>,
    /// Nodes that hold each of its bytes, where it is made; else it has to be so. By default one, or what it has.
    pub copies: Option<u8>,
    /// Users other than this one whose regions the file system may have.
    pub trusted: Vec<u32>,
    /// True if every host sees each write at once.
    pub is_coherent: bool,
    /// True if changes are refused.
    pub is_read_only: bool,
}

/// A mounted file system. Unmounted by [`Mounted::unmounter`], or by anybody else.
pub struct Mounted {
    files: Arc<Files>,
    watch: JoinHandle<()>,
    server: JoinHandle<io::Result<()>>,
    folder: PathBuf,
}

/// Mounts a file system of the pool at a folder; makes it, empty, where it is not there.
///
/// **Errors**: the pool's. [`Error::NotTrusted`] for a region that another user made. [`Error::System`] if this host does not let the user
/// mount.
///
/// FEATURE: D2-F1 D2-F2 D2-F3 D2-F15
pub fn mount(pool: &Pool, folder: &Path, options: &MountOptions) -> Result<Mounted, Error> {
    // Root of a user namespace is an ordinary user to its node.
    let own = || match pool.user().uid {
        // A tenant's names are its own.
        uid if uid == 0 || is_tenant(uid) => "files".to_owned(),
        uid => format!("files-{uid}"),
    };
    let name = options.name.clone().unwrap_or_else(own);
    check_helper(folder)?;
    clear_dead(folder);
    if !folder.is_dir() {
        return Err(cannot_mount(folder, "it is no folder"));
    }
    let files = Arc::new(Files::open(pool, &name, options)?);
    let watch = start_watch(&files).inspect_err(|_| files.remove_unused())?;
    let mut config = Config::default();
    config.mount_options =
        vec![MountOption::FSName(name), MountOption::Subtype("hanare".to_owned()), MountOption::DefaultPermissions];
    config.mount_options.push(MountOption::NoAtime);
    if options.is_read_only {
        config.mount_options.push(MountOption::RO);
    }
    if rustix::process::geteuid().is_root() {
        // The kernel checks rights, as for any file system that root mounts.
        config.acl = SessionACL::All;
    }
    config.mount_options.extend(match pool.user().uid == 0 && files.owners.is_alone() {
        true => [MountOption::Dev, MountOption::Suid],
        false => [MountOption::NoDev, MountOption::NoSuid],
    });
    config.n_threads = Some(THREADS);
    config.clone_fd = true;
    let served = Session::new(Calls::new(&files), folder, &config)
        .and_then(|session| std::thread::Builder::new().name("files".to_owned()).spawn(move || session.run()));
    match served {
        Ok(server) => {
            set_readahead(folder);
            Ok(Mounted { files, watch, server, folder: folder.to_owned() })
        }
        Err(error) => {
            files.stop();
            let _ = watch.join();
            files.remove_unused();
            Err(cannot_mount(
                folder,
                &format!("{error}; an ordinary user needs fusermount3 (package fuse3), and a folder of its own"),
            ))
        }
    }
}

/// Checks that an ordinary user's helper for unmounting is there: a mount that nobody can undo is refused.
fn check_helper(folder: &Path) -> Result<(), Error> {
    if rustix::process::geteuid().is_root() || Command::new("fusermount3").arg("-V").output().is_ok() {
        return Ok(());
    }
    let reason = "an ordinary user needs fusermount3, and PATH leads to none: apt install fuse3 (dnf install fuse3), or add its folder to PATH";
    Err(cannot_mount(folder, reason))
}

fn cannot_mount(folder: &Path, reason: &str) -> Error {
    Error::System { what: format!("mount at {}", folder.display()), reason: reason.to_owned() }
}

fn start_watch(files: &Arc<Files>) -> Result<JoinHandle<()>, Error> {
    let (say, hear) = mpsc::channel();
    let of = files.clone();
    let run = move || {
        let ready = say.clone();
        if let Err(error) = of.tick_until_stopped(|| drop(ready.send(Ok(())))) {
            let _ = say.send(Err(error));
        }
    };
    let no_thread = |error: io::Error| Error::System { what: "start a thread".to_owned(), reason: error.to_string() };
    let watch = std::thread::Builder::new().name("watch".to_owned()).spawn(run).map_err(no_thread)?;
    let gone = || Error::System { what: "start a mount".to_owned(), reason: "its watch ended".to_owned() };
    hear.recv().map_err(|_| gone())??;
    Ok(watch)
}

/// Detaches a mount whose process was killed, because nobody can use its folder.
fn clear_dead(folder: &Path) {
    // Its attributes may be cached; this asks the process.
    if rustix::fs::statfs(folder).err() == Some(Errno::NOTCONN) {
        detach(folder);
    }
}

/// Takes a mount out of the tree of folders, busy or not.
fn detach(folder: &Path) {
    if rustix::mount::unmount(folder, UnmountFlags::DETACH).is_err() {
        let quietly = Command::new("fusermount3").args(["-u", "-z", "-q"]).arg(folder).status();
        if !quietly.is_ok_and(|status| status.success()) {
            tracing::warn!("{} stays mounted: umount -l {0}", folder.display());
        }
    }
}

/// Sets a longer readahead, where this user may: streams then come in requests of full length.
fn set_readahead(folder: &Path) {
    use std::os::unix::fs::MetadataExt;
    let Ok(found) = std::fs::metadata(folder) else { return };
    let (major, minor) = (rustix::fs::major(found.dev()), rustix::fs::minor(found.dev()));
    let _ = std::fs::write(format!("/sys/class/bdi/{major}:{minor}/read_ahead_kb"), READAHEAD_KB);
}

/// Unmounts from another thread.
pub struct Unmounter {
    folder: PathBuf,
}

impl Unmounter {
    /// Unmounts; a folder that stays busy is detached, and ends when its last user does.
    pub fn unmount(&self) {
        for count in 0..BUSY_TRIES {
            let done = match rustix::mount::unmount(&self.folder, UnmountFlags::empty()) {
                Err(Errno::PERM) => {
                    Command::new("fusermount3").args(["-u", "-q"]).arg(&self.folder).status().is_ok_and(|status| status.success())
                }
                done => done.is_ok() || done == Err(Errno::INVAL),
            };
            if done {
                return;
            }
            if count == BUSY_TRIES_UNSAID
                && let Some(users) = super::users::of(&self.folder)
            {
                tracing::warn!("{} is still used by {users}; the mount ends when its last user does", self.folder.display());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        detach(&self.folder);
    }
}

impl Mounted {
    /// A handle that unmounts it.
    pub fn unmounter(&self) -> Unmounter {
        // `/proc` shows the paths of its users in this form.
        Unmounter { folder: self.folder.canonicalize().unwrap_or_else(|_| self.folder.clone()) }
    }

    /// Waits until it is unmounted, and all writes are in the log.
    ///
    /// **Errors**: the kernel connection's.
    pub fn wait(self) -> io::Result<()> {
        let served = self.server.join().unwrap_or_else(|_| Err(io::Error::other("a thread of the mount panicked")));
        self.files.stop();
        let _ = self.watch.join();
        served
    }
}
