//! A keeper's file: its part of the common log, its promises, and the list of keepers.
//!
//! The engine writes to memory. [`Store::flush`] writes what has changed to the file, in one transaction. Nothing leaves the keeper before
//! that. So what others heard of it survives its death.

use super::entry::{LogEntry, LogSnapshot};
use crate::journal::{Format, damaged, make_folder, open_database, sealed, unsealed};
use hanare_memory::vital;
use hanare_protocol::coordinator::History;
use hanare_protocol::keeper_list::KeeperList;
use hanare_protocol::limits::KEEPER_ENTRY_COUNT_MAX;
use hanare_protocol::{Error, Result};
use omnipaxos::ballot_leader_election::Ballot;
use omnipaxos::storage::{StopSign, Storage, StorageOp, StorageResult};
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const ENTRIES: TableDefinition<u64, &[u8]> = TableDefinition::new("entries");
const STATE: TableDefinition<&str, &[u8]> = TableDefinition::new("state");

const KEEPER: Format = ("keeper", 5);

/// Names of values in the table of the state.
const MARKS: &str = "marks";
const IDENTITY: &str = "identity";
const SNAPSHOT: &str = "snapshot";

/// The part of this disk in its pool.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
    /// The name of this file.
    pub own: u128,
    /// Lives of the process so far, this one counted.
    pub lives: u64,
    /// The newest list of keepers that it knows.
    pub list: KeeperList,
    /// True if the base of that edition is here. Else the disk is of a node that is no keeper, and was told the list.
    pub holds: bool,
}

impl Identity {
    /// The edition whose base is here; 0 for none.
    pub fn held(&self) -> u32 {
        if self.holds { self.list.edition } else { 0 }
    }

    /// The number of this keeper, if it takes part.
    pub fn number(&self) -> Option<u64> {
        if self.holds { self.list.number_of(self.own) } else { None }
    }
}

/// All that was decided before an edition, and in it up to some entry: a keeper with it may take part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Base {
    pub list: KeeperList,
    pub history: History,
    /// Number of entries of the edition's log that the history stands for; 1 for the edition's begin.
    pub count: usize,
    /// The round in which they were accepted, if the edition has more than its begin.
    pub round: Option<Ballot>,
}

impl Base {
    /// The begin of an edition.
    pub fn begin(list: KeeperList, history: History) -> Base {
        Base { list, history, count: 1, round: None }
    }

    /// True if a keeper can have said so.
    fn is_sound(&self) -> bool {
        let is_of = |round: Ballot| round.config_id == self.list.edition && self.list.numbers().any(|number| number == round.pid);
        self.list.is_sound() && (1..=KEEPER_ENTRY_COUNT_MAX).contains(&self.count) && self.round.is_none_or(is_of)
    }
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
    identity: Identity,
    marks: Marks,
    entries: Vec<LogEntry>,
    snapshot: Option<LogSnapshot>,
    saved: usize,
    has_marks: bool,
    has_identity: bool,
    has_snapshot: bool,
}

impl Store {
    /// Opens the file at `path`, made with its folder when it is not there: under a new name then, `fresh`. The list of keepers is `named`
    /// until there is another one. A life begins.
    ///
    /// **Errors**: [`Error::BadSetting`] when another process has it open; [`Error::System`] when it is damaged.
    pub fn open(path: &Path, named: &KeeperList, fresh: u128) -> Result<Store> {
        make_folder(path)?;
        let database = Some(open_database(path, true, KEEPER)?);
        let mut store = Store {
            database,
            path: path.to_owned(),
            identity: Identity { own: fresh, ..Identity::default() },
            marks: Marks::default(),
            entries: Vec::new(),
            snapshot: None,
            saved: 0,
            has_marks: true,
            has_identity: true,
            has_snapshot: true,
        };
        store.load()?;
        if store.identity.list.edition == 0 {
            store.identity.list = named.clone();
        }
        store.identity.lives = store.identity.lives.saturating_add(1);
        store.has_identity = true;
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
        self.identity = self.value(&rows, IDENTITY)?.ok_or_else(|| self.failed("read", &damaged("it has no name")))?;
        self.snapshot = self.value(&rows, SNAPSHOT)?.ok_or_else(|| self.failed("read", &damaged("it has no snapshot")))?;
        let first = self.marks.compacted as u64;
        for (expected, (number, bytes)) in (first..).zip(&rows.entries) {
            let what = format!("entry {expected}");
            let is_next = if *number == expected { Ok(()) } else { Err(damaged(&format!("{what} is not there"))) };
            let entry = is_next.and_then(|()| unsealed(&number.to_le_bytes(), bytes, &what));
            self.entries.push(entry.map_err(|reason| self.failed("read", &reason))?);
        }
        self.saved = self.len();
        (self.has_marks, self.has_identity, self.has_snapshot) = (false, false, false);
        Ok(())
    }

    /// A value of the state, if there is one.
    fn value<T: DeserializeOwned>(&self, rows: &Rows, name: &str) -> Result<Option<T>> {
        let read = |bytes: &Vec<u8>| unsealed(name.as_bytes(), bytes, &format!("its {name}"));
        rows.state.get(name).map(read).transpose().map_err(|reason| self.failed("read", &reason))
    }

    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// Begins an edition: all that is here of the one before goes. Returns false where that is none that can follow.
    pub fn enter(&mut self, base: Base) -> bool {
        if base.list.edition <= self.identity.held() || !base.is_sound() {
            return false;
        }
        let Base { list, history, count, round } = base;
        (self.identity.list, self.identity.holds) = (list, true);
        self.marks = Marks { promise: round, accepted: round, decided: count, compacted: count };
        self.snapshot = Some(LogSnapshot::read(history, count));
        self.entries.clear();
        self.saved = count;
        (self.has_marks, self.has_identity, self.has_snapshot) = (true, true, true);
        true
    }

    /// The base for another keeper that is to take part in the edition here.
    pub fn base(&self) -> Option<Base> {
        let snapshot = self.snapshot.as_ref().filter(|_| self.identity.holds)?;
        let (history, count) = (snapshot.as_history().clone(), self.marks.compacted);
        let round = self.marks.accepted.filter(|_| count > 1);
        Some(Base { list: self.identity.list.clone(), history, count, round })
    }

    /// A node that is no keeper hears of a list. Returns true if it is newer.
    pub fn learn(&mut self, list: &KeeperList) -> bool {
        let is_newer = list.edition > self.identity.list.edition && list.is_sound();
        // A keeper of an earlier edition may be needed to end that one.
        if !is_newer || self.identity.number().is_some() {
            return false;
        }
        (self.identity.list, self.identity.holds) = (list.clone(), false);
        self.has_identity = true;
        true
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
        if !self.has_marks && !self.has_identity && !self.has_snapshot && self.saved == self.len() {
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
        (self.has_marks, self.has_identity, self.has_snapshot) = (false, false, false);
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
                if self.has_identity {
                    state.insert(IDENTITY, sealed(IDENTITY.as_bytes(), &self.identity).as_slice())?;
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
            // An edition ends by an entry: no keeper says stop.
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
