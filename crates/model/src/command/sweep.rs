//! One parameter over a range of values: a row and a point of each headline number for every value.
use serde_json::json;

use super::run::{outcome_of, write_plot};
use super::{CommandError, Options};
use crate::experiment::Experiment;
use crate::outcome::{Axis, Cell, Headline, Plot, Table};
use crate::parameters::{Parameter, Parameters};
use crate::text;

/// Runs the experiment for each value of the sweep.
pub(super) fn follow(
    experiment: &'static Experiment,
    parameters: &Parameters,
    sweep: &str,
    options: &Options,
) -> Result<String, CommandError> {
    if options.trace.is_some() {
        return Err(CommandError::Options("--trace charts one run: leave --sweep out".to_string()));
    }
    let sweep = parameters.sweep(sweep)?;
    let parameter = parameters.find(sweep.key).expect("the sweep's key was found in this table");
    let mut runs = Vec::new();
    for value in &sweep.values {
        let outcome = outcome_of(experiment, &parameters.with(sweep.key, *value))?;
        runs.push((*value, outcome.headlines));
    }
    let names = headline_names(&runs);
    if names.is_empty() {
        return Err(CommandError::Options(format!("--sweep: {} has no single results to follow", experiment.name)));
    }
    let table = table(experiment, parameter, &names, &runs);
    let plots = plots(experiment, parameter, &names, &runs);
    write_plot(options, plots.iter())?;
    Ok(if options.json {
        format!(
            "{:#}\n",
            json!({"experiment": experiment.name, "sweep": sweep.key, "unit": parameter.unit, "table": table, "plots": plots})
        )
    } else {
        text::table(&table)
    })
}

type Run = (f64, Vec<Headline>);

/// Every headline of any run, in the order of first sight; a run may leave one out.
fn headline_names(runs: &[Run]) -> Vec<(String, &'static str)> {
    let mut names: Vec<(String, &'static str)> = Vec::new();
    for headline in runs.iter().flat_map(|(_, headlines)| headlines) {
        if !names.iter().any(|(name, _)| *name == headline.name) {
            names.push((headline.name.clone(), headline.unit));
        }
    }
    names
}

fn value_of(headlines: &[Headline], name: &str) -> Option<f64> {
    headlines.iter().find(|headline| headline.name == name).map(|headline| headline.value)
}

fn table(experiment: &Experiment, parameter: &Parameter, names: &[(String, &'static str)], runs: &[Run]) -> Table {
    let columns: Vec<(&str, &str)> =
        std::iter::once((parameter.key, if parameter.choices.is_empty() { parameter.unit } else { "" }))
            .chain(names.iter().map(|(name, unit)| (name.as_str(), *unit)))
            .collect();
    let mut table = Table::new(format!("{} over {}", experiment.name, parameter.key), &columns);
    for (value, headlines) in runs {
        let first = match parameter.choices.get(*value as usize) {
            Some(name) => Cell::from(*name),
            None => Cell::from(*value),
        };
        table.row(std::iter::once(first).chain(names.iter().map(|(name, _)| value_of(headlines, name).into())).collect());
    }
    table
}

/// One plot for each unit among the headlines, so that curves of one plot can be compared.
fn plots(experiment: &Experiment, parameter: &Parameter, names: &[(String, &'static str)], runs: &[Run]) -> Vec<Plot> {
    let mut units: Vec<&str> = Vec::new();
    for (_, unit) in names {
        if !units.contains(unit) {
            units.push(unit);
        }
    }
    let is_log = parameter.choices.is_empty() && is_geometric(runs);
    let plot_of = |unit: &&str| {
        let x = Axis { is_log, ..Axis::new(parameter.key, parameter.unit) };
        let mut plot = Plot::new(format!("{} over {}", experiment.name, parameter.key), x, Axis::new("", *unit));
        for (name, _) in names.iter().filter(|(_, other)| other == unit) {
            let points = runs.iter().filter_map(|(x, headlines)| value_of(headlines, name).map(|y| (*x, y)));
            plot.line(name.clone(), points.filter(|(_, y)| y.is_finite()));
        }
        plot
    };
    units.iter().map(plot_of).collect()
}

fn is_geometric(runs: &[Run]) -> bool {
    let values: Vec<f64> = runs.iter().map(|(value, _)| *value).collect();
    let ratio = |pair: &[f64]| pair[1] / pair[0];
    values.len() > 2 && values[0] > 0.0 && values.windows(2).all(|pair| (ratio(pair) / ratio(&values[..2]) - 1.0).abs() < 1e-6)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::run;

    fn options(sweep: &str) -> Options {
        Options {
            paper: "dimmnet2-drivers".to_string(),
            experiment: Some("matrix".to_string()),
            sweep: Some(sweep.to_string()),
            ..Options::default()
        }
    }

    #[test]
    fn a_row_for_each_value() {
        let text = run(&options("node.count=1..16*2")).unwrap();
        assert_eq!(text.lines().count(), 3 + 5, "{text}");
        assert!(text.lines().last().unwrap().trim_start().starts_with("16 "), "{text}");
    }

    #[test]
    fn a_choice_is_swept_by_name() {
        let text = run(&options("scaling.exponent=log2..printed")).unwrap();
        assert!(text.contains("log2") && text.contains("printed"), "{text}");
    }
}
