//! What the kernel offers and this user may use, found by trying.

use super::Finding;
use crate::size;
use std::fs::{OpenOptions, read_to_string};

/// Each feature that some part of the pool is better for.
pub fn findings() -> Vec<Finding> {
    let mut findings = vec![huge_pages(), transparent_huge_pages()];
    findings.extend(userfaultfd());
    findings.extend([privileged_faults(), fuse()]);
    findings
}

/// The parts of userfaultfd, each tried by this call.
fn userfaultfd() -> Vec<Finding> {
    match hanare::settings::userfaultfd_parts() {
        Err(error) => vec![Finding::new("userfaultfd", false, error.to_string())],
        Ok(parts) => parts
            .map(|(part, works)| {
                let (major, minor) = part.since;
                let why = match works {
                    true => "tried just now: it works".to_owned(),
                    false => format!(
                        "tried just now: this kernel, or HANARE_KERNEL, does not let it (Linux {major}.{minor} brought it); without it: {}",
                        part.without
                    ),
                };
                Finding::new(format!("userfaultfd, {}", part.name), works, why)
            })
            .into(),
    }
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
