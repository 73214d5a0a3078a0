//! Control groups of memory, where this user may make them.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// A control group of a test's own, below the one that the test is in.
pub struct Group {
    folder: PathBuf,
    limit_bytes: u64,
}

impl Group {
    /// A group of so many bytes; `None` where this user may make none.
    pub fn new(limit_bytes: u64) -> Option<Group> {
        static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
        for line in groups.lines() {
            let [_, kinds, path] = line.splitn(3, ':').collect::<Vec<_>>()[..] else { continue };
            let (root, limit) = match kinds {
                "memory" => (Path::new("/sys/fs/cgroup/memory"), "memory.limit_in_bytes"),
                "" => (Path::new("/sys/fs/cgroup"), "memory.max"),
                _ => continue,
            };
            let folder = root.join(path.trim_start_matches('/')).join(format!("hanare-test-{}-{number}", std::process::id()));
            if std::fs::create_dir(&folder).is_ok() {
                let group = Group { folder, limit_bytes };
                if std::fs::write(group.folder.join(limit), limit_bytes.to_string()).is_ok() {
                    return Some(group);
                }
            }
        }
        None
    }

    /// A command that runs in the group.
    pub fn command(&self, program: &str) -> Command {
        let mut command = super::clean("sh");
        command.args(["-c", "echo $$ > \"$0\"/cgroup.procs && exec \"$@\""]).arg(&self.folder).arg(program);
        command
    }

    /// Bytes that its processes can still take before the kernel ends one. Pages of files that nobody read lately are among them.
    pub fn left(&self) -> u64 {
        let read = |name: &str| std::fs::read_to_string(self.folder.join(name)).unwrap_or_default();
        let used = ["memory.current", "memory.usage_in_bytes"].map(read).concat();
        let used: u64 = used.trim().parse().expect("the group tells what it uses");
        let stat = read("memory.stat");
        let files = stat.lines().find_map(|line| line.strip_prefix("inactive_file ")?.parse().ok());
        self.limit_bytes.saturating_sub(used.saturating_sub(files.unwrap_or(0)))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // Its processes are gone a moment after they were waited for.
        let until = Instant::now() + Duration::from_secs(5);
        while std::fs::remove_dir(&self.folder).is_err() && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
