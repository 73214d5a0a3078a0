//! Entries of the common log, and what stands for those that it no longer has.

use hanare_protocol::coordinator::{Batch, History};
use omnipaxos::storage::{Entry, Snapshot};
use serde::{Deserialize, Serialize};

/// An entry of the log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LogEntry(pub Batch);

impl Entry for LogEntry {
    type Snapshot = LogSnapshot;
}

/// A snapshot of the log: the history of the first entries, and entries behind those, as they were put together. The first entry of each
/// edition's log stands for the edition's base, and is in a snapshot from the beginning. Of entries in the middle of
/// the log nobody can say which count. They stay as they are until all before them are there.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct LogSnapshot {
    history: History,
    /// Number of entries in the history.
    read: usize,
    parts: Vec<Vec<LogEntry>>,
}

impl LogSnapshot {
    /// The first `read` entries of a log, by what they mean.
    pub fn read(history: History, read: usize) -> LogSnapshot {
        LogSnapshot { history, read, parts: Vec::new() }
    }

    /// Number of entries that it stands for.
    pub fn count(&self) -> usize {
        self.parts.iter().fold(self.read, |count, part| count.saturating_add(part.len()))
    }

    /// The entries that were added last.
    pub fn last_part(&self) -> &[LogEntry] {
        self.parts.last().map_or(&[], Vec::as_slice)
    }

    /// The same with entries behind it.
    pub fn with(mut self, entries: &[LogEntry]) -> LogSnapshot {
        self.parts.push(entries.to_vec());
        self
    }

    /// The same for a snapshot from the log's begin: read to the end.
    pub fn folded(mut self) -> LogSnapshot {
        for LogEntry(batch) in std::mem::take(&mut self.parts).iter().flatten() {
            self.history.read(batch);
            self.read = self.read.saturating_add(1);
        }
        self
    }

    /// The history of a snapshot from the log's begin.
    pub fn history(self) -> History {
        self.folded().history
    }

    /// The history of a snapshot that is folded.
    pub fn as_history(&self) -> &History {
        &self.history
    }
}

impl Snapshot<LogEntry> for LogSnapshot {
    fn create(entries: &[LogEntry]) -> LogSnapshot {
        LogSnapshot::default().with(entries)
    }

    fn merge(&mut self, delta: LogSnapshot) {
        self.parts.extend(delta.parts);
    }

    fn use_snapshots() -> bool {
        true
    }
}
