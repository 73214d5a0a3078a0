//! Journals that are written, damaged and read again.

use super::*;
use std::collections::BTreeSet;

fn records(count: u64) -> Vec<Record> {
    (0..count).map(|below| Record::GidsReserved { below }).collect()
}

fn started(life: u64) -> Record {
    Record::Started { life, home: "a".to_owned(), deposed: BTreeSet::new() }
}

#[test]
fn a_journal_of_another_user_is_refused() {
    if !rustix::process::geteuid().is_root() {
        return hanare_testkit::unable("only root gives files away");
    }
    let folder = tempfile::tempdir().unwrap();
    let (path, link) = (folder.path().join("theirs"), folder.path().join("link"));
    drop(Journal::open(&path).unwrap());
    std::os::unix::fs::chown(&path, Some(65_534), None).unwrap();
    std::os::unix::fs::symlink(&path, &link).unwrap();
    for path in [path, link] {
        assert!(matches!(Journal::open(&path), Err(Error::BadSetting { .. })));
    }
}

#[test]
fn a_journal_is_for_its_owner_alone_also_one_that_others_could_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let mode = || std::fs::metadata(&path).unwrap().mode() & 0o777;
    drop(Journal::open(&path).unwrap());
    assert_eq!((mode(), std::fs::metadata(folder.path().join("journal.reserve")).unwrap().mode() & 0o777), (0o600, 0o600));
    std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
    drop(Journal::open(&path).unwrap());
    assert_eq!(mode(), 0o600);
}

#[test]
fn a_pipe_in_place_of_a_journal_is_refused_at_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, rustix::fs::Mode::from_bits_truncate(0o600)).unwrap();
    let error = Journal::open(&path).map(drop).unwrap_err().to_string();
    assert!(error.contains("no regular file"), "{error}");
}

#[test]
fn what_was_appended_is_there_in_order_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pool").join("journal");
    let (mut journal, before) = Journal::open(&path).unwrap();
    assert!(before.is_empty());
    journal.append(&records(300)).unwrap();
    journal.append(&[started(1)]).unwrap();
    drop(journal);
    let (mut journal, after) = Journal::open(&path).unwrap();
    assert_eq!(after.len(), 301);
    assert_eq!(after[..300], records(300));
    journal.replace(&records(2)).unwrap();
    journal.append(&[started(2)]).unwrap();
    drop(journal);
    let (_, last) = Journal::open(&path).unwrap();
    assert_eq!(last, [records(2), vec![started(2)]].concat());
}

#[test]
fn a_record_that_was_changed_is_refused_and_the_file_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let (mut journal, _) = Journal::open(&path).unwrap();
    journal.append(&records(3)).unwrap();
    let stored = sealed(&1u64.to_le_bytes(), &Record::GidsReserved { below: 1 });
    assert!(unsealed::<Record>(&1u64.to_le_bytes(), &stored, "record 1").is_ok());
    let damaged = unsealed::<Record>(&2u64.to_le_bytes(), &stored, "record 2").unwrap_err();
    assert!(damaged.contains("record 2 is not what was written"), "a record has its place: {damaged}");
    // The record of a newer build is whole, and has a variant that this one does not know.
    let newer = sealed(&3u64.to_le_bytes(), &(u32::MAX, 7));
    let unknown = unsealed::<Record>(&3u64.to_le_bytes(), &newer, "record 3").unwrap_err();
    assert!(unknown.contains("record 3 is of a newer build"), "{unknown}");
    let mut changed = stored;
    *changed.last_mut().unwrap() ^= 1;
    journal.write(|table| table.insert(1, changed.as_slice()).map(drop).map_err(redb::Error::from)).unwrap();
    drop(journal);
    let error = Journal::open(&path).map(drop).unwrap_err().to_string();
    assert!(error.contains(path.to_str().unwrap()) && error.contains("record 1"), "{error}");
    assert_eq!(read_journal(&path).unwrap_err().to_string(), error);
}

#[test]
fn a_file_with_pages_of_zeros_is_one_line_that_names_it() {
    let folder = tempfile::tempdir().unwrap();
    let whole = folder.path().join("whole");
    let (mut journal, _) = Journal::open(&whole).unwrap();
    journal.append(&records(2000)).unwrap();
    drop(journal);
    let bytes = std::fs::read(&whole).unwrap();
    let mut refused = 0;
    for page in 0..bytes.len() / 4096 {
        let path = folder.path().join(format!("page{page}"));
        let mut damaged = bytes.clone();
        damaged[page * 4096..][..4096].fill(0);
        std::fs::write(&path, damaged).unwrap();
        match Journal::open(&path) {
            Ok((_, found)) => assert_eq!(found, records(2000), "page {page} held nothing of use"),
            Err(error) => {
                let error = error.to_string();
                assert!(error.contains(path.to_str().unwrap()) && !error.contains('\n'), "{error}");
                refused += 1;
            }
        }
        std::fs::remove_file(&path).unwrap();
    }
    assert!(refused > 0);
}

#[test]
fn a_full_disk_is_said_and_what_has_to_be_written_still_is() {
    let folder = tempfile::tempdir().unwrap();
    let mount = |args: &[&str]| std::process::Command::new(args[0]).args(&args[1..]).arg(folder.path()).status();
    if !mount(&["mount", "-t", "tmpfs", "-o", "size=4m", "none"]).is_ok_and(|status| status.success()) {
        return hanare_testkit::unable("only root makes a small disk");
    }
    let path = folder.path().join("journal");
    let (mut journal, _) = Journal::open(&path).unwrap();
    let mut count = 0;
    while !journal.is_full() {
        journal.append(&records(500)).unwrap();
        count += 500;
        assert!(count < 1_000_000, "the disk is never full");
    }
    for _ in 0..50 {
        journal.append(&records(1)).unwrap();
    }
    journal.look();
    assert!(journal.is_full());
    drop(journal);
    let (journal, found) = Journal::open(&path).unwrap();
    assert_eq!(found.len(), count + 50);
    drop(journal);
    assert!(mount(&["umount"]).unwrap().success());
}

#[test]
fn two_coordinators_cannot_have_one_journal() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal");
    let _first = Journal::open(&path).unwrap();
    assert!(matches!(Journal::open(&path), Err(Error::BadSetting { .. })));
}
