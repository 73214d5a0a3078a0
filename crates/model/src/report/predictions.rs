//! What `hanare what-if` predicted, beside what was measured.
use maud::{Markup, html};

use crate::text;
use crate::what_if::calibrate::Comparison;
use crate::what_if::kept::KeptComparisons;

/// Whether there is anything to show.
pub(super) fn are_kept() -> bool {
    !KeptComparisons::built_in().comparison.is_empty()
}

/// The section; nothing where no comparison was kept.
pub(super) fn section() -> Markup {
    let kept = KeptComparisons::built_in();
    html! {
        @if !kept.comparison.is_empty() {
            section id="predictions" {
                h2 { "Predictions" }
                p { code { "hanare what-if" } " predicts what a program would take on another network. Its costs are fitted to some rows of a "
                    "measurement on one host; these comparisons were measured over networks that lay between nodes of that host "
                    "(" code { "scripts/what-if.sh" } "). The errors are those of the rows held out alone; rows whose patterns were fitted are marked and "
                    "count for nothing. Asked are at most 15 % (median) and 30 % (90th percentile), and the right order of any two "
                    "rows held out whose times differ by more than a fifth." }
                @for comparison in &kept.comparison { (table_of(comparison)) }
            }
        }
    }
}

fn table_of(comparison: &Comparison) -> Markup {
    let (median, most) = comparison.errors().unwrap_or((f64::NAN, f64::NAN));
    let us = |ns: f64| text::number(ns / 1e3);
    html! {
        details {
            summary { "Over " (comparison.network) ": " (comparison.held_out().count()) " rows held out are off by "
                (format!("{:.1} % and {:.1} %", median * 100.0, most * 100.0))
                @if comparison.holds() { ", holds" } @else { ", does not hold" } }
            p.faint { "Costs measured on " (comparison.measured) "." }
            @for (fast, slow) in comparison.misordered() { p { code { (fast) } " was faster than " code { (slow) } " and is predicted slower." } }
            div.scroll {
                table.cards {
                    thead { tr { th { "one operation" } th { "measured, us" } th { "predicted, us" } th { "off by" } th {} } }
                    tbody {
                        @for point in &comparison.points {
                            tr {
                                th { (point.pattern) }
                                td data-name="measured, us" { (us(point.measured)) }
                                td data-name="predicted, us" { (us(point.predicted)) }
                                td data-name="off by" { (format!("{:+.1} %", point.residual() * 100.0)) }
                                td data-name="" { (if point.is_fitted { "fitted" } else { "held out" }) }
                            }
                        }
                    }
                }
            }
        }
    }
}
