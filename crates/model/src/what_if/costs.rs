//! What the product's software costs on a host: numbers that only a measurement gives, kept with who measured them when.
//!
//! Nothing here has a default: see [`super::calibrate`].
use hanare_protocol::limits::WHAT_IF_CORE_COUNT_MAX;
use serde::{Deserialize, Serialize};

use super::WhatIfError;

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
pub struct Predicted {
    /// The pattern.
    pub pattern: String,
    /// Measured, in ns an operation: the median.
    pub measured: f64,
    /// What the fitted costs predict.
    pub predicted: f64,
    /// Whether the costs were fitted to it.
    pub is_fitted: bool,
    /// The measured mean and 99th percentile, where single times were taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tail: Option<Tail>,
}

/// Times of one operation beside their median, in ns.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tail {
    /// Their mean.
    pub mean: f64,
    /// Their 99th percentile.
    pub p99: f64,
}

impl Predicted {
    /// A row that nothing was fitted to.
    pub fn held_out(pattern: &str, measured: f64, predicted: f64) -> Predicted {
        Predicted { pattern: pattern.to_string(), measured, predicted, is_fitted: false, tail: None }
    }

    /// How far the prediction is off, as a share of what was measured.
    pub fn residual(&self) -> f64 {
        self.predicted / self.measured - 1.0
    }
}

/// Delays that a host adds to the software's work: a tick of its clock, an interrupt, another process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HeldUp {
    /// The mean beyond the median, in ns.
    pub mean: f64,
    /// The 99th percentile beyond the median, in ns.
    pub p99: f64,
}

/// The costs of one host's software.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SoftwareCosts {
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
    /// Each element by its index, read or changed, here or at a node, ns.
    pub element: f64,
    /// Each element of a list that goes to several nodes: finding its node, ns.
    pub spread_element: f64,
    /// Waking a thread that has parked, ns.
    pub wake: f64,
    /// Taking a processor from another thread, where more of them are awake than there are processors, ns.
    pub switch: f64,
    /// Cost of a fault beside its messages, ns. A fault to store costs a call more: the home is told that the page came.
    pub fault: f64,
    /// What each page that is brought along costs beside its message, ns.
    pub brought_page: f64,
    /// Delay of an answer by the host beyond the median, ns.
    pub held_up: HeldUp,
    /// The rows.
    pub points: Vec<Predicted>,
}
impl SoftwareCosts {
    /// Sizes of residuals of the rows held out, in order.
    pub fn residuals(&self) -> Vec<f64> {
        let mut sizes: Vec<f64> = self.points.iter().filter(|p| !p.is_fitted).map(|p| p.residual().abs()).collect();
        sizes.sort_by(f64::total_cmp);
        sizes
    }

    /// A quantile of [`SoftwareCosts::residuals`]: `0.5` is the median. None where nothing was held out.
    pub fn residual(&self, quantile: f64) -> Option<f64> {
        let sizes = self.residuals();
        let last = sizes.len().checked_sub(1)?;
        Some(sizes[(quantile * last as f64).ceil() as usize])
    }

    /// Reads what [`SoftwareCosts::to_toml`] wrote.
    ///
    /// **Errors**: [`WhatIfError::Calibration`]: not such a text, or a cost that is none.
    pub fn from_toml(text: &str) -> Result<SoftwareCosts, WhatIfError> {
        let bad = |problem: String| WhatIfError::Calibration { problem };
        let costs: SoftwareCosts = toml::from_str(text)
            .map_err(|error| bad(format!("{}; hanare what-if --calibrate makes one anew", error.message().replace('\n', " "))))?;
        let Software { client, node, byte } = costs.kernel;
        let all = [client, node, byte, costs.near_call, costs.near_byte, costs.element, costs.spread_element];
        let more = [
            costs.bypass.client,
            costs.bypass.node,
            costs.bypass.byte,
            costs.wake,
            costs.switch,
            costs.fault,
            costs.brought_page,
            costs.held_up.mean,
            costs.held_up.p99,
        ];
        match all.iter().chain(&more).find(|cost| !(0.0..1e12).contains(*cost)) {
            Some(cost) => Err(bad(format!("{cost} ns is no cost of software"))),
            None if costs.cores == 0 || costs.cores > WHAT_IF_CORE_COUNT_MAX => {
                Err(bad(format!("a host of {} processors", costs.cores)))
            }
            None => Ok(costs),
        }
    }

    /// The text that is kept.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("numbers and texts have a TOML form")
    }
}

/// Costs of no host, for tests: round numbers, so that sums can be checked by hand.
#[cfg(test)]
pub fn round_numbers() -> SoftwareCosts {
    SoftwareCosts {
        host: "test".to_string(),
        date: "2026-01-01".to_string(),
        cores: 2,
        kernel: Software { client: 4_000.0, node: 6_000.0, byte: 0.5 },
        bypass: Software { client: 500.0, node: 500.0, byte: 0.0 },
        near_call: 50.0,
        near_byte: 0.1,
        element: 3.0,
        spread_element: 10.0,
        wake: 40_000.0,
        switch: 1_000.0,
        fault: 3_000.0,
        brought_page: 500.0,
        points: vec![Predicted::held_out("get 4KiB", 10_000.0, 11_000.0), Predicted::held_out("put 4KiB", 10_000.0, 9_800.0)],
        ..SoftwareCosts::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_kept_and_read_and_checked() {
        let costs = round_numbers();
        assert_eq!(SoftwareCosts::from_toml(&costs.to_toml()).unwrap(), costs);
        let bad = costs.to_toml().replace("wake = 40000.0", "wake = -1.0");
        assert!(SoftwareCosts::from_toml(&bad).unwrap_err().to_string().contains("-1 ns"));
        assert!(SoftwareCosts::from_toml("cores = 2").is_err());
    }
}
