//! How much a verdict depends on the parameters that were chosen: the share of their box, one step of each, and the five
//! that move it most.
//!
//! It takes thousands of runs, so the result is recorded (`facts/sensitivity.toml`, by `cargo run --release -p hanare-model
//! --example sensitivity`) and the report says so. A record counts only while the model still gives the value it was made for.
use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use crate::claim::{Check, Judge};
use crate::experiment::Paper;
use crate::parameters::{Parameter, Parameters, Source};

/// Parameters that a tornado shows.
pub const BARS_MAX: usize = 5;
/// A step of a number that is not counted.
const STEP_SHARE: f64 = 0.05;
/// Counts from this on step by a share: one of a thousand is no step.
const COUNT_STEPS_TO: f64 = 100.0;

/// How one parameter moves the value that decides a claim.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bar {
    /// The parameter.
    pub key: String,
    /// The value at half of the parameter.
    pub low: f64,
    /// The value at twice the parameter.
    pub high: f64,
}

/// What was found of one claim.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// What decides: the condition with the least margin.
    pub what: String,
    /// Its value at the defaults.
    pub value: f64,
    /// Its unit.
    pub unit: String,
    /// Points of the box that could be run; none where no chosen number takes part.
    pub points: usize,
    /// Points in which the claim came out as at the defaults.
    pub held: usize,
    /// Single steps that flip it, `pci.wait = 10`.
    pub flips: Vec<String>,
    /// The parameters that move the value most.
    pub bars: Vec<Bar>,
}

/// Every claim examined.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Recorded {
    /// Records by claim.
    pub claims: BTreeMap<String, Record>,
}

impl Recorded {
    /// The record of a claim, while `checks` still give the value it was made for.
    pub fn of(&self, id: &str, checks: &[Check]) -> Option<&Record> {
        let record = self.claims.get(id)?;
        let decides = checks.iter().find(|check| check.what == record.what)?;
        let is_same = (decides.value - record.value).abs() <= 1e-6 * record.value.abs().max(1e-9);
        is_same.then_some(record)
    }
}

/// The record that is part of the crate.
pub fn recorded() -> &'static Recorded {
    static RECORDED: OnceLock<Recorded> = OnceLock::new();
    let read = || {
        toml::from_str(include_str!("../facts/sensitivity.toml"))
            .expect("sensitivity.toml is part of the crate and is read by its tests")
    };
    RECORDED.get_or_init(read)
}

/// How many points of the box are tried: the Virtual Queue's product takes seconds a point.
fn points_of(paper: &Paper) -> usize {
    if paper.id == "virtual-queue" { 16 } else { 100 }
}

fn is_varied(parameter: &Parameter) -> bool {
    matches!(parameter.source, Source::Chosen(_))
        && parameter.choices.is_empty()
        && !parameter.is_effort
        && parameter.unit != "seed"
        && parameter.value != 0.0
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
    /// A point of the box.
    Box,
    /// A step of one parameter, and how it is named.
    Step(&'static str, String),
    /// Half or twice one parameter.
    Bar(&'static str, bool),
}

/// Every run of a paper: the same points for all of its claims, so that what they share is run once.
fn runs(defaults: &Parameters, points: usize) -> Vec<(Purpose, Parameters)> {
    let varied: Vec<Parameter> = defaults.iter().filter(|parameter| is_varied(parameter)).cloned().collect();
    let mut runs = Vec::new();
    for parameter in &varied {
        for value in steps(parameter) {
            let name = format!("{} = {} {}", parameter.key, crate::text::number(value), parameter.unit);
            runs.push((Purpose::Step(parameter.key, name), defaults.with(parameter.key, value)));
        }
        for (factor, is_high) in [(0.5, false), (2.0, true)] {
            let value = accepted(parameter, parameter.value * factor);
            runs.push((Purpose::Bar(parameter.key, is_high), defaults.with(parameter.key, value)));
        }
    }
    let mut state = 1_u64;
    let mut draw = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1_u64 << 53) as f64
    };
    for _ in 0..points {
        // Evenly in the logarithm, so that half and twice are equally likely.
        let point = varied.iter().fold(defaults.clone(), |point, parameter| {
            let value = parameter.value * 2.0_f64.powf(2.0 * draw() - 1.0);
            point.with(parameter.key, accepted(parameter, value))
        });
        runs.push((Purpose::Box, point));
    }
    runs
}

/// One claim while it is examined.
struct Examined {
    judge: &'static Judge,
    reads: crate::reads::Reads,
    holds: bool,
    /// Whether a number that is varied takes part at all.
    is_moved: bool,
    decides: usize,
    record: Record,
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
            points: 0,
            held: 0,
            flips: Vec::new(),
            bars: Vec::new(),
        };
        let is_moved = defaults.iter().any(|parameter| is_varied(parameter) && reads.parameters.contains(parameter.key));
        Some(Examined { judge, reads, holds: judgement.holds(), is_moved, decides, record, bars: BTreeMap::new() })
    }

    fn take(&mut self, purpose: &Purpose, parameters: &Parameters) {
        if let Purpose::Step(key, _) | Purpose::Bar(key, _) = purpose
            && !self.reads.parameters.contains(key)
        {
            return;
        }
        if !self.is_moved {
            return;
        }
        let Some(judgement) = self.judge.judge(parameters).0 else { return };
        let is_same = judgement.holds() == self.holds;
        match purpose {
            Purpose::Box => {
                self.record.points += 1;
                self.record.held += usize::from(is_same);
            }
            Purpose::Step(_, name) if !is_same => self.record.flips.push(name.clone()),
            Purpose::Step(..) => {}
            Purpose::Bar(key, is_high) => {
                let value =
                    judgement.readings.first().and_then(|reading| reading.checks.get(self.decides)).map(|check| check.value);
                if let Some(value) = value.filter(|value| value.is_finite()) {
                    self.bars.entry(key).or_insert([self.record.value; 2])[usize::from(*is_high)] = value;
                }
            }
        }
    }

    fn finish(mut self) -> Record {
        let mut bars: Vec<Bar> =
            self.bars.iter().map(|(key, [low, high])| Bar { key: (*key).to_string(), low: *low, high: *high }).collect();
        let base = self.record.value;
        let reach = |bar: &Bar| (bar.low - base).abs().max((bar.high - base).abs());
        bars.retain(|bar| reach(bar) > 1e-6 * base.abs());
        bars.sort_by(|one, two| reach(two).total_cmp(&reach(one)));
        bars.truncate(BARS_MAX);
        self.record.bars = bars;
        self.record
    }
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
        claims.extend(examined.into_iter().map(|claim| (claim.judge.id.to_string(), claim.finish())));
    }
    progress(total, total, "done");
    Recorded { claims }
}

/// The record as the text of `facts/sensitivity.toml`.
pub fn to_toml(recorded: &Recorded) -> String {
    let body = toml::to_string(recorded).expect("plain data");
    format!(
        "# How much each verdict depends on chosen parameters.\n# Recorded by `cargo run --release -p hanare-model --example sensitivity`; do not edit.\n\n{body}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::papers::rhinet_fagus;

    #[test]
    fn one_clock_of_a_burst_flips_the_gain_of_the_page_cache() {
        let judge = rhinet_fagus::PAPER.judges().find(|(_, judge)| judge.id == "RF-C5").map(|(_, judge)| judge).unwrap();
        let defaults = (rhinet_fagus::PAPER.parameters)();
        let mut claim = Examined::new(judge, &defaults).unwrap();
        for (purpose, parameters) in runs(&defaults, 0) {
            claim.take(&purpose, &parameters);
        }
        let record = claim.finish();
        assert!(record.flips.iter().any(|flip| flip.starts_with("pci.wait = 8")), "{record:?}");
        assert!(record.bars.len() == BARS_MAX && record.bars.iter().any(|bar| bar.key == "pci.wait"), "{record:?}");
    }

    #[test]
    fn the_record_is_that_of_the_models() {
        for paper in crate::papers().iter().filter(|paper| paper.id != "virtual-queue") {
            let defaults = (paper.parameters)();
            for (_, judge) in paper.judges() {
                let Some(claim) = Examined::new(judge, &defaults) else { continue };
                let judgement = judge.judge(&defaults).0.unwrap();
                let known = recorded().of(judge.id, &judgement.readings[0].checks);
                assert!(
                    known.is_some_and(|known| known.what == claim.record.what),
                    "{}: record it anew with the example",
                    judge.id
                );
            }
        }
    }

    #[test]
    fn points_stay_in_the_range_of_every_parameter() {
        for paper in crate::papers() {
            for (_, parameters) in runs(&(paper.parameters)(), 20) {
                assert!(parameters.iter().all(|p| (p.low..=p.high).contains(&p.value)));
            }
        }
    }
}
