//! `hanare node drain` of a node that writes its regions down: they go to another node that does, and are there after a restart of all.

use crate::pool;

use pool::{Running, command, key, run, signal, wait_until};
use std::path::{Path, PathBuf};

/// Processes of one pool, one after the other, each with a folder for what it keeps.
struct Kept {
    folder: tempfile::TempDir,
}

impl Kept {
    fn new() -> Kept {
        Kept { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).to_str().unwrap().to_owned()
    }

    /// The file of a node, which is there after its first writing.
    fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name).join("node.kept")
    }

    /// Starts a node that lends 64 MiB. The first of a pool joins nobody, and has a journal.
    fn start(&self, name: &str, join: Option<&str>, more: &[&str]) -> (Running, String) {
        let (socket, state) = (self.path(&format!("{name}.sock")), self.path("state"));
        let words = ["node", "--json", "--memory", "64M", "--listen", "127.0.0.1:0", "--name", name, "--socket", &socket];
        let mut command = command(&words);
        command.args(more).args(join.into_iter().flat_map(|address| ["--join", address]));
        let node = Running::start(command.env("HANARE_STATE", state).env("HANARE_KEY", key()));
        wait_until("it is ready", || node.stdout().contains('\n'));
        let said: serde_json::Value = serde_json::from_str(node.stdout().lines().next().unwrap()).unwrap();
        let address = said["address"].as_str().unwrap_or_else(|| panic!("{said}")).to_owned();
        (node, address)
    }

    /// The same for one that writes down what it holds.
    fn start_kept(&self, name: &str, join: Option<&str>, more: &[&str]) -> (Running, String) {
        let kept = self.path(name);
        self.start(name, join, &[&["--persist", kept.as_str()], more].concat())
    }

    /// The command with these words, of a program on the host of node `name`.
    fn hanare(&self, name: &str, words: &[&str]) -> pool::Ended {
        run(command(words).env("HANARE_NODE", self.path(&format!("{name}.sock"))))
    }

    fn put(&self, region: &str, bytes: &[u8]) {
        std::fs::write(self.path("in"), bytes).unwrap();
        self.hanare("zero", &["region", "cp", &self.path("in"), region]).done();
    }

    fn has(&self, region: &str, bytes: &[u8]) -> bool {
        self.hanare("zero", &["region", "cp", region, &self.path("out")]).done();
        std::fs::read(self.path("out")).unwrap() == bytes
    }

    fn nodes_of(&self, region: &str) -> serde_json::Value {
        self.hanare("zero", &["region", "stat", region, "--json"]).json()["nodes"].clone()
    }
}

fn end(node: Running) {
    signal("TERM", node.pid());
    node.wait().done();
}

fn kill(node: Running) {
    signal("KILL", node.pid());
    node.wait();
}

fn some_bytes(of: u32) -> Vec<u8> {
    (0..5u32 << 20).map(|at| (at / of % 251) as u8).collect()
}

/// True if a file has those bytes somewhere.
fn has_text(file: &Path, text: &[u8]) -> bool {
    std::fs::read(file).is_ok_and(|bytes| bytes.windows(text.len()).any(|part| part == text))
}

#[test]
fn what_a_drained_node_kept_is_kept_by_the_next() {
    let pool = Kept::new();
    let (zero, address) = pool.start_kept("zero", None, &[]);
    let (one, _) = pool.start_kept("one", Some(&address), &[]);
    let (two, _) = pool.start("two", Some(&address), &[]);
    let bytes = some_bytes(3);
    for name in ["a", "b"] {
        pool.hanare("zero", &["region", "create", name, "5M", "--place", "node=1"]).done();
        pool.put(name, &bytes);
    }
    assert!(pool.hanare("zero", &["node", "drain", "1"]).done().contains("holds nothing: its process may end"));
    for name in ["a", "b"] {
        let nodes = pool.nodes_of(name);
        assert!(nodes.as_array().unwrap().iter().all(|node| node["node"] == 0), "{nodes}");
        assert!(pool.has(name, &bytes));
    }
    let last = some_bytes(5);
    pool.put("b", &last);
    // All end soon after the move: programs have no direct access again yet.
    [one, two, zero].into_iter().for_each(end);
    for round in 0..2 {
        let (zero, address) = pool.start_kept("zero", None, &[]);
        let (one, _) = pool.start_kept("one", Some(&address), &[]);
        assert!(pool.has("a", &bytes) && pool.has("b", &last), "round {round}");
        assert!(!pool.hanare("zero", &["region", "ls"]).done().contains("lost"));
        [one, zero].into_iter().for_each(end);
    }
}

/// The node writes what it gives away as long as no other node has all of it.
#[test]
fn what_moves_when_all_end_is_where_it_was() {
    let pool = Kept::new();
    let more = ["--persist-every", "1"];
    let (zero, address) = pool.start_kept("zero", None, &[]);
    let (one, _) = pool.start_kept("one", Some(&address), &[&more[..], &["--copy-rate", "1M"]].concat());
    let bytes = some_bytes(3).repeat(3);
    pool.hanare("zero", &["region", "create", "a", "15M", "--place", "node=1"]).done();
    let begin = || pool.hanare("zero", &["node", "drain", "1", "--no-wait"]).done();
    let is_moving = || pool.hanare("zero", &["status", "--json"]).json()["nodes"][0]["used"].as_u64().unwrap() > 0;
    pool.put("a", &bytes);
    begin();
    wait_until("a copy is made", is_moving);
    [one, zero].into_iter().for_each(end);
    let (zero, address) = pool.start_kept("zero", None, &[]);
    let (one, _) = pool.start_kept("one", Some(&address), &[&more[..], &["--copy-rate", "1M"]].concat());
    assert!(pool.nodes_of("a")[0]["node"] == 1 && pool.has("a", &bytes));
    // The same for a node that is killed, as of its last writing.
    let written = || std::fs::metadata(pool.file("one")).unwrap().modified().unwrap();
    let before = written();
    wait_until("it is written in this life", || written() > before);
    begin();
    wait_until("a copy is made", is_moving);
    kill(one);
    let (one, _) = pool.start_kept("one", Some(&address), &[]);
    assert!(pool.nodes_of("a")[0]["node"] == 1 && pool.has("a", &bytes));
    [one, zero].into_iter().for_each(end);
}

#[test]
fn a_node_without_a_folder_gets_nothing_that_was_to_be_kept() {
    let pool = Kept::new();
    let (zero, address) = pool.start("zero", None, &[]);
    let (one, _) = pool.start_kept("one", Some(&address), &[]);
    let bytes = some_bytes(3);
    pool.hanare("zero", &["region", "create", "a", "5M", "--place", "node=1"]).done();
    pool.put("a", &bytes);
    let drained = pool.hanare("zero", &["node", "drain", "1"]);
    let told = String::from_utf8_lossy(&drained.stdout);
    assert!(drained.status.code() == Some(1) && told.contains("a: 5 MiB stay"), "{told}");
    assert!(told.contains("no other node that writes down has room"), "{told}");
    end(one);
    let (one, _) = pool.start_kept("one", Some(&address), &[]);
    assert!(pool.has("a", &bytes));
    [one, zero].into_iter().for_each(end);
}

#[test]
fn a_region_that_has_moved_is_written_soon_and_its_old_file_counts_no_more() {
    const OLD: &[u8] = b"good morning";
    const NEW: &[u8] = b"good evening";
    let pool = Kept::new();
    let (zero, address) = pool.start("zero", None, &[]);
    let (one, _) = pool.start_kept("one", Some(&address), &["--persist-every", "1"]);
    let (two, _) = pool.start_kept("two", Some(&address), &["--persist-every", "100000"]);
    pool.hanare("zero", &["region", "create", "a", "12", "--place", "node=1"]).done();
    pool.put("a", OLD);
    wait_until("it is written", || has_text(&pool.file("one"), OLD));
    // The file stays as it is from here on.
    std::fs::copy(pool.file("one"), pool.path("old")).unwrap();
    pool.put("a", NEW);
    pool.hanare("zero", &["node", "drain", "1"]).done();
    wait_until("the next node has written it, long before its time", || has_text(&pool.file("two"), NEW));
    kill(one);
    std::fs::rename(pool.path("old"), pool.file("one")).unwrap();
    let (one, _) = pool.start_kept("one", Some(&address), &[]);
    assert!(pool.has("a", NEW));
    kill(two);
    let (two, _) = pool.start_kept("two", Some(&address), &[]);
    assert!(pool.has("a", NEW));
    [one, two, zero].into_iter().for_each(end);
}
