//! `HANARE_TRACE` over the ranks of a job makes one file, with arrows and one clock; `hanare trace` says where the time went.

use crate::pool;

use hanare::{CreateOptions, NodeId, Placement, Pool};
use pool::{command, run};
use serde_json::Value;
use std::collections::BTreeSet;

/// The begins, or the ends, of arrows: their names and times.
fn arrows<'e>(events: &'e [Value], phase: &str) -> Vec<(&'e str, f64)> {
    let those = events.iter().filter(|event| event["ph"] == phase);
    those.map(|event| (event["id"].as_str().unwrap(), event["ts"].as_f64().unwrap())).collect()
}

/// Not a test: a rank of the job of the next one.
pub fn rank_with_a_timeline() {
    if std::env::var_os("HANARE_RANKS").is_none() {
        return;
    }
    let pool = Pool::attach().unwrap();
    let options = CreateOptions { placement: Placement::Node(NodeId(1 - pool.node().0)), ..CreateOptions::default() };
    let region = pool.create(&format!("far{}", pool.rank()), 1 << 20, &options).unwrap();
    for turn in 0..5 {
        region.put(0, &[7; 1000]).unwrap();
        // A lock that is taken again is lent, and asks nobody.
        pool.lock(&format!("{turn} of {}", pool.rank())).unwrap().unlock().unwrap();
    }
    pool.barrier().unwrap();
}

#[test]
fn the_timelines_of_a_job_become_one_that_says_where_the_time_went() {
    let folder = tempfile::tempdir().unwrap();
    let own = std::env::current_exe().unwrap();
    let rank = hanare_testkit::words("one_timeline::rank_with_a_timeline");
    let words = [&["run", "--nodes", "2", "-n", "2", "--", own.to_str().unwrap()][..], &rank].concat();
    let file = folder.path().join("job.json");
    let ended = run(command(&words).env("HANARE_TRACE", &file));
    assert!(ended.status.success(), "{}", ended.stderr);
    let names: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["job.json"], "{}", ended.stderr);
    let events: Vec<Value> = serde_json::from_str(&std::fs::read_to_string(&file).unwrap()).unwrap();
    let ranks: BTreeSet<u64> = events.iter().map(|event| event["pid"].as_u64().unwrap()).collect();
    assert_eq!(ranks, BTreeSet::from([0, 1]));
    // Both asked for one clock, which is their own here.
    let clocks: Vec<&Value> = events.iter().filter(|event| event["name"] == "clock").collect();
    assert_eq!(clocks.iter().map(|clock| &clock["args"]["ahead_us"]).collect::<Vec<_>>(), [0.0, 0.0]);
    // Each arrow begins once and ends once, later.
    let (begun, ended) = (arrows(&events, "s"), arrows(&events, "f"));
    let ids: BTreeSet<&str> = begun.iter().map(|(id, _)| *id).collect();
    assert!(ids.len() == begun.len() && begun.len() >= 2 * (5 + 10 + 1), "{} arrows", begun.len());
    for (id, at) in &ended {
        assert!(begun.iter().any(|(known, since)| known == id && since <= at), "{id}");
    }
    assert_eq!(ended.len(), begun.len());
    let told = run(&mut command(&["trace", file.to_str().unwrap(), "--json"])).json();
    assert_eq!(told["ranks"].as_array().unwrap().len(), 2);
    for rank in told["ranks"].as_array().unwrap() {
        let of = |kind: &str| rank[kind].as_f64().unwrap();
        assert!(of("commands") > 0.0 && of("locks") > 0.0 && of("waits") > 0.0, "{rank}");
        assert!(of("commands") + of("locks") + of("waits") <= of("seconds"), "{rank}");
    }
    let times = |what: &str| told["what"].as_array().unwrap().iter().find(|line| line["what"] == what).unwrap()["times"].clone();
    assert_eq!((times("put"), times("take a lock"), times("barrier")), (10.into(), 10.into(), 2.into()));
    let text = run(&mut command(&["trace", file.to_str().unwrap()])).done();
    assert!(text.contains("take a lock") && text.contains("request to node"), "{text}");
    run(&mut command(&["trace", folder.path().join("none").to_str().unwrap()])).refused(&["none"]);
}
