//! Limits stand in one file, files can be read alone, and a type's name means one thing in its crate.

use super::hold;
use super::sources::{Source, is_for_tests, product};
use std::collections::{BTreeMap, BTreeSet};
use syn::visit::{self, Visit};
use syn::{Item, UseTree};

/// Where limits are.
const LIMITS: &str = "crates/protocol/src/limits";

/// What a file of the product declares.
#[derive(Default)]
struct Declared {
    limits: Vec<String>,
    types: Vec<String>,
    has_super_glob: bool,
}

impl<'a> Visit<'a> for Declared {
    fn visit_item_mod(&mut self, module: &'a syn::ItemMod) {
        if !is_for_tests(&module.attrs) {
            visit::visit_item_mod(self, module);
        }
    }
    fn visit_item_fn(&mut self, function: &'a syn::ItemFn) {
        if !is_for_tests(&function.attrs) {
            visit::visit_item_fn(self, function);
        }
    }
    fn visit_item_const(&mut self, constant: &'a syn::ItemConst) {
        self.limits.push(constant.ident.to_string());
    }
    fn visit_impl_item_const(&mut self, constant: &'a syn::ImplItemConst) {
        self.limits.push(constant.ident.to_string());
    }
    fn visit_item_use(&mut self, item: &'a syn::ItemUse) {
        self.has_super_glob |= !is_for_tests(&item.attrs) && is_super_glob(&item.tree);
    }
    fn visit_item(&mut self, item: &'a Item) {
        let named = match item {
            Item::Struct(item) => Some((&item.ident, &item.attrs)),
            Item::Enum(item) => Some((&item.ident, &item.attrs)),
            Item::Union(item) => Some((&item.ident, &item.attrs)),
            Item::Trait(item) => Some((&item.ident, &item.attrs)),
            Item::Type(item) => Some((&item.ident, &item.attrs)),
            _ => None,
        };
        if let Some((name, attributes)) = named
            && !is_for_tests(attributes)
        {
            self.types.push(name.to_string());
        }
        visit::visit_item(self, item);
    }
}

fn is_super_glob(tree: &UseTree) -> bool {
    match tree {
        UseTree::Path(path) if path.ident == "super" => matches!(&*path.tree, UseTree::Glob(_)) || is_super_glob(&path.tree),
        _ => false,
    }
}

fn declared(source: &Source) -> Declared {
    let mut declared = Declared::default();
    source.items.iter().for_each(|item| declared.visit_item(item));
    declared
}

/// The types that a file declares outside its tests.
pub fn type_names(source: &Source) -> Vec<String> {
    declared(source).types
}

#[test]
fn limits_stand_in_one_place() {
    let mut elsewhere = BTreeSet::new();
    for source in product().into_iter().filter(|source| !source.path.starts_with(LIMITS)) {
        let limits = declared(&source).limits.into_iter().filter(|name| name.ends_with("_MAX"));
        elsewhere.extend(limits.map(|name| format!("{} {name}", source.path)));
    }
    hold("a limit (`_MAX`) stands in protocol/limits", "tidy/known/limits.txt", include_str!("known/limits.txt"), &elsewhere);
}

#[test]
fn a_file_says_what_it_uses() {
    let globs = product().into_iter().filter(|source| declared(source).has_super_glob).map(|source| source.path).collect();
    hold("no `use super::*` outside tests", "tidy/known/globs.txt", include_str!("known/globs.txt"), &globs);
}

#[test]
fn a_type_s_name_means_one_thing_in_its_crate() {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for source in product() {
        for name in type_names(&source) {
            *counts.entry(format!("{} {name}", source.package)).or_default() += 1;
        }
    }
    let twice = counts.into_iter().filter(|(_, count)| *count > 1).map(|(name, _)| name).collect();
    hold("no two types of a crate have one name", "tidy/known/types.txt", include_str!("known/types.txt"), &twice);
}
