//! `hanare journal check` and `export`: a journal that is whole, one that is not, and none.

use hanare::node::{Node, NodeOptions};
use hanare::{CreateOptions, Pool};
use std::path::Path;
use std::process::{Command, Output};

fn journal(words: &[&str], file: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_hanare")).arg("journal").args(words).arg(file).output().unwrap()
}

#[test]
fn a_journal_is_checked_and_exported() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("journal.redb");
    let none = journal(&["check"], &path);
    assert!(!none.status.success() && String::from_utf8_lossy(&none.stderr).contains("no journal"));
    assert!(!path.exists(), "a look makes no journal");

    let socket = format!("@hanare-test-journal-{}", std::process::id());
    let options = NodeOptions { key: None, socket, journal: Some(path.clone()), ..NodeOptions::new(16 << 20).unwrap() };
    let node = Node::start(options).unwrap();
    let client = Pool::attach_to(node.socket(), None).unwrap();
    client.create("in the journal", 4096, &CreateOptions::default()).unwrap();
    drop((client, node));

    let whole = journal(&["check"], &path);
    let told = String::from_utf8_lossy(&whole.stdout);
    assert!(whole.status.success() && told.contains("all as they were written"), "{told}");
    let exported = journal(&["export"], &path);
    let text = String::from_utf8(exported.stdout).unwrap();
    let records: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(records.iter().any(|record| record["Created"]["region"]["name"] == "in the journal"), "{text}");

    let bytes = std::fs::read(&path).unwrap();
    let at = bytes.windows(14).position(|window| window == b"in the journal").unwrap();
    let mut damaged = bytes.clone();
    damaged[at] ^= 1;
    std::fs::write(&path, &damaged).unwrap();
    let refused = journal(&["check"], &path);
    let told = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success(), "{told}");
    assert!(told.contains(path.to_str().unwrap()) && told.contains("damaged") && told.trim().lines().count() == 1, "{told}");
}
