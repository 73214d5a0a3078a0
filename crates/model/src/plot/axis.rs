//! From values to places: linear and logarithmic scales with round ticks.
use crate::outcome::Axis;

/// A scale between two places of the drawing.
pub(super) struct Scale {
    low: f64,
    high: f64,
    is_log: bool,
    from: f64,
    to: f64,
    /// Whether ticks are powers of two: all values are.
    is_binary: bool,
}

impl Scale {
    /// A scale that holds `values`, from place `from` (its low end) to place `to`; bars need zero in it.
    pub(super) fn new(axis: &Axis, values: &[f64], from: f64, to: f64, needs_zero: bool) -> Scale {
        let shown: Vec<f64> =
            values.iter().copied().filter(|value| value.is_finite() && (!axis.is_log || *value > 0.0)).collect();
        let low = shown.iter().copied().fold(f64::INFINITY, f64::min);
        let high = shown.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let is_binary = axis.is_log && shown.iter().all(|value| value.log2().fract() == 0.0);
        let (low, high) = match (shown.is_empty(), axis.is_log) {
            (true, _) => (1.0, 10.0),
            (false, true) if is_binary && low < high => (low, high),
            (false, true) => log_ends(low, high),
            (false, false) => linear_ends(low, high, needs_zero),
        };
        Scale { low, high, is_log: axis.is_log, from, to, is_binary }
    }

    /// The place of a value; values outside the scale land at its ends.
    pub(super) fn place(&self, value: f64) -> f64 {
        let share = if self.is_log {
            (value.max(self.low) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        self.from + share.clamp(0.0, 1.0) * (self.to - self.from)
    }

    /// Whether the scale can show a value.
    pub(super) fn shows(&self, value: f64) -> bool {
        value.is_finite() && (!self.is_log || value > 0.0)
    }

    /// Where bars start: zero, or the low end of a logarithmic scale.
    pub(super) fn base(&self) -> f64 {
        if self.is_log { self.from } else { self.place(0.0) }
    }

    /// Round values with their names.
    pub(super) fn ticks(&self) -> Vec<(f64, String)> {
        let values = match (self.is_log, self.is_binary) {
            (true, true) => self.binary_ticks(),
            (true, false) => self.decade_ticks(),
            (false, _) => {
                let step = step(self.low, self.high, TICKS_MOST);
                let (first, last) = ((self.low / step).round() as i64, (self.high / step).floor() as i64);
                (first..=last).map(|index| index as f64 * step).collect()
            }
        };
        let name = if self.is_log && self.is_binary { short_binary } else { short };
        values.into_iter().map(|value| (value, name(value))).collect()
    }

    fn binary_ticks(&self) -> Vec<f64> {
        let (first, last) = (self.low.log2().round() as i32, self.high.log2().round() as i32);
        let stride = ((last - first) / 8 + 1) as usize;
        (first..=last).step_by(stride).map(|power| 2_f64.powi(power)).collect()
    }

    fn decade_ticks(&self) -> Vec<f64> {
        let decades = (self.high / self.low).log10();
        let marks: &[f64] = match decades {
            d if d <= 1.5 => &[1.0, 2.0, 3.0, 5.0, 7.0],
            d if d <= 2.5 => &[1.0, 2.0, 5.0],
            d if d <= 3.5 => &[1.0, 3.0],
            _ => &[1.0],
        };
        let (first, last) = (self.low.log10().floor() as i32, self.high.log10().ceil() as i32);
        let all = (first..=last).flat_map(|power| marks.iter().map(move |mark| mark * 10_f64.powi(power)));
        all.filter(|value| self.low * 0.999 <= *value && *value <= self.high * 1.001).collect()
    }
}

/// More ticks than this crowd the drawing.
const TICKS_MOST: f64 = 6.0;

/// The ends of a logarithmic scale: the next 1, 2 or 5 outside.
fn log_ends(low: f64, high: f64) -> (f64, f64) {
    let down = |value: f64| {
        let power = 10_f64.powf(value.log10().floor());
        [5.0, 2.0, 1.0].into_iter().map(|mark| mark * power).find(|mark| *mark <= value * 1.000_001).unwrap_or(power)
    };
    let up = |value: f64| {
        let power = 10_f64.powf(value.log10().floor());
        [1.0, 2.0, 5.0, 10.0].into_iter().map(|mark| mark * power).find(|mark| *mark >= value * 0.999_999).unwrap_or(10.0 * power)
    };
    let (low, high) = (down(low), up(high));
    if low < high { (low, high) } else { (low / 2.0, high * 2.0) }
}

/// The ends of a linear scale: round, and with zero where bars need it or where it is near.
fn linear_ends(low: f64, high: f64, needs_zero: bool) -> (f64, f64) {
    let low = if needs_zero || (low > 0.0 && low < 0.6 * high) { low.min(0.0) } else { low };
    let high = if needs_zero { high.max(0.0) } else { high };
    if low == high {
        let margin = if low == 0.0 { 1.0 } else { low.abs() * 0.5 };
        return (low - margin, high + margin);
    }
    let step = step(low, high, TICKS_MOST);
    ((low / step).floor() * step, (high / step - 1e-9).ceil() * step)
}

/// The least of 1, 2, 2.5, 5 times a power of ten that needs at most `most` steps.
fn step(low: f64, high: f64, most: f64) -> f64 {
    let rough = (high - low) / most;
    let power = 10_f64.powf(rough.log10().floor());
    [1.0, 2.0, 2.5, 5.0, 10.0]
        .into_iter()
        .map(|mark| mark * power)
        .find(|mark| *mark >= rough * 0.999_999)
        .unwrap_or(10.0 * power)
}

/// A tick's name: thousands and millions as k and M.
fn short(value: f64) -> String {
    let (scaled, suffix) = match value.abs() {
        size if size >= 1e9 => (value / 1e9, "G"),
        size if size >= 1e6 => (value / 1e6, "M"),
        size if size >= 1e4 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    format!("{}{suffix}", crate::text::number((scaled * 1e9).round() / 1e9))
}

/// A power of two's name: from 8192 on in Ki and Mi, which stay whole.
fn short_binary(value: f64) -> String {
    match value {
        size if size >= 1_048_576.0 => format!("{} Mi", size / 1_048_576.0),
        size if size >= 8.0 * 1_024.0 => format!("{} Ki", size / 1_024.0),
        _ => short(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(axis: &Axis, values: &[f64]) -> Vec<String> {
        Scale::new(axis, values, 0.0, 100.0, false).ticks().into_iter().map(|tick| tick.1).collect()
    }

    #[test]
    fn ticks_are_round() {
        assert_eq!(names(&Axis::new("", ""), &[0.0, 1269.0]), ["0", "250", "500", "750", "1000", "1250", "1500"]);
        assert_eq!(names(&Axis::log("", ""), &[1.0, 2.0, 4.0, 16.0]), ["1", "2", "4", "8", "16"]);
        assert_eq!(names(&Axis::log("", ""), &[0.15, 9000.0]), ["0.1", "1", "10", "100", "1000", "10k"]);
    }

    #[test]
    fn ends_hold_every_value() {
        for values in [[3.0, 7.0], [0.001, 0.002], [5.0, 5.0], [-4.0, 9.0], [1e6, 3e9]] {
            let scale = Scale::new(&Axis::new("", ""), &values, 0.0, 100.0, false);
            assert!(values.iter().all(|value| scale.low <= *value && *value <= scale.high), "{values:?}");
            assert!((0.0..=100.0).contains(&scale.place(values[0])));
        }
    }
}
