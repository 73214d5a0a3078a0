//! What only tests use is taken away: every public item of a library is named somewhere in code that is no test.
//!
//! Names are compared, not resolved, so a method with a common name passes unseen; what is found is not used for certain.

use super::hold;
use super::sources::{Source, is_for_tests, sources};
use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use std::collections::{BTreeMap, BTreeSet};
use syn::{ImplItem, Item, TraitItem, Type, Visibility};

/// Crates without a public face in Rust: the C library's is held by its symbols, Python's by its stubs; a program has none. Those for
/// tests alone have no other use.
const WITHOUT_FACE: &[&str] = &["capi", "cli", "fuzz", "python", "testkit"];
/// Made by a tool from another library's header, whole.
const GENERATED: &str = "crates/fabric/src/ucx/bindings.rs";

/// A piece of code that names things: a function, a type's definition, a macro.
struct Piece {
    /// The public item that it defines, and the file.
    defines: Option<(String, String)>,
    /// The name of that item, or of what it belongs to: naming oneself is no use.
    own: Vec<String>,
    names: BTreeSet<String>,
}

fn collect(stream: TokenStream, names: &mut BTreeSet<String>) {
    for token in stream {
        match token {
            TokenTree::Ident(name) => drop(names.insert(name.to_string())),
            TokenTree::Group(group) => collect(group.stream(), names),
            _ => {}
        }
    }
}

fn names_in(parts: &[&dyn ToTokens]) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for part in parts {
        collect(part.to_token_stream(), &mut names);
    }
    names
}

struct Reader<'a> {
    source: &'a Source,
    pieces: Vec<Piece>,
}

impl Reader<'_> {
    fn add(&mut self, visibility: Option<&Visibility>, name: &str, owner: Option<&str>, parts: &[&dyn ToTokens]) {
        let is_ours = self.source.path.contains("/src/") && self.source.path != GENERATED;
        let is_face = is_ours && !WITHOUT_FACE.contains(&self.source.package.as_str());
        let is_public = is_face && matches!(visibility, Some(Visibility::Public(_)));
        let full = owner.map_or(name.to_owned(), |owner| format!("{owner}::{name}"));
        let own = owner.iter().map(|owner| (*owner).to_owned()).chain([name.to_owned()]).collect();
        let defines = is_public.then(|| (name.to_owned(), format!("{} {full}", self.source.path)));
        self.pieces.push(Piece { defines, own, names: names_in(parts) });
    }

    fn read(&mut self, items: &[Item]) {
        for item in items {
            self.read_item(item);
        }
    }

    fn read_item(&mut self, item: &Item) {
        match item {
            Item::Fn(item) if !is_for_tests(&item.attrs) => {
                let sig = &item.sig;
                self.add(Some(&item.vis), &sig.ident.to_string(), None, &[&sig.generics, &sig.inputs, &sig.output, &item.block]);
            }
            Item::Struct(item) if !is_for_tests(&item.attrs) => {
                self.add(Some(&item.vis), &item.ident.to_string(), None, &[&item.generics, &item.fields]);
            }
            Item::Enum(item) if !is_for_tests(&item.attrs) => {
                self.add(Some(&item.vis), &item.ident.to_string(), None, &[&item.generics, &item.variants]);
            }
            Item::Type(item) => self.add(Some(&item.vis), &item.ident.to_string(), None, &[&item.ty]),
            Item::Const(item) => self.add(Some(&item.vis), &item.ident.to_string(), None, &[&item.ty, &item.expr]),
            Item::Static(item) => self.add(Some(&item.vis), &item.ident.to_string(), None, &[&item.ty, &item.expr]),
            Item::Trait(item) => {
                self.add(Some(&item.vis), &item.ident.to_string(), None, &[&item.supertraits]);
                item.items.iter().for_each(|part| self.read_trait_item(&item.ident.to_string(), part));
            }
            Item::Impl(item) if !is_for_tests(&item.attrs) => self.read_impl(item),
            Item::Mod(item) if !is_for_tests(&item.attrs) => {
                self.read(item.content.as_ref().map_or(&[], |(_, items)| items));
            }
            Item::Macro(item) => self.add(None, "", None, &[&item.mac.tokens]),
            _ => {}
        }
    }

    fn read_trait_item(&mut self, owner: &str, item: &TraitItem) {
        self.add(None, "", Some(owner), &[item]);
    }

    fn read_impl(&mut self, item: &syn::ItemImpl) {
        let owner = match &*item.self_ty {
            Type::Path(path) => path.path.segments.last().map(|segment| segment.ident.to_string()).unwrap_or_default(),
            _ => String::new(),
        };
        let is_inherent = item.trait_.is_none();
        let of_trait = item.trait_.iter().map(|(_, path, _)| path).collect::<Vec<_>>();
        self.add(None, "", Some(&owner), &[&item.generics, &of_trait.first()]);
        for part in &item.items {
            match part {
                ImplItem::Fn(part) if !is_for_tests(&part.attrs) => {
                    let (sig, vis) = (&part.sig, is_inherent.then_some(&part.vis));
                    let parts: [&dyn ToTokens; 4] = [&sig.generics, &sig.inputs, &sig.output, &part.block];
                    self.add(vis, &sig.ident.to_string(), Some(&owner), &parts);
                }
                ImplItem::Const(part) => {
                    let vis = is_inherent.then_some(&part.vis);
                    self.add(vis, &part.ident.to_string(), Some(&owner), &[&part.ty, &part.expr]);
                }
                ImplItem::Type(part) => self.add(None, "", Some(&owner), &[&part.ty]),
                _ => {}
            }
        }
    }
}

/// Tests are no use; nor are examples, but for those of the library's face.
fn is_use(source: &Source) -> bool {
    let is_example = source.path.contains("/examples/");
    !source.is_test && (!is_example || ["hanare", "model"].contains(&source.package.as_str()))
}

#[test]
fn every_public_item_is_used_by_code_that_is_no_test() {
    let mut pieces = Vec::new();
    for source in sources().iter().filter(|source| is_use(source)) {
        let mut reader = Reader { source, pieces: Vec::new() };
        reader.read(&source.items);
        pieces.extend(reader.pieces);
    }
    let mut users: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (at, piece) in pieces.iter().enumerate() {
        piece.names.iter().for_each(|name| users.entry(name).or_default().push(at));
    }
    let mut unused = BTreeSet::new();
    for (at, piece) in pieces.iter().enumerate() {
        let Some((name, full)) = &piece.defines else { continue };
        let is_type = piece.own.len() == 1;
        let is_other = |user: &&usize| **user != at && !(is_type && pieces[**user].own.first() == Some(name));
        if !users.get(name.as_str()).is_some_and(|users| users.iter().any(|user| is_other(&user))) {
            unused.insert(full.clone());
        }
    }
    hold("every public item is used by code that is no test", "tidy/known/unused.txt", include_str!("known/unused.txt"), &unused);
}
