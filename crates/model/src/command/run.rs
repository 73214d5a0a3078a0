//! Runs experiments and shows what came out, as text or JSON; writes plots and timing charts.
use serde_json::{Value, json};

use super::{CommandError, Options, find_experiments, find_paper, list, sweep, write_file};
use crate::claim::ClaimResult;
use crate::experiment::{self, Experiment, Paper};
use crate::facts::{Agreement, facts};
use crate::network::Network;
use crate::outcome::{Outcome, Plot, Produced};
use crate::parameters::Parameters;
use crate::plot;
use crate::text;

/// Runs what the options ask, writes the files they name, and returns the text for standard output.
///
/// Without an experiment it lists the paper. `all` runs every experiment; with a network, every one that takes it.
///
/// **Errors**: [`CommandError`], one line each; nothing is written before all options are understood.
pub fn run(options: &Options) -> Result<String, CommandError> {
    let paper = find_paper(&options.paper)?;
    let mut parameters = (paper.parameters)();
    for pair in &options.set {
        parameters.set_pair(pair)?;
    }
    let product = options.is_product.then(|| experiment::PRODUCT.to_string());
    if options.is_product && (options.experiment.is_some() || paper.experiment(experiment::PRODUCT).is_none()) {
        let reason = match &options.experiment {
            Some(name) => format!("takes no experiment; {name} runs the paper's own"),
            None => format!("{} is not driven by the product's rules; {} are", paper.id, driven()),
        };
        return Err(CommandError::Options(format!("--protocol product: {reason}")));
    }
    let Some(name) = options.experiment.as_ref().or(product.as_ref()) else {
        return without_experiment(paper, &parameters, options);
    };
    let mut experiments = find_experiments(paper, name)?;
    if let Some(path) = &options.network {
        parameters.set_network(Network::read(path)?);
        experiments.retain(|experiment| experiment.takes_network);
        if experiments.is_empty() {
            return Err(CommandError::Options(no_network(paper, name)));
        }
    }
    if let Some(text) = &options.sweep {
        let [experiment] = experiments.as_slice() else {
            return Err(CommandError::Options("--sweep needs one experiment".to_string()));
        };
        return sweep::follow(experiment, &parameters, text, options);
    }
    let mut outcomes = Vec::new();
    for experiment in experiments {
        let mut outcome = outcome_of(experiment, &parameters)?;
        if parameters.network().is_some() {
            // Facts and claims are about the paper's network.
            outcome.produced.clear();
        }
        outcomes.push((experiment, outcome));
    }
    write_plot(options, outcomes.iter().flat_map(|(_, outcome)| &outcome.plots))?;
    write_trace(options, &outcomes)?;
    Ok(if options.json { as_json(paper, &parameters, &outcomes) } else { as_text(&outcomes) })
}

/// The papers whose hardware the product's rules drive.
fn driven() -> String {
    let papers = crate::papers().iter().filter(|paper| paper.experiment(experiment::PRODUCT).is_some());
    papers.map(|paper| paper.id).collect::<Vec<_>>().join(" and ")
}

/// One run; a refusal of the experiment becomes an error line.
pub(super) fn outcome_of(experiment: &'static Experiment, parameters: &Parameters) -> Result<Outcome, CommandError> {
    let outcome = experiment.outcome(parameters);
    match outcome.refused {
        Some(reason) => Err(CommandError::Refused { experiment: experiment.name, reason }),
        None => Ok(outcome),
    }
}

fn without_experiment(paper: &'static Paper, parameters: &Parameters, options: &Options) -> Result<String, CommandError> {
    let names = [
        ("--sweep", options.sweep.is_some()),
        ("--network", options.network.is_some()),
        ("--plot", options.plot.is_some()),
        ("--trace", options.trace.is_some()),
    ];
    match names.iter().find(|(_, is_given)| *is_given) {
        Some((name, _)) => {
            let known: Vec<&str> = paper.experiments.iter().map(|experiment| experiment.name).collect();
            Err(CommandError::Options(format!("{name} needs an experiment of {} (experiments: {})", paper.id, known.join(", "))))
        }
        None => Ok(list::one(paper, parameters, options.json)),
    }
}

fn no_network(paper: &Paper, name: &str) -> String {
    let takers: Vec<&str> = paper.experiments.iter().filter(|e| e.takes_network).map(|e| e.name).collect();
    let takers = if takers.is_empty() { "none".to_string() } else { takers.join(", ") };
    format!("--network: {name} of {} does not take a network (experiments that do: {takers})", paper.id)
}

/// Writes the plots, one below the other, where a file is named.
pub(super) fn write_plot<'a>(options: &Options, plots: impl Iterator<Item = &'a Plot>) -> Result<(), CommandError> {
    let Some(path) = &options.plot else { return Ok(()) };
    let plots: Vec<&Plot> = plots.collect();
    if plots.is_empty() {
        return Err(CommandError::Options("--plot: this experiment draws nothing".to_string()));
    }
    write_file(path, &plot::document(&plots))
}

fn write_trace(options: &Options, outcomes: &[(&'static Experiment, Outcome)]) -> Result<(), CommandError> {
    let Some(path) = &options.trace else { return Ok(()) };
    let mut traces = outcomes.iter().filter_map(|(_, outcome)| outcome.trace.as_ref());
    match (traces.next(), traces.next()) {
        (Some(trace), None) => write_file(path, &trace.to_json()),
        (None, _) => Err(CommandError::Options("--trace: this experiment has no events to chart".to_string())),
        (Some(_), Some(_)) => Err(CommandError::Options("--trace needs one experiment".to_string())),
    }
}

fn as_text(outcomes: &[(&'static Experiment, Outcome)]) -> String {
    outcomes.iter().map(|(experiment, outcome)| one_as_text(experiment, outcome)).collect::<Vec<_>>().join("\n")
}

fn one_as_text(experiment: &Experiment, outcome: &Outcome) -> String {
    let mut parts = vec![text::wrapped(&format!("{}: {}", experiment.name, experiment.shows), "", 100)];
    parts.extend(outcome.tables.iter().map(text::table));
    if !outcome.headlines.is_empty() {
        let rows: Vec<Vec<String>> = outcome
            .headlines
            .iter()
            .map(|line| vec![line.name.clone(), text::number(line.value), line.unit.to_string()])
            .collect();
        parts.push(text::columns(&["result", "value", "unit"].map(String::from), &rows, &[false, true, false]));
    }
    if !outcome.produced.is_empty() {
        parts.push(facts_as_text(&outcome.produced));
    }
    if !outcome.claims.is_empty() {
        parts.push(outcome.claims.iter().map(claim_as_text).collect());
    }
    if !outcome.notes.is_empty() {
        parts.push(outcome.notes.iter().map(|note| text::wrapped(note, "  ", 100)).collect());
    }
    parts.join("\n")
}

fn facts_as_text(produced: &[Produced]) -> String {
    let rows: Vec<Vec<String>> = produced
        .iter()
        .map(|produced| {
            let fact = facts().fact(produced.fact);
            let values: Vec<String> = produced.values.iter().map(|value| text::number(*value)).collect();
            let place = fact.citation();
            vec![
                place,
                fact.key.clone(),
                fact.printed().to_string(),
                values.join(", "),
                fact.unit.clone(),
                agreement(produced).to_string(),
            ]
        })
        .collect();
    let heads = ["printed at", "fact", "paper", "model", "unit", ""].map(String::from);
    text::columns(&heads, &rows, &[false, false, true, true, false, false])
}

fn agreement(produced: &Produced) -> String {
    let fact = facts().fact(produced.fact);
    let closeness = text::closeness(fact, produced.tolerance);
    match produced.agreement() {
        Agreement::Agrees => format!("agrees {closeness}"),
        Agreement::Differs(_) => format!("differs, not met {closeness}"),
        Agreement::Shown if fact.suspect => "suspect".to_string(),
        Agreement::Shown => "not printed".to_string(),
    }
}

fn claim_as_text(claim: &ClaimResult) -> String {
    let text = facts().claim(claim.id).map_or("", |claim| claim.text.as_str());
    let wrapped = |line: String| text::wrapped(&line, "    ", 100);
    let mut lines = format!("{} {}\n{}", claim.id, claim.verdict.name(), wrapped(format!("paper: {text}")));
    if !claim.model.is_empty() {
        lines += &wrapped(format!("model: {}", claim.model));
    }
    for check in &claim.checks {
        let sign = if check.holds() { "holds" } else { "fails" };
        lines += &wrapped(format!("{sign}: {} is {}, demanded {}", check.what, check.shown(), check.demand()));
    }
    if let (Some(fit), Some(plain)) = (claim.fit, &claim.on_defaults) {
        let sign = if plain.holds { "holds" } else { "fails" };
        lines += &wrapped(format!("judged with {fit}; at the defaults: {} ({sign})", plain.model));
    }
    lines += &wrapped(claim.reason.clone());
    if let Some(finding) = &claim.finding {
        lines += &wrapped(format!("found: {finding}"));
    }
    lines
}

fn as_json(paper: &Paper, parameters: &Parameters, outcomes: &[(&'static Experiment, Outcome)]) -> String {
    let experiments: Vec<Value> = outcomes.iter().map(|(experiment, outcome)| one_as_json(experiment, outcome)).collect();
    let parameters: Vec<Value> = parameters.iter().map(list::parameter_json).collect();
    format!("{:#}\n", json!({"paper": paper.id, "parameters": parameters, "experiments": experiments}))
}

fn one_as_json(experiment: &Experiment, outcome: &Outcome) -> Value {
    let produced = outcome.produced.iter().map(|produced| {
        let fact = facts().fact(produced.fact);
        json!({"fact": fact.key, "unit": fact.unit, "paper": fact.printed().to_string(), "model": produced.values, "agreement": agreement(produced)})
    });
    json!({
        "name": experiment.name,
        "shows": experiment.shows,
        "headlines": outcome.headlines,
        "tables": outcome.tables,
        "plots": outcome.plots,
        "facts": produced.collect::<Vec<_>>(),
        "claims": outcome.claims,
        "notes": outcome.notes,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(experiment: &str) -> Options {
        Options { paper: "dimmnet2-drivers".to_string(), experiment: Some(experiment.to_string()), ..Options::default() }
    }

    #[test]
    fn text_holds_tables_facts_and_verdicts() {
        let text = run(&options("himeno")).unwrap();
        for part in ["Nr_0", "d2.t8.t_all.p1", "D2-C14 reproduced", "two nodes, against one"] {
            assert!(text.contains(part), "{part} is missing in:\n{text}");
        }
    }

    #[test]
    fn json_is_json_and_repeats_byte_for_byte() {
        let asked = Options { json: true, ..options("retransmission") };
        let text = run(&asked).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap()["experiments"][0]["name"], "retransmission");
        assert_eq!(text, run(&asked).unwrap());
    }

    #[test]
    fn a_fit_to_the_own_table_is_told_as_such() {
        let asked = Options { set: vec!["transfer.from=himeno".to_string()], ..options("himeno") };
        assert!(run(&asked).unwrap().contains("D2-C14 by construction"));
    }

    #[test]
    fn wrong_options_are_one_line() {
        let network = Some("/nowhere/net.toml".into());
        for (asked, part) in [
            (options("matrices"), "himeno"),
            (Options { set: vec!["matrix.order=3 ns".to_string()], ..options("matrix") }, "matrix.order"),
            (Options { network: network.clone(), ..options("matrix") }, "/nowhere/net.toml"),
            (Options { sweep: Some("matrix.order=1..2".to_string()), ..options("all") }, "one experiment"),
            (Options { trace: Some("/nowhere/t.json".into()), ..options("matrix") }, "no events"),
            (Options { plot: Some("/nowhere/p.svg".into()), ..options("matrix") }, "/nowhere/p.svg"),
            (Options { experiment: None, plot: Some("p.svg".into()), ..options("") }, "--plot needs an experiment"),
        ] {
            let line = run(&asked).unwrap_err().to_string();
            assert!(line.contains(part) && !line.contains('\n'), "{line}");
        }
    }
}
