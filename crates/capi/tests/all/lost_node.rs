//! `kill -9` of a node in the middle of gets, and of flushes.

use crate::stage;

use std::io::{BufRead, BufReader, Read};

/// What users are promised: a killed node is reported within this time.
const NOTICED_S: f64 = 5.0;

/// Runs a program that says `ready`, uses node 1 until that fails, and says after how long it noticed.
fn kill_node_1_under(name: &str) {
    let Some(program) = stage::program(name) else { return };
    let mut stage = stage::Stage::of(2).with("HANARE_PLACE", "node=1");
    let mut child = stage.start(&program, &[], 0, 1, stage::fresh_job());
    let (stdout, mut stderr) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let mut lines = BufReader::new(stdout).lines().map(|line| line.unwrap());
    let ready = lines.next();
    stage.kill(1);
    let last = lines.next();
    let mut said = String::new();
    stderr.read_to_string(&mut said).unwrap();
    let status = child.wait().unwrap();
    assert!(status.success() && ready.as_deref() == Some("ready"), "{status}: {said}");
    let noticed: f64 = last.unwrap().strip_prefix("noticed ").unwrap().parse().unwrap();
    assert!(noticed < NOTICED_S, "noticed after {noticed} s");
}

#[test]
fn gets_from_a_killed_node_fail_within_five_seconds_and_the_rest_goes_on() {
    kill_node_1_under("lost_node");
}

// FEATURE: D2-F7
#[test]
fn flushes_to_a_killed_node_fail_within_five_seconds_and_the_copy_stays() {
    kill_node_1_under("lost_flush");
}
