//! Runs every experiment and puts claims, figures and facts in the papers' order.
use crate::claim::{ClaimResult, Verdict};
use crate::experiment::Paper;
use crate::facts::{Claim, Fact, facts};
use crate::outcome::{Plot, Produced};
use crate::sensitivity::{Record, recorded};

use super::{Measured, Measurements, ReportError, Summary};

/// One claim's row.
#[derive(Clone, Debug)]
pub struct Row {
    /// The claim as the paper states it.
    pub claim: &'static Claim,
    /// The facts the claim states, as values.
    pub paper: String,
    /// What the model says; none where no experiment speaks of the claim.
    pub result: Option<ClaimResult>,
    /// What was measured here.
    pub measured: Option<Measured>,
    /// The verdict that counts.
    pub verdict: Verdict,
    /// How much it depends on chosen parameters, where that was examined.
    pub sensitivity: Option<&'static Record>,
    /// The experiment that judged it, `dimmnet2-drivers matrix`; empty where none did.
    pub experiment: String,
}

/// A plot with the experiment that drew it.
#[derive(Clone)]
pub struct Drawn {
    /// The paper's id.
    pub paper: &'static str,
    /// The experiment's name.
    pub experiment: &'static str,
    /// The plot.
    pub plot: Plot,
}

/// A produced fact with the experiment that produced it.
#[derive(Clone)]
pub struct ProducedBy {
    /// The experiment's name.
    pub experiment: &'static str,
    /// The values.
    pub produced: Produced,
}

/// Everything a report shows.
#[derive(Clone)]
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
    /// How many claims came out how, in the order of [`Verdict::ALL`].
    pub fn summary(&self) -> Summary {
        Summary { counts: Verdict::ALL.map(|verdict| self.rows.iter().filter(|row| row.verdict == verdict).count()) }
    }

    /// The same with what was measured here.
    ///
    /// **Errors**: [`ReportError::Claim`], for a measurement of no claim.
    pub fn measured(mut self, measured: &Measurements) -> Result<Gathered, ReportError> {
        if let Some(id) = measured.keys().find(|id| facts().claim(id).is_none()) {
            return Err(ReportError::Claim(id.clone()));
        }
        for row in &mut self.rows {
            row.measured = measured.get(&row.claim.id).cloned();
        }
        self.is_measured = true;
        Ok(self)
    }
}

/// Runs every experiment of `papers` at its defaults and judges every claim.
///
/// **Errors**: [`ReportError::Refused`], where an experiment refuses its own defaults.
pub fn gather(papers: &'static [&'static Paper], progress: &mut dyn FnMut(usize, usize, &str)) -> Result<Gathered, ReportError> {
    let total = papers.iter().map(|paper| paper.experiments.len()).sum();
    let mut results: Vec<(String, ClaimResult)> = Vec::new();
    let (mut plots, mut produced, mut done) = (Vec::new(), Vec::new(), 0);
    for paper in papers {
        let parameters = (paper.parameters)();
        for experiment in paper.experiments {
            progress(done, total, &format!("{} {}", paper.id, experiment.name));
            let outcome = experiment.outcome(&parameters);
            if let Some(reason) = outcome.refused {
                return Err(ReportError::Refused { paper: paper.id, experiment: experiment.name, reason });
            }
            results.extend(outcome.claims.into_iter().map(|claim| (format!("{} {}", paper.id, experiment.name), claim)));
            plots.extend(outcome.plots.into_iter().map(|plot| Drawn { paper: paper.id, experiment: experiment.name, plot }));
            produced.extend(outcome.produced.into_iter().map(|produced| ProducedBy { experiment: experiment.name, produced }));
            done += 1;
        }
    }
    progress(total, total, "done");
    let rows = facts().claims.iter().map(|claim| row(claim, &results)).collect();
    Ok(Gathered { rows, plots, produced, is_measured: false, papers })
}

/// The row of a claim; a step that flips a reproduced one makes it a knife-edge.
fn row(claim: &'static Claim, results: &[(String, ClaimResult)]) -> Row {
    let found = results.iter().find(|(_, result)| result.id == claim.id);
    let result = found.map(|(_, result)| result.clone());
    let sensitivity = result.as_ref().and_then(|result| recorded().of(&claim.id, &result.checks));
    let judged = result.as_ref().map_or(Verdict::NothingToTest, |result| result.verdict);
    let is_edge = judged == Verdict::Reproduced && sensitivity.is_some_and(|record| !record.flips.is_empty());
    Row {
        claim,
        paper: stated(&claim.id),
        result,
        measured: None,
        verdict: if is_edge { Verdict::KnifeEdge } else { judged },
        sensitivity,
        experiment: found.map(|(experiment, _)| experiment.clone()).unwrap_or_default(),
    }
}

/// Facts of a claim that its card names.
const STATED_MAX: usize = 4;

/// The values of the facts a claim states, or nothing where it states an order and no number.
fn stated(id: &str) -> String {
    match facts().stated_by(id) {
        [key] => value(facts().fact(key)),
        keys => {
            // The rest stands among the facts of the paper.
            let facts = keys.iter().take(STATED_MAX).map(|key| facts().fact(key));
            facts.map(|fact| format!("{}: {}", fact.label(), value(fact))).collect::<Vec<_>>().join("; ")
        }
    }
}

/// A fact's value with its relation and unit, as `about 1.99 x`.
pub(super) fn value(fact: &Fact) -> String {
    use crate::facts::Relation;
    // Words carry their own relation.
    let is_number = !fact.printed().numbers().is_empty();
    let relation = match fact.rel {
        _ if !is_number => "",
        Relation::About => "about ",
        Relation::AtLeast => "at least ",
        Relation::AtMost => "at most ",
        Relation::Equal | Relation::Range | Relation::Set => "",
    };
    let value = match (fact.rel, fact.printed().numbers().as_slice()) {
        (Relation::Range, [low, high]) => format!("{low} to {high}"),
        _ => fact.printed().to_string(),
    };
    format!("{relation}{value} {}", fact.unit).trim_end().to_string()
}

/// One run of everything, for all tests of the report: it takes seconds.
#[cfg(test)]
pub(super) fn gathered_once() -> &'static Gathered {
    static GATHERED: std::sync::OnceLock<Gathered> = std::sync::OnceLock::new();
    GATHERED.get_or_init(|| gather(crate::papers(), &mut |_, _, _| {}).expect("every experiment runs at its defaults"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::Agreement;

    #[test]
    fn every_claim_is_judged_with_a_reason() {
        let gathered = gathered_once();
        assert_eq!(gathered.rows.len(), facts().claims.len());
        for row in &gathered.rows {
            let result = row.result.as_ref().unwrap_or_else(|| panic!("no experiment judges {}", row.claim.id));
            assert!(!result.reason.trim().is_empty(), "{} has no reason", row.claim.id);
            assert_eq!(result.checks.is_empty(), row.verdict == Verdict::NothingToTest, "{}", row.claim.id);
        }
    }

    #[test]
    fn every_verdict_but_nothing_is_counted() {
        let summary = gathered_once().summary();
        assert_eq!(summary.counts.iter().sum::<usize>(), facts().claims.len());
        assert!(summary.counts.iter().all(|count| *count > 0), "{summary:?}");
    }

    #[test]
    fn no_reproduced_claim_read_what_it_states() {
        for row in gathered_once().rows.iter().filter(|row| matches!(row.verdict, Verdict::Reproduced | Verdict::KnifeEdge)) {
            let result = row.result.as_ref().unwrap();
            assert!(result.own.is_empty(), "{}: {:?}", row.claim.id, result.own);
            assert!(result.readings.iter().all(|reading| reading.holds), "{}", row.claim.id);
        }
    }

    #[test]
    fn every_printed_number_is_met() {
        let compared = gathered_once().produced.iter().map(|by| (by.experiment, by.produced.agreement()));
        let differ: Vec<_> = compared.filter(|(_, agreement)| matches!(agreement, Agreement::Differs(_))).collect();
        assert!(differ.is_empty(), "{differ:#?}");
    }

    #[test]
    fn a_relation_is_said_once() {
        assert_eq!(value(facts().fact("d3.server_reduction")), "about one order of magnitude");
        assert_eq!(value(facts().fact("d2.mm.speedup2")), "about 1.99 x");
    }

    #[test]
    fn a_measurement_of_no_claim_is_refused() {
        let bench = Measured { value: String::new(), verdict: Verdict::Reproduced };
        let empty = Gathered { rows: Vec::new(), plots: Vec::new(), produced: Vec::new(), is_measured: false, papers: &[] };
        let error = empty.measured(&Measurements::from([("D2-C99".to_string(), bench)])).err();
        assert_eq!(error, Some(ReportError::Claim("D2-C99".to_string())));
    }
}
