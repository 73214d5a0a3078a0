//! `hanare mount`: files of the pool, through the kernel, on one host and two, with mounts and nodes that are killed.

use crate::pool;

use pool::{Node, Nodes, command};
use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64;
use rustix::fs::{FallocateFlags, FlockOperation, SeekFrom};
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Seek, Write};
use std::os::unix::fs::{DirEntryExt, FileExt, MetadataExt, PermissionsExt, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Why nothing can be mounted here, if so.
pub fn cannot_mount() -> Option<&'static str> {
    if OpenOptions::new().read(true).write(true).open("/dev/fuse").is_err() {
        return Some("/dev/fuse cannot be opened");
    }
    (!rustix::process::geteuid().is_root()).then_some("only root is sure that it may mount")
}

/// Ends a test that cannot run.
macro_rules! or_skip {
    () => {
        if let Some(reason) = $crate::mounted_files::cannot_mount() {
            hanare_testkit::unable(reason);
            return;
        }
    };
}

pub(crate) use or_skip;

/// A mount of a test, by a process of its own.
pub struct Mount {
    pub process: Child,
    pub folder: tempfile::TempDir,
    pub said: tempfile::NamedTempFile,
}

impl Mount {
    pub fn new(node: &Node, words: &[&str]) -> Mount {
        Mount::at(&node.socket, words)
    }

    /// A mount by way of the node of that socket.
    pub fn at(socket: &str, words: &[&str]) -> Mount {
        Mount::by(command(&[]), socket, words)
    }

    /// A mount by a build's command without words yet.
    pub fn by(command: Command, socket: &str, words: &[&str]) -> Mount {
        let (folder, said) = (tempfile::tempdir().unwrap(), tempfile::NamedTempFile::new().unwrap());
        let process = Mount::serve_by(command, (socket, folder.path(), said.path()), words);
        Mount { process, folder, said }
    }

    fn serve(socket: &str, folder: &Path, said: &Path, words: &[&str]) -> Child {
        Mount::serve_by(command(&[]), (socket, folder, said), words)
    }

    fn serve_by(mut command: Command, (socket, folder, said): (&str, &Path, &Path), words: &[&str]) -> Child {
        command.arg("mount").arg(folder).args(words).env("HANARE_NODE", socket).env("HANARE_ANSWER_MS", "3000");
        let stderr = OpenOptions::new().append(true).open(said).unwrap();
        let mut process = command.stdout(Stdio::piped()).stderr(stderr).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.starts_with("files at"), "{}", fs::read_to_string(said).unwrap());
        process
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Kills the process without warning, and mounts anew at the same folder.
    fn kill_and_mount(&mut self, node: &Node) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        self.process = Mount::serve(&node.socket, self.folder.path(), self.said.path(), &[]);
    }

    /// Unmounts in good order.
    pub fn end(mut self) {
        rustix::process::kill_process(rustix::process::Pid::from_child(&self.process), rustix::process::Signal::TERM).unwrap();
        assert!(self.process.wait().unwrap().success());
        self.check();
    }

    /// No mount has built another state than the others.
    fn check(&self) {
        let said = fs::read_to_string(self.said.path()).unwrap();
        assert!(!said.contains("makes no sense"), "{said}");
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = rustix::mount::unmount(self.folder.path(), rustix::mount::UnmountFlags::DETACH);
    }
}

// FEATURE: D2-F1
#[test]
fn a_folder_of_files_is_there_again_after_unmounting_and_after_a_kill() {
    or_skip!();
    let nodes = Nodes::start(1);
    let mut mount = Mount::new(&nodes.nodes[0], &[]);
    fs::create_dir_all(mount.path("a/b")).unwrap();
    fs::write(mount.path("a/b/c"), b"hello").unwrap();
    fs::hard_link(mount.path("a/b/c"), mount.path("other")).unwrap();
    symlink("a/b/c", mount.path("link")).unwrap();
    fs::set_permissions(mount.path("other"), fs::Permissions::from_mode(0o640)).unwrap();
    rustix::fs::setxattr(mount.path("other"), "user.note", b"x", rustix::fs::XattrFlags::empty()).unwrap();
    let long = "n".repeat(255);
    fs::write(mount.path(&long), b"long").unwrap();
    assert_eq!(fs::write(mount.path(&"n".repeat(256)), b"").unwrap_err().raw_os_error(), Some(36));
    for again in 0..2 {
        assert_eq!(fs::read(mount.path("link")).unwrap(), b"hello", "{again}");
        let stat = fs::metadata(mount.path("a/b/c")).unwrap();
        assert_eq!((stat.nlink(), stat.mode() & 0o7777, stat.len()), (2, 0o640, 5));
        let mut value = [0; 8];
        assert_eq!(rustix::fs::getxattr(mount.path("a/b/c"), "user.note", &mut value[..]).unwrap(), 1);
        assert_eq!(fs::read(mount.path(&long)).unwrap(), b"long");
        mount.kill_and_mount(&nodes.nodes[0]);
    }
    fs::remove_file(mount.path("other")).unwrap();
    assert_eq!(fs::remove_dir(mount.path("a")).unwrap_err().raw_os_error(), Some(39));
    mount.end();
    let ended = nodes.hanare(&["mount", "/tmp", "--name", "a/b", "--", "true"]);
    assert!(!ended.status.success(), "a name that no region can have is refused");
}

#[test]
fn a_long_folder_is_listed_with_what_stat_shows() {
    or_skip!();
    let nodes = Nodes::start(1);
    let mount = Mount::new(&nodes.nodes[0], &[]);
    fs::create_dir(mount.path("long")).unwrap();
    let path = |name: &str| mount.path(&format!("long/{name}"));
    for number in 0..300usize {
        fs::write(path(&format!("file{number}")), vec![1; number]).unwrap();
    }
    fs::create_dir(path("folder")).unwrap();
    symlink("file7", path("link")).unwrap();
    fs::set_permissions(path("file9"), fs::Permissions::from_mode(0o640)).unwrap();
    for round in 0..2 {
        let mut listed = std::collections::BTreeMap::new();
        for entry in fs::read_dir(mount.path("long")).unwrap() {
            let entry = entry.unwrap();
            // What is removed while the folder is read is listed or not; nothing else is missing, or there twice.
            if listed.len() == 20 && round == 0 {
                fs::remove_file(path("file299")).unwrap();
            }
            let Ok(about) = entry.metadata() else { continue };
            assert_eq!((entry.file_type().unwrap(), entry.ino()), (about.file_type(), about.ino()), "{entry:?}");
            assert!(listed.insert(entry.file_name().into_string().unwrap(), about).is_none(), "{entry:?}");
        }
        listed.remove("file299");
        assert_eq!(listed.len(), 301);
        for number in 0..299u64 {
            let about = &listed[&format!("file{number}")];
            assert!(about.is_file() && about.len() == number, "{number}: {about:?}");
            assert!(number != 9 || about.mode() & 0o777 == 0o640, "{about:?}");
        }
        assert!(listed["folder"].is_dir() && listed["link"].is_symlink());
    }
    mount.end();
}

#[test]
fn a_rename_over_a_file_and_a_file_without_a_name() {
    or_skip!();
    let nodes = Nodes::start(1);
    let mount = Mount::new(&nodes.nodes[0], &[]);
    fs::write(mount.path("old"), vec![1; 300_000]).unwrap();
    let mut open = OpenOptions::new().read(true).write(true).open(mount.path("old")).unwrap();
    fs::write(mount.path("new"), b"new").unwrap();
    fs::rename(mount.path("new"), mount.path("old")).unwrap();
    assert_eq!(fs::read(mount.path("old")).unwrap(), b"new");
    // The file of before is there as long as somebody has it open, and takes more.
    std::thread::sleep(Duration::from_millis(1500));
    let mut bytes = Vec::new();
    open.read_to_end(&mut bytes).unwrap();
    assert!(bytes.len() == 300_000 && bytes.iter().all(|byte| *byte == 1));
    open.write_all(&[2; 5000]).unwrap();
    assert_eq!((open.metadata().unwrap().len(), open.metadata().unwrap().nlink()), (305_000, 0));
    drop(open);
    fs::create_dir(mount.path("folder")).unwrap();
    assert_eq!(fs::rename(mount.path("old"), mount.path("folder")).unwrap_err().raw_os_error(), Some(21));
    fs::rename(mount.path("folder"), mount.path("moved")).unwrap();
    assert!(mount.path("moved").is_dir() && !mount.path("folder").exists());
}

/// One step of a random run, on the mount and on an ordinary file alike.
fn step(random: &mut Pcg64, number: u32, files: &[File; 2]) -> String {
    const LEN: u64 = 300_000;
    let (at, len) = (random.random_range(0..LEN), random.random_range(1..40_000u64));
    let bytes: Vec<u8> = (0..len).map(|k| (number as u64 * 31 + k * 7) as u8).collect();
    match random.random_range(0..9) {
        0..3 => {
            files.iter().for_each(|file| file.write_all_at(&bytes, at).unwrap());
            format!("write {len} at {at}")
        }
        3 => {
            files.iter().for_each(|file| file.set_len(at).unwrap());
            format!("truncate to {at}")
        }
        4 => {
            let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            files.iter().for_each(|file| rustix::fs::fallocate(file, punch, at, len).unwrap());
            format!("punch {len} at {at}")
        }
        5 => {
            files.iter().for_each(|file| rustix::fs::fallocate(file, FallocateFlags::empty(), at, len).unwrap());
            format!("allocate {len} at {at}")
        }
        6 => {
            files.iter().for_each(|file| file.sync_all().unwrap());
            "sync".to_owned()
        }
        _ => {
            let read = |file: &File| {
                let mut bytes = vec![0; len as usize];
                let mut done = 0;
                while let Ok(got @ 1..) = file.read_at(&mut bytes[done..], at + done as u64) {
                    done += got;
                }
                bytes.truncate(done);
                bytes
            };
            assert!(read(&files[0]) == read(&files[1]), "bytes differ: {len} at {at}");
            format!("read {len} at {at}")
        }
    }
}

#[test]
fn random_steps_leave_what_an_ordinary_file_has() {
    or_skip!();
    let seed = std::env::var("HANARE_TEST_SEED").map_or_else(|_| rand::random(), |text| text.parse().unwrap());
    let nodes = Nodes::start(2);
    // The second round's bytes are on the other node.
    for (words, place) in [(vec![], "node=0"), (vec!["-o", "coherent"], "node=1")] {
        let mount = Mount::new(&nodes.nodes[0], &words);
        let own = tempfile::NamedTempFile::new().unwrap();
        fs::write(mount.path("file"), b"").unwrap();
        rustix::fs::setxattr(mount.path("file"), "user.hanare.place", place.as_bytes(), rustix::fs::XattrFlags::empty()).unwrap();
        let mut random = Pcg64::seed_from_u64(seed);
        let mut steps = Vec::new();
        for round in 0..10 {
            let both = |path: &Path| OpenOptions::new().read(true).write(true).open(path).unwrap();
            let files = [both(&mount.path("file")), both(own.path())];
            for number in 0..30 {
                let what =
                    std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| step(&mut random, round * 30 + number, &files)));
                let said = what.unwrap_or_else(|_| panic!("HANARE_TEST_SEED={seed} after {steps:?}"));
                steps.push(said);
            }
            drop(files);
            let same = fs::read(mount.path("file")).unwrap() == fs::read(own.path()).unwrap();
            assert!(same, "HANARE_TEST_SEED={seed} {place}: {steps:?}");
        }
        let mut value = [0; 4096];
        let len = rustix::fs::getxattr(mount.path("file"), "user.hanare.regions", &mut value[..]).unwrap();
        assert!(len == 0 || std::str::from_utf8(&value[..len]).unwrap().contains(place));
        mount.end();
    }
}

// FEATURE: D2-F3
#[test]
fn two_hosts_see_each_others_closed_files_and_locks() {
    or_skip!();
    let nodes = Nodes::start(2);
    let (one, other) = (Mount::new(&nodes.nodes[0], &[]), Mount::new(&nodes.nodes[1], &[]));
    fs::write(one.path("a"), vec![1; 100_000]).unwrap();
    assert_eq!(fs::read(other.path("a")).unwrap(), vec![1; 100_000]);
    // Read before, written there, opened anew: it is what was written.
    fs::write(other.path("a"), vec![2; 70_000]).unwrap();
    assert_eq!(fs::read(one.path("a")).unwrap(), vec![2; 70_000]);
    fs::rename(one.path("a"), one.path("b")).unwrap();
    assert!(!other.path("a").exists() && other.path("b").exists());
    // Both write parts of one hole before either tells: each byte is its writer's.
    let open = |mount: &Mount| OpenOptions::new().create(true).truncate(false).write(true).open(mount.path("shared")).unwrap();
    let (first, second) = (open(&one), open(&other));
    first.write_all_at(&[7; 100], 0).unwrap();
    second.write_all_at(&[8; 100], 100).unwrap();
    first.sync_all().unwrap();
    second.sync_all().unwrap();
    assert_eq!(fs::read(one.path("shared")).unwrap(), [[7; 100], [8; 100]].concat());
    // A lock keeps the other host out, until it is given back.
    let try_lock = |file: &File| rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive);
    try_lock(&first).unwrap();
    assert_eq!(try_lock(&second), Err(rustix::io::Errno::AGAIN));
    drop(first);
    rustix::fs::flock(&second, FlockOperation::LockExclusive).unwrap();
    // A file that one host has open stays for it when another removes it.
    let open = File::open(one.path("b")).unwrap();
    fs::remove_file(other.path("b")).unwrap();
    std::thread::sleep(Duration::from_secs(3));
    let mut bytes = Vec::new();
    (&open).read_to_end(&mut bytes).unwrap();
    assert_eq!(bytes, vec![2; 70_000]);
}

#[test]
fn many_threads_on_two_hosts_build_one_state() {
    or_skip!();
    let nodes = Nodes::start(2);
    let mounts = [Mount::new(&nodes.nodes[0], &[]), Mount::new(&nodes.nodes[1], &[])];
    std::thread::scope(|scope| {
        for (host, mount) in mounts.iter().enumerate() {
            for thread in 0..3 {
                scope.spawn(move || {
                    for number in 0..40 {
                        let name = format!("{host}-{thread}-{number}");
                        fs::write(mount.path(&name), vec![host as u8; 10_000]).unwrap();
                        fs::metadata(mount.path(&name)).unwrap();
                        fs::rename(mount.path(&name), mount.path(&format!("moved-{name}"))).unwrap();
                        if number % 2 == 0 {
                            fs::remove_file(mount.path(&format!("moved-{name}"))).unwrap();
                        }
                    }
                });
            }
        }
    });
    for mount in &mounts {
        let all: Vec<_> = fs::read_dir(mount.folder.path()).unwrap().map(|entry| entry.unwrap()).collect();
        assert_eq!(all.len(), 2 * 3 * 20);
        for entry in all {
            let host = u8::from(entry.file_name().to_str().unwrap().starts_with("moved-1"));
            assert_eq!(fs::read(entry.path()).unwrap(), vec![host; 10_000]);
        }
    }
    std::thread::sleep(Duration::from_secs(2));
    mounts.into_iter().for_each(Mount::end);
}

#[test]
fn what_fsync_returned_for_survives_the_kill_of_the_mount() {
    or_skip!();
    let nodes = Nodes::start(1);
    let mut mount = Mount::new(&nodes.nodes[0], &[]);
    for round in 0..3u8 {
        let name = format!("file{round}");
        let mut file = File::create(mount.path(&name)).unwrap();
        file.write_all(&vec![round + 1; 150_000]).unwrap();
        file.sync_all().unwrap();
        file.write_all(b"not synced").unwrap();
        mount.kill_and_mount(&nodes.nodes[0]);
        drop(file);
        let bytes = fs::read(mount.path(&name)).unwrap();
        assert!(bytes[..150_000].iter().all(|byte| *byte == round + 1));
        assert!([150_000, 150_010].contains(&bytes.len()), "{}", bytes.len());
    }
}

#[test]
fn a_full_pool_says_so_at_the_write_and_has_room_after_a_removal() {
    or_skip!();
    let nodes = Nodes::start(1);
    let mount = Mount::new(&nodes.nodes[0], &[]);
    let mut file = File::create(mount.path("big")).unwrap();
    let piece = vec![5u8; 1 << 20];
    let error = (0..200).find_map(|_| file.write_all(&piece).err()).expect("64 MiB do not take 200");
    assert_eq!(error.raw_os_error(), Some(28));
    let len = file.metadata().unwrap().len();
    assert!(len > 48 << 20, "{len} bytes of 64 MiB were taken");
    drop(file);
    fs::remove_file(mount.path("big")).unwrap();
    // The write waits until nobody can use the blocks of the removed file any more.
    fs::write(mount.path("next"), vec![6u8; 20 << 20]).unwrap();
    assert!(fs::read(mount.path("next")).unwrap().iter().all(|byte| *byte == 6));
}

// FEATURE: D2-F2
#[test]
fn a_killed_node_takes_its_files_bytes_and_nothing_waits() {
    or_skip!();
    let mut nodes = Nodes::start(2);
    let mount = Mount::new(&nodes.nodes[0], &[]);
    for (name, place) in [("here", "node=0"), ("there", "node=1")] {
        fs::write(mount.path(name), b"").unwrap();
        rustix::fs::setxattr(mount.path(name), "user.hanare.place", place.as_bytes(), rustix::fs::XattrFlags::empty()).unwrap();
        fs::write(mount.path(name), vec![9; 200_000]).unwrap();
    }
    drop(nodes.nodes.pop());
    let begun = Instant::now();
    let file = File::open(mount.path("there")).unwrap();
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed).unwrap();
    let mut bytes = vec![0; 4096];
    assert_eq!(file.read_at(&mut bytes, 0).unwrap_err().raw_os_error(), Some(5));
    assert_eq!(fs::read(mount.path("here")).unwrap(), vec![9; 200_000]);
    assert_eq!(fs::read_dir(mount.folder.path()).unwrap().count(), 2);
    assert!(begun.elapsed() < pool::paced(Duration::from_secs(15)), "{:?}", begun.elapsed());
    drop(file);
    mount.end();
}

#[test]
fn regions_are_files_and_a_command_runs_in_a_mount() {
    or_skip!();
    let nodes = Nodes::start(1);
    assert!(nodes.hanare(&["region", "create", "plain", "1M"]).status.success());
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().to_str().unwrap();
    let script = format!(
        "cd {at} && test $(stat -c %s plain) = 1048576 && printf abc | dd of=plain conv=notrunc bs=3 seek=1 status=none && \
         truncate -s 2M plain && ! mv -T plain /dev/null/x 2>/dev/null && test $(stat -c %s plain) = 2097152 && \
         test \"$(dd if=plain bs=3 skip=1 count=1 status=none)\" = abc && ls && exit 7"
    );
    let ended = nodes.hanare(&["mount", at, "--", "sh", "-c", &script]);
    let listed = String::from_utf8_lossy(&ended.stdout);
    assert_eq!((ended.status.code(), listed.trim()), (Some(7), "plain"), "{}", ended.stderr);
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0, "it is unmounted");
    let ended = nodes.hanare(&["mount", at, "--", "rm", &format!("{at}/plain")]);
    assert!(ended.status.success(), "{}", ended.stderr);
    assert!(!nodes.hanare(&["region", "stat", "plain"]).status.success());
}

#[test]
fn holes_are_found_and_mapped_files_are_written_back() {
    or_skip!();
    let nodes = Nodes::start(1);
    let mount = Mount::new(&nodes.nodes[0], &[]);
    let mut file = OpenOptions::new().create(true).truncate(true).read(true).write(true).open(mount.path("sparse")).unwrap();
    file.write_all_at(&[1; 4096], 1 << 20).unwrap();
    file.set_len(2 << 20).unwrap();
    assert_eq!(rustix::fs::seek(&file, SeekFrom::Data(0)).unwrap(), 1 << 20);
    assert_eq!(rustix::fs::seek(&file, SeekFrom::Hole(1 << 20)).unwrap(), (1 << 20) + 4096);
    assert_eq!(file.metadata().unwrap().blocks(), 8);
    file.rewind().unwrap();
    let script = "import mmap,sys\nf=open(sys.argv[1],'r+b')\nm=mmap.mmap(f.fileno(),0)\nm[5000:5004]=b'mmap'\nm.flush()\n";
    match std::process::Command::new("python3").args(["-c", script]).arg(mount.path("sparse")).status() {
        Ok(status) => assert!(status.success()),
        Err(error) => return hanare_testkit::uninstalled(format!("python3: {error}")),
    }
    let mut bytes = [0; 4];
    file.read_exact_at(&mut bytes, 5000).unwrap();
    assert_eq!(&bytes, b"mmap");
}

/// The kernel leaves to the mount what a file loses when it is written, and asks for no attribute before each write.
#[test]
fn a_written_file_gives_nobody_its_owners_rights() {
    or_skip!();
    let nodes = Nodes::start(1);
    let mount = Mount::new(&nodes.nodes[0], &[]);
    let file = mount.path("program");
    let set = |mode: u32| {
        fs::write(&file, b"first").unwrap();
        std::os::unix::fs::chown(&file, Some(0), Some(0)).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
    };
    let mode = || fs::metadata(&file).unwrap().mode() & 0o7777;
    fs::set_permissions(mount.folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let by_other = |line: &str| {
        let mut shell = std::process::Command::new("sh");
        shell.uid(65534).gid(65534).arg("-c").arg(line).env("file", &file).status().unwrap().success()
    };
    for line in [
        "echo more >>$file",
        "printf x | dd of=$file conv=notrunc 2>/dev/null",
        ": >$file",
        "truncate -s 3 $file",
        "fallocate -l 9000 $file",
    ] {
        set(0o6777);
        assert!(by_other(line), "{line}");
        assert_eq!(mode(), 0o777, "{line}");
    }
    // Without the group's execution the second bit is another's.
    set(0o2766);
    assert!(by_other("echo more >>$file"));
    assert_eq!(mode() & 0o4777, 0o766);
    set(0o6777);
    fs::write(&file, b"root").unwrap();
    assert_eq!(mode(), 0o6777, "root may write it as it is");
    std::os::unix::fs::chown(&file, Some(65534), None).unwrap();
    assert_eq!(mode(), 0o777, "a new owner");
    // Version 2 of the kernel's capabilities: to use any port.
    let capability = [&0x0200_0001u32.to_le_bytes()[..], &(1u32 << 10).to_le_bytes(), &[0; 12]].concat();
    rustix::fs::setxattr(&file, "security.capability", &capability, rustix::fs::XattrFlags::empty()).unwrap();
    OpenOptions::new().append(true).open(&file).unwrap().write_all(b"more").unwrap();
    let mut value = [0; 64];
    assert!(rustix::fs::getxattr(&file, "security.capability", &mut value).is_err(), "a written file has no capabilities");
    mount.end();
}
