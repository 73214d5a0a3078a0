//! What a node writes down of its extents at a good end, and on a schedule, and what its next start reads.
//!
//! ```text
//! magic (8)  length of the head (8)  sum of the head (32)  head  { place (24)  sum of place and bytes (32)  bytes } ...  end mark
//! ```
//!
//! A place is the extent's number in the head, the first byte in it and the length, 8 bytes each; the end mark is a place whose extent
//! is the greatest number, with the number of blocks behind it. Blocks of zeros are left out: a restored extent is zero where nothing is
//! written. Units that queues of an extent have spilled follow its bytes: see [`blocks`].
//!
//! A file appears under its name when it is whole and on the disk: whenever the process is killed there is the old file or the new one.
//! Whether its bytes still are those of the pool's regions is for the coordinator to say: it takes them from the life that came right
//! after the one that wrote them.

mod blocks;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;

use super::extents::{Described, Extents};
use super::held::Held;
use blocks::{fill, write_blocks};
use hanare_protocol::id::{Gid, Incarnation};
use hanare_protocol::limits::{KEPT_HEAD_LEN_MAX, REGION_COUNT_MAX};
use hanare_protocol::size::Size;
use hanare_protocol::wire::control::{self, HeldExtent};
use hanare_protocol::{Error, Result};
use rustix::fs::{FlockOperation, flock};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{BufReader, BufWriter, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

const MAGIC: &[u8; 8] = b"HANAKEP1";
/// Bytes that are written, checked and left out together.
const BLOCK_LEN: usize = 1 << 20;
/// Bytes of a checksum.
const SUM_LEN: usize = 32;
/// How often a long write says how far it is.
const TELL: Duration = Duration::from_secs(5);

/// A link in place of a file leads to somebody else's.
const NOFOLLOW: i32 = rustix::fs::OFlags::NOFOLLOW.bits() as i32;

/// Where and how often a node writes its extents down.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Persist {
    /// The folder, for one node alone.
    pub folder: PathBuf,
    /// How often besides its end.
    pub every: Option<Duration>,
}

/// What stands before the bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Head {
    life: Incarnation,
    name: String,
    /// Seconds since 1970.
    written: u64,
    extents: Vec<Described>,
}

/// The folder, which is this process's as long as this is there.
pub(crate) struct Keeper {
    folder: PathBuf,
    life: Incarnation,
    name: String,
    /// Whether the pool knows of this life: of one that it never heard of it takes no bytes, and what was written before is better.
    has_joined: AtomicBool,
    _lock: File,
}

/// What a start finds of the life before.
pub(crate) struct Restored {
    pub life: Incarnation,
    pub held: Vec<HeldExtent>,
}

impl Keeper {
    /// Takes the folder, made where it is not there. **Errors**: [`Error::BadSetting`] where another node has it.
    pub fn open(folder: &Path, life: Incarnation, name: &str) -> Result<Keeper> {
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(|error| failed("make", folder, &error))?;
        let path = folder.join("lock");
        let lock = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).custom_flags(NOFOLLOW).open(&path);
        let lock = lock.map_err(|error| failed("open", &path, &error))?;
        flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|_| Error::BadSetting {
            key: "--persist".to_owned(),
            value: folder.display().to_string(),
            reason: "another node that runs writes there; give each a folder of its own".to_owned(),
        })?;
        Ok(Keeper { folder: folder.to_owned(), life, name: name.to_owned(), has_joined: AtomicBool::new(false), _lock: lock })
    }

    fn path(&self) -> PathBuf {
        self.folder.join("node.kept")
    }

    /// Reads the life before back into extents; `None` where nothing was written.
    ///
    /// **Errors**: [`Error::System`] for a file that is not as it was written; [`Error::BadSetting`] for one of a node of another name;
    /// [`Error::PoolFull`] where this node lends less than is to be held.
    pub fn restore(&self, extents: &Extents) -> Result<Option<Restored>> {
        let path = self.path();
        let file = match OpenOptions::new().read(true).custom_flags(NOFOLLOW).open(&path) {
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
            reason: format!("the file is damaged ({why}); restore it from a copy, or move it away to begin without these bytes"),
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

    /// Writes all extents down, in place of what was written before. Returns how many bytes they have; `None`, and what was written before
    /// stays, where the pool has not taken this life in.
    pub fn write(&self, extents: &Extents) -> Result<Option<u64>> {
        if !self.has_joined.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let (described, all): (Vec<Described>, Vec<Arc<Held>>) = extents.describe().into_iter().unzip();
        let written = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
        let head = Head { life: self.life, name: self.name.clone(), written, extents: described };
        let total = all.iter().map(|held| held.len()).fold(0, u64::saturating_add);
        let (path, unfinished) = (self.path(), self.folder.join("node.kept.part"));
        let write = || -> std::io::Result<()> {
            // What a write that was killed has left, or somebody else: a file of its own is written.
            let _ = std::fs::remove_file(&unfinished);
            let file = OpenOptions::new().create_new(true).write(true).mode(0o600).custom_flags(NOFOLLOW).open(&unfinished)?;
            let mut into = BufWriter::with_capacity(BLOCK_LEN, file);
            write_head(&mut into, &head)?;
            write_blocks(&mut into, &all, &mut Progress::new(total, &path))?;
            into.into_inner()?.sync_all()?;
            std::fs::rename(&unfinished, &path)?;
            File::open(&self.folder)?.sync_all()
        };
        write().map_err(|error| {
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

/// Writes on a schedule, until it is stopped.
pub(crate) struct Schedule {
    stop: Sender<()>,
    thread: Option<JoinHandle<()>>,
}

impl Schedule {
    pub fn start(keeper: Arc<Keeper>, extents: Arc<Extents>, every: Duration) -> Result<Schedule> {
        let (stop, stopped): (Sender<()>, Receiver<()>) = channel();
        let run = move || {
            while stopped.recv_timeout(every) == Err(RecvTimeoutError::Timeout) {
                if let Err(error) = keeper.write(&extents) {
                    tracing::error!("{error}; what was written before stays");
                }
            }
        };
        let thread = std::thread::Builder::new().name("keeper".to_owned()).spawn(run);
        let thread = thread.map_err(|error| Error::System { what: "start a thread".to_owned(), reason: error.to_string() })?;
        Ok(Schedule { stop, thread: Some(thread) })
    }
}

impl Drop for Schedule {
    fn drop(&mut self) {
        let _ = self.stop.send(());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hanare_memory::file::Huge;
    use hanare_memory::{Lender, LenderOptions};
    use hanare_protocol::id::Slot;

    const LIFE: Incarnation = Incarnation(7);

    fn extents() -> Extents {
        extents_in(64 << 20)
    }

    fn extents_in(bytes: u64) -> Extents {
        let options = LenderOptions { bytes, slab_len: None, huge: Huge::Never, ahead: 0, promises: None };
        Extents::new(Arc::new(Lender::new(&options).unwrap()))
    }

    fn keeper(folder: &Path) -> Keeper {
        let keeper = Keeper::open(folder, LIFE, "n").unwrap();
        keeper.on_joined();
        keeper
    }

    fn bytes_of(held: &Held) -> Vec<u8> {
        let mut bytes = vec![0; held.len() as usize];
        held.reach().window().read_into(&mut bytes).unwrap();
        bytes
    }

    /// Three extents: small, none but zeros, and longer than a block; the first slot is empty.
    fn filled() -> Extents {
        let extents = extents();
        for (gid, len) in [(1, 4096), (2, 100), (3, 8 << 20), (4, 3 << 20)] {
            extents.make(Gid(gid), &[len]).unwrap();
        }
        extents.free(&[Slot(0)]);
        for (described, held) in extents.describe() {
            if described.gid != Gid(3) {
                let bytes: Vec<u8> = (0..described.len).map(|at| (at / 7 + described.gid.0) as u8).collect();
                held.reach().window().write_from(&bytes).unwrap();
            }
        }
        extents
    }

    #[test]
    fn what_was_written_is_read_into_the_same_slots_and_zeros_take_no_room() {
        let folder = tempfile::tempdir().unwrap();
        let before = filled();
        assert_eq!(keeper(folder.path()).write(&before).unwrap(), Some(100 + (11 << 20)));
        let len = std::fs::metadata(folder.path().join("node.kept")).unwrap().len();
        assert!(len < (3 << 20) + 4096, "{len}");
        let after = extents();
        let restored = keeper(folder.path()).restore(&after).unwrap().unwrap();
        assert_eq!((restored.life, restored.held.len()), (LIFE, 3));
        for ((old, was), (new, is)) in before.describe().iter().zip(after.describe()) {
            assert_eq!(*old, new);
            assert!(bytes_of(was) == bytes_of(&is), "{}", new.gid);
        }
        assert_eq!(after.make(Gid(9), &[64]).unwrap()[0].slot, Slot(0), "the empty slot is given out again");
    }

    #[test]
    fn a_life_that_the_pool_has_not_taken_in_writes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        keeper(folder.path()).write(&filled()).unwrap();
        let next = Keeper::open(folder.path(), Incarnation(8), "n").unwrap();
        let after = extents();
        assert!(next.restore(&after).unwrap().is_some());
        assert_eq!(next.write(&after).unwrap(), None);
        assert_eq!(next.restore(&extents()).unwrap().unwrap().life, LIFE, "the life before is the one that the pool knows");
        next.on_joined();
        assert!(next.write(&after).unwrap().is_some());
        assert_eq!(next.restore(&extents()).unwrap().unwrap().life, Incarnation(8));
    }

    #[test]
    fn a_file_that_was_cut_or_changed_anywhere_is_refused_and_named() {
        let folder = tempfile::tempdir().unwrap();
        keeper(folder.path()).write(&filled()).unwrap();
        let path = folder.path().join("node.kept");
        let whole = std::fs::read(&path).unwrap();
        let step = whole.len() / 23;
        let cut = (0..whole.len()).step_by(step).map(|len| whole[..len].to_vec());
        let changed = (0..whole.len()).step_by(step).map(|at| {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x10;
            bytes
        });
        let longer = [&whole[..], b"x"].concat();
        for (number, bytes) in cut.chain(changed).chain([longer]).enumerate() {
            std::fs::write(&path, bytes).unwrap();
            let error = keeper(folder.path()).restore(&extents()).map(drop).unwrap_err().to_string();
            assert!(error.contains("damaged") && error.contains(path.to_str().unwrap()), "{number}: {error}");
        }
        std::fs::write(&path, whole).unwrap();
        assert!(keeper(folder.path()).restore(&extents()).unwrap().is_some());
    }

    #[test]
    fn a_write_that_ends_anywhere_leaves_the_file_before_it() {
        let folder = tempfile::tempdir().unwrap();
        keeper(folder.path()).write(&filled()).unwrap();
        let before = std::fs::read(folder.path().join("node.kept")).unwrap();
        std::fs::write(folder.path().join("node.kept.part"), &before[..before.len() / 2]).unwrap();
        assert_eq!(keeper(folder.path()).restore(&extents()).unwrap().unwrap().held.len(), 3);
        let other = extents();
        other.make(Gid(5), &[10]).unwrap();
        keeper(folder.path()).write(&other).unwrap();
        assert_eq!(keeper(folder.path()).restore(&extents()).unwrap().unwrap().held[0].gid, Gid(5));
    }

    #[test]
    fn what_others_put_into_the_folder_is_neither_written_through_nor_believed() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let folder = tempfile::tempdir().unwrap();
        let (keeper, theirs) = (keeper(folder.path()), folder.path().join("theirs"));
        std::fs::write(&theirs, "theirs").unwrap();
        let (part, kept) = (folder.path().join("node.kept.part"), folder.path().join("node.kept"));
        symlink(&theirs, &part).unwrap();
        keeper.write(&filled()).unwrap();
        assert_eq!(std::fs::read(&theirs).unwrap(), b"theirs");
        // A file that others may read, left where ours is to be written.
        std::fs::write(&part, "").unwrap();
        std::fs::set_permissions(&part, std::fs::Permissions::from_mode(0o666)).unwrap();
        keeper.write(&filled()).unwrap();
        assert_eq!(std::fs::metadata(&kept).unwrap().permissions().mode() & 0o777, 0o600);
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&kept, Some(65_534), None).unwrap();
            assert!(matches!(keeper.restore(&extents()), Err(Error::BadSetting { .. })), "another user's");
        }
        std::fs::rename(&kept, folder.path().join("moved")).unwrap();
        symlink(folder.path().join("moved"), &kept).unwrap();
        assert!(keeper.restore(&extents()).is_err(), "a link");
    }

    #[test]
    fn a_folder_is_of_one_node_and_one_name() {
        let folder = tempfile::tempdir().unwrap();
        let first = keeper(folder.path());
        assert!(matches!(Keeper::open(folder.path(), LIFE, "n"), Err(Error::BadSetting { .. })));
        first.write(&filled()).unwrap();
        drop(first);
        let other = Keeper::open(folder.path(), LIFE, "m").unwrap();
        assert!(matches!(other.restore(&extents()), Err(Error::BadSetting { .. })));
        drop(other);
        assert!(matches!(keeper(folder.path()).restore(&extents_in(1 << 20)), Err(Error::PoolFull { .. })));
    }

    #[test]
    fn what_queues_have_spilled_is_read_back_in_order() {
        use hanare_protocol::queue::{Overflow, PortId, QueueForm, Unit};
        let form = QueueForm { unit: Unit::Records { len_max: 1 << 20 }, depth: 2, ports: 2, overflow: Overflow::Spill };
        let units: Vec<Vec<u8>> = (0..7_usize).map(|k| vec![k as u8 + 1; [(1 << 20), 3, 0, 700_000][k % 4]]).collect();
        let folder = tempfile::tempdir().unwrap();
        let before = extents();
        before.make(Gid(1), &[form.array_len(1).unwrap()]).unwrap();
        let held = before.describe()[0].1.clone();
        held.reach().window().slice(0, 64).write_from(&form.encode(1)).unwrap();
        let (writer, reader) = (PortId(5), PortId(6));
        held.with_queues(0, |home| home.open_lane(0, writer, 1001)).unwrap();
        for (seq, unit) in (0..).zip(&units) {
            let front = hanare_protocol::wire::queue::AppendFront { queue: 0, writer, seq };
            let frame =
                [&(unit.len() as u64).to_le_bytes()[..], unit, &vec![0; unit.len().next_multiple_of(8) - unit.len()]].concat();
            held.append(0, 0, &[&front.encode()[..], &frame].concat()).unwrap();
        }
        let spilled = |held: &Held| {
            let mut all = Vec::new();
            held.each_spilled(&mut |_, (unit, uid)| {
                assert_eq!(uid, 1001);
                all.push(unit.to_vec());
                Ok(())
            })
            .unwrap();
            all
        };
        let were = spilled(&held);
        assert!(!were.is_empty() && units.ends_with(&were), "{} units", were.len());
        keeper(folder.path()).write(&before).unwrap();
        let after = extents();
        keeper(folder.path()).restore(&after).unwrap();
        let held = after.describe()[0].1.clone();
        assert!(spilled(&held) == were && after.spills.len() > 700_000, "they count as their user's");
        // They come back when the reader makes room, and the next writer's units go behind them.
        held.with_queues(0, |home| home.open_reader(0, 1, reader)).unwrap();
        held.with_queues(0, |home| home.open_lane(0, PortId(7), 1002)).unwrap();
        let tail = {
            let mut line = vec![0; 8];
            held.reach().window().slice((form.queue_at(1, 0) + form.lane_at(0)) as usize, 8).read_into(&mut line).unwrap();
            u64::from_le_bytes(line.try_into().unwrap())
        };
        held.with_queues(0, |home| home.free((0, 0), reader, tail)).unwrap();
        assert!(spilled(&held).len() < were.len());
        let error = keeper(folder.path()).restore(&extents_in(5 << 20)).map(drop).unwrap_err();
        assert!(matches!(error, Error::PoolFull { .. }), "{error}");
    }

    #[test]
    fn blocks_of_a_heap_that_is_gone_are_not_given_out_again() {
        let folder = tempfile::tempdir().unwrap();
        let before = extents();
        before.make(Gid(1), &[1 << 20]).unwrap();
        before.describe()[0].1.with_heap(1 << 20, |heap| heap.allocate(100, 1)).unwrap();
        keeper(folder.path()).write(&before).unwrap();
        let after = extents();
        keeper(folder.path()).restore(&after).unwrap();
        let (described, held) = &after.describe()[0];
        assert!(described.has_heap);
        assert!(matches!(held.with_heap(1 << 20, |heap| heap.allocate(100, 1)), Err(Error::BadUse { .. })));
    }
}
