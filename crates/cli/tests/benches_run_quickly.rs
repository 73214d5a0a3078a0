//! Each bench of the vector commands and of mapped memory runs through, beside the peers that this machine has; one that is
//! missing is named.

mod pool;

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{LazyLock, Mutex, PoisonError};

/// One at a time: each starts nodes and jobs of its own.
static ONE: Mutex<()> = Mutex::new(());

fn bench(name: &str, path: Option<&str>) -> Value {
    bench_with(name, &[], |command| {
        if let Some(path) = path {
            command.env("PATH", path);
        }
    })
}

fn bench_with(name: &str, words: &[&str], set: impl Fn(&mut Command)) -> Value {
    let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bench/peers");
    let mut command = pool::command(&[&["bench", name, "--quick", "--json"], words].concat());
    command.env("HANARE_PEERS", root);
    set(&mut command);
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
fn queues_and_rings() {
    let report = bench("queue", None);
    check("queue", &report);
    for library in ["rtrb", "crossbeam"] {
        let is_beside = |row: &&Value| row["peer"].as_str().is_some_and(|peer| peer.starts_with(library));
        let beside: Vec<_> = rows(&report, "1 writer, 1 reader").into_iter().filter(is_beside).collect();
        assert!(matches!(beside[..], [row] if row["peer_value"].is_f64()), "it is a part of the bench: {report}");
    }
    let report = bench("queues", None);
    check("queues", &report);
    assert_eq!(rows(&report, "16 active queues").len(), 2);
}

#[test]
fn collectives() {
    let report = bench("collectives", None);
    check("collectives", &report);
    assert_eq!(rows(&report, "all-reduce 4 MiB, 4 ranks, 2 nodes").len(), 2);
}

// FEATURE: D3-F23 RF-F20
#[test]
fn messages_there_and_back() {
    let report = bench("pingpong", None);
    check("pingpong", &report);
    // Longer records than a queue takes are no row; nor has a bare cache line any length.
    assert_eq!(rows(&report, "1 KiB one way, LHC+IPUSH+LHS").len(), 2, "{report}");
    assert_eq!(rows(&report, "64 KiB one way, BOTF+IPUSH,").len(), 2, "{report}");
    assert_eq!(rows(&report, "1 MiB one way, BOTF+IPUSH,").len(), 0, "{report}");
    assert_eq!(rows(&report, "128 B one way, BOTF+IPUSH+LHS, 2 nodes").len(), 3, "each MPI and UCX, there or missing: {report}");
    let bare = |row: &&&Value| row["peer"] == "a bare cache line";
    assert_eq!(rows(&report, "8 B one way").iter().filter(bare).count(), 1, "{report}");
    let report = bench("primitives", None);
    check("primitives", &report);
    assert_eq!(rows(&report, "push page").len(), 3, "{report}");
}

// FEATURE: D3-F25
#[test]
fn halos() {
    let apps = match &*APPS {
        Ok(apps) => apps,
        Err(reason) => return hanare_testkit::unable(reason),
    };
    let report = bench_with("halo", &[], |command| {
        command.env("HANARE_APPS", apps);
    });
    check("halo", &report);
    for field in ["halo of 8^3", "halo of 4^4"] {
        // Two ways, each beside packing by our program and by the two ways of two MPIs.
        assert_eq!(rows(&report, field).len(), 2 * 5, "{report}");
    }
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
fn basics() {
    let report = bench("basics", None);
    check("basics", &report);
    assert!(rows(&report, "get").len() > 5);
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

/// What a case's rows without a peer say behind its name, where it misses its goal.
fn parts<'r>(report: &'r Value, case: &str) -> Vec<&'r str> {
    let rows = report["rows"].as_array().unwrap().iter().filter(|row| row["peer"].is_null());
    rows.filter_map(|row| row["case"].as_str().unwrap().strip_prefix(case)?.strip_prefix(": ")).collect()
}

/// The cases of a report with a goal, and whether each was missed.
fn cases_with_goals(report: &Value) -> Vec<(&str, bool)> {
    let rows = report["rows"].as_array().unwrap().iter().filter(|row| row["goal"].is_number());
    rows.map(|row| (row["case"].as_str().unwrap(), row["met"] == false)).collect()
}

#[test]
fn fault() {
    let report = bench("fault", None);
    check("fault", &report);
    assert_eq!(cases_with_goals(&report).len(), 3, "{report}");
    let every = ["computing, the program", "computing, its nodes", "waiting, the program", "moved"];
    for (case, is_missed) in cases_with_goals(&report) {
        let mut told = every.to_vec();
        if case.contains("read through the pointer") {
            told.extend(["faults", "brought before they were touched"]);
            assert_eq!(
                rows(&report, case)
                    .iter()
                    .filter(|row| row["peer"].as_str().is_some_and(|peer| peer.contains("memory file")))
                    .count(),
                1
            );
        }
        assert_eq!(parts(&report, case), if is_missed { told } else { Vec::new() }, "{case}");
    }
    // Counted, not timed: each page crosses once, all but a few before they are touched.
    for row in rows(&report, "read through the pointer, tcp: ") {
        let value = row["value"].as_f64().unwrap();
        match row["unit"].as_str().unwrap() {
            "KB a page" => assert!((4.096..4.5).contains(&value), "{row}"),
            "times" => assert!((1.0..2048.0).contains(&value), "{row}"),
            "pages" => assert!((4096.0..8192.0).contains(&value), "{row}"),
            _ => {}
        }
    }
}

#[test]
fn coherence() {
    let report = bench("coherence", None);
    check("coherence", &report);
    let cases = cases_with_goals(&report);
    assert_eq!(cases.len(), 9, "{report}");
    for (case, is_missed) in cases {
        let told = parts(&report, case);
        assert_eq!(told.len(), if is_missed { 4 } else { 0 }, "{case}: {told:?}");
        let beside = report["rows"].as_array().unwrap().iter().filter(|row| row["case"] == case);
        let peers: Vec<_> = beside.map(|row| row["peer"].as_str().unwrap()).collect();
        assert!(peers.len() == 2 && peers[0].contains("own baseline") && peers[1].contains("processes"), "{peers:?}");
    }
}

#[test]
fn writes_that_several_nodes_have() {
    let report = bench("copies", None);
    check("copies", &report);
    for copies in ["1 copy", "2 copies", "3 copies"] {
        let peers: Vec<_> = rows(&report, &format!("put 8 B, other node, {copies}")).iter().map(|row| &row["peer"]).collect();
        assert!(peers.iter().any(|peer| peer.as_str().unwrap().starts_with("bare sockets")), "{peers:?}");
    }
}

#[test]
fn one_thread_of_a_node_and_two() {
    let report = bench("threads", None);
    check("threads", &report);
    assert_eq!(rows(&report, "by 4 programs of another node").len(), 8, "{report}");
}

#[test]
fn bytes_that_leave_a_drained_node() {
    let report = bench("drain", None);
    check("drain", &report);
    assert_eq!(rows(&report, "drain of 16 MiB, tcp").len(), 1, "{report}");
}

#[test]
fn copies_by_loads_and_stores() {
    let apps = match &*APPS {
        Ok(apps) => apps,
        Err(reason) => return hanare_testkit::unable(reason),
    };
    let report = bench_with("copy", &[], |command| {
        command.env("HANARE_APPS", apps);
    });
    check("copy", &report);
    let placements = rows(&report, "4 KiB by loads and stores");
    assert_eq!(placements.len(), 7, "{report}");
    assert_eq!(placements.iter().filter(|row| row["peer"].as_str().unwrap().contains("Euphoria")).count(), 4);
    let claims: Vec<_> = report["claims"].as_array().unwrap().iter().map(|claim| claim["id"].as_str().unwrap()).collect();
    assert_eq!(claims, ["EU-C10", "EU-C11"]);
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

/// The programs of `apps/`, built with the library that lies beside the command; or the reason why they are not.
static APPS: LazyLock<Result<PathBuf, String>> = LazyLock::new(|| {
    let library = Path::new(env!("CARGO_BIN_EXE_hanare")).with_file_name("libhanare_capi.so");
    if !library.is_file() {
        return Err(format!("{} is not there; `cargo build -p hanare-capi` makes it", library.display()));
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("apps");
    let mut make = Command::new("make");
    make.arg("-C").arg(root.join("apps")).args(["--silent", "CFLAGS=-O1"]).arg(format!("OUT={}", out.display()));
    make.arg(format!("LIBRARY={}", library.display()));
    // Variables of an outer make are not for this one.
    let built = make.env_remove("MAKEFLAGS").env_remove("MAKEOVERRIDES").output();
    let built = built.map_err(|error| format!("make: {error}"))?;
    if Command::new("cc").arg("--version").output().is_err() {
        return Err("cc is not installed".to_owned());
    }
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    Ok(out)
});

/// A bench of the programs on mapped memory, each rank on a node of its own.
fn programs(name: &str) -> Option<Value> {
    match &*APPS {
        Ok(apps) => {
            let report = bench_with(name, &[], |command| {
                command.env("HANARE_APPS", apps);
            });
            check(name, &report);
            // What each is for: one rank beside main memory, several beside threads, many beside several.
            assert_eq!(rows(&report, ": 1 node, ").iter().filter(|row| row["peer"] == "main memory").count(), 2, "{report}");
            let beside_threads = |row: &&&Value| row["peer"].as_str().is_some_and(|peer| peer.starts_with("OpenMP, 2 threads"));
            assert_eq!(rows(&report, ": speed-up of 2 ranks, ").iter().filter(beside_threads).count(), 2, "{report}");
            assert_eq!(rows(&report, ": 4 ranks, coherent").iter().filter(|row| row["goal"] == 0.8).count(), 1, "{report}");
            Some(report)
        }
        Err(reason) => {
            hanare_testkit::unable(reason);
            None
        }
    }
}

// FEATURE: D2-F20
#[test]
fn wisconsin() {
    let apps = match &*APPS {
        Ok(apps) => apps,
        Err(reason) => return hanare_testkit::unable(reason),
    };
    let report = bench_with("wisconsin", &[], |command| {
        command.env("HANARE_APPS", apps);
    });
    check("wisconsin", &report);
    for query in ["Q1", "Q2", "Q3", "Q4", "Q6", "Q7"] {
        assert_eq!(rows(&report, &format!("{query}, ")).len(), 6, "{report}");
    }
}

/// Where goals of a job are missed, four rows behind its own say where the time went.
fn check_parts(report: &Value) {
    let rows = report["rows"].as_array().unwrap();
    let case = |at: usize| rows[at]["case"].as_str().unwrap();
    let missed = rows.iter().any(|row| row["met"] == false);
    let parts: Vec<usize> = (0..rows.len()).filter(|at| case(*at).ends_with(": computing")).collect();
    assert_eq!(missed, !parts.is_empty(), "{report}");
    for at in parts {
        let job = case(at).strip_suffix(": computing").unwrap();
        for (part, name) in rows[at + 1..].iter().zip(["in faults", "waiting", "moved"]) {
            assert_eq!(part["case"], format!("{job}: {name}"));
        }
    }
}

/// How many rows of two ranks have an MPI beside them, there or missing.
fn beside_mpi(report: &Value) -> usize {
    let is_mpi = |row: &&&Value| row["peer"].as_str().is_some_and(|peer| peer.contains("MPI"));
    rows(report, ": 2 ranks, ").iter().filter(is_mpi).count()
}

#[test]
fn lu() {
    let Some(report) = programs("lu") else { return };
    check_parts(&report);
    assert_eq!(beside_mpi(&report), 4, "two ways of sharing beside two MPIs: {report}");
}

#[test]
fn himeno() {
    let Some(report) = programs("himeno") else { return };
    check_parts(&report);
    assert_eq!(beside_mpi(&report), 4, "two ways of sharing beside two MPIs: {report}");
}

#[test]
fn quicksort() {
    let Some(report) = programs("quicksort") else { return };
    check_parts(&report);
    assert!(rows(&report, ": speed-up of 2 ranks, ").iter().all(|row| row["goal"] == 0.75 || row["goal"].is_null()));
}

#[test]
fn programs_for_threads_as_ranks() {
    let apps = match &*APPS {
        Ok(apps) => apps,
        Err(reason) => return hanare_testkit::unable(reason),
    };
    let report = bench_with("ported", &[], |command| {
        command.env("HANARE_APPS", apps);
    });
    check("ported", &report);
    let goals: Vec<_> = rows(&report, ": speed-up of 2 ranks").iter().filter_map(|row| row["goal"].as_f64()).collect();
    assert_eq!(goals, [0.8, 0.5, 0.6, 0.1], "{report}");
}

#[test]
fn locks_alone_and_between_hosts() {
    let report = bench("locks", None);
    check("locks", &report);
    let goals: Vec<_> = rows(&report, "a lock taken").iter().filter_map(|row| row["goal"].as_f64()).collect();
    assert_eq!(goals, [0.5, 1.0 / 1.5, 1.0 / 1.5], "{report}");
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
