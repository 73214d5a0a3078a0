//! A program in a memory control group, with the kernel's swap: what it has where there is no pool. Needs root.

use anyhow::{Context, Result, bail, ensure};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

/// Where the kernel puts pages that do not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Swap {
    /// A file on a disk.
    File,
    /// Memory, compressed.
    Zram,
}

/// A control group and its swap; both go with it.
#[derive(Debug)]
pub struct Cage {
    group: PathBuf,
    swap: Option<PathBuf>,
    /// Number of the compressed device that was made for it.
    zram: Option<u32>,
}

impl Cage {
    /// One whose programs keep at most `limit` bytes here, and `swap_len` bytes in swap.
    ///
    /// **Errors**: what the kernel refuses, for other users than root everything.
    pub fn new(limit: u64, swap: Swap, swap_len: u64) -> Result<Cage> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        ensure!(rustix::process::geteuid().is_root(), "a control group and swap need root");
        let name = format!("hanare-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let (root, file) = match Path::new("/sys/fs/cgroup/memory").is_dir() {
            true => ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
            false => ("/sys/fs/cgroup", "memory.max"),
        };
        let group = Path::new(root).join(&name);
        fs::create_dir(&group).with_context(|| format!("cannot make {}", group.display()))?;
        let mut cage = Cage { group, swap: None, zram: None };
        fs::write(cage.group.join(file), limit.to_string()).context("this kernel bounds no group's memory")?;
        let place = match swap {
            Swap::File => {
                let place = Path::new("/var/tmp").join(&name);
                run("fallocate", &[OsStr::new("-l"), OsStr::new(&swap_len.to_string()), place.as_os_str()])?;
                cage.swap = Some(place.clone());
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

    /// A command in it.
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", "echo $$ > \"$0\" && exec \"$@\""]).arg(self.group.join("cgroup.procs")).arg(program);
        command
    }
}

fn run(program: &str, words: &[&OsStr]) -> Result<()> {
    let output = Command::new(program).args(words).output().with_context(|| format!("no {program}"))?;
    match output.status.success() {
        true => Ok(()),
        false => bail!("{program}: {}", String::from_utf8_lossy(&output.stderr).trim()),
    }
}

impl Drop for Cage {
    fn drop(&mut self) {
        // What is not there needs no end.
        if let Some(swap) = &self.swap {
            let _ = run("swapoff", &[swap.as_os_str()]);
            if self.zram.is_none() {
                let _ = fs::remove_file(swap);
            }
        }
        if let Some(number) = self.zram {
            let _ = fs::write("/sys/class/zram-control/hot_remove", number.to_string());
        }
        let _ = fs::remove_dir(&self.group);
    }
}
