//! No test is lost: each file beside a crate's `tests/all/main.rs` is a module of it, because cargo builds that file alone.

use super::sources::root;
use std::collections::BTreeSet;
use std::path::Path;
use syn::Item;

/// The modules that a file declares and that have files of their own in its folder.
fn declared(main: &Path) -> BTreeSet<String> {
    let text = std::fs::read_to_string(main).unwrap_or_else(|error| panic!("{}: {error}", main.display()));
    let file = syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", main.display()));
    let is_here =
        |module: &syn::ItemMod| module.content.is_none() && !module.attrs.iter().any(|attr| attr.path().is_ident("path"));
    let modules = file.items.into_iter().filter_map(|item| if let Item::Mod(module) = item { Some(module) } else { None });
    modules.filter(is_here).map(|module| module.ident.to_string()).collect()
}

/// The modules that files and folders beside it would be.
fn present(folder: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let paths = entries.map(|entry| entry.unwrap().path());
    let modules =
        paths.filter(|path| path.extension().is_some_and(|extension| extension == "rs") || path.join("mod.rs").is_file());
    let names = modules.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned());
    names.filter(|name| name != "main").collect()
}

#[test]
fn every_file_of_a_folder_of_tests_is_a_module_of_its_binary() {
    let mut folders = 0;
    for entry in std::fs::read_dir(root().join("crates")).unwrap() {
        let folder = entry.unwrap().path().join("tests/all");
        let main = folder.join("main.rs");
        if !main.is_file() {
            assert!(!folder.is_dir(), "{} has no main.rs, so none of its tests are built", folder.display());
            continue;
        }
        folders += 1;
        let (declared, present) = (declared(&main), present(&folder));
        let lost: Vec<&String> = present.difference(&declared).collect();
        assert!(lost.is_empty(), "{} does not declare {lost:?}, so their tests are not built", main.display());
    }
    assert!(folders > 0, "no crate has tests in a folder");
}
