//! Spans in named rows over a time axis.
use std::fmt::Write;

use super::axis::Scale;
use super::{AXIS, COLOUR_COUNT, RIGHT, WIDTH, label, text};
use crate::outcome::Plot;

/// Room for the rows' names, and how many letters fit it.
const NAMES: f64 = 190.0;
const NAME_LEN: usize = 27;
const ROW: f64 = 18.0;
const THICK: f64 = 12.0;

/// Draws rows and axis from `top` down; returns where they end.
pub(super) fn draw(out: &mut String, plot: &Plot, top: f64) -> f64 {
    let times: Vec<f64> = plot.lines.iter().flat_map(|line| line.points.iter().map(|point| point.0)).collect();
    let x = Scale::new(&plot.x, &times, NAMES, WIDTH - RIGHT - 6.0, false);
    let bottom = top + ROW * plot.groups.len() as f64 + 4.0;
    for (value, name) in x.ticks() {
        let at = x.place(value);
        writeln!(out, "<line class=\"grid\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{top:.1}\" y2=\"{bottom:.1}\"/>")
            .expect("a String takes every write");
        text(out, at, bottom + 16.0, "middle", "faint", &name);
    }
    text(out, (NAMES + WIDTH - RIGHT) / 2.0, bottom + 33.0, "middle", "faint", &label(&plot.x.label, &plot.x.unit));
    for (row, name) in plot.groups.iter().enumerate() {
        text(out, NAMES - 8.0, top + ROW * row as f64 + 13.0, "end", "faint", &shortened(name));
    }
    for (index, line) in plot.lines.iter().enumerate() {
        for span in line.points.chunks_exact(2) {
            let (start, end) = (x.place(span[0].0), x.place(span[1].0));
            let y = top + ROW * span[0].1 + (ROW - THICK) / 2.0;
            // A span too short to see still gets a line's width.
            let width = (end - start).max(1.5);
            let colour = index % COLOUR_COUNT;
            writeln!(
                out,
                "<rect class=\"bar f{colour}\" x=\"{start:.1}\" y=\"{y:.1}\" width=\"{width:.1}\" height=\"{THICK}\"/>"
            )
            .expect("a String takes every write");
        }
    }
    bottom + AXIS
}

fn shortened(name: &str) -> String {
    if name.chars().count() <= NAME_LEN {
        return name.to_string();
    }
    name.chars().take(NAME_LEN - 1).chain(['…']).collect()
}
