//! Runs every experiment and puts claims, figures and facts in the papers' order.
use crate::claim::{ClaimResult, Verdict};
use crate::experiment::Paper;
use crate::facts::{Claim, Fact, facts};
use crate::outcome::{Plot, Produced};

use super::{Measured, Measurements, ReportError, Summary};

/// One claim's row.
#[derive(Clone, Debug)]
pub struct Row {
    /// The claim as the paper states it.
    pub claim: &'static Claim,
    /// The facts the claim states, as values.
    pub paper: String,
    /// What the model says; empty where no model tried.
    pub model: String,
    /// What was measured here.
    pub measured: Option<Measured>,
    /// The verdict that counts: the model's, or the bench's where no model can say.
    pub verdict: Verdict,
    /// Why, from the model.
    pub reason: String,
    /// The facts the model was calibrated on.
    pub calibrated_on: Vec<&'static Fact>,
    /// The experiment that judged it, `dimmnet2-drivers matrix`; empty where none did.
    pub experiment: String,
}

/// A plot with the experiment that drew it.
pub struct Drawn {
    /// The paper's id.
    pub paper: &'static str,
    /// The experiment's name.
    pub experiment: &'static str,
    /// The plot.
    pub plot: Plot,
}

/// A produced fact with the experiment that produced it.
pub struct ProducedBy {
    /// The experiment's name.
    pub experiment: &'static str,
    /// The values.
    pub produced: Produced,
}

/// Everything a report shows.
pub struct Gathered {
    /// One row a claim, all of them, in the papers' order.
    pub rows: Vec<Row>,
    /// Every plot.
    pub plots: Vec<Drawn>,
    /// Every produced fact.
    pub produced: Vec<ProducedBy>,
    /// Whether measurements were given.
    pub is_measured: bool,
    /// The papers in order.
    pub papers: &'static [&'static Paper],
}

impl Gathered {
    /// How many claims came out how.
    pub fn summary(&self) -> Summary {
        let count = |verdict: Verdict| self.rows.iter().filter(|row| row.verdict == verdict).count();
        Summary {
            reproduced: count(Verdict::Reproduced),
            differs: count(Verdict::Differs),
            hardware_only: count(Verdict::HardwareOnly),
            not_tried: count(Verdict::NotTried),
        }
    }
}

/// Runs every experiment of `papers` at its defaults.
///
/// **Errors**: [`ReportError`]; the first circular verdict ends it.
pub fn gather(
    papers: &'static [&'static Paper],
    measured: Option<&Measurements>,
    progress: &mut dyn FnMut(usize, usize, &str),
) -> Result<Gathered, ReportError> {
    if let Some(id) = measured.into_iter().flat_map(|map| map.keys()).find(|id| facts().claim(id).is_none()) {
        return Err(ReportError::Claim(id.clone()));
    }
    let total = papers.iter().map(|paper| paper.experiments.len()).sum();
    let mut results: Vec<(String, ClaimResult)> = Vec::new();
    let (mut plots, mut produced, mut done) = (Vec::new(), Vec::new(), 0);
    for paper in papers {
        let parameters = (paper.parameters)();
        for experiment in paper.experiments {
            progress(done, total, &format!("{} {}", paper.id, experiment.name));
            let outcome = (experiment.run)(&parameters);
            if let Some(reason) = outcome.refused {
                return Err(ReportError::Refused { paper: paper.id, experiment: experiment.name, reason });
            }
            for claim in outcome.claims {
                claim.admit()?;
                results.push((format!("{} {}", paper.id, experiment.name), claim));
            }
            plots.extend(outcome.plots.into_iter().map(|plot| Drawn { paper: paper.id, experiment: experiment.name, plot }));
            produced.extend(outcome.produced.into_iter().map(|produced| ProducedBy { experiment: experiment.name, produced }));
            done += 1;
        }
    }
    progress(total, total, "done");
    let rows = facts().claims.iter().map(|claim| row(claim, &results, measured.and_then(|map| map.get(&claim.id)))).collect();
    Ok(Gathered { rows, plots, produced, is_measured: measured.is_some(), papers })
}

/// The row of a claim. Where two experiments judge it, the first that tried counts.
fn row(claim: &'static Claim, results: &[(String, ClaimResult)], measured: Option<&Measured>) -> Row {
    let tried = results.iter().filter(|(_, result)| result.id == claim.id);
    let best = tried.clone().find(|(_, result)| result.verdict != Verdict::NotTried).or(tried.clone().next());
    let (experiment, model, verdict, reason, keys) = match best {
        Some((experiment, result)) => {
            (experiment.clone(), result.model.clone(), result.verdict, result.reason.clone(), result.calibrated_on.clone())
        }
        None => (String::new(), String::new(), Verdict::NotTried, NO_MODEL.to_string(), Vec::new()),
    };
    let verdict = match (verdict, measured) {
        (Verdict::NotTried | Verdict::HardwareOnly, Some(measured)) => measured.verdict,
        _ => verdict,
    };
    Row {
        claim,
        paper: stated(&claim.id),
        model,
        measured: measured.cloned(),
        verdict,
        reason,
        calibrated_on: keys.into_iter().map(|key| facts().fact(key)).collect(),
        experiment,
    }
}

const NO_MODEL: &str = "No experiment of the paper's model speaks of this claim.";

/// The values of the facts a claim states, or nothing where it states an order and no number.
fn stated(id: &str) -> String {
    match facts().stated_by(id) {
        [key] => value(facts().fact(key)),
        keys => keys.iter().map(|key| format!("{key}: {}", value(facts().fact(key)))).collect::<Vec<_>>().join("; "),
    }
}

/// A fact's value with its relation and unit, as `about 1.99 x`.
pub(super) fn value(fact: &Fact) -> String {
    use crate::facts::Relation;
    let relation = match fact.rel {
        Relation::About => "about ",
        Relation::AtLeast => "at least ",
        Relation::AtMost => "at most ",
        Relation::Equal | Relation::Range | Relation::Set => "",
    };
    let value = match (fact.rel, fact.value.numbers().as_slice()) {
        (Relation::Range, [low, high]) => format!("{low} to {high}"),
        _ => fact.value.to_string(),
    };
    format!("{relation}{value} {}", fact.unit).trim_end().to_string()
}

/// One run of everything, for all tests of the report: it takes seconds.
#[cfg(test)]
pub(super) fn gathered_once() -> &'static Gathered {
    static GATHERED: std::sync::OnceLock<Gathered> = std::sync::OnceLock::new();
    GATHERED.get_or_init(|| gather(crate::papers(), None, &mut |_, _, _| {}).expect("every verdict stands on other facts"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Experiment;
    use crate::facts::Agreement;
    use crate::outcome::Outcome;
    use crate::parameters::Parameters;

    #[test]
    fn all_86_claims_have_a_row_and_a_reason() {
        let gathered = gathered_once();
        assert_eq!(gathered.rows.len(), 86);
        for row in &gathered.rows {
            assert!(!row.reason.trim().is_empty(), "{} has no reason", row.claim.id);
            let has_value = !row.model.is_empty();
            assert!(has_value || !matches!(row.verdict, Verdict::Reproduced | Verdict::Differs), "{} has no value", row.claim.id);
        }
    }

    #[test]
    fn every_printed_number_is_met() {
        let compared = gathered_once().produced.iter().map(|by| (by.experiment, by.produced.agreement()));
        let differ: Vec<_> = compared.filter(|(_, agreement)| matches!(agreement, Agreement::Differs(_))).collect();
        assert!(differ.is_empty(), "{differ:#?}");
    }

    fn circular(_: &Parameters) -> Outcome {
        let mut outcome = Outcome::new();
        outcome.claims.push(ClaimResult::judged("D2-C10", true, "1.99x", "fitted", &["d2.mm.speedup2"]));
        outcome
    }

    static FITTED: Paper = Paper {
        id: "fitted",
        title: "",
        summary: "",
        parameters: || Parameters::new(Vec::new()),
        experiments: &[Experiment { name: "fit", shows: "", takes_network: false, run: circular }],
    };

    #[test]
    fn a_circular_verdict_stops_the_report() {
        static PAPERS: [&Paper; 1] = [&FITTED];
        let error = gather(&PAPERS, None, &mut |_, _, _| {}).err();
        assert!(matches!(&error, Some(ReportError::Circular(circular)) if circular.id == "D2-C10"), "{error:?}");
    }

    #[test]
    fn a_bench_decides_what_no_model_can() {
        let claim = facts().claim("D2-C20").unwrap();
        let bench = Measured { value: "one source".to_string(), verdict: Verdict::Reproduced };
        assert_eq!(row(claim, &[], Some(&bench)).verdict, Verdict::Reproduced);
        let model = ClaimResult::judged("D2-C20", false, "no", "because", &[]);
        assert_eq!(row(claim, &[("x y".to_string(), model)], Some(&bench)).verdict, Verdict::Differs);
    }

    #[test]
    fn a_measurement_of_no_claim_is_refused() {
        let bench = Measured { value: String::new(), verdict: Verdict::Reproduced };
        let error = gather(&[], Some(&Measurements::from([("D2-C99".to_string(), bench)])), &mut |_, _, _| {}).err();
        assert_eq!(error, Some(ReportError::Claim("D2-C99".to_string())));
    }
}
