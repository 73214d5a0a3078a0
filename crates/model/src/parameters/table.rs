//! Tables of parameters as TOML, a row each: those of the papers are `facts/parameters/PAPER.toml`.
//!
//! | field | says |
//! |---|---|
//! | `key`, `meaning` | the name that a user sets it by, and what it is |
//! | `fact` | the fact that is its default, with value and unit |
//! | `value`, `unit`, `why` | in place of a fact: a number, or the name of a choice, that is in no paper, and where it is from |
//! | `choices` | the names of a choice; a value of `true` or `false` is a switch |
//! | `range` | the least and the greatest number accepted |
//! | `from` | the facts that a value was chosen from |
//! | `reading` | the text allows every choice |
//! | `effort`, `whole` | it says how much is simulated, and the value that simulates all of the paper's program |
use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde::Deserialize;

use super::{Parameter, Parameters, Source};
use crate::facts::{Value, facts};
use crate::unit;

/// The tables of the papers.
const TABLES: [(&str, &str); 5] = [
    ("dimmnet3", include_str!("../../facts/parameters/dimmnet3.toml")),
    ("rhinet-fagus", include_str!("../../facts/parameters/rhinet-fagus.toml")),
    ("dimmnet2-drivers", include_str!("../../facts/parameters/dimmnet2-drivers.toml")),
    ("euphoria", include_str!("../../facts/parameters/euphoria.toml")),
    ("virtual-queue", include_str!("../../facts/parameters/virtual-queue.toml")),
];

const SWITCH: [&str; 2] = ["off", "on"];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ParameterFile {
    parameters: Vec<ParameterRow>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Given {
    Switch(bool),
    Number(f64),
    Choice(String),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ParameterRow {
    key: String,
    meaning: String,
    fact: Option<String>,
    value: Option<Given>,
    unit: Option<String>,
    why: Option<String>,
    #[serde(default)]
    choices: Vec<String>,
    range: Option<[f64; 2]>,
    #[serde(default)]
    from: Vec<String>,
    #[serde(default)]
    reading: bool,
    #[serde(default)]
    effort: bool,
    whole: Option<f64>,
}

/// A name that lives as long as the program: tables are read once.
fn kept(text: String) -> &'static str {
    text.leak()
}

fn kept_all(texts: Vec<String>) -> &'static [&'static str] {
    texts.into_iter().map(kept).collect::<Vec<_>>().leak()
}

/// A default with its unit, its range and the names of its choices.
type RowShape = (f64, &'static str, [f64; 2], &'static [&'static str]);

impl ParameterRow {
    fn shape(&mut self) -> Result<RowShape, String> {
        let choices = std::mem::take(&mut self.choices);
        let unit = self.unit.take();
        let is_cited = self.fact.is_some();
        match (self.value.take(), self.range) {
            (Some(Given::Switch(is_on)), None) if choices.is_empty() && unit.is_none() => {
                Ok((f64::from(u8::from(is_on)), "choice", [0.0, 1.0], kept_all(SWITCH.map(String::from).to_vec())))
            }
            (Some(Given::Choice(name)), None) if unit.is_none() => {
                let index = choices.iter().position(|choice| *choice == name);
                let index = index.ok_or_else(|| format!("\"{name}\" is none of its choices"))?;
                Ok((index as f64, "choice", [0.0, choices.len() as f64 - 1.0], kept_all(choices)))
            }
            (Some(Given::Number(value)), Some(range)) if choices.is_empty() && !is_cited => {
                let unit = unit.ok_or("a number needs a unit")?;
                if !unit::is_known(&unit) {
                    return Err(format!("the unit \"{unit}\" is not known"));
                }
                Ok((value, kept(unit), range, &[]))
            }
            (None, Some(range)) if choices.is_empty() && unit.is_none() => {
                let key = self.fact.as_deref().ok_or("it has neither value nor fact")?;
                let fact = facts().facts.get(key).ok_or_else(|| format!("there is no fact {key}"))?;
                let Value::Number(value) = fact.printed() else { return Err(format!("the fact {key} is not one number")) };
                Ok((*value, &fact.unit, range, &[]))
            }
            _ => Err("it is no switch, choice, number with unit and range, or fact with a range".to_string()),
        }
    }

    fn parameter(mut self) -> Result<Parameter, String> {
        let (value, unit, [low, high], choices) = self.shape()?;
        if !(low..=high).contains(&value) {
            return Err(format!("its default {value} is out of its range {low} to {high}"));
        }
        if self.whole.is_some_and(|whole| !self.effort || !(low..=high).contains(&whole)) {
            return Err("whole is out of its range, or of no effort".to_string());
        }
        if self.reading && choices.is_empty() {
            return Err("a reading has choices".to_string());
        }
        let source = match (self.fact, self.why) {
            (Some(fact), None) => Source::Fact(kept(fact)),
            (None, Some(why)) => Source::Chosen(kept(why)),
            _ => return Err("it needs a fact, or the reason why its value was chosen".to_string()),
        };
        let cited = if let Source::Fact(key) = source { Some(key) } else { None };
        if let Some(key) = self.from.iter().map(String::as_str).chain(cited).find(|key| !facts().facts.contains_key(*key)) {
            return Err(format!("there is no fact {key}"));
        }
        Ok(Parameter {
            key: kept(self.key),
            value,
            unit,
            low,
            high,
            source,
            meaning: kept(self.meaning),
            choices,
            from: kept_all(self.from),
            is_reading: self.reading,
            is_effort: self.effort,
            whole: self.whole,
        })
    }
}

/// Reads a table. **Errors**: one line with the key, or with the place in the text.
fn read(text: &str) -> Result<Parameters, String> {
    let file: ParameterFile = toml::from_str(text).map_err(|error| error.to_string())?;
    let mut table: Vec<Parameter> = Vec::new();
    for row in file.parameters {
        let key = row.key.clone();
        if table.iter().any(|other| other.key == key) {
            return Err(format!("{key}: it occurs twice"));
        }
        table.push(row.parameter().map_err(|problem| format!("{key}: {problem}"))?);
    }
    Ok(Parameters { table, network: None })
}

impl Parameters {
    /// The parameters of a paper with their defaults; a paper without a table is a defect of the caller and panics.
    pub fn of(paper: &str) -> Parameters {
        static READ: OnceLock<BTreeMap<&str, Parameters>> = OnceLock::new();
        let table = |(id, text): (&'static str, &str)| {
            let table = read(text).unwrap_or_else(|problem| panic!("{id}.toml is part of the crate: {problem}"));
            (id, table)
        };
        let read = READ.get_or_init(|| TABLES.into_iter().map(table).collect());
        read.get(paper).unwrap_or_else(|| panic!("{paper} has no table of parameters")).clone()
    }

    /// A table of a test's own.
    #[cfg(test)]
    pub(crate) fn of_rows(rows: &str) -> Parameters {
        read(&format!("parameters = [{rows}]")).expect("a test's table")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_that_is_wrong_is_named_with_what_is_wrong() {
        let number = r#"value = 2, unit = "ns", range = [1, 4], why = "w", meaning = "m""#;
        for (row, part) in [
            (r#"fact = "d2.nothing", range = [0, 1], meaning = "m""#.to_string(), "no fact d2.nothing"),
            (r#"fact = "d3.overfetch", range = [0, 99], meaning = "m""#.to_string(), "not one number"),
            (r#"fact = "d2.page", range = [1, 9], meaning = "m""#.to_string(), "out of its range"),
            (r#"fact = "d2.page", range = [1, 9999], why = "w", meaning = "m""#.to_string(), "needs a fact, or the reason"),
            (number.replace(r#", why = "w""#, ""), "needs a fact, or the reason"),
            (number.replace("ns", "furlongs"), "furlongs"),
            (number.replace("= 2", "= 5"), "out of its range"),
            (number.replace("[1, 4]", "[4, 1]"), "out of its range"),
            (number.replace(r#"unit = "ns", "#, ""), "needs a unit"),
            (number.replace("range = [1, 4], ", ""), "no switch, choice, number"),
            (format!(r#"{number}, from = ["d2.nothing"]"#), "no fact d2.nothing"),
            (format!("{number}, reading = true"), "a reading has choices"),
            (format!("{number}, whole = 3"), "of no effort"),
            (format!("{number}, effort = true, whole = 5"), "whole is out of its range"),
            (format!("{number}, raeding = true"), "unknown field `raeding`"),
            (r#"value = "c", choices = ["a", "b"], why = "w", meaning = "m""#.to_string(), "none of its choices"),
            (r#"value = "a", choices = [], why = "w", meaning = "m""#.to_string(), "none of its choices"),
        ] {
            let problem = read(&format!("parameters = [{{ key = \"the.key\", {row} }}]")).unwrap_err();
            assert!(problem.contains(part) && problem.contains("the.key"), "{row}: {problem}");
        }
        let row = format!("{{ key = \"k\", {number} }}");
        assert!(read(&format!("parameters = [{row}]")).is_ok());
        assert!(read(&format!("parameters = [{row}, {row}]")).unwrap_err().contains("k: it occurs twice"));
    }

    #[test]
    fn every_paper_has_its_table_and_every_row_ends_in_a_parameter() {
        for ((id, text), paper) in TABLES.into_iter().zip(crate::papers()) {
            assert_eq!(id, paper.id);
            let rows = text.lines().filter(|line| line.trim_start().starts_with("{ key = ")).count();
            assert_eq!((paper.parameters)().iter().count(), rows, "{id}");
        }
    }
}
