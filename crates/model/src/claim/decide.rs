//! From a judgement and its reads to a verdict.
use super::{ClaimResult, Judge, Judgement, OnDefaults, Reading, ReadingResult, Used, Verdict};
use crate::facts::facts;
use crate::parameters::{Parameters, Source};
use crate::reads::{Reads, during};

/// Whether a claim's first reading holds at these parameters; none where they cannot be run together.
pub fn holds_at(judge: &Judge, parameters: &Parameters) -> Option<bool> {
    judge.judge(parameters).0.map(|judgement| judgement.holds())
}

/// Facts read that the claim itself states, directly or through facts derived from them.
fn own(judge: &Judge, reads: &Reads) -> Vec<String> {
    let origins = facts().with_origins(reads.facts.iter().copied());
    facts().stated_by(judge.id).iter().filter(|fact| origins.contains(fact.as_str())).cloned().collect()
}

/// The other values of every parameter that the text leaves open, where they do not read the claim's own facts.
fn other_readings(judge: &Judge, parameters: &Parameters, reads: &Reads) -> Vec<ReadingResult> {
    let mut results = Vec::new();
    let fitted = judge.fit.map_or_else(|| parameters.clone(), |fit| (fit.run)(parameters));
    for parameter in fitted.iter().filter(|parameter| parameter.is_reading && reads.parameters.contains(parameter.key)) {
        for (index, choice) in parameter.choices.iter().enumerate().filter(|(index, _)| *index as f64 != parameter.value) {
            // The fit comes first, because a reading may be one of the parameters that it sets.
            let (judgement, reads) = during(|| {
                let fitted = judge.fit.map_or_else(|| parameters.clone(), |fit| (fit.run)(parameters));
                (judge.run)(&fitted.with(parameter.key, index as f64))
            });
            if let Some(judgement) = judgement
                && own(judge, &reads).is_empty()
            {
                results.push(ReadingResult { name: format!("{} = {choice}", parameter.key), holds: judgement.holds() });
            }
        }
    }
    results
}

fn verdict(judgement: &Judgement, own: &[String], readings: &[ReadingResult]) -> Verdict {
    if judgement.readings.is_empty() {
        return Verdict::NothingToTest;
    }
    let held = readings.iter().filter(|reading| reading.holds).count();
    let is_fixed = judgement.identity.is_some() || !own.is_empty();
    if held == 0 {
        Verdict::Differs
    } else if is_fixed && judgement.holds() {
        Verdict::ByConstruction
    } else if held < readings.len() {
        Verdict::InOneReading
    } else {
        Verdict::Reproduced
    }
}

fn reason(judgement: &Judgement, own: &[String], verdict: Verdict, readings: &[ReadingResult]) -> String {
    let mut text = judgement.reason.clone();
    let mut add = |sentence: String| {
        text.push(' ');
        text.push_str(&sentence);
    };
    match (verdict, &judgement.identity) {
        (Verdict::ByConstruction, Some(why)) => add(format!("By construction: {why}")),
        (Verdict::ByConstruction, None) => {
            let names: Vec<String> = own.iter().map(|key| facts().fact(key).named()).collect();
            add(format!("By construction: the model read what the claim itself states ({}).", names.join("; ")));
        }
        (Verdict::InOneReading, _) => {
            let list = |holds| {
                let named = readings.iter().filter(|reading| reading.holds == holds);
                named.map(|reading| reading.name.as_str()).collect::<Vec<_>>().join("; ")
            };
            add(format!("Holds: {}. Fails: {}.", list(true), list(false)));
        }
        _ => {}
    }
    text
}

fn used(parameters: &Parameters, reads: &Reads) -> Vec<Used> {
    let read = parameters.iter().filter(|parameter| reads.parameters.contains(parameter.key));
    read.map(|parameter| Used {
        key: parameter.key,
        value: parameter.shown(),
        unit: parameter.unit,
        source: parameter.source.to_string(),
        is_chosen: matches!(parameter.source, Source::Chosen(_)),
    })
    .collect()
}

/// Judges a claim: its fit, its readings, what it read.
///
/// A knife-edge is not looked for here, because it takes many runs: see [`crate::sensitivity`].
pub fn decide(judge: &Judge, parameters: &Parameters) -> Option<ClaimResult> {
    let (judgement, reads) = judge.judge(parameters);
    let judgement = judgement?;
    let own = own(judge, &reads);
    let named = |reading: &Reading| {
        let name = if reading.name.is_empty() { "as judged" } else { &reading.name };
        ReadingResult { name: name.to_string(), holds: reading.holds() }
    };
    let mut readings: Vec<ReadingResult> = judgement.readings.iter().map(named).collect();
    let fitted = judge.fit.map_or_else(|| parameters.clone(), |fit| (fit.run)(parameters));
    if !readings.is_empty() {
        readings.extend(other_readings(judge, parameters, &reads));
    }
    let verdict = verdict(&judgement, &own, &readings);
    let on_defaults =
        judge.fit.and_then(|_| (judge.run)(parameters)).map(|plain| OnDefaults { holds: plain.holds(), model: plain.model });
    Some(ClaimResult {
        id: judge.id,
        reason: reason(&judgement, &own, verdict, &readings),
        verdict,
        checks: judgement.readings.first().map(|reading| reading.checks.clone()).unwrap_or_default(),
        readings,
        calibrated_on: reads.facts.iter().copied().collect(),
        own,
        fit: judge.fit.map(|fit| fit.what),
        on_defaults,
        parameters: used(&fitted, &reads),
        model: judgement.model,
        finding: judgement.finding,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::{Check, Limit};
    use crate::parameters::Parameter;

    fn table() -> Parameters {
        Parameters::new(vec![
            Parameter::cited("gain", "d2.mm.speedup2", 0.0, 9.0, "the claim's own number"),
            Parameter::chosen("guess", 1.98, "x", (0.0, 9.0), "found by trying", "fitted").from(&["d2.mm.speedup2"]),
            Parameter::chosen("other", 1.97, "x", (0.0, 9.0), "from elsewhere", "free"),
            Parameter::choice("order", &["rows", "columns"], 0, Source::Chosen("not stated"), "a reading").reading(),
        ])
    }

    fn near(value: f64) -> Option<Judgement> {
        let checks = vec![Check::new("gain", value, "x", Limit::Near { printed: 1.99, tolerance: 0.06 })];
        Some(Judgement::new(format!("{value}"), "", checks))
    }

    fn verdict_of(run: fn(&Parameters) -> Option<Judgement>) -> ClaimResult {
        decide(&Judge::new("D2-C10", run), &table()).unwrap()
    }

    #[test]
    fn a_fit_to_the_own_claim_is_by_construction_however_it_is_read() {
        for run in [
            (|p| near(p.get("gain"))) as fn(&Parameters) -> Option<Judgement>,
            |p| near(p.get("guess")),
            |_| near(facts().number("d2.mm.speedup2")),
            |_| near(facts().number("d2.check.mm_speedup2")),
        ] {
            let result = verdict_of(run);
            assert_eq!(result.verdict, Verdict::ByConstruction, "{result:?}");
            assert!(!result.own.is_empty());
        }
        assert_eq!(verdict_of(|p| near(p.get("other"))).verdict, Verdict::Reproduced);
    }

    #[test]
    fn what_does_not_hold_differs_whatever_it_read() {
        assert_eq!(verdict_of(|p| near(p.get("gain") + 1.0)).verdict, Verdict::Differs);
    }

    #[test]
    fn a_reading_that_fails_is_found_and_named() {
        let result = verdict_of(|p| near(if p.choice("order") == 0 { 1.99 } else { 3.0 }));
        assert_eq!(result.verdict, Verdict::InOneReading);
        assert!(result.reason.contains("Fails: order = columns"), "{}", result.reason);
        let inside = verdict_of(|_| Some(near(1.99)?.or("a", "b", near(3.0)?.readings.remove(0).checks)));
        assert_eq!(inside.verdict, Verdict::InOneReading);
    }

    #[test]
    fn a_claim_left_out_of_its_fit_is_shown_on_the_defaults_too() {
        let judge = Judge::new("D2-C10", |p| near(p.get("guess"))).fitted("nothing of it", |p| p.fitted("guess", 2.0));
        let result = decide(&judge, &table()).unwrap();
        assert_eq!((result.verdict, result.own.len()), (Verdict::Reproduced, 0));
        assert_eq!(result.on_defaults.unwrap().model, "1.98");
    }

    #[test]
    fn nothing_to_test_is_no_agreement() {
        assert_eq!(verdict_of(|_| Some(Judgement::nothing("", "it is reported"))).verdict, Verdict::NothingToTest);
    }
}
