//! The report as one HTML page that refers to nothing outside itself.
use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::claim::Verdict;
use crate::experiment::Paper;
use crate::facts::{Agreement, Fact, facts};
use crate::outcome::Produced;
use crate::plot;
use crate::text;

use super::Made;
use super::cite;
use super::claim_card::card;
use super::features::{Marks, alone, lives_in, places, recorded};
use super::figures::{LOST, is_of};
use super::findings::findings;
use super::gather::{Drawn, Gathered, Row, value};
use super::predictions;
use super::style;

/// The whole page.
pub(super) fn page(gathered: &Gathered, made: &Made) -> String {
    let marks = recorded();
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                title { "Five papers and their models" }
                style { (PreEscaped(style::STYLE)) (PreEscaped(plot::STYLE)) }
            }
            body {
                (head(gathered, made))
                (navigation(gathered))
                main {
                    (how_judged(gathered))
                    @for paper in gathered.papers { (paper_section(paper, gathered)) }
                    (findings_section(gathered))
                    (predictions::section())
                    (features_section(gathered.papers, &marks))
                }
                footer {
                    p { "Written by " code { "hanare report" } ". Each number comes from a model that can be run alone: "
                        code { "hanare model PAPER EXPERIMENT" } " prints its tables and every parameter with its source; "
                        code { "--set" } " and " code { "--sweep" } " change them. Same parameters, same page. "
                        code { "hanare report --json" } " has the same numbers with units, limits and parameters." }
                    p { (made_line(made)) " Parameters " code { (cite::parameters_hash(gathered.papers)) } "." }
                    (cite::shown("Cite this page", &cite::page(gathered, made)))
                }
                script { (PreEscaped(style::SCRIPT)) }
            }
        }
    }
    .into_string()
}

fn made_line(made: &Made) -> String {
    let commit = if made.commit.is_empty() { String::new() } else { format!(", commit {}", made.commit) };
    format!("Made on {} by hanare {}{commit}.", made.date, made.version)
}

fn head(gathered: &Gathered, made: &Made) -> Markup {
    html! {
        header {
            h1 { "Five papers and their models" }
            p.lead {
                "Five papers describe hardware and software for memory besides main memory. They make " (gathered.rows.len())
                " claims. For each, this page holds the paper's statement beside a timing model, says what came of it, on which facts it rests, and what would have refuted it."
            }
            p.faint { (made_line(made)) " " @if !gathered.is_measured { "No measurements of this machine are in it; " code { "hanare report --measure" } " adds them." } }
            (tally(gathered))
            (contents(gathered))
        }
    }
}

/// What a verdict means, in one sentence.
fn meaning(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Reproduced => "the model read nothing of the claim and shows it in every reading",
        Verdict::ByConstruction => "it read the claim's own numbers, or nothing that is open can change the answer",
        Verdict::InOneReading => "the default reading holds and another that the text allows fails",
        Verdict::InAnotherReading => "the default reading fails and another that the text allows holds",
        Verdict::KnifeEdge => "one step of one open parameter flips it, or under half of the two-fold box agrees",
        Verdict::Differs => "the model shows something else",
        Verdict::NothingToTest => "the claim says nothing a model could miss",
    }
}

fn tally(gathered: &Gathered) -> Markup {
    html! {
        ul.tally {
            @for verdict in Verdict::ALL {
                li class=(class(verdict)) { b { (count(&gathered.rows, verdict)) } (verdict.name()) br; small { (meaning(verdict)) } }
            }
        }
        (strip(&gathered.rows, "strip"))
    }
}

/// Every claim by paper, coloured by its verdict, with the filter above.
fn contents(gathered: &Gathered) -> Markup {
    html! {
        section.contents aria-label="Contents" {
            div.filter {
                label { "Search " input type="search" id="search" placeholder="words of a claim"; }
                span.chips {
                    @for verdict in Verdict::ALL {
                        label class={"chip " (class(verdict))} { input type="checkbox" name="verdict" value=(class(verdict)) checked; " " (verdict.name()) }
                    }
                }
                span.faint id="found" role="status" {}
            }
            @for paper in gathered.papers {
                p { a href={"#" (paper.id)} { (paper.name) } ": "
                    @for row in gathered.rows.iter().filter(|row| row.claim.paper == paper.id) {
                        a class={"mark " (class(row.verdict))} href={"#" (row.claim.id)} title={(row.verdict.name()) ": " (row.claim.text)} { (number_of(&row.claim.id)) } " "
                    }
                }
            }
        }
    }
}

/// `C10` of `D2-C10`.
fn number_of(id: &str) -> &str {
    id.split_once('-').map_or(id, |(_, number)| number)
}

fn count(rows: &[Row], verdict: Verdict) -> usize {
    rows.iter().filter(|row| row.verdict == verdict).count()
}

/// The style class of a verdict.
pub(super) fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Reproduced => "reproduced",
        Verdict::ByConstruction => "construction",
        Verdict::InOneReading => "reading",
        Verdict::InAnotherReading => "another",
        Verdict::KnifeEdge => "edge",
        Verdict::Differs => "differs",
        Verdict::NothingToTest => "nothing",
    }
}

/// A verdict as a badge.
pub(super) fn badge(verdict: Verdict) -> Markup {
    html! { span class={"badge " (class(verdict))} { (verdict.name()) } }
}

/// A strip whose parts are as long as the verdicts are many.
fn strip(rows: &[Row], kind: &str) -> Markup {
    let parts: Vec<(Verdict, usize)> =
        Verdict::ALL.map(|verdict| (verdict, count(rows, verdict))).into_iter().filter(|part| part.1 > 0).collect();
    let spoken: Vec<String> = parts.iter().map(|(verdict, count)| format!("{count} {}", verdict.name())).collect();
    html! {
        div class=(kind) role="img" aria-label=(spoken.join(", ")) {
            @for (verdict, count) in &parts { span class=(class(*verdict)) style={"flex:" (count)} {} }
        }
    }
}

/// What counts as agreement: one rule a paper, and how the sensitivities were made.
fn how_judged(gathered: &Gathered) -> Markup {
    html! {
        section id="judged" {
            h2 { "How a claim is judged" }
            p { "A claim is a list of conditions: a number of the model, what it is held to, and so what would have refuted it. What a judgement read is recorded while it runs, so "
                "no list of inputs is typed. Where it read a fact that the claim itself states, or one derived from that, the verdict is “by construction”." }
            p { "Where the text allows several readings, the claim is judged in each: “in one reading” where the default holds and another fails, “in another reading” where the default fails and another holds. A parameter that belongs to a claim's own number is fitted to other facts first (leave one out); "
                "the outcome with the paper's one default set stands beside it. Readings are tried together, too: all combinations, or a sample of many. The count stands with the claim's inputs." }
            p { "Claims are in our English. This project has none of the papers' Japanese sentences but their titles." }
            p { "Two boxes of random points decide what no list can. In the two-fold box each number that was chosen, or that contradicts its own paper, lies between half and twice its value; "
                "in the ten-fold box between a tenth and ten times, and structural switches (loop orders, join algorithms, overtaking and the like) are drawn too. "
                "A claim that comes out the same in all of the ten-fold box (but for one point in fifty), or most of whose conditions do, is “by construction”, because this model could not have shown anything else. One that does so in under half of the two-fold box, or that a single step flips, is a “knife-edge”. "
                "A step is one of what is counted, else 5 %; a size in powers of two has none. "
                "These take thousands of runs: they were recorded with the sources of this version (" code { "facts/sensitivity.toml" } ") and are shown only while the model still gives the value they were made for." }
            div.scroll {
                table.cards {
                    thead { tr { th { "paper" } th { "a number agrees" } th { "because" } th { "words are read as" } } }
                    tbody {
                        @for paper in gathered.papers {
                            tr {
                                th { (paper.name) }
                                td data-name="agrees" { (paper.rules.closeness()) }
                                td data-name="because" { (paper.rules.why) }
                                td data-name="words" {
                                    details {
                                        summary { (paper.rules.words.len()) " words" }
                                        @for (word, number, reading) in paper.rules.words { "“" (word) "”: " (reading) " (" (text::number(*number)) ")" br; }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn navigation(gathered: &Gathered) -> Markup {
    html! {
        nav aria-label="Sections" {
            ul {
                @for paper in gathered.papers { li { a href={"#" (paper.id)} { (paper.name) } } }
                li { a href="#judged" { "how judged" } }
                li { a href="#suspects" { "suspects" } }
                @if predictions::are_kept() { li { a href="#predictions" { "predictions" } } }
                li { a href="#features" { "features" } }
            }
        }
    }
}

fn paper_section(paper: &Paper, gathered: &Gathered) -> Markup {
    let rows: Vec<Row> = gathered.rows.iter().filter(|row| row.claim.paper == paper.id).cloned().collect();
    let spoken: Vec<String> = Verdict::ALL
        .iter()
        .map(|verdict| (verdict, count(&rows, *verdict)))
        .filter(|part| part.1 > 0)
        .map(|(verdict, count)| format!("{count} {}", verdict.name()))
        .collect();
    html! {
        section id=(paper.id) {
            h2 { (paper.title) }
            p { span lang="ja" { (paper.citation.original_title) } ". " (paper.citation.authors) ". " span.faint { (paper.citation.published) "." } }
            (cite::shown("BibTeX", &cite::bibtex(paper)))
            p.faint { "Modelled: " (paper.summary.trim_end_matches('.')) " (" code { "hanare model " (paper.id) } ")." }
            p.faint { (rows.len()) " claims: " (spoken.join(", ")) "." }
            (strip(&rows, "strip small"))
            (figures(paper, gathered))
            h3 { "Claims" }
            @for row in &rows { (card(row, gathered.is_measured)) }
            (other_plots(paper, gathered))
            (printed_facts(paper, gathered))
        }
    }
}

fn figures(paper: &Paper, gathered: &Gathered) -> Markup {
    let lost: Vec<_> = LOST.iter().filter(|lost| lost.paper == paper.id).collect();
    let drawn = |lost: &&super::figures::Lost| {
        gathered
            .plots
            .iter()
            .filter(|drawn| drawn.plot.figure.as_deref().is_some_and(|figure| is_of(figure, lost)))
            .collect::<Vec<_>>()
    };
    let missing: Vec<String> =
        lost.iter().filter(|lost| drawn(lost).is_empty()).map(|lost| format!("{} ({})", lost.name, lost.showed)).collect();
    html! {
        h3 { "The lost figures, drawn by the model" }
        div.plots { @for lost in &lost { @for drawn in drawn(lost) { (figure(drawn)) } } }
        @if !missing.is_empty() { p.faint { "Not drawn: " (missing.join("; ")) "." } }
    }
}

fn figure(drawn: &Drawn) -> Markup {
    html! {
        figure {
            (PreEscaped(plot::element(&drawn.plot)))
            figcaption {
                @for effort in &drawn.quick { span.quick { "quick run: " (effort) } " " }
                code { "hanare model " (drawn.paper) " " (drawn.experiment) }
                " · " a download=(file_name(drawn)) href={"data:text/csv;charset=utf-8," (percent_encoded(&drawn.plot.to_csv()))} { "data (CSV)" }
            }
        }
    }
}

/// A name for a plot's data, of letters that every system takes.
fn file_name(drawn: &Drawn) -> String {
    let title = drawn.plot.figure.as_deref().unwrap_or(&drawn.plot.title);
    let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter.to_ascii_lowercase() } else { '-' };
    format!("{}-{}.csv", drawn.paper, title.chars().map(plain).collect::<String>())
}

/// Text as the part of a data address.
fn percent_encoded(text: &str) -> String {
    let byte = |byte: u8| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' | b'_' | b',' => char::from(byte).to_string(),
        other => format!("%{other:02X}"),
    };
    text.bytes().map(byte).collect()
}

fn other_plots(paper: &Paper, gathered: &Gathered) -> Markup {
    let is_lost = |figure: &str| LOST.iter().any(|lost| lost.paper == paper.id && is_of(figure, lost));
    let plots: Vec<&Drawn> = gathered
        .plots
        .iter()
        .filter(|drawn| drawn.paper == paper.id && !drawn.plot.figure.as_deref().is_some_and(is_lost))
        .collect();
    html! {
        @if !plots.is_empty() {
            h3 { "What else the model shows" }
            div.plots { @for drawn in plots { (figure(drawn)) } }
        }
    }
}

fn printed_facts(paper: &Paper, gathered: &Gathered) -> Markup {
    let facts = facts();
    let rows: Vec<(&Fact, _)> = gathered
        .produced
        .iter()
        .map(|by| (facts.fact(by.produced.fact), by))
        .filter(|(fact, _)| fact.paper == paper.id)
        .collect();
    html! {
        @if !rows.is_empty() {
            details {
                summary { (rows.len()) " printed numbers beside the model's" }
                div.scroll {
                    table.cards {
                        thead { tr { th { "printed at" } th { "fact" } th { "paper" } th { "model" } th { "" } } }
                        tbody {
                            @for (fact, by) in &rows {
                                tr {
                                    td { (fact.citation()) }
                                    td { (fact.label()) }
                                    td.number data-name="paper" { (value(fact)) }
                                    td.number data-name="model" { (numbers(&by.produced.values)) }
                                    td { (agreement(fact, &by.produced)) }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn numbers(values: &[f64]) -> String {
    values.iter().map(|value| text::number(*value)).collect::<Vec<_>>().join(", ")
}

fn agreement(fact: &Fact, produced: &Produced) -> Markup {
    let (class, word) = match produced.agreement() {
        Agreement::Agrees => ("reproduced", "agrees"),
        Agreement::Differs(_) => ("differs", "differs"),
        Agreement::Shown if fact.suspect => ("nothing", "suspect"),
        Agreement::Shown => ("nothing", "not printed"),
    };
    html! { span class={"badge " (class)} { (word) } @if fact.is_asserted() { " " span.faint { (text::closeness(fact, produced.tolerance)) } } }
}

/// A paper's name by its id.
fn name_of(id: &str) -> &str {
    crate::papers::papers().iter().find(|paper| paper.id == id).map_or(id, |paper| paper.name)
}

fn findings_section(gathered: &Gathered) -> Markup {
    let shown = |key: &String| {
        let produced = gathered.produced.iter().find(|by| by.produced.fact == key);
        match facts().facts.get(key) {
            Some(fact) => (value(fact), produced.map(|by| numbers(&by.produced.values))),
            None => {
                let equation = facts().equation(key);
                (format!("{} = {}", equation.lhs, equation.expr), None)
            }
        }
    };
    html! {
        section id="suspects" {
            h2 { "Suspects" }
            p { "Where a paper contradicts itself, or is damaged. Suspect numbers and equations are shown with both values and never asserted." }
            div.scroll {
                table.cards {
                    thead { tr { th { "paper" } th { "where" } th { "finding" } th { "printed" } th { "against it" } th { "model" } } }
                    tbody {
                        @for finding in findings() {
                            @let values: Vec<_> = finding.keys.iter().map(shown).collect();
                            tr {
                                th { (name_of(&finding.paper)) }
                                td { (finding.place) }
                                td { (finding.text) }
                                td data-name="printed" { @for (printed, _) in &values { (printed) br; } }
                                td data-name="against it" { (finding.against) }
                                td data-name="model" { @for (_, model) in &values { @if let Some(model) = model { (model) br; } } }
                            }
                        }
                    }
                }
            }
        }
    }
}

fn features_section(papers: &[&Paper], marks: &Marks) -> Markup {
    let features = &facts().features;
    let missing = features.iter().filter(|feature| places(marks, &feature.id).is_empty()).count();
    html! {
        section id="features" {
            h2 { "Features" }
            p { "Every mechanism and program of the papers, " (features.len()) " in all, and where it lives here: in the product, in a model, or in the documentation with the reason. "
                @if missing > 0 { (missing) " have no mark yet." } @else { "None is forgotten." } }
            @for paper in papers {
                @let own: Vec<_> = features.iter().filter(|feature| feature.paper == paper.id).collect();
                @let done = own.iter().filter(|feature| !places(marks, &feature.id).is_empty()).count();
                details {
                    summary { (paper.name) ": " (done) " of " (own.len()) }
                    div.scroll {
                        table.cards {
                            thead { tr { th { "id" } th { "feature" } th { "lives in" } th { "marked in" } } }
                            tbody {
                                @for feature in own {
                                    tr {
                                        th { (feature.id) }
                                        td { (feature.text) }
                                        td { (lives_in(marks, &feature.id)) @if let Some(why) = alone().get(&feature.id) { br; span.faint { (why) } } }
                                        td { @for path in marks.get(&feature.id).into_iter().flatten() { code { (path) } br; } }
                                    }
                                }
                            }
                        }
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::gather::gathered_once;

    fn made() -> Made {
        Made { date: "2026-01-31".to_string(), version: "0.1.0".to_string(), commit: "abc1234".to_string() }
    }

    #[test]
    fn the_page_is_whole_and_refers_to_nothing_outside() {
        let page = page(gathered_once(), &made());
        assert_eq!(page.matches("<article").count(), 86);
        for outside in ["http:", "https:", "src=", "@import", "url(", "<link"] {
            assert!(!page.contains(outside), "the page contains {outside}");
        }
        for part in ["2026-01-31", "abc1234", "would have refuted it", "Tanabe", "id=\"search\"", "data:text/csv"] {
            assert!(page.contains(part), "{part} is missing");
        }
        assert!(!page.contains("NaN") && !page.contains("about about"), "a number is missing or a word doubled");
        assert_eq!(page, super::page(gathered_once(), &made()));
    }

    #[test]
    fn cells_hold_no_keys_of_facts() {
        let page = page(gathered_once(), &made());
        for fact in facts().facts.values().filter(|fact| !fact.key.starts_with("d3.public")) {
            let shown = [format!(">{}<", fact.key), format!("{}: ", fact.key)];
            assert!(shown.iter().all(|shown| !page.contains(shown)), "{} stands on the page", fact.key);
        }
    }

    #[test]
    fn measurements_stand_beside_the_model() {
        let row = gathered_once().rows.iter().find(|row| row.claim.id == "D2-C10").unwrap();
        let measured = Some(crate::report::Measured { value: "1.91x on 2 nodes".to_string(), verdict: Verdict::Differs });
        let with = card(&Row { measured, ..row.clone() }, true).into_string();
        assert!(
            with.contains("1.91x on 2 nodes") && with.contains("badge construction") && with.contains("badge differs"),
            "{with}"
        );
        assert!(!card(row, false).into_string().contains("1.91x"));
    }

    #[test]
    fn data_are_encoded_for_an_address() {
        assert_eq!(percent_encoded("a \"b\"\n1,2"), "a%20%22b%22%0A1,2");
    }
}
