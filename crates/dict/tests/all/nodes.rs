//! Pools for tests: nodes in this process or in their own, and programs that can be killed.

use hanare::node::{Node, NodeOptions, new_key_file};
use hanare::{NodeId, Placement, Pool};
use hanare_dict::{Dict, Options};
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

/// Where a dictionary lies in tests: on the host of its programs, and on another.
pub const PLACES: [Placement; 2] = [Placement::Local, Placement::Node(NodeId(1))];

/// The file with the key of all nodes of a test run; a program of a test has it from its test.
fn key() -> PathBuf {
    static KEY: OnceLock<PathBuf> = OnceLock::new();
    let made = || {
        let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("dict-{}.key", std::process::id()));
        // One of an earlier process of that number does as well.
        let _ = new_key_file(&file);
        file
    };
    KEY.get_or_init(|| std::env::var_os("TEST_KEY").map_or_else(made, PathBuf::from)).clone()
}

fn options(memory: u64, join: Option<String>) -> NodeOptions {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let name = format!("d{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
    NodeOptions { key: Some(key()), socket: format!("@hanare-{name}"), name, join, ..NodeOptions::new(memory).unwrap() }
}

/// Nodes of this process that treat each other as strangers.
pub struct TestPool(Vec<Node>);

impl TestPool {
    pub fn start(count: usize, memory: u64) -> TestPool {
        let mut nodes: Vec<Node> = Vec::new();
        for _ in 0..count {
            let join = nodes.first().map(|node| node.address().to_owned());
            nodes.push(Node::start(options(memory, join)).unwrap());
        }
        TestPool(nodes)
    }

    pub fn socket(&self, node: usize) -> &str {
        self.0[node].socket()
    }

    pub fn client(&self, node: usize) -> Pool {
        Pool::attach_to(self.socket(node), None).unwrap()
    }

    /// A node of a process of its own joins.
    pub fn join_process(&self) -> Process {
        let process = Process::start("nodes::node_process", &[("TEST_JOIN", self.0[0].address())]);
        process.wait_until_ready()
    }

    /// A program of that name on a dictionary, which runs until it is killed or has done its work.
    pub fn program(&self, node: usize, program: &str, dict: &Dict) -> Process {
        self.program_on(node, program, dict.name())
    }

    /// The same on a dictionary or store of that name.
    pub fn program_on(&self, node: usize, program: &str, name: &str) -> Process {
        Process::start(program, &[("TEST_SOCKET", self.socket(node)), ("TEST_DICT", name)])
    }
}

/// A process of the test: its own program, which plays an actor. Killed when dropped.
pub struct Process(Child);

impl Process {
    fn start(actor: &str, variables: &[(&str, &str)]) -> Process {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(hanare_testkit::words(actor)).env("TEST_KEY", key()).envs(variables.iter().copied());
        Process(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap())
    }

    pub fn wait_until_ready(mut self) -> Process {
        let lines = BufReader::new(self.0.stdout.take().unwrap()).lines();
        assert!(lines.map_while(Result::ok).any(|line| line == "ready"), "it ended before it was ready");
        self
    }

    pub fn kill(mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }

    /// Stops it, as a node does that does not answer.
    pub fn stop(&self) {
        self.signal(libc::SIGSTOP);
        let mut status = 0;
        // SAFETY: it writes to `status` alone. It tells of the stop, and leaves the child's end to be waited for.
        assert_eq!(unsafe { libc::waitpid(self.0.id() as i32, &mut status, libc::WUNTRACED) }, self.0.id() as i32);
    }

    pub fn go_on(&self) {
        self.signal(libc::SIGCONT);
    }

    fn signal(&self, signal: libc::c_int) {
        // SAFETY: a call without memory, to a child that was not waited for.
        assert_eq!(unsafe { libc::kill(self.0.id() as i32, signal) }, 0);
    }

    pub fn join(mut self) {
        let status = self.0.wait().unwrap();
        assert!(status.success(), "it ended with {status}");
    }

    pub fn has_ended(&mut self) -> bool {
        self.0.try_wait().unwrap().is_some()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended and been waited for.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Ends this program with its test, whose end of a pipe goes with it.
pub fn end_with_the_test() {
    std::thread::spawn(|| {
        let mut nothing = String::new();
        let _ = std::io::stdin().read_line(&mut nothing);
        std::process::exit(1);
    });
}

pub fn say_ready() {
    println!("\nready");
}

/// The dictionary of a program that a test started; `None` where it was started by hand.
pub fn dict_of_the_test() -> Option<(Pool, Dict)> {
    let (socket, name) = (std::env::var("TEST_SOCKET").ok()?, std::env::var("TEST_DICT").ok()?);
    end_with_the_test();
    let pool = Pool::attach_to(&socket, None).unwrap();
    let dict = Dict::open(&pool, &name, &Options::default()).unwrap();
    Some((pool, dict))
}

/// A node that other tests start.
pub fn node_process() {
    let Ok(join) = std::env::var("TEST_JOIN") else { return };
    end_with_the_test();
    let _node = Node::start(options(32 << 20, Some(join))).unwrap();
    say_ready();
    loop {
        std::thread::park();
    }
}
