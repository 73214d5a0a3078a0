//! Nodes that can be killed, stopped and started again, and the level of what they hold.

use super::level::Level;
use crate::pool::{HANARE, clean, paced, wait_until};
use hanare::Pool;
use hanare_protocol::limits::ANSWER_MS;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// How long peers' answers are waited for here: short, but what a busy machine needs, up to the usual bound.
pub fn answer_ms() -> u64 {
    static BOUND_MS: OnceLock<u64> = OnceLock::new();
    *BOUND_MS.get_or_init(|| paced(Duration::from_millis(2500)).as_millis().min(ANSWER_MS.into()) as u64)
}

/// A node with a journal that outlives it.
pub struct Lasting {
    pub process: Child,
    pub socket: String,
}

impl Lasting {
    fn start(name: &str, state: &Path, listen: &str, join: Option<&str>, answer_ms: u64) -> Lasting {
        let socket = format!("@hanare-fault-{}-{name}-{}", std::process::id(), state.file_name().unwrap().to_string_lossy());
        let mut command = clean(HANARE);
        command.args([
            "node",
            "--json",
            "--memory",
            "192M",
            "--prefault",
            "192M",
            "--listen",
            listen,
            "--name",
            name,
            "--socket",
            &socket,
        ]);
        command.args(join.into_iter().flat_map(|address| ["--join", address]));
        command.env("HANARE_ANSWER_MS", answer_ms.to_string()).env("HANARE_STATE", state).env("HANARE_LOG", "off");
        let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert!(line.contains("address"), "{line}");
        Lasting { process, socket }
    }

    pub fn pid(&self) -> u32 {
        self.process.id()
    }

    fn kill(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Drop for Lasting {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Longer than a node takes to tell of its memory again.
pub const NEWS: Duration = Duration::from_millis(1500);

/// A pool of two or three nodes.
pub struct Cluster {
    state: tempfile::TempDir,
    at: String,
    answer_ms: u64,
    pub nodes: Vec<Lasting>,
    /// What each node held when it was new, if that is known yet.
    levels: Vec<Option<Level>>,
}

impl Cluster {
    pub fn start(count: usize) -> Cluster {
        Cluster::with_bound(count, answer_ms())
    }

    /// A pool whose nodes wait so long for answers.
    pub fn with_bound(count: usize, answer_ms: u64) -> Cluster {
        let state = tempfile::tempdir().unwrap();
        // The port must be the same in the coordinator's next life, so it is chosen here.
        let at = hanare_testkit::free_address().to_string();
        let mut cluster = Cluster { state, at, answer_ms, nodes: Vec::new(), levels: Vec::new() };
        for index in 0..count {
            let node = cluster.start_node(index);
            cluster.nodes.push(node);
            cluster.levels.push(None);
        }
        cluster
    }

    fn start_node(&self, index: usize) -> Lasting {
        let (listen, join) = if index == 0 { (self.at.as_str(), None) } else { ("127.0.0.1:0", Some(self.at.as_str())) };
        Lasting::start(&format!("n{index}"), self.state.path(), listen, join, self.answer_ms)
    }

    /// A client on the host of a node.
    pub fn client(&self, node: usize) -> Pool {
        Pool::attach_to(&self.nodes[node].socket, None).unwrap()
    }

    pub fn kill(&mut self, node: usize) {
        self.nodes[node].kill();
    }

    /// Starts the next life of a killed node.
    pub fn restart(&mut self, node: usize) {
        self.nodes[node] = self.start_node(node);
        self.levels[node] = None;
    }

    /// Waits until all lent memory is populated, and looks at what new nodes hold then.
    pub fn look_at_levels(&mut self) {
        let client = self.client(0);
        let is_populated =
            |node: &hanare::NodeStatus| node.alive && node.memory.lent > 0 && node.memory.populated == node.memory.lent;
        wait_until("all memory is populated", || client.status().is_ok_and(|status| status.nodes.iter().all(is_populated)));
        drop(client);
        for (node, level) in self.nodes.iter().zip(&mut self.levels) {
            level.get_or_insert_with(|| Level::of(node.pid()));
        }
    }

    /// Waits, at least for so long, until no memory is used and no node holds more than when it was new.
    #[track_caller]
    pub fn wait_for_levels(&self, least: Duration) {
        std::thread::sleep(least);
        let client = self.client(0);
        let holds_nothing = |node: &hanare::NodeStatus| node.memory.used == 0 && node.memory.clients <= 1;
        wait_until("all memory is given back", || client.status().unwrap().nodes.iter().all(holds_nothing));
        drop(client);
        let begun = Instant::now();
        // A node keeps its links to other nodes between copies: one each way to each.
        let links = 2 * (self.nodes.len() as u64 - 1);
        loop {
            let now: Vec<Level> = self.nodes.iter().map(|node| Level::of(node.pid())).collect();
            let exceeds = |node: &usize| self.levels[*node].is_some_and(|before| now[*node].exceeds(&before, links));
            let Some(node) = (0..now.len()).find(exceeds) else { return };
            if begun.elapsed() > Duration::from_secs(20) {
                let (before, now, fds) = (self.levels[node], now[node], fds(self.nodes[node].pid()));
                panic!("node {node} leaks: it held {before:?}, and holds {now:?}:\n{fds}");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// The open descriptors of a process, for a failure's message.
fn fds(pid: u32) -> String {
    let entries = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| std::fs::read_link(entry.path()).ok());
    names.map(|name| name.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}
