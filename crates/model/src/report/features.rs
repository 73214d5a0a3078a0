//! Where each feature of the papers lives, from the marks that stand beside the code.
//!
//! A mark is `FEATURE:` and ids in a comment, alone on its line or behind other words. The recorded table (`facts/features.toml`) is what the report shows, because
//! an installed program has no sources; `cargo run -p hanare-model --example features` records it anew.
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::Path;
use std::sync::OnceLock;

use serde::Deserialize;

use crate::facts::facts;

/// Which side of the project a mark stands on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// In the library, its faces, its programs or its benches.
    Product,
    /// In a timing model.
    Model,
    /// Only described, with the reason.
    Docs,
}

impl Place {
    /// The place of a file by its path inside the repository.
    pub fn of(path: &str) -> Place {
        if path.starts_with("crates/model/") {
            Place::Model
        } else if path.starts_with("docs/") || path.ends_with(".md") {
            Place::Docs
        } else {
            Place::Product
        }
    }

    /// The word for people.
    pub fn name(self) -> &'static str {
        match self {
            Place::Product => "product",
            Place::Model => "model",
            Place::Docs => "docs",
        }
    }
}

/// Files with a mark of each feature, by id; paths are relative to the repository and in order.
pub type Marks = BTreeMap<String, BTreeSet<String>>;

#[derive(Deserialize)]
struct File {
    marks: Marks,
}

#[derive(Deserialize)]
struct Alone {
    alone: BTreeMap<String, String>,
}

/// Why features that only a model has cannot be more.
pub(super) fn alone() -> &'static BTreeMap<String, String> {
    static ALONE: OnceLock<Alone> = OnceLock::new();
    let read = || {
        toml::from_str(include_str!("../../facts/alone.toml")).expect("alone.toml is part of the crate and is read by its tests")
    };
    &ALONE.get_or_init(read).alone
}

/// The recorded marks.
pub fn recorded() -> Marks {
    let file: File = toml::from_str(include_str!("../../facts/features.toml"))
        .expect("features.toml is part of the crate and is read by its tests");
    file.marks
}

/// The places of a feature's marks.
pub fn places(marks: &Marks, id: &str) -> BTreeSet<Place> {
    marks.get(id).into_iter().flatten().map(|path| Place::of(path)).collect()
}

/// Folders that hold no sources of ours.
const SKIPPED: [&str; 5] = ["target", "node_modules", "out", "__pycache__", "venv"];
const EXTENSIONS: [&str; 6] = ["rs", "c", "h", "py", "pyi", "md"];
/// How a comment begins, in the languages of the repository.
const OPENINGS: [&str; 5] = ["//", "/*", "*", "#", "<!--"];

/// Every mark below `root`.
///
/// **Errors**: those of reading folders and files.
pub fn scan(root: &Path) -> io::Result<Marks> {
    let mut marks = Marks::new();
    scan_folder(root, "", &mut marks)?;
    Ok(marks)
}

fn scan_folder(folder: &Path, prefix: &str, marks: &mut Marks) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let kind = entry.file_type()?;
        if kind.is_dir() && !name.starts_with('.') && !SKIPPED.contains(&name.as_str()) {
            scan_folder(&entry.path(), &format!("{prefix}{name}/"), marks)?;
        } else if kind.is_file() && name.rsplit_once('.').is_some_and(|(_, extension)| EXTENSIONS.contains(&extension)) {
            let path = format!("{prefix}{name}");
            for id in marked(&String::from_utf8_lossy(&fs::read(entry.path())?)) {
                marks.entry(id).or_default().insert(path.clone());
            }
        }
    }
    Ok(())
}

/// The ids that the marks of a text name; a word that is no feature's id is no mark.
fn marked(text: &str) -> Vec<String> {
    let is_id = |word: &&str| facts().features.iter().any(|feature| feature.id == **word);
    let ids = |line: &str| -> Vec<String> {
        let line = line.trim_start();
        let is_comment = OPENINGS.iter().any(|opening| line.starts_with(opening));
        let Some((_, rest)) = line.split_once("FEATURE: ").filter(|_| is_comment) else { return Vec::new() };
        // The ids stand first; what follows may speak of others.
        let words = rest.split(|letter: char| letter.is_whitespace() || matches!(letter, ',' | '`'));
        words.filter(|word| !word.is_empty()).take_while(is_id).map(String::from).collect()
    };
    text.lines().flat_map(ids).collect()
}

/// The record of these marks, for `facts/features.toml`.
pub fn features_toml(marks: &Marks) -> String {
    let mut text =
        "# Where each feature is marked. Recorded by `cargo run -p hanare-model --example features`; do not edit.\n\n[marks]\n"
            .to_string();
    for feature in &facts().features {
        let paths: Vec<String> = marks.get(&feature.id).into_iter().flatten().map(|path| format!("\"{path}\"")).collect();
        text += &format!("{} = [{}]\n", feature.id, paths.join(", "));
    }
    text
}

/// The table of these marks, for `docs/features.md`.
pub fn features_markdown(marks: &Marks) -> String {
    let features = &facts().features;
    let count = |place: Place| features.iter().filter(|feature| places(marks, &feature.id).contains(&place)).count();
    let missing = features.iter().filter(|feature| places(marks, &feature.id).is_empty()).count();
    let mut text = format!(
        "# The papers' features, and where each lives\n\n\
         Every mechanism and program of the five papers has an id; a `FEATURE:` mark stands beside the code or test that makes it real.\n\
         A feature in the timing models alone says why it cannot be more; `hanare model` runs it.\n\
         This table is recorded from those marks by `cargo run -p hanare-model --example features`; do not edit it.\n\n\
         {} features: {} in the product, {} in the timing models (some in both), {} in the documentation only, {missing} not yet.\n",
        features.len(),
        count(Place::Product),
        count(Place::Model),
        features.iter().filter(|feature| places(marks, &feature.id) == BTreeSet::from([Place::Docs])).count(),
    );
    for paper in crate::papers() {
        text += &format!("\n## {}\n\n| id | feature | lives in | marked in |\n|---|---|---|---|\n", paper.title);
        for feature in features.iter().filter(|feature| feature.paper == paper.id) {
            let paths: Vec<String> = marks.get(&feature.id).into_iter().flatten().map(|path| format!("`{path}`")).collect();
            text += &format!(
                "| {} | {} | {} | {} |\n",
                feature.id,
                feature.text.replace('|', "\\|"),
                alone().get(&feature.id).map_or(lives_in(marks, &feature.id), |why| format!("model alone: {why}")),
                paths.join(" ")
            );
        }
    }
    text
}

/// Whether a marked file is a test or a program that tests run: a mark elsewhere shows where a feature is, not that it works.
fn is_test(path: &str) -> bool {
    path.contains("/tests/")
        || path.contains("/conformance/")
        || path.ends_with("tests.rs")
        || path.starts_with("crates/bench/")
        || path.starts_with("apps/")
}

/// The places as words, or `not yet`; a product's feature without a mark on a test says so.
pub fn lives_in(marks: &Marks, id: &str) -> String {
    let is_tested = marks.get(id).into_iter().flatten().any(|path| Place::of(path) == Place::Product && is_test(path));
    let name = |place: Place| match place {
        Place::Product if !is_tested => "product (no test marked)",
        place => place.name(),
    };
    let names: Vec<&str> = places(marks, id).into_iter().map(name).collect();
    if names.is_empty() { "not yet".to_string() } else { names.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_read_in_every_language() {
        let text = "// FEATURE: D2-F5 D2-F6\n  /* FEATURE: EU-F3 */\n# FEATURE: VQ-F1\n<!-- FEATURE: RF-F19 -->\nlet s = \"// FEATURE: D3-F1\";\n// FEATURE: D2-F99\n/// FEATURE: D2-F14\n/// One message. `FEATURE: EU-F12 EU-F13`. See D3-F2.\n";
        assert_eq!(marked(text), ["D2-F5", "D2-F6", "EU-F3", "VQ-F1", "RF-F19", "D2-F14", "EU-F12", "EU-F13"]);
    }

    #[test]
    fn the_record_names_all_131() {
        assert_eq!(recorded().len(), 131);
        assert_eq!(
            features_markdown(&recorded()).lines().filter(|line| line.starts_with("| ") && line.contains("-F")).count(),
            131
        );
    }

    #[test]
    fn what_a_model_alone_has_says_why() {
        let marks = recorded();
        let is_alone = |id: &str| places(&marks, id) == BTreeSet::from([Place::Model]);
        let wanted: BTreeSet<&str> = facts().features.iter().map(|f| f.id.as_str()).filter(|id| is_alone(id)).collect();
        let given: BTreeSet<&str> = alone().keys().map(String::as_str).collect();
        assert_eq!(wanted, given, "facts/alone.toml");
    }

    #[test]
    fn a_record_reads_back() {
        let marks = Marks::from([("D2-F5".to_string(), BTreeSet::from(["apps/x.c".to_string()]))]);
        let read: File = toml::from_str(&features_toml(&marks)).unwrap();
        assert_eq!(read.marks["D2-F5"], marks["D2-F5"]);
        assert!(read.marks["D2-F6"].is_empty());
    }

    #[test]
    fn the_record_is_that_of_the_sources() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        if !root.join("docs/features.md").is_file() {
            hanare_testkit::unable("the crate stands alone, there are no sources to scan");
            return;
        }
        let (found, recorded) = (scan(&root).unwrap(), recorded());
        for feature in &facts().features {
            let (found, recorded) = (places(&found, &feature.id), places(&recorded, &feature.id));
            assert_eq!(found, recorded, "{} moved: run `cargo run -p hanare-model --example features`", feature.id);
        }
    }
}
