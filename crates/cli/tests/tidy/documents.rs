//! What documents say of the sources is so: paths exist, code compiles.

use super::sources::root;
use std::collections::BTreeSet;
use std::fs::read_to_string;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

/// Documents that name what is there today.
const DOCUMENTS: &[&str] = &[
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "docs/tenants.md",
    "apps/README.md",
    "examples/README.md",
    "docs/README.md",
    "docs/checkpoints.md",
    "docs/clusters.md",
    "docs/commands.md",
    "docs/comparison.md",
    "docs/consistency.md",
    "docs/copies.md",
    "docs/dictionaries.md",
    "docs/failures.md",
    "docs/faq.md",
    "docs/features.md",
    "docs/files.md",
    "docs/fortran.md",
    "docs/main_memory.md",
    "docs/jobs.md",
    "docs/keepers.md",
    "docs/kv_caches.md",
    "docs/models.md",
    "docs/open.md",
    "docs/openshmem.md",
    "docs/operating.md",
    "docs/performance.md",
    "docs/python.md",
    "docs/memory.md",
    "docs/messages.md",
    "docs/modes.md",
    "docs/porting.md",
    "docs/queues.md",
    "docs/redis.md",
    "docs/security.md",
    "docs/shared_memory.md",
    "docs/sharing.md",
    "docs/store.md",
    "docs/together.md",
    "docs/tutorial.md",
    "docs/upgrade.md",
    "docs/words.md",
];
/// Folders of the repository that hold sources.
const FOLDERS: &[&str] = &["crates", "apps", "bench", "deploy", "docs", "examples", "fortran", "fuzz", "scripts", "shmem"];
/// How the name of a file that is a source ends.
const ENDINGS: &[&str] = &["rs", "c", "h", "f90", "md", "toml", "py", "txt"];

/// Every file and folder of the repository's sources, from its root.
fn paths() -> BTreeSet<String> {
    let mut paths: BTreeSet<String> =
        ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "Makefile", "Cargo.toml"]
            .map(str::to_owned)
            .into();
    FOLDERS.iter().for_each(|folder| walk(folder, &mut paths));
    paths
}

fn walk(folder: &str, paths: &mut BTreeSet<String>) {
    paths.insert(folder.to_owned());
    for entry in std::fs::read_dir(root().join(folder)).unwrap_or_else(|error| panic!("{folder}: {error}")) {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let path = format!("{folder}/{name}");
        if entry.file_type().unwrap().is_dir() && !["target", "out", "__pycache__"].contains(&name.as_str()) {
            walk(&path, paths);
        } else {
            paths.insert(path);
        }
    }
}

/// The text without its blocks of code.
fn prose(text: &str) -> String {
    text.split("\n```").step_by(2).collect::<Vec<_>>().join("\n")
}

/// What stands between single backticks.
fn spans(text: &str) -> Vec<String> {
    prose(text).split('`').skip(1).step_by(2).map(|span| span.replace(", ", ",")).collect()
}

/// Whether a span is meant as a path of the repository.
fn is_path(span: &str) -> bool {
    let is_plain = span.chars().all(|letter| letter.is_ascii_alphanumeric() || "_./{},*-".contains(letter));
    let (first, last) = (span.split('/').next().unwrap_or_default(), span.rsplit('.').next().unwrap_or_default());
    let is_file = span.contains('.') && ENDINGS.contains(&last);
    let is_folder = span.ends_with('/') || (span.contains('/') && FOLDERS.contains(&first));
    let is_made = span.starts_with("out/");
    is_plain && !is_made && !span.starts_with(['/', '.', '-', '*']) && (is_file || is_folder)
}

/// `a/{b,c}.rs` as its two paths.
fn expand(span: &str) -> Vec<String> {
    match span.split_once('{').and_then(|(before, rest)| Some((before, rest.split_once('}')?))) {
        Some((before, (names, after))) => names.split(',').flat_map(|name| expand(&format!("{before}{name}{after}"))).collect(),
        None => vec![span.to_owned()],
    }
}

/// Whether a path is there: whole where it begins at the root, else as the end of one, with the folders `crates` and `src` left out.
fn is_there(named: &str, paths: &BTreeSet<String>) -> bool {
    let short = |path: &str| path.split('/').filter(|part| !["crates", "src", ""].contains(part)).collect::<Vec<_>>().join("/");
    let (before, after) = named.split_once('*').unwrap_or((named, ""));
    if named.contains('*') {
        return paths.iter().any(|path| path.contains(before) && path.ends_with(after));
    }
    if FOLDERS.contains(&named.split('/').next().unwrap_or_default()) {
        return paths.contains(named.trim_end_matches('/'));
    }
    let named = short(named);
    paths.iter().map(|path| short(path)).any(|path| path == named || path.ends_with(&format!("/{named}")))
}

#[test]
fn every_page_of_the_book_is_a_document() {
    for entry in std::fs::read_dir(root().join("docs")).unwrap() {
        let name = format!("docs/{}", entry.unwrap().file_name().into_string().unwrap());
        assert!(!name.ends_with(".md") || DOCUMENTS.contains(&name.as_str()), "{name}");
    }
}

#[test]
fn every_path_that_a_document_names_is_there() {
    let paths = paths();
    let mut missing = Vec::new();
    for document in DOCUMENTS {
        let text = read_to_string(root().join(document)).unwrap();
        for span in spans(&text).iter().filter(|span| is_path(span)).flat_map(|span| expand(span)) {
            if !is_there(&span, &paths) {
                missing.push(format!("{document}: {span}"));
            }
        }
        let folder = Path::new(document).parent().unwrap();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(link, _)| link) {
            let is_elsewhere = link.contains("://") || link.starts_with('#');
            let file = link.split('#').next().unwrap_or_default();
            if !is_elsewhere && !root().join(folder).join(file).exists() {
                missing.push(format!("{document}: link to {link}"));
            }
        }
    }
    assert!(missing.is_empty(), "documents name what is not there:\n{}\n", missing.join("\n"));
}

#[test]
fn a_path_in_a_comment_is_there() {
    let paths = paths();
    let mut missing = Vec::new();
    for path in paths.iter().filter(|path| [".rs", ".c", ".h", ".toml"].iter().any(|ending| path.ends_with(ending))) {
        let text = read_to_string(root().join(path)).unwrap();
        let comments =
            text.lines().filter(|line| ["//", "#", "*", "/*"].iter().any(|opening| line.trim_start().starts_with(opening)));
        let words = comments.flat_map(|line| line.split(|letter: char| letter.is_whitespace() || "`()[]\",;:".contains(letter)));
        for word in words.map(|word| word.trim_end_matches('.')).filter(|word| word.starts_with("crates/") && is_path(word)) {
            if !is_there(word, &paths) {
                missing.push(format!("{path}: {word}"));
            }
        }
    }
    assert!(missing.is_empty(), "comments name what is not there:\n{}\n", missing.join("\n"));
}

/// Blocks of code in a language.
fn blocks(text: &str, language: &str) -> Vec<String> {
    let opening = format!("\n```{language}\n");
    text.split(&opening).skip(1).filter_map(|rest| rest.split_once("\n```")).map(|(block, _)| format!("{block}\n")).collect()
}

/// Those in Rust are documentation tests of crate `hanare`.
#[test]
fn code_in_c_compiles() {
    let mut count = 0;
    for document in DOCUMENTS {
        for block in blocks(&read_to_string(root().join(document)).unwrap(), "c") {
            count += 1;
            let mut compiler = Command::new("cc");
            compiler.args(["-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-std=c99", "-xc", "-I"]);
            let compiler = compiler.arg(root().join("crates/capi/include")).arg("-").stdin(Stdio::piped()).spawn();
            let mut compiler = compiler.expect("a C compiler, which building needs too");
            compiler.stdin.take().unwrap().write_all(block.as_bytes()).unwrap();
            assert!(compiler.wait().unwrap().success(), "{document} has C that does not compile:\n{block}");
        }
    }
    assert!(count > 0, "README.md shows a program in C");
}
