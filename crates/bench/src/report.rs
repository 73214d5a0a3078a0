//! Results of a bench: the table, and the JSON object that scripts read.

use crate::machine::Machine;
use comfy_table::{CellAlignment, ContentArrangement, Table, presets};
use serde::Serialize;

/// The better direction of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Better {
    /// Times.
    Lower,
    /// Rates and ratios.
    Higher,
}

/// A figure, beside a peer's where there is one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Row {
    /// The measured case.
    pub case: String,
    /// Our median.
    pub value: f64,
    /// Its unit.
    pub unit: &'static str,
    /// The better direction.
    pub better: Better,
    /// The figure beside it; a row without it is informative.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub beside: Option<Beside>,
}

/// A peer's part of a row; all figures are `null` where the peer is missing.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Beside {
    /// The peer, by name and version; or why it is missing.
    pub peer: String,
    /// Its median.
    pub peer_value: Option<f64>,
    /// Our advantage as a factor: above 1, we win.
    pub ratio: Option<f64>,
    /// The ratio asked for; `null` where none is.
    pub goal: Option<f64>,
    /// True if it was reached.
    pub met: Option<bool>,
}

impl Row {
    /// A row without any peer.
    pub fn alone(case: impl Into<String>, value: f64, unit: &'static str, better: Better) -> Row {
        Row { case: case.into(), value: rounded(value), unit, better, beside: None }
    }

    /// The same with a peer's figure.
    pub fn beside(self, peer: impl Into<String>, peer_value: f64, goal: Option<f64>) -> Row {
        let peer_value = rounded(peer_value);
        let ratio = match self.better {
            Better::Lower => peer_value / self.value,
            Better::Higher => self.value / peer_value,
        };
        // Two places are what repeated runs agree in; the verdict goes by what is shown.
        let ratio = (ratio * 100.0).round() / 100.0;
        let met = goal.map(|goal| ratio >= goal);
        Row { beside: Some(Beside { peer: peer.into(), peer_value: Some(peer_value), ratio: Some(ratio), goal, met }), ..self }
    }

    /// True if a goal was missed.
    pub fn is_below(&self) -> bool {
        self.beside.as_ref().is_some_and(|beside| beside.met == Some(false))
    }

    /// The same with a peer that is not there.
    pub fn missing(self, peer: &str, reason: &str, goal: Option<f64>) -> Row {
        let peer = format!("{peer} (missing: {reason})");
        Row { beside: Some(Beside { peer, peer_value: None, ratio: None, goal, met: None }), ..self }
    }
}

/// Four significant digits: what is beyond is noise.
fn rounded(value: f64) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let scale = 10f64.powi(3 - value.abs().log10().floor() as i32);
    (value * scale).round() / scale
}

/// Verdict on a paper's claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// The claim holds here.
    Reproduced,
    /// The claim does not hold.
    NotReproduced,
}

/// A claim of a paper and what was measured for it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Claim {
    /// Its id in the papers' specification.
    pub id: &'static str,
    /// The verdict.
    pub verdict: Verdict,
    /// The figure measured for it.
    pub value: f64,
}

impl Claim {
    /// The verdict of whether the measured figure bears the claim out.
    pub fn new(id: &'static str, value: f64, holds: bool) -> Claim {
        let verdict = if holds { Verdict::Reproduced } else { Verdict::NotReproduced };
        Claim { id, verdict, value: rounded(value) }
    }
}

/// A whole bench.
#[derive(Clone, Debug, Serialize)]
pub struct Report {
    /// Its name.
    pub bench: &'static str,
    /// The machine.
    pub machine: Machine,
    /// Its figures.
    pub rows: Vec<Row>,
    /// The claims that it bears on.
    pub claims: Vec<Claim>,
}

impl Report {
    /// A bench without rows yet, on this machine.
    pub fn new(bench: &'static str) -> Report {
        Report { bench, machine: Machine::here(), rows: Vec::new(), claims: Vec::new() }
    }

    /// The object that `--json` prints, in one line.
    pub fn json(&self) -> String {
        serde_json::to_string(self).expect("numbers and text have a JSON form")
    }

    /// The table for people.
    pub fn table(&self) -> String {
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        table.set_header(["case", "ours", "peer", "peer's", "ratio", "goal", ""]);
        for row in &self.rows {
            table.add_row(cells(row));
        }
        for column in [1, 3, 4, 5] {
            table.column_mut(column).expect("there are seven columns").set_cell_alignment(CellAlignment::Right);
        }
        let claims = self.claims.iter().map(|claim| {
            let verdict = if claim.verdict == Verdict::Reproduced { "reproduced" } else { "not reproduced" };
            format!("\n{}: {verdict} ({})", claim.id, claim.value)
        });
        format!("{}: {}\n{table}{}", self.bench, self.machine.line(), claims.collect::<String>())
    }
}

fn cells(row: &Row) -> [String; 7] {
    let with_unit = |value: f64| format!("{value} {}", row.unit);
    let number = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.2}"));
    let mut cells =
        [row.case.clone(), with_unit(row.value), String::new(), String::new(), String::new(), String::new(), String::new()];
    if let Some(beside) = &row.beside {
        let met = beside.met.map_or("", |met| if met { "met" } else { "BELOW" });
        cells[2] = beside.peer.clone();
        cells[3] = beside.peer_value.map(with_unit).unwrap_or_default();
        cells[4] = number(beside.ratio);
        cells[5] = number(beside.goal);
        cells[6] = met.to_owned();
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn object(row: &Row) -> Value {
        serde_json::to_value(row).unwrap()
    }

    #[test]
    fn rows_have_the_promised_form() {
        let row = Row::alone("get 4 KiB, 2 nodes, tcp", 8.1, "us", Better::Lower).beside("redis 7.0", 15.0, Some(1.0));
        let wanted = json!({"case": "get 4 KiB, 2 nodes, tcp", "value": 8.1, "unit": "us", "better": "lower",
            "peer": "redis 7.0", "peer_value": 15.0, "ratio": 1.85, "goal": 1.0, "met": true});
        assert_eq!(object(&row), wanted);
    }

    #[test]
    fn a_row_alone_names_no_peer_and_a_missing_peer_is_named() {
        let row = Row::alone("x", 1.0, "us", Better::Lower);
        assert_eq!(object(&row), json!({"case": "x", "value": 1.0, "unit": "us", "better": "lower"}));
        let missing = object(&row.missing("Open MPI", "no mpicc", Some(1.0)));
        assert_eq!(missing["peer"], "Open MPI (missing: no mpicc)");
        assert_eq!((&missing["ratio"], &missing["met"], &missing["goal"]), (&Value::Null, &Value::Null, &json!(1.0)));
    }

    #[test]
    fn above_one_we_win_whichever_way_is_better() {
        let ratio = |row: Row| row.beside.unwrap().ratio.unwrap();
        assert_eq!(ratio(Row::alone("x", 2.0, "us", Better::Lower).beside("p", 4.0, None)), 2.0);
        assert_eq!(ratio(Row::alone("x", 2.0, "GB/s", Better::Higher).beside("p", 4.0, None)), 0.5);
        let just_below = Row::alone("x", 1000.0, "us", Better::Lower).beside("p", 994.0, Some(1.0));
        assert!(just_below.is_below());
        assert!(!Row::alone("x", 1.0, "us", Better::Lower).is_below());
    }

    #[test]
    fn a_report_is_one_object_and_a_table() {
        let mut report = Report::new("get");
        report.rows.push(Row::alone("get 8 B", 0.0315_49, "us", Better::Lower).beside("Open MPI", 0.02, Some(1.0)));
        report.claims.push(Claim::new("D2-C10", 1.97, true));
        let object: Value = serde_json::from_str(&report.json()).unwrap();
        assert_eq!(object["claims"], json!([{"id": "D2-C10", "verdict": "reproduced", "value": 1.97}]));
        assert_eq!(object["rows"][0]["value"], 0.03155);
        assert!(object["machine"].is_object());
        let table = report.table();
        for part in ["get 8 B", "0.03155 us", "0.63", "BELOW", "D2-C10: reproduced (1.97)"] {
            assert!(table.contains(part), "{table} lacks {part}");
        }
    }
}
