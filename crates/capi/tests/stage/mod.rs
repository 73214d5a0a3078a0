//! What the tests of the C face run on: node processes on this machine, the library as a linker finds it, and C programs
//! compiled and started as ranks.
#![allow(dead_code, reason = "each test uses its part")]

use hanare::node::{Node, NodeOptions};
use hanare_testkit::Patience;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// No rank of a test runs longer than this.
const RANK_TIME: Duration = Duration::from_secs(60);

/// Bytes that each node lends.
pub const NODE_MEMORY: u64 = 256 << 20;

pub fn crate_path(part: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(part)
}

/// The folder with `libhanare.so` and `libhanare.so.0`, and compiled programs. A later test process removes it.
pub fn folder() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let tests = Path::new(env!("CARGO_TARGET_TMPDIR"));
        clean(tests);
        let folder = tests.join(format!("stage-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        for name in ["libhanare.so", "libhanare.so.0"] {
            let _ = std::fs::remove_file(folder.join(name));
            std::os::unix::fs::symlink(library(), folder.join(name)).unwrap();
        }
        folder
    })
}

/// Removes the folders of earlier test processes.
fn clean(tests: &Path) {
    for entry in std::fs::read_dir(tests).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_over = |process: &str| !Path::new("/proc").join(process).exists();
        if name.strip_prefix("stage-").is_some_and(is_over) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// The shared library that cargo built for these tests.
pub fn library() -> PathBuf {
    let beside = std::env::current_exe().unwrap().with_file_name("libhanare_capi.so");
    assert!(beside.exists(), "cargo puts {} beside its tests", beside.display());
    beside
}

/// The `hanare` command: beside the tests' folder, where `cargo build -p hanare-cli` puts it.
pub fn command() -> Option<PathBuf> {
    let command = std::env::current_exe().unwrap().parent().unwrap().with_file_name("hanare");
    if !command.is_file() {
        hanare_testkit::uninstalled(format!("{} is not there: cargo build -p hanare-cli", command.display()));
        return None;
    }
    Some(command)
}

/// A C compiler and the language it is told to take the source for.
#[derive(Clone, Copy, Debug)]
pub struct Compiler {
    pub command: &'static str,
    pub language: &'static str,
}

/// The four that the headers promise to work with.
pub const COMPILERS: [Compiler; 4] = [
    Compiler { command: "gcc", language: "c99" },
    Compiler { command: "clang", language: "c99" },
    Compiler { command: "gcc", language: "c++17" },
    Compiler { command: "clang", language: "c++17" },
];

impl Compiler {
    /// Whether it is here; says so where it is not.
    pub fn is_here(&self) -> bool {
        let found = Command::new(self.command).arg("--version").output().is_ok();
        if !found {
            hanare_testkit::uninstalled(format!("{} ({}) is not installed", self.command, self.language));
        }
        found
    }

    /// Compiles and links a source with all warnings as errors.
    pub fn compile(&self, source: &Path) -> PathBuf {
        self.compile_all(&[source], &[])
    }

    /// The same with several sources, and further words at the end.
    pub fn compile_all(&self, sources: &[&Path], words: &[&str]) -> PathBuf {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = sources[0].file_stem().unwrap().to_string_lossy();
        let program = folder().join(format!("{name}-{number}"));
        let kind = if self.language.starts_with("c++") { "c++" } else { "c" };
        let output = Command::new(self.command)
            .args(["-x", kind, "-O2", "-Wall", "-Wextra", "-Wpedantic", "-Werror"])
            .arg(format!("-std={}", self.language))
            .arg("-I")
            .arg(crate_path("include"))
            .args(sources)
            .args(["-x", "none", "-lhanare"])
            .args(words)
            .arg("-o")
            .arg(&program)
            .arg(format!("-L{}", folder().display()))
            .arg(format!("-Wl,-rpath,{}", folder().display()))
            .output()
            .unwrap();
        assert!(output.status.success(), "{self:?} {name}:\n{}", String::from_utf8_lossy(&output.stderr));
        program
    }
}

/// Compiles `apps/NAME.c` as C99 with each compiler that is here, and hands over the program.
pub fn each_app(name: &str, words: &[&str], run: impl Fn(&Path)) {
    let source = crate_path(&format!("../../apps/{name}.c"));
    for compiler in COMPILERS.iter().filter(|compiler| compiler.language == "c99" && compiler.is_here()) {
        run(&compiler.compile_all(&[&source], &[words, &["-lm"]].concat()));
    }
}

/// Compiles `apps/NAME.c`, which uses OpenMP; `None` (and a line that says so) where gcc has none.
pub fn threads_app(name: &str) -> Option<PathBuf> {
    let gcc = COMPILERS[0];
    let mut probe = Command::new(gcc.command);
    let probed = probe.args(["-fopenmp", "-include", "omp.h", "-E", "-x", "c", "/dev/null"]).output();
    if !probed.is_ok_and(|output| output.status.success()) {
        hanare_testkit::uninstalled("gcc with OpenMP is not installed");
        return None;
    }
    Some(gcc.compile_all(&[&crate_path(&format!("../../apps/{name}.c"))], &["-fopenmp", "-lm"]))
}

/// The value of `KEY=VALUE` in a line that a program printed.
pub fn value<'l>(line: &'l str, key: &str) -> &'l str {
    let found = line.split_whitespace().find_map(|word| word.strip_prefix(key)?.strip_prefix('='));
    found.unwrap_or_else(|| panic!("no {key} in '{line}'"))
}

/// Ways of sharing that a program is run in: nodes, ranks and `--mode`.
pub const SHARINGS: [(usize, usize, &str); 10] = [
    (1, 1, "coherent"),
    (1, 1, "explicit"),
    (1, 2, "coherent"),
    (1, 2, "explicit"),
    (1, 3, "coherent"),
    (1, 3, "explicit"),
    (2, 2, "coherent"),
    (2, 2, "explicit"),
    (3, 4, "coherent"),
    (3, 4, "explicit"),
];

/// Compiles `tests/c/NAME.c` with the first compiler that is here; `None` (and a line that says so) without any.
pub fn program(name: &str) -> Option<PathBuf> {
    let compiler = COMPILERS.iter().find(|compiler| compiler.language == "c99" && compiler.is_here())?;
    Some(compiler.compile(&crate_path(&format!("tests/c/{name}.c"))))
}

/// A pool of node processes.
pub struct Stage {
    nodes: Vec<Child>,
    sockets: Vec<String>,
    variables: Vec<(&'static str, &'static str)>,
}

impl Stage {
    /// Starts so many nodes; the first is the coordinator.
    pub fn of(nodes: usize) -> Stage {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let mut stage = Stage { nodes: Vec::new(), sockets: Vec::new(), variables: Vec::new() };
        let mut join = None;
        for index in 0..nodes {
            let number = COUNT.fetch_add(1, Ordering::Relaxed);
            let socket = format!("@hanare-capi-{}-{number}-{index}", std::process::id());
            let (child, address) = start_node(&socket, join.as_deref());
            stage.nodes.push(child);
            stage.sockets.push(socket);
            join.get_or_insert(address);
        }
        stage
    }

    /// Sets a variable for programs started from here on.
    pub fn with(mut self, variable: &'static str, value: &'static str) -> Stage {
        self.variables.push((variable, value));
        self
    }

    /// Attaches this test to a node.
    pub fn attach(&self, index: usize) -> hanare::Pool {
        hanare::Pool::attach_to(&self.sockets[index], None).unwrap()
    }

    /// Ends a node as `kill -9` does.
    pub fn kill(&mut self, index: usize) {
        self.nodes[index].kill().unwrap();
        self.nodes[index].wait().unwrap();
    }

    /// Starts a program as rank `rank` of `ranks`, on node `rank % nodes`.
    pub fn start(&self, program: &Path, args: &[&str], rank: usize, ranks: usize, job: u64) -> Child {
        let mut command = self.command(program, args, rank);
        command.env("HANARE_RANK", rank.to_string()).env("HANARE_RANKS", ranks.to_string());
        command.env("HANARE_JOB", format!("{job:032x}")).env("HANARE_SODIMM", "4M");
        command.spawn().unwrap()
    }

    /// Starts a program that is no rank, on node `node`.
    pub fn start_alone(&self, program: &Path, args: &[&str], node: usize) -> Child {
        self.command(program, args, node).spawn().unwrap()
    }

    fn command(&self, program: &Path, args: &[&str], node: usize) -> Command {
        let mut command = Command::new(program);
        command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.env("HANARE_NODE", &self.sockets[node % self.sockets.len()]);
        command.envs(self.variables.iter().copied());
        command
    }

    /// Runs a program on so many ranks and gives what each printed.
    pub fn run(&self, program: &Path, args: &[&str], ranks: usize) -> Vec<Output> {
        let job = fresh_job();
        let children: Vec<Child> = (0..ranks).map(|rank| self.start(program, args, rank, ranks, job)).collect();
        children.into_iter().map(finish).collect()
    }

    /// Runs a program on so many ranks, each of which must succeed; gives what they printed on stdout.
    pub fn pass(&self, program: &Path, args: &[&str], ranks: usize) -> Vec<String> {
        let outputs = self.run(program, args, ranks);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        for (rank, output) in outputs.iter().enumerate() {
            let said = text(&output.stdout) + &text(&output.stderr);
            assert!(output.status.success(), "rank {rank} of {} {args:?}: {}\n{said}", program.display(), output.status);
        }
        outputs.iter().map(|output| text(&output.stdout)).collect()
    }
}

/// A number that no other job of this machine has.
pub fn fresh_job() -> u64 {
    static COUNT: AtomicU64 = AtomicU64::new(1);
    u64::from(std::process::id()) << 32 | COUNT.fetch_add(1, Ordering::Relaxed)
}

/// Waits for a rank, but not for ever.
pub fn finish(mut child: Child) -> Output {
    // Pipes are read by threads, so that a rank that prints much does not wait for us.
    let (stdout, stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let read_all = |mut from: Box<dyn Read + Send>| {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = from.read_to_end(&mut bytes);
            bytes
        })
    };
    let (out, err) = (read_all(Box::new(stdout)), read_all(Box::new(stderr)));
    let mut patience = Patience::new(RANK_TIME);
    let status = loop {
        match child.try_wait().unwrap() {
            Some(status) => break status,
            None if patience.is_over() => {
                let _ = child.kill();
                break child.wait().unwrap();
            }
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    Output { status, stdout: out.join().unwrap(), stderr: err.join().unwrap() }
}

impl Drop for Stage {
    fn drop(&mut self) {
        for node in &mut self.nodes {
            let _ = node.kill();
            let _ = node.wait();
        }
    }
}

/// Starts this test binary once more, as a node; gives the process and the node's address.
fn start_node(socket: &str, join: Option<&str>) -> (Child, String) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(hanare_testkit::words("stage::node_process"));
    command.env("STAGE_SOCKET", socket).env("STAGE_JOIN", join.unwrap_or(""));
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let found = lines.find_map(|line| line.ok()?.split_once("node listens at ").map(|(_, address)| address.to_owned()));
    let address = found.expect("a node says where it listens");
    // The pipe stays open, or the node's later prints would fail.
    std::thread::spawn(move || lines.for_each(drop));
    (child, address)
}

/// Not a test: the body of the node processes that [`Stage::of`] starts.
pub fn node_process() {
    let Ok(socket) = std::env::var("STAGE_SOCKET") else { return };
    let mut options = NodeOptions::new(NODE_MEMORY).unwrap();
    // A node's name is its identity in the pool: nodes of one machine need names of their own.
    options.name = socket.clone();
    options.socket = socket;
    let key = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pool.key");
    if !key.exists() {
        // Another node may be faster.
        let _ = hanare::node::new_key_file(&key);
    }
    options.key = Some(key);
    options.join = std::env::var("STAGE_JOIN").ok().filter(|address| !address.is_empty());
    let node = Node::start(options).unwrap();
    println!("\nnode listens at {}", node.address());
    // The pipe ends with the test that started this process, however that ends.
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
    std::process::exit(0);
}
