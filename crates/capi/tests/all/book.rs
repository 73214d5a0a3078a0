//! The README and the book under `docs/`: their programs in C compile, and run where they are whole; their links lead somewhere.
//! Their programs in Rust are doctests of the crate `hanare`.

use crate::stage;

use std::path::{Path, PathBuf};

/// The README and every page of `docs/`.
fn pages() -> Vec<(PathBuf, String)> {
    let root = stage::crate_path("../..").canonicalize().unwrap();
    let docs = std::fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let pages = docs.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    let pages: Vec<_> = pages.chain([root.join("README.md"), root.join("ARCHITECTURE.md")]).collect();
    pages.into_iter().map(|path| (path.clone(), std::fs::read_to_string(path).unwrap())).collect()
}

/// The blocks of a page that are marked as `language`.
fn blocks<'p>(page: &'p str, language: &str) -> Vec<&'p str> {
    let start = format!("```{language}\n");
    page.split(&start).skip(1).map(|rest| rest.split_once("\n```").expect("a block ends").0).collect()
}

#[test]
fn programs_in_c_compile_and_run_as_they_stand() {
    let stage = stage::Stage::of(2);
    let mut count = 0;
    for (path, page) in pages() {
        for program in blocks(&page, "c") {
            let source = stage::folder().join(format!("{}-{count}.c", path.file_stem().unwrap().display()));
            std::fs::write(&source, format!("{program}\n")).unwrap();
            for compiler in stage::COMPILERS.iter().filter(|compiler| compiler.is_here()) {
                let built = compiler.compile(&source);
                if compiler.language == "c99" {
                    stage.pass(&built, &[], 2);
                }
            }
            count += 1;
        }
    }
    assert!(count >= 5, "only {count} programs");
}

#[test]
fn the_readmes_program_is_the_one_in_apps() {
    let (_, readme) =
        pages().into_iter().find(|(path, _)| path.ends_with("README.md") && !path.ends_with("docs/README.md")).unwrap();
    let source = std::fs::read_to_string(stage::crate_path("../../apps/first/first.c")).unwrap();
    assert!(blocks(&readme, "c").iter().any(|program| source.ends_with(&format!("{program}\n"))), "apps/first/first.c");
}

/// The anchors that a page's headings have.
fn anchors(page: &str) -> Vec<String> {
    let headings =
        page.lines().filter_map(|line| line.trim_start_matches('#').strip_prefix(' ').filter(|_| line.starts_with('#')));
    let kept = |c: char| (c.is_alphanumeric() || c == '-' || c == '_').then(|| c.to_ascii_lowercase());
    headings.map(|heading| heading.trim().replace(' ', "-").chars().filter_map(kept).collect()).collect()
}

#[test]
fn links_lead_somewhere() {
    let mut broken = Vec::new();
    for (path, page) in pages() {
        for link in page.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(link, _)| link) {
            if link.contains("://") {
                continue;
            }
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if file.is_empty() { path.clone() } else { path.parent().unwrap_or(Path::new(".")).join(file) };
            let text = std::fs::read_to_string(&target);
            let is_there =
                target.exists() && (anchor.is_empty() || text.is_ok_and(|text| anchors(&text).iter().any(|a| a == anchor)));
            if !is_there {
                broken.push(format!("{}: {link}", path.display()));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn every_page_of_the_book_stands_in_its_contents() {
    let pages = pages();
    let contents = &pages.iter().find(|(path, _)| path.ends_with("docs/README.md")).unwrap().1;
    for (path, _) in pages.iter().filter(|(path, _)| path.parent().is_some_and(|folder| folder.ends_with("docs"))) {
        let name = path.file_name().unwrap().to_str().unwrap();
        assert!(name == "README.md" || contents.contains(&format!("]({name})")), "{name}");
    }
}
