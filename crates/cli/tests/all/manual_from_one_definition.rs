//! Completions and man pages are made from the command's own definition, and name every command of it.

use crate::pool;

use pool::{HANARE, clean, command, run};
use std::process::Command;

const COMMANDS: &[&str] =
    &["run", "node", "status", "region", "key", "info", "bench", "model", "report", "what-if", "sim", "demo"];

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
    for words in [&["info"][..], &["completions", "bash"]] {
        let line = format!("{HANARE} {} | true", words.join(" "));
        let ended = run(Command::new("sh").args(["-c", &line]));
        assert_eq!(ended.stderr, "", "{words:?}");
    }
}

/// The models are no part of this build; `crates/models` tests them beside it.
#[test]
fn without_the_program_of_the_models_a_line_says_where_it_comes_from() {
    let folder = tempfile::tempdir().unwrap();
    let alone = folder.path().join("hanare");
    std::fs::copy(HANARE, &alone).unwrap();
    for words in [&["model"][..], &["report"], &["report", "--measure"], &["what-if", "--calibrate"]] {
        run(clean(&alone).args(words).current_dir(folder.path())).refused(&["no hanare-models", "cargo install", "make models"]);
    }
    let help = run(clean(&alone).args(["model", "--help"])).done();
    assert!(help.contains("--sweep"), "{help}");
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
    for (name, sections) in [("hanare", 3), ("hanare-node", 3), ("hanare-region-cp", 3), ("hanare-sim", 1)] {
        let page = std::fs::read_to_string(path.join(format!("{name}.1"))).unwrap();
        let found = ["EXAMPLES", "ENVIRONMENT", "FILES"].iter().filter(|title| page.contains(&format!(".SH {title}\n"))).count();
        assert_eq!(found, sections, "{name}: {page}");
    }
    assert!(path.join("hanare-region-cp.1").exists() && path.join("hanare.1").exists());
}

#[test]
fn info_says_of_each_part_of_userfaultfd_what_it_tried() {
    let parts = |kernel: &str| -> Vec<(String, bool)> {
        let info = run(command(&["info", "--json"]).env("HANARE_KERNEL", kernel)).json();
        let findings = info["kernel"].as_array().unwrap().iter();
        let ours = findings.filter(|finding| finding["name"].as_str().unwrap().starts_with("userfaultfd"));
        ours.map(|finding| (finding["name"].as_str().unwrap().to_owned(), finding["usable"] == true)).collect()
    };
    let old = parts("5.13");
    if old.len() < 4 {
        return hanare_testkit::unable(format!("this machine has no userfaultfd: {old:?}"));
    }
    let usable = |name: &str| old.iter().find(|part| part.0 == format!("userfaultfd, {name}")).unwrap().1;
    assert!(usable("faults as SIGBUS") && !usable("CONTINUE") && !usable("CONTINUE write-protected"), "{old:?}");
    assert!(parts("99.0").iter().filter(|part| part.1).count() > parts("5.13").iter().filter(|part| part.1).count());
}

#[test]
fn info_names_every_setting_and_why_a_fabric_is_refused() {
    let info = run(&mut command(&["info", "--json"])).json();
    assert!(info["settings"].as_array().unwrap().iter().any(|setting| setting["variable"] == "HANARE_NODE"));
    let ucx = info["fabrics"].as_array().unwrap().iter().find(|fabric| fabric["name"] == "ucx").unwrap().clone();
    let why = ucx["why"].as_str().unwrap();
    match ucx["usable"].as_bool() {
        Some(true) => assert!(why.contains("version 1.") && why.contains("transports"), "{why}"),
        _ => assert!(why.starts_with("refused: "), "{why}"),
    }
    let text = run(&mut command(&["info"])).done();
    assert!(["Machine", "Fabrics", "Kernel", "Settings", "HANARE_ANSWER_MS"].iter().all(|word| text.contains(word)), "{text}");
}
