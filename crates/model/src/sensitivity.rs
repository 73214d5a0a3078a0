//! The runs behind the record of each claim ([`Record`]): points of both boxes, steps, halves and doubles of every paper.
use std::collections::BTreeMap;

use crate::claim::record::{Bar, Choice, Record, Recorded, Share, Whole};
use crate::claim::{Check, Judge, Judgement};
use crate::experiment::Paper;
use crate::facts::facts;
use crate::parameters::{Parameter, Parameters, Source};
use crate::reads::Reads;

/// Parameters that a tornado shows.
pub const BARS_MAX: usize = 5;
/// A step of a number that is not counted.
const STEP_SHARE: f64 = 0.05;
/// Counts from this on step by a share: one of a thousand is no step.
const COUNT_STEPS_TO: f64 = 100.0;

/// How many points of each box are tried: the Virtual Queue's product takes seconds a point.
fn points_of(paper: &Paper) -> [usize; 2] {
    if paper.id == "virtual-queue" { [16, 48] } else { [100, 200] }
}

/// A number that a box varies: in no paper, or in contradiction to its own.
fn is_varied(parameter: &Parameter) -> bool {
    let is_open = match parameter.source {
        Source::Chosen(_) => true,
        Source::Fact(key) => facts().fact(key).suspect,
        Source::Fitted => false,
    };
    is_open && parameter.choices.is_empty() && !parameter.is_effort && parameter.unit != "seed" && parameter.value != 0.0
}

/// A value that the parameter accepts, nearest to the one asked for.
fn accepted(parameter: &Parameter, value: f64) -> f64 {
    let value = if parameter.is_counted() { value.round() } else { value };
    value.clamp(parameter.low, parameter.high)
}

/// The values one step below and above, as far as the parameter accepts them: one of what is counted, else a share.
///
/// A size in powers of two, as that of a line or a bus, has no small step; the box holds its half and its double.
fn steps(parameter: &Parameter) -> Vec<f64> {
    let value = parameter.value;
    let is_size = parameter.unit == "B" && value >= 4.0 && value.log2().fract() == 0.0;
    if is_size {
        return Vec::new();
    }
    let pair = if parameter.is_counted() && value <= COUNT_STEPS_TO {
        [value - 1.0, value + 1.0]
    } else {
        [value * (1.0 - STEP_SHARE), value * (1.0 + STEP_SHARE)]
    };
    let rounded = pair.map(|value| if parameter.is_counted() { value.round() } else { value });
    rounded.into_iter().filter(|value| (parameter.low..=parameter.high).contains(value)).collect()
}

/// What a run is for.
enum Purpose {
    /// A point of the two-fold box.
    Two,
    /// A point of the ten-fold box, with its choices as `KEY = CHOICE`.
    Ten(Vec<(&'static str, String)>),
    /// A step of one parameter, and how it is named.
    Step(&'static str, String),
    /// Half or twice one parameter.
    Half(&'static str, bool),
    /// A whole effort.
    Whole(&'static str, String),
}

/// A generator of its own, so that the points never change.
struct Draw(u64);

impl Draw {
    /// From 0 up to and without 1.
    fn share(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Every number that is varied between a part and a multiple, evenly in the logarithm.
    fn numbers(&mut self, defaults: &Parameters, varied: &[Parameter], fold: f64) -> Parameters {
        varied.iter().fold(defaults.clone(), |point, parameter| {
            let value = parameter.value * fold.powf(2.0 * self.share() - 1.0);
            point.with(parameter.key, accepted(parameter, value))
        })
    }
}

/// Every run of a paper: the same points for all of its claims, so that what they share is run once.
fn runs(defaults: &Parameters, [two, ten]: [usize; 2]) -> Vec<(Purpose, Parameters)> {
    let varied: Vec<Parameter> = defaults.iter().filter(|parameter| is_varied(parameter)).cloned().collect();
    let structure: Vec<Parameter> = defaults.iter().filter(|parameter| parameter.is_reading).cloned().collect();
    let mut runs = Vec::new();
    for parameter in &varied {
        for value in steps(parameter) {
            let name = format!("{} = {} {}", parameter.key, crate::text::number(value), parameter.unit);
            runs.push((Purpose::Step(parameter.key, name), defaults.with(parameter.key, value)));
        }
        for (factor, is_high) in [(0.5, false), (2.0, true)] {
            let value = accepted(parameter, parameter.value * factor);
            runs.push((Purpose::Half(parameter.key, is_high), defaults.with(parameter.key, value)));
        }
    }
    for parameter in defaults.iter() {
        if let Some(whole) = parameter.whole {
            let name = format!("{} = {}", parameter.key, crate::text::number(whole));
            runs.push((Purpose::Whole(parameter.key, name), defaults.with(parameter.key, whole)));
        }
    }
    let mut draw = Draw(1);
    for _ in 0..two {
        runs.push((Purpose::Two, draw.numbers(defaults, &varied, 2.0)));
    }
    for _ in 0..ten {
        let mut point = draw.numbers(defaults, &varied, 10.0);
        let mut choices = Vec::new();
        for parameter in &structure {
            let index = (draw.share() * parameter.choices.len() as f64) as usize;
            point = point.with(parameter.key, index as f64);
            choices.push((parameter.key, format!("{} = {}", parameter.key, parameter.choices[index])));
        }
        runs.push((Purpose::Ten(choices), point));
    }
    runs
}

/// One claim while it is examined.
struct Examined {
    judge: &'static Judge,
    reads: Reads,
    holds: bool,
    /// Whether a number that is varied takes part, and whether that or a structural switch does.
    is_moved: [bool; 2],
    decides: usize,
    record: Record,
    values: Vec<f64>,
    constant: Vec<bool>,
    bars: BTreeMap<&'static str, [f64; 2]>,
}

impl Examined {
    fn new(judge: &'static Judge, defaults: &Parameters) -> Option<Examined> {
        let (judgement, reads) = judge.judge(defaults);
        let judgement = judgement?;
        let checks = &judgement.readings.first()?.checks;
        let least = |one: &(usize, &Check), two: &(usize, &Check)| one.1.margin().total_cmp(&two.1.margin());
        // Where the claim fails, the condition that fails most decides.
        let (decides, check) = checks.iter().enumerate().min_by(least)?;
        let record = Record {
            what: check.what.clone(),
            value: check.value,
            unit: check.unit.to_string(),
            values: checks.iter().map(|check| check.value).collect(),
            box2: Share::default(),
            box10: Share::default(),
            band: None,
            constant: Vec::new(),
            choices: Vec::new(),
            whole: Vec::new(),
            flips: Vec::new(),
            bars: Vec::new(),
        };
        let takes_part = |is: fn(&Parameter) -> bool| defaults.iter().any(|p| is(p) && reads.parameters.contains(p.key));
        let is_moved = [takes_part(is_varied), takes_part(|parameter| is_varied(parameter) || parameter.is_reading)];
        let constant = checks.iter().map(Check::holds).collect();
        let (holds, values, bars) = (judgement.holds(), Vec::new(), BTreeMap::new());
        Some(Examined { judge, reads, holds, is_moved, decides, record, values, constant, bars })
    }

    fn take(&mut self, purpose: &Purpose, parameters: &Parameters) {
        let takes_part = match purpose {
            Purpose::Step(key, _) | Purpose::Half(key, _) | Purpose::Whole(key, _) => self.reads.parameters.contains(key),
            Purpose::Two => self.is_moved[0],
            Purpose::Ten(_) => self.is_moved[1],
        };
        if !takes_part {
            return;
        }
        let (judgement, reads) = self.judge.judge(parameters);
        let Some(judgement) = judgement else { return };
        let is_same = judgement.holds() == self.holds;
        let check = judgement.readings.first().and_then(|reading| reading.checks.get(self.decides));
        let value = check.map(|check| check.value).filter(|value| value.is_finite());
        match purpose {
            Purpose::Two => {
                self.record.box2.add(is_same);
                self.values.extend(value);
            }
            // A choice that reads what the claim states repeats the claim.
            Purpose::Ten(choices) if self.judge.own_facts(&reads).is_empty() => self.take_wide(choices, &judgement),
            Purpose::Ten(_) => {}
            Purpose::Step(_, name) if !is_same => self.record.flips.push(name.clone()),
            Purpose::Step(..) => {}
            Purpose::Half(key, is_high) => {
                if let Some(value) = value {
                    self.bars.entry(key).or_insert([self.record.value; 2])[usize::from(*is_high)] = value;
                }
            }
            Purpose::Whole(_, name) => {
                let value = value.unwrap_or(self.record.value);
                self.record.whole.push(Whole { name: name.clone(), value, holds: judgement.holds() });
            }
        }
    }

    fn take_wide(&mut self, choices: &[(&'static str, String)], judgement: &Judgement) {
        self.record.box10.add(judgement.holds() == self.holds);
        let checks = judgement.readings.iter().take(1).flat_map(|reading| &reading.checks);
        self.constant.iter_mut().zip(checks).for_each(|(constant, check)| *constant &= check.holds());
        for (_, name) in choices.iter().filter(|(key, _)| self.reads.parameters.contains(key)) {
            let known = self.record.choices.iter().position(|choice| choice.name == *name);
            let index = known.unwrap_or_else(|| {
                self.record.choices.push(Choice { name: name.clone(), points: 0, holds: 0 });
                self.record.choices.len() - 1
            });
            self.record.choices[index].points += 1;
            self.record.choices[index].holds += usize::from(judgement.holds());
        }
    }

    fn finish(mut self, judgement: &Judgement) -> Record {
        let mut bars: Vec<Bar> =
            self.bars.iter().map(|(key, [low, high])| Bar { key: (*key).to_string(), low: *low, high: *high }).collect();
        let base = self.record.value;
        let reach = |bar: &Bar| (bar.low - base).abs().max((bar.high - base).abs());
        bars.retain(|bar| reach(bar) > 1e-6 * base.abs());
        bars.sort_by(|one, two| reach(two).total_cmp(&reach(one)));
        bars.truncate(BARS_MAX);
        self.record.bars = bars;
        self.record.choices.sort_by(|one, two| one.name.cmp(&two.name));
        self.values.sort_by(f64::total_cmp);
        let last = self.values.len().saturating_sub(1) as f64;
        let at = |share: f64| self.values.get((share * last).round() as usize).copied();
        self.record.band = at(0.1).zip(at(0.9)).map(|(low, high)| [low, high]);
        let checks = judgement.readings.iter().take(1).flat_map(|reading| &reading.checks);
        let constant = checks.zip(&self.constant).filter(|(_, constant)| **constant && self.record.box10.points > 0);
        self.record.constant = constant.map(|(check, _)| check.what.clone()).collect();
        self.record
    }
}

/// The hash of each paper's default parameters.
pub fn fingerprints(papers: &[&'static Paper]) -> BTreeMap<String, String> {
    papers.iter().map(|paper| (paper.id.to_string(), format!("{:016x}", (paper.parameters)().fingerprint()))).collect()
}

/// Examines every claim of these papers. `progress` hears how many runs are done, how many there are, and the paper.
///
/// **Cost**: minutes; a run of a whole paper's claims for each of some hundred points.
pub fn examine(papers: &[&'static Paper], progress: &mut dyn FnMut(usize, usize, &str)) -> Recorded {
    let plans: Vec<_> = papers.iter().map(|paper| (*paper, (paper.parameters)())).collect();
    let plans: Vec<_> = plans.into_iter().map(|(paper, defaults)| (paper, runs(&defaults, points_of(paper)), defaults)).collect();
    let total = plans.iter().map(|(_, runs, _)| runs.len()).sum();
    let (mut claims, mut done) = (BTreeMap::new(), 0);
    for (paper, runs, defaults) in plans {
        let mut examined: Vec<Examined> = paper.judges().filter_map(|(_, judge)| Examined::new(judge, &defaults)).collect();
        for (purpose, parameters) in &runs {
            progress(done, total, paper.id);
            examined.iter_mut().for_each(|claim| claim.take(purpose, parameters));
            done += 1;
        }
        for claim in examined {
            let Some(judgement) = claim.judge.judge(&defaults).0 else { continue };
            claims.insert(claim.judge.id.to_string(), claim.finish(&judgement));
        }
    }
    progress(total, total, "done");
    Recorded { parameters: fingerprints(papers), claims }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claim::Limit;
    use crate::claim::record::recorded;
    use crate::papers::rhinet_fagus;

    #[test]
    fn one_clock_of_a_burst_flips_the_gain_of_the_page_cache() {
        let judge = rhinet_fagus::PAPER.judges().find(|(_, judge)| judge.id == "RF-C5").map(|(_, judge)| judge).unwrap();
        let defaults = (rhinet_fagus::PAPER.parameters)();
        let mut claim = Examined::new(judge, &defaults).unwrap();
        for (purpose, parameters) in runs(&defaults, [0, 0]) {
            claim.take(&purpose, &parameters);
        }
        let record = claim.finish(&judge.judge(&defaults).0.unwrap());
        assert!(record.flips.iter().any(|flip| flip.starts_with("pci.wait = 8")), "{record:?}");
        assert!(record.bars.len() == BARS_MAX && record.bars.iter().any(|bar| bar.key == "pci.wait"), "{record:?}");
    }

    /// A claim without a stated fact: "the one takes longer than the other".
    static CANNOT_FAIL: Judge = Judge::new("RF-C7", |p| one_over_other(p, 0.0));
    static MAY_FAIL: Judge = Judge::new("RF-C7", |p| one_over_other(p, -300.0));
    static BY_ONE_CHOICE: Judge = Judge::new("RF-C7", |p| one_over_other(p, -300.0 * p.get("order")));

    fn one_over_other(parameters: &Parameters, less: f64) -> Option<Judgement> {
        let one = parameters.get("step");
        let checks = vec![
            Check::new("one over other", (2.0 * one + less).max(0.0) / one, "x", Limit::Above(1.0)),
            Check::new("a step takes time", one, "ns", Limit::Above(0.0)),
        ];
        Some(Judgement::new("", "", checks))
    }

    fn examined(judge: &'static Judge) -> Record {
        let defaults = Parameters::of_rows(
            r#"
            { key = "step", value = 1000, unit = "ns", range = [0, 1e9], why = "a guess", meaning = "a step" },
            { key = "order", value = "none", choices = ["none", "some"], why = "not stated", reading = true, meaning = "a reading" },
        "#,
        );
        let mut claim = Examined::new(judge, &defaults).unwrap();
        runs(&defaults, [50, 50]).iter().for_each(|(purpose, parameters)| claim.take(purpose, parameters));
        claim.finish(&judge.judge(&defaults).0.unwrap())
    }

    #[test]
    fn a_claim_that_no_parameter_moves_is_found_without_a_list() {
        let record = examined(&CANNOT_FAIL);
        assert!(record.is_constant() && record.box10.points == 50 && record.constant.len() == 2, "{record:?}");
        let record = examined(&MAY_FAIL);
        assert!(!record.is_constant() && !record.is_edge() && record.constant == ["a step takes time"], "{record:?}");
    }

    #[test]
    fn a_structural_switch_moves_the_ten_fold_box_alone() {
        let record = examined(&BY_ONE_CHOICE);
        assert!(record.box2.is_whole() && !record.is_constant(), "{record:?}");
        assert!(record.choices[0].name == "order = none" && record.choices[0].holds == record.choices[0].points, "{record:?}");
        assert!(record.choices[1].holds < record.choices[1].points, "{record:?}");
    }

    #[test]
    fn the_record_was_made_with_these_parameters() {
        assert_eq!(recorded().parameters, fingerprints(crate::papers()), "record it anew with the example");
    }

    /// The freedom of these two papers is structural, so their ten-fold boxes are made of switches above all.
    #[test]
    fn the_box_is_not_empty_for_papers_without_many_open_numbers() {
        for (paper, prefix, count) in [("dimmnet2-drivers", "D2-", 15), ("virtual-queue", "VQ-", 12)] {
            let claims = || recorded().claims.iter().filter(|(id, _)| id.starts_with(prefix));
            let boxed = claims().filter(|(_, record)| record.box10.points > 0).count();
            assert!(boxed >= count, "{paper}: {boxed}");
            assert!(claims().filter(|(_, record)| !record.choices.is_empty()).count() >= 10, "{paper}");
        }
    }

    #[test]
    fn points_stay_in_the_range_of_every_parameter() {
        for paper in crate::papers() {
            for (_, parameters) in runs(&(paper.parameters)(), [20, 20]) {
                assert!(parameters.iter().all(|p| (p.low..=p.high).contains(&p.value)));
            }
        }
    }
}
