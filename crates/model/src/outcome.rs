//! What an experiment yields: tables and plots for people, produced facts and claims for the tests and the report.
use serde::Serialize;

use crate::claim::ClaimResult;
use crate::facts::{Agreement, check, facts};
use crate::trace::Trace;

pub use crate::table::{Cell, Column, Table};
pub use crate::tolerance::Tolerance;

/// Everything one run of an experiment yields.
#[derive(Default)]
pub struct Outcome {
    /// Tables a reader understands without the paper.
    pub tables: Vec<Table>,
    /// Plots, among them the papers' lost figures.
    pub plots: Vec<Plot>,
    /// The few numbers a sweep follows, each one row of its table.
    pub headlines: Vec<Headline>,
    /// Values that the paper prints too.
    pub produced: Vec<Produced>,
    /// Verdicts on claims, from this run.
    pub claims: Vec<ClaimResult>,
    /// Remarks, one sentence each: suspects, readings chosen, limits.
    pub notes: Vec<String>,
    /// The events as a timing chart, where the experiment has events.
    pub trace: Option<Trace>,
    /// Set where these parameters cannot be run together; the rest is then empty.
    pub refused: Option<String>,
}

impl Outcome {
    /// An empty outcome.
    pub fn new() -> Outcome {
        Outcome::default()
    }

    /// An outcome that says why the parameters cannot be run together, in one line that names their keys.
    pub fn refuse(reason: impl Into<String>) -> Outcome {
        Outcome { refused: Some(reason.into()), ..Outcome::default() }
    }

    /// Notes that the model yields `value` for the fact `fact`, in the fact's unit.
    pub fn produce(&mut self, fact: &'static str, value: f64, tolerance: Tolerance) {
        self.produced.push(Produced { fact, values: vec![value], tolerance });
    }

    /// Notes that the model yields these values for a range or set.
    pub fn produce_all(&mut self, fact: &'static str, values: &[f64], tolerance: Tolerance) {
        self.produced.push(Produced { fact, values: values.to_vec(), tolerance });
    }

    /// Adds a number that sweeps follow.
    pub fn headline(&mut self, name: impl Into<String>, unit: &'static str, value: f64) {
        self.headlines.push(Headline { name: name.into(), unit, value });
    }

    /// Adds a remark.
    pub fn note(&mut self, text: impl Into<String>) {
        self.notes.push(text.into());
    }

    /// Every produced value outside its tolerance, one line each; empty where model and paper agree.
    ///
    /// The papers' tests assert that this is empty.
    pub fn disagreements(&self) -> Vec<String> {
        let compared = self.produced.iter().map(|produced| produced.agreement());
        compared.filter_map(|agreement| if let Agreement::Differs(line) = agreement { Some(line) } else { None }).collect()
    }
}

/// A plot: lines over a numeric axis, or bars over named groups.
#[derive(Clone, Debug, Serialize)]
pub struct Plot {
    /// The lost figure it re-draws, `D2 figure 6`; none for a plot of our own.
    pub figure: Option<String>,
    /// What it shows.
    pub title: String,
    /// The horizontal axis; its labels are `groups` where there are any.
    pub x: Axis,
    /// The vertical axis.
    pub y: Axis,
    /// Names of the bar groups: point `(i, y)` of a line is the bar in group `i`. Empty for a line plot.
    pub groups: Vec<String>,
    /// Lines, or the bars of one colour.
    pub lines: Vec<Line>,
    /// Whether the bars of a group stand on each other (a break-down) instead of side by side.
    pub is_stacked: bool,
    /// Whether it is a timeline: each group is a row, and two consecutive points `(start, row)`, `(end, row)` of a line are one span.
    pub is_timeline: bool,
}

/// One axis.
#[derive(Clone, Debug, Serialize)]
pub struct Axis {
    /// What it measures.
    pub label: String,
    /// Its unit; empty where there is none.
    pub unit: String,
    /// Whether it is logarithmic; then every value must be positive.
    pub is_log: bool,
}

/// One line of points, or the bars of one colour.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// Its name in the legend.
    pub name: String,
    /// The points in the axes' units.
    pub points: Vec<(f64, f64)>,
}

impl Axis {
    /// A linear axis.
    pub fn new(label: impl Into<String>, unit: impl Into<String>) -> Axis {
        Axis { label: label.into(), unit: unit.into(), is_log: false }
    }

    /// A logarithmic axis.
    pub fn log(label: impl Into<String>, unit: impl Into<String>) -> Axis {
        Axis { is_log: true, ..Axis::new(label, unit) }
    }
}

impl Plot {
    /// An empty line plot.
    pub fn new(title: impl Into<String>, x: Axis, y: Axis) -> Plot {
        Plot {
            figure: None,
            title: title.into(),
            x,
            y,
            groups: Vec::new(),
            lines: Vec::new(),
            is_stacked: false,
            is_timeline: false,
        }
    }

    /// An empty bar plot over named groups.
    pub fn bars(title: impl Into<String>, groups: &[&str], y: Axis) -> Plot {
        let groups = groups.iter().map(|name| (*name).to_string()).collect();
        Plot { groups, ..Plot::new(title, Axis::new("", ""), y) }
    }

    /// An empty timeline over a time axis; see [`span`](Plot::span).
    pub fn timeline(title: impl Into<String>, x: Axis) -> Plot {
        Plot { is_timeline: true, ..Plot::new(title, x, Axis::new("", "")) }
    }

    /// Adds a span to the row `row` of a timeline, in the colour of its kind; rows stand in the order of first sight.
    pub fn span(&mut self, row: &str, kind: &str, start: f64, end: f64) {
        let known = self.groups.iter().position(|group| group == row);
        let index = known.unwrap_or_else(|| {
            self.groups.push(row.to_string());
            self.groups.len() - 1
        }) as f64;
        let points = [(start, index), (end, index)];
        match self.lines.iter_mut().find(|line| line.name == kind) {
            Some(line) => line.points.extend(points),
            None => self.line(kind, points),
        }
    }

    /// The same plot as the re-drawn figure `figure`, for example `D2 figure 6`.
    pub fn figure(self, figure: impl Into<String>) -> Plot {
        Plot { figure: Some(figure.into()), ..self }
    }

    /// The same plot with each group's bars on each other.
    pub fn stacked(self) -> Plot {
        Plot { is_stacked: true, ..self }
    }

    /// The points as CSV: a head, then a line a point with series, group or x, and y.
    pub fn to_csv(&self) -> String {
        let quoted = |text: &str| format!("\"{}\"", text.replace('"', "\"\""));
        let head = |axis: &Axis, name: &str| {
            let label = if axis.label.is_empty() { name } else { &axis.label };
            quoted(&if axis.unit.is_empty() { label.to_string() } else { format!("{label} [{}]", axis.unit) })
        };
        let mut csv = format!("series,{},{}\n", head(&self.x, "group"), head(&self.y, "row"));
        for line in &self.lines {
            for (x, y) in &line.points {
                let group = if self.is_timeline { None } else { self.groups.get(*x as usize) };
                let x = group.map_or_else(|| x.to_string(), |name| quoted(name));
                csv += &format!("{},{x},{y}\n", quoted(&line.name));
            }
        }
        csv
    }

    /// Adds a line.
    pub fn line(&mut self, name: impl Into<String>, points: impl IntoIterator<Item = (f64, f64)>) {
        self.lines.push(Line { name: name.into(), points: points.into_iter().collect() });
    }

    /// Adds printed facts as points of a line plot, beside the model's lines.
    pub fn printed_at(&mut self, name: impl Into<String>, points: &[(f64, &str)]) {
        let value = |key: &str| facts().fact(key).printed().numbers()[0];
        self.line(name, points.iter().map(|(x, key)| (*x, value(key))));
    }

    /// Adds the bars of printed facts, one a group, beside the model's.
    pub fn printed(&mut self, name: impl Into<String>, keys: &[&str]) {
        let values: Vec<f64> = keys.iter().map(|key| facts().fact(key).printed().numbers()[0]).collect();
        self.bar(name, &values);
    }

    /// Adds the bars of facts that are printed for some groups only, by the groups' numbers.
    pub fn printed_in(&mut self, name: impl Into<String>, bars: &[(usize, &str)]) {
        let value = |key: &str| facts().fact(key).printed().numbers()[0];
        self.line(name, bars.iter().map(|(group, key)| (*group as f64, value(key))));
    }

    /// Adds the bars of one colour, one value a group.
    pub fn bar(&mut self, name: impl Into<String>, values: &[f64]) {
        assert_eq!(values.len(), self.groups.len(), "plot {:?} has another number of groups", self.title);
        self.line(name, values.iter().enumerate().map(|(index, value)| (index as f64, *value)));
    }
}

/// A number that a sweep follows.
#[derive(Clone, Debug, Serialize)]
pub struct Headline {
    /// What it is; the same in every run of the experiment.
    pub name: String,
    /// Its unit.
    pub unit: &'static str,
    /// Its value.
    pub value: f64,
}

/// Values of the model for one fact.
#[derive(Clone, Debug, Serialize)]
pub struct Produced {
    /// The fact's key.
    pub fact: &'static str,
    /// One value, or those of a range or set.
    pub values: Vec<f64>,
    /// How far they may be from the printed ones.
    pub tolerance: Tolerance,
}

impl Produced {
    /// How the values stand to the fact.
    pub fn agreement(&self) -> Agreement {
        check(facts().fact(self.fact), &self.values, self.tolerance)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disagreements_name_fact_and_both_values() {
        let mut outcome = Outcome::new();
        outcome.produce("d2.t6.n_page.p1", 6144.0, Tolerance::Exact);
        assert!(outcome.disagreements().is_empty());
        outcome.produce("d2.t6.n_page.p2", 3072.0, Tolerance::Exact);
        let lines = outcome.disagreements();
        assert!(lines.len() == 1 && lines[0].contains("d2.t6.n_page.p2") && lines[0].contains("3072"), "{lines:?}");
    }

    #[test]
    #[should_panic(expected = "wrong length")]
    fn a_short_row_is_a_defect() {
        Table::new("t", &[("a", ""), ("b", "ns")]).row(vec![1.0.into()]);
    }
}
