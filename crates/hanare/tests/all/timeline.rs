//! `HANARE_TRACE`: what a program did is in its file, whole even when the program was killed.
//!
//! The setting is a process's own, so the programs are this test's binary, started once more.

use crate::support;

use hanare::{
    Consistency, CreateOptions, Element, JobId, JobRank, Overflow, Pool, QueueForm, Range, Rank, SharedMapping, Strided, Unit,
};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;
use support::TestPool;

const LEN: u64 = 1 << 20;
const PAGE: u64 = 4096;

/// Runs `what` (see [`program`]) as a rank, with a timeline in `trace`.
fn run(pool: &TestPool, what: &str, trace: &Path, (rank, ranks): (usize, usize)) -> ExitStatus {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(hanare_testkit::words("timeline::program")).stdout(Stdio::null()).stderr(Stdio::null());
    command.env("TIMELINE_PROGRAM", what).env("HANARE_TRACE", trace).env("HANARE_NODE", pool.nodes[0].socket());
    command.env("TIMELINE_OTHER", pool.nodes.last().unwrap().socket());
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
pub fn program() {
    let Ok(what) = std::env::var("TIMELINE_PROGRAM") else { return };
    let pool = Pool::attach().unwrap();
    let options = CreateOptions { placement: "node=1".parse().unwrap(), mode: 0o600, ..CreateOptions::default() };
    let far = pool.create_or_attach("far", LEN, &options).unwrap();
    if what == "queues" {
        return queues(&pool);
    }
    if what == "faults" {
        return faults(&pool);
    }
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

fn load(mapping: &SharedMapping, page: u64) {
    // SAFETY: within the mapping, which is borrowed as long.
    unsafe { mapping.ptr().add((page * PAGE) as usize).read_volatile() };
}

fn store(mapping: &SharedMapping, page: u64) {
    // SAFETY: as above.
    unsafe { mapping.ptr().add((page * PAGE) as usize).write_volatile(7) };
}

/// Faults of every kind, on pages of node 1.
fn faults(pool: &Pool) {
    let attach = |socket: &str| Pool::attach_to(socket, None).unwrap();
    let beside = attach(&std::env::var("HANARE_NODE").unwrap());
    let home = attach(&std::env::var("TIMELINE_OTHER").unwrap());
    let map = |pool: &Pool, name, how| pool.open(name).unwrap().map(how).unwrap();
    let shared = map(pool, "far", Consistency::Coherent);
    load(&shared, 3);
    store(&shared, 3);
    store(&map(&home, "far", Consistency::Coherent), 3);
    (100..140).for_each(|page| load(&shared, page));
    load(&map(&beside, "far", Consistency::Coherent), 100);
    let toucher = std::thread::Builder::new().name("toucher".to_owned());
    std::thread::scope(|scope| toucher.spawn_scoped(scope, || load(&shared, 50)).unwrap().join().unwrap());
    // Memory of this host that another host has stored to comes back by way of the node.
    let options = CreateOptions { placement: "node=0".parse().unwrap(), mode: 0o600, ..CreateOptions::default() };
    pool.create("lent", 16 * PAGE, &options).unwrap();
    let (theirs, own) = (map(&home, "lent", Consistency::Coherent), map(pool, "lent", Consistency::Coherent));
    // In no order that a stream of faults follows.
    [9, 2].iter().for_each(|page| store(&theirs, *page));
    [9, 2].iter().for_each(|page| load(&own, *page));
    let options = CreateOptions { placement: "node=1".parse().unwrap(), ..CreateOptions::default() };
    for name in ["flushed", "kept"] {
        pool.create(name, 16 * PAGE, &options).unwrap();
    }
    let flushed = map(pool, "flushed", Consistency::Explicit);
    load(&flushed, 2);
    store(&flushed, 2);
    store(&flushed, 9);
    flushed.flush(2 * PAGE, PAGE).unwrap();
    flushed.update(0, 16 * PAGE).unwrap();
    flushed.touch(4 * PAGE, 1).unwrap();
    assert!(flushed.flush(16 * PAGE, 1).is_err());
    // Nothing but the end of the process takes this over.
    let kept = map(pool, "kept", Consistency::Explicit);
    load(&kept, 1);
    std::mem::forget((kept, shared, flushed));
}

/// FEATURE: EU-F12 D2-F7
#[test]
fn every_fault_is_a_slice_on_its_thread_with_what_it_took() {
    let pool = TestPool::start(2, 64 << 20);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.json");
    assert!(run(&pool, "faults", &path, (0, 1)).success());
    let events = events(&path);
    let faults: Vec<_> = events.iter().filter(|event| event["cat"] == "fault").collect();
    assert!(faults.iter().all(|fault| fault["ph"] == "X" && fault["dur"].as_f64().unwrap() > 0.0));
    let of = |region: &str, page: u64| {
        let these = faults.iter().filter(|fault| fault["args"]["region"] == region && fault["args"]["offset"] == page * PAGE);
        let told = |fault: &Value| (text(&fault["name"]), text(&fault["args"]["access"]));
        these.map(|fault| told(fault)).collect::<Vec<_>>()
    };
    let told = |name: &str, access: &str| (name.to_owned(), access.to_owned());
    assert_eq!(of("far", 3), [told("fault, fetched", "read"), told("fault, upgraded", "write"), told("fault, waited", "write")]);
    assert_eq!(of("far", 100), [told("fault, fetched", "read"), told("fault, mapped", "read")], "for one host and two programs");
    let ahead =
        |page: u64| faults.iter().find(|fault| fault["args"]["offset"] == page * PAGE).map(|fault| &fault["args"]["pages_ahead"]);
    assert_eq!((ahead(100), ahead(101)), (Some(&Value::from(0)), Some(&Value::from(1))), "a stream begins");
    assert!(of("far", 102).is_empty() && of("far", 139).len() <= 1);
    // Another thread has its own row, named although it is gone.
    let toucher = faults.iter().find(|fault| fault["args"]["offset"] == 50 * PAGE).unwrap();
    let names = named(&events, "M", "thread_name");
    let names: Vec<_> = names.iter().filter(|event| event["tid"] == toucher["tid"]).collect();
    assert!(names.len() == 1 && toucher["tid"] != faults[0]["tid"]);
    // Explicit: the first store keeps the clean bytes, also where it brings the page.
    assert_eq!(of("flushed", 2), [told("fault, fetched", "read"), told("fault, twin made", "write")]);
    assert_eq!(of("flushed", 9), [told("fault, fetched", "write")]);
    for (name, offset, bytes) in [("flush", 2 * PAGE, PAGE), ("update", 0, 16 * PAGE), ("touch", 4 * PAGE, 1)] {
        let slice = named(&events, "B", name)[0];
        assert_eq!(slice["args"], serde_json::json!({ "region": "flushed", "offset": offset, "bytes": bytes }));
    }
    // Messages for pages stand with what they were sent for.
    let flushed = named(&events, "E", "flush")[0];
    let (sent, nodes) = (flushed["pages"]["bytes_sent"].as_u64(), &flushed["pages"]["nodes"]);
    assert!(flushed["pages"]["messages"] == 1 && sent > Some(32) && *nodes == serde_json::json!([1]), "{flushed}");
    let of_faults = faults.iter().filter_map(|fault| fault["pages"]["bytes_received"].as_u64());
    assert!(of_faults.sum::<u64>() > 4 * PAGE, "pages came: {faults:?}");
    // Two of these are the pages of this host that another had stored to.
    let later: u64 = events.iter().filter_map(|event| event["pages"]["pages_later"].as_u64()).sum();
    assert!(later >= 2, "{later} pages came by way of the node");
    let refused = named(&events, "E", "flush")[1];
    assert!(text(&refused["args"]["outcome"]).contains("'flushed'"), "{refused}");
    assert_eq!(of("kept", 1), [told("fault, fetched", "read")], "taken over when the process ends");
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
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
    let received: Vec<_> = requests.1.iter().map(|answered| answered["args"]["bytes_received"].as_u64().unwrap()).collect();
    assert_eq!((received[..5].iter().sum::<u64>(), received[5], received[7]), (0, 4, 4096), "puts, batch, get: {received:?}");
    // The writing of the timeline took time, and says so from the second event of a thread on.
    let wrote = |event: &&Value| event["wrote"].as_f64() > Some(0.0);
    let (told, all) = (events.iter().filter(wrote).count(), events.iter().filter(|event| event["ph"] != "M").count());
    assert!(told + 1 >= all && all > 40, "{told} of {all}");
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

/// A port here and one elsewhere: each waits once, and does three units.
fn queues(pool: &Pool) {
    let form = QueueForm { unit: Unit::Blocks { len: 16 }, depth: 2, ports: 1, overflow: Overflow::Wait };
    for (name, node) in [("near", 0), ("far", 1)] {
        let options = CreateOptions { placement: format!("node={node}").parse().unwrap(), ..CreateOptions::default() };
        let queue = pool.create_queue(&format!("{name}-queue"), &form, &options).unwrap();
        let (mut writer, mut reader) = (queue.writer().unwrap(), queue.reader().unwrap());
        assert!(reader.see(Some(Duration::from_millis(100))).is_err());
        (0..2).for_each(|_| writer.send(&[7; 16]).unwrap());
        assert!(writer.claim(16, Some(Duration::from_millis(100))).is_err());
        let mut unit = Vec::new();
        (0..2).for_each(|_| reader.receive(&mut unit, None).unwrap());
        writer.send(&[8; 16]).unwrap();
        reader.receive(&mut unit, None).unwrap();
        writer.close().unwrap();
        reader.close().unwrap();
    }
}

#[test]
fn ports_of_queues_are_on_the_timeline_with_what_they_did() {
    let pool = TestPool::start(2, 32 << 20);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("trace.json");
    assert!(run(&pool, "queues", &path, (0, 1)).success());
    let events = events(&path);
    for port in ["write port", "read port"] {
        let begun = named(&events, "b", port);
        let queues: Vec<_> = begun.iter().map(|event| event["args"]["queue"].as_str().unwrap()).collect();
        assert_eq!(queues, ["'near-queue'", "'far-queue'"]);
        for (begun, ended) in begun.iter().zip(named(&events, "e", port)) {
            assert_eq!((&begun["id2"], &ended["args"]["units"]), (&ended["id2"], &3.into()), "{port}");
            assert!(ended["args"]["waits"].as_u64() > Some(0), "{port}: {ended}");
        }
    }
    for wait in ["wait for a unit", "wait for room"] {
        let waits = named(&events, "B", wait);
        for queue in ["'near-queue'", "'far-queue'"] {
            assert!(waits.iter().any(|event| event["args"]["queue"] == queue), "{wait} of {queue}");
        }
    }
}
