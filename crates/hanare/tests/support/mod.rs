//! Pools for tests: nodes in threads of the test's own process, each with its own sockets.
#![allow(dead_code)]

use hanare::node::{Node, NodeOptions};
use hanare::{CreateOptions, JobId, JobRank, NodeId, Placement, Pool, Rank};
use hanare_fabric::agree;
use hanare_fabric::tcp::{self, Caller, Keys};
use hanare_protocol::id::User;
use hanare_protocol::versions::Versions;
use hanare_protocol::wire::greeting::{Role, Sealing};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

static COUNT: AtomicU32 = AtomicU32::new(0);

/// Threads of a scope look at this flag, and end when it is set. That is when this is dropped, also where the test fails: a scope waits for its
/// threads without end.
pub struct Ends<'a>(pub &'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A pool of nodes that treat each other as strangers.
pub struct TestPool {
    pub nodes: Vec<Node>,
}

pub fn options(memory: u64) -> NodeOptions {
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    NodeOptions {
        key: Some(key()),
        name: format!("n{number}"),
        socket: format!("@hanare-test-{}-{number}", std::process::id()),
        ..NodeOptions::new(memory).unwrap()
    }
}

/// A region's place: one node.
pub fn on(node: u32) -> CreateOptions {
    CreateOptions { placement: Placement::Node(NodeId(node)), ..CreateOptions::default() }
}

/// The file with the key of all tests' pools: nodes that are processes of their own read it too.
pub fn key() -> PathBuf {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pool.key");
    if !file.exists() {
        // Another process may be faster.
        let _ = hanare::node::new_key_file(&file);
    }
    file
}

/// What nodes of these pools prove.
pub fn keys() -> Keys {
    let text = std::fs::read_to_string(key()).unwrap();
    let digits = text.trim_end().strip_prefix("hanare-key ").unwrap();
    let mut bytes = [0; 32];
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&digits[2 * index..2 * index + 2], 16).unwrap();
    }
    Keys::of(&bytes, Sealing::Auto)
}

/// The socket of a connection that is not sealed: both ends are on this host.
fn plain_socket(greeted: tcp::Greeted, deadline: Instant) -> std::os::fd::OwnedFd {
    agree::take_channel(greeted, deadline).unwrap().into_socket().unwrap().into()
}

/// A data link to the node there, byte by byte, of client 1.
pub fn data_link(address: &str) -> TcpStream {
    data_link_as(address, 1)
}

/// The same, of a client whose number is its user's.
pub fn data_link_as(address: &str, uid: u32) -> TcpStream {
    let (keys, deadline) = (keys(), Instant::now() + Duration::from_secs(20));
    let (client, user) = (uid.into(), User { uid, gid: uid });
    let caller = Caller { role: Role::Data, from: 0, client, user, sealing: Sealing::Auto, versions: Versions::BUILD };
    let greeted = tcp::connect(address, caller, &|hellos| Ok(keys.secret(hellos).unwrap()), deadline).unwrap();
    let socket = TcpStream::from(plain_socket(greeted, deadline));
    socket.set_nonblocking(false).unwrap();
    socket
}

/// A node's connection for control messages to the coordinator there, byte by byte.
pub fn control_link(address: &str) -> TcpStream {
    let (keys, deadline) = (keys(), Instant::now() + Duration::from_secs(20));
    let caller = keys.caller(Role::Control, 0);
    let greeted = tcp::connect(address, caller, &|hellos| Ok(keys.secret(hellos).unwrap()), deadline).unwrap();
    let fd: std::os::fd::OwnedFd = greeted.link.into_channel().into_socket().unwrap().into();
    let socket = TcpStream::from(fd);
    socket.set_nonblocking(false).unwrap();
    socket
}

impl TestPool {
    /// Nodes that keep so few bytes of other nodes' pages.
    pub fn start_with_frames(nodes: usize, memory: u64, frames: u64) -> TestPool {
        let mut started: Vec<Node> = Vec::new();
        for _ in 0..nodes {
            let join = started.first().map(|node| node.address().to_owned());
            started.push(Node::start(NodeOptions { join, frames, ..options(memory) }).unwrap());
        }
        TestPool { nodes: started }
    }

    pub fn start(nodes: usize, memory: u64) -> TestPool {
        let mut started: Vec<Node> = Vec::new();
        for _ in 0..nodes {
            let join = started.first().map(|node| node.address().to_owned());
            started.push(Node::start(NodeOptions { join, ..options(memory) }).unwrap());
        }
        TestPool { nodes: started }
    }

    /// A client of node `node`, outside any job.
    pub fn client(&self, node: usize) -> Pool {
        Pool::attach_to(self.nodes[node].socket(), None).unwrap()
    }

    /// Clients of one job, round robin over the nodes.
    pub fn job(&self, ranks: u32) -> Vec<Pool> {
        let job = JobId(u128::from(COUNT.fetch_add(1, Ordering::Relaxed)));
        (0..ranks)
            .map(|rank| {
                let node = &self.nodes[rank as usize % self.nodes.len()];
                Pool::attach_to(node.socket(), Some(JobRank { job, rank: Rank(rank), ranks })).unwrap()
            })
            .collect()
    }
}

/// These tests of this program once more, with all connections sealed.
pub fn once_more_sealed(module: &str, those: &[&str]) {
    once_more_with(("HANARE_SEAL", "always"), module, those);
}

/// These tests of this program once more, with that setting.
pub fn once_more_with((key, value): (&str, &str), module: &str, those: &[&str]) {
    let inside = module.split_once("::").map_or(String::new(), |(_, module)| format!("{module}::"));
    let mut tests = std::process::Command::new(std::env::current_exe().unwrap());
    let output = tests.env(key, value).arg("--exact").args(those.iter().map(|test| format!("{inside}{test}"))).output().unwrap();
    let (told, why) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{key}={value}:\n{told}\n{why}");
    assert!(told.contains(&format!(" {} passed", those.len())), "{told}");
}

/// All tests of the module (its path from the binary's root) but those in `without`, once more, with what that Linux's userfaultfd has.
pub fn once_more_as_on_linux(module: &str, version: &str, without: &[&str]) {
    let mut tests = std::process::Command::new(std::env::current_exe().unwrap());
    tests.env("HANARE_KERNEL", version);
    tests.args(module.split_once("::").map(|(_, module)| format!("{module}::")));
    for test in without {
        tests.args(["--skip", test]);
    }
    let output = tests.output().unwrap();
    let (told, why) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "as on Linux {version}:\n{told}\n{why}");
    assert!(!told.contains(" 0 passed"), "{told}");
}

/// Bytes that differ from their neighbours and from those of another seed.
pub fn pattern(len: usize, seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    (0..len)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        })
        .collect()
}

/// Messages that something costs a program, both ways.
pub fn messages(pool: &Pool, act: impl FnOnce()) -> u64 {
    let count = || {
        let traffic = pool.traffic();
        traffic.messages_sent + traffic.messages_received
    };
    let before = count();
    act();
    count() - before
}
