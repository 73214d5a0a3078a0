//! A DAX device or a file that a node lends: opened, checked and locked, and its ranges.
//!
//! Extents share one file, and a descriptor opens all of it. So no descriptor is given away: programs reach such memory by commands.
//! Ranges that no extent has are zero: all are wiped at the start, and each when it comes back. Persistence is not promised, so nothing is
//! flushed, and mappings are not `MAP_SYNC`: that would only cost a write of the file system's own tables for each new page.
//!
//! | a file's wipe | where |
//! |---|---|
//! | `FALLOC_FL_ZERO_RANGE`: blocks are there and read as zeros | ext4, XFS; a full disk is found at the start |
//! | `FALLOC_FL_PUNCH_HOLE` | tmpfs |
//! | zeros through a mapping | devices, other file systems |

use crate::file::HUGE_PAGE_LEN;
use crate::mapping::Mapping;
use hanare_protocol::id::Rights;
use hanare_protocol::size::Size;
use hanare_protocol::wire::backing::BackingKind;
use hanare_protocol::{Error, Result};
use rustix::fs::{
    AtFlags, CWD, FallocateFlags, FileType, FlockOperation, Mode, OFlags, Stat, StatxAttributes, StatxFlags, fallocate, flock,
    fstat, fstatfs, major, minor, open, statat, statx,
};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Smallest range of a file: an extent may consist of many, each a mapping, and a process has 65,530 of those.
pub const GRAIN_LEN: u64 = 64 << 10;

/// Bytes wiped through one mapping.
const WIPE_LEN: u64 = 64 << 20;

/// The number of tmpfs.
const TMPFS: i64 = 0x0102_1994;

/// Facts of a device, from its folder under `/sys/dev/char`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Device {
    len: u64,
    align: u64,
    numa: Option<u32>,
}

impl Device {
    /// Reads the folder of a DAX device. **Errors**: the fault.
    fn read(folder: &Path) -> Result<Device, String> {
        let subsystem = std::fs::read_link(folder.join("subsystem")).ok();
        if subsystem.and_then(|link| Some(link.file_name()?.to_owned())).is_none_or(|name| name != "dax") {
            return Err("it is a device, and none of DAX; name a /dev/daxX.Y, or a file".to_owned());
        }
        let number = |name: &str| std::fs::read_to_string(folder.join(name)).ok()?.trim().parse::<u64>().ok();
        let len = number("size").ok_or("the kernel does not tell its size")?;
        // Every range is a multiple of the alignment. Kernels before 5.10 do not tell it: it is that of huge pages there.
        let align = number("align").unwrap_or(HUGE_PAGE_LEN);
        if !align.is_power_of_two() || align > HUGE_PAGE_LEN {
            let usable = Size(HUGE_PAGE_LEN);
            return Err(format!("its alignment is {}; make it with {usable} at most (daxctl or ndctl, --align)", Size(align)));
        }
        let numa = number("target_node").or_else(|| number("numa_node")).and_then(|node| u32::try_from(node).ok());
        Ok(Device { len, align, numa })
    }
}

/// A device or file of which ranges are lent. It is locked against other lenders while it lives.
#[derive(Debug)]
pub struct DaxFile {
    file: OwnedFd,
    kind: BackingKind,
    /// Every range is a multiple of it.
    grain: u64,
    /// The NUMA node of all of it, where the kernel tells.
    numa: Option<u32>,
    /// Free ranges by their first byte: their ends. All are zero, and none touches another.
    free: Mutex<BTreeMap<u64, u64>>,
}

impl DaxFile {
    /// Takes the first `bytes` of a device or file, and wipes them.
    ///
    /// **Errors**: [`Error::BadSetting`] where it is no such thing, another lender has it, others may read it, or it is too short.
    pub fn open(path: &Path, bytes: u64) -> Result<DaxFile> {
        let refused = |reason: String| Error::BadSetting { key: "dax".to_owned(), value: path.display().to_string(), reason };
        let (file, about, device) = open_own(path).map_err(refused)?;
        let is_device = device.is_some();
        let grain = device.map_or(GRAIN_LEN, |device| device.align.max(GRAIN_LEN));
        let there = device.map_or(about.st_size as u64, |device| device.len);
        let len = bytes / grain * grain;
        if len == 0 || bytes > there {
            let longer = if is_device { "" } else { ", or make it longer (fallocate -l)" };
            let least = Size(grain);
            return Err(refused(format!(
                "it has {}, and {} are to be lent; lend at least {least} and at most that{longer}",
                Size(there),
                Size(bytes)
            )));
        }
        let (kind, numa) = match device {
            Some(device) => (BackingKind::DaxDevice, device.numa),
            None => kind_of(&file),
        };
        let dax = DaxFile { file, kind, grain, numa, free: Mutex::default() };
        dax.wipe(0..len).map_err(|errno| refused(format!("it cannot be wiped: {errno}")))?;
        dax.lock().insert(0, len);
        Ok(dax)
    }

    /// The kind of its memory.
    pub fn kind(&self) -> BackingKind {
        self.kind
    }

    /// Every range is a multiple of it.
    pub fn grain(&self) -> u64 {
        self.grain
    }

    /// The NUMA node of its memory, where the kernel tells one for all of it.
    pub fn numa(&self) -> Option<u32> {
        self.numa
    }

    /// True if its bytes are in no page of the kernel's, which has none to tell of.
    pub fn is_without_pages(&self) -> bool {
        matches!(self.kind, BackingKind::DaxDevice | BackingKind::DaxFile)
    }

    /// Takes zero bytes, in as few ranges as there can be: the smallest range that is long enough, else the longest ones.
    pub fn take(&self, len: u64) -> Option<Vec<Range<u64>>> {
        let mut free = self.lock();
        let mut left = len.checked_next_multiple_of(self.grain)?;
        if free.iter().map(|(start, end)| end - start).sum::<u64>() < left {
            return None;
        }
        let mut taken = Vec::new();
        while left > 0 {
            let fits = free.iter().filter(|(start, end)| **end - **start >= left).min_by_key(|(start, end)| **end - **start);
            let (start, end) = fits.or_else(|| free.iter().max_by_key(|(start, end)| **end - **start)).map(|(s, e)| (*s, *e))?;
            free.remove(&start);
            let len = left.min(end - start);
            if len < end - start {
                free.insert(start + len, end);
            }
            taken.push(start..start + len);
            left -= len;
        }
        Some(taken)
    }

    /// Wipes ranges that nobody has mapped, and has them free again. A range that cannot be wiped is never given again.
    pub fn give_back(&self, ranges: impl IntoIterator<Item = Range<u64>>) {
        for range in ranges {
            if self.wipe(range.clone()).is_ok() {
                self.join(range);
            }
        }
    }

    fn join(&self, range: Range<u64>) {
        let mut free = self.lock();
        let (mut start, mut end) = (range.start, range.end);
        if let Some(next) = free.remove(&end) {
            end = next;
        }
        if let Some((before, _)) = free.range(..start).next_back().map(|(s, e)| (*s, *e)).filter(|(_, e)| *e == start) {
            start = before;
        }
        free.insert(start, end);
    }

    /// Maps ranges one after another, from byte `at` of a mapping on.
    pub fn map(&self, ranges: &[Range<u64>], mapping: &mut Mapping, at: u64) -> Result<()> {
        let mut at = at;
        for range in ranges {
            mapping.map_range(at, self.file.as_fd(), range.clone(), Rights::Write)?;
            at += range.end - range.start;
        }
        Ok(())
    }

    fn wipe(&self, range: Range<u64>) -> Result<(), Errno> {
        if self.kind == BackingKind::DaxDevice {
            return self.wipe_mapped(range);
        }
        let keeps = FallocateFlags::KEEP_SIZE;
        for how in [FallocateFlags::ZERO_RANGE, FallocateFlags::PUNCH_HOLE] {
            match deallocate(self.file.as_fd(), how | keeps, &range) {
                Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {}
                done => return done,
            }
        }
        self.wipe_mapped(range)
    }

    fn wipe_mapped(&self, range: Range<u64>) -> Result<(), Errno> {
        let mut at = range.start;
        while at < range.end {
            let piece = at..range.end.min(at.saturating_add(WIPE_LEN));
            let len = piece.end - piece.start;
            at = piece.end;
            let mapping = Mapping::reserve(len).and_then(|mut mapping| {
                mapping.map_range(0, self.file.as_fd(), piece, Rights::Write)?;
                Ok(mapping)
            });
            let mapping = mapping.map_err(|_| Errno::NOMEM)?;
            // SAFETY: the window is used in this statement only.
            unsafe { mapping.window() }.slice(0, len as usize).wipe().map_err(|_| Errno::IO)?;
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, u64>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn deallocate(file: BorrowedFd<'_>, how: FallocateFlags, range: &Range<u64>) -> Result<(), Errno> {
    loop {
        match fallocate(file, how, range.start, range.end - range.start) {
            Err(Errno::INTR) => {}
            done => return done,
        }
    }
}

/// Opens and locks a file or device that this user alone may read. **Errors**: the fault, and the remedy.
fn open_own(path: &Path) -> Result<(OwnedFd, Stat, Option<Device>), String> {
    let seen = statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW).map_err(|errno| format!("{errno}"))?;
    let sys = || PathBuf::from(format!("/sys/dev/char/{}:{}", major(seen.st_rdev), minor(seen.st_rdev)));
    let device = match FileType::from_raw_mode(seen.st_mode) {
        FileType::RegularFile => None,
        // Other devices are not even opened.
        FileType::CharacterDevice => Some(Device::read(&sys())?),
        FileType::Symlink => return Err("it is a symbolic link, which others may turn; name the file itself".to_owned()),
        _ => return Err("it is no file and no DAX device".to_owned()),
    };
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = open(path, flags, Mode::empty()).map_err(|errno| format!("it cannot be opened to read and write: {errno}"))?;
    let about = fstat(&file).map_err(|errno| format!("{errno}"))?;
    if (about.st_dev, about.st_ino) != (seen.st_dev, seen.st_ino) {
        return Err("it is replaced just now; see who does that".to_owned());
    }
    let user = rustix::process::geteuid().as_raw();
    if about.st_uid != user {
        return Err(format!(
            "it is user {}'s, and this is user {user}; whoever owns it reads all regions (chown it)",
            about.st_uid
        ));
    }
    if about.st_mode & 0o077 != 0 {
        return Err(format!(
            "others may read or write it, and so all regions: its mode is {:04o}; chmod 600 it",
            about.st_mode & 0o7777
        ));
    }
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok((file, about, device)),
        Err(Errno::WOULDBLOCK) => Err("another node lends it already".to_owned()),
        Err(errno) => Err(format!("it cannot be locked against other nodes: {errno}")),
    }
}

/// The kind of a regular file's memory, and its NUMA node.
fn kind_of(file: &OwnedFd) -> (BackingKind, Option<u32>) {
    let about = statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS).ok();
    if let Some(about) = about.filter(|about| about.stx_attributes.contains(StatxAttributes::DAX)) {
        let device = PathBuf::from(format!("/sys/dev/block/{}:{}", about.stx_dev_major, about.stx_dev_minor));
        // A partition has no such folder; its disk, one above, has.
        let places = ["device/numa_node", "../device/numa_node"].map(|place| device.join(place));
        let numa = places.iter().find_map(|place| std::fs::read_to_string(place).ok()?.trim().parse().ok());
        return (BackingKind::DaxFile, numa);
    }
    match fstatfs(file) {
        Ok(about) if about.f_type == TMPFS => (BackingKind::MemoryFile, None),
        _ => (BackingKind::DiskFile, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::os::unix::fs::{FileExt, PermissionsExt, symlink};

    const GRAINS: u64 = 32;
    const LEN: u64 = GRAINS * GRAIN_LEN;

    /// A file that is gone with the test, full of bytes.
    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Scratch {
            let path = std::env::temp_dir().join(format!("hanare-dax-{name}-{}", std::process::id()));
            std::fs::write(&path, vec![0xee; LEN as usize]).unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
            Scratch(path)
        }

        fn refusal(&self) -> String {
            match DaxFile::open(&self.0, LEN) {
                Err(Error::BadSetting { key, reason, .. }) if key == "dax" => reason,
                other => panic!("{other:?}"),
            }
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            let _ = std::fs::remove_file(&self.0);
        }
    }

    #[test]
    fn a_file_is_wiped_locked_and_no_other_lender_s() {
        let scratch = Scratch::new("locked");
        let dax = DaxFile::open(&scratch.0, LEN).unwrap();
        assert!(std::fs::read(&scratch.0).unwrap().iter().all(|byte| *byte == 0), "it is wiped");
        assert_eq!(scratch.refusal(), "another node lends it already");
        drop(dax);
        DaxFile::open(&scratch.0, LEN - 1).unwrap();
    }

    #[test]
    fn files_that_others_could_read_or_turn_are_refused() {
        let scratch = Scratch::new("refused");
        let mode = |mode: u32| std::fs::set_permissions(&scratch.0, PermissionsExt::from_mode(mode)).unwrap();
        for open_mode in [0o640, 0o604, 0o620, 0o602] {
            mode(open_mode);
            assert!(scratch.refusal().contains("chmod 600"), "{open_mode:o}");
        }
        mode(0o600);
        let link = scratch.0.with_extension("link");
        symlink(&scratch.0, &link).unwrap();
        let refused = DaxFile::open(&link, LEN).unwrap_err().to_string();
        std::fs::remove_file(&link).unwrap();
        assert!(refused.contains("symbolic link"), "{refused}");
        let longer = DaxFile::open(&scratch.0, LEN + 1).unwrap_err().to_string();
        assert!(longer.contains("it has 2 MiB") && longer.contains("make it longer"), "{longer}");
        assert!(DaxFile::open(&scratch.0, GRAIN_LEN - 1).is_err());
        for (path, why) in [("/dev/null", "none of DAX"), ("/tmp", "no file and no DAX device"), ("/nowhere", "o such file")] {
            let refused = DaxFile::open(Path::new(path), LEN).unwrap_err().to_string();
            assert!(refused.contains(why), "{refused}");
        }
        assert!(std::fs::read(&scratch.0).unwrap().iter().all(|byte| *byte == 0xee), "a refused file is not touched");
    }

    #[test]
    fn another_user_s_file_is_refused() {
        let scratch = Scratch::new("owner");
        if std::os::unix::fs::chown(&scratch.0, Some(54_321), None).is_err() {
            return hanare_testkit::unable("only root gives files away");
        }
        assert!(scratch.refusal().contains("it is user 54321's"));
    }

    #[test]
    fn a_device_is_read_from_its_folder() {
        let folder = std::env::temp_dir().join(format!("hanare-daxdev-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.join(name), text).unwrap();
        assert!(Device::read(&folder).unwrap_err().contains("none of DAX"));
        symlink("../../../../bus/dax", folder.join("subsystem")).unwrap();
        assert!(Device::read(&folder).unwrap_err().contains("size"));
        write("size", "17179869184\n");
        assert_eq!(Device::read(&folder), Ok(Device { len: 16 << 30, align: 2 << 20, numa: None }));
        write("align", "1073741824\n");
        assert!(Device::read(&folder).unwrap_err().contains("alignment is 1 GiB"));
        write("align", "4096\n");
        write("numa_node", "0\n");
        assert_eq!(Device::read(&folder), Ok(Device { len: 16 << 30, align: 4096, numa: Some(0) }));
        write("target_node", "2\n");
        assert_eq!(Device::read(&folder).unwrap().numa, Some(2));
        for garbage in ["", "-1", "2MiB"] {
            write("size", garbage);
            assert!(Device::read(&folder).is_err());
        }
        std::fs::remove_dir_all(&folder).unwrap();
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn ranges_are_apart_zero_and_all_come_back(steps: Vec<(u8, u16)>, seed: u32) {
            let scratch = Scratch::new(&format!("ranges-{seed}"));
            let dax = DaxFile::open(&scratch.0, LEN).unwrap();
            let file = std::fs::OpenOptions::new().read(true).write(true).open(&scratch.0).unwrap();
            let mut taken: Vec<Vec<Range<u64>>> = Vec::new();
            let free = |taken: &[Vec<Range<u64>>]| LEN - taken.iter().flatten().map(|range| range.end - range.start).sum::<u64>();
            for (which, len) in steps {
                if which % 3 == 0 && !taken.is_empty() {
                    dax.give_back(taken.swap_remove(which as usize % taken.len()));
                    continue;
                }
                let len = u64::from(len) * 11 + 1;
                let left = free(&taken);
                let Some(ranges) = dax.take(len) else {
                    prop_assert!(left < len.next_multiple_of(GRAIN_LEN), "{left} were free");
                    continue;
                };
                for range in &ranges {
                    prop_assert!(range.start.is_multiple_of(GRAIN_LEN) && range.end.is_multiple_of(GRAIN_LEN) && range.end <= LEN);
                    prop_assert!(!taken.iter().flatten().any(|other| range.start < other.end && other.start < range.end));
                    let mut bytes = vec![1; (range.end - range.start) as usize];
                    file.read_exact_at(&mut bytes, range.start).unwrap();
                    prop_assert!(bytes.iter().all(|byte| *byte == 0), "they are zero");
                    bytes.fill(0xcc);
                    file.write_all_at(&bytes, range.start).unwrap();
                }
                taken.push(ranges);
            }
            taken.into_iter().for_each(|ranges| dax.give_back(ranges));
            prop_assert_eq!(dax.lock().clone(), [(0, LEN)].into(), "all of it is one range again");
        }
    }
}
