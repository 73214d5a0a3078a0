//! Fuzz targets: files that `hanare what-if` reads. Any bytes are followed to an answer, or refused in one line.
use hanare_fuzz::{Counting, drive};
use serde_json::{Value, json};

use super::costs::{SoftwareCosts, round_numbers};
use super::program::{Program, Step};
use super::recording::{self, RecordedRun};
use super::replay;
use super::simulate::{self, Setting};
use super::{WhatIfError, pattern};
use crate::network::Network;
use crate::time::Picos;
use crate::topology::Kind;

#[global_allocator]
static COUNTING: Counting = Counting;

/// Between the timelines of two ranks.
const BETWEEN: u8 = 0xff;

fn here(nodes: usize, ranks: usize) -> Setting {
    Setting {
        hosts: 1,
        nodes,
        ranks,
        is_blocked: false,
        cores: 2,
        network: Network::here(),
        topology: Kind::Switch,
        costs: round_numbers(),
        recorded_crowd: Some(1.0),
        is_held_up: false,
        is_traced: false,
        is_timed: false,
    }
}

fn is_one_line(refused: &str) {
    assert!(!refused.is_empty() && !refused.contains('\n'), "{refused:?}");
}

/// Timelines of ranks. What is read is replayed: each step begins once, and what is kept has its place.
fn recordings(bytes: &[u8]) {
    let texts: Vec<String> =
        bytes.split(|byte| *byte == BETWEEN).take(3).map(|text| String::from_utf8_lossy(text).into()).collect();
    let made = RecordedRun { program: vec!["any".to_string()], nodes: 2, ranks: texts.len(), host: String::new() };
    let recording = match recording::parse(made, &texts) {
        Ok(recording) => recording,
        Err((rank, problem)) => return assert!(rank < texts.len() && !problem.is_empty()),
    };
    for (rank, taken) in recording.taken.iter().enumerate() {
        let steps = &recording.program.ranks[rank][0].steps;
        assert!(taken.iter().all(|taken| taken.from < taken.to && matches!(steps[taken.to], Step::Kept(Picos::ZERO))));
    }
    match replay::replay(recording, &here(2, texts.len())) {
        Ok((_, replay)) => replay.objections().iter().for_each(|objection| is_one_line(objection)),
        Err(error) => is_one_line(&error.to_string()),
    }
}

fn runs(texts: &[u8]) {
    if let Err(refused) = recording::made(&String::from_utf8_lossy(texts)) {
        assert!(!refused.is_empty());
    }
}

/// A calibration: what is read is written again as it was.
fn costs(bytes: &[u8]) {
    match SoftwareCosts::from_toml(&String::from_utf8_lossy(bytes)) {
        Ok(costs) => {
            let again = SoftwareCosts::from_toml(&costs.to_toml()).expect("what is written is read");
            assert_eq!(again.to_toml(), costs.to_toml());
        }
        Err(error) => is_one_line(&error.to_string()),
    }
}

/// A pattern: what is short enough is run.
fn patterns(bytes: &[u8]) {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(400)]).replace('\n', " ");
    let run = |program: Program| {
        let ranks = program.rank_count.unwrap_or(1);
        let is_short = ranks <= 4 && program.step_count(0) <= 1000;
        if is_short { simulate::run(&program, &here(2, ranks)).map(drop) } else { Ok(()) }
    };
    if let Err(error) = pattern::parse(&text).and_then(run) {
        assert!(matches!(error, WhatIfError::Pattern { .. } | WhatIfError::Refused { .. }));
        is_one_line(&error.to_string());
    }
}

fn seeds() -> Vec<Vec<u8>> {
    let event = |phase: &str, name: &str, category: &str, at: u64, more: Value| {
        let mut event = json!({ "ph": phase, "name": name, "cat": category, "ts": at, "pid": 0, "tid": 9 });
        more.as_object().into_iter().flatten().for_each(|(key, value)| event[key] = value.clone());
        event
    };
    let request = |kind: &str, at: u64| {
        let begun = json!({ "id2": { "local": at }, "args": { "kind": kind, "bytes_sent": 64 } });
        let over = json!({ "id2": { "local": at }, "args": { "bytes_received": 128 } });
        [event("b", "request to node 1", "request", at, begun), event("e", "request to node 1", "request", at + 50, over)]
    };
    let slice = |name: &str, category: &str, from: u64, to: u64| {
        [
            event("B", name, category, from, json!({ "args": { "bytes": 64 } })),
            event("E", name, category, to, json!({ "wrote": 1.5 })),
        ]
    };
    let pages = json!({ "dur": 5, "pages": { "messages": 2, "bytes_sent": 90, "bytes_received": 9000, "nodes": [1] }, "args": { "pages_ahead": 1 } });
    let [begin, end] = slice("get", "command", 10, 90);
    let [asked, answered] = request("commands", 20);
    let one = [
        vec![begin, asked, answered, end],
        request("shared", 100).to_vec(),
        vec![event("X", "fault, fetched", "fault", 200, pages)],
        slice("take a lock", "wait", 300, 900).to_vec(),
        slice("barrier", "wait", 1000, 1100).to_vec(),
    ]
    .concat();
    let begun =
        |phase: &str, at: u64| event(phase, "get", "command", at, json!({ "id2": { "local": 7 }, "args": { "bytes": 8 } }));
    let [asked, answered] = request("commands", 860);
    let two = [vec![begun("b", 850), asked, answered, begun("e", 950)], slice("barrier", "wait", 1050, 1110).to_vec()].concat();
    let text = |events: &[Value]| serde_json::to_vec(events).unwrap();
    vec![text(&one), [text(&one), vec![BETWEEN], text(&two)].concat()]
}

#[test]
fn what_recordings_hold() {
    seeds().iter().for_each(|seed| assert!(recording_of(seed), "a seed is no recording"));
    drive("recordings", &seeds(), 64 << 20, recordings);
}

fn recording_of(bytes: &[u8]) -> bool {
    let texts: Vec<String> = bytes.split(|byte| *byte == BETWEEN).map(|text| String::from_utf8_lossy(text).into()).collect();
    recording::parse(RecordedRun { nodes: 2, ranks: texts.len(), ..RecordedRun::default() }, &texts).is_ok()
}

#[test]
fn what_a_run_says_of_itself() {
    drive("runs", &[br#"{ "program": ["a"], "nodes": 2, "ranks": 2, "host": "h" }"#.to_vec()], 4 << 20, runs);
}

#[test]
fn what_a_calibration_holds() {
    drive("calibrations", &[round_numbers().to_toml().into_bytes()], 16 << 20, costs);
}

#[test]
fn what_patterns_say() {
    let of = |text: &str| text.as_bytes().to_vec();
    drive(
        "patterns",
        &[of("get 4KiB x10 depth 8 from 3 ranks"), of("compute 2.5us, gather 64 of 8B, barrier x9 spread; walk 1MiB")],
        32 << 20,
        patterns,
    );
}
