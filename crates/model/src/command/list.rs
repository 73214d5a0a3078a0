//! Lists: the papers, or one paper's experiments and parameters.
use serde_json::{Value, json};

use super::{CommandError, find_paper};
use crate::experiment::Paper;
use crate::parameters::{Parameter, Parameters};
use crate::text;

/// The papers, or one paper's experiments with what they show and its parameters with value, unit, range and source.
///
/// **Errors**: [`CommandError::Paper`].
pub fn list(paper: Option<&str>, json: bool) -> Result<String, CommandError> {
    match paper {
        None => Ok(papers(json)),
        Some(id) => {
            let paper = find_paper(id)?;
            Ok(one(paper, &(paper.parameters)(), json))
        }
    }
}

/// One paper with these parameters, which a user may have set.
pub(super) fn one(paper: &Paper, parameters: &Parameters, json: bool) -> String {
    if json {
        let value = json!({
            "paper": paper.id,
            "title": paper.title,
            "experiments": paper.experiments.iter().map(|experiment| json!({
                "name": experiment.name, "shows": experiment.shows, "takes_network": experiment.takes_network,
            })).collect::<Vec<_>>(),
            "parameters": parameters.iter().map(parameter_json).collect::<Vec<_>>(),
        });
        return format!("{value:#}\n");
    }
    format!("{}\n{}\n{}\n{}", paper.title, text::wrapped(paper.summary, "", 100), experiments(paper), table(parameters))
}

fn papers(json: bool) -> String {
    if json {
        let papers: Vec<Value> = crate::papers()
            .iter()
            .map(|paper| json!({"id": paper.id, "title": paper.title, "summary": paper.summary, "experiments": paper.experiments.len()}))
            .collect();
        return format!("{:#}\n", json!({ "papers": papers }));
    }
    let rows: Vec<Vec<String>> = crate::papers()
        .iter()
        .map(|paper| vec![paper.id.to_string(), paper.experiments.len().to_string(), paper.title.to_string()])
        .collect();
    text::columns(&["paper", "experiments", "title"].map(String::from), &rows, &[false, true, false])
}

fn experiments(paper: &Paper) -> String {
    let rows: Vec<Vec<String>> = paper
        .experiments
        .iter()
        .map(|experiment| {
            let network = if experiment.takes_network { " (takes --network)" } else { "" };
            vec![experiment.name.to_string(), format!("{}{network}", experiment.shows)]
        })
        .collect();
    text::columns(&["experiment", "shows"].map(String::from), &rows, &[false, false])
}

/// Two lines a parameter: what it is set to and where from, then what it means; side by side they would not fit a terminal.
fn table(parameters: &Parameters) -> String {
    let rows: Vec<Vec<String>> = parameters.iter().map(row).collect();
    let heads = ["parameter", "value", "unit", "range", "source"].map(String::from);
    let lines = text::columns(&heads, &rows, &[false, true, false, false, false]);
    let (head, body) = lines.split_at(lines.match_indices('\n').nth(1).map_or(lines.len(), |(at, _)| at + 1));
    let meanings = parameters.iter().map(|parameter| parameter.meaning);
    let body: String = body.lines().zip(meanings).map(|(line, meaning)| format!("{line}\n      {meaning}\n")).collect();
    format!("{head}{body}")
}

fn row(parameter: &Parameter) -> Vec<String> {
    let (value, range) = if parameter.choices.is_empty() {
        (text::number(parameter.value), format!("{} to {}", text::number(parameter.low), text::number(parameter.high)))
    } else {
        (parameter.shown(), parameter.choices.join(", "))
    };
    vec![parameter.key.to_string(), value, parameter.unit.to_string(), range, parameter.source.to_string()]
}

/// A parameter for JSON: a choice by its name, a number as a number.
pub(super) fn parameter_json(parameter: &Parameter) -> Value {
    let value = if parameter.choices.is_empty() { json!(parameter.value) } else { json!(parameter.shown()) };
    let mut object = json!({
        "key": parameter.key,
        "value": value,
        "unit": parameter.unit,
        "source": parameter.source.to_string(),
        "meaning": parameter.meaning,
    });
    if parameter.choices.is_empty() {
        object["range"] = json!([parameter.low, parameter.high]);
    } else {
        object["choices"] = json!(parameter.choices);
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_parameter_is_listed_with_its_source() {
        let text = list(Some("dimmnet2-drivers"), false).unwrap();
        for parameter in (find_paper("dimmnet2-drivers").unwrap().parameters)().iter() {
            let line = text.lines().find(|line| line.trim_start().starts_with(&format!("{} ", parameter.key))).unwrap();
            assert!(line.contains(parameter.unit) && line.contains(&parameter.source.to_string()), "{line}");
        }
    }

    #[test]
    fn all_five_papers_are_listed() {
        assert_eq!(list(None, false).unwrap().lines().count(), 2 + 5);
        assert_eq!(serde_json::from_str::<Value>(&list(None, true).unwrap()).unwrap()["papers"].as_array().unwrap().len(), 5);
    }

    #[test]
    fn an_unknown_paper_is_told_the_known_ones() {
        let line = list(Some("dimmnet4"), false).unwrap_err().to_string();
        assert!(line.contains("dimmnet4") && line.contains("virtual-queue"), "{line}");
    }
}
