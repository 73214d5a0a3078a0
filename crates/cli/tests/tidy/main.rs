//! The house stays in order: each file holds one family of rules against the sources, as a parser sees them.
//!
//! A rule that is nearly kept has a list in `known/` of what breaks it. A list may only shrink: what is not on it fails, and so does an
//! entry that is no longer needed.

mod circles;
mod documents;
mod modules;
mod names;
mod prose;
mod sizes;
mod sources;
mod used;
mod words;

use std::collections::BTreeSet;

/// Holds what was found against the list of what is known.
fn hold(rule: &str, list: &str, known: &str, found: &BTreeSet<String>) {
    let known: BTreeSet<&str> = known.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect();
    let found: BTreeSet<&str> = found.iter().map(String::as_str).collect();
    let breaks: Vec<&str> = found.difference(&known).copied().collect();
    let mended: Vec<&str> = known.difference(&found).copied().collect();
    assert!(breaks.is_empty(), "{rule}; these do not keep it:\n{}\n", breaks.join("\n"));
    assert!(
        mended.is_empty(),
        "{rule}; take these lines out of crates/cli/tests/{list}, they are mended:\n{}\n",
        mended.join("\n")
    );
}
