//! What `hanare model`, `hanare report` and `hanare what-if` are asked, `hanare-models` answers.

use crate::product::{done, hanare, refused, run};
use hanare_model::what_if::costs::SoftwareCosts;
use serde_json::Value;
use std::io::Write;
use std::process::{Command, Stdio};

#[test]
fn words_of_each_command_reach_the_models() {
    let Some(hanare) = hanare() else { return };
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    assert!(done(run(&hanare, &["model"])).contains("dimmnet2-drivers"));
    let words = ["model", "dimmnet2-drivers", "matrix", "--set", "node.count=64", "--plot", &path("p.svg"), "--json"];
    let answer: Value = serde_json::from_str(&done(run(&hanare, &words))).unwrap();
    assert!(answer.to_string().contains("matrix"), "{answer}");
    assert!(std::fs::read_to_string(path("p.svg")).unwrap().contains("<svg"));
    refused(&run(&hanare, &["model", "nothing"]), &["nothing: no such paper"]);
    let said = done(run(&hanare, &["report", "--out", &path("r.html")]));
    assert!(said.contains("r.html: ") && said.contains("reproduced"), "{said}");
    assert!(std::fs::read_to_string(path("r.html")).unwrap().contains("D3-C1"));
    refused(&run(&hanare, &["what-if", "--calibration", &path("none"), "--pattern", "get 8B"]), &["was not measured"]);
}

#[test]
fn a_reader_that_has_seen_enough_ends_a_listing_without_a_word() {
    let Some(hanare) = hanare() else { return };
    let ended = Command::new("sh").args(["-c", &format!("{} model | true", hanare.display())]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&ended.stderr), "");
}

/// Puts a question to the program itself.
fn ask(question: &str) -> std::process::Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_hanare-models"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(question.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

#[test]
fn what_is_no_question_is_refused_in_a_line() {
    refused(&ask(""), &["no question"]);
    let of = |version: &str, question: &str| {
        format!(r#"{{"made":{{"date":"","version":"{version}","commit":""}},"question":{question}}}"#)
    };
    refused(&ask(&of("0.0.7", "{}")), &["hanare is of version 0.0.7", "install both anew"]);
    refused(&ask(&of(env!("CARGO_PKG_VERSION"), r#"{"weather":{}}"#)), &["another question"]);
    let by_hand = Command::new(env!("CARGO_BIN_EXE_hanare-models")).arg("--help").output().unwrap();
    assert_eq!(by_hand.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&by_hand.stderr).contains("hanare model --help"));
}

#[test]
fn a_recorded_run_is_asked_what_it_would_do_elsewhere() {
    let Some(hanare) = hanare() else { return };
    let own = hanare.to_str().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap().trim().to_owned();
    let costs = SoftwareCosts { cores: 2, host, ..Default::default() };
    std::fs::write(path("costs.toml"), costs.to_toml()).unwrap();
    std::fs::write(path("in.bin"), vec![7; 3 << 20]).unwrap();
    let words = ["run", "--nodes", "2", "-n", "1", "--memory", "64M", "--record", &path("run"), "--"];
    let copies = [own, "region", "cp", &path("in.bin"), "copied", "--place", "node=1"];
    done(run(&hanare, &[&words[..], &copies].concat()));
    let asked =
        ["what-if", "--trace", &path("run"), "--calibration", &path("costs.toml"), "--network", "1gbe", "--beyond", "--json"];
    let answer: Value = serde_json::from_str(&done(run(&hanare, &asked))).unwrap();
    let traffic = &answer["messages"]["recorded"];
    assert!(traffic["bytes"].as_u64() > Some(3 << 20) && traffic["messages"].as_u64() >= Some(2), "{answer}");
    assert!(answer["us"].as_f64() > Some((3 << 20) as f64 * 8e-3), "no faster than the wire: {answer}");
    // One rank waits for nobody: with what is kept its replay takes what was recorded, whatever the machine did meanwhile.
    let (off, alone) = (answer["replay"]["here_off"].as_f64().unwrap(), answer["replay"]["model_off"].as_f64().unwrap());
    assert!(off.abs() < 0.02 && alone < 0.0, "costs of nothing explain less than all: {answer}");
    // Another host's calibration says nothing of it.
    let other = SoftwareCosts { cores: 2, host: "elsewhere".to_owned(), ..Default::default() };
    std::fs::write(path("other.toml"), other.to_toml()).unwrap();
    let asked = ["what-if", "--trace", &path("run"), "--calibration", &path("other.toml")];
    refused(&run(&hanare, &asked), &["the calibration is of elsewhere", "--beyond"]);
    refused(&run(&hanare, &[&words[..], &copies].concat()), &["holds a recording already"]);
}

#[test]
fn a_calibration_of_this_host_predicts() {
    let Some(hanare) = hanare() else { return };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("costs.toml");
    let what_if = |words: &[&str]| run(&hanare, &[&["what-if", "--calibration", file.to_str().unwrap()], words].concat());
    let refused = what_if(&["--pattern", "get 4KiB x10"]);
    assert!(!refused.status.success() && String::from_utf8_lossy(&refused.stderr).contains("--calibrate"), "{refused:?}");
    // The machine that runs tests may be busy.
    let calibrated = what_if(&["--calibrate", "--quick", "--beyond"]);
    assert!(calibrated.status.success(), "{calibrated:?}");
    let answer = what_if(&["--pattern", "get 4KiB x100 depth 8", "-n", "1", "--network", "1gbe", "--json"]);
    let answer: Value = serde_json::from_str(&done(answer)).unwrap();
    assert_eq!(answer["messages"]["get"]["messages"], 200);
    assert!(answer["us"].as_f64().unwrap() > 100.0 * 4096.0 * 8e-3, "not faster than the wire: {answer}");
    let beyond = what_if(&["--pattern", "get 4KiB", "--network", "cxl2"]);
    assert!(String::from_utf8_lossy(&beyond.stderr).contains("no network of loads and stores was measured"), "{beyond:?}");
}
