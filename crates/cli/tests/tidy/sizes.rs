//! A function fits a screen or two, a file one topic.

use super::hold;
use super::sources::{Source, product, sources};
use std::collections::BTreeSet;
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// Most lines of a function, from its name's line to its last brace.
const FUNCTION_LINES_MAX: usize = 70;
/// Most lines of a file of a library or program, its own unit tests included.
const FILE_LINES_MAX: usize = 500;

struct Functions<'a> {
    source: &'a Source,
    long: BTreeSet<String>,
}

impl Functions<'_> {
    fn look(&mut self, name: &syn::Ident, block: &syn::Block) {
        let lines = block.span().end().line - name.span().start().line + 1;
        if lines > FUNCTION_LINES_MAX {
            self.long.insert(format!("{} {name}", self.source.path));
        }
    }
}

impl<'a> Visit<'a> for Functions<'a> {
    fn visit_item_fn(&mut self, function: &'a syn::ItemFn) {
        self.look(&function.sig.ident, &function.block);
        visit::visit_item_fn(self, function);
    }
    fn visit_impl_item_fn(&mut self, function: &'a syn::ImplItemFn) {
        self.look(&function.sig.ident, &function.block);
        visit::visit_impl_item_fn(self, function);
    }
    fn visit_trait_item_fn(&mut self, function: &'a syn::TraitItemFn) {
        if let Some(block) = &function.default {
            self.look(&function.sig.ident, block);
        }
        visit::visit_trait_item_fn(self, function);
    }
}

#[test]
fn a_function_has_at_most_70_lines() {
    let mut long = BTreeSet::new();
    for source in &sources() {
        let mut functions = Functions { source, long: BTreeSet::new() };
        source.items.iter().for_each(|item| functions.visit_item(item));
        long.extend(functions.long);
    }
    hold("a function has at most 70 lines", "tidy/known/functions.txt", include_str!("known/functions.txt"), &long);
}

#[test]
fn a_file_has_at_most_500_lines() {
    let is_long = |source: &Source| source.text.lines().count() > FILE_LINES_MAX;
    let long = product().into_iter().filter(is_long).map(|source| source.path).collect();
    hold("a file has at most 500 lines", "tidy/known/files.txt", include_str!("known/files.txt"), &long);
}
