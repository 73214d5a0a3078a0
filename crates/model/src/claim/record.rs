//! How much a verdict depends on what the papers leave open: two boxes of parameters, one step of each, and the five that move
//! it most.
//!
//! | box | numbers that were chosen or contradict their paper | structural switches | says |
//! |---|---|---|---|
//! | two-fold | half to twice | as by default | in under half of it as by default: a knife-edge |
//! | ten-fold | a tenth to ten times | drawn too | the same in all of it, or most conditions are: by construction |
//!
//! [`crate::sensitivity`] makes them. It takes thousands of runs, so the result is recorded (`facts/sensitivity.toml`, by `cargo run --release -p hanare-model
//! --example sensitivity`) and the report says so. A record counts only while the model still gives the values it was made for.
use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde::{Deserialize, Serialize};

use super::Check;

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

/// The points of a box and how the claim came out in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Share {
    /// Points that could be run; none where nothing that is varied takes part.
    pub points: usize,
    /// Points in which the claim came out as at the defaults.
    pub held: usize,
}

impl Share {
    pub(crate) fn add(&mut self, is_same: bool) {
        self.points += 1;
        self.held += usize::from(is_same);
    }

    /// The same in every point, but for one in `EXCEPTIONS_ONE_IN`.
    pub fn is_whole(self) -> bool {
        self.held + self.points / EXCEPTIONS_ONE_IN >= self.points
    }
}

/// In the corners of a box every number is off by ten at once: a claim that fails in one point of fifty is not tested by the rest.
const EXCEPTIONS_ONE_IN: usize = 50;

/// A choice of a structural switch, and the points of the ten-fold box that took it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Choice {
    /// `KEY = CHOICE`.
    pub name: String,
    /// Points with this choice.
    pub points: usize,
    /// Points in which the claim holds.
    pub holds: usize,
}

/// A run too long for every report: the claim at the effort that simulates all of the paper's program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Whole {
    /// `KEY = VALUE`.
    pub name: String,
    /// The deciding value there.
    pub value: f64,
    /// Whether the first reading holds.
    pub holds: bool,
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
    /// The values of all conditions at the defaults.
    pub values: Vec<f64>,
    /// The two-fold box.
    pub box2: Share,
    /// The ten-fold box with structure varied.
    pub box10: Share,
    /// The middle eight tenths of the deciding value in the two-fold box.
    pub band: Option<[f64; 2]>,
    /// Conditions that hold in every point of the ten-fold box.
    pub constant: Vec<String>,
    /// Structural switches in the ten-fold box.
    pub choices: Vec<Choice>,
    /// The claim at whole efforts.
    pub whole: Vec<Whole>,
    /// Single steps that flip it, `pci.wait = 10`.
    pub flips: Vec<String>,
    /// The parameters that move the value most.
    pub bars: Vec<Bar>,
}

impl Record {
    /// The claim comes out the same wherever it was tried: the model could not have shown anything else.
    pub fn is_constant(&self) -> bool {
        match self.box10.points {
            0 => self.box2.points == 0,
            _ => self.box10.is_whole(),
        }
    }

    /// More than half of several conditions are the same in every point: what is left to test is not most of the claim.
    pub fn is_mostly_constant(&self) -> bool {
        self.constant.len() < self.values.len() && 2 * self.constant.len() > self.values.len()
    }

    /// A step flips it, or less than half of the two-fold box agrees.
    pub fn is_edge(&self) -> bool {
        !self.flips.is_empty() || 2 * self.box2.held < self.box2.points
    }
}

/// Every claim examined.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Recorded {
    /// The hash of each paper's parameters that the records were made with.
    pub parameters: BTreeMap<String, String>,
    /// Records by claim.
    pub claims: BTreeMap<String, Record>,
}

impl Recorded {
    /// The record of a claim, while `checks` still give the values it was made for.
    pub fn of(&self, id: &str, checks: &[Check]) -> Option<&Record> {
        let record = self.claims.get(id)?;
        let is_near = |(check, value): (&Check, &f64)| (check.value - value).abs() <= 1e-6 * value.abs().max(1e-9);
        let is_same = record.values.len() == checks.len() && checks.iter().zip(&record.values).all(is_near);
        is_same.then_some(record)
    }
}

/// The record that is part of the crate.
pub fn recorded() -> &'static Recorded {
    static RECORDED: OnceLock<Recorded> = OnceLock::new();
    let read = || {
        toml::from_str(include_str!("../../facts/sensitivity.toml"))
            .expect("sensitivity.toml is part of the crate and is read by its tests")
    };
    RECORDED.get_or_init(read)
}

/// The record as the text of `facts/sensitivity.toml`.
pub fn to_toml(recorded: &Recorded) -> String {
    let body = toml::to_string(recorded).expect("plain data");
    format!(
        "# How much each verdict depends on what the papers leave open.\n# Recorded by `cargo run --release -p hanare-model --example sensitivity`; do not edit.\n\n{body}"
    )
}
