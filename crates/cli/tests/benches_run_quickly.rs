//! Each bench of the vector commands runs through, beside the peers that this machine has; one that is missing is named.

mod pool;

use serde_json::Value;
use std::sync::{Mutex, PoisonError};

/// One at a time: each starts nodes and jobs of its own.
static ONE: Mutex<()> = Mutex::new(());

fn bench(name: &str, path: Option<&str>) -> Value {
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bench/peers");
    let mut command = pool::command(&["bench", name, "--quick", "--json"]);
    command.env("HANARE_PEERS", root);
    if let Some(path) = path {
        command.env("PATH", path);
    }
    let ended = pool::run(&mut command);
    assert!(ended.status.success(), "{ended:?}");
    serde_json::from_slice(&ended.stdout).unwrap_or_else(|error| panic!("{error}: {ended:?}"))
}

/// A row has a figure, and beside it a peer with a figure, a missing peer with its reason, or no peer at all.
fn check(name: &str, report: &Value) {
    assert_eq!(report["bench"], name);
    let rows = report["rows"].as_array().expect("rows");
    assert!(!rows.is_empty());
    for row in rows {
        assert!(row["value"].as_f64().is_some_and(|value| value.is_finite() && value >= 0.0), "{row}");
        let Some(peer) = row["peer"].as_str() else { continue };
        let is_missing = peer.contains("(missing: ");
        let is_own = peer.contains("own baseline") || peer.contains("limit");
        assert!(!(is_missing && is_own), "{row}");
        assert_eq!(row["ratio"].is_null(), is_missing, "{row}");
        assert_eq!(row["met"].is_null(), is_missing || row["goal"].is_null(), "{row}");
    }
}

/// The rows whose case has these words.
fn rows<'r>(report: &'r Value, words: &str) -> Vec<&'r Value> {
    let rows = report["rows"].as_array().unwrap();
    rows.iter().filter(|row| row["case"].as_str().unwrap().contains(words)).collect()
}

#[test]
fn strided() {
    let report = bench("strided", None);
    check("strided", &report);
    let at_goal = rows(&report, "each 128 B of 1 MiB, 2 nodes");
    let goals: Vec<_> = at_goal.iter().map(|row| row["goal"].as_f64()).collect();
    assert_eq!(goals, [Some(3.0), Some(1.0), Some(1.0)]);
}

#[test]
fn gather() {
    let report = bench("gather", None);
    check("gather", &report);
    assert!(rows(&report, "2 nodes").iter().all(|row| row["goal"] == 1.0));
}

#[test]
fn copy() {
    let report = bench("copy", None);
    check("copy", &report);
    assert_eq!(rows(&report, "the client's CPU time").len(), 3);
}

#[test]
fn gups() {
    let report = bench("gups", None);
    check("gups", &report);
    assert!(report["rows"].as_array().unwrap().iter().all(|row| row["goal"] == 1.0));
}

#[test]
fn scan() {
    let report = bench("scan", None);
    check("scan", &report);
    let moved = rows(&report, "bytes moved")[0];
    // Counted, not timed: so it holds on every machine.
    assert_eq!(moved["met"], true, "{moved}");
}

#[test]
fn peers_that_are_not_installed_are_named() {
    let report = bench("strided", Some("/nonexistent"));
    check("strided", &report);
    let missing = |name: &str| rows(&report, "").into_iter().any(|row| row["peer"].as_str().unwrap().starts_with(name));
    for name in ["tuned local loop (missing: cc is not installed", "Open MPI (missing: no mpirun", "MPICH (missing: no mpirun"] {
        assert!(missing(name), "{name}: {report}");
    }
}
