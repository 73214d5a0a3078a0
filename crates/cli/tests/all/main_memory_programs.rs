//! Programs that everybody has, unchanged, with more memory than they may keep here: each comes to what it comes to alone.

use crate::main_memory::cannot_serve;
use crate::pool;

use pool::{Running, run, wait_until};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};

/// Whether programs can be served here and this one is there; says why not.
fn has(program: &str, words: &[&str]) -> bool {
    let found = Command::new(program).args(words).stdin(Stdio::null()).output();
    let reason = match (cannot_serve(), found) {
        (Some(reason), _) => reason,
        (None, Ok(output)) if output.status.success() => return true,
        _ => format!("no {program} that takes {words:?}"),
    };
    hanare_testkit::unable(reason);
    false
}

/// A command that runs a program with so much memory here, and the rest on a second node.
fn bounded(limit: &str, program: &[&str]) -> Command {
    pool::command(&[&["run", "--nodes", "2", "--memory", "512M", "-n", "1", "--main-memory", limit, "--"], program].concat())
}

/// What a program prints, bounded; it must be what it prints alone.
#[track_caller]
fn prints_the_same(limit: &str, program: &[&str]) {
    let alone = run(pool::clean(program[0]).args(&program[1..]));
    assert!(alone.status.success(), "{alone:?}");
    let ended = run(&mut bounded(limit, program));
    assert!(ended.status.success(), "{}", ended.stderr);
    assert!(ended.stdout == alone.stdout, "{} bytes came, {} are right", ended.stdout.len(), alone.stdout.len());
}

/// Bytes that are filled, copied, moved, compared; read by the kernel, by a child of a fork and by another program.
const PYTHON: &str = r#"
import hashlib, os, random, subprocess, sys
random.seed(1)
a = bytearray(random.randbytes(40 << 20))
b = bytes(a)
print(hashlib.sha1(b).hexdigest(), a == b, flush=True)
a[: 20 << 20], a[20 << 20 :] = a[20 << 20 :], a[: 20 << 20]
sys.stdout.flush()
if os.fork() == 0:
    print("child", hashlib.sha1(a).hexdigest(), flush=True)
    os._exit(0)
a[::4096] = bytes(len(a) // 4096)
os.wait()
print(hashlib.sha1(a).hexdigest(), a.count(0), flush=True)
print(subprocess.run(["sha1sum"], input=a, capture_output=True).stdout)
numbers = sorted(random.random() for _ in range(200000))
print(all(x <= y for x, y in zip(numbers, numbers[1:])), sum(numbers))
"#;

#[test]
fn python() {
    if has("python3", &["-c", "import random; random.randbytes(1)"]) {
        prints_the_same("32M", &["python3", "-c", PYTHON]);
    }
}

const NUMPY: &str = r#"
import numpy
random = numpy.random.default_rng(1)
a, b = random.integers(0, 99, (1400, 1400)).astype(float), random.integers(0, 99, (1400, 1400)).astype(float)
c = a @ b
print(c.sum(), numpy.sort(c, axis=None)[::100000], (c.T @ numpy.ones(1400))[::100])
"#;

#[test]
fn numpy() {
    // Whole numbers: no order of additions changes the sums.
    if has("python3", &["-c", "import numpy"]) {
        prints_the_same("16M", &["python3", "-c", NUMPY]);
    }
}

#[test]
fn sort() {
    if !has("sort", &["--version"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let (lines, mut state) = (folder.path().join("lines"), 1u64);
    let mut text = String::new();
    for _ in 0..50_000 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        text.push_str(&format!("{:016x} {:0600}\n", state ^ state >> 29, state % 1000));
    }
    std::fs::write(&lines, text).unwrap();
    prints_the_same("16M", &["sort", "-S", "64M", lines.to_str().unwrap()]);
}

/// A client of Redis.
struct Client(BufReader<UnixStream>);

impl Client {
    /// Connects as soon as the server is there.
    fn new(socket: &Path) -> Client {
        let mut connected = None;
        wait_until("redis answers", || {
            connected = UnixStream::connect(socket).ok();
            connected.is_some()
        });
        let mut client = Client(BufReader::new(connected.unwrap()));
        wait_until("redis has loaded its file", || client.ask("PING") == "PONG");
        client
    }

    /// Asks, and returns the answer's text.
    fn ask(&mut self, words: &str) -> String {
        self.0.get_mut().write_all(format!("{words}\r\n").as_bytes()).unwrap();
        let mut line = String::new();
        self.0.read_line(&mut line).unwrap();
        match line.trim_end().strip_prefix('$') {
            None => line.trim_end()[1..].to_owned(),
            Some(len) => {
                let mut text = vec![0; len.parse::<usize>().unwrap() + 2];
                self.0.read_exact(&mut text).unwrap();
                String::from_utf8(text).unwrap().trim_end().to_owned()
            }
        }
    }
}

#[test]
fn what_redis_saves_in_the_background_is_its_state_at_the_fork() {
    const KEYS: u64 = 20_000;
    if !has("redis-server", &["--version"]) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().to_str().unwrap();
    let socket = |name: &str| folder.path().join(name);
    let words = |name: &str| {
        let all = ["redis-server", "--port", "0", "--unixsocket", name, "--save", "", "--dir", place];
        all.into_iter().chain(["--enable-debug-command", "yes"]).map(str::to_owned).collect::<Vec<_>>()
    };
    let first = words(socket("first").to_str().unwrap());
    let first: Vec<&str> = first.iter().map(String::as_str).collect();
    let server = Running::start(&mut bounded("16M", &first));
    let mut client = Client::new(&socket("first"));
    assert_eq!(client.ask(&format!("DEBUG POPULATE {KEYS} key 2000")), "OK");
    let digest = client.ask("DEBUG DIGEST");
    assert_eq!(client.ask("BGSAVE"), "Background saving started");
    // Keys change, and pages leave, while the child writes.
    let mut key = 0;
    loop {
        key = (key + 7919) % KEYS;
        assert_eq!(client.ask(&format!("SET key:{key} changed")), "OK");
        assert!(client.ask(&format!("GET key:{}", (key + 1) % KEYS)).len() >= "changed".len());
        let persistence = client.ask("INFO persistence");
        if persistence.contains("rdb_bgsave_in_progress:0") {
            assert!(persistence.contains("rdb_last_bgsave_status:ok"), "{persistence}");
            break;
        }
    }
    assert_ne!(client.ask("DEBUG DIGEST"), digest);
    client.0.get_mut().write_all(b"SHUTDOWN NOSAVE\r\n").unwrap();
    let ended = server.wait();
    assert!(ended.status.success(), "{}", ended.stderr);

    let second = words(socket("second").to_str().unwrap());
    let mut plain = pool::clean(&second[0]);
    let plain = Running::start(plain.args(&second[1..]));
    let mut client = Client::new(&socket("second"));
    assert_eq!(client.ask("DEBUG DIGEST"), digest, "the saved file's keys");
    client.0.get_mut().write_all(b"SHUTDOWN NOSAVE\r\n").unwrap();
    assert!(plain.wait().status.success());
}
