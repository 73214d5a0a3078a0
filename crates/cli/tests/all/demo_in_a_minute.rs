//! `hanare demo` shows what it says, with nothing but the binary, and leaves nothing behind.

use crate::pool;

use pool::{command, marked, run, wait_until};

#[test]
fn every_scene_comes_out_right() {
    let mark = format!("demo-{}", std::process::id());
    let mut demo = command(&["demo", "--memory", "16M", "--json"]);
    let facts = run(demo.env("HANARE_TEST_MARK", &mark).current_dir("/")).json();
    let number = |value: &serde_json::Value| value.as_f64().unwrap_or_else(|| panic!("no number in {facts}"));
    assert!(number(&facts["array"]["bytes"]) > f64::from(16 << 20), "more than a node lends: {facts}");
    assert!(number(&facts["array"]["bytes_on_one_node"]) < f64::from(16 << 20), "{facts}");
    let (there, here) = (&facts["sum"]["there"], &facts["sum"]["here"]);
    // 24 MiB of numbers 0.1.
    assert_eq!(there["sum"].as_f64(), Some(0.1 * f64::from(3 << 20)), "{facts}");
    assert!(number(&there["bytes_moved"]) < 4096.0, "{facts}");
    assert!(number(&here["bytes_moved"]) > f64::from(16 << 20), "two thirds lie on other nodes: {facts}");
    if facts["count"]["refused"].is_null() {
        assert_eq!(facts["count"]["total"].as_u64(), Some(60_000), "{facts}");
    }
    assert_eq!(facts["lock"]["abandoned"].as_bool(), Some(true), "{facts}");
    assert!(facts["node"]["error"].as_str().is_some_and(|error| error.contains("is lost")), "{facts}");
    assert!(number(&facts["copies"]["answered"]) > 100.0, "{facts}");
    wait_until("nothing is left of the demonstration", || marked(&mark).is_empty());
}

#[test]
fn each_scene_has_its_line_and_what_to_type_next() {
    let ended = run(&mut command(&["demo", "--memory", "16M"]));
    // The node that it kills is part of the show; nobody is told of it beside the show.
    assert!(!ended.stderr.contains("is lost"), "{}", ended.stderr);
    let text = ended.done();
    for (name, told) in [
        ("array", "24 MiB in one array, more than any node lends"),
        ("sum", "exact, made where the bytes lie: 314572.8"),
        ("count", "on 3 hosts"),
        ("lock", "was told that it was abandoned"),
        ("node", "was killed"),
        ("copies", "answered puts lost, no error"),
    ] {
        let line =
            text.lines().find(|line| line.starts_with(&format!("{name:<7}"))).unwrap_or_else(|| panic!("no {name}: {text}"));
        assert!(line.contains(told) || line.contains("not on this machine"), "{line}");
    }
    assert_eq!(text.lines().filter(|line| line.trim_start().starts_with("> ")).count(), 6, "{text}");
}

/// A transcript without its numbers, their units, and what differs from run to run in parentheses.
fn masked(transcript: &str) -> Vec<String> {
    let is_number = |word: &str| word.starts_with(|c: char| c.is_ascii_digit());
    let is_unit = |word: &str| ["us", "ms", "s", "B", "KiB", "MiB", "GiB"].contains(&word.trim_end_matches(['.', ',', ';']));
    let line = |line: &str| {
        let (before, rest) = line.split_once(" (").unwrap_or((line, ""));
        let after = rest.rsplit_once(')').map_or("", |(_, after)| after);
        // What to type is the same each time, numbers included.
        match line.trim_start().starts_with('>') {
            true => line.to_owned(),
            false => {
                let words = [before, after].join(" ");
                words.split_whitespace().filter(|word| !is_number(word) && !is_unit(word)).collect::<Vec<_>>().join(" ")
            }
        }
    };
    transcript.lines().map(line).collect()
}

#[test]
fn the_readmes_transcript_is_what_it_prints() {
    let readme = include_str!("../../../../README.md");
    let start = readme.find("3 nodes on this machine").expect("the README has a transcript");
    let shown = readme[start..].split_once("\n```").expect("its block ends").0;
    let told = run(&mut command(&["demo", "--memory", "16M"])).done();
    let (shown, told) = (masked(shown), masked(told.trim_end()));
    assert_eq!(shown.len(), told.len(), "{told:#?}");
    for (shown, told) in shown.iter().zip(&told).filter(|(_, told)| !told.contains("not on this machine")) {
        assert_eq!(shown, told);
    }
}
