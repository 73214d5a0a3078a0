//! Time of the event models: whole picoseconds.
//!
//! One type, so that no model adds nanoseconds to cycles. Every rounding is stated at its constructor.
use std::fmt;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Mul, Sub};

/// A point in time or a span of time.
///
/// **Units**: picoseconds; the largest value is 213 days, and arithmetic beyond it panics in debug builds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Picos(pub u64);

const PICOS_PER_SECOND: u128 = 1_000_000_000_000;

impl Picos {
    /// No time, and the start of every run.
    pub const ZERO: Picos = Picos(0);

    /// Whole nanoseconds.
    pub const fn ns(count: u64) -> Picos {
        Picos(count * 1_000)
    }

    /// Whole microseconds.
    pub const fn us(count: u64) -> Picos {
        Picos(count * 1_000_000)
    }

    /// Whole milliseconds.
    pub const fn ms(count: u64) -> Picos {
        Picos(count * 1_000_000_000)
    }

    /// The time of `count` cycles of a clock of `hertz`, rounded to the nearest picosecond.
    ///
    /// Convert the whole count at once: 30 cycles of 30.303 ns are not 30 rounded cycles.
    pub fn from_cycles(count: u64, hertz: u64) -> Picos {
        let hertz = u128::from(hertz);
        Picos(((u128::from(count) * PICOS_PER_SECOND + hertz / 2) / hertz) as u64)
    }

    /// The time `bytes` occupy a line of `bytes_per_second`, rounded up: a line is busy until its last bit left.
    pub fn from_bytes(bytes: u64, bytes_per_second: u64) -> Picos {
        Picos((u128::from(bytes) * PICOS_PER_SECOND).div_ceil(u128::from(bytes_per_second)) as u64)
    }

    /// A measured or computed nanosecond value, rounded to the nearest picosecond; negative values become zero.
    pub fn from_ns_f64(ns: f64) -> Picos {
        Picos((ns * 1e3).round() as u64)
    }

    /// Nanoseconds, for tables and ratios.
    pub fn as_ns(self) -> f64 {
        self.0 as f64 / 1e3
    }

    /// Microseconds, for tables and ratios.
    pub fn as_us(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// Milliseconds, for tables and ratios.
    pub fn as_ms(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Seconds, for tables and ratios.
    pub fn as_s(self) -> f64 {
        self.0 as f64 / 1e12
    }

    /// The span since `earlier`, or zero where `earlier` is later.
    pub fn since(self, earlier: Picos) -> Picos {
        Picos(self.0.saturating_sub(earlier.0))
    }
}

impl Add for Picos {
    type Output = Picos;
    fn add(self, other: Picos) -> Picos {
        Picos(self.0 + other.0)
    }
}

impl AddAssign for Picos {
    fn add_assign(&mut self, other: Picos) {
        self.0 += other.0;
    }
}

impl Sub for Picos {
    type Output = Picos;
    fn sub(self, other: Picos) -> Picos {
        Picos(self.0 - other.0)
    }
}

impl Mul<u64> for Picos {
    type Output = Picos;
    fn mul(self, count: u64) -> Picos {
        Picos(self.0 * count)
    }
}

impl Sum for Picos {
    fn sum<I: Iterator<Item = Picos>>(spans: I) -> Picos {
        spans.fold(Picos::ZERO, Add::add)
    }
}

impl fmt::Display for Picos {
    /// The value in the largest unit that keeps it at or above one, with at most three decimals.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (value, unit) = match self.0 {
            0..1_000 => return write!(f, "{} ps", self.0),
            1_000..1_000_000 => (self.as_ns(), "ns"),
            1_000_000..1_000_000_000 => (self.as_us(), "us"),
            1_000_000_000..1_000_000_000_000 => (self.as_ms(), "ms"),
            _ => (self.as_s(), "s"),
        };
        let text = format!("{value:.3}");
        write!(f, "{} {unit}", text.trim_end_matches('0').trim_end_matches('.'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycles_are_converted_as_a_whole() {
        assert_eq!(Picos::from_cycles(33, 33_000_000), Picos::us(1));
        assert_eq!(Picos::from_cycles(1, 33_000_000), Picos(30_303));
        assert_eq!(Picos::from_cycles(1, 3_000_000), Picos(333_333));
        assert_eq!(Picos::from_cycles(2, 3_000_000), Picos(666_667));
    }

    #[test]
    fn a_line_is_busy_until_its_last_bit() {
        assert_eq!(Picos::from_bytes(32, 48_000_000), Picos(666_667));
        assert_eq!(Picos::from_bytes(0, 48_000_000), Picos::ZERO);
    }

    #[test]
    fn display_picks_the_unit() {
        let shown = [Picos(999), Picos::ns(2), Picos(4_516_000), Picos::ms(1), Picos::ms(2_500)].map(|p| p.to_string());
        assert_eq!(shown, ["999 ps", "2 ns", "4.516 us", "1 ms", "2.5 s"]);
    }
}
