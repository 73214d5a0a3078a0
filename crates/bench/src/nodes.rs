//! Pools of nodes for a bench: each node a process of its own on loopback, with nothing on disk.

use crate::Options;
use crate::usage::Usage;
use anyhow::{Context, Result, bail};
use hanare::{JobRank, Pool};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

/// Time for a node to be ready, and for its memory to be populated.
const READY_MAX: Duration = Duration::from_secs(30);

/// Time for a node to end in good order before it is killed.
const END_MAX: Duration = Duration::from_secs(5);

/// Time for which nodes that should be still are watched, their part of a CPU then, and the time to wait for that.
const STILL: Duration = Duration::from_millis(5);
const STILL_SHARE: f64 = 0.05;
const SETTLE_MAX: Duration = Duration::from_secs(1);

/// The nodes of a bench; dropping them ends them.
pub struct Nodes {
    children: Vec<Child>,
    sockets: Vec<String>,
}

impl Nodes {
    /// Starts `count` nodes that lend `memory` bytes each, and waits until that memory is populated.
    pub fn start(options: &Options, count: usize, memory: u64) -> Result<Nodes> {
        Nodes::start_as(options, count, memory, &|_| ())
    }

    /// The same, where `dress` gives each node's command further words and variables.
    pub fn start_as(options: &Options, count: usize, memory: u64, dress: &dyn Fn(&mut Command)) -> Result<Nodes> {
        let mark: u64 = rand::random();
        let mut nodes = Nodes { children: Vec::new(), sockets: Vec::new() };
        let mut coordinator = None;
        for number in 0..count {
            let address = nodes.add((options, dress), (mark, number), memory, coordinator.as_deref())?;
            coordinator.get_or_insert(address);
        }
        nodes.wait_populated(count)?;
        Ok(nodes)
    }

    /// Attaches this process to a node.
    pub fn attach(&self, number: usize) -> Result<Pool> {
        Ok(Pool::attach_to(&self.sockets[number], None)?)
    }

    /// Attaches this process to a node as a rank.
    pub fn attach_as(&self, number: usize, rank: JobRank) -> Result<Pool> {
        Ok(Pool::attach_to(&self.sockets[number % self.sockets.len()], Some(rank))?)
    }

    /// The socket at which programs of a node's host attach.
    pub fn socket(&self, number: usize) -> &str {
        &self.sockets[number]
    }

    /// The nodes' process ids, in order of numbers.
    pub fn processes(&self) -> Vec<u32> {
        self.children.iter().map(Child::id).collect()
    }

    /// Waits until the nodes have nothing more to do. They wipe removed memory and populate lent memory in the background, on CPUs that the
    /// next measurement needs. After a second they are as still as they will be.
    pub fn settle(&self) -> Result<()> {
        let processes = self.processes();
        let deadline = Instant::now() + SETTLE_MAX;
        let mut before = Usage::of_processes(&processes)?;
        while Instant::now() < deadline {
            std::thread::sleep(STILL);
            let used = Usage::of_processes(&processes)?;
            if used.cpu - before.cpu < STILL.as_nanos() as f64 * STILL_SHARE {
                break;
            }
            before = used;
        }
        Ok(())
    }

    /// The kind of pages that these nodes lend, as the peers' programs call it: `huge` or `4k`.
    pub fn pages(&self) -> Result<&'static str> {
        let status = self.attach(0)?.status()?;
        let page = status.nodes.first().context("a pool has a node")?.memory.page;
        Ok(if page > 4096 { "huge" } else { "4k" })
    }

    fn add(
        &mut self,
        (options, dress): (&Options, &dyn Fn(&mut Command)),
        (mark, number): (u64, usize),
        memory: u64,
        join: Option<&str>,
    ) -> Result<String> {
        let socket = format!("@hanare-bench-{mark:016x}-{number}");
        let mut command = Command::new(&options.command);
        command.args(["node", "--json", "--listen", "127.0.0.1:0", "--memory", &memory.to_string(), "--socket", &socket]);
        command.args(["--name", &format!("node{number}"), "--embedded-in", &std::process::id().to_string()]);
        command.args(join.into_iter().flat_map(|address| ["--join", address]));
        dress(&mut command);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context("cannot start a node")?;
        let stdout = child.stdout.take().context("a node's output is a pipe")?;
        self.children.push(child);
        self.sockets.push(socket);
        let (sender, line) = channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            let read = BufReader::new(stdout).read_line(&mut line);
            let _ = sender.send(read.map(|_| line));
        });
        let line = line.recv_timeout(READY_MAX).with_context(|| format!("node {number} was not ready in time"))??;
        let said: Value = serde_json::from_str(&line).with_context(|| format!("node {number} ended before it was ready"))?;
        match (&said["address"], &said["error"]) {
            (Value::String(address), _) => Ok(address.clone()),
            (_, Value::String(error)) => bail!("node {number}: {error}"),
            _ => bail!("node {number} said '{}' instead of its address", line.trim_end()),
        }
    }

    fn wait_populated(&self, count: usize) -> Result<()> {
        let pool = self.attach(0)?;
        let deadline = Instant::now() + READY_MAX;
        loop {
            let status = pool.status()?;
            // Memory beyond whole slabs is populated when it is used.
            let is_done =
                status.nodes.len() == count && status.nodes.iter().all(|node| node.memory.populated * 2 > node.memory.lent);
            if is_done || Instant::now() > deadline {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        // The coordinator last: the others leave in good order while it answers.
        for child in self.children.iter_mut().rev() {
            let pid = rustix::process::Pid::from_child(child);
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
            let deadline = Instant::now() + END_MAX;
            while matches!(child.try_wait(), Ok(None)) && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(5));
            }
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
