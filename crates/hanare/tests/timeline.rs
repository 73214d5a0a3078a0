//! `HANARE_TRACE`: what a program did is in its file, whole even when the program was killed.
//!
//! The setting is a process's own, so the programs are this test's binary, started once more.

mod support;

use hanare::{CreateOptions, Element, JobId, JobRank, Pool, Range, Rank, Strided};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use support::TestPool;

const LEN: u64 = 1 << 20;

/// Runs `what` (see [`program`]) as a rank, with a timeline in `trace`.
fn run(pool: &TestPool, what: &str, trace: &Path, (rank, ranks): (usize, usize)) -> ExitStatus {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["program", "--exact", "--ignored", "--nocapture"]).stdout(Stdio::null()).stderr(Stdio::null());
    command.env("TIMELINE_PROGRAM", what).env("HANARE_TRACE", trace).env("HANARE_NODE", pool.nodes[0].socket());
    command.env("HANARE_RANK", rank.to_string()).env("HANARE_RANKS", ranks.to_string()).env("HANARE_JOB", "7");
    command.status().unwrap()
}

fn events(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error} in {text}"))
}

/// Events of that phase and name.
fn named<'a>(events: &'a [Value], phase: &str, name: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["ph"] == phase && event["name"] == name).collect()
}

/// Not a test: the program that the tests run.
#[test]
#[ignore = "started by other tests"]
fn program() {
    let Ok(what) = std::env::var("TIMELINE_PROGRAM") else { return };
    let pool = Pool::attach().unwrap();
    let options = CreateOptions { placement: "node=1".parse().unwrap(), mode: 0o600 };
    let far = pool.create_or_attach("far", LEN, &options).unwrap();
    let near = pool.create_or_attach("near", LEN, &CreateOptions::default()).unwrap();
    if what == "barrier" {
        return pool.barrier().unwrap();
    }
    for _ in 0..5 {
        far.put(100, b"twelve bytes").unwrap();
        near.put(0, b"four").unwrap();
    }
    let mut both = ([0; 4], [0; 4]);
    pool.batch(|batch| {
        batch.get(&far, 100, &mut both.0)?;
        batch.get(&near, 0, &mut both.1)
    })
    .unwrap();
    assert_eq!(&both, &(*b"twel", *b"four"));
    assert!(far.get(LEN, &mut [0; 1]).is_err());
    assert!(far.fill(Strided::contiguous(0, 10), b"123").is_err());
    far.reduce(Strided::contiguous(0, LEN), Element::U8, Range::all(Element::U8)).unwrap();
    let later = far.start_get(0, vec![0; 4096]).unwrap();
    if what == "killed" {
        rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL).unwrap();
    }
    later.wait().unwrap();
    pool.flush().unwrap();
}

#[test]
fn every_command_is_a_slice_and_every_request_an_async_one() {
    let pool = TestPool::start(2, 64 << 20);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.json");
    assert!(run(&pool, "all", &path, (0, 1)).success());
    let events = events(&path);
    // Far puts have a request: they begin and end. Near ones are done at once, the first included.
    let far: Vec<_> = named(&events, "B", "put");
    assert_eq!(far.len(), 5);
    assert!(far.iter().all(|put| put["args"]["region"] == "far" && put["args"]["bytes"] == 12));
    assert!(far.iter().all(|put| put["args"]["nodes"] == serde_json::json!([1]) && put["cat"] == "command"));
    let near = named(&events, "X", "put");
    assert_eq!(near.len(), 5, "mapped memory too");
    assert!(near.iter().all(|put| put["args"]["region"] == "near" && put["args"]["outcome"] == "done" && put["dur"].is_f64()));
    let batch = named(&events, "B", "batch");
    assert_eq!((batch.len(), &batch[0]["args"]["commands"]["get"]), (1, &Value::from(2)));
    assert_eq!(batch[0]["args"]["region"], "far, near");
    assert_eq!(named(&events, "B", "reduce")[0]["args"]["bytes"], LEN);
    let ends = events.iter().filter(|event| event["ph"] == "E");
    assert!(
        ends.clone().all(|end| end["args"]["outcome"] == "done") && ends.count() == 5 + 1 + 1 + 1,
        "puts, batch, reduce, flush"
    );
    // What is refused is there with its reason. (A get beyond the end is refused before it is a command.)
    let refused: Vec<_> = events.iter().filter(|event| event["ph"] == "X" && event["args"]["outcome"] != "done").collect();
    assert!(refused.iter().any(|event| event["args"]["outcome"].as_str().unwrap().contains("'far'")), "{refused:?}");
    // What was begun without waiting is async, and its request lies within it.
    let (begun, waited) = (named(&events, "b", "get"), named(&events, "e", "get"));
    assert_eq!((begun.len(), waited.len()), (1, 1));
    assert_eq!(begun[0]["id2"], waited[0]["id2"]);
    let requests = (named(&events, "b", "request to node 1"), named(&events, "e", "request to node 1"));
    assert_eq!((requests.0.len(), requests.1.len()), (8, 8), "puts, batch, reduce, get");
    for (asked, answered) in requests.0.iter().zip(&requests.1) {
        assert_eq!((&asked["id2"], &answered["args"]["outcome"]), (&answered["id2"], &Value::from("done")));
        assert!(asked["ts"].as_f64().unwrap() <= answered["ts"].as_f64().unwrap());
    }
    assert!(!named(&events, "M", "process_name").is_empty() && !named(&events, "M", "thread_name").is_empty());
}

#[test]
fn a_killed_program_leaves_a_file_that_can_be_read() {
    let pool = TestPool::start(2, 64 << 20);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.json");
    assert!(!run(&pool, "killed", &path, (0, 1)).success());
    let events = events(&path);
    assert_eq!((named(&events, "b", "get").len(), named(&events, "e", "get").len()), (1, 0), "the last thing it did is there");
}

#[test]
fn every_rank_has_a_file_of_its_own() {
    let pool = TestPool::start(2, 64 << 20);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.json");
    std::thread::scope(|scope| {
        for rank in 0..2 {
            let (pool, path) = (&pool, &path);
            scope.spawn(move || assert!(run(pool, "barrier", path, (rank, 2)).success()));
        }
    });
    for rank in 0..2 {
        let events = events(&folder.path().join(format!("out.{rank}.json")));
        let waits = (named(&events, "B", "barrier").len(), named(&events, "E", "barrier").len());
        assert_eq!(waits, (1, 1));
        assert!(events.iter().all(|event| event["pid"] == rank));
    }
    assert!(!path.exists());
}

/// Two attachments of one process share its timeline, and a setting that cannot be is told at the first.
#[test]
fn a_folder_that_is_not_there_is_refused_when_the_program_attaches() {
    let pool = TestPool::start(1, 64 << 20);
    assert!(!run(&pool, "barrier", Path::new("/nowhere/out.json"), (0, 1)).success());
    let who = JobRank { job: JobId(1), rank: Rank(0), ranks: 1 };
    assert!(Pool::attach_to(pool.nodes[0].socket(), Some(who)).is_ok(), "this process has no timeline");
}
