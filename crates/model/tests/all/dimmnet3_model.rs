//! The DIMMnet-3 model as a whole: every experiment, every claim, every printed fact, with the defaults.
use std::collections::BTreeMap;
use std::path::Path;

use hanare_model::claim::{ClaimResult, Verdict};
use hanare_model::facts::{Agreement, facts};
use hanare_model::network::Network;
use hanare_model::outcome::Outcome;
use hanare_model::papers::dimmnet3::PAPER;
use hanare_model::parameters::Source;

fn run(name: &str) -> Outcome {
    PAPER.experiment(name).expect("the experiment exists").outcome(&(PAPER.parameters)())
}

fn outcomes() -> Vec<(&'static str, Outcome)> {
    PAPER.experiments.iter().map(|experiment| (experiment.name, experiment.outcome(&(PAPER.parameters)()))).collect()
}

fn claims() -> Vec<ClaimResult> {
    outcomes().into_iter().flat_map(|(_, outcome)| outcome.claims).collect()
}

#[test]
fn every_printed_value_is_met() {
    let mut asserted = 0;
    for (name, outcome) in outcomes() {
        assert_eq!(outcome.refused, None, "{name}");
        assert_eq!(outcome.disagreements(), Vec::<String>::new(), "{name}");
        asserted += outcome.produced.iter().filter(|produced| produced.agreement() == Agreement::Agrees).count();
    }
    assert!(asserted >= 14, "only {asserted} facts were asserted");
}

#[test]
fn every_claim_of_the_paper_has_one_verdict() {
    let mut found: BTreeMap<&str, usize> = BTreeMap::new();
    for claim in claims() {
        assert!(!claim.reason.is_empty(), "{}", claim.id);
        *found.entry(claim.id).or_default() += 1;
    }
    for claim in facts().claims.iter().filter(|claim| claim.paper == PAPER.id) {
        assert_eq!(found.get(claim.id.as_str()), Some(&1), "{}", claim.id);
    }
}

#[test]
fn the_lead_of_lhc_over_the_vector_load_misses_a_microsecond_only_at_the_shortest_size() {
    let claim = claims().into_iter().find(|claim| claim.id == "D3-C5").expect("D3-C5 is judged");
    assert_eq!(claim.verdict, Verdict::InAnotherReading);
    assert!(claim.finding.is_some_and(|finding| finding.contains("every size exceeds 1 us")));
    assert!(claim.model.contains("from 24 B on"), "{}", claim.model);
}

#[test]
fn cited_parameters_are_the_facts() {
    let parameters = (PAPER.parameters)();
    for parameter in parameters.iter() {
        if let (Source::Fact(key), true) = (&parameter.source, parameter.choices.is_empty()) {
            assert_eq!(parameter.value, facts().number(key), "{}", parameter.key);
        }
    }
}

#[test]
fn equal_runs_give_equal_bytes() {
    for (name, outcome) in outcomes() {
        let again = run(name);
        let text =
            |outcome: &Outcome| serde_json::to_string(&(&outcome.tables, &outcome.plots, &outcome.claims)).expect("plain data");
        assert_eq!(text(&outcome), text(&again), "{name}");
        assert_eq!(outcome.trace.map(|trace| trace.to_json()), again.trace.map(|trace| trace.to_json()), "{name}");
    }
}

#[test]
fn the_timing_chart_shows_hosts_boards_and_links_of_all_conditions() {
    let chart = run("ping-pong").trace.expect("the ping-pong has events").to_json();
    for part in [
        "BOTF+IPUSH: node 0",
        "VL+BOTF+IPUSH+LHS: node 1",
        "command unit",
        "SO-DIMM",
        "receiving unit",
        "link",
        "flags",
        "poll Head",
    ] {
        assert!(chart.contains(part), "{part}");
    }
}

#[test]
fn lost_figures_are_drawn() {
    let drawn: Vec<String> =
        outcomes().into_iter().flat_map(|(_, outcome)| outcome.plots).filter_map(|plot| plot.figure).collect();
    for figure in 3..=7 {
        assert!(drawn.contains(&format!("D3 figure {figure}")), "figure {figure} is not among {drawn:?}");
    }
}

#[test]
fn a_users_network_replaces_the_link() {
    let directory = std::env::temp_dir().join(format!("hanare-dimmnet3-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("the temporary directory can be written");
    let file = directory.join("slow.toml");
    std::fs::write(&file, "latency = \"50 us\"\nbandwidth = \"10 MB/s\"\noverhead = \"0 ns\"\n").expect("written");
    let mut parameters = (PAPER.parameters)();
    parameters.set_network(Network::read(Path::new(&file)).expect("a network"));
    let experiment = PAPER.experiment("ping-pong").expect("the experiment exists");
    let (slow, own) = (experiment.outcome(&parameters), run("ping-pong"));
    assert!(slow.headlines[0].value > own.headlines[0].value + 49.0);
    std::fs::remove_dir_all(&directory).expect("removed");
}

#[test]
fn sizes_that_contradict_each_other_are_refused_in_one_line() {
    let mut parameters = (PAPER.parameters)();
    parameters.set("nic.lh_entry", "32").expect("in range");
    parameters.set("nic.envelope_part", "64").expect("in range");
    let outcome = (PAPER.experiment("ping-pong").expect("the experiment exists").run)(&parameters);
    let reason = outcome.refused.expect("refused");
    assert!(reason.contains("nic.lh_entry") && reason.contains("nic.envelope_part") && !reason.contains('\n'), "{reason}");
}
