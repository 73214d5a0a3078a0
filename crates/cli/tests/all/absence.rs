//! What ARCHITECTURE.md says is not in a crate is not in it: arrows point down, and the pure crates are pure.

use std::path::{Path, PathBuf};

/// Which of our packages each crate may use.
const MAY_USE: &[(&str, &[&str])] = &[
    ("protocol", &[]),
    ("home", &["hanare-protocol"]),
    ("memory", &["hanare-protocol"]),
    ("ring", &["hanare-protocol", "hanare-memory"]),
    ("fabric", &["hanare-protocol", "hanare-memory", "hanare-ring"]),
    ("node", &["hanare-protocol", "hanare-home", "hanare-memory", "hanare-ring", "hanare-fabric"]),
    ("hanare", &["hanare-protocol", "hanare-memory", "hanare-ring", "hanare-fabric", "hanare-node"]),
    ("dict", &["hanare"]),
    ("resp", &["hanare", "hanare-dict"]),
    ("capi", &["hanare", "hanare-dict", "hanare-protocol", "hanare-memory"]),
    ("fuzz", &[]),
    ("disk", &["hanare", "hanare-protocol", "hanare-memory"]),
    ("preload", &["hanare-protocol", "hanare-memory"]),
    ("nbdkit", &["hanare"]),
    ("python", &["hanare", "hanare-dict"]),
    ("model", &["hanare-protocol"]),
    ("models", &["hanare-model"]),
    ("testkit", &[]),
    ("sim", &["hanare-protocol", "hanare-home", "hanare-ring"]),
    ("bench", &["hanare", "hanare-protocol", "hanare-memory"]),
    ("cli", &["hanare", "hanare-protocol", "hanare-sim", "hanare-bench", "hanare-disk", "hanare-dict", "hanare-resp"]),
];

/// Crates without `unsafe`.
const SAFE: &[&str] = &["protocol", "home", "model", "models", "sim", "cli", "disk", "dict", "resp", "nbdkit"];

/// What the rules may not know of.
const IMPURE: &[&str] = &[
    "std::time::Instant",
    "SystemTime",
    "std::net",
    "std::thread",
    "std::fs",
    "std::process",
    "std::env",
    "rustix",
    "HashMap",
    "HashSet",
];

fn crates() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut files = Vec::new();
    for path in entries.map(|entry| entry.unwrap().path()) {
        match path.is_dir() {
            true => files.extend(sources(&path)),
            false if path.extension().is_some_and(|ending| ending == "rs") => files.push(path),
            false => {}
        }
    }
    files
}

/// Our packages among the dependencies that a crate has when it is used, not when it is tested.
fn ours(manifest: &str) -> Vec<String> {
    let mut section = "";
    let mut found = Vec::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            section = line;
        } else if section == "[dependencies]" && line.starts_with("hanare") {
            found.push(line.split(['.', ' ', '=']).next().unwrap().to_owned());
        }
    }
    found
}

#[test]
fn dependencies_point_down() {
    for (name, allowed) in MAY_USE {
        let manifest = std::fs::read_to_string(crates().join(name).join("Cargo.toml")).unwrap();
        for package in ours(&manifest) {
            assert!(allowed.contains(&package.as_str()), "{name} uses {package}");
        }
    }
    let folders = std::fs::read_dir(crates()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    for folder in folders {
        assert!(MAY_USE.iter().any(|(name, _)| *name == folder), "crate '{folder}' has no row in ARCHITECTURE.md and here");
    }
}

/// Crates that no other build needs, and only `cargo test --workspace` and `make models` make.
const APART: &[&str] = &["model", "models"];

#[test]
fn all_but_the_models_are_built_where_nothing_is_named() {
    let manifest = std::fs::read_to_string(crates().parent().unwrap().join("Cargo.toml")).unwrap();
    let list = manifest.split_once("default-members = [").and_then(|(_, rest)| rest.split_once(']')).unwrap().0;
    for (name, _) in MAY_USE {
        let is_default = list.contains(&format!("\"crates/{name}\""));
        assert_eq!(is_default, !APART.contains(name), "default-members and {name}");
        let manifest = std::fs::read_to_string(crates().join(name).join("Cargo.toml")).unwrap();
        assert!(APART.contains(name) || !manifest.contains("hanare-model"), "{name} needs the models, also in tests");
    }
}

#[test]
fn the_safe_crates_forbid_unsafe() {
    for name in SAFE {
        let root = crates().join(name).join("src");
        let file = [root.join("lib.rs"), root.join("main.rs")].into_iter().find(|file| file.exists()).unwrap();
        assert!(std::fs::read_to_string(&file).unwrap().contains("#![forbid(unsafe_code)]"), "{}", file.display());
    }
}

#[test]
fn the_rules_know_no_clock_socket_thread_or_unordered_map() {
    for crate_name in ["protocol", "home", "sim"] {
        for file in sources(&crates().join(crate_name).join("src")) {
            let text = std::fs::read_to_string(&file).unwrap();
            for word in IMPURE {
                assert!(!text.contains(word), "{} knows of {word}", file.display());
            }
        }
    }
}

#[test]
fn every_crate_is_in_the_map() {
    let map = std::fs::read_to_string(crates().parent().unwrap().join("ARCHITECTURE.md")).unwrap();
    for (name, _) in MAY_USE {
        assert!(map.contains(&format!("`crates/{name}`")), "ARCHITECTURE.md does not name crates/{name}");
    }
}
