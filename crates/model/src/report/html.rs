//! The report as one HTML page that refers to nothing outside itself.
use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::claim::Verdict;
use crate::experiment::Paper;
use crate::facts::{Agreement, Fact, facts};
use crate::outcome::Produced;
use crate::plot;
use crate::text;

use super::features::{Marks, lives_in, places, recorded};
use super::figures::{LOST, is_of};
use super::findings::findings;
use super::gather::{Drawn, Gathered, Row, value};
use super::style;

/// The whole page.
pub(super) fn page(gathered: &Gathered) -> String {
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
                (head(gathered))
                (navigation(gathered))
                main {
                    @for paper in gathered.papers { (paper_section(paper, gathered)) }
                    (findings_section(gathered))
                    (features_section(gathered.papers, &marks))
                }
                footer {
                    p { "Written by " code { "hanare report" } ". Each number comes from a model that can be run alone: "
                        code { "hanare model PAPER EXPERIMENT" } " prints its tables and every parameter with its source; "
                        code { "--set" } " and " code { "--sweep" } " change them. Same parameters, same page." }
                }
            }
        }
    }
    .into_string()
}

fn head(gathered: &Gathered) -> Markup {
    html! {
        header {
            h1 { "Five papers and their models" }
            p.lead {
                "Five papers describe hardware and software for memory besides main memory. They make " (gathered.rows.len())
                " claims. For each, this page holds the paper's value beside the value of a timing model, says what came of it and why."
            }
            p {
                "“Reproduced” means: by a model calibrated on " em { "other" } " facts than the claim states. A verdict that rests on a fit to its own claim is refused, "
                "and then there is no page. An honest “differs” is a result."
            }
            @if !gathered.is_measured {
                p.faint { "No measurements of this machine are in this page; " code { "hanare report --measure" } " adds them." }
            }
            (tally(gathered))
        }
    }
}

fn tally(gathered: &Gathered) -> Markup {
    let meaning = |verdict| match verdict {
        Verdict::Reproduced => "by other facts",
        Verdict::Differs => "the reason is given",
        Verdict::HardwareOnly => "needs the boards",
        Verdict::NotTried => "the reason is given",
    };
    html! {
        ul.tally {
            @for verdict in Verdict::ALL {
                li class=(class(verdict)) { b { (count(&gathered.rows, verdict)) } (verdict.name()) br; small { (meaning(verdict)) } }
            }
        }
        (strip(&gathered.rows, "strip"))
        @for verdict in [Verdict::Differs, Verdict::HardwareOnly, Verdict::NotTried] { (links(&gathered.rows, verdict)) }
    }
}

/// The claims of a verdict by name, so that a reader finds what needs explaining.
fn links(rows: &[Row], verdict: Verdict) -> Markup {
    html! {
        @if count(rows, verdict) > 0 {
            p.faint { (verdict.name()) ": " @for row in rows.iter().filter(|row| row.verdict == verdict) { a href={"#" (row.claim.id)} { (row.claim.id) } " " } }
        }
    }
}

fn count(rows: &[Row], verdict: Verdict) -> usize {
    rows.iter().filter(|row| row.verdict == verdict).count()
}

fn class(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Reproduced => "reproduced",
        Verdict::Differs => "differs",
        Verdict::HardwareOnly => "hardware",
        Verdict::NotTried => "not-tried",
    }
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

fn navigation(gathered: &Gathered) -> Markup {
    html! {
        nav aria-label="Sections" {
            ul {
                @for paper in gathered.papers { li { a href={"#" (paper.id)} { (paper.id) } } }
                li { a href="#suspects" { "suspects" } }
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
            p.faint { code { (paper.id) } @if !paper.summary.is_empty() { ". " (paper.summary) } }
            p.faint { (rows.len()) " claims: " (spoken.join(", ")) "." }
            (strip(&rows, "strip small"))
            (figures(paper, gathered))
            h3 { "Claims" }
            @for row in &rows { (claim(row, gathered.is_measured)) }
            (other_plots(paper, gathered))
            (printed_facts(paper, gathered))
        }
    }
}

fn claim(row: &Row, is_measured: bool) -> Markup {
    let (place, text) = split_place(&row.claim.text);
    html! {
        article.claim id=(row.claim.id) {
            div.head {
                h4 { (row.claim.id) }
                span class={"badge " (class(row.verdict))} { (row.verdict.name()) }
            }
            div {
                p.text { (emphasised(text)) " " @if !place.is_empty() { span.faint { "(" (place) ")" } } }
                p.reason { (row.reason) }
                (calibration(row))
            }
            dl {
                @if !row.paper.is_empty() { dt { "paper" } dd { (row.paper) } }
                dt { "model" } dd { @if row.model.is_empty() { span.faint { "none" } } @else { (row.model) } }
                @if is_measured {
                    dt { "here" }
                    dd { @match &row.measured {
                        Some(measured) => { (measured.value) " " span class={"badge " (class(measured.verdict))} { (measured.verdict.name()) } }
                        None => span.faint { "no bench measures it" }
                    } }
                }
            }
        }
    }
}

/// The claim's `[section]` and its words.
fn split_place(text: &str) -> (&str, &str) {
    match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((place, words)) => (place, words.trim_start()),
        None => ("", text),
    }
}

/// Words between asterisks stand out, as in the papers' specification.
fn emphasised(text: &str) -> Markup {
    html! { @for (index, part) in text.split('*').enumerate() { @if index % 2 == 1 { em { (part) } } @else { (part) } } }
}

fn calibration(row: &Row) -> Markup {
    let command = if row.experiment.is_empty() { String::new() } else { format!("hanare model {}", row.experiment) };
    html! {
        @if !row.experiment.is_empty() {
            details {
                summary {
                    @match row.calibrated_on.len() { 0 => "uses no fact of the papers", 1 => "calibrated on 1 fact", count => { "calibrated on " (count) " facts" } }
                }
                ul {
                    @for fact in &row.calibrated_on { li { code { (fact.key) } ": " (value(fact)) " " span.faint { (fact.citation()) @if fact.suspect { ", suspect" } } } }
                }
                p { "Run it: " code { (command) } }
            }
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
            figcaption { code { "hanare model " (drawn.paper) " " (drawn.experiment) } }
        }
    }
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
                                    td.key { code { (fact.key) } }
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
        Agreement::Shown if fact.suspect => ("not-tried", "suspect"),
        Agreement::Shown => ("not-tried", "not printed"),
    };
    html! { span class={"badge " (class)} { (word) } @if fact.is_asserted() { " " span.faint { (text::closeness(fact, produced.tolerance)) } } }
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
                                th { (finding.paper) }
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
                    summary { (paper.id) ": " (done) " of " (own.len()) }
                    div.scroll {
                        table.cards {
                            thead { tr { th { "id" } th { "feature" } th { "lives in" } th { "marked in" } } }
                            tbody {
                                @for feature in own {
                                    tr {
                                        th { (feature.id) }
                                        td { (feature.text) }
                                        td { (lives_in(marks, &feature.id)) }
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
    use crate::report::Measured;
    use crate::report::gather::gathered_once;

    #[test]
    fn the_page_is_whole_and_refers_to_nothing_outside() {
        let page = page(gathered_once());
        assert_eq!(page.matches("<article").count(), 86);
        for outside in ["http:", "https:", "src=", "@import", "url(", "<script", "<link"] {
            assert!(!page.contains(outside), "the page contains {outside}");
        }
        assert!(!page.contains("NaN"), "a number is missing");
        assert_eq!(page, super::page(gathered_once()));
    }

    #[test]
    fn measurements_stand_beside_the_model() {
        let claim = facts().claim("D2-C10").unwrap();
        let measured = Some(Measured { value: "1.91x on 2 nodes".to_string(), verdict: Verdict::Differs });
        let row = Row { measured, ..gathered_once().rows.iter().find(|row| row.claim.id == claim.id).unwrap().clone() };
        let with = super::claim(&row, true).into_string();
        assert!(
            with.contains("1.91x on 2 nodes") && with.contains("badge reproduced") && with.contains("badge differs"),
            "{with}"
        );
        assert!(!super::claim(&row, false).into_string().contains("1.91x"));
    }

    #[test]
    fn a_claim_is_split_from_its_place() {
        assert_eq!(split_place("[§6.1, fig 5] It grows."), ("§6.1, fig 5", "It grows."));
        assert_eq!(split_place("It grows."), ("", "It grows."));
    }
}
