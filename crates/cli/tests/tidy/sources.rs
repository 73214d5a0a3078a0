//! The sources of the workspace, parsed, each with its place in its crate's tree of modules.

use std::fs::read_to_string;
use std::path::{Path, PathBuf};
use syn::{Attribute, Item, ItemMod};

/// One file of Rust.
pub struct Source {
    /// The crate's folder.
    pub package: String,
    /// The file, from the repository's root.
    pub path: String,
    /// The module that the file is: empty for the crate's root.
    pub module: Vec<String>,
    /// Whether it is compiled for tests only.
    pub is_test: bool,
    pub text: String,
    pub items: Vec<Item>,
}

/// The repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap()
}

/// All files of the crates: libraries and programs by their trees of modules, then tests and examples.
///
/// **Cost**: parsing them, about a second.
pub fn sources() -> Vec<Source> {
    let mut sources = Vec::new();
    let mut packages: Vec<String> = entries(&root().join("crates"));
    packages.sort();
    for package in packages {
        let folder = format!("crates/{package}");
        let root_file = ["lib.rs", "main.rs"].map(|name| format!("{folder}/src/{name}"));
        let root_file = root_file.into_iter().find(|path| root().join(path).is_file()).expect("a crate has a root");
        read_module(&mut sources, &package, &root_file, Vec::new(), false);
        for (part, is_test) in [("tests", true), ("examples", false)] {
            read_folder(&mut sources, &package, &format!("{folder}/{part}"), is_test);
        }
    }
    sources
}

/// The files that make the crates: neither tests nor examples.
pub fn product() -> Vec<Source> {
    let mut sources = sources();
    sources.retain(|source| !source.is_test && source.path.contains("/src/"));
    sources
}

fn entries(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

fn parse(package: &str, path: &str, module: Vec<String>, is_test: bool) -> Source {
    let text = read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"));
    let file = syn::parse_file(&text).unwrap_or_else(|error| panic!("{path}: {error}"));
    let is_test = is_test || is_for_tests(&file.attrs);
    Source { package: package.to_owned(), path: path.to_owned(), module, is_test, items: file.items, text }
}

/// Reads a module's file and those of the modules that it declares.
fn read_module(sources: &mut Vec<Source>, package: &str, path: &str, module: Vec<String>, is_test: bool) {
    let source = parse(package, path, module, is_test);
    let (folder, name) = path.rsplit_once('/').unwrap();
    let folder = match name {
        "mod.rs" | "lib.rs" | "main.rs" => folder.to_owned(),
        _ => path.trim_end_matches(".rs").to_owned(),
    };
    let declared: Vec<(String, bool)> = source.items.iter().filter_map(declared).collect();
    let (module, is_test) = (source.module.clone(), source.is_test);
    sources.push(source);
    for (name, is_for_tests) in declared {
        let files = [format!("{folder}/{name}.rs"), format!("{folder}/{name}/mod.rs")];
        let file = files.into_iter().find(|file| root().join(file).is_file());
        let file = file.unwrap_or_else(|| panic!("{path} declares {name}, which has no file"));
        read_module(sources, package, &file, [module.clone(), vec![name]].concat(), is_test || is_for_tests);
    }
}

/// A declared module that has a file, and whether it is for tests only.
fn declared(item: &Item) -> Option<(String, bool)> {
    match item {
        Item::Mod(ItemMod { ident, content: None, attrs, .. }) => Some((ident.to_string(), is_for_tests(attrs))),
        _ => None,
    }
}

fn read_folder(sources: &mut Vec<Source>, package: &str, folder: &str, is_test: bool) {
    if !root().join(folder).is_dir() {
        return;
    }
    let mut names = entries(&root().join(folder));
    names.sort();
    for name in names {
        let path = format!("{folder}/{name}");
        if root().join(&path).is_dir() {
            read_folder(sources, package, &path, is_test);
        } else if name.ends_with(".rs") {
            sources.push(parse(package, &path, Vec::new(), is_test));
        }
    }
}

/// Whether an item is compiled for tests only.
pub fn is_for_tests(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        syn::Meta::List(list) => {
            list.path.is_ident("cfg") && ["test", "fuzzing", "doctest"].contains(&list.tokens.to_string().as_str())
        }
        meta => meta.path().is_ident("test"),
    })
}
