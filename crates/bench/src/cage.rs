//! A program in a memory control group, with the kernel's swap: what it has where there is no pool. Needs root.

use anyhow::{Context, Result, anyhow, bail, ensure};
use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;
use tempfile::TempDir;

/// Destination of pages that do not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Swap {
    /// A file on a disk.
    File,
    /// Memory, compressed.
    Zram,
}

/// The kernel's counts for a cage's programs so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Touches of pages that had to be brought.
    pub faults: u64,
    /// Bytes that came from swap, of the whole machine.
    pub read: u64,
    /// Bytes that went there.
    pub written: u64,
}

/// A control group and its swap; both go with it. There is one at a time, because groups share swap. The kernel puts pages of one group
/// into the swap of another. It refuses to end that swap while the pages' own group has no room for them.
#[derive(Debug)]
pub struct Cage {
    /// Locked as long as it is there.
    _only: File,
    group: PathBuf,
    /// The swap file.
    swap: Option<PathBuf>,
    /// The folder of its file; it goes with it.
    folder: Option<TempDir>,
    /// Number of the compressed device that was made for it.
    zram: Option<u32>,
    /// The kernel's counts when it was made.
    before: Counts,
}

/// Folder of the kernel's groups that bound memory, and the file with the bound.
fn groups() -> (&'static Path, &'static str) {
    match Path::new("/sys/fs/cgroup/memory").is_dir() {
        true => (Path::new("/sys/fs/cgroup/memory"), "memory.limit_in_bytes"),
        false => (Path::new("/sys/fs/cgroup"), "memory.max"),
    }
}

/// Folder of swap files: on a disk, as a rule.
const SWAP_FOLDER: &str = "/var/tmp";

/// First part of names of groups and swap files; the maker's process and a number follow.
const BEGINNING: &str = "hanare-cage-";

/// Lock of the present cage. Only root can open it, or put something in its place.
const ONLY: &str = "/run/hanare-cage.lock";

/// Eighths of the limit that a program gets beyond it, one after the other, where the kernel kills it.
const BEYOND: [u64; 5] = [0, 1, 2, 4, 8];

/// Runs programs in a cage of `limit` bytes, or of the least beyond it that lets them live. Returns that, too.
///
/// **Errors**: those of the run; the kernel killed them with twice the limit, too.
pub fn with_room<T>(limit: u64, swap: Swap, swap_len: u64, mut run: impl FnMut(&Cage) -> Result<T>) -> Result<(T, u64)> {
    for eighths in BEYOND {
        let here = limit + limit / 8 * eighths;
        let cage = Cage::new(here, swap, swap_len)?;
        let outcome = run(&cage);
        if !cage.has_killed() {
            return Ok((outcome?, here));
        }
    }
    bail!("the kernel made no room in time and killed it, with twice as much memory, too")
}

/// Tries to end swap or a group, and the pause between them. Pages of others may lie in our swap, and a process that has ended may count in
/// its group for a moment.
const TRIES: (u32, Duration) = (50, Duration::from_millis(20));

impl Cage {
    /// A cage whose programs keep at most `limit` bytes here, and `swap_len` bytes in swap.
    ///
    /// **Errors**: what the kernel refuses, for other users than root everything; another one is there.
    pub fn new(limit: u64, swap: Swap, swap_len: u64) -> Result<Cage> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        ensure!(rustix::process::geteuid().is_root(), "a control group and swap need root");
        let only = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(ONLY);
        let only = only.with_context(|| format!("cannot open {ONLY}"))?;
        only.try_lock().map_err(|_| anyhow!("another program is measured with swap; try again when it has ended"))?;
        sweep();
        let name = format!("{BEGINNING}{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let (root, file) = groups();
        let group = root.join(&name);
        fs::create_dir(&group).with_context(|| format!("cannot make {}", group.display()))?;
        let mut cage = Cage { _only: only, group, swap: None, folder: None, zram: None, before: swapped()? };
        fs::write(cage.group.join(file), limit.to_string()).context("this kernel bounds no group's memory")?;
        let place = match swap {
            Swap::File => {
                // A folder for this user alone: whoever can write beside it cannot put another file in its place.
                let folder = tempfile::Builder::new().prefix(&format!("{name}-")).tempdir_in(SWAP_FOLDER)?;
                let place = folder.path().join("swap");
                cage.folder = Some(folder);
                run("fallocate", &[OsStr::new("-l"), OsStr::new(&swap_len.to_string()), place.as_os_str()])?;
                run("chmod", &[OsStr::new("600"), place.as_os_str()])?;
                place
            }
            Swap::Zram => {
                let number = fs::read_to_string("/sys/class/zram-control/hot_add").context("this kernel has no zram")?;
                let number: u32 = number.trim().parse()?;
                cage.zram = Some(number);
                fs::write(format!("/sys/block/zram{number}/disksize"), swap_len.to_string())?;
                PathBuf::from(format!("/dev/zram{number}"))
            }
        };
        run("mkswap", &[place.as_os_str()])?;
        run("swapon", &[OsStr::new("-p"), OsStr::new("100"), place.as_os_str()])?;
        cage.swap = Some(place);
        Ok(cage)
    }

    /// The kernel's counts so far.
    pub fn counts(&self) -> Result<Counts> {
        let stat = fs::read_to_string(self.group.join("memory.stat"))?;
        let now = swapped()?;
        Ok(Counts {
            faults: figure(&stat, "pgmajfault")?,
            read: now.read - self.before.read,
            written: now.written - self.before.written,
        })
    }

    /// True if the kernel killed a program because it could not make room in time.
    pub fn has_killed(&self) -> bool {
        let files =
            ["memory.oom_control", "memory.events"].map(|file| fs::read_to_string(self.group.join(file)).unwrap_or_default());
        files.iter().any(|text| figure(text, "oom_kill").is_ok_and(|count| count > 0))
    }

    /// A command in it.
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", "echo $$ > \"$0\" && exec \"$@\""]).arg(self.group.join("cgroup.procs")).arg(program);
        command
    }
}

/// The number behind a name, in a file of such lines.
fn figure(text: &str, name: &str) -> Result<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    Ok(line.with_context(|| format!("this kernel does not count {name}"))?.trim().parse()?)
}

/// Bytes that the machine swapped since it began.
fn swapped() -> Result<Counts> {
    let text = fs::read_to_string("/proc/vmstat")?;
    let bytes = |name: &str| Ok::<u64, anyhow::Error>(figure(&text, name)? * 4096);
    Ok(Counts { faults: 0, read: bytes("pswpin")?, written: bytes("pswpout")? })
}

/// Removes what makers left that were killed.
fn sweep() {
    for folder in [groups().0, Path::new(SWAP_FOLDER)] {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let (name, path) = (entry.file_name(), entry.path());
            let maker = name.to_str().and_then(|name| name.strip_prefix(BEGINNING)?.split('-').next()?.parse::<u32>().ok());
            let is_gone = maker.is_some_and(|maker| !Path::new(&format!("/proc/{maker}")).exists());
            // Anybody can make a folder of such a name there, and links in it.
            let is_own = fs::symlink_metadata(&path).is_ok_and(|meta| meta.is_dir() && meta.uid() == 0);
            if is_gone && is_own {
                let _ = run("swapoff", &[path.join("swap").as_os_str()]);
                let _ = fs::remove_dir(&path).or_else(|_| fs::remove_dir_all(&path));
            }
        }
    }
}

fn run(program: &str, words: &[&OsStr]) -> Result<()> {
    let output = Command::new(program).args(words).output().with_context(|| format!("no {program}"))?;
    match output.status.success() {
        true => Ok(()),
        false => bail!("{program}: {}", String::from_utf8_lossy(&output.stderr).trim()),
    }
}

/// Does what the kernel may refuse for a moment.
fn again(mut ending: impl FnMut() -> Result<()>) -> Result<()> {
    let (tries, pause) = TRIES;
    for _ in 1..tries {
        if ending().is_ok() {
            return Ok(());
        }
        thread::sleep(pause);
    }
    ending()
}

impl Drop for Cage {
    fn drop(&mut self) {
        // An absent swap file needs no end.
        if let Some(swap) = &self.swap {
            let why = again(|| run("swapoff", &[swap.as_os_str()]));
            if let Err(why) = why {
                eprintln!("hanare: swap is left ({why}); end it by: swapoff {}", swap.display());
            }
        }
        if let Some(number) = self.zram {
            let _ = fs::write("/sys/class/zram-control/hot_remove", number.to_string());
        }
        let _ = again(|| Ok(fs::remove_dir(&self.group)?));
    }
}
