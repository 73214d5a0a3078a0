//! `hanare serve redis` before other people's clients: go-redis, ioredis and jedis. redis-py is in `crates/python/tests/test_redis.py`.
//!
//! Each program does the same by its library: strings, ends, counters, scans, a pipeline, a proof by user and secret, and refusals in Redis'
//! words. It compares every result with the expected one.

use crate::pool;

use pool::{BOUND, Nodes, command};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use std::fs;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const SECRET: &str = "open sesame";

/// A service on a store, with a secret.
struct Service {
    process: Child,
    port: String,
    folder: tempfile::TempDir,
    nodes: Nodes,
}

impl Service {
    fn start() -> Service {
        Service::start_with(Nodes::start(1), &[])
    }

    /// A service on the first of these nodes, with further words.
    fn start_with(nodes: Nodes, further: &[&str]) -> Service {
        let folder = tempfile::tempdir().unwrap();
        let secret = folder.path().join("secret");
        let mut file = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&secret).unwrap();
        writeln!(file, "{SECRET}").unwrap();
        let words = ["serve", "redis", "--store", "team.kv", "--bytes", "16M", "--listen", "127.0.0.1:0", "--secret"];
        let mut served = command(&[&words[..], &[secret.to_str().unwrap()], further].concat());
        let mut process = served.env("HANARE_NODE", &nodes.nodes[0].socket).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(process.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let port = line.trim_end().rsplit(':').next().unwrap().to_owned();
        assert!(line.starts_with("ready"), "{line}");
        Service { process, port, folder, nodes }
    }

    /// A client that has proved who it is.
    fn client(&self) -> TcpStream {
        let mut client = TcpStream::connect(format!("127.0.0.1:{}", self.port)).unwrap();
        client.set_read_timeout(Some(BOUND)).unwrap();
        assert_eq!(ask(&mut client, format!("AUTH '{SECRET}'\r\n").as_bytes()), "+OK\r\n");
        client
    }

    /// Runs a client's program, which compares.
    #[track_caller]
    fn satisfies(&self, program: &mut Command) {
        let ended = program.args([&self.port, SECRET]).output().unwrap();
        assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
        assert!(String::from_utf8_lossy(&ended.stdout).contains("all as expected"), "{ended:?}");
    }
}

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Sends a command, and returns the first bytes of the reply.
fn ask(client: &mut TcpStream, sent: &[u8]) -> String {
    client.write_all(sent).unwrap();
    let mut reply = [0; 100];
    let len = client.read(&mut reply).unwrap();
    String::from_utf8_lossy(&reply[..len]).into_owned()
}

/// The folder of a client's program.
fn folder(client: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../resp/tests/clients").join(client)
}

/// True if a program is there; otherwise the test has said which one is not.
fn has(program: &str, word: &str) -> bool {
    let found = Command::new(program).arg(word).stdin(Stdio::null()).output();
    let is_here = found.is_ok_and(|ended| ended.status.success());
    if !is_here {
        hanare_testkit::uninstalled(format!("no {program}"));
    }
    is_here
}

/// True if a client's library was fetched; otherwise the test has said that it cannot be reached.
fn fetched(client: &str, fetch: &mut Command) -> bool {
    let ended = fetch.stdin(Stdio::null()).output().unwrap();
    if !ended.status.success() {
        hanare_testkit::unable(format!("{client} is not on this machine and cannot be reached"));
    }
    ended.status.success()
}

#[track_caller]
fn built(build: &mut Command) {
    let ended = build.output().unwrap();
    assert!(ended.status.success(), "{}", String::from_utf8_lossy(&ended.stderr));
}

#[test]
fn go_redis() {
    let its = folder("go-redis");
    if !has("go", "version") || !fetched("go-redis", Command::new("go").args(["mod", "download"]).current_dir(&its)) {
        return;
    }
    let service = Service::start();
    let program = service.folder.path().join("program");
    built(Command::new("go").args(["build", "-buildvcs=false", "-o"]).arg(&program).arg(".").current_dir(&its));
    service.satisfies(&mut Command::new(program));
}

#[test]
fn ioredis() {
    if !has("node", "--version") || !has("npm", "--version") {
        return;
    }
    let service = Service::start();
    let its = service.folder.path().join("ioredis");
    fs::create_dir(&its).unwrap();
    for name in ["package.json", "package-lock.json", "main.js"] {
        fs::copy(folder("ioredis").join(name), its.join(name)).unwrap();
    }
    if fetched("ioredis", Command::new("npm").args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]).current_dir(&its)) {
        service.satisfies(Command::new("node").arg(its.join("main.js")));
    }
}

#[test]
fn jedis() {
    if !has("javac", "-version") || !has("mvn", "--version") {
        return;
    }
    let service = Service::start();
    let (jars, classes) = (service.folder.path().join("jars"), service.folder.path().join("classes"));
    let mut fetch = Command::new("mvn");
    fetch.args(["-B", "-q", "dependency:copy-dependencies"]).arg(format!("-DoutputDirectory={}", jars.display()));
    if !fetched("jedis", fetch.current_dir(folder("jedis"))) {
        return;
    }
    let all = format!("{}/*", jars.display());
    built(Command::new("javac").args(["-cp", &all, "-d"]).arg(&classes).arg(folder("jedis").join("Main.java")));
    service.satisfies(Command::new("java").args(["-cp", &format!("{all}:{}", classes.display()), "Main"]));
}

#[test]
fn a_command_that_waits_for_a_node_holds_up_its_own_client_alone() {
    let service = Service::start_with(Nodes::start(2), &["--place", "node=1", "--threads", "1"]);
    let (mut first, mut second) = (service.client(), service.client());
    assert_eq!(ask(&mut first, b"SET a 1\r\n"), "+OK\r\n");
    let home = Pid::from_child(&service.nodes.nodes[1].process);
    kill_process(home, Signal::STOP).unwrap();
    // All of its threads stand still from here on.
    assert!(waitpid(Some(home), WaitOptions::UNTRACED).unwrap().is_some_and(|(_, status)| status.stopped()));
    first.write_all(b"GET a\r\n").unwrap();
    // One thread serves both. Another takes its place when the command lasts.
    for _ in 0..10 {
        assert_eq!(ask(&mut second, b"PING\r\n"), "+PONG\r\n");
    }
    first.set_nonblocking(true).unwrap();
    let mut early = [0; 100];
    let replied = first.peek(&mut early).map(|len| String::from_utf8_lossy(&early[..len]).into_owned());
    first.set_nonblocking(false).unwrap();
    kill_process(home, Signal::CONT).unwrap();
    assert!(replied.as_ref().is_err_and(|error| error.kind() == ErrorKind::WouldBlock), "it did not wait: {replied:?}");
    let mut reply = [0; 7];
    first.read_exact(&mut reply).unwrap();
    assert_eq!(&reply, b"$1\r\n1\r\n");
    // The connection goes on in the other thread.
    assert_eq!(ask(&mut first, b"GET a\r\n"), "$1\r\n1\r\n");
}

#[test]
fn what_a_killed_service_was_told_another_one_has() {
    let mut service = Service::start();
    let mut client = service.client();
    for number in 0..500 {
        assert_eq!(ask(&mut client, format!("SET kept:{number} {number}\r\n").as_bytes()), "+OK\r\n");
    }
    service.process.kill().unwrap();
    service.process.wait().unwrap();
    let nodes = std::mem::replace(&mut service.nodes, Nodes { nodes: Vec::new() });
    let again = Service::start_with(nodes, &[]);
    let mut client = again.client();
    for number in 0..500 {
        let text = number.to_string();
        assert_eq!(ask(&mut client, format!("GET kept:{number}\r\n").as_bytes()), format!("${}\r\n{text}\r\n", text.len()));
    }
}
