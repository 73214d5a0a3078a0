//! Completions and man pages are made from the command's own definition, and name every command of it.

mod pool;

use pool::{HANARE, command, run};
use std::process::Command;

const COMMANDS: &[&str] = &["run", "node", "status", "region", "key", "info", "bench", "model", "report", "sim", "demo"];

#[test]
fn completions_name_every_command() {
    for shell in ["bash", "zsh", "fish"] {
        let text = run(&mut command(&["completions", shell])).done();
        assert!(COMMANDS.iter().all(|name| text.contains(name)), "{shell}");
        assert!(!text.contains("__rank") && !text.contains("__launch"), "{shell} shows what only the launcher uses");
    }
}

#[test]
fn a_reader_that_has_seen_enough_ends_a_listing_without_a_word() {
    for words in [&["info"][..], &["completions", "bash"], &["model"]] {
        let line = format!("{HANARE} {} | true", words.join(" "));
        let ended = run(Command::new("sh").args(["-c", &line]));
        assert_eq!(ended.stderr, "", "{words:?}");
    }
}

#[test]
fn a_page_is_written_for_every_command() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("man1");
    run(&mut command(&["man", path.to_str().unwrap()])).done();
    for name in COMMANDS {
        let page = std::fs::read_to_string(path.join(format!("hanare-{name}.1"))).unwrap();
        assert!(page.contains(".TH"), "{name}");
    }
    assert!(path.join("hanare-region-cp.1").exists() && path.join("hanare.1").exists());
}

#[test]
fn info_names_every_setting_and_why_a_fabric_is_refused() {
    let info = run(&mut command(&["info", "--json"])).json();
    assert!(info["settings"].as_array().unwrap().iter().any(|setting| setting["variable"] == "HANARE_NODE"));
    let ucx = info["fabrics"].as_array().unwrap().iter().find(|fabric| fabric["name"] == "ucx").unwrap().clone();
    let why = ucx["why"].as_str().unwrap();
    match ucx["usable"].as_bool() {
        Some(true) => assert!(why.contains("UCX 1.") && why.contains("transports"), "{why}"),
        _ => assert!(why.starts_with("refused: "), "{why}"),
    }
    let text = run(&mut command(&["info"])).done();
    assert!(["Machine", "Fabrics", "Kernel", "Settings", "HANARE_ANSWER_MS"].iter().all(|word| text.contains(word)), "{text}");
}
