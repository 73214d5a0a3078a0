//! Bars over named groups, side by side or on each other.
use std::fmt::Write;

use super::axis::Scale;
use super::{COLOUR_COUNT, LEFT, RIGHT, WIDTH, text};
use crate::outcome::Plot;

/// Values stand over the bars where there is room for them.
const NAMED_BARS_MOST: usize = 12;
/// Height of a line of a group's name.
const NAME_LINE: f64 = 14.0;
/// Width of a letter, roughly.
const LETTER: f64 = 6.2;
/// Width of a letter of the small values that narrow bars have.
const SMALL_LETTER: f64 = 6.0;
/// Height of a value.
const VALUE_LINE: f64 = 11.0;

/// Draws the bars and returns the height of the groups' names.
pub(super) fn draw(out: &mut String, plot: &Plot, y: &Scale, bottom: f64) -> f64 {
    let wide = (WIDTH - RIGHT - LEFT) / plot.groups.len() as f64;
    let mut most_lines = 1;
    // Behind all bars of all groups: a wide name of a low bar lies on its neighbours.
    let mut names = String::new();
    for (group, name) in plot.groups.iter().enumerate() {
        let left = LEFT + wide * group as f64;
        let values: Vec<Option<f64>> = plot.lines.iter().map(|line| value(line, group)).collect();
        if plot.is_stacked {
            stacked(out, &values, y, left, wide)
        } else {
            side_by_side(out, &mut names, plot, &values, y, left, wide)
        }
        let lines = broken(name, (wide / LETTER) as usize);
        let is_wide = lines.iter().any(|line| line.chars().count() as f64 * LETTER > wide);
        let class = if is_wide { "faint small" } else { "faint" };
        for (index, line) in lines.iter().enumerate() {
            text(out, left + wide / 2.0, bottom + 16.0 + NAME_LINE * index as f64, "middle", class, line);
        }
        most_lines = most_lines.max(lines.len());
    }
    out.push_str(&names);
    let base = y.base();
    writeln!(out, "<line class=\"axis\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{base:.1}\" y2=\"{base:.1}\"/>", WIDTH - RIGHT)
        .expect("a String takes every write");
    12.0 + NAME_LINE * most_lines as f64
}

/// The bar of a line in a group; none where the line has no point there.
fn value(line: &crate::outcome::Line, group: usize) -> Option<f64> {
    line.points.iter().find(|point| point.0 == group as f64).map(|point| point.1)
}

/// Bars of a group beside each other, and their values, which the caller draws last.
fn side_by_side(out: &mut String, names: &mut String, plot: &Plot, values: &[Option<f64>], y: &Scale, left: f64, wide: f64) {
    let margin = wide * 0.12;
    let one = (wide - 2.0 * margin) / values.len() as f64;
    let is_named = values.len() * plot.groups.len() <= NAMED_BARS_MOST;
    // A value wider than its bar lies on the neighbours, or under them.
    let is_small = widest(plot) as f64 * LETTER > one;
    let (class, letter) = if is_small { ("faint value small", SMALL_LETTER) } else { ("faint value", LETTER) };
    // Right end and height of the value before: a wide one beside it stands a line higher.
    let mut before = (f64::NEG_INFINITY, 0.0);
    for (index, value) in values.iter().enumerate().filter_map(|(index, value)| Some((index, (*value)?))) {
        let x = left + margin + one * index as f64;
        bar(out, index, x, one - 2.0, y.place(value), y.base());
        if is_named {
            let name = value_name(value);
            let (centre, half) = (x + one / 2.0 - 1.0, name.chars().count() as f64 * letter / 2.0);
            let mut height = y.place(value).min(y.base()) - 4.0;
            if centre - half < before.0 && (height - before.1).abs() < VALUE_LINE {
                height = before.1 - VALUE_LINE;
            }
            before = (centre + half, height);
            text(names, centre, height, "middle", class, &name);
        }
    }
}

/// Letters of the plot's longest value.
fn widest(plot: &Plot) -> usize {
    let values = plot.lines.iter().flat_map(|line| &line.points).map(|point| value_name(point.1).chars().count());
    values.max().unwrap_or(0)
}

fn value_name(value: f64) -> String {
    crate::text::number(round3(value))
}

/// Three significant digits, which fit over a bar.
fn round3(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let scale = 10_f64.powf(2.0 - value.abs().log10().floor());
    (value * scale).round() / scale
}

fn stacked(out: &mut String, values: &[Option<f64>], y: &Scale, left: f64, wide: f64) {
    let mut sum = 0.0;
    for (index, value) in values.iter().enumerate().filter_map(|(index, value)| Some((index, (*value)?))) {
        let (from, to) = (y.place(sum), y.place(sum + value));
        let from = if sum == 0.0 { y.base() } else { from };
        bar(out, index, left + wide * 0.2, wide * 0.6, to, from);
        sum += value;
    }
}

fn bar(out: &mut String, index: usize, x: f64, width: f64, to: f64, base: f64) {
    let (colour, top, height) = (index % COLOUR_COUNT, to.min(base), (to - base).abs());
    writeln!(
        out,
        "<rect class=\"bar f{colour}\" x=\"{x:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{height:.1}\"/>",
        width.max(1.0)
    )
    .expect("a String takes every write");
}

/// A name broken into lines of about `most` letters, at spaces, and behind hyphens where a word is longer than a line.
fn broken(name: &str, most: usize) -> Vec<String> {
    let most = most.max(4);
    let mut lines: Vec<String> = Vec::new();
    for word in crate::text::wrapped(name, "", most).lines() {
        let mut line = String::new();
        for part in word.split_inclusive('-') {
            if !line.is_empty() && line.chars().count() + part.chars().count() > most {
                lines.push(std::mem::take(&mut line));
            }
            line.push_str(part);
        }
        lines.push(line);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Axis;

    #[test]
    fn a_name_wider_than_its_group_has_small_letters() {
        let names = ["ddr2-dimm-unbuffered", "ddr2", "crs", "fb-dimm", "pcie-4x", "pcie-8x", "pcie-16x"];
        let mut plot = Plot::bars("boards", &names, Axis::new("rate", "GB/s"));
        plot.bar("one", &[1.0; 7]);
        let drawn = super::super::element(&plot);
        assert_eq!(drawn.matches("\"faint small\"").count(), 3, "{drawn}");
    }

    #[test]
    fn a_long_word_is_broken_behind_its_hyphens() {
        assert_eq!(broken("ddr2-dimm-unbuffered", 10), ["ddr2-dimm-", "unbuffered"]);
        assert_eq!(broken("one node fb-dimm", 8), ["one node", "fb-dimm"]);
    }

    /// The distance of VQ from VR: values of about nothing, each wider than its bar.
    #[test]
    fn wide_values_of_equal_bars_stand_above_each_other() {
        let mut plot = Plot::bars("distance", &["1", "2", "3", "4", "5", "6"], Axis::new("time", "us"));
        plot.bar("one", &[0.0194, 9.0, 9.0, 9.0, 9.0, 9.0]);
        plot.bar("two", &[0.00969, 9.0, 9.0, 9.0, 9.0, 9.0]);
        let drawn = super::super::element(&plot);
        let height = |value: &str| -> f64 {
            let line = drawn.lines().find(|line| line.contains(&format!(">{value}<"))).unwrap();
            line.split(" y=\"").nth(1).unwrap().split('"').next().unwrap().parse().unwrap()
        };
        assert!(height("0.0194") - height("0.00969") >= 10.0, "{drawn}");
    }

    /// Figure 5 of DIMMnet-3: four groups of three bars, low ones between high ones.
    #[test]
    fn values_of_narrow_bars_fit_between_their_neighbours() {
        let mut plot = Plot::bars("halo", &["1", "2", "3", "4"], Axis::new("time", "us"));
        for values in [[4750.0; 4], [1.07, 17.1, 17.1, 1.07], [1150.0, 369.0, 369.0, 369.0]] {
            plot.bar("part", &values);
        }
        let slot = (WIDTH - RIGHT - LEFT) / 4.0 * 0.76 / 3.0;
        assert!(widest(&plot) as f64 * LETTER > slot && widest(&plot) as f64 * SMALL_LETTER < slot + 1.0, "{slot}");
        assert_eq!(super::super::element(&plot).matches("value small").count(), 12);
        plot.lines.truncate(1);
        assert!(!super::super::element(&plot).contains("value small"), "one bar a group is wide");
    }
}
