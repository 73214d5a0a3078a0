//! Fits the costs of the software to a measurement, and compares predictions with measurements.
//!
//! A host is asked by `what-if --calibrate`; each row of that bench is a pattern with its time. Some rows are fitted, one number
//! each, in the order of [`FITTED`]; the others are held out and say how far to trust it.
use serde::{Deserialize, Serialize};

use super::costs::{HeldUp, Predicted, Software, SoftwareCosts, Tail};
use super::program::{Step, Verb};
use super::simulate::{self, Setting};
use super::{WhatIfError, pattern};
use crate::network::Network;
use crate::topology;

/// A cost, the pattern whose time it is fitted to, and where in [`SoftwareCosts`] it stands.
type Fitting = (&'static str, fn(&mut SoftwareCosts, f64));

/// The rows that are fitted, each by one cost, in this order; some of them again, because each is a
/// part of the other's time.
pub const FITTED: &[Fitting] = &[
    ("get 8B", set_call),
    ("get 8B, compute 1ms", |costs, value| costs.wake = value),
    ("get 64KiB", |costs, value| costs.kernel.byte = value),
    ("get 8B", set_call),
    ("get 64KiB", |costs, value| costs.kernel.byte = value),
    ("gather 4096 of 8B", |costs, value| costs.element = value),
    ("get 8B near", |costs, value| costs.near_call = value),
    ("get 128KiB near", |costs, value| costs.near_byte = value),
    ("gather 4096 of 8B spread", |costs, value| costs.spread_element = value),
    ("barrier from 1 ranks", set_bypass),
    ("barrier from 2 ranks", |costs, value| costs.switch = value),
    ("touch", |costs, value| costs.fault = value),
    ("walk 16MiB", |costs, value| costs.brought_page = value),
];

/// The row that says how the work of a request is shared between client and node.
pub const SHARED: &str = "get 8B depth 16";

/// A call's cost is divided as `client` and `node` stand to each other.
fn set_call(costs: &mut SoftwareCosts, value: f64) {
    let share = costs.kernel.node / (costs.kernel.client + costs.kernel.node);
    costs.kernel.client = value * (1.0 - share);
    costs.kernel.node = value * share;
}

fn set_bypass(costs: &mut SoftwareCosts, value: f64) {
    costs.bypass = Software { client: value / 2.0, node: value / 2.0, byte: 0.0 };
}

/// A measured row: the pattern, its time in ns an operation.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Measured {
    /// The pattern.
    pub pattern: String,
    /// Nanoseconds an operation: the median.
    pub ns: f64,
    /// Their mean and 99th percentile, where single times were taken.
    pub tail: Option<Tail>,
}

/// Patterns that a cost is fitted to.
pub fn is_fitted(pattern: &str) -> bool {
    pattern == SHARED || FITTED.iter().any(|(name, _)| *name == pattern)
}

/// Delay of answers beyond their median: the medians over the rows of another node's memory.
fn held_up(rows: &[Measured]) -> HeldUp {
    let far = rows.iter().filter(|row| !row.pattern.ends_with("near"));
    let tails: Vec<(f64, Tail)> = far.filter_map(|row| Some((row.ns, row.tail?))).collect();
    let median = |beyond: fn(&Tail) -> f64| {
        let mut all: Vec<f64> = tails.iter().map(|(ns, tail)| (beyond(tail) - ns).max(0.0)).collect();
        all.sort_by(f64::total_cmp);
        all.get(all.len() / 2).copied().unwrap_or(0.0)
    };
    HeldUp { mean: median(|tail| tail.mean), p99: median(|tail| tail.p99) }
}

/// Who measured what.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Provenance {
    /// The host's name.
    pub host: String,
    /// The day.
    pub date: String,
    /// The product's version and build.
    pub build: String,
    /// Processors.
    pub cores: usize,
    /// Processes that could run.
    pub load: f64,
}

/// Most processes that could run for each processor before a calibration. Chosen: the nodes and programs of a bench make 1 by themselves.
const BUSY_LOAD: f64 = 1.5;
/// Most that rounds of a calibration, or it and the one before, may differ. Chosen: a prediction may be off by 0.3, and this is more.
const BUSY_SPREAD: f64 = 1.5;

/// State of a host while it was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quietness {
    /// Processes that could run, before the measurement.
    pub load: f64,
    /// Processors.
    pub cores: usize,
    /// The slowest round over the fastest: the median of the rows.
    pub spread: f64,
}

impl Quietness {
    /// Why a calibration under these conditions would predict another host than this one; `before` is what was kept of this host earlier.
    pub fn objections(&self, rows: &[Measured], before: Option<&SoftwareCosts>) -> Vec<String> {
        let mut found = Vec::new();
        if self.load > BUSY_LOAD * self.cores as f64 {
            found.push(format!("{:.1} processes could run on {} processors", self.load, self.cores));
        }
        if self.spread > BUSY_SPREAD {
            found.push(format!("the slowest round of a row took {:.1} times the fastest (median of the rows)", self.spread));
        }
        let slower = before.and_then(|before| {
            let ratio = |point: &Predicted| Some(rows.iter().find(|row| row.pattern == point.pattern)?.ns / point.measured);
            let mut ratios: Vec<f64> = before.points.iter().filter_map(ratio).collect();
            ratios.sort_by(f64::total_cmp);
            let middle = *ratios.get(ratios.len() / 2)?;
            (middle > BUSY_SPREAD).then(|| format!("it took {middle:.1} times as long as on {}", before.date))
        });
        found.extend(slower);
        found
    }
}

/// Fits the costs to what was measured on two nodes of one host; `node_share` is the node's part of the processor time of
/// [`SHARED`].
///
/// **Errors**: [`WhatIfError::Calibration`] where a row is missing, or no cost explains it.
pub fn fit(origin: Provenance, rows: &[Measured], node_share: f64) -> Result<SoftwareCosts, WhatIfError> {
    let find = |pattern: &str| {
        let row = rows.iter().find(|row| row.pattern == pattern);
        let row = row.ok_or_else(|| WhatIfError::Calibration { problem: format!("\"{pattern}\" was not measured") })?;
        match row.ns.is_finite() && row.ns > 0.0 {
            true => Ok(row.ns),
            false => Err(WhatIfError::Calibration { problem: format!("\"{pattern}\" took {} ns", row.ns) }),
        }
    };
    let Provenance { host, date, build, cores, load } = origin;
    let mut costs = SoftwareCosts { host, date, build, cores, load, ..SoftwareCosts::default() };
    // The slower of the two sets the pace of requests that follow each other: it does that share of a round trip's work.
    let slower = (find(SHARED)? / find("get 8B")?).clamp(0.5, 0.95);
    let node = if node_share > 0.5 { slower } else { 1.0 - slower };
    costs.kernel = Software { client: 1.0 - node, node, byte: 0.0 };
    for (pattern, set) in FITTED {
        let wanted = find(pattern)?;
        let value = solve(&costs, pattern, wanted, *set)?;
        set(&mut costs, value);
    }
    costs.held_up = held_up(rows);
    costs.points = points(&costs, rows, &Network::here())?;
    Ok(costs)
}

/// Each row beside what is predicted for it.
fn points(costs: &SoftwareCosts, rows: &[Measured], network: &Network) -> Result<Vec<Predicted>, WhatIfError> {
    let point = |row: &Measured| {
        let predicted = predict_on(costs, &row.pattern, network)?;
        let Measured { pattern, ns, tail } = row.clone();
        Ok(Predicted { is_fitted: is_fitted(&pattern), pattern, measured: ns, predicted, tail })
    };
    rows.iter().map(point).collect()
}

/// A second measurement, over a network between nodes of one host, beside its predictions. Rows of fitted patterns stay marked: they tell
/// how well a measurement repeats, and little of the model.
///
/// **Errors**: [`WhatIfError::Pattern`] for a row that is no pattern.
pub fn compare(costs: &SoftwareCosts, rows: &[Measured], network: &Network) -> Result<Comparison, WhatIfError> {
    let points = points(costs, rows, network)?;
    let SoftwareCosts { host, date, build, cores, load, .. } = costs;
    let measured = format!("{host}, {cores} processors, {date}, {build}, load {load:.1}");
    Ok(Comparison { network: network.name.clone(), measured, points })
}

/// How far apart two measured times must be for their order to be asked for.
const APART: f64 = 1.2;

/// Predictions beside measurements over one network.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// The network.
    pub network: String,
    /// On which host, when, and with what the software's costs were measured.
    pub measured: String,
    /// The rows.
    pub points: Vec<Predicted>,
}

impl Comparison {
    /// The rows whose patterns nothing was fitted to.
    pub fn held_out(&self) -> impl Iterator<Item = &Predicted> {
        self.points.iter().filter(|point| !point.is_fitted)
    }

    /// Median and 90th percentile of the residuals' sizes of the rows held out.
    pub fn errors(&self) -> Option<(f64, f64)> {
        let mut sizes: Vec<f64> = self.held_out().map(|point| point.residual().abs()).collect();
        sizes.sort_by(f64::total_cmp);
        let last = sizes.len().checked_sub(1)?;
        Some((sizes[last / 2], sizes[(0.9 * last as f64).ceil() as usize]))
    }

    /// Pairs of these whose measured times differ by more than a fifth and are predicted in the other order.
    pub fn misordered(&self) -> Vec<(&str, &str)> {
        let pairs = self.held_out().flat_map(|fast| self.held_out().map(move |slow| (fast, slow)));
        pairs
            .filter(|(fast, slow)| slow.measured > APART * fast.measured && slow.predicted <= fast.predicted)
            .map(|(fast, slow)| (fast.pattern.as_str(), slow.pattern.as_str()))
            .collect()
    }

    /// Whether it meets what is asked of predictions: the median off by at most 15 %, the 90th percentile by 30 %, every order right.
    pub fn holds(&self) -> bool {
        self.errors().is_some_and(|(median, most)| median <= 0.15 && most <= 0.3) && self.misordered().is_empty()
    }
}

/// Nanoseconds an operation of a pattern on the host where the costs were measured.
fn predict(costs: &SoftwareCosts, text: &str) -> Result<f64, WhatIfError> {
    predict_on(costs, text, &Network::here())
}

/// The same with a network between the nodes of that one host, as a shaped loopback is: two nodes, or one for each rank.
fn predict_on(costs: &SoftwareCosts, text: &str, network: &Network) -> Result<f64, WhatIfError> {
    let mut program = pattern::parse(text)?;
    // A row of the calibration is about one operation: some hundreds of it tell the time of one in the steady state.
    let phase = &mut program.ranks[0][0];
    let is_long = phase.steps.iter().any(|step| matches!(step, Step::Bring { .. }));
    phase.times = if is_long { phase.times } else { phase.times.max(200) };
    let (times, computing) = (phase.times, simulate::computing(&phase.steps));
    let ranks = program.rank_count.unwrap_or(1);
    let is_copy = |step: &Step| matches!(step, Step::Command(command) if command.verb == Verb::Copy);
    let fewest = if program.has(is_copy) { 3 } else { 2 };
    let setting = Setting {
        hosts: 1,
        nodes: ranks.max(fewest),
        ranks,
        is_blocked: false,
        cores: costs.cores,
        network: network.clone(),
        topology: topology::Kind::Switch,
        costs: costs.clone(),
        recorded_crowd: None,
        is_held_up: false,
        is_traced: false,
        is_timed: false,
    };
    let run = simulate::run(&program, &setting)?;
    Ok(run.end.as_ns() / times as f64 - computing.as_ns())
}

/// The value with which a pattern takes as long as was measured: the time grows with every cost.
fn solve(costs: &SoftwareCosts, pattern: &str, wanted: f64, set: fn(&mut SoftwareCosts, f64)) -> Result<f64, WhatIfError> {
    let time = |value: f64| {
        let mut changed = costs.clone();
        set(&mut changed, value);
        predict(&changed, pattern)
    };
    let (mut low, mut high) = (0.0, wanted);
    // What is there without it already takes longer: the cost is below what can be told.
    if time(low)? >= wanted {
        return Ok(0.0);
    }
    for _ in 0..40 {
        let middle = (low + high) / 2.0;
        if time(middle)? < wanted { low = middle } else { high = middle }
    }
    Ok(high)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::what_if::costs::round_numbers;

    fn measured(pattern: &str, ns: f64) -> Measured {
        Measured { pattern: pattern.to_string(), ns, tail: None }
    }

    fn rows_of(costs: &SoftwareCosts) -> Vec<Measured> {
        let mut names: Vec<&str> = FITTED.iter().map(|(name, _)| *name).collect();
        names.extend([SHARED, "get 1MiB", "update 64 of 8B", "update 1024 of 8B spread"]);
        names.sort_unstable();
        names.dedup();
        names.into_iter().map(|name| measured(name, predict(costs, name).unwrap())).collect()
    }

    #[test]
    fn a_fit_to_what_costs_predict_gives_the_costs_back() {
        let given = round_numbers();
        let origin = Provenance { cores: 2, ..Provenance::default() };
        let fitted = fit(origin, &rows_of(&given), 0.6).unwrap();
        let near = |got: f64, wanted: f64| assert!((got / wanted - 1.0).abs() < 0.02, "{got} is not {wanted}");
        near(fitted.kernel.client + fitted.kernel.node, 10_000.0);
        near(fitted.kernel.byte, given.kernel.byte);
        near(fitted.wake, given.wake);
        near(fitted.element, given.element);
        near(fitted.spread_element, given.spread_element);
        near(fitted.switch, given.switch);
        near(fitted.fault, given.fault);
        near(fitted.brought_page, given.brought_page);
        near(fitted.near_call, given.near_call);
        assert!(fitted.points.iter().all(|point| point.residual().abs() < 0.03), "{:?}", fitted.points);
        assert!(fitted.residual(0.9).unwrap() < 0.03);
    }

    #[test]
    fn a_comparison_fails_by_its_errors_or_by_one_order() {
        let point = Predicted::held_out;
        let of =
            |points: &[Predicted]| Comparison { network: "lab".to_string(), measured: String::new(), points: points.to_vec() };
        let good = [point("a", 100.0, 110.0), point("b", 130.0, 125.0), point("c", 300.0, 300.0)];
        assert!(of(&good).holds());
        let swapped = [point("a", 100.0, 114.0), point("b", 125.0, 113.0), good[2].clone()];
        assert_eq!(of(&swapped).misordered(), [("a", "b")]);
        assert!(!of(&swapped).holds() && !of(&[point("a", 100.0, 131.0)]).holds() && !of(&[]).holds());
        let fitted = |measured, predicted| Predicted { is_fitted: true, ..point("f", measured, predicted) };
        assert_eq!(of(&[good[0].clone(), fitted(100.0, 900.0)]).errors(), of(&good[..1]).errors(), "fitted rows say nothing");
        assert!(!of(&[fitted(100.0, 100.0)]).holds());
        let wire = Network { bytes_per_second: 125_000_000, ..Network::here() };
        let rows = [measured("get 64KiB", 1.0)];
        let [there] = &compare(&round_numbers(), &rows, &wire).unwrap().points[..] else { panic!("there is one row") };
        let here = predict(&round_numbers(), "get 64KiB").unwrap();
        // The bytes of both messages at 8 ns, and the node's thread, which parks while the line is busy; not before the first.
        let more = there.predicted - here - 65_664.0 * 8.0;
        assert!((more / 40_000.0 - 1.0).abs() < 0.01, "{} {here}", there.predicted);
    }

    #[test]
    fn a_busy_host_is_told_by_its_load_its_rounds_and_what_it_took_before() {
        let rows = [measured("get 8B", 10.0), measured("get 4KiB", 20.0), measured("touch", 30.0)];
        let quiet = Quietness { load: 2.9, cores: 2, spread: 1.2 };
        let before = |ns: f64| SoftwareCosts {
            points: rows.iter().map(|row| Predicted::held_out(&row.pattern, row.ns * ns, 1.0)).collect(),
            ..SoftwareCosts::default()
        };
        assert!(quiet.objections(&rows, None).is_empty() && quiet.objections(&rows, Some(&before(0.7))).is_empty());
        assert!(quiet.objections(&rows, Some(&before(0.6)))[0].contains("1.7 times"));
        assert!(Quietness { load: 3.1, ..quiet }.objections(&rows, None)[0].contains("3.1 processes"));
        assert!(Quietness { spread: 1.6, ..quiet }.objections(&rows, None)[0].contains("1.6 times the fastest"));
    }

    #[test]
    fn hold_ups_are_what_means_and_tails_are_beyond_the_median() {
        let with =
            |pattern: &str, ns: f64, mean: f64, p99: f64| Measured { tail: Some(Tail { mean, p99 }), ..measured(pattern, ns) };
        let rows = [
            with("get 8B", 100.0, 110.0, 400.0),
            with("put 8B", 100.0, 130.0, 900.0),
            with("get 4KiB", 200.0, 220.0, 600.0),
            with("get 8B near", 1.0, 900.0, 9000.0),
            measured("touch", 5.0),
        ];
        assert_eq!(held_up(&rows), HeldUp { mean: 20.0, p99: 400.0 });
        assert_eq!(held_up(&rows[4..]), HeldUp::default());
    }

    #[test]
    fn a_row_that_is_missing_is_named() {
        let rows: Vec<Measured> = rows_of(&round_numbers()).into_iter().filter(|row| row.pattern != "touch").collect();
        let line = fit(Provenance { cores: 2, ..Provenance::default() }, &rows, 0.5).unwrap_err().to_string();
        assert!(line.contains("\"touch\" was not measured"), "{line}");
    }
}
