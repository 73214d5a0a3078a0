//! The coordinator's journal: records in the order in which they came, durable before they are acted on.

use hanare_protocol::coordinator::Record;
use hanare_protocol::wire::control;
use hanare_protocol::{Error, Result};
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};
use std::path::{Path, PathBuf};

const RECORDS: TableDefinition<u64, &[u8]> = TableDefinition::new("records");
const FORMAT: TableDefinition<&str, u32> = TableDefinition::new("format");

/// Version of the records; a journal of another one is refused, not misread.
const FORMAT_VERSION: u32 = 1;

/// The journal, in a file or in memory.
pub(crate) struct Journal {
    database: Database,
    place: String,
    next: u64,
    count: usize,
}

impl Journal {
    /// Opens the journal at `path`, made with its folder when it is not there; in memory without a path. Returns the records in it.
    ///
    /// **Errors**: [`Error::BadSetting`] when another process has it open, or it is none of ours.
    pub fn open(path: Option<&Path>) -> Result<(Journal, Vec<Record>)> {
        let place = path.map_or_else(|| "memory".to_owned(), |path| path.display().to_string());
        let refuse = |error: redb::Error| Error::BadSetting {
            key: "the journal".to_owned(),
            value: place.clone(),
            reason: error.to_string(),
        };
        let database = match path {
            Some(path) => {
                make_folder(path)?;
                Database::create(path).map_err(|error| refuse(error.into()))?
            }
            None => Database::builder()
                .create_with_backend(redb::backends::InMemoryBackend::new())
                .map_err(|error| refuse(error.into()))?,
        };
        check_format(&database, &place)?;
        let mut journal = Journal { database, place: place.clone(), next: 0, count: 0 };
        let records = journal.load()?;
        Ok((journal, records))
    }

    /// Appends records and returns when they are durable.
    pub fn append(&mut self, records: &[Record]) -> Result<()> {
        let first = self.next;
        self.write(|table| {
            for (number, record) in (first..).zip(records) {
                table.insert(number, control::encode(record).as_slice())?;
            }
            Ok(())
        })?;
        self.next += records.len() as u64;
        self.count += records.len();
        Ok(())
    }

    /// Replaces all records by others that mean the same.
    pub fn replace(&mut self, records: &[Record]) -> Result<()> {
        self.write(|table| {
            table.retain(|_, _| false)?;
            for (number, record) in (0..).zip(records) {
                table.insert(number, control::encode(record).as_slice())?;
            }
            Ok(())
        })?;
        self.next = records.len() as u64;
        self.count = records.len();
        Ok(())
    }

    /// How many records there are.
    pub fn count(&self) -> usize {
        self.count
    }

    fn write(&self, fill: impl FnOnce(&mut redb::Table<u64, &'static [u8]>) -> Result<(), redb::Error>) -> Result<()> {
        let run = || -> Result<(), redb::Error> {
            let transaction = self.database.begin_write()?;
            {
                let mut table = transaction.open_table(RECORDS)?;
                fill(&mut table)?;
            }
            transaction.commit()?;
            Ok(())
        };
        run().map_err(|error| self.failed("write", &error))
    }

    fn load(&mut self) -> Result<Vec<Record>> {
        let run = || -> Result<Vec<(u64, Vec<u8>)>, redb::Error> {
            let transaction = self.database.begin_read()?;
            let table = transaction.open_table(RECORDS)?;
            let rows = table.iter()?;
            rows.map(|row| row.map(|(number, bytes)| (number.value(), bytes.value().to_vec())).map_err(redb::Error::from))
                .collect()
        };
        let rows = run().map_err(|error| self.failed("read", &error))?;
        self.next = rows.last().map_or(0, |(number, _)| number + 1);
        self.count = rows.len();
        let decode = |(number, bytes): (u64, Vec<u8>)| {
            control::decode(&bytes).map_err(|_| Error::System {
                what: format!("read the journal at {}", self.place),
                reason: format!("record {number} makes no sense; restore the file from a copy, or move it away to begin anew"),
            })
        };
        rows.into_iter().map(decode).collect()
    }

    fn failed(&self, what: &str, error: &redb::Error) -> Error {
        Error::System { what: format!("{what} the journal at {}", self.place), reason: error.to_string() }
    }
}

fn make_folder(path: &Path) -> Result<()> {
    let folder = path.parent().map(PathBuf::from).unwrap_or_default();
    std::fs::create_dir_all(&folder)
        .map_err(|error| Error::System { what: format!("make the folder {}", folder.display()), reason: error.to_string() })
}

fn check_format(database: &Database, place: &str) -> Result<()> {
    let run = || -> Result<u32, redb::Error> {
        let transaction = database.begin_write()?;
        let version = {
            transaction.open_table(RECORDS)?;
            let mut table = transaction.open_table(FORMAT)?;
            let found = table.get("version")?.map(|version| version.value());
            match found {
                Some(version) => version,
                None => {
                    table.insert("version", FORMAT_VERSION)?;
                    FORMAT_VERSION
                }
            }
        };
        transaction.commit()?;
        Ok(version)
    };
    match run() {
        Ok(FORMAT_VERSION) => Ok(()),
        Ok(other) => Err(Error::BadSetting {
            key: "the journal".to_owned(),
            value: place.to_owned(),
            reason: format!("it has format {other}, this build writes {FORMAT_VERSION}"),
        }),
        Err(error) => Err(Error::System { what: format!("open the journal at {place}"), reason: error.to_string() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(count: u64) -> Vec<Record> {
        (0..count).map(|below| Record::GidsReserved { below }).collect()
    }

    #[test]
    fn what_was_appended_is_there_in_order_after_a_restart() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pool").join("journal");
        let (mut journal, before) = Journal::open(Some(&path)).unwrap();
        assert!(before.is_empty());
        journal.append(&records(300)).unwrap();
        journal.append(&[Record::Started { life: 1 }]).unwrap();
        drop(journal);
        let (mut journal, after) = Journal::open(Some(&path)).unwrap();
        assert_eq!(after.len(), 301);
        assert_eq!(after[..300], records(300));
        journal.replace(&records(2)).unwrap();
        journal.append(&[Record::Started { life: 2 }]).unwrap();
        drop(journal);
        let (_, last) = Journal::open(Some(&path)).unwrap();
        assert_eq!(last, [records(2), vec![Record::Started { life: 2 }]].concat());
    }

    #[test]
    fn two_coordinators_cannot_have_one_journal() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let _first = Journal::open(Some(&path)).unwrap();
        assert!(matches!(Journal::open(Some(&path)), Err(Error::BadSetting { .. })));
    }
}
