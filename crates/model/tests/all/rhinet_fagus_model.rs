//! The RHiNET and Fagus model as a whole: every experiment, every claim, every printed fact, with the defaults.
use std::collections::BTreeMap;
use std::sync::OnceLock;

use hanare_model::claim::{ClaimResult, Verdict};
use hanare_model::facts::{Agreement, facts};
use hanare_model::outcome::Outcome;
use hanare_model::papers::rhinet_fagus::PAPER;
use hanare_model::papers::rhinet_fagus::lu::{Completion, run};
use hanare_model::papers::rhinet_fagus::transport::Transport;
use hanare_model::parameters::Source;

fn outcomes() -> Vec<(&'static str, Outcome)> {
    PAPER.experiments.iter().map(|experiment| (experiment.name, experiment.outcome(&(PAPER.parameters)()))).collect()
}

/// The parts of a run that can be shared by tests.
struct Shared {
    claims: Vec<ClaimResult>,
    disagreements: Vec<String>,
    asserted: usize,
    figures: Vec<String>,
    charts: Vec<(&'static str, String)>,
    text: String,
}

fn read(outcomes: Vec<(&'static str, Outcome)>) -> Shared {
    let mut shared = Shared {
        claims: Vec::new(),
        disagreements: Vec::new(),
        asserted: 0,
        figures: Vec::new(),
        charts: Vec::new(),
        text: String::new(),
    };
    for (name, outcome) in outcomes {
        assert_eq!(outcome.refused, None, "{name}");
        shared.disagreements.extend(outcome.disagreements());
        shared.asserted += outcome.produced.iter().filter(|produced| produced.agreement() == Agreement::Agrees).count();
        shared.text += &serde_json::to_string(&(&outcome.tables, &outcome.plots, &outcome.claims)).expect("plain data");
        shared.figures.extend(outcome.plots.into_iter().filter_map(|plot| plot.figure));
        shared.charts.extend(outcome.trace.map(|trace| (name, trace.to_json())));
        shared.claims.extend(outcome.claims);
    }
    shared
}

fn shared() -> &'static Shared {
    static SHARED: OnceLock<Shared> = OnceLock::new();
    SHARED.get_or_init(|| read(outcomes()))
}

fn claim(id: &str) -> &'static ClaimResult {
    shared().claims.iter().find(|claim| claim.id == id).expect("the claim is judged")
}

#[test]
fn every_printed_value_is_met() {
    assert_eq!(shared().disagreements, Vec::<String>::new());
    assert!(shared().asserted >= 11, "only {} facts were asserted", shared().asserted);
}

#[test]
fn every_claim_of_the_paper_has_one_verdict() {
    let mut found: BTreeMap<&str, usize> = BTreeMap::new();
    for claim in &shared().claims {
        assert!(!claim.reason.is_empty() && !claim.model.is_empty(), "{}", claim.id);
        *found.entry(claim.id).or_default() += 1;
    }
    for claim in facts().claims.iter().filter(|claim| claim.paper == PAPER.id) {
        assert_eq!(found.get(claim.id.as_str()), Some(&1), "{}", claim.id);
    }
}

#[test]
fn the_suspect_barrier_throughput_is_met_from_the_page_cache_alone() {
    let claim = claim("RF-C9");
    assert_eq!(claim.verdict, Verdict::InAnotherReading);
    assert_eq!(claim.readings.iter().map(|reading| reading.holds).collect::<Vec<_>>(), [false, true]);
    assert!(claim.reason.contains("suspect") && claim.finding.is_some());
}

#[test]
fn lu_takes_longer_in_one_order_of_release_alone() {
    for id in ["RF-C12", "RF-C13", "RF-C14"] {
        assert_eq!(claim(id).verdict, Verdict::InOneReading, "{id}");
    }
}

#[test]
fn write_and_read_are_each_predicted_from_the_other() {
    assert!(claim("RF-C1").calibrated_on.contains(&"rf.pull_bw") && !claim("RF-C1").calibrated_on.contains(&"rf.push_bw"));
    assert!(claim("RF-C2").calibrated_on.contains(&"rf.push_bw") && !claim("RF-C2").calibrated_on.contains(&"rf.pull_bw"));
}

#[test]
fn cited_parameters_are_the_facts() {
    for parameter in (PAPER.parameters)().iter() {
        if let Source::Fact(key) = &parameter.source {
            assert_eq!(parameter.value, facts().number(key), "{}", parameter.key);
        }
    }
}

#[test]
fn equal_runs_give_equal_bytes() {
    let again = read(outcomes());
    assert_eq!(shared().text, again.text);
    assert_eq!(shared().charts, again.charts);
}

#[test]
fn lost_figures_are_drawn_and_events_are_charted() {
    for figure in 2..=6 {
        assert!(shared().figures.contains(&format!("RF figure {figure}")), "figure {figure}");
    }
    let charted: Vec<&str> = shared().charts.iter().map(|chart| chart.0).collect();
    assert_eq!(charted, ["primitives", "coherence", "lu"]);
}

#[test]
fn the_excess_of_polling_needs_the_servers_own_thread_to_leave_first() {
    let parameters = (PAPER.parameters)().with("lu.order", 256.0);
    let [rhinet, _] = Transport::both(&parameters);
    let time = |release: f64, completion| run(&parameters.with("lu.release", release), &rhinet, completion, 4, None).total;
    let (first, last) = (time(0.0, Completion::PollingYield), time(1.0, Completion::PollingYield));
    assert!(first > last, "{first} {last}");
    assert!(time(0.0, Completion::Interrupt) < first);
}

#[test]
fn any_order_of_matrix_and_any_number_of_nodes_ends() {
    for order in [8.0, 9.0, 33.0] {
        let parameters = (PAPER.parameters)().with("lu.order", order);
        for transport in Transport::both(&parameters) {
            for completion in Completion::ALL {
                for nodes in 1..=5 {
                    let run = run(&parameters, &transport, completion, nodes, None);
                    assert!(run.total >= run.compute, "{order} {nodes} {completion:?}");
                }
            }
        }
    }
}
