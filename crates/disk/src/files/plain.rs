//! Regions of the pool that are no part of a file system: each is a file in the root folder.
//!
//! A plain file is a region, with its length, owner and mode. It is read, written and mapped in place, grows by truncation to a longer
//! length, and goes with `rm`. It has no other names, links, times or attributes: those are a file system's.

use super::refusal::{Result, refused};
use hanare::{Pool, Region, RegionStat};
use rustix::io::Errno;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The bit that tells a region's number from a file's.
const BIT: u64 = 1 << 63;

/// Time that a list of all regions is good.
const LIST_FRESH: Duration = Duration::from_secs(1);

/// The pool's regions, as files.
pub struct Plain {
    pool: Pool,
    /// Names by number, of those that were asked for.
    names: Mutex<HashMap<u64, String>>,
    open: Mutex<HashMap<u64, (u64, Arc<Region>)>>,
    list: Mutex<Option<(Instant, Vec<RegionStat>)>>,
}

/// True for a region's number.
pub fn is_plain(ino: u64) -> bool {
    ino & BIT != 0
}

/// True if a region is part of a file system, by its name.
fn is_inner(name: &str) -> bool {
    name.rsplit_once('@').is_some_and(|(_, part)| {
        let numbered = |rest: &str| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_digit());
        let is_part = |rest: &str| [".log.", ".data."].iter().any(|kind| rest.strip_prefix(kind).is_some_and(numbered));
        part == "super"
            || part.split_at_checked(16).is_some_and(|(stem, rest)| u64::from_str_radix(stem, 16).is_ok() && is_part(rest))
    })
}

impl Plain {
    /// Sends no message before it is used.
    pub fn new(pool: &Pool) -> Plain {
        Plain { pool: pool.clone(), names: Mutex::default(), open: Mutex::default(), list: Mutex::default() }
    }

    fn names(&self) -> MutexGuard<'_, HashMap<u64, String>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The region of a name, and its number as a file.
    pub fn lookup(&self, name: &[u8]) -> Result<(u64, RegionStat)> {
        let name = std::str::from_utf8(name).map_err(|_| Errno::NOENT)?;
        if is_inner(name) {
            return Err(Errno::NOENT);
        }
        let stat = self.pool.stat(name).map_err(|error| match error {
            hanare::Error::BadName { .. } => Errno::NOENT,
            error => refused(name, &error),
        })?;
        let ino = BIT | stat.gid.0;
        self.names().insert(ino, name.to_owned());
        Ok((ino, stat))
    }

    /// The region of a number.
    pub fn stat(&self, ino: u64) -> Result<RegionStat> {
        let name = self.name(ino)?;
        let (found, stat) = self.lookup(name.as_bytes())?;
        if found == ino { Ok(stat) } else { Err(Errno::STALE) }
    }

    fn name(&self, ino: u64) -> Result<String> {
        self.names().get(&ino).cloned().ok_or(Errno::STALE)
    }

    /// Names and numbers of all.
    pub fn all(&self) -> Result<Vec<(String, u64)>> {
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        let is_fresh = list.as_ref().is_some_and(|(when, _)| when.elapsed() < LIST_FRESH);
        if !is_fresh {
            *list = Some((Instant::now(), self.pool.list().map_err(|error| refused("the list of regions", &error))?));
        }
        let stats = list.iter().flat_map(|(_, stats)| stats).filter(|stat| !is_inner(&stat.name));
        Ok(stats.map(|stat| (stat.name.clone(), BIT | stat.gid.0)).collect())
    }

    fn open(&self) -> MutexGuard<'_, HashMap<u64, (u64, Arc<Region>)>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens one; all handles of a region are one.
    pub fn open_file(&self, ino: u64) -> Result<()> {
        if let Some((count, _)) = self.open().get_mut(&ino) {
            *count += 1;
            return Ok(());
        }
        let name = self.name(ino)?;
        let region = self.pool.open(&name).map_err(|error| refused(&name, &error))?;
        if BIT | region.gid().0 != ino {
            return Err(Errno::STALE);
        }
        self.open().entry(ino).or_insert_with(|| (0, Arc::new(region))).0 += 1;
        Ok(())
    }

    /// Closes a handle.
    pub fn close_file(&self, ino: u64) {
        let mut open = self.open();
        if let Some((count, _)) = open.get_mut(&ino) {
            *count -= 1;
            if *count == 0 {
                open.remove(&ino);
            }
        }
    }

    fn region(&self, ino: u64) -> Result<Arc<Region>> {
        self.open().get(&ino).map(|(_, region)| region.clone()).ok_or(Errno::BADF)
    }

    /// Reads up to `len` bytes.
    pub fn read(&self, ino: u64, offset: u64, len: usize) -> Result<Vec<u8>> {
        let region = self.region(ino)?;
        let end = region.len().min(offset.saturating_add(len as u64));
        let mut bytes = vec![0; end.saturating_sub(offset) as usize];
        if !bytes.is_empty() {
            region.get(offset, &mut bytes).map_err(|error| refused(region.name(), &error))?;
        }
        Ok(bytes)
    }

    /// Writes within the length; `EFBIG` beyond.
    pub fn write(&self, ino: u64, offset: u64, bytes: &[u8]) -> Result<()> {
        let region = self.region(ino)?;
        if offset.checked_add(bytes.len() as u64).is_none_or(|end| end > region.len()) {
            return Err(Errno::FBIG);
        }
        region.put(offset, bytes).map_err(|error| refused(region.name(), &error))
    }

    /// Makes it longer. **Errors**: `EOPNOTSUPP` for a shorter length, because regions only grow.
    pub fn truncate(&self, ino: u64, len: u64) -> Result<()> {
        let stat = self.stat(ino)?;
        if len < stat.len {
            return Err(Errno::OPNOTSUPP);
        }
        if len > stat.len {
            let region = self.pool.resize(&stat.name, len).map_err(|error| refused(&stat.name, &error))?;
            if let Some((_, open)) = self.open().get_mut(&ino) {
                *open = Arc::new(region);
            }
        }
        Ok(())
    }

    /// Removes it.
    pub fn unlink(&self, name: &[u8]) -> Result<()> {
        let (_, stat) = self.lookup(name)?;
        self.pool.remove(&stat.name).map_err(|error| refused(&stat.name, &error))?;
        *self.list.lock().unwrap_or_else(PoisonError::into_inner) = None;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_file_system_are_no_files() {
        for name in ["files@super", "files@0123456789abcdef.log.7", "a@b@fedcba9876543210.data.12"] {
            assert!(is_inner(name), "{name}");
        }
        for name in [
            "files",
            "a@b",
            "files@super2",
            "files@log.7",
            "x@0123456789abcdef.log.",
            "x@0123456789abcdef.data.1a",
            "x@0123.log.7",
            "@",
        ] {
            assert!(!is_inner(name), "{name}");
        }
    }
}
