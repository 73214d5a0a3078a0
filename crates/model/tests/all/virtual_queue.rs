//! Every experiment of the Virtual Queue model against the paper's facts and claims.
use std::sync::OnceLock;

use crate::same_bytes::repeats;
use hanare_model::facts::facts;
use hanare_model::outcome::Outcome;
use hanare_model::papers::virtual_queue::PAPER;

/// One run of each experiment with the defaults, for all tests.
fn outcomes() -> &'static [(&'static str, Outcome)] {
    static OUTCOMES: OnceLock<Vec<(&'static str, Outcome)>> = OnceLock::new();
    OUTCOMES.get_or_init(|| {
        let parameters = (PAPER.parameters)();
        PAPER.experiments.iter().map(|experiment| (experiment.name, experiment.outcome(&parameters))).collect()
    })
}

#[test]
fn produced_facts_agree_with_the_paper() {
    for (name, outcome) in outcomes() {
        assert_eq!(outcome.disagreements(), Vec::<String>::new(), "{name}");
    }
    let produced: usize = outcomes().iter().map(|(_, outcome)| outcome.produced.len()).sum();
    assert!(produced >= 4, "only {produced} values were compared");
}

#[test]
fn every_claim_has_one_verdict() {
    let mut results: Vec<_> = outcomes().iter().flat_map(|(_, outcome)| &outcome.claims).collect();
    results.sort_by_key(|result| result.id.trim_start_matches("VQ-C").parse::<u32>().unwrap());
    let expected: Vec<&str> =
        facts().claims.iter().filter(|claim| claim.paper == PAPER.id).map(|claim| claim.id.as_str()).collect();
    assert_eq!(results.iter().map(|result| result.id).collect::<Vec<_>>(), expected);
}

#[test]
fn no_order_of_the_loops_satisfies_both_claims_on_few_processors() {
    let (_, outcome) = outcomes().iter().find(|(name, _)| *name == "orders").expect("the experiment exists");
    let table = serde_json::to_value(&outcome.tables[0]).unwrap();
    let rows = table["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 4);
    assert!(rows.iter().all(|row| row[3] == "fails" || row[4] == "fails"), "{table}");
}

#[test]
fn defaults_of_the_context_caches_are_the_printed_ones() {
    let parameters = (PAPER.parameters)();
    for (key, fact) in [
        ("write_port.entries", "vq.fig5.write_port.entries"),
        ("ring.entries", "vq.fig5.ring.entries"),
        ("ring.ways", "vq.fig5.ring.assoc"),
        ("read_port.entries", "vq.fig5.read_port.entries"),
    ] {
        let range = facts().fact(fact).input().numbers();
        assert!((range[0]..=range[1]).contains(&parameters.get(key)), "{key}");
    }
}

#[test]
fn runs_repeat() {
    // A small product: the repetition does not depend on the size.
    let parameters = (PAPER.parameters)()
        .with("matrix.order", 64.0)
        .with("product.processors", 16.0)
        .with("scale.order", 64.0)
        .with("traffic.messages", 50.0);
    repeats(&PAPER, &parameters);
}

#[test]
fn figure_6_is_drawn() {
    let mut plots = outcomes().iter().flat_map(|(_, outcome)| &outcome.plots);
    assert!(plots.any(|plot| plot.figure.as_deref() == Some("VQ figure 6") && plot.lines.len() == 4));
}

#[test]
fn a_matrix_that_does_not_divide_is_refused_in_one_line() {
    let parameters = (PAPER.parameters)().with("matrix.order", 18.0);
    let refused = (PAPER.experiment("product").unwrap().run)(&parameters).refused.expect("18 words are not whole blocks");
    assert!(refused.contains("matrix.order=18") && !refused.contains('\n'), "{refused}");
}
