//! What was found to contradict itself in the papers, with what is done about it.
use std::sync::OnceLock;

use serde::Deserialize;

/// One contradiction.
#[derive(Deserialize)]
pub(super) struct Finding {
    /// The paper's id.
    pub paper: String,
    /// The place of the finding.
    #[serde(rename = "where")]
    pub place: String,
    /// What it is and how it is read here.
    pub text: String,
    /// The suspect facts and equations concerned.
    pub keys: Vec<String>,
    /// The value or form that contradicts them; empty where there are none.
    #[serde(default)]
    pub against: String,
}

#[derive(Deserialize)]
struct File {
    finding: Vec<Finding>,
}

/// All findings, in the papers' order.
pub(super) fn findings() -> &'static [Finding] {
    static FINDINGS: OnceLock<File> = OnceLock::new();
    let read = || {
        toml::from_str(include_str!("../../facts/findings.toml"))
            .expect("findings.toml is part of the crate and is read by its tests")
    };
    &FINDINGS.get_or_init(read).finding
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::facts;

    #[test]
    fn every_suspect_is_explained_once() {
        let mut explained: Vec<&str> = findings().iter().flat_map(|finding| finding.keys.iter().map(String::as_str)).collect();
        let facts = facts();
        let suspects = facts.facts.values().filter(|fact| fact.suspect).map(|fact| fact.key.as_str());
        let equations = facts.equations.values().filter(|equation| equation.suspect).map(|equation| equation.key.as_str());
        let mut suspects: Vec<&str> = suspects.chain(equations).collect();
        explained.sort_unstable();
        suspects.sort_unstable();
        assert_eq!(explained, suspects);
        assert!(findings().iter().all(|finding| finding.keys.is_empty() == finding.against.is_empty()));
    }
}
