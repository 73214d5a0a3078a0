//! A pool that one coordinator began gets three keepers: its journal goes to them, and its regions keep their bytes.

use crate::pool;

use hanare::{CreateOptions, Placement, Pool};
use pool::{Running, command, run, signal, wait_until};
use std::path::PathBuf;

/// Three nodes with a folder each; the last one is the coordinator at first.
struct Hosts {
    folder: tempfile::TempDir,
    addresses: Vec<String>,
}

/// The node that is the coordinator at first. Its address is the last one in order, so the list's first keeper is another.
const FIRST: usize = 2;

impl Hosts {
    fn new() -> Hosts {
        let mut addresses = [(); 3].map(|()| hanare_testkit::free_address().to_string()).to_vec();
        addresses.sort();
        Hosts { folder: tempfile::tempdir().unwrap(), addresses }
    }

    fn place(&self, at: usize, what: &str) -> PathBuf {
        self.folder.path().join(format!("{what}{at}"))
    }

    fn socket(&self, at: usize) -> String {
        self.place(at, "socket").to_str().unwrap().to_owned()
    }

    /// Starts a node, which writes its bytes down at its end.
    fn begin(&self, at: usize, more: &[&str]) -> Running {
        let (socket, kept, name) = (self.socket(at), self.place(at, "kept"), format!("n{at}"));
        let listen = &self.addresses[at];
        let words = ["node", "--memory", "64M", "--listen", listen, "--name", &name, "--socket", &socket];
        let mut node = command(&[&words[..], &["--persist", kept.to_str().unwrap()], more].concat());
        Running::start(node.env("HANARE_STATE", self.place(at, "state")).env("HANARE_KEY", pool::key()))
    }

    /// Starts all as keepers; `more` is said to the one that was the coordinator.
    fn begin_keepers(&self, more: &[&str]) -> Vec<Running> {
        let list = self.addresses.join(",");
        let words = |at| [&["--keepers", &*list][..], if at == FIRST { more } else { &[] }].concat();
        let nodes: Vec<Running> = (0..3).map(|at| self.begin(at, &words(at))).collect();
        nodes.iter().for_each(|node| node.wait_for("lends 64 MiB"));
        nodes
    }

    fn client(&self, at: usize) -> Pool {
        Pool::attach_to(&self.socket(at), None).unwrap()
    }

    /// Each region has its name as its bytes.
    fn check(&self, at: usize, names: &[&str]) {
        let pool = self.client(at);
        for name in names {
            let mut bytes = vec![0; name.len()];
            wait_until("the region has its bytes", || pool.open(name).and_then(|region| region.get(0, &mut bytes)).is_ok());
            assert_eq!(String::from_utf8_lossy(&bytes), *name);
        }
    }
}

fn make(pool: &Pool, name: &str) {
    let options = CreateOptions { placement: Placement::Node(pool.node()), ..CreateOptions::default() };
    pool.create(name, 4096, &options).unwrap().put(0, name.as_bytes()).unwrap();
}

fn end(nodes: Vec<Running>) {
    nodes.into_iter().rev().for_each(|node| {
        signal("TERM", node.pid());
        node.wait().done();
    });
}

#[test]
fn the_journal_of_one_coordinator_goes_to_three_keepers() {
    let hosts = Hosts::new();
    let first = hosts.begin(FIRST, &[]);
    first.wait_for("lends 64 MiB");
    let second = hosts.begin(0, &["--join", &hosts.addresses[FIRST]]);
    second.wait_for("lends 64 MiB");
    make(&hosts.client(FIRST), "first");
    make(&hosts.client(0), "second");
    let numbers = [0, FIRST].map(|at| hosts.client(at).node());
    end(vec![first, second]);

    let mut nodes = hosts.begin_keepers(&["--from-journal"]);
    assert_eq!([0, FIRST].map(|at| hosts.client(at).node()), numbers, "nodes keep their numbers");
    (0..3).for_each(|at| hosts.check(at, &["first", "second"]));
    let files = std::fs::read_dir(hosts.place(FIRST, "state")).unwrap();
    let files: Vec<String> = files.map(|file| file.unwrap().file_name().into_string().unwrap()).collect();
    assert!(files.iter().any(|name| name.ends_with(".redb.of-keepers")), "{files:?}");
    assert!(!files.iter().any(|name| name.starts_with("journal-") && name.ends_with(".redb")), "{files:?}");

    // Names go on without any of them.
    make(&hosts.client(1), "third");
    let leader = hosts.client(0).own_status().unwrap().keepers.into_iter().find(|keeper| keeper.leads).unwrap().address;
    let leader = hosts.addresses.iter().position(|address| *address == leader).unwrap();
    let others: Vec<usize> = (0..3).filter(|at| *at != leader).collect();
    signal("KILL", nodes[leader].pid());
    wait_until("another keeper leads", || hosts.client(others[0]).create("fourth", 4096, &CreateOptions::default()).is_ok());
    nodes.remove(leader).wait();
    end(nodes);

    // The words may stay in a service's unit.
    let nodes = hosts.begin_keepers(&["--from-journal"]);
    hosts.check(others[0], &[["second", "third", "first"][others[0]]]);
    end(nodes);
}

#[test]
fn a_journal_that_is_not_there_or_of_no_keeper_is_refused() {
    let hosts = Hosts::new();
    let list = hosts.addresses.join(",");
    let refused = |listen: &str, more: &[&str], reasons: &[&str]| {
        let words = ["node", "--memory", "64M", "--listen", listen, "--name", "n", "--keepers", &list];
        let mut node = command(&[&words[..], more].concat());
        node.env("HANARE_STATE", hosts.place(0, "state")).env("HANARE_KEY", pool::key()).env("HANARE_NODE", hosts.socket(0));
        run(&mut node).refused(reasons);
    };
    refused(&hosts.addresses[0], &["--from-journal"], &["--from-journal", "there is no journal"]);
    refused(&hosts.addresses[0], &["--from-journal", "/dev/null"], &["/dev/null"]);
    refused("127.0.0.1:0", &["--from-journal"], &["--from-journal", "this node is no keeper"]);
    // A pool of one coordinator leaves its journal: no empty pool begins beside it by mistake.
    let alone = hosts.begin(0, &[]);
    alone.wait_for("lends 64 MiB");
    end(vec![alone]);
    refused(&hosts.addresses[0], &[], &["the journal of a pool with one coordinator", "say --from-journal"]);
}
