//! `hanare scrub`: a copy whose bytes were changed behind its node is named, and another takes its place.

use crate::pool;

use pool::{Nodes, wait_until};
use std::fs::{File, OpenOptions, read_dir};
use std::os::unix::fs::FileExt;

/// Stands in one page of the region, and nowhere else.
const MARK: &[u8; 32] = b"the page of which a bit is wrong";
const MARK_AT: usize = (1 << 20) + 12_345;

/// Changes a byte of the mark in the memory that a node lends: a bit of its host's memory has flipped. Returns false where no mark is.
fn flip(pid: u32) -> bool {
    let files = read_dir(format!("/proc/{pid}/fd")).unwrap().filter_map(|entry| entry.ok().map(|entry| entry.path()));
    let lends =
        |path: &std::path::PathBuf| std::fs::read_link(path).is_ok_and(|name| name.to_string_lossy().starts_with("/memfd:"));
    files.filter(lends).any(|path| OpenOptions::new().read(true).write(true).open(path).is_ok_and(|file| flip_in(&file)))
}

fn flip_in(file: &File) -> bool {
    let len = file.metadata().unwrap().len();
    let mut bytes = vec![0; 1 << 20];
    for at in (0..len).step_by(bytes.len()) {
        let count = file.read_at(&mut bytes, at).unwrap_or(0);
        // Regions lie at pages of their memory.
        let begin = MARK_AT % 4096;
        let places = (begin..count.saturating_sub(MARK.len())).step_by(4096);
        if let Some(place) = places.into_iter().find(|place| bytes[*place..].starts_with(MARK)) {
            file.write_all_at(b"T", at + place as u64).unwrap();
            return true;
        }
    }
    false
}

#[test]
fn a_copy_that_differs_is_named_and_replaced() {
    let nodes = Nodes::start(3);
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    nodes.hanare(&["region", "create", "a", "5M", "--place", "node=1", "--copies", "2"]).done();
    let mut bytes: Vec<u8> = (0..5u32 << 20).map(|at| (at / 3 % 251) as u8).collect();
    bytes[MARK_AT..MARK_AT + MARK.len()].copy_from_slice(MARK);
    std::fs::write(path("in"), &bytes).unwrap();
    nodes.hanare(&["region", "cp", &path("in"), "a"]).done();
    let same = nodes.hanare(&["scrub", "a"]).done();
    assert!(same.contains("a: 5 MiB are the same on "), "{same}");
    let stat = || nodes.hanare(&["region", "stat", "a", "--json"]).json();
    let scrubbed = |words: &[&str]| {
        let ended = nodes.hanare(&[&["scrub", "a", "--json"], words].concat());
        let code = ended.status.code();
        let value: serde_json::Value = serde_json::from_slice(&ended.stdout).unwrap();
        (code, value["regions"][0].clone())
    };
    let (_, healthy) = scrubbed(&[]);
    let holders: Vec<u64> = healthy["nodes"].as_array().unwrap().iter().filter_map(serde_json::Value::as_u64).collect();
    assert_eq!((holders.len(), holders.contains(&1)), (2, true), "{healthy}");
    let copy = *holders.iter().find(|node| **node != 1).unwrap();
    assert!(flip(nodes.nodes[copy as usize].process.id()), "the copy's bytes were not found");
    // It is named, and stays.
    let (code, found) = scrubbed(&["--dry-run"]);
    let page = (MARK_AT / 4096 * 4096) as u64;
    let difference = serde_json::json!({ "offset": page, "bytes": 4096, "home": 1, "nodes": [copy], "home_alone": false });
    assert_eq!((code, &found["differences"][0], &found["differing"]), (Some(1), &difference, &4096.into()), "{found}");
    assert_eq!(stat()["whole_copies"], 2);
    let ended = nodes.hanare(&["scrub", "a"]);
    let told = String::from_utf8_lossy(&ended.stdout).into_owned();
    assert_eq!(ended.status.code(), Some(1), "{told}");
    assert!(told.contains(&format!("a: 4 KiB at byte {page}: ")) && told.contains(" counts no more"), "{told}");
    // Another one is made of the home's bytes, which programs have read all the time.
    wait_until("it has two copies", || stat()["whole_copies"] == 2);
    assert_eq!(scrubbed(&["--dry-run"]).0, Some(0));
    nodes.hanare(&["region", "cp", "a", &path("out")]).done();
    assert!(std::fs::read(path("out")).unwrap() == bytes);
    nodes.hanare(&["region", "create", "plain", "64K"]).done();
    nodes.hanare(&["scrub", "plain"]).refused(&["plain", "one copy", "copies=2"]);
    nodes.hanare(&["scrub", "nobody"]).refused(&["nobody"]);
}
