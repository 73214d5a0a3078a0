//! What the kernel offers and this user may use.

use super::Finding;
use crate::size;
use std::fs::{OpenOptions, read_to_string};

/// Each feature that some part of the pool is better for.
pub fn findings() -> Vec<Finding> {
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let version = version(&release);
    let since = |name, needed: (u32, u32), what: &str| {
        let there = version >= needed;
        let verb = if there { "has" } else { "lacks" };
        Finding::new(name, there, format!("Linux {release} {verb} it (since {}.{}): {what}", needed.0, needed.1))
    };
    vec![
        huge_pages(),
        transparent_huge_pages(),
        since("userfaultfd, user mode", (5, 11), "faults of programs served without privileges"),
        since("userfaultfd, minor faults", (5, 14), "mapped shared memory on shared files"),
        since("userfaultfd, write-protect on shared files", (5, 19), "mappings of memory on other nodes"),
        since("userfaultfd, pages mapped write-protected", (6, 4), "coherent mappings that have this host's own memory as it is"),
        since("userfaultfd, asynchronous write-protect", (6, 7), "dirty pages found by a scan of the page map"),
        privileged_faults(),
        fuse(),
    ]
}

fn version(release: &str) -> (u32, u32) {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|part| part.parse().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

fn huge_pages() -> Finding {
    let pools = std::fs::read_dir("/sys/kernel/mm/hugepages").into_iter().flatten().flatten();
    let free: Vec<String> = pools
        .filter_map(|entry| {
            let kib: u64 = entry.file_name().to_str()?.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
            let count: u64 = read_to_string(entry.path().join("free_hugepages")).ok()?.trim().parse().ok()?;
            (count > 0).then(|| format!("{count} of {}", size::show(kib << 10)))
        })
        .collect();
    match free.is_empty() {
        true => Finding::new(
            "huge pages",
            false,
            "none are reserved (vm.nr_hugepages); lent memory uses transparent ones, or small pages",
        ),
        false => Finding::new("huge pages", true, format!("free: {}", free.join(", "))),
    }
}

fn transparent_huge_pages() -> Finding {
    let path = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";
    let choice = read_to_string(path).unwrap_or_default();
    let chosen = choice.split_whitespace().find_map(|word| word.strip_prefix('[')?.strip_suffix(']')).unwrap_or("unknown");
    let usable = matches!(chosen, "always" | "advise" | "within_size" | "force");
    let advice = if usable { "" } else { "; with 'advise' there lent memory would use them" };
    Finding::new("transparent huge pages of shared files", usable, format!("{path} says {chosen}{advice}"))
}

fn privileged_faults() -> Finding {
    let may_all = read_to_string("/proc/sys/vm/unprivileged_userfaultfd").is_ok_and(|text| text.trim() == "1");
    let may_open = OpenOptions::new().read(true).write(true).open("/dev/userfaultfd").is_ok();
    let why = match (may_all, may_open) {
        (true, _) => "vm.unprivileged_userfaultfd is 1: system calls on absent pages are served too",
        (_, true) => "/dev/userfaultfd may be opened: system calls on absent pages are served too",
        _ => "only faults of the program itself can be served; a system call on an absent page fails with EFAULT",
    };
    Finding::new("userfaultfd, faults of system calls", may_all || may_open, why)
}

fn fuse() -> Finding {
    match OpenOptions::new().read(true).write(true).open("/dev/fuse") {
        Ok(_) => Finding::new("FUSE", true, "/dev/fuse may be opened"),
        Err(error) => Finding::new("FUSE", false, format!("/dev/fuse: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_compared_by_numbers() {
        assert_eq!(version("6.1.0-13-amd64"), (6, 1));
        assert_eq!(version("5.19-rc1"), (5, 19));
        assert!(version("6.10.3") > version("6.7.0"));
    }
}
