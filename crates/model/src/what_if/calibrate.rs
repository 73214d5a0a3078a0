//! Fits the costs of the software to a measurement, and compares predictions with measurements.
//!
//! A host is asked by `what-if --calibrate`; each row of that bench is a pattern with its time. Some rows are fitted, one number
//! each, in the order of [`FITTED`]; the others are held out and say how far to trust it.
use serde::{Deserialize, Serialize};

use super::costs::{Predicted, Software, SoftwareCosts};
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
    ("get 1MiB", |costs, value| costs.kernel.byte = value),
    ("get 8B", set_call),
    ("get 1MiB", |costs, value| costs.kernel.byte = value),
    ("gather 4096 of 8B", |costs, value| costs.far_element = value),
    ("update 1024 of 8B", |costs, value| costs.updated_element = value),
    ("get 8B near", |costs, value| costs.near_call = value),
    ("get 1MiB near", |costs, value| costs.near_byte = value),
    ("get 128KiB near", |costs, value| costs.near_cached_byte = value),
    ("gather 4096 of 8B near", |costs, value| costs.near_element = value),
    ("get 8B near", |costs, value| costs.near_call = value),
    ("gather 4096 of 8B spread", |costs, value| costs.spread_element = value),
    ("barrier from 1 ranks", set_bypass),
    ("barrier from 2 ranks", |costs, value| costs.arrival = value),
    ("barrier from 1 ranks", set_bypass),
    ("touch", |costs, value| costs.fault = value),
    ("store", |costs, value| costs.store = value),
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
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// The pattern.
    pub pattern: String,
    /// Nanoseconds an operation.
    pub ns: f64,
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
    let fitted = |pattern: &str| pattern == SHARED || FITTED.iter().any(|(name, _)| *name == pattern);
    let point = |row: &Measured| {
        let predicted = predict(&costs, &row.pattern)?;
        Ok(Predicted { pattern: row.pattern.clone(), measured: row.ns, predicted, is_fitted: fitted(&row.pattern) })
    };
    let points = rows.iter().map(point).collect::<Result<_, WhatIfError>>()?;
    costs.points = points;
    Ok(costs)
}

/// What was measured over a network between nodes of one host, beside what the costs predict for it: nothing is fitted to it.
///
/// **Errors**: [`WhatIfError::Pattern`] for a row that is no pattern.
pub fn compare(costs: &SoftwareCosts, rows: &[Measured], network: &Network) -> Result<Comparison, WhatIfError> {
    let point = |row: &Measured| {
        let predicted = predict_on(costs, &row.pattern, network)?;
        Ok(Predicted { pattern: row.pattern.clone(), measured: row.ns, predicted, is_fitted: false })
    };
    let points = rows.iter().map(point).collect::<Result<Vec<_>, WhatIfError>>()?;
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
    /// Median and 90th percentile of the residuals' sizes.
    pub fn errors(&self) -> Option<(f64, f64)> {
        let mut sizes: Vec<f64> = self.points.iter().map(|point| point.residual().abs()).collect();
        sizes.sort_by(f64::total_cmp);
        let last = sizes.len().checked_sub(1)?;
        Some((sizes[last / 2], sizes[(0.9 * last as f64).ceil() as usize]))
    }

    /// Pairs whose measured times differ by more than a fifth and are predicted in the other order.
    pub fn misordered(&self) -> Vec<(&str, &str)> {
        let pairs = self.points.iter().flat_map(|fast| self.points.iter().map(move |slow| (fast, slow)));
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
        is_traced: false,
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

    fn rows_of(costs: &SoftwareCosts) -> Vec<Measured> {
        let mut names: Vec<&str> = FITTED.iter().map(|(name, _)| *name).collect();
        names.extend([SHARED, "get 64KiB", "update 64 of 8B", "update 1024 of 8B spread"]);
        names.sort_unstable();
        names.dedup();
        names.into_iter().map(|name| Measured { pattern: name.to_string(), ns: predict(costs, name).unwrap() }).collect()
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
        near(fitted.far_element, given.far_element);
        near(fitted.updated_element, given.updated_element);
        near(fitted.spread_element, given.spread_element);
        near(fitted.fault, given.fault);
        near(fitted.store, given.store);
        near(fitted.brought_page, given.brought_page);
        near(fitted.near_call, given.near_call);
        assert!(fitted.points.iter().all(|point| point.residual().abs() < 0.03), "{:?}", fitted.points);
        assert!(fitted.residual(0.9).unwrap() < 0.03);
    }

    #[test]
    fn a_comparison_fails_by_its_errors_or_by_one_order() {
        let point = |pattern: &str, measured, predicted| Predicted {
            pattern: pattern.to_string(),
            measured,
            predicted,
            is_fitted: false,
        };
        let of =
            |points: &[Predicted]| Comparison { network: "lab".to_string(), measured: String::new(), points: points.to_vec() };
        let good = [point("a", 100.0, 110.0), point("b", 130.0, 125.0), point("c", 300.0, 300.0)];
        assert!(of(&good).holds());
        let swapped = [point("a", 100.0, 114.0), point("b", 125.0, 113.0), good[2].clone()];
        assert_eq!(of(&swapped).misordered(), [("a", "b")]);
        assert!(!of(&swapped).holds() && !of(&[point("a", 100.0, 131.0)]).holds() && !of(&[]).holds());
        let wire = Network { bytes_per_second: 125_000_000, ..Network::here() };
        let rows = [Measured { pattern: "get 64KiB".to_string(), ns: 1.0 }];
        let [there] = &compare(&round_numbers(), &rows, &wire).unwrap().points[..] else { panic!("there is one row") };
        let here = predict(&round_numbers(), "get 64KiB").unwrap();
        // The bytes of both messages at 8 ns, and the node's thread, which parks while the line is busy; not before the first.
        let more = there.predicted - here - 65_664.0 * 8.0;
        assert!((more / 40_000.0 - 1.0).abs() < 0.01, "{} {here}", there.predicted);
    }

    #[test]
    fn a_row_that_is_missing_is_named() {
        let rows: Vec<Measured> = rows_of(&round_numbers()).into_iter().filter(|row| row.pattern != "touch").collect();
        let line = fit(Provenance { cores: 2, ..Provenance::default() }, &rows, 0.5).unwrap_err().to_string();
        assert!(line.contains("\"touch\" was not measured"), "{line}");
    }
}
