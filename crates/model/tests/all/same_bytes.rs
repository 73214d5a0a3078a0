//! Same parameters, same bytes out: every experiment of every paper, run twice.
use hanare_model::experiment::Paper;
use hanare_model::outcome::Outcome;
use hanare_model::papers;
use hanare_model::parameters::Parameters;
use serde_json::json;

fn bytes(outcome: &Outcome) -> String {
    let trace = outcome.trace.as_ref().map(|trace| trace.to_json());
    json!({
        "tables": outcome.tables,
        "plots": outcome.plots,
        "headlines": outcome.headlines,
        "produced": outcome.produced,
        "claims": outcome.claims,
        "notes": outcome.notes,
        "trace": trace,
    })
    .to_string()
}

/// Runs each experiment of a paper twice, and compares all that it gives.
pub fn repeats(paper: &Paper, parameters: &Parameters) {
    for experiment in paper.experiments {
        let run = || bytes(&experiment.outcome(parameters));
        // Results are kept for each thread: another one computes them anew.
        let (first, second) = (run(), std::thread::scope(|scope| scope.spawn(run).join().expect("the run ends")));
        assert!(first == second, "{} {} gave other bytes the second time", paper.id, experiment.name);
    }
}

#[test]
fn every_experiment_repeats_itself() {
    papers().iter().for_each(|paper| repeats(paper, &(paper.parameters)()));
}

#[test]
fn every_experiment_says_what_it_shows_and_draws_or_tabulates() {
    for paper in papers() {
        let mut names: Vec<&str> = paper.experiments.iter().map(|experiment| experiment.name).collect();
        for experiment in paper.experiments {
            let outcome = experiment.outcome(&(paper.parameters)());
            let (id, name) = (paper.id, experiment.name);
            assert!(!experiment.shows.is_empty(), "{id} {name} does not say what it shows");
            assert!(!outcome.tables.is_empty() || !outcome.plots.is_empty(), "{id} {name} is empty");
            assert!(
                name.chars().all(|letter| letter.is_ascii_lowercase() || letter.is_ascii_digit() || letter == '-'),
                "{id} {name}"
            );
            assert!(outcome.plots.iter().all(|plot| !plot.lines.is_empty()), "{id} {name} has an empty plot");
        }
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), paper.experiments.len(), "{} has two experiments of one name", paper.id);
    }
}
