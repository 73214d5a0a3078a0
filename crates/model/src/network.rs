//! A network on paper: a user's own from a file, or one of those that have a name here, each number with its source.
use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use thiserror::Error;

use crate::time::Picos;
use crate::unit;

/// How the product's messages, or a program's loads, get onto a network.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Way {
    /// Messages through the kernel's sockets, at both ends.
    #[default]
    Kernel,
    /// Messages that programs and nodes give to the network themselves.
    Bypass,
    /// No messages: a processor's loads and stores, so many lines of them under way at a time.
    Loads {
        /// Bytes of a line.
        line: u64,
        /// Lines that one processor has under way.
        outstanding: u64,
    },
}

/// What a frame carries, and what travels with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Bytes of messages in a full frame.
    pub payload: u64,
    /// Bytes of headers, check and gap of each frame.
    pub around: u64,
}

/// A network as a few numbers; experiments that can take one use it in place of the paper's.
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    /// The name it is shown by.
    pub name: String,
    /// How messages get onto it.
    pub way: Way,
    /// Each switch beyond the first.
    pub hop: Picos,
    /// What a message is cut into; none where the rate is that of messages.
    pub frame: Option<Frame>,
    /// Where each key's number comes from, with its date.
    pub sources: BTreeMap<String, String>,
    /// From the last bit sent to the last bit received, for an empty message through one switch; of a load, to its answer.
    pub latency: Picos,
    /// Payload rate of one direction, in bytes per second.
    pub bytes_per_second: u64,
    /// What sender and receiver together spend on each message, besides the line.
    pub overhead: Picos,
    /// Bytes that a link which was idle passes at once, as token buckets let it; usually 0.
    pub burst: u64,
    /// Whether all nodes and both directions share the rate, as on a bus or a loopback with one shaper.
    pub is_shared: bool,
}

impl Network {
    /// The time one message of `bytes` takes from the sender's call to the receiver's return.
    pub fn message(&self, bytes: u64) -> Picos {
        self.overhead + self.latency + Picos::from_bytes(bytes, self.bytes_per_second)
    }

    /// The fabric between nodes of one host: all that it takes is software.
    pub fn here() -> Network {
        Network {
            name: "here".to_string(),
            way: Way::Kernel,
            hop: Picos::ZERO,
            frame: None,
            sources: BTreeMap::new(),
            latency: Picos::ZERO,
            bytes_per_second: u64::MAX,
            overhead: Picos::ZERO,
            burst: 0,
            is_shared: false,
        }
    }

    /// How long a link would have taken for its burst.
    pub fn burst_time(&self) -> Picos {
        Picos::from_bytes(self.burst, self.bytes_per_second)
    }

    /// The networks that have a name, `here` not among them.
    pub fn names() -> impl Iterator<Item = &'static str> {
        NAMED.iter().map(|(name, _)| *name)
    }

    /// A network by name, else from the file of that name.
    ///
    /// **Errors**: as [`Network::read`]; a name without a dot or slash that is none is told the names.
    pub fn find(given: &str) -> Result<Network, NetworkError> {
        if given == "here" {
            return Ok(Network::here());
        }
        match NAMED.iter().find(|(name, _)| *name == given) {
            Some((name, text)) => Network::parse(name, text),
            None if !given.contains(['.', '/']) => {
                Err(NetworkError::Unknown { given: given.to_string(), known: Network::names().collect::<Vec<_>>().join(", ") })
            }
            None => Network::read(Path::new(given)),
        }
    }

    /// How long `bytes` of a message hold a link.
    pub fn on_line(&self, bytes: u64) -> Picos {
        let around = self.frame.map_or(0, |frame| bytes.div_ceil(frame.payload).max(1) * frame.around);
        Picos::from_bytes(bytes + around, self.bytes_per_second)
    }

    /// Reads a network file:
    ///
    /// ```toml
    /// name = "my cluster"        # optional
    /// latency = "1.3 us"         # 0 to 1 s
    /// bandwidth = "12.5 GB/s"    # 1 KB/s to 10 TB/s, powers of ten
    /// overhead = "300 ns"        # 0 to 1 s, per message
    /// way = "kernel"             # optional: kernel, bypass or loads
    /// hop = "100 ns"             # optional: each switch beyond the first
    /// payload = "1448 B"         # optional, with around: what a frame carries
    /// around = "90 B"            #   and what travels with it
    /// burst = "256 KB"           # optional: what a link that was idle passes at once, as shapers let it
    /// shared = true              # optional: all nodes and both directions share the bandwidth, as on a bus
    /// line = "64 B"              # with way = "loads": what a load brings
    /// outstanding = 16           #   and how many a processor has under way
    /// [source]                   # optional: where a key's number comes from
    /// latency = "measured on 2026-01-31 by ..."
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
        let name = table.name.clone().unwrap_or_else(|| file.to_string());
        let read = |quantity: &Quantity, given: &str| Ok::<u64, NetworkError>(quantity.parse(file, given)?.round() as u64);
        let maybe = |quantity: &Quantity, given: &Option<String>| given.as_deref().map(|given| read(quantity, given)).transpose();
        let frame = match (maybe(&PAYLOAD, &table.payload)?, maybe(&AROUND, &table.around)?) {
            (Some(payload), Some(around)) => Some(Frame { payload, around }),
            (None, None) => None,
            _ => return Err(NetworkError::form(file, "payload and around belong together")),
        };
        let line = maybe(&LINE, &table.line)?;
        let way = match (table.way.as_deref().unwrap_or("kernel"), line, table.outstanding) {
            ("kernel", None, None) => Way::Kernel,
            ("bypass", None, None) => Way::Bypass,
            ("loads", Some(line), Some(outstanding @ 1..=4096)) => Way::Loads { line, outstanding },
            ("loads", ..) => return Err(NetworkError::form(file, "way = \"loads\" needs line and outstanding = 1 to 4096")),
            _ => {
                return Err(NetworkError::form(file, "way is kernel, bypass or loads, and only loads have line and outstanding"));
            }
        };
        Ok(Network {
            name,
            way,
            hop: Picos(maybe(&HOP, &table.hop)?.unwrap_or(0)),
            frame,
            latency: Picos(read(&LATENCY, &table.latency)?),
            bytes_per_second: read(&BANDWIDTH, &table.bandwidth)?,
            overhead: Picos(read(&OVERHEAD, &table.overhead)?),
            burst: maybe(&BURST, &table.burst)?.unwrap_or(0),
            is_shared: table.shared.unwrap_or(false),
            sources: table.source,
        })
    }
}

/// The networks that have a name, each a file of the form that users write.
const NAMED: &[(&str, &str)] = &[
    ("1gbe", include_str!("../networks/1gbe.toml")),
    ("100gbe-tcp", include_str!("../networks/100gbe-tcp.toml")),
    ("100gbe-rdma", include_str!("../networks/100gbe-rdma.toml")),
    ("ib-ndr", include_str!("../networks/ib-ndr.toml")),
    ("cxl2", include_str!("../networks/cxl2.toml")),
    ("cxl3", include_str!("../networks/cxl3.toml")),
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    name: Option<String>,
    latency: String,
    bandwidth: String,
    overhead: String,
    way: Option<String>,
    hop: Option<String>,
    payload: Option<String>,
    around: Option<String>,
    burst: Option<String>,
    shared: Option<bool>,
    line: Option<String>,
    outstanding: Option<u64>,
    #[serde(default)]
    source: BTreeMap<String, String>,
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
const HOP: Quantity = Quantity { key: "hop", base: "ps", low: 0.0, high: 1e12, example: "100 ns", range: "0 to 1 s" };
const PAYLOAD: Quantity = Quantity { key: "payload", base: "B", low: 1.0, high: 1e9, example: "1448 B", range: "1 B to 1 GB" };
const AROUND: Quantity = Quantity { key: "around", base: "B", low: 0.0, high: 1e6, example: "90 B", range: "0 to 1 MB" };
const BURST: Quantity = Quantity { key: "burst", base: "B", low: 0.0, high: 1e9, example: "256 KB", range: "0 to 1 GB" };
const LINE: Quantity = Quantity { key: "line", base: "B", low: 1.0, high: 65536.0, example: "64 B", range: "1 B to 64 KB" };
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

impl NetworkError {
    fn form(file: &str, problem: &str) -> NetworkError {
        NetworkError::Form { file: file.to_string(), problem: problem.to_string() }
    }
}

/// Why a network file was refused; one line.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NetworkError {
    /// No network has this name.
    #[error("{given}: no network has this name (names: here, {known}; or a file, as ./lab.toml)")]
    Unknown {
        /// The name given.
        given: String,
        /// The names there are.
        known: String,
    },
    /// The file could not be read.
    #[error("{file}: {problem}")]
    Read {
        /// The file.
        file: String,
        /// The problem.
        problem: String,
    },
    /// The file is not the TOML that is expected.
    #[error(
        "{file}: {problem} (expected the keys latency, bandwidth, overhead and an optional name, each a text like \"1.3 us\")"
    )]
    Form {
        /// The file.
        file: String,
        /// The fault.
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
    fn every_number_of_a_named_network_has_a_source_with_a_date() {
        for name in Network::names() {
            let network = Network::find(name).unwrap_or_else(|error| panic!("{error}"));
            let text = NAMED.iter().find(|(known, _)| *known == name).unwrap().1;
            let table: toml::Table = toml::from_str(text).unwrap();
            for key in table.keys().filter(|key| !["name", "source", "way"].contains(&key.as_str())) {
                let source = network.sources.get(key).unwrap_or_else(|| panic!("{name}: {key} has no source"));
                assert!(source.contains("2026-"), "{name}: {key}: no date in {source}");
            }
        }
        assert!(Network::find("token-ring").unwrap_err().to_string().contains("ib-ndr"));
    }

    #[test]
    fn frames_and_loads_are_read_and_refused_by_halves() {
        let framed = Network::parse("lab.toml", &format!("{GOOD}\npayload = '1448 B'\naround = '90 B'")).unwrap();
        assert_eq!(framed.on_line(2_000), Picos::from_bytes(2_000 + 180, 12_500_000_000));
        let loads = Network::parse("lab.toml", &format!("{GOOD}\nway = 'loads'\nline = '64 B'\noutstanding = 16")).unwrap();
        assert_eq!(loads.way, Way::Loads { line: 64, outstanding: 16 });
        for more in ["payload = '1448 B'", "way = 'loads'", "way = 'pigeons'", "outstanding = 3"] {
            assert!(Network::parse("lab.toml", &format!("{GOOD}\n{more}")).is_err(), "{more}");
        }
    }

    #[test]
    fn a_missing_file_is_named() {
        let line = Network::read(Path::new("/nowhere/lab.toml")).unwrap_err().to_string();
        assert!(line.starts_with("/nowhere/lab.toml: "), "{line}");
    }
}
