//! Memory that a process may take later, told to other nodes' processes on this host before it is taken.
//!
//! A node takes its memory as regions are made. So free memory of the machine or a control group may be memory that other nodes will take.
//! Each node keeps a file with its number of bytes and its control groups, locked as long as the process lives. A node that starts adds up
//! the others' files, compares and writes its own, all behind one lock. Of two that start together the second sees the first.
//!
//! Any writer there can fake reservations, and so keep others' nodes from starting at no cost of its own. So files are trusted only with
//! consent. Either the folder and the files are the user's own. Or root made the folder for a group of users: then these trust each
//! other.

use crate::capacity::{self, Group};
use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};
use std::fs::{DirBuilder, File, Metadata};
use std::io::Read;
use std::os::unix::fs::{DirBuilderExt, FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Time to wait for others between their look and their promise. A process that was stopped there delays nobody longer.
const ORDER_MAX: Duration = Duration::from_secs(2);

/// Most files that are looked at: the machine has fewer nodes.
const FILE_COUNT_MAX: usize = 4096;

/// Longest file that is read: a number, and some control groups.
const FILE_LEN_MAX: u64 = 4096;

/// A group of users may read what its members promise.
const FILE_MODE: Mode = Mode::from_raw_mode(0o640);

/// A difference that is not worth a system call.
const STEP: u64 = 1 << 20;

/// Memory that is promised and not taken yet, while it lives.
#[derive(Debug)]
pub struct Promise {
    file: File,
    path: PathBuf,
    bytes: u64,
    said: AtomicU64,
}

/// Why there is no promise.
#[derive(Debug, PartialEq, Eq)]
pub enum NoPromise {
    /// Too few bytes are neither used nor promised: this number.
    Full(u64),
    /// The folder cannot be used, so nobody can be told.
    Nowhere,
}

impl Promise {
    /// Promises to take at most `bytes` bytes, if these are neither used nor promised. Waits up to [`ORDER_MAX`] for others that do the
    /// same.
    pub fn make(folder: &Path, bytes: u64) -> Result<Promise, NoPromise> {
        Promise::make_beside(folder, bytes, &capacity::left())
    }

    fn make_beside(folder: &Path, bytes: u64, left: &[(Group, u64)]) -> Result<Promise, NoPromise> {
        let believed = believed(folder).ok_or(NoPromise::Nowhere)?;
        let _order = in_order(folder).ok_or(NoPromise::Nowhere)?;
        let others = others(folder, believed);
        let free = left.iter().map(|(group, left)| {
            let promised = others.iter().filter(|(_, groups)| groups.contains(group)).map(|(bytes, _)| *bytes);
            promised.fold(*left, u64::saturating_sub)
        });
        match free.min() {
            Some(free) if free < bytes => return Err(NoPromise::Full(free)),
            _ => {}
        }
        let groups: Vec<String> = left.iter().map(|(group, _)| group.to_string()).collect();
        let (file, path) = fresh(folder).ok_or(NoPromise::Nowhere)?;
        let promise = Promise { file, path, bytes, said: AtomicU64::new(u64::MAX) };
        let text = format!("{}{}\n", line(bytes), groups.join("\n"));
        promise.file.write_all_at(text.as_bytes(), 0).map_err(|_| NoPromise::Nowhere)?;
        Ok(promise)
    }

    /// Reports that `taken` of the bytes have been taken: the system counts them now. **Cost**: a system call where that has changed by a
    /// MiB.
    pub fn on_taken(&self, taken: u64) {
        if self.said.load(Ordering::Relaxed).abs_diff(taken) >= STEP {
            self.said.store(taken, Ordering::Relaxed);
            // An unwritten change counts twice, which errs on the safe side.
            let _ = self.file.write_all_at(line(self.bytes.saturating_sub(taken)).as_bytes(), 0);
        }
    }
}

impl Drop for Promise {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// A line of the same length for any number, so that it is written over in place.
fn line(bytes: u64) -> String {
    format!("{bytes:020}\n")
}

/// Owners of trusted files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Believed {
    /// The user itself.
    Own(u32),
    /// A group that root made the folder for: all who may write there.
    Group(u32),
}

impl Believed {
    fn is_of(self, about: &Metadata) -> bool {
        match self {
            Believed::Own(uid) => about.uid() == uid,
            Believed::Group(gid) => about.gid() == gid,
        }
    }
}

/// Makes the folder and its parent where they are missing. `None` unless only this user may change both, or root made both and a group
/// may write to the folder. In the second case new files belong to the folder's group.
fn believed(folder: &Path) -> Option<Believed> {
    const SET_GROUP: u32 = 0o2000;
    let uid = rustix::process::geteuid().as_raw();
    let about = |folder: &Path| {
        let _ = DirBuilder::new().mode(0o700).create(folder);
        std::fs::symlink_metadata(folder).ok().filter(Metadata::is_dir)
    };
    let is_alone = |about: &Metadata, uid| about.uid() == uid && about.mode() & 0o022 == 0;
    let above = about(folder.parent()?).filter(|above| is_alone(above, uid) || is_alone(above, 0))?;
    let about = about(folder)?;
    if is_alone(&above, uid) && is_alone(&about, uid) {
        return Some(Believed::Own(uid));
    }
    let is_for_group = about.uid() == 0 && about.mode() & (SET_GROUP | 0o022) == SET_GROUP | 0o020;
    (is_alone(&above, 0) && is_for_group).then_some(Believed::Group(about.gid()))
}

/// The lock behind which promises are made, held until the file is dropped.
fn in_order(folder: &Path) -> Option<File> {
    let flags = OFlags::CREATE | OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = File::from(open(folder.join("order"), flags, FILE_MODE).ok()?);
    let until = Instant::now() + ORDER_MAX;
    while flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        if Instant::now() >= until {
            return None;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Some(file)
}

/// The promises of others that live, and their groups. Files of processes that have died are removed.
fn others(folder: &Path, believed: Believed) -> Vec<(u64, Vec<Group>)> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten().take(FILE_COUNT_MAX);
    let promises = entries.filter(|entry| entry.path().extension().is_some_and(|extension| extension == "promise"));
    let read = |path: PathBuf| {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = File::from(open(&path, flags, Mode::empty()).ok()?);
        let about = file.metadata().ok()?;
        if !about.is_file() || !believed.is_of(&about) {
            return None;
        }
        if flock(&file, FlockOperation::NonBlockingLockShared).is_ok() {
            let _ = std::fs::remove_file(&path);
            return None;
        }
        let mut bytes = Vec::new();
        file.take(FILE_LEN_MAX).read_to_end(&mut bytes).ok()?;
        parse(&bytes)
    };
    promises.filter_map(|entry| read(entry.path())).collect()
}

/// Reads a file: the bytes that are promised, and the control groups of the process that promises them.
fn parse(bytes: &[u8]) -> Option<(u64, Vec<Group>)> {
    let mut lines = std::str::from_utf8(bytes).ok()?.lines();
    Some((lines.next()?.parse().ok()?, lines.filter_map(|line| line.parse().ok()).collect()))
}

/// Fuzz target: a file of another node's promise. What is read is what it says when it is written again.
#[cfg(any(test, fuzzing))]
pub(crate) fn fuzz(bytes: &[u8]) {
    let Some((promised, groups)) = parse(bytes) else { return };
    assert!(groups.len() <= bytes.len());
    let names: Vec<String> = groups.iter().map(Group::to_string).collect();
    let text = format!("{}{}\n", line(promised), names.join("\n"));
    assert_eq!(parse(text.as_bytes()), Some((promised, groups)));
}

/// A locked file of a name that nobody has.
fn fresh(folder: &Path) -> Option<(File, PathBuf)> {
    for number in 0..FILE_COUNT_MAX {
        let path = folder.join(format!("{}-{number}.promise", std::process::id()));
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        match open(&path, flags, FILE_MODE) {
            Ok(file) => {
                let file = File::from(file);
                flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
                return Some((file, path));
            }
            Err(rustix::io::Errno::EXIST) => {}
            Err(_) => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const MACHINE: Group = Group::MACHINE;
    const INNER: Group = Group { device: 7, inode: 8 };

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("hanare-promise-{}-{name}", std::process::id()));
            DirBuilder::new().mode(0o700).create(&path).unwrap();
            Folder(path.join("memory"))
        }

        fn make(&self, bytes: u64, left: &[(Group, u64)]) -> Result<Promise, NoPromise> {
            Promise::make_beside(&self.0, bytes, left)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            std::fs::remove_dir_all(self.0.parent().unwrap()).unwrap();
        }
    }

    #[test]
    fn what_others_have_promised_and_not_taken_is_not_free() {
        let folder = Folder::new("sum");
        let left = [(MACHINE, 100 << 20), (INNER, 40 << 20)];
        let first = folder.make(30 << 20, &left).unwrap();
        assert_eq!(folder.make(30 << 20, &left).unwrap_err(), NoPromise::Full(10 << 20));
        first.on_taken(20 << 20);
        let after = [(MACHINE, 80 << 20), (INNER, 20 << 20)];
        assert_eq!(folder.make(30 << 20, &after).unwrap_err(), NoPromise::Full(10 << 20));
        // Beside the group there is more.
        let outside = folder.make(60 << 20, &[(MACHINE, 80 << 20)]).unwrap();
        assert_eq!(folder.make(11 << 20, &after).unwrap_err(), NoPromise::Full(10 << 20), "both levels count");
        drop((first, outside));
        folder.make(40 << 20, &left).unwrap();
    }

    #[test]
    fn of_many_that_come_together_only_as_many_get_in_as_have_room() {
        let folder = Folder::new("race");
        let made = std::thread::scope(|scope| {
            let all: Vec<_> = (0..8).map(|_| scope.spawn(|| folder.make(30, &[(INNER, 100)]).ok())).collect();
            all.into_iter().filter_map(|one| one.join().unwrap()).collect::<Vec<_>>()
        });
        assert_eq!(made.len(), 3);
    }

    #[test]
    fn files_of_the_dead_and_of_nonsense_are_not_counted() {
        let folder = Folder::new("dead");
        let promise = folder.make(30, &[(INNER, 100)]).unwrap();
        std::fs::write(folder.0.join("1-1.promise"), format!("{}{INNER}\n", line(90))).unwrap();
        std::fs::write(folder.0.join("1-2.promise"), [0xff; 9]).unwrap();
        std::os::unix::fs::symlink("/dev/zero", folder.0.join("1-3.promise")).unwrap();
        std::fs::create_dir(folder.0.join("1-4.promise")).unwrap();
        folder.make(70, &[(INNER, 100)]).unwrap();
        assert!(!folder.0.join("1-1.promise").exists(), "nobody holds its lock");
        drop(promise);
    }

    #[test]
    fn what_is_in_files_of_others() {
        let seeds = [format!("{}{MACHINE}\n{INNER}\n", line(90)).into_bytes(), b"7\n\n1 2\n7:8".to_vec()];
        hanare_fuzz::drive("promises", &seeds, 1 << 20, fuzz);
    }

    #[test]
    fn a_folder_that_others_may_change_is_not_used() {
        use std::os::unix::fs::PermissionsExt;
        let folder = Folder::new("open");
        let above = folder.0.parent().unwrap();
        std::fs::set_permissions(above, std::fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(folder.make(1, &[(INNER, 100)]).unwrap_err(), NoPromise::Nowhere);
        std::fs::set_permissions(above, std::fs::Permissions::from_mode(0o700)).unwrap();
        std::os::unix::fs::symlink("/tmp", &folder.0).unwrap();
        assert_eq!(folder.make(1, &[(INNER, 100)]).unwrap_err(), NoPromise::Nowhere);
        std::fs::remove_file(&folder.0).unwrap();
    }

    /// Runs `what` in a thread that is another user's.
    fn as_user<T: Send>((uid, gid): (u32, u32), what: impl FnOnce() -> T + Send) -> T {
        let run = move || {
            let (uid, gid) = (rustix::process::Uid::from_raw(uid), rustix::process::Gid::from_raw(gid));
            rustix::thread::set_thread_groups(&[]).unwrap();
            rustix::thread::set_thread_res_gid(gid, gid, gid).unwrap();
            rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
            what()
        };
        std::thread::scope(|scope| scope.spawn(run).join().unwrap())
    }

    #[test]
    fn users_of_a_group_that_root_made_a_folder_for_take_their_memory_in_order() {
        use std::os::unix::fs::{PermissionsExt, chown};
        if !rustix::process::geteuid().is_root() {
            return hanare_testkit::unable("only root makes such a folder");
        }
        const GROUP: u32 = 54_321;
        let (folder, left) = (Folder::new("group"), [(INNER, 100)]);
        let above = folder.0.parent().unwrap();
        std::fs::set_permissions(above, std::fs::Permissions::from_mode(0o755)).unwrap();
        std::fs::create_dir(&folder.0).unwrap();
        chown(&folder.0, None, Some(GROUP)).unwrap();
        let with_mode = |mode| std::fs::set_permissions(&folder.0, std::fs::Permissions::from_mode(mode)).unwrap();
        with_mode(0o2770);
        let first = as_user((54_001, GROUP), || folder.make(60, &left)).unwrap();
        assert_eq!(as_user((54_002, GROUP), || folder.make(60, &left)).unwrap_err(), NoPromise::Full(40));
        let second = as_user((54_002, GROUP), || folder.make(40, &left)).unwrap();
        assert_eq!(as_user((54_003, GROUP), || folder.make(1, &left)).unwrap_err(), NoPromise::Full(0));
        assert_eq!(as_user((54_004, GROUP + 1), || folder.make(1, &left)).unwrap_err(), NoPromise::Nowhere, "of another group");
        for mode in [0o2777, 0o770, 0o2750] {
            with_mode(mode);
            let told = as_user((54_001, GROUP), || folder.make(1, &left));
            assert_eq!(told.unwrap_err(), NoPromise::Nowhere, "{mode:o}");
        }
        with_mode(0o2770);
        std::fs::set_permissions(above, std::fs::Permissions::from_mode(0o777)).unwrap();
        assert_eq!(as_user((54_001, GROUP), || folder.make(1, &left)).unwrap_err(), NoPromise::Nowhere);
        drop((first, second));
    }
}
