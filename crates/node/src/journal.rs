//! The coordinator's journal: records in the order in which they came, durable before they are acted on.
//!
//! Each record is stored behind a checksum of its number and its bytes. Changes by a damaged disk or an editor are refused, not believed.
//! Beside the journal lies a *reserve*, a file that only takes room. It goes when the disk is full, so that records which must be written
//! still can be. Meanwhile [`Journal::is_full`] keeps the journal from growing further.

#[cfg(test)]
mod tests;

use hanare_fabric::regular_file::{self, FOLLOWS_LINKS, OWN_MODE};
use hanare_memory::vital;
use hanare_protocol::coordinator::Record;
use hanare_protocol::wire::control;
use hanare_protocol::{Error, Result};
use redb::{Database, ReadableDatabase, ReadableTable, TableDefinition};
use rustix::fs::{FallocateFlags, OFlags, fallocate};
use serde::{Serialize, de::DeserializeOwned};
use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

const RECORDS: TableDefinition<u64, &[u8]> = TableDefinition::new("records");
const FORMAT: TableDefinition<&str, u32> = TableDefinition::new("format");

/// A kind of file, and the version of what is in it; a file of another one is refused, not misread.
pub(crate) type Format = (&'static str, u32);

const JOURNAL: Format = ("version", 5);

/// Bytes of a checksum.
const SUM_LEN: usize = 8;

/// Bytes of the reserve: some thousand records, and the pages that the database writes for each of its transactions.
const RESERVE_LEN: u64 = 1 << 20;

/// The journal, in a file.
pub(crate) struct Journal {
    /// `None` only while it is opened again.
    database: Option<Database>,
    path: PathBuf,
    next: u64,
    count: usize,
    is_full: bool,
}

impl Journal {
    /// Opens the journal at `path`, made with its folder when it is not there. Returns the records in it.
    /// The journal names all users' regions, so its owner alone reads it, also one that was made readable for others.
    ///
    /// **Errors**: [`Error::BadSetting`] when another process has it open, or it is none of ours; [`Error::System`] when it is
    /// damaged.
    pub fn open(path: &Path) -> Result<(Journal, Vec<Record>)> {
        make_folder(path)?;
        let database = Some(open_database(path, true, JOURNAL)?);
        let mut journal = Journal { database, path: path.to_owned(), next: 0, count: 0, is_full: false };
        let records = journal.load()?;
        journal.take_reserve();
        Ok((journal, records))
    }

    /// Appends records and returns when they are durable. On a full disk the reserve makes room, once.
    ///
    /// **Errors**: the disk's, when the reserve is gone too: nothing more may be acknowledged then.
    pub fn append(&mut self, records: &[Record]) -> Result<()> {
        if let Err(error) = self.try_append(records) {
            if self.is_full {
                return Err(error);
            }
            tracing::error!("{error}; no region is made until there is room");
            self.is_full = true;
            let _ = std::fs::remove_file(self.reserve());
            self.open_again()?;
            self.try_append(records)?;
        }
        self.next += records.len() as u64;
        self.count += records.len();
        Ok(())
    }

    fn try_append(&self, records: &[Record]) -> Result<()> {
        let first = self.next;
        self.write(|table| {
            for (number, record) in (first..).zip(records) {
                table.insert(number, sealed(&number.to_le_bytes(), record).as_slice())?;
            }
            Ok(())
        })
    }

    /// Replaces all records by others that mean the same. Where the disk has no room for both they stay as they are.
    pub fn replace(&mut self, records: &[Record]) -> Result<()> {
        let written = self.write(|table| {
            table.retain(|_, _| false)?;
            for (number, record) in (0..).zip(records) {
                table.insert(number, sealed(&number.to_le_bytes(), record).as_slice())?;
            }
            Ok(())
        });
        if let Err(error) = written {
            tracing::error!("{error}; it stays as long as it is");
            self.is_full = true;
            return self.open_again();
        }
        self.next = records.len() as u64;
        self.count = records.len();
        Ok(())
    }

    /// Ends it for good: its records are elsewhere from here on. Returns the file's new name.
    ///
    /// **Errors**: [`Error::System`]; it may be opened again then.
    pub fn retire(mut self) -> Result<PathBuf> {
        self.close();
        let mut name = self.path.clone().into_os_string();
        name.push(".of-keepers");
        let retired = PathBuf::from(name);
        std::fs::rename(&self.path, &retired).map_err(|error| self.failed("rename", &error.to_string()))?;
        let _ = std::fs::remove_file(self.reserve());
        Ok(retired)
    }

    /// The number of records.
    pub fn count(&self) -> usize {
        self.count
    }

    /// True if the disk is full: events that can be refused are no longer recorded.
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// Looks whether a full disk has room again.
    pub fn look(&mut self) {
        if self.is_full {
            self.take_reserve();
        }
    }

    fn reserve(&self) -> PathBuf {
        let mut name = self.path.clone().into_os_string();
        name.push(".reserve");
        name.into()
    }

    fn take_reserve(&mut self) {
        let take = || -> std::io::Result<()> {
            let mut how = OpenOptions::new();
            let file = regular_file::open(&self.reserve(), how.create(true).write(true).truncate(false), OFlags::NOFOLLOW)?;
            fallocate(&file, FallocateFlags::empty(), 0, RESERVE_LEN)?;
            Ok(())
        };
        // A file system that cannot reserve reports a full disk when it is full.
        let taken = take();
        self.is_full = matches!(&taken, Err(error) if error.kind() == std::io::ErrorKind::StorageFull);
        if self.is_full {
            let _ = std::fs::remove_file(self.reserve());
        }
    }

    /// After an error the database takes no more; what was durable is read again.
    fn open_again(&mut self) -> Result<()> {
        self.close();
        self.database = Some(open_database(&self.path, false, JOURNAL)?);
        Ok(())
    }

    fn write(&self, fill: impl FnOnce(&mut redb::Table<u64, &'static [u8]>) -> Result<(), redb::Error>) -> Result<()> {
        let Some(database) = &self.database else {
            return Err(self.failed("write", "it is not open"));
        };
        let run = || -> Result<(), redb::Error> {
            let transaction = database.begin_write()?;
            {
                let mut table = transaction.open_table(RECORDS)?;
                fill(&mut table)?;
            }
            transaction.commit()?;
            Ok(())
        };
        match vital::caught(run) {
            Ok(done) => done.map_err(|error| self.failed("write", &error.to_string())),
            Err(panic) => Err(self.failed("write", &damaged(&panic))),
        }
    }

    fn load(&mut self) -> Result<Vec<Record>> {
        let Some(database) = &self.database else { return Err(self.failed("read", "it is not open")) };
        let run = || -> Result<Vec<(u64, Vec<u8>)>, redb::Error> {
            let transaction = database.begin_read()?;
            let table = transaction.open_table(RECORDS)?;
            let rows = table.iter()?;
            rows.map(|row| row.map(|(number, bytes)| (number.value(), bytes.value().to_vec())).map_err(redb::Error::from))
                .collect()
        };
        let rows = match vital::caught(run) {
            Ok(rows) => rows.map_err(|error| self.failed("read", &error.to_string()))?,
            Err(panic) => return Err(self.failed("read", &damaged(&panic))),
        };
        self.next = rows.last().map_or(0, |(number, _)| number.saturating_add(1));
        self.count = rows.len();
        let open = |(number, bytes): (u64, Vec<u8>)| {
            let read = unsealed(&number.to_le_bytes(), &bytes, &format!("record {number}"));
            read.map_err(|reason| self.failed("read", &reason))
        };
        rows.into_iter().map(open).collect()
    }

    /// Closes the database. Its code panics where a page that it wants to mend is damaged.
    fn close(&mut self) {
        let database = self.database.take();
        if let Err(panic) = vital::caught(|| drop(database)) {
            tracing::warn!("the journal at {}: {}", self.path.display(), damaged(&panic));
        }
    }

    fn failed(&self, what: &str, reason: &str) -> Error {
        Error::System { what: format!("{what} the journal at {}", self.path.display()), reason: reason.to_owned() }
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.close();
    }
}

/// The records of a journal that no coordinator has open, in their order.
///
/// **Errors**: as a coordinator's that opens it.
pub fn read_journal(path: &Path) -> Result<Vec<Record>> {
    let database = Some(open_database(path, false, JOURNAL)?);
    Journal { database, path: path.to_owned(), next: 0, count: 0, is_full: false }.load()
}

pub(crate) fn damaged(why: &str) -> String {
    format!("the file is damaged ({why}); restore it from a copy, or move it away to begin anew")
}

/// A value as it is stored under a key.
pub(crate) fn sealed<T: Serialize>(key: &[u8], value: &T) -> Vec<u8> {
    let bytes = control::encode(value);
    [&sum(key, &bytes)[..], &bytes].concat()
}

/// A stored value, if it is what was written there.
///
/// **Errors**: why it is none, for people, where `what` names it.
pub(crate) fn unsealed<T: DeserializeOwned>(key: &[u8], stored: &[u8], what: &str) -> Result<T, String> {
    match stored.split_first_chunk::<SUM_LEN>() {
        Some((found, bytes)) if *found == sum(key, bytes) => control::decode(bytes)
            .map_err(|_| format!("{what} is of a newer build of hanare, which this one cannot read: start the newer build here")),
        _ => Err(damaged(&format!("{what} is not what was written"))),
    }
}

fn sum(key: &[u8], bytes: &[u8]) -> [u8; SUM_LEN] {
    let mut hash = blake3::Hasher::new();
    hash.update(key).update(bytes);
    let mut sum = [0; SUM_LEN];
    hash.finalize_xof().fill(&mut sum);
    sum
}

/// Opens the database and checks its format. A damaged one panics in the database's code; here that is an error like others.
pub(crate) fn open_database(path: &Path, may_make: bool, format: Format) -> Result<Database> {
    let place = path.display().to_string();
    let refuse =
        |error: redb::Error| Error::BadSetting { key: "the journal".to_owned(), value: place.clone(), reason: error.to_string() };
    let taken = || Error::BadSetting {
        key: "the journal".to_owned(),
        value: place.clone(),
        reason: "the coordinator of another pool writes it; join that pool with --join, or set HANARE_STATE to another folder"
            .to_owned(),
    };
    check_owner(path)?;
    let file = open_file(path, may_make).map_err(|error| refuse(redb::StorageError::Io(error).into()))?;
    let open = || match may_make {
        true => Database::builder().create_file(file).map_err(|error| match error {
            redb::DatabaseError::DatabaseAlreadyOpen => taken(),
            error => refuse(error.into()),
        }),
        false => Database::open(path).map_err(|error| refuse(error.into())),
    };
    let opened = vital::caught(|| open().and_then(|database| check_format(&database, &place, format).map(|()| database)));
    opened.unwrap_or_else(|panic| Err(Error::System { what: format!("open the journal at {place}"), reason: damaged(&panic) }))
}

/// Refuses a journal that another user has put there, itself or by a link: it says whose regions are whose.
fn check_owner(path: &Path) -> Result<()> {
    for about in [std::fs::symlink_metadata(path), std::fs::metadata(path)].into_iter().flatten() {
        if about.uid() != rustix::process::geteuid().as_raw() {
            return Err(Error::BadSetting {
                key: "the journal".to_owned(),
                value: path.display().to_string(),
                reason: format!("it belongs to user {}; set HANARE_STATE to a folder of this user", about.uid()),
            });
        }
    }
    Ok(())
}

/// Opens the file; where a coordinator has it, for its owner alone.
fn open_file(path: &Path, may_make: bool) -> std::io::Result<File> {
    let mut how = OpenOptions::new();
    let file = regular_file::open(path, how.read(true).write(true).create(may_make).truncate(false), FOLLOWS_LINKS)?;
    if may_make && file.metadata()?.mode() & 0o777 != OWN_MODE {
        file.set_permissions(Permissions::from_mode(OWN_MODE))?;
    }
    Ok(file)
}

pub(crate) fn make_folder(path: &Path) -> Result<()> {
    let folder = path.parent().map(PathBuf::from).unwrap_or_default();
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(&folder)
        .map_err(|error| Error::System { what: format!("make the folder {}", folder.display()), reason: error.to_string() })
}

fn check_format(database: &Database, place: &str, (kind, ours): Format) -> Result<()> {
    let run = || -> Result<u32, redb::Error> {
        let transaction = database.begin_write()?;
        let version = {
            transaction.open_table(RECORDS)?;
            let mut table = transaction.open_table(FORMAT)?;
            let found = table.get(kind)?.map(|version| version.value());
            match found {
                Some(version) => version,
                None => {
                    table.insert(kind, ours)?;
                    ours
                }
            }
        };
        transaction.commit()?;
        Ok(version)
    };
    match run() {
        Ok(found) if found == ours => Ok(()),
        Ok(other) => Err(Error::BadSetting {
            key: "the journal".to_owned(),
            value: place.to_owned(),
            reason: format!("it has format {other}, this build writes {ours}"),
        }),
        Err(error) => Err(Error::System { what: format!("open the journal at {place}"), reason: error.to_string() }),
    }
}

/// A journal with changes, each behind four bytes of its place and one of its length. A reader of a changed byte sees the written one.
#[cfg(any(test, fuzzing))]
pub(crate) fn fuzz(bytes: &[u8]) {
    use std::os::fd::AsRawFd;
    const COUNT: u64 = 40;
    let record = |below| Record::GidsReserved { below };
    // A file in memory, by its path.
    let file = || {
        let fd = rustix::fs::memfd_create("journal", rustix::fs::MemfdFlags::CLOEXEC).expect("memory");
        let path = PathBuf::from(format!("/proc/self/fd/{}", fd.as_raw_fd()));
        (fd, path)
    };
    thread_local! {
        static WHOLE: std::cell::OnceCell<Vec<u8>> = const { std::cell::OnceCell::new() };
    }
    let make = || {
        let (_file, path) = file();
        let (mut journal, _) = Journal::open(&path).expect("a journal");
        (0..COUNT).for_each(|number| journal.append(&[record(number)]).expect("room"));
        drop(journal);
        std::fs::read(&path).expect("the journal")
    };
    WHOLE.with(|whole| {
        let whole = whole.get_or_init(make);
        let (mut image, mut rest) = (whole.clone(), bytes);
        while let Some(([a, b, c, d, len], more)) = rest.split_first_chunk() {
            let (change, more) = more.split_at(usize::from(*len).min(more.len()));
            rest = more;
            let at = u32::from_le_bytes([*a, *b, *c, *d]) as usize % image.len();
            let end = (at + change.len()).min(image.len());
            image[at..end].copy_from_slice(&change[..end - at]);
        }
        let (_file, path) = file();
        std::fs::write(&path, &image).expect("room");
        if let Ok(records) = read_journal(&path) {
            assert!(records.iter().zip(0..).all(|(found, number)| *found == record(number)), "a changed record is believed");
        }
    });
}
