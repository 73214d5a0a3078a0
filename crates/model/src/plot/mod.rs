//! Plots as SVG, drawn by hand: colours come from style variables, so that one drawing fits a light and a dark page.
//!
//! A drawing library would fix colours and bring fonts; a few hundred lines give axes, lines, bars and a legend that stay
//! readable at the width of a telephone.
use std::fmt::Write;

use crate::outcome::Plot;

mod axis;
mod bars;
mod legend;
mod lines;
mod timeline;

use axis::Scale;

/// Width of a drawing in its own units; letters are 12 to 13 of them high, so it reads at 380 pixels and at 700.
const WIDTH: f64 = 440.0;
const LEFT: f64 = 52.0;
const RIGHT: f64 = 14.0;
/// The y axis' name and the gap above the drawing, below the title.
const TOP: f64 = 30.0;
const TITLE_LINE: f64 = 18.0;
/// Letters of a title that fit a line.
const TITLE_LEN: usize = 48;
const BODY: f64 = 230.0;
const AXIS: f64 = 40.0;

/// The style of all plots: variables for the colours, in light and dark. The series colours are those of Okabe and Ito,
/// which people with any colour vision tell apart; shapes of the points differ too.
pub const STYLE: &str = "\
.plot{--ink:#22262b;--faint:#6a737d;--grid:#e3e6ea;--s0:#0068a8;--s1:#c4560a;--s2:#007a5a;--s3:#b04a86;--s4:#7a6a00;--s5:#3c8fc4;--s6:#6b5bb8;--s7:#555b61}
@media(prefers-color-scheme:dark){.plot{--ink:#e4e7ea;--faint:#9aa4ae;--grid:#30363d;--s0:#56b4e9;--s1:#f0925a;--s2:#3fc79f;--s3:#e59ac8;--s4:#e0cc4a;--s5:#8fd0f5;--s6:#b3a8f0;--s7:#b4bac0}}
.plot text{fill:var(--ink);font:12px system-ui,-apple-system,'Segoe UI',Roboto,sans-serif}
.plot .faint{fill:var(--faint)}.plot .title{font-size:14px;font-weight:600}
.plot .grid{stroke:var(--grid);stroke-width:1}.plot .axis{stroke:var(--faint);stroke-width:1}
.plot .value{paint-order:stroke;stroke:var(--card,#fff);stroke-width:3px;stroke-linejoin:round}.plot text.small{font-size:10px}.plot .value.small{stroke-width:2px}
.plot polyline{fill:none;stroke-width:2.8;stroke-linejoin:round}
.plot .k0{stroke:var(--s0)}.plot .k1{stroke:var(--s1)}.plot .k2{stroke:var(--s2)}.plot .k3{stroke:var(--s3)}.plot .k4{stroke:var(--s4)}.plot .k5{stroke:var(--s5)}.plot .k6{stroke:var(--s6)}.plot .k7{stroke:var(--s7)}
.plot .f0{fill:var(--s0)}.plot .f1{fill:var(--s1)}.plot .f2{fill:var(--s2)}.plot .f3{fill:var(--s3)}.plot .f4{fill:var(--s4)}.plot .f5{fill:var(--s5)}.plot .f6{fill:var(--s6)}.plot .f7{fill:var(--s7)}
";

/// The number of colours; later series start again.
const COLOUR_COUNT: usize = 8;

/// One plot as an `<svg>` element for a page that holds [`STYLE`].
pub fn element(plot: &Plot) -> String {
    let (body, height) = body(plot);
    let name = escaped(&spoken(plot));
    format!("<svg class=\"plot\" viewBox=\"0 0 {WIDTH} {height:.0}\" role=\"img\" aria-label=\"{name}\">{body}</svg>")
}

/// Plots one below the other as an SVG file of its own.
pub fn document(plots: &[&Plot]) -> String {
    let mut parts = String::new();
    let mut top = 0.0;
    for plot in plots {
        let (body, height) = body(plot);
        writeln!(parts, "<g transform=\"translate(0 {top:.0})\">{body}</g>").expect("a String takes every write");
        top += height;
    }
    let paper = "<rect width=\"100%\" height=\"100%\" class=\"paper\"/>";
    let style = format!("{STYLE}.paper{{fill:#fff}}@media(prefers-color-scheme:dark){{.paper{{fill:#14171a}}}}");
    format!(
        "<svg class=\"plot\" xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {top:.0}\" width=\"{:.0}\" height=\"{:.0}\">\
         <style>{style}</style>{paper}\n{parts}</svg>\n",
        WIDTH * 1.5,
        top * 1.5
    )
}

fn spoken(plot: &Plot) -> String {
    let names: Vec<&str> = plot.lines.iter().map(|line| line.name.as_str()).collect();
    format!("{}: {}", plot.title, names.join(", "))
}

/// The drawing and its height.
fn body(plot: &Plot) -> (String, f64) {
    let mut out = String::new();
    let title = format!("{}{}", plot.figure.as_deref().map_or(String::new(), |figure| format!("{figure}: ")), plot.title);
    let lines = crate::text::wrapped(&title, "", TITLE_LEN);
    for (index, line) in lines.lines().enumerate() {
        text(&mut out, 4.0, 15.0 + TITLE_LINE * index as f64, "start", "title", line);
    }
    let top = TITLE_LINE * lines.lines().count() as f64 + TOP;
    let bottom = if plot.is_timeline { timeline::draw(&mut out, plot, top - 14.0) } else { framed(&mut out, plot, top) };
    let height = bottom + legend::draw(&mut out, plot, bottom) + 8.0;
    (out, height)
}

/// Axes, and lines or bars between them, from `top` down; returns where they end.
fn framed(out: &mut String, plot: &Plot, top: f64) -> f64 {
    let y = Scale::new(&plot.y, &y_values(plot), top + BODY, top, !plot.groups.is_empty());
    text(out, 4.0, top - 10.0, "start", "faint", &label(&plot.y.label, &plot.y.unit));
    for (value, name) in y.ticks() {
        let at = y.place(value);
        writeln!(out, "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{:.1}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>", WIDTH - RIGHT)
            .expect("a String takes every write");
        text(out, LEFT - 6.0, at + 4.0, "end", "faint", &name);
    }
    let bottom = top + BODY;
    if plot.groups.is_empty() {
        lines::draw(out, plot, &y, (top, bottom));
        bottom + AXIS
    } else {
        bottom + bars::draw(out, plot, &y, bottom)
    }
}

/// All heights that must fit: of stacked bars, their sums.
fn y_values(plot: &Plot) -> Vec<f64> {
    if plot.is_stacked {
        let sum = |group: usize| {
            plot.lines.iter().flat_map(|line| &line.points).filter(|point| point.0 == group as f64).map(|point| point.1).sum()
        };
        return (0..plot.groups.len()).map(sum).collect();
    }
    plot.lines.iter().flat_map(|line| line.points.iter().map(|point| point.1)).collect()
}

fn label(name: &str, unit: &str) -> String {
    match (name.is_empty(), unit.is_empty()) {
        (_, true) => name.to_string(),
        (true, false) => format!("[{unit}]"),
        (false, false) => format!("{name} [{unit}]"),
    }
}

fn text(out: &mut String, x: f64, y: f64, anchor: &str, class: &str, words: &str) {
    let words = escaped(words);
    writeln!(out, "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{words}</text>")
        .expect("a String takes every write");
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outcome::Axis;

    fn sample() -> Plot {
        let mut plot = Plot::new("a < b & \"c\"", Axis::log("length", "B"), Axis::new("time", "us"));
        plot.line("one", [(8.0, 1.0), (64.0, 2.5), (512.0, 4.0)]);
        plot.line("two", [(8.0, 2.0), (0.0, 9.0)]);
        plot
    }

    #[test]
    fn words_are_escaped_and_points_that_a_log_axis_cannot_show_are_left_out() {
        let drawn = element(&sample());
        assert!(drawn.contains("a &lt; b &amp; &quot;c&quot;") && !drawn.contains("NaN") && !drawn.contains("inf"), "{drawn}");
    }

    #[test]
    fn a_plot_without_points_still_draws() {
        let empty = Plot::new("empty", Axis::new("x", ""), Axis::log("y", ""));
        assert!(!element(&empty).contains("NaN"));
    }

    #[test]
    fn every_bar_is_drawn() {
        let mut plot = Plot::bars("bars", &["a", "b", "c"], Axis::new("time", "ms"));
        plot.bar("x", &[1.0, 2.0, 3.0]);
        plot.bar("y", &[1.0, 2.0, 3.0]);
        assert_eq!(element(&plot).matches("<rect class=\"bar").count(), 6);
        assert_eq!(element(&plot.stacked()).matches("<rect class=\"bar").count(), 6);
    }

    #[test]
    fn every_value_is_drawn_after_every_bar() {
        let mut plot = Plot::bars("bars", &["a", "b"], Axis::new("time", "ms"));
        plot.bar("low", &[1.07, 1.0]);
        plot.bar("high", &[9.0, 17.1]);
        let drawn = element(&plot);
        assert!(drawn.find("1.07<").unwrap() > drawn.rfind("<rect class=\"bar").unwrap(), "{drawn}");
    }

    #[test]
    fn a_timeline_has_a_row_for_each_name_and_a_bar_for_each_span() {
        let mut plot = Plot::timeline("write", Axis::new("time", "ns"));
        plot.span("address", "bus", 0.0, 10.0);
        plot.span("data", "line", 10.0, 50.0);
        plot.span("address", "line", 60.0, 70.0);
        assert_eq!((plot.groups.len(), plot.lines.len()), (2, 2));
        assert_eq!(element(&plot).matches("<rect class=\"bar").count(), 3);
    }

    #[test]
    fn a_document_carries_its_style() {
        let plot = sample();
        let drawn = document(&[&plot, &plot]);
        assert!(drawn.contains("<style>") && drawn.matches("<g ").count() == 2);
    }
}
