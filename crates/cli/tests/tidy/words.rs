//! Names of modules and types keep to the words of the book: docs/words.md says which word stands for a thing, and which it replaces.

use super::hold;
use super::names::type_names;
use super::sources::{product, root};
use std::collections::BTreeSet;

/// The table of words.
const WORDS: &str = "docs/words.md";

/// The words of the table's last column that stand in code type.
fn replaced(table: &str) -> BTreeSet<String> {
    let rows = table.lines().filter(|line| line.starts_with("| ") && line.matches('|').count() == 5);
    let cells = rows.filter_map(|row| row.trim_end_matches('|').rsplit('|').next());
    cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).map(str::to_owned).collect()
}

/// The words of a name in either form, `snake_case` or `CamelCase`.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for letter in name.chars() {
        if letter == '_' || letter.is_uppercase() {
            words.push(String::new());
        }
        if letter != '_' {
            words.last_mut().expect("there is one").extend(letter.to_lowercase());
        }
    }
    words
}

/// Finds a replaced word in a name, as it stands there or as its plural.
fn breaks(name: &str, replaced: &BTreeSet<String>) -> bool {
    words(name).iter().any(|word| replaced.contains(word) || word.strip_suffix('s').is_some_and(|word| replaced.contains(word)))
}

#[test]
fn modules_and_types_are_called_by_the_words_of_the_book() {
    let table = std::fs::read_to_string(root().join(WORDS)).expect("the book has its words");
    let replaced = replaced(&table);
    assert!(replaced.len() >= 25, "{WORDS} replaces {replaced:?}: the table is read wrongly");
    let mut found = BTreeSet::new();
    // The models speak as their papers do.
    for source in product().into_iter().filter(|source| source.package != "model") {
        let module = source.module.last().filter(|name| breaks(name, &replaced));
        found.extend(module.map(|name| format!("{} mod {name}", source.package)));
        let types = type_names(&source).into_iter().filter(|name| breaks(name, &replaced));
        found.extend(types.map(|name| format!("{} type {name}", source.package)));
    }
    hold("names of modules and types keep to docs/words.md", "tidy/known/words.txt", include_str!("known/words.txt"), &found);
}

#[test]
fn a_replaced_word_is_found_in_names_of_both_forms_and_in_the_plural() {
    let replaced = replaced("| header | fields before a part | `here` | `note`, head |\n|---|---|---|---|\n| a | `b` |");
    assert_eq!(replaced, BTreeSet::from(["note".to_owned()]));
    for name in ["note", "own_notes", "NoteKind", "LastNotes"] {
        assert!(breaks(name, &replaced), "{name}");
    }
    for name in ["notice", "Header", "denoted", "head"] {
        assert!(!breaks(name, &replaced), "{name}");
    }
}
