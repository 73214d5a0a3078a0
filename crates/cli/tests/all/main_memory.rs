//! `hanare run --main-memory`: programs that nobody changed, with more memory than they keep here.

use crate::pool;

use hanare::Pool;
use pool::Nodes;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

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
            eprintln!("skipped: no C compiler");
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
        return eprintln!("skipped: {reason}");
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

#[test]
fn a_program_that_is_killed_leaves_nothing_and_a_lost_node_is_named() {
    if let Some(reason) = cannot_serve() {
        return eprintln!("skipped: {reason}");
    }
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = program(folder.path()) else { return };
    for is_node_lost in [false, true] {
        let mut nodes = Nodes::start(2);
        let mut run = pool::command(&["run", "-n", "1", "--main-memory", "16M", "--", program.to_str().unwrap(), "lost"])
            .env("HANARE_NODE", &nodes.nodes[0].socket)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(run.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "filled\n");
        assert_ne!(regions(&nodes), Vec::<String>::new(), "more was written than may be here");
        if is_node_lost {
            nodes.nodes[1].process.kill().unwrap();
            nodes.nodes[1].process.wait().unwrap();
            run.stdin.take().unwrap().write_all(b"x\n").unwrap();
        } else {
            run.kill().unwrap();
        }
        let ended = run.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr);
        if is_node_lost {
            let lines: Vec<&str> = said.lines().filter(|line| line.contains("gets SIGBUS")).collect();
            assert!(lines.len() == 1 && lines[0].contains("node 1"), "{said}");
            assert_eq!(ended.status.code(), Some(128 + 7), "{said}");
        } else {
            let gone = std::time::Instant::now() + pool::paced(pool::BOUND);
            while !regions(&nodes).is_empty() {
                // What was killed with its guard is removed by the next run.
                nodes.hanare(&["run", "-n", "1", "--main-memory", "16M", "--", "true"]);
                assert!(std::time::Instant::now() < gone, "{:?}", regions(&nodes));
            }
        }
    }
}
