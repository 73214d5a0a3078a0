//! Nodes started for one launch: each a process of its own, with nothing on disk.
//!
//! The nodes listen on loopback and on abstract Unix sockets, keep their journal in memory, and treat each other as strangers on
//! different machines would.

use super::children::{self, End};
use super::verdict::LostNode;
use anyhow::{Context, Result, bail, ensure};
use hanare::{CreateOptions, Error, Placement, Pool};
use hanare_protocol::limits::{NODE_COUNT_MAX, PAGE_LEN};
use rustix::fs::{MemfdFlags, Mode, fchmod, memfd_create};
use rustix::process::{Pid, Signal, getpid};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{ChildStdout, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Time for a node to be ready.
const READY_MAX: Duration = Duration::from_secs(30);
/// Time between looks for a node that has ended, while others become ready.
const LOOK_AFTER: Duration = Duration::from_millis(10);

/// Longest wait for the last line of a node that has ended.
const LAST_LINE_PATIENCE: Duration = Duration::from_secs(1);
/// Time for a node to end in good order.
const END_MAX: Duration = Duration::from_secs(5);

/// Plan of one node's start.
pub struct Plan<'a> {
    /// Its place among those of the launch.
    pub number: usize,
    /// Its name in listings.
    pub name: &'a str,
    /// Bytes to lend.
    pub memory: u64,
    /// Its address.
    pub listen: &'a str,
    /// The coordinator's address; `None` makes it the coordinator, or one of several keepers.
    pub join: Option<&'a str>,
    /// Addresses of the keepers; none where one node is the coordinator.
    pub keepers: &'a [String],
    /// The file with the pool's key.
    pub key: Option<&'a str>,
    /// Further variables.
    pub variables: &'a [(String, String)],
}

impl Plan<'_> {
    /// A coordinator on loopback without a name.
    fn new(number: usize, memory: u64) -> Plan<'static> {
        Plan { number, name: "", memory, listen: "127.0.0.1:0", join: None, keepers: &[], key: None, variables: &[] }
    }
}

/// A pool's key as a file of mode 0600 that has no name, and is gone with this process.
pub struct UnnamedKeyFile {
    _file: OwnedFd,
    path: String,
}

impl UnnamedKeyFile {
    /// Holds the key, as its file has it.
    pub fn new(key: &str) -> Result<UnnamedKeyFile> {
        let file = memfd_create("hanare-key", MemfdFlags::CLOEXEC).context("cannot make a file for the pool's key")?;
        fchmod(&file, Mode::RUSR | Mode::WUSR)?;
        rustix::io::write(&file, key.as_bytes())?;
        let path = format!("/proc/{}/fd/{}", getpid(), file.as_raw_fd());
        Ok(UnnamedKeyFile { _file: file, path })
    }

    /// Path for nodes of this user, while this process holds it.
    pub fn path(&self) -> &str {
        &self.path
    }
}

struct NodeProcess {
    number: usize,
    pid: Pid,
    socket: String,
    /// Address that it was told to listen at.
    listen: String,
    end: Option<End>,
    /// True if this process killed it to show the effect: its end is no news.
    is_killed: bool,
}

/// The nodes of a launch; dropping them ends them.
#[derive(Default)]
pub struct Nodes {
    nodes: Vec<NodeProcess>,
    /// Nodes that ended before they were told to.
    lost: Vec<LostNode>,
    /// The last signal by which they were told to end.
    told: Option<Signal>,
}

impl Nodes {
    /// Starts `count` nodes that lend `memory` bytes each, the first of them the coordinator, and waits until all are ready.
    ///
    /// **Errors**: the first refusal of a node, with its number.
    pub fn start(count: usize, memory: u64) -> Result<Nodes> {
        if !(1..=NODE_COUNT_MAX).contains(&count) {
            bail!("a pool has 1 to {NODE_COUNT_MAX} nodes, not {count}");
        }
        let mark: u64 = rand::random();
        let key = UnnamedKeyFile::new(&hanare::node::draw_key()?)?;
        let key = Some(key.path());
        let mut started = Nodes::default();
        let name = |number: usize| format!("node{number}");
        let first = started.spawn(mark, &Plan { name: &name(0), key, ..Plan::new(0, memory) })?;
        let coordinator = started.await_ready(0, first)?;
        let other = |number: usize| {
            let plan = Plan { name: &name(number), join: Some(&coordinator), key, ..Plan::new(number, memory) };
            started.spawn(mark, &plan)
        };
        let others: Vec<_> = (1..count).map(other).collect::<Result<_>>()?;
        for (number, stdout) in others.into_iter().enumerate() {
            started.await_ready(number + 1, stdout)?;
        }
        Ok(started)
    }

    /// Starts `count` nodes that keep the pool's names together, and waits until all are ready. The last of them is the coordinator.
    ///
    /// **Errors**: the first refusal of a node, with its number.
    pub fn start_keepers(count: usize, memory: u64) -> Result<Nodes> {
        // Keepers know each other's addresses before they begin.
        let ports: Vec<TcpListener> = (0..count).map(|_| TcpListener::bind("127.0.0.1:0")).collect::<Result<_, _>>()?;
        let address = |port: &TcpListener| Ok(port.local_addr()?.to_string());
        let keepers: Vec<String> = ports.iter().map(address).collect::<Result<_>>()?;
        drop(ports);
        let mark: u64 = rand::random();
        let key = UnnamedKeyFile::new(&hanare::node::draw_key()?)?;
        let mut started = Nodes::default();
        let mut outputs = Vec::new();
        for (number, listen) in keepers.iter().enumerate() {
            let name = format!("node{number}");
            let plan = Plan { name: &name, listen, keepers: &keepers, key: Some(key.path()), ..Plan::new(number, memory) };
            outputs.push(started.spawn(mark, &plan)?);
        }
        for (number, stdout) in outputs.into_iter().enumerate() {
            started.await_ready(number, stdout)?;
        }
        // A keeper that is ready may still be about to join, or to join again because another keeper leads now: a region on all nodes says it.
        let (pool, deadline) = (Pool::attach_as(&started.nodes[0].socket, None, None)?, Instant::now() + READY_MAX);
        while !has_all(&pool, count)? {
            ensure!(Instant::now() < deadline, "not all of {count} nodes joined within {READY_MAX:?}");
            std::thread::sleep(LOOK_AFTER);
        }
        started.put_coordinator_last(&pool)?;
        Ok(started)
    }

    /// Puts the keeper that leads behind the other nodes, as a node of that pool sees it.
    pub fn put_coordinator_last(&mut self, pool: &Pool) -> Result<()> {
        let keepers = pool.own_status()?.keepers;
        let leads = |node: &NodeProcess| keepers.iter().any(|keeper| keeper.leads && keeper.address == node.listen);
        self.nodes.sort_by_key(leads);
        Ok(())
    }

    /// Starts one node, of a pool whose others are on other hosts, and returns its address too.
    pub fn start_one(plan: &Plan<'_>) -> Result<(Nodes, String)> {
        let mut started = Nodes::default();
        let stdout = started.spawn(rand::random(), plan)?;
        let address = started.await_ready(plan.number, stdout)?;
        Ok((started, address))
    }

    /// The sockets of the nodes, in their order.
    pub fn sockets(&self) -> Vec<String> {
        self.nodes.iter().map(|node| node.socket.clone()).collect()
    }

    /// The processes that are alive.
    pub fn pids(&self) -> Vec<Pid> {
        self.nodes.iter().filter(|node| node.end.is_none()).map(|node| node.pid).collect()
    }

    /// Kills the last node that is alive, as a machine that fails would.
    pub fn kill_last(&mut self) -> Result<()> {
        let node = self.nodes.iter_mut().rev().find(|node| node.end.is_none()).context("the nodes are gone")?;
        node.is_killed = true;
        children::send(node.pid, Signal::KILL);
        Ok(())
    }

    /// Takes note of a child's end, and reports it where it is a node's that nobody told to end.
    pub fn on_end(&mut self, pid: Pid, end: End) {
        let number = self.note(pid, end).filter(|node| !node.is_killed).map(|node| node.number);
        if let Some(number) = number.filter(|_| !is_as_told(end, self.told)) {
            eprintln!("hanare: node {number} is lost ({end}); regions with extents there cannot be used any more");
            self.lost.push(LostNode { number: number as u32, host: own_host(), end, at: Instant::now() });
        }
    }

    /// The nodes that ended before they were told to, in the order in which that was seen.
    pub fn lost(&self) -> &[LostNode] {
        &self.lost
    }

    /// Takes note of a child's end; the node whose it was.
    fn note(&mut self, pid: Pid, end: End) -> Option<&NodeProcess> {
        let node = self.nodes.iter_mut().find(|node| node.pid == pid && node.end.is_none())?;
        node.end = Some(end);
        Some(node)
    }

    /// Waits a moment for the end of a node that said why it ends: that is no news.
    fn await_end(&mut self, number: usize) {
        let deadline = Instant::now() + Duration::from_secs(1);
        let is_there = |nodes: &Nodes| nodes.nodes.iter().any(|node| node.number == number && node.end.is_none());
        while is_there(self) && Instant::now() < deadline {
            match children::reap() {
                Some((pid, end)) => drop(self.note(pid, end)),
                None => std::thread::sleep(LOOK_AFTER),
            }
        }
    }

    /// Waits for a node's ready line and returns its address. The end of any node ends the wait.
    fn await_ready(&mut self, number: usize, stdout: ChildStdout) -> Result<String> {
        let (sender, line) = channel();
        std::thread::spawn(move || {
            let mut line = String::new();
            let read = BufReader::new(stdout).read_line(&mut line);
            let _ = sender.send(read.map(|_| line));
        });
        let deadline = Instant::now() + READY_MAX;
        let said = 'said: loop {
            match line.recv_timeout(LOOK_AFTER) {
                Ok(Ok(line)) if !line.is_empty() => break line,
                // A killed node closes its output some time before its end is told.
                Ok(_) | Err(RecvTimeoutError::Disconnected) => std::thread::sleep(LOOK_AFTER),
                Err(RecvTimeoutError::Timeout) => {}
            }
            while let Some((pid, end)) = children::reap() {
                let Some(ended) = self.note(pid, end).map(|node| node.number) else { continue };
                // A node that ends has said why, where it can: its output has an end, too.
                let last = (ended == number).then(|| line.recv_timeout(LAST_LINE_PATIENCE));
                if let Some(Ok(Ok(line))) = last
                    && !line.is_empty()
                {
                    break 'said line;
                }
                bail!("node {ended} ended before all nodes were ready ({end})");
            }
            ensure!(Instant::now() < deadline, "node {number} was not ready within {READY_MAX:?}");
        };
        let value: Value = serde_json::from_str(&said).unwrap_or_default();
        match (&value["address"], &value["error"]) {
            (Value::String(address), _) => Ok(address.clone()),
            (_, Value::String(error)) => {
                self.await_end(number);
                bail!("node {number}: {error}")
            }
            _ => bail!("node {number} said '{}' instead of its address", said.trim_end()),
        }
    }

    fn spawn(&mut self, mark: u64, plan: &Plan<'_>) -> Result<ChildStdout> {
        let number = plan.number;
        let socket = format!("@hanare-{mark:016x}-{number}");
        let mut command = Command::new("/proc/self/exe");
        command.args(["node", "--json", "--listen", plan.listen, "--memory", &plan.memory.to_string()]);
        command.args(["--name", plan.name, "--socket", &socket, "--embedded-in", &getpid().to_string()]);
        // Ranks, placements and messages count nodes as the launch does, in whatever order they join.
        command.args(["--number", &number.to_string()]);
        command.args(plan.join.into_iter().flat_map(|address| ["--join", address]));
        command.args((!plan.keepers.is_empty()).then(|| ["--keepers".to_owned(), plan.keepers.join(",")]).into_iter().flatten());
        command.args(plan.key.into_iter().flat_map(|file| ["--key", file]));
        command.envs(plan.variables.iter().map(|(name, value)| (name, value)));
        // Its own process group: what is typed at the terminal is meant for the ranks.
        command.process_group(0).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().with_context(|| format!("cannot start node {number}"))?;
        let (pid, listen) = (children::pid_of(&child), plan.listen.to_owned());
        self.nodes.push(NodeProcess { number, pid, socket, listen, end: None, is_killed: false });
        child.stdout.take().context("a node's output is a pipe")
    }
}

impl Drop for Nodes {
    fn drop(&mut self) {
        // A node that ended before it was told to is reported.
        std::iter::from_fn(children::reap).for_each(|(pid, end)| self.on_end(pid, end));
        // The coordinator last: the others leave in good order while it answers. A pool that lost a node has no good order. Pages that would be
        // brought home and last words to a coordinator are of no use there, and nothing is on disk.
        let signals: &[Signal] = if self.lost.is_empty() { &[Signal::TERM, Signal::KILL] } else { &[Signal::KILL] };
        for signal in signals.iter().copied() {
            let deadline = Instant::now() + END_MAX;
            self.told = Some(signal);
            self.pids().into_iter().rev().for_each(|pid| children::send(pid, signal));
            while !self.pids().is_empty() && Instant::now() < deadline {
                match children::reap() {
                    Some((pid, end)) => self.on_end(pid, end),
                    None => std::thread::sleep(Duration::from_millis(1)),
                }
            }
        }
    }
}

/// True if a region goes over so many nodes.
fn has_all(pool: &Pool, count: usize) -> Result<bool> {
    let options = CreateOptions { placement: Placement::Interleave(PAGE_LEN), copies: 1, ..CreateOptions::default() };
    let region = match pool.create("all-nodes", PAGE_LEN * count as u64, &options) {
        Ok(region) => region,
        Err(Error::PoolFull { .. } | Error::NodeLost { .. } | Error::NoCoordinator { .. } | Error::Timeout { .. }) => {
            return Ok(false);
        }
        Err(error) => return Err(error.into()),
    };
    let has_all = region.layout().extents().count() == count;
    drop(region);
    pool.remove("all-nodes")?;
    Ok(has_all)
}

/// The name of this host.
pub fn own_host() -> String {
    rustix::system::uname().nodename().to_string_lossy().into_owned()
}

/// True if a node ended because it was told to. A signal that was not sent came from elsewhere: the node's memory may have been given
/// back for a while before its end was told.
fn is_as_told(end: End, told: Option<Signal>) -> bool {
    match (end, told) {
        (_, None) => false,
        (End::Killed(signal), Some(told)) => [Signal::TERM, told].iter().any(|sent| sent.as_raw() == signal),
        (End::Exited(_) | End::Aborted(_) | End::Lost, Some(_)) => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_was_killed_before_it_was_told_to_end_is_reported_whenever_that_is_seen() {
        let (term, kill) = (Some(Signal::TERM), Some(Signal::KILL));
        assert!(!is_as_told(End::Killed(9), None) && !is_as_told(End::Exited(0), None));
        assert!(!is_as_told(End::Killed(9), term) && !is_as_told(End::Killed(11), kill), "nobody here sent that");
        assert!(is_as_told(End::Exited(0), term) && is_as_told(End::Killed(15), term) && is_as_told(End::Killed(9), kill));
    }

    #[test]
    fn a_node_that_is_killed_while_it_starts_is_named_with_its_signal() {
        let mut command = Command::new("sh");
        let mut child = command.args(["-c", "kill -9 $$"]).stdout(Stdio::piped()).spawn().unwrap();
        let stdout = child.stdout.take().unwrap();
        let process = NodeProcess {
            number: 0,
            pid: children::pid_of(&child),
            socket: String::new(),
            listen: String::new(),
            end: None,
            is_killed: false,
        };
        let mut nodes = Nodes { nodes: vec![process], lost: Vec::new(), told: None };
        let error = nodes.await_ready(0, stdout).unwrap_err().to_string();
        // The process has been waited for.
        let _ = child.wait();
        assert!(error.contains("node 0 ended before") && error.contains("signal 9, SIGKILL"), "{error}");
    }

    #[test]
    fn the_key_is_a_file_for_this_user_alone() {
        use std::os::unix::fs::PermissionsExt;
        let key = UnnamedKeyFile::new("hanare-key 00").unwrap();
        assert_eq!(std::fs::metadata(key.path()).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read(key.path()).unwrap(), b"hanare-key 00");
    }
}
