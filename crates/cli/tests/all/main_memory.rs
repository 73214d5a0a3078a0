//! `hanare run --main-memory`: programs that nobody changed, with more memory than they keep here.

use crate::pool;

use hanare::Pool;
use pool::Nodes;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

/// Why nothing can be served here, if so.
pub fn cannot_serve() -> Option<String> {
    if let Err(error) = hanare_disk::main_memory::check_permission() {
        return Some(error.to_string());
    }
    let library = Path::new(pool::HANARE).with_file_name("libhanare_main_memory.so");
    (!library.is_file()).then(|| "the library is not built; the whole workspace's tests build it".to_owned())
}

/// The program, compiled into a folder.
fn program(folder: &Path) -> Option<PathBuf> {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/all/main_memory/program.c");
    let program = folder.join("program");
    let words = ["-O1", "-Wall", "-Wextra", "-Werror", "-pthread", "-o"];
    match Command::new("cc").args(words).arg(&program).arg(source).status() {
        Ok(status) => {
            assert!(status.success(), "cc");
            Some(program)
        }
        Err(_) => {
            hanare_testkit::uninstalled("no C compiler");
            None
        }
    }
}

/// The names of the regions that a run made.
fn regions(nodes: &Nodes) -> Vec<String> {
    let pool = Pool::attach_to(&nodes.nodes[0].socket, None).unwrap();
    pool.list().unwrap().into_iter().map(|region| region.name).filter(|name| name.starts_with("main-memory")).collect()
}

#[test]
fn every_byte_of_a_program_is_what_it_wrote() {
    if let Some(reason) = cannot_serve() {
        return hanare_testkit::unable(reason);
    }
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = program(folder.path()) else { return };
    for step in ["allocations", "mappings", "streams", "threads", "calls", "forks", "execs", "allocators"] {
        let words = ["run", "--nodes", "2", "--memory", "512M", "-n", "1", "--main-memory", "32M", "--"];
        let ended = pool::run(&mut pool::command(&[&words[..], &[program.to_str().unwrap(), step]].concat()));
        assert!(ended.status.success(), "{step}: {}", ended.stderr);
        assert!(String::from_utf8_lossy(&ended.stdout).ends_with(&format!("ok {step}\n")), "{step}");
    }
}

/// A program with more memory than may be here, which waits for a line before it reads all of it again.
struct Filled {
    nodes: Nodes,
    run: Child,
}

impl Filled {
    fn start(program: &Path) -> Filled {
        let nodes = Nodes::start(2);
        let mut run = pool::command(&["run", "-n", "1", "--main-memory", "16M", "--", program.to_str().unwrap(), "lost"])
            .env("HANARE_NODE", &nodes.nodes[0].socket)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (mut line, mut byte) = (Vec::new(), [0]);
        while line.last() != Some(&b'\n') && run.stdout.as_mut().unwrap().read(&mut byte).unwrap() == 1 {
            line.push(byte[0]);
        }
        assert_eq!(line, b"filled\n");
        assert_ne!(regions(&nodes), Vec::<String>::new(), "more was written than may be here");
        Filled { nodes, run }
    }

    fn go_on(&mut self) {
        self.run.stdin.take().unwrap().write_all(b"x\n").unwrap();
    }

    /// Waits for the end: the status, what it printed and what was said.
    fn end(self) -> (ExitStatus, String, String) {
        let ended = self.run.wait_with_output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (ended.status, text(&ended.stdout), text(&ended.stderr))
    }

    fn far_is_alive(&self) -> bool {
        let pool = Pool::attach_to(&self.nodes.nodes[0].socket, None).unwrap();
        pool.status().unwrap().nodes.iter().any(|node| node.node.0 == 1 && node.alive)
    }
}

#[test]
fn a_node_that_is_silent_for_longer_than_its_lease_is_waited_for() {
    if let Some(reason) = cannot_serve() {
        return hanare_testkit::unable(reason);
    }
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = program(folder.path()) else { return };
    for is_touched_first in [true, false] {
        let mut filled = Filled::start(&program);
        let far = filled.nodes.nodes[1].process.id();
        pool::signal("STOP", far);
        if is_touched_first {
            filled.go_on();
        }
        pool::wait_until("the silent node is no member", || !filled.far_is_alive());
        if !is_touched_first {
            filled.go_on();
        }
        pool::signal("CONT", far);
        let (status, printed, said) = filled.end();
        assert!(status.success() && printed == "ok lost\n", "{status:?} {printed} {said}");
    }
}

#[test]
fn a_node_that_comes_back_without_the_bytes_ends_the_program_and_is_named() {
    if let Some(reason) = cannot_serve() {
        return hanare_testkit::unable(reason);
    }
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = program(folder.path()) else { return };
    let mut filled = Filled::start(&program);
    let (near, far) = (filled.nodes.nodes[0].address.clone(), filled.nodes.nodes.pop().unwrap());
    drop(far);
    filled.nodes.nodes.push(pool::Node::start(Some(&near), &[]));
    filled.go_on();
    let (status, printed, said) = filled.end();
    assert_eq!((status.code(), printed.as_str()), (Some(128 + 7), ""), "{said}");
    assert_eq!(said.lines().filter(|line| line.contains("gets SIGBUS: node 1 ended")).count(), 1, "{said}");
}

#[test]
fn what_the_pool_has_no_room_for_is_refused_and_the_program_lives() {
    if let Some(reason) = cannot_serve() {
        return hanare_testkit::unable(reason);
    }
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = program(folder.path()) else { return };
    let words = ["run", "--nodes", "2", "--memory", "64M", "-n", "1", "--main-memory", "16M", "--"];
    let ended = pool::run(&mut pool::command(&[&words[..], &[program.to_str().unwrap(), "full"]].concat()));
    assert!(ended.status.success() && ended.stdout == b"ok full\n", "{}", ended.stderr);
    let lines: Vec<&str> = ended.stderr.lines().collect();
    assert!(lines.len() == 1 && lines[0].contains("gets ENOMEM for memory of 48 MiB"), "{lines:?}");
    // With less in the pool than may be here, that is said ahead.
    let words = ["run", "--nodes", "2", "--memory", "64M", "-n", "1", "--main-memory", "1G", "--", "true"];
    let ended = pool::run(&mut pool::command(&words));
    assert!(ended.status.success() && ended.stderr.contains("the pool has 64 MiB free"), "{}", ended.stderr);
}

#[test]
fn a_program_that_is_killed_leaves_nothing_and_a_lost_node_is_named() {
    if let Some(reason) = cannot_serve() {
        return hanare_testkit::unable(reason);
    }
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = program(folder.path()) else { return };
    for is_node_lost in [false, true] {
        let mut filled = Filled::start(&program);
        if is_node_lost {
            drop(filled.nodes.nodes.pop());
            filled.go_on();
            let (status, _, said) = filled.end();
            let lines: Vec<&str> = said.lines().filter(|line| line.contains("gets SIGBUS")).collect();
            assert!(lines.len() == 1 && lines[0].contains("node 1"), "{said}");
            assert_eq!(status.code(), Some(128 + 7), "{said}");
        } else {
            filled.run.kill().unwrap();
            let Filled { nodes, mut run } = filled;
            run.wait().unwrap();
            let gone = std::time::Instant::now() + pool::paced(pool::BOUND);
            while !regions(&nodes).is_empty() {
                // What was killed with its guard is removed by the next run.
                nodes.hanare(&["run", "-n", "1", "--main-memory", "16M", "--", "true"]);
                assert!(std::time::Instant::now() < gone, "{:?}", regions(&nodes));
            }
        }
    }
}
