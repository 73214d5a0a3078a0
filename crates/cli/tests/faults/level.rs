//! What a process holds: descriptors, threads, memory of its own.

/// How much of it.
#[derive(Clone, Copy, Debug)]
pub struct Level {
    fds: u64,
    threads: u64,
    /// Memory of its own, in KiB: lent memory is in files and does not count.
    own_kib: u64,
}

/// What allocators may keep, in KiB.
const SLACK_KIB: u64 = 32 << 10;

impl Level {
    pub fn of(pid: u32) -> Level {
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
        let number = |key: &str| {
            let line = status.lines().find(|line| line.starts_with(key)).unwrap_or_else(|| panic!("no {key}"));
            line.split_whitespace().nth(1).unwrap().parse().unwrap()
        };
        let fds = std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count() as u64;
        Level { fds, threads: number("Threads:"), own_kib: number("RssAnon:") }
    }

    /// Whether it is more than before and so many links to other nodes.
    pub fn exceeds(&self, before: &Level, links: u64) -> bool {
        self.fds > before.fds + links || self.threads > before.threads || self.own_kib > before.own_kib + SLACK_KIB
    }
}
