//! Parameters of a model: cited constants that a user may change for a run.
//!
//! The papers' tables are TOML beside the facts ([`Parameters::of`]). A parameter that is a fact of a paper takes value and unit from the
//! facts, so they stand in one place. Parameters do not change in a run; what changes is the model's own state.
mod table;

use std::collections::BTreeSet;
use std::fmt;

use thiserror::Error;

use crate::facts::facts;
use crate::network::Network;
use crate::reads;
use crate::time::Picos;
use crate::unit;

/// Where a parameter's default comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The fact of this key.
    Fact(&'static str),
    /// Not in the paper: why this value was chosen, or where it is from.
    Chosen(&'static str),
    /// Solved for one claim from facts that were read for it.
    Fitted,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Source::Fact(key) => f.write_str(&facts().fact(key).citation()),
            Source::Chosen(why) => write!(f, "chosen: {why}"),
            Source::Fitted => f.write_str("fitted for this claim"),
        }
    }
}

/// One value a model depends on.
#[derive(Clone, Debug)]
pub struct Parameter {
    /// The name a user sets it by, `part.quantity`.
    pub key: &'static str,
    /// The value in `unit`; the index of a choice; 0 or 1 for a switch.
    pub value: f64,
    /// The unit, as in the paper.
    pub unit: &'static str,
    /// The least value accepted.
    pub low: f64,
    /// The greatest value accepted.
    pub high: f64,
    /// Where the default comes from.
    pub source: Source,
    /// What it is, in one sentence.
    pub meaning: &'static str,
    /// The names of a choice's values; empty for a number.
    pub choices: &'static [&'static str],
    /// Facts that a chosen value was chosen from.
    pub from: &'static [&'static str],
    /// Whether the text allows the other choices too: a claim is judged in each.
    pub is_reading: bool,
    /// Whether it says how much is simulated, or with which seed, and nothing of the machine.
    pub is_effort: bool,
    /// The effort that simulates all of the paper's program, where the default is less.
    pub whole: Option<f64>,
}

impl Parameter {
    /// The facts behind the value: the one it is, or those it was chosen from.
    pub fn facts(&self) -> impl Iterator<Item = &'static str> {
        let cited = if let Source::Fact(key) = self.source { Some(key) } else { None };
        let from = if self.source == Source::Fitted { &[] } else { self.from };
        cited.into_iter().chain(from.iter().copied())
    }

    /// The effort that would simulate all of the paper's program, where this one simulates less.
    pub fn missing_effort(&self) -> Option<String> {
        self.whole.filter(|whole| *whole > self.value).map(|whole| self.shown_as(whole))
    }

    /// The value as a user reads it: a number, or the name of the choice.
    pub fn shown(&self) -> String {
        self.shown_as(self.value)
    }

    fn shown_as(&self, value: f64) -> String {
        match self.choices.get(value as usize) {
            Some(name) => (*name).to_string(),
            None => format!("{value}"),
        }
    }

    /// What is accepted: a range with its unit, or the names of a choice.
    pub fn range(&self) -> String {
        if self.choices.is_empty() {
            format!("{} to {} {}", self.low, self.high, self.unit).trim_end().to_string()
        } else {
            self.choices.join(", ")
        }
    }

    fn parse(&self, text: &str) -> Result<f64, ParameterError> {
        let refuse = |problem: String| ParameterError::Value {
            key: self.key.to_string(),
            problem,
            unit: self.unit.to_string(),
            range: self.range(),
        };
        let text = text.trim();
        if !self.choices.is_empty() {
            let index = self.choices.iter().position(|choice| *choice == text);
            return index.map(|index| index as f64).ok_or_else(|| refuse(format!("\"{text}\" is none of its choices")));
        }
        // The unit starts at the first letter that cannot belong to a number; `1e3` is a number, `3m` has a unit.
        let end = (1..=text.len()).rev().find(|&end| text.is_char_boundary(end) && text[..end].trim().parse::<f64>().is_ok());
        let Some(end) = end else { return Err(refuse(format!("\"{text}\" is not a number"))) };
        let number: f64 = text[..end].trim().parse().unwrap_or(f64::NAN);
        let given = text[end..].trim();
        let value = if given.is_empty() {
            number
        } else {
            unit::convert(number, given, self.unit).ok_or_else(|| {
                refuse(format!("\"{given}\" is not its unit (accepted: {})", unit::accepted(self.unit).join(", ")))
            })?
        };
        if !(self.low..=self.high).contains(&value) {
            return Err(refuse(format!("{value} is out of range")));
        }
        if self.is_whole() && value.fract() != 0.0 {
            return Err(refuse(format!("{value} is not a whole number")));
        }
        Ok(value)
    }

    /// Whether the model counts in it, so that a step is one.
    pub fn is_counted(&self) -> bool {
        self.is_whole() || (matches!(self.unit, "cycles" | "clocks") && self.value.fract() == 0.0)
    }

    /// Whether only whole numbers make sense: counts of things.
    pub fn is_whole(&self) -> bool {
        matches!(self.unit, "count" | "nodes" | "order" | "cells" | "pages" | "entries" | "processors" | "B" | "seed")
    }
}

/// Why a parameter could not be set; one line that names key, unit and range.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ParameterError {
    /// No parameter of this name.
    #[error("{key}: no such parameter{nearest}")]
    Unknown {
        /// The name given.
        key: String,
        /// A hint with the nearest name, or with where the names are listed.
        nearest: String,
    },
    /// The value is not a number, not in a fitting unit, or out of range.
    #[error("{key}: {problem}; unit: {unit}, range: {range}")]
    Value {
        /// The parameter.
        key: String,
        /// What is wrong with the value.
        problem: String,
        /// The parameter's unit.
        unit: String,
        /// What is accepted.
        range: String,
    },
    /// The text is not of the asked form.
    #[error("\"{text}\": expected {form}")]
    Form {
        /// The text given.
        text: String,
        /// The form expected.
        form: &'static str,
    },
}

/// An ordered table of parameters, and the network a user brought, if any.
#[derive(Clone, Debug)]
pub struct Parameters {
    table: Vec<Parameter>,
    network: Option<Network>,
}

impl Parameters {
    /// The parameters in order.
    pub fn iter(&self) -> impl Iterator<Item = &Parameter> {
        self.table.iter()
    }

    /// A parameter by key, for callers that bring their own key.
    pub fn find(&self, key: &str) -> Option<&Parameter> {
        self.table.iter().find(|parameter| parameter.key == key)
    }

    fn expect(&self, key: &str) -> &Parameter {
        self.find(key).unwrap_or_else(|| panic!("the model asks for the unknown parameter {key}"))
    }

    /// The value in the parameter's own unit; an unknown key is a defect of the model and panics. The read is recorded.
    pub fn get(&self, key: &str) -> f64 {
        let parameter = self.expect(key);
        reads::parameter(parameter.key, parameter.facts());
        parameter.value
    }

    /// The value in another unit of its kind; a unit of another kind is a defect of the model and panics.
    pub fn get_in(&self, key: &str, unit: &str) -> f64 {
        let parameter = self.expect(key);
        reads::parameter(parameter.key, parameter.facts());
        unit::convert(parameter.value, parameter.unit, unit)
            .unwrap_or_else(|| panic!("parameter {key} [{}] is not in {unit}", parameter.unit))
    }

    /// A count, rounded to the nearest whole number.
    pub fn count(&self, key: &str) -> u64 {
        self.get(key).round() as u64
    }

    /// A time, rounded to the nearest picosecond.
    pub fn picos(&self, key: &str) -> Picos {
        Picos(self.get_in(key, "ps").round() as u64)
    }

    /// A size in bytes, rounded to the nearest byte.
    pub fn bytes(&self, key: &str) -> u64 {
        self.get_in(key, "B").round() as u64
    }

    /// A rate in bytes per second.
    pub fn bytes_per_second(&self, key: &str) -> u64 {
        self.get_in(key, "B/s").round() as u64
    }

    /// A frequency in hertz.
    pub fn hertz(&self, key: &str) -> u64 {
        self.get_in(key, "Hz").round() as u64
    }

    /// The name of a choice.
    pub fn choice_name(&self, key: &str) -> &'static str {
        let index = self.choice(key);
        self.expect(key).choices[index]
    }

    /// The index of a choice.
    pub fn choice(&self, key: &str) -> usize {
        self.get(key) as usize
    }

    /// Whether a switch is on.
    pub fn is_on(&self, key: &str) -> bool {
        self.get(key) != 0.0
    }

    /// The user's own network, where one was given; see [`crate::experiment::Experiment::takes_network`].
    pub fn network(&self) -> Option<&Network> {
        self.network.as_ref()
    }

    /// Puts the user's own network in place.
    pub fn set_network(&mut self, network: Network) {
        self.network = Some(network);
    }

    /// Sets a value as a user typed it: a number with an optional unit of the right kind, or the name of a choice.
    ///
    /// **Errors**: [`ParameterError`], one line that names key, unit and range.
    pub fn set(&mut self, key: &str, text: &str) -> Result<(), ParameterError> {
        let Some(index) = self.table.iter().position(|parameter| parameter.key == key) else {
            return Err(ParameterError::Unknown { key: key.to_string(), nearest: self.nearest(key) });
        };
        self.table[index].value = self.table[index].parse(text)?;
        Ok(())
    }

    /// Sets from one `KEY=VALUE`.
    pub fn set_pair(&mut self, pair: &str) -> Result<(), ParameterError> {
        let form = || ParameterError::Form { text: pair.to_string(), form: "KEY=VALUE, as in link.length=10m" };
        let (key, value) = pair.split_once('=').ok_or_else(form)?;
        self.set(key.trim(), value)
    }

    /// A copy with one value changed, for sweeps inside a model; out-of-range values are a defect of the model and panic.
    pub fn with(&self, key: &str, value: f64) -> Parameters {
        let mut copy = self.clone();
        let parameter = copy.table.iter_mut().find(|parameter| parameter.key == key);
        let parameter = parameter.unwrap_or_else(|| panic!("the model sweeps the unknown parameter {key}"));
        assert!((parameter.low..=parameter.high).contains(&value), "{key} = {value} is out of range");
        parameter.value = value;
        copy
    }

    /// A copy with another choice, by its name; an unknown one is a defect of the model and panics.
    pub fn with_choice(&self, key: &str, name: &str) -> Parameters {
        let mut copy = self.clone();
        copy.set(key, name).unwrap_or_else(|refusal| panic!("the model chooses what there is not: {refusal}"));
        copy
    }

    /// A copy with one value fitted: it no longer rests on the facts behind its default.
    pub fn fitted(&self, key: &str, value: f64) -> Parameters {
        // A fit to other parameters than the defaults may leave the range; its edge is then the nearest that can be run.
        let (low, high) = self.find(key).map_or((value, value), |parameter| (parameter.low, parameter.high));
        let mut copy = self.with(key, if value.is_nan() { low } else { value.clamp(low, high) });
        if let Some(parameter) = copy.table.iter_mut().find(|parameter| parameter.key == key) {
            parameter.source = Source::Fitted;
        }
        copy
    }

    /// Whether both tables hold the same values from the same sources under these keys, on the same network.
    pub fn is_same(&self, other: &Parameters, keys: &BTreeSet<&'static str>) -> bool {
        let same = |(one, two): (&Parameter, &Parameter)| {
            one.key == two.key && (!keys.contains(one.key) || (one.value == two.value && one.source == two.source))
        };
        self.table.len() == other.table.len() && self.network == other.network && self.table.iter().zip(&other.table).all(same)
    }

    /// A hash of every key and value in order: 64 bits of FNV-1a.
    pub fn fingerprint(&self) -> u64 {
        let bytes = self.table.iter().flat_map(|parameter| format!("{}={}\n", parameter.key, parameter.shown()).into_bytes());
        bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
    }

    /// The values of a sweep `KEY=A..B`, `KEY=A..B..STEP` or `KEY=A..B*FACTOR`, each end with an optional unit.
    ///
    /// Without a step, a choice and a count of at most 32 values take every one, other counts double, and numbers take eleven even steps.
    ///
    /// **Errors**: [`ParameterError`], where the form, the key or an end is wrong.
    pub fn sweep(&self, text: &str) -> Result<Sweep, ParameterError> {
        let form = || ParameterError::Form { text: text.to_string(), form: "KEY=A..B, KEY=A..B..STEP or KEY=A..B*FACTOR" };
        let (key, range) = text.split_once('=').ok_or_else(form)?;
        let key = key.trim();
        let parameter =
            self.find(key).ok_or_else(|| ParameterError::Unknown { key: key.to_string(), nearest: self.nearest(key) })?;
        let (first, rest) = range.split_once("..").ok_or_else(form)?;
        let (last, step, factor) = match (rest.split_once(".."), rest.split_once('*')) {
            (Some((last, step)), _) => (last, Some(step.trim().parse::<f64>().map_err(|_| form())?), None),
            (None, Some((last, factor))) => (last, None, Some(factor.trim().parse::<f64>().map_err(|_| form())?)),
            (None, None) => (rest, None, None),
        };
        let (first, last) = (parameter.parse(first)?, parameter.parse(last)?);
        if first > last || step.is_some_and(|step| step <= 0.0) || factor.is_some_and(|factor| factor <= 1.0 || first <= 0.0) {
            return Err(form());
        }
        let values = match (step, factor) {
            (Some(step), _) => steps(first, last, step),
            (None, Some(factor)) => doublings(first, last, factor),
            _ if !parameter.choices.is_empty() || (parameter.is_whole() && last - first <= 32.0) => steps(first, last, 1.0),
            _ if parameter.is_whole() => doublings(first.max(1.0), last, 2.0),
            _ if first == last => vec![first],
            _ => steps(first, last, (last - first) / 10.0),
        };
        if values.len() > SWEEP_LEN_MAX {
            return Err(ParameterError::Form { text: text.to_string(), form: "a sweep of at most 1000 values" });
        }
        Ok(Sweep { key: parameter.key, values })
    }

    /// A hint for an unknown key: keys that share its longest part, or where to look.
    fn nearest(&self, key: &str) -> String {
        let last = key.rsplit('.').next().unwrap_or(key);
        let close: Vec<&str> = self
            .table
            .iter()
            .map(|p| p.key)
            .filter(|other| !last.is_empty() && (other.contains(last) || other.contains(key)))
            .collect();
        match close.as_slice() {
            [] => " (list them by naming the paper alone)".to_string(),
            names => format!(" (did you mean {}?)", names.join(" or ")),
        }
    }
}

/// Longer sweeps are a typing error more often than a wish, and each value is a whole run.
const SWEEP_LEN_MAX: usize = 1_000;

fn steps(first: f64, last: f64, step: f64) -> Vec<f64> {
    let count = ((last - first) / step + 1e-9).floor() as usize;
    (0..=count.min(SWEEP_LEN_MAX)).map(|index| (first + step * index as f64).min(last)).collect()
}

fn doublings(first: f64, last: f64, factor: f64) -> Vec<f64> {
    std::iter::successors(Some(first), |value| Some(value * factor))
        .take_while(|value| *value <= last * (1.0 + 1e-9))
        .take(SWEEP_LEN_MAX + 1)
        .collect()
}

/// The values one parameter takes, one run each.
#[derive(Clone, Debug, PartialEq)]
pub struct Sweep {
    /// The parameter.
    pub key: &'static str,
    /// Its values, in its own unit.
    pub values: Vec<f64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Parameters {
        Parameters::of_rows(
            r#"
            { key = "file.size", fact = "d2.testfile_text", range = [1, 4096], meaning = "size of the test file" },
            { key = "link.length", value = 10, unit = "m", range = [0, 1e5], why = "for the test", meaning = "fibre" },
            { key = "node.count", value = 2, unit = "count", range = [1, 1024], why = "for the test", meaning = "nodes" },
            { key = "bus.fixed", value = false, why = "for the test", meaning = "whether the bus is fixed" },
        "#,
        )
    }

    #[test]
    fn values_take_units_of_their_kind() {
        let mut parameters = table();
        parameters.set("link.length", "2 km").unwrap();
        assert_eq!(parameters.get("link.length"), 2000.0);
        parameters.set("link.length", "1e2").unwrap();
        assert_eq!(parameters.get("link.length"), 100.0);
        parameters.set_pair("bus.fixed=on").unwrap();
        assert!(parameters.is_on("bus.fixed"));
        assert_eq!(parameters.bytes("file.size"), 200 << 20);
    }

    #[test]
    fn every_refusal_is_one_line_with_key_unit_and_range() {
        let mut parameters = table();
        for (pair, parts) in [
            ("link.length=-1", ["link.length", "m", "0 to 100000"]),
            ("link.length=3 ns", ["link.length", "\"ns\"", "0 to 100000 m"]),
            ("link.length=far", ["link.length", "\"far\"", "0 to 100000 m"]),
            ("link.length=NaN", ["link.length", "NaN", "0 to 100000 m"]),
            ("node.count=1.5", ["node.count", "whole", "1 to 1024"]),
            ("bus.fixed=maybe", ["bus.fixed", "\"maybe\"", "off, on"]),
            ("link.lenght=3", ["link.lenght", "no such parameter", ""]),
            ("link.length", ["KEY=VALUE", "", ""]),
        ] {
            let line = parameters.set_pair(pair).unwrap_err().to_string();
            assert!(parts.iter().all(|part| line.contains(part)) && !line.contains('\n'), "{pair}: {line}");
        }
    }

    #[test]
    fn an_unknown_key_gets_a_near_one() {
        let line = table().set("length", "1").unwrap_err().to_string();
        assert!(line.contains("did you mean link.length"), "{line}");
    }

    #[test]
    fn sweeps_take_every_form() {
        let parameters = table();
        assert_eq!(parameters.sweep("node.count=1..4").unwrap().values, [1.0, 2.0, 3.0, 4.0]);
        assert_eq!(parameters.sweep("node.count=1..1024").unwrap().values.len(), 11);
        assert_eq!(parameters.sweep("link.length=0..1km..250").unwrap().values, [0.0, 250.0, 500.0, 750.0, 1000.0]);
        assert_eq!(parameters.sweep("link.length=1..8*2").unwrap().values, [1.0, 2.0, 4.0, 8.0]);
        assert_eq!(parameters.sweep("link.length=0..10").unwrap().values.len(), 11);
        assert_eq!(parameters.sweep("bus.fixed=off..on").unwrap().values, [0.0, 1.0]);
        for bad in ["link.length=5..1", "link.length=1..2..0", "link.length=1..1e5..1e-3", "nope=1..2", "link.length=1"] {
            assert!(parameters.sweep(bad).is_err(), "{bad}");
        }
    }
}
