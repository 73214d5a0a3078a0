//! A pool for one test: nodes of its own, the command run against them, and bounds on everything.
#![allow(dead_code, unused_imports, reason = "each test uses a part of it")]

pub mod group;
pub mod remote;

use hanare_fabric::agree;
use hanare_fabric::tcp::{self, Caller, Keys};
use hanare_protocol::id::User;
use hanare_protocol::versions::{OLDEST, Versions};
use hanare_protocol::wire::greeting::{Role, Sealing};
use serde_json::Value;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

pub use hanare_testkit::{Patience, paced};

/// Everything here that takes longer than this on an idle machine hangs.
pub const BOUND: Duration = Duration::from_secs(60);

/// The command under test.
pub const HANARE: &str = env!("CARGO_BIN_EXE_hanare");

/// One node of a test's pool.
pub struct Node {
    pub process: Child,
    pub address: String,
    pub socket: String,
}

/// Nodes that end with the test.
pub struct Nodes {
    pub nodes: Vec<Node>,
}

impl Nodes {
    /// Starts so many nodes that lend 64 MiB each.
    pub fn start(count: usize) -> Nodes {
        Nodes::start_with(count, &[])
    }

    /// The same with these variables set.
    pub fn start_with(count: usize, variables: &[(&str, &str)]) -> Nodes {
        let mut nodes: Vec<Node> = Vec::new();
        for _ in 0..count {
            let coordinator = nodes.first().map(|node| node.address.clone());
            nodes.push(Node::start_with(coordinator.as_deref(), &[], variables));
        }
        Nodes { nodes }
    }

    /// The command with these words, of a program on the first node's host.
    pub fn hanare(&self, words: &[&str]) -> Ended {
        self.hanare_on(0, words)
    }

    /// The command with these words, of a program on that node's host.
    pub fn hanare_on(&self, node: usize, words: &[&str]) -> Ended {
        run(command(words).env("HANARE_NODE", &self.nodes[node].socket))
    }
}

impl Node {
    /// Starts a node with further words and waits until it is ready.
    pub fn start(join: Option<&str>, words: &[&str]) -> Node {
        Node::start_with(join, words, &[])
    }

    /// The same with these variables set.
    pub fn start_with(join: Option<&str>, words: &[&str], variables: &[(&str, &str)]) -> Node {
        let mut command = command(&[]);
        command.envs(variables.iter().copied());
        Node::start_by(command, join, words)
    }

    /// The same by a command without words yet.
    pub fn start_by(mut command: Command, join: Option<&str>, words: &[&str]) -> Node {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let own = std::process::id().to_string();
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let socket = format!("@hanare-test-{own}-{number}");
        command.args(["node", "--json", "--memory", "64M", "--listen", "127.0.0.1:0", "--socket", &socket]);
        command.args(join.into_iter().flat_map(|address| ["--join", address])).args(words);
        command.env("HANARE_KEY", key());
        if !words.contains(&"--prometheus") {
            command.args(["--name", &format!("node{number}")]);
        }
        // Its own state folder is never written: an embedded node keeps its journal in memory.
        command.args(["--embedded-in", &own]);
        let mut process = command.stdout(Stdio::piped()).spawn().expect("the command starts");
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).expect("a ready line");
        let said: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("a ready line, not '{line}'"));
        Node { address: said["address"].as_str().unwrap_or_else(|| panic!("{said}")).to_owned(), socket, process }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A file with a key for the pools of this program's tests, which is gone with the program.
pub fn key() -> String {
    static FILE: OnceLock<File> = OnceLock::new();
    let file = FILE.get_or_init(|| {
        let file = tempfile::tempfile().expect("a temporary file");
        file.set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
        file.write_all_at(hanare::node::draw_key().unwrap().as_bytes(), 0).unwrap();
        file
    });
    format!("/proc/{}/fd/{}", std::process::id(), file.as_raw_fd())
}

/// A data link to the node there, byte by byte, of client 1.
pub fn data_link(address: &str) -> TcpStream {
    let text = std::fs::read_to_string(key()).unwrap();
    let digits = text.trim_end().strip_prefix("hanare-key ").unwrap();
    let mut bytes = [0; 32];
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&digits[2 * index..2 * index + 2], 16).unwrap();
    }
    let (keys, deadline) = (Keys::of(&bytes, Sealing::Auto), Instant::now() + BOUND);
    let caller = Caller {
        role: Role::Data,
        from: 0,
        client: 1,
        user: User { uid: 1, gid: 1 },
        sealing: Sealing::Auto,
        versions: Versions::BUILD,
    };
    let greeted = tcp::connect(address, caller, &|hellos| Ok(keys.secret(hellos).unwrap()), deadline).unwrap();
    let socket = agree::take_channel(greeted, deadline).unwrap().into_socket().expect("both ends are on this host");
    let socket = TcpStream::from(std::os::fd::OwnedFd::from(socket));
    socket.set_nonblocking(false).unwrap();
    socket
}

/// A build of the command, of two that are tried side by side.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Build {
    /// The release before: the command in `HANARE_TEST_LAST`, else today's that speaks the oldest version of the wire.
    Last,
    Today,
}

impl Build {
    pub const BOTH: [Build; 2] = [Build::Last, Build::Today];

    /// The command with these words and a clean environment.
    pub fn command(self, words: &[&str]) -> Command {
        let last = std::env::var_os("HANARE_TEST_LAST").filter(|_| self == Build::Last);
        let mut command = clean(last.as_deref().unwrap_or(OsStr::new(HANARE)));
        if self == Build::Last && last.is_none() {
            command.env("HANARE_WIRE", OLDEST.to_string());
        }
        command.args(words);
        command
    }
}

/// The command with these words and a clean environment.
pub fn command(words: &[&str]) -> Command {
    let mut command = clean(HANARE);
    command.args(words);
    command
}

/// A program with a clean environment.
pub fn clean(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    for (variable, _) in std::env::vars().filter(|(variable, _)| variable.starts_with("HANARE_")) {
        command.env_remove(variable);
    }
    // No node of the machine's user is found by chance.
    command.env("XDG_RUNTIME_DIR", "/nonexistent");
    command
}

/// A command that has ended.
#[derive(Debug)]
pub struct Ended {
    pub status: ExitStatus,
    pub stdout: Vec<u8>,
    pub stderr: String,
}

/// Runs a command to its end, within [`BOUND`].
pub fn run(command: &mut Command) -> Ended {
    Running::start(command).wait()
}

/// A command that runs, its output going to files so that nothing blocks it.
pub struct Running {
    pub child: Child,
    stdout: File,
    stderr: File,
    patience: Patience,
}

impl Running {
    pub fn start(command: &mut Command) -> Running {
        let file = || tempfile::tempfile().expect("a temporary file");
        let (stdout, stderr) = (file(), file());
        let child = command.stdin(Stdio::null()).stdout(stdout.try_clone().unwrap()).stderr(stderr.try_clone().unwrap());
        // A group of its own: a signal to it reaches nobody else.
        let child = child.process_group(0).spawn().expect("the command starts");
        Running { child, stdout, stderr, patience: Patience::new(BOUND) }
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it has written to standard output so far.
    pub fn stdout(&self) -> String {
        read(&self.stdout)
    }

    /// What it has written to standard error so far.
    pub fn stderr(&self) -> String {
        read(&self.stderr)
    }

    /// Waits for text on its standard output.
    pub fn wait_for(&self, text: &str) {
        wait_until(&format!("'{text}' on standard output"), || self.stdout().contains(text));
    }

    pub fn wait(mut self) -> Ended {
        loop {
            if let Some(status) = self.child.try_wait().expect("a child can be waited for") {
                let (stdout, stderr) = (read_bytes(&self.stdout), read(&self.stderr));
                return Ended { status, stdout, stderr };
            }
            if self.patience.is_over() {
                let _ = self.child.kill();
                panic!("hangs; so far it said:\n{}{}", self.stdout(), read(&self.stderr));
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

impl Ended {
    /// Asserts that it did what it was asked; returns its output.
    #[track_caller]
    pub fn done(self) -> String {
        assert!(self.status.success(), "{:?}\n{}", self.status, self.stderr);
        String::from_utf8(self.stdout).expect("text")
    }

    /// Asserts that it did what it was asked; returns its output as JSON.
    #[track_caller]
    pub fn json(self) -> Value {
        let text = self.done();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
    }

    /// Asserts that it was refused in one line that holds all these words.
    #[track_caller]
    pub fn refused(self, words: &[&str]) {
        assert_eq!(self.status.code(), Some(1), "{self:?}");
        assert_eq!(self.stderr.lines().count(), 1, "one line: {}", self.stderr);
        assert!(self.stderr.starts_with("hanare: "), "{}", self.stderr);
        for word in words {
            assert!(self.stderr.contains(word), "no '{word}' in: {}", self.stderr);
        }
    }

    /// The status as a shell shows it.
    pub fn shell_status(&self) -> i32 {
        self.status.code().unwrap_or_else(|| 128 + self.status.signal().unwrap_or(0))
    }
}

/// All of a file that a child may be writing: without the offset that it shares with us.
fn read_bytes(file: &File) -> Vec<u8> {
    let mut bytes = vec![0; 1 << 16];
    let mut len = 0;
    loop {
        match file.read_at(&mut bytes[len..], len as u64).expect("the file can be read") {
            0 => break,
            more => len += more,
        }
        if len == bytes.len() {
            bytes.resize(len * 2, 0);
        }
    }
    bytes.truncate(len);
    bytes
}

fn read(file: &File) -> String {
    String::from_utf8_lossy(&read_bytes(file)).into_owned()
}

/// Waits until something is so, within [`BOUND`].
#[track_caller]
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let mut patience = Patience::new(BOUND);
    while !is_so() {
        assert!(!patience.is_over(), "never: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Sends a signal by name to a process.
pub fn signal(name: &str, pid: u32) {
    let sent = Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status();
    assert!(sent.is_ok_and(|status| status.success()), "kill -{name} {pid}");
}

/// The children of a process, with their command lines.
pub fn children(parent: u32) -> Vec<(u32, String)> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let of_parent = pids.filter(|pid| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1)?.parse().ok()) == Some(parent)
    });
    of_parent.map(|pid| (pid, command_line(pid))).collect()
}

/// The words a process was started with, joined by blanks.
pub fn command_line(pid: u32) -> String {
    let words = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&words).replace('\0', " ").trim().to_owned()
}

/// The processes whose environment or command line holds this mark.
pub fn marked(mark: &str) -> Vec<(u32, String)> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let holds = |pid: &u32| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        String::from_utf8_lossy(&environment).contains(mark) || command_line(*pid).contains(mark)
    };
    pids.filter(|pid| *pid != std::process::id()).filter(holds).map(|pid| (pid, command_line(pid))).collect()
}
