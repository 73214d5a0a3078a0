//! Memory that this process may use: the machine's free memory, within the limits of its control groups.

use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// More bytes than any machine has. Groups of the older interface that have no limit tell a greater number.
const UNLIMITED: u64 = 1 << 62;

/// A limit on a process's memory: the machine, or the folder of a control group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Group {
    pub device: u64,
    pub inode: u64,
}

impl Group {
    /// The machine itself.
    pub const MACHINE: Group = Group { device: 0, inode: 0 };

    /// The group of a folder. Numbers name it, because every container calls its own group by the same name.
    fn of(folder: &Path) -> Option<Group> {
        let about = std::fs::metadata(folder).ok()?;
        Some(Group { device: about.dev(), inode: about.ino() })
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.device, self.inode)
    }
}

impl FromStr for Group {
    type Err = ();

    fn from_str(text: &str) -> Result<Group, ()> {
        let (device, inode) = text.split_once(':').ok_or(())?;
        let number = |text: &str| text.parse().map_err(|_| ());
        Ok(Group { device: number(device)?, inode: number(inode)? })
    }
}

/// A limit on memory that holds for this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Limit {
    pub group: Group,
    /// The control group's folder; `None` for the machine.
    pub folder: Option<PathBuf>,
    /// Bytes that may be used in all.
    pub total: u64,
    /// Bytes of them that can still be used.
    pub left: u64,
}

/// The limits of the machine, and of each control group that has one.
pub(crate) fn limits() -> Vec<Limit> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let of_group = |folder: PathBuf| {
        let (group, total) = (Group::of(&folder)?, limit_of_group(&folder)?);
        let left = left_in_group(&folder, total);
        Some(Limit { group, folder: Some(folder), total, left })
    };
    let machine = std::fs::read_to_string("/proc/meminfo").ok().and_then(|text| {
        let (total, left) = (field(&text, "MemTotal:"), field(&text, "MemAvailable:")?);
        Some(Limit { group: Group::MACHINE, folder: None, total: total.unwrap_or(left), left })
    });
    group_folders(&groups).into_iter().filter_map(of_group).chain(machine).collect()
}

/// Bytes that the machine, and each control group with a limit, have left.
pub(crate) fn left() -> Vec<(Group, u64)> {
    limits().into_iter().map(|limit| (limit.group, limit.left)).collect()
}

/// Bytes that can still be used: the machine's available memory, or what a control group leaves, whichever is less.
///
/// `None` where the system says neither.
pub fn available() -> Option<u64> {
    left().into_iter().map(|(_, left)| left).min()
}

/// Bytes that this process could use at most: the machine's memory, or a control group's limit, whichever is less.
pub fn total() -> u64 {
    let about = rustix::system::sysinfo();
    let machine = (about.totalram as u64).saturating_mul(u64::from(about.mem_unit));
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    group_folders(&groups).iter().filter_map(|folder| limit_of_group(folder)).fold(machine, u64::min)
}

/// A field of `/proc/meminfo`, in bytes.
fn field(meminfo: &str, name: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1 << 10)
}

/// The folders of the process's memory groups, of either version of the interface, each with all its parents.
fn group_folders(groups: &str) -> Vec<PathBuf> {
    let mut folders = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':');
        let (Some(_), Some(kinds), Some(path)) = (fields.next(), fields.next(), fields.next()) else { continue };
        let root = match kinds {
            "" => Path::new("/sys/fs/cgroup"),
            kinds if kinds.split(',').any(|kind| kind == "memory") => Path::new("/sys/fs/cgroup/memory"),
            _ => continue,
        };
        let whole = root.join(path.trim_start_matches('/'));
        folders.extend(whole.ancestors().take_while(|folder| folder.starts_with(root)).map(Path::to_path_buf));
    }
    folders
}

/// Rest of a group's limit. Pages of files that nobody read lately count as free, because the kernel takes them before it kills.
fn left_in_group(folder: &Path, limit: u64) -> u64 {
    let used = number(folder, "memory.current").or_else(|| number(folder, "memory.usage_in_bytes")).unwrap_or(0);
    let about = std::fs::read_to_string(folder.join("memory.stat")).unwrap_or_default();
    limit.saturating_sub(used.saturating_sub(reclaimable(&about)))
}

/// Bytes of files that nobody read lately, of a group and all below it.
fn reclaimable(stat: &str) -> u64 {
    let field = |name: &str| stat.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok());
    field("total_inactive_file").or_else(|| field("inactive_file")).unwrap_or(0)
}

/// The limit of a group: the kernel kills at one, and holds up who is beyond the other.
fn limit_of_group(folder: &Path) -> Option<u64> {
    let limits = ["memory.max", "memory.high", "memory.limit_in_bytes"].into_iter();
    limits.filter_map(|name| number(folder, name)).filter(|limit| *limit < UNLIMITED).min()
}

fn number(folder: &Path, name: &str) -> Option<u64> {
    std::fs::read_to_string(folder.join(name)).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_some() {
        assert!(available().is_some_and(|bytes| bytes > 1 << 20));
    }

    #[test]
    fn meminfo_is_read_in_bytes() {
        assert_eq!(field("MemTotal: 9 kB\nMemAvailable:   12 kB\n", "MemAvailable:"), Some(12 << 10));
        assert_eq!(field("MemTotal: 9 kB\n", "MemAvailable:"), None);
        assert_eq!(field("MemTotal: 18446744073709551615 kB\n", "MemTotal:"), None);
    }

    #[test]
    fn groups_of_both_versions_are_found_with_their_parents() {
        let folders = group_folders("4:memory,blkio:/a/b\n3:cpu:/x\n0::/c\nnonsense\n");
        let names: Vec<_> = folders.iter().map(|folder| folder.to_str().unwrap()).collect();
        assert_eq!(
            names,
            [
                "/sys/fs/cgroup/memory/a/b",
                "/sys/fs/cgroup/memory/a",
                "/sys/fs/cgroup/memory",
                "/sys/fs/cgroup/c",
                "/sys/fs/cgroup"
            ]
        );
    }

    #[test]
    fn the_tightest_limit_counts() {
        let folder = std::env::temp_dir().join(format!("hanare-capacity-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("memory.max"), "1000\n").unwrap();
        std::fs::write(folder.join("memory.current"), "400\n").unwrap();
        let left = || limit_of_group(&folder).map(|limit| left_in_group(&folder, limit));
        assert_eq!(left(), Some(600));
        std::fs::write(folder.join("memory.stat"), "anon 5\ninactive_file 150\nactive_file 90\n").unwrap();
        assert_eq!(left(), Some(750), "the kernel can take what nobody reads");
        std::fs::write(folder.join("memory.stat"), "inactive_file 1\ntotal_inactive_file 900\n").unwrap();
        assert_eq!(left(), Some(1000));
        std::fs::write(folder.join("memory.high"), "500\n").unwrap();
        assert_eq!(left(), Some(500), "more would be held up");
        std::fs::write(folder.join("memory.high"), "max\n").unwrap();
        std::fs::write(folder.join("memory.max"), "max\n").unwrap();
        assert_eq!(left(), None);
        std::fs::write(folder.join("memory.limit_in_bytes"), "9223372036854771712\n").unwrap();
        assert_eq!(left(), None, "of the older interface");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
