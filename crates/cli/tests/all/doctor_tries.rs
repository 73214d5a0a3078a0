//! `hanare doctor` finds what is wrong and says what to type; `hanare info` tells what was tried.

use crate::pool;

use pool::{Nodes, command, run};
use serde_json::Value;
use std::os::unix::fs::PermissionsExt;

fn finding<'v>(report: &'v Value, group: &str, name: &str) -> &'v Value {
    let groups = report["groups"].as_array().unwrap();
    let group = groups.iter().find(|found| found["group"] == group).unwrap();
    let found = group["findings"].as_array().unwrap().iter().find(|found| found["name"] == name);
    found.unwrap_or_else(|| panic!("no {name} in {group}"))
}

#[test]
fn a_healthy_pool_is_told_node_by_node() {
    let nodes = Nodes::start(2);
    let report = nodes.hanare(&["doctor", "--json"]).json();
    assert_eq!(report["healthy"], true, "{report}");
    assert!(finding(&report, "Pool", "node")["why"].as_str().unwrap().contains("2 in the pool"), "{report}");
    assert_eq!(finding(&report, "Kernel", "memory files")["usable"], true);
    let text = nodes.hanare(&["doctor"]).done();
    assert!(text.contains("ok   node: answers") && text.contains("Nothing is wrong that a pool needs."), "{text}");
}

#[test]
fn without_a_node_it_says_how_to_start_one() {
    let text = run(&mut command(&["doctor"])).done();
    assert!(text.contains("note node: no node answers") && text.contains("> hanare node --memory"), "{text}");
}

#[test]
fn a_key_that_others_may_read_is_wrong_and_the_mending_line_mends_it() {
    let folder = tempfile::tempdir().unwrap();
    let key = folder.path().join("key");
    std::fs::write(&key, [7; 32]).unwrap();
    std::fs::set_permissions(&key, PermissionsExt::from_mode(0o644)).unwrap();
    let doctor = || run(command(&["doctor", "--json"]).env("HANARE_KEY", &key));
    let ended = doctor();
    assert_eq!(ended.status.code(), Some(1), "{}", ended.stderr);
    let report: Value = serde_json::from_slice(&ended.stdout).unwrap();
    let found = finding(&report, "Pool", "key");
    assert_eq!((&found["usable"], &found["needed"]), (&Value::Bool(false), &Value::Bool(true)));
    let remedy = found["remedy"].as_str().unwrap();
    assert!(std::process::Command::new("sh").args(["-c", remedy]).status().unwrap().success(), "{remedy}");
    assert_eq!(doctor().json()["healthy"], true);
}

#[test]
fn few_open_files_and_strange_settings_are_told() {
    let script = format!("ulimit -n 64; exec {} doctor --json", pool::HANARE);
    let report = run(pool::clean("sh").args(["-c", &script]).env("HANARE_COLOUR", "blue")).json();
    let files = finding(&report, "Limits", "open files");
    assert_eq!((&files["usable"], &files["needed"]), (&Value::Bool(false), &Value::Bool(false)));
    assert!(files["remedy"].as_str().unwrap().contains("ulimit -n"), "{files}");
    assert!(finding(&report, "Pool", "setting")["why"].as_str().unwrap().contains("HANARE_COLOUR"), "{report}");
}

#[test]
fn info_tells_of_userfaultfd_what_a_mapping_finds() {
    let nodes = Nodes::start(2);
    let info = nodes.hanare(&["info", "--json"]).json();
    let parts =
        info["kernel"].as_array().unwrap().iter().filter(|part| part["name"].as_str().unwrap().starts_with("userfaultfd"));
    let parts: Vec<_> = parts.collect();
    assert_eq!(parts.len(), hanare::userfaultfd::PARTS.len(), "{info}");
    // What mappings cannot do without is there if and only if a region can be mapped.
    let works = parts.iter().take(3).all(|part| part["usable"] == true);
    let client = hanare::Pool::attach_to(&nodes.nodes[0].socket, None).unwrap();
    let region = client.create("mapped", 4096, &hanare::CreateOptions::default()).unwrap();
    assert_eq!(region.map(hanare::Consistency::Coherent).is_ok(), works, "{info}");
}

#[test]
fn a_watched_status_is_shown_anew() {
    let nodes = Nodes::start(1);
    let mut watch = command(&["status", "--watch", "--json"]);
    let mut running = pool::Running::start(watch.env("HANARE_NODE", &nodes.nodes[0].socket));
    pool::wait_until("two reports", || running.stdout().lines().count() >= 2);
    running.child.kill().unwrap();
    running.child.wait().unwrap();
    let told = running.stdout();
    assert!(told.lines().take(2).all(|line| line.contains("\"nodes\"")), "{told}");
}
