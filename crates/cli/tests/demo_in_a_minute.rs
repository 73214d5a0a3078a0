//! `hanare demo` shows what it says, with nothing but the binary, and leaves nothing behind.

mod pool;

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
    wait_until("nothing is left of the demonstration", || marked(&mark).is_empty());
}

#[test]
fn each_scene_has_its_line_and_what_to_type_next() {
    let text = run(&mut command(&["demo", "--memory", "16M"])).done();
    for (name, told) in [
        ("array", "24 MiB in one array, more than any node lends"),
        ("sum", "exact, made where the bytes lie: 314572.8"),
        ("count", "on 3 hosts"),
        ("lock", "was told that it was abandoned"),
        ("node", "was killed"),
    ] {
        let line =
            text.lines().find(|line| line.starts_with(&format!("{name:<7}"))).unwrap_or_else(|| panic!("no {name}: {text}"));
        assert!(line.contains(told) || line.contains("not on this machine"), "{line}");
    }
    assert_eq!(text.lines().filter(|line| line.trim_start().starts_with("> ")).count(), 5, "{text}");
}
