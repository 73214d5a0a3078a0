//! Every experiment of the Euphoria model against the paper's facts and claims.
use crate::same_bytes::repeats;
use hanare_model::facts::facts;
use hanare_model::papers::euphoria::PAPER;

#[test]
fn produced_facts_agree_with_the_paper() {
    let parameters = (PAPER.parameters)();
    let mut produced = 0;
    for experiment in PAPER.experiments {
        let outcome = experiment.outcome(&parameters);
        assert_eq!(outcome.disagreements(), Vec::<String>::new(), "{}", experiment.name);
        produced += outcome.produced.len();
    }
    assert!(produced >= 35, "only {produced} values were compared");
}

#[test]
fn every_claim_has_one_verdict() {
    let parameters = (PAPER.parameters)();
    let mut results: Vec<_> = PAPER.experiments.iter().flat_map(|experiment| experiment.outcome(&parameters).claims).collect();
    results.sort_by_key(|result| result.id.trim_start_matches("EU-C").parse::<u32>().unwrap());
    let expected: Vec<&str> =
        facts().claims.iter().filter(|claim| claim.paper == PAPER.id).map(|claim| claim.id.as_str()).collect();
    assert_eq!(results.iter().map(|result| result.id).collect::<Vec<_>>(), expected);
}

#[test]
fn runs_repeat() {
    let parameters = (PAPER.parameters)();
    repeats(&PAPER, &parameters);
}

#[test]
fn every_lost_figure_that_plots_is_drawn() {
    let parameters = (PAPER.parameters)();
    let plots: Vec<_> = PAPER.experiments.iter().flat_map(|experiment| experiment.outcome(&parameters).plots).collect();
    for figure in 5..=11 {
        let name = format!("EU figure {figure}");
        assert!(plots.iter().any(|plot| plot.figure.as_ref() == Some(&name)), "{name}");
    }
}
