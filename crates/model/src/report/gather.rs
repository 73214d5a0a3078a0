//! Runs every experiment and puts claims, figures and facts in the papers' order.
use crate::claim::record::{Record, recorded};
use crate::claim::{ClaimResult, Verdict};
use crate::experiment::Paper;
use crate::facts::{Claim, Fact, facts};
use crate::outcome::{Plot, Produced};
use crate::parameters::Parameter;
use crate::reads::during;

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
    /// Efforts of which it read less than the whole, as `KEY = VALUE of WHOLE`.
    pub quick: Vec<String>,
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
            let (outcome, reads) = during(|| experiment.outcome(&parameters));
            let read = parameters.iter().filter(|parameter| reads.parameters.contains(parameter.key));
            let missing = |p: &Parameter| p.missing_effort().map(|whole| format!("{} = {} of {whole}", p.key, p.shown()));
            let quick: Vec<String> = read.filter_map(missing).collect();
            if let Some(reason) = outcome.refused {
                return Err(ReportError::Refused { paper: paper.id, experiment: experiment.name, reason });
            }
            results.extend(outcome.claims.into_iter().map(|claim| (format!("{} {}", paper.id, experiment.name), claim)));
            let drawn = |plot| Drawn { paper: paper.id, experiment: experiment.name, plot, quick: quick.clone() };
            plots.extend(outcome.plots.into_iter().map(drawn));
            produced.extend(outcome.produced.into_iter().map(|produced| ProducedBy { experiment: experiment.name, produced }));
            done += 1;
        }
    }
    progress(total, total, "done");
    let rows = facts().claims.iter().map(|claim| row(claim, &results)).collect();
    Ok(Gathered { rows, plots, produced, is_measured: false, papers })
}

/// The row of a claim.
fn row(claim: &'static Claim, results: &[(String, ClaimResult)]) -> Row {
    let found = results.iter().find(|(_, result)| result.id == claim.id);
    let result = found.map(|(_, result)| result.clone());
    let sensitivity = result.as_ref().and_then(|result| recorded().of(&claim.id, &result.checks));
    let verdict = result.as_ref().map_or(Verdict::NothingToTest, |result| result.verdict);
    Row {
        claim,
        paper: stated(&claim.id),
        result,
        measured: None,
        verdict,
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

    /// The values of a record are those of all conditions, so a model that gives others has no record.
    #[test]
    fn every_claim_has_a_record_of_these_models() {
        let open = gathered_once().rows.iter().filter(|row| row.verdict != Verdict::NothingToTest && row.sensitivity.is_none());
        let open: Vec<&str> = open.map(|row| row.claim.id.as_str()).collect();
        assert!(open.is_empty(), "{open:?}: record them anew with the example sensitivity");
    }

    /// The guard against circular claims reads facts, and 43 claims state none: the ten-fold box watches those.
    #[test]
    fn the_guard_fires_for_claims_that_state_no_number() {
        let rows = gathered_once().rows.iter().filter(|row| row.verdict == Verdict::ByConstruction);
        let fired = rows.filter(|row| facts().is_qualitative(&row.claim.id));
        assert!(fired.count() >= 5, "no qualitative claim is by construction");
        let stated = |row: &&Row| facts().is_qualitative(&row.claim.id) && row.verdict != Verdict::NothingToTest;
        let (boxed, bare): (Vec<&Row>, Vec<&Row>) = gathered_once()
            .rows
            .iter()
            .filter(stated)
            .partition(|row| row.sensitivity.is_some_and(|record| record.box10.points > 0));
        assert_eq!(boxed.len() + bare.len() + 3, 43, "three of them say nothing that a model could miss");
        // A claim without a box has nothing open in it: the guard fires at once.
        assert!(bare.len() <= 1 && bare.iter().all(|row| row.verdict == Verdict::ByConstruction), "{}", bare.len());
        for row in &gathered_once().rows {
            let is_open = matches!(row.verdict, Verdict::Reproduced | Verdict::KnifeEdge);
            assert!(
                !is_open || row.sensitivity.is_some_and(|record| !record.is_constant() && !record.is_mostly_constant()),
                "{}",
                row.claim.id
            );
        }
    }

    /// The one place where verdicts are written down, so that a change of a model shows what it decides anew.
    #[test]
    fn verdicts_are_those_of_the_record() {
        let of = |verdict: Verdict| {
            let rows = gathered_once().rows.iter().filter(|row| row.verdict == verdict);
            rows.map(|row| row.claim.id.as_str()).collect::<Vec<_>>().join(" ")
        };
        let expected = [
            (
                Verdict::Reproduced,
                "D3-C4 D3-C10 D3-C16 D3-C17 D3-C18 RF-C1 RF-C2 RF-C3 RF-C4 RF-C10 D2-C4 D2-C14 EU-C3 EU-C15 VQ-C5 VQ-C11 VQ-C12",
            ),
            (
                Verdict::InOneReading,
                "D3-C1 D3-C2 D3-C12 D3-C14 D3-C19 RF-C12 RF-C13 RF-C14 D2-C5 D2-C13 D2-C15 D2-C16 EU-C7 EU-C8 EU-C10 EU-C11 EU-C14 VQ-C1 VQ-C6 VQ-C7 VQ-C9",
            ),
            (Verdict::InAnotherReading, "D3-C5 RF-C9 EU-C16 VQ-C2"),
            (Verdict::KnifeEdge, "D3-C13 RF-C5 EU-C1 EU-C2 EU-C5"),
            (Verdict::Differs, "D3-C3 RF-C11 D2-C6 D2-C8 D2-C12 D2-C18 VQ-C4"),
            (Verdict::NothingToTest, "RF-C8 D2-C20 VQ-C13"),
        ];
        for (verdict, ids) in expected {
            assert_eq!(of(verdict), ids, "{verdict:?}");
        }
        assert_eq!(of(Verdict::ByConstruction).split(' ').count(), 29, "{}", of(Verdict::ByConstruction));
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
