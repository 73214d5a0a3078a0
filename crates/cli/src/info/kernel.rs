//! Features of the kernel for this user, tried rather than read from its version.

use super::Finding;
use crate::size;
use hanare::userfaultfd::PARTS;
use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, memfd_create};
use rustix::process::{PidfdFlags, getpid, pidfd_open};
use std::fs::read_to_string;

/// Bytes of the memory files that are made to try: a huge page of the usual size.
const PROBE_LEN: u64 = 2 << 20;

/// Each call and feature that some part of the pool is better for, or needs.
pub fn findings() -> Vec<Finding> {
    let mut findings = vec![memory_files(), process_descriptors(), huge_pages(), transparent_huge_pages()];
    findings.extend(userfaultfd());
    findings.push(main_memory());
    findings
}

/// Needs of `hanare run --main-memory`, tried.
fn main_memory() -> Finding {
    let name = "main memory in the pool";
    match crate::run::main_memory::check_machine() {
        Ok(()) => Finding::new(name, true, "tried: `hanare run --main-memory` serves programs here"),
        Err((reason, remedy)) => Finding { remedy, ..Finding::new(name, false, reason) },
    }
}

/// Lent memory is made of such files.
fn memory_files() -> Finding {
    let tried = memfd_create("hanare-probe", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).and_then(|file| {
        fallocate(&file, FallocateFlags::empty(), 0, PROBE_LEN)?;
        fcntl_add_seals(&file, SealFlags::SHRINK)
    });
    match tried {
        Ok(()) => Finding::new("memory files", true, "made, filled and sealed one (memfd_create): a node can lend memory"),
        Err(error) => {
            Finding::needed("memory files", format!("memfd_create, fallocate or a seal failed: {error}; no node can lend memory"))
                .remedy("allow memfd_create and fallocate in the container's seccomp profile")
        }
    }
}

/// A node hears of a client's death through one.
fn process_descriptors() -> Finding {
    match pidfd_open(getpid(), PidfdFlags::empty()) {
        Ok(_) => Finding::new("process descriptors", true, "opened one (pidfd_open): programs that die in a fault are noticed"),
        Err(error) => Finding::needed("process descriptors", format!("pidfd_open failed: {error}"))
            .remedy("use Linux 5.3 or newer, and allow pidfd_open in the container's seccomp profile"),
    }
}

fn huge_pages() -> Finding {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::HUGETLB;
    let tried = memfd_create("hanare-probe", flags).and_then(|file| fallocate(&file, FallocateFlags::empty(), 0, PROBE_LEN));
    match tried {
        Ok(()) => Finding::new("huge pages", true, "took one: lent memory uses those that are free"),
        Err(error) => {
            let why = format!("none could be had ({error}); lent memory uses transparent ones, or small pages");
            Finding::new("huge pages", false, why).remedy("sysctl vm.nr_hugepages=N, for N pages of 2 MiB")
        }
    }
}

/// Huge pages of files of memory can be read, not tried: a kernel that may use them need not.
fn transparent_huge_pages() -> Finding {
    let path = "/sys/kernel/mm/transparent_hugepage/shmem_enabled";
    let choice = read_to_string(path).unwrap_or_default();
    let chosen = choice.split_whitespace().find_map(|word| word.strip_prefix('[')?.strip_suffix(']')).unwrap_or("unknown");
    let usable = matches!(chosen, "always" | "advise" | "within_size" | "force");
    let finding = Finding::new("transparent huge pages of shared files", usable, format!("{path} says {chosen}"));
    if usable { finding } else { finding.remedy(&format!("echo advise > {path}")) }
}

/// Needs of mappings of remote memory, each part tried.
fn userfaultfd() -> Vec<Finding> {
    let offered = hanare::settings::userfaultfd();
    let remedy = "allow userfaultfd in the container's seccomp profile, and CONFIG_USERFAULTFD in the kernel";
    let finding = |part: &hanare::userfaultfd::Part| {
        let name = format!("userfaultfd, {}", part.name);
        match &offered {
            Ok(features) if features.contains(part.feature) => Finding::new(name, true, "tried, and it works"),
            Ok(_) => {
                let (major, minor) = part.since;
                Finding::new(name, false, format!("tried; Linux {major}.{minor} brought it. Without it: {}", part.without))
            }
            Err(error) => Finding::new(name, false, error.to_string()).remedy(remedy),
        }
    };
    PARTS.iter().map(finding).collect()
}

/// Bytes that a node could lend here, as it would find out.
pub fn lendable() -> String {
    hanare::available_memory().map_or("unknown".to_owned(), size::show)
}
