//! What the product's software costs on a host: numbers that only a measurement gives, fitted to one and kept with it.
//!
//! Nothing here has a default. A host is asked by `what-if --calibrate`; each row of that bench is a pattern with its time.
//! Some rows are fitted, one number each, in the order of [`FITTED`]; the others are held out and say how far to trust it.
use serde::{Deserialize, Serialize};

use super::simulate::{self, Setting};
use super::{WhatIfError, pattern};
use crate::network::Network;
use crate::topology;

/// What passing messages by one way costs, in nanoseconds of a processor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Software {
    /// The client's work for a request and its answer.
    pub client: f64,
    /// The node's work for a request.
    pub node: f64,
    /// Each byte of a message, at both ends together.
    pub byte: f64,
}

/// A row of the calibration: a pattern, its time an operation, and what came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Point {
    /// The pattern.
    pub pattern: String,
    /// Measured, in ns an operation: the median.
    pub measured: f64,
    /// What the fitted costs predict.
    pub predicted: f64,
    /// Whether the costs were fitted to it.
    pub is_fitted: bool,
}

impl Point {
    /// How far the prediction is off, as a share of what was measured.
    pub fn residual(&self) -> f64 {
        self.predicted / self.measured - 1.0
    }
}

/// The costs of one host's software.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Costs {
    /// The host's name.
    pub host: String,
    /// The day of the measurement.
    pub date: String,
    /// What was measured: the product's version and build.
    pub build: String,
    /// Processors of the host.
    pub cores: usize,
    /// The load of the host when it was measured, in processes that could run.
    pub load: f64,
    /// Messages through the kernel's TCP.
    pub kernel: Software,
    /// Messages through shared memory: what is left where the network needs no kernel.
    pub bypass: Software,
    /// A call on memory of this host, ns.
    pub near_call: f64,
    /// Each byte of it, ns.
    pub near_byte: f64,
    /// Each element by its index, here, ns.
    pub near_element: f64,
    /// Each element by its index at a node, ns.
    pub far_element: f64,
    /// Waking a thread that has parked, ns.
    pub wake: f64,
    /// What a fault costs beside its messages, ns.
    pub fault: f64,
    /// What a home does for an arrival at a barrier, beside a request's work, ns.
    pub arrival: f64,
    /// The rows.
    pub points: Vec<Point>,
}

/// A cost, the pattern whose time it is fitted to, and where in [`Costs`] it stands.
type Fit = (&'static str, fn(&mut Costs, f64));

/// The rows that are fitted, each by one cost, in this order; some of them again, because each is a
/// part of the other's time.
pub const FITTED: &[Fit] = &[
    ("get 8B", set_call),
    ("get 8B, compute 1ms", |costs, value| costs.wake = value),
    ("get 1MiB", |costs, value| costs.kernel.byte = value),
    ("get 8B", set_call),
    ("get 1MiB", |costs, value| costs.kernel.byte = value),
    ("gather 4096 of 8B", |costs, value| costs.far_element = value),
    ("get 8B near", |costs, value| costs.near_call = value),
    ("get 1MiB near", |costs, value| costs.near_byte = value),
    ("gather 4096 of 8B near", |costs, value| costs.near_element = value),
    ("get 8B near", |costs, value| costs.near_call = value),
    ("barrier from 1 ranks", set_bypass),
    ("barrier from 2 ranks", |costs, value| costs.arrival = value),
    ("barrier from 1 ranks", set_bypass),
    ("barrier from 2 ranks", |costs, value| costs.arrival = value),
    ("barrier from 1 ranks", set_bypass),
    ("barrier from 2 ranks", |costs, value| costs.arrival = value),
    ("barrier from 1 ranks", set_bypass),
    ("touch", |costs, value| costs.fault = value),
];

/// The row that says how the work of a request is shared between client and node.
pub const SHARED: &str = "get 8B depth 16";

/// A call's cost is divided as `client` and `node` stand to each other.
fn set_call(costs: &mut Costs, value: f64) {
    let share = costs.kernel.node / (costs.kernel.client + costs.kernel.node);
    costs.kernel.client = value * (1.0 - share);
    costs.kernel.node = value * share;
}

fn set_bypass(costs: &mut Costs, value: f64) {
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
pub struct Origin {
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

impl Costs {
    /// Fits the costs to what was measured on two nodes of one host; `node_share` is the node's part of the processor time of
    /// [`SHARED`].
    ///
    /// **Errors**: [`WhatIfError::Calibration`] where a row is missing, or no cost explains it.
    pub fn fit(origin: Origin, rows: &[Measured], node_share: f64) -> Result<Costs, WhatIfError> {
        let find = |pattern: &str| {
            let row = rows.iter().find(|row| row.pattern == pattern);
            let row = row.ok_or_else(|| WhatIfError::Calibration { problem: format!("\"{pattern}\" was not measured") })?;
            match row.ns.is_finite() && row.ns > 0.0 {
                true => Ok(row.ns),
                false => Err(WhatIfError::Calibration { problem: format!("\"{pattern}\" took {} ns", row.ns) }),
            }
        };
        let Origin { host, date, build, cores, load } = origin;
        let mut costs = Costs { host, date, build, cores, load, ..Costs::default() };
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
            Ok(Point { pattern: row.pattern.clone(), measured: row.ns, predicted, is_fitted: fitted(&row.pattern) })
        };
        let points = rows.iter().map(point).collect::<Result<_, WhatIfError>>()?;
        costs.points = points;
        Ok(costs)
    }

    /// Sizes of residuals of the rows held out, in order.
    pub fn residuals(&self) -> Vec<f64> {
        let mut sizes: Vec<f64> = self.points.iter().filter(|p| !p.is_fitted).map(|p| p.residual().abs()).collect();
        sizes.sort_by(f64::total_cmp);
        sizes
    }

    /// A quantile of [`Costs::residuals`]: `0.5` is the median. None where nothing was held out.
    pub fn residual(&self, quantile: f64) -> Option<f64> {
        let sizes = self.residuals();
        let last = sizes.len().checked_sub(1)?;
        Some(sizes[(quantile * last as f64).ceil() as usize])
    }

    /// Reads what [`Costs::to_toml`] wrote.
    ///
    /// **Errors**: [`WhatIfError::Calibration`]: not such a text, or a cost that is none.
    pub fn from_toml(text: &str) -> Result<Costs, WhatIfError> {
        let bad = |problem: String| WhatIfError::Calibration { problem };
        let costs: Costs = toml::from_str(text).map_err(|error| bad(error.message().replace('\n', " ")))?;
        let Software { client, node, byte } = costs.kernel;
        let all = [client, node, byte, costs.near_call, costs.near_byte, costs.near_element, costs.far_element];
        let more = [costs.bypass.client, costs.bypass.node, costs.bypass.byte, costs.wake, costs.fault, costs.arrival];
        match all.iter().chain(&more).find(|cost| !(0.0..1e12).contains(*cost)) {
            Some(cost) => Err(bad(format!("{cost} ns is no cost of software"))),
            None if costs.cores == 0 || costs.cores > 4096 => Err(bad(format!("a host of {} processors", costs.cores))),
            None => Ok(costs),
        }
    }

    /// The text that is kept.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("numbers and texts have a TOML form")
    }
}

/// Nanoseconds an operation of a pattern on two nodes (four for four ranks) of the host where it was measured.
pub fn predict(costs: &Costs, text: &str) -> Result<f64, WhatIfError> {
    let mut program = pattern::parse(text)?;
    // A row of the calibration is about one operation: some hundreds of it tell the time of one in the steady state.
    let phase = &mut program.ranks[0][0];
    phase.times = phase.times.max(200);
    let (times, computing) = (phase.times, simulate::computing(&phase.steps));
    let ranks = program.rank_count.unwrap_or(1);
    let setting = Setting {
        hosts: 1,
        nodes: ranks.max(2),
        ranks,
        is_blocked: false,
        cores: costs.cores,
        network: Network::here(),
        topology: topology::Kind::Switch,
        costs: costs.clone(),
        is_traced: false,
    };
    let run = simulate::run(&program, &setting)?;
    Ok(run.end.as_ns() / times as f64 - computing.as_ns())
}

/// The value with which a pattern takes as long as was measured: the time grows with every cost.
fn solve(costs: &Costs, pattern: &str, wanted: f64, set: fn(&mut Costs, f64)) -> Result<f64, WhatIfError> {
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

/// Costs of no host, for tests: round numbers, so that sums can be checked by hand.
#[cfg(test)]
pub fn round_numbers() -> Costs {
    Costs {
        host: "test".to_string(),
        date: "2026-01-01".to_string(),
        cores: 2,
        kernel: Software { client: 4_000.0, node: 6_000.0, byte: 0.5 },
        bypass: Software { client: 500.0, node: 500.0, byte: 0.0 },
        near_call: 50.0,
        near_byte: 0.1,
        near_element: 4.0,
        far_element: 3.0,
        wake: 40_000.0,
        fault: 3_000.0,
        arrival: 1_000.0,
        points: vec![
            Point { pattern: "get 4KiB".to_string(), measured: 10_000.0, predicted: 11_000.0, is_fitted: false },
            Point { pattern: "put 4KiB".to_string(), measured: 10_000.0, predicted: 9_800.0, is_fitted: false },
        ],
        ..Costs::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows_of(costs: &Costs) -> Vec<Measured> {
        let mut names: Vec<&str> = FITTED.iter().map(|(name, _)| *name).collect();
        names.extend([SHARED, "get 64KiB", "update 64 of 8B"]);
        names.sort_unstable();
        names.dedup();
        names.into_iter().map(|name| Measured { pattern: name.to_string(), ns: predict(costs, name).unwrap() }).collect()
    }

    #[test]
    fn a_fit_to_what_costs_predict_gives_the_costs_back() {
        let given = round_numbers();
        let origin = Origin { cores: 2, ..Origin::default() };
        let fitted = Costs::fit(origin, &rows_of(&given), 0.6).unwrap();
        let near = |got: f64, wanted: f64| assert!((got / wanted - 1.0).abs() < 0.02, "{got} is not {wanted}");
        near(fitted.kernel.client + fitted.kernel.node, 10_000.0);
        near(fitted.kernel.byte, given.kernel.byte);
        near(fitted.wake, given.wake);
        near(fitted.far_element, given.far_element);
        near(fitted.fault, given.fault);
        near(fitted.near_call, given.near_call);
        assert!(fitted.points.iter().all(|point| point.residual().abs() < 0.03), "{:?}", fitted.points);
        assert!(fitted.residual(0.9).unwrap() < 0.03);
    }

    #[test]
    fn a_row_that_is_missing_is_named() {
        let rows: Vec<Measured> = rows_of(&round_numbers()).into_iter().filter(|row| row.pattern != "touch").collect();
        let line = Costs::fit(Origin { cores: 2, ..Origin::default() }, &rows, 0.5).unwrap_err().to_string();
        assert!(line.contains("\"touch\" was not measured"), "{line}");
    }

    #[test]
    fn costs_are_kept_and_read_and_checked() {
        let costs = round_numbers();
        assert_eq!(Costs::from_toml(&costs.to_toml()).unwrap(), costs);
        let bad = costs.to_toml().replace("wake = 40000.0", "wake = -1.0");
        assert!(Costs::from_toml(&bad).unwrap_err().to_string().contains("-1 ns"));
        assert!(Costs::from_toml("cores = 2").is_err());
    }
}
