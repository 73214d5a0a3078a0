//! One claim on the page: what the paper says, what the model gives, and what could have come out otherwise.
use maud::{Markup, PreEscaped, html};

use super::gather::{Row, value};
use super::html::{badge, class};
use crate::claim::ClaimResult;
use crate::claim::record::{Record, Share};
use crate::facts::facts;
use crate::text;

pub(super) fn card(row: &Row, is_measured: bool) -> Markup {
    let (place, words) = split_place(&row.claim.text);
    html! {
        article.claim id=(row.claim.id) data-verdict=(class(row.verdict)) {
            div.head {
                h4 { a href={"#" (row.claim.id)} { (row.claim.id) } }
                (badge(row.verdict))
            }
            div {
                p.text { (emphasised(words)) " " @if !place.is_empty() { span.faint { "(" (place) ", translated)" } } }
                @if let Some(result) = &row.result { (judged(row, result)) }
            }
            dl {
                @if !row.paper.is_empty() { dt { "paper" } dd { (row.paper) } }
                @if let Some(result) = &row.result {
                    dt { "model" } dd { @if result.model.is_empty() { span.faint { "none" } } @else { (result.model) } }
                }
                @if is_measured {
                    dt { "here" }
                    dd { @match &row.measured {
                        Some(measured) => { (measured.value) " " (badge(measured.verdict)) }
                        None => span.faint { "no bench measures it" }
                    } }
                }
                @if let Some(record) = row.sensitivity { (sensitivity(record)) }
                @if let Some(result) = &row.result { (quick(result)) }
            }
        }
    }
}

fn judged(row: &Row, result: &ClaimResult) -> Markup {
    html! {
        p.reason { (result.reason) }
        @if let Some(finding) = &result.finding { p.finding { strong { "Found: " } (finding) } }
        @if !result.checks.is_empty() { (checks(result)) }
        @if let (Some(fit), Some(plain)) = (result.fit, &result.on_defaults) {
            p.reason { "Judged with " (fit) ". With the one set of defaults for the whole paper: " (plain.model) " (" @if plain.holds { "holds" } @else { "fails" } ")." }
        }
        @if let Some(record) = row.sensitivity { (tornado(record, result)) }
        (inputs(row, result))
    }
}

fn checks(result: &ClaimResult) -> Markup {
    html! {
        div.scroll.checks {
            table.cards {
                thead { tr { th { "judged on" } th { "model" } th { "demanded" } th { "would have refuted it" } } }
                tbody {
                    @for check in &result.checks {
                        tr {
                            td { (check.what) }
                            td.number data-name="model" { (check.shown()) " " @if check.holds() { span.reproduced { "✓" } } @else { span.differs { "✗" } } }
                            td.number data-name="demanded" { (check.demand()) }
                            td.faint data-name="refuted by" { (check.refutation()) }
                        }
                    }
                }
            }
        }
    }
}

/// The efforts of which the claim read less than the whole.
fn quick(result: &ClaimResult) -> Markup {
    html! {
        @for used in &result.parameters {
            @if let Some(whole) = &used.whole { dt { "run" } dd { span.quick { "quick" } " " code { (used.key) } " = " (used.value) ", whole: " (whole) } }
        }
    }
}

/// In how much of both boxes the claim comes out as at the defaults.
fn sensitivity(record: &Record) -> Markup {
    html! {
        dt title="each chosen number from half to twice its value" { "two-fold box" }
        dd { (share(record.box2, "no chosen number takes part")) }
        dt title="from a tenth to ten times, structural switches drawn too" { "ten-fold box" }
        dd {
            (share(record.box10, "nothing that is open takes part"))
            @if !record.constant.is_empty() && !record.is_constant() {
                span.faint { (record.constant.len()) " of " (record.values.len()) " conditions hold in all of it" }
            }
        }
    }
}

fn share(share: Share, none: &str) -> Markup {
    let Share { points, held } = share;
    let percent = (100.0 * held as f64 / points.max(1) as f64).round();
    let (is_low, is_all) = (2 * held < points, held == points);
    html! {
        @if points == 0 { span.faint { (none) } } @else {
            span.low-share[is_low] { @if is_low { "only " } "the same in " (text::number(percent)) " % of " (points) " points" }
            span.meter.low[is_low].all[is_all] role="img" aria-label={(percent) " %"} { span style={"width:" (percent) "%"} {} }
        }
    }
}

/// Width of the tornado's bars, and of the names beside them, which read at the width of a telephone.
const WIDE: f64 = 210.0;
const LABEL: f64 = 160.0;
const ROW: f64 = 17.0;

/// The five parameters that move the deciding value most, at half and at twice their value.
fn tornado(record: &Record, result: &ClaimResult) -> Markup {
    if record.bars.is_empty() {
        return html! {};
    }
    let bars = record.bars.iter().flat_map(|bar| [bar.low, bar.high]);
    let values = bars.chain(record.band.into_iter().flatten()).chain([record.value]);
    let (least, most) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
    let place = |value: f64| LABEL + WIDE * (value - least) / (most - least).max(1e-300);
    let height = ROW * record.bars.len() as f64 + 22.0;
    let centre = place(record.value);
    let mut drawing = String::new();
    if let Some([low, high]) = record.band {
        let (from, to) = (place(low.clamp(least, most)), place(high.clamp(least, most)));
        drawing += &format!(
            "<rect class=\"band\" x=\"{from:.1}\" y=\"0\" width=\"{:.1}\" height=\"{:.1}\"/>",
            (to - from).max(1.0),
            height - 20.0
        );
    }
    for (index, bar) in record.bars.iter().enumerate() {
        let top = ROW * index as f64 + 4.0;
        let mut half = |value: f64, colour: &str| {
            let at = place(value);
            drawing += &format!(
                "<rect class=\"{colour}\" x=\"{:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{:.1}\"/>",
                at.min(centre),
                (at - centre).abs().max(0.5),
                ROW - 5.0
            );
        };
        half(bar.low, "f0");
        half(bar.high, "f1");
        let baseline = top + ROW - 8.0;
        drawing += &format!("<text x=\"{:.1}\" y=\"{baseline:.1}\" text-anchor=\"end\">{}</text>", LABEL - 6.0, bar.key);
    }
    let bottom = height - 20.0;
    drawing += &format!("<line class=\"axis\" x1=\"{centre:.1}\" x2=\"{centre:.1}\" y1=\"0\" y2=\"{bottom:.1}\"/>");
    for (value, anchor) in [(least, "start"), (most, "end")] {
        let at = place(value);
        drawing += &format!(
            "<text class=\"faint\" x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"{anchor}\">{}</text>",
            height - 6.0,
            text::number(value)
        );
    }
    let size = LABEL + WIDE + 8.0;
    let decides = result.checks.iter().find(|check| check.what == record.what);
    html! {
        details.tornado {
            summary { "what moves it most" }
            p.faint {
                (record.what) ": " (text::number(record.value)) " " (record.unit)
                @if let Some(check) = decides { " (demanded: " (check.demand()) ")" }
                ". Each chosen parameter at half (blue) and at twice (orange) its value."
                @if let Some([low, high]) = record.band { " Band: eight tenths of the two-fold box, " (text::number(low)) " to " (text::number(high)) "." }
                @if record.flips.is_empty() { " No single step flips the verdict." } @else { " One step flips it: " (record.flips.join("; ")) "." }
            }
            (PreEscaped(format!("<svg class=\"plot\" viewBox=\"0 0 {size:.0} {height:.0}\" role=\"img\" aria-label=\"tornado\">{drawing}</svg>")))
        }
    }
}

/// What the judgement read: seen, not typed.
fn inputs(row: &Row, result: &ClaimResult) -> Markup {
    let chosen = result.parameters.iter().filter(|used| used.is_chosen).count();
    html! {
        details {
            summary { "read " (result.calibrated_on.len()) " facts and " (result.parameters.len()) " parameters, " (chosen) " of them chosen" }
            ul {
                @for key in &result.calibrated_on {
                    @let fact = facts().fact(key);
                    li {
                        (fact.label()) ": " (value(fact)) " " span.faint { (fact.citation()) @if fact.suspect { ", suspect" } }
                        @if result.own.iter().any(|own| own == key) { strong { " the claim's own" } }
                    }
                }
            }
            ul {
                @for used in result.parameters.iter().filter(|used| used.is_chosen) {
                    li { code { (used.key) } " = " (used.value) " " @if used.unit != "choice" { (used.unit) } " " span.faint { (used.source) } }
                }
            }
            @if let Some(sentence) = result.joint.sentence() { p.faint { (sentence) } }
            @for choice in record_choices(row) { p.faint { (choice) } }
            @if !row.experiment.is_empty() { p { "Run it: " code { "hanare model " (row.experiment) } } }
        }
    }
}

/// How the structural switches came out in the ten-fold box.
fn record_choices(row: &Row) -> Vec<String> {
    let choices = row.sensitivity.map(|record| record.choices.as_slice()).unwrap_or_default();
    let line = |choice: &crate::claim::record::Choice| {
        format!("{}: holds in {} of {} points of the ten-fold box", choice.name, choice.holds, choice.points)
    };
    choices.iter().map(line).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_is_split_from_its_place() {
        assert_eq!(split_place("[§6.1, fig 5] It grows."), ("§6.1, fig 5", "It grows."));
        assert_eq!(split_place("It grows."), ("", "It grows."));
    }
}
