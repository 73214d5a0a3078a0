//! The places of a window's bytes in the host's memory: NUMA nodes, huge pages, bytes that nobody has touched.
//!
//! A window's pages are sampled where they are many. The kernel tells only of pages that are mapped here. So pages are read that lie in their
//! file and not in this process's page tables. Bytes that the host has not supplied stay so.
//!
//! **Cost**: two system calls and about 1 us a page that is looked at.
//!
//! Safety invariants of this module:
//!
//! 1. System calls get addresses of windows' pages, which they do not touch, and buffers of this module with their lengths.

use crate::numa;
use crate::window::Window;
use hanare_protocol::limits::PAGE_LEN;
use hanare_protocol::wire::backing::Residence;
use std::fs::File;
use std::os::fd::AsRawFd;

/// `PAGEMAP_SCAN` of Linux 6.7: `_IOWR('f', 16, struct pm_scan_arg)`.
const PAGEMAP_SCAN: u32 = 0xc060_6610;

/// Category of pages that are mapped as a part of a huge one.
const PAGE_IS_HUGE: u64 = 1 << 6;

/// `struct pm_scan_arg` of the kernel.
#[repr(C)]
#[derive(Default)]
struct Scan {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vec: u64,
    vec_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

/// `struct page_region` of the kernel.
#[repr(C)]
#[derive(Default)]
struct ScannedRange {
    start: u64,
    end: u64,
    categories: u64,
}

const _: () = assert!(size_of::<Scan>() == 0x60 && size_of::<ScannedRange>() == 24);

/// Looks at some pages of a window, at most `page_count_max`.
///
/// # Safety
/// The window's bytes are mapped, and stay so to the end.
pub unsafe fn of(window: Window, page_count_max: usize) -> Residence {
    if window.is_empty() {
        return Residence::default();
    }
    let first = window.ptr().addr() / PAGE_LEN as usize * PAGE_LEN as usize;
    let count = (window.ptr().addr() + window.len() - first).div_ceil(PAGE_LEN as usize);
    let looked = count.min(page_count_max.max(1));
    let start = window.ptr().wrapping_sub(window.ptr().addr() - first);
    let pages: Vec<*mut u8> = (0..looked).map(|k| start.wrapping_add((k * count / looked) * PAGE_LEN as usize)).collect();
    let (len, huge) = (window.len() as u64, count_huge(&pages));
    let share = |pages: u64| (u128::from(len) * u128::from(pages) / looked as u128) as u64;
    let mut residence = Residence { len, huge: huge.map(share), is_estimate: looked < count, ..Residence::default() };
    let Ok(mut found) = numa::nodes_of(&pages) else { return residence };
    let mut untouched = vec![false; looked];
    if found.contains(&None) {
        for (k, page) in pages.iter().enumerate().filter(|(k, _)| found[*k].is_none()) {
            match is_in_file(*page) {
                Some(false) => untouched[k] = true,
                // A byte of the page that is the window's, by a guarded read: another process may take the page away.
                _ => {
                    let at = page.addr().saturating_sub(window.ptr().addr()).min(window.len() - 1);
                    let _ = window.slice(at, 1).read_into(&mut [0]);
                }
            }
        }
        found = numa::nodes_of(&pages).unwrap_or(found);
    }
    // Somebody may have touched a page meanwhile, and a read of its neighbour may have mapped it.
    let absent = found.iter().zip(untouched).filter(|(node, is_untouched)| node.is_none() && *is_untouched).count() as u64;
    for node in found.into_iter().flatten() {
        *residence.numa.entry(node).or_default() += 1;
    }
    residence.numa.values_mut().for_each(|pages| *pages = share(*pages));
    residence.absent = share(absent);
    residence
}

/// True if a page lies in its file. `None` where the kernel does not say.
fn is_in_file(page: *mut u8) -> Option<bool> {
    let mut answer = [0u8];
    // SAFETY: the kernel writes a byte for the one page that it is asked for (invariant 1).
    let asked = unsafe { libc::mincore(page.cast(), PAGE_LEN as usize, answer.as_mut_ptr()) };
    (asked == 0).then_some(answer[0] & 1 == 1)
}

/// Number of pages that are mapped as parts of huge ones. `None` before Linux 6.7.
fn count_huge(pages: &[*mut u8]) -> Option<u64> {
    let map = File::open("/proc/self/pagemap").ok()?;
    let mut count = 0;
    for page in pages {
        let mut range = ScannedRange::default();
        let mut scan = Scan {
            size: size_of::<Scan>() as u64,
            start: page.addr() as u64,
            end: page.addr() as u64 + PAGE_LEN,
            vec: (&raw mut range).addr() as u64,
            vec_len: 1,
            category_mask: PAGE_IS_HUGE,
            return_mask: PAGE_IS_HUGE,
            ..Scan::default()
        };
        // SAFETY: the kernel reads and writes the question, and writes one range at most (invariant 1).
        let found = unsafe { libc::ioctl(map.as_raw_fd(), PAGEMAP_SCAN as _, &raw mut scan) };
        if found < 0 {
            return None;
        }
        count += u64::from(found > 0);
    }
    Some(count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file;
    use crate::mapping::Mapping;
    use hanare_protocol::id::Rights;
    use hanare_protocol::wire::control::FilePart;
    use std::os::fd::AsFd;

    fn mapped(file: &impl AsFd, len: u64) -> Mapping {
        let mut mapping = Mapping::reserve(len).unwrap();
        mapping.map_file(0, file.as_fd(), FilePart { offset: 0, len, map_len: len }, Rights::Write).unwrap();
        mapping
    }

    #[test]
    fn bytes_are_counted_by_node_and_untouched_ones_stay_untouched() {
        let len = 64 * PAGE_LEN;
        let file = file::create("test", len).unwrap();
        let (mapping, other) = (mapped(&file, len), mapped(&file, len));
        // SAFETY: the mappings live to the end.
        let (window, elsewhere) = unsafe { (mapping.window(), other.window()) };
        // Another mapping of the file has touched them: this one's page tables are empty.
        elsewhere.slice(0, 16 * PAGE_LEN as usize).wipe().unwrap();
        // SAFETY: as above.
        let whole = unsafe { of(window, 1000) };
        if whole.numa.is_empty() {
            return hanare_testkit::unable("this kernel tells of no NUMA nodes (move_pages)");
        }
        let told: u64 = whole.numa.values().sum();
        assert_eq!((whole.len, told, whole.absent, whole.untold()), (len, 16 * PAGE_LEN, 48 * PAGE_LEN, 0));
        assert!(!whole.is_estimate && whole.huge.unwrap_or(0) == 0, "{whole:?}");
        let blocks = rustix::fs::fstat(&file).unwrap().st_blocks as u64 * 512;
        assert_eq!(blocks, 16 * PAGE_LEN, "no page was added");
        // SAFETY: as above.
        let some = unsafe { of(window, 16) };
        assert!(some.is_estimate && some.len == len, "{some:?}");
        assert_eq!((some.numa.values().sum::<u64>(), some.absent), (16 * PAGE_LEN, 48 * PAGE_LEN));
        // SAFETY: as above.
        let part = unsafe { of(window.slice(5000, 100), 16) };
        assert_eq!((part.len, part.numa.values().sum::<u64>(), part.is_estimate), (100, 100, false));
    }
}
