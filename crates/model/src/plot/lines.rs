//! Lines over a numeric axis, with a point of its own shape for each series.
use std::fmt::Write;

use super::axis::Scale;
use super::{COLOUR_COUNT, LEFT, RIGHT, WIDTH, label, text};
use crate::outcome::Plot;

/// Points are drawn only where they do not become a band.
const POINTS_MOST: usize = 24;

pub(super) fn draw(out: &mut String, plot: &Plot, y: &Scale, (top, bottom): (f64, f64)) {
    let values: Vec<f64> = plot.lines.iter().flat_map(|line| line.points.iter().map(|point| point.0)).collect();
    let x = Scale::new(&plot.x, &values, LEFT + 6.0, WIDTH - RIGHT - 6.0, false);
    for (value, name) in x.ticks() {
        let at = x.place(value);
        writeln!(out, "<line class=\"grid\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{top:.1}\" y2=\"{bottom:.1}\"/>")
            .expect("a String takes every write");
        text(out, at, bottom + 16.0, "middle", "faint", &name);
    }
    writeln!(out, "<line class=\"axis\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{bottom:.1}\" y2=\"{bottom:.1}\"/>", WIDTH - RIGHT)
        .expect("a String takes every write");
    text(out, (LEFT + WIDTH - RIGHT) / 2.0, bottom + 33.0, "middle", "faint", &label(&plot.x.label, &plot.x.unit));
    for (index, line) in plot.lines.iter().enumerate() {
        let points: Vec<(f64, f64)> = line
            .points
            .iter()
            .filter(|point| x.shows(point.0) && y.shows(point.1))
            .map(|point| (x.place(point.0), y.place(point.1)))
            .collect();
        let path: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let colour = index % COLOUR_COUNT;
        writeln!(out, "<polyline class=\"k{colour}\"{} points=\"{}\"/>", dash(index), path.join(" "))
            .expect("a String takes every write");
        if points.len() <= POINTS_MOST {
            points.iter().for_each(|(x, y)| mark(out, index, *x, *y));
        }
    }
}

/// Every second series is dashed and thin on a broad one, so that lines which lie on each other are both seen.
pub(super) fn dash(index: usize) -> &'static str {
    if index % 2 == 1 { " stroke-dasharray=\"6 5\" style=\"stroke-width:1.7\"" } else { "" }
}

/// The point of a series: circle, square, diamond, triangle.
pub(super) fn mark(out: &mut String, index: usize, x: f64, y: f64) {
    let colour = index % COLOUR_COUNT;
    let drawn = match index % 4 {
        0 => write!(out, "<circle class=\"f{colour}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3.2\"/>"),
        1 => write!(out, "<rect class=\"f{colour}\" x=\"{:.1}\" y=\"{:.1}\" width=\"6\" height=\"6\"/>", x - 3.0, y - 3.0),
        2 => write!(out, "<path class=\"f{colour}\" d=\"M{x:.1} {:.1}l4.2 4.2l-4.2 4.2l-4.2 -4.2z\"/>", y - 4.2),
        _ => write!(out, "<path class=\"f{colour}\" d=\"M{x:.1} {:.1}l4 7l-8 0z\"/>", y - 4.4),
    };
    drawn.expect("a String takes every write");
}
