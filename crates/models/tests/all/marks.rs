//! Every mark of a feature is found by the reader of marks, looked for in another way: a word and an id, anywhere but inside a text.

use hanare_model::report::scan;
use std::path::{Path, PathBuf};

/// Folders of the repository that hold sources.
const FOLDERS: &[&str] = &["crates", "apps", "bench", "deploy", "docs", "examples", "fuzz", "scripts"];
const ENDINGS: &[&str] = &["rs", "c", "h", "py", "md"];

fn files(folder: &Path, found: &mut Vec<PathBuf>) {
    for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        let is_made = ["target", "out", "__pycache__"].iter().any(|name| path.ends_with(name));
        if path.is_dir() && !is_made {
            files(&path, found);
        } else if path.extension().is_some_and(|ending| ENDINGS.iter().any(|known| ending == *known)) {
            found.push(path);
        }
    }
}

#[test]
fn every_mark_of_a_feature_is_found() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let (found, mut paths, mut missed, mut count) = (scan(&root).unwrap(), Vec::new(), Vec::new(), 0);
    FOLDERS.iter().for_each(|folder| files(&root.join(folder), &mut paths));
    for file in paths {
        let path = file.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
        for line in std::fs::read_to_string(&file).unwrap().lines() {
            let Some((before, rest)) = line.split_once("FEATURE: ").filter(|(before, _)| !before.contains('"')) else { continue };
            for id in rest.split(' ').map(|word| word.trim_matches(|letter: char| !letter.is_ascii_alphanumeric())) {
                let is_id = id.split_once("-F").is_some_and(|(_, number)| number.parse::<u32>().is_ok());
                count += usize::from(is_id);
                if is_id && !found.get(id).is_some_and(|files| files.contains(&path)) {
                    missed.push(format!("{path}: {id} (behind '{}')", before.trim()));
                }
            }
        }
    }
    assert!(count > 131, "{count} marks");
    assert!(missed.is_empty(), "marks that are not found, or of no feature:\n{}\n", missed.join("\n"));
}
