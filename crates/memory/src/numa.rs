//! NUMA nodes: which there are, memory files bound to some of them, and the node of a page.
//!
//! The policy of a memory file belongs to the file, not to a mapping: the kernel keeps it beside the file's pages. Every process that
//! touches a new page takes the policy from there (`set_policy` of shmem; Documentation/admin-guide/mm/numa_memory_policy.rst, "Shared Policy").
//! Files of reserved huge pages have no such policy, but take their pages when they are made: by the policy of the thread ([`within`]).
//!
//! Safety invariants of this module:
//!
//! 1. The system calls get pointers to buffers of this module, with their lengths. They do not touch the mappings that they name.

use crate::file::system;
use crate::mapping::Mapping;
use hanare_protocol::Result;
use hanare_protocol::id::Rights;
use hanare_protocol::limits::{NUMA_NODE_COUNT_MAX, PAGE_LEN};
use hanare_protocol::numa::{NumaNode, NumaSet, Topology};
use hanare_protocol::wire::control::FilePart;
use rustix::io::Errno;
use std::os::fd::BorrowedFd;
use std::path::Path;

/// The kernel's folder of NUMA nodes.
pub const FOLDER: &str = "/sys/devices/system/node";

/// Bits of the sets that system calls take. The kernel reads one less than it is told.
const MASK_BITS: libc::c_ulong = NUMA_NODE_COUNT_MAX as libc::c_ulong + 1;

/// The NUMA nodes of this host, and those that this process may use.
pub fn topology() -> Topology {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let allowed = status.lines().find_map(|line| line.strip_prefix("Mems_allowed_list:")).and_then(|text| text.parse().ok());
    Topology { allowed, nodes: nodes(Path::new(FOLDER)) }
}

/// The NUMA nodes of a folder like [`FOLDER`], by number.
fn nodes(folder: &Path) -> Vec<NumaNode> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let node = |entry: std::fs::DirEntry| {
        NumaNode::read(entry.file_name().to_str()?, |name| std::fs::read_to_string(entry.path().join(name)).ok())
    };
    let mut nodes: Vec<NumaNode> = entries.filter_map(node).collect();
    nodes.sort_by_key(|node| node.number);
    nodes
}

/// The kernel's policy for some nodes. Numbers stay what they are where a control group's set changes.
fn mode(set: &NumaSet) -> libc::c_int {
    let mode = if set.count() == 1 { libc::MPOL_BIND } else { libc::MPOL_INTERLEAVE };
    mode | libc::MPOL_F_STATIC_NODES
}

/// Has all pages that anybody adds to a memory file come from these nodes.
///
/// **Errors**: the system's, as in containers that do not allow `mbind`.
pub fn bind(file: BorrowedFd<'_>, len: u64, set: &NumaSet) -> Result<()> {
    let mut mapping = Mapping::reserve(len)?;
    mapping.map_file(0, file, FilePart { offset: 0, len, map_len: len.next_multiple_of(PAGE_LEN) }, Rights::Read)?;
    let (ptr, len, mask) = (mapping.ptr(), mapping.len() as libc::c_ulong, set.mask());
    // SAFETY: the mask lives to the end of the call; the policy of a range changes none of its bytes (invariant 1).
    let done = unsafe { libc::syscall(libc::SYS_mbind, ptr, len, mode(set), mask.as_ptr(), MASK_BITS, 0) };
    check(done).map_err(system("binding a memory file to NUMA nodes"))
}

/// Runs `make` with memory of these nodes for all pages that it adds to files without a policy.
pub fn within<T>(set: Option<&NumaSet>, make: impl FnOnce() -> Result<T>) -> Result<T> {
    let Some(set) = set else { return make() };
    let what = "binding a thread to NUMA nodes";
    let (mut old_mode, mut old_mask) = (0, NumaSet::default().mask());
    let address: *const u8 = std::ptr::null();
    // SAFETY: the kernel writes a number, and no more bits than it is told of (invariant 1).
    let asked =
        unsafe { libc::syscall(libc::SYS_get_mempolicy, &raw mut old_mode, old_mask.as_mut_ptr(), MASK_BITS - 1, address, 0) };
    check(asked).map_err(system(what))?;
    set_policy(mode(set), &set.mask()).map_err(system(what))?;
    let made = make();
    set_policy(old_mode, &old_mask).map_err(system(what))?;
    made
}

fn set_policy(mode: libc::c_int, mask: &[u64]) -> Result<(), Errno> {
    // The kernel refuses a set, even an empty one, where the mode has none.
    let mask = if mask.iter().all(|word| *word == 0) { std::ptr::null() } else { mask.as_ptr() };
    let bits = if mask.is_null() { 0 } else { MASK_BITS };
    // SAFETY: the mask lives to the end of the call (invariant 1).
    check(unsafe { libc::syscall(libc::SYS_set_mempolicy, mode, mask, bits) })
}

/// The NUMA nodes of the pages at these addresses; `None` for a page that this process has not mapped now.
///
/// **Errors**: the system's, as in containers that do not allow `move_pages`.
pub fn nodes_of(pages: &[*mut u8]) -> Result<Vec<Option<u32>>, Errno> {
    let mut found: Vec<libc::c_int> = vec![-1; pages.len()];
    let (own, nowhere): (_, *const libc::c_int) = (0, std::ptr::null());
    // SAFETY: both lists have as many entries as the kernel is told of. Without targets no page moves (invariant 1).
    let done = unsafe {
        libc::syscall(libc::SYS_move_pages, own, pages.len() as libc::c_ulong, pages.as_ptr(), nowhere, found.as_mut_ptr(), 0)
    };
    check(done)?;
    Ok(found.into_iter().map(|node| u32::try_from(node).ok()).collect())
}

fn check(result: libc::c_long) -> Result<(), Errno> {
    if result < 0 {
        return Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::INVAL));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file;
    use std::os::fd::AsFd;

    #[test]
    fn a_false_topology_is_read_from_its_folder() {
        let folder = tempfile(&[
            ("node0/cpulist", "0-1\n"),
            ("node0/meminfo", "Node 0 MemTotal: 1024 kB\nNode 0 MemFree: 1000 kB\n"),
            ("node0/distance", "10 20\n"),
            ("node10/meminfo", "Node 10 MemTotal: 4096 kB\nNode 10 MemFree: 96 kB\n"),
            ("node2/cpulist", "2-3\n"),
            ("node2/meminfo", "rubbish"),
            ("nodes/meminfo", "Node 3 MemTotal: 4 kB\n"),
            ("power/control", ""),
        ]);
        let found = nodes(&folder);
        let facts: Vec<_> = found.iter().map(|node| (node.number, node.processors, node.total, node.free)).collect();
        assert_eq!(facts, [(0, 2, 1 << 20, 1000 << 10), (2, 2, 0, 0), (10, 0, 4 << 20, 96 << 10)]);
        assert_eq!(found[0].distances, [10, 20]);
        assert_eq!(nodes(&folder.join("nowhere")), []);
        std::fs::remove_dir_all(folder).unwrap();
    }

    fn tempfile(files: &[(&str, &str)]) -> std::path::PathBuf {
        let folder = std::env::temp_dir().join(format!("hanare-numa-{}", std::process::id()));
        for (path, text) in files {
            let path = folder.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        folder
    }

    #[test]
    fn a_bound_file_has_its_pages_on_its_node_whoever_touches_them() {
        let topology = topology();
        let Some(first) = topology.nodes.iter().find(|node| node.total > 0) else {
            return hanare_testkit::unable("this kernel tells of no NUMA nodes");
        };
        let set: NumaSet = [first.number].into_iter().collect();
        let (file, len) = (file::create("bound", 8 * PAGE_LEN).unwrap(), 8 * PAGE_LEN);
        bind(file.as_fd(), len, &set).unwrap();
        let mut mapping = Mapping::reserve(len).unwrap();
        mapping.map_file(0, file.as_fd(), FilePart { offset: 0, len, map_len: len }, Rights::Write).unwrap();
        let pages: Vec<*mut u8> = (0..8).map(|page| mapping.ptr().wrapping_add(page * PAGE_LEN as usize)).collect();
        assert_eq!(nodes_of(&pages).unwrap(), [None; 8], "nobody has touched a page");
        // SAFETY: the mapping lives to the end.
        unsafe { mapping.window() }.slice(0, 3 * PAGE_LEN as usize).wipe().unwrap();
        let node = Some(first.number);
        assert_eq!(nodes_of(&pages).unwrap(), [node, node, node, None, None, None, None, None]);
        // The file keeps its policy: the kernel names it for another mapping of it.
        let mut other = Mapping::reserve(len).unwrap();
        other.map_file(0, file.as_fd(), FilePart { offset: 0, len, map_len: len }, Rights::Read).unwrap();
        assert_eq!(policy_at(other.ptr()), (mode(&set), set.mask()));
    }

    /// The policy of the page at an address.
    fn policy_at(ptr: *mut u8) -> (libc::c_int, Box<[u64]>) {
        const AT_ADDRESS: libc::c_int = 2;
        let (mut mode, mut mask) = (0, NumaSet::default().mask());
        // SAFETY: as for `within`.
        let asked =
            unsafe { libc::syscall(libc::SYS_get_mempolicy, &raw mut mode, mask.as_mut_ptr(), MASK_BITS - 1, ptr, AT_ADDRESS) };
        check(asked).unwrap();
        (mode, mask)
    }

    #[test]
    fn a_thread_is_bound_for_a_while_and_as_before_afterwards() {
        let Some(first) = topology().nodes.iter().find(|node| node.total > 0).map(|node| node.number) else {
            return hanare_testkit::unable("this kernel tells of no NUMA nodes");
        };
        let set: NumaSet = [first].into_iter().collect();
        let own = || {
            let (mut mode, mut mask) = (0, NumaSet::default().mask());
            let nowhere: *const u8 = std::ptr::null();
            // SAFETY: as for `within`.
            check(unsafe { libc::syscall(libc::SYS_get_mempolicy, &raw mut mode, mask.as_mut_ptr(), MASK_BITS - 1, nowhere, 0) })
                .unwrap();
            (mode, mask)
        };
        let before = own();
        assert_eq!(within(Some(&set), || Ok(own())).unwrap(), (mode(&set), set.mask()));
        assert_eq!(own(), before);
        assert_eq!(within(None, || Ok(7)).unwrap(), 7);
    }

    #[test]
    fn nodes_that_are_not_there_are_refused_by_the_kernel() {
        let file = file::create("bound", PAGE_LEN).unwrap();
        let set = [NUMA_NODE_COUNT_MAX - 1].into_iter().collect();
        assert!(bind(file.as_fd(), PAGE_LEN, &set).is_err());
    }
}
