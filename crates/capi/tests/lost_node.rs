//! `kill -9` of a node in the middle of gets.

mod stage;

use std::io::{BufRead, BufReader};

/// What users are promised: a killed node is reported within this time.
const NOTICED_S: f64 = 5.0;

#[test]
fn a_killed_node_is_an_error_within_five_seconds_and_the_rest_goes_on() {
    let Some(program) = stage::program("lost_node") else { return };
    let mut stage = stage::Stage::of(2);
    let mut child = stage.start(&program, &[], 0, 1, stage::fresh_job());
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let ready = lines.next();
    if ready.is_none() {
        child.stdout = None;
        let mut said = String::new();
        std::io::Read::read_to_string(child.stderr.as_mut().unwrap(), &mut said).unwrap();
        panic!("the program did not get ready: {said}");
    }
    stage.kill(1);
    let line = lines.next().map(|line| line.unwrap());
    let status = child.wait().unwrap();
    let mut said = String::new();
    std::io::Read::read_to_string(child.stderr.as_mut().unwrap(), &mut said).unwrap();
    assert!(status.success(), "{status}: {said}");
    let noticed: f64 = line.unwrap().strip_prefix("noticed ").unwrap().parse().unwrap();
    assert!(noticed < NOTICED_S, "noticed after {noticed} s");
}
