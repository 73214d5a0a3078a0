//! What one command through the windows costs, with uncached windows and with the intended attributes.
//!
//! The Write Window is written and the Prefetch Window read by the host; between them stand a command and the SO-DIMMs.
use crate::claim::{Check, Judgement, Limit};
use crate::outcome::{Axis, Outcome, Plot, Table};
use crate::parameters::Parameters;

use super::equations::{driver_default_from_os, driver_default_from_uncached};
use super::rules::RULES;

/// Cache attributes of the windows. SOURCE: [D2 §3, "Uncached" and "DriverDefault"]
// FEATURE: D2-F13
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attribute {
    /// Both windows uncached: each 8 B access is a transaction of its own.
    Uncached,
    /// Write Window write-combining, Prefetch Window cached: 64 B at a time.
    DriverDefault,
}

/// Bytes of one uncached access.
const WORD: u64 = 8;
/// Bytes of one combined write or one line read.
const LINE: u64 = 64;

/// The costs of the windows' parts, in nanoseconds, from the parameters.
pub struct Windows<'a> {
    parameters: &'a Parameters,
    attribute: Attribute,
}

impl<'a> Windows<'a> {
    /// Windows of one attribute.
    pub fn new(parameters: &'a Parameters, attribute: Attribute) -> Windows<'a> {
        Windows { parameters, attribute }
    }

    fn ns(&self, key: &str) -> f64 {
        self.parameters.get_in(key, "ns")
    }

    fn command(&self) -> f64 {
        self.ns("command.issue") + self.ns("command.decode")
    }

    /// The module's time for `bytes` in one row.
    fn module(&self, bytes: u64) -> f64 {
        self.ns("module.row") + bytes as f64 * 1e9 / self.parameters.get_in("module.rate", "B/s")
    }

    fn host_read(&self, bytes: u64) -> f64 {
        match self.attribute {
            Attribute::Uncached => bytes.div_ceil(WORD) as f64 * self.ns("window.uncached_read"),
            Attribute::DriverDefault => bytes.div_ceil(LINE) as f64 * self.ns("window.line_read"),
        }
    }

    fn host_write(&self, bytes: u64) -> f64 {
        match self.attribute {
            Attribute::Uncached => bytes.div_ceil(WORD) as f64 * self.ns("window.uncached_write"),
            Attribute::DriverDefault => bytes.div_ceil(LINE) as f64 * self.ns("window.line_write"),
        }
    }

    /// Whether the data have arrived is seen by one uncached read of a status register.
    fn poll(&self) -> f64 {
        self.ns("window.uncached_read")
    }

    // FEATURE: D2-F10
    fn by_window(&self, bytes: u64, one: impl Fn(u64) -> f64) -> f64 {
        let window = self.parameters.bytes("window.size");
        let (full, rest) = (bytes / window, bytes % window);
        full as f64 * one(window) + if rest > 0 { one(rest) } else { 0.0 }
    }

    /// A contiguous load (VL) of `bytes`, window by window, in nanoseconds.
    pub fn load(&self, bytes: u64) -> f64 {
        self.by_window(bytes, |part| self.command() + self.module(part) + self.poll() + self.host_read(part))
    }

    /// A contiguous store (VS) of `bytes`, window by window, in nanoseconds.
    pub fn store(&self, bytes: u64) -> f64 {
        self.by_window(bytes, |part| self.host_write(part) + self.command() + self.module(part))
    }

    /// A strided load (VLS) of `count` elements of 8 B, each in another row, in nanoseconds.
    pub fn load_strided(&self, count: u64) -> f64 {
        let gather = |bytes: u64| (bytes / WORD) as f64 * self.ns("module.row");
        self.by_window(count * WORD, |part| self.command() + gather(part) + self.poll() + self.host_read(part))
    }
}

/// MB/s of `bytes` in `ns`.
pub fn rate(bytes: u64, ns: f64) -> f64 {
    bytes as f64 * 1e3 / ns
}

/// The experiment: transfer rate between SO-DIMM and host against length, for both attributes.
// FEATURE: D2-F17
pub fn run(parameters: &Parameters) -> Outcome {
    let mut outcome = Outcome::new();
    let uncached = Windows::new(parameters, Attribute::Uncached);
    let intended = Windows::new(parameters, Attribute::DriverDefault);
    let sizes: Vec<u64> = (3..=16).map(|power| 1 << power).collect();

    let mut table = Table::new(
        "Transfer between SO-DIMM and host",
        &[
            ("length", "B"),
            ("read, uncached", "MB/s"),
            ("read, cached", "MB/s"),
            ("write, uncached", "MB/s"),
            ("write, combining", "MB/s"),
        ],
    );
    let mut plot = Plot::new("Transfer rate between SO-DIMM and host", Axis::log("length", "B"), Axis::log("rate", "MB/s"));
    let curves: [(&str, &dyn Fn(u64) -> f64); 4] = [
        ("read, Uncached", &|bytes| uncached.load(bytes)),
        ("read, DriverDefault", &|bytes| intended.load(bytes)),
        ("write, Uncached", &|bytes| uncached.store(bytes)),
        ("write, DriverDefault", &|bytes| intended.store(bytes)),
    ];
    for bytes in &sizes {
        let mut row = vec![(*bytes).into()];
        row.extend(curves.iter().map(|(_, time)| rate(*bytes, time(*bytes)).into()));
        table.row(row);
    }
    for (name, time) in &curves {
        plot.line(*name, sizes.iter().map(|bytes| (*bytes as f64, rate(*bytes, time(*bytes)))));
    }
    outcome.tables.push(table);
    outcome.plots.push(plot.figure("D2 figure 6"));
    outcome.tables.push(estimates(parameters, &uncached, &intended));

    let window = parameters.bytes("window.size");
    let (read_gain, write_gain) =
        (uncached.load(window) / intended.load(window), uncached.store(window) / intended.store(window));
    outcome.headline("gain of the intended attributes, read", "x", read_gain);
    outcome.headline("gain of the intended attributes, write", "x", write_gain);
    outcome
}

/// D2-C4.
pub fn improves(parameters: &Parameters) -> Option<Judgement> {
    let [uncached, intended] =
        [Attribute::Uncached, Attribute::DriverDefault].map(|attribute| Windows::new(parameters, attribute));
    let window = parameters.bytes("window.size");
    let (read, write) = (uncached.load(window) / intended.load(window), uncached.store(window) / intended.store(window));
    let check = |what: &str, gain| Check::new(what, gain, "x", Limit::AtLeast(RULES.word("greatly")));
    Some(Judgement::new(
        format!("a full window: reads {read:.1}x, writes {write:.1}x faster"),
        "A window's 512 B are 64 uncached accesses or 8 lines; no number of the lost figure is used.",
        vec![check("read of a window, intended over uncached", read), check("write of a window, intended over uncached", write)],
    ))
}

/// Equations (4) and (5) on a read of the whole test file by 16 KB calls.
fn estimates(parameters: &Parameters, uncached: &Windows, intended: &Windows) -> Table {
    let mut table = Table::new(
        "Estimated disk time under DriverDefault, whole test file",
        &[
            ("call", "KB"),
            ("transfer, uncached", "ms"),
            ("transfer, DriverDefault", "ms"),
            ("file, by eq 4", "ms"),
            ("file, by eq 5", "ms"),
        ],
    );
    let size = parameters.bytes("file.size");
    for call in [1_u64, 4, 16, 64] {
        let calls = size as f64 / (call * 1024) as f64;
        let os = calls * parameters.get_in("os.read", "ms");
        let (slow, fast) = (calls * uncached.load(call * 1024) / 1e6, calls * intended.load(call * 1024) / 1e6);
        let (by_os, by_uncached) = (driver_default_from_os(os, fast), driver_default_from_uncached(os + slow, slow, fast));
        table.row(vec![call.into(), slow.into(), fast.into(), by_os.into(), by_uncached.into()]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::papers::dimmnet2_drivers::parameters;

    #[test]
    fn a_load_is_the_sum_of_its_windows() {
        let parameters = parameters();
        let windows = Windows::new(&parameters, Attribute::DriverDefault);
        assert_eq!(windows.load(1024 + 8), 2.0 * windows.load(512) + windows.load(8));
        assert_eq!(windows.load(0), 0.0);
    }

    #[test]
    fn gathering_pays_a_row_for_each_element() {
        let parameters = parameters();
        let windows = Windows::new(&parameters, Attribute::DriverDefault);
        let extra = windows.load_strided(64) - windows.load(512);
        assert!((extra - (64.0 * 70.0 - 70.0 - 160.0)).abs() < 1e-9, "{extra}");
    }
}
