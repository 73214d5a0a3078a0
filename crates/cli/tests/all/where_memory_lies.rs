//! Memory is lent from named NUMA nodes, or from a file, and the command says what was obtained.

use crate::pool;

use pool::{Node, command, run};
use serde_json::Value;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

const LEN: u64 = 64 << 20;

/// A pattern that no fresh memory has.
const PATTERN: [u8; 16] = *b"hanare-was-here!";

fn hanare(node: &Node, words: &[&str]) -> pool::Ended {
    run(command(words).env("HANARE_NODE", &node.socket))
}

/// A file of the length that test nodes lend, which only this user may read.
fn file(folder: &Path, name: &str, byte: u8) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, vec![byte; LEN as usize]).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
    path
}

/// Puts 3 MiB of the pattern into a new region, and gets them again.
fn put_and_get(node: &Node, folder: &Path, name: &str) {
    let (one, two) = (folder.join("one"), folder.join("two"));
    std::fs::write(&one, PATTERN.repeat(3 << 16)).unwrap();
    hanare(node, &["region", "create", name, "3MiB"]).done();
    hanare(node, &["region", "cp", one.to_str().unwrap(), name]).done();
    hanare(node, &["region", "cp", name, two.to_str().unwrap()]).done();
    assert!(std::fs::read(&one).unwrap() == std::fs::read(&two).unwrap());
}

fn holds_pattern(file: &Path) -> bool {
    std::fs::read(file).unwrap().chunks(PATTERN.len()).any(|chunk| chunk == PATTERN)
}

fn memory(node: &Node, region: &str) -> Value {
    hanare(node, &["region", "stat", region, "--json"]).json()["memory"][0].clone()
}

/// Lends a file, kills the node, and lends the file again.
fn lends_a_file(folder: &Path, kind: &str, words: &str) {
    let path = file(folder, "lent", 0xee);
    let dax = ["--dax", path.to_str().unwrap()];
    let mut node = Node::start(None, &dax);
    assert!(std::fs::read(&path).unwrap().iter().all(|byte| *byte == 0), "it is wiped before it is lent");
    put_and_get(&node, folder, "r");
    assert!(holds_pattern(&path), "the region's bytes lie in the file");
    let told = memory(&node, "r");
    assert_eq!((told["kind"].as_str(), told["bytes"].as_u64()), (Some(kind), Some(3 << 20)), "{told}");
    let text = hanare(&node, &["region", "stat", "r"]).done();
    assert!(text.lines().any(|line| line.starts_with("memory node 0: ") && line.contains(words)), "{text}");
    let info = hanare(&node, &["info", "--json"]).json();
    assert_eq!((info["lent"]["kind"].as_str(), info["lent"]["bytes"].as_u64()), (Some(kind), Some(3 << 20)));

    let second = run(command(&["node", "--memory", "64M", "--listen", "127.0.0.1:0", "--socket", "@hanare-second"])
        .args(dax)
        .env("HANARE_KEY", pool::key())
        .env("HANARE_STATE", folder));
    second.refused(&["dax cannot be", "another node lends it already"]);
    assert!(holds_pattern(&path), "a refused lender wipes nothing");

    hanare(&node, &["region", "create", "gone", "1MiB"]).done();
    hanare(&node, &["region", "rm", "r"]).done();
    pool::wait_until("a removed region is wiped", || !holds_pattern(&path));
    put_and_get(&node, folder, "again");
    node.process.kill().unwrap();
    node.process.wait().unwrap();
    assert!(holds_pattern(&path), "a kill leaves bytes, as the page says");

    let node = Node::start(None, &dax);
    assert!(!holds_pattern(&path), "and the next start wipes them");
    hanare(&node, &["region", "create", "again", "3MiB"]).done();
    let two = folder.join("two");
    hanare(&node, &["region", "cp", "again", two.to_str().unwrap()]).done();
    assert!(std::fs::read(two).unwrap().iter().all(|byte| *byte == 0));
}

#[test]
fn a_file_on_a_disk_is_lent() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    lends_a_file(folder.path(), "disk file", "a file on a disk");
}

#[test]
fn a_file_in_memory_is_lent() {
    let Ok(folder) = tempfile::tempdir_in("/dev/shm") else { return hanare_testkit::unable("/dev/shm cannot be written") };
    lends_a_file(folder.path(), "memory file", "a file in main memory (tmpfs)");
}

#[test]
fn files_that_are_not_fit_are_refused_in_one_line() {
    let folder = tempfile::tempdir().unwrap();
    let refused = |path: &Path, words: &[&str]| {
        let node = command(&["node", "--memory", "64M", "--listen", "127.0.0.1:0", "--socket", "@hanare-refused", "--dax"])
            .arg(path)
            .env("HANARE_KEY", pool::key())
            .env("HANARE_STATE", folder.path())
            .output()
            .unwrap();
        let ended = pool::Ended { status: node.status, stdout: node.stdout, stderr: String::from_utf8(node.stderr).unwrap() };
        ended.refused(words);
    };
    let path = file(folder.path(), "fit", 1);
    let link = folder.path().join("link");
    symlink(&path, &link).unwrap();
    refused(&link, &["symbolic link", "name the file itself"]);
    let short = folder.path().join("short");
    std::fs::write(&short, vec![1; 1 << 20]).unwrap();
    std::fs::set_permissions(&short, PermissionsExt::from_mode(0o600)).unwrap();
    refused(&short, &["it has 1 MiB", "64 MiB are to be lent", "fallocate -l"]);
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o640)).unwrap();
    refused(&path, &["others may read or write it", "0640", "chmod 600"]);
    refused(Path::new("/dev/null"), &["none of DAX"]);
    refused(folder.path(), &["no file and no DAX device"]);
    assert!(std::fs::read(&path).unwrap().iter().all(|byte| *byte == 1), "none was touched");
    let both = run(command(&["node", "--memory", "64M", "--numa", "0", "--dax"]).arg(&path));
    assert!(!both.status.success() && both.stderr.contains("cannot be used with"), "{}", both.stderr);
}

#[test]
fn memory_of_a_numa_node_is_lent_and_found_there() {
    let info = run(&mut command(&["info", "--json"])).json();
    let Some(first) = info["numa"].as_array().unwrap().iter().find(|node| node["bytes"].as_u64() > Some(0)) else {
        return hanare_testkit::unable("this kernel tells of no NUMA nodes");
    };
    let number = first["number"].as_u64().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(None, &["--numa", &number.to_string(), "--huge", "never"]);
    put_and_get(&node, folder.path(), "r");
    let told = memory(&node, "r");
    assert_eq!((told["kind"].as_str(), told["pages"].as_str()), (Some("memory"), Some("small")));
    assert_eq!(told["numa_wish"], serde_json::json!([number]));
    assert_eq!(told["numa"], serde_json::json!([{ "numa_node": number, "bytes": 3 << 20 }]), "{told}");
    assert_eq!((told["absent"].as_u64(), told["untold"].as_u64(), told["estimate"].as_bool()), (Some(0), Some(0), Some(false)));
    let text = hanare(&node, &["region", "stat", "r"]).done();
    let line = format!("memory node 0: main memory bound to NUMA node {number}, small pages; 3 MiB on NUMA node {number}");
    assert!(text.lines().any(|found| found.starts_with(&line)), "{text}");
    let text = hanare(&node, &["info"]).done();
    assert!(text.contains(&format!("NUMA node {number}")) && text.contains("node 0: main memory bound to NUMA node"), "{text}");

    let refused = |wish: &str| {
        let words = ["node", "--memory", "64M", "--listen", "127.0.0.1:0", "--socket", "@hanare-numa", "--numa", wish];
        run(command(&words).env("HANARE_KEY", pool::key()).env("HANARE_STATE", folder.path()))
    };
    refused("1023").refused(&["numa cannot be '1023'", "NUMA node 1023 is not there", "name some of"]);
    let nonsense = refused("0-");
    assert!(!nonsense.status.success() && nonsense.stderr.contains("write numbers of NUMA nodes"), "{}", nonsense.stderr);
}

#[test]
fn each_node_of_a_region_tells_of_its_part() {
    let folder = tempfile::tempdir().unwrap();
    let path = file(folder.path(), "lent", 0);
    let first = Node::start(None, &["--prefault", "0"]);
    let _second = Node::start(Some(&first.address), &["--dax", path.to_str().unwrap()]);
    hanare(&first, &["region", "create", "r", "2MiB", "--place", "interleave=64K"]).done();
    let stat = hanare(&first, &["region", "stat", "r", "--json"]).json();
    let told: Vec<_> = stat["memory"]
        .as_array()
        .unwrap()
        .iter()
        .map(|told| (told["node"].as_u64().unwrap(), told["kind"].as_str().unwrap(), told["bytes"].as_u64().unwrap()))
        .collect();
    assert!(told.len() == 2 && told[0] == (0, "memory", 1 << 20) && told[1].2 == 1 << 20 && told[1].1 != "memory", "{told:?}");
    let told = |index: usize| stat["memory"][index]["estimate"].as_bool();
    assert_eq!((told(0), told(1)), (Some(false), Some(false)));
    // Huge and small pages are told as the kernel counts them, or not at all.
    let huge = stat["memory"][0]["huge"].as_u64();
    assert!(huge.is_none_or(|bytes| bytes <= 1 << 20), "{huge:?}");
}

#[test]
fn a_node_of_the_release_before_is_not_asked() {
    let first = Node::start(None, &[]);
    let old = Node::start_by(pool::Build::Last.command(&[]), Some(&first.address), &[]);
    hanare(&first, &["region", "create", "r", "1MiB", "--place", "node=1"]).done();
    let text = hanare(&first, &["region", "stat", "r"]).done();
    assert!(text.lines().any(|line| line == "memory node 1: not told: node 1 speaks an older version"), "{text}");
    drop(old);
}
