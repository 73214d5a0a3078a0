//! What `cargo publish` asks for is there, and a program that only attaches to nodes builds without the node.

use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Crates that only a node needs.
const OF_NODES: &[&str] = &["argon2", "hanare-home", "hanare-node", "redb"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

fn cargo(words: &[&str]) -> Result<String, String> {
    let output = Command::new(env!("CARGO")).args(words).current_dir(root()).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

/// The workspace's crates, those that go out and those that do not.
fn packages() -> Vec<Value> {
    let told = cargo(&["metadata", "--no-deps", "--offline", "--format-version", "1"]).unwrap();
    let told: Value = serde_json::from_str(&told).unwrap();
    told["packages"].as_array().unwrap().clone()
}

fn goes_out(package: &Value) -> bool {
    package["publish"].is_null()
}

/// What a registry would refuse a crate for, or who looks for it would miss.
fn missing(package: &Value, published: &BTreeSet<&str>) -> Vec<String> {
    let mut missing = Vec::new();
    for key in ["description", "license", "documentation", "readme"] {
        if package[key].as_str().is_none_or(str::is_empty) {
            missing.push(format!("no {key}"));
        }
    }
    for (key, most) in [("keywords", 5), ("categories", 5)] {
        let count = package[key].as_array().map_or(0, Vec::len);
        if count == 0 || count > most {
            missing.push(format!("{count} {key}: at least 1, at most {most}"));
        }
    }
    if let Some(readme) = package["readme"].as_str() {
        let manifest = Path::new(package["manifest_path"].as_str().unwrap());
        if !manifest.parent().unwrap().join(readme).is_file() {
            missing.push(format!("no file {readme}"));
        }
    }
    for dependency in package["dependencies"].as_array().unwrap().iter().filter(|dependency| dependency["path"].is_string()) {
        let name = dependency["name"].as_str().unwrap();
        // A dependency of tests alone that has no version is left out of what is published.
        let is_left_out = dependency["kind"] == "dev" && dependency["req"] == "*";
        if !is_left_out && (dependency["req"] == "*" || !published.contains(name)) {
            missing.push(format!("{name} has no version, or is not published"));
        }
    }
    missing
}

#[test]
fn each_crate_that_goes_out_has_what_a_registry_asks_for() {
    let packages = packages();
    let published: BTreeSet<&str> =
        packages.iter().filter(|package| goes_out(package)).map(|package| package["name"].as_str().unwrap()).collect();
    assert!(published.contains("hanare") && published.contains("hanare-cli") && !published.contains("hanare-fuzz"));
    let mut wrong = Vec::new();
    for package in packages.iter().filter(|package| goes_out(package)) {
        wrong.extend(missing(package, &published).into_iter().map(|what| format!("{}: {what}", package["name"])));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The crates that the library needs, by name and version.
fn needed(features: &[&str]) -> Result<BTreeSet<String>, String> {
    let words = [&["tree", "--offline", "--locked", "-p", "hanare", "-e", "normal", "--prefix", "none"][..], features].concat();
    Ok(cargo(&words)?.lines().map(|line| line.trim_end_matches(" (*)").to_owned()).collect())
}

#[test]
fn a_program_that_only_attaches_builds_fewer_crates() {
    let (all, client) = match (needed(&[]), needed(&["--no-default-features"])) {
        (Ok(all), Ok(client)) => (all, client),
        (Err(why), _) | (_, Err(why)) => {
            hanare_testkit::unable(format!("cargo cannot tell of all dependencies without a network: {why}"));
            return;
        }
    };
    let has = |set: &BTreeSet<String>, name: &str| set.iter().any(|line| line.starts_with(&format!("{name} v")));
    for name in OF_NODES {
        assert!(has(&all, name) && !has(&client, name), "{name}");
    }
    println!("{} crates with the node, {} without", all.len(), client.len());
    assert!(client.len() + 8 < all.len(), "{} crates with the node, {} without", all.len(), client.len());
}

/// Crates by name, version and features.
fn with_features(words: &[&str]) -> Result<BTreeSet<String>, String> {
    let words = [&["tree", "--offline", "--locked", "-f", "{p} {f}", "--prefix", "none"][..], words].concat();
    Ok(cargo(&words)?.lines().map(|line| line.trim_end_matches(" (*)").to_owned()).collect())
}

/// A crate is built with the features of all that is built together: with others it is built, with all above it, once more.
#[test]
fn the_wheel_is_built_of_the_crates_that_the_tests_have_built() {
    let all = with_features(&["--workspace", "-e", "normal,build,dev"]);
    let (all, wheel) = match (all, with_features(&["-p", "hanare-python", "-e", "normal,build"])) {
        (Ok(all), Ok(wheel)) => (all, wheel),
        (Err(why), _) | (_, Err(why)) => {
            hanare_testkit::unable(format!("cargo cannot tell of all dependencies without a network: {why}"));
            return;
        }
    };
    let apart: Vec<_> = wheel.difference(&all).collect();
    assert!(wheel.len() > 50 && apart.is_empty(), "other features than in the whole workspace: {apart:#?}");
}

/// A build of the library without the node is part of `make check`, which a crate's boundary alone does not bring about.
#[test]
fn make_check_builds_the_library_without_the_node() {
    assert!(std::fs::read_to_string(root().join("Makefile")).unwrap().contains("clippy -p hanare --no-default-features"));
}
