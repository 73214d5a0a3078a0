//! A keeper's file: its part of the common log, its promises, and the names of all keepers' disks.
//!
//! The engine writes to memory. [`Store::flush`] writes what has changed to the file, in one transaction. Nothing leaves the keeper before
//! that. So what others heard of it survives its death.

use super::entry::{LogEntry, LogSnapshot};
use crate::journal::{Format, damaged, make_folder, open_database, sealed, unsealed};
use hanare_memory::vital;
use hanare_protocol::{Error, Result};
use omnipaxos::ballot_leader_election::Ballot;
use omnipaxos::storage::{StopSign, Storage, StorageOp, StorageResult};
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const ENTRIES: TableDefinition<u64, &[u8]> = TableDefinition::new("entries");
const STATE: TableDefinition<&str, &[u8]> = TableDefinition::new("state");

const KEEPER: Format = ("keeper", 4);

/// Names of values in the table of the state.
const MARKS: &str = "marks";
const DISKS: &str = "disks";
const SNAPSHOT: &str = "snapshot";

/// The names of all keepers' disks, as far as they are known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Disks {
    /// The keepers' addresses, in order of their numbers.
    pub keepers: Vec<String>,
    /// The name of this file.
    pub own: u128,
    /// The names of the others, by number.
    pub others: BTreeMap<u64, u128>,
    /// Names of disks that are lost. Their places are free for others.
    pub lost: BTreeSet<u128>,
    /// True once this keeper has taken part: it goes on without a disk that is lost and has no follower yet.
    pub has_begun: bool,
}

/// The state of the engine beside the entries.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
struct Marks {
    promise: Option<Ballot>,
    accepted: Option<Ballot>,
    decided: usize,
    /// Number of entries that are in the snapshot and not in the log.
    compacted: usize,
}

/// The store, in memory and in its file.
///
/// - `entries` are those from `marks.compacted` on.
/// - Entries below `saved` are in the file as they are here.
#[derive(Debug)]
pub(crate) struct Store {
    /// `None` only while it is opened again.
    database: Option<Database>,
    path: PathBuf,
    disks: Disks,
    marks: Marks,
    entries: Vec<LogEntry>,
    snapshot: Option<LogSnapshot>,
    saved: usize,
    has_marks: bool,
    has_disks: bool,
    has_snapshot: bool,
}

impl Store {
    /// Opens the file at `path`, made with its folder when it is not there: under a new name then, `fresh`.
    ///
    /// **Errors**: [`Error::BadSetting`] when another process has it open, or it is of a keeper of other keepers; [`Error::System`] when it
    /// is damaged.
    pub fn open(path: &Path, keepers: &[String], fresh: u128) -> Result<Store> {
        make_folder(path)?;
        let database = Some(open_database(path, true, KEEPER)?);
        let disks = Disks { keepers: keepers.to_vec(), own: fresh, ..Disks::default() };
        let mut store = Store {
            database,
            path: path.to_owned(),
            disks,
            marks: Marks::default(),
            entries: Vec::new(),
            snapshot: None,
            saved: 0,
            has_marks: true,
            has_disks: true,
            has_snapshot: true,
        };
        store.load()?;
        if store.disks.keepers != keepers {
            return Err(Error::BadSetting {
                key: "--keepers".to_owned(),
                value: keepers.join(","),
                reason: format!("{} was written by a keeper of {}; name these", path.display(), store.disks.keepers.join(",")),
            });
        }
        store.flush()?;
        Ok(store)
    }

    fn load(&mut self) -> Result<()> {
        let Some(database) = &self.database else { return Err(self.failed("read", "it is not open")) };
        let run = || -> Result<Rows, redb::Error> {
            let transaction = database.begin_read()?;
            let (state, entries) = match (transaction.open_table(STATE), transaction.open_table(ENTRIES)) {
                (Ok(state), Ok(entries)) => (state, entries),
                (Err(redb::TableError::TableDoesNotExist(_)), _) => return Ok(Rows::default()),
                (Err(error), _) | (_, Err(error)) => return Err(error.into()),
            };
            let mut rows = Rows::default();
            for row in state.iter()? {
                let (name, bytes) = row?;
                rows.state.insert(name.value().to_owned(), bytes.value().to_vec());
            }
            for row in entries.iter()? {
                let (number, bytes) = row?;
                rows.entries.push((number.value(), bytes.value().to_vec()));
            }
            Ok(rows)
        };
        let rows = match vital::caught(run) {
            Ok(rows) => rows.map_err(|error| self.failed("read", &error.to_string()))?,
            Err(panic) => return Err(self.failed("read", &damaged(&panic))),
        };
        let Some(marks) = self.value(&rows, MARKS)? else { return Ok(()) };
        self.marks = marks;
        self.disks = self.value(&rows, DISKS)?.ok_or_else(|| self.failed("read", &damaged("it has no names of disks")))?;
        self.snapshot = self.value(&rows, SNAPSHOT)?.ok_or_else(|| self.failed("read", &damaged("it has no snapshot")))?;
        let first = self.marks.compacted as u64;
        for (expected, (number, bytes)) in (first..).zip(&rows.entries) {
            let entry = unsealed(&number.to_le_bytes(), bytes).filter(|_| *number == expected);
            let why = || damaged(&format!("entry {expected} is not what was written"));
            self.entries.push(entry.ok_or_else(|| self.failed("read", &why()))?);
        }
        self.saved = self.len();
        (self.has_marks, self.has_disks, self.has_snapshot) = (false, false, false);
        Ok(())
    }

    /// A value of the state, if there is one.
    fn value<T: DeserializeOwned>(&self, rows: &Rows, name: &str) -> Result<Option<T>> {
        let why = || self.failed("read", &damaged(&format!("its {name} are not what was written")));
        rows.state.get(name).map(|bytes| unsealed(name.as_bytes(), bytes).ok_or_else(why)).transpose()
    }

    pub fn disks(&self) -> &Disks {
        &self.disks
    }

    /// Notes the name of another keeper's disk.
    pub fn meet(&mut self, keeper: u64, disk: u128) {
        self.disks.others.insert(keeper, disk);
        self.has_disks = true;
    }

    /// Notes that this keeper takes part from here on.
    pub fn note_begun(&mut self) {
        self.has_disks |= !std::mem::replace(&mut self.disks.has_begun, true);
    }

    /// Disks are lost. Returns the numbers of the keepers that had them.
    pub fn lose(&mut self, lost: &BTreeSet<u128>) -> Vec<u64> {
        if lost.is_subset(&self.disks.lost) {
            return Vec::new();
        }
        self.disks.lost.extend(lost);
        self.has_disks = true;
        self.disks.others.extract_if(.., |_, disk| lost.contains(disk)).map(|(number, _)| number).collect()
    }

    /// Number of entries, with those that only the snapshot has.
    fn len(&self) -> usize {
        self.marks.compacted.saturating_add(self.entries.len())
    }

    /// Writes what has changed to the file, and returns when it is durable. After an error the next call writes it again.
    ///
    /// **Cost**: a transaction of the database and its write to the disk; nothing where nothing has changed but the number of decided
    /// entries, which the engine finds out again. **Errors**: the disk's.
    pub fn flush(&mut self) -> Result<()> {
        if !self.has_marks && !self.has_disks && !self.has_snapshot && self.saved == self.len() {
            return Ok(());
        }
        if let Err(error) = self.write() {
            let database = self.database.take();
            if let Err(panic) = vital::caught(|| drop(database)) {
                tracing::warn!("{}: {}", self.path.display(), damaged(&panic));
            }
            self.database = open_database(&self.path, false, KEEPER).ok();
            return Err(error);
        }
        self.saved = self.len();
        (self.has_marks, self.has_disks, self.has_snapshot) = (false, false, false);
        Ok(())
    }

    fn write(&self) -> Result<()> {
        let Some(database) = &self.database else { return Err(self.failed("write", "it could not be opened again")) };
        let first = self.marks.compacted;
        let saved = self.saved.max(first);
        let run = || -> Result<(), redb::Error> {
            let transaction = database.begin_write()?;
            {
                let mut entries = transaction.open_table(ENTRIES)?;
                entries.retain_in(..first as u64, |_, _| false)?;
                entries.retain_in(saved as u64.., |_, _| false)?;
                for (number, entry) in (saved as u64..).zip(&self.entries[saved - first..]) {
                    entries.insert(number, sealed(&number.to_le_bytes(), entry).as_slice())?;
                }
                let mut state = transaction.open_table(STATE)?;
                state.insert(MARKS, sealed(MARKS.as_bytes(), &self.marks).as_slice())?;
                if self.has_disks {
                    state.insert(DISKS, sealed(DISKS.as_bytes(), &self.disks).as_slice())?;
                }
                if self.has_snapshot {
                    state.insert(SNAPSHOT, sealed(SNAPSHOT.as_bytes(), &self.snapshot).as_slice())?;
                }
            }
            transaction.commit()?;
            Ok(())
        };
        match vital::caught(run) {
            Ok(done) => done.map_err(|error| self.failed("write", &error.to_string())),
            Err(panic) => Err(self.failed("write", &damaged(&panic))),
        }
    }

    fn failed(&self, what: &str, reason: &str) -> Error {
        Error::System { what: format!("{what} the keeper's file at {}", self.path.display()), reason: reason.to_owned() }
    }

    /// Cuts the log off at `from` and goes on with `entries`.
    fn append_at(&mut self, from: usize, entries: Vec<LogEntry>) {
        self.entries.truncate(from.saturating_sub(self.marks.compacted));
        self.saved = self.saved.min(from);
        self.entries.extend(entries);
    }

    /// Drops entries below `to` from the log.
    fn trim(&mut self, to: usize) {
        let gone = to.saturating_sub(self.marks.compacted).min(self.entries.len());
        self.entries.drain(..gone);
    }

    /// The snapshot of the first `to` entries that the engine means, if there is one.
    ///
    /// OmniPaxos 0.2.4 puts another keeper's part behind too few of its own entries, or too many (`InternalStorage::sync_log`). It looks for
    /// them up to the index that is decided *with* that part. The part itself is right, and ends at `to`.
    fn mended(&self, snapshot: LogSnapshot, to: usize) -> Option<LogSnapshot> {
        if snapshot.count() == to {
            return Some(snapshot.folded());
        }
        let part = snapshot.last_part();
        let own = to.checked_sub(part.len())?.checked_sub(self.marks.compacted)?;
        let before = self.snapshot.clone().unwrap_or_default().with(self.entries.get(..own)?);
        Some(before.with(part).folded())
    }

    /// Carries all of them out, or none.
    fn apply_all(&mut self, mut ops: Vec<StorageOp<LogEntry>>) -> StorageResult<()> {
        let to = ops.iter().find_map(|op| if let StorageOp::SetCompactedIdx(to) = op { Some(*to) } else { None });
        for op in &mut ops {
            if let (StorageOp::SetSnapshot(snapshot), Some(to)) = (op, to)
                && let Some(found) = snapshot.take()
            {
                *snapshot = Some(self.mended(found, to).ok_or("a snapshot of entries that are not there")?);
            }
        }
        ops.into_iter().for_each(|op| self.apply(op));
        Ok(())
    }

    fn apply(&mut self, op: StorageOp<LogEntry>) {
        let len = self.len();
        self.has_marks |= !matches!(op, StorageOp::SetDecidedIndex(_));
        match op {
            StorageOp::AppendEntry(entry) => self.append_at(len, vec![entry]),
            StorageOp::AppendEntries(entries) => self.append_at(len, entries),
            StorageOp::AppendOnPrefix(from, entries) => self.append_at(from, entries),
            StorageOp::SetPromise(ballot) => self.marks.promise = Some(ballot),
            StorageOp::SetDecidedIndex(decided) => self.marks.decided = decided,
            StorageOp::SetAcceptedRound(ballot) => self.marks.accepted = Some(ballot),
            // The engine trims first: entries and mark change together.
            StorageOp::SetCompactedIdx(to) => self.marks.compacted = to,
            StorageOp::Trim(to) => self.trim(to),
            StorageOp::SetSnapshot(snapshot) => {
                self.snapshot = snapshot;
                self.has_snapshot = true;
            }
            // Keepers do not change their number.
            StorageOp::SetStopsign(_) => {}
        }
    }
}

/// The file's rows, as bytes.
#[derive(Default)]
struct Rows {
    state: BTreeMap<String, Vec<u8>>,
    entries: Vec<(u64, Vec<u8>)>,
}

/// The store, as the engine and the keeper share it.
#[derive(Clone, Debug)]
pub(crate) struct SharedStore(Arc<Mutex<Store>>);

impl SharedStore {
    pub fn new(store: Store) -> SharedStore {
        SharedStore(Arc::new(Mutex::new(store)))
    }

    pub fn lock(&self) -> MutexGuard<'_, Store> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn apply(&self, op: StorageOp<LogEntry>) -> StorageResult<()> {
        self.lock().apply(op);
        Ok(())
    }

    /// Entries `from..to`; none where one of them is not there.
    fn range(&self, from: usize, to: Option<usize>) -> Vec<LogEntry> {
        let store = self.lock();
        let first = store.marks.compacted;
        let at = from.checked_sub(first);
        let end = to.map_or(Some(store.entries.len()), |to| to.checked_sub(first));
        at.zip(end).and_then(|(at, end)| store.entries.get(at..end)).map(<[LogEntry]>::to_vec).unwrap_or_default()
    }
}

impl Storage<LogEntry> for SharedStore {
    fn write_atomically(&mut self, ops: Vec<StorageOp<LogEntry>>) -> StorageResult<()> {
        self.lock().apply_all(ops)
    }

    fn append_entry(&mut self, entry: LogEntry) -> StorageResult<()> {
        self.apply(StorageOp::AppendEntry(entry))
    }

    fn append_entries(&mut self, entries: Vec<LogEntry>) -> StorageResult<()> {
        self.apply(StorageOp::AppendEntries(entries))
    }

    fn append_on_prefix(&mut self, from_idx: usize, entries: Vec<LogEntry>) -> StorageResult<()> {
        self.apply(StorageOp::AppendOnPrefix(from_idx, entries))
    }

    fn set_promise(&mut self, promise: Ballot) -> StorageResult<()> {
        self.apply(StorageOp::SetPromise(promise))
    }

    fn set_decided_idx(&mut self, decided: usize) -> StorageResult<()> {
        self.apply(StorageOp::SetDecidedIndex(decided))
    }

    fn get_decided_idx(&self) -> StorageResult<usize> {
        Ok(self.lock().marks.decided)
    }

    fn set_accepted_round(&mut self, round: Ballot) -> StorageResult<()> {
        self.apply(StorageOp::SetAcceptedRound(round))
    }

    fn get_accepted_round(&self) -> StorageResult<Option<Ballot>> {
        Ok(self.lock().marks.accepted)
    }

    fn get_entries(&self, from: usize, to: usize) -> StorageResult<Vec<LogEntry>> {
        Ok(self.range(from, Some(to)))
    }

    fn get_log_len(&self) -> StorageResult<usize> {
        Ok(self.lock().entries.len())
    }

    fn get_suffix(&self, from: usize) -> StorageResult<Vec<LogEntry>> {
        Ok(self.range(from, None))
    }

    fn get_promise(&self) -> StorageResult<Option<Ballot>> {
        Ok(self.lock().marks.promise)
    }

    fn set_stopsign(&mut self, stop: Option<StopSign>) -> StorageResult<()> {
        self.apply(StorageOp::SetStopsign(stop))
    }

    fn get_stopsign(&self) -> StorageResult<Option<StopSign>> {
        Ok(None)
    }

    fn trim(&mut self, to: usize) -> StorageResult<()> {
        self.apply(StorageOp::Trim(to))
    }

    fn set_compacted_idx(&mut self, to: usize) -> StorageResult<()> {
        self.apply(StorageOp::SetCompactedIdx(to))
    }

    fn get_compacted_idx(&self) -> StorageResult<usize> {
        Ok(self.lock().marks.compacted)
    }

    fn set_snapshot(&mut self, snapshot: Option<LogSnapshot>) -> StorageResult<()> {
        self.apply(StorageOp::SetSnapshot(snapshot))
    }

    fn get_snapshot(&self) -> StorageResult<Option<LogSnapshot>> {
        Ok(self.lock().snapshot.clone())
    }
}
