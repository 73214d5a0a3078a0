//! From a judgement and its reads to a verdict.
use std::collections::BTreeMap;

use super::joint::{Joint, joint};
use super::record::{Record, recorded};
use super::{ClaimResult, Judge, Judgement, OnDefaults, Reading, ReadingResult, Used, Verdict};
use crate::facts::facts;
use crate::parameters::{Parameter, Parameters, Source};
use crate::reads::Reads;

/// The other values of every parameter that the text leaves open, alone and together. Those that read the claim's own facts are left out.
fn other_readings(judge: &Judge, parameters: &Parameters, reads: &Reads) -> (Vec<ReadingResult>, Joint) {
    let fitted = judge.fit.map_or_else(|| parameters.clone(), |fit| (fit.run)(parameters));
    let is_switch = |parameter: &&Parameter| parameter.is_reading && reads.parameters.contains(parameter.key);
    let switches: Vec<&Parameter> = fitted.iter().filter(is_switch).collect();
    let (mut results, mut alone) = (Vec::new(), BTreeMap::new());
    for parameter in &switches {
        for (index, choice) in parameter.choices.iter().enumerate().filter(|(index, _)| *index as f64 != parameter.value) {
            let (judgement, reads) = judge.judge_with(parameters, &[(parameter.key, index)]);
            if let Some(judgement) = judgement
                && judge.own_facts(&reads).is_empty()
            {
                let holds = judgement.holds();
                alone.insert((parameter.key, index), holds);
                results.push(ReadingResult { name: format!("{} = {choice}", parameter.key), holds });
            }
        }
    }
    let joint = joint(judge, parameters, &switches, &|key, index| alone.get(&(key, index)).copied());
    (results, joint)
}

/// The verdict: readings before boxes, because a claim that depends on a reading is open whatever the numbers are.
///
/// Where these parameters have no record, the boxes say nothing.
fn verdict(
    judgement: &Judgement,
    own: &[String],
    (readings, joint): (&[ReadingResult], &Joint),
    record: Option<&Record>,
) -> Verdict {
    if judgement.readings.is_empty() {
        return Verdict::NothingToTest;
    }
    let held = readings.iter().filter(|reading| reading.holds).count() + joint.held;
    let is_fixed = judgement.identity.is_some() || !own.is_empty();
    match (judgement.holds(), held == readings.len() + joint.tried) {
        _ if held == 0 => Verdict::Differs,
        (true, _) if is_fixed => Verdict::ByConstruction,
        (true, false) => Verdict::InOneReading,
        (false, _) => Verdict::InAnotherReading,
        _ if record.is_some_and(|record| record.is_constant() || record.is_mostly_constant()) => Verdict::ByConstruction,
        _ if record.is_some_and(Record::is_edge) => Verdict::KnifeEdge,
        _ => Verdict::Reproduced,
    }
}

/// The sentence on a claim that no box moves.
fn constant(record: &Record) -> String {
    let Record { box10, constant, values, .. } = record;
    if box10.points == 0 {
        return "By construction: nothing that the paper leaves open takes part, so its own numbers decide.".to_string();
    }
    let share = format!("{} of {} points of the ten-fold box", box10.held, box10.points);
    if record.is_constant() {
        return format!("By construction: it comes out the same in {share}.");
    }
    let conditions =
        format!("{} of {} conditions hold wherever it was tried ({})", constant.len(), values.len(), constant.join("; "));
    format!("Mostly by construction: {conditions}; the whole comes out the same in {share}.")
}

fn reason(
    judgement: &Judgement,
    own: &[String],
    verdict: Verdict,
    (readings, joint): (&[ReadingResult], &Joint),
    record: Option<&Record>,
) -> String {
    let mut text = judgement.reason.clone();
    let mut add = |sentence: String| {
        text.push(' ');
        text.push_str(&sentence);
    };
    match (verdict, &judgement.identity) {
        (Verdict::ByConstruction, Some(why)) => add(format!("By construction: {why}")),
        (Verdict::ByConstruction, None) if own.is_empty() => add(record.map(constant).unwrap_or_default()),
        (Verdict::ByConstruction, None) => {
            let names: Vec<String> = own.iter().map(|key| facts().fact(key).named()).collect();
            add(format!("By construction: the model read what the claim itself states ({}).", names.join("; ")));
        }
        (Verdict::KnifeEdge, _) => {
            if let Some(record) = record {
                add(edge(record));
            }
        }
        (Verdict::InOneReading | Verdict::InAnotherReading, _) => {
            let list = |holds| {
                let named = readings.iter().filter(|reading| reading.holds == holds);
                named.map(|reading| reading.name.as_str()).collect::<Vec<_>>().join("; ")
            };
            let named = [("Holds", list(true)), ("Fails", list(false))];
            let named = named.iter().filter(|(_, names)| !names.is_empty());
            add(named.map(|(word, names)| format!("{word}: {names}.")).collect::<Vec<_>>().join(" "));
            joint.sentence().into_iter().for_each(&mut add);
            for choice in record.iter().flat_map(|record| &record.choices) {
                let is_other = readings.iter().any(|reading| reading.holds && reading.name == choice.name);
                if verdict == Verdict::InAnotherReading && is_other && choice.holds == choice.points {
                    add(format!("With {} it cannot fail: {} of {} points hold.", choice.name, choice.holds, choice.points));
                }
            }
        }
        _ => {}
    }
    text
}

/// The sentence on a claim that little moves.
fn edge(record: &Record) -> String {
    let Record { box2, flips, .. } = record;
    let boxed = (2 * box2.held < box2.points)
        .then(|| format!("it comes out the same in {} of {} points of the two-fold box", box2.held, box2.points));
    let flipped = (!flips.is_empty()).then(|| format!("it flips with {}", flips.join("; ")));
    format!("Knife-edge: {}.", boxed.into_iter().chain(flipped).collect::<Vec<_>>().join("; "))
}

fn used(parameters: &Parameters, reads: &Reads) -> Vec<Used> {
    let read = parameters.iter().filter(|parameter| reads.parameters.contains(parameter.key));
    read.map(|parameter| Used {
        key: parameter.key,
        value: parameter.shown(),
        unit: parameter.unit,
        source: parameter.source.to_string(),
        is_chosen: matches!(parameter.source, Source::Chosen(_)),
        whole: parameter.missing_effort(),
    })
    .collect()
}

/// Judges a claim: its fit, its readings, what it read.
///
/// The boxes and the longest runs come from the record, because they take thousands of runs: see [`super::record`].
pub fn decide(judge: &Judge, parameters: &Parameters) -> Option<ClaimResult> {
    let (judgement, reads) = judge.judge(parameters);
    let judgement = judgement?;
    let own = judge.own_facts(&reads);
    let checks = judgement.readings.first().map(|reading| reading.checks.clone()).unwrap_or_default();
    let record = recorded().of(judge.id, &checks);
    let named = |reading: &Reading| {
        let name = if reading.name.is_empty() { "as judged" } else { &reading.name };
        ReadingResult { name: name.to_string(), holds: reading.holds() }
    };
    let mut readings: Vec<ReadingResult> = judgement.readings.iter().map(named).collect();
    let fitted = judge.fit.map_or_else(|| parameters.clone(), |fit| (fit.run)(parameters));
    let mut joint = Joint::default();
    if !readings.is_empty() {
        let (others, together) = other_readings(judge, parameters, &reads);
        readings.extend(others);
        joint = together;
        let whole = record.iter().flat_map(|record| &record.whole);
        readings.extend(whole.map(|run| ReadingResult { name: format!("{}, as recorded", run.name), holds: run.holds }));
    }
    let verdict = verdict(&judgement, &own, (&readings, &joint), record);
    let on_defaults =
        judge.fit.and_then(|_| (judge.run)(parameters)).map(|plain| OnDefaults { holds: plain.holds(), model: plain.model });
    Some(ClaimResult {
        id: judge.id,
        reason: reason(&judgement, &own, verdict, (&readings, &joint), record),
        verdict,
        checks,
        readings,
        joint,
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
    use crate::claim::record::Share;
    use crate::claim::{Check, Limit};

    fn table() -> Parameters {
        Parameters::of_rows(
            r#"
            { key = "gain", fact = "d2.mm.speedup2", range = [0, 9], meaning = "the claim's own number" },
            { key = "guess", value = 1.98, unit = "x", range = [0, 9], why = "found by trying", from = ["d2.mm.speedup2"], meaning = "fitted" },
            { key = "other", value = 1.97, unit = "x", range = [0, 9], why = "from elsewhere", meaning = "free" },
            { key = "order", value = "rows", choices = ["rows", "columns"], why = "not stated", reading = true, meaning = "a reading" },
            { key = "join", value = "loop", choices = ["loop", "hash"], why = "not stated", reading = true, meaning = "a reading" },
        "#,
        )
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
    fn readings_that_change_nothing_alone_are_tried_together() {
        static FAILS: Judge = Judge::new("D2-C10", |p| near(if is_both(p) { 3.0 } else { 1.99 }));
        static HOLDS: Judge = Judge::new("D2-C10", |p| near(if is_both(p) { 1.99 } else { 3.0 }));
        fn is_both(p: &Parameters) -> bool {
            p.choice("order") + p.choice("join") == 2
        }
        let result = decide(&FAILS, &table()).unwrap();
        assert_eq!((result.verdict, result.joint.tried, result.joint.held), (Verdict::InOneReading, 1, 0), "{result:?}");
        assert!(result.readings.iter().all(|reading| reading.holds), "{result:?}");
        assert!(
            result.reason.contains("0 of 1 combinations, unlike each alone with order = columns, join = hash"),
            "{}",
            result.reason
        );
        assert_eq!(decide(&HOLDS, &table()).unwrap().verdict, Verdict::InAnotherReading);
    }

    #[test]
    fn a_claim_left_out_of_its_fit_is_shown_on_the_defaults_too() {
        let judge = Judge::new("D2-C10", |p| near(p.get("guess"))).fitted("nothing of it", |p| p.fitted("guess", 2.0));
        let result = decide(&judge, &table()).unwrap();
        assert_eq!((result.verdict, result.own.len()), (Verdict::Reproduced, 0));
        assert_eq!(result.on_defaults.unwrap().model, "1.98");
    }

    /// A claim that states no number and holds in each reading: the boxes alone decide it.
    #[test]
    fn a_box_fires_where_no_fact_is_the_claims_own() {
        let judgement = near(1.99).unwrap();
        let share = |held| Share { points: 100, held };
        let of = |box2, box10, constant: &[&str], flips: &[&str]| {
            let named = |names: &[&str]| names.iter().map(|name| name.to_string()).collect();
            let (what, unit, choices, whole, bars) = Default::default();
            let (constant, flips, values) = (named(constant), named(flips), vec![1.99; 3]);
            let record =
                Record { what, value: 1.99, unit, values, box2, box10, band: None, constant, choices, whole, flips, bars };
            let held = [ReadingResult { name: "as judged".to_string(), holds: true }];
            verdict(&judgement, &[], (&held, &Joint::default()), Some(&record))
        };
        assert_eq!(of(share(100), share(98), &[], &[]), Verdict::ByConstruction);
        assert_eq!(of(share(100), share(97), &[], &[]), Verdict::Reproduced);
        assert_eq!(of(share(100), share(60), &["a", "b"], &[]), Verdict::ByConstruction);
        assert_eq!(of(share(100), share(60), &["a"], &["order = rows"]), Verdict::KnifeEdge);
        assert_eq!(of(share(49), share(60), &["a"], &[]), Verdict::KnifeEdge);
    }

    #[test]
    fn nothing_to_test_is_no_agreement() {
        assert_eq!(verdict_of(|_| Some(Judgement::nothing("", "it is reported"))).verdict, Verdict::NothingToTest);
    }
}
