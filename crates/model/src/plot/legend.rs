//! The names of the series below the drawing, in as many rows as they need.
use std::fmt::Write;

use super::{COLOUR_COUNT, LEFT, RIGHT, WIDTH, lines, text};
use crate::outcome::Plot;

const ROW: f64 = 18.0;
/// Swatch and the gap to its name.
const SWATCH: f64 = 28.0;
/// Width of a small and of a capital letter at the legend's size, a little generous.
const LETTER: f64 = 6.5;
const CAPITAL: f64 = 8.6;
const GAP: f64 = 16.0;

/// Draws the legend below `top` and returns its height; one bare series needs none.
pub(super) fn draw(out: &mut String, plot: &Plot, top: f64) -> f64 {
    if plot.lines.len() < 2 {
        return 0.0;
    }
    let start = LEFT - 44.0;
    let (mut x, mut y) = (start, top + 14.0);
    for (index, line) in plot.lines.iter().enumerate() {
        let wide = SWATCH + width(&line.name);
        if x > start && x + wide > WIDTH - RIGHT {
            (x, y) = (start, y + ROW);
        }
        swatch(out, plot, index, x, y - 4.0);
        text(out, x + SWATCH, y, "start", "", &line.name);
        x += wide + GAP;
    }
    y - top + 6.0
}

fn width(name: &str) -> f64 {
    name.chars().map(|letter| if letter.is_uppercase() || letter == '+' { CAPITAL } else { LETTER }).sum()
}

fn swatch(out: &mut String, plot: &Plot, index: usize, x: f64, y: f64) {
    let colour = index % COLOUR_COUNT;
    if plot.groups.is_empty() {
        let dash = lines::dash(index);
        writeln!(out, "<polyline class=\"k{colour}\"{dash} points=\"{x:.1},{y:.1} {:.1},{y:.1}\"/>", x + 22.0)
            .expect("a String takes every write");
        lines::mark(out, index, x + 11.0, y);
    } else {
        writeln!(out, "<rect class=\"f{colour}\" x=\"{:.1}\" y=\"{:.1}\" width=\"14\" height=\"10\"/>", x + 6.0, y - 5.0)
            .expect("a String takes every write");
    }
}
