//! A user's own network on paper: what a message of some length would take on it.
use std::path::Path;

use serde::Deserialize;
use thiserror::Error;

use crate::time::Picos;
use crate::unit;

/// A network as three numbers; experiments that can take one use it in place of the paper's.
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    /// The name it is shown by.
    pub name: String,
    /// From the last bit sent to the last bit received, for an empty message.
    pub latency: Picos,
    /// Payload rate of one direction, in bytes per second.
    pub bytes_per_second: u64,
    /// What sender and receiver together spend on each message, besides the line.
    pub overhead: Picos,
}

impl Network {
    /// The time one message of `bytes` takes from the sender's call to the receiver's return.
    pub fn message(&self, bytes: u64) -> Picos {
        self.overhead + self.latency + Picos::from_bytes(bytes, self.bytes_per_second)
    }

    /// Reads a network file:
    ///
    /// ```toml
    /// name = "my cluster"        # optional
    /// latency = "1.3 us"         # 0 to 1 s
    /// bandwidth = "12.5 GB/s"    # 1 KB/s to 10 TB/s, powers of ten
    /// overhead = "300 ns"        # 0 to 1 s, per message
    /// ```
    ///
    /// **Errors**: [`NetworkError`], one line that names the file, the key, its unit and its range.
    pub fn read(path: &Path) -> Result<Network, NetworkError> {
        let file = path.display().to_string();
        let text = std::fs::read_to_string(path)
            .map_err(|error| NetworkError::Read { file: file.clone(), problem: error.to_string() })?;
        Network::parse(&file, &text)
    }

    fn parse(file: &str, text: &str) -> Result<Network, NetworkError> {
        let table: File = toml::from_str(text)
            .map_err(|error| NetworkError::Form { file: file.to_string(), problem: error.message().replace('\n', " ") })?;
        let name = table.name.unwrap_or_else(|| file.to_string());
        let read = |quantity: &Quantity, given: &str| quantity.parse(file, given);
        Ok(Network {
            name,
            latency: Picos(read(&LATENCY, &table.latency)?.round() as u64),
            bytes_per_second: read(&BANDWIDTH, &table.bandwidth)?.round() as u64,
            overhead: Picos(read(&OVERHEAD, &table.overhead)?.round() as u64),
        })
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: Option<String>,
    latency: String,
    bandwidth: String,
    overhead: String,
}

/// One key of the file: the unit it is kept in, its range there, and how the range reads.
struct Quantity {
    key: &'static str,
    base: &'static str,
    low: f64,
    high: f64,
    example: &'static str,
    range: &'static str,
}

const LATENCY: Quantity = Quantity { key: "latency", base: "ps", low: 0.0, high: 1e12, example: "1.3 us", range: "0 to 1 s" };
const OVERHEAD: Quantity = Quantity { key: "overhead", base: "ps", low: 0.0, high: 1e12, example: "300 ns", range: "0 to 1 s" };
const BANDWIDTH: Quantity =
    Quantity { key: "bandwidth", base: "B/s", low: 1e3, high: 1e13, example: "12.5 GB/s", range: "1 KB/s to 10000 GB/s" };

impl Quantity {
    fn parse(&self, file: &str, given: &str) -> Result<f64, NetworkError> {
        let refuse = || NetworkError::Value {
            file: file.to_string(),
            key: self.key,
            given: given.to_string(),
            units: unit::accepted(self.base).join(", "),
            range: self.range,
            example: self.example,
        };
        let split = given.find(|letter: char| letter.is_whitespace()).ok_or_else(refuse)?;
        let (number, unit_name) = (given[..split].parse::<f64>().map_err(|_| refuse())?, given[split..].trim());
        let value = unit::convert(number, unit_name, self.base).ok_or_else(refuse)?;
        if (self.low..=self.high).contains(&value) { Ok(value) } else { Err(refuse()) }
    }
}

/// Why a network file was refused; one line.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NetworkError {
    /// The file could not be read.
    #[error("{file}: {problem}")]
    Read {
        /// The file.
        file: String,
        /// What the system said.
        problem: String,
    },
    /// The file is not the TOML that is expected.
    #[error(
        "{file}: {problem} (expected the keys latency, bandwidth, overhead and an optional name, each a text like \"1.3 us\")"
    )]
    Form {
        /// The file.
        file: String,
        /// What is wrong.
        problem: String,
    },
    /// A value is not a number with a unit, or out of range.
    #[error("{file}: {key}: \"{given}\" is refused; unit: {units}, range: {range}, as in \"{example}\"")]
    Value {
        /// The file.
        file: String,
        /// The key.
        key: &'static str,
        /// The value given.
        given: String,
        /// The units accepted.
        units: String,
        /// The range accepted.
        range: &'static str,
        /// A value of the right form.
        example: &'static str,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "name = 'lab'\nlatency = '1.3 us'\nbandwidth = '12.5 GB/s'\noverhead = '300 ns'";

    #[test]
    fn a_message_is_overhead_latency_and_line() {
        let network = Network::parse("lab.toml", GOOD).unwrap();
        assert_eq!(network.message(12_500), Picos::ns(300 + 1_300 + 1_000));
    }

    #[test]
    fn refusals_are_one_line_with_key_unit_and_range() {
        for (from, to, parts) in [
            ("1.3 us", "1.3 MB", ["latency", "ns", "0 to 1 s"]),
            ("1.3 us", "-1 us", ["latency", "-1 us", "0 to 1 s"]),
            ("12.5 GB/s", "0 GB/s", ["bandwidth", "MB/s", "1 KB/s"]),
            ("300 ns", "300", ["overhead", "ns", "0 to 1 s"]),
            ("overhead", "overheat", ["overheat", "lab.toml", "overhead"]),
        ] {
            let line = Network::parse("lab.toml", &GOOD.replace(from, to)).unwrap_err().to_string();
            assert!(parts.iter().all(|part| line.contains(part)) && !line.contains('\n'), "{line}");
        }
    }

    #[test]
    fn a_missing_file_is_named() {
        let line = Network::read(Path::new("/nowhere/lab.toml")).unwrap_err().to_string();
        assert!(line.starts_with("/nowhere/lab.toml: "), "{line}");
    }
}
