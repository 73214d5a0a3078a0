//! Nodes in processes of their own, so that one can be killed or stopped while its programs and the other nodes go on.
#![allow(dead_code)]

use crate::networks::Networks;
use crate::support;
use hanare::Pool;
use hanare::node::{Node, NodeOptions};
use hanare_protocol::versions::OLDEST;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Bytes that each node lends.
const MEMORY_LEN: u64 = 128 << 20;
/// To a process: the node that it joins, or nothing for the first.
const JOIN: &str = "APART_JOIN";

/// To the process of a coordinator that comes again: its journal, and where it was.
const JOURNAL: &str = "APART_JOURNAL";
const LISTEN: &str = "APART_LISTEN";
const SOCKET: &str = "APART_SOCKET";

/// A pool of nodes that are processes.
pub struct Apart {
    nodes: Vec<Apiece>,
    /// Where the coordinator's journal is, if it keeps one.
    journal: Option<tempfile::TempDir>,
    /// A host for each node, where they do not share this one.
    networks: Option<Networks>,
    /// Where sockets of nodes on hosts of their own are: abstract ones are seen on their host alone.
    sockets: Option<tempfile::TempDir>,
    /// Nodes that begin as the release before: they speak the oldest version of the wire.
    old: BTreeSet<usize>,
}

/// One node's process.
struct Apiece {
    process: Child,
    socket: String,
    address: String,
}

impl Apart {
    pub fn start(count: usize) -> Apart {
        Apart::start_with(count, None, None, false)
    }

    /// With a coordinator that keeps a journal, so that it can come again.
    pub fn start_kept(count: usize) -> Apart {
        Apart::start_with(count, Some(tempfile::tempdir().unwrap()), None, false)
    }

    /// The same, each node on a host of its own where there are networks; of the release before if they are `old`.
    pub fn start_kept_on(networks: Option<Networks>, count: usize, old: bool) -> Apart {
        Apart::start_with(count, Some(tempfile::tempdir().unwrap()), networks, old)
    }

    fn start_with(count: usize, journal: Option<tempfile::TempDir>, networks: Option<Networks>, old: bool) -> Apart {
        let sockets = networks.as_ref().map(|_| tempfile::tempdir().unwrap());
        let old = (0..count).filter(|_| old).collect();
        let mut pool = Apart { nodes: Vec::new(), journal, networks, sockets, old };
        for node in 0..count {
            let mut settings = match pool.nodes.first() {
                None => coordinator(pool.journal.as_ref(), None),
                Some(first) => vec![(JOIN, first.address.clone())],
            };
            settings.extend(pool.networks.as_ref().map(|networks| (LISTEN, format!("{}:0", networks.address(node)))));
            let socket = |folder: &tempfile::TempDir| folder.path().join(node.to_string()).to_str().unwrap().to_owned();
            settings.extend(pool.sockets.as_ref().map(|folder| (SOCKET, socket(folder))));
            let node = pool.begin(node, &settings);
            pool.nodes.push(node);
        }
        pool
    }

    /// This program once more, on the host of a node.
    pub fn command(&self, node: usize) -> Command {
        let program = std::env::current_exe().unwrap();
        match &self.networks {
            Some(networks) => networks.command(node, &program),
            None => Command::new(program),
        }
    }

    /// The hosts, where nodes do not share this one.
    pub fn networks(&self) -> Option<&Networks> {
        self.networks.as_ref()
    }

    /// One more node, which listens at one address and tells others another.
    pub fn add_behind(&mut self, listen: &str, advertised: &str) {
        let settings = [(JOIN, &*self.nodes[0].address), (LISTEN, listen), ("HANARE_ADVERTISE", advertised)];
        let node = self.begin(self.nodes.len(), &settings.map(|(name, value)| (name, value.to_owned())));
        self.nodes.push(node);
    }

    /// A client of node `node`, outside any job.
    pub fn client(&self, node: usize) -> Pool {
        Pool::attach_to(self.socket(node), None).unwrap()
    }

    pub fn socket(&self, node: usize) -> &str {
        &self.nodes[node].socket
    }

    /// Ends it without a chance to send anything home.
    pub fn kill(&mut self, node: usize) {
        let process = &mut self.nodes[node].process;
        process.kill().unwrap();
        process.wait().unwrap();
    }

    /// Another life of it, of today's build.
    pub fn upgrade(&mut self, node: usize) {
        self.old.remove(&node);
        self.start_again(node);
    }

    /// Another life of it, at its socket: of the coordinator at its address, with its journal.
    pub fn start_again(&mut self, node: usize) {
        let mut settings = match node {
            0 => coordinator(self.journal.as_ref(), Some(&self.nodes[0])),
            _ => vec![(JOIN, self.nodes[0].address.clone()), (SOCKET, self.nodes[node].socket.clone())],
        };
        if let Some(networks) = self.networks.as_ref().filter(|_| node > 0) {
            settings.push((LISTEN, format!("{}:0", networks.address(node))));
        }
        self.nodes[node] = self.begin(node, &settings);
    }

    /// Starts a node's process on its host.
    fn begin(&self, node: usize, settings: &[(&str, String)]) -> Apiece {
        let mut command = self.command(node);
        command.args(hanare_testkit::words("apart::serves")).envs(settings.iter().cloned());
        if self.old.contains(&node) {
            command.env("HANARE_WIRE", OLDEST.to_string());
        }
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let said = lines.find_map(|line| line.ok()?.split_once("node listens at ").map(|(_, said)| said.to_owned()));
        let said = said.expect("a node says where it listens");
        // The pipe stays open, or what the node's process says later would end it.
        std::thread::spawn(move || lines.for_each(drop));
        let (socket, address) = said.split_once(' ').unwrap();
        Apiece { process, socket: socket.to_owned(), address: address.to_owned() }
    }

    /// It runs no more, until [`Apart::go_on`]: none of its threads.
    pub fn stop(&self, node: usize) {
        let process = Pid::from_child(&self.nodes[node].process);
        kill_process(process, Signal::STOP).unwrap();
        assert!(waitpid(Some(process), WaitOptions::UNTRACED).unwrap().is_some_and(|(_, status)| status.stopped()));
    }

    pub fn go_on(&self, node: usize) {
        kill_process(Pid::from_child(&self.nodes[node].process), Signal::CONT).unwrap();
    }

    pub fn address(&self, node: usize) -> &str {
        &self.nodes[node].address
    }

    /// Bytes that it has in memory.
    pub fn resident(&self, node: usize) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/{}/statm", self.nodes[node].process.id())).unwrap();
        text.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
    }

    /// How many descriptors it has open, but for lent memory, which it makes when it has time.
    pub fn descriptors(&self, node: usize) -> usize {
        let folder = format!("/proc/{}/fd", self.nodes[node].process.id());
        let files = std::fs::read_dir(folder).unwrap().filter_map(|entry| std::fs::read_link(entry.unwrap().path()).ok());
        files.filter(|file| !file.to_string_lossy().starts_with("/memfd:hanare ")).count()
    }
}

impl Drop for Apart {
    fn drop(&mut self) {
        // The coordinator goes last.
        for node in self.nodes.iter_mut().rev() {
            let _ = node.process.kill();
            let _ = node.process.wait();
        }
    }
}

/// Asks again and again until `is_so`, for a minute.
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(180), "{what} within 180 s");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// What the first node is started with, where it was before if it comes again.
fn coordinator(journal: Option<&tempfile::TempDir>, before: Option<&Apiece>) -> Vec<(&'static str, String)> {
    let mut settings = vec![(JOIN, String::new())];
    settings.extend(journal.map(|folder| (JOURNAL, folder.path().join("journal").to_str().unwrap().to_owned())));
    let first = || journal.map(|_| hanare_testkit::free_address().to_string());
    settings.extend(before.map(|before| before.address.clone()).or_else(first).map(|address| (LISTEN, address)));
    settings.extend(before.map(|before| (SOCKET, before.socket.clone())));
    settings
}

pub fn serves() {
    let Ok(join) = std::env::var(JOIN) else { return };
    let join = Some(join).filter(|join| !join.is_empty());
    let mut options = support::options(MEMORY_LEN);
    options.journal = std::env::var(JOURNAL).ok().map(Into::into);
    options.listen = std::env::var(LISTEN).unwrap_or(options.listen);
    options.socket = std::env::var(SOCKET).unwrap_or(options.socket);
    // A node's name is its identity in the pool, and the numbers of `options` are those of one process.
    let node = Node::start(NodeOptions { join, name: options.socket.replace('/', "-"), ..options }).unwrap();
    println!("\nnode listens at {} {}", node.socket(), node.address());
    // The pipe ends with the test that started this process, however that ends.
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    std::process::exit(0);
}
