//! Timelines: where they are, and what stands in them.

use super::*;
use hanare_protocol::id::Rank;

#[test]
fn ranks_do_not_share_a_file() {
    let name = |text, ranks| file_name(text, 3, ranks, 77).to_string_lossy().into_owned();
    assert_eq!(name("out.json", 1), "out.json");
    assert_eq!(name("out.json", 8), "out.3.json");
    assert_eq!(name("/a.b/out", 8), "/a.b/out.3");
    assert_eq!(name("r%r-of-%r.json", 8), "r3-of-3.json");
    assert_eq!(name("%p.json", 8), "77.json");
}

#[test]
fn a_place_where_no_file_can_be_is_refused_with_the_setting_named() {
    let Err(error) = Trace::new("/nowhere/at/all/out.json", None) else { panic!("it was taken") };
    assert!(error.to_string().starts_with("HANARE_TRACE cannot be '/nowhere/at/all/out.json'"), "{error}");
}

#[test]
fn the_file_is_an_array_after_every_event() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out.json");
    let job = JobRank { job: JobId(7), rank: Rank(1), ranks: 2 };
    let trace = Trace::new(path.to_str().unwrap(), Some(job)).unwrap();
    let path = folder.path().join("out.1.json");
    assert!(!path.exists(), "nothing has happened");
    for count in 1..=3 {
        trace.event("X", "get", "command", trace.now(), json!({ "dur": 1.5, "args": { "region": "a \"b\"" } }));
        let events: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
        let of = |phase: &str| events.iter().filter(|event| event["ph"] == phase).count();
        // Four about the process, one about the thread.
        assert_eq!((of("X"), of("M"), events.len()), (count, 5, count + 5));
        assert!(events.iter().all(|event| event["pid"] == 1));
        assert!(events[0]["args"]["name"].as_str().unwrap().starts_with("rank 1 of 2"));
    }
}

#[test]
fn the_file_is_its_users_alone_follows_no_link_and_names_no_job() {
    use std::os::unix::fs::{PermissionsExt, symlink};
    let folder = tempfile::tempdir().unwrap();
    let path = |rank: u32| folder.path().join(format!("out.{rank}.json"));
    let write = |rank: u32| {
        let job = JobRank { job: JobId(0x1234_5678_9abc_def0_1234_5678_9abc_def0), rank: Rank(rank), ranks: 3 };
        let trace = Trace::new(folder.path().join("out.json").to_str().unwrap(), Some(job)).unwrap();
        trace.event("X", "get", "command", trace.now(), json!({ "dur": 1.5 }));
    };
    write(0);
    assert_eq!(std::fs::metadata(path(0)).unwrap().permissions().mode() & 0o777, 0o600);
    let text = std::fs::read_to_string(path(0)).unwrap();
    assert!(text.contains("(job ") && !text.contains("12345678"), "{text}");
    let theirs = folder.path().join("theirs");
    std::fs::write(&theirs, "theirs").unwrap();
    symlink(&theirs, path(1)).unwrap();
    write(1);
    assert_eq!(std::fs::read(&theirs).unwrap(), b"theirs");
}
