//! Extents on disk. A node writes them at a good end and on a schedule, and reads them at its next start.
//!
//! ```text
//! magic (8)  length of the head (8)  sum of the head (32)  head  { place (24)  sum of place and bytes (32)  bytes } ...  end mark
//! ```
//!
//! A place is the extent's number in the head, the first byte in it and the length, 8 bytes each. The end mark is a place whose extent is
//! the greatest number, with the number of blocks behind it. Blocks of zeros are left out: a restored extent is zero where nothing is
//! written. Units that queues of an extent have spilled follow its bytes: see [`blocks`]. The bytes of a region are those of one moment,
//! as far as commands of this node changed them (`image`).
//!
//! A file appears under its name when it is whole and on the disk. A killed process leaves the old file or the new one. The coordinator
//! decides if its bytes still are those of the pool's regions. It takes them from the life that came right after the one that wrote them.

mod blocks;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
mod schedule;
#[cfg(test)]
mod tests;

pub(crate) use schedule::Schedule;

use super::extents::{Described, Extents};
use blocks::{fill, write_blocks};
use hanare_fabric::regular_file;
use hanare_protocol::id::{Gid, Incarnation};
use hanare_protocol::limits::{KEPT_HEAD_LEN_MAX, REGION_COUNT_MAX};
use hanare_protocol::size::Size;
use hanare_protocol::wire::control::{self, ReportedExtent};
use hanare_protocol::{Error, Result};
use rustix::fs::{FlockOperation, OFlags, flock};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

const MAGIC: &[u8; 8] = b"HANAKEP1";
/// Bytes that are written, checked and left out together.
const BLOCK_LEN: usize = 1 << 20;
/// Bytes of a checksum.
const SUM_LEN: usize = 32;
/// Time between progress reports of a long write.
const TELL: Duration = Duration::from_secs(5);

/// A link in place of a file leads to somebody else's.
const NOFOLLOW: OFlags = OFlags::NOFOLLOW;

/// Folder and schedule of a node's extents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Persist {
    /// The folder, for one node alone.
    pub folder: PathBuf,
    /// Period of writes before its end.
    pub every: Option<Duration>,
}

/// Fields before the bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Head {
    life: Incarnation,
    name: String,
    /// Seconds since 1970.
    written: u64,
    extents: Vec<Described>,
}

/// Time to wait for a folder's lock.
const LOCK_PATIENCE: Duration = Duration::from_secs(1);

/// The folder, which is this process's as long as this is there.
pub(crate) struct Keeper {
    folder: PathBuf,
    life: Incarnation,
    name: String,
    /// True if the pool knows of this life. Before that it holds no bytes, and the files of the life before are better.
    has_joined: AtomicBool,
    _lock: File,
}

/// State that a start finds of the life before.
pub(crate) struct Restored {
    pub life: Incarnation,
    pub held: Vec<ReportedExtent>,
}

/// Takes a lock. A process that has just ended may have left it to a child that it was starting. The child gives it up soon.
fn is_taken(lock: &File) -> bool {
    let until = Instant::now() + LOCK_PATIENCE;
    while flock(lock, FlockOperation::NonBlockingLockExclusive).is_err() {
        if Instant::now() >= until {
            return false;
        }
        std::thread::sleep(LOCK_PATIENCE / 100);
    }
    true
}

impl Keeper {
    /// Takes the folder, made where it is not there. **Errors**: [`Error::BadSetting`] where another node has it.
    pub fn open(folder: &Path, life: Incarnation, name: &str) -> Result<Keeper> {
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(|error| failed("make", folder, &error))?;
        let path = folder.join("lock");
        let lock = regular_file::open(&path, OpenOptions::new().create(true).truncate(false).write(true), NOFOLLOW);
        let lock = lock.map_err(|error| failed("open", &path, &error))?;
        if !is_taken(&lock) {
            return Err(Error::BadSetting {
                key: "--persist".to_owned(),
                value: folder.display().to_string(),
                reason: "another node that runs writes there; give each a folder of its own".to_owned(),
            });
        }
        Ok(Keeper { folder: folder.to_owned(), life, name: name.to_owned(), has_joined: AtomicBool::new(false), _lock: lock })
    }

    fn path(&self) -> PathBuf {
        self.folder.join("node.kept")
    }

    /// Reads the life before back into extents; `None` where nothing was written.
    ///
    /// **Errors**: [`Error::System`] for a file that is not as it was written. [`Error::BadSetting`] for one of a node of another name.
    /// [`Error::PoolFull`] where this node lends less than is to be held.
    pub fn restore(&self, extents: &Extents) -> Result<Option<Restored>> {
        let path = self.path();
        let file = match regular_file::open(&path, OpenOptions::new().read(true), NOFOLLOW) {
            Ok(file) => file,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(failed("open", &path, &error)),
        };
        // Others may write to the folder, as to a container's volume: what they put there is not believed.
        let owner = file.metadata().map_err(|error| failed("look at", &path, &error))?.uid();
        if owner != rustix::process::geteuid().as_raw() {
            return Err(Error::BadSetting {
                key: "--persist".to_owned(),
                value: path.display().to_string(),
                reason: format!(
                    "the file belongs to user {owner}, and this node is of another; chown it, if its bytes are to be read"
                ),
            });
        }
        let mut from = BufReader::with_capacity(BLOCK_LEN, file);
        let damaged = |why: &str| Error::System {
            what: format!("read {}", path.display()),
            reason: format!(
                "the file is damaged ({why}); restore it from a copy that was made since the node last ended, or move it away to begin \
                 without these bytes"
            ),
        };
        let head = read_head(&mut from).map_err(|error| damaged(&error.to_string()))?;
        if head.name != self.name {
            return Err(Error::BadSetting {
                key: "--name".to_owned(),
                value: self.name.clone(),
                reason: format!("{} has the bytes of node '{}'; give that name, or another folder", path.display(), head.name),
            });
        }
        let (held, all) = extents.restore(&head.extents)?;
        let count =
            fill(&mut from, &all).map_err(|error| error.downcast().unwrap_or_else(|error| damaged(&error.to_string())))?;
        tracing::info!("{} extents read from {}, {count} blocks with bytes", held.len(), path.display());
        Ok(Some(Restored { life: head.life, held }))
    }

    /// The pool has taken this life in.
    pub fn on_joined(&self) {
        self.has_joined.store(true, Ordering::Relaxed);
    }

    /// Writes all extents down, in place of what was written before. Returns how many bytes they have. `None` if the pool has not taken
    /// this life in: then the earlier write stays.
    pub fn write(&self, extents: &Extents) -> Result<Option<u64>> {
        if !self.has_joined.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let all = extents.describe_for_file().into_iter();
        let (lacking, whole): (Vec<_>, Vec<_>) = all.partition(|(_, held)| held.lacks_pages());
        for (Described { gid, .. }, _) in lacking {
            tracing::error!(
                "{gid} is not written down, and is lost: hosts that map it have newer pages of it, and did not send them"
            );
        }
        let described: Vec<Described> = whole.into_iter().map(|(extent, _)| extent).collect();
        let written = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let head = Head { life: self.life, name: self.name.clone(), written, extents: described };
        let total = head.extents.iter().map(|extent| extent.len).fold(0, u64::saturating_add);
        let (path, unfinished) = (self.path(), self.folder.join("node.kept.part"));
        let write = || -> std::io::Result<()> {
            // A killed write, or another program, may have left a file: it writes one of its own.
            let _ = std::fs::remove_file(&unfinished);
            let file = regular_file::open(&unfinished, OpenOptions::new().create_new(true).write(true), NOFOLLOW)?;
            let mut into = BufWriter::with_capacity(BLOCK_LEN, file);
            write_head(&mut into, &head)?;
            write_blocks(&mut into, &head.extents, (extents, &mut Progress::new(total, &path)))?;
            into.into_inner()?.sync_all()?;
            std::fs::rename(&unfinished, &path)?;
            extents.end_file(true);
            File::open(&self.folder)?.sync_all()
        };
        write().map_err(|error| {
            extents.end_file(false);
            let _ = std::fs::remove_file(&unfinished);
            failed("write", &path, &error)
        })?;
        tracing::info!("{} of regions are written down", Size(total));
        Ok(Some(total))
    }
}

fn failed(what: &str, path: &Path, error: &std::io::Error) -> Error {
    Error::System { what: format!("{what} {}", path.display()), reason: error.to_string() }
}

/// Says how far a long write is.
struct Progress<'a> {
    done: u64,
    total: u64,
    path: &'a Path,
    told: Instant,
}

impl Progress<'_> {
    fn new(total: u64, path: &Path) -> Progress<'_> {
        Progress { done: 0, total, path, told: Instant::now() }
    }

    fn advance(&mut self, len: u64) {
        self.done += len;
        if self.told.elapsed() >= TELL {
            self.told = Instant::now();
            tracing::warn!("{} of {} written to {}", Size(self.done), Size(self.total), self.path.display());
        }
    }
}

fn bad(why: &str) -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::InvalidData, why.to_owned())
}

fn sum(parts: &[&[u8]]) -> [u8; SUM_LEN] {
    let mut hash = blake3::Hasher::new();
    for part in parts {
        hash.update(part);
    }
    *hash.finalize().as_bytes()
}

fn write_head(into: &mut impl Write, head: &Head) -> std::io::Result<()> {
    let bytes = control::encode(head);
    into.write_all(MAGIC)?;
    into.write_all(&(bytes.len() as u64).to_le_bytes())?;
    into.write_all(&sum(&[MAGIC, &bytes]))?;
    into.write_all(&bytes)
}

fn read_head(from: &mut (impl Read + Seek)) -> std::io::Result<Head> {
    let (mut magic, mut len, mut found) = ([0; 8], [0; 8], [0; SUM_LEN]);
    from.read_exact(&mut magic)?;
    if magic != *MAGIC {
        return Err(bad("it does not begin as one of ours"));
    }
    from.read_exact(&mut len)?;
    from.read_exact(&mut found)?;
    let (len, begun) = (u64::from_le_bytes(len), from.stream_position()?);
    let rest = from.seek(SeekFrom::End(0))?.saturating_sub(begun);
    from.seek(SeekFrom::Start(begun))?;
    if len > rest.min(KEPT_HEAD_LEN_MAX) {
        return Err(bad("it ends within its head"));
    }
    let mut bytes = vec![0; len as usize];
    from.read_exact(&mut bytes)?;
    if sum(&[MAGIC, &bytes]) != found {
        return Err(bad("its head is not what was written"));
    }
    let head: Head = control::decode(&bytes).map_err(|malformed| bad(malformed.0))?;
    let slots: BTreeSet<u32> = head.extents.iter().map(|extent| extent.slot.0).collect();
    let fits = |extent: &Described| extent.len > 0 && extent.gid != Gid(0) && (extent.slot.0 as usize) < REGION_COUNT_MAX;
    if slots.len() != head.extents.len() || !head.extents.iter().all(fits) {
        return Err(bad("its head names extents that no node has"));
    }
    Ok(head)
}
