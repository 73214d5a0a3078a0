//! What is built in may be passed on: each dependency's licence is one that `deny.toml` allows.

use std::path::Path;
use std::process::Command;

/// The licences between the brackets of `allow`.
fn allowed(text: &str) -> Vec<String> {
    let list = text.split_once("allow = [").and_then(|(_, rest)| rest.split_once(']')).map_or("", |(list, _)| list);
    list.lines().filter_map(|line| Some(line.trim().strip_prefix('"')?.split_once('"')?.0.to_owned())).collect()
}

/// Whether an expression is met: of alternatives one, of what goes together all.
fn is_met(expression: &str, allowed: &[String]) -> bool {
    let expression = expression.trim();
    let bare = expression.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')).filter(|inner| !inner.contains(')'));
    if let Some(inner) = bare {
        return is_met(inner, allowed);
    }
    for (word, by_all) in [(" AND ", true), (" OR ", false), ("/", false)] {
        // The outermost word decides; what is in brackets stays together.
        let parts = split(expression, word);
        if parts.len() > 1 {
            let mut met = parts.iter().map(|part| is_met(part, allowed));
            return if by_all { met.all(|met| met) } else { met.any(|met| met) };
        }
    }
    allowed.iter().any(|licence| licence == expression)
}

fn split<'a>(text: &'a str, word: &str) -> Vec<&'a str> {
    let (mut parts, mut begun, mut depth) = (Vec::new(), 0, 0);
    for (at, letter) in text.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ if depth == 0 && at >= begun && text[at..].starts_with(word) => {
                parts.push(&text[begun..at]);
                begun = at + word.len();
            }
            _ => {}
        }
    }
    parts.push(&text[begun..]);
    parts
}

#[test]
fn each_dependency_has_a_licence_that_is_allowed() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let allowed = allowed(&std::fs::read_to_string(root.join("deny.toml")).unwrap());
    assert!(allowed.len() > 3 && is_met("MIT OR (GPL-2.0 AND MIT)", &allowed) && !is_met("GPL-3.0-only", &allowed));
    assert!(is_met("MIT/Apache-2.0", &allowed) && !is_met("(MIT OR Apache-2.0) AND GPL-3.0-only", &allowed));
    let words = ["metadata", "--offline", "--locked", "--format-version", "1"];
    let output = Command::new(env!("CARGO")).args(words).current_dir(&root).output().unwrap();
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        hanare_testkit::unable(format!("cargo cannot tell of all dependencies without a network: {why}"));
        return;
    }
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let packages = told["packages"].as_array().unwrap();
    assert!(packages.len() > 50);
    let of =
        |package: &serde_json::Value| (package["name"].to_string(), package["license"].as_str().unwrap_or("none").to_owned());
    let refused: Vec<_> = packages.iter().map(of).filter(|(_, licence)| !is_met(licence, &allowed)).collect();
    assert!(refused.is_empty(), "{refused:?}");
}
