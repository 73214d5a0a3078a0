//! Modules of one folder use each other in one direction, so that a reader can begin at the bottom.
//!
//! A module is a file, or a folder with all that is in it. What a folder's own file (`mod.rs`) holds belongs to none of its modules.

use super::sources::{Source, is_for_tests, product, root};
use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use std::collections::{BTreeMap, BTreeSet};
use syn::{Item, UseTree};

type Path = Vec<String>;

/// One module: what it brings into its names, and every path that its code writes.
#[derive(Default)]
struct Module {
    /// Names that `use` brings, and where they come from.
    names: BTreeMap<String, Path>,
    globs: Vec<Path>,
    defined: BTreeSet<String>,
    paths: Vec<Path>,
}

/// A crate's modules, by their paths.
type Tree = BTreeMap<Path, Module>;

fn flatten(tree: &UseTree, before: &Path, module: &mut Module) {
    let with = |name: &syn::Ident| [before.clone(), vec![name.to_string()]].concat();
    match tree {
        UseTree::Path(path) => flatten(&path.tree, &with(&path.ident), module),
        UseTree::Name(name) if name.ident == "self" => {
            if let Some(last) = before.last() {
                module.names.insert(last.clone(), before.clone());
            }
        }
        UseTree::Name(name) => drop(module.names.insert(name.ident.to_string(), with(&name.ident))),
        UseTree::Rename(name) => drop(module.names.insert(name.rename.to_string(), with(&name.ident))),
        UseTree::Glob(_) => module.globs.push(before.clone()),
        UseTree::Group(group) => group.items.iter().for_each(|tree| flatten(tree, before, module)),
    }
}

/// Every `a::b::c` of a stream.
fn paths_in(stream: TokenStream, paths: &mut Vec<Path>) {
    let mut path: Path = Vec::new();
    let mut colons = 0;
    for token in stream {
        match &token {
            TokenTree::Ident(name) if colons == 2 || path.is_empty() => path.push(name.to_string()),
            TokenTree::Punct(mark) if mark.as_char() == ':' && colons < 2 => {
                colons += 1;
                continue;
            }
            _ => {
                paths.push(std::mem::take(&mut path));
                if let TokenTree::Ident(name) = &token {
                    path.push(name.to_string());
                }
            }
        }
        colons = 0;
        if let TokenTree::Group(group) = token {
            paths_in(group.stream(), paths);
        }
    }
    paths.push(path);
    paths.retain(|path| path.len() > 1);
}

fn read(tree: &mut Tree, at: &Path, items: &[Item]) {
    tree.entry(at.clone()).or_default();
    for item in items {
        match item {
            Item::Use(item) if !is_for_tests(&item.attrs) => {
                flatten(&item.tree, &Vec::new(), tree.get_mut(at).unwrap());
            }
            Item::Mod(item) if !is_for_tests(&item.attrs) => {
                if let Some((_, items)) = &item.content {
                    read(tree, &[at.clone(), vec![item.ident.to_string()]].concat(), items);
                }
            }
            Item::Use(_) | Item::Mod(_) => {}
            Item::Fn(function) if is_for_tests(&function.attrs) => {}
            item => {
                let module = tree.get_mut(at).unwrap();
                let name = match item {
                    Item::Fn(item) => Some(&item.sig.ident),
                    Item::Struct(item) => Some(&item.ident),
                    Item::Enum(item) => Some(&item.ident),
                    Item::Trait(item) => Some(&item.ident),
                    Item::Type(item) => Some(&item.ident),
                    Item::Const(item) => Some(&item.ident),
                    Item::Static(item) => Some(&item.ident),
                    Item::Macro(item) => item.ident.as_ref(),
                    _ => None,
                };
                module.defined.extend(name.map(ToString::to_string));
                paths_in(item.to_token_stream(), &mut module.paths);
            }
        }
    }
}

/// The module that holds what a path names, if it is one of the crate's.
fn resolve(tree: &Tree, from: &Path, path: &[String], depth: usize) -> Option<Path> {
    let (mut at, mut rest) = (from.clone(), path);
    match path.first()?.as_str() {
        "crate" => (at, rest) = (Vec::new(), &path[1..]),
        "self" => rest = &path[1..],
        "super" => {
            while rest.first().is_some_and(|name| name == "super") {
                at.pop()?;
                rest = &rest[1..];
            }
        }
        name => {
            let is_here = tree.contains_key(&[at.clone(), vec![name.to_owned()]].concat()) || tree[&at].names.contains_key(name);
            if !is_here {
                return None;
            }
        }
    }
    while let Some(name) = rest.first() {
        let below = [at.clone(), vec![name.clone()]].concat();
        let module = &tree[&at];
        if tree.contains_key(&below) {
            (at, rest) = (below, &rest[1..]);
        } else if module.defined.contains(name) || depth == 0 {
            return Some(at);
        } else if let Some(source) = module.names.get(name).filter(|source| source.as_slice() != path) {
            return resolve(tree, &at, &[source.clone(), rest[1..].to_vec()].concat(), depth - 1);
        } else {
            let through = module.globs.iter().filter_map(|glob| resolve(tree, &at, glob, depth - 1));
            return through.into_iter().find(|glob| tree[glob].defined.contains(name)).or(Some(at));
        }
    }
    Some(at)
}

/// For each folder, which of its modules use which.
fn arrows(tree: &Tree) -> BTreeMap<Path, BTreeMap<String, BTreeSet<String>>> {
    let mut arrows: BTreeMap<Path, BTreeMap<String, BTreeSet<String>>> = BTreeMap::new();
    for (from, module) in tree {
        for path in module.names.values().chain(&module.globs).chain(&module.paths) {
            let Some(to) = resolve(tree, from, path, 8) else { continue };
            let common = from.iter().zip(&to).take_while(|(one, other)| one == other).count();
            if let (Some(one), Some(other)) = (from.get(common), to.get(common)) {
                arrows.entry(from[..common].to_vec()).or_default().entry(one.clone()).or_default().insert(other.clone());
            }
        }
    }
    arrows
}

fn reaches<'a>(arrows: &'a BTreeMap<String, BTreeSet<String>>, from: &'a String) -> BTreeSet<&'a String> {
    let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(at) = open.pop() {
        open.extend(arrows.get(at).into_iter().flatten().filter(|next| seen.insert(*next)));
    }
    seen
}

/// The circles of one folder, each as its modules in order.
fn circles_of(arrows: &BTreeMap<String, BTreeSet<String>>) -> BTreeSet<Vec<&String>> {
    let reached: BTreeMap<&String, BTreeSet<&String>> = arrows.keys().map(|from| (from, reaches(arrows, from))).collect();
    let is_mutual = |from: &String, to: &&String| reached.get(to).is_some_and(|back| back.contains(from));
    let circles = arrows.keys().map(|from| reached[from].iter().copied().filter(|to| is_mutual(from, to)).collect::<Vec<_>>());
    circles.filter(|circle| circle.len() > 1).collect()
}

fn tree_of<'a>(sources: impl Iterator<Item = &'a Source>) -> Tree {
    let mut tree = Tree::new();
    sources.for_each(|source| read(&mut tree, &source.module, &source.items));
    tree
}

/// Which modules of the Python package use which, also in functions and for types alone.
fn arrows_of_python() -> BTreeMap<String, BTreeSet<String>> {
    let entries = |folder: &std::path::Path| -> Vec<(String, std::path::PathBuf)> {
        let paths = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        paths.map(|path| (path.file_stem().unwrap().to_str().unwrap().to_owned(), path)).collect()
    };
    let modules: BTreeMap<String, std::path::PathBuf> = entries(&root().join("crates/python/hanare"))
        .into_iter()
        .filter(|(_, path)| path.extension().is_some_and(|kind| kind == "py") || path.join("__init__.py").is_file())
        .collect();
    let used = |(from, path): (&String, &std::path::PathBuf)| {
        let (files, dots) =
            if path.is_dir() { (entries(path), "from ..") } else { (vec![(from.clone(), path.clone())], "from .") };
        let files = files.into_iter().filter(|(_, file)| file.extension().is_some_and(|kind| kind == "py"));
        let text: String = files.map(|(_, file)| std::fs::read_to_string(file).unwrap() + "\n").collect();
        let brought = text.lines().filter_map(|line| line.trim_start().strip_prefix(dots)?.split_once(" import "));
        let named = brought.flat_map(|(place, names)| match place.split('.').next() {
            Some("") | None => names.split([',', ' ']).map(str::to_owned).collect(),
            Some(module) => vec![module.to_owned()],
        });
        let named = named.filter(|name| name != from && modules.contains_key(name)).collect();
        (from.clone(), named)
    };
    modules.iter().map(used).collect()
}

#[test]
fn modules_of_a_folder_form_no_circle() {
    let sources = product();
    let packages: BTreeSet<&str> = sources.iter().map(|source| source.package.as_str()).collect();
    let mut found: Vec<(String, BTreeSet<String>)> = Vec::new();
    for package in packages {
        let tree = tree_of(sources.iter().filter(|source| source.package == package));
        for (folder, arrows) in arrows(&tree) {
            let name = [vec![package.to_owned()], folder].concat().join("/");
            found.extend(
                circles_of(&arrows).iter().map(|circle| (name.clone(), circle.iter().map(|name| (*name).clone()).collect())),
            );
        }
    }
    let python = arrows_of_python();
    assert!(python["array"].contains("_functions"), "imports are found");
    found
        .extend(circles_of(&python).iter().map(|circle| ("python/hanare".to_owned(), circle.iter().copied().cloned().collect())));
    let lines = include_str!("known/circles.txt").lines().filter(|line| !line.starts_with('#'));
    let known: Vec<(&str, BTreeSet<String>)> = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(folder, modules)| (folder, modules.split(' ').map(str::to_owned).collect()))
        .collect();
    let is_known =
        |folder: &str, modules: &BTreeSet<String>| known.iter().any(|(name, all)| *name == folder && modules.is_subset(all));
    let line = |(folder, modules): &(String, BTreeSet<String>)| {
        format!("{folder}: {}", modules.iter().map(String::as_str).collect::<Vec<_>>().join(" "))
    };
    let new: Vec<String> = found.iter().filter(|(folder, modules)| !is_known(folder, modules)).map(line).collect();
    assert!(new.is_empty(), "modules that use each other in circles, which are not in known/circles.txt:\n{}\n", new.join("\n"));
    for (folder, modules) in &known {
        let still: BTreeSet<&String> = found.iter().filter(|(name, _)| name == folder).flat_map(|(_, modules)| modules).collect();
        let mended: Vec<&String> = modules.iter().filter(|module| !still.contains(module)).collect();
        assert!(mended.is_empty(), "{mended:?} of {folder} are in no circle any more: take them out of known/circles.txt");
    }
}

#[test]
fn a_circle_is_found_through_names_that_a_folder_passes_on() {
    let source = |module: &str, text: &str| Source {
        package: "p".to_owned(),
        path: String::new(),
        module: module.split('/').filter(|name| !name.is_empty()).map(str::to_owned).collect(),
        is_test: false,
        text: String::new(),
        items: syn::parse_file(text).unwrap().items,
    };
    let root = source("", "mod a; mod b; mod c; pub use b::B;");
    let sources = [
        root,
        source("a", "use crate::B; pub struct A;"),
        source("b", "pub struct B; fn f() { let a = [crate::a::A, super::c::C::new()]; }"),
        source("c", "#[cfg(test)] mod tests { use crate::a::A; } pub struct C;"),
    ];
    let found = arrows(&tree_of(sources.iter()));
    assert_eq!(found.len(), 1);
    let circles = circles_of(&found[&Vec::new()]);
    assert_eq!(circles.into_iter().collect::<Vec<_>>(), [["a", "b"]]);
}
