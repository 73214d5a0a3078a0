//! Records for those who cite a paper or this page: BibTeX, with the fields that are known and no other.
use maud::{Markup, html};

use super::Made;
use super::gather::Gathered;
use crate::experiment::Paper;

/// The hash of every parameter of every paper: pages with the same hash and the same version hold the same numbers.
pub(super) fn parameters_hash(papers: &[&Paper]) -> String {
    let each = papers.iter().map(|paper| (paper.parameters)().fingerprint());
    format!("{:016x}", each.fold(0_u64, |all, one| all.rotate_left(7) ^ one))
}

/// A paper's record.
pub(super) fn bibtex(paper: &Paper) -> String {
    let known = |field: &str| paper.citation.record.iter().find(|(name, _)| *name == field).map(|(_, value)| *value);
    let kind = if known("journal").is_some() { "article" } else { "misc" };
    let authors = without_parentheses(paper.citation.authors);
    let authors: Vec<&str> = authors.split(',').map(str::trim).collect();
    let mut fields = vec![
        ("title", format!("{{{}}}", paper.title)),
        ("author", authors.join(" and ")),
        ("note", format!("In Japanese: {}", paper.citation.original_title)),
    ];
    fields.extend(paper.citation.record.iter().map(|(name, value)| (*name, (*value).to_string())));
    record(kind, &format!("{}{}", paper.id, known("year").unwrap_or("")), &fields)
}

/// The page's own record.
pub(super) fn page(gathered: &Gathered, made: &Made) -> String {
    let hash = parameters_hash(gathered.papers);
    let commit = if made.commit.is_empty() { String::new() } else { format!(", commit {}", made.commit) };
    let fields = [
        ("title", "{Five papers and their models}".to_string()),
        ("howpublished", format!("Report of hanare {}{commit}", made.version)),
        ("note", format!("Made on {}; parameters {hash}; {}", made.date, gathered.summary())),
    ];
    record("misc", &format!("hanare-report-{hash}"), &fields)
}

fn record(kind: &str, key: &str, fields: &[(&str, String)]) -> String {
    let lines = fields.iter().map(|(name, value)| format!("  {name} = {{{value}}},\n"));
    format!("@{kind}{{{key},\n{}}}\n", lines.collect::<String>())
}

/// Names without their institutions.
fn without_parentheses(text: &str) -> String {
    let mut depth = 0_usize;
    let mut keep = |letter: char| {
        match letter {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => return depth == 0,
        }
        false
    };
    text.chars().filter(|letter| keep(*letter)).collect()
}

/// A record that a reader opens and copies.
pub(super) fn shown(summary: &str, record: &str) -> Markup {
    html! { details.cite { summary { (summary) } pre { (record) } } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::papers::{papers, virtual_queue};

    #[test]
    fn a_record_has_what_is_known_and_no_more() {
        let known = bibtex(&virtual_queue::PAPER);
        for part in
            ["@article{virtual-queue1996,", "author = {M. Goshima and S. Mori and H. Nakashima and S. Tomita}", "volume = {37}"]
        {
            assert!(known.contains(part), "{part} is missing: {known}");
        }
        for paper in papers() {
            let record = bibtex(paper);
            let authors = record.lines().find(|line| line.contains("author =")).unwrap();
            assert!(!authors.contains('(') && authors.matches(" and ").count() >= 3, "{record}");
            assert_eq!(record.contains("year ="), paper.citation.record.iter().any(|(name, _)| *name == "year"), "{record}");
        }
    }

    #[test]
    fn another_parameter_gives_another_hash() {
        let parameters = (virtual_queue::PAPER.parameters)();
        assert_ne!(parameters.fingerprint(), parameters.with("ring.ways", 2.0).fingerprint());
        assert_eq!(parameters_hash(papers()), parameters_hash(papers()));
    }
}
