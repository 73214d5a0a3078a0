//! `hanare sim` goes through its worlds, and says what happened in each.

use std::process::Command;

fn sim(more: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_hanare"));
    let output = command.args(["sim", "--seed", "3", "--nodes", "2", "--minutes", "0.2"]).args(more).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn each_world_has_its_line_and_what_happened_in_it() {
    let text = sim(&[]);
    assert!(text.starts_with("hanare sim --seed 3 --nodes 2 --minutes 0.2: every check held\n"), "{text}");
    for world in ["cluster: ", "pages: ", "queues: "] {
        assert!(text.lines().any(|line| line.starts_with(world) && line.ends_with(" events")), "no {world}in {text}");
    }
    assert!(text.contains("  pages installed\n") && text.contains("  grants\n") && text.contains("  requests\n"), "{text}");
}

#[test]
fn in_json_each_world_has_its_counts() {
    let told: serde_json::Value = serde_json::from_str(&sim(&["--json"])).unwrap();
    assert_eq!((&told["held"], &told["plan"]["seed"]), (&true.into(), &3.into()));
    for (world, what) in [("cluster", "requests"), ("pages", "stores"), ("cluster", "grants")] {
        assert!(told["counts"][world][what].as_u64().is_some_and(|count| count > 0), "{world}, {what}: {told}");
    }
}
