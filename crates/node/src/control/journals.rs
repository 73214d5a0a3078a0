//! The journal of a coordinator that runs here, by where its records go.

use crate::journal::Journal;
use crate::keepers::SharedEngine;
use hanare_protocol::coordinator::{BatchNumber, Commits, Coordinator, Record};
use hanare_protocol::{Error, Result};
use std::path::Path;

/// The journal of a coordinator.
pub(crate) enum Journals {
    /// Names end with the process.
    Nowhere,
    /// A file of this process alone: what is written is committed.
    File(Journal),
    /// The log of several keepers, one of which this node is: what a majority of them has is committed.
    Keepers(SharedEngine),
}

impl Journals {
    /// Opens the file, if there is to be one. Returns the records in it.
    ///
    /// **Errors**: those of [`Journal::open`].
    pub fn open(path: Option<&Path>) -> Result<(Journals, Vec<Record>)> {
        let Some(path) = path else { return Ok((Journals::Nowhere, Vec::new())) };
        let (journal, records) = Journal::open(path)?;
        Ok((Journals::File(journal), records))
    }

    /// True if the disk is full.
    pub fn is_full(&self) -> bool {
        match self {
            Journals::Nowhere => false,
            Journals::File(journal) => journal.is_full(),
            Journals::Keepers(engine) => engine.lock().is_failing(),
        }
    }

    /// Looks whether a full disk has room again.
    pub fn look(&mut self) {
        if let Journals::File(journal) = self {
            journal.look();
        }
    }

    /// Replaces the records by fewer that mean the same, where that is worth it. All that the machine said was appended.
    ///
    /// **Errors**: the disk's.
    pub fn compact(&mut self, machine: &Coordinator) -> Result<()> {
        match self {
            Journals::File(journal) if !journal.is_full() && machine.is_worth_compacting(journal.count()) => {
                journal.replace(&machine.snapshot())
            }
            Journals::Keepers(engine) => {
                let mut engine = engine.lock();
                if engine.is_settled() && machine.is_worth_compacting(engine.records().len()) {
                    engine.append(machine.snapshot(), true);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }
}

impl Commits for Journals {
    type Error = Error;

    fn append(&mut self, records: Vec<Record>) -> Result<BatchNumber> {
        match self {
            Journals::File(journal) if !records.is_empty() => journal.append(&records)?,
            Journals::Keepers(engine) => return Ok(engine.lock().append(records, false)),
            _ => {}
        }
        Ok(BatchNumber::default())
    }

    fn committed(&self) -> BatchNumber {
        match self {
            Journals::Keepers(engine) => engine.lock().committed(),
            _ => BatchNumber::default(),
        }
    }
}
